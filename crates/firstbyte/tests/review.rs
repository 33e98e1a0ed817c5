//! What was wrong once: each test failed before its cause was mended.

#![allow(clippy::unwrap_used, reason = "a test program")]

mod support;

use std::io::Write;

use serde_json::Value;

use support::certificates::{good, server};
use support::files::Directory;
use support::peer::{Peer, drain, read_head};
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

/// One sample of `/` from `peer`, as its JSON.
fn sample(peer: &Peer, scheme: &str, arguments: &[&str]) -> Value {
    let directory = Directory::new();
    let url = format!("{scheme}://127.0.0.1:{}/", peer.port());
    let arguments = [&["--json", "--cacert", "ca.pem"], arguments, &[&url]].concat();
    let outcome = run::firstbyte(directory.path(), &arguments);
    serde_json::from_str(&outcome.stdout).unwrap_or_else(|e| panic!("{e}: {outcome:?}"))
}
