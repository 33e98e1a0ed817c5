//! What each fault costs the connections that are explained: played again where that can be done, else by the split.

use std::time::Duration;

use super::{exchange, held, part};
use crate::fit;
use crate::replay::{Cost, Fault, Replay};
use crate::{Evidence, Way, WayKind};
use firstbyte_core::server_model::ServerFit;
use firstbyte_core::split::Split;
use firstbyte_core::stats::median;
use firstbyte_core::timeline::{Connection, PhaseName};

/// Connections that are played, at most: their medians do not move with more.
const PLAYED: usize = 12;
/// Witnesses of each way.
const EACH: usize = 2;

/// The medians over connections.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Typical {
    /// The total would be so much less without it alone.
    pub alone: Duration,
    /// Its share of what all faults cost together.
    pub mean: Duration,
}

/// By fault.
#[derive(Clone, Debug, Default)]
pub(super) struct Costs {
    by_fault: Vec<(Fault, Typical)>,
    /// Bits per second of the link, where it is slow enough to be seen.
    pub rate: Option<u64>,
    /// The smallest and the largest initial window that fits, in packets, where it fills.
    pub windows: Option<(u32, u32)>,
}

impl Costs {
    pub(super) fn estimate(evidence: &Evidence, subject: &Way) -> Self {
        let think =
            evidence.way(WayKind::Reused).and_then(|way| way.median(|c| Some(exchange::think(c))));
        let step = subject.proven.len().div_ceil(PLAYED).max(1);
        let connections: Vec<&Connection> = subject.connections().step_by(step).collect();
        let fit =
            ServerFit::from_connections(subject.connections().chain(witnesses(evidence)), think);
        let replays = fit::replays(&connections, &fit, think);
        // One that does not fit the model that the others have in common says nothing.
        let played = replays.iter().any(Option::is_some);
        let (rate, windows) = (fit.link_rate, fit.initial_windows());
        let cost = |(c, replay): (&&Connection, Option<_>)| match replay {
            Some(replay) => Some(Replay::costs(&replay)),
            None if played => None,
            None => Some(by_split(c)),
        };
        let costs: Vec<Vec<(Fault, Cost)>> =
            connections.iter().zip(replays).filter_map(cost).collect();
        let typical = |fault: Fault| {
            let of_it = |of: fn(&Cost) -> f64| {
                let cost = |all: &Vec<(Fault, Cost)>| {
                    all.iter().find(|(other, _)| *other == fault).map_or(0.0, |(_, cost)| of(cost))
                };
                let each: Vec<f64> = costs.iter().map(cost).collect();
                Duration::from_nanos(median(&each).unwrap_or(0.0).max(0.0) as u64)
            };
            (fault, Typical { alone: of_it(|cost| cost.alone), mean: of_it(|cost| cost.mean) })
        };
        Self { by_fault: Fault::ALL.into_iter().map(typical).collect(), rate, windows }
    }

    pub(super) fn get(&self, fault: Fault) -> Typical {
        let found = self.by_fault.iter().find(|(other, _)| *other == fault);
        found.map(|(_, typical)| *typical).unwrap_or_default()
    }
}

/// Connections to the same server over the same path, in ways whose TCP begins alike.
fn witnesses(evidence: &Evidence) -> Vec<&Connection> {
    const WAYS: [WayKind; 4] = [WayKind::Plain, WayKind::Tls12, WayKind::Tls13, WayKind::Resumed];
    let ways = WAYS.into_iter().filter_map(|kind| evidence.way(kind));
    ways.flat_map(|way| way.connections().take(EACH)).collect()
}

/// Over QUIC, and where marks are missing: what the split says, each for itself.
fn by_split(connection: &Connection) -> Vec<(Fault, Cost)> {
    let split = Split::attribute(connection);
    let link = if split.link_rate.is_some() { split.parts.transfer } else { Duration::ZERO };
    let all = [
        (Fault::Think, exchange::think(connection)),
        (Fault::Handshake, part(connection, PhaseName::Tls, |parts| parts.server)),
        (Fault::Pause, exchange::paused(connection)),
        (Fault::Nagle, held::cost(connection, held::is_nagle)),
        (Fault::Chain, held::stalled(connection, PhaseName::Tls)),
        (Fault::Body, held::stalled(connection, PhaseName::Receive)),
        (Fault::Link, link),
    ];
    let cost = |(fault, time): (Fault, Duration)| {
        let ns = time.as_nanos() as f64;
        (fault, Cost { alone: ns, mean: ns })
    };
    all.into_iter().map(cost).collect()
}
