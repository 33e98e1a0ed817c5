//! The story of a study for the terminal: title, table, picture, sentence, and how many figures were reproduced.
//!
//! Input: a [`StudyStory`]. Output: text laid out for the style's width. The story itself determines the rows, and
//! whether the sentence is told.

use firstbyte_core::stats::FEWEST_ROUNDS;

use super::Style;
use super::study::{
    BarGroup, MeasuredFigure, PublishedFigure, StoryFigure, StorySentence, StudyStory,
};
use super::style::{Ink, cut_end, wrap};

/// The story as text.
pub fn render_story(story: &StudyStory, style: &Style) -> String {
    let view = StoryView { story, style };
    if story.figures.is_empty() {
        return format!("\n{}: the study has no figures to reproduce\n", style.safe(&story.study));
    }
    let mut lines = view.title();
    let closing = [view.table(), view.picture(), view.sentence(), view.verdict()];
    for block in closing.into_iter().filter(|block| !block.is_empty()) {
        lines.push(String::new());
        lines.extend(block);
    }
    let lines: String = lines.iter().map(|line| format!("{}\n", line.trim_end())).collect();
    format!("\n{lines}")
}

struct StoryView<'a> {
    story: &'a StudyStory,
    style: &'a Style,
}

/// Columns of the table with their inks: figure, published, measured, mark.
type StoryRow = [(String, Ink); 4];

/// A line of the table.
enum StoryLine {
    Row(StoryRow),
    Text(String, Ink),
}

/// Columns between two table columns.
const GAP: usize = 2;
/// With fewer columns, names of figures cannot be distinguished.
const NARROWEST_NAME: usize = 16;

impl StoryView<'_> {
    fn title(&self) -> Vec<String> {
        let words = self.words(&self.story.source);
        let lines = wrap(&format!("{}: ", self.story.study), &words, self.style.columns());
        lines
            .iter()
            .map(|line| self.style.paint(Ink::Strong, line.trim_end_matches(": ")))
            .collect()
    }

    fn table(&self) -> Vec<String> {
        let estimates = || self.story.figures.iter().filter_map(|f| f.measured.estimate());
        let intervals = estimates().any(|estimate| estimate.interval.is_some());
        let lines = self.table_lines(intervals);
        // A narrow terminal has no space for intervals.
        let is_wide = self.room_for_names(&lines) >= NARROWEST_NAME;
        let lines = if is_wide { lines } else { self.table_lines(false) };
        let mut lines = self.align(&lines);
        if self.story.figures.iter().any(|figure| figure.published.is_own_bound) {
            let note = "(in brackets: expected, not published)";
            lines.push(self.style.paint(Ink::Faint, note));
        }
        let of_samples = |figure: &StoryFigure| figure.unit.has_intervals();
        if !intervals && self.story.figures.iter().any(of_samples) {
            let note = format!("(too few rounds for 95 % intervals: they need {FEWEST_ROUNDS})");
            lines.push(self.style.paint(Ink::Faint, &note));
        }
        lines
    }

    fn table_lines(&self, intervals: bool) -> Vec<StoryLine> {
        let measured = if intervals { "measured (95 % interval)" } else { "measured" };
        let head = ["figure", self.story.reference, measured, ""];
        let mut lines = vec![StoryLine::Row(head.map(|text| (text.to_owned(), Ink::Faint)))];
        for variant in self.story.variants() {
            let of_variant = self.story.figures.iter().filter(|f| f.variant == variant);
            let indent = if variant.is_empty() { "" } else { "  " };
            if !variant.is_empty() {
                lines.push(StoryLine::Text(self.style.safe(variant), Ink::Plain));
            }
            let mut reasons: Vec<&str> = Vec::new();
            for figure in of_variant {
                match &figure.measured {
                    MeasuredFigure::Unavailable(why) if !reasons.contains(&why.as_str()) => {
                        reasons.push(why);
                    }
                    MeasuredFigure::Unavailable(_) => {}
                    _ => lines.push(StoryLine::Row(self.row(figure, indent, intervals))),
                }
            }
            for why in reasons {
                let first = format!("{indent}not measured: ");
                for line in wrap(&first, &self.words(why), self.style.columns()) {
                    lines.push(StoryLine::Text(line, Ink::Faint));
                }
            }
        }
        lines
    }

    fn row(&self, figure: &StoryFigure, indent: &str, intervals: bool) -> StoryRow {
        let (mark, ink) = match &figure.measured {
            MeasuredFigure::Reproduced(_) => (self.style.glyph("✓", "ok"), Ink::Transfer),
            _ => (self.style.glyph("✗", "NO"), Ink::Loss),
        };
        let measured = match figure.measured.estimate() {
            Some(estimate) if intervals => figure.unit.estimate_text(estimate),
            Some(_) => figure.value_text(),
            None => "nothing".to_owned(),
        };
        [
            (format!("{indent}{}", self.style.safe(&figure.name)), Ink::Plain),
            (self.signs(&bracketed(&figure.published)), Ink::Plain),
            (self.signs(&measured), Ink::Strong),
            (mark.to_owned(), ink),
        ]
    }

    /// Columns of a line that are left for the names of figures.
    fn room_for_names(&self, lines: &[StoryLine]) -> usize {
        let others: usize = (1..4).map(|column| column_width(lines, column) + GAP).sum();
        self.style.columns().saturating_sub(others)
    }

    fn align(&self, lines: &[StoryLine]) -> Vec<String> {
        let [figure, published, measured] = [0, 1, 2].map(|column| column_width(lines, column));
        let figure = figure.min(self.room_for_names(lines));
        let gap = " ".repeat(GAP);
        let line = |line: &StoryLine| match line {
            StoryLine::Text(text, ink) => self.style.paint(*ink, text),
            StoryLine::Row([name, of, value, sign]) => {
                let paint = |(_, ink): &(String, Ink), text: &str| self.style.paint(*ink, text);
                let name =
                    paint(name, &format!("{:<figure$}", cut_end(&name.0, figure, self.style)));
                let of = paint(of, &format!("{:>published$}", of.0));
                let value = paint(value, &format!("{:<measured$}", value.0));
                format!("{name}{gap}{of}{gap}{value}{gap}{}", paint(sign, &sign.0))
            }
        };
        lines.iter().map(line).collect()
    }

    /// Bars of published figures, each followed by the measured ones.
    fn picture(&self) -> Vec<String> {
        let groups = self.story.bar_groups();
        let figures = || groups.iter().flat_map(|group| &group.figures).flatten();
        let longest = |text: fn(&StoryFigure) -> String| {
            figures().map(|figure| text(figure).chars().count()).max().unwrap_or(0)
        };
        let columns = self.style.columns();
        let name = longest(|figure| figure.name.clone()).min(columns / 3);
        let label = longest(|figure| figure.variant.clone()).clamp(9, columns / 4);
        let value =
            longest(|figure| bracketed(&figure.published)).max(longest(StoryFigure::value_text));
        let bar = columns.saturating_sub(name + label + value + 3 * GAP).max(8);
        let mut lines = Vec::new();
        for BarGroup { longest, figures } in &groups {
            if !lines.is_empty() {
                lines.push(String::new());
            }
            let scale = bar as f64 / longest.max(f64::MIN_POSITIVE);
            for of_name in figures {
                let Some(first) = of_name.first() else { continue };
                let line = |title: &str, which: &str, bar: String, figure: String| {
                    let title = cut_end(&self.style.safe(title), name, self.style);
                    let which = cut_end(&self.style.safe(which), label, self.style);
                    format!("{title:<name$}  {which:<label$}  {bar} {}", self.signs(&figure))
                };
                let published = &first.published;
                let which = if published.is_own_bound { "expected" } else { self.story.reference };
                let drawn = self.range_bar([published.low, published.high], scale);
                lines.push(line(&first.name, which, drawn, published.text.clone()));
                for figure in of_name {
                    let size = figure.measured.estimate().map_or(0.0, |e| e.value.abs());
                    let ink = match figure.measured {
                        MeasuredFigure::Reproduced(_) => Ink::Network,
                        _ => Ink::Loss,
                    };
                    let drawn = self.style.paint(ink, &self.bar(size * scale));
                    lines.push(line("", figure.bar_label(), drawn, figure.value_text()));
                }
            }
        }
        lines
    }

    /// A bar up to the nearer end, continued by a fainter one up to the farther end.
    fn range_bar(&self, ends: [f64; 2], scale: f64) -> String {
        let sizes = ends.map(f64::abs);
        let [near, far] = [sizes[0].min(sizes[1]), sizes[0].max(sizes[1])];
        let solid = self.bar(near * scale);
        let whole = (far * scale).round() as usize;
        let rest = whole.saturating_sub(solid.chars().count());
        let rest =
            if near < far { self.style.glyph("░", ".").repeat(rest) } else { String::new() };
        self.style.paint(Ink::Faint, &(solid + &rest))
    }

    /// A bar of `columns` columns, with a resolution of an eighth.
    fn bar(&self, columns: f64) -> String {
        const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
        if !self.style.unicode {
            return "#".repeat(columns.round() as usize);
        }
        let eighths = (columns * 8.0).round() as usize;
        "█".repeat(eighths / 8) + PARTS[eighths % 8]
    }

    fn sentence(&self) -> Vec<String> {
        let (text, ink) = match self.story.sentence() {
            None => return Vec::new(),
            Some(StorySentence::Told(text)) => (text, Ink::Strong),
            Some(StorySentence::Withheld(missed)) => {
                let missed = missed.join("; ");
                (
                    format!("No conclusion: it would rest on figures that were missed: {missed}."),
                    Ink::Loss,
                )
            }
        };
        let lines = wrap("", &self.words(&text), self.style.columns());
        lines.iter().map(|line| self.style.paint(ink, line)).collect()
    }

    fn verdict(&self) -> Vec<String> {
        let ink = if self.story.is_reproduced() { Ink::Strong } else { Ink::Loss };
        let lines = wrap("", &self.words(&self.story.verdict()), self.style.columns());
        lines.iter().map(|line| self.style.paint(ink, line)).collect()
    }

    fn words(&self, text: &str) -> Vec<String> {
        self.style.safe(&self.style.plain(text)).split(' ').map(str::to_owned).collect()
    }

    /// Replaces the sign of negative figures by the terminal's glyph.
    fn signs(&self, text: &str) -> String {
        self.style.safe(text).replace('-', self.style.glyph("−", "-"))
    }
}

fn column_width(lines: &[StoryLine], column: usize) -> usize {
    let rows = lines.iter().filter_map(|line| match line {
        StoryLine::Row(row) => Some(row[column].0.chars().count()),
        StoryLine::Text(..) => None,
    });
    rows.max().unwrap_or(0)
}

/// The study's own bounds are shown in brackets.
fn bracketed(published: &PublishedFigure) -> String {
    match published.is_own_bound {
        true => format!("({})", published.text),
        false => published.text.clone(),
    }
}

#[cfg(test)]
mod tests;
