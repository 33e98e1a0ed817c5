//! Page loads as different sources report them. Their stored forms are in `fixtures/navigation`, for programs that
//! show or read page loads.

use crate::timeline::*;

const MS: i64 = 1_000_000;

/// Marks with their times in milliseconds.
fn marks(resolution_ns: u32, times: &[(Mark, f64)]) -> Marks {
    let mut marks = Marks::default();
    for (mark, ms) in times {
        marks.set(*mark, at(resolution_ns, *ms));
    }
    marks
}

fn at(resolution_ns: u32, ms: f64) -> Stamp {
    let at = Offset::from_nanos((ms * MS as f64) as i64);
    Stamp { at, clock: Clock::Reported { resolution_ns } }
}

fn exchange(resolution_ns: u32, [request, first, last]: [f64; 3]) -> Marks {
    let times = [
        (Mark::RequestStart, request),
        (Mark::RequestEnd, request),
        (Mark::ResponseStart, first),
        (Mark::ResponseEnd, last),
    ];
    marks(resolution_ns, &times)
}

fn initiator(kind: &str, url: &str) -> Option<Initiator> {
    let url = (!url.is_empty()).then(|| url.to_owned());
    Some(Initiator { kind: kind.into(), url })
}

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

const PAGE: &str = "https://shop.test/";

/// The load of the document as a client reports it.
fn main(resolution_ns: u32, client: ClientFacts, version: &str) -> Sample {
    let mut connection = Connection { url: PAGE.into(), ..Connection::default() };
    connection.started_unix_ns = Some(1_795_183_509_123_000_000);
    connection.marks = marks(
        resolution_ns,
        &[
            (Mark::DomainLookupStart, 0.0),
            (Mark::DomainLookupEnd, 4.0),
            (Mark::ConnectStart, 4.0),
            (Mark::TcpConnected, 25.0),
            (Mark::SecureConnectionStart, 25.0),
            (Mark::HandshakeComplete, 48.0),
            (Mark::RequestStart, 48.0),
            (Mark::RequestEnd, 48.0),
            (Mark::ResponseStart, 92.0),
            (Mark::ResponseEnd, 95.0),
        ],
    );
    connection.facts.client = Some(client);
    connection.facts.http = Some(HttpFacts {
        method: "GET".into(),
        version: text(version),
        status: Some(200),
        body_bytes: Some(18_204),
        ..HttpFacts::default()
    });
    Sample { requested_url: PAGE.into(), connection, ..Sample::default() }
}

/// A page load as Chromium's trace reports it: every connection with its addresses and its race, in microseconds.
pub(super) fn chromium() -> Navigation {
    const STEP: u32 = 1_000;
    let client = ClientFacts {
        name: "Chromium".into(),
        version: text("146.0.7680.80"),
        tls_library: text("BoringSSL"),
    };
    let local = |port| Some(std::net::SocketAddr::from(([10, 0, 0, 5], port)));
    let tls = |handshake| TlsFacts {
        version: text("TLSv1.3"),
        cipher_suite: text("TLS_AES_128_GCM_SHA256"),
        group: text("X25519MLKEM768"),
        handshake: Some(handshake),
        ..TlsFacts::default()
    };
    let tcp = PageConnection {
        authority: "shop.test:443".into(),
        client_id: text("31"),
        remote: Some(std::net::SocketAddr::from(([192, 0, 2, 10], 443))),
        local: local(50_012),
        beginning: Some(Beginning::Opened),
        race: Some(Race { against: 1, won: true }),
        protocol: text("h2"),
        tls: Some(tls(Handshake::Full)),
        marks: marks(
            STEP,
            &[
                (Mark::DomainLookupStart, 0.4),
                (Mark::DomainLookupEnd, 4.4),
                (Mark::ConnectStart, 4.5),
                (Mark::TcpConnected, 25.2),
                (Mark::SecureConnectionStart, 25.2),
                (Mark::HandshakeComplete, 48.1),
            ],
        ),
        first_answer: None,
        given_up: None,
        failure: None,
    };
    let quic = PageConnection {
        client_id: text("33"),
        local: local(50_014),
        race: Some(Race { against: 0, won: false }),
        protocol: text("h3"),
        tls: None,
        marks: marks(STEP, &[(Mark::ConnectStart, 4.7), (Mark::SecureConnectionStart, 4.7)]),
        first_answer: Some(at(STEP, 26.0)),
        given_up: Some(at(STEP, 48.4)),
        ..tcp.clone()
    };
    let idle = PageConnection {
        client_id: text("36"),
        local: local(50_016),
        race: None,
        tls: Some(tls(Handshake::Resumed)),
        marks: marks(
            STEP,
            &[
                (Mark::ConnectStart, 30.1),
                (Mark::TcpConnected, 51.3),
                (Mark::SecureConnectionStart, 51.3),
                (Mark::HandshakeComplete, 73.8),
            ],
        ),
        ..tcp.clone()
    };
    let before = PageConnection {
        authority: "fonts.test:443".into(),
        client_id: text("12"),
        remote: Some(std::net::SocketAddr::from(([192, 0, 2, 20], 443))),
        local: local(49_880),
        beginning: Some(Beginning::OpenBefore { idle: Some(std::time::Duration::from_secs(14)) }),
        protocol: text("h2"),
        ..PageConnection::default()
    };
    let refused = Failure {
        phase: PhaseName::Connect,
        cause: Cause::Recorded {
            name: "refused".into(),
            failure_type: FailureType::TcpRefused,
            fault: Fault::Peer,
            message: "net::ERR_CONNECTION_REFUSED".into(),
            advice: None,
        },
        at: Some(Offset::from_nanos(141 * MS)),
    };
    let dead = PageConnection {
        authority: "stats.test:443".into(),
        beginning: Some(Beginning::Opened),
        marks: marks(STEP, &[(Mark::ConnectStart, 120.4)]),
        failure: Some(refused.clone()),
        ..PageConnection::default()
    };
    let style = Resource {
        url: "https://shop.test/style.css".into(),
        method: text("GET"),
        status: Some(200),
        initiator: initiator("parser", PAGE),
        connection: Some(0),
        connection_use: Some(ConnectionUse::Reused),
        delivered_from: Some(DeliveredFrom::Network),
        protocol: text("h2"),
        priority: text("VeryHigh"),
        asked: Some(at(STEP, 94.2)),
        marks: exchange(STEP, [94.9, 118.3, 119.0]),
        interim: None,
        sizes: ResourceSizes {
            transferred_bytes: Some(6_120),
            body_bytes: Some(6_001),
            decoded_bytes: Some(28_440),
        },
        failure: None,
    };
    let script = Resource {
        url: "https://static.shop.test/app.js".into(),
        connection_use: Some(ConnectionUse::Coalesced),
        priority: text("High"),
        marks: exchange(STEP, [95.4, 140.0, 152.7]),
        interim: Some(at(STEP, 117.2)),
        ..style.clone()
    };
    let font = Resource {
        url: "https://fonts.test/a.woff2".into(),
        initiator: initiator("css", "https://shop.test/style.css"),
        connection: Some(3),
        asked: Some(at(STEP, 121.0)),
        marks: exchange(STEP, [121.6, 150.2, 151.0]),
        ..style.clone()
    };
    let logo = Resource {
        url: "https://shop.test/logo.svg".into(),
        connection: None,
        connection_use: None,
        delivered_from: Some(DeliveredFrom::DiskCache),
        priority: text("Low"),
        marks: Marks::default(),
        sizes: ResourceSizes { transferred_bytes: Some(0), ..style.sizes },
        ..style.clone()
    };
    let beacon = Resource {
        url: "https://stats.test/hit".into(),
        method: text("POST"),
        initiator: initiator("script", "https://static.shop.test/app.js"),
        connection: Some(4),
        connection_use: Some(ConnectionUse::Opened),
        asked: Some(at(STEP, 120.0)),
        failure: Some(refused),
        ..Resource::default()
    };
    Navigation {
        main: main(STEP, client, "2"),
        main_at: Offset::from_nanos(400_000),
        main_connection: Some(0),
        main_use: Some(ConnectionUse::Opened),
        connections: vec![tcp, quic, idle, before, dead],
        resources: vec![style, script, font, logo, beacon],
        content_loaded: Some(at(STEP, 154.1)),
        loaded: Some(at(STEP, 160.9)),
    }
}

/// A page load as Firefox reports it over WebDriver BiDi: in milliseconds, without connections.
pub(super) fn firefox() -> Navigation {
    const STEP: u32 = 1_000_000;
    let client =
        ClientFacts { name: "Firefox".into(), version: text("148.0"), tls_library: text("NSS") };
    let style = Resource {
        url: "https://shop.test/style.css".into(),
        method: text("GET"),
        status: Some(200),
        initiator: initiator("link", ""),
        delivered_from: Some(DeliveredFrom::Network),
        protocol: text("h2"),
        asked: Some(at(STEP, 96.0)),
        marks: marks(
            STEP,
            &[(Mark::RequestStart, 97.0), (Mark::ResponseStart, 119.0), (Mark::ResponseEnd, 119.0)],
        ),
        sizes: ResourceSizes {
            transferred_bytes: Some(6_120),
            body_bytes: Some(6_001),
            decoded_bytes: None,
        },
        ..Resource::default()
    };
    let cached = Resource {
        url: "https://shop.test/logo.svg".into(),
        initiator: initiator("img", ""),
        delivered_from: Some(DeliveredFrom::Cache),
        marks: Marks::default(),
        sizes: ResourceSizes::default(),
        ..style.clone()
    };
    Navigation {
        main: main(STEP, client, "2"),
        resources: vec![style, cached],
        content_loaded: Some(at(STEP, 156.0)),
        loaded: Some(at(STEP, 163.0)),
        ..Navigation::default()
    }
}

/// A page load as in an exported HAR: connections have only numbers.
pub(super) fn har() -> Navigation {
    const STEP: u32 = 1_000_000;
    let client = ClientFacts { name: "Chrome".into(), version: text("146"), tls_library: None };
    let connection = |id: &str, authority: &str| PageConnection {
        authority: authority.into(),
        client_id: text(id),
        ..PageConnection::default()
    };
    let script = Resource {
        url: "https://cdn.test/app.js".into(),
        method: text("GET"),
        status: Some(200),
        connection: Some(1),
        connection_use: Some(ConnectionUse::Opened),
        protocol: text("h3"),
        asked: Some(at(STEP, 97.0)),
        marks: exchange(STEP, [131.0, 160.0, 171.0]),
        ..Resource::default()
    };
    let cdn = PageConnection {
        beginning: Some(Beginning::Opened),
        marks: marks(
            STEP,
            &[
                (Mark::DomainLookupStart, 98.0),
                (Mark::DomainLookupEnd, 104.0),
                (Mark::ConnectStart, 104.0),
                (Mark::HandshakeComplete, 131.0),
            ],
        ),
        ..connection("418", "cdn.test:443")
    };
    Navigation {
        main: main(STEP, client, "2"),
        main_connection: Some(0),
        connections: vec![connection("402", "shop.test:443"), cdn],
        resources: vec![script],
        loaded: Some(at(STEP, 190.0)),
        ..Navigation::default()
    }
}
