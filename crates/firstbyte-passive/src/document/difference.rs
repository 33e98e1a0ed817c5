//! Changes between captures, as one JSON object. The fields are in `docs/formats.md`.

use serde::Serialize;

use super::beside::BesideRecord;
use crate::diff::{Beside, Change, Changes, Cost, Figure, FullAndShort, Pair, Sum, Total, What};
use crate::names;
use firstbyte_core::stats::Interval;

/// Name of the format.
pub const WIRE_DIFF_FORMAT: &str = "firstbyte/wire-diff";
/// The version that is written.
pub const WIRE_DIFF_VERSION: u32 = 1;

/// A comparison of captured traffic.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, reason = "docs/formats.md describes every field")]
pub struct DifferenceRecord<'a> {
    pub format: &'static str,
    pub version: u32,
    pub before_connections: usize,
    pub after_connections: usize,
    pub compared: usize,
    pub only_before: &'a [String],
    pub only_after: &'a [String],
    pub tested: usize,
    pub too_few: usize,
    pub changes: Vec<ChangeRecord<'a>>,
    pub totals: Vec<TotalRecord<'a>>,
    pub projected_to_seconds: Vec<f64>,
    pub beside: Vec<BesideRecord<'a>>,
}

/// One change.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, reason = "docs/formats.md describes every field")]
pub struct ChangeRecord<'a> {
    pub server: &'a str,
    pub against: Option<&'a str>,
    pub what: &'static str,
    pub value: Option<String>,
    pub unit: &'static str,
    pub before: FigureRecord,
    pub after: FigureRecord,
    pub difference: f64,
    pub difference_interval: Option<[f64; 2]>,
    pub p_adjusted: f64,
    pub cost_per_connection_seconds: Option<f64>,
    pub cost_per_connection_interval_seconds: Option<[f64; 2]>,
    pub cost_seconds_per_second: Option<f64>,
    pub full_handshake_seconds: Option<f64>,
    pub full_handshakes: Option<usize>,
    pub short_handshake_seconds: Option<f64>,
    pub short_handshakes: Option<usize>,
    pub full_to_short: Option<f64>,
    pub of: &'static str,
    pub within: Vec<&'static str>,
    pub replaced: Option<ReplacedRecord>,
    pub also: Vec<ShareRecord>,
    pub server_time_seconds: Option<f64>,
    pub round_trips: Option<f64>,
    pub projected: Vec<Option<CostRecord>>,
}

/// The cost of a change at a requested round trip.
#[derive(Clone, Copy, Debug, Serialize)]
#[allow(missing_docs, reason = "docs/formats.md describes every field")]
pub struct CostRecord {
    pub round_trip_seconds: f64,
    pub cost_per_connection_seconds: f64,
    pub cost_per_connection_interval_seconds: Option<[f64; 2]>,
    pub cost_seconds_per_second: Option<f64>,
}

/// The value that was replaced, or that replaced it.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, reason = "docs/formats.md describes every field")]
pub struct ReplacedRecord {
    pub value: Option<String>,
    pub before: FigureRecord,
    pub after: FigureRecord,
}

/// The same change as a share of other connections.
#[derive(Clone, Copy, Debug, Serialize)]
#[allow(missing_docs, reason = "docs/formats.md describes every field")]
pub struct ShareRecord {
    pub of: &'static str,
    pub before: FigureRecord,
    pub after: FigureRecord,
}

/// The total change.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, reason = "docs/formats.md describes every field")]
pub struct TotalRecord<'a> {
    pub server: &'a str,
    pub against: Option<&'a str>,
    pub before_connections: usize,
    pub after_connections: usize,
    #[serde(flatten)]
    pub captured: SumRecord,
    pub round_trip_seconds: Option<[f64; 2]>,
    pub round_trips: Option<[f64; 2]>,
    pub projected: Vec<Option<ProjectedRecord>>,
}

/// Duration of a connection, and the parts of the difference.
#[derive(Clone, Copy, Debug, Serialize)]
#[allow(missing_docs, reason = "docs/formats.md describes every field")]
pub struct SumRecord {
    pub before_seconds: f64,
    pub after_seconds: f64,
    pub difference_seconds: f64,
    pub named_seconds: f64,
    pub clients_seconds: f64,
    pub exchanges_seconds: f64,
    pub rest_seconds: f64,
}

/// The same at a requested round trip.
#[derive(Clone, Copy, Debug, Serialize)]
#[allow(missing_docs, reason = "docs/formats.md describes every field")]
pub struct ProjectedRecord {
    pub round_trip_seconds: f64,
    #[serde(flatten)]
    pub sum: SumRecord,
}

/// A share or a median.
#[derive(Clone, Copy, Debug, Serialize)]
#[allow(missing_docs, reason = "docs/formats.md describes every field")]
pub struct FigureRecord {
    pub value: f64,
    pub count: Option<usize>,
    pub of: usize,
}

impl<'a> DifferenceRecord<'a> {
    /// The record of the changes between `pairs`.
    pub fn from_changes(
        changes: &Changes,
        beside: &[Beside],
        pairs: &'a [Pair],
        only: [&'a [String]; 2],
    ) -> Self {
        let [only_before, only_after] = only;
        let to = &changes.projected_to;
        let record = |change| ChangeRecord::from_change(change, pairs, to);
        Self {
            format: WIRE_DIFF_FORMAT,
            version: WIRE_DIFF_VERSION,
            before_connections: pairs.iter().map(|pair| pair.before.connections()).sum(),
            after_connections: pairs.iter().map(|pair| pair.after.connections()).sum(),
            compared: pairs.len(),
            only_before,
            only_after,
            tested: changes.tested,
            too_few: changes.too_few,
            changes: changes.changes.iter().map(record).collect(),
            totals: changes
                .totals
                .iter()
                .map(|total| TotalRecord::from_total(total, pairs, to))
                .collect(),
            projected_to_seconds: to.clone(),
            beside: beside.iter().map(|one| BesideRecord::from_beside(one, pairs)).collect(),
        }
    }
}

impl<'a> ChangeRecord<'a> {
    fn from_change(change: &Change, pairs: &'a [Pair], to: &[f64]) -> Self {
        let pair = &pairs[change.pair];
        let ends = |interval: Interval| [interval.low, interval.high];
        let cost = change.cost.as_ref();
        let handshakes = change.handshakes.as_ref();
        Self {
            server: &pair.name,
            against: pair.against.as_deref(),
            what: change.what.name(),
            value: value_name(change.what),
            unit: if change.what.is_share() { "share" } else { "seconds" },
            before: change.before.into(),
            after: change.after.into(),
            difference: change.difference.value,
            difference_interval: change.difference.interval.map(ends),
            p_adjusted: change.p_adjusted,
            cost_per_connection_seconds: cost.map(|cost| cost.per_connection),
            cost_per_connection_interval_seconds: cost.and_then(|cost| cost.interval).map(ends),
            cost_seconds_per_second: cost.and_then(|cost| cost.per_second),
            full_handshake_seconds: handshakes.map(|both| both.full),
            full_handshakes: handshakes.map(|both| both.full_count),
            short_handshake_seconds: handshakes.map(|both| both.short),
            short_handshakes: handshakes.map(|both| both.short_count),
            full_to_short: handshakes.and_then(FullAndShort::ratio),
            of: change.of.name(),
            within: change.within.names(),
            replaced: change.replaced.as_ref().map(|(value, [before, after])| ReplacedRecord {
                value: value_name(*value),
                before: (*before).into(),
                after: (*after).into(),
            }),
            also: change
                .also
                .iter()
                .map(|(of, [before, after])| ShareRecord {
                    of: of.name(),
                    before: (*before).into(),
                    after: (*after).into(),
                })
                .collect(),
            server_time_seconds: change.server_time,
            round_trips: change.round_trips,
            projected: to
                .iter()
                .zip(&change.projected)
                .map(|(round_trip, cost)| Some(CostRecord::from_cost(*round_trip, &(*cost)?)))
                .collect(),
        }
    }
}

impl CostRecord {
    fn from_cost(round_trip: f64, cost: &Cost) -> Self {
        Self {
            round_trip_seconds: round_trip,
            cost_per_connection_seconds: cost.per_connection,
            cost_per_connection_interval_seconds: cost
                .interval
                .map(|interval| [interval.low, interval.high]),
            cost_seconds_per_second: cost.per_second,
        }
    }
}

impl<'a> TotalRecord<'a> {
    fn from_total(total: &Total, pairs: &'a [Pair], to: &[f64]) -> Self {
        let pair = &pairs[total.pair];
        let [before_connections, after_connections] = total.connections;
        let projected = |(round_trip, sum): (&f64, &Option<Sum>)| {
            Some(ProjectedRecord { round_trip_seconds: *round_trip, sum: (*sum)?.into() })
        };
        Self {
            server: &pair.name,
            against: pair.against.as_deref(),
            before_connections,
            after_connections,
            captured: total.captured.into(),
            round_trip_seconds: total.round_trip,
            round_trips: total.round_trips,
            projected: to.iter().zip(&total.projected).map(projected).collect(),
        }
    }
}

impl From<Sum> for SumRecord {
    fn from(sum: Sum) -> Self {
        let [before_seconds, after_seconds] = sum.sides;
        Self {
            before_seconds,
            after_seconds,
            difference_seconds: sum.difference(),
            named_seconds: sum.named,
            clients_seconds: sum.clients,
            exchanges_seconds: sum.exchanges,
            rest_seconds: sum.rest,
        }
    }
}

impl From<Figure> for FigureRecord {
    fn from(figure: Figure) -> Self {
        Self { value: figure.value, count: figure.count, of: figure.of }
    }
}

/// The version, key, group or cipher suite that a change is about.
pub fn value_name(what: What) -> Option<String> {
    match what {
        What::Version(number) => Some(
            names::version(number)
                .map_or_else(|| format!("TLS 0x{number:04x}"), |name| name.replace("TLSv", "TLS ")),
        ),
        What::CertificateKey(key) => Some(key.name()),
        What::Group(number) => Some(names::group(number)),
        What::CipherSuite(number) => Some(names::cipher_suite(number)),
        _ => None,
    }
}
