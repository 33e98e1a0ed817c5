//! What a change costs: time a connection, and time in each second (`docs/wire.md`, "What changed").

use super::seen::{Seen, Side};
use super::{Change, What};
use crate::stats::{Interval, median};

/// What a change costs. Negative is a saving.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Seconds, for a connection on average.
    pub per_connection: f64,
    /// Its interval: that of the change, times what the change costs where it happens.
    pub interval: Option<Interval>,
    /// Seconds in each second, over all connections; absent within less than a second of traffic.
    pub per_second: Option<f64>,
}

/// Full and short handshakes, those of both sides together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FullAndShort {
    /// Median of full ones, seconds.
    pub full: f64,
    /// How many.
    pub full_count: usize,
    /// Median of short ones, seconds.
    pub short: f64,
    /// How many.
    pub short_count: usize,
}

impl FullAndShort {
    fn of(sides: [&Side; 2]) -> Option<Self> {
        let times = |resumed| -> Vec<f64> {
            let seen = sides.into_iter().flat_map(Side::iter);
            seen.filter_map(|seen| Some(seen.timed(resumed)?.0)).collect()
        };
        let (full, short) = (times(false), times(true));
        Some(Self {
            full: median(&full)?,
            full_count: full.len(),
            short: median(&short)?,
            short_count: short.len(),
        })
    }

    /// How many times as long a full handshake takes as a short one.
    pub fn ratio(&self) -> Option<f64> {
        (self.short > 0.0).then(|| self.full / self.short)
    }
}

/// Fewest handshakes whose median stands for a version, key or group.
const FEWEST: usize = 5;

/// Adds to a change what it costs.
pub(super) fn add(change: &mut Change, before: &Side, after: &Side) {
    if change.what == What::Resumption {
        change.handshakes = FullAndShort::of([before, after]);
    }
    let Some(each) = each(change, before, after) else { return };
    let scaled = |interval: Interval| {
        let ends = [interval.low * each, interval.high * each];
        Interval { low: ends[0].min(ends[1]), high: ends[0].max(ends[1]) }
    };
    let per_connection = change.difference.value * each;
    change.cost = Some(Cost {
        per_connection,
        interval: change.difference.interval.map(scaled),
        per_second: after.connections_per_second().map(|rate| per_connection * rate),
    });
}

/// What the difference has to be multiplied by, for seconds a connection.
fn each(change: &Change, before: &Side, after: &Side) -> Option<f64> {
    match change.what {
        What::Resumption => {
            // Of all connections, as many have a handshake; each that is full instead of short costs so much.
            let handshakes = mean(after, |seen| f64::from(u8::from(seen.resumed.is_some())))?;
            change.handshakes.map(|times| (times.short - times.full) * handshakes)
        }
        What::Version(version) => of_value(before, after, |seen| Some(seen.version? == version)),
        What::CertificateKey(key) => of_value(before, after, |seen| Some(seen.key? == key)),
        What::Group(group) => of_value(before, after, |seen| Some(seen.group? == group)),
        What::HelloRetryRequest => {
            let rtts: Vec<f64> =
                after.iter().filter_map(|seen| Some(seen.server_rtt? + seen.client_rtt?)).collect();
            median(&rtts)
        }
        What::ServerRoundTrip | What::ClientRoundTrip => {
            // The opening, the handshake's, one for each exchange.
            mean(after, |seen| 1.0 + f64::from(seen.round_trips.unwrap_or(0) + seen.answered))
        }
        What::ServerTimeFull => {
            mean(after, |seen| f64::from(u8::from(seen.resumed == Some(false))))
        }
        What::ServerTimeShort => {
            mean(after, |seen| f64::from(u8::from(seen.resumed == Some(true))))
        }
        What::ServerTimeExchange => mean(after, |seen| f64::from(seen.answered)),
        What::Failed(_) => None,
    }
}

fn mean(side: &Side, of: impl Fn(&Seen) -> f64) -> Option<f64> {
    let all = side.connections();
    (all > 0).then(|| side.iter().map(of).sum::<f64>() / all as f64)
}

/// How much longer a full handshake takes with the value than without, at the median of both sides.
fn of_value(before: &Side, after: &Side, is: impl Fn(&Seen) -> Option<bool>) -> Option<f64> {
    let times = |with: bool| -> Vec<f64> {
        let seen = before.iter().chain(after.iter());
        seen.filter(|seen| is(seen) == Some(with))
            .filter_map(|seen| Some(seen.timed(false)?.0))
            .collect()
    };
    let (with, without) = (times(true), times(false));
    if with.len().min(without.len()) < FEWEST {
        return None;
    }
    Some(median(&with)? - median(&without)?)
}
