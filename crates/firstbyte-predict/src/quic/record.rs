//! What the client observes of a QUIC connection, and the resulting [`Connection`].

use std::time::Duration;

use quinn_proto::ConnectionStats;
use quinn_proto::crypto::rustls::HandshakeData;
use rustls::pki_types::CertificateDer;

use crate::outline::{before_first_packet, stamp};
use crate::tls::http_facts;
use crate::{Reuse, Session, Setup, Way};
use firstbyte_core::simulation::GaveUp;
use firstbyte_core::simulation::tcp::{Nanos, nanos};
use firstbyte_core::timeline::{
    Certificate, Chunk, Connection, Direction, EarlyData, Exchange, Facts, Flight, Handshake, Mark,
    QuicFacts, SessionMechanism, Stamp, TlsFacts,
};
use firstbyte_core::wire::quic::{PacketKind, packets};

/// Times and facts, as they occur.
#[derive(Default)]
pub(crate) struct Record {
    first_sent: Option<Nanos>,
    handshake_complete: Option<Nanos>,
    handshake_confirmed: Option<Nanos>,
    origin: Nanos,
    request_bytes: u64,
    asked: bool,
    request_start: Option<Nanos>,
    request_end: Option<Nanos>,
    /// Begin and end of each response, in request order.
    responses: Vec<[Option<Nanos>; 2]>,
    acted_at: Option<Nanos>,
    flights: Vec<(Direction, Nanos, u64, Vec<&'static str>)>,
    facts: QuicFacts,
    early_bytes: u64,
    early_accepted: Option<bool>,
    tls: Option<TlsFacts>,
}

impl Record {
    pub(super) fn datagram(&mut self, direction: Direction, now: Nanos, datagram: &[u8]) {
        let mut names = Vec::new();
        for packet in packets(datagram) {
            names.push(packet.kind.name());
            self.facts.retry |= packet.kind == PacketKind::Retry;
            if packet.kind == PacketKind::ZeroRtt && self.facts.datagrams_received.unwrap_or(0) == 0
            {
                self.early_bytes += packet.bytes as u64;
            }
        }
        match direction {
            Direction::Sent => {
                self.first_sent.get_or_insert(now);
                *self.facts.datagrams_sent.get_or_insert(0) += 1;
            }
            Direction::Received => *self.facts.datagrams_received.get_or_insert(0) += 1,
        }
        self.flights.push((direction, now, datagram.len() as u64, names));
    }

    /// Records that `count` requests of `bytes` bytes each are written.
    pub(super) fn begin_requests(&mut self, now: Nanos, again: bool, bytes: u64, count: u32) {
        self.asked = true;
        self.request_bytes = bytes;
        self.responses = vec![[None; 2]; usize::try_from(count).unwrap_or(0)];
        if again {
            self.origin = now;
            self.flights.clear();
            (self.request_start, self.request_end) = (None, None);
        }
    }

    /// Records that the last noted datagram has left.
    pub(super) fn sent(&mut self, now: Nanos, connected: bool, carries_streams: bool) {
        if connected {
            self.handshake_complete.get_or_insert(now);
        }
        if self.asked && carries_streams && self.begun().is_none() {
            self.request_start.get_or_insert(now);
            self.request_end = Some(now);
        }
    }

    /// Records bytes of the response with index `place`.
    pub(super) fn response(&mut self, now: Nanos, place: usize, bytes: u64, ended: bool) {
        let Some([start, end]) = self.responses.get_mut(place) else { return };
        if bytes > 0 || ended {
            start.get_or_insert(now);
        }
        if ended {
            end.get_or_insert(now);
        }
    }

    /// When the first byte of any response arrived.
    fn begun(&self) -> Option<Nanos> {
        self.responses.iter().filter_map(|[start, _]| *start).min()
    }

    /// When the last byte of the last response arrived; absent if one is incomplete.
    pub(super) fn end(&self) -> Option<Nanos> {
        let ends: Option<Vec<Nanos>> = self.responses.iter().map(|[_, end]| *end).collect();
        ends?.into_iter().max()
    }

    pub(super) fn acted(&mut self, now: Nanos) {
        self.acted_at = Some(now);
    }

    /// Whether there is nothing left to do since `work` ended.
    pub(super) fn idle_since(&self, work: Nanos) -> bool {
        self.acted_at.is_some_and(|acted| acted >= work)
    }

    pub(super) fn note(&mut self, now: Nanos, stats: &ConnectionStats, min_rtt: Duration) {
        if stats.frame_rx.handshake_done > 0 {
            self.handshake_confirmed.get_or_insert(now);
        }
        self.facts.lost_packets = Some(stats.path.lost_packets);
        self.facts.min_rtt = self.tls.is_some().then_some(min_rtt);
    }

    pub(super) fn connected(&mut self, connection: &quinn_proto::Connection, resumed: bool) {
        let session = connection.crypto_session();
        let protocol = session
            .handshake_data()
            .and_then(|data| data.downcast::<HandshakeData>().ok())
            .and_then(|data| data.protocol);
        let chain = session
            .peer_identity()
            .and_then(|identity| identity.downcast::<Vec<CertificateDer<'static>>>().ok())
            .filter(|_| !resumed);
        self.early_accepted = connection.accepted_0rtt().then_some(true);
        self.tls = Some(TlsFacts {
            version: Some("TLSv1.3".into()),
            handshake: Some(if resumed { Handshake::Resumed } else { Handshake::Full }),
            session_offered: resumed.then_some(SessionMechanism::Psk),
            alpn: protocol.map(|p| String::from_utf8_lossy(&p).into_owned()),
            certificates: chain
                .iter()
                .flat_map(|chain| chain.iter())
                .map(|der| Certificate { der_bytes: der.len() as u64, ..Certificate::default() })
                .collect(),
            ..TlsFacts::default()
        });
    }

    /// Converts times since the connection's first packet to times since the origin.
    fn shift(&self, setup: &Setup, way: &Way) -> impl Fn(Nanos) -> Stamp + use<> {
        let before = match way.reuse {
            Reuse::Reused => setup.client.start_time,
            Reuse::New => {
                before_first_packet(setup, &mut Connection::default()) + setup.client.key_share_time
            }
        };
        let origin = self.origin.cast_signed();
        move |at: Nanos| stamp((at + nanos(before)).cast_signed() - origin)
    }

    /// The connection's exchanges, in request order.
    pub(crate) fn exchanges(&self, setup: &Setup, way: &Way) -> Vec<Exchange> {
        let shift = self.shift(setup, way);
        let exchange = |[start, end]: &[Option<Nanos>; 2]| Exchange {
            connection: 0,
            request_start: self.request_start.map(&shift),
            request_end: self.request_end.map(&shift),
            response_start: start.map(&shift),
            response_end: end.map(&shift),
            ..Exchange::default()
        };
        self.responses.iter().map(exchange).collect()
    }

    pub(crate) fn finish(&self, setup: &Setup, way: &Way, gave_up: Option<GaveUp>) -> Connection {
        let mut connection =
            Connection { url: setup.exchange.url.clone(), ..Connection::default() };
        let reused = way.reuse == Reuse::Reused;
        if !reused {
            before_first_packet(setup, &mut connection);
        }
        let shift = self.shift(setup, way);
        let [response_start, response_end] = self.responses.first().copied().unwrap_or_default();
        let mut set = |mark, at: Option<Nanos>| {
            if let Some(at) = at {
                connection.marks.set(mark, shift(at));
            }
        };
        if !reused {
            set(Mark::ConnectStart, self.first_sent);
            set(Mark::SecureConnectionStart, self.first_sent);
            set(Mark::HandshakeComplete, self.handshake_complete);
            set(Mark::HandshakeConfirmed, self.handshake_confirmed);
        }
        set(Mark::RequestStart, self.request_start);
        set(Mark::RequestEnd, self.request_end);
        set(Mark::ResponseStart, response_start);
        set(Mark::ResponseEnd, response_end);
        connection.flights = self.flights(&shift);
        let early = (way.session == Session::ZeroRtt).then_some(EarlyData {
            bytes_before_server_hello: Some(self.early_bytes),
            accepted: self.early_accepted.or(Some(false)),
        });
        connection.facts = Facts {
            reused,
            quic: Some(QuicFacts {
                version: Some("1".into()),
                congestion_control: Some("cubic".into()),
                ..self.facts.clone()
            }),
            tls: self.tls.clone().map(|tls| TlsFacts {
                early_data: early,
                group: way.group.map(|group| group.iana_name().into()),
                ..tls
            }),
            http: response_start.map(|_| {
                let request = usize::try_from(self.request_bytes).unwrap_or(usize::MAX);
                http_facts(setup, way, request)
            }),
            ..Facts::default()
        };
        connection.failure = gave_up.map(|gave_up| {
            let at = shift(gave_up.at).at;
            gave_up.failure(&connection, at)
        });
        connection
    }

    fn flights(&self, shift: &impl Fn(Nanos) -> Stamp) -> Vec<Flight> {
        let mut flights: Vec<Flight> = Vec::new();
        for (direction, at, bytes, names) in &self.flights {
            if flights.last().is_none_or(|flight| flight.direction != *direction) {
                let direction = *direction;
                flights.push(Flight { direction, chunks: Vec::new(), messages: Vec::new() });
            }
            let Some(flight) = flights.last_mut() else { continue };
            let (stamp, bytes) = (shift(*at), *bytes);
            flight.chunks.push(Chunk::new(stamp, bytes));
            flight.messages.extend(names.iter().map(ToString::to_string));
        }
        flights
    }
}
