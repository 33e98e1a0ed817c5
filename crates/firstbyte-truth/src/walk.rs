//! The critical path, walked backwards from the arrival of the response's last byte.
//!
//! Each event has one predecessor: the one that determined its time. The interval between the two is a step, and the
//! steps add up to the whole by construction.

use super::lanes::{self, Lanes};
use super::places::Places;
use super::stream::{Sent, Stream};
use super::{End, Known, Rule, Step, Truth, Untold, Way, parts};
use firstbyte_core::split::Part;
use firstbyte_core::wire::frames::Space;
use std::time::Duration;

/// A departure this soon after an acknowledgement's arrival was released by it: the kernel sends in the same context.
/// Waking an application takes about as long, but an acknowledgement does not wake one.
const RELEASES: i64 = 150_000;
/// Departures of one write, or of consecutive writes, are closer together than this.
const BURST: i64 = 300_000;
/// An acknowledgement this much later than the acknowledged data waited for a timer (Linux: `TCP_DELACK_MIN`, 40 ms; a
/// tick early).
const DELAYED: i64 = 5_000_000;
/// A QUIC client that sends this long after the last arrival was woken by its timer, because its previous datagram was
/// lost (RFC 9002 §6.2), perhaps within the server.
///
/// The client was not busy: no client of the oracle works that long.
const PROBES: i64 = 6_000_000;
/// Like `RELEASES`, over QUIC: a process must be woken to handle the acknowledgement before it sends.
const RELEASES_PROCESS: i64 = 1_500_000;
/// Consecutive packets on a link without a rate limit are closer together than this.
pub(super) const TOUCHING: i64 = 60_000;
/// More steps than any connection of the oracle has.
const STEPS: usize = 100_000;

#[derive(Clone)]
pub(super) struct Walk {
    client: Stream,
    server: Stream,
    places: Places,
    known: Known,
    other_attempts: Vec<i64>,
    /// Steps in backward order; times since the Unix epoch.
    steps: Vec<Step>,
    cursor: i64,
    open: i64,
    /// Departure time of the packet that the path came from, if an acknowledgement had released that packet.
    held: Option<i64>,
    /// Contents of the client's and the server's QUIC packets, if they could be decrypted.
    lanes: Option<[Lanes; 2]>,
}

/// An event: a packet at one of the ends.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    Departed(End, usize),
    Arrived(End, usize),
    Origin,
}

impl Walk {
    pub(super) fn new(
        [client, server]: [Stream; 2],
        places: Places,
        known: Known,
        other_attempts: Vec<i64>,
    ) -> Self {
        let (steps, cursor, open, held) = (Vec::new(), 0, 0, None);
        let exchange = lanes::exchange(&server, places.response_end_at + BURST);
        let exchange = exchange.filter(|_| !places.stream);
        let lanes = exchange.map(|id| {
            [Lanes::from_streams(&client, &server, id), Lanes::from_streams(&server, &client, id)]
        });
        Self { client, server, places, known, other_attempts, steps, cursor, open, held, lanes }
    }

    /// The packets that brought the response's first byte, the end of the record that made it readable, and its last
    /// byte.
    pub(super) fn packets_of_response(&self) -> Option<[usize; 3]> {
        let Places { response_start, response_readable, response_start_at, .. } = self.places;
        let [first, readable] = match self.places.stream {
            true => [response_start + 1, response_readable].map(|end| self.server.completes(end)),
            false => [self.server.last_arrival(response_start_at + TOUCHING, |_| true); 2],
        };
        Some([first?, readable?, self.last()?])
    }

    pub(super) fn run(self) -> Result<Truth, Untold> {
        let last = self.last().ok_or(Untold::NotCaptured)?;
        let arrived = self.server.sent[last].arrived.ok_or(Untold::NotCaptured)?;
        // The packet that completed the response could not be decrypted, or is not in the captures.
        if self.lanes.is_some() && self.places.response_end_at - arrived > RELEASES_PROCESS {
            return Err(Untold::NotCaptured);
        }
        self.run_from(Event::Arrived(End::Server, last))
    }

    /// Walks the path to `event`, back to the origin.
    pub(super) fn run_from(mut self, mut event: Event) -> Result<Truth, Untold> {
        let at = match event {
            Event::Arrived(from, index) => self.stream(from).sent[index].arrived,
            Event::Departed(from, index) => Some(self.stream(from).sent[index].departed),
            Event::Origin => None,
        };
        self.cursor = at.ok_or(Untold::NotCaptured)?;
        for _ in 0..STEPS {
            event = match event {
                Event::Arrived(from, index) => self.arrived(from, index),
                Event::Departed(End::Server, index) => self.server_departed(index),
                Event::Departed(End::Client, index) => self.client_departed(index),
                Event::Origin => return Ok(self.finish()),
            }
            .ok_or(Untold::NotCaptured)?;
            if self.cursor <= self.places.origin {
                event = Event::Origin;
            }
        }
        Err(Untold::NoPath)
    }

    /// The packet that completed the response.
    fn last(&self) -> Option<usize> {
        if self.places.stream {
            return self.server.completes(self.places.response_end);
        }
        if let Some([_, lanes]) = &self.lanes {
            return lanes.completed(&self.server, self.places.response_end_at + BURST);
        }
        self.server.last_arrival(self.places.response_end_at + BURST, |_| true)
    }

    fn stream(&self, from: End) -> &Stream {
        match from {
            End::Client => &self.client,
            End::Server => &self.server,
        }
    }

    fn way(&self, from: End) -> Way {
        match from {
            End::Client => self.known.up,
            End::Server => self.known.down,
        }
    }

    /// Adds a step back to `to`, unless that is later.
    fn back(&mut self, to: i64, part: Part, rule: Rule) {
        let to = to.max(self.places.origin);
        if to < self.cursor {
            self.steps.push(Step {
                part,
                from: to,
                to: self.cursor,
                seen_later: 0,
                rule,
                place: None,
            });
            self.cursor = to;
        }
    }

    /// Like `back`, from the departure of a server's packet with payload.
    fn back_from(&mut self, sent: Sent, to: i64, part: Part, rule: Rule) {
        let had = self.steps.len();
        self.back(to, part, rule);
        if let Some(step) = self.steps.get_mut(had) {
            step.place = sent.end.checked_sub(1).filter(|_| sent.has_payload());
        }
    }

    /// Why a packet arrived no sooner.
    fn arrived(&mut self, from: End, index: usize) -> Option<Event> {
        let sent = self.stream(from).sent[index];
        let (arrived, way) = (sent.arrived?, self.way(from));
        let base = i64::try_from(way.base.as_nanos()).ok()?;
        let own = way.busy(sent.bytes);
        // Alone, it would have arrived at `alone`. Was the link busy with the previous packet?
        let alone = sent.departed + base + own;
        if let Some(before) = self.stream(from).arrival_before(index) {
            let earlier = self.stream(from).sent[before].arrived?;
            let touching = arrived - earlier <= own + own / 20 + TOUCHING;
            if touching && sent.departed + base < earlier - TOUCHING / 2 && alone < arrived {
                // The previous packet's delays are explained by its own steps.
                self.back(earlier, Part::Transfer, Rule::BehindAnother);
                return Some(Event::Arrived(from, before));
            }
        }
        let late = (arrived - alone).max(0);
        self.back(arrived - late, Part::Variation, Rule::Jitter);
        self.back(self.cursor - own, Part::Transfer, Rule::OwnRate);
        self.back(sent.departed, Part::Network, Rule::OnItsWay);
        Some(Event::Departed(from, index))
    }

    /// The first departure of the bytes that a packet brought.
    fn first_copy(&self, from: End, index: usize) -> usize {
        match (&self.lanes, from) {
            (Some([client, _]), End::Client) => client.first_copy(index),
            (Some([_, server]), End::Server) => server.first_copy(index),
            (None, _) => self.stream(from).first_copy(index),
        }
    }

    /// Why the server's packet left no sooner.
    fn server_departed(&mut self, index: usize) -> Option<Event> {
        // The data that was held back may have been written at any time since then.
        if let Some(held) = self.held.take() {
            self.open += held - self.server.sent[index].departed;
        }
        let first = self.first_copy(End::Server, index);
        if first != index {
            self.back(self.server.sent[first].departed, Part::Variation, Rule::Lost);
            return Some(Event::Departed(End::Server, first));
        }
        let sent = self.server.sent[index];
        if sent.syn {
            let asked = self.client.last_arrival(sent.departed, |sent| sent.syn)?;
            self.back(self.client.sent[asked].arrived?, Part::Server, Rule::Answered);
            return Some(Event::Arrived(End::Client, asked));
        }
        let before = self.before(index);
        let asked = match &self.lanes {
            // A continued response waits for nothing from the client, such as its Finished.
            Some(_) if self.within_answer(index) => None,
            Some([client, _]) => self.client.last_arrived(sent.departed, |i| client.brought(i)),
            None => self.client.last_arrival(sent.departed, |other| self.is_needed(other)),
        };
        let at = |index: usize| self.client.sent[index].arrived;
        let answered = asked.filter(|asked| match before {
            Some(before) => at(*asked) >= Some(self.server.sent[before].departed),
            None => true,
        });
        // A Retry cannot be decrypted. It answers a packet that cannot be decrypted either, or that the server dropped.
        let retried = before.is_none() && self.lanes.is_some();
        let answered = answered.or_else(|| {
            let last = self.client.last_arrival(sent.departed, |_| true);
            last.filter(|_| retried)
        });
        if let Some(answered) = answered {
            self.back_from(sent, at(answered)?, Part::Server, Rule::Answered);
            return Some(self.availability(answered));
        }
        if let Some(lifted) = self.lifted(index, before) {
            let at = self.client.sent[lifted].arrived?;
            let paced = sent.departed - at > RELEASES_PROCESS;
            let part = if paced { Part::Pause } else { Part::Network };
            self.back(at, part, Rule::Released);
            return Some(Event::Arrived(End::Client, lifted));
        }
        // Over QUIC, acknowledgements arrive all the time. A packet that leaves in a burst with others was not held
        // back.
        let burst = before.filter(|before| {
            self.lanes.is_some() && sent.departed - self.server.sent[*before].departed <= BURST
        });
        if let Some(before) = burst {
            self.back(self.server.sent[before].departed, Part::Transfer, Rule::Burst);
            return Some(Event::Departed(End::Server, before));
        }
        if let Some(ack) = self.released(index) {
            self.held.get_or_insert(sent.departed);
            self.back_from(sent, self.client.sent[ack].arrived?, Part::Network, Rule::Released);
            return Some(Event::Arrived(End::Client, ack));
        }
        let before = before?;
        let earlier = self.server.sent[before].departed;
        let paced = self.lanes.is_some() && !self.known.pauses && self.within_answer(index);
        let (part, rule) = if paced {
            (Part::Transfer, Rule::Burst)
        } else if self.before_response(index, asked) {
            (Part::Server, Rule::WroteOn)
        } else if sent.departed - earlier <= BURST {
            (Part::Transfer, Rule::Burst)
        } else {
            (Part::Pause, Rule::WroteOn)
        };
        self.back_from(sent, earlier, part, rule);
        Some(Event::Departed(End::Server, before))
    }

    /// The server's last packet with payload before this one. Retransmitted data was written earlier.
    fn before(&self, index: usize) -> Option<usize> {
        if let Some([_, server]) = &self.lanes {
            return (0..index).rev().find(|before| server.carries(*before));
        }
        let new =
            |at: &usize| self.server.sent[*at].has_payload() && self.server.first_copy(*at) == *at;
        (0..index).rev().find(new)
    }

    /// Whether the server's response needs these client bytes: not those sent after the request (acknowledged settings,
    /// window updates), and with early data, the Finished only if the server waits for it.
    fn is_needed(&self, sent: &Sent) -> bool {
        if !self.places.stream {
            return sent.departed <= self.places.request_end_at + TOUCHING;
        }
        let Places { request_end, finished_end, .. } = self.places;
        let late = self.known.answers_after_finished;
        let end = if late { request_end.max(finished_end) } else { request_end };
        sent.has_payload() && sent.start < end
    }

    /// The arrival that made the bytes of `index` available: an earlier packet may have been missing.
    fn availability(&self, index: usize) -> Event {
        let completed = match self.places.stream {
            true => self.client.completes(self.client.sent[index].end),
            false => None,
        };
        Event::Arrived(End::Client, completed.unwrap_or(index))
    }

    /// The acknowledgement whose arrival released the server's packet.
    fn released(&self, index: usize) -> Option<usize> {
        let departed = self.server.sent[index].departed;
        let last = self.client.last_arrival(departed, |_| true)?;
        let ack = self.client.sent[last];
        let soon = departed - ack.arrived? <= RELEASES;
        if self.lanes.is_some() {
            return self.let_go(index);
        }
        if !self.places.stream {
            return soon.then_some(last);
        }
        let new = ack.acknowledges?;
        let had = self.client.arrivals.iter().copied().take_while(|i| *i != last);
        let had = had.filter_map(|i| self.client.sent[i].acknowledges).max().unwrap_or(0);
        let sent = self.server.sent[..index].iter().map(|sent| sent.end).max().unwrap_or(0);
        // Data was in flight, and this acknowledged some of it, or reported data after a hole (SACK).
        (soon && sent > had && (new > had || !ack.has_payload())).then_some(last)
    }

    /// The total time for which the server's packets may have been held until acknowledgements came. Counts packets
    /// whose length, and whose acknowledgement's delay, satisfy `so`.
    pub(super) fn held_back(&self, so: impl Fn(u64, i64) -> bool) -> i64 {
        let hold = |index: usize| {
            let sent = self.server.sent[index];
            if !sent.has_payload() || !self.places.stream || self.server.first_copy(index) != index
            {
                return None;
            }
            let before = self.before(index)?;
            let ack = &self.client.sent[self.released(index)?];
            let acknowledged = self.server.completes(ack.acknowledges?)?;
            let late = ack.departed - self.server.sent[acknowledged].arrived?;
            // The last acknowledged segment must be small as well: the kernel does not wait for full segments.
            let other = self.server.sent[acknowledged];
            let small = (sent.end - sent.start).max(other.end - other.start);
            so(small, late).then_some(sent.departed - self.server.sent[before].departed)
        };
        (0..self.server.sent.len()).filter_map(hold).sum()
    }

    /// The client's datagram, after the server's previous departure, that lifted the server's limit for an unvalidated
    /// address: three times the bytes received from it (RFC 9000 §8.1).
    fn lifted(&self, index: usize, before: Option<usize>) -> Option<usize> {
        let [client, _] = self.lanes.as_ref()?;
        let (before, now) = (self.server.sent[before?].departed, self.server.sent[index].departed);
        let of_handshake = |(space, _): &(Space, u64)| *space == Space::Handshake;
        let validates =
            |i: usize| self.client.opened(i).is_some_and(|d| d.packets.iter().any(of_handshake));
        let own = u64::from(self.server.sent[index].bytes);
        let said = self.server.sent.iter().filter(|sent| sent.departed <= before);
        let said: u64 = said.map(|sent| u64::from(sent.bytes)).sum();
        let mut heard = 0;
        for arrival in self.client.arrivals.iter().copied().filter(|i| !client.dropped(*i)) {
            let at = self.client.sent[arrival].arrived.filter(|at| *at <= now)?;
            let was_full = said + own > 3 * heard;
            heard += u64::from(self.client.sent[arrival].bytes);
            if validates(arrival) || said + own <= 3 * heard {
                return (at > before && was_full).then_some(arrival);
            }
        }
        None
    }

    /// The client's datagram that released a server's datagram over QUIC, because the congestion window was full.
    fn let_go(&self, index: usize) -> Option<usize> {
        let departed = self.server.sent[index].departed;
        let last = self.client.last_arrival(departed, |_| true)?;
        if departed - self.client.sent[last].arrived? > RELEASES_PROCESS {
            return None;
        }
        let own = u64::from(self.server.sent[index].bytes);
        let under_way = lanes::under_way(&self.server, &self.client, last, index);
        (under_way + own > self.known.window).then_some(last)
    }

    /// Whether the packet continues a response.
    fn within_answer(&self, index: usize) -> bool {
        let Some([_, server]) = &self.lanes else { return false };
        let first = server.edges.first().map(|(_, index)| *index);
        first.is_some_and(|first| server.first_copy(first) < index)
    }

    /// Whether the packet comes after the request and before the response.
    fn before_response(&self, index: usize, asked: Option<usize>) -> bool {
        let sent = self.server.sent[index];
        if let Some([client, _]) = &self.lanes {
            let asked = client.edges.last().and_then(|(_, asked)| self.client.sent[*asked].arrived);
            return asked.is_some_and(|at| at <= sent.departed) && !self.within_answer(index);
        }
        if !self.places.stream {
            let before = |arrived: i64| arrived <= self.places.response_start_at + TOUCHING;
            let asked = asked.and_then(|asked| self.client.sent[asked].arrived);
            let whole = asked.is_some_and(|asked| asked <= sent.departed);
            return whole && sent.arrived.is_some_and(before);
        }
        let request = self.client.completes(self.places.request_end);
        let request = request.and_then(|request| self.client.sent[request].arrived);
        request.is_some_and(|arrived| arrived <= sent.departed)
            && sent.start <= self.places.response_start
    }

    /// Why the client's packet left no sooner.
    fn client_departed(&mut self, index: usize) -> Option<Event> {
        let first = self.first_copy(End::Client, index);
        if first != index {
            self.back(self.client.sent[first].departed, Part::Variation, Rule::Lost);
            return Some(Event::Departed(End::Client, first));
        }
        let sent = self.client.sent[index];
        if sent.syn || index == 0 {
            return Some(self.begin());
        }
        let is_ack = self.places.stream && !sent.has_payload();
        let last = self.server.last_arrival(sent.departed, |_| true);
        let Some(last) = last else { return Some(self.begin()) };
        let at = self.server.sent[last].arrived?;
        if is_ack && sent.departed - at > DELAYED {
            // The timer started with the first segment that was not acknowledged yet.
            let acked = self.client.sent[..index].iter().filter_map(|sent| sent.acknowledges).max();
            let acked = acked.unwrap_or(0);
            let waiting = self.server.arrivals.iter().copied().find(|i| {
                let other = &self.server.sent[*i];
                other.has_payload() && other.end > acked
            });
            let waiting = waiting.unwrap_or(last);
            self.back(self.server.sent[waiting].arrived?, Part::Pause, Rule::DelayedAck);
            return Some(Event::Arrived(End::Server, waiting));
        }
        // A datagram with new data was not sent by a timer, and it reacts to new data.
        let new = self.lanes.as_ref().is_some_and(|[client, _]| client.brought(index));
        let brought = match &self.lanes {
            Some([_, server]) if new => {
                self.server.last_arrived(sent.departed, |i| server.brought(i))
            }
            _ => None,
        };
        if let Some(brought) = brought {
            self.back(self.server.sent[brought].arrived?, Part::Client, Rule::ClientWorked);
            return Some(Event::Arrived(End::Server, brought));
        }
        let only_acknowledges = self.client.opened(index).is_some_and(|d| !d.elicits);
        if only_acknowledges && sent.departed - at > DELAYED {
            let tells =
                |i: &usize| self.client.opened(*i).is_some_and(|d| !d.acknowledges.is_empty());
            let told = (0..index).rev().find(tells);
            let told = told.map_or(i64::MIN, |told| self.client.sent[told].departed);
            let came = |i: &usize| self.server.sent[*i].arrived.is_some_and(|at| at > told);
            let waiting = self.server.arrivals.iter().copied().find(came).unwrap_or(last);
            self.back(self.server.sent[waiting].arrived?, Part::Pause, Rule::DelayedAck);
            return Some(Event::Arrived(End::Server, waiting));
        }
        if !self.places.stream && !new && sent.departed - at > PROBES {
            self.back(at, Part::Variation, Rule::Lost);
            return Some(Event::Arrived(End::Server, last));
        }
        self.back(at, Part::Client, Rule::ClientWorked);
        // The client works on complete data, so the packet that completed it counts.
        let whole = match is_ack {
            true => None,
            false => {
                let place =
                    self.server.available.partition_point(|(_, at, _)| *at <= sent.departed);
                place.checked_sub(1).map(|place| self.server.available[place].2)
            }
        };
        match whole.filter(|_| self.places.stream) {
            Some(whole) if self.server.sent[last].has_payload() => {
                self.back(self.server.sent[whole].arrived?, Part::Client, Rule::ClientWorked);
                Some(Event::Arrived(End::Server, whole))
            }
            _ => Some(Event::Arrived(End::Server, last)),
        }
    }

    /// The time before the first packet: name resolution, the client, another address.
    fn begin(&mut self) -> Event {
        let resolved = i64::try_from(self.places.resolved.as_nanos()).unwrap_or(0);
        let end = (self.places.origin + resolved).min(self.cursor);
        let (origin, now) = (self.places.origin, self.cursor);
        let tried = self.other_attempts.iter().copied().filter(|at| (origin..now).contains(at));
        if let Some(first) = tried.min() {
            self.back(first, Part::Fallback, Rule::AnotherAddress);
        }
        self.back(end, Part::Client, Rule::ClientWorked);
        self.back(self.places.origin, Part::Resolver, Rule::Resolved);
        Event::Origin
    }

    /// How much longer the connection's shortest round trip was than the path's minimum, in nanoseconds. A round trip
    /// is a packet from the client and the first one that left the server after it.
    fn always_above_base(&self) -> Option<u64> {
        let [up, down] = [self.known.up, self.known.down];
        let above = |sent: &Sent, way: Way| {
            let base = i64::try_from(way.base.as_nanos()).ok()?;
            Some((sent.arrived? - sent.departed - way.busy(sent.bytes) - base).max(0))
        };
        let asked = self.client.sent.iter().filter(|sent| sent.syn || sent.has_payload());
        let trips = asked.filter_map(|asked| {
            let at = asked.arrived?;
            let answer = self.server.sent.iter().find(|answer| answer.departed >= at)?;
            Some(above(asked, up)? + above(answer, down)?)
        });
        u64::try_from(trips.min()?).ok()
    }

    fn finish(mut self) -> Truth {
        let origin = self.places.origin;
        // An exchange on an open connection begins with the client's own time.
        self.back(origin, Part::Client, Rule::ClientWorked);
        self.steps.reverse();
        for step in &mut self.steps {
            step.from -= origin;
            step.to -= origin;
        }
        let always = Duration::from_nanos(self.always_above_base().unwrap_or_default());
        let parts = parts(&self.steps, always, i64::MIN, i64::MAX);
        let lost = |stream: &Stream| stream.sent.iter().filter(|s| s.arrived.is_none()).count();
        Truth {
            parts,
            path: self.steps,
            always,
            // The application paused no longer than it was configured to.
            open: Duration::from_nanos(self.open.unsigned_abs())
                .min(self.known.application.saturating_sub(parts.pause)),
            lost: lost(&self.client) + lost(&self.server),
            opened: self.places.stream || self.lanes.is_some(),
        }
    }
}
