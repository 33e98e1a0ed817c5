//! The built-in server against a plain rustls client on loopback.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::*;
use crate::ca::Ca;

const NAME: &str = "www.lab.test";

fn start(change: impl FnOnce(&mut Config)) -> (Handle, Arc<ClientConfig>) {
    let ca = Ca::new().unwrap();
    let mut config = Config::new(ca.issue(&[NAME.to_owned()]).unwrap());
    change(&mut config);
    let server = spawn(config, Listeners::loopback().unwrap()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ca.root_pem().as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    (server, Arc::new(client))
}

fn get(stream: &mut (impl Read + Write), path: &str) -> String {
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {NAME}\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn get_tls(server: &Handle, client: &Arc<ClientConfig>, path: &str) -> String {
    let name = NAME.try_into().unwrap();
    let connection = ClientConnection::new(Arc::clone(client), name).unwrap();
    let stream = TcpStream::connect(server.addr()).unwrap();
    get(&mut StreamOwned::new(connection, stream), path)
}

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").unwrap().1
}

#[test]
fn serves_pages_of_the_size_asked_for() {
    let (server, client) = start(|config| config.page_bytes = 12_345);
    assert_eq!(body(&get_tls(&server, &client, "/")).len(), 12_345);
    assert_eq!(body(&get_tls(&server, &client, "/bytes/100000")).len(), 100_000);
    assert!(get_tls(&server, &client, "/nowhere").starts_with("HTTP/1.1 404"));
    let redirect = get_tls(&server, &client, "/redirect");
    assert!(redirect.starts_with("HTTP/1.1 302"), "{redirect}");
    assert!(redirect.contains("location: /\r\n"), "{redirect}");
}

#[test]
fn serves_without_tls_too() {
    let (server, _) = start(|_| ());
    let mut stream = TcpStream::connect(server.http_addr().unwrap()).unwrap();
    assert_eq!(body(&get(&mut stream, "/")).len(), 2_000);
}

#[cfg(target_os = "linux")]
#[test]
fn takes_its_time_when_told_to() {
    let (server, client) = start(|config| {
        config.think_time = Duration::from_millis(60);
        config.handshake_delay = Duration::from_millis(40);
    });
    let before = crate::clock::monotonic_ns();
    get_tls(&server, &client, "/");
    assert!(crate::clock::monotonic_ns() - before >= 100_000_000);
}

#[test]
fn speaks_the_versions_it_was_given() {
    for (versions, expected) in [
        (TlsVersions::Tls12, rustls::ProtocolVersion::TLSv1_2),
        (TlsVersions::Tls13, rustls::ProtocolVersion::TLSv1_3),
    ] {
        let (server, client) = start(|config| config.versions = versions);
        let mut stream = TcpStream::connect(server.addr()).unwrap();
        let name = NAME.try_into().unwrap();
        let mut connection = ClientConnection::new(client, name).unwrap();
        while connection.is_handshaking() {
            connection.complete_io(&mut stream).unwrap();
        }
        assert_eq!(connection.protocol_version(), Some(expected));
    }
}
