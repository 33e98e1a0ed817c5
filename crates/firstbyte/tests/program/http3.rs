//! HTTP/3 on loopback: the reported facts of a connection are true.

use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use firstbyte_lab::builtin_server::{Config, EarlyData, Handle, Listeners, spawn};
use firstbyte_lab::ca::Ca;
use qlog::events::EventData;
use qlog::events::quic::{PacketHeader, PacketType, QuicFrame, TransportInitiator};
use qlog::reader::QlogSeqReader;
use quinn::crypto::rustls::QuicServerConfig;
use quinn::{Endpoint, Incoming};
use rustls::version::TLS13;
use serde_json::Value;
use tokio::sync::oneshot;

use crate::support::certificates::{good, versions};
use crate::support::files::Directory;
use crate::support::run::{Outcome, firstbyte};

struct Bench {
    server: Handle,
    directory: Directory,
}

impl Bench {
    fn new(change: impl FnOnce(&mut Config)) -> Self {
        let ca = Ca::new().unwrap();
        let mut config = Config::new(ca.issue(&["localhost".to_owned()]).unwrap());
        change(&mut config);
        let server = spawn(config, Listeners::loopback_with_quic().unwrap()).unwrap();
        let directory = Directory::new();
        std::fs::write(directory.path().join("ca.pem"), ca.root_pem()).unwrap();
        Self { server, directory }
    }

    fn url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.server.addr().port())
    }

    fn visit(&self, path: &str, more: &[&str]) -> Outcome {
        let url = self.url(path);
        let words = ["--http3-only", "-4", "--cacert", "ca.pem", "--json", "-m", "10", &url];
        let words: Vec<&str> = words.iter().chain(more).copied().collect();
        firstbyte(self.directory.path(), &words)
    }

    fn sample(&self, path: &str, more: &[&str]) -> Value {
        let outcome = self.visit(path, more);
        assert_eq!(outcome.code, 0, "{}\n{}", outcome.stderr, outcome.stdout);
        serde_json::from_str(&outcome.stdout).unwrap()
    }

    /// The samples of one way to connect, without the warm-up, each with its standing.
    fn compare(&self, way: &str) -> Vec<(String, Value)> {
        let url = self.url("/");
        let way = format!("it: {way}");
        let words = ["compare", &url, "-4", "--cacert", "ca.pem", "--variant", &way, "-n", "4"];
        let more = ["--interval", "0", "--silent", "--run", "a.run", "--json=a.json"];
        let words: Vec<&str> = words.iter().chain(&more).copied().collect();
        let outcome = firstbyte(self.directory.path(), &words);
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        let text = std::fs::read_to_string(self.directory.path().join("a.json")).unwrap();
        let samples = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let of = |sample: &Value| {
            let of_run = sample.get("of_run").unwrap_or(sample);
            let standing = of_run["outcome"].as_str().unwrap_or_default();
            let shortfall = of_run["shortfall"].as_str().unwrap_or_default();
            format!("{standing} {shortfall}").trim().to_owned()
        };
        samples.filter(|s| s["warmup"] == false).map(|s| (of(&s), s)).collect()
    }
}

fn in_order(sample: &Value) {
    let at = |mark: &str| sample["marks"][mark]["at_ns"].as_i64();
    let order = ["connect_start", "request_start", "request_end", "response_start", "response_end"];
    let times: Vec<i64> = order.iter().map(|mark| at(mark).expect(mark)).collect();
    assert!(times.is_sorted(), "{times:?}");
    let phases = sample["split"]["phases"].as_array().unwrap();
    let total: u64 = phases.iter().map(|p| p["duration_ns"].as_u64().unwrap()).sum();
    assert_eq!(Some(total), sample["total_ns"].as_u64());
}

#[test]
fn a_full_handshake_is_one() {
    let bench = Bench::new(|_| ());
    let sample = bench.sample("/", &[]);
    in_order(&sample);
    assert_eq!(sample["http"]["version"], "3");
    assert_eq!(sample["http"]["status"], 200);
    assert_eq!(sample["http"]["body_bytes"], 2_000);
    let tls = &sample["tls"];
    assert_eq!((&tls["alpn"], &tls["handshake"]), (&"h3".into(), &"full".into()));
    assert_eq!((&tls["version"], &tls["verified"]), (&"TLSv1.3".into(), &true.into()));
    assert_eq!(tls["certificates"].as_array().unwrap().len(), 2);
    let quic = &sample["quic"];
    assert_eq!((&quic["version"], &quic["retry"]), (&"1".into(), &false.into()));
    assert!(quic["min_rtt_ns"].as_u64().unwrap() > 0);
    assert!(quic["amplification_stall_ns"].is_null());
    assert!(sample["marks"]["tcp_connected"].is_null() && sample["tcp"].is_null());
    assert!(sample["marks"]["handshake_confirmed"]["at_ns"].is_i64());
    let phases: Vec<&str> = sample["split"]["phases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|phase| phase["name"].as_str().unwrap())
        .collect();
    assert_eq!(phases, ["resolve", "quic", "send", "wait", "receive"]);
}

/// A packet as logged in qlog.
type InPacket<'a> = (&'a PacketHeader, &'a Vec<QuicFrame>);

/// The qlog files of a directory, parsed with the `qlog` crate of quiche: each event must conform to the schema.
fn logs(directory: &Path) -> Vec<(qlog::QlogSeq, Vec<qlog::events::Event>)> {
    let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let read = |path: PathBuf| {
        let mut reader = QlogSeqReader::with_file(&path).unwrap();
        let events = reader.by_ref().map(|event| match event {
            qlog::reader::Event::Qlog(event) => event,
            qlog::reader::Event::Json(event) => panic!("{}: {}", event.name, event.data),
        });
        let events = events.collect();
        (reader.qlog, events)
    };
    files.map(read).collect()
}

#[test]
fn a_connection_is_logged_for_viewers_of_qlog() {
    let bench = Bench::new(|_| ());
    let sample = bench.sample("/?token=secret", &["--qlog", "logs"]);
    let [(file, events)] = &logs(&bench.directory.path().join("logs"))[..] else { panic!() };
    let title = file.title.as_deref().unwrap();
    assert!(title.contains("localhost") && !title.contains("secret"), "{title}");
    assert!(events.is_sorted_by(|a, b| a.time <= b.time));
    let packets = |wanted: fn(&EventData) -> Option<InPacket<'_>>| {
        events.iter().filter_map(|e| wanted(&e.data).map(|it| (e.time, it))).collect::<Vec<_>>()
    };
    let sent = packets(|data| match data {
        EventData::QuicPacketSent(p) => Some((&p.header, p.frames.as_ref().unwrap())),
        _ => None,
    });
    let received = packets(|data| match data {
        EventData::QuicPacketReceived(p) => Some((&p.header, p.frames.as_ref()?)),
        _ => None,
    });
    // The ClientHello leaves with the first packet, when the connection begins.
    let (time, (header, frames)) = &sent[0];
    assert_eq!(header.packet_type, PacketType::Initial);
    assert!(matches!(frames[0], QuicFrame::Crypto { offset: 0, .. }), "{frames:?}");
    let begun = sample["marks"]["connect_start"]["at_ns"].as_f64().unwrap() / 1e6;
    assert!((time - begun).abs() < 0.001, "{time} and {begun}");
    // Packet numbers of a space increase; the stack skips one now and then (RFC 9000 §21.4).
    let mut next: Vec<(PacketType, u64)> = Vec::new();
    for (_, (header, _)) in &sent {
        let number = header.packet_number.unwrap();
        let space = next.iter_mut().find(|(kind, _)| *kind == header.packet_type);
        match space {
            Some((_, last)) => {
                assert!(number > *last, "{number} after {last}");
                *last = number;
            }
            None => next.push((header.packet_type.clone(), number)),
        }
    }
    // The complete response arrives on the request's stream.
    let ends = received.iter().find(|(_, (_, frames))| {
        frames.iter().any(|f| matches!(f, QuicFrame::Stream { stream_id: 0, fin: Some(true), .. }))
    });
    let ended = sample["marks"]["response_end"]["at_ns"].as_f64().unwrap() / 1e6;
    assert!((ends.unwrap().0 - ended).abs() < 0.001, "{ends:?} and {ended}");
    // The client sends CONNECTION_CLOSE last.
    let close =
        |f: &QuicFrame| matches!(f, QuicFrame::ConnectionClose { error_code: Some(0x100), .. });
    assert!(sent.last().unwrap().1.1.iter().any(close), "{:?}", sent.last());
    let set = |wanted: TransportInitiator| {
        let of = |event: &qlog::events::Event| match &event.data {
            EventData::QuicParametersSet(set) if set.initiator == Some(wanted.clone()) => {
                Some(set.clone())
            }
            _ => None,
        };
        events.iter().find_map(of).unwrap()
    };
    assert_eq!(set(TransportInitiator::Local).initial_max_data, Some(16 * 1024 * 1024));
    assert!(set(TransportInitiator::Remote).initial_max_data.unwrap() > 0);
    let rtt = events.iter().rev().find_map(|event| match &event.data {
        EventData::QuicMetricsUpdated(metrics) => metrics.smoothed_rtt,
        _ => None,
    });
    assert!(rtt.unwrap() > 0.0);
}

#[test]
fn a_log_goes_where_other_programs_log_where_it_is_of_http3() {
    let bench = Bench::new(|_| ());
    let url = bench.url("/");
    for (version, logged) in [("--http2", false), ("--http3-only", true)] {
        let status = Command::new(env!("CARGO_BIN_EXE_firstbyte"))
            .args([version, "-4", "--cacert", "ca.pem", &url])
            .env("QLOGDIR", "others")
            .current_dir(bench.directory.path())
            .stdout(Stdio::null())
            .status();
        assert!(status.unwrap().success());
        assert_eq!(bench.directory.path().join("others").exists(), logged, "{version}");
    }
    assert_eq!(logs(&bench.directory.path().join("others")).len(), 1);
}

#[test]
fn a_stored_run_is_logged_as_well_and_tcp_is_not() {
    let bench = Bench::new(|_| ());
    let samples = bench.compare("http=3 session=resumed");
    let words = ["report", "a.run", "--qlog", "logs", "--csv=a.csv"];
    let outcome = firstbyte(bench.directory.path(), &words);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    // Includes the warm-up.
    assert_eq!(logs(&bench.directory.path().join("logs")).len(), samples.len() + 1);
    let url = bench.url("/");
    let words = ["--http1.1", "-4", "--cacert", "ca.pem", &url, "--qlog", "none"];
    let outcome = firstbyte(bench.directory.path(), &words);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("--qlog: no log was written"), "{}", outcome.stderr);
}

#[test]
fn large_bodies_heads_and_uploads_arrive_whole() {
    let bench = Bench::new(|_| ());
    assert_eq!(bench.sample("/bytes/3000000", &[])["http"]["body_bytes"], 3_000_000);
    assert_eq!(bench.sample("/", &["-I"])["http"]["body_bytes"], 0);
    assert_eq!(bench.sample("/nowhere", &[])["http"]["status"], 404);
    let body = "x".repeat(100_000);
    let posted = bench.sample("/", &["-d", &body]);
    in_order(&posted);
    assert_eq!(posted["http"]["upload_bytes"], 100_000);
}

#[test]
fn a_retry_is_seen() {
    let retry = Bench::new(|config| config.retry = true);
    assert_eq!(retry.sample("/", &[])["quic"]["retry"], true);
}

#[test]
fn sessions_are_taken_up_and_early_data_is_accepted() {
    let bench = Bench::new(|config| config.early_data = EarlyData::Accept);
    for (standing, sample) in bench.compare("http=3 session=resumed") {
        assert_eq!(standing, "verified");
        assert_eq!(sample["tls"]["handshake"], "resumed");
        assert_eq!(sample["tls"]["session_offered"], "psk");
        assert!(sample["tls"]["early_data"].is_null());
        assert!(sample["tls"]["certificates"].as_array().unwrap().is_empty());
    }
    std::fs::remove_file(bench.directory.path().join("a.run")).unwrap();
    for (standing, sample) in bench.compare("http=3 session=0rtt") {
        assert_eq!(standing, "verified");
        in_order(&sample);
        let early = &sample["tls"]["early_data"];
        assert_eq!(early["accepted"], true);
        assert!(early["bytes_before_server_hello"].as_u64().unwrap() > 0);
    }
    std::fs::remove_file(bench.directory.path().join("a.run")).unwrap();
    for (standing, sample) in bench.compare("http=3 connection=reused") {
        assert_eq!((standing.as_str(), &sample["reused"]), ("verified", &true.into()));
        assert!(sample["marks"]["connect_start"].is_null());
    }
}

#[test]
fn early_data_that_is_not_taken_is_sent_again() {
    for (early_data, shortfall) in [
        (EarlyData::Reject, "unverified early-data-rejected"),
        (EarlyData::TooEarly, "unverified too-early"),
        (EarlyData::Off, "unverified early-data-not-allowed"),
    ] {
        let bench = Bench::new(|config| config.early_data = early_data);
        for (standing, sample) in bench.compare("http=3 session=0rtt") {
            assert_eq!(standing, shortfall);
            let status = if early_data == EarlyData::TooEarly { 425 } else { 200 };
            assert_eq!(sample["http"]["status"], status);
            in_order(&sample);
        }
    }
}

/// An HTTP/3 server that answers 103 and then 200; it ends when dropped.
struct Hinting {
    port: u16,
    stop: Option<oneshot::Sender<()>>,
    serving: Option<std::thread::JoinHandle<()>>,
}

impl Hinting {
    fn start() -> Self {
        let tls = QuicServerConfig::try_from(versions(&good(), &["h3"], &[&TLS13])).unwrap();
        let config = quinn::ServerConfig::with_crypto(Arc::new(tls));
        let (stop, mut stopped) = oneshot::channel::<()>();
        let (told, port) = std::sync::mpsc::channel();
        let serving = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                let endpoint = Endpoint::server(config, "127.0.0.1:0".parse().unwrap()).unwrap();
                told.send(endpoint.local_addr().unwrap().port()).unwrap();
                loop {
                    tokio::select! {
                        incoming = endpoint.accept() => answer_with_hints(incoming.unwrap()).await,
                        _ = &mut stopped => return,
                    }
                }
            });
        });
        Self { port: port.recv().unwrap(), stop: Some(stop), serving: Some(serving) }
    }
}

async fn answer_with_hints(incoming: Incoming) {
    let connection = h3_quinn::Connection::new(incoming.await.unwrap());
    let mut h3 = h3::server::Connection::<_, Bytes>::new(connection).await.unwrap();
    let request = h3.accept().await.unwrap().unwrap();
    let (_, mut stream) = request.resolve_request().await.unwrap();
    for status in [103, 200] {
        let head = http::Response::builder().status(status).header("x-status", status);
        stream.send_response(head.body(()).unwrap()).await.unwrap();
    }
    stream.send_data(Bytes::from_static(b"hello")).await.unwrap();
    stream.finish().await.unwrap();
    // Wait until the client is gone.
    let _ = h3.accept().await;
}

impl Drop for Hinting {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(serving) = self.serving.take() {
            let ended = serving.join();
            assert!(ended.is_ok() || std::thread::panicking());
        }
    }
}

#[test]
fn interim_responses_come_before_the_response() {
    let server = Hinting::start();
    let directory = Directory::new();
    let url = format!("https://127.0.0.1:{}/", server.port);
    let words = ["--http3-only", "--json", "--cacert", "ca.pem", "-m", "10", "-o", "body", &url];
    let outcome = firstbyte(directory.path(), &words);
    assert_eq!(outcome.code, 0, "{}", outcome.stdout);
    let sample: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let http = &sample["http"];
    assert_eq!((&http["status"], &http["body_bytes"]), (&200.into(), &5.into()), "{http}");
    assert_eq!(http["headers"], serde_json::json!([["x-status", "200"]]));
    assert_eq!(directory.read("body"), b"hello");
}

/// A relay in front of a server that lets only the first `datagrams` of its datagrams through; it ends when dropped.
struct Muffler {
    port: u16,
    stop: Arc<AtomicBool>,
    passing: Option<std::thread::JoinHandle<()>>,
}

impl Muffler {
    fn new(server: SocketAddr, datagrams: usize) -> Self {
        let socket = || {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
            socket
        };
        let (near, far) = (socket(), socket());
        let port = near.local_addr().unwrap().port();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let passing = std::thread::spawn(move || {
            let (mut client, mut left, mut buffer) = (None, datagrams, [0; 2_048]);
            while !stopped.load(Ordering::SeqCst) {
                if let Ok((bytes, from)) = near.recv_from(&mut buffer) {
                    client = Some(from);
                    far.send_to(&buffer[..bytes], server).unwrap();
                }
                if let (Ok((bytes, _)), Some(client)) = (far.recv_from(&mut buffer), client)
                    && left > 0
                {
                    left -= 1;
                    near.send_to(&buffer[..bytes], client).unwrap();
                }
            }
        });
        Self { port, stop, passing: Some(passing) }
    }
}

impl Drop for Muffler {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(passing) = self.passing.take() {
            let ended = passing.join();
            assert!(ended.is_ok() || std::thread::panicking());
        }
    }
}

/// A server that falls silent in the middle of its handshake or before the response. It had answered, so the fault is
/// the server's, and the wait is attributed to nobody's work.
#[test]
fn a_server_that_falls_silent_is_neither_client_nor_network() {
    let bench = Bench::new(|config| config.think_time = Duration::from_secs(5));
    for (datagrams, phase, said) in [
        (1, "quic", "the server began to answer, then stopped"),
        (20, "wait", "the server received the data but did not answer"),
    ] {
        let muffler = Muffler::new(bench.server.addr(), datagrams);
        let url = format!("https://localhost:{}/", muffler.port);
        let words = ["--http3-only", "-4", "--cacert", "ca.pem", "--json", "-m", "0.6", &url];
        let outcome = firstbyte(bench.directory.path(), &words);
        assert_eq!(outcome.code, 28, "{}", outcome.stdout);
        let sample: Value = serde_json::from_str(&outcome.stdout).unwrap();
        let failure = &sample["failure"];
        assert_eq!((&failure["phase"], &failure["fault"]), (&phase.into(), &"peer".into()));
        assert!(failure["message"].as_str().unwrap().ends_with(said), "{failure}");
        let parts = &sample["split"]["parts"];
        assert!(parts["unexplained_ns"].as_u64().unwrap() > 400_000_000, "{parts}");
        assert!(parts["client_ns"].as_u64().unwrap() < 150_000_000, "{parts}");
        let facts = (&sample["quic"]["version"], &sample["tls"]["version"]);
        let known = if phase == "wait" { "TLSv1.3".into() } else { Value::Null };
        assert_eq!(facts, (&"1".into(), &known));
    }
}

#[test]
fn what_is_wrong_is_said() {
    let nobody = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = nobody.local_addr().unwrap().port();
    let directory = Directory::new();
    let visit = |url: &str| firstbyte(directory.path(), &["--http3-only", "-4", "-m", "1", url]);

    // The socket accepts datagrams but never answers.
    let silent = visit(&format!("https://localhost:{port}/"));
    assert_eq!(silent.code, 28, "{}", silent.stderr);
    let words = ["--http3-only", "-4", "--connect-timeout", "0.3"];
    let url = format!("https://localhost:{port}/");
    let silent = firstbyte(directory.path(), &[&words[..], &[&url]].concat());
    let said = format!(
        "error: quic: no answer from 127.0.0.1:{port} within 300 ms\nhint: no datagram came back: \
         a firewall drops UDP, or the server does not speak QUIC\n"
    );
    assert!(silent.stdout.ends_with(&said), "{}", silent.stdout);
    drop(nobody);
    let refused = visit(&format!("https://localhost:{port}/"));
    assert_eq!(refused.code, 7, "{}", refused.stderr);
    assert!(refused.stdout.contains("connection refused"), "{}", refused.stdout);
    assert!(refused.took < Duration::from_millis(900), "{:?}", refused.took);

    let bench = Bench::new(|_| ());
    let untrusted = visit(&bench.url("/"));
    assert_eq!(untrusted.code, 60, "{}", untrusted.stderr);
    let named = format!("https://other.test:{}/", bench.server.addr().port());
    let resolve = format!("other.test:{}:127.0.0.1", bench.server.addr().port());
    let words = ["--http3-only", "--cacert", "ca.pem", "--resolve", &resolve, &named];
    let other = firstbyte(bench.directory.path(), &words);
    assert_eq!(other.code, 60, "{}", other.stderr);
    assert!(other.stdout.contains("other.test"), "{}", other.stdout);

    let plain = visit("http://localhost/");
    assert_eq!(plain.code, 2, "{}", plain.stdout);
    let said = "HTTP/3 needs TLS\nhint: use https://";
    assert!(plain.stderr.contains(said), "{}", plain.stderr);
}
