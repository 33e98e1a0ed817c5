//! What servers of a lab answer.

use std::net::ToSocketAddrs;

use firstbyte_lab::{LabError, LabOptions, Scenario, ServerChoice};
use rustls::ProtocolVersion;
use rustls::version::{TLS12, TLS13};

use crate::support::{get, in_lab, scenario};

pub(crate) fn nginx() {
    let kind = answers(ServerChoice::Nginx);
    assert!(kind.starts_with("nginx 1."), "{kind}");
}

pub(crate) fn builtin() {
    assert_eq!(answers(ServerChoice::Builtin), "built-in (rustls)");
}

/// Asks for pages over both families and both TLS versions, and checks what the report says.
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

pub(crate) fn delays() {
    let slow = r#"server = { think_time = "30ms", handshake_delay = "20ms" }"#;
    in_lab(&scenario("", slow), &LabOptions::default(), |lab| {
        assert_eq!(lab.servers()[0].kind, "built-in (rustls)");
        assert_eq!(get(lab, true, "/", &[&TLS13]).body.len(), 2_000);
    });
}

pub(crate) fn bad_directive() {
    let scenario = scenario("", r#"server = { nginx = { directives = ["no_such_thing on;"] } }"#);
    let error = firstbyte_lab::run(&scenario, &LabOptions::default(), |_| 0).unwrap_err();
    let LabError::Server { host, reason, output, .. } = &error else { panic!("{error}") };
    assert_eq!(host, "server");
    assert!(reason.starts_with("it ended with exit status: 1"), "{reason}");
    assert!(output.contains("unknown directive \"no_such_thing\""), "{output}");
}

/// As `getaddrinfo` sees it, through the lab's own resolv.conf and nsswitch.conf.
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
