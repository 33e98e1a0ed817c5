//! The client's own certificate, and whether servers ask for one.
//!
//! TLS 1.2 has no alert for a missing client certificate (RFC 5246 §7.2.2). But if the server asked for one, we know
//! what its `handshake_failure` means.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::sign::CertifiedKey;

/// Answers CertificateRequests, and counts them.
#[derive(Debug)]
pub(super) struct ClientAuth {
    certificate: Arc<dyn ResolvesClientCert>,
    asked: AtomicU64,
}

impl ClientAuth {
    pub(super) fn new(certificate: Arc<dyn ResolvesClientCert>) -> Self {
        Self { certificate, asked: AtomicU64::new(0) }
    }

    /// How many times servers have asked.
    pub(super) fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }
}

impl ResolvesClientCert for ClientAuth {
    fn resolve(
        &self,
        root_hint_subjects: &[&[u8]],
        sigschemes: &[SignatureScheme],
    ) -> Option<Arc<CertifiedKey>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.certificate.resolve(root_hint_subjects, sigschemes)
    }

    fn only_raw_public_keys(&self) -> bool {
        self.certificate.only_raw_public_keys()
    }

    fn has_certs(&self) -> bool {
        self.certificate.has_certs()
    }
}
