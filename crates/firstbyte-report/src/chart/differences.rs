//! How far a variant is from its base: differences with their intervals, one panel per metric and group.

use firstbyte_core::compare::Role;
use firstbyte_core::run::Metric;
use firstbyte_core::stats::Interval;

use super::axis::TimeAxis;
use super::figure::{Figure, Key, Panel, Row, panel_title};
use super::{SMALL, WIDTH, metric_title};
use crate::study::{EffectView, Estimate, Group, Grouping, Study, Verdict, quantile_name};
use crate::svg::{Anchor, Canvas, fit, number, width};

/// Metrics that are drawn; the tables contain all.
const METRICS: [Metric; 3] = [Metric::Total, Metric::Ttfb, Metric::Setup];

const LEFT: f64 = 50.0;
const LINE: f64 = 17.0;
const HEAD: f64 = 20.0;

pub(crate) fn figure(study: &Study<'_>, grouping: &Grouping) -> Figure {
    let rows = grouping
        .groups
        .iter()
        .map(|group| Row {
            heading: group.heading.clone(),
            panels: METRICS.iter().filter_map(|m| panel(study, grouping, group, *m)).collect(),
        })
        .filter(|row| !row.panels.is_empty())
        .collect();
    let key = |verdict: Verdict, label| Key::symbol(verdict.symbol(), class(verdict), label);
    let is_unlike = |effect: &EffectView| effect.verdict == Verdict::Unlike;
    let unlike = study.effects.iter().any(is_unlike);
    let unlike = unlike.then(|| key(Verdict::Unlike, "no verdict: the answers differ"));
    Figure {
        folded: false,
        name: "differences",
        title: "How much it differs".into(),
        note: "Variant minus baseline, with 95 % intervals; left of the line is faster. The median is \
               the median difference within rounds; percentiles are differences of percentiles. \
               Every panel has its own axis; an arrow ends outside it."
            .into(),
        keys: [
            key(Verdict::Faster, "faster"),
            key(Verdict::Slower, "slower"),
            key(Verdict::Same, "no difference"),
            key(Verdict::Open, "undecided: the interval contains zero, or there is no interval"),
        ]
        .into_iter()
        .chain(unlike)
        .collect(),
        rows,
    }
}

pub(crate) const fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Faster => "v0",
        Verdict::Slower => "v1",
        Verdict::Same => "v2",
        Verdict::Unlike | Verdict::Open => "v3",
    }
}

/// The verdict from an estimate alone.
pub(crate) fn verdict(estimate: &Estimate) -> Verdict {
    match estimate.interval {
        Some(i) if i.high < 0.0 => Verdict::Faster,
        Some(i) if i.low > 0.0 => Verdict::Slower,
        _ => Verdict::Open,
    }
}

/// The drawn estimates of an effect: the paired median, and the percentiles above the 50th.
fn lines(effect: &EffectView) -> Vec<(String, Estimate)> {
    let above = effect.quantiles.iter().filter(|(q, _)| *q > 0.5);
    let above = above.map(|(q, e)| (quantile_name(*q), *e));
    std::iter::once(("median".to_owned(), effect.difference)).chain(above).collect()
}

fn panel(study: &Study<'_>, grouping: &Grouping, group: &Group, metric: Metric) -> Option<Panel> {
    let effects: Vec<&EffectView> = study
        .effects
        .iter()
        .filter(|e| e.metric == metric && e.role != Role::Secondary)
        .filter(|e| group.cells.contains(&e.variant))
        .filter(|e| e.base < grouping.labels.len())
        .collect();
    if effects.is_empty() {
        return None;
    }
    let axis = axis(&effects);
    let figure = |ns: f64| {
        let value = ns / axis.unit_ns();
        // Four digits are enough, even for values far beyond the axis.
        let decimals = (axis.decimals() as usize).min(if value.abs() < 100.0 { 2 } else { 1 });
        format!("{value:.decimals$}").replace('-', "−")
    };
    let text = |e: &Estimate| match e.interval {
        Some(i) => format!("{} [{}, {}]", figure(e.value), figure(i.low), figure(i.high)),
        None => figure(e.value),
    };
    let all = || effects.iter().flat_map(|e| lines(e));
    let room = all().map(|(_, e)| width(&text(&e), SMALL)).fold(60.0, f64::max) + 10.0;
    let wide = (WIDTH - LEFT - room).max(90.0);
    let x = |ns: f64| LEFT + wide * axis.share(ns);

    let mut canvas = Canvas::default();
    let title = format!("{}, {}", metric_title(metric), axis.unit());
    let mut y = panel_title(&mut canvas, &title, WIDTH) - 8.0;
    let ticks = axis.ticks(if wide > 160.0 { 4.0 } else { 2.8 });
    let mut sentences = Vec::new();
    for effect in &effects {
        y += HEAD;
        let name =
            format!("{} vs. {}", grouping.labels[effect.variant], grouping.labels[effect.base]);
        canvas.text(0.0, y - 4.0, Anchor::Start, class(effect.verdict), effect.verdict.symbol());
        let head = format!("{name}: {}", effect.verdict.word());
        canvas.text(16.0, y - 4.0, Anchor::Start, "l", &fit(&head, SMALL, WIDTH - 16.0));
        sentences.push(format!("{head}, median {} {}", text(&effect.difference), axis.unit()));
        let lines = lines(effect);
        let bottom = y + lines.len() as f64 * LINE + 2.0;
        for (at, _) in &ticks {
            canvas.line([x(*at), y + 1.0], [x(*at), bottom], "g");
        }
        canvas.line([x(0.0), y + 1.0], [x(0.0), bottom], "zero");
        for (label, estimate) in lines {
            y += LINE;
            canvas.text(LEFT - 8.0, y - 4.0, Anchor::End, "n", &label);
            let alone = match effect.verdict {
                Verdict::Unlike => Verdict::Unlike,
                _ => verdict(&estimate),
            };
            let strong = label == "median";
            mark(&mut canvas, (&estimate, alone), &x, &axis, y - 8.0, strong);
            canvas.text(WIDTH, y - 4.0, Anchor::End, "n", &text(&estimate));
        }
        y += 4.0;
    }
    for (at, text) in &ticks {
        canvas.text(x(*at), y + 12.0, Anchor::Middle, "n", text);
    }
    let bottom = y;
    Some(Panel {
        title: format!("{}: differences {}", metric_title(metric), group.heading).trim().to_owned(),
        description: sentences.join("; "),
        width: WIDTH,
        height: bottom + 18.0,
        body: canvas.0,
        ..Panel::default()
    })
}

/// The interval as a line, with an arrow if it extends beyond the axis, and a mark at the value.
fn mark(
    canvas: &mut Canvas,
    (estimate, verdict): (&Estimate, Verdict),
    x: &impl Fn(f64) -> f64,
    axis: &TimeAxis,
    y: f64,
    strong: bool,
) {
    let class = class(verdict);
    let ends = estimate.interval.map_or([estimate.value; 2], |i| [i.low, i.high]);
    let interval = Interval { low: ends[0], high: ends[1] };
    {
        let (low, high) = (x(interval.low), x(interval.high));
        canvas.line([low, y], [high, y], &format!("ci {class}"));
        let y = number(y);
        if interval.low < axis.low {
            canvas.path(class, &format!("M{} {y}l5-3.5v7z", number(low - 2.0)));
        }
        if interval.high > axis.high {
            canvas.path(class, &format!("M{} {y}l-5-3.5v7z", number(high + 2.0)));
        }
    }
    if estimate.value < axis.low || estimate.value > axis.high {
        return;
    }
    let half = if strong { 4.0 } else { 3.0 };
    let at = x(estimate.value);
    let [h, d] = [half, half * 2.0].map(number);
    let d = match verdict {
        // Points in the same direction as the verdict's arrow.
        Verdict::Faster => format!("M{} {}h{d}l-{h} {d}z", number(at - half), number(y - half)),
        Verdict::Slower => format!("M{} {}h{d}l-{h}-{d}z", number(at - half), number(y + half)),
        _ => {
            format!("M{} {}a{h} {h} 0 1 0 {d} 0a{h} {h} 0 1 0-{d} 0z", number(at - half), number(y))
        }
    };
    canvas.path(class, &d);
}

/// From the minimum to the maximum of the drawn values, including zero. The last percentile, often an outlier, can
/// at most double its length.
fn axis(effects: &[&EffectView]) -> TimeAxis {
    let (mut low, mut high) = (0f64, 0f64);
    let mut far = Vec::new();
    for effect in effects {
        let mut lines = lines(effect);
        if lines.len() > 2 {
            far.extend(lines.pop());
        }
        for (_, estimate) in lines {
            let ends = estimate.interval.map_or([estimate.value; 2], |i| [i.low, i.high]);
            low = low.min(ends[0]).min(estimate.value);
            high = high.max(ends[1]).max(estimate.value);
        }
    }
    let most = (high - low) / 2.0;
    let (inner_low, inner_high) = (low, high);
    for (_, estimate) in far {
        let ends = estimate.interval.map_or([estimate.value; 2], |i| [i.low, i.high]);
        low = low.min(ends[0].max(inner_low - most));
        high = high.max(ends[1].min(inner_high + most));
    }
    let margin = ((high - low) * 0.06).max(500.0);
    TimeAxis::new(low - margin, high + margin)
}
