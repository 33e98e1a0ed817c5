//! Synthetic connections for tests: a client's view of a path and a server.

use std::time::Duration;

use super::{MeasuredWay, MeasuredWays, WayKind};
use firstbyte_core::run::Shortfall;
use firstbyte_core::timeline::{
    Attempt, AttemptOutcome, Certificate, Chunk, Clock, Connection, Direction, DnsTransport,
    EarlyData, Flight, Handshake, Header, HttpFacts, Lookup, LookupTry, Mark, Offset, ProxyFacts,
    ProxyKind, QuicFacts, RecordType, SessionMechanism, Stamp, TcpFacts, TlsFacts,
};

/// What the client sees. Times are in microseconds.
#[derive(Clone, Debug)]
pub(super) struct Path {
    pub rtt: i64,
    pub dns: i64,
    /// How long the client first waited for another name server.
    pub dead_server: i64,
    pub aaaa_late: i64,
    pub tls12: bool,
    pub retry_request: bool,
    /// Round trips for which the handshake flight waited.
    pub stalls: i64,
    pub think: i64,
    /// A pause in the response, after its first 300 bytes.
    pub pause: i64,
    pub syn_lost: bool,
    pub fallback: i64,
    /// A proxy's own time for the tunnel.
    pub tunnel: i64,
    pub handshake_server: i64,
    pub client: i64,
    pub resumed: bool,
    pub body: u64,
    pub timing: Option<&'static str>,
    /// Session tickets arrive one round trip after the request.
    pub tickets: bool,
}

impl Default for Path {
    fn default() -> Self {
        Self {
            rtt: 30_000,
            dns: 1_000,
            dead_server: 0,
            aaaa_late: 0,
            tls12: false,
            retry_request: false,
            stalls: 0,
            think: 300,
            pause: 0,
            syn_lost: false,
            fallback: 0,
            tunnel: 0,
            handshake_server: 800,
            client: 900,
            resumed: false,
            body: 1_000,
            timing: None,
            tickets: true,
        }
    }
}

fn at(us: i64) -> Stamp {
    Stamp { at: Offset::from_nanos(us * 1_000), clock: Clock::Kernel }
}

fn flight(direction: Direction, chunks: &[(i64, u64)]) -> Flight {
    let chunk = |&(us, bytes): &(i64, u64)| Chunk::new(at(us), bytes);
    Flight { direction, chunks: chunks.iter().map(chunk).collect(), messages: Vec::new() }
}

impl Path {
    /// A connection over it.
    pub(super) fn connection(&self) -> Connection {
        let mut c = Connection { url: "https://server.test/".into(), ..Connection::default() };
        let mut now = 100;
        c.marks.set(Mark::DomainLookupStart, at(now));
        let offset = |us: i64| Offset::from_nanos(us * 1_000);
        let tries = |end: i64| -> Vec<LookupTry> {
            let ask = |server: &str, start, end, error: Option<&str>| LookupTry {
                server: server.parse().unwrap(),
                transport: DnsTransport::Udp,
                start: offset(start),
                end: Some(offset(end)),
                error: error.map(str::to_owned),
            };
            let given_up = 100 + self.dead_server;
            let dead = ask("192.0.2.52:53", 100, given_up, Some(LookupTry::NO_ANSWER));
            let live = ask("192.0.2.53:53", given_up, end, None);
            Some(dead).filter(|_| self.dead_server > 0).into_iter().chain([live]).collect()
        };
        let lookup = |record_type, end: i64, address: &str| Lookup {
            record_type,
            start: offset(100),
            end: Some(offset(end)),
            addresses: vec![address.parse().unwrap()],
            error: None,
            tries: tries(end),
        };
        let answered = now + self.dead_server + self.dns;
        c.lookups = vec![
            lookup(RecordType::A, answered, "198.51.100.1"),
            lookup(RecordType::Aaaa, answered + self.aaaa_late, "2001:db8::1"),
        ];
        now = answered + self.aaaa_late;
        c.marks.set(Mark::DomainLookupEnd, at(now));
        now += 50;
        c.marks.set(Mark::ConnectStart, at(now));
        let remote = "198.51.100.1:443".parse().unwrap();
        if self.fallback > 0 {
            c.attempts.push(Attempt {
                remote: "[2001:db8::1]:443".parse().unwrap(),
                start: offset(now),
                end: None,
                outcome: AttemptOutcome::Lost,
            });
            now += self.fallback;
        }
        let syn = now;
        now += self.rtt + if self.syn_lost { 1_000_000 } else { 0 };
        c.attempts.push(Attempt {
            remote,
            start: offset(syn),
            end: Some(offset(now)),
            outcome: AttemptOutcome::Won,
        });
        c.facts.remote = Some(remote);
        c.marks.set(Mark::TcpConnected, at(now));
        if self.tunnel > 0 {
            c.marks.set(Mark::TunnelStart, at(now));
            c.flights.push(flight(Direction::Sent, &[(now, 120)]));
            now += self.rtt + self.tunnel;
            c.flights.push(flight(Direction::Received, &[(now, 39)]));
            c.marks.set(Mark::TunnelEnd, at(now));
            c.facts.proxy = Some(ProxyFacts {
                kind: ProxyKind::Http,
                authority: "proxy.test:3128".into(),
                tunnel: true,
                status: Some(200),
            });
        }
        c.marks.set(Mark::SecureConnectionStart, at(now));
        c.flights.push(flight(Direction::Sent, &[(now, 517)]));
        let mut received = Vec::new();
        now += self.rtt + self.handshake_server;
        if self.retry_request {
            c.flights.push(flight(Direction::Received, &[(now, 99)]));
            c.flights.push(flight(Direction::Sent, &[(now + 100, 550)]));
            now += self.rtt + 100;
        }
        received.push((now, 14_480));
        for stall in 1..=self.stalls {
            now += self.rtt;
            // Slow start doubles the bytes in flight.
            received.push((now, 14_480 << stall));
        }
        c.flights.push(flight(Direction::Received, &received));
        now += self.client;
        if self.tls12 {
            c.flights.push(flight(Direction::Sent, &[(now, 80)]));
            now += self.rtt;
            c.flights.push(flight(Direction::Received, &[(now, 51)]));
            c.marks.set(Mark::HandshakeComplete, at(now));
        } else {
            c.marks.set(Mark::HandshakeComplete, at(now));
        }
        c.marks.set(Mark::RequestStart, at(now));
        c.marks.set(Mark::RequestEnd, at(now));
        c.flights.push(flight(Direction::Sent, &[(now, 300)]));
        if self.tickets {
            c.flights.push(flight(Direction::Received, &[(now + self.rtt, 200)]));
        }
        now += self.rtt + self.think;
        c.marks.set(Mark::ResponseStart, at(now));
        let mut response = vec![(now, 300)];
        if self.pause > 0 {
            now += self.pause;
            response.push((now, self.body));
        }
        c.marks.set(Mark::ResponseEnd, at(now));
        c.flights.push(flight(Direction::Received, &response));
        self.facts(&mut c);
        c
    }

    /// Bytes of the certificates, which cause the handshake flight's stalls.
    fn chain(&self) -> u64 {
        if self.stalls == 0 { 3_000 } else { (14_480 << (self.stalls + 1)) - 16_000 }
    }

    fn facts(&self, c: &mut Connection) {
        c.facts.tcp = Some(TcpFacts {
            syn_rtt: (!self.syn_lost).then(|| Duration::from_micros(self.rtt as u64)),
            min_rtt: Some(Duration::from_micros(self.rtt as u64)),
            send_mss: Some(1_448),
            retransmits: Some(u32::from(self.syn_lost)),
            ..TcpFacts::default()
        });
        let handshake = match (self.resumed, self.retry_request) {
            (true, _) => Handshake::Resumed,
            (_, true) => Handshake::FullWithHelloRetryRequest,
            _ => Handshake::Full,
        };
        c.facts.tls = Some(TlsFacts {
            version: Some(if self.tls12 { "TLSv1.2" } else { "TLSv1.3" }.into()),
            group: Some("X25519".into()),
            handshake: Some(handshake),
            session_offered: self.resumed.then_some(SessionMechanism::Psk),
            certificates: vec![Certificate { der_bytes: self.chain(), ..Certificate::default() }],
            ..TlsFacts::default()
        });
        let headers =
            self.timing.map(|value| Header { name: "server-timing".into(), value: value.into() });
        c.facts.http = Some(HttpFacts {
            method: "GET".into(),
            version: Some("2".into()),
            status: Some(200),
            headers: headers.into_iter().collect(),
            body_bytes: Some(self.body),
            ..HttpFacts::default()
        });
    }

    /// `n` connections in as many rounds, a few microseconds apart.
    pub(super) fn way(&self, n: u32) -> MeasuredWay {
        let proven = (0..n).map(|round| {
            let wobble = i64::from(round * 7 % 11) * 5;
            let path = Self { client: self.client + wobble, ..self.clone() };
            (round, path.connection())
        });
        MeasuredWay {
            proven: proven.collect(),
            first: Some(self.connection()),
            ..MeasuredWay::default()
        }
    }
}

impl Path {
    /// The same on already open connections.
    pub(super) fn reused_way(&self, n: u32) -> MeasuredWay {
        let mut way = self.way(n);
        way.proven.iter_mut().for_each(|(_, connection)| connection.facts.reused = true);
        way
    }
}

/// A server with resumed sessions, early data and persistent connections.
pub(super) fn healthy(subject: &Path) -> MeasuredWays {
    let resumed = Path { resumed: true, ..subject.clone() };
    MeasuredWays {
        ways: vec![
            (WayKind::Subject, subject.way(20)),
            (WayKind::Resumed, resumed.way(20)),
            (WayKind::EarlyData, resumed.way(20)),
            (WayKind::Reused, Path { tickets: false, ..subject.clone() }.reused_way(20)),
        ],
        redirects: Vec::new(),
    }
}

/// A way in which no connection was made as requested.
pub(super) fn lacking(path: &Path, why: Shortfall) -> MeasuredWay {
    let unproven = (0..20).map(|_| (why, path.connection())).collect();
    MeasuredWay { unproven, ..MeasuredWay::default() }
}

/// A connection over QUIC with only the facts and the round trip that tests need.
pub(super) fn over_quic(retry: bool, stall_us: Option<u64>) -> MeasuredWay {
    let mut c = Path::default().connection();
    c.facts.tcp = None;
    c.facts.quic = Some(QuicFacts {
        min_rtt: Some(Duration::from_micros(30_000)),
        retry,
        amplification_stall: stall_us.map(Duration::from_micros),
        ..QuicFacts::default()
    });
    if let Some(tls) = &mut c.facts.tls {
        tls.early_data = None::<EarlyData>;
    }
    MeasuredWay {
        proven: (0..20).map(|round| (round, c.clone())).collect(),
        ..MeasuredWay::default()
    }
}
