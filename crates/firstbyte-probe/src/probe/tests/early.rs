//! Requests that leave before the handshake is complete.

use std::sync::Arc;
use std::time::Duration;

use firstbyte_core::timeline::{Direction, Handshake, Mark};
use rustls::ServerConfig;

use super::peers::{App, CERTIFICATE, Http2, OK, TlsPeer, http1};
use super::visit::{Asked, Client, Visited, simulated};
use crate::net::simulated::Said;
use crate::probe::options::{HttpVersion, SessionUse, TlsVersion};

const ROUND_TRIP: Duration = Duration::from_millis(40);

/// A server that accepts this many bytes of early data.
fn config(alpn: &[&str], early_bytes: u32) -> Arc<ServerConfig> {
    let mut config = CERTIFICATE.config(alpn);
    config.max_early_data_size = early_bytes;
    config.send_half_rtt_data = true;
    Arc::new(config)
}

fn client(http: HttpVersion) -> Client {
    let session = SessionUse::EarlyData { any_method: false };
    Client::new(&Asked { http, session, ..Asked::default() })
}

/// A first visit to `first`, which sends a session, and a second visit to `second`.
async fn twice(
    http: HttpVersion,
    first: &Arc<ServerConfig>,
    second: &Arc<ServerConfig>,
    app: impl Fn() -> Box<dyn App>,
) -> (Visited, Visited) {
    let client = client(http);
    let before = client.visit(TlsPeer::boxed(first, app())).await;
    assert_eq!((before.failure(), before.status()), (None, Some(200)));
    let visited = client.visit(TlsPeer::boxed(second, app())).await;
    assert_eq!((visited.failure(), visited.status()), (None, Some(200)));
    (before, visited)
}

fn accepted(visited: &Visited) -> Option<bool> {
    let tls = visited.connection.facts.tls.as_ref().unwrap();
    tls.early_data.as_ref().and_then(|early| early.accepted)
}

fn handshake(visited: &Visited) -> Option<Handshake> {
    visited.connection.facts.tls.as_ref().unwrap().handshake
}

/// A server that answers before it gets a request.
struct Hasty;

impl App for Hasty {
    fn greet(&mut self) -> Vec<Said> {
        let head =
            b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        vec![Said::bytes(0, head.to_vec())]
    }

    fn take(&mut self, _: &[u8]) -> Vec<Said> {
        Vec::new()
    }
}

#[test]
fn an_answer_that_comes_before_the_request_is_one() {
    for tls in [TlsVersion::V1_2, TlsVersion::V1_3] {
        simulated(async {
            let config = Arc::new(CERTIFICATE.config(&["http/1.1"]));
            let client = Client::new(&Asked { tls, ..Asked::default() });
            let visited = client.visit(TlsPeer::new(&config, Hasty).together()).await;
            assert_eq!((visited.failure(), visited.status()), (None, Some(408)), "{tls:?}");
        });
    }
}

#[test]
fn early_data_that_is_accepted_saves_a_round_trip() {
    for (http, alpn) in [(HttpVersion::Http1, "http/1.1"), (HttpVersion::Negotiate, "h2")] {
        simulated(async {
            let config = config(&[alpn], 16 << 10);
            let app = || -> Box<dyn App> {
                match alpn {
                    "h2" => Box::new(Http2::new(30, b"hello")),
                    _ => Box::new(http1(|| vec![Said::bytes(30, OK)])),
                }
            };
            let (full, early) = twice(http, &config, &config, app).await;
            assert_eq!(accepted(&early), Some(true));
            assert_eq!(handshake(&early), Some(Handshake::Resumed));
            // ClientHello and request leave in one send.
            let sent = early.flights(Direction::Sent);
            assert_eq!(sent[0].chunks.len(), 1, "{sent:?}");
            assert_eq!(sent[0].messages[0], "ClientHello");
            let first = Some(sent[0].first());
            assert_eq!(early.connection.marks.at(Mark::RequestStart), first);
            assert_eq!(early.connection.marks.at(Mark::RequestEnd), first);
            assert!(early.at(Mark::RequestEnd) < early.at(Mark::HandshakeComplete));
            let waited = early.at(Mark::ResponseStart) - early.at(Mark::RequestEnd);
            assert_eq!(waited, ROUND_TRIP + Duration::from_millis(30), "{alpn}");
            assert!(early.at(Mark::ResponseStart) + ROUND_TRIP <= full.at(Mark::ResponseStart));
            let facts = early.connection.facts.tls.as_ref().unwrap().early_data.as_ref();
            assert!(facts.unwrap().bytes_before_server_hello > Some(30));
        });
    }
}

#[test]
fn early_data_that_is_rejected_is_sent_again_behind_the_handshake() {
    for (http, alpn) in [(HttpVersion::Http1, "http/1.1"), (HttpVersion::Negotiate, "h2")] {
        simulated(async {
            let app = || -> Box<dyn App> {
                match alpn {
                    "h2" => Box::new(Http2::new(30, b"hello")),
                    _ => Box::new(http1(|| vec![Said::bytes(30, OK)])),
                }
            };
            // The second server does not know the first one's sessions.
            let (first, second) = (config(&[alpn], 16 << 10), config(&[alpn], 16 << 10));
            let (_, rejected) = twice(http, &first, &second, app).await;
            assert_eq!(accepted(&rejected), Some(false));
            assert_eq!(handshake(&rejected), Some(Handshake::Full));
            let sent = rejected.flights(Direction::Sent);
            // The request that counts is the one that the server accepted: in one send with the Finished.
            assert_eq!(sent[1].chunks.len(), 1, "{sent:?}");
            let again = Some(sent[1].first());
            assert_eq!(rejected.connection.marks.at(Mark::RequestStart), again);
            assert_eq!(rejected.connection.marks.at(Mark::RequestEnd), again);
            assert_eq!(rejected.connection.marks.at(Mark::HandshakeComplete), again);
            let waited = rejected.at(Mark::ResponseStart) - rejected.at(Mark::RequestEnd);
            assert_eq!(waited, ROUND_TRIP + Duration::from_millis(30), "{alpn}");
        });
    }
}

#[test]
fn what_the_servers_limit_leaves_no_room_for_follows_the_handshake() {
    simulated(async {
        let config = config(&["http/1.1"], 20);
        let app = || -> Box<dyn App> { Box::new(http1(|| vec![Said::bytes(0, OK)])) };
        let (_, early) = twice(HttpVersion::Http1, &config, &config, app).await;
        assert_eq!(accepted(&early), Some(true));
        assert!(early.at(Mark::RequestStart) < early.at(Mark::HandshakeComplete));
        let (asked, complete) = (early.at(Mark::RequestEnd), early.at(Mark::HandshakeComplete));
        assert!(asked >= complete, "{asked:?}, {complete:?}: {:?}", early.connection);
    });
}

#[test]
fn without_a_session_that_allows_it_nothing_is_early() {
    simulated(async {
        let config = config(&["http/1.1"], 0);
        let app = || -> Box<dyn App> { Box::new(http1(|| vec![Said::bytes(0, OK)])) };
        let (_, second) = twice(HttpVersion::Http1, &config, &config, app).await;
        assert_eq!(accepted(&second), None);
        assert_eq!(handshake(&second), Some(Handshake::Resumed));
        assert_eq!(second.at(Mark::HandshakeComplete), second.at(Mark::RequestStart));
    });
}
