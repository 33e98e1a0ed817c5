//! Where the time of each cell's median sample went: stacked bars, one panel per group.

use super::axis::TimeAxis;
use super::figure::{Figure, Panel, Row, panel_title};
use super::{SMALL, WIDTH, phase_class, phase_keys, phase_label};
use crate::study::{Column, Digest, Group, Grouping, PHASES};
use crate::svg::{Anchor, Canvas, fit, width};

const BAR: f64 = 20.0;
const LABEL: f64 = 16.0;
const GAP: f64 = 8.0;

pub(crate) fn figure(digest: &Digest, grouping: &Grouping) -> Figure {
    let panels = grouping.groups.iter().filter_map(|g| panel(digest, grouping, g)).collect();
    let middles = || digest.cells.iter().filter_map(|s| s.middle);
    Figure {
        folded: false,
        name: "medians",
        title: "Where the time of the median sample goes".into(),
        note: "Each bar is one real sample, the median sample. Every panel has its own time axis."
            .into(),
        keys: phase_keys(|phase| middles().any(|c| c.phases[phase] > 0)),
        rows: vec![Row { heading: String::new(), panels }],
    }
}

fn panel(digest: &Digest, grouping: &Grouping, group: &Group) -> Option<Panel> {
    let bars: Vec<(&str, Column)> = group
        .cells
        .iter()
        .filter_map(|c| Some((grouping.labels[*c].as_str(), digest.cells.get(*c)?.middle?)))
        .collect();
    let longest = bars.iter().map(|(_, c)| c.total).max()?;
    let axis = TimeAxis::new(0.0, longest as f64);
    let mut canvas = Canvas::default();
    let mut y = 4.0;
    if !group.heading.is_empty() {
        y = panel_title(&mut canvas, &group.heading, WIDTH);
    }
    let decimals = (axis.decimals() as usize).min(1);
    let figure = |ns: u64| format!("{:.decimals$}", ns as f64 / axis.unit_ns());
    let room = width(&format!("{} {}", figure(longest), axis.unit()), SMALL) + 8.0;
    let scale = (WIDTH - room) / axis.high;
    let bottom = y + bars.len() as f64 * (LABEL + BAR + GAP);
    for (at, text) in axis.ticks(4.0) {
        let x = at * scale;
        canvas.line([x, y], [x, bottom], "g");
        let anchor = if at == 0.0 { Anchor::Start } else { Anchor::Middle };
        let text = if at == 0.0 { format!("{text} {}", axis.unit()) } else { text };
        canvas.text(x, bottom + 14.0, anchor, "n", &text);
    }
    let mut sentences = Vec::new();
    for (label, column) in &bars {
        canvas.text(0.0, y + LABEL - 4.0, Anchor::Start, "l", &fit(label, SMALL, WIDTH));
        let mut x = 0.0;
        let mut parts = Vec::new();
        for (phase, ns) in column.phases.iter().enumerate().filter(|(_, ns)| **ns > 0) {
            let wide = *ns as f64 * scale;
            let part = format!("{} {}", phase_label(PHASES[phase]), figure(*ns));
            let hover = format!("{part} {}", axis.unit());
            let class = phase_class(phase);
            canvas.rect([x, y + LABEL, wide, BAR], &class, Some(&hover));
            let text = figure(*ns);
            if wide > width(&text, 11.0) + 6.0 {
                let middle = x + wide / 2.0;
                canvas.text(middle, y + LABEL + 14.0, Anchor::Middle, "in", &text);
            }
            x += wide;
            parts.push(part);
        }
        let total = format!("{} {}", figure(column.total), axis.unit());
        canvas.text(x + 6.0, y + LABEL + 14.0, Anchor::Start, "l", &total);
        sentences.push(format!("{label}: {total} = {}", parts.join(" + ")));
        y += LABEL + BAR + GAP;
    }
    Some(Panel {
        title: format!("Median samples {}", group.heading).trim().to_owned(),
        description: sentences.join("; "),
        width: WIDTH,
        height: bottom + 20.0,
        body: canvas.0,
        ..Panel::default()
    })
}
