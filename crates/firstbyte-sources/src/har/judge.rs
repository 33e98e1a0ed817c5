//! What an entry says, by the rules of who wrote it.

use std::time::Duration;

use super::entry::{HarEntry, HarFlaw, HarTimings};
use super::rules::{ConnectionField, HarRules, TimeField, TlsPlace, ZeroMeans};
use firstbyte_core::timeline::DeliveredFrom;

/// Longer than any request: 30 days.
const LONGEST_MS: f64 = 30.0 * 86_400_000.0;
/// What sums of floating-point milliseconds are off by at most, and what is no negative time but a subtraction's rest.
const ROUNDING_MS: f64 = 0.01;
/// What is off by that share is another sum.
const SUM_SHARE: f64 = 0.001;

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HarOutcome {
    /// It opened its connection, and waited for it.
    Opened,
    /// It used one that was there, as far as it tells.
    Reused,
    /// It went to a server; which of these is not said.
    Unsaid,
    /// It came out of a cache of the browser's, or what stood in for the server.
    Cached,
    /// A service worker answered.
    Worker,
    /// There was no response.
    Failed,
    /// It has no times: hidden from the program that wrote it, or not kept.
    Untimed,
    /// Its URL leads to no server: "data:", "blob:".
    Local,
    /// Its times cannot be so.
    Flawed,
}

impl HarOutcome {
    /// All, in the order in which they are told.
    pub const ALL: [Self; 9] = [
        Self::Opened,
        Self::Reused,
        Self::Unsaid,
        Self::Cached,
        Self::Worker,
        Self::Failed,
        Self::Untimed,
        Self::Local,
        Self::Flawed,
    ];

    /// The name in stored forms.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Opened => "opened",
            Self::Reused => "reused",
            Self::Unsaid => "unsaid",
            Self::Cached => "cached",
            Self::Worker => "worker",
            Self::Failed => "failed",
            Self::Untimed => "untimed",
            Self::Local => "local",
            Self::Flawed => "flawed",
        }
    }

    /// Whether its times count: it went to a server, and came back.
    pub const fn is_timed(self) -> bool {
        matches!(self, Self::Opened | Self::Reused | Self::Unsaid)
    }
}

/// How long the phases of a request took. What was not done, or is not said, is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HarPhases {
    /// Before anything was done for it: waiting for its turn, a connection, a proxy.
    pub blocked: Option<Duration>,
    /// Name lookup.
    pub dns: Option<Duration>,
    /// Opening the connection: TCP alone. Over QUIC there is none.
    pub connect: Option<Duration>,
    /// TLS handshake. Over QUIC there is none.
    pub tls: Option<Duration>,
    /// QUIC's handshake, which is both.
    pub quic: Option<Duration>,
    /// Sending the request.
    pub send: Option<Duration>,
    /// From then to the response.
    pub wait: Option<Duration>,
    /// To its last byte.
    pub receive: Option<Duration>,
}

/// An entry, judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HarExchange {
    /// What became of it.
    pub outcome: HarOutcome,
    /// Its phases; none where its times do not count.
    pub phases: HarPhases,
}

/// A time that is written as milliseconds: -1 is none.
pub(super) fn milliseconds(time: f64) -> Result<Option<Duration>, String> {
    if !time.is_finite() || time > LONGEST_MS {
        return Err(shown(time));
    }
    // -1 is HAR's "does not apply".
    if (time + 1.0).abs() < 1e-9 {
        return Ok(None);
    }
    if time < -ROUNDING_MS {
        return Err(shown(time));
    }
    Ok(Some(Duration::from_nanos((time.max(0.0) * 1e6).round() as u64)))
}

/// A number as it is told: what nobody can read as a time stays short.
fn shown(time: f64) -> String {
    match time.abs() < 1e15 {
        true => format!("{} ms", (time * 1_000.0).round() / 1_000.0),
        false => format!("{time:e} ms"),
    }
}

impl HarEntry {
    /// What it says, and what of it cannot be so.
    pub fn judge(&self, rules: &HarRules) -> (HarExchange, Vec<HarFlaw>) {
        let without = |outcome| HarExchange { outcome, phases: HarPhases::default() };
        if self.authority.is_none() {
            return (without(HarOutcome::Local), Vec::new());
        }
        if self.is_flawed {
            return (without(HarOutcome::Flawed), Vec::new());
        }
        let timings = match self.usable(rules) {
            Ok(timings) => timings,
            Err(flaws) => return (without(HarOutcome::Flawed), flaws),
        };
        let outcome = self.outcome(rules, &timings);
        let phases = match outcome.is_timed() {
            true => self.phases(rules, &timings),
            false => HarPhases::default(),
        };
        (HarExchange { outcome, phases }, Vec::new())
    }

    /// Its times, where they can all be so.
    fn usable(&self, rules: &HarRules) -> Result<Usable, Vec<HarFlaw>> {
        let mut flaws = Vec::new();
        let flaw = |field, says| HarFlaw { entry: Some(self.number), field, says };
        let mut time = |field, time: Option<f64>| match time.map_or(Ok(None), milliseconds) {
            Ok(time) => time,
            Err(says) => {
                flaws.push(flaw(field, says));
                None
            }
        };
        let HarTimings { blocked, dns, connect, ssl, send, wait, receive } = self.timings;
        let usable = Usable {
            blocked: time("timings.blocked", blocked),
            dns: time("timings.dns", dns),
            connect: time("timings.connect", connect),
            // Without TLS some write the whole of `connect` here.
            tls: time("timings.ssl", ssl.filter(|_| self.secure)),
            send: time("timings.send", send),
            wait: time("timings.wait", wait),
            receive: time("timings.receive", receive),
            whole: time("time", self.time),
        };
        if let Some(says) = usable.contradiction(rules).filter(|_| flaws.is_empty()) {
            flaws.push(flaw(says.0, says.1));
        }
        if flaws.is_empty() { Ok(usable) } else { Err(flaws) }
    }

    fn outcome(&self, rules: &HarRules, timings: &Usable) -> HarOutcome {
        match self.delivered_from {
            Some(DeliveredFrom::ServiceWorker) => return HarOutcome::Worker,
            Some(from) if from.is_local() => return HarOutcome::Cached,
            _ => {}
        }
        if self.failed || self.status.is_none_or(|status| status <= 0) {
            return HarOutcome::Failed;
        }
        if timings.all().iter().flatten().all(Duration::is_zero) {
            return match rules.zero {
                ZeroMeans::NotDone => HarOutcome::Cached,
                _ => HarOutcome::Untimed,
            };
        }
        match (timings.connect, rules.zero) {
            (Some(Duration::ZERO), ZeroMeans::NotDone) | (None, _) => HarOutcome::Reused,
            (Some(Duration::ZERO), ZeroMeans::Unclear) => HarOutcome::Unsaid,
            (Some(_), _) => HarOutcome::Opened,
        }
    }

    fn phases(&self, rules: &HarRules, timings: &Usable) -> HarPhases {
        // What may not have been done took no time that anybody knows.
        let done = |time: Option<Duration>| {
            time.filter(|time| !time.is_zero() || rules.zero == ZeroMeans::NoTime)
        };
        let (connect, tls) = (done(timings.connect), done(timings.tls));
        let mut phases = HarPhases {
            blocked: timings.blocked,
            dns: done(timings.dns),
            send: timings.send.filter(|_| rules.send),
            wait: timings.wait,
            receive: timings.receive,
            ..HarPhases::default()
        };
        if self.protocol.as_deref() == Some("h3") {
            phases.quic = connect.max(tls);
            return phases;
        }
        phases.tls = tls.filter(|_| connect.is_some());
        phases.connect = match rules.tls {
            TlsPlace::BesideConnect => connect,
            // Which part of it TCP was is known by what TLS was.
            TlsPlace::WithinConnect if self.secure => {
                connect.zip(tls).and_then(|(both, tls)| both.checked_sub(tls))
            }
            TlsPlace::WithinConnect => connect,
        };
        phases
    }

    /// What tells its connection from others, where something does.
    pub fn connection_name(&self, rules: &HarRules) -> Option<&str> {
        if let Some(name) = self.connection_id.as_deref() {
            return Some(name);
        }
        let name = self.connection.as_deref()?;
        let port = || self.authority.as_deref()?.rsplit_once(':').map(|(_, port)| port);
        match rules.connection {
            ConnectionField::Identity => Some(name),
            // Chrome wrote the identifier here, before it had a field for it.
            ConnectionField::Port if rules.tls == TlsPlace::WithinConnect => {
                Some(name).filter(|name| port() != Some(name))
            }
            ConnectionField::Port | ConnectionField::Unclear => None,
        }
    }
}

/// Times that are times.
struct Usable {
    blocked: Option<Duration>,
    dns: Option<Duration>,
    connect: Option<Duration>,
    tls: Option<Duration>,
    send: Option<Duration>,
    wait: Option<Duration>,
    receive: Option<Duration>,
    whole: Option<Duration>,
}

impl Usable {
    fn all(&self) -> [Option<Duration>; 7] {
        let Self { blocked, dns, connect, tls, send, wait, receive, whole: _ } = *self;
        [blocked, dns, connect, tls, send, wait, receive]
    }

    /// What contradicts what, if anything does.
    fn contradiction(&self, rules: &HarRules) -> Option<(&'static str, String)> {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let of_connect = self.connect.zip(self.tls);
        if let Some((connect, tls)) = of_connect.filter(|_| rules.tls == TlsPlace::WithinConnect)
            && rules.proven.is_some()
            && ms(tls) > ms(connect) + ROUNDING_MS
        {
            let says =
                format!("{}, longer than `connect` ({})", shown(ms(tls)), shown(ms(connect)));
            return Some(("timings.ssl", says));
        }
        let whole = ms(self.whole?);
        let with_tls: f64 = self.all().into_iter().flatten().map(ms).sum();
        let without_tls = with_tls - self.tls.map_or(0.0, ms);
        let most_off = ROUNDING_MS.max(whole * SUM_SHARE);
        let is = |sum: f64| (whole - sum).abs() <= most_off;
        let (agrees, sum) = match rules.time {
            TimeField::SumWithoutTls => (is(without_tls), without_tls),
            TimeField::SumWithTls => (is(with_tls) || is(without_tls), with_tls),
            TimeField::Unclear => (true, whole),
        };
        let says = || format!("{}, but its parts add up to {}", shown(whole), shown(sum));
        (!agrees).then(|| ("time", says()))
    }
}
