//! Records sends and arrivals, and turns them into flights.
//!
//! Input: sends, receives and the kernel's later reports about sends. Output: the flights of a connection in time
//! order. It must not guess: a send that the kernel never reported keeps the time at which it was handed over, marked
//! as read by the process. Received bytes are not available before all bytes before them, so a receive stamp earlier
//! than a previous one does not count.

use std::time::Duration;

use firstbyte_core::timeline::{Chunk, Clock, Direction, Flight, Stamp, TcpFacts};

use super::segments::{Count, Segments};
use super::sys::SentStamp;
use firstbyte_clock::{Monotonic, Realtime, Timebase};

/// Identifies a send, to query its departure once the kernel has reported it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendId(usize);

/// Position of a send or an arrival among all events, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place(usize);

/// When something arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The kernel's stamp, if there is one.
    pub stamp: Stamp,
    /// When the process read it.
    pub read: Stamp,
}

#[derive(Clone, Debug)]
struct Event {
    direction: Direction,
    bytes: u64,
    /// Stream offset after the last of these bytes, in their direction.
    end: u64,
    user: Monotonic,
    kernel: Option<Realtime>,
    acknowledged: Option<Realtime>,
    /// `kernel` was computed from other bytes' timestamps.
    derived: bool,
    /// Segments that arrived since the previous read: with data, and without.
    segments: (u32, u32),
    messages: Vec<String>,
}

/// Maximum number of events. Further ones are merged with the last of their direction, so that a download of gigabytes
/// stays small.
const EVENTS: usize = 4_096;

/// Bytes that a new connection sends at once (RFC 6928: ten segments, here of 1,400 bytes).
pub(super) const FIRST_WINDOW: u64 = 14_000;
/// A send that left this much later than it was handed over had waited for acknowledgements.
const WAITED: Duration = Duration::from_micros(400);

/// Maximum number of named messages: a server may send small ones forever.
const MESSAGES: usize = 4_096;

/// Missing segments before others that arrived, as the kernel saw it when the connection was given up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentGaps {
    /// Whether bytes from the peer wait here behind bytes that never arrived.
    pub received: bool,
    /// Number of segments that the peer received after a missing one.
    pub sacked: u32,
}

/// Events of one TCP connection.
#[derive(Clone, Debug)]
pub struct Recorder {
    timebase: Timebase,
    events: Vec<Event>,
    sent: u64,
    received: u64,
    named: usize,
    last_sent: Option<SendId>,
    /// Segments that had arrived at the last read: all, and those with data.
    counted: Option<(u32, u32)>,
    arrived: Segments,
    /// The kernel's figures for the connection when it was given up.
    pub tcp: Option<TcpFacts>,
    /// Missing segments at the same time.
    pub gaps: SegmentGaps,
}

impl Recorder {
    /// Creates a recorder whose offsets count from `timebase`.
    pub const fn new(timebase: Timebase) -> Self {
        Self {
            timebase,
            events: Vec::new(),
            sent: 0,
            received: 0,
            named: 0,
            last_sent: None,
            counted: None,
            arrived: Segments::new(),
            tcp: None,
            gaps: SegmentGaps { received: false, sacked: 0 },
        }
    }

    pub(crate) fn sent(&mut self, bytes: usize, user: Monotonic) -> SendId {
        self.sent += bytes as u64;
        let id = SendId(self.push(Direction::Sent, bytes, self.sent, user, None));
        self.last_sent = Some(id);
        id
    }

    pub(crate) fn received(&mut self, bytes: usize, user: Monotonic, kernel: Option<Realtime>) {
        self.received += bytes as u64;
        self.push(Direction::Received, bytes, self.received, user, kernel);
    }

    /// Records the kernel's counters right after bytes were received.
    ///
    /// `all` is the number of segments, `full` the payload size of a full one.
    pub(super) fn counted(&mut self, all: u32, count: Count, full: u32) {
        let with_data = count.segments;
        self.arrived.count(count, full);
        let Some((all_before, data_before)) = self.counted.replace((all, with_data)) else {
            return;
        };
        let data = with_data.wrapping_sub(data_before);
        let empty = all.wrapping_sub(all_before).wrapping_sub(data);
        if let Some(event) = self.events.last_mut() {
            event.segments.0 += data;
            event.segments.1 += empty;
        }
    }

    /// Payload size of the largest segment received, if that segment was full-sized.
    pub(super) fn full_segment(&self) -> Option<u32> {
        self.arrived.full()
    }

    /// Bytes received so far.
    pub const fn received_bytes(&self) -> u64 {
        self.received
    }

    /// Splits a receive at `end`, the end of the peer's turn, if unrequested bytes follow in a second segment that the
    /// kernel merged with the first. The first part then gets its own time.
    ///
    /// The merged segments carry the stamp of the second. But the first one acknowledged the last send, unless the peer
    /// had already acknowledged it without data. The kernel reports when it processed that acknowledgement, which is
    /// later than the arrival by its processing path, `kernel_path`.
    pub(super) fn part_merged(&mut self, end: u64, kernel_path: Duration) {
        let [.., sent, merged] = &mut self.events[..] else { return };
        let start = merged.end - merged.bytes;
        if (sent.direction, merged.direction) != (Direction::Sent, Direction::Received)
            || merged.segments != (2, 0)
            || !(start + 1..merged.end).contains(&end)
        {
            return;
        }
        let (Some(left), Some(acknowledged), Some(last)) =
            (sent.kernel, sent.acknowledged, merged.kernel)
        else {
            return;
        };
        let at = acknowledged - kernel_path;
        if at < left || at >= last {
            return;
        }
        let following = Event {
            bytes: merged.end - end,
            segments: (1, 0),
            messages: Vec::new(),
            ..merged.clone()
        };
        (merged.bytes, merged.end, merged.segments) = (end - start, end, (1, 0));
        (merged.kernel, merged.derived) = (Some(at), true);
        self.events.push(following);
    }

    /// Records an event; returns its position, or that of the event it was merged with.
    fn push(
        &mut self,
        direction: Direction,
        bytes: usize,
        end: u64,
        user: Monotonic,
        kernel: Option<Realtime>,
    ) -> usize {
        let bytes = bytes as u64;
        let same_direction = |event: &Event| event.direction == direction;
        // Two reads of one segment carry the same stamp.
        let same_segment =
            |event: &&Event| same_direction(event) && kernel.is_some() && event.kernel == kernel;
        let earlier = if self.events.len() >= EVENTS {
            self.events.iter().rposition(same_direction)
        } else {
            self.events.last().filter(same_segment).map(|_| self.events.len() - 1)
        };
        if let Some(at) = earlier {
            let event = &mut self.events[at];
            event.bytes += bytes;
            (event.end, event.user) = (end, user);
            event.kernel = event.kernel.zip(kernel).map(|(before, last)| before.max(last));
            event.acknowledged = None;
            return at;
        }
        self.events.push(Event {
            direction,
            bytes,
            end,
            user,
            kernel,
            acknowledged: None,
            derived: false,
            segments: (0, 0),
            messages: Vec::new(),
        });
        self.events.len() - 1
    }

    pub(super) fn report(&mut self, stamp: SentStamp) {
        let (SentStamp::Departed { last_byte, .. } | SentStamp::Acknowledged { last_byte, .. }) =
            stamp;
        let of_this_send = |e: &&mut Event| {
            e.direction == Direction::Sent && e.end.wrapping_sub(1) as u32 == last_byte
        };
        let Some(event) = self.events.iter_mut().rev().find(of_this_send) else { return };
        match stamp {
            // A retransmission is reported again; only the first departure counts.
            SentStamp::Departed { at, .. } => event.kernel = event.kernel.or(Some(at)),
            SentStamp::Acknowledged { at, .. } => event.acknowledged = Some(at),
        }
    }

    /// Whether the kernel still has something to report. It reports sends in order, so nothing follows the
    /// acknowledgement of the last one.
    pub(super) fn awaits_reports(&self) -> bool {
        let last = self.last_sent.and_then(|id| self.events.get(id.0));
        last.is_some_and(|e| e.kernel.is_none() || e.acknowledged.is_none())
    }

    /// Names a message in the bytes that were last sent or received.
    pub fn name_message(&mut self, direction: Direction, name: impl Into<String>) {
        if self.named >= MESSAGES {
            return;
        }
        if let Some(event) = self.events.iter_mut().rev().find(|e| e.direction == direction) {
            self.named += 1;
            event.messages.push(name.into());
        }
    }

    /// Names the bytes that were received last, unless a message in them has a name.
    pub fn name_answer(&mut self, name: &str) {
        let last = self.events.iter().rev().find(|e| e.direction == Direction::Received);
        if last.is_some_and(|event| event.messages.is_empty()) {
            self.name_message(Direction::Received, name);
        }
    }

    /// When the send `id` left.
    pub fn departure(&self, id: SendId) -> Option<Stamp> {
        self.events.get(id.0).map(|event| self.stamp(event))
    }

    /// Bytes sent so far.
    pub const fn sent_bytes(&self) -> u64 {
        self.sent
    }

    /// Bytes after the first `sent` that left before anything after the first `received` arrived.
    pub fn sent_before_arrival(&self, sent: u64, received: u64) -> u64 {
        let arrived = |e: &&Event| e.direction == Direction::Received && e.end > received;
        let first = self.events.iter().filter(arrived).map(|e| self.stamp(e).at).min();
        self.events
            .iter()
            .filter(|e| e.direction == Direction::Sent && e.end > sent)
            .filter(|e| first.is_none_or(|first| self.stamp(e).at < first))
            .map(|e| e.bytes)
            .sum()
    }

    /// Starts over on the same connection, with another time origin.
    pub fn restart(&mut self, timebase: Timebase) {
        self.timebase = timebase;
        self.events.clear();
        self.named = 0;
        self.last_sent = None;
    }

    /// When the last received bytes arrived.
    pub fn last_arrival(&self) -> Option<Arrival> {
        let received = |e: &&Event| e.direction == Direction::Received;
        self.events.iter().rposition(|event| received(&event)).map(|at| self.arrival(at))
    }

    /// When the received byte at stream offset `offset` arrived, if it has.
    pub fn arrival_of(&self, offset: u64) -> Option<Arrival> {
        let holds = |e: &&Event| e.direction == Direction::Received && offset < e.end;
        self.events.iter().position(|event| holds(&event)).map(|at| self.arrival(at))
    }

    /// Arrival of the received event at index `at`.
    fn arrival(&self, at: usize) -> Arrival {
        let read = Stamp::user(self.timebase.offset(self.events[at].user));
        let received = self.events[..=at].iter().filter(|e| e.direction == Direction::Received);
        let stamp = received.map(|e| self.stamp(e)).reduce(later).unwrap_or(read);
        Arrival { stamp, read }
    }

    /// Position of the last event in this direction.
    pub fn last_place(&self, direction: Direction) -> Option<Place> {
        self.events.iter().rposition(|event| event.direction == direction).map(Place)
    }

    /// When the event at `place` left or arrived.
    pub fn stamp_of(&self, place: Place) -> Option<Stamp> {
        let event = self.events.get(place.0)?;
        Some(match event.direction {
            Direction::Sent => self.stamp(event),
            Direction::Received => self.arrival(place.0).stamp,
        })
    }

    fn stamp(&self, event: &Event) -> Stamp {
        match event.kernel {
            None => Stamp::user(self.timebase.offset(event.user)),
            Some(at) => {
                let clock = if event.derived { Clock::KernelDerived } else { Clock::Kernel };
                Stamp { at: self.timebase.kernel_offset(at), clock }
            }
        }
    }

    /// Number of segments in each receive event.
    fn segments(&self) -> Vec<Option<u32>> {
        let received = self.events.iter().filter(|e| e.direction == Direction::Received);
        let ends: Vec<u64> = received.map(|event| event.end).collect();
        let bytes = |e: &&Event| e.direction == Direction::Received;
        let from = self.events.iter().find(bytes).map_or(0, |e| e.end - e.bytes);
        self.arrived.of_reads(from, &ends)
    }

    /// When a send larger than a congestion window began to leave; its own stamp is that of its end.
    fn begun(&self, event: &Event, left: Stamp) -> Option<Stamp> {
        let begun = Stamp::user(self.timebase.offset(event.user));
        let whole = event.direction == Direction::Sent && event.bytes > FIRST_WINDOW;
        (whole && left.at.since(begun.at) > WAITED).then_some(begun)
    }

    /// Discards all kernel stamps, for use when the wall clock was stepped.
    pub fn discard_kernel_stamps(&mut self) {
        for event in &mut self.events {
            event.kernel = None;
            event.acknowledged = None;
        }
    }

    /// The flights: runs of events in one direction.
    pub fn flights(&self) -> Vec<Flight> {
        self.clone().take_flights()
    }

    /// Like `flights`, but moves the messages' names out of the recorder.
    pub fn take_flights(&mut self) -> Vec<Flight> {
        let mut names: Vec<Vec<String>> =
            self.events.iter_mut().map(|event| std::mem::take(&mut event.messages)).collect();
        let (mut in_order, mut left): (Option<Stamp>, Option<Stamp>) = (None, None);
        let mut chunks: Vec<(Direction, Chunk, Vec<String>)> =
            Vec::with_capacity(self.events.len());
        let mut counts = self.segments().into_iter();
        for (event, messages) in self.events.iter().zip(&mut names) {
            let (mut stamp, mut segments, mut read) = (self.stamp(event), None, None);
            let mut bytes = event.bytes;
            if event.direction == Direction::Received {
                stamp = in_order.map_or(stamp, |before| later(before, stamp));
                in_order = Some(stamp);
                segments = counts.next().flatten();
                read = Some(self.timebase.offset(event.user));
            } else {
                // A send cannot begin to leave before earlier sends have left.
                let begun = self.begun(event, stamp);
                if let Some(begun) = begun.filter(|begun| left.is_none_or(|at| at.at <= begun.at)) {
                    bytes -= FIRST_WINDOW;
                    let begun = Chunk::new(begun, FIRST_WINDOW);
                    chunks.push((event.direction, begun, std::mem::take(messages)));
                }
                left = Some(stamp);
            }
            let acknowledged = event.acknowledged.map(|at| self.timebase.kernel_offset(at));
            let chunk = Chunk { stamp, bytes, acknowledged, read, segments };
            chunks.push((event.direction, chunk, std::mem::take(messages)));
        }
        // The kernel may have received an answer before the process recorded its send. The sort is stable: events with
        // equal times keep the order in which they were recorded.
        chunks.sort_by_key(|(_, chunk, _)| chunk.stamp.at);
        let mut flights: Vec<Flight> = Vec::new();
        for (direction, chunk, mut messages) in chunks {
            match flights.last_mut() {
                Some(flight) if flight.direction == direction => {
                    flight.chunks.push(chunk);
                    flight.messages.append(&mut messages);
                }
                _ => flights.push(Flight { direction, chunks: vec![chunk], messages }),
            }
        }
        flights
    }
}

/// The later of two stamps; the first one if they are equal.
fn later(first: Stamp, second: Stamp) -> Stamp {
    if second.at > first.at { second } else { first }
}

#[cfg(test)]
mod tests {
    use firstbyte_core::timeline::Offset;

    use super::*;

    #[test]
    fn reports_find_their_send_and_runs_become_flights() {
        let base = Timebase::start();
        let origin = Monotonic::now();
        let mut recorder = Recorder::new(base);
        let hello = recorder.sent(517, origin);
        recorder.name_message(Direction::Sent, "ClientHello");
        let more = recorder.sent(100, origin);
        let left = Realtime::from_timespec(0, base.started().unix_nanos() as i64 + 5_000_000);
        recorder.report(SentStamp::Departed { last_byte: 516, at: left });
        recorder.received(1400, origin + Duration::from_millis(90), None);
        assert_eq!(recorder.departure(hello), Some(Stamp::kernel(Offset::from_nanos(5_000_000))));
        assert_eq!(recorder.departure(more).map(|s| s.clock), Some(Clock::User));
        let flights = recorder.flights();
        assert_eq!(flights.len(), 2);
        assert_eq!((flights[0].bytes(), flights[1].bytes()), (617, 1400));
        assert_eq!(flights[0].messages, ["ClientHello"]);
    }

    #[test]
    fn a_send_that_waited_for_acknowledgements_began_when_it_was_handed_over() {
        let base = Timebase::start();
        let at = |ms: i64| {
            let ns = base.started().unix_nanos() as i64 + ms * 1_000_000;
            SentStamp::Departed { last_byte: 19_999, at: Realtime::from_timespec(0, ns) }
        };
        let chunks = |left_ms: i64| {
            let mut recorder = Recorder::new(base);
            recorder.sent(20_000, Monotonic::now());
            recorder.report(at(left_ms));
            let chunks = recorder.flights().remove(0).chunks;
            chunks.iter().map(|c| (c.stamp.clock, c.bytes)).collect::<Vec<_>>()
        };
        let (user, kernel) = (Clock::User, Clock::Kernel);
        assert_eq!(chunks(60_000), [(user, FIRST_WINDOW), (kernel, 20_000 - FIRST_WINDOW)]);
        // It left when it was handed over.
        assert_eq!(chunks(0), [(kernel, 20_000)]);
    }

    #[test]
    fn no_byte_is_there_before_those_before_it() {
        let base = Timebase::start();
        let mut recorder = Recorder::new(base);
        let at = |ms: i64| {
            Some(Realtime::from_timespec(0, base.started().unix_nanos() as i64 + ms * 1_000_000))
        };
        let read = Monotonic::now() + Duration::from_millis(50);
        recorder.received(1000, read, at(40));
        // Waited behind the segment before it.
        recorder.received(1000, read, at(21));
        recorder.sent(10, read);
        recorder.received(1000, read, at(22));
        let forty = Stamp::kernel(Offset::from_nanos(40_000_000));
        for offset in [0, 1000, 2999] {
            assert_eq!(recorder.arrival_of(offset).map(|a| a.stamp), Some(forty), "{offset}");
        }
        assert_eq!(recorder.last_arrival().map(|a| a.stamp), Some(forty));
        let flights = recorder.flights();
        assert!(flights[0].chunks.iter().all(|c| c.stamp == forty), "{flights:?}");
        assert_eq!(flights[0].bytes(), 3000);
        // Read late, without a usable stamp; then as usual.
        recorder.received(500, read + Duration::from_millis(10), None);
        recorder.received(500, read + Duration::from_millis(20), at(23));
        let last = recorder.last_arrival().unwrap().stamp;
        assert_eq!((last.clock, last.at > forty.at), (Clock::User, true));
        recorder.discard_kernel_stamps();
        let last = recorder.last_arrival().unwrap();
        assert_eq!(last.stamp, last.read);
    }

    /// A Finished and settings merged by the kernel: 51 and 40 bytes, at 22 ms.
    ///
    /// The send before them left at 1 ms and was acknowledged at 20 ms. The arguments are the numbers of segments with
    /// data and without.
    fn merged(with_data: u32, without: u32) -> Recorder {
        let base = Timebase::start();
        let mut recorder = Recorder::new(base);
        let read = Monotonic::now() + Duration::from_millis(23);
        let at = |ms: i64| {
            Realtime::from_timespec(0, base.started().unix_nanos() as i64 + ms * 1_000_000)
        };
        recorder.received(1000, read, Some(at(0)));
        recorder.counted(3, Count { bytes: 0, segments: 1 }, 1_448);
        recorder.sent(93, read);
        recorder.report(SentStamp::Departed { last_byte: 92, at: at(1) });
        recorder.report(SentStamp::Acknowledged { last_byte: 92, at: at(20) });
        recorder.received(91, read, Some(at(22)));
        let count = Count { bytes: 0, segments: 1 + with_data };
        recorder.counted(3 + with_data + without, count, 1_448);
        recorder.name_message(Direction::Received, "{Finished}");
        recorder.part_merged(1051, Duration::from_millis(2));
        recorder.name_message(Direction::Received, "SETTINGS");
        recorder
    }

    #[test]
    fn what_was_merged_is_told_apart_by_the_acknowledgement() {
        let recorder = merged(2, 0);
        let ms = |at: i64, clock| Stamp { at: Offset::from_nanos(at * 1_000_000), clock };
        let arrival = |offset| recorder.arrival_of(offset).map(|a| a.stamp);
        assert_eq!(arrival(1050), Some(ms(18, Clock::KernelDerived)));
        assert_eq!(arrival(1051), Some(ms(22, Clock::Kernel)));
        let flights = recorder.flights();
        let last = flights.last().unwrap();
        assert_eq!(last.messages, ["{Finished}", "SETTINGS"]);
        assert_eq!(last.chunks.iter().map(|c| c.bytes).collect::<Vec<_>>(), [51, 40]);
    }

    #[test]
    fn what_may_have_come_otherwise_stays_as_it_was_stamped() {
        // One segment; three; two and one that acknowledged without data.
        for (with_data, without) in [(1, 0), (3, 0), (2, 1)] {
            let recorder = merged(with_data, without);
            let stamp = recorder.arrival_of(1050).unwrap().stamp;
            let last = Stamp::kernel(Offset::from_nanos(22_000_000));
            assert_eq!(stamp, last, "{with_data} and {without}");
        }
    }

    #[test]
    fn reports_are_awaited_until_the_last_send_has_both() {
        let mut recorder = Recorder::new(Timebase::start());
        let at = Realtime::now();
        assert!(!recorder.awaits_reports());
        recorder.sent(100, Monotonic::now());
        recorder.sent(100, Monotonic::now());
        let reports = [
            SentStamp::Departed { last_byte: 99, at },
            SentStamp::Acknowledged { last_byte: 99, at },
            SentStamp::Departed { last_byte: 199, at },
        ];
        for report in reports {
            recorder.report(report);
            assert!(recorder.awaits_reports(), "after {report:?}");
        }
        recorder.received(10, Monotonic::now(), None);
        recorder.report(SentStamp::Acknowledged { last_byte: 199, at });
        assert!(!recorder.awaits_reports());
        recorder.sent(1, Monotonic::now());
        assert!(recorder.awaits_reports());
    }

    #[test]
    fn a_long_download_stays_bounded() {
        let mut recorder = Recorder::new(Timebase::start());
        for _ in 0..10 * EVENTS {
            recorder.received(1000, Monotonic::now(), None);
        }
        assert_eq!(recorder.events.len(), EVENTS);
        assert_eq!(recorder.flights()[0].bytes(), 10_000 * EVENTS as u64);
    }

    #[test]
    fn a_long_conversation_stays_bounded() {
        let mut recorder = Recorder::new(Timebase::start());
        for _ in 0..10 * EVENTS {
            recorder.received(10, Monotonic::now(), None);
            recorder.name_message(Direction::Received, "PING");
            let id = recorder.sent(10, Monotonic::now());
            assert_eq!(recorder.events[id.0].direction, Direction::Sent);
        }
        assert_eq!(recorder.events.len(), EVENTS);
        let flights = recorder.flights();
        assert_eq!(flights.iter().map(Flight::bytes).sum::<u64>(), 200 * EVENTS as u64);
        assert_eq!(flights.iter().map(|f| f.messages.len()).sum::<usize>(), MESSAGES);
    }
}
