//! Connections described packet by packet, with the expected parts.

use std::time::Duration;

use super::*;
use firstbyte_core::timeline::{
    Chunk, Direction, Facts, Flight, Handshake, Mark, Offset, QuicFacts, Stamp, TcpFacts, TlsFacts,
};

const MS: i64 = 1_000_000;
/// Nanoseconds since the Unix epoch.
const ORIGIN: i64 = 1_700_000_000 * 1_000 * MS;
const ONE_WAY: i64 = 10 * MS;
const MSS: u32 = 1_448;

/// Builds captures of both ends.
#[derive(Default)]
struct Made {
    captured: Captured,
    received: Vec<(i64, u64)>,
    sent: Vec<(i64, u64)>,
    next: [u32; 2],
    acknowledged: [u32; 2],
    id: u64,
}

impl Made {
    fn packet(&mut self, from: End, departs: i64, arrives: Option<i64>, segment: Segment) {
        self.id += 1;
        let bytes = 52 + segment.payload;
        let tcp = Some(segment);
        let mut packet = Packet { at: ORIGIN + departs, from, id: self.id, bytes, tcp, quic: None };
        let (here, there) = match from {
            End::Client => (&mut self.captured.client, &mut self.captured.server),
            End::Server => (&mut self.captured.server, &mut self.captured.client),
        };
        here.push(packet.clone());
        if let Some(arrives) = arrives {
            packet.at = ORIGIN + arrives;
            there.push(packet);
        }
        self.captured.client.sort_by_key(|packet| packet.at);
        self.captured.server.sort_by_key(|packet| packet.at);
    }

    /// Adds payload from `seq` on; the acknowledgement covers everything acknowledged so far.
    fn at(&mut self, from: End, seq: u32, payload: u32, departs: i64, arrives: Option<i64>) {
        let ack = Some(1 + self.acknowledged[from.other() as usize]);
        self.packet(from, departs, arrives, Segment { seq: 1 + seq, ack, syn: false, payload });
    }

    /// Adds new payload that arrives after the one-way time; returns the arrival.
    fn data(&mut self, from: End, payload: u32, departs: i64) -> i64 {
        self.data_in(from, payload, departs, ONE_WAY)
    }

    fn data_in(&mut self, from: End, payload: u32, departs: i64, way: i64) -> i64 {
        let seq = self.next[from as usize];
        self.next[from as usize] += payload;
        self.at(from, seq, payload, departs, Some(departs + way));
        self.note(from, payload, departs, departs + way);
        departs + way
    }

    /// Records the bytes in the client's observation.
    fn note(&mut self, from: End, payload: u32, departed: i64, arrived: i64) {
        match from {
            End::Client => self.sent.push((departed, payload.into())),
            End::Server => self.received.push((arrived, payload.into())),
        }
    }

    /// Adds the client's acknowledgement of everything sent to it so far.
    fn ack(&mut self, departs: i64) -> i64 {
        self.acknowledged[End::Server as usize] = self.next[End::Server as usize];
        self.at(End::Client, self.next[End::Client as usize], 0, departs, Some(departs + ONE_WAY));
        departs + ONE_WAY
    }

    fn opened(&mut self) -> i64 {
        let syn = |seq, ack| Segment { seq, ack, syn: true, payload: 0 };
        self.packet(End::Client, MS, Some(MS + ONE_WAY), syn(0, None));
        self.packet(End::Server, MS + ONE_WAY, Some(MS + 2 * ONE_WAY), syn(0, Some(1)));
        MS + 2 * ONE_WAY
    }

    /// The client's observation: a request at `asked`, and a response that began at `begun`.
    fn connection(&self, asked: i64, begun: i64) -> Connection {
        let ended = self.received.iter().map(|(at, _)| *at).max().unwrap();
        let mut connection = Connection {
            started_unix_ns: Some(ORIGIN.unsigned_abs()),
            facts: Facts { tcp: Some(TcpFacts::default()), ..Facts::default() },
            ..Connection::default()
        };
        let stamp = |at: i64| Stamp::kernel(Offset::from_nanos(at));
        let marks = [(Mark::RequestEnd, asked), (Mark::ResponseStart, begun)];
        for (mark, at) in marks.into_iter().chain([(Mark::ResponseEnd, ended)]) {
            connection.marks.set(mark, stamp(at));
        }
        for (direction, list) in
            [(Direction::Sent, &self.sent), (Direction::Received, &self.received)]
        {
            let chunk = |(at, bytes): &(i64, u64)| Chunk::new(stamp(*at), *bytes);
            let chunks = list.iter().map(chunk).collect();
            connection.flights.push(Flight { direction, chunks, messages: Vec::new() });
        }
        connection
    }

    fn truth(&self, asked: i64, begun: i64, known: Known) -> Truth {
        let connection = self.connection(asked, begun);
        let ended = self.received.iter().map(|(at, _)| *at).max().unwrap();
        let truth = truth(&connection, &self.captured, &known).unwrap();
        assert_eq!(truth.parts.sum(), Duration::from_nanos(ended.unsigned_abs()));
        assert_eq!(truth.path.first().unwrap().from, 0);
        for pair in truth.path.windows(2) {
            assert_eq!(pair[0].to, pair[1].from);
        }
        truth
    }
}

fn known() -> Known {
    let way = Way { base: Duration::from_nanos(ONE_WAY.unsigned_abs()), ns_per_byte: 0.0 };
    Known { up: way, down: way, ..Known::default() }
}

fn ms(n: i64) -> Duration {
    Duration::from_nanos((n * MS).unsigned_abs())
}

#[test]
fn a_server_that_thinks_and_pauses() {
    let mut made = Made::default();
    let asked = made.opened() + 2 * MS;
    let there = made.data(End::Client, 300, asked);
    let begun = made.data(End::Server, 200, there + 7 * MS);
    made.ack(begun);
    made.data(End::Server, 900, there + 30 * MS);
    let parts = made.truth(asked, begun, known()).parts;
    assert_eq!((parts.server, parts.pause), (ms(7), ms(23)));
    assert_eq!((parts.network, parts.client), (ms(40), ms(3)));
}

#[test]
fn an_address_that_was_tried_before_is_fallback() {
    let mut made = Made::default();
    let asked = made.opened();
    let there = made.data(End::Client, 300, asked);
    let begun = made.data(End::Server, 200, there);
    made.captured.other_attempts = vec![ORIGIN - MS, ORIGIN + MS / 4, ORIGIN + 9 * MS];
    let parts = made.truth(asked, begun, known()).parts;
    assert_eq!(parts.fallback, Duration::from_micros(750));
    assert_eq!(parts.client, Duration::from_micros(250));
}

#[test]
fn a_full_window_is_a_round_trip_of_network() {
    let mut made = Made::default();
    let asked = made.opened();
    let there = made.data(End::Client, 300, asked) + MS;
    let begun = made.data(End::Server, MSS, there);
    made.data(End::Server, MSS, there + 10_000);
    let released = made.ack(begun + 20_000);
    made.data(End::Server, 500, released + 30_000);
    let truth = made.truth(asked, begun, known());
    // The server's kernel takes 30 µs to release it.
    assert_eq!(truth.parts.network, ms(60) + Duration::from_micros(30));
    assert_eq!(truth.parts.server, ms(1));
    assert!(truth.parts.pause.is_zero());
    assert!(truth.path.iter().any(|step| step.rule == Rule::Released));
    assert_eq!(truth.open, Duration::ZERO, "nothing was configured that it could have been");
}

/// A small write waits for the acknowledgement of the previous one, which the client delays.
#[test]
fn nagle_and_a_delayed_acknowledgement() {
    let mut made = Made::default();
    let asked = made.opened();
    let there = made.data(End::Client, 300, asked);
    let tickets = made.data(End::Server, 200, there + MS);
    let released = made.ack(tickets + 40 * MS);
    let begun = made.data(End::Server, 700, released);
    let parts = made.truth(asked, begun, known()).parts;
    assert_eq!((parts.network, parts.pause, parts.server), (ms(60), ms(40), ms(1)));
}

/// Data after a hole waits for the hole to be filled; the loss accounts for the time.
#[test]
fn a_lost_segment_of_the_response() {
    let mut made = Made::default();
    let asked = made.opened();
    let there = made.data(End::Client, 300, asked);
    let begun = made.data(End::Server, MSS, there);
    made.at(End::Server, MSS, MSS, there, None);
    made.at(End::Server, 2 * MSS, 100, there + 5_000, Some(there + ONE_WAY + 5_000));
    made.ack(begun + 10_000);
    let again = there + 25 * MS;
    made.at(End::Server, MSS, MSS, again, Some(again + ONE_WAY));
    made.note(End::Server, MSS + 100, again, again + ONE_WAY);
    let truth = made.truth(asked, begun, known());
    assert_eq!((truth.parts.variation, truth.parts.pause), (ms(25), Duration::ZERO));
    assert_eq!(truth.lost, 1);
}

/// Data after a hole is acknowledged without a higher number, and that still releases waiting data.
#[test]
fn an_acknowledgement_of_what_is_behind_a_hole_releases() {
    let mut made = Made::default();
    let asked = made.opened();
    let there = made.data(End::Client, 300, asked) + MS;
    made.at(End::Server, 0, MSS, there, None);
    let begun = there + 10_000 + ONE_WAY;
    made.at(End::Server, MSS, MSS, there + 10_000, Some(begun));
    let released = made.ack(begun + 20_000);
    let again = released + 20_000;
    made.at(End::Server, 0, MSS, again, Some(again + ONE_WAY));
    made.next[End::Server as usize] = 2 * MSS;
    let whole = made.data(End::Server, 500, released + 30_000);
    made.received = vec![(whole, (2 * MSS + 500).into())];
    let truth = made.truth(asked, whole, known());
    assert!(truth.parts.pause.is_zero(), "{:?}", truth.parts);
}

/// The application continues to write even if the kernel retransmits something meanwhile. It had spent 15 ms of its
/// pause when the first packet was retransmitted.
#[test]
fn what_is_sent_again_is_no_write() {
    let mut made = Made::default();
    let asked = made.opened();
    let there = made.data(End::Client, 300, asked) + MS;
    let begun = there + 15 * MS + ONE_WAY;
    made.at(End::Server, 0, 200, there, None);
    made.at(End::Server, 0, 200, there + 15 * MS, Some(begun));
    made.note(End::Server, 200, there, begun);
    made.next[End::Server as usize] = 200;
    made.data(End::Server, 900, there + 50 * MS);
    let parts = made.truth(asked, begun, known()).parts;
    assert_eq!((parts.pause, parts.variation), (ms(35), ms(15)));
}

#[test]
fn a_slow_link_is_transfer_from_the_first_segment_on() {
    let mut made = Made::default();
    // 1,500 bytes take 1.5 ms.
    let known = Known { down: Way { ns_per_byte: 1e3, ..known().down }, ..known() };
    let asked = made.opened();
    let there = made.data(End::Client, 300, asked) + 3 * MS;
    let mut arrives = there + ONE_WAY;
    let mut begun = None;
    for _ in 0..5 {
        arrives += i64::from(MSS + 52) * 1_000;
        made.data_in(End::Server, MSS, there, arrives - there);
        begun.get_or_insert(arrives);
    }
    let parts = made.truth(asked, begun.unwrap(), known).parts;
    // The SYN/ACK's 52 bytes are also sent at the rate, which is part of the base here.
    let rate = Duration::from_micros(1_500) * 5;
    assert!(parts.transfer.abs_diff(rate) < Duration::from_micros(60), "{parts:?}");
    assert_eq!(parts.server, ms(3));
}

#[test]
fn jitter_is_variation() {
    let mut made = Made::default();
    let asked = made.opened();
    let there = made.data_in(End::Client, 300, asked, ONE_WAY + 4 * MS);
    let begun = made.data_in(End::Server, 500, there + MS, ONE_WAY + 2 * MS);
    let parts = made.truth(asked, begun, known()).parts;
    assert_eq!((parts.variation, parts.server, parts.network), (ms(6), ms(1), ms(40)));
}

/// The server does not wait for the acknowledgement of its settings, which the client sends while the server is
/// thinking.
#[test]
fn what_leaves_after_the_request_begins_no_server_time() {
    let mut made = Made::default();
    let asked = made.opened();
    let there = made.data(End::Client, 300, asked);
    let settings = made.data(End::Server, 40, there);
    made.acknowledged[End::Server as usize] = 40;
    made.data(End::Client, 9, settings + 100_000);
    let begun = made.data(End::Server, 500, there + 50 * MS);
    let parts = made.truth(asked, begun, known()).parts;
    assert_eq!((parts.server, parts.network), (ms(50), ms(40)));
}

#[test]
fn an_exchange_on_an_open_connection() {
    let mut made = Made::default();
    let early = made.opened() - 60 * MS;
    made.data(End::Client, 111, early - 20 * MS);
    made.data(End::Server, 222, early - 10 * MS);
    (made.sent, made.received) = Default::default();
    let asked = made.opened();
    let there = made.data(End::Client, 300, asked);
    let begun = made.data(End::Server, 400, there + 5 * MS);
    let mut captured = std::mem::take(&mut made.captured);
    captured.client.retain(|packet| packet.tcp.is_none_or(|tcp| !tcp.syn));
    captured.server.retain(|packet| packet.tcp.is_none_or(|tcp| !tcp.syn));
    // The first exchange's packets count from the SYN, which was long before.
    let mut all = Made { captured, ..made };
    let syn = Segment { seq: 0, ack: None, syn: true, payload: 0 };
    for from in [End::Client, End::Server] {
        all.packet(from, -500 * MS, Some(-490 * MS), syn);
    }
    let mut connection = Connection {
        started_unix_ns: Some(ORIGIN.unsigned_abs()),
        facts: Facts { reused: true, ..Facts::default() },
        ..Connection::default()
    };
    let stamp = |at: i64| Stamp::kernel(Offset::from_nanos(at));
    for (mark, at) in
        [(Mark::RequestEnd, asked), (Mark::ResponseStart, begun), (Mark::ResponseEnd, begun)]
    {
        connection.marks.set(mark, stamp(at));
    }
    for (direction, at, bytes) in [(Direction::Sent, asked, 300), (Direction::Received, begun, 400)]
    {
        let chunk = Chunk::new(stamp(at), bytes);
        connection.flights.push(Flight { direction, chunks: vec![chunk], messages: Vec::new() });
    }
    let parts = truth(&connection, &all.captured, &known()).unwrap().parts;
    assert_eq!((parts.server, parts.network), (ms(5), ms(20)));
    assert_eq!(parts.sum(), Duration::from_nanos(begun.unsigned_abs()));
}

#[test]
fn the_base_is_the_smallest_of_each_way_without_the_rate() {
    let mut made = Made::default();
    let asked = made.opened();
    made.data_in(End::Client, 300, asked, ONE_WAY - MS);
    let [up, down] = base(&[made.captured], 0.0, 1e3).unwrap();
    assert_eq!(up.base, ms(9));
    assert_eq!(down.base, ms(10) - Duration::from_micros(52));
}

#[test]
fn what_is_not_in_the_captures_has_no_truth() {
    let mut made = Made::default();
    let asked = made.opened();
    let there = made.data(End::Client, 300, asked);
    let begun = made.data(End::Server, 400, there);
    made.captured.client.retain(|packet| packet.from == End::Client);
    let mut connection = Connection { started_unix_ns: Some(1), ..Connection::default() };
    assert_eq!(truth(&connection, &made.captured, &known()), Err(Untold::NotMeasured));
    connection.marks.set(Mark::RequestEnd, Stamp::kernel(Offset::from_nanos(asked)));
    connection.marks.set(Mark::ResponseStart, Stamp::kernel(Offset::from_nanos(begun)));
    connection.marks.set(Mark::ResponseEnd, Stamp::kernel(Offset::from_nanos(begun)));
    assert_eq!(truth(&connection, &made.captured, &known()), Err(Untold::NotCaptured));
}

/// Like `passage`, for a handshake that was complete at `complete`.
fn passed(made: &Made, [complete, asked, begun]: [i64; 3], version: &str) -> Passage {
    let mut connection = made.connection(asked, begun);
    connection.marks.set(Mark::HandshakeComplete, Stamp::kernel(Offset::from_nanos(complete)));
    connection.facts.tls = Some(TlsFacts {
        version: Some(version.into()),
        handshake: Some(Handshake::Full),
        ..TlsFacts::default()
    });
    passage(&connection, &made.captured, &known()).unwrap()
}

#[test]
fn a_reader_on_the_way_has_to_say_what_the_ends_show() {
    let mut made = Made::default();
    let open = made.opened();
    let hello = made.data(End::Client, 300, open + MS);
    made.data(End::Server, 900, hello + 7 * MS);
    let finished = made.data(End::Server, 600, hello + 12 * MS) + 2 * MS;
    let there = made.data(End::Client, 400, finished);
    let begun = made.data(End::Server, 200, there + 3 * MS);
    made.data(End::Server, 900, there + 30 * MS);
    let passage = passed(&made, [finished, finished, begun], "TLSv1.3");
    let handshake = passage.handshake;
    assert_eq!((handshake.network, handshake.server, handshake.client), (ms(20), ms(12), ms(2)));
    assert_eq!((passage.round_trip, passage.connect), (ms(20), Some(ms(20))));
    assert_eq!((passage.wait, passage.answer, passage.transfer), (ms(23), ms(3), ms(27)));
    assert_eq!(passage.held, Duration::ZERO);
}

/// In TLS 1.2 the server sends the last message. Time for which Nagle's algorithm held data back is not the server's
/// work.
#[test]
fn a_handshake_ends_with_the_servers_finished_and_was_held_back() {
    let mut made = Made::default();
    let open = made.opened();
    let hello = made.data(End::Client, 300, open);
    let first = made.data(End::Server, 700, hello + MS);
    let released = made.ack(first + 40 * MS);
    let second = made.data(End::Server, 500, released + 20_000);
    let key = made.data(End::Client, 90, second);
    let complete = made.data(End::Server, 51, key + 2 * MS);
    let there = made.data(End::Client, 200, complete);
    let begun = made.data(End::Server, 200, there);
    let passage = passed(&made, [complete, complete, begun], "TLSv1.2");
    assert_eq!(passage.held, ms(60) + Duration::from_micros(20));
    assert_eq!((passage.handshake.server, passage.handshake.client), (ms(3), Duration::ZERO));
    assert_eq!(
        passage.handshake.total(),
        Duration::from_nanos((complete - 21 * MS).unsigned_abs())
    );
    assert_eq!(passage.wait, ms(20));
}

/// The application wrote the head 4 ms after the request, but the kernel held it for an acknowledgement. It wrote the
/// body 9 ms after the head, which the packets show.
#[test]
fn what_the_application_wrote_is_the_third_witness() {
    let mut made = Made::default();
    let asked = made.opened();
    let there = made.data(End::Client, 300, asked);
    let begun = made.data(End::Server, 200, there + 7 * MS);
    made.ack(begun);
    made.data(End::Server, 900, there + 16 * MS);
    let truth = made.truth(asked, begun, known());
    let write = |ended, end| Written { began: ended - 10_000, ended, end };
    let right = [write(there + 7 * MS, 200), write(there + 16 * MS, 1_100)];
    let right = witnessed(&truth, &right).unwrap();
    assert_eq!((right.packets, right.writes, right.off()), (ms(16), ms(16), 0));
    let held = [write(there + 4 * MS, 200), write(there + 16 * MS, 1_100)];
    assert_eq!(witnessed(&truth, &held).unwrap().off(), 3 * MS);
    assert_eq!(witnessed(&truth, &held[..1]), None);
    let early = Truth { open: ms(2), ..truth };
    let late = Witnessed { writes: ms(21), ..witnessed(&early, &held).unwrap() };
    assert_eq!(late.off(), -3 * MS);
}

/// A connection over QUIC: datagrams with their contents, at both ends.
#[derive(Default)]
struct Datagrams(Captured, u64);

impl Datagrams {
    fn at(&mut self, from: End, departs: i64, arrives: Option<i64>, carried: Datagram) {
        self.1 += 1;
        let quic = Some(Arc::new(carried));
        let packet =
            Packet { at: ORIGIN + departs, from, id: self.1, bytes: 1_228, tcp: None, quic };
        let arrived = arrives.map(|at| Packet { at: ORIGIN + at, ..packet.clone() });
        let (here, there) = match from {
            End::Client => (&mut self.0.client, &mut self.0.server),
            End::Server => (&mut self.0.server, &mut self.0.client),
        };
        here.push(packet);
        there.extend(arrived);
        self.0.client.sort_by_key(|packet| packet.at);
        self.0.server.sort_by_key(|packet| packet.at);
    }

    fn truth(&self, asked: i64, begun: i64, ended: i64) -> Truth {
        let mut connection = Connection {
            started_unix_ns: Some(ORIGIN.unsigned_abs()),
            facts: Facts { quic: Some(QuicFacts::default()), ..Facts::default() },
            ..Connection::default()
        };
        let marks = [(Mark::RequestEnd, asked), (Mark::ResponseStart, begun)];
        for (mark, at) in marks.into_iter().chain([(Mark::ResponseEnd, ended)]) {
            connection.marks.set(mark, Stamp::kernel(Offset::from_nanos(at)));
        }
        let known = Known { window: 12_000, ..known() };
        let truth = truth(&connection, &self.0, &known).unwrap();
        assert_eq!(truth.parts.sum(), Duration::from_nanos(ended.unsigned_abs()));
        truth
    }
}

fn hello(number: u64) -> Datagram {
    let space = Space::Initial;
    Datagram {
        packets: vec![(space, number)],
        pieces: vec![Piece { lane: Lane::Handshake(space), start: 0, end: 300 }],
        elicits: true,
        ..Datagram::default()
    }
}

fn stream(number: u64, start: u64, end: u64) -> Datagram {
    Datagram {
        packets: vec![(Space::Application, number)],
        pieces: vec![Piece { lane: Lane::Stream(0), start, end }],
        elicits: true,
        ..Datagram::default()
    }
}

fn acknowledges(datagram: Datagram, space: Space, number: u64) -> Datagram {
    Datagram { acknowledges: vec![(space, number, number)], ..datagram }
}

/// The request is lost and retransmitted 200 ms later; so is the end of the response, 90 ms later.
#[test]
fn datagrams_that_were_lost_in_both_directions() {
    let mut made = Datagrams::default();
    made.at(End::Client, MS, Some(MS + ONE_WAY), hello(0));
    let helloed = MS + ONE_WAY;
    let answer = acknowledges(hello(0), Space::Initial, 0);
    made.at(End::Server, helloed + 2 * MS, Some(helloed + 2 * MS + ONE_WAY), answer);
    let asked = helloed + 2 * MS + ONE_WAY + MS;
    made.at(End::Client, asked, None, stream(0, 0, 80));
    let again = asked + 200 * MS;
    made.at(End::Client, again, Some(again + ONE_WAY), stream(1, 0, 80));
    let answered = again + ONE_WAY + 5 * MS;
    let begun = answered + ONE_WAY;
    let first = acknowledges(stream(0, 0, 1_000), Space::Application, 1);
    made.at(End::Server, answered, Some(begun), first);
    made.at(End::Server, answered + 10_000, None, stream(1, 1_000, 1_500));
    let last = answered + 90 * MS;
    made.at(End::Server, last, Some(last + ONE_WAY), stream(2, 1_000, 1_500));
    let truth = made.truth(asked, begun, last + ONE_WAY);
    assert_eq!(truth.parts.variation, ms(290) - Duration::from_micros(10));
    assert_eq!((truth.parts.server, truth.parts.pause), (ms(7), ms(0)));
    assert_eq!((truth.parts.network, truth.parts.client), (ms(40), ms(2)));
    assert_eq!((truth.lost, truth.opened), (2, true));
}

/// The datagram reached the server's device but not its process, so it was retransmitted and then acknowledged.
#[test]
fn a_datagram_that_the_server_dropped_was_lost() {
    let mut made = Datagrams::default();
    made.at(End::Client, MS, Some(MS + ONE_WAY), hello(0));
    let again = MS + 100 * MS;
    made.at(End::Client, again, Some(again + ONE_WAY), hello(1));
    let there = again + ONE_WAY;
    let answer = acknowledges(hello(0), Space::Initial, 1);
    made.at(End::Server, there + MS, Some(there + MS + ONE_WAY), answer);
    let asked = there + MS + ONE_WAY;
    made.at(End::Client, asked, Some(asked + ONE_WAY), stream(0, 0, 80));
    let begun = asked + 2 * ONE_WAY;
    let response = acknowledges(stream(0, 0, 100), Space::Application, 0);
    made.at(End::Server, asked + ONE_WAY, Some(begun), response);
    let truth = made.truth(asked, begun, begun);
    assert_eq!((truth.parts.variation, truth.parts.server), (ms(100), ms(1)));
}
