//! Columns: the definitions of the tables of samples and of captured connections.
//!
//! A table is a list of [`Column`]s: name, type, source of the values, and meaning. CSV, Parquet and the tables in
//! `docs/formats.md` are all made from it, so a column is defined once. An unknown value is absent: an empty field,
//! or null.

pub(super) mod delimited;
pub(super) mod sample;

use std::borrow::Cow;
use std::time::Duration;

use firstbyte_core::timeline::Offset;

/// Type of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ColumnType {
    Integer,
    Number,
    Text,
    Boolean,
    /// A duration, or a time since a connection's origin. Its unit is part of the heading.
    Time,
    /// A point in time since the Unix epoch.
    Timestamp,
}

impl ColumnType {
    /// Its name in documents.
    #[cfg(test)]
    const fn name(self) -> &'static str {
        match self {
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Text => "text",
            Self::Boolean => "boolean",
            Self::Time => "time",
            Self::Timestamp => "timestamp",
        }
    }

    /// The CSV heading of column `name`; times are in microseconds.
    pub(super) fn csv_heading(self, name: &str) -> String {
        if self == Self::Time { format!("{name}_us") } else { name.to_owned() }
    }

    /// The Parquet heading of column `name`; times are in nanoseconds.
    pub(super) fn parquet_heading(self, name: &str) -> String {
        if self == Self::Time { format!("{name}_ns") } else { name.to_owned() }
    }
}

/// A value of a column.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ColumnValue<'a> {
    Integer(i64),
    Number(f64),
    Text(Cow<'a, str>),
    Boolean(bool),
    /// Nanoseconds; wide enough for every [`Duration`].
    Time(i128),
    /// Nanoseconds since the Unix epoch.
    Timestamp(i64),
}

/// A column whose values a `Getter` takes from a row: `for<'a> fn(&'a ROW) -> Option<ColumnValue<'a>>`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column<Getter> {
    /// Name without the unit of times, which depends on the format.
    pub name: &'static str,
    pub holds: ColumnType,
    pub get: Getter,
    /// Description for `docs/formats.md`.
    #[cfg_attr(not(test), expect(dead_code, reason = "what documents are held against"))]
    pub doc: &'static str,
}

pub(super) fn integer<'a>(value: impl TryInto<i64>) -> Option<ColumnValue<'a>> {
    value.try_into().ok().map(ColumnValue::Integer)
}

pub(super) const fn number<'a>(value: f64) -> Option<ColumnValue<'a>> {
    Some(ColumnValue::Number(value))
}

pub(super) fn text<'a>(value: impl Into<Cow<'a, str>>) -> Option<ColumnValue<'a>> {
    Some(ColumnValue::Text(value.into()))
}

pub(super) const fn boolean<'a>(value: bool) -> Option<ColumnValue<'a>> {
    Some(ColumnValue::Boolean(value))
}

pub(super) const fn time<'a>(value: Duration) -> Option<ColumnValue<'a>> {
    // At most 2^64 seconds: less than 2^94 ns.
    Some(ColumnValue::Time(value.as_nanos() as i128))
}

pub(super) fn offset<'a>(value: Offset) -> Option<ColumnValue<'a>> {
    Some(ColumnValue::Time(i128::from(value.as_nanos())))
}

/// Nanoseconds since the Unix epoch.
pub(super) fn timestamp<'a>(unix_ns: impl TryInto<i64>) -> Option<ColumnValue<'a>> {
    unix_ns.try_into().ok().map(ColumnValue::Timestamp)
}

/// Nanoseconds as Parquet stores them; larger values saturate.
pub(super) fn nanoseconds(ns: i128) -> i64 {
    i64::try_from(ns).unwrap_or(if ns < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
pub(super) mod described {
    //! The tables of columns in `docs/formats.md`, generated from the tables in the code. With `UPDATE_DOCS=1` the
    //! tests write them, otherwise they compare.

    use std::fs;
    use std::sync::Mutex;

    use super::ColumnType;

    const FORMATS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/formats.md");
    /// Tests write one after the other.
    static WRITING: Mutex<()> = Mutex::new(());

    /// The document's lines, and the range of rows of the first table after `heading`.
    fn documented(heading: &str) -> (Vec<String>, std::ops::Range<usize>) {
        let text = fs::read_to_string(FORMATS).unwrap();
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let at = lines.iter().position(|line| line.starts_with(heading)).unwrap();
        let rule = lines[at..].iter().position(|line| line.starts_with("|---")).unwrap();
        let start = at + rule + 1;
        let rows = lines[start..].iter().take_while(|line| line.starts_with('|')).count();
        (lines, start..start + rows)
    }

    /// Fails if the first table after `heading` does not consist of `rows`.
    pub(crate) fn assert_documented(heading: &str, rows: &[String]) {
        let _one = WRITING.lock().unwrap();
        let (mut lines, table) = documented(heading);
        if std::env::var_os("UPDATE_DOCS").is_some() {
            lines.splice(table.clone(), rows.iter().cloned());
            fs::write(FORMATS, lines.join("\n") + "\n").unwrap();
            return;
        }
        assert!(
            lines[table] == *rows,
            "the table after {heading:?} in docs/formats.md is not made of the columns: UPDATE_DOCS=1 cargo test -p \
             firstbyte-report --lib writes it\n{}",
            rows.join("\n")
        );
    }

    pub(crate) fn row(cells: &[String], holds: ColumnType, doc: &str) -> String {
        format!("| {} | {} | {doc} |", cells.join(" | "), holds.name())
    }
}
