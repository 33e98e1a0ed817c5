//! Checks the server's certificate, and remembers what it was and whether it was good.
//!
//! With `-k` a bad certificate is remembered as not verified, and the handshake goes on.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};

/// What a server showed.
#[derive(Clone, Debug, Default)]
pub(in crate::probe) struct Seen {
    /// Its certificates, leaf first.
    pub chain: Vec<CertificateDer<'static>>,
    /// Whether they were good; absent while unchecked.
    pub verified: Option<bool>,
    /// What was wrong with them.
    pub error: Option<CertificateError>,
}

/// A verifier for one handshake.
#[derive(Debug)]
pub(super) struct Verifier {
    roots: Option<Arc<WebPkiServerVerifier>>,
    crypto: Arc<CryptoProvider>,
    insecure: bool,
    seen: Mutex<Seen>,
    verified: AtomicU64,
}

impl Verifier {
    pub(super) fn new(
        roots: Option<Arc<WebPkiServerVerifier>>,
        crypto: Arc<CryptoProvider>,
        insecure: bool,
    ) -> Self {
        Self { roots, crypto, insecure, seen: Mutex::default(), verified: AtomicU64::new(0) }
    }

    /// How many chains it has been shown.
    pub(super) fn verified(&self) -> u64 {
        self.verified.load(Ordering::Relaxed)
    }

    pub(super) fn seen(&self) -> Seen {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let result = self
            .roots
            .as_ref()
            .map_or(Err(Error::InvalidCertificate(CertificateError::UnknownIssuer)), |roots| {
                roots.verify_server_cert(leaf, intermediates, name, ocsp, now)
            });
        let chain = std::iter::once(leaf).chain(intermediates);
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Seen {
            chain: chain.map(|c| c.clone().into_owned()).collect(),
            verified: Some(result.is_ok()),
            error: match &result {
                Err(Error::InvalidCertificate(error)) => Some(error.clone()),
                _ => None,
            },
        };
        self.verified.fetch_add(1, Ordering::Relaxed);
        if self.insecure { Ok(ServerCertVerified::assertion()) } else { result }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.crypto.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.crypto.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.crypto.signature_verification_algorithms.supported_schemes()
    }
}
