//! The cost of a change: time per connection and time per second (`docs/wire.md`, "What changed").

use super::decomposition::{Changed, Decomposition, Source, Ways};
use super::differences::Tests;
use super::seen::{Seen, Side};
use super::strata::Within;
use super::{Change, What};
use firstbyte_core::stats::{Interval, median};

/// The cost of a change. Negative values are savings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Seconds per connection on average.
    pub per_connection: f64,
    /// Its interval: the change's interval, times the cost per unit of change.
    pub interval: Option<Interval>,
    /// Seconds per second of traffic, over all connections; absent for less than a second of traffic.
    pub per_second: Option<f64>,
}

/// How long a connection takes on both sides of a pair, and the parts of the difference.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Total {
    /// Index of the pair.
    pub pair: usize,
    /// Number of successful connections before and after.
    pub connections: [usize; 2],
    /// The sum as captured.
    pub captured: Sum,
    /// Round trip between client and server before and after, seconds; absent unless known on both sides of the tap.
    pub round_trip: Option<[f64; 2]>,
    /// Round trips per connection that scale with distance, before and after; absent likewise.
    pub round_trips: Option<[f64; 2]>,
    /// The sum at each requested round trip, in that order; absent if the path is unknown, or became shorter by more
    /// than that.
    pub projected: Vec<Option<Sum>>,
}

/// Duration of a connection, and the parts of the difference between both sides. The parts add up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sum {
    /// Duration of a connection before and after, seconds.
    pub sides: [f64; 2],
    /// The part of the difference that the reported changes cause together, seconds.
    pub named: f64,
    /// The part caused by different clients: more that connect for the first time, or from farther away.
    pub clients: f64,
    /// The part caused by more or fewer exchanges per connection.
    pub exchanges: f64,
    /// The remainder: changes too small or too uncertain to report, and the clients' own time.
    pub rest: f64,
}

impl Sum {
    /// After minus before, seconds.
    pub fn difference(&self) -> f64 {
        self.sides[1] - self.sides[0]
    }
}

/// Full and resumed handshakes of the same versions, from both sides together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FullAndShort {
    /// Median of full handshakes, seconds; averaged over versions, weighted by their number of handshakes.
    pub full: f64,
    /// Number of full handshakes.
    pub full_count: usize,
    /// Median of resumed handshakes, seconds.
    pub short: f64,
    /// Number of resumed handshakes.
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

    /// Ratio of a full handshake's time to a resumed one's.
    pub fn ratio(&self) -> Option<f64> {
        (self.short > 0.0).then(|| self.full / self.short)
    }
}

/// Adds their costs to the changes of a pair, also at the round trips `projected_to`. Returns the total.
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
    /// Splits `changed` into parts, given the changes that are reported.
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

/// The part of `changed` caused by one change, including the differences that appear only because of it.
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
    /// The cost of a change that takes `per_connection`, at `rate` connections per second.
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

/// Sources of differences that appear only because other handshakes are full now: they belong to that change.
fn come_to_light(explained: Within) -> impl Iterator<Item = Source> {
    let all = [
        (explained.key, Source::Key),
        (explained.group, Source::Group),
        (explained.cipher_suite, Source::CipherSuite),
    ];
    all.into_iter().filter_map(|(is, source)| is.then_some(source))
}

/// How a negotiated value changed the server's time per handshake; per full handshake for a certificate's key.
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
