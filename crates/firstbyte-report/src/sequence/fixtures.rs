//! Connections with the shapes that a sequence diagram has to handle, 30 ms away.

use firstbyte_core::timeline::{
    Connection, EarlyData, Facts, Handshake, Mark, QuicFacts, Sample, TcpFacts, TlsFacts,
};

use crate::fixtures::{addr, kernel, lookup, micros, received, sample, sent, set, user, won};

/// A connection over TCP up to its SYN/ACK at 33.1 ms.
fn connected(url: &str) -> Connection {
    let mut c = Connection { url: url.into(), ..Connection::default() };
    c.lookups =
        vec![lookup(firstbyte_core::timeline::RecordType::A, 180, 2_900, &["198.51.100.1"])];
    c.attempts = vec![won("198.51.100.1:443", 3_080, 33_110)];
    set(
        &mut c,
        &[
            (Mark::DomainLookupStart, user(180)),
            (Mark::DomainLookupEnd, user(3_000)),
            (Mark::ConnectStart, kernel(3_080)),
            (Mark::TcpConnected, kernel(33_110)),
            (Mark::SecureConnectionStart, kernel(33_110)),
        ],
    );
    c.facts = Facts {
        remote: addr("198.51.100.1:443"),
        tcp: Some(TcpFacts {
            syn_rtt: Some(micros(30_030)),
            min_rtt: Some(micros(30_030)),
            retransmits: Some(0),
            send_mss: Some(1_448),
            ..TcpFacts::default()
        }),
        tls: Some(TlsFacts {
            version: Some("TLSv1.3".into()),
            handshake: Some(Handshake::Full),
            ..TlsFacts::default()
        }),
        ..Facts::default()
    };
    c
}

/// Adds a request at `request` and its answer between `from` and `to`, microseconds.
fn answered(c: &mut Connection, request: i64, from: i64, to: i64) {
    set(
        c,
        &[
            (Mark::HandshakeComplete, kernel(request)),
            (Mark::RequestStart, kernel(request)),
            (Mark::RequestEnd, kernel(request)),
            (Mark::ResponseStart, kernel(from)),
            (Mark::ResponseEnd, kernel(to)),
        ],
    );
}

const REQUEST: [&str; 5] =
    ["ChangeCipherSpec", "{Finished}", "{preface}", "{SETTINGS}", "{HEADERS}"];

/// A resumed session: no certificate, but still one round trip.
pub(crate) fn resumed() -> Sample {
    let mut c = connected("https://resumed.example/");
    c.flights = vec![
        sent(33_320, 620, 63_400, &["ClientHello"]),
        received(&[(63_510, 260)], &["ServerHello", "{EncryptedExtensions}", "{Finished}"]),
        sent(63_890, 290, 93_990, &REQUEST),
        received(&[(94_310, 2_210)], &["{NewSessionTicket}", "{HEADERS}", "{DATA}"]),
        sent(94_500, 55, 124_600, &["{SETTINGS ack}", "{close_notify}"]),
    ];
    answered(&mut c, 63_890, 94_310, 94_310);
    if let Some(tls) = &mut c.facts.tls {
        tls.handshake = Some(Handshake::Resumed);
    }
    sample(c)
}

/// The request is sent with the ClientHello, and its answer arrives with the server's handshake messages.
pub(crate) fn zero_rtt() -> Sample {
    let mut c = connected("https://early.example/");
    c.flights = vec![
        sent(33_420, 910, 63_500, &["ClientHello", "ChangeCipherSpec", "{preface}", "{HEADERS}"]),
        received(
            &[(63_610, 230), (71_900, 2_180)],
            &["ServerHello", "{EncryptedExtensions}", "{Finished}", "{HEADERS}", "{DATA}"],
        ),
        sent(72_300, 78, 102_400, &["{EndOfEarlyData}", "{Finished}"]),
    ];
    answered(&mut c, 33_420, 71_900, 71_900);
    c.marks.set(Mark::HandshakeComplete, kernel(72_300));
    if let Some(tls) = &mut c.facts.tls {
        tls.handshake = Some(Handshake::Resumed);
        tls.early_data =
            Some(EarlyData { bytes_before_server_hello: Some(281), accepted: Some(true) });
    }
    sample(c)
}

/// The server requests another ClientHello.
pub(crate) fn hello_retry() -> Sample {
    let mut c = connected("https://retry.example/");
    c.flights = vec![
        sent(33_250, 1_483, 63_300, &["ClientHello"]),
        received(&[(63_480, 99)], &["HelloRetryRequest", "ChangeCipherSpec"]),
        sent(63_660, 302, 93_700, &["ChangeCipherSpec", "ClientHello"]),
        received(
            &[(94_200, 1_261)],
            &[
                "ServerHello",
                "{EncryptedExtensions}",
                "{Certificate}",
                "{CertificateVerify}",
                "{Finished}",
            ],
        ),
        sent(95_210, 251, 125_300, &REQUEST[1..]),
        received(&[(125_560, 2_836)], &["{NewSessionTicket}", "{HEADERS}", "{DATA}"]),
    ];
    answered(&mut c, 95_210, 125_560, 125_560);
    sample(c)
}

/// A chain that exceeds an initial window of two segments, then four.
pub(crate) fn big_chain() -> Sample {
    let mut c = connected("https://chain.example/");
    c.flights = vec![
        sent(33_250, 1_491, 63_300, &["ClientHello"]),
        received(
            &[
                (64_800, 1_448),
                (64_830, 1_448),
                (94_850, 1_448),
                (94_880, 4_344),
                (124_890, 1_448),
                (124_920, 1_104),
            ],
            &["ServerHello", "Certificate", "ServerKeyExchange", "ServerHelloDone"],
        ),
        sent(126_800, 93, 156_900, &["ClientKeyExchange", "ChangeCipherSpec", "{Finished}"]),
        received(&[(157_200, 113)], &["ChangeCipherSpec", "{Finished}"]),
        sent(157_900, 212, 188_000, &["{GET}"]),
        received(&[(196_200, 1_448), (196_900, 677)], &["{200}", "{body}"]),
    ];
    answered(&mut c, 157_900, 196_200, 196_900);
    c.marks.set(Mark::HandshakeComplete, kernel(157_200));
    sample(c)
}

/// A megabyte in six windows, each twice the previous one.
pub(crate) fn megabyte() -> Sample {
    let mut c = hello_retry().connection;
    c.url = "https://large.example/bytes/1000000".into();
    let mut chunks = Vec::new();
    let (mut segments, mut left, mut begins) = (10, 1_000_000u64, 125_560i64);
    while left > 0 {
        for number in 0..segments {
            let bytes = left.min(1_448);
            chunks.push((begins + number * 40, bytes));
            left -= bytes;
            if left == 0 {
                break;
            }
        }
        begins += (segments * 40).max(30_030) + 250;
        segments *= 2;
    }
    let end = chunks[chunks.len() - 1].0;
    c.flights.truncate(5);
    let mut messages = vec!["{HEADERS}"];
    messages.resize(63, "{DATA}");
    c.flights.push(received(&chunks[..10], &messages[..2]));
    c.flights.push(sent(126_100, 35, 156_200, &["{WINDOW_UPDATE}"]));
    c.flights.push(received(&chunks[10..], &messages[2..]));
    c.flights.push(sent(end + 90, 55, end + 30_200, &["{WINDOW_UPDATE}", "{close_notify}"]));
    answered(&mut c, 95_210, 125_560, end);
    sample(c)
}

/// A response written in pieces of two kilobytes.
pub(crate) fn thirty_pauses() -> Sample {
    let mut c = hello_retry().connection;
    c.url = "https://pauses.example/".into();
    let chunks: Vec<(i64, u64)> =
        (0..32).map(|i| (125_560 + i * 30_300 + i % 3 * 4_000, 2_000)).collect();
    c.flights.truncate(5);
    c.flights.push(received(&chunks, &["{HEADERS}", "{DATA}"]));
    answered(&mut c, 95_210, 125_560, chunks[31].0);
    sample(c)
}

/// HTTP/3 after a Retry.
pub(crate) fn http3() -> Sample {
    let mut c = connected("https://quic.example/");
    c.attempts[0].end = Some(crate::fixtures::us(33_500));
    let marks = c.marks;
    c.marks = Default::default();
    for (mark, stamp) in marks.iter().filter(|(mark, _)| *mark <= Mark::ConnectStart) {
        c.marks.set(mark, stamp);
    }
    c.marks.set(Mark::SecureConnectionStart, kernel(3_080));
    let datagrams = |chunks: &[(i64, u64)], messages: &[&str], out: bool| {
        let mut flight = received(chunks, messages);
        if out {
            flight.direction = firstbyte_core::timeline::Direction::Sent;
        }
        flight
    };
    c.flights = vec![
        datagrams(&[(3_080, 1_200), (3_110, 1_200)], &["Initial", "Initial"], true),
        datagrams(&[(33_490, 120)], &["Retry"], false),
        datagrams(&[(33_600, 1_200), (33_640, 1_200)], &["Initial", "Initial"], true),
        datagrams(
            &[(64_200, 1_200), (64_260, 1_200), (64_300, 473)],
            &["Initial", "Handshake", "Handshake", "1-RTT"],
            false,
        ),
        datagrams(&[(64_420, 1_200), (64_700, 310)], &["Handshake", "1-RTT", "1-RTT"], true),
        datagrams(&[(94_700, 640)], &["1-RTT", "1-RTT"], false),
        datagrams(&[(94_760, 40)], &["1-RTT"], true),
        datagrams(&[(104_990, 1_200), (105_020, 930)], &["1-RTT", "1-RTT"], false),
        datagrams(&[(105_100, 35)], &["1-RTT"], true),
    ];
    answered(&mut c, 64_700, 104_990, 105_020);
    c.marks.set(Mark::HandshakeComplete, kernel(64_420));
    c.facts.tcp = None;
    c.facts.quic = Some(QuicFacts {
        min_rtt: Some(micros(30_030)),
        retry: true,
        datagrams_sent: Some(8),
        datagrams_received: Some(7),
        ..QuicFacts::default()
    });
    sample(c)
}

/// One of every shape.
pub(crate) fn all() -> Vec<Sample> {
    let here =
        [resumed(), zero_rtt(), hello_retry(), big_chain(), megabyte(), thirty_pauses(), http3()];
    crate::fixtures::all().into_iter().chain(here).collect()
}
