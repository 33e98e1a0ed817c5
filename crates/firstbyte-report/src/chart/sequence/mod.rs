//! Sequence diagrams: two lifelines, time running downwards, arrows as steep as the path is long.
//!
//! Input: [`Sequence`]s. Output: a [`Figure`]. Panels side by side share one time scale, stretched where labels
//! would overlap.

mod column;
mod draw;
mod scale;
#[cfg(test)]
mod tests;

use std::time::Duration;

use firstbyte_core::sequence::Sequence;
use firstbyte_core::split::Part;

use self::column::Column;
use self::scale::TimeScale;
use super::WIDTH;
use super::figure::{Figure, Key, Panel, Row};
use crate::study::{Grouping, Study};
use crate::units::Scale;

/// Height of the longest diagram of a row if nothing has to be stretched.
const HEIGHT: f64 = 500.0;

/// Connections side by side on one time scale: "ping", "http", "https", each with its name.
pub fn sequences(title: &str, columns: &[(&str, Sequence)]) -> Figure {
    let shown: Vec<(&str, &Sequence)> = columns.iter().map(|(name, s)| (*name, s)).collect();
    let row = Row { heading: String::new(), panels: row(&shown) };
    let figure =
        figure_of_sequences(title.into(), NOTE.into(), shown.iter().map(|(_, s)| *s), vec![row]);
    Figure { folded: false, ..figure }
}

const NOTE: &str = "Time runs downwards. Times at the server are estimated: half a round trip away. \
                    Stretched where labels need room.";

/// The median sample of each cell; samples under one heading share a scale.
pub(super) fn figure(study: &Study<'_>, grouping: &Grouping) -> Figure {
    let laid: Vec<Option<Sequence>> = study
        .medians
        .iter()
        .map(|c| {
            let c = c.as_ref().filter(|c| !c.connection.flights.is_empty())?;
            Some(Sequence::from_attributed(c))
        })
        .collect();
    let mut rows = Vec::new();
    for group in &grouping.groups {
        let shown: Vec<(&str, &Sequence)> = group
            .cells
            .iter()
            .filter_map(|c| Some((grouping.labels[*c].as_str(), laid.get(*c)?.as_ref()?)))
            .collect();
        rows.push(Row { heading: group.heading.clone(), panels: row(&shown) });
    }
    let note = format!(
        "Each panel is one real sample, the median sample. Panels under one heading share their scale. \
         {NOTE}"
    );
    figure_of_sequences(
        "The median sample, message by message".into(),
        note,
        laid.iter().flatten(),
        rows,
    )
}

fn figure_of_sequences<'a>(
    title: String,
    note: String,
    shown: impl Iterator<Item = &'a Sequence>,
    rows: Vec<Row>,
) -> Figure {
    let mut used = [false; Part::ALL.len()];
    for sequence in shown {
        // Shorter times are invisible, however much a panel is stretched.
        let least = sequence.total / 10_000;
        for (part, (_, time)) in Part::ALL.into_iter().zip(sequence.parts.named()) {
            used[part as usize] |= !time.is_zero() && time >= least;
        }
    }
    let keys = Part::ALL.into_iter().filter(|part| used[*part as usize]);
    let keys = keys.map(|part| Key::area(&class(part), part.name())).collect();
    Figure { name: "sequences", title, note, keys, rows, folded: true }
}

/// Panels on one time scale.
fn row(shown: &[(&str, &Sequence)]) -> Vec<Panel> {
    let longest = shown.iter().map(|(_, s)| s.total).max().unwrap_or_default();
    let scale = Scale::for_largest(longest);
    let columns: Vec<Column<'_>> =
        shown.iter().map(|(_, sequence)| Column::from_sequence(sequence, scale)).collect();
    let time = TimeScale::fitting(&columns, pixels_per_ns(longest));
    let tops = shown.iter().map(|(name, _)| draw::top(name, WIDTH)).fold(0.0, f64::max);
    let panels: Vec<Panel> = shown
        .iter()
        .zip(&columns)
        .map(|((name, _), column)| draw::panel(name, column, &time, tops))
        .collect();
    let height = panels.iter().map(|p| p.height).fold(0.0, f64::max);
    panels.into_iter().map(|panel| Panel { height, ..panel }).collect()
}

fn pixels_per_ns(longest: Duration) -> f64 {
    HEIGHT / (longest.as_nanos() as f64).max(1.0)
}

/// CSS class of a part's colour.
fn class(part: Part) -> String {
    format!("q{}", part as usize)
}
