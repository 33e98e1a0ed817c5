//! An audience before and after a change: a table, and one JSON object.

use std::time::Duration;

use firstbyte_core::stats::percentile;
use serde::Serialize;

use super::chart;
use super::style::{Ink, Style};
use super::svg::escape;
use super::units::{Scale, grouped};
use crate::warning::Warning;
use firstbyte_predict::audience::{Played, mean};

/// The percentiles shown.
const PERCENTILES: [usize; 7] = [10, 25, 50, 75, 90, 95, 99];

/// The table: mean and percentiles before and after, and how many visitors gained. `labels` name the two ways.
pub fn table(played: &Played, labels: [&str; 2], style: &Style) -> String {
    let mut out = String::new();
    let largest = played.total.iter().filter_map(|sorted| percentile(sorted, 99)).max();
    let scale = Scale::for_largest(Duration::from_nanos(largest.unwrap_or(0)));
    for (title, times) in [("first byte", &played.first_byte), ("total", &played.total)] {
        let label = labels.map(|label| style.safe(label));
        let width = label.each_ref().map(|label| label.chars().count().max(10));
        let heading = format!(
            "{:<10}  {:>w0$}  {:>w1$}  {:>9}  {:>7}",
            format!("{title}, {}", scale.name(style)),
            label[0],
            label[1],
            "change",
            "",
            w0 = width[0],
            w1 = width[1],
        );
        out += &style.paint(Ink::Faint, heading.trim_end());
        out.push('\n');
        let mut line = |name: &str, values: [Option<f64>; 2]| {
            let [Some(before), Some(after)] = values else { return };
            let change = after - before;
            let share = if before > 0.0 { change / before * 100.0 } else { 0.0 };
            let indent = format!("{title}, {}", scale.name(style)).chars().count().max(10);
            out += &format!(
                "{name:<indent$}  {:>w0$}  {:>w1$}  {:>9}  {share:>+6.1} %\n",
                figure(before, scale),
                figure(after, scale),
                signed(change, scale),
                w0 = width[0],
                w1 = width[1],
            );
        };
        line("average", [mean(&times[0]), mean(&times[1])]);
        for percent in PERCENTILES {
            let at = |sorted: &[u64]| percentile(sorted, percent);
            let values = [at(&times[0]), at(&times[1])].map(|ns| ns.map(|ns| ns as f64));
            line(&format!("p{percent}"), values);
        }
        out.push('\n');
    }
    let of = |n: u64| n as f64 / played.visitors.max(1) as f64 * 100.0;
    out += &format!(
        "{} visitors: {:.1} % faster, {:.1} % slower, the others equal within 0.1 ms\n",
        grouped(played.visitors),
        of(played.shorter),
        of(played.longer),
    );
    if played.failed != [0, 0] {
        let [before, after] = played.failed.map(grouped);
        out += &format!("failed: {before} before, {after} after\n");
    }
    out
}

fn figure(ns: f64, scale: Scale) -> String {
    scale.figure(scale.steps(Duration::from_nanos(ns.round() as u64)))
}

fn signed(ns: f64, scale: Scale) -> String {
    let sign = if ns < 0.0 { "-" } else { "+" };
    format!("{sign}{}", figure(ns.abs(), scale))
}

/// A page with the chart and the table. It loads nothing and runs no script.
pub fn page(played: &Played, labels: [&str; 2]) -> String {
    let style = Style { color: false, width: 100, unicode: true };
    let title = format!("{} → {}", escape(labels[0]), escape(labels[1]));
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" \
         content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n\
         <style>body{{max-width:60rem;margin:auto;padding:1rem}}svg{{width:100%;height:auto}}\
         pre{{overflow-x:auto}}</style>\n</head>\n<body>\n{}\n<pre>{}</pre>\n</body>\n</html>\n",
        chart::audience(played, labels).svg(),
        escape(&table(played, labels, &style)),
    )
}

#[derive(Serialize)]
struct Record<'a> {
    format: &'static str,
    version: u32,
    visitors: u64,
    shorter: u64,
    longer: u64,
    before: Side<'a>,
    after: Side<'a>,
    warnings: &'a [Warning],
}

#[derive(Serialize)]
struct Side<'a> {
    variant: &'a str,
    failed: u64,
    first_byte: Distribution,
    total: Distribution,
}

#[derive(Serialize)]
struct Distribution {
    mean_ns: Option<u64>,
    /// The percentiles from 0 (the minimum) to 100.
    percentiles_ns: Vec<u64>,
}

impl Distribution {
    fn from_sorted(sorted: &[u64]) -> Self {
        let percentiles = (0..=100).filter_map(|p| percentile(sorted, p));
        Self {
            mean_ns: mean(sorted).map(|ns| ns.round() as u64),
            percentiles_ns: percentiles.collect(),
        }
    }
}

/// One JSON object, as described in `docs/formats.md`.
///
/// # Errors
/// Never fails in practice: it writes to memory only.
pub fn json(
    played: &Played,
    labels: [&str; 2],
    warnings: &[Warning],
) -> serde_json::Result<String> {
    let side = |side: usize| Side {
        variant: labels[side],
        failed: played.failed[side],
        first_byte: Distribution::from_sorted(&played.first_byte[side]),
        total: Distribution::from_sorted(&played.total[side]),
    };
    serde_json::to_string(&Record {
        format: "firstbyte/audience",
        version: 1,
        visitors: played.visitors,
        shorter: played.shorter,
        longer: played.longer,
        before: side(0),
        after: side(1),
        warnings,
    })
}
