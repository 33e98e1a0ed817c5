//! Interprets an entry by the rules of the program that wrote it.

use std::time::Duration;

use super::entry::{HarEntry, HarFlaw, HarTimings};
use super::rules::{ConnectionField, HarRules, TimeField, TlsPlace, ZeroMeans};
use firstbyte_core::timeline::DeliveredFrom;

/// Longer than any request: 30 days.
const LONGEST_MS: f64 = 30.0 * 86_400_000.0;
/// Maximum rounding error of sums of floating-point milliseconds. A time less negative than this is a rounding error
/// too.
const ROUNDING_MS: f64 = 0.01;
/// A sum that is off by more than this share does not match.
const SUM_SHARE: f64 = 0.001;

/// Outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HarOutcome {
    /// It waited for a connection that was opened for it.
    Opened,
    /// It used an existing connection, as far as the entry shows.
    Reused,
    /// It went to a server, but the entry does not say over which kind of connection.
    Unsaid,
    /// It was answered from a browser cache, or by something in place of the server.
    Cached,
    /// A service worker answered.
    Worker,
    /// There was no response.
    Failed,
    /// It has no times: they were hidden from the program that wrote the entry, or not kept.
    Untimed,
    /// Its URL does not lead to a server: "data:", "blob:".
    Local,
    /// Its times are impossible.
    Flawed,
}

impl HarOutcome {
    /// All outcomes, in display order.
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

    /// Name used in stored forms.
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

    /// Whether its times count: the request went to a server and was answered.
    pub const fn is_timed(self) -> bool {
        matches!(self, Self::Opened | Self::Reused | Self::Unsaid)
    }
}

/// Durations of the phases of a request. Phases that did not happen or are unknown are absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HarPhases {
    /// Before any work on it: queueing, waiting for a connection or a proxy.
    pub blocked: Option<Duration>,
    /// Name lookup.
    pub dns: Option<Duration>,
    /// Opening the connection: TCP alone. Absent over QUIC.
    pub connect: Option<Duration>,
    /// TLS handshake. Absent over QUIC.
    pub tls: Option<Duration>,
    /// QUIC handshake, which does both.
    pub quic: Option<Duration>,
    /// Sending the request.
    pub send: Option<Duration>,
    /// From then to the first byte of the response.
    pub wait: Option<Duration>,
    /// From the first to the last byte of the response.
    pub receive: Option<Duration>,
}

/// An interpreted entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HarExchange {
    /// Outcome of the request.
    pub outcome: HarOutcome,
    /// Its phases; all absent if its times do not count.
    pub phases: HarPhases,
}

/// Converts a time in milliseconds; -1 means absent.
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

/// Formats a number for messages; values that nobody can read as a time stay short.
fn shown(time: f64) -> String {
    match time.abs() < 1e15 {
        true => format!("{} ms", (time * 1_000.0).round() / 1_000.0),
        false => format!("{time:e} ms"),
    }
}

impl HarEntry {
    /// Interprets the entry; also returns its impossible values.
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

    /// Its times, if all of them are possible.
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
            // Without TLS some programs repeat all of `connect` here.
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
        // If zero may mean "not done", the duration is unknown.
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
            // The TCP part is only known if the TLS part is.
            TlsPlace::WithinConnect if self.secure => {
                connect.zip(tls).and_then(|(both, tls)| both.checked_sub(tls))
            }
            TlsPlace::WithinConnect => connect,
        };
        phases
    }

    /// Name that distinguishes its connection from others, if there is one.
    pub fn connection_name(&self, rules: &HarRules) -> Option<&str> {
        if let Some(name) = self.connection_id.as_deref() {
            return Some(name);
        }
        let name = self.connection.as_deref()?;
        let port = || self.authority.as_deref()?.rsplit_once(':').map(|(_, port)| port);
        match rules.connection {
            ConnectionField::Identity => Some(name),
            // Chrome put the identifier here before it had its own field.
            ConnectionField::Port if rules.tls == TlsPlace::WithinConnect => {
                Some(name).filter(|name| port() != Some(name))
            }
            ConnectionField::Port | ConnectionField::Unclear => None,
        }
    }
}

/// Times that passed the checks.
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

    /// The field that contradicts others, and how, if there is one.
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
