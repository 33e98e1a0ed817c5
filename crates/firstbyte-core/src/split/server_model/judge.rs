//! Causes of delayed arrivals: tests hypotheses about the server's TCP against all arrivals of the connection.
//!
//! Input: a [`Connection`] over TCP and its round-trip time. Output: [`Reading`]s, best first, with those that fit
//! about as well: the arrivals that an acknowledgement or the client's Finished released. A hypothesis covers the
//! whole connection (an initial window of 1 to 20 segments or one that never fills; Nagle's algorithm on or off; early
//! data answered at once or after the Finished). It predicts the earliest arrival of each segment, and pays for each
//! segment that came later, and more for each that came sooner. Definitions: `docs/measurement.md`.

use std::time::Duration;

use super::ServerModel;
use super::acks::{Ack, By, Event, Habit, Reads, acknowledgements};
use super::constants::*;
use super::sender::{Hypothesis, Peaks, Played, Seen, Segment, Sender};
use crate::split::{Bottleneck, Rules};
use crate::timeline::{Chunk, Clock, Connection, Direction, Flight, Mark, Offset};

/// An arrival that waited for the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Release {
    pub arrived: Offset,
    /// When the releasing packet left the client.
    pub left: Offset,
    /// When the client had the data that made it send that packet.
    pub cause: Offset,
    /// Earliest possible arrival, had nothing held it.
    pub earliest: Offset,
    pub by: Released,
    pub why: Why,
}

/// Why an arrival was held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The congestion window was full. Contains the initial window in segments, if known.
    Window(Option<u32>),
    /// Nagle's algorithm waited for the acknowledgement of earlier data (RFC 9293 §3.7.4).
    Nagle,
    /// Early data was answered only after the client's Finished.
    Finished,
}

/// What released an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Released {
    /// An acknowledgement: the window was full, or Nagle's algorithm waited.
    Acknowledgement(By),
    /// The client's Finished: early data is answered after the handshake.
    Finished,
    /// Over QUIC, a datagram from the client: the server had reached its limit.
    Datagram,
}

/// A hypothesis and its interpretation of the arrivals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reading {
    pub window: Option<u32>,
    pub nagle: bool,
    pub late: bool,
    /// Released arrivals, in order.
    pub releases: Vec<Release>,
}

/// A server hypothesis, and its cost for one connection's arrivals.
#[derive(Clone, Debug)]
pub(crate) struct ServerCost {
    pub server: Hypothesis,
    pub cost: f64,
}

/// Round trips on the path, as far as known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RoundTripTimes {
    pub rtt: Duration,
    /// Spread of the round trips.
    pub spread: Duration,
    /// Observed spread of the round trips.
    pub seen: Duration,
}

pub(crate) struct Judge {
    segments: Vec<Segment>,
    /// The client's acknowledgements, for each habit that it may have.
    acks: Vec<Vec<Ack>>,
    /// The client's departures that are answered.
    asked: Vec<i64>,
    finished: Option<(i64, i64)>,
    response: Option<i64>,
    /// Tickets and settings came in one segment: Nagle's algorithm would have held the later ones.
    together: bool,
    rtt: i64,
    /// When the first segment arrived.
    first: i64,
    early: i64,
    late: i64,
    /// The same tolerance based on observed round trips, whatever is assumed about the path.
    usual: i64,
    /// The server's time for an unobstructed response, as other connections show it.
    think: Option<i64>,
    rules: Rules,
}

impl Judge {
    pub(crate) fn for_connection(
        connection: &Connection,
        times: RoundTripTimes,
        bottleneck: &Bottleneck,
    ) -> Self {
        let mss = segment_bytes(connection);
        let lossy = is_lossy(connection);
        let (mut segments, mut events, mut reads) = (Vec::new(), Vec::new(), Vec::new());
        let (mut offset, mut asked) = (0u64, Vec::new());
        // Bytes of a segment that ends in a later read, and when it arrived.
        let (mut unended, mut begun) = (0, 0);
        let at =
            |mark| connection.marks.at(mark).map(|at| at.as_nanos().clamp(-LIMIT_NS, LIMIT_NS));
        let request = at(Mark::RequestEnd).unwrap_or(LIMIT_NS);
        let response = connection.marks.first_packet_of_response();
        let response = response.map(|at| at.as_nanos().clamp(-LIMIT_NS, LIMIT_NS));
        let finished = at(Mark::HandshakeComplete).filter(|finished| *finished > request);
        'all: for flight in &connection.flights {
            for chunk in &flight.chunks {
                let now = chunk.stamp.at.as_nanos().clamp(-LIMIT_NS, LIMIT_NS);
                if flight.direction == Direction::Sent {
                    events.push(Event::Sent { at: now });
                    if now <= request {
                        asked.push(now);
                    }
                    continue;
                }
                let counted = chunk.segments.is_some();
                let mut left = unended + chunk.bytes;
                // A read has the timestamp of the last segment it takes bytes from, even if that segment ends in a
                // later read.
                let mut arrived = if unended > 0 { begun } else { now };
                let packets = match chunk.segments.map(u64::from) {
                    Some(packets) => {
                        unended = left.saturating_sub(packets * mss);
                        packets
                    }
                    None => {
                        unended = 0;
                        packets(left, mss)
                    }
                };
                for packet in (1..=packets).rev() {
                    if segments.len() == MOST_SEGMENTS {
                        break 'all;
                    }
                    // The other segments need at least one byte each.
                    let most = left.saturating_sub(packet - 1).min(mss);
                    let bytes = if packet > 1 { most } else { left - unended };
                    let start = offset;
                    offset += bytes;
                    left -= bytes;
                    let busy = bottleneck
                        .takes(bytes)
                        .map_or(0, |d| d.as_nanos().min(LIMIT_NS as u128) as i64);
                    let full = bytes + RECORD_BYTES >= mss;
                    let between = !full && now > request && response.is_some_and(|r| now < r);
                    let between = between && !counted;
                    let waited = lossy && chunk.stamp.clock == Clock::User;
                    segments.push(Segment {
                        at: arrived,
                        end: offset,
                        full,
                        between,
                        busy,
                        waited,
                    });
                    events.push(Event::Segment { at: arrived, start, end: offset });
                    arrived = now;
                }
                begun = arrived;
                if let Some(read) = chunk.read {
                    let at = read.as_nanos().clamp(now, LIMIT_NS);
                    reads.push(Event::Read { at, end: offset + unended });
                }
            }
        }
        let known = !reads.is_empty();
        if known {
            events.append(&mut reads);
            events.sort_by_key(Event::at);
        }
        let finished = finished.map(|left| {
            let before = segments.iter().map(|s: &Segment| s.at).filter(|at| *at <= left);
            (left, before.max().unwrap_or(left))
        });
        let [spread, seen] = [times.spread, times.seen].map(ns);
        let first = segments.first().map_or(0, |segment: &Segment| segment.at);
        let habits: &[bool] = if connection.facts.reused { &[true, false] } else { &[false] };
        let mut acks: Vec<Vec<Ack>> = Vec::new();
        for &pingpong in habits {
            let reads: &[Reads] =
                if known { &[Reads::Known] } else { &[Reads::AtOnce, Reads::Late] };
            for reads in reads.iter().copied() {
                let of_habit = acknowledgements(&events, mss, Habit { reads, pingpong });
                if !acks.contains(&of_habit) {
                    acks.push(of_habit);
                }
            }
        }
        Self {
            acks,
            segments,
            asked,
            finished,
            response,
            together: connection.flights.iter().any(tickets_and_settings),
            first,
            rtt: ns(times.rtt),
            early: SOONER_NS + spread,
            late: NOISE_NS + spread,
            usual: NOISE_NS + seen,
            think: None,
            rules: Rules::Right,
        }
    }

    /// Sets the server's known time for a response.
    pub(crate) fn with_think(self, think: Option<Duration>) -> Self {
        Self { think: think.map(ns), ..self }
    }

    /// Applies `rules` instead of the correct ones.
    pub(crate) fn with_rules(self, rules: Rules) -> Self {
        Self { rules, ..self }
    }

    /// Assumes that round trips differ by `spread`.
    pub(crate) fn suppose(&mut self, spread: Duration) {
        let spread = ns(spread);
        (self.early, self.late) = (SOONER_NS + spread, NOISE_NS + spread);
    }

    /// Describes all fitting hypotheses, with their costs and the arrivals they consider released.
    pub(crate) fn in_words(&self) -> String {
        let mut fits: Vec<(f64, Reading)> = self.fits(f64::INFINITY);
        fits.truncate(8);
        let line = |(cost, reading): &(f64, Reading)| {
            let Reading { window, nagle, late, releases, .. } = reading;
            let releases: Vec<String> = releases
                .iter()
                .map(|r| format!("{:.3} {:?}", r.arrived.as_nanos() as f64 / 1e6, r.by))
                .collect();
            format!("{cost:.2} window {window:?} nagle {nagle} late {late}: {releases:?}")
        };
        fits.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    /// The fitting readings with their costs, best first; without those that cost more than `most`, if given.
    pub(crate) fn readings(&self, most: Option<f64>) -> Vec<(f64, Reading)> {
        let fits = self.fits(most.unwrap_or(f64::INFINITY));
        let Some(best) = fits.first().map(|(cost, _)| *cost) else {
            return if most.is_some() { Vec::new() } else { vec![(0.0, Reading::default())] };
        };
        let mut readings: Vec<(f64, Reading)> = Vec::new();
        for (cost, reading) in fits {
            if cost <= best + OUT_COST
                && !readings.iter().any(|(_, r)| r.releases == reading.releases)
            {
                readings.push((cost, reading));
            }
        }
        readings
    }

    /// Fits sorted by cost, without ruled-out ones and those that cost more than `most`.
    fn fits(&self, most: f64) -> Vec<(f64, Reading)> {
        let mut fits: Vec<(f64, Reading)> = Vec::new();
        let mut best = f64::INFINITY;
        // Replays to compare others with, and those with the current window.
        let (mut played, mut alike): (Vec<Played>, Vec<Played>) = (Vec::new(), Vec::new());
        let nothing_lost = !self.segments.iter().any(|segment| segment.waited);
        // Maximum number of packets in flight while no window was ever full.
        let mut never_full: Option<Peaks> = None;
        let packets = u32::try_from(self.segments.len()).unwrap_or(u32::MAX);
        let between = self.segments.iter().any(|segment| segment.between);
        'all: for server in Hypothesis::servers(packets, between) {
            if self.rules == Rules::WindowNeverFills && server.window.is_some() {
                continue;
            }
            // No habit makes this server cheaper.
            let window = window_prior(server.window);
            if f64::from(server.merged) * MERGED_COST + window > most.min(best + OUT_COST) {
                continue;
            }
            let peak = never_full.map(|peaks| peaks[server.merged as usize]);
            if peak.is_some_and(|peak| server.never_holds(peak)) {
                continue;
            }
            alike.retain(|played| played.hypothesis.window == server.window);
            for (nagle, acks, late) in self.habits() {
                let hypothesis = Hypothesis { nagle, acks, late, ..server };
                if played.iter().chain(&alike).any(|played| played.says_the_same(hypothesis)) {
                    continue;
                }
                let (fit, seen) =
                    self.fit(hypothesis, self.prior(hypothesis), most.min(best + OUT_COST));
                if nothing_lost && !hypothesis.buffer {
                    let seen = Played { hypothesis, seen };
                    if seen.tells_of_others() { played.push(seen) } else { alike.push(seen) }
                }
                let Some(fit) = fit else { continue };
                best = best.min(fit.0);
                fits.push(fit);
                // Nothing was late, so there is nothing to explain.
                if best <= 0.0 {
                    break 'all;
                }
            }
            if nothing_lost && server.window.is_none() && never_full.is_none() {
                let peaks = played.iter().map(|played| played.seen.peaks);
                never_full = peaks.reduce(|a, b| std::array::from_fn(|more| a[more].max(b[more])));
            }
        }
        fits.sort_by(|a, b| a.0.total_cmp(&b.0));
        fits
    }

    /// Possible habits of the two hosts: Nagle's algorithm, the set of acknowledgements, early data answered late.
    fn habits(&self) -> impl Iterator<Item = (bool, usize, bool)> {
        let lates = if self.finished.is_some() { 2 } else { 1 };
        let acks = self.acks.len();
        let of_acks = move |nagle| (0..acks).map(move |acks| (nagle, acks));
        let nagle: &[bool] =
            if self.rules == Rules::NagleNeverWaits { &[false] } else { &[false, true] };
        let of_all = nagle.iter().copied().flat_map(of_acks);
        of_all.flat_map(move |(nagle, acks)| (0..lates).map(move |late| (nagle, acks, late == 1)))
    }

    /// Prior cost of a server with these properties.
    fn prior(&self, hypothesis: Hypothesis) -> f64 {
        let nagle = if self.together { NAGLE_COST + TICKETS_AND_SETTINGS_COST } else { NAGLE_COST };
        window_prior(hypothesis.window)
            + if hypothesis.nagle { nagle } else { 0.0 }
            + if hypothesis.buffer { BUFFER_COST } else { 0.0 }
    }

    /// Lowest cost of each possible server for this connection's arrivals, without the server's prior.
    pub(crate) fn server_costs(&self) -> Vec<ServerCost> {
        let packets = u32::try_from(self.segments.len()).unwrap_or(u32::MAX);
        let between = self.segments.iter().any(|segment| segment.between);
        let mut all: Vec<ServerCost> = Vec::new();
        for server in Hypothesis::servers(packets, between) {
            for (nagle, acks, late) in self.habits() {
                let hypothesis = Hypothesis { nagle, acks, late, ..server };
                let (Some((cost, _)), _) = self.fit(hypothesis, 0.0, f64::INFINITY) else {
                    continue;
                };
                let new = ServerCost { server: hypothesis, cost };
                match all.iter_mut().find(|old| old.server.is_same_server(hypothesis)) {
                    Some(old) if old.cost <= new.cost => {}
                    Some(old) => *old = new,
                    None => all.push(new),
                }
            }
        }
        all
    }

    /// Cost and reading of the arrivals from one server, for each combination of the hosts' habits.
    pub(crate) fn readings_of(&self, model: &ServerModel, nagle: bool) -> Vec<(f64, Reading)> {
        let ServerModel { initial_window: window, full_buffer: buffer, .. } = *model;
        let small = window.is_some_and(|window| window <= SMALL_WINDOW_PACKETS);
        let between = small && self.segments.iter().any(|segment| segment.between);
        let most_merged = if between { MOST_MERGED_PACKETS } else { 0 };
        let habits = self.habits().filter(|(with_nagle, ..)| *with_nagle == nagle);
        let hypotheses = habits.flat_map(|(nagle, acks, late)| {
            let with = move |merged| Hypothesis { window, nagle, acks, late, merged, buffer };
            (0..=most_merged).map(with)
        });
        hypotheses.filter_map(|hypothesis| self.fit(hypothesis, 0.0, f64::INFINITY).0).collect()
    }

    /// Whether tickets and settings came in one segment.
    pub(crate) fn has_tickets_with_settings(&self) -> bool {
        self.together
    }

    /// Cost and reading of a hypothesis with the given prior, or `None` if it costs more than `most`; and the
    /// observations up to that point.
    fn fit(&self, hypothesis: Hypothesis, prior: f64, most: f64) -> (Option<(f64, Reading)>, Seen) {
        let Hypothesis { window, nagle, late, merged, acks, buffer } = hypothesis;
        let mut cost = prior + f64::from(merged) * MERGED_COST;
        let mut reading = Reading { window, nagle, late, ..Reading::default() };
        let mut seen = Seen::default();
        let mut sender = Sender::new(hypothesis, &self.segments, &self.acks[acks], self.rtt);
        let mut previous: Option<i64> = None;
        for (index, segment) in self.segments.iter().enumerate() {
            if cost > most {
                return (None, seen);
            }
            sender.seen(index, &mut seen);
            let first = previous != Some(segment.at);
            if segment.waited
                && previous.is_some_and(|before| is_hole(segment.at - before, self.rtt))
            {
                // A loss is the path's doing, whatever the window was.
                sender.hear_until(segment.at, self.rtt);
                sender.lose();
                sender.send(index, self.rtt);
                previous = Some(segment.at);
                continue;
            }
            // Sender held back until something released it; absent if nothing did.
            let mut held = None;
            let mut released = Some(None);
            if sender.is_held(index, nagle) {
                let in_time = |released: &Option<Ack>| {
                    released.is_none_or(|ack| ack.earliest() + self.rtt <= segment.at + self.early)
                };
                // If the server's application had written in time, its TCP would have stalled.
                let mut strict = sender.clone();
                released = strict.release(index, nagle).filter(in_time);
                held = Some(strict);
                if released.is_none() {
                    let mut lenient = sender.lenient();
                    if let Some(ack) = lenient.release(index, nagle).filter(in_time) {
                        cost += UNCERTAIN_COST;
                        (released, held) = (Some(ack), Some(lenient.strict()));
                    }
                }
            }
            if released == Some(None)
                && let Some((full, ack, price)) = self.nearly_full(&sender, index, previous, buffer)
            {
                cost += price;
                (released, held) = (Some(ack), Some(full));
            }
            let Some(released) = released else {
                // One packet more or less than counted, or an acknowledgement that Linux would not send.
                cost += EARLY_COST;
                sender.hear_until(segment.at, self.rtt);
                sender.send(index, self.rtt);
                sender.window = sender.window.max(sender.in_flight);
                previous = Some(segment.at);
                continue;
            };
            if first {
                let by_nagle = held.as_ref().unwrap_or(&sender).by_nagle;
                cost += self.judge(segment, previous, released, by_nagle, late, &mut reading);
            }
            let in_time = |ack: Ack| {
                let over = segment.at - (ack.left + self.rtt + segment.busy);
                self.noise(over, ack) <= self.price(over) + PAUSE_COST
            };
            // The link was busy with the previous segment.
            let queued = TOGETHER_NS + segment.busy + segment.busy / 20;
            let behind = previous.is_some_and(|before| segment.at - before <= queued);
            if behind || released.is_some_and(in_time) {
                // It left with that acknowledgement, or right behind the previous segment.
                if let Some(held) = held {
                    sender = held;
                }
            } else {
                sender.hear_until(segment.at, self.rtt);
            }
            sender.send(index, self.rtt);
            previous = Some(segment.at);
        }
        ((cost <= most).then_some((cost, reading)), seen)
    }

    /// Tests whether the window was nearly full or the send buffer was full when a segment stalled.
    ///
    /// A window of eight or more may be a packet or two smaller than counted, and after a loss it is smaller by an
    /// unknown amount. If an acknowledgement released the segment at that time, returns the sender that had filled it,
    /// and the cost.
    fn nearly_full<'a>(
        &self,
        sender: &Sender<'a>,
        index: usize,
        previous: Option<i64>,
        buffer: bool,
    ) -> Option<(Sender<'a>, Option<Ack>, f64)> {
        let at = self.segments[index].at;
        let gap = at - previous?;
        let left = sender.window.saturating_sub(sender.in_flight);
        let filled_buffer = buffer && sender.in_flight >= SMALL_WINDOW_PACKETS;
        let (stood, price) = match sender.lossy {
            true => (gap > NOISE_NS, SHRUNK_COST),
            false if filled_buffer => (gap > NOISE_NS, ROOM_COST),
            false => (
                gap > self.rtt / 2 + NOISE_NS && left <= sender.window / SMALL_WINDOW_PACKETS,
                NEARLY_FULL_COST,
            ),
        };
        if !stood || (sender.initial.is_none() && !filled_buffer) {
            return None;
        }
        let mut held = sender.clone();
        if filled_buffer {
            // When the last segment left, everything that fitted had left.
            held.hear_until(previous?, self.rtt);
        }
        held = held.filled();
        let mut ack = held.release(index, false)??;
        // Several acknowledgements cover the burst; the one that arrived at that time released it.
        while sender.lossy && ack.left + self.rtt + self.late < at {
            ack = held.hear()?;
        }
        let over = at - (ack.left + self.rtt + self.segments[index].busy);
        let in_time =
            over >= -self.early && price + self.noise(over, ack) < self.price(gap) + PAUSE_COST;
        let held = if filled_buffer && !sender.lossy { held.with_window_of(sender) } else { held };
        in_time.then_some((held, Some(ack), price))
    }

    /// Cost of a segment's arrival time. Records what released it.
    fn judge(
        &self,
        segment: &Segment,
        previous: Option<i64>,
        released: Option<Ack>,
        by_nagle: bool,
        late: bool,
        reading: &mut Reading,
    ) -> f64 {
        let at = segment.at;
        let before = previous.unwrap_or(-2 * LIMIT_NS);
        // The departure that it may answer.
        let is_response = self.response == Some(at);
        let asked = self.asked.iter().rev().find(|asked| **asked + self.rtt - self.early <= at);
        let asked = asked.filter(|asked| is_response || **asked >= before);
        let finished = self.finished.filter(|(left, _)| {
            late && left + self.rtt - self.early <= at && self.response.is_some_and(|r| at <= r)
        });
        let question = finished.map(|(left, _)| left).or(asked.copied());
        let earliest =
            before.max(question.map_or(-2 * LIMIT_NS, |left| left + self.rtt)) + segment.busy;
        let release = released.map(|ack| (ack, ack.left + self.rtt + segment.busy));
        if let Some((ack, release)) = release
            && release > earliest + 50_000
        {
            let over = at - release;
            let noise = self.noise(over, ack);
            let idle = if question.is_some() { THINK_COST } else { PAUSE_COST };
            if noise <= self.price(over) + idle {
                reading.releases.push(Release {
                    arrived: Offset::from_nanos(at),
                    left: Offset::from_nanos(ack.left),
                    cause: Offset::from_nanos(ack.arrived),
                    earliest: Offset::from_nanos(earliest.max(self.first)),
                    by: Released::Acknowledgement(ack.by),
                    why: if by_nagle { Why::Nagle } else { Why::Window(reading.window) },
                });
                let timer = if ack.by == By::Timer { DELAYED_ACK_COST } else { 0.0 };
                return noise + self.told() + timer;
            }
        }
        if let Some((left, cause)) = finished {
            reading.releases.push(Release {
                arrived: Offset::from_nanos(at),
                left: Offset::from_nanos(left),
                cause: Offset::from_nanos(cause),
                earliest: Offset::from_nanos(
                    before.max(asked.map_or(-2 * LIMIT_NS, |a| a + self.rtt)).max(self.first),
                ),
                by: Released::Finished,
                why: Why::Finished,
            });
        }
        let earliest = earliest.max(release.map_or(-2 * LIMIT_NS, |(_, release)| release));
        let mut over = at.saturating_sub(earliest);
        if is_response && let Some(think) = self.think {
            over = (over - think).abs();
        }
        match question {
            _ if previous.is_none() && question.is_none() => 0.0,
            Some(_) if over <= self.usual.max(WORK_NS) => 0.0,
            Some(_) => self.price(over) + THINK_COST,
            None if over <= self.usual => 0.0,
            None => self.price(over) + PAUSE_COST,
        }
    }

    /// Cost of a release that came `over` later than possible. Hosts and the path are late at times.
    fn noise(&self, over: i64, ack: Ack) -> f64 {
        let excess = over.saturating_sub(self.late + ack.slack()).max(0);
        let scale = if ack.is_of_unknown_read() { READS_LATER_NS } else { LATER_NS };
        excess as f64 / (scale + self.late - NOISE_NS) as f64
    }

    /// Cost of an unconstrained time that happens to match this closely.
    fn price(&self, over: i64) -> f64 {
        delay_cost(over, self.usual)
    }

    /// On a path that varies more than observed, an arrival at the expected time is weaker evidence.
    fn told(&self) -> f64 {
        (self.late as f64 / self.usual as f64).ln()
    }
}

/// Prior cost of an initial window.
pub(crate) fn window_prior(window: Option<u32>) -> f64 {
    if window.is_some_and(|window| window != USUAL_WINDOW_PACKETS) { WINDOW_COST } else { 0.0 }
}

fn ns(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX).min(LIMIT_NS)
}

/// Number of packets for `bytes`. A read ends with records, some bytes before or after the end of a packet.
fn packets(bytes: u64, mss: u64) -> u64 {
    if bytes == 0 { 0 } else { bytes.saturating_sub(RECORD_BYTES).div_ceil(mss).max(1) }
}

/// Whether a flight of one segment holds messages that servers write separately.
fn tickets_and_settings(flight: &Flight) -> bool {
    let holds = |name: &str| flight.messages.iter().any(|message| message == name);
    let one = flight.chunks.len() == 1 && flight.chunks[0].segments.is_none_or(|n| n <= 1);
    one && holds("{NewSessionTicket}") && holds("SETTINGS")
}

/// Whether the kernel counted segments that waited behind a lost one, or arrived after later ones.
pub(crate) fn is_lossy(connection: &Connection) -> bool {
    let tcp = connection.facts.tcp.as_ref();
    tcp.and_then(|tcp| tcp.out_of_order).is_some_and(|count| count > 0)
}

/// Whether the gap is long enough for a retransmission: acknowledgements of later data tell the sender about a loss
/// one round trip before it fills the hole.
pub(crate) fn is_hole(gap: i64, rtt: i64) -> bool {
    gap >= rtt / 10 * 9
}

/// Payload of a full segment from the server.
///
/// The kernel reports the largest received segment, which may hold all the data there was. It is full-sized if several
/// segments have this size; otherwise assume that the server sends segments up to the size it announced.
pub(crate) fn segment_bytes(connection: &Connection) -> u64 {
    let tcp = connection.facts.tcp.as_ref();
    let (received, sent) = (tcp.and_then(|tcp| tcp.receive_mss), tcp.and_then(|tcp| tcp.send_mss));
    if let Some(received) = received.filter(|received| Some(*received) >= sent) {
        return received.into();
    }
    // RFC 9293 §3.7.1: the default without an announcement.
    let most = u64::from(sent.unwrap_or(536)).max(1);
    let chunks = connection.flights.iter().filter(|f| f.direction == Direction::Received);
    let chunks = chunks.flat_map(|f| &f.chunks);
    let sizes = || chunks.clone().map(|c| c.bytes).filter(|b| *b <= most);
    let largest = received.map(u64::from).or_else(|| sizes().max()).unwrap_or(most);
    // A narrower path shows as segments of one size.
    let of_one_size = |chunk: &Chunk| {
        let segments = chunk.segments.map_or(1, u64::from).max(1);
        let fits = chunk.bytes <= largest * segments && chunk.bytes > largest * (segments - 1);
        if !fits || segments == 1 && chunk.bytes != largest { 0 } else { segments.max(2) - 1 }
    };
    let repeated = chunks.clone().map(of_one_size).sum::<u64>() > 2;
    if repeated && largest >= 500 { largest } else { most }
}
