//! A figure: panels in rows, a key for their colours, and a note on how to read them.

use std::fmt::Write as _;

use super::dress::{self, Theme};
use super::png::{self, PngError};
use super::{NARROW, SMALL, TITLE, WIDTH};
use crate::svg::{Anchor, BOLD, Canvas, escape, fit, number, width, wrap};

/// A picture.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Name of its file, without an extension.
    pub name: &'static str,
    /// Heading of the figure.
    pub title: String,
    /// Note on how to read it.
    pub note: String,
    pub(crate) keys: Vec<Key>,
    pub(crate) rows: Vec<Row>,
    /// Whether a page shows a panel only on request.
    pub(crate) folded: bool,
}

/// Panels that share a heading.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    pub heading: String,
    pub panels: Vec<Panel>,
}

/// A self-contained drawing.
#[derive(Clone, Debug, Default)]
pub struct Panel {
    /// Title, as alternative text.
    pub title: String,
    /// Description with the main figures, as alternative text.
    pub description: String,
    pub(crate) width: f64,
    pub(crate) height: f64,
    pub(crate) body: String,
    /// Data for the page's script, as attributes of the drawing.
    pub(crate) data: String,
    /// Text below it on the page, which the script replaces by the values under the crosshair.
    pub(crate) readout: String,
}

/// The meaning of a colour or a shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub class: String,
    pub label: String,
    pub shape: Shape,
}

/// How a key is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Area,
    /// A character.
    Symbol(&'static str),
}

impl Key {
    pub(crate) fn area(class: &str, label: &str) -> Self {
        Self { class: class.into(), label: label.into(), shape: Shape::Area }
    }

    pub(crate) fn symbol(symbol: &'static str, class: &str, label: &str) -> Self {
        Self { class: class.into(), label: label.into(), shape: Shape::Symbol(symbol) }
    }

    /// As an HTML element. It is only decoration, because the label beside it has the same meaning.
    pub(crate) fn swatch(&self) -> String {
        let mut canvas = Canvas::default();
        match self.shape {
            Shape::Area => canvas.rect([0.0, 0.0, 12.0, 12.0], &self.class, None),
            Shape::Symbol(symbol) => canvas.text(6.0, 11.0, Anchor::Middle, &self.class, symbol),
        }
        let drawing = canvas.0.trim_end();
        format!("<svg class=\"key\" viewBox=\"0 0 12 12\" aria-hidden=\"true\">{drawing}</svg>")
    }
}

impl Panel {
    /// The drawing as an element of a page whose style sheet has the rules.
    pub(crate) fn inline(&self, id: &str) -> String {
        let (w, h) = (number(self.width), number(self.height));
        format!(
            "<svg class=\"panel\" viewBox=\"0 0 {w} {h}\" role=\"img\" \
             aria-labelledby=\"{id}-t {id}-d\"{}>\n\
             <title id=\"{id}-t\">{}</title><desc id=\"{id}-d\">{}</desc>\n{}</svg>",
            self.data,
            escape(&self.title),
            escape(&self.description),
            self.body
        )
    }
}

impl Row {
    /// Draws the heading and the panels below it. Returns where the next row may begin.
    fn draw(&self, canvas: &mut Canvas, [left, top]: [f64; 2], columns: usize, pitch: f64) -> f64 {
        let mut y = top;
        if !self.heading.is_empty() {
            let room = self.panels.len().min(columns) as f64 * pitch - GAP;
            let text = fit(&self.heading, 14.0 * BOLD, room);
            canvas.text(left, y + 14.0, Anchor::Start, "h2", &text);
            y += 26.0;
        }
        for line in self.panels.chunks(columns) {
            for (panel, at) in line.iter().zip(0u32..) {
                let _ = writeln!(
                    canvas.0,
                    "<g transform=\"translate({} {})\"><title>{}</title>\n{}</g>",
                    number(left + f64::from(at) * pitch),
                    number(y),
                    escape(&panel.title),
                    panel.body
                );
            }
            y += line.iter().map(|p| p.height).fold(0.0, f64::max) + GAP;
        }
        y + 6.0
    }
}

const MARGIN: f64 = 24.0;
const GAP: f64 = 20.0;

impl Figure {
    /// The figure as a standalone SVG, in light and dark.
    pub fn svg(&self) -> String {
        self.sheet(Theme::Both)
    }

    /// The figure as a PNG, in light colours and at double size.
    ///
    /// # Errors
    /// If the picture is too large.
    pub fn png(&self) -> Result<Vec<u8>, PngError> {
        png::encode(&self.sheet(Theme::Light), 2.0)
    }

    pub(crate) fn sheet(&self, theme: Theme) -> String {
        let columns = self.columns();
        let pitch = self.panels().map(|p| p.width).fold(0.0, f64::max) + GAP;
        let used = self.rows.iter().map(|r| r.panels.len()).sum::<usize>().clamp(1, columns);
        let sheet = (MARGIN * 2.0 + used as f64 * pitch - GAP).max(640.0);
        let mut canvas = Canvas::default();
        let mut y = MARGIN + 12.0;
        for line in wrap(&self.title, 18.0 * BOLD, sheet - 2.0 * MARGIN, 2) {
            canvas.text(MARGIN, y, Anchor::Start, "h1", &line);
            y += 22.0;
        }
        for line in wrap(&self.note, SMALL, sheet - 2.0 * MARGIN, 6) {
            canvas.text(MARGIN, y, Anchor::Start, "n", &line);
            y += 16.0;
        }
        y = self.legend(&mut canvas, y + 4.0, sheet);
        // Groups are placed side by side as long as there are free columns.
        let (mut column, mut lowest) = (0, y);
        for row in self.rows.iter().filter(|r| !r.panels.is_empty()) {
            let wide = row.panels.len().min(columns);
            if column + wide > columns {
                (column, y) = (0, lowest);
            }
            let x = MARGIN + column as f64 * pitch;
            lowest = lowest.max(row.draw(&mut canvas, [x, y], columns, pitch));
            column += wide;
        }
        let (w, h) = (number(sheet), number(lowest + 4.0));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {w} {h}\" width=\"{w}\" \
             height=\"{h}\" role=\"img\">\n<title>{}</title>\n<desc>{}</desc>\n<style>\n{}</style>\n\
             <rect class=\"page\" width=\"{w}\" height=\"{h}\"/>\n{}</svg>\n",
            escape(&self.title),
            escape(&self.note),
            dress::standalone(theme),
            canvas.0
        )
    }

    /// Number of panels per row if there is enough space.
    pub(crate) fn columns(&self) -> usize {
        match self.panels().count() {
            _ if self.panels().any(|p| p.width > 1.5 * WIDTH) => 1,
            0..3 => 2,
            _ if self.panels().all(|p| p.width <= NARROW) => 4,
            _ => 3,
        }
    }

    /// Every panel, row by row.
    pub fn panels(&self) -> impl Iterator<Item = &Panel> {
        self.rows.iter().flat_map(|r| &r.panels)
    }

    fn legend(&self, canvas: &mut Canvas, top: f64, sheet: f64) -> f64 {
        if self.keys.is_empty() {
            return top + 4.0;
        }
        let (mut x, mut y) = (MARGIN, top);
        for key in &self.keys {
            let room = 18.0 + width(&key.label, SMALL) + 18.0;
            if x > MARGIN && x + room > sheet - MARGIN {
                x = MARGIN;
                y += 18.0;
            }
            match key.shape {
                Shape::Area => canvas.rect([x, y, 12.0, 12.0], &key.class, None),
                Shape::Symbol(symbol) => {
                    canvas.text(x + 6.0, y + 10.5, Anchor::Middle, &key.class, symbol);
                }
            }
            canvas.text(x + 18.0, y + 10.5, Anchor::Start, "n", &key.label);
            x += room;
        }
        y + 30.0
    }
}

/// The heading of a panel, on one or two lines. Returns where the drawing may begin.
pub(crate) fn panel_title(canvas: &mut Canvas, title: &str, panel_width: f64) -> f64 {
    let bold = TITLE * BOLD;
    let mut y = 14.0;
    for line in wrap(title, bold, panel_width - 4.0, 2) {
        canvas.text(0.0, y, Anchor::Start, "pt", &line);
        y += 17.0;
    }
    y
}
