//! Published figures, each followed by the measured ones: horizontal bars, one panel per scale.

use super::figure::{Figure, Key, Panel, Row};
use super::{SMALL, TITLE, WIDTH};
use crate::study::{BarGroup, StoryFigure, StorySentence, StudyStory};
use crate::svg::{Anchor, BOLD, Canvas, fit, width};

const BAR: f64 = 14.0;
const PITCH: f64 = 18.0;
/// Maximum width of the variants' names left of the bars.
const LEFT: f64 = 150.0;

/// The picture of `story`; without figures it has no panel.
pub(crate) fn figure(story: &StudyStory) -> Figure {
    let groups = story.bar_groups();
    let mut note =
        format!("{}: {}.", capitalised(story.source.trim_end_matches(['?', '.'])), story.verdict());
    if let Some(StorySentence::Told(sentence)) = story.sentence() {
        note = format!("{note} {sentence}");
    }
    Figure {
        folded: false,
        name: "story",
        title: format!("{}: {} and measured", story.study, story.reference),
        note,
        keys: vec![Key::area("p0", story.reference), Key::area("p1", "measured")],
        rows: vec![Row {
            heading: String::new(),
            panels: groups.iter().map(|group| panel(group, story.reference)).collect(),
        }],
    }
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}

fn panel(group: &BarGroup<'_>, reference: &str) -> Panel {
    let all = || group.figures.iter().flatten();
    let texts = all().flat_map(|figure| [figure.published.text.clone(), figure.value_text()]);
    let labels = all().map(|figure| width(figure.bar_label(), SMALL));
    let left = labels.fold(width(reference, SMALL), f64::max).min(LEFT) + 16.0;
    let room = WIDTH - left - texts.map(|text| width(&text, SMALL)).fold(0.0, f64::max) - 10.0;
    let scale = room / group.longest.max(f64::MIN_POSITIVE);
    let mut canvas = Canvas::default();
    let mut y = 0.0;
    let mut sentences = Vec::new();
    for of_name in &group.figures {
        let Some(StoryFigure { name, published, .. }) = of_name.first().copied() else { continue };
        canvas.text(0.0, y + 18.0, Anchor::Start, "pt", &fit(name, TITLE * BOLD, WIDTH));
        y += 26.0;
        let mut row = |label: &str, class: &str, ends: [f64; 2], text: &str| {
            let [near, far] = [ends[0].min(ends[1]), ends[0].max(ends[1])].map(|end| end * scale);
            canvas.text(0.0, y + 11.0, Anchor::Start, "n", &fit(label, SMALL, left - 8.0));
            canvas.rect([left, y, near, BAR], class, Some(&format!("{name}, {label}: {text}")));
            if far > near {
                canvas.rect([left + near, y, far - near, BAR], "b", None);
            }
            canvas.text(left + far + 6.0, y + 11.0, Anchor::Start, "l", text);
            y += PITCH;
        };
        let label = if published.is_own_bound { "expected" } else { reference };
        let ends = [published.low, published.high].map(f64::abs);
        row(label, "p0", ends, &published.text.replace('-', "−"));
        let mut parts = vec![format!("{label} {}", published.text)];
        for figure in of_name {
            let size = figure.measured.estimate().map_or(0.0, |estimate| estimate.value.abs());
            let text = figure.value_text();
            let label = figure.bar_label();
            let mark = if figure.is_missed() { " ✗" } else { "" };
            row(label, "p1", [size; 2], &(text.replace('-', "−") + mark));
            parts.push(format!("{label} {text}"));
        }
        sentences.push(format!("{name}: {}", parts.join(", ")));
    }
    Panel {
        title: sentences.first().cloned().unwrap_or_default(),
        description: sentences.join("; "),
        width: WIDTH,
        height: y + 4.0,
        body: canvas.0,
        ..Panel::default()
    }
}
