//! Which bytes leave together, and which of them are the request.

use std::sync::Arc;
use std::time::Duration;

use firstbyte_core::timeline::{Direction, Mark, PhaseName};

use super::peers::{
    CERTIFICATE, HEADERS, Http2, OK, Plain, SETTINGS, SETTINGS_ACK, TlsPeer, http1,
};
use super::visit::{Asked, Client, simulated};
use crate::net::simulated::{Path, Said, Silent, StreamPeer};
use crate::probe::Secret;
use crate::probe::options::{HttpVersion, TlsVersion};

const ROUND_TRIP: Duration = Duration::from_millis(40);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn http2() -> Asked {
    Asked { http: HttpVersion::Negotiate, ..Asked::default() }
}

#[test]
fn finished_preface_settings_and_request_leave_in_one_send() {
    simulated(async {
        let config = Arc::new(CERTIFICATE.config(&["h2"]));
        let visited =
            Client::new(&http2()).visit(TlsPeer::new(&config, Http2::new(30, b"hello"))).await;
        assert_eq!((visited.failure(), visited.status()), (None, Some(200)));
        let sent = visited.flights(Direction::Sent);
        assert_eq!(sent[0].messages, ["ClientHello"]);
        let names = &sent[1].messages;
        assert_eq!(names[..3], ["ChangeCipherSpec", "{Finished}", "preface"], "{names:?}");
        assert!(names.contains(&"SETTINGS".into()) && names.contains(&"HEADERS".into()));
        assert_eq!(sent[1].chunks.len(), 1, "one send: {:?}", sent[1]);
        assert_eq!(visited.written[1].at, visited.written[1].at.max(ROUND_TRIP * 2));
        // This one send is the end of the handshake and the whole request.
        let left = sent[1].first();
        for mark in [Mark::HandshakeComplete, Mark::RequestStart, Mark::RequestEnd] {
            assert_eq!(visited.connection.marks.at(mark), Some(left), "{mark:?}");
        }
    });
}

#[test]
fn times_are_the_paths_and_the_servers_however_late_the_process_is() {
    simulated(async {
        for notice in [0, 3, 70] {
            let config = Arc::new(CERTIFICATE.config(&["h2"]));
            let mut client = Client::new(&http2());
            client.path = Path { notice: ms(notice), ..client.path };
            let visited = client.visit(TlsPeer::new(&config, Http2::new(30, b"hello"))).await;
            assert_eq!(visited.at(Mark::TcpConnected) - visited.at(Mark::ConnectStart), ROUND_TRIP);
            let waited = visited.at(Mark::ResponseStart) - visited.at(Mark::RequestEnd);
            assert_eq!(waited, ROUND_TRIP + ms(30), "noticed {notice} ms later");
        }
    });
}

#[test]
fn a_request_over_tls12_leaves_in_one_send_after_the_servers_finished() {
    simulated(async {
        let config = Arc::new(CERTIFICATE.config(&["h2"]));
        let asked = Asked { tls: TlsVersion::V1_2, ..http2() };
        let visited =
            Client::new(&asked).visit(TlsPeer::new(&config, Http2::new(0, b"hello"))).await;
        assert_eq!((visited.failure(), visited.status()), (None, Some(200)));
        let sent = visited.flights(Direction::Sent);
        assert_eq!(sent[2].messages[..1], ["preface"]);
        assert_eq!(sent[2].chunks.len(), 1, "{:?}", sent[2]);
        // The server sends the last message of the handshake.
        let received = visited.flights(Direction::Received);
        let finished = visited.connection.marks.at(Mark::HandshakeComplete);
        assert_eq!(finished, Some(received[1].first()));
        assert!(visited.at(Mark::HandshakeComplete) < visited.at(Mark::RequestStart));
    });
}

#[test]
fn what_is_sent_while_the_server_thinks_is_not_the_request() {
    simulated(async {
        let config = Arc::new(CERTIFICATE.config(&["h2"]));
        let mut turns = 0;
        let app = move |_: &[u8]| {
            turns += 1;
            match turns {
                // The client acknowledges these while the server is thinking.
                1 => vec![
                    Said::bytes(60, SETTINGS),
                    Said::bytes(120, [SETTINGS_ACK, HEADERS].concat()),
                ],
                _ => Vec::new(),
            }
        };
        let visited = Client::new(&http2()).visit(TlsPeer::new(&config, app)).await;
        assert_eq!(visited.status(), Some(200));
        let waited = visited.at(Mark::ResponseStart) - visited.at(Mark::RequestEnd);
        assert_eq!(waited, ROUND_TRIP + ms(120), "the SETTINGS ack is taken for the request");
    });
}

/// Delays the last bytes of the server's first flight.
struct InPieces<P>(P, bool);

impl<P: StreamPeer> StreamPeer for InPieces<P> {
    fn take(&mut self, bytes: &[u8]) -> Vec<Said> {
        let mut said = self.0.take(bytes);
        if !std::mem::replace(&mut self.1, true)
            && let crate::net::simulated::What::Bytes(flight) = &mut said[0].what
        {
            let rest = flight.split_off(flight.len() - 100);
            said.insert(1, Said::bytes(50, rest));
        }
        said
    }
}

#[test]
fn nothing_leaves_before_the_servers_flight_is_whole() {
    simulated(async {
        let config = Arc::new(CERTIFICATE.config(&[]));
        let server = TlsPeer::new(&config, http1(|| vec![Said::bytes(0, OK)]));
        let visited = Client::new(&Asked::default()).visit(InPieces(server, false)).await;
        assert_eq!(visited.status(), Some(200));
        let sent = visited.flights(Direction::Sent);
        assert_eq!(sent[1].messages, ["ChangeCipherSpec", "{Finished}", "GET / HTTP/1.1"]);
        assert_eq!(sent[1].chunks.len(), 1);
        assert!(visited.at(Mark::HandshakeComplete) > ROUND_TRIP * 2 + ms(50));
    });
}

#[test]
fn a_large_upload_is_no_part_of_the_handshake() {
    simulated(async {
        let config = Arc::new(CERTIFICATE.config(&[]));
        let mut client = Client::new(&Asked::default());
        client.http.method = ::http::Method::POST;
        client.http.body = Some(Secret::new(vec![b'x'; 1 << 20].into()));
        let mut heard = 0;
        let app = move |bytes: &[u8]| {
            heard += bytes.len();
            if heard > 1 << 20 { vec![Said::bytes(0, OK)] } else { Vec::new() }
        };
        let visited = client.visit(TlsPeer::new(&config, app)).await;
        assert_eq!((visited.failure(), visited.status()), (None, Some(200)));
        let handshake =
            visited.at(Mark::HandshakeComplete) - visited.at(Mark::SecureConnectionStart);
        assert!(handshake < ROUND_TRIP + ms(5), "{handshake:?}");
        assert_eq!(visited.at(Mark::HandshakeComplete), visited.at(Mark::RequestStart));
        // At one window of 14 kB per round trip, the last byte leaves some seventy round trips later.
        let upload = visited.at(Mark::RequestEnd) - visited.at(Mark::RequestStart);
        assert!(upload > ROUND_TRIP * 70, "{upload:?}");
    });
}

#[test]
fn an_upload_leaves_while_it_is_encrypted() {
    simulated(async {
        let config = Arc::new(CERTIFICATE.config(&[]));
        let mut client = Client::new(&Asked::default());
        client.http.method = ::http::Method::POST;
        client.http.body = Some(Secret::new(vec![b'x'; 4 << 20].into()));
        let mut heard = 0;
        let app = move |bytes: &[u8]| {
            heard += bytes.len();
            if heard > 4 << 20 { vec![Said::bytes(0, OK)] } else { Vec::new() }
        };
        let visited = client.visit(TlsPeer::new(&config, app)).await;
        assert_eq!(visited.status(), Some(200));
        // No write waits for more of the body than the limit for held-back bytes, plus a record.
        let largest = visited.written.iter().map(|written| written.bytes).max().unwrap();
        assert!(largest <= (256 + 32) * 1024, "{largest}");
        assert!(visited.written.len() > 12, "{:?}", visited.written);
    });
}

#[test]
fn an_upload_that_nobody_reads_fails_while_it_is_sent() {
    simulated(async {
        let mut client = Client::plain();
        client.http.method = ::http::Method::POST;
        client.http.body = Some(Secret::new(vec![b'x'; 4 << 20].into()));
        client.path.send_buffer = 512 << 10;
        client.path.round_trip = Duration::from_secs(60);
        let visited = client.visit_within(Duration::from_secs(70), Silent).await;
        let (phase, _) = visited.failure().unwrap();
        assert_eq!(phase, PhaseName::Send);
        assert!(visited.has(Mark::RequestStart) && !visited.has(Mark::RequestEnd));
    });
}

#[test]
fn an_answer_that_comes_before_the_upload_is_over_ends_the_request() {
    simulated(async {
        let mut client = Client::plain();
        client.http.method = ::http::Method::POST;
        client.http.body = Some(Secret::new(vec![b'x'; 4 << 20].into()));
        client.path.send_buffer = 256 << 10;
        let answer = b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        let server = Plain(http1(move || vec![Said::bytes(0, *answer)]));
        let visited = client.visit(server).await;
        assert_eq!(visited.status(), Some(413));
        assert!(visited.has(Mark::RequestEnd));
    });
}
