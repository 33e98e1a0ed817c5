//! Proxies: tunnels that open, are refused or are cut short; TLS inside TLS.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use firstbyte_core::timeline::{Cause, Mark, PhaseName};

use super::peers::{App, CERTIFICATE, Cut, OK, Plain, TlsPeer, http1};
use super::visit::{Asked, Client, Visited, simulated};
use crate::net::simulated::{Said, StreamPeer, What};
use crate::probe::options::{ProxyOptions, ProxyRules, TlsVersion};

const PROXY: &str = "proxy.test:3128";
const CONNECT: &[u8] =
    b"CONNECT server.test:443 HTTP/1.1\r\nHost: server.test:443\r\nUser-Agent: test\r\n\
                         Proxy-Connection: Keep-Alive\r\n\r\n";
const OPENED: &[u8] = b"HTTP/1.1 200 Connection established\r\nVia: 1.1 proxy\r\n\r\n";
/// Time that the proxy takes for each answer.
const THINKS_MS: u64 = 30;

/// The messages that a proxy expects, and its answers.
type ProxyScript<'a> = &'a [(&'a [u8], &'a [u8])];

/// A proxy that expects and answers a script; everything after that goes to its server.
struct Tunnel {
    script: VecDeque<(Vec<u8>, Vec<u8>)>,
    heard: Vec<u8>,
    server: Box<dyn StreamPeer>,
}

impl Tunnel {
    fn new(script: ProxyScript<'_>, server: impl StreamPeer + 'static) -> Self {
        let script = script.iter().map(|(hears, says)| (hears.to_vec(), says.to_vec())).collect();
        Self { script, heard: Vec::new(), server: Box::new(server) }
    }

    fn answer(&mut self, bytes: &[u8]) -> Vec<Said> {
        self.heard.extend_from_slice(bytes);
        let mut out = Vec::new();
        while let Some((hears, says)) = self.script.front() {
            if self.heard.len() < hears.len() {
                return out;
            }
            let heard: Vec<u8> = self.heard.drain(..hears.len()).collect();
            assert_eq!(String::from_utf8_lossy(&heard), String::from_utf8_lossy(hears));
            out.push(Said::bytes(THINKS_MS, says.clone()));
            self.script.pop_front();
        }
        if !self.heard.is_empty() {
            out.extend(self.server.take(&std::mem::take(&mut self.heard)));
        }
        out
    }
}

impl StreamPeer for Tunnel {
    fn take(&mut self, bytes: &[u8]) -> Vec<Said> {
        self.answer(bytes)
    }
}

impl App for Tunnel {
    fn take(&mut self, bytes: &[u8]) -> Vec<Said> {
        self.answer(bytes)
    }
}

fn server() -> TlsPeer {
    TlsPeer::new(&Arc::new(CERTIFICATE.config(&[])), http1(|| vec![Said::bytes(20, OK)]))
}

fn through(mut client: Client, proxy: &str) -> Client {
    let proxy = ProxyOptions::read(proxy).unwrap();
    client.proxies.proxy = Some(ProxyRules {
        http: Some(proxy.clone()),
        https: Some(proxy),
        insecure: true,
        ..ProxyRules::default()
    });
    client
}

fn visit(proxy: &str, peer: impl StreamPeer + 'static) -> Visited {
    simulated(async { through(Client::new(&Asked::default()), proxy).visit(peer).await })
}

fn took(visited: &Visited, from: Mark, to: Mark) -> Duration {
    visited.at(to) - visited.at(from)
}

#[test]
fn connect_opens_a_tunnel_and_tls_begins_with_its_answer() {
    let visited = visit(PROXY, Tunnel::new(&[(CONNECT, OPENED)], server()));
    assert_eq!(visited.status(), Some(200));
    let proxy = visited.connection.facts.proxy.as_ref().unwrap();
    assert_eq!((proxy.authority.as_str(), proxy.tunnel, proxy.status), (PROXY, true, Some(200)));
    assert_eq!(took(&visited, Mark::TunnelStart, Mark::TunnelEnd), Duration::from_millis(70));
    assert_eq!(visited.at(Mark::SecureConnectionStart), visited.at(Mark::TunnelEnd));
    assert!(!visited.has(Mark::ProxySecureStart) && visited.connection.facts.tls.is_some());
    // A round trip for the handshake; another one and the server's 20 ms for the response.
    let handshake = took(&visited, Mark::TunnelEnd, Mark::HandshakeComplete);
    assert!((40..44).contains(&handshake.as_millis()), "{handshake:?}");
    assert_eq!(took(&visited, Mark::RequestEnd, Mark::ResponseStart), Duration::from_millis(60));
}

#[test]
fn a_tunnel_that_is_refused_has_the_proxys_words() {
    let refusal =
        b"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\n\r\nno";
    let visited = visit(PROXY, Tunnel::new(&[(CONNECT, refusal)], server()));
    let expected = Cause::ProxyRefused {
        authority: PROXY.into(),
        detail: "407 Proxy Authentication Required".into(),
        status: Some(407),
    };
    assert_eq!(visited.failure(), Some((PhaseName::Tunnel, &expected)));
    assert_eq!(visited.connection.facts.proxy.as_ref().unwrap().status, Some(407));
    assert!(visited.has(Mark::TunnelStart) && !visited.has(Mark::TunnelEnd));
}

#[test]
fn an_answer_that_is_cut_short_is_the_proxys_fault() {
    for how in [What::Fin, What::Reset] {
        for left in 0..OPENED.len() {
            let peer = Tunnel::new(&[(CONNECT, OPENED)], server());
            let visited = visit(PROXY, Cut { peer, left, how: how.clone() });
            let Some((PhaseName::Tunnel, Cause::ProxyMisbehaved { .. })) = visited.failure() else {
                panic!("{left}: {:?}", visited.failure());
            };
        }
    }
    let not_http = visit(PROXY, Tunnel::new(&[(CONNECT, b"SSH-2.0-OpenSSH\r\n")], server()));
    let failure = not_http.failure().unwrap().1.to_string();
    assert!(failure.contains("SSH-2.0-OpenSSH"), "{failure}");
}

const SOCKS5_CONNECT: &[u8] = b"\x05\x01\x00\x03\x0bserver.test\x01\xbb";
const SOCKS5_OPENED: &[u8] = b"\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00";

#[test]
fn socks5_with_and_without_a_user() {
    let open: ProxyScript<'_> = &[(b"\x05\x01\x00", b"\x05\x00"), (SOCKS5_CONNECT, SOCKS5_OPENED)];
    let visited = visit("socks5h://proxy.test", Tunnel::new(open, server()));
    assert_eq!(visited.status(), Some(200));
    // The greeting and the request each take a round trip and the proxy's time.
    let took_140 = took(&visited, Mark::TunnelStart, Mark::TunnelEnd);
    assert!((140..143).contains(&took_140.as_millis()), "{took_140:?}");
    assert_eq!(visited.connection.facts.proxy.as_ref().unwrap().status, None);

    let login: ProxyScript<'_> = &[
        (b"\x05\x02\x00\x02", b"\x05\x02"),
        (b"\x01\x02me\x06s3cret", b"\x01\x00"),
        // The proxy connects from an IPv6 address, and then from a name.
        (SOCKS5_CONNECT, b"\x05\x00\x00\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\x04\x38"),
    ];
    let proxy = "socks5h://me:s3cret@proxy.test";
    assert_eq!(visit(proxy, Tunnel::new(login, server())).status(), Some(200));
    let mut named = login.to_vec();
    named[2].1 = b"\x05\x00\x00\x03\x01a\x04\x38";
    assert_eq!(visit(proxy, Tunnel::new(&named, server())).status(), Some(200));
}

#[test]
fn socks_refusals_are_told_by_name() {
    let cases: [(&str, ProxyScript<'_>, &str); 3] = [
        ("socks5h://p", &[(b"\x05\x01\x00", b"\x05\xff")], "requires authentication"),
        (
            "socks5h://p",
            &[(b"\x05\x01\x00", b"\x05\x00"), (SOCKS5_CONNECT, b"\x05\x02\x00\x01\0\0\0\0\0\0")],
            "SOCKS5: connection not allowed",
        ),
        (
            "socks4a://me@p",
            &[(b"\x04\x01\x01\xbb\0\0\0\x01me\0server.test\0", b"\0\x5b\0\0\0\0\0\0")],
            "SOCKS4: request rejected",
        ),
    ];
    for (proxy, script, detail) in cases {
        let visited = visit(proxy, Tunnel::new(script, server()));
        let Some((PhaseName::Tunnel, cause)) = visited.failure() else {
            panic!("{:?}", visited.failure());
        };
        assert!(matches!(cause, Cause::ProxyRefused { status: None, .. }), "{cause:?}");
        assert!(cause.to_string().contains(detail), "{cause}");
    }
}

#[test]
fn tls_inside_tls_has_the_times_of_the_outer_records() {
    for tls in [TlsVersion::V1_2, TlsVersion::V1_3] {
        let visited = simulated(async {
            let client = Client::new(&Asked { tls, ..Asked::default() });
            let tunnel = Tunnel::new(&[(CONNECT, OPENED)], server());
            let proxy = TlsPeer::new(&Arc::new(CERTIFICATE.config(&["http/1.1"])), tunnel);
            through(client, "https://proxy.test:3128").visit(proxy).await
        });
        assert_eq!(visited.status(), Some(200), "{:?}", visited.failure());
        assert_eq!(visited.at(Mark::ProxySecureStart), visited.at(Mark::TcpConnected));
        // The client's Finished and CONNECT leave together.
        assert_eq!(visited.at(Mark::ProxyHandshakeComplete), visited.at(Mark::TunnelStart));
        assert_eq!(took(&visited, Mark::TunnelStart, Mark::TunnelEnd), Duration::from_millis(70));
        assert_eq!(visited.at(Mark::SecureConnectionStart), visited.at(Mark::TunnelEnd));
        assert_eq!(
            took(&visited, Mark::RequestEnd, Mark::ResponseStart),
            Duration::from_millis(60)
        );
        let version = visited.connection.facts.tls.as_ref().unwrap().version.as_deref();
        let expected = if tls == TlsVersion::V1_2 { "TLSv1.2" } else { "TLSv1.3" };
        assert_eq!(version, Some(expected), "the facts are the server's");
    }
}

#[test]
fn a_proxy_that_fails_in_its_handshake_leaves_no_facts_of_the_servers() {
    let visited = visit("https://proxy.test:3128", Plain(|_: &[u8]| vec![Said::bytes(0, OK)]));
    let expected = Cause::NotTls { looks_like: Some("HTTP"), server: Some(PROXY.into()) };
    assert_eq!(visited.failure(), Some((PhaseName::ProxyTls, &expected)));
    assert!(visited.connection.facts.tls.is_none());
}

#[test]
fn plain_requests_go_to_the_proxy_itself() {
    for (proxy, is_tls) in [(PROXY, false), ("https://proxy.test:3128", true)] {
        let visited = simulated(async {
            let client = through(Client::plain(), proxy);
            let head =
                b"GET http://server.test/ HTTP/1.1\r\nHost: server.test\r\nUser-Agent: test\r\n\
                         Accept: */*\r\nProxy-Connection: Keep-Alive\r\n\r\n";
            let forwards = Tunnel::new(&[(head, OK)], crate::net::simulated::Silent);
            match is_tls {
                true => {
                    let config = Arc::new(CERTIFICATE.config(&["http/1.1"]));
                    client.visit(TlsPeer::new(&config, forwards)).await
                }
                false => client.visit(forwards).await,
            }
        });
        assert_eq!(visited.status(), Some(200), "{:?}", visited.failure());
        assert_eq!(visited.has(Mark::ProxyHandshakeComplete), is_tls);
        assert!(!visited.has(Mark::TunnelStart) && visited.connection.facts.tls.is_none());
        assert!(!visited.connection.facts.proxy.as_ref().unwrap().tunnel);
        let waited = took(&visited, Mark::RequestEnd, Mark::ResponseStart);
        assert_eq!(waited, Duration::from_millis(70));
    }
}
