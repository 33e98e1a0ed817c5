//! The parts of a phase in the order in which they happened.
//!
//! Input: a phase's [`Walk`] and the round-trip time. Output: [`Stretch`]es that cover the phase
//! without gaps. What a part is, is decided here and nowhere else.

use std::time::Duration;

use super::exchange::{Exchange, Step, Walk};
use crate::timeline::{Offset, PhaseName};

/// What a stretch of time went to. The parts are those of [`Parts`](super::Parts).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// Waiting for the name service.
    Resolver,
    /// Round trips.
    Network,
    /// What the TCP handshake took above one round trip.
    Variation,
    /// The server at work.
    Server,
    /// The client at work.
    Client,
    /// Between the first and the last byte of a flight.
    Transfer,
    /// The sender stood still for longer than acknowledgements take.
    Pause,
    /// Another address was tried first.
    Fallback,
    /// Not attributable from what was seen.
    Unexplained,
}

impl Part {
    /// Every part, in the order in which they are shown.
    pub const ALL: [Self; 9] = [
        Self::Resolver,
        Self::Network,
        Self::Variation,
        Self::Server,
        Self::Client,
        Self::Transfer,
        Self::Pause,
        Self::Fallback,
        Self::Unexplained,
    ];

    /// The name used in every output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Resolver => "resolver",
            Self::Network => "network",
            Self::Variation => "variation",
            Self::Server => "server",
            Self::Client => "client",
            Self::Transfer => "transfer",
            Self::Pause => "pause",
            Self::Fallback => "fallback",
            Self::Unexplained => "unexplained",
        }
    }
}

/// Where it went on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// At the client.
    Client,
    /// At the server. Within an answer, the client sees it half a round trip later.
    Server,
    /// At the name service.
    Resolver,
    /// On the way between the two, or unknown.
    Path,
}

/// A stretch of time with one cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// The phase it lies in.
    pub phase: PhaseName,
    /// What it went to.
    pub part: Part,
    /// Where that went on.
    pub place: Place,
    /// Begin, as the client saw it.
    pub start: Offset,
    /// End, as the client saw it.
    pub end: Offset,
}

impl Stretch {
    /// How long it took.
    pub fn duration(&self) -> Duration {
        self.end.since(self.start)
    }
}

/// Round trips of a phase, stalls among them; how much of the server's share may be transfer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counted {
    pub round_trips: u32,
    pub stalls: u32,
    pub doubt: Duration,
}

/// Stretches laid so far.
#[derive(Debug, Default)]
pub(super) struct Laid {
    pub list: Vec<Stretch>,
    pub resumed: Vec<Offset>,
}

impl Laid {
    /// Lays the stretches of one phase.
    pub(super) fn lay(&mut self, walk: &Walk, rtt: Option<Duration>) -> Counted {
        let mut counted = Counted::default();
        let phase = walk.phase.name;
        // A wait of no length is an answer all the same, and a round trip where that is no time.
        let mut steps = walk.steps.iter().peekable();
        for (index, exchange) in walk.exchanges.iter().enumerate() {
            while let Some((start, end, step)) =
                steps.next_if(|(.., step)| !matches!(step, Step::Exchange(i) if *i >= index))
            {
                self.step(phase, *start, *end, *step);
            }
            let mut to = Layer { laid: self, phase, cursor: exchange.start };
            match phase {
                PhaseName::Connect => to.connect(exchange, rtt, &mut counted),
                _ => to.exchange(exchange, rtt, &mut counted),
            }
        }
        for (start, end, step) in steps {
            self.step(phase, *start, *end, *step);
        }
        counted
    }

    fn step(&mut self, phase: PhaseName, start: Offset, end: Offset, step: Step) {
        let (part, place) = match step {
            Step::Resolver => (Part::Resolver, Place::Resolver),
            Step::Client => (Part::Client, Place::Client),
            Step::Sending => (Part::Transfer, Place::Client),
            Step::Fallback => (Part::Fallback, Place::Path),
            Step::Unanswered => (Part::Unexplained, Place::Path),
            Step::Exchange(_) => return,
        };
        self.list.push(Stretch { phase, part, place, start, end });
    }
}

/// Lays an exchange from its begin on.
struct Layer<'a> {
    laid: &'a mut Laid,
    phase: PhaseName,
    cursor: Offset,
}

impl Layer<'_> {
    fn lay(&mut self, length: Duration, part: Part, place: Place) {
        if length.is_zero() {
            return;
        }
        let (start, end) = (self.cursor, self.cursor + length);
        self.laid.list.push(Stretch { phase: self.phase, part, place, start, end });
        self.cursor = end;
    }

    fn connect(&mut self, exchange: &Exchange, rtt: Option<Duration>, counted: &mut Counted) {
        let network = rtt.unwrap_or(exchange.waited).min(exchange.waited);
        counted.round_trips += 1;
        // What was lost, was lost before the SYN that was answered.
        self.lay(exchange.waited - network, Part::Variation, Place::Path);
        self.lay(network, Part::Network, Place::Path);
    }

    fn exchange(&mut self, exchange: &Exchange, rtt: Option<Duration>, counted: &mut Counted) {
        let Some(rtt) = rtt else {
            self.lay(exchange.waited, Part::Unexplained, Place::Path);
            self.lay(exchange.answering, Part::Transfer, Place::Server);
            return;
        };
        if exchange.is_wait && exchange.waited >= rtt {
            counted.round_trips += 1;
            let there = rtt / 2;
            let beyond = exchange.waited - rtt;
            let busy = exchange.busy.known.min(beyond);
            counted.doubt += exchange.busy.possible.min(beyond);
            self.lay(there, Part::Network, Place::Path);
            self.lay(beyond - busy, Part::Server, Place::Server);
            self.lay(rtt - there, Part::Network, Place::Path);
            // As the client saw it, like the rest of the answer's transfer.
            self.lay(busy, Part::Transfer, Place::Server);
        } else {
            self.lay(exchange.waited, Part::Unexplained, Place::Path);
        }
        self.answer(exchange, rtt, counted);
    }

    /// An answer: transfer, with what its sender stood still for laid up to where data went on.
    fn answer(&mut self, exchange: &Exchange, rtt: Duration, counted: &mut Counted) {
        let (begin, end) = (self.cursor, self.cursor + exchange.answering);
        let mut still: Vec<Still> = Vec::new();
        let mut left = exchange.answering;
        // Stalls first: where they do not all fit, pauses are what is left.
        for halt in exchange.halts(rtt).filter(|halt| halt.stalled) {
            let Some(rest) = left.checked_sub(rtt) else { continue };
            left = rest;
            counted.stalls += 1;
            counted.round_trips += 1;
            still.push(Still { until: halt.end, length: rtt, part: Part::Network });
        }
        for halt in exchange.halts(rtt) {
            let length = halt.pause.min(left);
            left -= length;
            if !length.is_zero() {
                still.push(Still { until: halt.end, length, part: Part::Pause });
            }
        }
        // An acknowledgement that was held back comes before the way it takes.
        still.sort_by_key(|still| (still.until, still.part == Part::Network));
        self.laid.resumed.extend(still.iter().map(|still| still.until));
        self.laid.resumed.dedup();
        let mut latest = end;
        for still in still.iter_mut().rev() {
            still.until = still.until.min(latest);
            latest = still.until - still.length;
        }
        for Still { until, length, part } in still {
            let start = (until - length).max(self.cursor).max(begin);
            self.lay(start.since(self.cursor), Part::Transfer, Place::Server);
            self.lay(length, part, Place::Server);
        }
        self.lay(end.since(self.cursor), Part::Transfer, Place::Server);
    }
}

/// For how long the sender stood still, and until when at the latest.
struct Still {
    until: Offset,
    length: Duration,
    part: Part,
}
