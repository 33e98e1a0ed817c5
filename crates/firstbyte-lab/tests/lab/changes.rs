//! Changes of a running lab.

use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use firstbyte_lab::{Lab, LabOptions, Scenario};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConnection, ProtocolVersion};

use crate::support::{SERVER_V4, SERVER_V6, client_config, get, in_lab, now_ms, scenario};

fn with_changes(server: &str, changes: &str) -> Scenario {
    let source = format!("{}\n{changes}", scenario("", server).source);
    Scenario::parse("test", "test.toml", &source).unwrap()
}

/// Waits until `count` changes have been applied, all without failure.
fn wait_for(lab: &Lab, count: usize) {
    for _ in 0..1_000 {
        let changes = lab.changes();
        assert!(changes.iter().all(|change| change.failure.is_none()), "{changes:?}");
        if changes.len() >= count {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{:?}, {count} expected", lab.changes());
}

/// Milliseconds from a SYN to its answer, the fastest of three.
fn connect(address: &str) -> f64 {
    let once = || {
        let begun = now_ms();
        TcpStream::connect((address, 443)).unwrap();
        now_ms() - begun
    };
    (0..3).map(|_| once()).fold(f64::INFINITY, f64::min)
}

pub(crate) fn links() {
    let changes = r#"
[[change]]
after = "1s"
host = "server"
up = { ipv6 = { delay = "60ms" } }
"#;
    in_lab(&with_changes("up = { delay = \"10ms\" }", changes), &LabOptions::default(), |lab| {
        let before = [SERVER_V4, SERVER_V6].map(connect);
        wait_for(lab, 1);
        let after = [SERVER_V4, SERVER_V6].map(connect);
        assert!(before[0] >= 10.0 && before[0] < 50.0, "{before:?}");
        assert!(before[1] < 50.0, "{before:?}");
        assert!(after[0] < 50.0, "the other family is as it was: {after:?}");
        assert!(after[1] >= 60.0 && after[1] < 100.0, "{after:?}");
    });
}

pub(crate) fn servers() {
    let changes = r#"
[[change]]
after = "500ms"
host = "server"
server = { tls = ["1.2", "1.3"] }
[[change]]
after = "1s"
host = "server"
server = { refuses = true }
[[change]]
after = "1.5s"
host = "server"
server = { refuses = false, page_bytes = 5000 }
"#;
    for kind in ["nginx", "builtin"] {
        let server =
            format!("server = {{ kind = \"{kind}\", tls = [\"1.2\"], page_bytes = 3000 }}");
        in_lab(&with_changes(&server, changes), &LabOptions::default(), |lab| {
            let both = [&TLS12, &TLS13];
            let answer = get(lab, false, "/", &both);
            assert_eq!(answer.version, ProtocolVersion::TLSv1_2);
            wait_for(lab, 1);
            let answer = get(lab, false, "/", &both);
            assert_eq!((answer.version, answer.body.len()), (ProtocolVersion::TLSv1_3, 3_000));
            wait_for(lab, 2);
            let refused = TcpStream::connect((SERVER_V4, 443)).unwrap_err();
            assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
            assert_eq!(lab.servers()[0].kind, "none");
            wait_for(lab, 3);
            // The version set by the second change still applies.
            let answer = get(lab, true, "/", &both);
            assert_eq!((answer.version, answer.body.len()), (ProtocolVersion::TLSv1_3, 5_000));
        });
    }
}

/// A server that listens, but answers 503, then has an expired certificate, then works again.
pub(crate) fn outages() {
    let changes = r#"
[[change]]
after = "500ms"
host = "server"
server = { nginx = { directives = ["return 503;"] } }
[[change]]
after = "1s"
host = "server"
server = { certificate_days = -1, nginx = { directives = [] } }
[[change]]
after = "1.5s"
host = "server"
server = { certificate_days = 7 }
"#;
    let server = "server = { kind = \"nginx\" }";
    in_lab(&with_changes(server, changes), &LabOptions::default(), |lab| {
        let head = || get(lab, false, "/", &[&TLS13]).head;
        assert!(head().starts_with("HTTP/1.1 200"));
        wait_for(lab, 1);
        assert!(head().starts_with("HTTP/1.1 503"));
        wait_for(lab, 2);
        let config = Arc::new(client_config(lab, &[&TLS13]));
        let mut tls = ClientConnection::new(config, "server.test".try_into().unwrap()).unwrap();
        let mut stream = TcpStream::connect((SERVER_V4, 443)).unwrap();
        let error = tls.complete_io(&mut stream).unwrap_err();
        assert!(format!("{error:?}").contains("Expired"), "{error:?}");
        wait_for(lab, 3);
        assert!(head().starts_with("HTTP/1.1 200"));
    });
}

/// A name may belong to several servers: its edges.
pub(crate) fn edges() {
    let second = r#"
[[host]]
name = "second"
role = "server"
ipv4 = "198.51.100.2"
names = ["server.test", "second.test"]
"#;
    let source = format!("{}{second}", scenario("", "").source);
    let scenario = Scenario::parse("test", "test.toml", &source).unwrap();
    in_lab(&scenario, &LabOptions::default(), |lab| {
        use std::net::ToSocketAddrs;
        let _ = lab;
        let mut found: Vec<String> = ("server.test", 443)
            .to_socket_addrs()
            .unwrap()
            .map(|address| address.ip().to_string())
            .collect();
        found.sort();
        found.dedup();
        assert_eq!(found, ["198.51.100.1", "198.51.100.2", "2001:db8:0:2::1"]);
    });
}
