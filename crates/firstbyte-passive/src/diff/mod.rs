//! Finds what changed between two sets of connections: each change with its interval and its cost.
//!
//! In: [`Side`]s of connections, in pairs. Out: [`Change`]s, most expensive first. The thresholds and the cost formulas
//! are in `docs/wire.md`, "What changed"; the intervals in `docs/statistics.md`. To avoid false alarms, like is
//! compared with like (`strata`). A change is reported if its interval excludes zero after adjustment for all tests,
//! and if it is large enough to matter. Costs are parts of the total change (`decomposition`).

mod beside;
mod cost;
mod decomposition;
mod differences;
mod rounds;
mod seen;
mod servers;
#[cfg(test)]
mod simulated;
#[cfg(test)]
mod steady;
mod strata;

pub use beside::{Beside, MOST_BESIDE, Subject, Table, Throughput, Value, beside};
pub use cost::{Cost, FullAndShort, Sum, Total};
pub use seen::Side;
pub use servers::{MOST_CONNECTIONS, MOST_SERVERS, Pair, Servers, is_server};
pub use strata::Within;

use std::time::Duration;

use super::Failed;
use super::observed::CertificateKey;
use differences::Tests;
use firstbyte_core::stats::{ALPHA, Estimate, holm};
use strata::Sides;

/// Smallest difference between shares that matters.
pub const LEAST_SHARE: f64 = 0.05;
/// Smallest difference between shares of failed connections that matters.
pub const LEAST_ERROR_SHARE: f64 = 0.01;
/// Smallest difference between times that matters, as a share of the median before.
pub const LEAST_TIME_SHARE: f64 = 0.10;
/// Smallest difference between times that matters, seconds. Both limits apply.
pub const LEAST_TIME_SECONDS: f64 = 100e-6;

/// A quantity that may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum What {
    /// Share of the handshakes that were resumed.
    Resumption,
    /// Share of the handshakes with this version.
    Version(u16),
    /// Share of the certificates seen with this key.
    CertificateKey(CertificateKey),
    /// Share of the key exchanges in this group.
    Group(u16),
    /// Share of the handshakes with this cipher suite.
    CipherSuite(u16),
    /// Share of the handshakes with a HelloRetryRequest.
    HelloRetryRequest,
    /// Round trip between tap and server.
    ServerRoundTrip,
    /// Round trip between tap and client.
    ClientRoundTrip,
    /// The server's time in full handshakes.
    ServerTimeFull,
    /// The server's time in resumed handshakes.
    ServerTimeShort,
    /// The server's time in exchanges.
    ServerTimeExchange,
    /// Share of the connections that failed in this way.
    Failed(Failed),
}

impl What {
    /// The name used in stored forms.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Resumption => "resumption",
            Self::Version(_) => "version",
            Self::CertificateKey(_) => "certificate-key",
            Self::Group(_) => "group",
            Self::CipherSuite(_) => "cipher-suite",
            Self::HelloRetryRequest => "hello-retry-request",
            Self::ServerRoundTrip => "server-round-trip",
            Self::ClientRoundTrip => "client-round-trip",
            Self::ServerTimeFull => "server-time-full",
            Self::ServerTimeShort => "server-time-short",
            Self::ServerTimeExchange => "server-time-exchange",
            Self::Failed(way) => way.name(),
        }
    }

    /// Whether it is a share rather than a time.
    pub const fn is_share(self) -> bool {
        !matches!(
            self,
            Self::ServerRoundTrip
                | Self::ClientRoundTrip
                | Self::ServerTimeFull
                | Self::ServerTimeShort
                | Self::ServerTimeExchange
        )
    }

    /// Whether it is a share of failed connections.
    pub const fn is_error(self) -> bool {
        matches!(self, Self::Failed(_))
    }

    /// Whether a difference is large enough to matter.
    fn matters(self, before: f64, difference: f64) -> bool {
        let size = difference.abs();
        if self.is_error() {
            size >= LEAST_ERROR_SHARE
        } else if self.is_share() {
            size >= LEAST_SHARE
        } else {
            size >= LEAST_TIME_SECONDS && size >= LEAST_TIME_SHARE * before
        }
    }
}

/// The connections that a share or a median is computed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// All connections.
    Connections,
    /// Handshakes known to be full or resumed.
    Handshakes,
    /// The same, without each client's first.
    Returning,
    /// Handshakes for which a session was offered.
    Offered,
    /// Connections with a ServerHello.
    Answered,
    /// Handshakes for which the value is known.
    Shown,
    /// Connections for which such a time is known.
    Timed,
}

impl Of {
    /// The name used in stored forms.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::Handshakes => "handshakes",
            Self::Returning => "returning-handshakes",
            Self::Offered => "sessions-offered",
            Self::Answered => "answered",
            Self::Shown => "shown",
            Self::Timed => "timed",
        }
    }
}

/// A share or a median on one side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// The share, from 0 to 1, or the median in seconds, with the average mix of strata of both sides.
    pub value: f64,
    /// Connections that have the property; absent for medians.
    pub count: Option<usize>,
    /// Connections for which it is known.
    pub of: usize,
}

/// A change between the two sides.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Index of its pair among those compared.
    pub pair: usize,
    /// The quantity that changed.
    pub what: What,
    /// The connections it was computed over.
    pub of: Of,
    /// What the connections that were compared with each other have in common.
    pub within: Within,
    /// The figure before.
    pub before: Figure,
    /// The figure after.
    pub after: Figure,
    /// For versions, keys, groups and cipher suites: the value that it replaced, or that replaced it.
    pub replaced: Option<(What, [Figure; 2])>,
    /// The same count as a share of other connections.
    pub also: Vec<(Of, [Figure; 2])>,
    /// After minus before.
    pub difference: Estimate,
    /// The p-value adjusted for all tests (Holm).
    pub p_adjusted: f64,
    /// Its cost; absent if it cannot be expressed as time.
    pub cost: Option<Cost>,
    /// The part of the cost that is server time per handshake (per full handshake for a certificate key), seconds.
    pub server_time: Option<f64>,
    /// Times of full and resumed handshakes of both sides, for a change in resumption.
    pub handshakes: Option<FullAndShort>,
    /// The part of its cost that is round trips: how many more per connection; absent if the cost is.
    pub round_trips: Option<f64>,
    /// Its cost at each requested round trip, in that order; absent if unknown.
    pub projected: Vec<Option<Cost>>,
}

/// The data behind a difference, on both sides.
#[derive(Clone, Debug, PartialEq)]
pub enum Spread {
    /// Sorted times, seconds: one per connection, with the same mix of strata on both sides.
    Times([Vec<f64>; 2]),
    /// Number of connections by value: a single value, or all versions, keys, groups or cipher suites by falling number
    /// of connections.
    Shares(Vec<(What, [Figure; 2])>),
}

impl Change {
    /// The data behind the change; `pairs` are those that were compared.
    pub fn spread(&self, pairs: &[Pair]) -> Spread {
        differences::spread(self, &pairs[self.pair])
    }
}

/// Result of a comparison.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// The changes, most expensive first. Changes in failures come before all others, because a failed connection costs
    /// more than time. Changes without a cost in time come last.
    pub changes: Vec<Change>,
    /// For each pair with a change: how long a connection takes, and the parts of the difference.
    pub totals: Vec<Total>,
    /// Round trips that costs were projected to, seconds.
    pub projected_to: Vec<f64>,
    /// Number of differences tested.
    pub tested: usize,
    /// Number of further differences with too few connections for an interval; these were not tested.
    pub too_few: usize,
}

/// Compares the sides of all pairs.
pub fn changes(pairs: &[Pair]) -> Changes {
    changes_projected(pairs, &[])
}

/// The same, and the changes' costs if the round trip between client and server had been each of `round_trips` before.
pub fn changes_projected(pairs: &[Pair], round_trips: &[Duration]) -> Changes {
    let projected_to: Vec<f64> = round_trips.iter().map(Duration::as_secs_f64).collect();
    let sides = pairs.iter().map(|pair| Sides::from_both(&pair.before, &pair.after));
    let mut tests: Vec<Tests> = sides
        .enumerate()
        .map(|(index, sides)| differences::find_differences(index, &sides))
        .collect();
    let all = tests.iter_mut().flat_map(|tests| tests.found.drain(..));
    let (found, few): (Vec<_>, Vec<_>) =
        all.partition(|test| test.change.difference.p_value.is_some());
    let p_values: Vec<f64> =
        found.iter().filter_map(|test| test.change.difference.p_value).collect();
    let tested = found.len();
    let significant: Vec<Change> = found
        .into_iter()
        .zip(holm(&p_values))
        .filter(|(test, p_adjusted)| {
            let interval = test.change.difference.interval;
            let certain = *p_adjusted < ALPHA && interval.is_some_and(|it| it.excludes_zero());
            certain && test.matters
        })
        .map(|(test, p_adjusted)| Change { p_adjusted, ..test.change })
        .collect();
    let mut named = one_a_kind(significant);
    let totals = costs(&mut named, &tests, pairs, &projected_to);
    named.sort_by(|a, b| rank(b).partial_cmp(&rank(a)).unwrap_or(std::cmp::Ordering::Equal));
    Changes { changes: named, totals, projected_to, tested, too_few: few.len() }
}

/// Adds the costs of the changes. Returns the total of each pair with a change.
fn costs(
    named: &mut [Change],
    tests: &[Tests],
    pairs: &[Pair],
    projected_to: &[f64],
) -> Vec<Total> {
    let mut totals = Vec::new();
    for (index, (tests, pair)) in tests.iter().zip(pairs).enumerate() {
        let mut own: Vec<&mut Change> =
            named.iter_mut().filter(|change| change.pair == index).collect();
        if own.is_empty() {
            continue;
        }
        let sides = Sides::from_both(&pair.before, &pair.after);
        let parts = decomposition::decompose(&sides, tests.families);
        let sides = [&pair.before, &pair.after];
        let total = cost::add(&mut own, tests, parts.as_ref(), sides, projected_to);
        totals.extend(total.map(|total| Total { pair: index, ..total }));
    }
    totals
}

/// Keeps only the value whose share changed most among versions, keys, groups and cipher suites: the gains or losses of
/// the other values are the same change.
fn one_a_kind(changes: Vec<Change>) -> Vec<Change> {
    let mut kept: Vec<Change> = Vec::new();
    for change in changes {
        let same = kept
            .iter_mut()
            .find(|other| other.pair == change.pair && other.what.name() == change.what.name());
        match same {
            None => kept.push(change),
            Some(other) if change.difference.value.abs() > other.difference.value.abs() => {
                *other = change;
            }
            Some(_) => {}
        }
    }
    kept
}

/// Sort key, largest first: failures, then costs in time by size, then savings by size, then changes without a cost.
fn rank(change: &Change) -> (u8, f64) {
    if change.what.is_error() && change.difference.value > 0.0 {
        return (3, change.difference.value);
    }
    let Some(cost) = &change.cost else { return (0, change.difference.value.abs()) };
    let seconds = cost.per_second.unwrap_or(cost.per_connection);
    (if seconds > 0.0 { 2 } else { 1 }, seconds.abs())
}
