//! Compares the split of a simulated link with two hosts with the truth.
//!
//! Time is a number advanced by the simulation; the observer is the client, as in a real probe.

use std::time::Duration;

use proptest::prelude::*;

use super::Split;
use crate::timeline::*;

/// A path and two hosts, with everything that takes time on them.
#[derive(Clone, Debug)]
struct World {
    one_way_ns: i64,
    /// Extra time of each packet on the way, used in rotation.
    jitter_ns: Vec<i64>,
    /// Time from a flight's arrival at the server to its answer, per exchange.
    server_ns: Vec<i64>,
    /// Time from an answer's arrival to the client's next flight, per exchange.
    client_ns: Vec<i64>,
    /// Handshake exchanges after TCP's: 0 for http, 1 for TLS 1.3, 2 for TLS 1.2.
    handshake_exchanges: usize,
    /// Segments of the response; `window` is the number that the server may send before an acknowledgement.
    response_segments: usize,
    window: usize,
    segment_gap_ns: i64,
}

/// The true course of events.
#[derive(Debug, Default)]
struct Truth {
    round_trips: u32,
    server_ns: i64,
    client_ns: i64,
}

const SEGMENT: u64 = 1_448;

struct Simulation<'a> {
    world: &'a World,
    now: i64,
    packets: usize,
    truth: Truth,
    connection: Connection,
}

impl<'a> Simulation<'a> {
    fn run(world: &'a World) -> (Connection, Truth) {
        let connection = Connection::default();
        let mut s = Self { world, now: 0, packets: 0, truth: Truth::default(), connection };
        s.tcp();
        for exchange in 0..world.handshake_exchanges {
            s.exchange(exchange, 600, 1_200);
        }
        if world.handshake_exchanges > 0 {
            // TLS 1.3's client sends its Finished with the request; TLS 1.2's has received one.
            if world.handshake_exchanges == 1 {
                s.client_works(1);
            }
            s.mark(Mark::HandshakeComplete);
        }
        if world.handshake_exchanges != 1 {
            s.client_works(world.handshake_exchanges);
        }
        s.request();
        (s.connection, s.truth)
    }

    fn mark(&mut self, mark: Mark) {
        self.connection.marks.set(mark, Stamp::kernel(Offset::from_nanos(self.now)));
    }

    /// One packet crosses the path.
    fn cross(&mut self) {
        let jitter = self.world.jitter_ns[self.packets % self.world.jitter_ns.len()];
        self.packets += 1;
        self.now += self.world.one_way_ns + jitter;
    }

    fn tcp(&mut self) {
        self.mark(Mark::ConnectStart);
        self.cross();
        self.cross();
        self.mark(Mark::TcpConnected);
        self.truth.round_trips += 1;
        let syn_rtt = Duration::from_nanos(self.now as u64);
        self.connection.facts.tcp = Some(TcpFacts {
            syn_rtt: Some(syn_rtt),
            send_mss: Some(SEGMENT as u32),
            ..TcpFacts::default()
        });
    }

    fn client_works(&mut self, exchange: usize) {
        let works = self.world.client_ns[exchange % self.world.client_ns.len()];
        self.now += works;
        self.truth.client_ns += works;
    }

    fn server_works(&mut self, exchange: usize) {
        let works = self.world.server_ns[exchange % self.world.server_ns.len()];
        self.now += works;
        self.truth.server_ns += works;
    }

    fn flight(&mut self, direction: Direction, bytes: u64) {
        let stamp = Stamp::kernel(Offset::from_nanos(self.now));
        let chunk = Chunk::new(stamp, bytes);
        match self.connection.flights.last_mut() {
            Some(flight) if flight.direction == direction => flight.chunks.push(chunk),
            _ => self.connection.flights.push(Flight {
                direction,
                chunks: vec![chunk],
                messages: vec![],
            }),
        }
    }

    fn exchange(&mut self, number: usize, ask: u64, answer: u64) {
        self.client_works(number);
        self.flight(Direction::Sent, ask);
        self.cross();
        self.server_works(number);
        self.cross();
        self.flight(Direction::Received, answer);
        self.truth.round_trips += 1;
    }

    /// Plays the request, and a response of several windows.
    fn request(&mut self) {
        self.mark(Mark::RequestStart);
        self.mark(Mark::RequestEnd);
        self.flight(Direction::Sent, 300);
        self.cross();
        self.server_works(self.world.handshake_exchanges);
        self.cross();
        self.mark(Mark::ResponseStart);
        self.truth.round_trips += 1;
        let mut window_began = self.now;
        for segment in 0..self.world.response_segments {
            if segment > 0 && segment % self.world.window == 0 {
                // The acknowledgement of the window's first segment releases the next one.
                self.now = window_began + 2 * self.world.one_way_ns;
                window_began = self.now;
                self.truth.round_trips += 1;
            } else if segment > 0 {
                self.now += self.world.segment_gap_ns;
            }
            self.flight(Direction::Received, SEGMENT);
        }
        self.mark(Mark::ResponseEnd);
    }
}

fn any_world() -> impl Strategy<Value = World> {
    (
        500_000i64..150_000_000,
        0usize..3,
        proptest::collection::vec(0i64..80_000_000, 3),
        proptest::collection::vec(0i64..5_000_000, 3),
        1usize..11,
        10usize..20,
    )
        .prop_map(
            |(one_way_ns, handshake_exchanges, server_ns, client_ns, segments, window)| {
                World {
                    one_way_ns,
                    jitter_ns: vec![0],
                    server_ns,
                    client_ns,
                    handshake_exchanges,
                    response_segments: segments,
                    window,
                    // A window's segments arrive within a tenth of the round trip.
                    segment_gap_ns: one_way_ns / 5 / window as i64,
                }
            },
        )
}

proptest! {
    /// On a quiet link there is nothing to guess: every part is the truth, to the nanosecond.
    #[test]
    fn a_quiet_link_is_split_exactly(world in any_world()) {
        let (connection, truth) = Simulation::run(&world);
        let split = Split::attribute(&connection);
        prop_assert_eq!(split.rtt, Some(Duration::from_nanos(2 * world.one_way_ns as u64)));
        prop_assert_eq!(split.round_trips, truth.round_trips);
        prop_assert_eq!(split.parts.server.as_nanos() as i64, truth.server_ns);
        prop_assert_eq!(split.parts.client.as_nanos() as i64, truth.client_ns);
        prop_assert_eq!(split.parts.unexplained, Duration::ZERO);
        prop_assert_eq!(split.total(), super::total(&connection));
    }

    /// With jitter the error of the server's share is bounded by the packets' extra delay.
    #[test]
    fn jitter_bounds_the_error_of_the_server_share(
        mut world in any_world(),
        jitter in proptest::collection::vec(0i64..3_000_000, 1..9),
    ) {
        let largest = *jitter.iter().max().unwrap();
        world.jitter_ns = jitter;
        world.response_segments = 1;
        let (connection, truth) = Simulation::run(&world);
        let split = Split::attribute(&connection);
        let exchanges = world.handshake_exchanges as i64 + 1;
        let error = split.parts.server.as_nanos() as i64 - truth.server_ns;
        // Each exchange crosses the path twice; the round-trip time may include two late packets. If only two round
        // trips were observed, three times their difference is used.
        prop_assert!(error.abs() <= exchanges * 2 * 3 * largest, "{error} ns");
        // A round trip that took more than twice as long as another does not count as an answer.
        if largest < world.one_way_ns / 2 {
            prop_assert_eq!(split.round_trips, truth.round_trips);
        }
    }
}

#[test]
fn round_trips_are_those_of_the_protocol() {
    for (handshake_exchanges, round_trips) in [(0, 2), (1, 3), (2, 4)] {
        let world = World {
            one_way_ns: 40_000_000,
            jitter_ns: vec![0],
            server_ns: vec![2_000_000],
            client_ns: vec![500_000],
            handshake_exchanges,
            response_segments: 3,
            window: 10,
            segment_gap_ns: 10_000,
        };
        let (connection, _) = Simulation::run(&world);
        assert_eq!(Split::attribute(&connection).round_trips, round_trips);
    }
}
