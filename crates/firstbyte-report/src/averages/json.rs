//! One JSON object, as described in `docs/formats.md`.

use firstbyte_core::stats::{ChangeForm, Pace};
use serde::Serialize;

use super::{AveragesView, caveats, date};

#[derive(Serialize)]
struct Record<'a> {
    format: &'static str,
    version: u32,
    product: &'static str,
    column: &'a str,
    first: String,
    last: String,
    days: usize,
    days_without_average: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    samples: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    page_views: Option<u64>,
    searched: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    changes: Option<Vec<Change>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    spread_ns: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_day_correlation: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    would_be_seen_ns: Option<i64>,
    outliers: Vec<String>,
    daily: Vec<Day>,
    hidden: Vec<String>,
}

#[derive(Serialize)]
struct Change {
    pace: &'static str,
    at: String,
    until: String,
    at_between: [String; 2],
    longest_days: i64,
    before_ns: i64,
    after_ns: i64,
    difference_ns: i64,
    interval_ns: [i64; 2],
    #[serde(skip_serializing_if = "Option::is_none")]
    visits_ratio: Option<f64>,
}

#[derive(Serialize)]
struct Day {
    date: String,
    average_ns: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    samples: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    page_views: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    level_ns: Option<i64>,
}

fn ns(value: f64) -> i64 {
    value.round() as i64
}

fn thousandths(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

/// The days and the changes found in them.
///
/// # Errors
/// Never fails in practice: it writes to memory only.
pub fn json(view: &AveragesView<'_>) -> serde_json::Result<String> {
    let (averages, found) = (view.averages, view.found);
    let [first, last] = averages.span();
    let changes = found.map(|found| {
        let change = |change: &firstbyte_core::stats::LevelChange| Change {
            pace: match change.pace {
                Pace::AtOnce => "at once",
                Pace::Slow => "drift",
                Pace::Unclear => "unclear",
            },
            at: date(change.form.begins()),
            until: date(match change.form {
                ChangeForm::Step { at } => at,
                ChangeForm::Ramp { until, .. } => until,
            }),
            at_between: change.between.map(date),
            longest_days: change.longest,
            before_ns: ns(change.before),
            after_ns: ns(change.after),
            difference_ns: ns(change.difference),
            interval_ns: [ns(change.interval.low), ns(change.interval.high)],
            visits_ratio: averages.visits_ratio(change.form).map(thousandths),
        };
        found.changes.iter().map(change).collect()
    });
    let outliers = found.map_or(&[][..], |found| &found.outliers);
    let outliers = outliers.iter().filter_map(|index| averages.days.get(*index));
    let daily = averages.days.iter().enumerate().map(|(index, day)| Day {
        date: date(day.day),
        average_ns: ns(day.average_ns),
        samples: day.samples,
        page_views: day.page_views,
        level_ns: found.and_then(|found| found.levels.get(index)).copied().map(ns),
    });
    serde_json::to_string(&Record {
        format: "firstbyte/averages",
        version: 1,
        product: averages.product.name(),
        column: &averages.header,
        first: date(first),
        last: date(last),
        days: averages.days.len(),
        days_without_average: averages.missing_days(),
        samples: averages.samples(),
        page_views: averages.page_views(),
        searched: found.is_some(),
        changes,
        spread_ns: found.map(|found| ns(found.spread)),
        next_day_correlation: found.map(|found| thousandths(found.next_slot)),
        would_be_seen_ns: found.map(|found| ns(found.would_be_seen)),
        outliers: outliers.map(|day| date(day.day)).collect(),
        daily: daily.collect(),
        hidden: caveats(view),
    })
}
