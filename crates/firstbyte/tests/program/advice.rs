//! The messages and hints for bad servers seen in practice: the rows of `docs/bad-cases.md`, from the program itself.

use std::any::Any;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use aws_lc_rs::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use flate2::Compression;
use flate2::write::GzEncoder;
use rcgen::{SanType, date_time_ymd};
use rustls::{ConnectionTrafficSecrets, ServerConnection};
use serde_json::Value;
use socket2::{Domain, Socket, Type};

use crate::support::certificates::{TRUSTED, good, server, with_open_keys};
use crate::support::dns::{Answer, DnsServer};
use crate::support::files::Directory;
use crate::support::http2::SETTINGS;
use crate::support::peer::{Peer, answer, drain, read_head, read_some, reset, send};
use crate::support::run::firstbyte;

/// A server, with the message and the hint expected for it.
struct AdviceRow {
    /// The case's name in `docs/bad-cases.md`.
    case: &'static str,
    server: fn() -> RunningServer,
    arguments: &'static [&'static str],
    url: &'static str,
    code: i32,
    /// Words that the output must contain.
    says: &'static [&'static str],
}

/// A running server, and its port, which replaces `{port}` in texts.
struct RunningServer(u16, Box<dyn Any>);

fn running(peer: Peer) -> RunningServer {
    RunningServer(peer.port(), Box::new(peer))
}

fn says(bytes: impl Into<Vec<u8>>) -> RunningServer {
    let bytes = bytes.into();
    running(Peer::tcp(move |stream| answer(stream, &bytes)))
}

/// A server whose certificate was issued by an intermediate; `sends` says whether it sends the intermediate too.
fn behind_an_intermediate(expires: i32, sends: bool) -> RunningServer {
    let (mut identity, intermediate) = TRUSTED.issue_through_another(&["127.0.0.1"], |params| {
        params.not_after = date_time_ymd(expires, 1, 1);
    });
    if sends {
        identity.chain_pem += &intermediate;
    }
    running(Peer::tls(server(&identity, &[]), drain))
}

/// A server with a certificate for 500 names.
fn for_many() -> RunningServer {
    let names: Vec<String> = (0..500).map(|n| format!("host{n}.test")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    running(Peer::tls(server(&TRUSTED.issue(&names, |_| ()), &[]), drain))
}

/// A server whose certificate contains its address as a DNS name.
fn address_as_name() -> RunningServer {
    let identity = TRUSTED.issue(&[], |params| {
        params.subject_alt_names = vec![SanType::DnsName("127.0.0.1".try_into().unwrap())];
    });
    running(Peer::tls(server(&identity, &[]), drain))
}

/// A server that asks for renegotiation when it has the request, and closes the connection when that is refused.
fn renegotiates() -> RunningServer {
    let config = Arc::new(with_open_keys(&good()));
    running(Peer::tcp(move |mut tcp| {
        let mut connection = ServerConnection::new(Arc::clone(&config)).unwrap();
        while connection.is_handshaking() {
            connection.complete_io(&mut tcp).unwrap();
        }
        while connection.wants_write() {
            connection.write_tls(&mut tcp).unwrap();
        }
        let (mut sequence, keys) = connection.dangerous_extract_secrets().unwrap().tx;
        let ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } = keys else { panic!("keys") };
        let key = LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, key.as_ref()).unwrap());
        read_some(&mut tcp);
        // HelloRequest; the alert handshake_failure.
        for (content_type, plain) in [(22, &[0, 0, 0, 0][..]), (21, &[2, 40])] {
            let record = sealed(&key, iv.as_ref(), sequence, content_type, plain);
            tcp.write_all(&record).unwrap();
            sequence += 1;
        }
        drain(&mut tcp);
    }))
}

/// Seals a TLS 1.2 record (RFC 7905 §2, RFC 5246 §6.2.3.3).
fn sealed(key: &LessSafeKey, iv: &[u8], sequence: u64, content_type: u8, plain: &[u8]) -> Vec<u8> {
    let mut nonce: [u8; 12] = iv.try_into().unwrap();
    for (byte, number) in nonce[4..].iter_mut().zip(sequence.to_be_bytes()) {
        *byte ^= number;
    }
    let length = u16::try_from(plain.len()).unwrap();
    let head = [&sequence.to_be_bytes()[..], &[content_type, 3, 3], &length.to_be_bytes()].concat();
    let mut payload = plain.to_vec();
    let nonce = Nonce::assume_unique_for_key(nonce);
    key.seal_in_place_append_tag(nonce, Aad::from(head), &mut payload).unwrap();
    let length = u16::try_from(payload.len()).unwrap();
    [&[content_type, 3, 3][..], &length.to_be_bytes(), &payload].concat()
}

/// Answers a ClientHello with an alert, and resets all other connections.
fn speaks_tls() -> RunningServer {
    running(Peer::tcp(|mut stream| {
        let mut first = [0];
        let _ = stream.read(&mut first);
        match first {
            [0x16] => send(&mut stream, b"\x15\x03\x03\x00\x02\x02\x46"),
            _ => reset(stream),
        }
    }))
}

/// An HTTP/2 frame with this payload (RFC 9113 §4.1).
fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).unwrap();
    [&[0, 0, length, kind, flags, 0, 0, 0, stream][..], payload].concat()
}

/// Answers over HTTP/2 with these frames, then closes the connection.
fn says_h2(frames: &[Vec<u8>]) -> RunningServer {
    let bytes = [SETTINGS, &frames.concat()].concat();
    running(Peer::tls(server(&good(), &["h2"]), move |stream| {
        read_some(stream);
        let _ = stream.write_all(&bytes);
        let _ = stream.sock.shutdown(Shutdown::Write);
        drain(&mut stream.sock);
    }))
}

/// A server with a small receive buffer.
fn with_small_window(behave: impl Fn(TcpStream) + Send + Sync + 'static) -> RunningServer {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(16 * 1024).unwrap();
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
    socket.listen(4).unwrap();
    running(Peer::listening(TcpListener::from(socket), behave))
}

/// Reads only the request's head, and answers while the body is still being sent.
fn answers_early() -> RunningServer {
    with_small_window(|mut stream| {
        read_head(&mut stream);
        let head =
            "HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 4\r\n\r\nbig\n";
        let _ = stream.write_all(head.as_bytes());
        // If it closed at once, the connection would be reset before the answer is read.
        thread::sleep(Duration::from_millis(300));
    })
}

fn gzip_and_more() -> RunningServer {
    let mut body = GzEncoder::new(Vec::new(), Compression::default());
    body.write_all(b"hello").unwrap();
    let body = [&body.finish().unwrap()[..], b"bytes"].concat();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    says([head.as_bytes(), &body].concat())
}

const HTTPS: &str = "https://127.0.0.1:{port}/";
const HTTP: &str = "http://127.0.0.1:{port}/";

const ROWS: &[AdviceRow] = &[
    AdviceRow {
        case: "RSA or CBC only",
        server: || {
            running(Peer::tcp(|mut stream| {
                read_some(&mut stream);
                send(&mut stream, b"\x15\x03\x03\x00\x02\x02\x28");
            }))
        },
        arguments: &[],
        url: HTTPS,
        code: 35,
        says: &[
            "offered were ECDHE with AES-GCM or ChaCha20 (no RSA key exchange, no CBC) and the groups X25519",
            "hint: --client curl measures servers that have RSA key exchange or CBC alone",
        ],
    },
    AdviceRow {
        case: "renegotiation",
        server: renegotiates,
        arguments: &["--cacert", "ca.pem"],
        url: HTTPS,
        code: 35,
        says: &[
            "error: wait: server wants to renegotiate the TLS 1.2 session, which this client does not do",
            "hint: --client curl renegotiates",
        ],
    },
    AdviceRow {
        case: "expired intermediate",
        server: || behind_an_intermediate(2021, true),
        arguments: &["--cacert", "ca.pem"],
        url: HTTPS,
        code: 60,
        says: &[
            "an intermediate certificate that the server sends has expired (CN=an intermediate, on 2021-01-01); \
             its own is still valid",
            "hint: have the server send its issuer's current intermediate",
        ],
    },
    AdviceRow {
        case: "missing intermediate",
        server: || behind_an_intermediate(2090, false),
        arguments: &["--cacert", "ca.pem"],
        url: HTTPS,
        code: 60,
        says: &["the chain is incomplete", "hint: have the server send the intermediates too"],
    },
    AdviceRow {
        case: "address as DNS name",
        server: address_as_name,
        arguments: &["--cacert", "ca.pem"],
        url: HTTPS,
        code: 60,
        says: &[
            "does not cover the address 127.0.0.1: it has it as a DNS name, not as an IP address",
            "subjectAltName = IP:",
        ],
    },
    AdviceRow {
        case: "500 names",
        server: for_many,
        arguments: &["--cacert", "ca.pem"],
        url: HTTPS,
        code: 60,
        says: &["host7.test and 492 more\n", "hint: use a name from the certificate"],
    },
    AdviceRow {
        case: "cookie circle",
        server: || {
            says(
                "HTTP/1.1 302 Found\r\nLocation: /\r\nSet-Cookie: a=1\r\nContent-Length: 0\r\n\r\n",
            )
        },
        arguments: &["-L", "--max-redirs", "3"],
        url: HTTP,
        code: 47,
        says: &[
            "more than 3 redirects, in a circle of 1 URL that sets a cookie, which this client does not send back",
            "hint: send the cookie: -H 'Cookie: NAME=VALUE'",
        ],
    },
    AdviceRow {
        case: "TLS port",
        server: speaks_tls,
        arguments: &[],
        url: HTTP,
        code: 8,
        says: &[
            "server reset the connection without a response: the port speaks TLS",
            "hint: use https:// for this port",
        ],
    },
    AdviceRow {
        case: "GOAWAY, error",
        server: || says_h2(&[frame(7, 0, 0, b"\0\0\0\0\0\0\0\x0btoo_many_pings")]),
        arguments: &["--cacert", "ca.pem"],
        url: HTTPS,
        code: 16,
        says: &["server ended the connection with GOAWAY ENHANCE_YOUR_CALM (\"too_many_pings\")"],
    },
    AdviceRow {
        case: "GOAWAY",
        // The first of three requests is answered: ":status: 200", HPACK 0x88.
        server: || says_h2(&[frame(1, 5, 1, &[0x88]), frame(7, 0, 0, b"\0\0\0\x01\0\0\0\0")]),
        arguments: &["--cacert", "ca.pem", "--requests", "3", "--parallel", "h2"],
        url: HTTPS,
        code: 16,
        says: &[
            "server shut the connection down after 1 of 3 requests (GOAWAY NO_ERROR)",
            "hint: ask for fewer with --requests N",
        ],
    },
    AdviceRow {
        case: "full window",
        server: || with_small_window(|_stream| thread::sleep(Duration::from_secs(3))),
        arguments: &["-m", "2", "--data-binary", "@body"],
        url: HTTP,
        code: 28,
        says: &[
            "error: send: not finished within 2 s: the server does not read what it is sent; its receive window is full",
            "hint: it is not the network",
        ],
    },
    AdviceRow {
        case: "early 413",
        server: answers_early,
        arguments: &["--data-binary", "@body"],
        url: HTTP,
        code: 0,
        says: &["answered before the upload ended", "of 8,000,000 bytes"],
    },
    AdviceRow {
        case: "bytes behind gzip",
        server: gzip_and_more,
        arguments: &["--compressed"],
        url: HTTP,
        code: 0,
        says: &["decoded 5 bytes", "5 bytes behind the coded body"],
    },
    AdviceRow {
        case: "silent resolver, UDP",
        server: || {
            let server = DnsServer::start(Answer::Silence);
            RunningServer(server.address.port(), Box::new(server))
        },
        arguments: &["--resolver", "127.0.0.1:{port}", "-m", "1.2"],
        url: "https://a.test/",
        code: 28,
        says: &[
            "error: resolve: no answer for a.test within 1.2 s",
            "hint: ask another resolver with --resolver",
        ],
    },
    AdviceRow {
        case: "silent resolver, UDP",
        server: || {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            RunningServer(socket.local_addr().unwrap().port(), Box::new(socket))
        },
        arguments: &["--cacert", "ca.pem", "--http3-only", "-m", "1.2"],
        url: HTTPS,
        code: 28,
        says: &[
            "error: quic: no answer from 127.0.0.1:{port} within 1.2 s",
            "hint: no datagram came back",
        ],
    },
];

/// Joins lines: the terminal may wrap a fact.
fn in_one_line(text: &str) -> String {
    text.lines().map(str::trim).collect::<Vec<_>>().join(" ")
}

#[test]
fn what_is_said_is_true_and_what_is_advised_helps() {
    let directory = Directory::new();
    directory.write("body", vec![0_u8; 8_000_000]);
    let wrong: Vec<String> = ROWS
        .iter()
        .filter_map(|row| {
            let RunningServer(port, _server) = &(row.server)();
            let fill = |text: &str| text.replace("{port}", &port.to_string());
            let words: Vec<String> =
                row.arguments.iter().chain([&row.url]).map(|word| fill(word)).collect();
            let outcome = firstbyte(directory.path(), &words);
            let told = format!("{}{}", outcome.stdout, outcome.stderr);
            let is_said = |words: &&&str| {
                let words = fill(words);
                told.contains(&words) || in_one_line(&told).contains(words.trim())
            };
            let missing: Vec<_> = row.says.iter().filter(|words| !is_said(words)).collect();
            let is_right = missing.is_empty() && outcome.code == row.code;
            (!is_right).then(|| {
                format!("{}: code {}, without {missing:?}:\n{told}", row.case, outcome.code)
            })
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn each_case_is_documented() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/bad-cases.md");
    let document = std::fs::read_to_string(path).unwrap();
    for row in ROWS {
        assert!(document.contains(&format!("\n| {} | ", row.case)), "{} is not there", row.case);
    }
    let documented = document.lines().filter(|line| line.starts_with("| ")).count() - 1;
    assert_eq!(documented, 14);
}

#[test]
fn a_response_head_that_arrives_in_parts_is_told() {
    let server = Peer::tcp(|mut stream| {
        read_head(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-");
        thread::sleep(Duration::from_millis(300));
        let _ = stream.write_all(b"Length: 0\r\n\r\n");
        drain(&mut stream);
    });
    let url = format!("http://127.0.0.1:{}/", server.port());
    let outcome = firstbyte(Directory::new().path(), &[&url]);
    assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
    assert!(outcome.stdout.contains("head complete at "), "{}", outcome.stdout);
}

/// Time spent on a server that reads slowly is the server's, and neither the client's nor the path's.
#[test]
fn a_server_that_reads_slowly_has_the_time() {
    let RunningServer(port, _server) = with_small_window(|mut stream| {
        read_head(&mut stream);
        let (mut left, mut piece) = (2_000_000, vec![0; 64 * 1024]);
        while left > 0 {
            let read = stream.read(&mut piece).unwrap();
            assert!(read > 0, "{left} bytes are missing");
            left -= read.min(left);
            thread::sleep(Duration::from_millis(10));
        }
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        drain(&mut stream);
    });
    let directory = Directory::new();
    directory.write("body", vec![0_u8; 2_000_000]);
    let url = format!("http://127.0.0.1:{port}/");
    let outcome = firstbyte(directory.path(), &["--json", "--data-binary", "@body", &url]);
    assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
    let sample: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let limited = sample["tcp"]["receive_window_limited_ns"].as_u64().unwrap();
    assert!(limited > 100_000_000, "{}", sample["tcp"]);
    let part = |name: &str| sample["split"]["parts"][name].as_u64().unwrap();
    assert!(part("server_ns") > part("transfer_ns") + part("client_ns"), "{}", sample["split"]);
}
