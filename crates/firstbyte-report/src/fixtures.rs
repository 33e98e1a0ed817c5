//! Hand-made samples with the shapes that views have to handle.
#![allow(missing_docs, clippy::unwrap_used, reason = "for tests, also those of the program")]

use std::net::SocketAddr;
use std::time::Duration;

use firstbyte_core::timeline::{
    Attempt, AttemptOutcome, Cause, Certificate, Chunk, Clock, Connection, Direction, EarlyData,
    Facts, Failure, Flight, Handshake, Header, HttpFacts, Lookup, Mark, Offset, PhaseName,
    ProcessorTime, ProxyFacts, ProxyKind, QuicFacts, RecordType, Sample, SessionMechanism, Stamp,
    TcpFacts, TlsFacts,
};

/// 2026-11-20 14:05:09.123456 UTC.
const STARTED: u64 = 1_795_183_509_123_456_000;

pub fn us(us: i64) -> Offset {
    Offset::from_nanos(us * 1_000)
}

pub fn kernel(at: i64) -> Stamp {
    Stamp::kernel(us(at))
}

pub fn user(at: i64) -> Stamp {
    Stamp::user(us(at))
}

pub fn micros(us: u64) -> Duration {
    Duration::from_micros(us)
}

/// Chunks are given as microseconds and bytes.
pub fn flight(direction: Direction, chunks: &[(i64, u64)], messages: &[&str]) -> Flight {
    let chunks = chunks.iter().map(|&(at, bytes)| Chunk::new(kernel(at), bytes)).collect();
    Flight { direction, chunks, messages: messages.iter().map(ToString::to_string).collect() }
}

pub fn sent(at: i64, bytes: u64, acknowledged: i64, messages: &[&str]) -> Flight {
    let mut flight = flight(Direction::Sent, &[(at, bytes)], messages);
    flight.chunks[0].acknowledged = Some(us(acknowledged));
    flight
}

pub fn received(chunks: &[(i64, u64)], messages: &[&str]) -> Flight {
    flight(Direction::Received, chunks, messages)
}

fn headers(pairs: &[(&str, &str)]) -> Vec<Header> {
    pairs.iter().map(|(n, v)| Header { name: (*n).into(), value: (*v).into() }).collect()
}

pub fn lookup(record_type: RecordType, start: i64, end: i64, addresses: &[&str]) -> Lookup {
    let addresses = addresses.iter().map(|a| a.parse().unwrap()).collect();
    let (start, end) = (us(start), Some(us(end)));
    Lookup { record_type, start, end, addresses, error: None, tries: Vec::new() }
}

pub fn won(remote: &str, start: i64, end: i64) -> Attempt {
    Attempt {
        remote: remote.parse().unwrap(),
        start: us(start),
        end: Some(us(end)),
        outcome: AttemptOutcome::Won,
    }
}

pub fn addr(text: &str) -> Option<SocketAddr> {
    Some(text.parse().unwrap())
}

fn certificate(subject: &str, issuer: &str, key: &str, der_bytes: u64) -> Certificate {
    Certificate {
        subject: subject.into(),
        issuer: issuer.into(),
        key: key.into(),
        not_after_unix: Some(1_798_761_599),
        der_bytes,
    }
}

fn chain() -> Vec<Certificate> {
    let (root, middle) =
        ("CN=GlobalSign Root R3", "CN=GlobalSign RSA OV SSL CA 2018, O=GlobalSign");
    vec![
        certificate("CN=www.gov.uk, O=Government Digital Service, C=GB", middle, "RSA 2048", 1_842),
        certificate(middle, root, "RSA 2048", 1_106),
        certificate(root, root, "RSA 2048", 867),
    ]
}

pub fn sample(connection: Connection) -> Sample {
    Sample {
        sequence: 0,
        warmup: false,
        requested_url: connection.url.clone(),
        redirects: Vec::new(),
        connection,
        requests: None,
    }
}

pub fn set(connection: &mut Connection, marks: &[(Mark, Stamp)]) {
    for (mark, stamp) in marks {
        connection.marks.set(*mark, *stamp);
    }
}

/// TLS 1.2 with a full handshake over 81.1 ms: two round trips for the handshake.
pub fn tls12_sydney() -> Sample {
    let mut c = Connection {
        url: "https://sydney.gov.example/".into(),
        started_unix_ns: Some(STARTED),
        ..Connection::default()
    };
    c.lookups = vec![
        lookup(RecordType::Aaaa, 40, 1_720, &[]),
        lookup(RecordType::A, 55, 2_130, &["198.51.100.7", "198.51.100.8"]),
    ];
    c.attempts = vec![won("198.51.100.7:443", 2_170, 83_290)];
    set(
        &mut c,
        &[
            (Mark::DomainLookupStart, user(40)),
            (Mark::DomainLookupEnd, user(2_165)),
            (Mark::ConnectStart, kernel(2_170)),
            (Mark::TcpConnected, Stamp { at: us(83_290), clock: Clock::KernelDerived }),
            (Mark::SecureConnectionStart, Stamp { at: us(83_290), clock: Clock::KernelDerived }),
            (Mark::HandshakeComplete, kernel(249_590)),
            (Mark::RequestStart, kernel(249_740)),
            (Mark::RequestEnd, kernel(249_740)),
            (Mark::ResponseStart, kernel(339_120)),
            (Mark::ResponseEnd, kernel(347_020)),
        ],
    );
    c.flights = vec![
        sent(83_650, 234, 164_900, &["ClientHello"]),
        received(
            &[(166_510, 1_448), (166_510, 2_896)],
            &["ServerHello", "Certificate", "ServerKeyExchange", "ServerHelloDone"],
        ),
        sent(167_250, 126, 248_420, &["ClientKeyExchange", "ChangeCipherSpec", "{Finished}"]),
        received(&[(249_470, 274)], &["NewSessionTicket", "ChangeCipherSpec", "{Finished}"]),
        sent(249_740, 178, 330_990, &["{GET}"]),
        received(&[(339_120, 2_896), (340_200, 8_688), (347_020, 4_060)], &["{200}", "{body}"]),
    ];
    c.facts = Facts {
        remote: addr("198.51.100.7:443"),
        local: addr("192.0.2.10:40122"),
        tcp: Some(TcpFacts {
            syn_rtt: Some(micros(81_120)),
            min_rtt: Some(micros(81_110)),
            retransmits: Some(0),
            send_mss: Some(1_448),
            receive_mss: Some(1_448),
            out_of_order: Some(0),
            receive_window_limited: None,
            congestion_control: Some("cubic".into()),
            syn_departure_uncertainty: Some(micros(9)),
        }),
        tls: Some(TlsFacts {
            version: Some("TLSv1.2".into()),
            cipher_suite: Some("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384".into()),
            group: Some("X25519".into()),
            handshake: Some(Handshake::Full),
            alpn: Some("http/1.1".into()),
            certificates: chain(),
            verified: Some(true),
            tickets_received: Some(1),
            ..TlsFacts::default()
        }),
        http: Some(HttpFacts {
            method: "GET".into(),
            version: Some("1.1".into()),
            status: Some(200),
            headers: headers(&[
                ("server", "nginx/1.22.1"),
                ("content-type", "text/html; charset=utf-8"),
                ("set-cookie", "a=1; Path=/"),
                ("content-length", "15408"),
                ("set-cookie", "b=\"2\""),
            ]),
            request_bytes: Some(91),
            upload_bytes: Some(0),
            header_bytes: Some(207),
            body_bytes: Some(15_408),
            ..HttpFacts::default()
        }),
        ..Facts::default()
    };
    sample(c)
}

/// TLS 1.3 and HTTP/2 over IPv6: one round trip for the handshake.
pub fn tls13_http2() -> Sample {
    let mut c = tls12_sydney().connection;
    c.url = "https://london.gov.example/browse?topic=tax#top".into();
    c.lookups = vec![
        lookup(RecordType::Aaaa, 35, 980, &["2001:db8::51"]),
        lookup(RecordType::A, 50, 1_420, &["203.0.113.51"]),
    ];
    c.attempts = vec![won("[2001:db8::51]:443", 1_010, 11_260)];
    set(
        &mut c,
        &[
            (Mark::DomainLookupStart, user(35)),
            (Mark::DomainLookupEnd, user(980)),
            (Mark::ConnectStart, kernel(1_010)),
            (Mark::TcpConnected, kernel(11_260)),
            (Mark::SecureConnectionStart, kernel(11_260)),
            (Mark::HandshakeComplete, kernel(23_910)),
            (Mark::RequestStart, kernel(23_910)),
            (Mark::RequestEnd, kernel(23_910)),
            (Mark::ResponseStart, kernel(37_340)),
            (Mark::ResponseEnd, kernel(37_900)),
        ],
    );
    c.flights = vec![
        sent(11_540, 1_720, 21_800, &["ClientHello"]),
        received(
            &[(22_930, 2_856), (22_990, 1_428)],
            &["ServerHello", "{EncryptedExtensions}", "{Certificate}", "{Finished}"],
        ),
        sent(
            23_910,
            312,
            34_190,
            &["ChangeCipherSpec", "{Finished}", "{preface}", "{SETTINGS}", "{HEADERS}"],
        ),
        received(&[(34_260, 600)], &["{NewSessionTicket}", "{NewSessionTicket}", "{SETTINGS}"]),
        received(&[(37_340, 2_856), (37_900, 1_200)], &["{HEADERS}", "{DATA}"]),
    ];
    c.facts.remote = addr("[2001:db8::51]:443");
    c.facts.local = addr("[2001:db8::10]:51022");
    c.facts.tcp = Some(TcpFacts {
        syn_rtt: Some(micros(10_250)),
        min_rtt: Some(micros(10_240)),
        retransmits: Some(0),
        send_mss: Some(1_428),
        receive_mss: Some(1_448),
        out_of_order: Some(0),
        receive_window_limited: None,
        congestion_control: Some("bbr".into()),
        syn_departure_uncertainty: Some(micros(7)),
    });
    if let Some(tls) = &mut c.facts.tls {
        tls.version = Some("TLSv1.3".into());
        tls.cipher_suite = Some("TLS_AES_256_GCM_SHA384".into());
        tls.group = Some("X25519MLKEM768".into());
        tls.alpn = Some("h2".into());
        tls.tickets_received = Some(2);
    }
    if let Some(http) = &mut c.facts.http {
        http.version = Some("2".into());
        http.request_bytes = Some(214);
        http.body_bytes = Some(3_704);
    }
    sample(c)
}

/// The same through a proxy with TLS: 8.2 ms for the tunnel, and a server 9 ms behind it.
pub fn proxied() -> Sample {
    let mut c = tls13_http2().connection;
    c.attempts = vec![won("[2001:db8::51]:3129", 1_010, 11_260)];
    set(
        &mut c,
        &[
            (Mark::ProxySecureStart, kernel(11_260)),
            (Mark::ProxyHandshakeComplete, kernel(24_060)),
            (Mark::TunnelStart, kernel(24_160)),
            (Mark::TunnelEnd, kernel(42_600)),
            (Mark::SecureConnectionStart, kernel(42_600)),
            (Mark::HandshakeComplete, kernel(63_000)),
            (Mark::RequestStart, kernel(63_000)),
            (Mark::RequestEnd, kernel(63_000)),
            (Mark::ResponseStart, kernel(76_430)),
            (Mark::ResponseEnd, kernel(76_990)),
        ],
    );
    let asked = ["{Finished}", "{CONNECT london.gov.example:443}"];
    c.flights = vec![
        sent(11_540, 517, 21_800, &["ClientHello"]),
        received(&[(23_240, 1_400)], &["ServerHello", "{Finished}"]),
        flight(Direction::Sent, &[(24_060, 80), (24_160, 120)], &asked),
        received(&[(34_400, 480), (42_600, 61)], &["{NewSessionTicket}", "{HTTP/1.1 200 OK}"]),
        sent(42_900, 1_720, 53_160, &["ClientHello"]),
        received(&[(62_140, 2_856), (62_200, 1_428)], &["ServerHello", "{Finished}"]),
        sent(63_000, 312, 73_280, &["{Finished}", "{preface}", "{SETTINGS}", "{HEADERS}"]),
        received(&[(73_350, 600)], &["{NewSessionTicket}", "{NewSessionTicket}", "{SETTINGS}"]),
        received(&[(76_430, 2_856), (76_990, 1_200)], &["{HEADERS}", "{DATA}"]),
    ];
    c.facts.remote = addr("[2001:db8::51]:3129");
    c.facts.proxy = Some(ProxyFacts {
        kind: ProxyKind::Https,
        authority: "proxy.test:3129".into(),
        tunnel: true,
        status: Some(200),
    });
    sample(c)
}

/// `http://` to an IPv4 literal: no name lookup, no TLS.
pub fn plain_http() -> Sample {
    let mut c = Connection {
        url: "http://192.0.2.80:8080/status".into(),
        started_unix_ns: Some(STARTED),
        ..Connection::default()
    };
    c.attempts = vec![won("192.0.2.80:8080", 60, 20_480)];
    set(
        &mut c,
        &[
            (Mark::ConnectStart, kernel(60)),
            (Mark::TcpConnected, kernel(20_480)),
            (Mark::RequestStart, kernel(20_590)),
            (Mark::RequestEnd, kernel(20_590)),
            (Mark::ResponseStart, kernel(49_130)),
            (Mark::ResponseEnd, kernel(49_130)),
        ],
    );
    c.flights =
        vec![sent(20_590, 88, 41_020, &["GET"]), received(&[(49_130, 204)], &["200", "body"])];
    c.facts.remote = addr("192.0.2.80:8080");
    c.facts.local = addr("192.0.2.10:40124");
    c.facts.tcp = Some(TcpFacts {
        syn_rtt: Some(micros(20_420)),
        min_rtt: Some(micros(20_420)),
        retransmits: Some(0),
        send_mss: Some(1_448),
        receive_mss: Some(1_448),
        out_of_order: Some(0),
        receive_window_limited: None,
        congestion_control: Some("cubic".into()),
        syn_departure_uncertainty: None,
    });
    c.facts.http = Some(HttpFacts {
        method: "GET".into(),
        version: Some("1.0".into()),
        status: Some(200),
        headers: headers(&[("content-type", "text/plain")]),
        request_bytes: Some(88),
        upload_bytes: Some(0),
        header_bytes: Some(190),
        body_bytes: Some(14),
        ..HttpFacts::default()
    });
    sample(c)
}

/// The client aborts the handshake: the certificate has expired.
pub fn expired_certificate() -> Sample {
    let mut c = tls13_http2().connection;
    c.url = "https://expired.example/".into();
    let all = c.marks;
    c.marks = Default::default();
    for (mark, stamp) in all.iter().filter(|(mark, _)| *mark <= Mark::SecureConnectionStart) {
        c.marks.set(mark, stamp);
    }
    c.flights.truncate(2);
    c.facts.http = None;
    if let Some(tls) = &mut c.facts.tls {
        tls.verified = Some(false);
        tls.handshake = None;
        tls.tickets_received = None;
        tls.alpn = None;
    }
    c.failure = Some(Failure {
        phase: PhaseName::Tls,
        cause: Cause::CertificateExpired {
            not_after: Some("2026-10-01 12:00:00 UTC".into()),
            authority: None,
        },
        at: Some(us(23_740)),
    });
    sample(c)
}

/// No answer to any SYN.
pub fn connect_timeout() -> Sample {
    let mut c = tls12_sydney().connection;
    let remote: SocketAddr = "198.51.100.7:443".parse().unwrap();
    c.marks = Default::default();
    set(
        &mut c,
        &[
            (Mark::DomainLookupStart, user(40)),
            (Mark::DomainLookupEnd, user(2_130)),
            (Mark::ConnectStart, kernel(2_170)),
        ],
    );
    c.flights.clear();
    c.facts = Facts { remote: Some(remote), ..Facts::default() };
    c.attempts = vec![Attempt {
        remote,
        start: us(2_170),
        end: Some(us(2_002_170)),
        outcome: AttemptOutcome::Failed { error: "timed out".into() },
    }];
    c.failure = Some(Failure {
        phase: PhaseName::Connect,
        cause: Cause::ConnectTimedOut { remote, after: Duration::from_secs(2) },
        at: Some(us(2_002_170)),
    });
    sample(c)
}

/// The first SYN is lost; its retransmission after a second is answered.
pub fn syn_loss() -> Sample {
    let mut sample = tls13_http2();
    let c = &mut sample.connection;
    delay(c, Mark::TcpConnected, 1_000_000);
    c.attempts[0].end = c.attempts[0].end.map(|end| end + micros(1_000_000));
    if let Some(tcp) = &mut c.facts.tcp {
        tcp.syn_rtt = None;
        tcp.retransmits = Some(1);
    }
    sample
}

/// IPv6 does not answer; IPv4 is tried after 250 ms and wins.
pub fn fallback() -> Sample {
    let mut sample = tls13_http2();
    let c = &mut sample.connection;
    delay(c, Mark::TcpConnected, 250_000);
    c.attempts = vec![
        Attempt {
            remote: "[2001:db8::51]:443".parse().unwrap(),
            start: us(1_010),
            end: Some(us(261_260)),
            outcome: AttemptOutcome::Lost,
        },
        won("203.0.113.51:443", 251_010, 261_260),
    ];
    c.facts.remote = addr("203.0.113.51:443");
    c.facts.local = addr("192.0.2.10:51022");
    sample
}

/// Moves `from` and everything after it later by `by` microseconds.
fn delay(c: &mut Connection, from: Mark, by: u64) {
    let marks: Vec<_> = c.marks.iter().filter(|(mark, _)| *mark >= from).collect();
    for (mark, stamp) in marks {
        c.marks.set(mark, Stamp { at: stamp.at + micros(by), ..stamp });
    }
    for chunk in c.flights.iter_mut().flat_map(|f| &mut f.chunks) {
        chunk.stamp.at = chunk.stamp.at + micros(by);
        chunk.acknowledged = chunk.acknowledged.map(|at| at + micros(by));
    }
}

/// From `http` through the bare name to `www`.
pub fn redirects() -> Sample {
    let mut first = plain_http().connection;
    first.url = "http://gov.example/".into();
    let mut second = tls13_http2().connection;
    second.url = "https://gov.example/".into();
    for (hop, to, status) in
        [(&mut first, "https://gov.example/", 301), (&mut second, "https://www.gov.example/", 302)]
    {
        if let Some(http) = &mut hop.facts.http {
            http.status = Some(status);
            http.headers.push(Header { name: "location".into(), value: to.into() });
        }
    }
    let mut last = tls12_sydney().connection;
    last.url = "https://www.gov.example/".into();
    Sample {
        requested_url: "http://gov.example/".into(),
        redirects: vec![first, second],
        ..sample(last)
    }
}

/// TLS 1.3 over loopback, with times in microseconds.
pub fn loopback() -> Sample {
    let mut c = tls13_http2().connection;
    c.url = "https://localhost:8443/".into();
    c.lookups.clear();
    c.attempts = vec![won("127.0.0.1:8443", 12, 38)];
    c.marks = Default::default();
    set(
        &mut c,
        &[
            (Mark::ConnectStart, kernel(12)),
            (Mark::TcpConnected, kernel(38)),
            (Mark::SecureConnectionStart, kernel(38)),
            (Mark::HandshakeComplete, kernel(241)),
            (Mark::RequestStart, kernel(241)),
            (Mark::RequestEnd, kernel(241)),
            (Mark::ResponseStart, kernel(302)),
            (Mark::ResponseEnd, kernel(318)),
        ],
    );
    c.flights = vec![
        sent(61, 517, 88, &["ClientHello"]),
        received(&[(176, 1_389)], &["ServerHello", "{Finished}"]),
        sent(241, 312, 268, &["ChangeCipherSpec", "{Finished}", "{HEADERS}"]),
        received(&[(302, 1_024), (318, 512)], &["{HEADERS}", "{DATA}"]),
    ];
    c.facts.remote = addr("127.0.0.1:8443");
    c.facts.local = addr("127.0.0.1:51022");
    c.facts.tcp = Some(TcpFacts {
        syn_rtt: Some(micros(26)),
        min_rtt: Some(micros(26)),
        retransmits: Some(0),
        send_mss: Some(32_741),
        receive_mss: Some(1_448),
        out_of_order: Some(0),
        receive_window_limited: None,
        congestion_control: Some("cubic".into()),
        syn_departure_uncertainty: None,
    });
    sample(c)
}

/// A server that thinks for half a minute, 1 ms away.
pub fn slow_server() -> Sample {
    let mut c = plain_http().connection;
    c.url = "http://192.0.2.80:8080/report".into();
    set(
        &mut c,
        &[
            (Mark::TcpConnected, kernel(1_080)),
            (Mark::RequestStart, kernel(1_150)),
            (Mark::RequestEnd, kernel(1_150)),
            (Mark::ResponseStart, kernel(30_212_400)),
            (Mark::ResponseEnd, kernel(30_418_900)),
        ],
    );
    c.attempts = vec![won("192.0.2.80:8080", 60, 1_080)];
    c.flights = vec![
        sent(1_150, 88, 2_180, &["GET"]),
        received(&[(30_212_400, 204), (30_418_900, 80_000)], &["200", "body"]),
    ];
    c.facts.tcp =
        Some(TcpFacts { syn_rtt: Some(micros(1_020)), ..c.facts.tcp.unwrap_or_default() });
    if let Some(tcp) = &mut c.facts.tcp {
        tcp.min_rtt = Some(micros(1_020));
    }
    sample(c)
}

/// A run over two URLs: warm-up, `n` successful samples of each, and two failures of the second.
pub fn run(n: u32) -> Vec<Sample> {
    let mut samples =
        vec![Sample { warmup: true, ..tls12_sydney() }, Sample { warmup: true, ..tls13_http2() }];
    for i in 0..n {
        let wobble = u64::from(i * 37 % 101) * 60;
        for mut sample in [tls12_sydney(), tls13_http2()] {
            delay_response(&mut sample.connection, wobble);
            samples.push(sample);
        }
    }
    for _ in 0..2 {
        samples.push(Sample { requested_url: tls13_http2().requested_url, ..connect_timeout() });
    }
    for (i, sample) in samples.iter_mut().enumerate() {
        sample.sequence = u32::try_from(i).unwrap();
    }
    samples
}

/// Delays the answer by `by` microseconds.
fn delay_response(c: &mut Connection, by: u64) {
    for mark in [Mark::ResponseStart, Mark::ResponseEnd] {
        if let Some(stamp) = c.marks.stamp(mark) {
            c.marks.set(mark, Stamp { at: stamp.at + micros(by), ..stamp });
        }
    }
    if let Some(last) = c.flights.last_mut() {
        for chunk in &mut last.chunks {
            chunk.stamp.at = chunk.stamp.at + micros(by);
        }
    }
}

/// One sample of every shape.
pub fn all() -> Vec<Sample> {
    vec![
        tls12_sydney(),
        tls13_http2(),
        plain_http(),
        expired_certificate(),
        connect_timeout(),
        syn_loss(),
        fallback(),
        redirects(),
        loopback(),
        slow_server(),
    ]
}

/// A sample with a distinct value for every possible fact. It is not a realistic connection, but it reveals a
/// column that shows another column's value.
pub fn every_fact() -> Sample {
    let mut sample = Sample { sequence: 11, warmup: true, ..redirects() };
    let c = &mut sample.connection;
    c.marks.set(Mark::HandshakeConfirmed, user(250_001));
    c.facts.reused = true;
    c.facts.tcp = Some(TcpFacts {
        syn_rtt: Some(Duration::from_nanos(81_000_012)),
        min_rtt: Some(Duration::from_nanos(81_000_011)),
        retransmits: Some(13),
        send_mss: Some(1_414),
        receive_mss: Some(1_415),
        out_of_order: Some(16),
        receive_window_limited: None,
        congestion_control: None,
        syn_departure_uncertainty: Some(Duration::from_nanos(17)),
    });
    c.facts.quic = Some(QuicFacts {
        version: Some("2".into()),
        min_rtt: Some(Duration::from_nanos(80_000_018)),
        datagrams_sent: Some(19),
        datagrams_received: Some(20),
        lost_packets: Some(21),
        retry: true,
        bytes_before_validation: Some(22),
        amplification_stall: Some(Duration::from_nanos(23_000_023)),
        congestion_control: Some("newreno".into()),
        datagrams: Vec::new(),
        log: None,
    });
    c.facts.processor = Some(ProcessorTime {
        user: Duration::from_nanos(32_032),
        system: Duration::from_nanos(33_033),
    });
    let tls = c.facts.tls.get_or_insert_default();
    tls.session_offered = Some(SessionMechanism::Ticket);
    tls.early_data_allowed = Some(true);
    tls.early_data = Some(EarlyData { bytes_before_server_hello: Some(24), accepted: Some(false) });
    tls.verified = Some(false);
    tls.tickets_received = Some(25);
    let http = c.facts.http.get_or_insert_default();
    http.request_bytes = Some(26);
    http.upload_bytes = Some(27);
    http.header_bytes = Some(28);
    http.body_bytes = Some(29);
    http.decoded_bytes = Some(30);
    for chunk in c.flights.iter_mut().take(1).flat_map(|flight| &mut flight.chunks) {
        chunk.stamp.clock = Clock::User;
    }
    c.failure = Some(Failure {
        phase: PhaseName::Receive,
        cause: Cause::ConnectTimedOut {
            remote: SocketAddr::from(([203, 0, 113, 31], 31)),
            after: Duration::from_secs(31),
        },
        at: Some(Offset::from_nanos(340_000_031)),
    });
    sample
}

/// `text` without colours and trailing blanks.
pub fn undressed(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\x1b') {
        plain += before;
        rest = after.split_once('m').map_or("", |(_, rest)| rest);
    }
    plain += rest;
    plain.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}
