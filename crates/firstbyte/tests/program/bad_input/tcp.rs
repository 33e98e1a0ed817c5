//! Servers that fail at TCP, or before a response.

use std::net::Shutdown;

use super::measured::{self, Curl, IN_TLS, NOTHING, REQUESTED, Row, TRIED};
use crate::support::peer::{Peer, drain, read_head, read_some, reset};

pub(crate) const ROWS: &[Row] = &[
    Row {
        server: || Peer::closed().into(),
        arguments: &[],
        url: "https://127.0.0.1:{port}/",
        code: 7,
        cause: "refused",
        says: "connect: connection refused by 127.0.0.1:{port}\n\
               hint: nothing listens on port {port}, or a firewall rejects the connection",
        marks: TRIED,
        curl: Curl::Same,
    },
    Row {
        server: || Peer::silent().into(),
        arguments: &["--connect-timeout", "0.2"],
        url: "https://127.0.0.1:{port}/",
        code: 28,
        cause: "connect-timed-out",
        says: "connect: no answer from 127.0.0.1:{port} within 200 ms\nhint: the SYN was never \
               answered: a firewall drops it, or the host is down",
        marks: TRIED,
        curl: Curl::Same,
    },
    Row {
        server: || Peer::silent().into(),
        arguments: &["--max-time", "0.2"],
        url: "http://127.0.0.1:{port}/",
        code: 28,
        cause: "timed-out",
        says: "connect: not finished within 200 ms\n\
               hint: allow more with --max-time TIME",
        marks: TRIED,
        curl: Curl::Same,
    },
    Row {
        server: || Peer::closed().into(),
        arguments: &["--interface", "no-such-device"],
        url: "http://127.0.0.1:{port}/",
        code: 45,
        cause: "socket-setup",
        says: "connect: could not set up the socket: --interface no-such-device: no such device",
        marks: TRIED,
        curl: Curl::Same,
    },
    Row {
        server: || Peer::closed().into(),
        arguments: &["--interface", "192.0.2.1"],
        url: "http://127.0.0.1:{port}/",
        code: 45,
        cause: "socket-setup",
        says: "connect: could not set up the socket: --interface 192.0.2.1: cannot assign requested address",
        marks: TRIED,
        curl: Curl::Same,
    },
    Row {
        server: || Peer::closed().into(),
        arguments: &["--interface", "::1"],
        url: "http://127.0.0.1:{port}/",
        code: 45,
        cause: "socket-setup",
        says: "connect: could not set up the socket: --interface ::1: address family not supported by protocol",
        marks: TRIED,
        curl: Curl::Ends(
            7,
            "an IPv6 address to leave from, an IPv4 address to reach: curl blames the latter",
        ),
    },
    Row {
        server: || Peer::closed().into(),
        arguments: &["-6"],
        url: "http://127.0.0.1:{port}/",
        code: 6,
        cause: "no-addresses",
        says: "resolve: 127.0.0.1 has no IPv6 address\n\
               hint: try without the flag that forces IPv6",
        marks: NOTHING,
        curl: Curl::Ends(7, "`-6` with an IPv4 address: curl looks for no other"),
    },
    Row {
        server: || Peer::tcp(|mut stream| drain(&mut stream)).into(),
        arguments: &["--connect-timeout", "0.2", "--curves", "X25519"],
        url: "https://127.0.0.1:{port}/",
        code: 28,
        cause: "timed-out",
        says: "tls: not finished within 200 ms: the server received the data but did not answer\n\
               hint: allow more with --connect-timeout TIME",
        marks: IN_TLS,
        curl: Curl::Same,
    },
    Row {
        server: || Peer::tcp(|mut stream| drain(&mut stream)).into(),
        arguments: &["--max-time", "0.2", "--curves", "X25519"],
        url: "https://127.0.0.1:{port}/",
        code: 28,
        cause: "timed-out",
        says: "tls: not finished within 200 ms: the server received the data but did not answer\n\
               hint: allow more with --max-time TIME",
        marks: IN_TLS,
        curl: Curl::Same,
    },
    Row {
        server: || Peer::tcp(|mut stream| drain(&mut stream)).into(),
        arguments: &["--max-time", "0.2"],
        url: "http://127.0.0.1:{port}/",
        code: 28,
        cause: "timed-out",
        says: "wait: not finished within 200 ms: the server received the data but did not answer\n\
               hint: allow more with --max-time TIME",
        marks: REQUESTED,
        curl: Curl::Same,
    },
    Row {
        server: || {
            Peer::tcp(|mut stream| {
                stream.shutdown(Shutdown::Write).unwrap();
                drain(&mut stream);
            })
            .into()
        },
        arguments: &["--curves", "X25519"],
        url: "https://127.0.0.1:{port}/",
        code: 35,
        cause: "closed-in-handshake",
        says: "tls: server closed the connection during the handshake",
        marks: IN_TLS,
        curl: Curl::Same,
    },
    Row {
        server: || {
            Peer::tcp(|mut stream| {
                read_some(&mut stream);
                reset(stream);
            })
            .into()
        },
        arguments: &["--curves", "X25519"],
        url: "https://127.0.0.1:{port}/",
        code: 35,
        cause: "reset-in-handshake",
        says: "tls: connection reset during the handshake",
        marks: IN_TLS,
        curl: Curl::Same,
    },
    Row {
        server: || {
            Peer::tcp(|mut stream| {
                read_head(&mut stream);
            })
            .into()
        },
        arguments: &[],
        url: "http://127.0.0.1:{port}/",
        code: 52,
        cause: "closed-before-response",
        says: "wait: server closed the connection without a response",
        marks: REQUESTED,
        curl: Curl::Same,
    },
    Row {
        server: || {
            Peer::tcp(|mut stream| {
                read_head(&mut stream);
                reset(stream);
            })
            .into()
        },
        arguments: &[],
        url: "http://127.0.0.1:{port}/",
        code: 56,
        cause: "reset",
        says: "wait: connection reset",
        marks: REQUESTED,
        curl: Curl::Same,
    },
];

#[test]
fn servers_that_fail_at_tcp() {
    measured::check(ROWS);
}

#[test]
fn servers_that_fail_at_tcp_and_curl() {
    measured::check_curl(ROWS);
}
