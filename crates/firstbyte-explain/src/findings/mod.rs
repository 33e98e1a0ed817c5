//! What costs time and could be avoided. One file per part of a connection's life. Each finding has its rule beside
//! it, and `docs/explain.md` lists the rules.
//!
//! Every finding has evidence. Its cost is the time that connections spent on it. The caller predicts or measures
//! the time that a change would save.

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

/// Smallest cost of a finding.
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

/// Time that a visit saves without any finding that concerns every visit. Faults that can be replayed are all
/// removed in one replay; the times of the others are subtracted as a whole.
fn together(costs: &Costs, found: &[Finding]) -> Option<TimeSaved> {
    let (mut faults, mut sum, mut count) =
        (Vec::new(), TimeSaved::before_first_byte(Duration::ZERO), 0);
    for finding in found.iter().filter(|finding| finding.concerns.is_none()) {
        let fault = Fault::ALL.into_iter().find(|fault| fault.findings().contains(&finding.kind));
        // Another address is another path, on which the other findings would cost something else.
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

/// Input of the rules.
struct Seen<'a> {
    evidence: &'a Evidence,
    subject: &'a Way,
    /// The subject's median round-trip time.
    rtt: Option<Duration>,
    /// Time saved by removing each fault.
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

    /// Advice about the server's time. Behind a proxy that time includes the path to the server.
    fn advise_server(&self, advice: &str) -> String {
        match self.most(|c| c.connection.facts.proxy.is_some()) {
            true => format!(
                "The way from the proxy to the server is part of it: measure there, or without the proxy, to tell \
                 them apart. {advice}"
            ),
            false => advice.to_owned(),
        }
    }

    /// How many of the subject's connections satisfy `are`.
    fn how_many(&self, are: impl Fn(&AttributedConnection) -> bool) -> usize {
        self.connections().filter(|c| are(c)).count()
    }

    /// Whether most of the subject's connections satisfy `are`.
    fn most(&self, are: impl Fn(&AttributedConnection) -> bool) -> bool {
        self.how_many(are) * 2 > self.count()
    }

    /// Smallest cost of a finding: a millisecond, 3 % of the total, and more than the clocks' resolution.
    fn least(&self) -> Duration {
        let steps = self.connections().filter_map(|c| c.connection.marks.resolution()).max();
        LEAST.max(self.median(|c| c.split.total()) * 3 / 100).max(steps.unwrap_or_default() * 2)
    }

    /// Time saved by removing this fault alone, if it reaches the smallest cost of a finding.
    fn saved(&self, fault: Fault) -> Option<TimeSaved> {
        Some(self.costs.saved(&[fault])).filter(|saved| saved.total >= self.least())
    }

    /// Median uncertainty of the server's time for one answer, due to varying round trips.
    fn uncertain(&self) -> Duration {
        self.subject
            .median(|c| {
                let split = &c.split;
                split.rtt_spread.map(|spread| spread + split.resolution * 2)
            })
            .unwrap_or_default()
    }

    /// The server's time in a phase plus the path's time above the shortest round trip, minus the SYN's excess.
    ///
    /// On a path whose delay varies, one connection's shortest round trip says nothing about the others.
    fn above_syn(&self, phase: PhaseName) -> Duration {
        self.median(|c| {
            let split = &c.split;
            let Some(found) = split.phase(phase) else { return Duration::ZERO };
            let syn = c.connection.facts.tcp.as_ref().and_then(|tcp| tcp.syn_rtt).or(split.rtt);
            let late = syn.unwrap_or_default().saturating_sub(split.rtt.unwrap_or_default());
            (found.parts.server + found.parts.variation).saturating_sub(late)
        })
    }

    /// The time that three of four connections took at least. An occasionally slow host does not count as slow.
    fn usual(&self, of: impl Fn(&AttributedConnection) -> Duration) -> Duration {
        let mut times: Vec<Duration> = self.connections().map(of).collect();
        times.sort_unstable();
        times.get(times.len().saturating_sub(1) / 4).copied().unwrap_or_default()
    }

    /// Median of a time over the subject's connections.
    fn median(&self, of: impl Fn(&AttributedConnection) -> Duration) -> Duration {
        self.subject.median(|c| Some(of(c))).unwrap_or_default()
    }
}

/// Time of one part of a connection's phase; zero if the phase did not happen.
fn part(
    connection: &AttributedConnection,
    phase: PhaseName,
    of: impl Fn(&firstbyte_core::split::Parts) -> Duration,
) -> Duration {
    connection.split.phase(phase).map_or(Duration::ZERO, |split| of(&split.parts))
}

/// A time as text: "82.1 ms".
fn ms(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1e3;
    if ms < 100.0 { format!("{ms:.1} ms") } else { format!("{ms:.0} ms") }
}

/// A number of bytes as text: "14,480 bytes".
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
