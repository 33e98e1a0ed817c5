//! Scenarios, clients and a pcapng reader for the tests.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use firstbyte_lab::access_log::Entry;
use firstbyte_lab::{Lab, LabOptions, Scenario};
use nix::time::{ClockId, clock_gettime};
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

pub(crate) fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// A client, a resolver and a server at `server.test`, with these lines added to client and server.
pub(crate) fn scenario(client: &str, server: &str) -> Scenario {
    let source = format!(
        r#"
description = "for a test"
[[host]]
name = "client"
role = "client"
ipv4 = "192.0.2.10"
ipv6 = "2001:db8:0:1::10"
{client}
[[host]]
name = "resolver"
role = "resolver"
ipv4 = "192.0.2.53"
ipv6 = "2001:db8:0:1::53"
[[host]]
name = "server"
role = "server"
ipv4 = "198.51.100.1"
ipv6 = "2001:db8:0:2::1"
names = ["server.test"]
{server}
"#
    );
    Scenario::parse("test", "test.toml", &source).unwrap()
}

pub(crate) const SERVER_V4: &str = "198.51.100.1";
pub(crate) const SERVER_V6: &str = "2001:db8:0:2::1";

/// Runs `main` in a lab; a panic in it panics here too.
pub(crate) fn in_lab(scenario: &Scenario, options: &LabOptions, main: impl FnOnce(&Lab)) {
    let code = firstbyte_lab::run(scenario, options, |lab| {
        main(lab);
        0
    });
    match code {
        Ok(0) => {}
        Ok(code) => panic!("the lab's process ended with {code}"),
        Err(error) => panic!("{error}"),
    }
}

/// Runs `action` on another thread, on a host.
pub(crate) fn on_host<T: Send>(lab: &Lab, host: &str, action: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let run = move || {
            lab.enter(host).unwrap();
            action()
        };
        scope.spawn(run).join().unwrap()
    })
}

/// Response to an HTTPS request.
pub(crate) struct Answer {
    pub(crate) version: rustls::ProtocolVersion,
    pub(crate) peer: IpAddr,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

/// Fetches `path` from `server.test` at an address of the family, over one new connection.
pub(crate) fn get(
    lab: &Lab,
    ipv6: bool,
    path: &str,
    versions: &[&'static rustls::SupportedProtocolVersion],
) -> Answer {
    let name = lab.scenario().servers().next().unwrap().names[0].clone();
    let mut addresses = (name.as_str(), 443).to_socket_addrs().unwrap();
    let address: SocketAddr = addresses.find(|address| address.is_ipv6() == ipv6).unwrap();
    let config = client_config(lab, versions);
    let tcp = TcpStream::connect_timeout(&address, Duration::from_secs(5)).unwrap();
    tcp.set_nodelay(true).unwrap();
    let server_name = name.clone().try_into().unwrap();
    let tls = ClientConnection::new(Arc::new(config), server_name).unwrap();
    let mut stream = StreamOwned::new(tls, tcp);
    let request = format!("GET {path} HTTP/1.1\r\nhost: {name}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    // Servers may close without close_notify after sending everything.
    let _ = stream.read_to_end(&mut answer);
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap();
    Answer {
        version: stream.conn.protocol_version().unwrap(),
        peer: address.ip(),
        head: String::from_utf8_lossy(&answer[..end]).into_owned(),
        body: answer[end + 4..].to_vec(),
    }
}

/// TLS configuration that trusts the lab's CA.
pub(crate) fn client_config(
    lab: &Lab,
    versions: &[&'static rustls::SupportedProtocolVersion],
) -> ClientConfig {
    client_config_with(default_provider(), lab, versions)
}

/// The same, with another crypto provider.
pub(crate) fn client_config_with(
    provider: CryptoProvider,
    lab: &Lab,
    versions: &[&'static rustls::SupportedProtocolVersion],
) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(lab.ca_pem().as_bytes()).unwrap()).unwrap();
    ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth()
}

/// CLOCK_MONOTONIC.
pub(crate) fn now_ms() -> f64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap();
    now.tv_sec() as f64 * 1e3 + now.tv_nsec() as f64 / 1e6
}

/// Waits until a host's server has logged `count` requests, and returns them. Servers log a request after answering it.
pub(crate) fn wait_for_requests(lab: &Lab, host: &str, count: usize) -> Vec<Entry> {
    for _ in 0..200 {
        let requests = lab.requests(host).unwrap();
        if requests.len() >= count {
            assert_eq!(requests.len(), count, "{requests:?}");
            return requests;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{:?}, {count} expected", lab.requests(host).unwrap());
}

/// A frame of a capture.
pub(crate) struct Packet {
    pub(crate) realtime_ns: u64,
    /// 1 in, 2 out, 0 unknown.
    pub(crate) direction: u32,
    pub(crate) frame: Vec<u8>,
}

impl Packet {
    /// The TCP flags and ports of the frame, if it is TCP: (flags, source, destination).
    pub(crate) fn tcp(&self) -> Option<(u8, u16, u16)> {
        let packet = self.frame.get(14..)?;
        let header = match packet[0] >> 4 {
            4 if packet[9] == 6 => usize::from(packet[0] & 0xf) * 4,
            6 if packet[6] == 6 => 40,
            _ => return None,
        };
        let tcp = packet.get(header..)?;
        let port = |at: usize| u16::from_be_bytes([tcp[at], tcp[at + 1]]);
        Some((tcp[13], port(0), port(2)))
    }

    /// Length of the frame's TCP payload, if it is TCP.
    pub(crate) fn tcp_payload(&self) -> Option<usize> {
        self.tcp()?;
        let packet = &self.frame[14..];
        let length = |at: usize| usize::from(u16::from_be_bytes([packet[at], packet[at + 1]]));
        // IPv4's length includes the header, IPv6's does not.
        let (header, end) = if self.is_ipv6() {
            (40, 40 + length(4))
        } else {
            (usize::from(packet[0] & 0xf) * 4, length(2))
        };
        Some(end - header - usize::from(packet[header + 12] >> 4) * 4)
    }

    pub(crate) fn is_ipv6(&self) -> bool {
        self.frame[14] >> 4 == 6
    }
}

/// Reads the packets of a capture file, and how many it says are missing.
pub(crate) fn read_capture(file: &Path) -> (Vec<Packet>, u64) {
    let bytes = std::fs::read(file).unwrap();
    let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let (mut packets, mut dropped, mut at) = (Vec::new(), None, 0);
    while at < bytes.len() {
        let length = u32_at(at + 4) as usize;
        assert_eq!(u32_at(at + length - 4) as usize, length, "the block at {at} is broken");
        match u32_at(at) {
            6 => {
                let captured = u32_at(at + 20) as usize;
                let options = at + 28 + captured.next_multiple_of(4);
                packets.push(Packet {
                    realtime_ns: u64::from(u32_at(at + 12)) << 32 | u64::from(u32_at(at + 16)),
                    direction: u32_at(options + 4),
                    frame: bytes[at + 28..at + 28 + captured].to_vec(),
                });
            }
            5 => dropped = Some(u64::from(u32_at(at + 24))),
            _ => {}
        }
        at += length;
    }
    (packets, dropped.expect("the capture was finished"))
}

/// The shortest of several times: other load on the machine only adds.
pub(crate) fn fastest(times: impl IntoIterator<Item = f64>) -> f64 {
    times.into_iter().min_by(f64::total_cmp).expect("a time")
}

pub(crate) fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values[values.len() / 2]
}
