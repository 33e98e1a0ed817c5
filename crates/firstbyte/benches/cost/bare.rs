//! The minimum cost of a connection: rustls over a socket, recording nothing.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::aws_lc_rs as provider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, HandshakeKind, RootCertStore, StreamOwned};

/// How a connection ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// The server closes as requested, and the client sends nothing more, like rustls' own examples.
    Leaves,
    /// The client closes with `close_notify` once it has the page (RFC 8446 §6.1), like firstbyte and curl.
    SaysGoodbye,
}

pub(crate) fn config(
    ca: &str,
    group: &str,
    resumed: bool,
    manner: Manner,
) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    let certificate = CertificateDer::from_pem_slice(ca.as_bytes()).map_err(|e| e.to_string())?;
    roots.add(certificate).map_err(|e| e.to_string())?;
    let mut crypto = provider::default_provider();
    if group == "X25519" {
        crypto.kx_groups = vec![provider::kx_group::X25519];
    } else {
        use provider::kx_group::{SECP256R1, SECP384R1, X25519, X25519MLKEM768};
        crypto.kx_groups = vec![X25519MLKEM768, X25519, SECP256R1, SECP384R1];
    }
    let mut config = ClientConfig::builder_with_provider(Arc::new(crypto))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|e| e.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    if !resumed {
        config.resumption = Resumption::disabled();
    }
    if manner == Manner::SaysGoodbye {
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
    }
    Ok(Arc::new(config))
}

pub(crate) fn get(
    config: &Arc<ClientConfig>,
    address: SocketAddr,
    manner: Manner,
) -> Result<HandshakeKind, String> {
    let name = address.ip().into();
    let connection = ClientConnection::new(Arc::clone(config), name).map_err(|e| e.to_string())?;
    let socket = TcpStream::connect(address).map_err(|e| e.to_string())?;
    socket.set_nodelay(true).map_err(|e| e.to_string())?;
    let mut stream = StreamOwned::new(connection, socket);
    let mut answer = Vec::with_capacity(4_096);
    match manner {
        Manner::Leaves => {
            let request =
                "GET / HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\nConnection: close\r\n\r\n";
            stream.write_all(request.as_bytes()).map_err(|e| e.to_string())?;
            stream.read_to_end(&mut answer).map_err(|e| e.to_string())?;
        }
        Manner::SaysGoodbye => {
            let request =
                "GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: bare\r\nAccept: */*\r\n\r\n";
            stream.write_all(request.as_bytes()).map_err(|e| e.to_string())?;
            let mut piece = [0; 4_096];
            while !is_whole(&answer) {
                match stream.read(&mut piece).map_err(|e| e.to_string())? {
                    0 => return Err("bare rustls was not answered to the end".into()),
                    bytes => answer.extend_from_slice(&piece[..bytes]),
                }
            }
            stream.conn.send_close_notify();
            stream.flush().map_err(|e| e.to_string())?;
        }
    }
    if !answer.starts_with(b"HTTP/1.1 200") {
        return Err("bare rustls was not answered".into());
    }
    stream.conn.handshake_kind().ok_or_else(|| "bare rustls has no session".into())
}

/// The page is one letter, 500 times.
fn is_whole(answer: &[u8]) -> bool {
    const BODY: usize = 500;
    let head = answer.windows(4).position(|w| w == b"\r\n\r\n");
    head.is_some_and(|head| answer.len() >= head + 4 + BODY)
}
