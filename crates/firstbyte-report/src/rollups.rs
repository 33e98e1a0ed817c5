//! Rows of a monitor's rollups: CSV, or one JSON object per line. Columns are described in `docs/formats.md`,
//! "Rollups".

use std::io::{self, Write};
use std::time::Duration;

use serde_json::{Map, Value};

use super::columns::{Column, ColumnType, ColumnValue, delimited, integer, text, time, timestamp};
use super::dates::rfc3339_micros;

/// Columns whose text is JSON.
const OBJECTS: [&str; 3] = ["tags", "failures_by_type", "facts"];

/// One series, period and metric.
#[derive(Clone, Copy, Debug)]
pub struct RollupRow<'r> {
    /// Begin of the period, seconds since the Unix epoch.
    pub start: i64,
    /// Name of the period.
    pub step: &'static str,
    /// Name of the target.
    pub target: &'r str,
    /// Variant in the notation of axes.
    pub variant: &'r str,
    /// Variant for human readers.
    pub variant_label: &'r str,
    /// Name of the vantage point.
    pub place: &'r str,
    /// Tags as JSON.
    pub tags: &'r str,
    /// Number of all samples.
    pub samples: u64,
    /// Number of failed samples.
    pub failures: u64,
    /// Failures by type, as JSON.
    pub failures_by_type: &'r str,
    /// Number of samples that were not made as requested.
    pub unproven: u64,
    /// Metric of the figures below; absent if no metric has any.
    pub metric: Option<&'r str>,
    /// Number of samples behind the figures.
    pub count: u64,
    /// Median.
    pub median: Option<Duration>,
    /// 90th percentile.
    pub p90: Option<Duration>,
    /// 95th percentile.
    pub p95: Option<Duration>,
    /// 99th percentile.
    pub p99: Option<Duration>,
    /// Facts as JSON.
    pub facts: &'r str,
}

type RollupColumn = Column<for<'a, 'r> fn(&'a RollupRow<'r>) -> Option<ColumnValue<'a>>>;

static COLUMNS: &[RollupColumn] = &[
    RollupColumn {
        name: "start",
        holds: ColumnType::Timestamp,
        get: |row| timestamp(u64::try_from(row.start).ok()?.checked_mul(1_000_000_000)?),
        doc: "start of the period",
    },
    RollupColumn {
        name: "step",
        holds: ColumnType::Text,
        get: |row| text(row.step),
        doc: "`minute`, `hour`, `day`",
    },
    RollupColumn {
        name: "target",
        holds: ColumnType::Text,
        get: |row| text(row.target),
        doc: "its name",
    },
    RollupColumn {
        name: "variant",
        holds: ColumnType::Text,
        get: |row| text(row.variant),
        doc: "the variant, as axes are written: `tls=1.2 family=6`; empty: as negotiated",
    },
    RollupColumn {
        name: "variant_label",
        holds: ColumnType::Text,
        get: |row| text(row.variant_label),
        doc: "the same for people: `TLS 1.2, IPv6`",
    },
    RollupColumn {
        name: "place",
        holds: ColumnType::Text,
        get: |row| text(row.place),
        doc: "name of the vantage point, or empty",
    },
    RollupColumn {
        name: "tags",
        holds: ColumnType::Text,
        get: |row| text(row.tags),
        doc: "a JSON object",
    },
    RollupColumn {
        name: "samples",
        holds: ColumnType::Integer,
        get: |row| integer(row.samples),
        doc: "all that began in the period",
    },
    RollupColumn {
        name: "failures",
        holds: ColumnType::Integer,
        get: |row| integer(row.failures),
        doc: "failed samples",
    },
    RollupColumn {
        name: "failures_by_type",
        holds: ColumnType::Text,
        get: |row| text(row.failures_by_type),
        doc: "by [type](#types-of-failures), a JSON object",
    },
    RollupColumn {
        name: "unverified",
        holds: ColumnType::Integer,
        get: |row| integer(row.unproven),
        doc: "completed samples other than asked for",
    },
    RollupColumn {
        name: "metric",
        holds: ColumnType::Text,
        get: |row| text(row.metric?),
        doc: "of a [rollup](monitor.md#rollups): `total`, `part.server`, `rtt`, …; empty in the one row of a period without times",
    },
    RollupColumn {
        name: "count",
        holds: ColumnType::Integer,
        get: |row| integer(row.count),
        doc: "samples with this metric; the quantiles are theirs",
    },
    RollupColumn {
        name: "median",
        holds: ColumnType::Time,
        get: |row| time(row.median?),
        doc: "of the [histogram](statistics.md#histograms)",
    },
    RollupColumn { name: "p90", holds: ColumnType::Time, get: |row| time(row.p90?), doc: "" },
    RollupColumn { name: "p95", holds: ColumnType::Time, get: |row| time(row.p95?), doc: "" },
    RollupColumn { name: "p99", holds: ColumnType::Time, get: |row| time(row.p99?), doc: "" },
    RollupColumn {
        name: "facts",
        holds: ColumnType::Text,
        get: |row| text(row.facts),
        doc: "how many successful samples had each value of each fact, a JSON object of objects",
    },
];

/// Writes rows as they arrive.
pub struct RollupWriter<W: Write> {
    out: W,
    as_json: bool,
    line: Vec<u8>,
}

impl<W: Write> RollupWriter<W> {
    /// Creates a CSV writer and writes the header to `out`.
    ///
    /// # Errors
    /// Returns errors from writing to `out`.
    pub fn csv(mut out: W) -> io::Result<Self> {
        let mut line = Vec::new();
        let names = COLUMNS.iter().map(|column| column.holds.csv_heading(column.name));
        delimited::header(&mut line, names);
        out.write_all(&line)?;
        Ok(Self { out, as_json: false, line })
    }

    /// Creates a writer of one JSON object per line.
    pub const fn ndjson(out: W) -> Self {
        Self { out, as_json: true, line: Vec::new() }
    }

    /// Writes `row`.
    ///
    /// # Errors
    /// Returns errors from writing to the sink.
    pub fn row(&mut self, row: &RollupRow<'_>) -> io::Result<()> {
        self.line.clear();
        if self.as_json {
            let object: Map<String, Value> =
                COLUMNS.iter().filter_map(|c| member(c, row)).collect();
            serde_json::to_writer(&mut self.line, &object)?;
            self.line.push(b'\n');
        } else {
            let values = COLUMNS.iter().map(|column| (column.get)(row));
            delimited::row(&mut self.line, values);
        }
        self.out.write_all(&self.line)
    }

    /// Writes buffered data.
    ///
    /// # Errors
    /// Returns errors from writing to the sink.
    pub fn finish(mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// A column's member of a line's object; `None` if its value is unknown.
fn member(column: &RollupColumn, row: &RollupRow<'_>) -> Option<(String, Value)> {
    let value = match (column.get)(row)? {
        ColumnValue::Integer(number) => number.into(),
        ColumnValue::Number(number) => number.into(),
        ColumnValue::Boolean(is_so) => is_so.into(),
        ColumnValue::Text(text) if OBJECTS.contains(&column.name) => {
            serde_json::from_str(&text).ok()?
        }
        ColumnValue::Text(text) => text.into_owned().into(),
        ColumnValue::Time(ns) => u64::try_from(ns).ok()?.into(),
        ColumnValue::Timestamp(ns) => rfc3339_micros(u64::try_from(ns).ok()?)?.into(),
    };
    Some((column.holds.parquet_heading(column.name), value))
}

#[cfg(test)]
mod tests {
    use super::super::columns::described;
    use super::*;

    fn row(metric: Option<&'static str>) -> RollupRow<'static> {
        let median = metric.map(|_| Duration::from_nanos(1_234_500));
        RollupRow {
            start: 1_795_392_000,
            step: "hour",
            target: "a, b",
            variant: "tls=1.3",
            variant_label: "TLS 1.3",
            place: "",
            tags: r#"{"tier":"1"}"#,
            samples: 60,
            failures: 1,
            failures_by_type: r#"{"tcp.refused":1}"#,
            unproven: 0,
            metric,
            count: 59,
            median,
            p90: None,
            p95: None,
            p99: None,
            facts: r#"{"tls.version":{"TLSv1.3":59}}"#,
        }
    }

    #[test]
    fn a_row_is_a_line_in_both_forms() {
        let mut out = Vec::new();
        let mut writer = RollupWriter::csv(&mut out).unwrap();
        writer.row(&row(Some("total"))).unwrap();
        writer.row(&row(None)).unwrap();
        writer.finish().unwrap();
        let rows: Vec<_> =
            csv::Reader::from_reader(&out[..]).records().map(Result::unwrap).collect();
        let field = |row: usize, name: &str| {
            let place = COLUMNS.iter().position(|column| column.name == name).unwrap();
            rows[row][place].to_owned()
        };
        assert_eq!(field(0, "start"), "2026-11-23T00:00:00.000000Z");
        assert_eq!((field(0, "target").as_str(), field(0, "median").as_str()), ("a, b", "1234.5"));
        assert_eq!(field(0, "failures_by_type"), r#"{"tcp.refused":1}"#);
        assert_eq!((field(1, "metric"), field(1, "median")), (String::new(), String::new()));
        let mut out = Vec::new();
        let mut writer = RollupWriter::ndjson(&mut out);
        writer.row(&row(None)).unwrap();
        writer.row(&row(Some("total"))).unwrap();
        writer.finish().unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((lines[0].get("metric"), lines[0].get("median_ns")), (None, None));
        assert_eq!(lines[1]["median_ns"], 1_234_500);
        assert_eq!(lines[1]["facts"]["tls.version"]["TLSv1.3"], 59);
        assert_eq!(lines[1]["start"], "2026-11-23T00:00:00.000000Z");
    }

    #[test]
    fn columns_are_documented() {
        let rows: Vec<String> = COLUMNS
            .iter()
            .map(|column| {
                let names = [
                    format!("`{}`", column.holds.csv_heading(column.name)),
                    format!("`{}`", column.holds.parquet_heading(column.name)),
                ];
                described::row(&names, column.holds, column.doc)
            })
            .collect();
        described::assert_documented("### Rollups: `monitor export`", &rows);
    }
}
