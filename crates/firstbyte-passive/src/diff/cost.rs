//! What a change costs: time a connection, and time in each second (`docs/wire.md`, "What changed").

use super::decomposition::{Changed, Decomposition, Source, Ways};
use super::differences::Tests;
use super::seen::{Seen, Side};
use super::strata::Within;
use super::{Change, What};
use firstbyte_core::stats::{Interval, median};

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

/// How long a connection takes on both sides of a pair, and what the difference is made of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Total {
    /// The pair it is of.
    pub pair: usize,
    /// Connections that came about, before and after.
    pub connections: [usize; 2],
    /// As they were captured.
    pub captured: Sum,
    /// Between client and server, seconds, before and after; absent where it is not known on both sides of the tap.
    pub round_trip: Option<[f64; 2]>,
    /// Round trips of a connection that distance multiplies, before and after; absent likewise.
    pub round_trips: Option<[f64; 2]>,
    /// At each round trip that was asked for, in that order; absent where the way is not known, or became shorter by
    /// more than that.
    pub projected: Vec<Option<Sum>>,
}

/// What a connection takes, and what the difference between both sides is made of. The parts add up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sum {
    /// What one takes, seconds, before and after.
    pub sides: [f64; 2],
    /// Of the difference, what the changes that are named cost together, seconds.
    pub named: f64,
    /// What other clients are the reason of: more that come for the first time, or from farther away.
    pub clients: f64,
    /// What more or fewer exchanges in a connection are the reason of.
    pub exchanges: f64,
    /// What is neither: too small or too uncertain to be named, or the clients' own time.
    pub rest: f64,
}

impl Sum {
    /// After less before, seconds.
    pub fn difference(&self) -> f64 {
        self.sides[1] - self.sides[0]
    }
}

/// Full and short handshakes of the same versions, those of both sides together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FullAndShort {
    /// Median of full ones, seconds; over versions, weighed by how many handshakes each has.
    pub full: f64,
    /// How many.
    pub full_count: usize,
    /// Median of short ones, seconds.
    pub short: f64,
    /// How many.
    pub short_count: usize,
}

impl FullAndShort {
    fn from_sides(sides: [&Side; 2]) -> Option<Self> {
        let seen = || sides.into_iter().flat_map(Side::iter);
        let mut versions: Vec<Option<u16>> = seen().map(|seen| seen.version).collect();
        versions.sort_unstable();
        versions.dedup();
        let times = |version, resumed| -> Vec<f64> {
            let same = seen().filter(|seen| seen.version == version);
            same.filter_map(|seen: &Seen| Some(seen.timed(resumed)?.0)).collect()
        };
        let mut both = Self { full: 0.0, full_count: 0, short: 0.0, short_count: 0 };
        let mut all = 0.0;
        for version in versions {
            let (full, short) = (times(version, false), times(version, true));
            if let (Some(of_full), Some(of_short)) = (median(&full), median(&short)) {
                let weight = (full.len() + short.len()) as f64;
                both.full += weight * of_full;
                both.short += weight * of_short;
                both.full_count += full.len();
                both.short_count += short.len();
                all += weight;
            }
        }
        (all > 0.0).then(|| Self { full: both.full / all, short: both.short / all, ..both })
    }

    /// How many times as long a full handshake takes as a short one.
    pub fn ratio(&self) -> Option<f64> {
        (self.short > 0.0).then(|| self.full / self.short)
    }
}

/// Adds to the changes of a pair what they cost, also at the round trips `projected_to`; and gives back how that adds up.
pub(super) fn add(
    changes: &mut [&mut Change],
    tests: &Tests,
    parts: Option<&Decomposition>,
    sides: [&Side; 2],
    projected_to: &[f64],
) -> Option<Total> {
    for change in changes.iter_mut().filter(|change| change.what == What::Resumption) {
        change.handshakes = FullAndShort::from_sides(sides);
    }
    let parts = parts?;
    let after = sides[1];
    let share = parts.connections[1] as f64 / after.connections().max(1) as f64;
    let rate = after.connections_per_second().map(|rate| rate * share);
    let ways = parts.ways();
    let at: Vec<Option<Changed>> =
        projected_to.iter().map(|round_trip| ways?.at(*round_trip)).collect();
    let explained = tests.explained;
    for change in changes.iter_mut() {
        let Some(source) = source(change.what) else { continue };
        let cost = |changed: &Changed| {
            let per_connection = caused_by(change.what, source, changed, explained);
            Cost::from_change(change, per_connection, rate)
        };
        let projected = at.iter().map(|changed| changed.as_ref().map(cost)).collect();
        change.cost = Some(cost(&parts.all));
        change.projected = projected;
        change.round_trips =
            ways.map(|ways| caused_by(change.what, source, &ways.round_trips, explained));
        change.server_time = server_time(change.what, source, parts);
    }
    let whats: Vec<What> = changes.iter().map(|change| change.what).collect();
    let sum = |changed: &Changed| Sum::from_changed(changed, &whats, explained);
    Some(Total {
        pair: 0,
        connections: parts.connections,
        captured: sum(&parts.all),
        round_trip: ways.map(|ways: &Ways| ways.path.sides),
        round_trips: ways.map(|ways| ways.round_trips.sides),
        projected: at.iter().map(|changed| changed.as_ref().map(sum)).collect(),
    })
}

impl Sum {
    /// What `changed` is made of, where these changes are named.
    fn from_changed(changed: &Changed, named: &[What], explained: Within) -> Self {
        let difference = changed.sides[1] - changed.sides[0];
        let named = named.iter().filter_map(|what| Some((*what, source(*what)?)));
        let named: f64 =
            named.map(|(what, source)| caused_by(what, source, changed, explained)).sum();
        let clients = changed.parts.caused_by(Source::Clients);
        let exchanges = changed.parts.caused_by(Source::Exchanges);
        let rest = difference - named - clients - exchanges;
        Self { sides: changed.sides, named, clients, exchanges, rest }
    }
}

/// Of what `changed`, the part of a change; with what comes to light by it.
fn caused_by(what: What, source: Source, changed: &Changed, explained: Within) -> f64 {
    let own = changed.parts.caused_by(source);
    match what {
        What::Resumption => {
            own + come_to_light(explained).map(|it| changed.parts.caused_by(it)).sum::<f64>()
        }
        _ => own,
    }
}

impl Cost {
    /// That of a change which costs `per_connection`, at `rate` connections in a second.
    fn from_change(change: &Change, per_connection: f64, rate: Option<f64>) -> Self {
        let each = per_connection / change.difference.value;
        let scaled = |interval: Interval| {
            let ends = [interval.low * each, interval.high * each];
            Interval { low: ends[0].min(ends[1]), high: ends[0].max(ends[1]) }
        };
        Self {
            per_connection,
            interval: change.difference.interval.filter(|_| each.is_finite()).map(scaled),
            per_second: rate.map(|rate| per_connection * rate),
        }
    }
}

const fn source(what: What) -> Option<Source> {
    Some(match what {
        What::Resumption => Source::Resumption,
        What::Version(_) => Source::Version,
        What::CertificateKey(_) => Source::Key,
        What::Group(_) => Source::Group,
        What::CipherSuite(_) => Source::CipherSuite,
        What::HelloRetryRequest => Source::HelloRetryRequest,
        What::ServerRoundTrip => Source::ServerRoundTrip,
        What::ClientRoundTrip => Source::ClientRoundTrip,
        What::ServerTimeFull => Source::ServerTimeFull,
        What::ServerTimeShort => Source::ServerTimeShort,
        What::ServerTimeExchange => Source::ServerTimeExchange,
        What::Failed(_) => return None,
    })
}

/// What differs because other handshakes are full belongs to that.
fn come_to_light(explained: Within) -> impl Iterator<Item = Source> {
    let all = [
        (explained.key, Source::Key),
        (explained.group, Source::Group),
        (explained.cipher_suite, Source::CipherSuite),
    ];
    all.into_iter().filter_map(|(is, source)| is.then_some(source))
}

/// What a negotiated value changed in the server's time of a handshake; of a full one where a certificate's key
/// is concerned.
fn server_time(what: What, source: Source, parts: &Decomposition) -> Option<f64> {
    let of_all = parts.server.caused_by(source);
    let full = [0, 1].map(|n| parts.full[n] as f64 / parts.connections[n] as f64);
    match what {
        What::CertificateKey(_) => {
            let full = (full[0] + full[1]) / 2.0;
            (full > 0.0).then(|| of_all / full)
        }
        What::Version(_) | What::Group(_) | What::CipherSuite(_) => Some(of_all),
        _ => None,
    }
}
