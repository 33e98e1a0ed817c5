//! Ways to visit, each confirmed by the server's reports.

use firstbyte_clients::browser::{
    BrowserHttp, BrowserOptions, BrowserProber, BrowserSession, BrowserTls,
};
use firstbyte_clients::chromium::{BesidePurpose, RunningChromium};
use firstbyte_core::timeline::{Handshake, Mark};
use firstbyte_lab::builtin_server::EarlyData;

use crate::support::{Bench, TCP_MARKS, connection, marks, server_said, slow_icon, version};

#[test]
fn a_first_visit_has_every_mark() {
    let bench = Bench::new(|config| {
        config.handshake_delay = std::time::Duration::from_millis(30);
        config.think_time = std::time::Duration::from_millis(200);
    });
    let visit = bench.visit(|options| options.http = BrowserHttp::Http2);
    let connection = connection(visit.sample());
    assert_eq!(marks(connection), TCP_MARKS, "{connection:#?}");
    assert_eq!(version(connection), "2");
    let tls = connection.facts.tls.as_ref().unwrap();
    assert_eq!(tls.version.as_deref(), Some("TLSv1.3"));
    assert_eq!(tls.handshake, Some(Handshake::Full));
    assert_eq!(tls.alpn.as_deref(), Some("h2"));
    assert_eq!(tls.verified, Some(true));
    assert_eq!(tls.session_offered, None);
    assert!(tls.cipher_suite.is_some() && tls.group.is_some(), "{tls:?}");
    assert!(!connection.facts.reused);
    let waited = |mark| connection.marks.at(mark).unwrap();
    let tls_took = waited(Mark::HandshakeComplete).since(waited(Mark::SecureConnectionStart));
    assert!(tls_took.as_millis() >= 30, "{tls_took:?}");
    assert!(connection.started_unix_ns.is_some());
    let http = connection.facts.http.as_ref().unwrap();
    assert_eq!((http.status, http.body_bytes), (Some(200), Some(2000)));
    let messages: Vec<_> = connection.flights.iter().map(|f| f.messages.join(" ")).collect();
    assert_eq!(messages[0], "ClientHello");
    assert!(messages[1].starts_with("ServerHello {EncryptedExtensions}"), "{messages:?}");
    assert!(messages[2].starts_with("{Finished}"), "{messages:?}");
    assert!(messages.iter().any(|names| names.ends_with("{HEADERS} {DATA}")), "{messages:?}");
    let panel = visit.panel.unwrap();
    assert!(panel.ssl.unwrap() >= tls_took / 2 && panel.waiting.is_some(), "{panel:?}");
    assert!(visit.page.loaded.is_some());
    let strangers: Vec<_> = visit
        .beside
        .iter()
        // Chromium sometimes checks for its own updates during the visit.
        .filter(|beside| {
            !matches!(beside.purpose, BesidePurpose::Favicon | BesidePurpose::BrowserService)
        })
        .filter(|beside| beside.opened_connection)
        .collect();
    assert!(strangers.is_empty(), "{strangers:?}");
}

#[test]
fn http1_and_tls12() {
    let bench = Bench::new(|_| {});
    let visit = bench.visit(|options| {
        options.http = BrowserHttp::Http1;
        options.tls = BrowserTls::Tls12;
    });
    let connection = connection(visit.sample());
    assert_eq!(marks(connection), TCP_MARKS, "{connection:#?}");
    assert_eq!(version(connection), "1.1");
    let tls = connection.facts.tls.as_ref().unwrap();
    assert_eq!(tls.version.as_deref(), Some("TLSv1.2"));
    assert_eq!(tls.handshake, Some(Handshake::Full));
}

#[test]
fn sessions_are_resumed() {
    let bench = Bench::new(|config| {
        config.early_data = EarlyData::Accept;
        // Enough time to send early data if it were not disabled.
        config.handshake_delay = std::time::Duration::from_millis(400);
    });
    for (http, tls) in [
        (BrowserHttp::Http2, BrowserTls::Tls13),
        (BrowserHttp::Http1, BrowserTls::Tls13),
        (BrowserHttp::Http1, BrowserTls::Tls12),
        (BrowserHttp::Http3, BrowserTls::Both),
    ] {
        let visit = bench.visit(|options| {
            (options.http, options.tls) = (http, tls);
            options.session = BrowserSession::Resumed;
        });
        let connection = connection(visit.sample());
        let tls = connection.facts.tls.as_ref().unwrap();
        assert_eq!(tls.handshake, Some(Handshake::Resumed), "{http:?} {connection:#?}");
        assert!(tls.session_offered.is_some(), "{http:?} {tls:?}");
        assert_eq!(server_said(connection, "x-firstbyte-resumed"), "1", "{http:?}");
        let early = tls.early_data.is_some();
        assert_eq!(early, http == BrowserHttp::Http3, "{http:?} {tls:?}");
        let said = server_said(connection, "x-firstbyte-early-data") == "1";
        assert_eq!(said, early, "{http:?}");
        assert!(!connection.facts.reused);
        assert!(connection.marks.at(Mark::HandshakeComplete).is_some());
    }
}

#[test]
fn connections_are_kept() {
    let bench = Bench::new(slow_icon);
    for http in [BrowserHttp::Http1, BrowserHttp::Http2, BrowserHttp::Http3] {
        let visit = bench.visit(|options| {
            options.http = http;
            options.session = BrowserSession::Kept;
        });
        let connection = connection(visit.sample());
        assert!(connection.facts.reused, "{http:?} {connection:#?}");
        assert_eq!(
            marks(connection),
            ["request_start", "request_end", "response_start", "response_end"],
            "{http:?}"
        );
        let start = connection.flights[0].first().as_nanos();
        assert!(start >= 0, "{connection:#?}");
    }
}

#[test]
fn http3_is_quic_with_a_root_of_ones_own() {
    let bench = Bench::new(|_| {});
    let visit = bench.visit(|options| options.http = BrowserHttp::Http3);
    let connection = connection(visit.sample());
    assert_eq!(version(connection), "3", "{connection:#?}");
    let quic = connection.facts.quic.as_ref().unwrap();
    assert_eq!(quic.version.as_deref(), Some("1"));
    let expected = [
        "connect_start",
        "secure_connection_start",
        "handshake_complete",
        "handshake_confirmed",
        "request_start",
        "request_end",
        "response_start",
        "response_end",
    ];
    assert_eq!(marks(connection), expected, "{connection:#?}");
    assert_eq!(connection.facts.tls.as_ref().unwrap().handshake, Some(Handshake::Full));
}

fn early(options: &mut BrowserOptions, http: BrowserHttp) {
    options.http = http;
    options.session = BrowserSession::EarlyData;
}

#[test]
fn early_data_is_sent_and_taken() {
    let bench = Bench::new(|config| {
        config.early_data = EarlyData::Accept;
        // The handshake takes longer than the browser needs to start its request. After a second of handshake Chromium
        // abandons early data.
        config.handshake_delay = std::time::Duration::from_millis(500);
    });
    for http in [BrowserHttp::Http1, BrowserHttp::Http2, BrowserHttp::Http3] {
        let visit = bench.visit(|options| early(options, http));
        let connection = connection(visit.sample());
        let tls = connection.facts.tls.as_ref().unwrap();
        let early = tls.early_data.unwrap_or_else(|| panic!("{http:?} {connection:#?}"));
        assert!(early.bytes_before_server_hello > Some(100), "{http:?} {early:?}");
        assert_eq!(early.accepted, Some(true), "{http:?}");
        assert_eq!(server_said(connection, "x-firstbyte-early-data"), "1", "{http:?}");
        let at = |mark| connection.marks.at(mark).unwrap();
        assert!(at(Mark::RequestStart) < at(Mark::HandshakeComplete), "{connection:#?}");
    }
}

#[test]
fn early_data_that_is_rejected_is_not_taken() {
    let bench = Bench::new(|config| {
        config.early_data = EarlyData::Reject;
        config.handshake_delay = std::time::Duration::from_millis(400);
    });
    let visit = bench.visit(|options| early(options, BrowserHttp::Http2));
    let tls = connection(visit.sample()).facts.tls.clone().unwrap();
    assert_ne!(tls.early_data.and_then(|early| early.accepted), Some(true), "{tls:?}");
}

#[test]
fn failures_have_their_phase() {
    let bench = Bench::new(|_| {});
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let visit = bench.visit_to(&format!("https://site.test:{nobody}/"), |_| {});
    let failure = visit.sample().failure().unwrap();
    assert_eq!(failure.failure_type().as_str(), "tcp.refused", "{failure}");
    let visit = bench.visit(|options| options.trusted_pem.clear());
    let failure = visit.sample().failure().unwrap();
    assert_eq!(failure.failure_type().as_str(), "tls.cert.authority_invalid", "{failure}");
    assert!(visit.sample().connection.marks.at(Mark::TcpConnected).is_some());
}

#[test]
fn redirects_are_connections_of_their_own() {
    let bench = Bench::new(|_| {});
    let visit =
        bench.visit_to(&bench.url("/redirect"), |options| options.http = BrowserHttp::Http2);
    let sample = visit.sample();
    assert_eq!(sample.redirects.len(), 1, "{sample:#?}");
    assert!(sample.redirects[0].url.ends_with("/redirect") && sample.connection.url.ends_with('/'));
    assert!(!sample.redirects[0].facts.reused && sample.connection.facts.reused);
}

#[test]
fn a_prober_of_browsers_is_one_of_many() {
    use firstbyte_probe::probe::{Prober, Target};
    let bench = Bench::new(|_| {});
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let probers: Vec<Box<dyn Prober>> = vec![
        Box::new(BrowserProber::<RunningChromium>::new(bench.options()).unwrap()),
        Box::new(
            BrowserProber::<RunningChromium>::new(BrowserOptions {
                program: Some("no-such-browser".to_owned()),
                ..bench.options()
            })
            .unwrap(),
        ),
    ];
    let target = Target::parse(&bench.url("/")).unwrap();
    runtime.block_on(async {
        probers[0].prepare(&target).await.unwrap();
        let sample = probers[0].probe(&target).await;
        assert_eq!(sample.connection.failure, None);
        assert!(sample.connection.marks.at(Mark::ResponseEnd).is_some());
        let missing = probers[1].prepare(&target).await.unwrap_err();
        assert!(missing.to_string().contains("install chromium"), "{missing}");
        assert!(probers[1].probe(&target).await.connection.failure.is_some());
    });
}
