//! What costs time and could be otherwise. One file for each part of a connection's life; each finding
//! has its rule beside it, and the rules are listed in `docs/explain.md`.
//!
//! A finding without evidence is not made. Its cost is what connections paid, not what a change would
//! save: that is predicted, or measured, by the caller.

mod connect;
mod costs;
mod dns;
mod exchange;
mod handshake;
mod held;
mod quic;
mod session;

use std::time::Duration;

use super::replay::Fault;
use super::{Evidence, Finding, FindingKind, Findings, TimeSaved, Way};
use costs::Costs;
use firstbyte_core::split::AttributedConnection;
use firstbyte_core::timeline::PhaseName;

/// Nothing below it is a finding.
const LEAST: Duration = Duration::from_millis(1);

/// All findings, the most costly first.
pub fn findings(evidence: &Evidence) -> Findings {
    let Some(subject) = evidence.subject().filter(|way| !way.proven.is_empty()) else {
        return Findings::default();
    };
    let (rtt, costs) = (subject.median(|c| c.split.rtt), Costs::estimate(evidence, subject));
    let seen = Seen { evidence, subject, rtt, costs };
    let mut found = Vec::new();
    dns::find(&seen, &mut found);
    connect::find(&seen, &mut found);
    handshake::find(&seen, &mut found);
    session::find(&seen, &mut found);
    exchange::find(&seen, &mut found);
    quic::find(&seen, &mut found);
    found.sort_by_key(|finding| (std::cmp::Reverse(finding.cost), finding.kind));
    let together = together(&seen.costs, &found);
    Findings { all: found, together }
}

/// What a visit saves without any of the findings that concern every visit: those that are played, played without all of
/// them; the others are times that would vanish as a whole.
fn together(costs: &Costs, found: &[Finding]) -> Option<TimeSaved> {
    let (mut faults, mut sum, mut count) =
        (Vec::new(), TimeSaved::before_first_byte(Duration::ZERO), 0);
    for finding in found.iter().filter(|finding| finding.concerns.is_none()) {
        let fault = Fault::ALL.into_iter().find(|fault| fault.findings().contains(&finding.kind));
        // Another address is another path: nothing else would cost the same there.
        let saved = finding.saving.predicted.filter(|_| finding.kind != FindingKind::FarAddress);
        match (fault, saved) {
            (Some(fault), _) => faults.push(fault),
            (None, Some(saved)) => sum = add(sum, saved),
            (None, None) => continue,
        }
        count += 1;
    }
    (count > 1).then(|| add(sum, costs.saved(&faults)))
}

fn add(one: TimeSaved, other: TimeSaved) -> TimeSaved {
    let first_byte = one.first_byte.zip(other.first_byte).map(|(one, other)| one + other);
    TimeSaved { total: one.total + other.total, first_byte }
}

/// What the rules look at.
struct Seen<'a> {
    evidence: &'a Evidence,
    subject: &'a Way,
    /// The subject's median round-trip time.
    rtt: Option<Duration>,
    /// What removing each fault would save.
    costs: Costs,
}

impl Seen<'_> {
    /// The subject's connections.
    fn connections(&self) -> impl Iterator<Item = &AttributedConnection> {
        self.subject.connections()
    }

    fn count(&self) -> usize {
        self.subject.proven.len()
    }

    /// Advice on time of the server, which includes the way behind a proxy.
    fn advise_server(&self, advice: &str) -> String {
        match self.most(|c| c.connection.facts.proxy.is_some()) {
            true => format!(
                "The way from the proxy to the server is part of it: measure there, or without the proxy, to tell \
                 them apart. {advice}"
            ),
            false => advice.to_owned(),
        }
    }

    /// How many of the subject's connections are so.
    fn how_many(&self, are: impl Fn(&AttributedConnection) -> bool) -> usize {
        self.connections().filter(|c| are(c)).count()
    }

    /// Whether most of the subject's connections are so.
    fn most(&self, are: impl Fn(&AttributedConnection) -> bool) -> bool {
        self.how_many(are) * 2 > self.count()
    }

    /// What a finding has to cost at least: a millisecond, three hundredths of the total, and more than the steps of
    /// the clocks can make.
    fn least(&self) -> Duration {
        let steps = self.connections().filter_map(|c| c.connection.marks.resolution()).max();
        LEAST.max(self.median(|c| c.split.total()) * 3 / 100).max(steps.unwrap_or_default() * 2)
    }

    /// What removing a fault alone saves, where that is as much as a finding has to cost.
    fn saved(&self, fault: Fault) -> Option<TimeSaved> {
        Some(self.costs.saved(&[fault])).filter(|saved| saved.total >= self.least())
    }

    /// How far the server's time for one answer may be off, in the median: round trips differ by so much.
    fn uncertain(&self) -> Duration {
        self.subject
            .median(|c| {
                let split = &c.split;
                split.rtt_spread.map(|spread| spread + split.resolution * 2)
            })
            .unwrap_or_default()
    }

    /// What the server took in a phase, and the way took above the shortest, less what the SYN took above it: on
    /// a path that varies, each connection's shortest round trip is no measure of the others.
    fn above_syn(&self, phase: PhaseName) -> Duration {
        self.median(|c| {
            let split = &c.split;
            let Some(found) = split.phase(phase) else { return Duration::ZERO };
            let syn = c.connection.facts.tcp.as_ref().and_then(|tcp| tcp.syn_rtt).or(split.rtt);
            let late = syn.unwrap_or_default().saturating_sub(split.rtt.unwrap_or_default());
            (found.parts.server + found.parts.variation).saturating_sub(late)
        })
    }

    /// What three of four connections took at least: a host that is slow now and then is not slow.
    fn usual(&self, of: impl Fn(&AttributedConnection) -> Duration) -> Duration {
        let mut times: Vec<Duration> = self.connections().map(of).collect();
        times.sort_unstable();
        times.get(times.len().saturating_sub(1) / 4).copied().unwrap_or_default()
    }

    /// The subject's median of a time.
    fn median(&self, of: impl Fn(&AttributedConnection) -> Duration) -> Duration {
        self.subject.median(|c| Some(of(c))).unwrap_or_default()
    }
}

/// A part of the time of a connection's phase; none where the phase did not happen.
fn part(
    connection: &AttributedConnection,
    phase: PhaseName,
    of: impl Fn(&firstbyte_core::split::Parts) -> Duration,
) -> Duration {
    connection.split.phase(phase).map_or(Duration::ZERO, |split| of(&split.parts))
}

/// A time in a sentence: "82.1 ms".
fn ms(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1e3;
    if ms < 100.0 { format!("{ms:.1} ms") } else { format!("{ms:.0} ms") }
}

/// A number of bytes in a sentence: "14,480 bytes".
fn bytes(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out + " bytes"
}

/// "1 round trip", "2 round trips".
fn round_trips(n: u32) -> String {
    format!("{n} round trip{}", if n == 1 { "" } else { "s" })
}
