//! What was wrong once: each test failed before its cause was mended.

#![allow(clippy::unwrap_used, reason = "a test program")]

mod support;

use std::io::{Read, Write};
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use rustls::{ServerConnection, StreamOwned};
use serde_json::Value;

use support::certificates::{good, server};
use support::files::Directory;
use support::peer::{Peer, drain, read_head, read_some};
use support::run;

#[test]
fn a_large_body_over_tls_arrives_whole_however_fast_it_comes() {
    const BODY: usize = 8 << 20;
    let peer = Peer::tls(server(&good(), &[]), |stream| {
        read_head(stream);
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {BODY}\r\n\r\n");
        let _ = stream.write_all(head.as_bytes());
        let _ = stream.write_all(&vec![b'x'; BODY]);
        drain(stream);
    });
    let sample = sample(&peer, "https", &[]);
    assert_eq!(sample["failure"], Value::Null);
    assert_eq!(sample["http"]["body_bytes"], BODY);
}

/// HTTP/2 frames, as on the wire (RFC 9113 §4.1).
const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
const SETTINGS_ACK: &[u8] = &[0, 0, 0, 4, 1, 0, 0, 0, 0];
/// Status 200, and the end of stream 1.
const HEADERS: &[u8] = &[0, 0, 1, 1, 5, 0, 0, 0, 1, 0x88];

#[test]
fn what_is_sent_while_the_server_thinks_is_not_the_request() {
    let peer = Peer::tls(server(&good(), &["h2"]), |stream| {
        read_some(stream);
        sleep(Duration::from_millis(60));
        let _ = stream.write_all(SETTINGS);
        sleep(Duration::from_millis(60));
        let _ = stream.write_all(&[SETTINGS_ACK, HEADERS].concat());
        drain(stream);
    });
    let sample = sample(&peer, "https", &[]);
    assert_eq!(sample["http"]["status"], 200);
    let wait = at(&sample, "response_start") - at(&sample, "request_end");
    assert!(wait > 110_000_000, "{wait} ns: the client's SETTINGS ack is taken for the request");
}

#[test]
fn a_large_upload_is_no_part_of_the_handshake() {
    const BODY: usize = 8 << 20;
    let directory = Directory::new();
    directory.write("body", vec![b'x'; BODY]);
    let peer = Peer::tls(server(&good(), &[]), |stream| {
        sleep(Duration::from_millis(200));
        read_head(stream);
        let _ = Read::take(&mut *stream, BODY as u64).read_to_end(&mut Vec::new());
        let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n");
        drain(stream);
    });
    let sample = sample_in(&directory, &peer, "https", &["--data-binary", "@body"]);
    assert_eq!(sample["failure"], Value::Null);
    let handshake = at(&sample, "handshake_complete") - at(&sample, "secure_connection_start");
    assert!(handshake < 150_000_000, "{handshake} ns");
    assert!(at(&sample, "request_end") - at(&sample, "request_start") > 150_000_000);
    assert_eq!(sample["marks"]["request_start"]["clock"], "kernel");
}

#[test]
fn nothing_leaves_before_the_servers_flight_is_whole() {
    let config = Arc::new(server(&good(), &[]));
    let peer = Peer::tcp(move |mut tcp| {
        let mut tls = ServerConnection::new(Arc::clone(&config)).unwrap();
        tls.read_tls(&mut tcp).unwrap();
        tls.process_new_packets().unwrap();
        let mut flight = Vec::new();
        while tls.wants_write() {
            tls.write_tls(&mut flight).unwrap();
        }
        let (begin, rest) = flight.split_at(flight.len() - 100);
        let _ = tcp.write_all(begin);
        sleep(Duration::from_millis(50));
        let _ = tcp.write_all(rest);
        let mut stream = StreamOwned::new(tls, tcp);
        read_head(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n");
        drain(&mut stream);
    });
    let sample = sample(&peer, "https", &[]);
    assert_eq!(sample["http"]["status"], 204);
    let flights = sample["flights"].as_array().unwrap().iter();
    let sent: Vec<&Value> = flights.filter(|f| f["direction"] == "sent").collect();
    assert_eq!(sent[1]["messages"][2], "GET / HTTP/1.1", "{sent:?}");
    assert_eq!(sent[1]["chunks"].as_array().map(Vec::len), Some(1));
}

#[test]
fn an_upload_leaves_while_it_is_encrypted() {
    const BODY: usize = 64 << 20;
    let directory = Directory::new();
    directory.write("body", vec![b'x'; BODY]);
    let peer = Peer::tls(server(&good(), &[]), |stream| {
        read_head(stream);
        let _ = std::io::copy(&mut Read::take(&mut *stream, BODY as u64), &mut std::io::sink());
        let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n");
        drain(stream);
    });
    let sample = sample_in(&directory, &peer, "https", &["--data-binary", "@body"]);
    assert_eq!(sample["http"]["status"], 204);
    let handshake = at(&sample, "handshake_complete") - at(&sample, "secure_connection_start");
    let upload = at(&sample, "request_end") - at(&sample, "request_start");
    assert!(4 * handshake < upload, "{handshake} ns of handshake, {upload} ns of upload");
}

#[test]
fn an_upload_that_nobody_reads_fails_while_it_is_sent() {
    let directory = Directory::new();
    directory.write("body", vec![b'x'; 16 << 20]);
    let peer = Peer::tcp(|mut stream| {
        read_head(&mut stream);
        sleep(Duration::from_millis(700));
    });
    let arguments = ["--data-binary", "@body", "--max-time", "0.5"];
    let sample = sample_in(&directory, &peer, "http", &arguments);
    assert_eq!(sample["failure"]["phase"], "send");
    assert_eq!(sample["marks"]["request_end"], Value::Null);
}

#[test]
fn credentials_stay_with_their_origin() {
    let other = Peer::tcp(|mut stream| {
        let leaked = read_head(&mut stream).to_lowercase().contains("secret");
        let status = if leaked { "500 Leaked" } else { "204 No Content" };
        let _ = write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
        drain(&mut stream);
    });
    let port = other.port();
    let first = Peer::tcp(move |mut stream| {
        assert!(read_head(&mut stream).contains("secret"));
        let location = format!("Location: http://127.0.0.1:{port}/");
        let _ = write!(stream, "HTTP/1.1 302 Found\r\n{location}\r\nContent-Length: 0\r\n\r\n");
        drain(&mut stream);
    });
    let arguments = ["-L", "-H", "Authorization: secret", "-H", "Cookie: secret"];
    assert_eq!(sample(&first, "http", &arguments)["http"]["status"], 204);
}

fn at(sample: &Value, mark: &str) -> i64 {
    sample["marks"][mark]["at_ns"].as_i64().unwrap()
}

/// One sample of `/` from `peer`, as its JSON.
fn sample(peer: &Peer, scheme: &str, arguments: &[&str]) -> Value {
    sample_in(&Directory::new(), peer, scheme, arguments)
}

fn sample_in(directory: &Directory, peer: &Peer, scheme: &str, arguments: &[&str]) -> Value {
    let url = format!("{scheme}://127.0.0.1:{}/", peer.port());
    let arguments = [&["--json", "--cacert", "ca.pem"], arguments, &[&url]].concat();
    let outcome = run::firstbyte(directory.path(), &arguments);
    serde_json::from_str(&outcome.stdout).unwrap_or_else(|e| panic!("{e}: {outcome:?}"))
}
