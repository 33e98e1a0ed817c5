//! The same properties over QUIC and HTTP/3, against quinn's state machine and scripted HTTP/3.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use firstbyte_core::timeline::{AttemptOutcome, Cause, Connection, Direction, Mark, PhaseName};
use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::{
    ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, Event, ServerConfig, StreamId,
    TransportConfig, VarInt,
};
use tokio::time::Instant;

use super::peers::CERTIFICATE;
use super::visit::{Asked, Client, HOST, REMOTE, keep_the_laws, simulated};
use crate::net::simulated::{DatagramPeer, Path, SimulatedDatagrams};
use crate::probe::body::Body;
use crate::probe::http3;
use crate::probe::options::{HttpVersion, SessionUse};
use crate::probe::quic::open_over;

const ROUND_TRIP: Duration = Duration::from_millis(40);

/// The behaviour of a server, other than its answer.
#[derive(Clone, Copy, Default)]
struct Manner {
    think: Duration,
    /// Whether the client must prove its address first (RFC 9000 §8.1.2).
    retries: bool,
    /// Sends nothing any more after this many datagrams,
    silent_after: Option<usize>,
    /// or closes the connection after this many.
    closes_after: Option<usize>,
}

struct Server {
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, quinn_proto::Connection)>,
    manner: Manner,
    taken: usize,
    greeted: bool,
    /// Requests, and when to answer them.
    due: VecDeque<(Instant, StreamId)>,
    ready: Vec<Vec<u8>>,
}

/// A control stream with empty settings (RFC 9114 §6.2.1, §7.2.4).
const GREETING: &[u8] = &[0, 4, 0];
/// Status 200 (entry 25 of QPACK's static table), and five bytes.
const ANSWER: &[u8] = &[1, 3, 0, 0, 0xc0 | 25, 0, 5, b'h', b'e', b'l', b'l', b'o'];

fn config() -> Arc<ServerConfig> {
    let mut tls = CERTIFICATE.config(&["h3"]);
    tls.max_early_data_size = u32::MAX;
    let tls = QuicServerConfig::try_from(tls).unwrap();
    let mut config = ServerConfig::with_crypto(Arc::new(tls));
    let mut transport = TransportConfig::default();
    transport.mtu_discovery_config(None).enable_segmentation_offload(false);
    config.transport_config(Arc::new(transport));
    Arc::new(config)
}

impl Server {
    fn new(config: &Arc<ServerConfig>, manner: Manner) -> Self {
        let endpoint = EndpointConfig::default();
        let config = Some(Arc::clone(config));
        Self {
            endpoint: Endpoint::new(Arc::new(endpoint), config, false, None),
            connection: None,
            manner,
            taken: 0,
            greeted: false,
            due: VecDeque::new(),
            ready: Vec::new(),
        }
    }

    fn serve(&mut self, now: Instant) {
        let Some((handle, connection)) = &mut self.connection else { return };
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(*handle, event) {
                connection.handle_event(event);
            }
        }
        while let Some(event) = connection.poll() {
            if matches!(event, Event::Connected) && !std::mem::replace(&mut self.greeted, true) {
                // `None` if the server has closed the connection.
                if let Some(control) = connection.streams().open(Dir::Uni) {
                    connection.send_stream(control).write(GREETING).unwrap();
                }
            }
        }
        while let Some(request) = connection.streams().accept(Dir::Bi) {
            self.due.push_back((now + self.manner.think, request));
        }
        while self.due.front().is_some_and(|(at, _)| *at <= now) {
            let Some((_, request)) = self.due.pop_front() else { break };
            let mut stream = connection.send_stream(request);
            if stream.write(ANSWER).is_ok() {
                stream.finish().unwrap();
            }
        }
    }
}

impl DatagramPeer for Server {
    fn take(&mut self, datagram: &[u8], now: Instant) {
        self.taken += 1;
        let (std_now, mut answer) = (now.into_std(), Vec::new());
        let from = std::net::SocketAddr::from(([192, 0, 2, 1], 50_000));
        let data = BytesMut::from(datagram);
        match self.endpoint.handle(std_now, from, None, None, data, &mut answer) {
            Some(DatagramEvent::NewConnection(incoming)) => {
                if self.manner.retries && !incoming.remote_address_validated() {
                    let sent = self.endpoint.retry(incoming, &mut answer).ok().unwrap();
                    self.ready.push(answer[..sent.size].to_vec());
                } else {
                    let accepted = self.endpoint.accept(incoming, std_now, &mut answer, None);
                    self.connection = accepted.ok();
                }
            }
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some((_, connection)) = &mut self.connection {
                    connection.handle_event(event);
                }
            }
            Some(DatagramEvent::Response(sent)) => self.ready.push(answer[..sent.size].to_vec()),
            None => {}
        }
        if self.manner.closes_after == Some(self.taken)
            && let Some((_, connection)) = &mut self.connection
        {
            connection.close(std_now, VarInt::from_u32(0x100), Bytes::new());
        }
        self.serve(now);
    }

    fn next(&mut self) -> Option<Instant> {
        let timeout = self.connection.as_mut().and_then(|(_, c)| c.poll_timeout());
        let due = self.due.front().map(|(at, _)| *at);
        timeout.map(Instant::from_std).into_iter().chain(due).min()
    }

    fn say(&mut self, now: Instant) -> Vec<Vec<u8>> {
        let mut said = std::mem::take(&mut self.ready);
        if let Some((_, connection)) = &mut self.connection
            && connection.poll_timeout().is_some_and(|at| Instant::from_std(at) <= now)
        {
            connection.handle_timeout(now.into_std());
        }
        self.serve(now);
        let Some((_, connection)) = &mut self.connection else { return said };
        let mut datagram = Vec::new();
        while let Some(transmit) = connection.poll_transmit(now.into_std(), 1, &mut datagram) {
            said.push(datagram[..transmit.size].to_vec());
            datagram.clear();
        }
        if self.manner.silent_after.is_some_and(|after| self.taken > after) {
            said.clear();
        }
        said
    }
}

fn client(session: SessionUse) -> Client {
    Client::new(&Asked { http: HttpVersion::Http3, session, ..Asked::default() })
}

const EARLY: SessionUse = SessionUse::EarlyData { any_method: false };

async fn visit(client: &Client, wire: &SimulatedDatagrams, limit: Duration) -> Connection {
    let seen = client.observe();
    let tls = client.tls.as_ref().unwrap().begin_quic(HOST).unwrap();
    let steps = async {
        let resolved = vec![REMOTE.ip()].into();
        let dial = |_, timebase| Ok(wire.socket(timebase));
        let early = tls.had_session;
        let connection =
            open_over(&seen, resolved, REMOTE.port().into(), &tls, early, dial).await?;
        let mut open = http3::Open::new(connection);
        let mut body = Body::new(&client.http, false, &seen);
        let result = open.exchange(&client.target(), &client.http, &mut body, &seen).await;
        if result.is_ok() {
            let _ = tokio::time::timeout(Duration::from_secs(1), open.await_session()).await;
        }
        open.close();
        result
    };
    let outcome = tokio::time::timeout(limit, steps).await.unwrap_or(Err(Cause::Interrupted));
    let connection = seen.borrow_mut().finish(outcome);
    keep_the_laws(&connection);
    let sent = connection.flights.iter().filter(|f| f.direction == Direction::Sent);
    let sent: u64 = sent.map(firstbyte_core::timeline::Flight::bytes).sum();
    assert_eq!(sent, wire.sent().iter().sum::<usize>() as u64);
    connection
}

async fn visit_server(client: &Client, config: &Arc<ServerConfig>, manner: Manner) -> Connection {
    let wire = SimulatedDatagrams::new(client.path, Server::new(config, manner));
    visit(client, &wire, Duration::from_secs(60)).await
}

fn between(connection: &Connection, from: Mark, to: Mark) -> Duration {
    connection.marks.at(to).unwrap().since(connection.marks.at(from).unwrap())
}

fn status(connection: &Connection) -> Option<u16> {
    connection.facts.http.as_ref()?.status
}

const THINKS: Manner = Manner {
    think: Duration::from_millis(30),
    retries: false,
    silent_after: None,
    closes_after: None,
};

#[test]
fn times_are_the_paths_and_the_servers_however_late_the_process_is() {
    simulated(async {
        for notice in [0, 3, 15] {
            let mut client = client(SessionUse::Full);
            client.path = Path { notice: Duration::from_millis(notice), ..client.path };
            let connection = visit_server(&client, &config(), THINKS).await;
            assert_eq!((status(&connection), &connection.failure), (Some(200), &None));
            let waited = between(&connection, Mark::RequestEnd, Mark::ResponseStart);
            assert_eq!(waited, ROUND_TRIP + THINKS.think, "noticed {notice} ms later");
            let late = between(&connection, Mark::ConnectStart, Mark::HandshakeComplete);
            assert!(late - ROUND_TRIP <= Duration::from_millis(notice + 1), "{late:?}");
        }
    });
}

#[test]
fn the_request_leaves_with_the_end_of_the_handshake() {
    simulated(async {
        let client = client(SessionUse::Full);
        let connection = visit_server(&client, &config(), THINKS).await;
        let marks = &connection.marks;
        assert_eq!(marks.at(Mark::ConnectStart), marks.at(Mark::SecureConnectionStart));
        let handed_over = between(&connection, Mark::HandshakeComplete, Mark::RequestStart);
        assert_eq!(handed_over, Duration::ZERO);
        assert!(marks.at(Mark::HandshakeConfirmed) > marks.at(Mark::HandshakeComplete));
    });
}

#[test]
fn early_data_that_is_accepted_saves_a_round_trip() {
    simulated(async {
        let (client, config) = (client(EARLY), config());
        let full = visit_server(&client, &config, THINKS).await;
        let early = visit_server(&client, &config, THINKS).await;
        assert_eq!(status(&early), Some(200));
        let facts = early.facts.tls.as_ref().unwrap().early_data.as_ref().unwrap();
        assert_eq!(facts.accepted, Some(true));
        assert!(facts.bytes_before_server_hello > Some(0));
        let waited = between(&early, Mark::RequestEnd, Mark::ResponseStart);
        assert_eq!(waited, ROUND_TRIP + THINKS.think);
        let saved = full.marks.at(Mark::ResponseStart).unwrap();
        assert!(early.marks.at(Mark::ResponseStart).unwrap() + ROUND_TRIP <= saved);
        assert!(early.marks.at(Mark::RequestEnd) < early.marks.at(Mark::HandshakeComplete));
    });
}

#[test]
fn early_data_that_is_rejected_is_sent_again_behind_the_handshake() {
    simulated(async {
        let client = client(EARLY);
        visit_server(&client, &config(), THINKS).await;
        // Another server, which does not know the first one's sessions.
        let rejected = visit_server(&client, &config(), THINKS).await;
        assert_eq!((status(&rejected), &rejected.failure), (Some(200), &None));
        let facts = rejected.facts.tls.as_ref().unwrap().early_data.as_ref().unwrap();
        assert_eq!(facts.accepted, Some(false));
        let marks = &rejected.marks;
        assert!(marks.at(Mark::RequestStart) >= marks.at(Mark::HandshakeComplete));
        let waited = between(&rejected, Mark::RequestEnd, Mark::ResponseStart);
        assert_eq!(waited, ROUND_TRIP + THINKS.think);
    });
}

#[test]
fn a_retry_costs_a_round_trip_and_is_told() {
    simulated(async {
        let client = client(SessionUse::Full);
        let usual = visit_server(&client, &config(), THINKS).await;
        let retried = visit_server(&client, &config(), Manner { retries: true, ..THINKS }).await;
        assert_eq!(status(&retried), Some(200));
        assert!(retried.facts.quic.as_ref().unwrap().retry);
        let more = retried.marks.at(Mark::ResponseStart).unwrap();
        let more = more.since(usual.marks.at(Mark::ResponseStart).unwrap());
        assert!(more >= ROUND_TRIP && more < ROUND_TRIP + Duration::from_millis(4), "{more:?}");
    });
}

#[test]
fn a_datagram_that_is_lost_moves_what_waits_for_it() {
    simulated(async {
        for number in 0..4 {
            let client = client(SessionUse::Full);
            let server = Server::new(&config(), THINKS);
            let wire = SimulatedDatagrams::new(client.path, server).losing(&[number]);
            let connection = visit(&client, &wire, Duration::from_secs(60)).await;
            assert_eq!((status(&connection), &connection.failure), (Some(200), &None), "{number}");
        }
    });
}

#[test]
fn a_server_that_falls_silent_leaves_the_marks_until_then() {
    simulated(async {
        let whole = visit_server(&client(SessionUse::Full), &config(), THINKS).await;
        for silent_after in 0..3 {
            let client = client(SessionUse::Full);
            let manner = Manner { silent_after: Some(silent_after), ..THINKS };
            let wire = SimulatedDatagrams::new(client.path, Server::new(&config(), manner));
            let cut = visit(&client, &wire, Duration::from_millis(3_600)).await;
            let Some(failure) = &cut.failure else { continue };
            for mark in [Mark::ConnectStart, Mark::HandshakeComplete, Mark::RequestStart] {
                if let Some(stamp) = cut.marks.stamp(mark) {
                    assert_eq!(Some(stamp), whole.marks.stamp(mark), "{mark:?}, {silent_after}");
                }
            }
            let sent = cut.marks.at(Mark::RequestEnd).is_some();
            let expected = if sent { PhaseName::Wait } else { PhaseName::Quic };
            assert_eq!((failure.phase, &failure.cause), (expected, &Cause::Interrupted));
        }
    });
}

#[test]
fn a_server_that_closes_is_a_failure_in_the_right_phase() {
    simulated(async {
        for closes_after in 1..4 {
            let manner = Manner { closes_after: Some(closes_after), ..THINKS };
            let connection = visit_server(&client(SessionUse::Full), &config(), manner).await;
            let failure = connection.failure.as_ref();
            let failure = failure.unwrap_or_else(|| panic!("{closes_after}: {connection:?}"));
            let expected = if connection.marks.at(Mark::ResponseStart).is_some() {
                PhaseName::Receive
            } else if connection.marks.at(Mark::RequestEnd).is_some() {
                PhaseName::Wait
            } else {
                PhaseName::Quic
            };
            assert_eq!(failure.phase, expected, "{closes_after}: {failure:?}");
        }
    });
}

#[test]
fn that_nobody_listens_is_told_when_the_network_says_so() {
    simulated(async {
        let client = client(SessionUse::Full);
        let wire = SimulatedDatagrams::new(client.path, Server::new(&config(), THINKS)).refusing();
        let connection = visit(&client, &wire, Duration::from_secs(9)).await;
        let failure = connection.failure.as_ref().unwrap();
        let refused = Cause::Refused { remote: REMOTE };
        assert_eq!((failure.phase, &failure.cause), (PhaseName::Quic, &refused));
        assert!(matches!(connection.attempts[0].outcome, AttemptOutcome::Failed { .. }));
        assert!(connection.marks.at(Mark::ConnectStart).is_some());
    });
}
