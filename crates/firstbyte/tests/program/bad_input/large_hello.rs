//! Servers that read one segment and expect a whole ClientHello in it (golang/go#70047). A ClientHello with a key share
//! for X25519MLKEM768 is larger than that.

use std::net::TcpStream;
use std::sync::Arc;

use rustls::{ServerConnection, StreamOwned};
use serde_json::Value;

use crate::support::certificates::{good, server};
use crate::support::files::Directory;
use crate::support::peer::{Peer, answer_tls, drain, read_some, reset};
use crate::support::run::{Outcome, firstbyte};

/// TCP payload of an IPv4 packet of 1,500 bytes with the timestamp option.
const SEGMENT: usize = 1_448;

/// Serves small ClientHellos, and passes others to `otherwise`.
fn reads_one_segment(otherwise: fn(TcpStream)) -> Peer {
    let config = Arc::new(server(&good(), &["http/1.1"]));
    Peer::tcp(move |tcp| {
        // Type, version and length of a TLS record (RFC 8446 §5.1).
        let mut header = [0; 5];
        let peeked = tcp.peek(&mut header).unwrap_or(0);
        let length = u16::from_be_bytes([header[3], header[4]]);
        if peeked < header.len() || header.len() + usize::from(length) > SEGMENT {
            otherwise(tcp);
        } else {
            let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            let response = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
            answer_tls(&mut StreamOwned::new(connection, tcp), response);
        }
    })
}

fn resets(mut stream: TcpStream) {
    read_some(&mut stream);
    reset(stream);
}

fn visit(peer: &Peer, arguments: &[&str]) -> Outcome {
    let directory = Directory::new();
    let url = format!("https://127.0.0.1:{}/", peer.port());
    firstbyte(directory.path(), &[arguments, &["--cacert", "ca.pem", &url]].concat())
}

fn hint(outcome: &Outcome) -> String {
    let sample: Value = serde_json::from_str(&outcome.stdout).unwrap();
    sample["failure"]["hint"].as_str().unwrap_or("(none)").to_owned()
}

#[test]
fn its_size_is_named_where_nothing_comes_back() {
    let outcome = visit(&reads_one_segment(resets), &["--json"]);
    assert_eq!(outcome.code, 35, "{}{}", outcome.stdout, outcome.stderr);
    let said = hint(&outcome);
    assert!(said.starts_with("the ClientHello is larger than a segment (14"), "{said}");
    assert!(said.contains("X25519MLKEM768"), "{said}");
    assert!(said.ends_with("try --curves x25519"), "{said}");

    let silent = reads_one_segment(|mut stream| drain(&mut stream));
    let outcome = visit(&silent, &["--json", "-m", "1"]);
    assert_eq!(outcome.code, 28, "{}{}", outcome.stdout, outcome.stderr);
    let said = hint(&outcome);
    assert!(said.contains("try --curves x25519, or allow more with --max-time"), "{said}");
}

#[test]
fn a_smaller_one_gets_through() {
    let outcome = visit(&reads_one_segment(resets), &["--curves", "x25519"]);
    assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
}

#[test]
fn explain_names_the_cause_and_its_cost() {
    let outcome = visit(&reads_one_segment(resets), &["explain", "-n", "3"]);
    assert_eq!(outcome.code, 35, "{}{}", outcome.stdout, outcome.stderr);
    let said = &outcome.stderr;
    assert!(said.contains("the cause is the size of the ClientHello: with 14"), "{said}");
    assert!(said.contains("a visit fails after") && said.contains("it succeeds in"), "{said}");
    assert!(said.contains("--curves x25519"), "{said}");

    // If the smaller ClientHello fails too, size is not the cause.
    let outcome = visit(&Peer::tcp(resets), &["explain", "-n", "3"]);
    assert!(!outcome.stderr.contains("the cause is"), "{}", outcome.stderr);
}
