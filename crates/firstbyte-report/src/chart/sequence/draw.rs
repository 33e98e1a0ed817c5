//! Draws a column.

use firstbyte_core::sequence::{ArrowKind, Moment, Span};
use firstbyte_core::split::{Part, Place};
use firstbyte_core::timeline::Direction;

use super::class;
use super::column::{Arrow, Column, LEFT, LINE, Labelled, RIGHT};
use super::scale::TimeScale;
use crate::Style;
use crate::chart::figure::{Panel, panel_title};
use crate::chart::{SMALL, WIDTH};
use crate::svg::{Anchor, Canvas, escape, fit, number, width, wrap};
use crate::units::count;

const CLIENT: f64 = LEFT;
const SERVER: f64 = WIDTH - RIGHT;
/// Half the width of a lifeline.
const HALF: f64 = 4.0;

/// Where the drawing below a title begins.
pub(super) fn top(title: &str, across: f64) -> f64 {
    panel_title(&mut Canvas::default(), title, across) + 22.0
}

/// Shapes collected into one path each, the first drawn below the others, because a page has many of these
/// drawings.
#[derive(Default)]
struct Paths {
    /// Parts of time on the lifelines, indexed by `Part`.
    parts: [String; Part::ALL.len()],
    bands: String,
    arrows: String,
    heads: String,
    lost: String,
    crosses: String,
    /// Background behind labels on arrows.
    masks: String,
}

struct Drawing<'a> {
    /// Lifelines and texts.
    canvas: Canvas,
    paths: Paths,
    column: &'a Column<'a>,
    time: &'a TimeScale,
    top: f64,
    /// Boxes of the texts: left, top, right, bottom.
    texts: Vec<[f64; 4]>,
    /// Texts grouped by look, so that each look is written once.
    labels: Vec<(String, String)>,
    /// Heights of both ends of the arrows, from the client's lifeline to the server's.
    lines: Vec<[f64; 2]>,
}

pub(super) fn panel(title: &str, column: &Column<'_>, time: &TimeScale, top: f64) -> Panel {
    let mut drawing = Drawing::new(column, time, top);
    panel_title(&mut drawing.canvas, title, WIDTH);
    let total = column.scale.time(column.sequence.total, &Style::default());
    drawing.lifelines();
    drawing.times();
    for arrow in &column.arrows {
        drawing.arrow(arrow);
    }
    for (at, words) in &column.more {
        drawing.more(*at, words);
    }
    for wait in &column.waits {
        drawing.wait(wait);
    }
    let height = drawing.end(&total);
    Panel {
        title: format!("Sequence of {title}"),
        description: format!(
            "{title}: {}, total {total}",
            count(u64::from(column.sequence.round_trips), "round trip")
        ),
        width: WIDTH,
        height,
        body: drawing.body(),
        ..Panel::default()
    }
}

impl<'a> Drawing<'a> {
    fn new(column: &'a Column<'a>, time: &'a TimeScale, top: f64) -> Self {
        Self {
            canvas: Canvas::default(),
            paths: Paths::default(),
            column,
            time,
            top,
            texts: Vec::new(),
            labels: Vec::new(),
            lines: Vec::new(),
        }
    }

    fn body(self) -> String {
        let mut canvas = Canvas::default();
        let bottom = number(self.bottom() + 8.0);
        let top = number(self.top - 3.0);
        canvas.path("ax", &format!("M{CLIENT} {top}V{bottom}M{SERVER} {top}V{bottom}"));
        for (part, d) in Part::ALL.into_iter().zip(&self.paths.parts) {
            canvas.path(&class(part), d);
        }
        canvas.path("bd", &self.paths.bands);
        canvas.path("aw", &self.paths.arrows);
        canvas.path("ah", &self.paths.heads);
        canvas.path("ho", &self.paths.lost);
        canvas.path("xm", &self.paths.crosses);
        canvas.path("pg", &self.paths.masks);
        for (style, texts) in &self.labels {
            canvas.0 += &format!("<g {style}>\n{texts}</g>\n");
        }
        canvas.0 + &self.canvas.0
    }

    fn y(&self, at: i64) -> f64 {
        (self.top + self.time.y(at)).round()
    }

    fn bottom(&self) -> f64 {
        let last = self.column.arrows.iter().flat_map(|a| [a.client, a.server]);
        let end = self.column.sequence.total.as_nanos() as i64;
        let end = self
            .column
            .sequence
            .broken_off
            .as_ref()
            .and_then(|f| f.at)
            .map_or(end, |at| end.max(at.as_nanos()));
        self.y(last.chain([end]).max().unwrap_or(end))
    }

    /// Draws the lifelines with the work and the waits on them.
    fn lifelines(&mut self) {
        let far_end = self.column.sequence.far_end();
        for (x, name) in [(CLIENT, "client"), (SERVER, far_end)] {
            self.text(x, self.top - 8.0, Anchor::Middle, "n", name);
        }
        let spans: Vec<Span> = self.column.sequence.spans.clone();
        for span in &spans {
            let seen = span.seen.as_nanos();
            let length = span.duration().as_nanos() as i64;
            self.strip(CLIENT, [seen, seen + length], span);
            if span.place == Place::Server {
                self.strip(SERVER, [span.start.as_nanos(), span.end.as_nanos()], span);
            }
        }
    }

    fn strip(&mut self, x: f64, [from, to]: [i64; 2], span: &Span) {
        let (from, to) = (self.y(from), self.y(to));
        area(&mut self.paths.parts[span.part as usize], [x - HALF, from], [x + HALF, to]);
    }

    /// Draws the times of the arrows' ends beside the lifelines.
    fn times(&mut self) {
        let mut shown: Vec<(bool, String)> = Vec::new();
        for arrow in &self.column.arrows {
            let burst = arrow.leg.burst;
            let (client, server) = match arrow.leg.arrow.direction {
                Direction::Sent => (burst.departed, burst.arrived),
                Direction::Received => (burst.arrived, burst.departed),
            };
            for (moment, at_client) in [(client, true), (server, false)] {
                let Some(Moment { at, estimated }) = moment else { continue };
                let steps = self
                    .column
                    .scale
                    .steps(std::time::Duration::from_nanos(at.as_nanos().unsigned_abs()));
                let sign = if at.as_nanos() < 0 { "−" } else { "" };
                let tilde = if estimated { "~" } else { "" };
                let figure = format!("{tilde}{sign}{}", self.column.scale.figure(steps));
                // A packet's arrival and the departure of its answer may have the same time.
                let is_new = !shown.contains(&(at_client, figure.clone()));
                let y = self.y(at.as_nanos()) + 4.0;
                if is_new || self.is_free([0.0, y - 9.0, LEFT, y + 1.0]) {
                    let (x, anchor) = match at_client {
                        true => (CLIENT - HALF - 4.0, Anchor::End),
                        false => (SERVER + HALF + 4.0, Anchor::Start),
                    };
                    if is_new {
                        self.text(x, y, anchor, "n", &figure);
                    }
                    shown.push((at_client, figure));
                }
            }
        }
    }

    fn arrow(&mut self, arrow: &Arrow<'_>) {
        if arrow.leg.arrow.unanswered {
            return self.lost(arrow);
        }
        let (from, to) = match arrow.leg.arrow.direction {
            Direction::Sent => {
                ([CLIENT + HALF, self.y(arrow.client)], [SERVER - HALF, self.y(arrow.server)])
            }
            Direction::Received => {
                ([SERVER - HALF, self.y(arrow.server)], [CLIENT + HALF, self.y(arrow.client)])
            }
        };
        if arrow.spread > 0 {
            let last = [self.y(arrow.client + arrow.spread), self.y(arrow.server + arrow.spread)];
            let (client, server) = (self.y(arrow.client), self.y(arrow.server));
            self.paths.bands += &format!(
                "M{x0} {}L{x1} {}V{}L{x0} {}Z",
                number(client),
                number(server),
                number(last[1]),
                number(last[0]),
                x0 = number(CLIENT + HALF),
                x1 = number(SERVER - HALF),
            );
        }
        line(&mut self.paths.arrows, from, to);
        self.head(from, to);
        self.lines.push([self.y(arrow.client), self.y(arrow.server)]);
        let x = (CLIENT + SERVER) / 2.0;
        let mut y = (self.top + arrow.middle(self.time) - arrow.height() / 2.0).round();
        for line in &arrow.lines {
            let wide = (width(line, SMALL) / 2.0).round() * 2.0 + 8.0;
            area(&mut self.paths.masks, [x - wide / 2.0, y], [x + wide / 2.0, y + LINE]);
            self.text(x, y + 10.5, Anchor::Middle, "l", line);
            y += LINE;
        }
    }

    fn head(&mut self, [x0, y0]: [f64; 2], [x1, y1]: [f64; 2]) {
        let length = (x1 - x0).hypot(y1 - y0).max(1e-9);
        let (dx, dy) = ((x1 - x0) / length, (y1 - y0) / length);
        let (bx, by) = (x1 - dx * 9.0, y1 - dy * 9.0);
        self.paths.heads += &format!(
            "M{} {}L{} {}L{} {}Z",
            number(x1),
            number(y1),
            number(bx - dy * 3.6),
            number(by + dx * 3.6),
            number(bx + dy * 3.6),
            number(by - dx * 3.6),
        );
    }

    /// Draws an arrow that does not arrive.
    fn lost(&mut self, arrow: &Arrow<'_>) {
        let (from, y) = (CLIENT + HALF, self.y(arrow.client));
        let share = if arrow.leg.arrow.kind == ArrowKind::OtherAttempt { 0.22 } else { 0.36 };
        let to = [from + (SERVER - from) * share, y + 16.0];
        line(&mut self.paths.lost, [from, y], to);
        let [x, y] = to;
        line(&mut self.paths.crosses, [x - 4.0, y - 4.0], [x + 4.0, y + 4.0]);
        line(&mut self.paths.crosses, [x - 4.0, y + 4.0], [x + 4.0, y - 4.0]);
        let room = SERVER - HALF - x - 20.0;
        let lines = wrap(&arrow.lines.join(" "), SMALL, room, 3);
        for (line, number) in lines.iter().zip(0u32..) {
            let line = fit(line, SMALL, room);
            self.text(x + 10.0, y + 4.0 + f64::from(number) * LINE, Anchor::Start, "l", &line);
        }
    }

    fn more(&mut self, at: i64, words: &str) {
        let next = self.column.arrows.iter().map(|a| a.client).filter(|t| *t > at).min();
        let y = next.map_or(self.y(at) + 30.0, |next| (self.y(at) + self.y(next)) / 2.0);
        self.text((CLIENT + SERVER) / 2.0, y + 4.0, Anchor::Middle, "n", words);
    }

    /// Writes the label of a wait beside the lifeline of the waiting host.
    fn wait(&mut self, labelled: &Labelled) {
        let Labelled { wait, text, from, to } = labelled;
        let (above, below) = (self.y(*from), self.y(*to));
        let class = if wait.part == Part::Network { "n" } else { "l" };
        let at_server = wait.place == Place::Server && wait.part != Part::Transfer;
        let mut places = match at_server {
            true => vec![(SERVER - HALF - 6.0, Anchor::End, text.clone())],
            false => vec![(CLIENT + HALF + 6.0, Anchor::Start, text.clone())],
        };
        // If there is no space between the arrows, the colour alone shows the cause.
        if at_server {
            let time = self.column.scale.time(wait.time, &Style::default());
            places.push((SERVER + HALF + 4.0, Anchor::Start, time));
        }
        let middle = (above + below) / 2.0 + 4.0;
        let reach = ((below - above) / 2.0 - 7.0).max(0.0);
        for (x, anchor, text) in places {
            let wide = width(&text, SMALL);
            let left = if anchor == Anchor::End { x - wide } else { x };
            // Try positions along the wait, from the middle outwards.
            let offsets = (0..=24u32).flat_map(|step| {
                let by = reach * f64::from(step) / 24.0;
                [by, -by]
            });
            for by in offsets {
                let y = middle + by;
                if self.is_free([left, y - 12.0, left + wide, y + 5.0]) {
                    return self.text(x, y, anchor, class, &text);
                }
            }
        }
    }

    fn is_free(&self, [left, top, right, bottom]: [f64; 4]) -> bool {
        self.texts.iter().all(|other| {
            right <= other[0] || left >= other[2] || bottom <= other[1] || top >= other[3]
        }) && self.lines.iter().all(|[client, server]| {
            let at = |x: f64| client + (server - client) * (x - CLIENT) / (SERVER - CLIENT);
            let (from, to) = (at(left), at(right));
            left > SERVER || right < CLIENT || from.max(to) <= top || from.min(to) >= bottom
        })
    }

    fn text(&mut self, x: f64, y: f64, anchor: Anchor, class: &str, text: &str) {
        let wide = width(text, SMALL);
        let left = match anchor {
            Anchor::Start => x,
            Anchor::Middle => x - wide / 2.0,
            Anchor::End => x - wide,
        };
        self.texts.push([left, y - 9.0, left + wide, y + 2.0]);
        let style = match anchor {
            Anchor::Start => format!("class=\"{class}\""),
            Anchor::Middle => format!("class=\"{class}\" text-anchor=\"middle\""),
            Anchor::End => format!("class=\"{class}\" text-anchor=\"end\""),
        };
        let (x, y, text) = (number(x), number(y.round()), escape(text));
        let one = format!("<text x=\"{x}\" y=\"{y}\">{text}</text>\n");
        match self.labels.iter_mut().find(|(other, _)| *other == style) {
            Some((_, all)) => *all += &one,
            None => self.labels.push((style, one)),
        }
    }

    /// Draws the outcome. Returns where the panel ends.
    fn end(&mut self, total: &str) -> f64 {
        let mut y = self.bottom() + 24.0;
        if let Some(stop) = &self.column.sequence.broken_off {
            let said = format!("✕ {}", stop.message);
            for line in wrap(&said, SMALL, WIDTH - CLIENT, 3) {
                self.canvas.text(CLIENT - HALF, y, Anchor::Start, "fx", &line);
                y += LINE;
            }
        }
        self.canvas.text(CLIENT - HALF, y + 4.0, Anchor::Start, "pt", &format!("total {total}"));
        y + 14.0
    }
}

fn line(d: &mut String, [x0, y0]: [f64; 2], [x1, y1]: [f64; 2]) {
    let [x0, y0, x1, y1] = [x0, y0, x1, y1].map(number);
    *d += &format!("M{x0} {y0}L{x1} {y1}");
}

/// Adds a rectangle. A rectangle of zero height becomes a thin line.
fn area(d: &mut String, [left, top]: [f64; 2], [right, bottom]: [f64; 2]) {
    let [left, top, right, bottom] = [left, top, right, bottom.max(top + 0.6)].map(number);
    *d += &format!("M{left} {top}H{right}V{bottom}H{left}Z");
}
