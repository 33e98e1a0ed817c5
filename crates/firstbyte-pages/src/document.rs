//! The stored form of a page's possible savings: derived from a page load and stored with it.

use std::io::Write;

use serde::Serialize;

use crate::page_savings::{Change, PageSavings};
use firstbyte_core::document::Interner;
use firstbyte_core::document::StoredNavigation;
use firstbyte_core::timeline::{Navigation, Offset};

/// A page load, and the savings derived from it.
#[derive(Serialize)]
struct PageLine<'a> {
    #[serde(flatten)]
    page: StoredNavigation,
    #[serde(skip_serializing_if = "Option::is_none")]
    savings: Option<SavingsRecord<'a>>,
}

#[derive(Serialize)]
struct SavingsRecord<'a> {
    first_byte_ns: i64,
    load_ns: i64,
    offered: Vec<SavingRecord<'a>>,
    not_offered: Vec<NotOfferedRecord<'a>>,
}

#[derive(Serialize)]
struct ChangeRecord<'a> {
    change: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    authority: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    round_trip_ns: Option<u64>,
}

#[derive(Serialize)]
struct SavingRecord<'a> {
    #[serde(flatten)]
    change: ChangeRecord<'a>,
    saved_ns: i64,
    first_byte_ns: i64,
    load_ns: i64,
    load_earliest_ns: i64,
    load_latest_ns: i64,
}

#[derive(Serialize)]
struct NotOfferedRecord<'a> {
    #[serde(flatten)]
    change: ChangeRecord<'a>,
    why: String,
}

/// Appends the line of `page`, with the savings of possible changes, to `out`.
///
/// # Errors
/// Never in practice: the model has a stored form for everything.
pub fn page_line(
    page: &Navigation,
    savings: Option<&PageSavings>,
    out: &mut Vec<u8>,
) -> std::io::Result<()> {
    let page = StoredNavigation::from_navigation(page, &mut Interner::sharing_nothing());
    let savings = savings.map(SavingsRecord::from_savings);
    serde_json::to_writer(&mut *out, &PageLine { page, savings })?;
    out.write_all(b"\n")
}

impl<'a> SavingsRecord<'a> {
    fn from_savings(savings: &'a PageSavings) -> Self {
        let ns = Offset::as_nanos;
        let offered = savings.offered.iter().map(|saving| SavingRecord {
            change: ChangeRecord::from_change(&saving.change),
            saved_ns: saving.saved_ns(savings.load),
            first_byte_ns: ns(saving.first_byte),
            load_ns: ns(saving.load),
            load_earliest_ns: ns(saving.load_between.0),
            load_latest_ns: ns(saving.load_between.1),
        });
        let not_offered = savings.not_offered.iter().map(|(change, why)| NotOfferedRecord {
            change: ChangeRecord::from_change(change),
            why: why.to_string(),
        });
        Self {
            first_byte_ns: ns(savings.first_byte),
            load_ns: ns(savings.load),
            offered: offered.collect(),
            not_offered: not_offered.collect(),
        }
    }
}

impl<'a> ChangeRecord<'a> {
    fn from_change(change: &'a Change) -> Self {
        let round_trip_ns = match change {
            Change::NearerEdge { round_trip, .. } => u64::try_from(round_trip.as_nanos()).ok(),
            _ => None,
        };
        Self { change: change.name(), authority: change.authority(), round_trip_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page_savings::EDGE;
    use firstbyte_core::document::navigation;

    #[test]
    fn the_line_is_a_page_load_with_its_savings_beside() {
        let stored =
            include_str!("../../firstbyte-core/fixtures/navigation/chromium.ndjson").trim_end();
        let page = navigation(stored.as_bytes()).unwrap();
        let savings = PageSavings::from_navigation(&page, EDGE).unwrap();
        let mut line = Vec::new();
        page_line(&page, Some(&savings), &mut line).unwrap();
        // A reader of plain page loads can read this line too.
        assert_eq!(navigation(&line).unwrap(), page);
        let value: serde_json::Value = serde_json::from_slice(&line).unwrap();
        assert_eq!(value["savings"]["load_ns"], value["loaded"][0]);
        let offered = value["savings"]["offered"].as_array().unwrap();
        assert_eq!(offered.len(), savings.offered.len());
        let edge = offered.iter().find(|saving| saving["change"] == "nearer-edge").unwrap();
        assert_eq!(edge["round_trip_ns"], 10_000_000);
        assert_eq!(edge["authority"], "shop.test:443");
    }
}
