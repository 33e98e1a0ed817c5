//! Responses of a lab's servers.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;

use firstbyte_lab::access_log::Entry;
use firstbyte_lab::{Lab, LabError, LabOptions, Scenario, ServerChoice};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, ProtocolVersion, StreamOwned};

use crate::support::{client_config, fastest, get, in_lab, now_ms, scenario, wait_for_requests};

pub(crate) fn nginx() {
    let kind = answers(ServerChoice::Nginx);
    assert!(kind.starts_with("nginx 1."), "{kind}");
}

pub(crate) fn builtin() {
    assert_eq!(answers(ServerChoice::Builtin), "built-in (rustls)");
}

pub(crate) fn caddy() {
    let kind = answers(ServerChoice::Caddy);
    assert!(kind.starts_with("Caddy 2."), "{kind}");
}

/// Fetches pages over both families and both TLS versions, and checks what the report says.
fn answers(choice: ServerChoice) -> String {
    let options = LabOptions { server: choice, ..LabOptions::default() };
    let page = "server = { page_bytes = 12345 }";
    let directory = tempfile::tempdir().unwrap();
    let kind_file = directory.path().join("kind");
    in_lab(&scenario("", page), &options, |lab| {
        for ipv6 in [false, true] {
            for (version, expected) in
                [(&TLS12, ProtocolVersion::TLSv1_2), (&TLS13, ProtocolVersion::TLSv1_3)]
            {
                let answer = get(lab, ipv6, "/", &[version]);
                assert_eq!(answer.version, expected);
                assert_eq!(answer.peer.is_ipv6(), ipv6);
                assert!(answer.head.starts_with("HTTP/1.1 200"), "{}", answer.head);
                assert_eq!(answer.body.len(), 12_345);
            }
        }
        assert_eq!(get(lab, false, "/bytes/100000", &[&TLS13]).body.len(), 100_000);
        let redirect = get(lab, false, "/redirect", &[&TLS13]).head;
        assert!(redirect.starts_with("HTTP/1.1 302"), "{redirect}");
        let [server] = lab.servers().try_into().unwrap();
        assert_eq!(server.host, "server");
        std::fs::write(&kind_file, server.kind).unwrap();
    });
    std::fs::read_to_string(kind_file).unwrap()
}

/// The C library waits for the answers for both families. They are delayed in parallel: both by 60 ms, AAAA
/// by another 90 ms.
pub(crate) fn late_dns() {
    let source = scenario("", "").source.replace(
        "role = \"resolver\"",
        "role = \"resolver\"\nresolver = { answer_delay = \"60ms\", aaaa_delay = \"90ms\" }",
    );
    let late = Scenario::parse("late", "late.toml", &source).unwrap();
    in_lab(&late, &LabOptions::default(), |_| {
        let took = fastest((0..5).map(|_| {
            let begun = now_ms();
            let found: Vec<_> = ("server.test", 443).to_socket_addrs().unwrap().collect();
            assert_eq!(found.len(), 2);
            now_ms() - begun
        }));
        println!("  {took:.1} ms");
        assert!((150.0..190.0).contains(&took), "{took} ms");
    });
}

/// Logs can be saved repeatedly, also by a user who is not root, and contain all responses of every server.
pub(crate) fn logs() {
    for choice in [ServerChoice::Nginx, ServerChoice::Builtin, ServerChoice::Caddy] {
        let directory = tempfile::tempdir().unwrap();
        let logs = directory.path().join("logs");
        let options =
            LabOptions { logs: Some(logs.clone()), server: choice, ..LabOptions::default() };
        in_lab(&scenario("", ""), &options, |lab| {
            assert_eq!(lab.log_dir(), Some(logs.as_path()));
            for count in 1..=3 {
                get(lab, false, "/bytes/1000", &[&TLS13]);
                lab.save_logs().unwrap();
                let saved = Entry::read_all(&logs.join("server-server.log")).unwrap();
                assert_eq!(saved.len(), count);
                assert_eq!(saved, lab.requests("server").unwrap());
            }
        });
        assert_eq!(Entry::read_all(&logs.join("server-server.log")).unwrap().len(), 3);
    }
}

pub(crate) fn delays() {
    let slow = r#"server = { think_time = "30ms", handshake_delay = "20ms" }"#;
    in_lab(&scenario("", slow), &LabOptions::default(), |lab| {
        assert_eq!(lab.servers()[0].kind, "built-in (rustls)");
        assert_eq!(get(lab, true, "/", &[&TLS13]).body.len(), 2_000);
    });
}

/// Tickets and session IDs on and off, early data, versions, groups, the size of the chain.
pub(crate) fn nginx_sessions() {
    for (settings, version, resumed) in [
        ("", &TLS13, true),
        ("", &TLS12, true),
        (r#", resumption = "tickets""#, &TLS12, true),
        (r#", resumption = "session-ids""#, &TLS12, true),
        (r#", resumption = "session-ids""#, &TLS13, true),
        (r#", resumption = "none""#, &TLS12, false),
        (r#", resumption = "none""#, &TLS13, false),
        (", tickets = 0", &TLS13, false),
        (", tickets = 1", &TLS13, true),
        (r#", early_data = "on", groups = ["p256", "x25519"], chain_bytes = 5000"#, &TLS13, true),
    ] {
        let server = format!(r#"server = {{ kind = "nginx"{settings} }}"#);
        in_lab(&scenario("", &server), &LabOptions::default(), |lab| {
            let config = Arc::new(client_config(lab, &[version]));
            let first = get_with(&config, lab, "/");
            let again = get_with(&config, lab, "/");
            let kinds = [first, again].map(|kind| kind == Some(HandshakeKind::Resumed));
            assert_eq!(kinds, [false, resumed], "{settings} {version:?}");
            let requests = wait_for_requests(lab, "server", 2);
            assert_eq!(requests[1].resumed, Some(resumed), "{settings}: {requests:?}");
            assert_eq!(requests[0].early, Some(false));
        });
    }
}

/// Makes a whole exchange, after which the client has its tickets; returns the kind of handshake.
fn get_with(config: &Arc<ClientConfig>, lab: &Lab, path: &str) -> Option<HandshakeKind> {
    let name = lab.scenario().servers().next().unwrap().names[0].clone();
    let tls = ClientConnection::new(Arc::clone(config), name.clone().try_into().unwrap()).unwrap();
    let tcp = TcpStream::connect((name.as_str(), 443)).unwrap();
    let mut stream = StreamOwned::new(tls, tcp);
    let request = format!("GET {path} HTTP/1.1\r\nhost: {name}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    // Servers may close without close_notify after sending everything.
    let _ = stream.read_to_end(&mut answer);
    assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
    stream.conn.handshake_kind()
}

pub(crate) fn bad_directive() {
    let scenario = scenario("", r#"server = { nginx = { directives = ["no_such_thing on;"] } }"#);
    let error = firstbyte_lab::run(&scenario, &LabOptions::default(), |_| 0).unwrap_err();
    let LabError::Server { host, reason, output, .. } = &error else { panic!("{error}") };
    assert_eq!(host, "server");
    assert!(reason.starts_with("the program ended with exit status: 1"), "{reason}");
    assert!(output.contains("unknown directive \"no_such_thing\""), "{output}");
}

/// Resolves names by `getaddrinfo`, with the lab's own resolv.conf and nsswitch.conf.
pub(crate) fn dns() {
    let govuk = Scenario::load("govuk").unwrap();
    let options = LabOptions { server: ServerChoice::Builtin, ..LabOptions::default() };
    in_lab(&govuk, &options, |lab| {
        assert!(lab.warnings().is_empty(), "{:?}", lab.warnings());
        let mut found: Vec<String> = ("sydney.govuk.test", 443)
            .to_socket_addrs()
            .unwrap()
            .map(|address| address.ip().to_string())
            .collect();
        found.sort();
        assert_eq!(found, ["198.51.100.3", "2001:db8:0:2::3"]);
        let missing = ("paris.govuk.test", 443).to_socket_addrs().unwrap_err().to_string();
        assert!(missing.contains("not known"), "{missing}");
    });
}
