//! A sequence as a story: the messages and waits, one after the other.
//!
//! Input: a [`Sequence`]. Output: steps in the client's time, with their texts. For a response of many bursts, the
//! story contains the first two and the last, and counts those between.

use std::time::Duration;

use firstbyte_core::sequence::{Arrow, ArrowKind, Burst, Sequence, Span, begins_response};
use firstbyte_core::split::{Part, Place};
use firstbyte_core::timeline::{Direction, Offset};

use crate::flights::counted;
use crate::style::Style;
use crate::units::{Scale, bytes, count, grouped};

/// One step of the story.
#[derive(Clone, Debug)]
pub(crate) enum Step<'a> {
    /// A burst sent from one side to the other.
    Leg(Leg<'a>),
    /// Time that passed.
    Wait(Wait),
    /// Bursts that are only counted.
    More { words: Vec<String> },
    /// Data that the client sent while it received the response.
    Meanwhile { words: Vec<String> },
}

/// A burst of an arrow.
#[derive(Clone, Debug)]
pub(crate) struct Leg<'a> {
    pub arrow: &'a Arrow,
    pub burst: &'a Burst,
    /// Its messages, as separate words.
    pub words: Vec<String>,
    /// Its size; absent for packets without data.
    pub amount: Option<String>,
}

/// Time with one cause, between two legs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    pub part: Part,
    pub place: Place,
    /// How many times the sender's congestion window was full.
    pub full_windows: usize,
    pub time: Duration,
    /// Begin and end, as times at `place`.
    pub from: Offset,
    pub to: Offset,
    /// Whether the wait was for nothing, because the connection failed then.
    pub in_vain: bool,
    /// Half of a round trip whose other half carries the label of both.
    pub told: bool,
    /// Time of both halves, if the label is here.
    pub both: Duration,
}

/// Number of bursts shown at the beginning of an arrow before the others are counted.
const FIRST: usize = 2;

/// Tells `sequence` as a story.
pub(crate) fn tell<'a>(sequence: &'a Sequence, style: &Style) -> Vec<Step<'a>> {
    let mut legs: Vec<(Offset, Step<'a>)> = Vec::new();
    let mut early = sequence.early_data.is_some();
    for arrow in &sequence.arrows {
        if arrow.kind == ArrowKind::Meanwhile {
            legs.push((Offset::ZERO + sequence.total, meanwhile(sequence, arrow, style)));
            continue;
        }
        let is_flight = arrow.kind == ArrowKind::Flight && arrow.direction == Direction::Sent;
        let with_early_data = early && is_flight;
        early &= !is_flight;
        legs.extend(told(sequence, arrow, with_early_data, style));
    }
    // Data that came after the end belongs to no wait.
    let end = Offset::ZERO + sequence.total;
    legs.retain(|(at, _)| sequence.broken_off.is_some() || *at <= end);
    legs.sort_by_key(|(at, _)| *at);
    let mut spans = sequence.spans.iter().copied().peekable();
    let mut steps = Vec::new();
    let wait = |span: &Span| {
        let failed = sequence.broken_off.as_ref().is_some_and(|f| f.phase == span.phase);
        Wait { in_vain: failed && span.part == Part::Unexplained, ..Wait::from_span(span) }
    };
    for (at, leg) in legs {
        let mut waits: Vec<Wait> = Vec::new();
        while let Some(span) = spans.next_if(|span| span.seen + span.duration() <= at) {
            add(&mut waits, wait(&span));
        }
        // An unsuccessful wait continues after another attempt.
        if let Some(span) = spans.peek_mut()
            && span.place == Place::Path
            && span.part != Part::Network
            && span.seen < at
        {
            let before = at.since(span.seen);
            add(&mut waits, wait(&Span { end: span.start + before, ..*span }));
            (span.start, span.seen) = (span.start + before, at);
        }
        steps.extend(joined(waits).into_iter().map(Step::Wait));
        steps.push(leg);
    }
    let mut waits = Vec::new();
    for span in spans {
        add(&mut waits, wait(&span));
    }
    steps.extend(joined(waits).into_iter().map(Step::Wait));
    steps
}

impl Wait {
    /// Smallest share of the total at which a wait is shown; the equation includes the others.
    const LEAST: f64 = 0.001;

    /// Whether it is long enough to be shown.
    pub(crate) fn counts(&self, sequence: &Sequence, scale: Scale) -> bool {
        let share = self.time.as_secs_f64() / sequence.total.as_secs_f64().max(1e-12);
        scale.steps(self.time) > 0 && share >= Self::LEAST
    }

    fn from_span(span: &Span) -> Self {
        let time = span.duration();
        Self {
            part: span.part,
            place: span.place,
            full_windows: usize::from(span.is_full_window()),
            time,
            from: span.start,
            to: span.end,
            in_vain: false,
            told: false,
            both: time,
        }
    }

    /// "server 2.9 ms"
    pub(crate) fn words(&self, sequence: &Sequence, scale: Scale, style: &Style) -> String {
        let time = scale.time(self.both, style);
        let whole = sequence.rtt.is_some_and(|rtt| rtt == self.both);
        match (self.part, self.full_windows) {
            (Part::Network, 0) if whole => format!("round trip {time}"),
            (Part::Network, 0) => format!("network {time}"),
            (Part::Network, 1) => format!("waits for acknowledgements {time}"),
            (Part::Network, n) => format!("waits {n} times for acknowledgements {time}"),
            (Part::Resolver, _) => {
                let mut words = format!("DNS {time}");
                for lookup in &sequence.lookups {
                    let dot = style.glyph(" · ", ", ");
                    let kind = lookup.record_type.name();
                    words += &match lookup.end {
                        Some(end) => {
                            format!("{dot}{kind} {}", scale.time_figure(end.since(lookup.start)))
                        }
                        None => format!("{dot}{kind} not waited for"),
                    };
                    if lookup.tries.len() > 1 {
                        words += &format!(" ({} tries)", lookup.tries.len());
                    }
                }
                words
            }
            (Part::Variation, _) => format!("beyond a round trip {time}"),
            (Part::Fallback, _) => format!("another address first {time}"),
            _ if self.in_vain && sequence.arrows.iter().any(|arrow| arrow.unanswered) => {
                format!("no answer {time}")
            }
            _ if self.in_vain => format!("in vain {time}"),
            (part, _) => format!("{} {time}", part.name()),
        }
    }
}

/// Merges waits with the same cause, whether adjacent or separated by a step, into one.
fn add(waits: &mut Vec<Wait>, wait: Wait) {
    let halves = wait.part == Part::Network && wait.place == Place::Path;
    let same = waits
        .iter_mut()
        .find(|earlier| (earlier.part, earlier.place) == (wait.part, wait.place) && !halves);
    match same {
        Some(earlier) => {
            earlier.time += wait.time;
            earlier.both += wait.time;
            earlier.full_windows += wait.full_windows;
            if wait.place != Place::Client {
                earlier.to = wait.to;
            } else if wait.time > earlier.to.since(earlier.from) {
                (earlier.from, earlier.to) = (wait.from, wait.to);
            }
        }
        None => waits.push(wait),
    }
}

/// Merges the outward and the return path under one label.
fn joined(mut waits: Vec<Wait>) -> Vec<Wait> {
    let halves: Vec<usize> = (0..waits.len())
        .filter(|i| waits[*i].part == Part::Network && waits[*i].place == Place::Path)
        .collect();
    if let [there, back] = halves[..] {
        let other = waits[back].time;
        waits[there].both += other;
        waits[back].told = true;
    }
    waits
}

fn told<'a>(
    sequence: &Sequence,
    arrow: &'a Arrow,
    with_early_data: bool,
    style: &Style,
) -> Vec<(Offset, Step<'a>)> {
    let bursts = &arrow.bursts;
    let of = bursts.len();
    let leg = |index: usize| {
        let burst = &bursts[index];
        let (words, mut amount) = match index {
            0 => (name(arrow, style), amount(sequence, arrow)),
            _ => (vec![format!("flight {} of {of}", index + 1)], burst.bytes.map(bytes)),
        };
        if let (true, 0, Some(early)) = (with_early_data, index, sequence.early_data) {
            let fate = match early.accepted {
                Some(true) => " (accepted)",
                Some(false) => " (refused)",
                None => "",
            };
            amount = amount.map(|all| match early.bytes_before_server_hello.map(grouped) {
                Some(sent) => format!("{all}, {sent} of them early data{fate}"),
                None => format!("{all}, with early data{fate}"),
            });
        }
        (burst.at(), Step::Leg(Leg { arrow, burst, words, amount }))
    };
    // Leaving out a single burst would save no space.
    if of <= FIRST + 2 {
        return (0..of).map(leg).collect();
    }
    let between = &bursts[FIRST..of - 1];
    let sum: u64 = between.iter().filter_map(|burst| burst.bytes).sum();
    let words =
        vec![format!("{} {} more flights,", style.glyph("⋮", ":"), between.len()), bytes(sum)];
    let more = (between[0].at(), Step::More { words });
    (0..FIRST).map(leg).chain([more, leg(of - 1)]).collect()
}

/// Label of an arrow.
fn name(arrow: &Arrow, style: &Style) -> Vec<String> {
    let begins = arrow.messages.iter().position(|name| begins_response(name)).unwrap_or(0);
    let is_response = arrow.kind == ArrowKind::Response;
    let (before, rest) = arrow.messages.split_at(if is_response { begins } else { 0 });
    let mut words = counted(before, style);
    if let Some(last) = words.last_mut() {
        last.push(',');
    }
    if is_response {
        words.push(if rest.is_empty() { "response".into() } else { "response:".into() });
    }
    words.extend(counted(rest, style));
    if matches!(arrow.kind, ArrowKind::Syn { retransmission: 1.. }) {
        words.push("sent again".into());
    }
    if let (Some(remote), Direction::Sent) = (arrow.remote, arrow.direction) {
        words.push(format!("to {remote}"));
    }
    words
}

/// "28,960 bytes in 2 flights"
fn amount(sequence: &Sequence, arrow: &Arrow) -> Option<String> {
    let sum = bytes(arrow.bytes()?);
    Some(match (arrow.bursts.len(), arrow.chunks()) {
        (1, 2..) if sequence.quic => {
            format!("{sum} in {}", count(arrow.chunks() as u64, "datagram"))
        }
        (1, _) => sum,
        (n, _) => format!("{sum} in {}", count(n as u64, "flight")),
    })
}

fn meanwhile<'a>(sequence: &Sequence, arrow: &Arrow, style: &Style) -> Step<'a> {
    let mut words = vec!["then the client sent".to_owned()];
    words.extend(counted(&arrow.messages, style));
    if let (Some(amount), Some(last)) = (amount(sequence, arrow), words.last_mut()) {
        if !arrow.messages.is_empty() {
            last.push(',');
        }
        words.push(amount);
    }
    Step::Meanwhile { words }
}
