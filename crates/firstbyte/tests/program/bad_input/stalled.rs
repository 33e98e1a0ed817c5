//! Servers that fall silent: earlier results are kept, and the wait is not attributed to anybody's work.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConnection;
use rustls::version::{TLS12, TLS13};
use serde_json::Value;

use crate::support::certificates::{good, server, versions};
use crate::support::files::Directory;
use crate::support::http2::SETTINGS;
use crate::support::peer::{Peer, drain, read_head, read_some};
use crate::support::run::firstbyte;

const LIMIT: &str = "2.5";
/// Minimum part of `LIMIT` that is spent waiting.
const WAITED_NS: u64 = 1_500_000_000;
/// Maximum for every other part, on a busy machine.
const REST_NS: u64 = 800_000_000;

fn sample(peer: &Peer, arguments: &[&str]) -> Value {
    let directory = Directory::new();
    let url = format!("https://127.0.0.1:{}/", peer.port());
    let words = [&["--json", "--cacert", "ca.pem", "-m", LIMIT, &url], arguments].concat();
    let outcome = firstbyte(directory.path(), &words);
    assert_eq!(outcome.code, 28, "{}{}", outcome.stdout, outcome.stderr);
    serde_json::from_str(&outcome.stdout).unwrap()
}

/// Asserts that the wait is unexplained, the fault is the server's, and the message says what the server did.
fn assert_silence(sample: &Value, phase: &str, said: &str) {
    let failure = &sample["failure"];
    assert_eq!(
        (&failure["phase"], &failure["fault"]),
        (&phase.into(), &"peer".into()),
        "{failure}"
    );
    assert!(failure["message"].as_str().unwrap().ends_with(said), "{failure}");
    let parts = &sample["split"]["parts"];
    let part = |name: &str| parts[name].as_u64().unwrap();
    assert!(part("unexplained_ns") > WAITED_NS, "{parts}");
    assert!(part("client_ns") < REST_NS, "{parts}");
    assert!(part("server_ns") + part("transfer_ns") + part("pause_ns") < REST_NS, "{parts}");
}

const STOPPED: &str = ": the server began to answer, then stopped";
const SILENT: &str = ": the server received the data but did not answer";

#[test]
fn in_the_middle_of_a_server_hello() {
    let peer = Peer::tcp(|mut stream| {
        read_some(&mut stream);
        stream.write_all(b"\x16\x03\x03\x00\x7a\x02\x00\x00\x76\x03\x03\x11").unwrap();
        drain(&mut stream);
    });
    assert_silence(&sample(&peer, &[]), "tls", STOPPED);
}

/// The server's first flight of TLS 1.2 contains version, suite and certificate; its last flight never comes.
#[test]
fn in_the_middle_of_a_handshake() {
    let config = Arc::new(versions(&good(), &[], &[&TLS12]));
    let peer = Peer::tcp(move |mut stream| {
        let mut connection = ServerConnection::new(Arc::clone(&config)).unwrap();
        connection.read_tls(&mut stream).unwrap();
        connection.process_new_packets().unwrap();
        while connection.wants_write() {
            connection.write_tls(&mut stream).unwrap();
        }
        drain(&mut stream);
    });
    let sample = sample(&peer, &["--tls-max", "1.2", "--curves", "P-256"]);
    assert_silence(&sample, "tls", SILENT);
    let tls = &sample["tls"];
    assert_eq!((&tls["version"], &tls["verified"]), (&"TLSv1.2".into(), &true.into()), "{tls}");
    assert!(tls["cipher_suite"].as_str().unwrap().starts_with("TLS_ECDHE_"), "{tls}");
    assert_eq!(tls["certificates"].as_array().unwrap().len(), 1);
}

#[test]
fn before_the_response() {
    let peer = Peer::tls(versions(&good(), &[], &[&TLS13]), |stream| {
        read_head(stream);
        drain(stream);
    });
    let sample = sample(&peer, &[]);
    assert_silence(&sample, "wait", SILENT);
    assert_eq!(
        (&sample["tls"]["version"], &sample["tls"]["handshake"]),
        (&"TLSv1.3".into(), &"full".into())
    );
    assert!(sample["http"]["request_bytes"].as_u64().unwrap() > 0);
    assert!(sample["http"]["body_bytes"].is_null());
}

#[test]
fn after_the_head() {
    let peer = Peer::tls(server(&good(), &[]), |stream| {
        read_head(stream);
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf").unwrap();
        drain(stream);
    });
    let sample = sample(&peer, &[]);
    assert_silence(&sample, "receive", STOPPED);
    let http = &sample["http"];
    assert_eq!((&http["status"], &http["body_bytes"]), (&200.into(), &4.into()), "{http}");
    assert_eq!(http["header_bytes"], 38, "{http}");
    assert_eq!(sample["tls"]["version"], "TLSv1.3");
    let directory = Directory::new();
    let url = format!("https://127.0.0.1:{}/", peer.port());
    let words = ["-w", "%{size_download} %{size_header}", "--cacert", "ca.pem", "-m", LIMIT, &url];
    assert_eq!(firstbyte(directory.path(), &words).stdout, "4 38");
}

#[test]
fn with_settings_and_no_response() {
    let peer = Peer::tls(server(&good(), &["h2"]), |stream| {
        while stream.write_all(SETTINGS).and_then(|()| stream.flush()).is_ok() {
            // Often enough that no silence looks like a stall, and rarely enough that reading causes no load.
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    assert_silence(&sample(&peer, &[]), "wait", SILENT);
}

/// A server whose response takes longer than the limit allows is not at fault.
#[test]
fn a_response_that_still_arrives_is_no_silence() {
    let peer = Peer::tls(server(&good(), &[]), |stream| {
        read_head(stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\n");
        while stream.write_all(&[b'x'; 1_000]).and_then(|()| stream.flush()).is_ok() {
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    let sample = sample(&peer, &[]);
    let failure = &sample["failure"];
    let said = "not finished within 2.5 s: the response was still arriving";
    assert_eq!((&failure["fault"], &failure["message"]), (&"configuration".into(), &said.into()));
    assert!(sample["http"]["body_bytes"].as_u64().unwrap() >= 1_000);
}

/// If the limit ends shortly after the last byte arrived, silence is nobody's fault.
#[test]
fn a_limit_that_leaves_no_time_for_an_answer_blames_nobody() {
    let peer = Peer::tcp(|mut stream| drain(&mut stream));
    let directory = Directory::new();
    let url = format!("https://127.0.0.1:{}/", peer.port());
    for (limit, shown) in [("0.0005", "500 µs"), ("0.02", "20 ms")] {
        let outcome = firstbyte(directory.path(), &["--json", "-m", limit, &url]);
        let sample: Value = serde_json::from_str(&outcome.stdout).unwrap();
        let failure = &sample["failure"];
        let said = format!("not finished within {shown}: the limit left no time for an answer");
        assert_eq!(
            (&failure["fault"], &failure["message"]),
            (&"configuration".into(), &said.into()),
            "{failure}"
        );
    }
}
