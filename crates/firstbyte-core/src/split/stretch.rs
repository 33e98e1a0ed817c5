//! The parts of a phase in the order in which they happened.
//!
//! Input: the phases' [`Walk`]s, the measured path, and the releases. Output: [`Stretch`]es that cover the phases
//! without gaps. Only this module decides the part of each stretch.

use std::time::Duration;

use super::Parts;
use super::exchange::{Exchange, Step, Walk};
use super::path::{Gap, Path, Pause};
use super::rules::Rules;
use crate::split::server_model::By;
use crate::split::server_model::{Release, Released, Why};
use crate::timeline::{Offset, PhaseName};

/// A congestion window doubles with each round trip, so an upload waits for at most this many.
const DOUBLINGS: u32 = 64;

/// Cause of a stretch of time. The parts are those of [`Parts`](super::Parts).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// Waiting for the name service.
    Resolver,
    /// Round trips.
    Network,
    /// Time of the TCP handshake above one round trip.
    Variation,
    /// Server processing.
    Server,
    /// Client processing.
    Client,
    /// Between the first and the last byte of a flight.
    Transfer,
    /// The sender paused for longer than acknowledgements take.
    Pause,
    /// The client tried another address first.
    Fallback,
    /// Not attributable from the observations.
    Unexplained,
}

impl Part {
    /// All parts, in display order.
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

    /// Name used in every output.
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

/// Place where a stretch of time was spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// At the client.
    Client,
    /// At the server. Within an answer, the client sees it half a round trip later.
    Server,
    /// At the name service.
    Resolver,
    /// On the path between client and server, or unknown.
    Path,
}

/// A stretch of time with one cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Phase that contains it.
    pub phase: PhaseName,
    /// Cause.
    pub part: Part,
    /// Where the time was spent.
    pub place: Place,
    /// Start, on the client's clock.
    pub start: Offset,
    /// End, on the client's clock.
    pub end: Offset,
}

impl Stretch {
    /// Duration of the stretch.
    pub fn duration(&self) -> Duration {
        self.end.since(self.start)
    }
}

/// Data that the server's TCP held back and that delayed the connection's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// When it arrived.
    pub until: Offset,
    /// How much earlier it could have arrived, as far as the data shows.
    pub cost: Duration,
    /// How long the client delayed the acknowledgement.
    pub delayed: Duration,
    /// Why the server's TCP held it.
    pub why: Why,
}

/// Over QUIC, a host that holds a datagram back for longer waits for a timer.
const STANDS: Duration = Duration::from_millis(5);
/// Shorter stalls of a sender are not drawn.
const STANDING: Duration = Duration::from_micros(400);

/// Round trips of a phase, including stalls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counted {
    phase: PhaseName,
    pub round_trips: u32,
    pub stalls: u32,
}

impl Counted {
    const fn none(phase: PhaseName) -> Self {
        Self { phase, round_trips: 0, stalls: 0 }
    }
}

/// The parts of all phases, laid end to end.
#[derive(Debug, Default)]
pub(super) struct Laid {
    pub list: Vec<Stretch>,
    pub resumed: Vec<Offset>,
    /// Data held back on the critical path.
    pub held: Vec<Held>,
    /// Another layout was possible.
    pub was_decided: bool,
    /// Round trips, by the time they ended.
    counts: Vec<(Offset, Counted)>,
}

/// Findings about the connection, input of the layout.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found<'a> {
    pub walks: &'a [Walk],
    pub path: &'a Path,
    /// Arrivals that waited for the client.
    pub releases: &'a [Release],
    /// Attribute data written after a pause to the alternative, less likely predecessor: to the data released before
    /// it instead of the data written before it, or the reverse.
    pub otherwise: bool,
    pub rules: Rules,
    /// When the request had left; `first_packet` is when the response's first packet arrived.
    pub request: Option<Offset>,
    pub first_packet: Option<Offset>,
    /// A packet that follows a held one within this time may have waited behind it.
    pub behind: Duration,
}

impl Found<'_> {
    /// Whether the held packet came before the response: session tickets or settings. The response waited for the
    /// request alone.
    fn precedes_response(&self, release: &Release) -> bool {
        let after = self.request.is_some_and(|request| release.arrived > request);
        after && self.first_packet.is_some_and(|first| first > release.arrived + self.behind)
    }

    /// Ends of the critical paths, in order: the response's first packet, its head, its last byte. A failed connection
    /// has one path, to its last event.
    fn path_ends(&self) -> impl Iterator<Item = Offset> {
        let last = self.walks.last().map(|walk| walk.phase.end);
        let wait = self.walks.iter().find(|walk| walk.phase.name == PhaseName::Wait);
        let wait = wait.map(|walk| walk.phase).filter(|phase| phase.complete);
        let within = |at: Offset| wait.map(|phase| at.clamp(phase.start, phase.end));
        let first_packet = self.first_packet.and_then(within);
        let head = [first_packet, wait.map(|phase| phase.end)];
        let head = head.into_iter().filter(|_| self.rules != Rules::WaitByLastByte);
        head.chain([last]).flatten()
    }
}

/// A section of the critical path.
#[derive(Clone, Copy, Debug)]
enum Run<'a> {
    /// Exactly as in the walk.
    Walked(Offset, Offset),
    /// From the client's cause to the arrival it released.
    Released(&'a Release),
    /// From the server's previous write to the write after the pause.
    Paused(Offset, &'a Pause),
}

impl Laid {
    /// Lays each stretch of time along the path to the event it led to: the response's first packet, then the end of
    /// its head, then its last byte. A delay of the last byte says nothing about the first one.
    pub(super) fn lay_critical_paths(found: Found<'_>) -> Self {
        let mut laid = Self::default();
        let mut from = Offset::from_nanos(i64::MIN);
        for end in found.path_ends() {
            let path = Self::lay_path_to(found, end);
            let after = path.list.into_iter().filter(|stretch| stretch.end > from);
            laid.list.extend(after.map(|s| Stretch { start: s.start.max(from), ..s }));
            laid.counts.extend(path.counts.into_iter().filter(|(at, _)| *at > from));
            // The last path's end is the connection's end.
            laid.held = path.held;
            laid.was_decided |= path.was_decided;
            from = end;
        }
        let stood = |release: &&Release| release.arrived.since(release.earliest) > STANDING;
        laid.resumed = found.releases.iter().filter(stood).map(|release| release.arrived).collect();
        laid.resumed.extend(found.path.pauses.iter().map(|pause| pause.arrived));
        laid.resumed.sort_unstable();
        laid.resumed.dedup();
        laid
    }

    /// Lays the critical path to the arrival at `end`, traced backwards through the releases.
    fn lay_path_to(found: Found<'_>, end: Offset) -> Self {
        let mut laid = Self::default();
        let (runs, was_decided) = runs(found, end);
        laid.was_decided = was_decided;
        for run in runs.into_iter().rev() {
            match run {
                Run::Walked(from, to) => laid.walked(found, from, to),
                Run::Released(release) => laid.released(found, release),
                Run::Paused(from, pause) => laid.paused(found, from, pause),
            }
        }
        laid.list.retain(|stretch| stretch.end > stretch.start);
        laid
    }

    pub(super) fn parts(&self, phase: PhaseName) -> Parts {
        let mut parts = Parts::default();
        for stretch in self.list.iter().filter(|stretch| stretch.phase == phase) {
            *parts.part_mut(stretch.part) += stretch.duration();
        }
        parts
    }

    pub(super) fn counted(&self, phase: PhaseName) -> Counted {
        let of_it = self.counts.iter().filter(|(_, counted)| counted.phase == phase);
        of_it.fold(Counted::none(phase), |sum, (_, counted)| Counted {
            round_trips: sum.round_trips + counted.round_trips,
            stalls: sum.stalls + counted.stalls,
            ..sum
        })
    }

    /// Lays a part from one time to another, across all phases it overlaps.
    fn lay(&mut self, found: Found<'_>, part: Part, place: Place, from: Offset, to: Offset) {
        for walk in found.walks {
            let (start, end) = (from.max(walk.phase.start), to.min(walk.phase.end));
            if end > start {
                let phase = walk.phase.name;
                self.list.push(Stretch { phase, part, place, start, end });
            }
        }
    }

    fn count(&mut self, found: Found<'_>, at: Offset, round_trips: u32, stalls: u32) {
        let holds = |walk: &&Walk| walk.phase.start <= at && at <= walk.phase.end;
        if let Some(walk) = found.walks.iter().find(holds) {
            self.counts.push((at, Counted { phase: walk.phase.name, round_trips, stalls }));
        }
    }

    fn walked(&mut self, found: Found<'_>, from: Offset, to: Offset) {
        for walk in found.walks {
            for (start, end, step) in &walk.steps {
                if *end <= from || *start >= to {
                    continue;
                }
                let (from, to) = (from.max(*start), to.min(*end));
                let (part, place) = match step {
                    Step::Resolver if found.rules == Rules::LookupIsClientWork => {
                        (Part::Client, Place::Client)
                    }
                    Step::Resolver => (Part::Resolver, Place::Resolver),
                    Step::Client if found.rules == Rules::ClientWorkIsServers => {
                        (Part::Server, Place::Client)
                    }
                    Step::Client => (Part::Client, Place::Client),
                    Step::Sending => {
                        self.sent(found, from, to);
                        continue;
                    }
                    Step::Fallback if found.rules == Rules::AttemptsAreNetwork => {
                        (Part::Network, Place::Path)
                    }
                    Step::Fallback => (Part::Fallback, Place::Path),
                    Step::Unanswered => (Part::Unexplained, Place::Path),
                    Step::Exchange(_) => continue,
                };
                self.lay(found, part, place, from, to);
            }
            for exchange in &walk.exchanges {
                let instant = exchange.start == exchange.last();
                if exchange.last() < from
                    || exchange.start > to
                    || (!instant && exchange.start == to)
                {
                    continue;
                }
                match walk.phase.name {
                    PhaseName::Connect if from <= exchange.start => {
                        self.connect(found, exchange, to);
                    }
                    PhaseName::Connect => {
                        let (from, to) = (from.max(exchange.start), to.min(exchange.first()));
                        self.lay(found, Part::Unexplained, Place::Path, from, to);
                    }
                    _ => {
                        self.waited(found, exchange, walk.phase.name, from, to);
                        let (from, to) = (from.max(exchange.first()), to.min(exchange.last()));
                        self.answer(found, from, to);
                    }
                }
            }
        }
        // A phase's steps and exchanges were laid separately.
        self.list.sort_by_key(|stretch| (stretch.start, stretch.end));
    }

    /// Lays the time between the first and the last byte sent. Whole round trips in it were waits for acknowledgements
    /// with the congestion window full.
    fn sent(&mut self, found: Found<'_>, from: Offset, to: Offset) {
        let rtt = found.path.rtt.unwrap_or_default();
        let trips_in =
            |took: Duration| (took + rtt / 20).as_nanos().checked_div(rtt.as_nanos()).unwrap_or(0);
        let mut from = from;
        let held = found.path.window_full.min(to.since(from));
        // A receive window of one round trip's bytes also fills up. Beyond `DOUBLINGS` round trips, the congestion
        // window cannot be the limit: the server did not read and held the client up.
        if trips_in(to.since(from)) > u128::from(DOUBLINGS) && held * 2 > to.since(from) {
            self.lay(found, Part::Server, Place::Server, from, from + held);
            from = from + held;
        }
        let took = to.since(from);
        // A window doubles with each round trip.
        let trips = trips_in(took).min(u128::from(DOUBLINGS));
        let trips = u32::try_from(trips).unwrap_or(DOUBLINGS);
        let waited = rtt.saturating_mul(trips).min(took);
        self.lay(found, Part::Network, Place::Path, from, from + waited);
        self.lay(found, Part::Transfer, Place::Client, from + waited, to);
        self.count(found, to, trips, 0);
    }

    fn connect(&mut self, found: Found<'_>, exchange: &Exchange, to: Offset) {
        let first = exchange.first().min(to);
        let waited = first.since(exchange.start);
        let network = found.path.rtt.unwrap_or(waited).min(waited);
        self.counts.push((first, Counted { round_trips: 1, ..Counted::none(PhaseName::Connect) }));
        // Any loss happened before the SYN that was answered.
        let begun = first - network;
        let late = match found.rules {
            Rules::LateSynIsNetwork => Part::Network,
            _ => Part::Variation,
        };
        self.lay(found, late, Place::Path, exchange.start, begun);
        self.lay(found, Part::Network, Place::Path, begun, first);
    }

    /// Lays the wait for an answer, or for the part of it that had arrived by `to`.
    fn waited(
        &mut self,
        found: Found<'_>,
        exchange: &Exchange,
        phase: PhaseName,
        from: Offset,
        to: Offset,
    ) {
        let (start, first) = (exchange.start, exchange.first().min(to));
        if from > start {
            // The server continued with the answer.
            let server = exchange.is_wait || exchange.goes_on;
            let part = if server { Part::Server } else { Part::Unexplained };
            return self.lay(found, part, Place::Server, from, first);
        }
        if exchange.goes_on {
            let busy = exchange.busy.known.min(first.since(start));
            self.lay(found, Part::Server, Place::Server, start, first - busy);
            return self.lay(found, Part::Transfer, Place::Server, first - busy, first);
        }
        let waited = first.since(start);
        let Some(rtt) = found.path.rtt.filter(|rtt| exchange.is_wait && waited >= *rtt) else {
            return self.lay(found, Part::Unexplained, Place::Path, start, first);
        };
        self.counts.push((first, Counted { round_trips: 1, ..Counted::none(phase) }));
        let (there, beyond) = (rtt / 2, waited - rtt);
        let whole = first == exchange.first();
        let busy = if whole { exchange.busy.known.min(beyond) } else { Duration::ZERO };
        let varied = found.path.varied(start, first, beyond - busy);
        let mut cursor = start;
        let mut next = |length: Duration, part, place| {
            let (from, to) = (cursor, cursor + length);
            cursor = to;
            self.lay(found, part, place, from, to);
        };
        next(there, Part::Network, Place::Path);
        let answering = match found.rules {
            Rules::AnswersAreUnexplained => Part::Unexplained,
            _ => Part::Server,
        };
        next(beyond - busy - varied, answering, Place::Server);
        next(varied, Part::Variation, Place::Path);
        next(rtt - there, Part::Network, Place::Path);
        // On the client's clock, like the rest of the answer's transfer.
        next(busy, Part::Transfer, Place::Server);
    }

    /// Lays the arrival of an answer: transfer and variation.
    fn answer(&mut self, found: Found<'_>, from: Offset, to: Offset) {
        let mut cursor = from;
        for gap in found.path.gaps.iter().filter(|gap| gap.to > from && gap.from < to) {
            if gap.is == Gap::VARIED {
                let (start, end) = (gap.from.max(cursor), gap.to.min(to));
                self.lay(found, Part::Transfer, Place::Server, cursor, start);
                self.lay(found, Part::Variation, Place::Path, start, end);
                cursor = end;
            }
        }
        self.lay(found, Part::Transfer, Place::Server, cursor, to);
    }

    fn released(&mut self, found: Found<'_>, release: &Release) {
        let Release { arrived, left, cause, by, .. } = *release;
        let rtt = found.path.rtt.unwrap_or_default();
        let timer = by == Released::Acknowledgement(By::Timer);
        let back = (arrived - rtt).max(cause);
        self.held.push(Held {
            until: arrived,
            cost: arrived.since(release.earliest),
            delayed: if timer { back.since(cause) } else { Duration::ZERO },
            why: release.why,
        });
        match by {
            Released::Finished => {
                let (left, there) = (left.clamp(cause, arrived), rtt / 2);
                let forth = (left + there).min(arrived);
                let back = (arrived - (rtt - there)).max(forth);
                self.lay(found, Part::Client, Place::Client, cause, left);
                self.lay(found, Part::Network, Place::Path, left, forth);
                self.lay(found, Part::Server, Place::Server, forth, back);
                self.lay(found, Part::Network, Place::Path, back, arrived);
                self.count(found, arrived, 1, 0);
            }
            Released::Datagram => {
                // The client delays acknowledgements, and the server paces its datagrams.
                let held = |time: Duration| time > STANDS;
                let (there, beyond) = (rtt / 2, found.path.varies());
                let waited = if held(left.since(cause)) { Part::Pause } else { Part::Client };
                self.lay(found, waited, Place::Client, cause, left);
                let forth = (left + there).min(arrived);
                let back = (arrived - (rtt - there)).max(forth);
                let over = back.since(forth);
                let beyond = match (held(over), beyond) {
                    (true, false) => Part::Pause,
                    (_, true) => Part::Variation,
                    (false, false) => Part::Transfer,
                };
                self.lay(found, Part::Network, Place::Path, left, forth);
                self.lay(found, beyond, Place::Server, forth, back);
                self.lay(found, Part::Network, Place::Server, back, arrived);
                self.count(found, arrived, 1, 1);
            }
            Released::Acknowledgement(by) => {
                let until = match by {
                    By::Timer => {
                        self.lay(found, Part::Pause, Place::Server, cause, back);
                        back
                    }
                    By::Data | By::Read => {
                        let until = left.clamp(cause, back);
                        self.lay(found, Part::Client, Place::Client, cause, until);
                        until
                    }
                    By::Segment => cause,
                };
                let beyond = if found.path.varies() { Part::Variation } else { Part::Transfer };
                self.lay(found, beyond, Place::Path, until, back);
                self.lay(found, Part::Network, Place::Server, back, arrived);
                self.count(found, arrived, 1, 1);
            }
        }
    }

    fn paused(&mut self, found: Found<'_>, from: Offset, pause: &Pause) {
        let Pause { arrived, busy, .. } = *pause;
        let written = (arrived - busy).max(from);
        self.lay(found, Part::Pause, Place::Server, from, written);
        self.lay(found, Part::Transfer, Place::Server, written, arrived);
    }
}

/// Whether the application that wrote after a pause had been blocked until the previous data was released.
///
/// TCP blocks it by buffering a limited amount of unsent data. If it had written everything earlier, the arrival so
/// soon after the release would be a coincidence.
fn was_blocked(pause: &Pause, from: Offset) -> bool {
    pause.arrived.since(pause.before) * 10 < pause.before.since(from)
}

/// The critical path, from its end back to the origin, and whether any step was ambiguous.
///
/// A write follows the previous write, whatever TCP held back in the meantime: from a pause the path goes back to the
/// previously written data that arrived when it was written.
fn runs(found: Found<'_>, end: Offset) -> (Vec<Run<'_>>, bool) {
    let precedes = |release: &&Release| found.precedes_response(release);
    let releases: Vec<&Release> = found.releases.iter().filter(|r| !precedes(r)).collect();
    let released = |at: Offset| releases.iter().rfind(|release| release.arrived == at);
    let was_released = |at: &Offset| releases.binary_search_by_key(at, |r| r.arrived).is_ok();
    let mut pauses: Vec<&Pause> = found.path.pauses.iter().collect();
    pauses.retain(|pause| !was_released(&pause.arrived));
    let (mut paused, mut waited) = (pauses.len(), releases.len());
    let (mut until, mut written) = (end, false);
    let (mut runs, mut was_decided) = (Vec::new(), false);
    loop {
        while paused > 0 && pauses[paused - 1].arrived > until {
            paused -= 1;
        }
        let beyond = |r: &Release| {
            let later = if written { r.arrived >= until } else { r.arrived > until };
            later || r.cause >= r.arrived
        };
        while waited > 0 && beyond(releases[waited - 1]) {
            waited -= 1;
        }
        let pause = paused.checked_sub(1).map(|last| pauses[last]);
        let release = waited.checked_sub(1).map(|last| releases[last]);
        match (pause, release) {
            (Some(pause), release) if release.is_none_or(|r| r.arrived < pause.arrived) => {
                let before = paused.checked_sub(2).map(|before| pauses[before].arrived);
                let before = before.filter(|at| *at >= pause.first && *at < pause.arrived);
                // Held data had been written before the segment that held it arrived.
                let held = released(pause.first);
                let held = held.filter(|r| matches!(r.by, Released::Acknowledgement(_)));
                let first = held.map_or(pause.first, |release| release.cause.min(pause.first));
                let from = before.unwrap_or(first);
                runs.push(Run::Walked(pause.arrived, until));
                let between = release.is_some_and(|release| release.arrived > from);
                was_decided |= between;
                if between && found.otherwise != was_blocked(pause, from) {
                    runs.push(Run::Paused(pause.before, pause));
                    (until, written) = (pause.before, false);
                    continue;
                }
                runs.push(Run::Paused(from, pause));
                (until, written) = (from, true);
            }
            (_, Some(release)) => {
                runs.push(Run::Walked(release.arrived, until));
                runs.push(Run::Released(release));
                (until, written) = (release.cause, false);
            }
            _ => break,
        }
    }
    runs.push(Run::Walked(Offset::from_nanos(i64::MIN), until));
    (runs, was_decided)
}
