//! Predictions as a table: one line per way, with a bar of its phases.

use std::time::Duration;

use firstbyte_core::run::{Metric, Metrics};
use firstbyte_core::split::{self, Split};
use firstbyte_core::stats::percentile;
use firstbyte_core::timeline::Sample;

use super::style::{Ink, Style};
use super::units::{Scale, grouped};

/// A way, and its predicted times.
#[derive(Clone, Debug)]
pub struct Predicted {
    /// Label of the way.
    pub label: String,
    /// The connection without losses, including all requests if there are several.
    pub sample: Sample,
    /// The prediction with packet loss, if there is any.
    pub lossy: Option<Lossy>,
}

/// Many connections, each with different losses.
#[derive(Clone, Debug, Default)]
pub struct Lossy {
    /// Times to the first byte of the successful connections: sorted, nanoseconds.
    pub first_byte: Vec<u64>,
    /// Times to the last byte.
    pub total: Vec<u64>,
    /// Number of failed connections.
    pub failed: u64,
}

/// The phases of a bar, with their glyphs with and without colours.
const PHASES: [(Metric, char, char, Ink); 6] = [
    (Metric::Resolve, '░', 'd', Ink::Resolver),
    (Metric::Connect, '▒', 'c', Ink::Network),
    (Metric::Tls, '▓', 's', Ink::Client),
    (Metric::Quic, '▓', 's', Ink::Client),
    (Metric::Wait, '█', 'w', Ink::Server),
    (Metric::Receive, '▄', 'r', Ink::Transfer),
];
/// The time after the first of several responses is complete.
const OTHERS: (char, char, Ink) = ('░', 'o', Ink::Faint);
const HEADINGS: [&str; 5] = ["set-up", "first byte", "total", "vs row 1", "trips"];

/// The table. The other ways are compared with the first.
pub fn table(ways: &[Predicted], style: &Style) -> String {
    let totals = ways.iter().filter_map(|way| time(way, Metric::Total));
    let scale = Scale::for_largest(totals.max().unwrap_or_default());
    let rows: Vec<[String; 5]> = ways.iter().map(|way| figures(way, &ways[0], scale)).collect();
    let label = ways.iter().map(|way| way.label.chars().count()).max().unwrap_or(0);
    let widths: [usize; 5] = std::array::from_fn(|column| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([HEADINGS[column].chars().count()]).max().unwrap_or(0)
    });
    let used = label + widths.iter().map(|width| width + 2).sum::<usize>() + 2;
    let bar = style.columns().saturating_sub(used);
    let longest = ways.iter().map(without_losses).max();
    let mut out = String::new();
    let unit = format!("{:label$}", scale.name(style));
    out += &style.paint(Ink::Faint, &(unit + &cells(HEADINGS.map(str::to_owned), widths)));
    out.push('\n');
    for (way, row) in ways.iter().zip(rows) {
        let mut line = format!("{:label$}{}", way.label, cells(row, widths));
        if bar >= 8 {
            line += "  ";
            line += &style.cells(&phases(way, longest.unwrap_or_default(), bar, style));
        }
        out += line.trim_end();
        out.push('\n');
    }
    out += &legend(ways, bar >= 8, style);
    out
}

fn cells(row: [String; 5], widths: [usize; 5]) -> String {
    row.iter().zip(widths).map(|(cell, width)| format!("  {cell:>width$}")).collect()
}

/// A time of a way; the median if packets get lost.
fn time(way: &Predicted, metric: Metric) -> Option<Duration> {
    let lossy = way.lossy.as_ref().and_then(|lossy| match metric {
        Metric::Ttfb => Some(&lossy.first_byte),
        Metric::Total => Some(&lossy.total),
        _ => None,
    });
    let ns = match lossy {
        Some(sorted) => percentile(sorted, 50),
        None => Metrics::from_sample(&way.sample).get(metric),
    };
    ns.map(Duration::from_nanos)
}

fn figures(way: &Predicted, base: &Predicted, scale: Scale) -> [String; 5] {
    let figure = |metric| time(way, metric).map_or(String::new(), |d| scale.figure(scale.steps(d)));
    let difference = match (time(way, Metric::Total), time(base, Metric::Total)) {
        (Some(own), Some(other)) if !std::ptr::eq(way, base) => {
            let sign = if own < other { "-" } else { "+" };
            format!("{sign}{}", scale.figure(scale.steps(own.abs_diff(other))))
        }
        _ => String::new(),
    };
    let trips = Split::attribute(&way.sample.connection).round_trips.to_string();
    [figure(Metric::Setup), figure(Metric::Ttfb), figure(Metric::Total), difference, trips]
}

/// The total without losses.
fn without_losses(way: &Predicted) -> Duration {
    let total = Metrics::from_sample(&way.sample).get(Metric::Total);
    total.map_or_else(|| split::total(&way.sample.connection), Duration::from_nanos)
}

/// A bar whose length is the way's time.
fn phases(way: &Predicted, longest: Duration, width: usize, style: &Style) -> Vec<(char, Ink)> {
    let metrics = Metrics::from_sample(&way.sample);
    let mut bar = Vec::new();
    let mut until = 0.0;
    for (metric, unicode, ascii, ink) in PHASES {
        let Some(ns) = metrics.get(metric) else { continue };
        until += ns as f64;
        let end = until / longest.as_nanos().max(1) as f64 * width as f64;
        while (bar.len() as f64) < end.round().min(width as f64) {
            bar.push((style.glyph(unicode, ascii), ink));
        }
    }
    if way.sample.requests.is_some()
        && let Some(total) = metrics.get(Metric::Total)
    {
        let end = total as f64 / longest.as_nanos().max(1) as f64 * width as f64;
        let (unicode, ascii, ink) = OTHERS;
        while (bar.len() as f64) < end.round().min(width as f64) {
            bar.push((style.glyph(unicode, ascii), ink));
        }
    }
    bar
}

/// The legend of the bars' glyphs (if `bars` are shown), and notes on the figures.
fn legend(ways: &[Predicted], bars: bool, style: &Style) -> String {
    let has =
        |metric| ways.iter().any(|way| Metrics::from_sample(&way.sample).get(metric) > Some(0));
    let words = [
        (Metric::Resolve, 0, "name"),
        (Metric::Connect, 1, "TCP"),
        (Metric::Tls, 2, "TLS, QUIC"),
        (Metric::Wait, 4, "wait"),
        (Metric::Receive, 5, "receive"),
    ];
    let mut entries: Vec<String> = words
        .iter()
        .filter(|(metric, ..)| has(*metric) || (*metric == Metric::Tls && has(Metric::Quic)))
        .map(|(_, index, word)| {
            let (_, unicode, ascii, ink) = PHASES[*index];
            format!("{} {word}", style.paint(ink, &style.glyph(unicode, ascii).to_string()))
        })
        .collect();
    let asked = ways.iter().filter_map(|way| way.sample.requests.as_ref()).next();
    if asked.is_some() {
        let (unicode, ascii, ink) = OTHERS;
        let glyph = style.paint(ink, &style.glyph(unicode, ascii).to_string());
        entries.push(format!("{glyph} other requests"));
    }
    let mut text = match bars {
        true => format!("\n{}\n", entries.join("  ")),
        false => "\n".into(),
    };
    if let Some(requests) = asked {
        text +=
            &format!("total: all {} requests; other columns: the first request\n", requests.asked);
    }
    if ways.iter().any(|way| way.lossy.is_some()) {
        text += "first byte and total: medians with the requested loss; set-up and bars: without \
             loss\n";
    }
    for way in ways {
        if let Some(lossy) = way.lossy.as_ref().filter(|lossy| lossy.failed > 0) {
            let played = lossy.failed + lossy.total.len() as u64;
            text += &format!(
                "failed: {} of {}, {}\n",
                grouped(lossy.failed),
                grouped(played),
                way.label
            );
        }
    }
    text
}

/// Predicted times of the ways over one access network.
#[derive(Clone, Debug)]
pub struct AccessRow {
    /// The access network.
    pub title: &'static str,
    /// Its round trip plus that of the path behind it.
    pub round_trip: Duration,
    /// Every way, in the same order in all rows.
    pub predicted: Vec<Predicted>,
}

/// Wide enough for most names of ways, wrapped.
const LEAST_COLUMN: usize = 10;

/// Totals, with one row per access network and one column per way; with losses also the 95th percentile. Ways that
/// do not fit side by side are listed below.
pub fn access_table(rows: &[AccessRow], style: &Style) -> String {
    let mut out = String::new();
    let ways = rows.first().map_or(&[][..], |row| &row.predicted);
    let title = rows.iter().map(|row| row.title.chars().count()).max().unwrap_or(0);
    let room = style.columns().saturating_sub(title + 7);
    let column = column(ways);
    let beside = (room / (column + 1)).max(1);
    let median = |way: &Predicted| time(way, Metric::Total);
    let late = |way: &Predicted| {
        let sorted = &way.lossy.as_ref()?.total;
        percentile(sorted, 95).map(Duration::from_nanos)
    };
    let block = |out: &mut String, what: &str, value: &dyn Fn(&Predicted) -> Option<Duration>| {
        for first in (0..ways.len()).step_by(beside) {
            let shown = first..(first + beside).min(ways.len());
            *out += &heads(what, &ways[shown.clone()], title, column, style);
            for row in rows {
                let rtt = format!("{:.0}", row.round_trip.as_secs_f64() * 1e3);
                let mut line = format!("{:title$}{rtt:>7}", row.title);
                for way in &row.predicted[shown.clone()] {
                    let figure = value(way)
                        .map_or("–".into(), |time| format!("{:.0}", time.as_secs_f64() * 1e3));
                    line += &format!(" {figure:>column$}");
                }
                *out += &format!("{}\n", style.plain(line.trim_end()));
            }
            out.push('\n');
        }
    };
    block(&mut out, "total, ms", &median);
    if rows.iter().flat_map(|row| &row.predicted).any(|way| way.lossy.is_some()) {
        block(&mut out, "p95, ms", &late);
        out += "With loss: medians, and the time that one in twenty exceeds.\n";
    }
    let failed: u64 = rows
        .iter()
        .flat_map(|row| &row.predicted)
        .filter_map(|way| way.lossy.as_ref())
        .map(|lossy| lossy.failed)
        .sum();
    if failed > 0 {
        out += &format!("failed: {}\n", grouped(failed));
    }
    out
}

/// Names of ways above their columns, one or two words per line, aligned at the bottom.
fn heads(what: &str, ways: &[Predicted], title: usize, column: usize, style: &Style) -> String {
    let names: Vec<Vec<String>> = ways.iter().map(|way| in_lines(&way.label, column)).collect();
    let high = names.iter().map(Vec::len).max().unwrap_or(1);
    let mut out = String::new();
    for line in 0..high {
        let last = line + 1 == high;
        let mut text = match last {
            true => format!("{what:title$}{:>7}", "rtt"),
            false => " ".repeat(title + 7),
        };
        for name in &names {
            let at = (line + name.len()).checked_sub(high);
            let word = at.and_then(|at| name.get(at)).map_or("", String::as_str);
            text += &format!(" {word:>column$}");
        }
        out += &format!("{}\n", style.paint(Ink::Faint, text.trim_end()));
    }
    out
}

fn words(label: &str) -> impl Iterator<Item = &str> {
    label.split([' ', ',']).filter(|word| !word.is_empty())
}

/// As wide as the longest word in the names of ways.
fn column(ways: &[Predicted]) -> usize {
    let all = ways.iter().flat_map(|way| words(&way.label));
    all.map(|word| word.chars().count()).fold(LEAST_COLUMN, usize::max)
}

fn in_lines(label: &str, column: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words(label) {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= column => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
