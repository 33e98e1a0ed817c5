//! The servers from which the benchmark `attribution` draws: each starts, answers and resumes as it should,
//! and both ends see it.

#[allow(dead_code, reason = "what the benchmark asks besides")]
#[path = "../../../firstbyte/benches/attribution/zoo/mod.rs"]
mod servers;

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use firstbyte_lab::LabOptions;
use rustls::{ClientConfig, ClientConnection, HandshakeKind, ProtocolVersion, StreamOwned};

use crate::support::{client_config, fastest, in_lab, now_ms, read_capture, scenario};
use servers::{EarlyData, Server, Tls, Wanted, Zoo};

const NAME: &str = "server.test";
/// Processing time of the programs, in the fastest of several exchanges; no configured time is shorter.
const SLACK_MS: f64 = 20.0;

fn zoo() -> Zoo {
    Zoo::build(&Zoo::directory(env!("CARGO_TARGET_TMPDIR"))).unwrap_or_else(|why| panic!("{why}"))
}

/// One exchange, as the client sees it.
struct Exchange {
    /// Milliseconds between request and first byte.
    first_ms: f64,
    /// Milliseconds between the request and the last byte. Counting from the first byte would give too few
    /// if that byte was read late.
    last_ms: f64,
    answer: Vec<u8>,
    version: ProtocolVersion,
    resumed: bool,
    early_data_accepted: bool,
}

impl Exchange {
    /// Sends the request after the handshake.
    fn run(config: &Arc<ClientConfig>, path: &str) -> Self {
        let mut stream = connect(config);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock).unwrap();
        }
        let begun = now_ms();
        stream.write_all(request(path).as_bytes()).unwrap();
        Self::answer_to(stream, begun)
    }

    /// Sends the request in early data.
    fn early(config: &Arc<ClientConfig>, path: &str) -> Self {
        let mut stream = connect(config);
        let begun = now_ms();
        let mut early = stream.conn.early_data().expect("the ticket allows it");
        early.write_all(request(path).as_bytes()).unwrap();
        stream.flush().unwrap();
        let exchange = Self::answer_to(stream, begun);
        assert!(exchange.early_data_accepted);
        exchange
    }

    fn answer_to(mut stream: StreamOwned<ClientConnection, TcpStream>, begun: f64) -> Self {
        let (mut first, mut last, mut answer) = (None, begun, Vec::new());
        let mut buffer = [0; 16_384];
        while !is_whole(&answer) {
            match stream.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => {
                    last = now_ms();
                    first.get_or_insert(last);
                    answer.extend_from_slice(&buffer[..count]);
                }
                // Servers may close without close_notify after sending everything.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => break,
                Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
                Err(error) => panic!("{error}"),
            }
        }
        let first = first.expect("an answer");
        Self {
            first_ms: first - begun,
            last_ms: last - begun,
            answer,
            version: stream.conn.protocol_version().unwrap(),
            resumed: stream.conn.handshake_kind() == Some(HandshakeKind::Resumed),
            early_data_accepted: stream.conn.is_early_data_accepted(),
        }
    }

    /// Bytes of the head, including the empty line, and of the body.
    fn sizes(&self) -> (usize, usize) {
        let end = self.answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("a head");
        (end + 4, self.answer.len() - end - 4)
    }
}

fn connect(config: &Arc<ClientConfig>) -> StreamOwned<ClientConnection, TcpStream> {
    let tcp = TcpStream::connect((NAME, 443)).unwrap();
    tcp.set_nodelay(true).unwrap();
    tcp.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let tls = ClientConnection::new(Arc::clone(config), NAME.try_into().unwrap()).unwrap();
    StreamOwned::new(tls, tcp)
}

fn request(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: {NAME}\r\nconnection: close\r\n\r\n")
}

/// Whether everything that the head announces has arrived.
fn is_whole(answer: &[u8]) -> bool {
    let Some(end) = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n") else { return false };
    let head = String::from_utf8_lossy(&answer[..end]).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    let length: usize = length.expect("a length").trim().parse().unwrap();
    answer.len() - end - 4 >= length
}

/// Tests every server over both TLS versions, with and without sessions.
pub(crate) fn answers() {
    let zoo = zoo();
    for server in Server::ALL {
        for (tls, version) in
            [(Tls::V12, ProtocolVersion::TLSv1_2), (Tls::V13, ProtocolVersion::TLSv1_3)]
        {
            for sessions in [true, false] {
                let wanted = Wanted { tls, sessions, response: (400, 3_000), ..Wanted::default() };
                let line = zoo.server(server, &wanted).expect("can all of this");
                let directory = tempfile::tempdir().unwrap();
                let capture = Some(directory.path().to_owned());
                let options = LabOptions { capture, ..LabOptions::default() };
                in_lab(&scenario("", &line), &options, |lab| {
                    let both = [&rustls::version::TLS12, &rustls::version::TLS13];
                    let config = Arc::new(client_config(lab, &both));
                    let of = format!("{server:?} {tls:?}, sessions {sessions}");
                    let path = if server.writes_patterns() {
                        "/w?head=400&writes=3000"
                    } else {
                        server.path()
                    };
                    let first = Exchange::run(&config, path);
                    assert_eq!(first.version, version, "{of}");
                    let (head, body) = first.sizes();
                    assert_eq!(body, 3_000, "{of}");
                    let heads = if server == Server::Gnutls { 80..100 } else { 350..600 };
                    assert!(heads.contains(&head), "{of}: {head} bytes of head");
                    let again = Exchange::run(&config, path);
                    assert_eq!([first.resumed, again.resumed], [false, sessions], "{of}");
                });
                for file in ["client.pcapng", "server-server.pcapng"] {
                    let (packets, dropped) = read_capture(&directory.path().join(file));
                    assert!(packets.len() > 20 && dropped == 0, "{server:?}: {}", packets.len());
                }
            }
        }
    }
}

/// Every server writes the head and parts of the body when the request says so.
pub(crate) fn patterns() {
    let zoo = zoo();
    for server in Server::ALL.into_iter().filter(|server| server.writes_patterns()) {
        let line = zoo.server(server, &Wanted::default()).expect("what is usual");
        in_lab(&scenario("", &line), &LabOptions::default(), |lab| {
            let config = Arc::new(client_config(lab, &[&rustls::version::TLS13]));
            // The first request loads or compiles code, which would add to the pattern's times.
            Exchange::run(&config, "/w");
            for (path, first_ms, rest_ms, bytes) in [
                ("/w?think=30&writes=1000", 30.0, 0.0, 1_000),
                ("/w?writes=1000@40", 0.0, 40.0, 1_000),
                ("/w?writes=700,500@20x2", 0.0, 40.0, 1_700),
                ("/w?think=20&head=2000&writes=1000@0,3000@30", 20.0, 30.0, 4_000),
            ] {
                let all: Vec<_> = (0..5).map(|_| Exchange::run(&config, path)).collect();
                assert!(all.iter().all(|one| one.sizes().1 == bytes), "{server:?} {path}");
                let least = |of: fn(&Exchange) -> f64| fastest(all.iter().map(of));
                let (first, last) = (least(|one| one.first_ms), least(|one| one.last_ms));
                let of = format!("{server:?} {path}: after {first:.1} and {last:.1} ms");
                println!("  {of}");
                let last_ms = first_ms + rest_ms;
                assert!((first_ms..first_ms + SLACK_MS).contains(&first), "{of}");
                assert!((last_ms..last_ms + SLACK_MS).contains(&last), "{of}");
            }
        });
    }
}

/// A request sent together with the ClientHello is answered within one round trip, or after the Finished within two.
pub(crate) fn early_data() {
    const ROUND_TRIP_MS: f64 = 30.0;
    let zoo = zoo();
    let mut seen = Vec::new();
    for server in Server::ALL {
        for (early_data, round_trips) in [(EarlyData::AtOnce, 1.0), (EarlyData::AfterFinished, 2.0)]
        {
            let wanted = Wanted { tls: Tls::V13, early_data, ..Wanted::default() };
            let Some(line) = zoo.server(server, &wanted) else { continue };
            let delay =
                format!("{line}\nup = {{ delay = \"15ms\" }}\ndown = {{ delay = \"15ms\" }}");
            in_lab(&scenario("", &delay), &LabOptions::default(), |lab| {
                let mut config = client_config(lab, &[&rustls::version::TLS13]);
                config.enable_early_data = true;
                let config = Arc::new(config);
                let path = if server.writes_patterns() { "/w?writes=3000" } else { server.path() };
                let one = |_| {
                    // Gets a new ticket: tickets that come after the response to early data are not waited for.
                    Exchange::run(&config, path);
                    Exchange::early(&config, path).first_ms
                };
                let took = fastest((0..3).map(one));
                let of = format!("{server:?} {early_data:?}: {took:.1} ms");
                println!("  {of}");
                let expected = round_trips * ROUND_TRIP_MS;
                assert!((expected..expected + SLACK_MS).contains(&took), "{of}");
            });
            seen.push((server, early_data));
        }
    }
    assert_eq!(seen.len(), 5, "{seen:?}");
}

/// HTTP/2 if the server supports it and the client wants it, and a ServerHello delayed as configured.
pub(crate) fn handshakes() {
    const DELAY_MS: u32 = 25;
    let zoo = zoo();
    let mut delayed = 0;
    for server in Server::ALL {
        let handshake_delay_ms = if server.can_delay_handshakes() { DELAY_MS } else { 0 };
        let wanted = Wanted { handshake_delay_ms, ..Wanted::default() };
        let line = zoo.server(server, &wanted).expect("can all of this");
        in_lab(&scenario("", &line), &LabOptions::default(), |lab| {
            let mut config = client_config(lab, &[&rustls::version::TLS13]);
            config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
            let config = Arc::new(config);
            let handshake = |_| {
                let mut stream = connect(&config);
                let begun = now_ms();
                while stream.conn.is_handshaking() {
                    stream.conn.complete_io(&mut stream.sock).unwrap();
                }
                let took = now_ms() - begun;
                let http2 = stream.conn.alpn_protocol() == Some(b"h2");
                assert_eq!(http2, server.can_http2(), "{server:?}");
                took
            };
            let (took, least) = (fastest((0..5).map(handshake)), f64::from(handshake_delay_ms));
            println!("  {server:?}: {took:.1} ms, {least} wanted");
            assert!(took >= least, "{server:?}: {took} ms");
            // Java's first handshakes take 80 ms without any configured delay.
            assert!(least == 0.0 || took < least + SLACK_MS, "{server:?}: {took} ms");
        });
        delayed += u32::from(handshake_delay_ms > 0);
    }
    assert_eq!(delayed, 3);
}

/// The trace of system calls shows what a server's program wrote, and when.
pub(crate) fn traces() {
    let zoo = zoo();
    for server in [Server::Python, Server::Go, Server::Apache] {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("trace");
        let wanted = Wanted { trace: Some(file.clone()), ..Wanted::default() };
        let line = zoo.server(server, &wanted).expect("it is a program");
        in_lab(&scenario("", &line), &LabOptions::default(), |lab| {
            let config = Arc::new(client_config(lab, &[&rustls::version::TLS13]));
            // The end of the last system call may be lost when the lab ends.
            for _ in 0..2 {
                Exchange::run(&config, "/w?writes=1000,500@60");
            }
        });
        let trace = std::fs::read_to_string(&file).unwrap();
        // A record of 500 bytes, plus the header, type and tag of TLS 1.3.
        let second = trace.lines().find(|line| line.contains(" = 522 <"));
        let second = second.unwrap_or_else(|| panic!("{server:?}:\n{trace}"));
        // Fields: process, seconds since 1970, call.
        let time: f64 = second.split_whitespace().nth(1).unwrap().parse().unwrap();
        assert!(time > 1e9, "{second}");
    }
    let trace = Some(Zoo::directory(env!("CARGO_TARGET_TMPDIR")).join("trace"));
    let wanted = Wanted { trace, ..Wanted::default() };
    assert_eq!(zoo.server(Server::Nginx, &wanted), None, "the lab starts it by itself");
}
