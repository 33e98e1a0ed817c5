//! Both sides of a comparison side by side, as part of a [`DifferenceRecord`](super::DifferenceRecord).

use serde::Serialize;

use crate::diff::{Beside, Pair, Table, Throughput, Value};
use firstbyte_core::stats::Interval;

/// Both sides of one pair.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, reason = "docs/formats.md describes every field")]
pub struct BesideRecord<'a> {
    pub server: &'a str,
    pub against: Option<&'a str>,
    pub before_connections: usize,
    pub after_connections: usize,
    pub tables: Vec<TableRecord>,
    pub before_throughput: Option<ThroughputRecord>,
    pub after_throughput: Option<ThroughputRecord>,
    pub throughput_difference_interval: Option<[f64; 2]>,
}

/// Connections counted by value.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, reason = "docs/formats.md describes every field")]
pub struct TableRecord {
    pub of: &'static str,
    pub before_of: usize,
    pub after_of: usize,
    pub values: Vec<ValueRecord>,
    pub left_out: usize,
}

/// One value of a table.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, reason = "docs/formats.md describes every field")]
pub struct ValueRecord {
    pub value: String,
    pub weak: bool,
    pub before_count: usize,
    pub before_interval: Option<[f64; 2]>,
    pub after_count: usize,
    pub after_interval: Option<[f64; 2]>,
    pub difference_interval: Option<[f64; 2]>,
}

/// Throughput of responses.
#[derive(Clone, Copy, Debug, Serialize)]
#[allow(missing_docs, reason = "docs/formats.md describes every field")]
pub struct ThroughputRecord {
    pub connections: usize,
    pub p10_bytes_per_second: f64,
    pub p50_bytes_per_second: f64,
    pub p90_bytes_per_second: f64,
    pub together_bytes_per_second: f64,
    pub sent_bytes_per_second: Option<f64>,
}

fn ends(interval: Option<Interval>) -> Option<[f64; 2]> {
    interval.map(|interval| [interval.low, interval.high])
}

impl<'a> BesideRecord<'a> {
    pub(super) fn from_beside(beside: &Beside, pairs: &'a [Pair]) -> Self {
        let pair = &pairs[beside.pair];
        let [before, after] = beside.throughput.map(|side| side.map(ThroughputRecord::from));
        Self {
            server: &pair.name,
            against: pair.against.as_deref(),
            before_connections: beside.connections[0],
            after_connections: beside.connections[1],
            tables: beside.tables.iter().map(TableRecord::from).collect(),
            before_throughput: before,
            after_throughput: after,
            throughput_difference_interval: ends(beside.throughput_difference),
        }
    }
}

impl From<&Table> for TableRecord {
    fn from(table: &Table) -> Self {
        Self {
            of: table.subject.name(),
            before_of: table.of[0],
            after_of: table.of[1],
            values: table.values.iter().map(ValueRecord::from).collect(),
            left_out: table.left_out,
        }
    }
}

impl From<&Value> for ValueRecord {
    fn from(value: &Value) -> Self {
        Self {
            value: value.name.clone(),
            weak: value.weak,
            before_count: value.counts[0],
            before_interval: ends(value.intervals[0]),
            after_count: value.counts[1],
            after_interval: ends(value.intervals[1]),
            difference_interval: ends(value.difference),
        }
    }
}

impl From<Throughput> for ThroughputRecord {
    fn from(throughput: Throughput) -> Self {
        let [p10, p50, p90] = throughput.percentiles;
        Self {
            connections: throughput.connections,
            p10_bytes_per_second: p10,
            p50_bytes_per_second: p50,
            p90_bytes_per_second: p90,
            together_bytes_per_second: throughput.together,
            sent_bytes_per_second: throughput.sent,
        }
    }
}
