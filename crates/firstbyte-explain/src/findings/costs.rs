//! Cost of each fault to the explained connections: by replay if possible, otherwise from the split.

use std::time::Duration;

use super::{exchange, held, part};
use crate::fit::{self, is_full_tls12};
use crate::replay::{Fault, Replay, SMALL_BODY, Times};
use crate::{Evidence, TimeSaved, Way};
use firstbyte_core::split::AttributedConnection;
use firstbyte_core::stats::median;
use firstbyte_core::timeline::PhaseName;

/// Maximum number of connections to replay; more would not change the medians.
const PLAYED: usize = 12;

/// A replay and a split agree if they differ by no more than this.
const CLOSE: Duration = Duration::from_millis(2);

/// A connection whose time without its faults can be computed.
enum Subject {
    /// A replay, with its times when no fault is removed.
    Played(Box<Replay>, Times),
    /// Time saved per fault according to the split: for QUIC and for connections with missing marks.
    Split(Vec<(Fault, TimeSaved)>),
}

impl Subject {
    /// Time that a connection saves without some faults, nanoseconds: of the total and of the first byte. Negative
    /// if it takes longer without them.
    fn saves(&self, without: &[Fault]) -> Option<(f64, Option<f64>)> {
        match self {
            Self::Played(replay, as_it_is) => {
                let times = replay.times(without)?;
                let saves = |before: u64, after: u64| before as f64 - after as f64;
                let first_byte = saves(as_it_is.first_byte, times.first_byte);
                Some((saves(as_it_is.total, times.total), Some(first_byte)))
            }
            Self::Split(all) => {
                let removed = all.iter().filter(|(fault, _)| without.contains(fault));
                let ns = |time: Duration| time.as_nanos() as f64;
                let none = (0.0, Some(0.0));
                Some(removed.fold(none, |(total, first_byte), (_, saved)| {
                    let of_first = first_byte.zip(saved.first_byte);
                    (total + ns(saved.total), of_first.map(|(sum, time)| sum + ns(time)))
                }))
            }
        }
    }
}

/// Time saved without faults, over the explained connections.
pub(super) struct Costs {
    subjects: Vec<Subject>,
    /// Bits per second of the link, if it is slow enough to be observed.
    pub rate: Option<u64>,
    /// The smallest and the largest initial window that fits, in packets, if the window fills.
    pub windows: Option<(u32, u32)>,
}

impl Costs {
    pub(super) fn estimate(evidence: &Evidence, way: &Way) -> Self {
        let fit = &evidence.fit;
        let step = way.proven.len().div_ceil(PLAYED).max(1);
        let connections: Vec<&AttributedConnection> = way.connections().step_by(step).collect();
        let replays = fit::replays(&connections, fit);
        let played = |(replay, c): (Option<Replay>, &&AttributedConnection)| {
            let replay = replay?;
            let as_it_is = replay.times(&[])?;
            // The replay may pause only if the split has a pause.
            let without = replay.times(&[Fault::Pause])?;
            let paused = as_it_is.total.saturating_sub(without.total);
            let allowed = exchange::paused(c) + CLOSE.max(c.split.total() / 20);
            (u128::from(paused) <= allowed.as_nanos())
                .then(|| Subject::Played(Box::new(replay), as_it_is))
        };
        // Skip connections that do not fit the model shared by the others.
        let mut subjects: Vec<Subject> =
            replays.into_iter().zip(&connections).filter_map(played).collect();
        if subjects.is_empty() {
            subjects = connections.iter().map(|c| Subject::Split(by_split(c))).collect();
        }
        Self { subjects, rate: fit.link_rate, windows: fit.initial_windows() }
    }

    /// Median time that a connection saves without some faults.
    pub(super) fn saved(&self, without: &[Fault]) -> TimeSaved {
        let (mut totals, mut first_bytes) = (Vec::new(), Vec::new());
        for (total, first_byte) in self.subjects.iter().filter_map(|s| s.saves(without)) {
            totals.push(total);
            first_bytes.extend(first_byte);
        }
        let typical =
            |all: &[f64]| median(all).map(|ns| Duration::from_nanos(ns.max(0.0).round() as u64));
        TimeSaved { total: typical(&totals).unwrap_or_default(), first_byte: typical(&first_bytes) }
    }
}

fn by_split(connection: &AttributedConnection) -> Vec<(Fault, TimeSaved)> {
    let split = &connection.split;
    let link = if split.link_rate.is_some() { split.parts.transfer } else { Duration::ZERO };
    let body = connection.connection.facts.http.as_ref().and_then(|http| http.body_bytes);
    let is_small = body.is_none_or(|bytes| bytes <= SMALL_BODY);
    let within = |total: Duration| TimeSaved { total, first_byte: None };
    let tls = connection.connection.facts.tls.as_ref();
    let tls12 = tls.filter(|tls| is_full_tls12(tls)).and(split.rtt).unwrap_or_default();
    vec![
        (Fault::Tls12, TimeSaved::before_first_byte(tls12)),
        (Fault::Think, TimeSaved::before_first_byte(exchange::think(connection))),
        (
            Fault::Handshake,
            TimeSaved::before_first_byte(part(connection, PhaseName::Tls, |parts| parts.server)),
        ),
        (Fault::Pause, within(exchange::paused(connection))),
        (Fault::Nagle, within(held::cost(connection, held::is_nagle))),
        (Fault::Chain, TimeSaved::before_first_byte(held::stalled(connection, PhaseName::Tls))),
        (
            Fault::Body,
            TimeSaved {
                total: if is_small { Duration::ZERO } else { held::response_stalled(connection) },
                first_byte: Some(Duration::ZERO),
            },
        ),
        (Fault::Link, within(link)),
    ]
}
