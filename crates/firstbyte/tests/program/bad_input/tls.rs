//! Servers that fail at TLS, other than by their certificate.

use std::io::Write;
use std::sync::Arc;

use rustls::ServerConnection;
use rustls::version::{TLS12, TLS13};

use super::measured::{self, Curl, IN_TLS, REQUESTED_TLS, Row, Stage};
use crate::support::certificates::{good, server, versions, wants_client_certificate};
use crate::support::peer::{Peer, answer_tls, drain, read_head, read_some, send};

/// The first bytes of a ServerHello that announces more.
const HALF_A_SERVER_HELLO: &[u8] =
    b"\x16\x03\x03\x00\x7a\x02\x00\x00\x76\x03\x03\x11\x22\x33\x44\x55\x66";
/// handshake_failure(40), fatal (RFC 8446 §6).
const HANDSHAKE_FAILURE: &[u8] = b"\x15\x03\x03\x00\x02\x02\x28";
/// internal_error(80), fatal.
const INTERNAL_ERROR: &[u8] = b"\x15\x03\x03\x00\x02\x02\x50";
/// unrecognized_name(112), fatal (RFC 6066 §3).
const UNRECOGNIZED_NAME: &[u8] = b"\x15\x03\x03\x00\x02\x02\x70";
/// A well-formed record, with a message that no server sends first.
const FINISHED_FIRST: &[u8] = b"\x16\x03\x03\x00\x08\x14\x00\x00\x04abcd";

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// Answers a ClientHello with these bytes, then closes.
fn says(bytes: &'static [u8]) -> Stage {
    Peer::tcp(move |mut stream| {
        read_some(&mut stream);
        send(&mut stream, bytes);
    })
    .into()
}

const HANDSHAKE_FAILURE_40: u8 = 40;

/// A TLS 1.2 server that wants a client certificate, and ends with this alert if it gets no acceptable one, as OpenSSL
/// does with handshake_failure.
fn refuses_with(alert: u8) -> Stage {
    let config = Arc::new(wants_client_certificate(&TLS12));
    Peer::tcp(move |mut stream| {
        let mut connection = ServerConnection::new(Arc::clone(&config)).unwrap();
        loop {
            if !connection.read_tls(&mut stream).is_ok_and(|bytes| bytes > 0) {
                return;
            }
            let failed = connection.process_new_packets().is_err();
            let mut out = Vec::new();
            while connection.wants_write() {
                connection.write_tls(&mut out).unwrap();
            }
            if failed {
                *out.last_mut().unwrap() = alert;
            }
            let _ = stream.write_all(&out);
            if failed {
                drain(&mut stream);
                return;
            }
        }
    })
    .into()
}

pub(crate) const ROWS: &[Row] = &[
    Row {
        server: || says(b"\x00\x01\x02\x03 this is noise, and nothing but noise"),
        arguments: &[],
        url: "https://127.0.0.1:{port}/",
        code: 35,
        cause: "not-tls",
        says: "tls: the answer is not TLS\nhint: check the port",
        marks: IN_TLS,
        curl: Curl::Same,
    },
    Row {
        server: || says(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"),
        arguments: &[],
        url: "https://127.0.0.1:{port}/",
        code: 35,
        cause: "not-tls",
        says: "tls: the server at 127.0.0.1:{port} speaks plain HTTP, not TLS\n\
               hint: try http://127.0.0.1:{port}/",
        marks: IN_TLS,
        curl: Curl::Same,
    },
    Row {
        server: || says(b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n"),
        arguments: &[],
        url: "https://127.0.0.1:{port}/",
        code: 35,
        cause: "not-tls",
        says: "tls: the answer is not TLS but looks like SSH\nhint: check the port",
        marks: IN_TLS,
        curl: Curl::Same,
    },
    Row {
        server: || says(b"220 mail.example ESMTP\r\n"),
        arguments: &[],
        url: "https://127.0.0.1:{port}/",
        code: 35,
        cause: "not-tls",
        says: "tls: the answer is not TLS but looks like SMTP or FTP\n\
               hint: check the port",
        marks: IN_TLS,
        curl: Curl::Same,
    },
    Row {
        server: || says(HALF_A_SERVER_HELLO),
        arguments: &[],
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
                stream.write_all(HALF_A_SERVER_HELLO).unwrap();
                drain(&mut stream);
            })
            .into()
        },
        arguments: &["--connect-timeout", "0.2"],
        url: "https://127.0.0.1:{port}/",
        code: 28,
        cause: "timed-out",
        says: "tls: not finished within 200 ms: the server began to answer, then stopped\n\
               hint: allow more with --connect-timeout TIME",
        marks: IN_TLS,
        curl: Curl::Same,
    },
    Row {
        server: || says(FINISHED_FIRST),
        arguments: &[],
        url: "https://127.0.0.1:{port}/",
        code: 35,
        cause: "tls-misbehaved",
        says: "tls: server violated the TLS protocol: received unexpected handshake message: got \
             Finished when expecting ServerHello or HelloRetryRequest",
        marks: IN_TLS,
        curl: Curl::Same,
    },
    Row {
        server: || says(HANDSHAKE_FAILURE),
        arguments: &[],
        url: "https://127.0.0.1:{port}/",
        code: 35,
        cause: "no-common-parameters",
        says: "tls: no TLS parameters in common: server sent the alert handshake_failure; offered were \
               ECDHE with AES-GCM or ChaCha20 (no RSA key exchange, no CBC) and the groups X25519MLKEM768, \
               X25519, secp256r1, secp384r1\n\
               hint: --client curl measures servers that have RSA key exchange or CBC alone; where it \
               fails too, the server's log says what it wants",
        marks: IN_TLS,
        curl: Curl::Same,
    },
    Row {
        server: || says(INTERNAL_ERROR),
        arguments: &[],
        url: "https://127.0.0.1:{port}/",
        code: 35,
        cause: "tls-alert",
        says: "tls: server sent the TLS alert internal_error",
        marks: IN_TLS,
        curl: Curl::Same,
    },
    Row {
        server: || says(UNRECOGNIZED_NAME),
        arguments: &["--resolve", "b.test:{port}:127.0.0.1"],
        url: "https://b.test:{port}/",
        code: 35,
        cause: "tls-alert",
        says: "tls: server sent the TLS alert unrecognized_name",
        marks: IN_TLS,
        curl: Curl::Same,
    },
    Row {
        server: || Peer::tls(versions(&good(), &[], &[&TLS12]), |s| answer_tls(s, OK)).into(),
        arguments: &["--cacert", "ca.pem", "--tlsv1.3"],
        url: "https://127.0.0.1:{port}/",
        code: 35,
        cause: "protocol-version-refused",
        says: "tls: server refused the TLS version (TLS 1.3 offered)\n\
               hint: drop --tlsv1.3 to offer TLS 1.2 too",
        marks: IN_TLS,
        curl: Curl::Same,
    },
    Row {
        server: || Peer::tls(versions(&good(), &[], &[&TLS13]), |s| answer_tls(s, OK)).into(),
        arguments: &["--cacert", "ca.pem", "--tls-max", "1.2"],
        url: "https://127.0.0.1:{port}/",
        code: 35,
        cause: "protocol-version-refused",
        says: "tls: server refused the TLS version (TLS 1.2 offered)\n\
               hint: drop --tls-max to offer TLS 1.3 too",
        marks: IN_TLS,
        curl: Curl::Same,
    },
    Row {
        server: || Peer::tls(server(&good(), &["foo"]), |s| answer_tls(s, OK)).into(),
        arguments: &["--cacert", "ca.pem"],
        url: "https://127.0.0.1:{port}/",
        code: 35,
        cause: "alpn-mismatch",
        says: "tls: server supports none of the protocols offered by ALPN (h2, http/1.1)",
        marks: IN_TLS,
        curl: Curl::Same,
    },
    Row {
        server: || Peer::tls(server(&good(), &["h2"]), |s| answer_tls(s, OK)).into(),
        arguments: &["--cacert", "ca.pem", "--http1.1"],
        url: "https://127.0.0.1:{port}/",
        code: 35,
        cause: "alpn-mismatch",
        says: "tls: server supports none of the protocols offered by ALPN (http/1.1)\n\
               hint: drop --http1.1 to offer HTTP/2 too",
        marks: IN_TLS,
        curl: Curl::Same,
    },
    Row {
        server: || Peer::tls(server(&good(), &["http/1.1"]), |s| answer_tls(s, OK)).into(),
        arguments: &["--cacert", "ca.pem", "--http2-prior-knowledge"],
        url: "https://127.0.0.1:{port}/",
        code: 35,
        cause: "alpn-mismatch",
        says: "tls: server supports none of the protocols offered by ALPN (h2)\n\
               hint: drop --http2-prior-knowledge to offer HTTP/1.1 too",
        marks: IN_TLS,
        curl: Curl::Ends(
            0,
            "`--http2-prior-knowledge` over TLS: curl speaks HTTP/1.1 if the server chose that",
        ),
    },
    Row {
        server: || Peer::tls(server(&good(), &[]), |s| answer_tls(s, OK)).into(),
        arguments: &["--cacert", "ca.pem", "--http2-prior-knowledge"],
        url: "https://127.0.0.1:{port}/",
        code: 35,
        cause: "alpn-mismatch",
        says: "tls: server supports none of the protocols offered by ALPN (h2)\n\
               hint: drop --http2-prior-knowledge to offer HTTP/1.1 too",
        marks: IN_TLS,
        curl: Curl::Ends(
            52,
            "`--http2-prior-knowledge` over TLS: curl speaks HTTP/2 to a server that chose nothing",
        ),
    },
    Row {
        server: || Peer::tls(wants_client_certificate(&TLS13), |s| answer_tls(s, OK)).into(),
        arguments: &["--cacert", "ca.pem"],
        url: "https://127.0.0.1:{port}/",
        code: 98,
        cause: "client-certificate-required",
        says: "wait: server requires a client certificate\n\
               hint: pass one with --cert FILE --key FILE",
        marks: REQUESTED_TLS,
        curl: Curl::Ends(56, "in TLS 1.3 the alert comes after the handshake"),
    },
    Row {
        server: || Peer::tls(wants_client_certificate(&TLS12), |s| answer_tls(s, OK)).into(),
        arguments: &["--cacert", "ca.pem"],
        url: "https://127.0.0.1:{port}/",
        code: 98,
        cause: "client-certificate-required",
        says: "tls: server requires a client certificate\n\
               hint: pass one with --cert FILE --key FILE",
        marks: IN_TLS,
        curl: Curl::Same,
    },
    Row {
        server: || refuses_with(HANDSHAKE_FAILURE_40),
        arguments: &["--cacert", "ca.pem"],
        url: "https://127.0.0.1:{port}/",
        code: 98,
        cause: "client-certificate-required",
        says: "tls: server requires a client certificate\n\
               hint: pass one with --cert FILE --key FILE",
        marks: IN_TLS,
        curl: Curl::Ends(35, "before TLS 1.3, OpenSSL's alert does not name the missing part"),
    },
    Row {
        server: || refuses_with(HANDSHAKE_FAILURE_40),
        arguments: &["--cacert", "ca.pem", "--cert", "stranger.pem"],
        url: "https://127.0.0.1:{port}/",
        code: 58,
        cause: "client-certificate-refused",
        says: "tls: server refused the client certificate (alert handshake_failure)\n\
               hint: pass one that the server trusts with --cert FILE --key FILE",
        marks: IN_TLS,
        curl: Curl::Ends(35, "before TLS 1.3, OpenSSL's alert does not name the missing part"),
    },
    Row {
        server: || Peer::tls(wants_client_certificate(&TLS13), |s| answer_tls(s, OK)).into(),
        arguments: &["--cacert", "ca.pem", "--cert", "stranger.pem"],
        url: "https://127.0.0.1:{port}/",
        code: 58,
        cause: "client-certificate-refused",
        says: "wait: server refused the client certificate (alert unknown_ca)\n\
               hint: pass one that the server trusts with --cert FILE --key FILE",
        marks: REQUESTED_TLS,
        curl: Curl::Ends(56, "in TLS 1.3 the alert comes after the handshake"),
    },
    Row {
        server: || {
            Peer::tls(server(&good(), &[]), |stream| {
                read_head(stream);
                stream.conn.send_close_notify();
                let _ = stream.conn.complete_io(&mut stream.sock);
            })
            .into()
        },
        arguments: &["--cacert", "ca.pem"],
        url: "https://127.0.0.1:{port}/",
        code: 52,
        cause: "closed-before-response",
        says: "wait: server closed the connection without a response",
        marks: REQUESTED_TLS,
        curl: Curl::Same,
    },
    Row {
        server: || {
            Peer::tls(server(&good(), &[]), |stream| {
                read_head(stream);
                send(&mut stream.sock, b"");
            })
            .into()
        },
        arguments: &["--cacert", "ca.pem"],
        url: "https://127.0.0.1:{port}/",
        code: 52,
        cause: "closed-before-response",
        says: "wait: server closed the connection without a response",
        marks: REQUESTED_TLS,
        curl: Curl::Same,
    },
    Row {
        server: || {
            Peer::tls(server(&good(), &["h2"]), |stream| {
                drain(stream);
            })
            .into()
        },
        arguments: &["--cacert", "ca.pem", "--max-time", "0.3"],
        url: "https://127.0.0.1:{port}/",
        code: 28,
        cause: "timed-out",
        says: "wait: not finished within 300 ms: the server received the data but did not answer\n\
               hint: allow more with --max-time TIME",
        marks: REQUESTED_TLS,
        curl: Curl::Same,
    },
];

#[test]
fn servers_that_fail_at_tls() {
    measured::check(ROWS);
}

#[test]
fn servers_that_fail_at_tls_and_curl() {
    measured::check_curl(ROWS);
}
