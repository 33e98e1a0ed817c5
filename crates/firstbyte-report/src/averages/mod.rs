//! Daily averages from analytics: when they changed, for the terminal and as one JSON object.
//!
//! Input: parsed days, and the changes found. Output: text. Every result states the limits of averages of samples.

mod chart;
mod json;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use firstbyte_core::stats::{FEWEST_SLOTS, LevelChange, Pace, SeriesChanges};
use firstbyte_sources::averages::{AveragedTime, AveragesProduct, DailyAverages, date_of_day};

use crate::style::{Ink, Style};
use crate::units::{count, grouped};

pub(crate) use chart::{range, without_season};
pub use json::json;

/// Days, and the changes found in them.
pub struct AveragesView<'a> {
    /// The days.
    pub averages: &'a DailyAverages,
    /// Absent if there are too few days, or if all have the same average.
    pub found: Option<&'a SeriesChanges>,
}

/// A day number as a date.
pub(crate) fn date(day: i64) -> String {
    let (year, month, day) = date_of_day(day);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Nanoseconds as milliseconds with one decimal.
pub(crate) fn ms(ns: f64) -> String {
    format!("{:.1}", ns / 1e6)
}

/// The same with its sign.
pub(crate) fn signed(ns: f64) -> String {
    let sign = if ns < 0.0 { "-" } else { "+" };
    format!("{sign}{}", ms(ns.abs()))
}

/// The text for a terminal.
pub fn table(view: &AveragesView<'_>, style: &Style) -> String {
    let mut out = String::new();
    for line in heading(view.averages) {
        out += &wrapped(&line, 0, style);
    }
    out.push('\n');
    let Some(found) = view.found else {
        out += &wrapped(&not_searched(view.averages), 0, style);
        out += &hidden(view, style);
        return out;
    };
    for sentence in sentences(view.averages, found) {
        out += &wrapped(&sentence, 0, style);
    }
    out.push('\n');
    out += &chart::chart(view.averages, found, style);
    out.push('\n');
    out += &notes(view.averages, found, style);
    out += &hidden(view, style);
    out
}

/// The days that were read.
fn heading(averages: &DailyAverages) -> Vec<String> {
    let [first, last] = averages.span();
    let mut lines = vec![format!(
        "Daily averages of {}, {} to {}",
        averages.time.name(),
        date(first),
        date(last)
    )];
    let mut read = count(averages.days.len() as u64, "day");
    let without = averages.missing_days();
    if without > 0 {
        let _ = write!(read, " ({} more without an average)", grouped(without));
    }
    match (averages.page_views(), averages.samples()) {
        (Some(views), Some(samples)) => {
            let share = samples as f64 / views.max(1) as f64 * 100.0;
            let _ = write!(
                read,
                ", {} page views, {} of them timed ({share:.1} %)",
                grouped(views),
                grouped(samples)
            );
        }
        (Some(views), None) => {
            let _ = write!(read, ", {} page views", grouped(views));
        }
        (None, Some(samples)) => {
            let _ = write!(read, ", {} timed", grouped(samples));
        }
        (None, None) => {}
    }
    lines.push(read);
    lines
}

fn not_searched(averages: &DailyAverages) -> String {
    if averages.days.len() < FEWEST_SLOTS {
        return format!(
            "Not searched for changes: fewer than {FEWEST_SLOTS} days. Weekday effects, chance and \
             slow variation cannot be told apart yet."
        );
    }
    "All days have the same average: there is no variation to judge.".into()
}

/// The changes found: a sentence or two for each.
pub(crate) fn sentences(averages: &DailyAverages, found: &SeriesChanges) -> Vec<String> {
    if found.changes.is_empty() {
        return vec![format!(
            "No change found. A change of {} ms or more in the middle of these days would have \
             been found nine times in ten; a smaller change may have been missed.",
            ms(found.would_be_seen)
        )];
    }
    found.changes.iter().flat_map(|change| sentence(averages, change)).collect()
}

fn sentence(averages: &DailyAverages, change: &LevelChange) -> Vec<String> {
    let [from, until] = change.between;
    let verb = if change.difference < 0.0 { "fell" } else { "rose" };
    let share = change.difference / change.before * 100.0;
    let size = format!(
        "from {} to {} ms: {} ms ({share:+.0} %), 95 % interval {} to {}",
        ms(change.before),
        ms(change.after),
        signed(change.difference),
        signed(change.interval.low),
        signed(change.interval.high)
    );
    let when = match (from == until, change.pace) {
        (_, Pace::Slow) => format!("between {} and {}", date(from), date(until)),
        (true, _) => format!("on {}", date(from)),
        (false, _) => {
            format!("on {} (95 %: {} to {})", date(change.form.begins()), date(from), date(until))
        }
    };
    let mut sentences = vec![match change.pace {
        Pace::AtOnce | Pace::Unclear => format!("The average {verb} {when}, {size}."),
        Pace::Slow => format!(
            "The average drifts: it {verb} slowly {when}, {size}. No single day \
                               stands out."
        ),
    }];
    match change.pace {
        Pace::AtOnce if change.longest > 1 => sentences.push(format!(
            "The change was sudden as far as daily values show: it took {} days at most.",
            change.longest
        )),
        Pace::AtOnce => sentences.push("The change was sudden.".into()),
        Pace::Unclear => sentences.push(format!(
            "Whether the change was sudden is unknown: a slope of up to {} days fits as well.",
            change.longest
        )),
        Pace::Slow => {}
    }
    if !change.interval.excludes_zero() {
        sentences.push("The interval includes zero: treat this change as a hint.".into());
    }
    if let Some(ratio) = averages.visits_ratio(change.form).filter(|r| !(0.8..=1.25).contains(r)) {
        sentences.push(format!(
            "Caution: the number of visits changed to {:.0} % of its earlier value at the same \
             time. The mix of visitors may have changed rather than how long they wait.",
            ratio * 100.0
        ));
    }
    sentences
}

/// How the days were adjusted before they were judged.
fn notes(averages: &DailyAverages, found: &SeriesChanges, style: &Style) -> String {
    let mut out = String::new();
    if let Some(line) = weekdays(found) {
        out += &wrapped(&line, 0, style);
    }
    let mut line = format!(
        "A day deviates from its level by {} ms by chance; {} of that deviation remains the next \
         day.",
        ms(found.spread),
        percent(found.next_slot)
    );
    if !found.outliers.is_empty() {
        let days = found.outliers.iter().filter_map(|index| averages.days.get(*index));
        let days: Vec<String> = days.take(4).map(|day| date(day.day)).collect();
        let more = found.outliers.len().saturating_sub(days.len());
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let _ = write!(line, " Outliers, counted with less weight: {}{more}.", days.join(", "));
    }
    out += &wrapped(&line, 0, style);
    out
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// Weekdays that deviate from the level, from [`SeriesChanges::season`], which begins on a Thursday.
fn weekdays(found: &SeriesChanges) -> Option<String> {
    const NAMES: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    // List the weekdays from Monday.
    let parts: Vec<String> = [4, 5, 6, 0, 1, 2, 3]
        .into_iter()
        .filter_map(|part: usize| {
            let apart = found.season.get(part).copied().flatten()?;
            Some(format!("{} {}", NAMES[part], signed(apart)))
        })
        .collect();
    (parts.len() == 7)
        .then(|| format!("Weekday effects that were subtracted, ms: {}.", parts.join(", ")))
}

/// Caveats about averages of samples that apply to this data.
pub(crate) fn caveats(view: &AveragesView<'_>) -> Vec<String> {
    let averages = view.averages;
    let mut lines = Vec::new();
    let share = averages.samples().zip(averages.page_views());
    if let Some((samples, views)) = share.filter(|(samples, views)| samples < views) {
        let share = samples as f64 / views as f64 * 100.0;
        lines.push(format!(
            "{share:.1} % of page views were timed. The product chooses which, and a day's average \
             is only as certain as its few samples."
        ));
    }
    lines.push(
        "A mean has no percentiles: a few visits that take seconds move it as much as many that \
         take 10 ms more. It does not show which visitors gained."
            .into(),
    );
    lines.push(
        "A mean depends on the mix of visits: a different share of mobile visits, countries or new \
         visitors changes it without anything becoming faster."
            .into(),
    );
    if matches!(averages.time, AveragedTime::Connection | AveragedTime::Network) {
        lines.push(
            "A reused connection counts as zero: more reuse lowers the mean, and a saved handshake \
             is spread over all page views."
                .into(),
        );
    }
    if !averages.unit_was_said {
        lines.push("The header names no unit: milliseconds were assumed.".into());
    }
    let step = averages.step_ns();
    let steps_matter = view.found.is_some_and(|found| step > found.spread / 2.0);
    if steps_matter {
        lines.push(format!(
            "Averages are written in steps of {} ms: changes of that size may come from rounding.",
            ms(step)
        ));
    }
    if averages.samples().is_none() {
        lines.push(
            match averages.page_views() {
                Some(_) => {
                    "The file does not say how many samples each day has: days are weighted by \
                     their page views."
                }
                None => {
                    "The file does not say how many samples each day has: all days have the \
                         same weight."
                }
            }
            .into(),
        );
    }
    if averages.product == AveragesProduct::Matomo {
        lines.push("Matomo's network time includes the name lookup.".into());
    }
    lines
}

fn hidden(view: &AveragesView<'_>, style: &Style) -> String {
    let mut out = format!("\n{}\n", style.paint(Ink::Strong, "What these averages hide"));
    for line in caveats(view) {
        out += &wrapped(&line, 2, style);
    }
    out
}

/// `text` wrapped at the terminal's width, at most 100 columns. If `indent` is not zero, the first line
/// begins with a bullet and the others are indented.
fn wrapped(text: &str, indent: usize, style: &Style) -> String {
    let text = style.plain(text);
    let room = style.columns().min(100);
    let bullet = style.glyph("· ", "- ");
    let mut out = String::new();
    let mut line = if indent > 0 { bullet.to_owned() } else { String::new() };
    let mut empty = true;
    for word in text.split_whitespace() {
        if !empty && line.chars().count() + 1 + word.chars().count() > room {
            out += &format!("{line}\n");
            line = " ".repeat(indent);
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line += word;
        empty = false;
    }
    out + &line + "\n"
}
