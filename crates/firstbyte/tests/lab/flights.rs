//! Flights: the client adds no segment, no stall and no round trip.

use std::time::Duration;

use firstbyte_core::document::{FlightRecord, SampleRecord};

use crate::support::{LINKS, Permits, Scene, assert_within, least, middle};
use crate::wire::{self, Run, Segment};

const HTTPS: &str = "https://server.test/";
/// A delayed acknowledgement takes at least 40 ms.
const STALL: Duration = Duration::from_millis(30);

/// Visits as reported by the program and as seen on the wire, in order.
fn visits(server: &str, flags: &[&str]) -> Vec<(SampleRecord, Vec<Segment>)> {
    let scene = Scene::new(LINKS);
    let probe = [&["-n", "5", "--warmup", "0"], flags, &[HTTPS]].concat();
    let samples = scene.measure(&["--server", server], &probe);
    let connections = wire::connections(&scene.captures().join("client.pcapng"));
    assert_eq!(connections.len(), samples.len());
    samples.into_iter().zip(connections).collect()
}

fn sent(sample: &SampleRecord) -> Vec<&FlightRecord> {
    sample.connection.flights.iter().filter(|flight| flight.direction == "sent").collect()
}

#[test]
fn finished_and_request_leave_together_to_nginx() {
    finished_and_request_leave_together("nginx");
}

/// The server's first flight arrives in two segments, and the client knows the TLS version after the first.
#[test]
fn finished_and_request_leave_together_to_builtin() {
    finished_and_request_leave_together("builtin");
}

fn finished_and_request_leave_together(server: &str) {
    let _permits = Permits::one();
    for family in ["-4", "-6"] {
        let visits = visits(server, &[family, "--tlsv1.3"]);
        for (sample, segments) in &visits {
            let flights = sent(sample);
            let request = flights[1];
            assert_eq!(flights[0].messages, ["ClientHello"]);
            assert_eq!(
                request.messages,
                [
                    "ChangeCipherSpec",
                    "{Finished}",
                    "preface",
                    "SETTINGS",
                    "WINDOW_UPDATE",
                    "HEADERS"
                ]
            );
            assert_eq!(request.chunks.len(), 1, "{request:?}");

            let [hello, server_flight, request_run, ..] = wire::runs(segments)[..] else {
                panic!("{segments:?}")
            };
            assert_eq!(
                [hello.sent, server_flight.sent, request_run.sent],
                [true, false, true],
                "{segments:?}"
            );
            assert_eq!(hello.bytes as u64, flights[0].bytes);
            assert_eq!(request_run.segments, 1, "{segments:?}");
            assert_eq!(request_run.bytes as u64, request.bytes);
        }
        no_stall(&visits);
    }
}

#[test]
fn tls12_request_follows_the_servers_finished_at_once() {
    let _permits = Permits::one();
    for server in ["nginx", "builtin"] {
        let visits = visits(server, &["-4", "--tls-max", "1.2"]);
        let (mut on_wire, mut told) = (Vec::new(), Vec::new());
        for (sample, segments) in &visits {
            // ClientHello; up to ServerHelloDone; up to Finished; Finished; request; response.
            let runs = wire::runs(segments);
            assert!(runs.len() >= 6, "{runs:?}");
            let [finished, request] = [runs[3], runs[4]];
            assert!(!finished.sent && request.sent, "{runs:?}");
            assert_eq!(runs[2].segments, 1, "{runs:?}");
            // Settings that have arrived by then are acknowledged in a separate segment.
            assert!(request.segments <= finished.segments, "{runs:?}");
            on_wire.push(request.first_ns - finished.last_ns);

            let marks = &sample.connection.marks;
            let wait = marks["request_start"].at_ns - marks["handshake_complete"].at_ns;
            told.push(u64::try_from(wait).unwrap());
            assert!(sent(sample)[2].messages.contains(&"HEADERS".to_owned()));
        }
        let limit = Duration::from_millis(5);
        assert_within(least(on_wire), Duration::ZERO, limit, "on the wire");
        assert_within(least(told), Duration::ZERO, limit, "in the record");
        no_stall(&visits);
    }
}

/// The response's first record fills two segments, and both arrive before the process reads either.
///
/// The first packet must have the timestamp of the first segment; the record becomes readable at that of the second.
/// (TLS 1.2, so that nothing else follows the request.)
#[test]
fn the_first_packet_has_the_stamp_of_its_own_segment() {
    let _permits = Permits::all();
    let visits = visits("nginx", &["-4", "--tls-max", "1.2", "--http1.1"]);
    let (mut late, mut read, mut apart) = (Vec::new(), Vec::new(), Vec::new());
    for (sample, segments) in &visits {
        let [.., request, response] = wire::runs(segments)[..6] else { panic!("{segments:?}") };
        assert!(request.sent && !response.sent && response.segments >= 2, "{segments:?}");
        let marks = &sample.connection.marks;
        let told = |mark: &str| marks[mark].at_ns - marks["request_end"].at_ns;
        let wire = |at: u64| (at - request.last_ns) as i64;
        late.push(told("response_first_packet").abs_diff(wire(response.first_ns)));
        read.push(told("response_start").abs_diff(wire(response.last_ns)));
        apart.push(response.last_ns - response.first_ns);
    }
    for late in [late, read] {
        assert!(middle(late.clone()) < middle(apart.clone()) / 2, "{late:?} of {apart:?} ns");
    }
}

/// Asserts that the client holds back nothing for long before the response.
fn no_stall(visits: &[(SampleRecord, Vec<Segment>)]) {
    let flights = if visits[0].0.connection.split.round_trips == 3 { 2 } else { 3 };
    for flight in 0..flights {
        let delays: Vec<u64> = visits
            .iter()
            .map(|(_, segments)| {
                let runs: Vec<Run> = wire::runs(segments);
                let sent = runs.iter().filter(|run| run.sent).nth(flight).unwrap();
                let before = |segment: &&Segment| !segment.sent && segment.at_ns < sent.first_ns;
                let mut answered = segments.iter().filter(before).filter(|s| s.syn || s.bytes > 0);
                sent.first_ns - answered.next_back().unwrap().at_ns
            })
            .collect();
        assert_within(least(delays), Duration::ZERO, STALL, "the client's time on the wire");
    }
}
