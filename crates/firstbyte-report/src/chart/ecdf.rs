//! Distributions: the empirical distribution function of each cell, one panel per group and metric.

use std::fmt::Write as _;

use firstbyte_core::stats::percentile;

use super::axis::TimeAxis;
use super::dress::SERIES;
use super::figure::{Figure, Panel, Row, panel_title};
use super::{SMALL, WIDTH, metric_title, time};
use crate::study::{Digest, Group, Grouping, SPREADS, STEPS};
use crate::svg::{Anchor, Canvas, fit, number, width};

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
        " Lines are drawn through the quantiles at every percent."
    } else {
        " Every step is a sample."
    };
    Figure {
        folded: false,
        name: "distributions",
        title: "How often it takes how long".into(),
        note: format!(
            "Share of verified samples that ended within a time: further left is faster, steeper is \
             steadier. An axis ends at the 99th percentile, or earlier if that is an outlier; labels \
             give the longest time.{method}"
        ),
        keys: Vec::new(),
        rows,
    }
}

/// The time within which `percent` % of the samples came: the smallest one that reaches that share, as in the drawn
/// line.
fn within(sorted: &[u64], percent: usize) -> Option<u64> {
    if sorted.len() > STEPS { sorted.get(percent).copied() } else { percentile(sorted, percent) }
}

/// The end of the axis: the 99th percentile, or less if that is an outlier.
fn end(sorted: &[u64]) -> Option<f64> {
    let [q1, q3, p99] = [25, 75, 99].map(|q| within(sorted, q).map(|ns| ns as f64));
    let (q1, q3) = (q1?, q3?);
    Some(p99?.min((q3 + 6.0 * (q3 - q1)).max(q3 * 1.25)))
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
    let high = lines.iter().filter_map(|(_, s)| end(s)).fold(low, f64::max);
    // Include zero if it is near; otherwise the differences would be a pixel wide.
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
    let mut halves = Vec::new();
    let mut quantiles = String::new();
    for (index, (cell, sorted)) in lines.iter().enumerate() {
        let class = format!("s{}", index % SERIES);
        canvas.path(&class, &curve(sorted, &axis, &x, &level));
        canvas.line([LEFT, y - 4.0], [LEFT + 24.0, y - 4.0], &class);
        let label = &grouping.labels[*cell];
        let beyond = sorted.last().filter(|last| **last as f64 > axis.high);
        let beyond = beyond.map_or(String::new(), |last| format!("up to {} →", time(*last as f64)));
        let room = WIDTH - LEFT - 30.0 - RIGHT - width(&beyond, SMALL) - 8.0;
        // The page's script expects the name right after the line.
        canvas.text(LEFT + 30.0, y, Anchor::Start, "n", &fit(label, SMALL, room));
        if !beyond.is_empty() {
            canvas.text(WIDTH - RIGHT, y, Anchor::End, "n", &beyond);
        }
        y += 16.0;
        let half = within(sorted, 50).map_or(String::new(), |ns| printed(ns, &axis));
        halves.push(format!("{label} {half}"));
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
        readout: format!("50 % within ({}): {}", axis.unit(), halves.join(" · ")),
    })
}

/// A line through all steps, or through the quantiles, until it leaves the axis.
fn curve(
    sorted: &[u64],
    axis: &TimeAxis,
    x: &impl Fn(f64) -> f64,
    level: &impl Fn(f64) -> f64,
) -> String {
    let n = sorted.len();
    let by_steps = n <= STEPS;
    let mut d = String::new();
    // In tenths, relative to the previous point after rounding, so that errors do not accumulate.
    let mut last = [0i64; 2];
    let tenths = |x: f64, y: f64| [(x * 10.0).round() as i64, (y * 10.0).round() as i64];
    for (index, value) in sorted.iter().enumerate() {
        let at = x(*value as f64);
        if index == 0 {
            let bottom = level(0.0);
            let _ = write!(d, "M{} {}", number(at), number(bottom));
            last = tenths(at, bottom);
        }
        let share = if by_steps { index + 1 } else { index } as f64;
        let share = share / if by_steps { n } else { STEPS } as f64;
        let now = tenths(at, level(share));
        let [dx, dy] = [now[0] - last[0], now[1] - last[1]].map(|t| number(t as f64 / 10.0));
        // Values beyond the axis are not reached on it.
        if *value as f64 > axis.high {
            let _ = write!(d, "h{dx}");
            break;
        }
        let _ = match by_steps {
            true => write!(d, "h{dx}v{dy}"),
            false => write!(d, "l{dx} {dy}"),
        };
        last = now;
    }
    d
}

fn printed(ns: u64, axis: &TimeAxis) -> String {
    let decimals = axis.decimals() as usize;
    format!("{:.decimals$}", ns as f64 / axis.unit_ns())
}

fn sentence(label: &str, sorted: &[u64], axis: &TimeAxis) -> String {
    let of = |percent| within(sorted, percent).map_or(String::new(), |ns| printed(ns, axis));
    format!(
        "{label}: half within {} {unit}, nine in ten within {} {unit}",
        of(50),
        of(90),
        unit = axis.unit()
    )
}

/// The percentiles from 0 to 100 in steps of the printed figure, each as the difference from the previous one.
fn encode(sorted: &[u64], axis: &TimeAxis) -> String {
    let mut last = 0;
    let mut parts = Vec::with_capacity(101);
    for percent in 0..=100 {
        let value = within(sorted, percent).unwrap_or(0);
        let steps = (value as f64 / axis.step_ns() as f64).round() as i64;
        parts.push((steps - last).to_string());
        last = steps;
    }
    parts.join(" ")
}
