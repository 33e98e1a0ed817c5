//! QUIC through the lab's links: HTTP/3 from the built-in server, alone and with nginx, and from Caddy.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use bytes::Buf;
use firstbyte_lab::{Lab, LabOptions};
use h3_quinn::quinn::crypto::rustls::QuicClientConfig;
use h3_quinn::quinn::{ClientConfig, Connection, Endpoint, PathStats};

use crate::support::{self, in_lab, now_ms, scenario, wait_for_requests};

const ROUND_TRIP_MS: f64 = 20.0;
/// Processing time allowed for a whole exchange: less than a round trip, so that an additional one shows.
const SLACK_MS: f64 = 18.0;
const SAMPLES: usize = 9;
const LINK: &str = r#"up = { delay = "5ms" }
down = { delay = "5ms" }"#;

pub(crate) fn builtin() {
    let (kind, early) = serves(r#"kind = "builtin", early_data = "on", http3 = true"#);
    assert_eq!(kind, "built-in (rustls)");
    assert!(early, "early data is taken");
}

/// Early data that is answered after the Finished saves nothing.
pub(crate) fn late_early_data() {
    let server = r#"server = { kind = "builtin", early_data = "after-finished", http3 = true }"#;
    in_lab(&scenario(LINK, &format!("{server}\n{LINK}")), &LabOptions::default(), |lab| {
        let client = Client::new(lab, false);
        let took = fastest_ms(|| {
            client.get("/");
            client.get_early("/").expect("there is a ticket").milliseconds
        });
        assert_close(took, 2.0 * ROUND_TRIP_MS);
        let requests = wait_for_requests(lab, "server", 2 * SAMPLES);
        let early = requests.iter().filter(|request| request.early == Some(true)).count();
        assert_eq!(early, SAMPLES);
    });
}

/// Think time and pauses of `/w`.
pub(crate) fn patterns() {
    let server = r#"server = { kind = "builtin", http3 = true }"#;
    in_lab(&scenario(LINK, &format!("{server}\n{LINK}")), &LabOptions::default(), |lab| {
        let client = Client::new(lab, false);
        let took = fastest_ms(|| {
            let answer = client.get("/w?think=15&head=1000&writes=1000@5,500@10x2");
            assert_eq!((answer.status, answer.bytes), (200, 2_000));
            answer.milliseconds
        });
        assert_close(took, 2.0 * ROUND_TRIP_MS + 40.0);
    });
}

pub(crate) fn beside_nginx() {
    let (kind, early) = serves(r#"kind = "nginx", early_data = "on", http3 = true"#);
    assert!(kind.ends_with(", HTTP/3: built-in (rustls, quinn)"), "{kind}");
    assert!(early, "early data is taken");
}

pub(crate) fn caddy() {
    let (kind, early) = serves(r#"kind = "caddy""#);
    assert!(kind.starts_with("Caddy 2."), "{kind}");
    println!("  {kind}: early data over QUIC: {early}");
}

/// Checks the responses over both families and their times. Returns the server's software, and whether it
/// took early data.
fn serves(server: &str) -> (String, bool) {
    let settings = format!("server = {{ page_bytes = 8000, {server} }}\n{LINK}");
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("kind");
    in_lab(&scenario(LINK, &settings), &LabOptions::default(), |lab| {
        let early = [false, true].map(|ipv6| {
            let client = Client::new(lab, ipv6);
            let handshake_first = fastest_ms(|| {
                let answer = client.get("/");
                assert_eq!((answer.status, answer.bytes), (200, 8_000));
                answer.milliseconds
            });
            assert_close(handshake_first, 2.0 * ROUND_TRIP_MS);
            // About seven round trips from an initial window of ten packets; a second lost packet's
            // timeout would take longer than all of them.
            let large = support::fastest((0..3).map(|_| {
                let large = client.get("/bytes/1000000");
                assert_eq!(large.bytes, 1_000_000);
                large.milliseconds
            }));
            assert!(large < 600.0, "{large} ms");
            if client.get_early("/").is_none() {
                return false;
            }
            let early = fastest_ms(|| {
                // A request after the handshake gets a ticket.
                client.get("/");
                let answer = client.get_early("/").expect("there is a ticket");
                assert_eq!((answer.status, answer.bytes), (200, 8_000));
                answer.milliseconds
            });
            assert_close(early, ROUND_TRIP_MS);
            true
        });
        assert_eq!(early[0], early[1]);
        // Per family: the first requests, three large ones, an early one, and pairs of a normal and an early one.
        let per_family = if early[0] { SAMPLES + 4 + 2 * SAMPLES } else { SAMPLES + 3 };
        let requests = wait_for_requests(lab, "server", 2 * per_family);
        assert!(requests.iter().all(|request| request.protocol == "HTTP/3.0"));
        // Caddy does not log it over HTTP/3.
        if requests[0].tls.is_some() {
            let resumed = requests.iter().filter(|request| request.resumed.unwrap()).count();
            assert_eq!(resumed, 2 * (per_family - 1));
            let in_early_data = requests.iter().filter(|request| request.early.unwrap()).count();
            assert_eq!(in_early_data, 2 * (1 + SAMPLES));
        }
        let stats = lab.forwarder_stats();
        assert_eq!((stats.ring_full, stats.too_big, stats.send_failed), (0, 0, 0));
        std::fs::write(&file, format!("{} {}", early[0], lab.servers()[0].kind)).unwrap();
    });
    let text = std::fs::read_to_string(file).unwrap();
    let (early, kind) = text.split_once(' ').unwrap();
    (kind.to_owned(), early == "true")
}

/// The fastest of several exchanges.
fn fastest_ms(mut exchange: impl FnMut() -> f64) -> f64 {
    support::fastest((0..SAMPLES).map(|_| exchange()))
}

fn assert_close(took_ms: f64, expected_ms: f64) {
    println!("  {took_ms:.2} ms, {expected_ms} expected");
    assert!((expected_ms..expected_ms + SLACK_MS).contains(&took_ms), "{took_ms} ms");
}

/// A response of five packets takes longer with an initial window of two packets than with ten: by a round
/// trip at least.
pub(crate) fn initial_window() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let took = [2, 10].map(|packets| {
        let settings = format!(
            "server = {{ kind = \"builtin\", http3 = true }}\n\
             up = {{ delay = \"5ms\", initial_window = {packets} }}\ndown = {{ delay = \"5ms\" }}"
        );
        in_lab(&scenario(LINK, &settings), &LabOptions::default(), |lab| {
            let took = fastest_ms(|| {
                let answer = Client::new(lab, false).get("/bytes/6000");
                assert_eq!(answer.bytes, 6_000);
                answer.milliseconds
            });
            std::fs::write(file.path(), took.to_string()).unwrap();
        });
        std::fs::read_to_string(file.path()).unwrap().parse::<f64>().unwrap()
    });
    println!("  {:.1} ms with a window of 2 packets, {:.1} with 10", took[0], took[1]);
    assert!(took[0] - took[1] > 0.9 * ROUND_TRIP_MS, "{took:?}");
}

pub(crate) fn retry() {
    let server = r#"server = { kind = "builtin", http3 = true, retry = true }"#;
    in_lab(&scenario(LINK, &format!("{server}\n{LINK}")), &LabOptions::default(), |lab| {
        // New clients, because a session or an address token of an earlier visit would change the result.
        let took = fastest_ms(|| Client::new(lab, false).get("/").milliseconds);
        assert_close(took, 3.0 * ROUND_TRIP_MS);
    });
}

/// An unvalidated server may send three times the bytes it received (RFC 9000 §8.1). A chain that does not
/// fit costs a round trip.
pub(crate) fn amplification_limit() {
    let server = r#"server = { kind = "builtin", http3 = true, chain_bytes = 10000 }"#;
    in_lab(&scenario(LINK, &format!("{server}\n{LINK}")), &LabOptions::default(), |lab| {
        // New clients, because a session or an address token of an earlier visit would change the result.
        let took = fastest_ms(|| Client::new(lab, false).get("/").milliseconds);
        assert_close(took, 3.0 * ROUND_TRIP_MS);
    });
}

/// quinn passes many datagrams to the kernel at once (UDP_SEGMENT) and probes the path's MTU (RFC 8899).
/// Neither may lose packets on devices without offloads or behind a link with a small MTU.
pub(crate) fn uploads() {
    for mtu in [1_500, 1_400] {
        let server = r#"server = { kind = "builtin", http3 = true }"#;
        let narrow = format!(
            "{server}\nup = {{ delay = \"5ms\" }}\ndown = {{ delay = \"5ms\", mtu = {mtu} }}"
        );
        in_lab(&scenario(LINK, &narrow), &LabOptions::default(), |lab| {
            for ipv6 in [false, true] {
                let client = Client::new(lab, ipv6);
                let path = client.upload(500_000);
                assert_eq!(path.lost_packets, 0, "{path:?}");
                let headers = if ipv6 { 40 + 8 } else { 20 + 8 };
                assert!((1_200..=mtu - headers).contains(&path.current_mtu), "{path:?}");
                assert_eq!(path.black_holes_detected, 0);
            }
            let stats = lab.forwarder_stats();
            assert_eq!((stats.ring_full, stats.send_failed), (0, 0));
        });
    }
}

/// An HTTP/3 client that remembers sessions.
struct Client {
    runtime: tokio::runtime::Runtime,
    endpoint: Endpoint,
    server: SocketAddr,
    name: String,
}

struct Answer {
    status: u16,
    bytes: usize,
    /// From the first packet to the end of the response.
    milliseconds: f64,
}

impl Client {
    fn new(lab: &Lab, ipv6: bool) -> Self {
        let name = lab.scenario().servers().next().unwrap().names[0].clone();
        let mut addresses = (name.as_str(), 443).to_socket_addrs().unwrap();
        let server = addresses.find(|address| address.is_ipv6() == ipv6).unwrap();
        let mut tls = support::client_config(lab, &[&rustls::version::TLS13]);
        tls.alpn_protocols = vec![b"h3".to_vec()];
        tls.enable_early_data = true;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _guard = runtime.enter();
        let any: SocketAddr = if ipv6 {
            (Ipv6Addr::UNSPECIFIED, 0).into()
        } else {
            (Ipv4Addr::UNSPECIFIED, 0).into()
        };
        let mut endpoint = Endpoint::client(any).unwrap();
        let crypto = QuicClientConfig::try_from(tls).unwrap();
        endpoint.set_default_client_config(ClientConfig::new(Arc::new(crypto)));
        drop(_guard);
        Self { runtime, endpoint, server, name }
    }

    fn get(&self, path: &str) -> Answer {
        self.runtime.block_on(async {
            let begun = now_ms();
            let connecting = self.endpoint.connect(self.server, &self.name).unwrap();
            let connection = connecting.await.unwrap();
            self.exchange(connection, path, begun).await
        })
    }

    /// Sends a request in early data; `None` if no ticket allows it or the server does not accept it.
    fn get_early(&self, path: &str) -> Option<Answer> {
        self.runtime.block_on(async {
            let begun = now_ms();
            let connecting = self.endpoint.connect(self.server, &self.name).unwrap();
            let (connection, accepted) = connecting.into_0rtt().ok()?;
            let answer = self.exchange(connection, path, begun).await;
            accepted.await.then_some(answer)
        })
    }

    /// Sends `bytes` bytes and returns the statistics of the path.
    fn upload(&self, bytes: usize) -> PathStats {
        self.runtime.block_on(async {
            let connecting = self.endpoint.connect(self.server, &self.name).unwrap();
            let connection = connecting.await.unwrap();
            let quic = connection.clone();
            let (mut driver, mut requests) =
                h3::client::new(h3_quinn::Connection::new(connection)).await.unwrap();
            let driving = tokio::spawn(async move { driver.wait_idle().await });
            let uri = format!("https://{}/", self.name);
            let request = hyper::Request::post(uri).body(()).unwrap();
            let mut stream = requests.send_request(request).await.unwrap();
            stream.send_data(vec![0; bytes].into()).await.unwrap();
            stream.finish().await.unwrap();
            assert_eq!(stream.recv_response().await.unwrap().status(), 200);
            drop((stream, requests));
            let _ = driving.await;
            let path = quic.stats().path;
            quic.close(0_u32.into(), b"");
            path
        })
    }

    async fn exchange(&self, connection: Connection, path: &str, begun: f64) -> Answer {
        let quic = connection.clone();
        let (mut driver, mut requests) =
            h3::client::new(h3_quinn::Connection::new(connection)).await.unwrap();
        let driving = tokio::spawn(async move { driver.wait_idle().await });
        let uri = format!("https://{}{path}", self.name);
        let request = hyper::Request::get(uri).body(()).unwrap();
        let mut stream = requests.send_request(request).await.unwrap();
        stream.finish().await.unwrap();
        let response = stream.recv_response().await.unwrap();
        let mut bytes = 0;
        while let Some(part) = stream.recv_data().await.unwrap() {
            bytes += part.remaining();
        }
        let milliseconds = now_ms() - begun;
        // The server sends tickets when the client's Finished arrives. After an early response that is a
        // round trip later; after any other response the order of arrival is undefined.
        tokio::time::sleep(Duration::from_secs_f64(2.0 * ROUND_TRIP_MS / 1e3)).await;
        drop((stream, requests));
        let _ = driving.await;
        quic.close(0_u32.into(), b"");
        Answer { status: response.status().as_u16(), bytes, milliseconds }
    }
}
