//! A sequence for the terminal: the client's time on the left, the server's estimated time on the right.
//!
//! Waits are shown below an arrow, beside the lifeline of the waiting host, with a height in proportion to their
//! share.

use std::time::Duration;

use firstbyte_core::sequence::{ArrowKind, Moment, Sequence};
use firstbyte_core::split::{Part, Place, Split};
use firstbyte_core::timeline::{Direction, Offset, Sample};

use super::story::{Leg, Step, Wait, tell};
use crate::axis::{Cell, look_of};
use crate::equation::Ledger;
use crate::style::{Ink, Style, wrap};
use crate::units::Scale;
use crate::{error, waterfall};

/// The last connection of `sample` as a sequence diagram, followed by its equation.
pub fn sequence(sample: &Sample, style: &Style) -> String {
    let split = Split::attribute(&sample.connection);
    let ledger = Ledger::from_split(&split);
    let mut lines = waterfall::header(sample, &ledger, style);
    let mut text = String::new();
    lines.push(String::new());
    for line in lines {
        text += &format!("{}\n", line.trim_end());
    }
    text += &diagram(&Sequence::lay_out(&sample.connection), style);
    let equation = ledger.lines(style);
    if !equation.is_empty() {
        text.push('\n');
        for line in equation {
            text += &format!("{}\n", line.trim_end());
        }
    }
    if sample.failure().is_some() {
        text.push('\n');
        text += &error::failure(sample, style);
    }
    text
}

/// `sequence` without the equation.
pub fn diagram(sequence: &Sequence, style: &Style) -> String {
    let steps = tell(sequence, style);
    let page = Page::new(sequence, &steps, *style);
    let mut rows = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        let follows_leg =
            index > 0 && matches!((&steps[index - 1], step), (Step::Leg(_), Step::Leg(_)));
        if follows_leg {
            rows.push(page.blank());
        }
        page.step(step, &mut rows);
    }
    page.end(&mut rows);
    let mut out = page.heading();
    for row in &rows {
        out += &page.line(row);
    }
    out
}

/// A line of the diagram before colours are applied.
struct Row {
    left: String,
    /// Both lifelines and the space between them.
    cells: Vec<Cell>,
    right: String,
}

struct Page<'a> {
    sequence: &'a Sequence,
    style: Style,
    scale: Scale,
    /// Columns for a time.
    time: usize,
    /// Columns between the lifelines.
    inner: usize,
}

/// Rows for all waits together, in addition to one for each.
const HEIGHT: f64 = 12.0;

impl<'a> Page<'a> {
    fn new(sequence: &'a Sequence, steps: &[Step<'_>], style: Style) -> Self {
        let far = steps.iter().filter_map(|step| match step {
            Step::Leg(leg) => {
                leg.burst.arrived.into_iter().chain(leg.burst.departed).max_by_key(|m| m.at)
            }
            _ => None,
        });
        let longest = far.map(|m| m.at.since(Offset::ZERO)).max().unwrap_or_default();
        let scale = Scale::for_largest(sequence.total);
        let longest = scale.time_figure(longest.max(sequence.total)).len();
        let time = longest.max(scale.name(&style).len()) + 1;
        let inner = style.columns() - 2 * time - 4;
        Self { sequence, style, scale, time, inner }
    }

    fn heading(&self) -> String {
        let Self { style, time, .. } = self;
        let unit = self.scale.name(style);
        let far_end = self.sequence.far_end();
        let server = match self.sequence.remote {
            Some(remote) => format!("{far_end} {remote}"),
            None => far_end.to_owned(),
        };
        let gap = self.inner.saturating_sub(4 + server.chars().count());
        let line = format!("{unit:>time$} client{}{server}", " ".repeat(gap));
        format!("{}\n", style.paint(Ink::Faint, &line))
    }

    fn line(&self, row: &Row) -> String {
        let Self { style, time, .. } = self;
        let left = format!("{:>time$} ", row.left);
        let right = format!(" {:>time$}", row.right);
        let line = format!(
            "{}{}{}",
            left,
            style.cells(&row.cells),
            if row.right.is_empty() { String::new() } else { style.paint(Ink::Faint, &right) }
        );
        format!("{}\n", line.trim_end())
    }

    fn lifeline(&self) -> Cell {
        (self.style.glyph('│', '|'), Ink::Faint)
    }

    fn blank(&self) -> Row {
        let mut cells = vec![(' ', Ink::Plain); self.inner + 2];
        cells[0] = self.lifeline();
        cells[self.inner + 1] = self.lifeline();
        Row { left: String::new(), cells, right: String::new() }
    }

    fn step(&self, step: &Step<'_>, rows: &mut Vec<Row>) {
        match step {
            Step::Leg(leg) => self.leg(leg, rows),
            Step::Wait(wait) => self.wait(wait, rows),
            Step::More { words } => self.centred(words, Ink::Plain, rows),
            Step::Meanwhile { words } => self.centred(words, Ink::Faint, rows),
        }
    }

    fn centred(&self, words: &[String], ink: Ink, rows: &mut Vec<Row>) {
        self.lines(&wrap("", words, self.inner - 4), ink, rows);
    }

    fn lines(&self, lines: &[String], ink: Ink, rows: &mut Vec<Row>) {
        for line in lines {
            let mut row = self.blank();
            let line = self.fitting(line, self.inner - 2);
            let from = 1 + (self.inner - line.chars().count()) / 2;
            put(&mut row, from, &line, ink);
            rows.push(row);
        }
    }

    fn leg(&self, leg: &Leg<'_>, rows: &mut Vec<Row>) {
        let words: Vec<String> = leg.words.iter().map(|word| self.style.safe(word)).collect();
        let mut lines = wrap("", &words, self.inner - 4);
        if let (Some(amount), Some(last)) = (&leg.amount, lines.last_mut()) {
            let beside = format!("{last}{}{amount}", self.style.glyph(" · ", ", "));
            match beside.chars().count() <= self.inner - 4 {
                true => *last = beside,
                false => lines.push(amount.clone()),
            }
        }
        self.lines(&lines, Ink::Plain, rows);
        let mut row = self.blank();
        let inner = self.inner;
        let (dash, head) = match (leg.arrow.unanswered, leg.arrow.direction) {
            (true, _) => (self.style.glyph('╌', '-'), self.style.glyph('✗', 'X')),
            (false, Direction::Sent) => (self.style.glyph('─', '-'), self.style.glyph('▶', '>')),
            (false, Direction::Received) => {
                (self.style.glyph('─', '-'), self.style.glyph('◀', '<'))
            }
        };
        let ink = match (leg.arrow.unanswered, leg.arrow.direction) {
            (true, _) => Ink::Loss,
            (false, Direction::Sent) => Ink::Client,
            (false, Direction::Received) => Ink::Server,
        };
        let length = match (leg.arrow.unanswered, leg.arrow.kind) {
            (true, ArrowKind::OtherAttempt) => inner / 3,
            (true, _) => inner / 2,
            _ => inner,
        };
        for cell in &mut row.cells[1..=length] {
            *cell = (dash, ink);
        }
        match leg.arrow.direction {
            Direction::Sent => {
                row.cells[0] = (self.style.glyph('├', '|'), ink);
                row.cells[length] = (head, ink);
            }
            Direction::Received => {
                row.cells[1] = (head, ink);
                row.cells[inner + 1] = (self.style.glyph('┤', '|'), ink);
            }
        }
        let (client, server) = match leg.arrow.direction {
            Direction::Sent => (leg.burst.departed, leg.burst.arrived),
            Direction::Received => (leg.burst.arrived, leg.burst.departed),
        };
        row.left = self.moment(client);
        row.right = self.moment(server);
        rows.push(row);
    }

    /// Adds a wait, with its label beside the lifeline of the waiting host.
    fn wait(&self, wait: &Wait, rows: &mut Vec<Row>) {
        if !wait.counts(self.sequence, self.scale) {
            return;
        }
        let share = wait.time.as_secs_f64() / self.sequence.total.as_secs_f64().max(1e-12);
        let least = usize::from(!wait.told);
        let height = ((share * HEIGHT).round() as usize).max(least);
        let look = look_of(wait.part.name());
        let at_path = wait.place == Place::Path;
        let glyph = match wait.part {
            Part::Network => self.style.glyph('┊', ':'),
            _ => look.glyph(&self.style),
        };
        let label = self.style.safe(&wait.words(self.sequence, self.scale, &self.style));
        for number in 0..height {
            let mut row = self.blank();
            let end = self.inner + 1;
            match wait.place {
                Place::Server => row.cells[end] = (glyph, look.ink),
                Place::Client | Place::Resolver => row.cells[0] = (glyph, look.ink),
                Place::Path => {
                    row.cells[0] = (glyph, look.ink);
                    if wait.part == Part::Network {
                        row.cells[end] = (glyph, look.ink);
                    }
                }
            }
            if number == (height - 1) / 2 && !wait.told {
                let label = self.fitting(&label, self.inner - 2);
                let from = match wait.place {
                    Place::Server => end - 1 - label.chars().count(),
                    _ if at_path && wait.part == Part::Network => {
                        1 + (self.inner - label.chars().count()) / 2
                    }
                    _ => 2,
                };
                put(&mut row, from, &label, look.ink);
            }
            rows.push(row);
        }
    }

    /// Adds the end: the total, or the failure.
    fn end(&self, rows: &mut Vec<Row>) {
        let mut row = self.blank();
        let total = self.scale.time(self.sequence.total, &self.style);
        let (glyph, label, ink) = match &self.sequence.broken_off {
            Some(stop) => (self.style.glyph('✗', 'X'), stop.message.clone(), Ink::Loss),
            None => (self.style.glyph('┴', '+'), format!("total {total}"), Ink::Strong),
        };
        let at = match self.sequence.broken_off.as_ref().and_then(|f| f.at) {
            Some(at) => at,
            None => Offset::ZERO + self.sequence.total,
        };
        row.cells[0] = (glyph, ink);
        row.left = self.moment(Some(Moment { at, estimated: false }));
        let mut words: Vec<String> = Vec::new();
        for word in self.style.safe(&label).split(' ') {
            match words.last_mut() {
                // Keep a figure and its unit together.
                Some(last) if last.ends_with(|c: char| c.is_ascii_digit()) => {
                    last.push(' ');
                    last.push_str(word);
                }
                _ => words.push(word.to_owned()),
            }
        }
        for (index, line) in wrap("", &words, self.inner - 2).into_iter().enumerate() {
            if index > 0 {
                rows.push(std::mem::replace(&mut row, self.blank()));
                row.cells[0] = (' ', Ink::Plain);
            }
            put(&mut row, 2, &self.fitting(&line, self.inner - 2), ink);
        }
        row.cells[self.inner + 1] = (self.style.glyph('┴', '+'), Ink::Faint);
        rows.push(row);
    }

    fn fitting(&self, text: &str, room: usize) -> String {
        if text.chars().count() <= room {
            return text.to_owned();
        }
        let ellipsis = self.style.glyph("…", "...");
        let kept: String = text.chars().take(room - ellipsis.chars().count()).collect();
        kept + ellipsis
    }

    fn moment(&self, moment: Option<Moment>) -> String {
        let Some(Moment { at, estimated }) = moment else { return String::new() };
        let ns = at.as_nanos();
        let figure = self.scale.figure(self.scale.steps(Duration::from_nanos(ns.unsigned_abs())));
        let sign = if ns < 0 { "-" } else { "" };
        format!("{}{sign}{figure}", if estimated { "~" } else { "" })
    }
}

fn put(row: &mut Row, from: usize, text: &str, ink: Ink) {
    for (cell, c) in row.cells[from..].iter_mut().zip(text.chars()) {
        *cell = (c, ink);
    }
}
