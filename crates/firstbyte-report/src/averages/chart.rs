//! A chart of the days for the terminal: one dot per day, without the weekday effect, and the level as a line.

use firstbyte_core::stats::SeriesChanges;
use firstbyte_sources::averages::DailyAverages;

use super::{date, ms};
use crate::chart::ticks;
use crate::style::{Ink, Style};

const ROWS: usize = 11;
/// Columns of the scale at the left.
const SCALE: usize = 8;

/// The chart, with a scale in milliseconds and the dates of its ends and of the changes.
pub(super) fn chart(averages: &DailyAverages, found: &SeriesChanges, style: &Style) -> String {
    let [first, last] = averages.span();
    let columns = (style.columns().min(100) - SCALE - 1).min((last - first + 1).max(1) as usize);
    let column = |day: i64| {
        let share = (day - first) as f64 / (last - first).max(1) as f64;
        (share * (columns - 1) as f64).round() as usize
    };
    let values = without_season(averages, found);
    let [low, high] = range(&values, &found.levels);
    let row = |value: f64| {
        let share = ((value - low) / (high - low)).clamp(0.0, 1.0);
        ROWS - 1 - (share * (ROWS - 1) as f64).round() as usize
    };
    let mut cells = vec![vec![(' ', Ink::Plain); columns]; ROWS];
    for (day, value) in averages.days.iter().zip(&values) {
        cells[row(*value)][column(day.day)] = (style.glyph('·', '.'), Ink::Faint);
    }
    for (day, level) in averages.days.iter().zip(&found.levels) {
        cells[row(*level)][column(day.day)] = (style.glyph('━', '='), Ink::Network);
    }
    let marks = ticks(low / 1e6, high / 1e6, 4.0);
    let mut out = format!("{:>width$}\n", "ms", width = SCALE - 2);
    for (index, line) in cells.iter().enumerate() {
        let mark = marks.iter().find(|mark| row(**mark * 1e6) == index);
        let label = mark.map_or(String::new(), |mark| trimmed(*mark));
        let tick = if mark.is_some() { style.glyph('┤', '+') } else { style.glyph('│', '|') };
        let scale = style.paint(Ink::Faint, &format!("{label:>width$} {tick}", width = SCALE - 2));
        out += &format!("{scale}{}\n", style.cells(trailing(line)));
    }
    let mut rule = vec![(style.glyph('─', '-'), Ink::Faint); columns];
    for change in &found.changes {
        rule[column(change.form.begins())] = (style.glyph('┴', '+'), Ink::Strong);
    }
    let corner = style.paint(Ink::Faint, &style.glyph('└', '+').to_string());
    out += &format!("{:width$}{corner}{}\n", "", style.cells(&rule), width = SCALE - 1);
    out += &format!("{:SCALE$}{}\n", "", labels(averages, found, columns, &column));
    let what = format!(
        "{} a day, weekday effect removed   {} the level",
        style.glyph('·', '.'),
        style.glyph('━', '=')
    );
    out + &format!("{:SCALE$}{}\n", "", style.paint(Ink::Faint, &what))
}

/// The days' averages without the weekday effect.
pub(crate) fn without_season(averages: &DailyAverages, found: &SeriesChanges) -> Vec<f64> {
    let season = |day: i64| {
        let part = day.rem_euclid(found.season.len().max(1) as i64) as usize;
        found.season.get(part).copied().flatten().unwrap_or(0.0)
    };
    averages.days.iter().map(|day| day.average_ns - season(day.day)).collect()
}

/// The chart's range: it covers all levels, and all days except a few outliers that would flatten the rest.
pub(crate) fn range(values: &[f64], levels: &[f64]) -> [f64; 2] {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let cut = sorted.len() / 50;
    let ends = sorted.get(cut..sorted.len() - cut).unwrap_or(&sorted);
    let all = || ends.iter().chain(levels).copied();
    let (low, high) = (all().fold(f64::INFINITY, f64::min), all().fold(0.0, f64::max));
    let margin = ((high - low) * 0.05).max(high * 0.01).max(1.0);
    [(low - margin).max(0.0), high + margin]
}

fn trailing(cells: &[(char, Ink)]) -> &[(char, Ink)] {
    let used = cells.iter().rposition(|(c, _)| *c != ' ').map_or(0, |at| at + 1);
    &cells[..used]
}

fn trimmed(value: f64) -> String {
    let text = ms(value * 1e6);
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// Labels with the dates of both ends and of the changes. A label that would touch another is left out.
fn labels(
    averages: &DailyAverages,
    found: &SeriesChanges,
    columns: usize,
    column: &impl Fn(i64) -> usize,
) -> String {
    let [first, last] = averages.span();
    let mut line = vec![' '; columns];
    let days = found.changes.iter().map(|change| change.form.begins()).chain([first, last]);
    for day in days {
        let text: Vec<char> = date(day).chars().collect();
        let start =
            column(day).saturating_sub(text.len() / 2).min(columns.saturating_sub(text.len()));
        let room = start.saturating_sub(1)..(start + text.len() + 1).min(columns);
        if text.len() <= columns && line[room].iter().all(|c| *c == ' ') {
            line[start..start + text.len()].copy_from_slice(&text);
        }
    }
    line.into_iter().collect::<String>().trim_end().to_owned()
}
