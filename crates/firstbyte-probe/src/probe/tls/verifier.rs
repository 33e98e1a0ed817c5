//! Checks the server's certificate, and remembers the certificate and the result.
//!
//! With `-k`, a bad certificate is recorded as not verified, and the handshake continues.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, verify_tls12_signature, verify_tls13_signature,
    verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::x509::SubjectPublicKeyInfo;

use super::pinned;

/// The certificates of a server, and the result of the check.
#[derive(Clone, Debug, Default)]
pub(in crate::probe) struct Seen {
    /// The certificates, leaf first.
    pub chain: Vec<CertificateDer<'static>>,
    /// Whether they were valid; absent if unchecked.
    pub verified: Option<bool>,
    /// The problem with them.
    pub error: Option<CertificateError>,
    /// A description of the weakness, if one is the problem.
    pub weakness: Option<String>,
}

/// The trusted certificates.
#[derive(Debug)]
pub(super) struct Trust {
    /// Trusted issuers; absent when nothing is verified.
    pub issuers: Option<Arc<WebPkiServerVerifier>>,
    /// The certificates given by the user; one of them may be a server's own.
    pub given: Vec<CertificateDer<'static>>,
}

impl Trust {
    fn verify(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<(), Error> {
        let Some(issuers) = &self.issuers else {
            return Err(CertificateError::UnknownIssuer.into());
        };
        let result = issuers.verify_server_cert(leaf, intermediates, name, ocsp, now);
        if result.is_err() && self.is_given(leaf) {
            return pinned::check(leaf, name, now).map_err(Error::from);
        }
        result.map(|_| ())
    }

    fn is_given(&self, leaf: &CertificateDer<'_>) -> bool {
        self.given.iter().any(|given| given.as_ref() == leaf.as_ref())
    }
}

/// A verifier for one handshake.
#[derive(Debug)]
pub(super) struct Verifier {
    trust: Arc<Trust>,
    crypto: Arc<CryptoProvider>,
    insecure: bool,
    seen: Mutex<Seen>,
    verified: AtomicU64,
}

impl Verifier {
    pub(super) fn new(trust: Arc<Trust>, crypto: Arc<CryptoProvider>, insecure: bool) -> Self {
        Self { trust, crypto, insecure, seen: Mutex::default(), verified: AtomicU64::new(0) }
    }

    /// Forgets everything seen, for another handshake.
    pub(super) fn forget(&self) {
        *self.noted() = Seen::default();
    }

    /// How many chains it was shown.
    pub(super) fn verified(&self) -> u64 {
        self.verified.load(Ordering::Relaxed)
    }

    pub(super) fn seen(&self) -> Seen {
        self.noted().clone()
    }

    /// Applies `look` to the certificates seen, without copying them.
    pub(super) fn look<T>(&self, look: impl FnOnce(&Seen) -> T) -> T {
        look(&self.noted())
    }

    fn noted(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Handles the result for the handshake's own signature, made with the certificate's key.
    fn signature(
        &self,
        result: Result<HandshakeSignatureValid, Error>,
        certificate: &CertificateDer<'_>,
    ) -> Result<HandshakeSignatureValid, Error> {
        let Err(error) = result else { return result };
        let mut seen = self.noted();
        seen.verified = Some(false);
        if let Error::InvalidCertificate(error) = &error {
            let leaf = std::slice::from_ref(certificate);
            seen.weakness = pinned::weakness(leaf, &[], error);
            seen.error = Some(error.clone());
        }
        // With an unverified certificate, the signature would prove nothing anyway.
        if self.insecure { Ok(HandshakeSignatureValid::assertion()) } else { Err(error) }
    }

    /// The key of a certificate that webpki cannot read, such as one of X.509 version 1.
    fn key_of<'a>(&self, certificate: &'a CertificateDer<'_>) -> Option<SubjectPublicKeyInfo<'a>> {
        if !self.trust.is_given(certificate) || ParsedCertificate::try_from(certificate).is_ok() {
            return None;
        }
        let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
        Some(parsed.tbs_certificate.subject_pki)
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
        let result = self.trust.verify(leaf, intermediates, name, ocsp, now);
        let chain = std::iter::once(leaf).chain(intermediates);
        let chain: Vec<_> = chain.map(|c| c.clone().into_owned()).collect();
        let error = match &result {
            Err(Error::InvalidCertificate(error)) => Some(error.clone()),
            _ => None,
        };
        let weakness =
            error.as_ref().and_then(|error| pinned::weakness(&chain, &self.trust.given, error));
        *self.noted() = Seen { chain, verified: Some(result.is_ok()), error, weakness };
        self.verified.fetch_add(1, Ordering::Relaxed);
        let verified = ServerCertVerified::assertion();
        if self.insecure { Ok(verified) } else { result.map(|()| verified) }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.crypto.signature_verification_algorithms;
        let result = match self.key_of(certificate) {
            None => verify_tls12_signature(message, certificate, signature, algorithms),
            Some(key) => {
                let of_scheme =
                    algorithms.mapping.iter().filter(|(scheme, _)| *scheme == signature.scheme);
                of_scheme
                    .flat_map(|(_, algorithms)| *algorithms)
                    .any(|algorithm| {
                        let key = key.subject_public_key.data.as_ref();
                        algorithm.verify_signature(key, message, signature.signature()).is_ok()
                    })
                    .then(HandshakeSignatureValid::assertion)
                    .ok_or_else(|| CertificateError::BadSignature.into())
            }
        };
        self.signature(result, certificate)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.crypto.signature_verification_algorithms;
        let result = match self.key_of(certificate) {
            None => verify_tls13_signature(message, certificate, signature, algorithms),
            Some(key) => {
                let key = SubjectPublicKeyInfoDer::from(key.raw);
                verify_tls13_signature_with_raw_key(message, &key, signature, algorithms)
            }
        };
        self.signature(result, certificate)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.crypto.signature_verification_algorithms.supported_schemes()
    }
}
