//! What changed between two sets of connections: named, with its interval, and what it costs.
//!
//! In: [`Side`]s of connections, in pairs. Out: [`Change`]s, those that cost most first. The thresholds and
//! the costs' formulas are in `docs/wire.md`, "What changed"; the intervals in `docs/statistics.md`. It must
//! not cry wolf: like is compared with like (`strata`), and a change is named when its interval excludes zero
//! after adjusting for all that was tested, and it is large enough to matter. Costs are parts of what changed in
//! all (`decomposition`).

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

/// Shares have to differ by this to matter.
pub const LEAST_SHARE: f64 = 0.05;
/// Shares of connections that fail have to differ by this.
pub const LEAST_ERROR_SHARE: f64 = 0.01;
/// Times have to differ by this share of the median before,
pub const LEAST_TIME_SHARE: f64 = 0.10;
/// and by this, seconds.
pub const LEAST_TIME_SECONDS: f64 = 100e-6;

/// What may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum What {
    /// Share of the handshakes that were short.
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
    /// The server's time in short handshakes.
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

    /// Whether it is a share, and not a time.
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

    /// Whether it is a way to fail.
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

/// What a share is of, or a median.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// All connections.
    Connections,
    /// Handshakes seen to be full or short.
    Handshakes,
    /// The same, without the first of each client.
    Returning,
    /// Handshakes for which a session was offered.
    Offered,
    /// Connections with a ServerHello.
    Answered,
    /// Handshakes that show a value.
    Shown,
    /// Connections with such a time.
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
    /// The share, from 0 to 1, or the median, seconds; with the mix of strata that both sides have on average.
    pub value: f64,
    /// Connections for which it holds; absent for medians.
    pub count: Option<usize>,
    /// Connections of which it is known.
    pub of: usize,
}

/// Something that changed.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The pair it is of: its place among those compared.
    pub pair: usize,
    /// What changed.
    pub what: What,
    /// Of which connections.
    pub of: Of,
    /// What those have in common that are held against each other.
    pub within: Within,
    /// How it was.
    pub before: Figure,
    /// How it is.
    pub after: Figure,
    /// Of versions, keys, groups and cipher suites: the value that it replaced, or was replaced by.
    pub replaced: Option<(What, [Figure; 2])>,
    /// The same as a share of other connections.
    pub also: Vec<(Of, [Figure; 2])>,
    /// After less before.
    pub difference: Estimate,
    /// The p-value among all that was tested (Holm).
    pub p_adjusted: f64,
    /// What it costs; absent where that cannot be told in time.
    pub cost: Option<Cost>,
    /// Of that, what the server takes longer in a handshake; in a full one, where it is about a key. Seconds.
    pub server_time: Option<f64>,
    /// Full and short handshakes of both sides, for a change of resumption.
    pub handshakes: Option<FullAndShort>,
    /// Of its cost, what is round trips: how many more of a connection; absent where the cost is.
    pub round_trips: Option<f64>,
    /// What it would cost at each round trip that was asked for, in that order; absent where that is not known.
    pub projected: Vec<Option<Cost>>,
}

/// What a difference is taken from, on both sides.
#[derive(Clone, Debug, PartialEq)]
pub enum Spread {
    /// Times, seconds, sorted; as many as there are connections, with the same mix of strata on both sides.
    Times([Vec<f64>; 2]),
    /// How many connections have which value: one value, or all versions, keys, groups or cipher suites there
    /// are, those with most connections first.
    Shares(Vec<(What, [Figure; 2])>),
}

impl Change {
    /// What the change is taken from; `pairs` are those that were compared.
    pub fn spread(&self, pairs: &[Pair]) -> Spread {
        differences::spread(self, &pairs[self.pair])
    }
}

/// What came of a comparison.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// Those that cost most first. Ways to fail come before all others: a connection that fails costs
    /// more than time. What has no cost in time comes last.
    pub changes: Vec<Change>,
    /// Of each pair with a change, how long a connection takes, and what the difference is made of.
    pub totals: Vec<Total>,
    /// Round trips that costs were projected to, seconds.
    pub projected_to: Vec<f64>,
    /// How many differences were tested.
    pub tested: usize,
    /// Of those, how many were too uncertain to tell, having fewer connections than an interval needs.
    pub too_few: usize,
}

/// Compares the sides of all pairs.
pub fn changes(pairs: &[Pair]) -> Changes {
    changes_projected(pairs, &[])
}

/// The same, and what the changes would cost where `round_trips` is the round trip between client and server before.
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

/// Adds what changes cost; of each pair with one, how that adds up.
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

/// Of versions, keys, groups and cipher suites, the value whose share changed most: what the others lost or won
/// is the same change.
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

/// Larger comes first: failures, then costs in time by size, then savings by size, then what has none.
fn rank(change: &Change) -> (u8, f64) {
    if change.what.is_error() && change.difference.value > 0.0 {
        return (3, change.difference.value);
    }
    let Some(cost) = &change.cost else { return (0, change.difference.value.abs()) };
    let seconds = cost.per_second.unwrap_or(cost.per_connection);
    (if seconds > 0.0 { 2 } else { 1 }, seconds.abs())
}
