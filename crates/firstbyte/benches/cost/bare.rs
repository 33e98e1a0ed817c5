//! The least a connection can cost: rustls over a socket, and nothing noted.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use rustls::client::Resumption;
use rustls::crypto::aws_lc_rs as provider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, HandshakeKind, RootCertStore, StreamOwned};

/// The first connection has nothing to resume.
static WARM: AtomicBool = AtomicBool::new(false);

pub(crate) fn config(ca: &str, group: &str, resumed: bool) -> Result<Arc<ClientConfig>, String> {
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
    Ok(Arc::new(config))
}

pub(crate) fn get(
    config: &Arc<ClientConfig>,
    address: SocketAddr,
    resumed: bool,
) -> Result<(), String> {
    let name = address.ip().into();
    let connection = ClientConnection::new(Arc::clone(config), name).map_err(|e| e.to_string())?;
    let socket = TcpStream::connect(address).map_err(|e| e.to_string())?;
    socket.set_nodelay(true).map_err(|e| e.to_string())?;
    let mut stream = StreamOwned::new(connection, socket);
    let request = b"GET / HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\nConnection: close\r\n\r\n";
    stream.write_all(request).map_err(|e| e.to_string())?;
    let mut answer = Vec::with_capacity(4_096);
    stream.read_to_end(&mut answer).map_err(|e| e.to_string())?;
    if !answer.starts_with(b"HTTP/1.1 200") {
        return Err("bare rustls was not answered".into());
    }
    let kind = stream.conn.handshake_kind();
    if resumed && kind != Some(HandshakeKind::Resumed) && WARM.swap(true, Relaxed) {
        return Err(format!("bare rustls did not resume: {kind:?}"));
    }
    Ok(())
}
