//! Segments merged by the kernel or by the server: what arrived together, and when.

use std::sync::Arc;
use std::time::Duration;

use firstbyte_core::timeline::{Clock, Direction, Mark};

use super::peers::{App, CERTIFICATE, HEADERS, OK, Plain, SETTINGS, SETTINGS_ACK, TlsPeer, http1};
use super::visit::{Asked, Client, simulated};
use crate::net::simulated::{Path, Said};
use crate::probe::options::{HttpVersion, TlsVersion};

const ROUND_TRIP: Duration = Duration::from_millis(40);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Sends its settings first, as HTTP/2 servers do, and answers at once.
struct Greets {
    after_ms: u64,
}

impl App for Greets {
    fn greet(&mut self) -> Vec<Said> {
        vec![Said::bytes(self.after_ms, SETTINGS)]
    }

    fn take(&mut self, bytes: &[u8]) -> Vec<Said> {
        // The preface and the bytes after it.
        if bytes.starts_with(b"PRI") {
            vec![Said::bytes(10, [SETTINGS_ACK, HEADERS].concat())]
        } else {
            Vec::new()
        }
    }
}

fn http2(tls: TlsVersion) -> Asked {
    Asked { http: HttpVersion::Negotiate, tls, ..Asked::default() }
}

#[test]
fn settings_in_the_segment_of_the_servers_finished_are_no_response() {
    simulated(async {
        let mut config = CERTIFICATE.config(&["h2"]);
        config.send_half_rtt_data = true;
        let peer = TlsPeer::new(&Arc::new(config), Greets { after_ms: 0 }).together();
        let visited = Client::new(&http2(TlsVersion::V1_3)).visit(peer).await;
        assert_eq!((visited.failure(), visited.status()), (None, Some(200)));
        let received = visited.flights(Direction::Received);
        let first = &received[0].messages;
        assert_eq!(first[0], "ServerHello");
        assert!(first.contains(&"{Finished}".into()), "{first:?}");
        // The flight and the settings are one write, so none of it arrived later.
        let waited = visited.at(Mark::ResponseStart) - visited.at(Mark::RequestEnd);
        assert_eq!(waited, ROUND_TRIP + ms(10));
        let named: Vec<&String> = received.iter().flat_map(|flight| &flight.messages).collect();
        let settings = named.iter().filter(|name| **name == "SETTINGS").count();
        assert_eq!(settings, 1, "{named:?}");
    });
}

#[test]
fn tickets_in_the_segment_of_the_response_do_not_hide_where_it_begins() {
    simulated(async {
        for together in [false, true] {
            let config = Arc::new(CERTIFICATE.config(&[]));
            let mut peer = TlsPeer::new(&config, http1(|| vec![Said::bytes(0, OK)]));
            if together {
                peer = peer.together();
            }
            let visited = Client::new(&Asked::default()).visit(peer).await;
            let received = visited.flights(Direction::Received);
            let last = &received.last().unwrap().messages;
            let ticket = last.iter().position(|name| name == "{NewSessionTicket}").unwrap();
            let answer = last.iter().position(|name| name == "HTTP/1.1 200 OK").unwrap();
            assert!(ticket < answer, "{last:?}");
            let waited = visited.at(Mark::ResponseStart) - visited.at(Mark::RequestEnd);
            assert!(waited - ROUND_TRIP < ms(1), "{waited:?}");
        }
    });
}

#[test]
fn tickets_that_come_before_the_response_are_not_its_first_byte() {
    simulated(async {
        let config = Arc::new(CERTIFICATE.config(&[]));
        let peer = TlsPeer::new(&config, http1(|| vec![Said::bytes(80, OK)]));
        let visited = Client::new(&Asked::default()).visit(peer).await;
        let waited = visited.at(Mark::ResponseStart) - visited.at(Mark::RequestEnd);
        assert_eq!(waited, ROUND_TRIP + ms(80));
        let tickets = visited.connection.facts.tls.as_ref().unwrap().tickets_received;
        assert_eq!(tickets, Some(2));
    });
}

/// In TLS 1.2 the server sends the last message, and its settings follow before the process has read it.
#[test]
fn a_finished_that_the_kernel_merged_with_settings_has_its_own_time() {
    simulated(async {
        let mut client = Client::new(&http2(TlsVersion::V1_2));
        client.path = Path { notice: ms(6), ..client.path };
        let config = Arc::new(CERTIFICATE.config(&["h2"]));
        let visited = client.visit(TlsPeer::new(&config, Greets { after_ms: 4 })).await;
        assert_eq!(visited.status(), Some(200));
        let finished = visited.connection.marks.stamp(Mark::HandshakeComplete).unwrap();
        assert_eq!(finished.clock, Clock::KernelDerived);
        let sent = visited.flights(Direction::Sent);
        let took = finished.at.since(sent[1].last());
        assert_eq!(took, ROUND_TRIP, "the settings came 4 ms later");
        let received = visited.flights(Direction::Received);
        assert_eq!(received[1].chunks.len(), 2, "{:?}", received[1]);
        assert_eq!(received[1].messages.last().unwrap(), "SETTINGS");
    });
}

/// Status 103 on stream 1, which continues.
const EARLY_HINTS: &[u8] = &[0, 0, 5, 1, 4, 0, 0, 0, 1, 8, 3, b'1', b'0', b'3'];

/// A 103 arrives at once and the response 50 ms later; the wait ends with the response.
#[test]
fn an_interim_response_is_not_the_first_byte() {
    let http1_answer = || {
        let interim = *b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n";
        http1(move || vec![Said::bytes(0, interim), Said::bytes(50, OK)])
    };
    let http2_answer = || {
        |bytes: &[u8]| match bytes.starts_with(b"PRI") {
            true => {
                let first = [SETTINGS, SETTINGS_ACK, EARLY_HINTS].concat();
                vec![Said::bytes(0, first), Said::bytes(50, HEADERS)]
            }
            false => Vec::new(),
        }
    };
    simulated(async {
        let over_http1 = TlsPeer::new(&Arc::new(CERTIFICATE.config(&[])), http1_answer());
        let over_http2 = TlsPeer::new(&Arc::new(CERTIFICATE.config(&["h2"])), http2_answer());
        let visits = [
            Client::new(&Asked::default()).visit(over_http1).await,
            Client::new(&http2(TlsVersion::V1_3)).visit(over_http2).await,
            Client::plain().visit(Plain(http1_answer())).await,
        ];
        for visited in visits {
            assert_eq!((visited.failure(), visited.status()), (None, Some(200)));
            let since_request = |mark| visited.at(mark) - visited.at(Mark::RequestEnd);
            assert!(since_request(Mark::InterimResponseStart) < ROUND_TRIP + ms(1));
            let waited = since_request(Mark::ResponseStart);
            assert!(waited >= ROUND_TRIP + ms(50) && waited < ROUND_TRIP + ms(51), "{waited:?}");
        }
    });
}

/// One TLS record fills eleven segments. The client cannot read any of it before the last segment arrives.
#[test]
fn a_response_begins_when_its_first_record_is_whole() {
    simulated(async {
        let body = vec![b'x'; 15_000];
        let answer = [b"HTTP/1.1 200 OK\r\nContent-Length: 15000\r\n\r\n", &body[..]].concat();
        let config = Arc::new(CERTIFICATE.config(&[]));
        let peer = TlsPeer::new(&config, http1(move || vec![Said::bytes(5, answer.clone())]));
        let visited = Client::new(&Asked::default()).visit(peer).await;
        let waited = visited.at(Mark::ResponseStart) - visited.at(Mark::RequestEnd);
        // This path merges everything that waits: the kernel's stamp is that of the last segment.
        assert!(waited >= ROUND_TRIP + ms(5) && waited < ROUND_TRIP + ms(6), "{waited:?}");
        assert!(visited.at(Mark::ResponseEnd) >= visited.at(Mark::ResponseStart));
    });
}

#[test]
fn segments_are_counted_and_not_guessed_from_reads() {
    simulated(async {
        let body = vec![b'x'; 10_000];
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n";
        let server = Plain(http1(move || {
            // The head in its own segment, and the body 3 ms later in seven segments.
            vec![Said::bytes(0, *head), Said::bytes(3, body.clone())]
        }));
        let visited = Client::plain().visit(server).await;
        assert_eq!(visited.failure(), None);
        let received = visited.flights(Direction::Received);
        let segments: u32 = received[0].chunks.iter().filter_map(|chunk| chunk.segments).sum();
        assert_eq!(segments, 8, "{:?}", received[0]);
        assert_eq!(received[0].chunks[0].segments, Some(1));
        assert_eq!(received[0].chunks[0].bytes, 42);
    });
}

/// The head arrives one byte per segment.
#[test]
fn a_response_that_trickles_begins_with_its_first_byte() {
    simulated(async {
        let server = Plain(http1(|| {
            OK.iter().zip(1..).map(|(byte, ms)| Said::bytes(10 * ms, [*byte])).collect()
        }));
        let visited = Client::plain().visit(server).await;
        assert_eq!(visited.status(), Some(200));
        let waited = visited.at(Mark::ResponseStart) - visited.at(Mark::RequestEnd);
        assert_eq!(waited, ROUND_TRIP + ms(10));
        let took = visited.at(Mark::ResponseEnd) - visited.at(Mark::ResponseStart);
        assert_eq!(took, ms(10) * (OK.len() as u32 - 1));
        let received = visited.flights(Direction::Received);
        assert_eq!(received[0].chunks.len(), OK.len());
    });
}

/// The whole body waits when the process reads: more than any buffer holds, in records that no read ends with.
#[test]
fn a_large_body_over_tls_arrives_whole_however_much_of_it_waits() {
    const BODY: usize = 3 << 20;
    simulated(async {
        let config = Arc::new(CERTIFICATE.config(&[]));
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {BODY}\r\n\r\n").into_bytes();
        let answer = [answer, vec![b'x'; BODY]].concat();
        let mut client = Client::new(&Asked::default());
        client.path = Path { notice: ms(50), ..client.path };
        let server = TlsPeer::new(&config, http1(move || vec![Said::bytes(0, answer.clone())]));
        let visited = client.visit(server).await;
        assert_eq!(visited.failure(), None);
        let http = visited.connection.facts.http.as_ref().unwrap();
        assert_eq!(http.body_bytes, Some(BODY as u64));
    });
}

/// The maximum number of fields, which exceeds hyper's first limit: hyper gets the head again, and nothing of that is
/// visible on the wire.
#[test]
fn a_head_of_many_fields_is_read_without_another_request() {
    simulated(async {
        for (fields, tls) in [(99, false), (101, false), (101, true), (9_000, true)] {
            let field = |n: usize| format!("x-{n}: {n}\r\n");
            let fields_text: String = (0..fields).map(field).collect();
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n{fields_text}\r\nhello");
            let app = http1(move || vec![Said::bytes(0, answer.clone())]);
            let visited = if tls {
                let config = Arc::new(CERTIFICATE.config(&[]));
                Client::new(&Asked::default()).visit(TlsPeer::new(&config, app)).await
            } else {
                Client::plain().visit(Plain(app)).await
            };
            assert_eq!((visited.failure(), visited.status()), (None, Some(200)), "{fields}");
            let http = visited.connection.facts.http.as_ref().unwrap();
            assert_eq!(http.headers.len(), fields + 1);
            assert_eq!(http.body_bytes, Some(5));
            let sent = visited.flights(Direction::Sent);
            let requests = sent.iter().flat_map(|flight| &flight.messages);
            assert_eq!(requests.filter(|name| name.starts_with("GET")).count(), 1, "{sent:?}");
        }
    });
}
