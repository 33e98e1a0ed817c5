//! A connection prepared for drawing: its labels, and how much space they need.

use firstbyte_core::sequence::{Moment, Sequence};
use firstbyte_core::split::{Part, Place};
use firstbyte_core::timeline::{Direction, Offset};

use super::scale::{Room, TimeScale};
use crate::Style;
use crate::chart::{SMALL, WIDTH};
use crate::sequence::story::{Leg, Step, Wait, tell};
use crate::svg::{width, wrap};
use crate::units::Scale;

pub(super) const LEFT: f64 = 58.0;
pub(super) const RIGHT: f64 = 58.0;
/// Distance between two lines of text.
pub(super) const LINE: f64 = 14.0;
/// Width of a label on an arrow.
const LABEL: f64 = WIDTH - LEFT - RIGHT - 60.0;

pub(super) struct Column<'a> {
    pub sequence: &'a Sequence,
    pub scale: Scale,
    pub arrows: Vec<Arrow<'a>>,
    pub waits: Vec<Labelled>,
    /// Items that are counted instead of drawn: when, and as text.
    pub more: Vec<(i64, String)>,
}

/// A burst with its label.
pub(super) struct Arrow<'a> {
    pub leg: Leg<'a>,
    /// Times of the ends at the client and at the server; equal if only one is known.
    pub client: i64,
    pub server: i64,
    pub lines: Vec<String>,
    pub spread: i64,
}

/// A wait with its label.
pub(super) struct Labelled {
    pub wait: Wait,
    pub text: String,
    /// The label goes between these times.
    pub from: i64,
    pub to: i64,
}

impl<'a> Column<'a> {
    pub(super) fn from_sequence(sequence: &'a Sequence, scale: Scale) -> Self {
        let style = Style::default();
        let mut column =
            Self { sequence, scale, arrows: Vec::new(), waits: Vec::new(), more: Vec::new() };
        let steps = tell(sequence, &style);
        let mut last = 0;
        for (index, step) in steps.iter().enumerate() {
            match step {
                Step::Leg(leg) => {
                    last = leg.burst.at().as_nanos();
                    column.arrows.push(Arrow::from_leg(leg.clone()));
                }
                Step::Wait(wait) if wait.counts(sequence, scale) && !wait.told => {
                    column.waits.extend(Labelled::for_wait(wait, &steps[index..], sequence, scale));
                }
                Step::More { words } => column.more.push((last, words.join(" "))),
                Step::Wait(_) | Step::Meanwhile { .. } => {}
            }
        }
        column
    }

    /// Every time at which something is drawn.
    pub(super) fn times(&self) -> Vec<i64> {
        let mut times = vec![self.sequence.total.as_nanos() as i64];
        for arrow in &self.arrows {
            times.extend([arrow.client, arrow.server]);
            times.extend([arrow.client + arrow.spread, arrow.server + arrow.spread]);
        }
        for span in &self.sequence.spans {
            times.extend([span.start.as_nanos(), span.end.as_nanos(), span.seen.as_nanos()]);
        }
        times
    }

    pub(super) fn rooms(&self) -> Vec<Room> {
        let mut rooms = Vec::new();
        for arrow in &self.arrows {
            let (from, to) = (arrow.client.min(arrow.server), arrow.client.max(arrow.server));
            rooms.push(Room { from, to, pixels: arrow.height() + 8.0 });
            if arrow.leg.arrow.unanswered || from == to {
                let pixels = arrow.height() + 16.0;
                let next = self.next_time(from);
                rooms.extend(next.map(|to| Room { from, to, pixels }));
            }
        }
        // Reserve space for the times beside each lifeline.
        for side in [|a: &Arrow<'_>| a.client, |a: &Arrow<'_>| a.server] {
            let mut times: Vec<i64> = self.arrows.iter().map(side).collect();
            times.sort_unstable();
            times.dedup();
            rooms.extend(times.windows(2).map(|pair| Room {
                from: pair[0],
                to: pair[1],
                pixels: 13.0,
            }));
        }
        rooms.extend(self.waits.iter().map(|wait| {
            let pixels = match wait.wait.place {
                Place::Resolver => 18.0,
                Place::Server if wait.wait.full_windows > 0 => 48.0,
                _ => 15.0,
            };
            Room { from: wait.from, to: wait.to, pixels }
        }));
        // If an arrow leaves while the server works, the label of the work goes below it.
        for wait in self.waits.iter().filter(|wait| wait.wait.place == Place::Server) {
            let within = |a: &&Arrow<'_>| wait.from < a.server && a.server < wait.to;
            if let Some(from) = self.arrows.iter().filter(within).map(|a| a.server).max() {
                rooms.push(Room { from, to: wait.to, pixels: 32.0 });
            }
        }
        if let Some(last) = self.arrows.iter().map(|a| a.client.max(a.server)).max() {
            rooms.extend(self.more.iter().map(|(from, _)| Room {
                from: *from,
                to: last,
                pixels: 64.0,
            }));
        }
        rooms
    }

    /// The next time after `from` at which something is drawn at the client.
    fn next_time(&self, from: i64) -> Option<i64> {
        let end = self.sequence.total.as_nanos() as i64;
        let times = self.arrows.iter().map(|a| a.client).chain([end]);
        times.filter(|at| *at > from).min()
    }

    /// Space for labels that would touch on `scale`.
    pub(super) fn touching(&self, scale: &TimeScale) -> Vec<Room> {
        let mut arrows: Vec<(&Arrow<'_>, f64)> = self
            .arrows
            .iter()
            .filter(|a| !a.leg.arrow.unanswered)
            .map(|a| (a, a.middle(scale)))
            .collect();
        arrows.sort_by(|a, b| a.1.total_cmp(&b.1));
        let mut rooms = Vec::new();
        for pair in arrows.windows(2) {
            let [(above, y0), (below, y1)] = pair else { continue };
            let short = (above.height() + below.height()) / 2.0 + 4.0 - (y1 - y0);
            if short > 0.5 {
                let from = above.client.min(above.server);
                let to = below.client.max(below.server);
                let pixels = scale.y(to) - scale.y(from) + 2.0 * short;
                rooms.push(Room { from, to, pixels });
            }
        }
        rooms
    }
}

impl<'a> Arrow<'a> {
    fn from_leg(leg: Leg<'a>) -> Self {
        let (client, server) = match leg.arrow.direction {
            Direction::Sent => (leg.burst.departed, leg.burst.arrived),
            Direction::Received => (leg.burst.arrived, leg.burst.departed),
        };
        let known = client.or(server).map_or(Offset::ZERO, |m| m.at);
        let at = |moment: Option<Moment>| moment.map_or(known, |m| m.at).as_nanos();
        let mut lines = wrap(&leg.words.join(" "), SMALL, LABEL, 5);
        if let Some(amount) = &leg.amount {
            let beside = lines.last().map(|last| format!("{last} · {amount}"));
            match beside.filter(|text| lines.len() == 1 && width(text, SMALL) <= LABEL) {
                Some(text) => lines = vec![text],
                None => lines.extend(wrap(amount, SMALL, LABEL, 2)),
            }
        }
        let spread = i64::try_from(leg.burst.spread.as_nanos()).unwrap_or(0);
        Self { client: at(client), server: at(server), spread, lines, leg }
    }

    /// Height of its label.
    pub(super) fn height(&self) -> f64 {
        self.lines.len() as f64 * LINE
    }

    /// Vertical position of its label's middle.
    pub(super) fn middle(&self, scale: &TimeScale) -> f64 {
        let ends = [self.client, self.server, self.client + self.spread, self.server + self.spread];
        ends.into_iter().map(|at| scale.y(at)).sum::<f64>() / 4.0
    }
}

impl Labelled {
    fn for_wait(
        wait: &Wait,
        steps: &[Step<'_>],
        sequence: &Sequence,
        scale: Scale,
    ) -> Option<Self> {
        let text = wait.words(sequence, scale, &Style::default());
        let (mut from, mut to) = (wait.from.as_nanos(), wait.to.as_nanos());
        match (wait.part, wait.place) {
            // Put the label between the question and its answer, where the arrows leave space.
            (Part::Network, Place::Path) if wait.both > wait.time => {
                let back = steps.iter().find_map(|step| match step {
                    Step::Wait(back) if back.told => Some(back.from.as_nanos()),
                    _ => None,
                });
                (from, to) = (to, back?);
            }
            // The arrow already shows half of a round trip.
            (Part::Network, Place::Path) if sequence.rtt != Some(wait.time) => return None,
            // The arrow is drawn where the data leaves; there is space where it arrives.
            (Part::Transfer, Place::Server) => {
                let away = (sequence.rtt.unwrap_or_default() / 2).as_nanos() as i64;
                (from, to) = (from + away, to + away);
            }
            _ => {}
        }
        Some(Self { wait: *wait, text, from, to })
    }
}
