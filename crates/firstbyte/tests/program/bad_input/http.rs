//! Servers that fail at HTTP, and unusable responses.

use std::io::Write;

use super::measured::{
    self, ANSWERED, ANSWERED_TLS, COMPLETE, Curl, REQUESTED, REQUESTED_TLS, Row, Stage,
};
use crate::support::certificates::{good, server};
use crate::support::http2::h2_head;
use crate::support::peer::{Peer, answer, drain, read_head, reset};

/// Answers a request with these bytes, then closes.
fn says(bytes: &'static [u8]) -> Stage {
    Peer::tcp(move |stream| answer(stream, bytes)).into()
}

/// Answers the HTTP/2 preface with these bytes, over TLS.
fn says_h2(bytes: &'static [u8]) -> Stage {
    Peer::tls(server(&good(), &["h2"]), move |stream| {
        let _ = stream.write_all(bytes);
        drain(stream);
    })
    .into()
}

/// A head with `fields` fields of 500 bytes.
fn long_head(fields: usize) -> &'static [u8] {
    let value = "y".repeat(490);
    let fields: String = (0..fields).map(|i| format!("x-{i:05}: {value}\r\n")).collect();
    format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: 0\r\n\r\n").into_bytes().leak()
}

/// Same as `long_head`, over HTTP/2.
fn long_head_h2(fields: usize) -> &'static [u8] {
    h2_head(fields, 490).leak()
}

const URL: &str = "http://127.0.0.1:{port}/";

pub(crate) const ROWS: &[Row] = &[
    Row {
        server: || says(b"220 mail.example ESMTP ready, how are you\r\n"),
        arguments: &[],
        url: URL,
        code: 8,
        cause: "not-http",
        says: "receive: the answer is not HTTP: it begins with \"220 mail.example ESMTP ready, how are you\"",
        marks: ANSWERED,
        curl: Curl::Ends(1, "curl takes an answer without a status line for HTTP/0.9"),
    },
    Row {
        server: || says(b"\x15\x03\x01\x00\x02\x02\x46"),
        arguments: &[],
        url: URL,
        code: 8,
        cause: "not-http",
        says: "receive: the answer is not HTTP: it looks like TLS\n\
               hint: the port answers in TLS: use https://",
        marks: ANSWERED,
        curl: Curl::Ends(1, "curl takes a TLS record for HTTP/0.9"),
    },
    Row {
        server: || says(b"HTTP/1.1 two hundred OK\r\n\r\n"),
        arguments: &[],
        url: URL,
        code: 8,
        cause: "not-http",
        says: "receive: the answer is not HTTP: invalid HTTP status-code \"HTTP/1.1 two hundred OK\"",
        marks: ANSWERED,
        curl: Curl::Ends(1, "curl takes a status without digits for an unknown version"),
    },
    Row {
        server: || says(b"HTTP/1.1 200 OK\r\nno colon in this line\r\n\r\n"),
        arguments: &[],
        url: URL,
        code: 8,
        cause: "not-http",
        says: "receive: the answer is not HTTP: invalid HTTP header \"no colon in this line\"",
        marks: ANSWERED,
        curl: Curl::Same,
    },
    Row {
        server: || says(b"HTTP/1.1 200 OK\r\nContent-Length: five\r\n\r\nhello"),
        arguments: &[],
        url: URL,
        code: 8,
        cause: "not-http",
        says: "receive: the answer is not HTTP: invalid content-length \"Content-Length: five\"",
        marks: ANSWERED,
        curl: Curl::Same,
    },
    Row {
        server: || says(b"HTTP/1.1 200 OK\r\nContent-Len"),
        arguments: &[],
        url: URL,
        code: 18,
        cause: "head-cut-short",
        says: "receive: server closed the connection before the end of the response head",
        marks: ANSWERED,
        curl: Curl::Ends(0, "curl takes a head that is cut short for a whole one"),
    },
    Row {
        server: || says(long_head(800)),
        arguments: &[],
        url: URL,
        code: 56,
        cause: "head-too-large",
        says: "receive: the response head is larger than the limit of 307200 bytes",
        marks: ANSWERED,
        curl: Curl::Same,
    },
    Row {
        server: || says_h2(long_head_h2(3_000)),
        arguments: &["--cacert", "ca.pem"],
        url: "https://127.0.0.1:{port}/",
        code: 56,
        cause: "head-too-large",
        says: "receive: the response head is larger than the limit of 307200 bytes",
        marks: ANSWERED_TLS,
        curl: Curl::Same,
    },
    Row {
        server: || says(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nnot as much"),
        arguments: &[],
        url: URL,
        code: 18,
        cause: "body-cut-short",
        says: "receive: server closed the connection after 11 bytes of the body, before its end",
        marks: ANSWERED,
        curl: Curl::Same,
    },
    Row {
        server: || says(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"),
        arguments: &[],
        url: URL,
        code: 18,
        cause: "body-cut-short",
        says: "receive: server closed the connection after 5 bytes of the body, before its end",
        marks: ANSWERED,
        curl: Curl::Same,
    },
    Row {
        server: || says(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nmany\r\nhello\r\n"),
        arguments: &[],
        url: URL,
        code: 56,
        cause: "bad-transfer-coding",
        says: "receive: the transfer coding of the body is invalid: invalid chunk size line: \
             missing size digit",
        marks: ANSWERED,
        curl: Curl::Same,
    },
    Row {
        server: || {
            Peer::tcp(|mut stream| {
                read_head(&mut stream);
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf").unwrap();
                drain(&mut stream);
            })
            .into()
        },
        arguments: &["--max-time", "0.3"],
        url: URL,
        code: 28,
        cause: "timed-out",
        says: "receive: not finished within 300 ms: the server began to answer, then stopped\n\
               hint: allow more with --max-time TIME",
        marks: ANSWERED,
        curl: Curl::Same,
    },
    Row {
        server: || {
            Peer::tcp(|mut stream| {
                read_head(&mut stream);
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf").unwrap();
                // Give the client time to read the bytes before the reset arrives.
                std::thread::sleep(std::time::Duration::from_millis(50));
                reset(stream);
            })
            .into()
        },
        arguments: &[],
        url: URL,
        code: 56,
        cause: "reset",
        says: "receive: connection reset",
        marks: ANSWERED,
        curl: Curl::Same,
    },
    Row {
        server: || {
            says(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 12\r\n\r\nhello, world")
        },
        arguments: &["--compressed"],
        url: URL,
        code: 61,
        cause: "bad-content-encoding",
        says: "receive: cannot decode the body as gzip: invalid gzip header",
        marks: ANSWERED,
        curl: Curl::Same,
    },
    Row {
        server: || {
            says(
                b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 14\r\n\r\n\
                  \x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xcb\x48\xcd\xc9",
            )
        },
        arguments: &["--compressed"],
        url: URL,
        code: 61,
        cause: "bad-content-encoding",
        says: "receive: cannot decode the body as gzip: the data is cut short, or its checksum is \
             wrong",
        marks: COMPLETE,
        curl: Curl::Ends(0, "curl does not mind the missing end of a gzip body"),
    },
    Row {
        server: || {
            says(b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 5\r\n\r\n\xff\xff\xff\xff\xff")
        },
        arguments: &["--compressed"],
        url: URL,
        code: 61,
        cause: "bad-content-encoding",
        says: "receive: cannot decode the body as br: invalid data",
        marks: ANSWERED,
        curl: Curl::Same,
    },
    Row {
        server: || {
            says(b"HTTP/1.1 200 OK\r\nContent-Encoding: zstd\r\nContent-Length: 5\r\n\r\nhello")
        },
        arguments: &["--compressed"],
        url: URL,
        code: 61,
        cause: "bad-content-encoding",
        says: "receive: cannot decode the body as zstd: unknown frame descriptor",
        marks: ANSWERED,
        curl: Curl::Same,
    },
    Row {
        server: || {
            says(b"HTTP/1.1 200 OK\r\nContent-Encoding: rot13\r\nContent-Length: 5\r\n\r\nuryyb")
        },
        arguments: &["--compressed"],
        url: URL,
        code: 61,
        cause: "bad-content-encoding",
        says: "receive: cannot decode the body as rot13: unknown encoding",
        marks: ANSWERED,
        curl: Curl::Same,
    },
    Row {
        server: || says(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"),
        arguments: &["-f"],
        url: URL,
        code: 22,
        cause: "http-status",
        says: "receive: server answered with status 404",
        marks: COMPLETE,
        curl: Curl::Same,
    },
    Row {
        server: || says(b"HTTP/1.1 302 Found\r\nLocation: /again\r\nContent-Length: 0\r\n\r\n"),
        arguments: &["-L", "--max-redirs", "3"],
        url: URL,
        code: 47,
        cause: "too-many-redirects",
        says: "receive: more than 3 redirects, in a circle of 1 URL\n\
               hint: more redirects do not help: the server redirects in a circle; check scheme, host and \
               final slash of the URL",
        marks: COMPLETE,
        curl: Curl::Same,
    },
    Row {
        server: || {
            says(b"HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n")
        },
        arguments: &["-L"],
        url: URL,
        code: 1,
        cause: "bad-redirect",
        says: "receive: redirect to a URL that is not http or https: file:///etc/passwd",
        marks: COMPLETE,
        curl: Curl::Same,
    },
    Row {
        server: || says(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"),
        arguments: &["-o", "/dev/full"],
        url: URL,
        code: 23,
        cause: "write-output",
        says: "receive: could not write the body to /dev/full: no space left on device",
        marks: ANSWERED,
        curl: Curl::Cannot("it is told to write elsewhere"),
    },
    Row {
        server: || says(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"),
        arguments: &["--http2-prior-knowledge"],
        url: URL,
        code: 16,
        cause: "http2",
        says: "wait: HTTP/2 error: the server answered \"HTTP/1.1 200 OK\"",
        marks: REQUESTED,
        curl: Curl::Ends(52, "the framing layer broke; newer versions of curl say 16"),
    },
    Row {
        server: || says_h2(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
        arguments: &["--cacert", "ca.pem"],
        url: "https://127.0.0.1:{port}/",
        code: 16,
        cause: "http2",
        says: "wait: HTTP/2 error: server violated the protocol: FRAME_SIZE_ERROR",
        marks: REQUESTED_TLS,
        curl: Curl::Ends(52, "the framing layer broke; newer versions of curl say 16"),
    },
    Row {
        // SETTINGS, then GOAWAY with ENHANCE_YOUR_CALM (RFC 9113 §7).
        server: || {
            says_h2(
                b"\0\0\0\x04\0\0\0\0\0\
                  \0\0\x08\x07\0\0\0\0\0\0\0\0\0\0\0\0\x0b",
            )
        },
        arguments: &["--cacert", "ca.pem"],
        url: "https://127.0.0.1:{port}/",
        code: 16,
        cause: "http2",
        says: "wait: HTTP/2 error: server ended the connection with GOAWAY ENHANCE_YOUR_CALM",
        marks: REQUESTED_TLS,
        curl: Curl::Same,
    },
    Row {
        // SETTINGS, then RST_STREAM of stream 1 with REFUSED_STREAM.
        server: || {
            says_h2(
                b"\0\0\0\x04\0\0\0\0\0\
                  \0\0\x04\x03\0\0\0\0\x01\0\0\0\x07",
            )
        },
        arguments: &["--cacert", "ca.pem"],
        url: "https://127.0.0.1:{port}/",
        code: 92,
        cause: "http2-stream",
        says: "wait: HTTP/2 error: server reset the stream with REFUSED_STREAM",
        marks: REQUESTED_TLS,
        curl: Curl::Ends(
            56,
            "curl tries a refused stream five times, then calls the connection dead",
        ),
    },
    Row {
        // SETTINGS, HEADERS ":status: 200" (HPACK 0x88), half of the DATA, RST_STREAM INTERNAL_ERROR.
        server: || {
            says_h2(
                b"\0\0\0\x04\0\0\0\0\0\
                  \0\0\x01\x01\x04\0\0\0\x01\x88\
                  \0\0\x04\0\0\0\0\0\x01half\
                  \0\0\x04\x03\0\0\0\0\x01\0\0\0\x02",
            )
        },
        arguments: &["--cacert", "ca.pem"],
        url: "https://127.0.0.1:{port}/",
        code: 92,
        cause: "http2-stream",
        says: "receive: HTTP/2 error: server reset the stream with INTERNAL_ERROR",
        marks: ANSWERED_TLS,
        curl: Curl::Same,
    },
];

#[test]
fn servers_that_fail_at_http() {
    measured::check(ROWS);
}

#[test]
fn servers_that_fail_at_http_and_curl() {
    measured::check_curl(ROWS);
}
