use std::collections::BTreeSet;

use proptest::prelude::*;

use super::super::described::{assert_documented, row};
use super::*;
use crate::fixtures;

#[test]
fn the_table_in_the_documents_is_this_one() {
    let rows: Vec<String> = COLUMNS
        .iter()
        .map(|SampleColumn { column, csv, parquet }| {
            let quoted = |name: String| format!("`{name}`");
            let csv = match csv {
                InCsv::Nowhere => String::new(),
                InCsv::OfRun => quoted(column.holds.csv_heading(column.name)),
                InCsv::At(_, name) => quoted(column.holds.csv_heading(name)),
            };
            let parquet = parquet.then(|| quoted(column.holds.parquet_heading(column.name)));
            row(&[csv, parquet.unwrap_or_default()], column.holds, column.doc)
        })
        .collect();
    assert_documented("### Columns of samples", &rows);
}

#[test]
fn places_in_csv_are_taken_once_and_without_a_gap() {
    let mut places: Vec<usize> = COLUMNS
        .iter()
        .filter_map(|column| match column.csv {
            InCsv::At(place, _) => Some(place),
            InCsv::Nowhere | InCsv::OfRun => None,
        })
        .collect();
    places.sort_unstable();
    assert!(places.iter().copied().eq(0..places.len()), "{places:?}");
}

#[test]
fn names_are_unique() {
    let names = |fields: Vec<SampleField>| {
        let all: Vec<_> = fields.iter().map(|field| field.heading().0.into_owned()).collect();
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len(), "{all:?}");
    };
    // Axes may have the same names as columns.
    let axes = ["tls", "resolve", "variant"].map(String::from);
    names(csv_fields(Some(&axes)));
    names(parquet_fields(&axes));
}

#[test]
fn every_metric_mark_and_part_has_a_column() {
    let has = |name: String| {
        assert!(COLUMNS.iter().any(|c| c.column.name == name && c.parquet), "{name}");
    };
    Metric::ALL.into_iter().for_each(|metric| has(metric.name().into()));
    Mark::ALL.into_iter().for_each(|mark| has(format!("mark_{}", mark.name())));
    let split = Split::attribute(&Connection::default());
    split.parts.named().into_iter().for_each(|(part, _)| has(format!("part_{part}")));
    for phase in PhaseName::ALL {
        let name = phase.name();
        let is = |c: &SampleColumn| matches!(c.csv, InCsv::At(_, csv) if csv == name);
        assert!(COLUMNS.iter().any(is), "{name}");
    }
}

#[test]
fn values_are_what_their_columns_hold() {
    let others = [fixtures::every_fact(), fixtures::proxied()];
    for sample in fixtures::all().into_iter().chain(others) {
        let row = SampleRow::new(&sample);
        for SampleColumn { column, .. } in COLUMNS {
            let Some(value) = (column.get)(&row) else { continue };
            let is = match value {
                ColumnValue::Integer(_) => ColumnType::Integer,
                ColumnValue::Number(_) => ColumnType::Number,
                ColumnValue::Text(_) => ColumnType::Text,
                ColumnValue::Boolean(_) => ColumnType::Boolean,
                ColumnValue::Time(_) => ColumnType::Time,
                ColumnValue::Timestamp(_) => ColumnType::Timestamp,
            };
            assert_eq!(is, column.holds, "{}", column.name);
        }
    }
}

proptest! {
    #[test]
    fn addresses_are_as_display_writes_them(ip: [u8; 4], port: u16, wide: [u8; 16]) {
        for of in [SocketAddr::from((ip, port)), SocketAddr::from((wide, port))] {
            prop_assert_eq!(address(of), text(of.to_string()));
        }
    }
}
