//! Attributes the time of every phase to round trips, server, client and other parts.
//!
//! Input: a [`Connection`]. Output: parts that add up to the total exactly, in nanoseconds. `docs/measurement.md` has
//! the definitions; this module is their only implementation.

mod attributed;
mod bottleneck;
mod exchange;
mod observed;
mod path;
mod phase;
mod quic;
mod rules;
pub mod server_model;
mod stretch;
mod supposed;

use std::time::Duration;

pub use attributed::{AttributedConnection, ServerFits};
pub(crate) use bottleneck::Bottleneck;
pub(crate) use observed::ObservedConnection;
pub use phase::{Phase, phases, total};
pub use rules::Rules;
pub use server_model::{ServerFit, Why};
pub use stretch::{Held, Part, Place, Stretch};
pub(crate) use supposed::{judge_of, server_costs};

use crate::timeline::{Connection, Mark, Offset, PhaseName};
use exchange::Walk;
use path::Path;
use server_model::{Reading, judge};
use stretch::{Found, Laid};

/// The parts of a stretch of time. They add up to it exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// Waiting for the name service.
    pub resolver: Duration,
    /// Round trips counted times the connection's round-trip time.
    pub network: Duration,
    /// Time of the TCP handshake above one round trip: jitter and lost SYNs.
    pub variation: Duration,
    /// From the arrival of a flight at the server to the departure of its answer.
    pub server: Duration,
    /// From the arrival of the last byte needed to the departure of the client's next flight.
    pub client: Duration,
    /// Between the first and the last byte of a flight; on a slow link, the first segment too.
    pub transfer: Duration,
    /// The sender paused in the middle of a flight for longer than acknowledgements take.
    pub pause: Duration,
    /// Before the winning connection attempt began, because the client tried another first.
    pub fallback: Duration,
    /// Not attributable from the observations.
    pub unexplained: Duration,
}

impl Parts {
    /// The parts by name, in display order.
    pub const fn named(&self) -> [(&'static str, Duration); 9] {
        [
            ("resolver", self.resolver),
            ("network", self.network),
            ("variation", self.variation),
            ("server", self.server),
            ("client", self.client),
            ("transfer", self.transfer),
            ("pause", self.pause),
            ("fallback", self.fallback),
            ("unexplained", self.unexplained),
        ]
    }

    /// Sum of all parts.
    pub fn sum(&self) -> Duration {
        self.named().into_iter().map(|(_, d)| d).sum()
    }

    /// The time of one part.
    pub fn part_mut(&mut self, part: Part) -> &mut Duration {
        match part {
            Part::Resolver => &mut self.resolver,
            Part::Network => &mut self.network,
            Part::Variation => &mut self.variation,
            Part::Server => &mut self.server,
            Part::Client => &mut self.client,
            Part::Transfer => &mut self.transfer,
            Part::Pause => &mut self.pause,
            Part::Fallback => &mut self.fallback,
            Part::Unexplained => &mut self.unexplained,
        }
    }

    /// Largest difference in a single part.
    fn most_apart(&self, other: &Self) -> Duration {
        let pairs = self.named().into_iter().zip(other.named());
        pairs.map(|((_, one), (_, other))| one.abs_diff(other)).max().unwrap_or_default()
    }

    fn add(&mut self, other: &Self) {
        self.resolver += other.resolver;
        self.network += other.network;
        self.variation += other.variation;
        self.server += other.server;
        self.client += other.client;
        self.transfer += other.transfer;
        self.pause += other.pause;
        self.fallback += other.fallback;
        self.unexplained += other.unexplained;
    }
}

/// One phase and its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhaseSplit {
    /// The phase.
    pub phase: Phase,
    /// Round trips in the phase.
    pub round_trips: u32,
    /// Round trips in which the server's TCP held back the rest of an answer: a full window, or Nagle's algorithm.
    pub stalls: u32,
    /// Parts, which add up to the phase's duration.
    pub parts: Parts,
    /// Part of the server's share that may be the transfer of its answers' first segments: a slow link is neither
    /// proven nor excluded.
    pub doubt: Duration,
}

/// The attributed time of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// Round-trip time used: the smallest observed. Absent without an observation.
    pub rtt: Option<Duration>,
    /// Excess of the largest undisturbed round trip over `rtt`: the uncertainty of each round trip's network share,
    /// and so of each server share.
    pub rtt_spread: Option<Duration>,
    /// Resolution of another program's clock behind the marks: every stretch may be off by as much. Zero if none was
    /// reported.
    pub resolution: Duration,
    /// Phases that happened, in order; each begins at the end of the previous one.
    pub phases: Vec<PhaseSplit>,
    /// All parts together.
    pub parts: Parts,
    /// Round trips of all phases.
    pub round_trips: u32,
    /// Data that the server's TCP held back and that delayed the end, in order.
    pub held: Vec<Held>,
    /// Bits per second of the slowest link to the client, if the connection proves it.
    pub link_rate: Option<u64>,
    /// Whether the connection was already open, so that its handshake's round trips were not observed.
    pub reused: bool,
}

impl Split {
    /// Attributes the time of `connection`.
    pub fn attribute(connection: &Connection) -> Self {
        Self::in_order(connection).0
    }

    /// Attributes the time by deliberately wrong rules, for tests.
    pub fn attribute_by(rules: Rules, connection: &Connection) -> Self {
        Self::in_order_by(rules, connection, None).0
    }

    /// Attributes the time of `connection`, and lists its stretches in order, without gaps. The stretches of each part
    /// add up to that part.
    pub fn in_order(connection: &Connection) -> (Self, Course) {
        Self::in_order_by(Rules::Right, connection, None)
    }

    fn in_order_by(
        rules: Rules,
        connection: &Connection,
        fit: Option<&ServerFit>,
    ) -> (Self, Course) {
        let link_rate = fit.and_then(|fit| fit.link_rate);
        let observed = ObservedConnection::by_rules(rules, connection, link_rate);
        let by_fit = fit.and_then(|fit| supposed::readings_by_fit(&observed, fit));
        let readings = by_fit.unwrap_or_else(|| supposed::readings(rules, &observed));
        let ObservedConnection { bottleneck, walks, rtt, .. } = observed;
        let first_packet = connection.marks.first_packet_of_response();
        let behind = BEHIND + bottleneck.takes(segment_bytes(connection)).unwrap_or_default();
        let lay = |(path, reading): &(Path, Reading), otherwise| {
            Laid::lay_critical_paths(Found {
                walks: &walks,
                path,
                releases: &reading.releases,
                otherwise,
                rules,
                request: connection.marks.at(Mark::RequestEnd),
                first_packet,
                behind,
            })
        };
        let laid = lay(&readings[0], false);
        let others = readings[1..].iter().map(|reading| lay(reading, false));
        let otherwise = laid.was_decided.then(|| lay(&readings[0], true));
        let others: Vec<Laid> = others.chain(otherwise).collect();
        let path = &readings[0].0;
        let mut split_phases = Vec::with_capacity(walks.len());
        let mut parts = Parts::default();
        for walk in &walks {
            let phase = walk.phase.name;
            let (of_it, counted) = (laid.parts(phase), laid.counted(phase));
            parts.add(&of_it);
            let doubt = others.iter().map(|other| of_it.most_apart(&other.parts(phase))).max();
            split_phases.push(PhaseSplit {
                phase: walk.phase,
                round_trips: counted.round_trips,
                stalls: counted.stalls,
                parts: of_it,
                doubt: doubt.unwrap_or_default() + path.doubt(walk),
            });
        }
        let round_trips = split_phases.iter().map(|p| p.round_trips).sum();
        let rtt_spread = path.spread;
        let (held, link_rate) = (laid.held, bottleneck.rate());
        let split = Self {
            rtt,
            rtt_spread,
            resolution: connection.marks.resolution().unwrap_or_default(),
            phases: split_phases,
            parts,
            round_trips,
            held,
            link_rate,
            reused: connection.facts.reused,
        };
        (split, Course { stretches: laid.list, resumed: laid.resumed })
    }

    /// The split of one phase, if the phase happened.
    pub fn phase(&self, name: PhaseName) -> Option<&PhaseSplit> {
        self.phases.iter().find(|p| p.phase.name == name)
    }

    /// Sum of all phases.
    pub fn total(&self) -> Duration {
        self.parts.sum()
    }

    /// Uncertainty of the server's share in either direction: one spread per round trip, plus the time that may be
    /// transfer.
    pub fn server_uncertainty(&self) -> Option<Duration> {
        let doubt: Duration = self.phases.iter().map(|phase| phase.doubt).sum();
        self.round_trips_uncertainty(self.round_trips).map(|trips| trips + doubt)
    }

    /// Uncertainty of `round_trips` round trips; with coarse clocks, including that of their exchanges.
    fn round_trips_uncertainty(&self, round_trips: u32) -> Option<Duration> {
        let rtt = self.rtt?;
        let hosts = HOSTS.min(rtt);
        let spread = self.rtt_spread.or(self.reused.then_some(rtt / UNSEEN))?;
        Some((spread.max(hosts) + self.resolution * 2) * round_trips)
    }

    /// Uncertainty of a phase's parts.
    pub fn uncertainty_of(&self, phase: &PhaseSplit) -> Option<Duration> {
        self.round_trips_uncertainty(phase.round_trips).map(|trips| trips + phase.doubt)
    }

    /// Uncertainty of the server's share of the wait for the response alone, which is one round trip.
    pub fn response_uncertainty(&self) -> Option<Duration> {
        let doubt = self.phase(PhaseName::Wait).map(|phase| phase.doubt).unwrap_or_default();
        self.round_trips_uncertainty(1).map(|trip| trip + doubt)
    }
}

/// A connection's time in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Course {
    /// Consecutive stretches from the origin on, without gaps.
    pub stretches: Vec<Stretch>,
    /// When data resumed after its sender had paused in the middle of an answer.
    pub resumed: Vec<Offset>,
}

/// Time that hosts need between two packets sent back to back.
const BEHIND: Duration = Duration::from_micros(400);

/// Precision limit of a round trip: interrupts, wake-ups and the path between a socket and a device, at both ends.
const HOSTS: Duration = Duration::from_micros(40);

/// Divisor of the round-trip time that gives the assumed spread if a single round trip is known, as on a reused
/// connection.
const UNSEEN: u32 = 4;

/// Upper bound of the kernel's share of its round-trip times besides the path, on a machine that is not idle.
const KERNEL_PATH: Duration = Duration::from_micros(50);

/// Bounds of the round-trip time before the flights are examined.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// Upper bound: the SYN's round trip, or the stack's minimum.
    most: Duration,
    /// Lower bound: an arrival sooner after a departure cannot answer it.
    least: Duration,
}

impl Known {
    fn from_facts(connection: &Connection) -> Option<Self> {
        let tcp = connection.facts.tcp.as_ref();
        let quic = connection.facts.quic.as_ref().and_then(|q| q.min_rtt);
        let shown = quic::round_trips(connection).map(|(_, took)| took).min();
        let quic = quic.into_iter().chain(shown).min();
        let kernel = tcp.and_then(|t| t.syn_rtt.into_iter().chain(t.min_rtt).min()).or(quic);
        let most = kernel.or_else(|| exchange::connected_after(connection))?;
        let least = match tcp.and_then(|t| t.min_rtt) {
            // The kernel's minimum leaves little room below it (the kernel's own path to the device).
            Some(min) => (min * 9 / 10).min(min.saturating_sub(KERNEL_PATH)).max(min / 2),
            // A QUIC stack has few samples, and reads its own clock: each may have been slow.
            None if quic.is_some() => most * 3 / 4,
            // A single SYN round trip may have been slow too; half of it separates an answer from data that was
            // already on its way.
            None => most / 2,
        };
        Some(Self { most, least })
    }
}

/// The smallest observed round trip: a known one, or a whole exchange.
fn round_trip_time(known: Option<Known>, walks: &[Walk]) -> Option<Duration> {
    let Known { most, least } = known?;
    let waits = walks.iter().flat_map(|walk| &walk.exchanges).map(|exchange| exchange.waited);
    waits.filter(|waited| *waited >= least).chain([most]).min()
}

/// Payload of a full segment from the server, bytes.
pub fn segment_bytes(connection: &Connection) -> u64 {
    judge::segment_bytes(connection)
}

/// Text description of the best-fitting hypotheses about a connection's arrivals, for inspecting one connection.
pub fn hypotheses(connection: &Connection) -> String {
    supposed::in_words(&ObservedConnection::from_connection(connection, None))
}

#[cfg(test)]
mod cases;
#[cfg(test)]
mod datagrams;
#[cfg(test)]
mod evidence;
#[cfg(test)]
mod oracle;
#[cfg(test)]
mod paths;
#[cfg(test)]
mod simulated;
#[cfg(test)]
mod tests;
