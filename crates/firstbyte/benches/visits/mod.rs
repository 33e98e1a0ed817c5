//! Synthetic visits with as much data as real ones.

use std::time::Duration;

use firstbyte_core::timeline::{
    Attempt, AttemptOutcome, Certificate, Chunk, Clock, Connection, Direction, Facts, Flight,
    Handshake, Header, HttpFacts, Lookup, Mark, Offset, RecordType, Sample, Stamp, TcpFacts,
    TlsFacts,
};

/// A visit over TLS 1.2 or 1.3 with HTTP/2.
pub(crate) struct Visit<'a> {
    pub(crate) url: &'a str,
    pub(crate) is_tls12: bool,
    pub(crate) rtt: Duration,
    pub(crate) started_unix_ns: u64,
    pub(crate) number: u32,
}

impl Visit<'_> {
    /// A sample of this visit, with times drawn from `random`.
    pub(crate) fn sample(&self, random: &mut fastrand::Rng) -> Sample {
        Sample {
            sequence: self.number,
            warmup: false,
            requested_url: self.url.to_owned(),
            redirects: Vec::new(),
            connection: self.connection(random),
            requests: None,
        }
    }

    fn connection(&self, random: &mut fastrand::Rng) -> Connection {
        let mut late = 0;
        let mut at = |after_us: i64| {
            late += after_us * 1_000 + random.i64(0..400_000);
            late
        };
        let rtt = i64::try_from(self.rtt.as_micros()).unwrap();
        let trips = if self.is_tls12 { 2 } else { 1 };
        let points = [40, 1_500, 30, rtt, trips * rtt + 800, 5, rtt + 2_000, 300].map(&mut at);
        let [asked, named, syn, open, secure, sent, first, last] = points;
        let mut c = Connection {
            url: self.url.to_owned(),
            started_unix_ns: Some(self.started_unix_ns),
            ..Connection::default()
        };
        for (mark, ns, clock) in [
            (Mark::DomainLookupStart, asked, Clock::User),
            (Mark::DomainLookupEnd, named, Clock::User),
            (Mark::ConnectStart, syn, Clock::User),
            (Mark::TcpConnected, open, Clock::KernelDerived),
            (Mark::SecureConnectionStart, open, Clock::KernelDerived),
            (Mark::HandshakeComplete, secure, Clock::Kernel),
            (Mark::RequestStart, sent, Clock::Kernel),
            (Mark::RequestEnd, sent, Clock::Kernel),
            (Mark::ResponseStart, first, Clock::Kernel),
            (Mark::ResponseEnd, last, Clock::Kernel),
        ] {
            c.marks.set(mark, Stamp { at: Offset::from_nanos(ns), clock });
        }
        let offset = Offset::from_nanos;
        c.lookups = [RecordType::Aaaa, RecordType::A]
            .map(|record_type| Lookup {
                record_type,
                start: offset(asked),
                end: Some(offset(named - 10_000)),
                addresses: vec!["198.51.100.7".parse().unwrap()],
                error: None,
                tries: Vec::new(),
            })
            .into();
        let remote = "198.51.100.7:443".parse().unwrap();
        let end = Some(offset(open));
        c.attempts =
            vec![Attempt { remote, start: offset(syn), end, outcome: AttemptOutcome::Won }];
        let chunk = |ns: i64, bytes: u64, acknowledged: Option<i64>| Chunk {
            acknowledged: acknowledged.map(offset),
            ..Chunk::new(Stamp::kernel(offset(ns)), bytes)
        };
        let flight = |direction, chunks: Vec<Chunk>, messages: &[&str]| Flight {
            direction,
            chunks,
            messages: messages.iter().map(ToString::to_string).collect(),
        };
        c.flights = vec![
            flight(
                Direction::Sent,
                vec![chunk(open + 300_000, 1_720, Some(secure - 900_000))],
                &["ClientHello"],
            ),
            flight(
                Direction::Received,
                vec![chunk(secure - 800_000, 2_856, None), chunk(secure - 700_000, 1_428, None)],
                &[
                    "ServerHello",
                    "{EncryptedExtensions}",
                    "{Certificate}",
                    "{CertificateVerify}",
                    "{Finished}",
                ],
            ),
            flight(
                Direction::Sent,
                vec![chunk(sent, 312, Some(first - 2_000_000))],
                &["{Finished}", "{HEADERS}"],
            ),
            flight(
                Direction::Received,
                vec![chunk(first - 500_000, 600, None)],
                &["{NewSessionTicket}"],
            ),
            flight(
                Direction::Received,
                vec![chunk(first, 2_856, None), chunk(last, 1_200, None)],
                &["{HEADERS}", "{DATA}"],
            ),
        ];
        c.facts = Facts {
            remote: Some(remote),
            local: Some("192.0.2.10:40122".parse().unwrap()),
            tcp: Some(TcpFacts {
                syn_rtt: Some(Duration::from_nanos((open - syn) as u64)),
                min_rtt: Some(Duration::from_nanos((open - syn) as u64 - 4_000)),
                retransmits: Some(0),
                send_mss: Some(1_448),
                receive_mss: Some(1_448),
                out_of_order: Some(0),
                receive_window_limited: None,
                congestion_control: Some("cubic".into()),
                syn_departure_uncertainty: Some(Duration::from_micros(9)),
            }),
            tls: Some(TlsFacts {
                version: Some(if self.is_tls12 { "TLSv1.2" } else { "TLSv1.3" }.into()),
                cipher_suite: Some("TLS_AES_256_GCM_SHA384".into()),
                group: Some("X25519MLKEM768".into()),
                handshake: Some(Handshake::Full),
                alpn: Some("h2".into()),
                certificates: vec![
                    Certificate {
                        subject: "CN=www.example, O=Example".into(),
                        issuer: "CN=Example CA, O=Example".into(),
                        key: "RSA 2048".into(),
                        not_after_unix: Some(1_798_761_599),
                        der_bytes: 1_842,
                    };
                    3
                ],
                verified: Some(true),
                tickets_received: Some(2),
                ..TlsFacts::default()
            }),
            http: Some(HttpFacts {
                method: "GET".into(),
                version: Some("2".into()),
                status: Some(200),
                headers: [
                    ("server", "nginx/1.22.1".to_owned()),
                    (
                        "date",
                        format!(
                            "Sat, 21 Nov 2026 05:{:02}:{:02} GMT",
                            self.number / 60 % 60,
                            self.number % 60
                        ),
                    ),
                    ("content-type", "text/html; charset=utf-8".to_owned()),
                    ("x-request-id", format!("{:016x}", random.u64(..))),
                    ("strict-transport-security", "max-age=31536000".to_owned()),
                ]
                .map(|(name, value)| Header { name: name.into(), value })
                .into(),
                request_bytes: Some(214),
                upload_bytes: Some(0),
                header_bytes: Some(207),
                body_bytes: Some(3_704),
                ..HttpFacts::default()
            }),
            ..Facts::default()
        };
        c
    }
}
