//! Pages, delays, versions and groups over TCP.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::aws_lc_rs::kx_group::{SECP256R1, X25519, X25519MLKEM768};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, NamedGroup, StreamOwned};

use super::*;

fn get(stream: &mut (impl Read + Write), path: &str) -> String {
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {NAME}\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn get_tls(subject: &Subject, path: &str) -> String {
    let client = Arc::new(subject.client(&[&TLS12, &TLS13]));
    let connection = ClientConnection::new(client, NAME.try_into().unwrap()).unwrap();
    let stream = TcpStream::connect(subject.server.addr()).unwrap();
    get(&mut StreamOwned::new(connection, stream), path)
}

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").unwrap().1
}

/// Opens a connection and completes its handshake.
fn connected(subject: &Subject, client: ClientConfig) -> ClientConnection {
    let mut stream = TcpStream::connect(subject.server.addr()).unwrap();
    let mut connection = ClientConnection::new(Arc::new(client), NAME.try_into().unwrap()).unwrap();
    while connection.is_handshaking() {
        connection.complete_io(&mut stream).unwrap();
    }
    connection
}

#[test]
fn serves_pages_of_the_size_asked_for() {
    let subject = start(|config| config.page_bytes = 12_345);
    assert_eq!(body(&get_tls(&subject, "/")).len(), 12_345);
    assert_eq!(body(&get_tls(&subject, "/bytes/1000000")).len(), 1_000_000);
    assert!(get_tls(&subject, "/nowhere").starts_with("HTTP/1.1 404"));
    let redirect = get_tls(&subject, "/redirect");
    assert!(redirect.starts_with("HTTP/1.1 302"), "{redirect}");
    assert!(redirect.contains("location: /\r\n"), "{redirect}");
}

/// Redirects match scheme, name and path, but ignore the port.
#[test]
fn redirects_where_it_is_told_to() {
    let to = format!("https://{NAME}/");
    let redirects = [(format!("http://{NAME}/"), to.clone()), (format!("{to}old"), "/new".into())];
    let subject = start(|config| config.redirects = redirects.into());
    let plain = |path: &str, host: &str| {
        let mut stream = TcpStream::connect(subject.server.http_addr().unwrap()).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    for host in [NAME, "WWW.LAB.TEST:8080"] {
        let answer = plain("/?query", host);
        assert!(answer.starts_with("HTTP/1.1 301"), "{answer}");
        assert!(answer.contains(&format!("location: {to}\r\n")), "{answer}");
    }
    assert!(plain("/", "other.test").starts_with("HTTP/1.1 200"));
    assert!(plain("/old", NAME).starts_with("HTTP/1.1 404"));
    let answer = get_tls(&subject, "/old");
    assert!(answer.contains("location: /new\r\n"), "{answer}");
    assert!(get_tls(&subject, "/").starts_with("HTTP/1.1 200"));
}

#[test]
fn says_what_it_did() {
    let subject = start(|_| ());
    let answer = get_tls(&subject, "/");
    for header in ["x-firstbyte-early-data: 0\r\n", "x-firstbyte-resumed: 0\r\n"] {
        assert!(answer.contains(header), "{answer}");
    }
    let port = subject.server.quic_addr().unwrap().port();
    assert_eq!(port, subject.server.addr().port());
    assert!(answer.contains(&format!("alt-svc: h3=\":{port}\"; ma=86400\r\n")), "{answer}");
    let [entry] = subject.log.entries().try_into().unwrap();
    assert_eq!((entry.protocol.as_str(), entry.path.as_str()), ("HTTP/1.1", "/"));
    assert_eq!((entry.tls.as_deref(), entry.connection), (Some("TLSv1.3"), Some(1)));
}

#[test]
fn serves_without_tls_too() {
    let subject = start(|_| ());
    let mut stream = TcpStream::connect(subject.server.http_addr().unwrap()).unwrap();
    let answer = get(&mut stream, "/");
    assert_eq!(body(&answer).len(), 2_000);
    assert!(!answer.contains("x-firstbyte"), "{answer}");
    assert_eq!(subject.log.entries()[0].tls, None);
}

#[cfg(target_os = "linux")]
#[test]
fn takes_its_time_when_told_to() {
    let subject = start(|config| {
        config.think_time = Duration::from_millis(60);
        config.handshake_delay = Duration::from_millis(40);
    });
    let before = crate::clock::monotonic_ns();
    get_tls(&subject, "/");
    assert!(crate::clock::monotonic_ns() - before >= 100_000_000);
}

/// Two of four requests are slow. A busy machine slows the others too, so only their minimum is checked.
#[cfg(target_os = "linux")]
#[test]
fn takes_longer_for_every_second_request() {
    const LONGER: Duration = Duration::from_millis(150);
    let every = std::num::NonZeroU64::new(2).unwrap();
    let subject = start(|config| config.slow = Some(SlowRequests { every, think_time: LONGER }));
    let took = || {
        let before = crate::clock::monotonic_ns();
        get_tls(&subject, "/");
        Duration::from_nanos(crate::clock::monotonic_ns() - before)
    };
    let [first, second, third, fourth] = [took(), took(), took(), took()];
    assert!(second >= LONGER && fourth >= LONGER, "{second:?}, {fourth:?}");
    assert!(first.min(third) < LONGER, "{first:?}, {third:?}");
}

#[test]
fn speaks_the_versions_it_was_given() {
    for (versions, expected) in [
        (TlsVersions::Both, rustls::ProtocolVersion::TLSv1_3),
        (TlsVersions::Tls12, rustls::ProtocolVersion::TLSv1_2),
        (TlsVersions::Tls13, rustls::ProtocolVersion::TLSv1_3),
    ] {
        let subject = start(|config| config.versions = versions);
        let connection = connected(&subject, subject.client(&[&TLS12, &TLS13]));
        assert_eq!(connection.protocol_version(), Some(expected));
    }
    let subject = start(|_| ());
    let connection = connected(&subject, subject.client(&[&TLS12]));
    assert_eq!(connection.protocol_version(), Some(rustls::ProtocolVersion::TLSv1_2));
}

#[test]
fn the_servers_favourite_group_is_used_even_if_it_costs_a_hello_retry_request() {
    let offering = |subject: &Subject, groups| {
        let mut provider = rustls::crypto::aws_lc_rs::default_provider();
        provider.kx_groups = groups;
        ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .with_root_certificates(subject.roots.clone())
            .with_no_client_auth()
    };
    let all = || vec![X25519, SECP256R1, X25519MLKEM768];
    for (groups, expected, kind) in [
        (vec![], NamedGroup::X25519, HandshakeKind::Full),
        (vec![KexGroup::X25519, KexGroup::P256], NamedGroup::X25519, HandshakeKind::Full),
        (
            vec![KexGroup::P256, KexGroup::X25519],
            NamedGroup::secp256r1,
            HandshakeKind::FullWithHelloRetryRequest,
        ),
        (
            vec![KexGroup::X25519MlKem768, KexGroup::X25519],
            NamedGroup::X25519MLKEM768,
            HandshakeKind::FullWithHelloRetryRequest,
        ),
        (
            vec![KexGroup::P384, KexGroup::P256],
            NamedGroup::secp256r1,
            HandshakeKind::FullWithHelloRetryRequest,
        ),
    ] {
        let subject = start(|config| config.groups = groups.clone());
        let connection = connected(&subject, offering(&subject, all()));
        let group = connection.negotiated_key_exchange_group().unwrap().name();
        assert_eq!((group, connection.handshake_kind()), (expected, Some(kind)), "{groups:?}");
    }
    // TLS 1.2 cannot use a hybrid group.
    let subject = start(|config| config.groups = vec![KexGroup::X25519MlKem768, KexGroup::X25519]);
    let connection = connected(&subject, subject.client(&[&TLS12]));
    assert_eq!(connection.protocol_version(), Some(rustls::ProtocolVersion::TLSv1_2));
}

#[test]
fn a_key_of_another_certificate_is_refused() {
    let ca = Ca::new().unwrap();
    let names = [NAME.to_owned()];
    let mut certificate = ca.issue(&names).unwrap();
    certificate.key_pem = ca.issue(&names).unwrap().key_pem;
    let error = spawn(Config::new(certificate), Listeners::loopback().unwrap()).unwrap_err();
    assert!(matches!(error, StartError::Tls(_)), "{error}");
}
