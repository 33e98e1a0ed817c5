//! How often a time is met: the empirical distribution of each cell, one panel a group and metric.

use std::fmt::Write as _;

use super::axis::TimeAxis;
use super::dress::SERIES;
use super::figure::{Figure, Panel, Row, panel_title};
use super::{SMALL, WIDTH, metric_title};
use crate::report::study::{Digest, Group, Grouping, SPREADS, STEPS};
use crate::report::svg::{Anchor, Canvas, fit, number};

const LEFT: f64 = 46.0;
const RIGHT: f64 = 14.0;
const PLOT: f64 = 170.0;

pub(crate) fn figure(digest: &Digest, grouping: &Grouping) -> Figure {
    let rows = grouping
        .groups
        .iter()
        .map(|group| Row {
            heading: group.heading.clone(),
            panels: (0..SPREADS.len()).filter_map(|s| panel(digest, grouping, group, s)).collect(),
        })
        .collect();
    let most = digest.cells.iter().map(|s| s.proven).max().unwrap_or(0);
    let method = if most > STEPS as u64 {
        " Lines are drawn through the quantiles at every half percent."
    } else {
        " Every step is a sample."
    };
    Figure {
        name: "distributions",
        title: "How often it takes how long".into(),
        note: format!(
            "The share of samples that came to their end within a time: further left is faster, \
             steeper is steadier. Samples that count; the axis ends at the slowest cell's 99th \
             percentile.{method}"
        ),
        keys: Vec::new(),
        rows,
    }
}

/// The value at a share of the samples.
fn at(sorted: &[u64], share: f64) -> Option<u64> {
    let last = sorted.len().checked_sub(1)?;
    sorted.get((share * last as f64).round() as usize).copied()
}

fn panel(digest: &Digest, grouping: &Grouping, group: &Group, spread: usize) -> Option<Panel> {
    let metric = SPREADS[spread];
    let lines: Vec<(usize, &[u64])> = group
        .cells
        .iter()
        .filter_map(|c| Some((*c, digest.cells.get(*c)?.spreads[spread].as_slice())))
        .filter(|(_, sorted)| !sorted.is_empty())
        .collect();
    let low = lines.iter().filter_map(|(_, s)| s.first()).min().copied()? as f64;
    let high = lines.iter().filter_map(|(_, s)| at(s, 0.99)).max()? as f64;
    // Zero is kept in sight where it is near; otherwise the differences would be a pixel wide.
    let margin = ((high - low) * 0.04).max(1e3);
    let start = if low < (high - low) * 2.0 { 0.0 } else { low - margin };
    let axis = TimeAxis::new(start, high + margin);
    let mut canvas = Canvas::default();
    let y = panel_title(&mut canvas, metric_title(metric), WIDTH);
    let top = y + 2.0;
    let wide = WIDTH - LEFT - RIGHT;
    let x = |ns: f64| LEFT + wide * axis.share(ns);
    let level = |share: f64| top + PLOT * (1.0 - share);
    for (share, text) in [(0.0, "0"), (0.25, "25"), (0.5, "50"), (0.75, "75"), (1.0, "100 %")] {
        canvas.line([LEFT, level(share)], [WIDTH - RIGHT, level(share)], "g");
        canvas.text(LEFT - 5.0, level(share) + 4.0, Anchor::End, "n", text);
    }
    let bottom = top + PLOT;
    let ticks = axis.ticks(5.0);
    for (index, (at, text)) in ticks.iter().enumerate() {
        canvas.line([x(*at), bottom], [x(*at), bottom + 4.0], "ax");
        let last = index + 1 == ticks.len();
        let text = if last { format!("{text} {}", axis.unit()) } else { text.clone() };
        let anchor = if last && x(*at) > WIDTH - 40.0 { Anchor::End } else { Anchor::Middle };
        let place = if anchor == Anchor::End { WIDTH } else { x(*at) };
        canvas.text(place, bottom + 17.0, anchor, "n", &text);
    }
    canvas.line([LEFT, bottom], [WIDTH - RIGHT, bottom], "ax");
    let mut y = bottom + 36.0;
    let mut sentences = Vec::new();
    let mut quantiles = String::new();
    for (index, (cell, sorted)) in lines.iter().enumerate() {
        let class = format!("s{}", index % SERIES);
        canvas.path(&class, &curve(sorted, &axis, &x, &level));
        canvas.line([LEFT, y - 4.0], [LEFT + 24.0, y - 4.0], &class);
        let label = &grouping.labels[*cell];
        let text = fit(label, SMALL, WIDTH - LEFT - 30.0);
        canvas.text(LEFT + 30.0, y, Anchor::Start, "n", &text);
        y += 16.0;
        sentences.push(sentence(label, sorted, &axis));
        let _ = write!(quantiles, "{}{}", if index > 0 { ";" } else { "" }, encode(sorted, &axis));
    }
    let plot = [LEFT, top, wide, PLOT].map(number).join(" ");
    Some(Panel {
        title: format!("{}: distribution {}", metric_title(metric), group.heading)
            .trim()
            .to_owned(),
        description: sentences.join("; "),
        width: WIDTH,
        height: y - 6.0,
        body: canvas.0,
        data: format!(
            " data-kind=\"shares\" data-plot=\"{plot}\" data-n=\"101\" data-unit=\"{}\" \
             data-dec=\"{}\" data-q=\"{quantiles}\" data-low=\"{}\" data-high=\"{}\"",
            axis.unit(),
            axis.decimals(),
            (axis.low / axis.step_ns() as f64).round(),
            (axis.high / axis.step_ns() as f64).round(),
        ),
        readout: "arrow keys or pointer: the times at a share of the samples".into(),
    })
}

/// A line through all steps, or through the quantiles.
fn curve(
    sorted: &[u64],
    axis: &TimeAxis,
    x: &impl Fn(f64) -> f64,
    level: &impl Fn(f64) -> f64,
) -> String {
    let mut d = String::new();
    let n = sorted.len();
    let by_steps = n <= STEPS;
    for (index, value) in sorted.iter().enumerate() {
        let at = number(x(*value as f64));
        if by_steps {
            let before = level(index as f64 / n as f64);
            let after = number(level((index + 1) as f64 / n as f64));
            let _ = match index {
                0 => write!(d, "M{at} {}V{after}", number(before)),
                _ => write!(d, "H{at}V{after}"),
            };
        } else {
            let y = number(level(index as f64 / STEPS as f64));
            let _ = write!(d, "{}{at} {y}", if index == 0 { 'M' } else { 'L' });
        }
        if *value as f64 > axis.high {
            break;
        }
    }
    d
}

fn sentence(label: &str, sorted: &[u64], axis: &TimeAxis) -> String {
    let decimals = axis.decimals() as usize;
    let figure = |share: f64| {
        at(sorted, share).map_or(String::new(), |ns| {
            format!("{:.decimals$}", ns as f64 / axis.unit_ns())
        })
    };
    format!(
        "{label}: half within {} {unit}, nine in ten within {} {unit}",
        figure(0.5),
        figure(0.9),
        unit = axis.unit()
    )
}

/// The percentiles from 0 to 100 in steps of the printed figure, each as the difference from the
/// one before it.
fn encode(sorted: &[u64], axis: &TimeAxis) -> String {
    let mut last = 0;
    let mut parts = Vec::with_capacity(101);
    for percent in 0..=100 {
        let value = at(sorted, f64::from(percent) / 100.0).unwrap_or(0);
        let steps = (value as f64 / axis.step_ns() as f64).round() as i64;
        parts.push((steps - last).to_string());
        last = steps;
    }
    parts.join(" ")
}

