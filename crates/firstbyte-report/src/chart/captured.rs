//! Pictures of captures: each server's full handshakes against short ones, distributions of handshake and exchange
//! times, and both kinds of handshake over the capture's time.
//!
//! Input: times in nanoseconds, by kind. Output: [`Figure`]s. Full is orange and short is blue; both are also
//! labelled in words.

use std::fmt::Write as _;

use super::axis::{TimeAxis, ticks};
use super::figure::{Figure, Key, Panel, Row, panel_title};
use super::{SMALL, WIDTH, round, time};
use crate::svg::{Anchor, Canvas, fit, number, width};
use crate::units::grouped;

/// Percentiles of one kind of handshake, nanoseconds (p50, p90, p99), and their number.
pub(crate) type Percentiles = ([f64; 3], u64);

/// Handshakes of one server.
pub(crate) struct ServerBars {
    pub name: String,
    pub full: Option<Percentiles>,
    pub short: Option<Percentiles>,
}

/// Times of one kind, nanoseconds.
pub(crate) struct Times {
    pub name: String,
    /// CSS class of its line.
    pub class: &'static str,
    /// The times that are drawn.
    pub sorted: Vec<u64>,
    /// Number of all times.
    pub count: u64,
}

/// A handshake: when it took place since the capture's begin, whether it was short, and how long it took.
pub(crate) type Placed = (u64, bool, u64);

const FULL: &str = "v1";
const SHORT: &str = "v0";
const RIGHT: f64 = 14.0;
const LEFT: f64 = 46.0;
const PLOT: f64 = 170.0;

fn keys() -> Vec<Key> {
    vec![Key::area(FULL, "full"), Key::area(SHORT, "short (session resumed)")]
}

/// One panel per server: its percentiles as bars, full above short.
pub(crate) fn servers(servers: &[ServerBars], note: &str) -> Figure {
    let largest = |server: &ServerBars| {
        let both = server.full.iter().chain(&server.short);
        both.flat_map(|(times, _)| *times).fold(0.0, f64::max)
    };
    let longest = servers.iter().map(largest).fold(0.0, f64::max);
    let least = servers.iter().map(largest).fold(f64::INFINITY, f64::min);
    let one_scale = least * 4.0 >= longest;
    let panels = servers
        .iter()
        .map(|server| bars(server, if one_scale { longest } else { largest(server) }))
        .collect();
    let scale = match (servers.len(), one_scale) {
        (..2, _) => "",
        (_, true) => " All panels share one scale.",
        (_, false) => " Panels have scales of their own.",
    };
    Figure {
        name: "servers",
        title: "Full and short handshakes, by server".into(),
        note: format!("Percentiles of handshakes with certain times.{scale}{note}"),
        keys: keys(),
        rows: vec![Row { heading: String::new(), panels }],
        folded: false,
    }
}

fn bars(server: &ServerBars, longest: f64) -> Panel {
    const BEGIN: f64 = 82.0;
    const BAR: f64 = 11.0;
    let mut canvas = Canvas::default();
    let mut y = panel_title(&mut canvas, &server.name, WIDTH) - 4.0;
    let room = WIDTH - BEGIN - 70.0;
    let mut described = Vec::new();
    for (index, percentile) in ["p50", "p90", "p99"].into_iter().enumerate() {
        canvas.text(0.0, y + 16.0, Anchor::Start, "n", percentile);
        for (name, class, times) in [("full", FULL, server.full), ("short", SHORT, server.short)] {
            canvas.text(BEGIN - 6.0, y + 9.5, Anchor::End, "n", name);
            match times {
                Some((times, _)) => {
                    let long = (room * times[index] / longest.max(1.0)).max(1.0);
                    canvas.rect([BEGIN, y, long, BAR], class, None);
                    let label = time(times[index]);
                    canvas.text(BEGIN + long + 5.0, y + 9.5, Anchor::Start, "l", &label);
                    described.push(format!("{name} {percentile} {label}"));
                }
                None => canvas.text(BEGIN, y + 9.5, Anchor::Start, "n", "none"),
            }
            y += BAR + 3.0;
        }
        y += 6.0;
    }
    let of = |times: Option<Percentiles>| grouped(times.map_or(0, |(_, n)| n));
    let counts = format!("n: {} full, {} short", of(server.full), of(server.short));
    canvas.text(BEGIN, y + 8.0, Anchor::Start, "n", &counts);
    Panel {
        title: format!("Handshakes of {}", server.name),
        description: format!("{}; {counts}", described.join(", ")),
        width: WIDTH,
        height: y + 14.0,
        body: canvas.0,
        ..Panel::default()
    }
}

/// Distributions of handshake and exchange times: one line per kind of session.
pub(crate) fn distributions(handshakes: &[Times], exchanges: &[Times]) -> Figure {
    let panels = [("Handshakes", handshakes), ("Exchanges", exchanges)];
    let panels = panels.into_iter().filter_map(|(title, times)| shares(title, times)).collect();
    Figure {
        name: "distributions",
        title: "How often it takes how long".into(),
        note: "Share of handshakes, and of exchanges after them, that ended within a time, by \
               kind of session: further left is faster, steeper is steadier. Lines are drawn through the \
               quantiles at every percent; an axis ends at the longest 99th percentile, or before it where \
               that is far out."
            .into(),
        keys: Vec::new(),
        rows: vec![Row { heading: String::new(), panels }],
        folded: false,
    }
}

fn quantile(sorted: &[u64], share: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    sorted.get((share * last as f64).round() as usize).copied().unwrap_or(0) as f64
}

/// The end of an axis: the 99th percentile, or less if that is an outlier.
fn end(sorted: &[u64]) -> f64 {
    let [q1, q3, p99] = [0.25, 0.75, 0.99].map(|share| quantile(sorted, share));
    p99.min((q3 + 6.0 * (q3 - q1)).max(q3 * 1.25))
}

/// The share of times below each value, for each kind.
pub(super) fn shares(title: &str, kinds: &[Times]) -> Option<Panel> {
    let kinds: Vec<&Times> = kinds.iter().filter(|kind| !kind.sorted.is_empty()).collect();
    let high = kinds.iter().map(|kind| end(&kind.sorted)).fold(0.0, f64::max);
    if kinds.is_empty() {
        return None;
    }
    let axis = TimeAxis::new(0.0, high * 1.04);
    let mut canvas = Canvas::default();
    let top = panel_title(&mut canvas, title, WIDTH) + 2.0;
    let wide = WIDTH - LEFT - RIGHT;
    let x = |ns: f64| LEFT + wide * axis.share(ns);
    let level = |share: f64| top + PLOT * (1.0 - share);
    for (share, text) in [(0.0, "0"), (0.25, "25"), (0.5, "50"), (0.75, "75"), (1.0, "100 %")] {
        canvas.line([LEFT, level(share)], [WIDTH - RIGHT, level(share)], "g");
        canvas.text(LEFT - 5.0, level(share) + 4.0, Anchor::End, "n", text);
    }
    let bottom = top + PLOT;
    time_ticks(&mut canvas, &axis, &x, bottom);
    let mut y = bottom + 36.0;
    let mut described = Vec::new();
    for kind in &kinds {
        let mut d = format!("M{} {}", number(x(quantile(&kind.sorted, 0.0))), number(level(0.0)));
        for percent in 0..=100 {
            let share = f64::from(percent) / 100.0;
            let at = quantile(&kind.sorted, share);
            if at > axis.high {
                break;
            }
            let _ = write!(d, "L{} {}", number(x(at)), number(level(share)));
        }
        canvas.path(kind.class, &d);
        canvas.line([LEFT, y - 4.0], [LEFT + 24.0, y - 4.0], kind.class);
        let n = grouped(kind.count);
        let half = time(quantile(&kind.sorted, 0.5));
        let text = format!("{}: half within {half} (n {n})", kind.name);
        canvas.text(LEFT + 30.0, y, Anchor::Start, "n", &fit(&text, SMALL, wide - 30.0));
        described.push(text);
        y += 16.0;
    }
    Some(Panel {
        title: format!("{title}: distribution of times"),
        description: described.join("; "),
        width: WIDTH,
        height: y - 6.0,
        body: canvas.0,
        ..Panel::default()
    })
}

fn time_ticks(canvas: &mut Canvas, axis: &TimeAxis, x: &impl Fn(f64) -> f64, bottom: f64) {
    let ticks = axis.ticks(5.0);
    for (index, (at, text)) in ticks.iter().enumerate() {
        canvas.line([x(*at), bottom], [x(*at), bottom + 4.0], "ax");
        let last = index + 1 == ticks.len();
        let text = if last { format!("{text} {}", axis.unit()) } else { text.clone() };
        let near = last && x(*at) > WIDTH - 40.0;
        let (anchor, place) = if near { (Anchor::End, WIDTH) } else { (Anchor::Middle, x(*at)) };
        canvas.text(place, bottom + 17.0, anchor, "n", &text);
    }
    canvas.line([LEFT, bottom], [WIDTH - RIGHT, bottom], "ax");
}

/// Number of columns in the pictures over time.
const COLUMNS: usize = 40;

/// Full and short handshakes over the capture's time: their numbers and medians, from a random sample of one in
/// `one_in` handshakes.
pub(crate) fn over_time(handshakes: &[Placed], one_in: u64) -> Figure {
    let longest = handshakes.iter().map(|(at, ..)| *at).max().unwrap_or(0);
    let column = |at: u64| ((at as f64 / (longest as f64 + 1.0)) * COLUMNS as f64) as usize;
    let mut columns: Vec<[Vec<u64>; 2]> = vec![Default::default(); COLUMNS];
    for (at, short, took) in handshakes {
        columns[column(*at)][usize::from(*short)].push(*took);
    }
    for times in columns.iter_mut().flatten() {
        times.sort_unstable();
    }
    let each = time(longest as f64 / COLUMNS as f64);
    let sampled = match one_in {
        1 => String::new(),
        _ => format!(" One in {one_in} is drawn, at random, and counts for as many."),
    };
    Figure {
        name: "over-time",
        title: "Over the capture's time".into(),
        note: format!(
            "Each column covers {each} of handshakes by their first packet, if their times are certain. A \
             column without handshakes of a kind has no median for it.{sampled}"
        ),
        keys: keys(),
        rows: vec![Row {
            heading: String::new(),
            panels: vec![counts(&columns, longest, one_in), medians(&columns, longest)],
        }],
        folded: false,
    }
}

/// The frame of a picture over time: its title, and the axis with the capture's seconds. Returns the top.
fn frame(canvas: &mut Canvas, title: &str, longest: u64) -> f64 {
    let top = panel_title(canvas, title, WIDTH) + 2.0;
    let axis = TimeAxis::new(0.0, longest as f64);
    let x = |ns: f64| LEFT + (WIDTH - LEFT - RIGHT) * axis.share(ns);
    time_ticks(canvas, &axis, &x, top + PLOT);
    top
}

fn counts(columns: &[[Vec<u64>; 2]], longest: u64, one_in: u64) -> Panel {
    let mut canvas = Canvas::default();
    let top = frame(&mut canvas, "Handshakes a column", longest);
    let drawn = columns.iter().map(|[full, short]| (full.len() + short.len()) as u64).max();
    let most = drawn.unwrap_or(0) * one_in;
    let high = most.max(1) as f64;
    let level = |n: f64| top + PLOT * (1.0 - n / high);
    for at in ticks(0.0, high, 4.0).into_iter().filter(|at| at.fract() == 0.0) {
        canvas.line([LEFT, level(at)], [WIDTH - RIGHT, level(at)], "g");
        canvas.text(LEFT - 5.0, level(at) + 4.0, Anchor::End, "n", &round(at, 0));
    }
    let step = (WIDTH - LEFT - RIGHT) / columns.len() as f64;
    for (index, [full, short]) in columns.iter().enumerate() {
        let x = LEFT + index as f64 * step;
        let [lower, upper] =
            [full.len(), full.len() + short.len()].map(|n| n as f64 * one_in as f64);
        for (class, from, to) in [(FULL, 0.0, lower), (SHORT, lower, upper)] {
            if to > from {
                let height = level(from) - level(to);
                canvas.rect([x + 0.5, level(to), step - 1.0, height], class, None);
            }
        }
    }
    let sum = |short: usize| columns.iter().map(|column| column[short].len() as u64).sum::<u64>();
    let [full, short] = [0, 1].map(|kind| grouped(sum(kind) * one_in));
    Panel {
        title: "Full and short handshakes over time".into(),
        description: format!("{full} full and {short} short; at most {most} in a column"),
        width: WIDTH,
        height: top + PLOT + 24.0,
        body: canvas.0,
        ..Panel::default()
    }
}

fn medians(columns: &[[Vec<u64>; 2]], longest: u64) -> Panel {
    let mut canvas = Canvas::default();
    let top = frame(&mut canvas, "Their median time", longest);
    let middle = |times: &Vec<u64>| (!times.is_empty()).then(|| quantile(times, 0.5));
    let high = columns.iter().flatten().filter_map(middle).fold(0.0, f64::max);
    let axis = TimeAxis::new(0.0, high * 1.05);
    let level = |ns: f64| top + PLOT * (1.0 - axis.share(ns));
    for (at, figure) in axis.ticks(4.0) {
        canvas.line([LEFT, level(at)], [WIDTH - RIGHT, level(at)], "g");
        let figure = if at == 0.0 { format!("{figure} {}", axis.unit()) } else { figure };
        canvas.text(LEFT - 5.0, level(at) + 4.0, Anchor::End, "n", &figure);
    }
    let step = (WIDTH - LEFT - RIGHT) / columns.len() as f64;
    for (index, column) in columns.iter().enumerate() {
        let x = LEFT + (index as f64 + 0.5) * step;
        // Squares and discs can be told apart without colours.
        if let Some(ns) = middle(&column[0]) {
            canvas.rect([x - 3.0, level(ns) - 3.0, 6.0, 6.0], FULL, None);
        }
        if let Some(ns) = middle(&column[1]) {
            let disc =
                format!("M{} {}a3 3 0 1 0 6 0a3 3 0 1 0-6 0", number(x - 3.0), number(level(ns)));
            canvas.path(SHORT, &disc);
        }
    }
    let y = top + PLOT + 36.0;
    canvas.rect([LEFT, y - 9.0, 7.0, 7.0], FULL, None);
    canvas.text(LEFT + 12.0, y - 1.0, Anchor::Start, "n", "full");
    let next = LEFT + 12.0 + width("full", SMALL) + 18.0;
    canvas.path(
        SHORT,
        &format!("M{} {}a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0", number(next), number(y - 5.5)),
    );
    canvas.text(next + 12.0, y - 1.0, Anchor::Start, "n", "short");
    Panel {
        title: "Median times of full and short handshakes over time".into(),
        description: format!("the longest median is {}", time(high)),
        width: WIDTH,
        height: y + 6.0,
        body: canvas.0,
        ..Panel::default()
    }
}

/// Sequence diagrams, each with its own scale.
pub(crate) fn diagrams(drawn: Vec<Figure>, note: &str) -> Figure {
    let mut keys: Vec<Key> = Vec::new();
    let mut panels = Vec::new();
    for figure in drawn {
        let new: Vec<Key> = figure.keys.into_iter().filter(|key| !keys.contains(key)).collect();
        keys.extend(new);
        panels.extend(figure.rows.into_iter().flat_map(|row| row.panels));
    }
    let folded = panels.len() > 4;
    Figure {
        name: "sequences",
        title: "Message by message".into(),
        note: format!(
            "Time runs downwards, as the client saw it; times at the server are half a round trip away. \
             Panels have scales of their own, stretched where labels need room. {note}"
        ),
        keys,
        rows: vec![Row { heading: String::new(), panels }],
        folded,
    }
}
