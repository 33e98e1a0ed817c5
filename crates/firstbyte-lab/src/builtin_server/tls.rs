//! The built-in server's TLS configuration.

use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::{TLS12, TLS13};
use rustls::{ServerConfig, SupportedProtocolVersion};

use super::{Config, TlsVersions};

pub(super) fn config(config: &Config) -> Result<ServerConfig, rustls::Error> {
    let chain = CertificateDer::pem_slice_iter(config.certificate.chain_pem.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .map_err(unreadable)?;
    let key =
        PrivateKeyDer::from_pem_slice(config.certificate.key_pem.as_bytes()).map_err(unreadable)?;
    let versions: &[&SupportedProtocolVersion] = match config.versions {
        TlsVersions::Both => &[&TLS13, &TLS12],
        TlsVersions::Tls12 => &[&TLS12],
        TlsVersions::Tls13 => &[&TLS13],
    };
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut tls = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    tls.alpn_protocols = config.alpn.iter().map(|name| name.clone().into_bytes()).collect();
    tls.ticketer = aws_lc_rs::Ticketer::new()?;
    tls.send_tls13_tickets = config.tickets;
    Ok(tls)
}

fn unreadable(error: PemError) -> rustls::Error {
    rustls::Error::General(format!("unreadable PEM: {error}"))
}
