//! TLS over QUIC (RFC 9001): the inputs and the results of a handshake.

use std::rc::Rc;
use std::sync::Arc;

use firstbyte_core::timeline::Cause;
use quinn_proto::TokenMemoryCache;
use quinn_proto::crypto::rustls::QuicClientConfig;
use rustls::pki_types::ServerName;
use rustls::{AlertDescription, Error};

use super::certificate::Certificates;
use super::client_auth::ClientAuth;
use super::quic_keys::{Passed, Seeing};
use super::session::SessionStore;
use super::verifier::{Seen, Verifier};
use super::{Offered, Tls, errors, server_name};

/// The inputs of one handshake over QUIC.
#[derive(Clone)]
pub(in crate::probe) struct QuicTls {
    pub config: Arc<Seeing>,
    /// The connection's decrypted packets.
    pub passed: Passed,
    pub host: String,
    /// Storage for tokens that prove the client's address, if they are kept.
    pub address_tokens: Option<Arc<TokenMemoryCache>>,
    /// The key-exchange group, if only one is offered.
    pub only_group: Option<String>,
    /// Whether there was a session to offer.
    pub had_session: bool,
    verifier: Arc<Verifier>,
    client_auth: Arc<ClientAuth>,
    /// How many times servers had asked for a client certificate before.
    asked_before: u64,
    /// How many chains the verifier had seen before.
    verified_before: u64,
    offered: Offered,
    pub certificates: Rc<Certificates>,
    name: ServerName<'static>,
    sessions: Arc<SessionStore>,
}

impl Tls {
    /// Begins a handshake with `host` over QUIC.
    pub(in crate::probe) fn begin_quic(&self, host: &str) -> Result<QuicTls, String> {
        let name = server_name(host)?;
        let (config, verifier) = self.for_one_handshake();
        let groups = &config.crypto_provider().kx_groups;
        let only_group = match groups.as_slice() {
            [group] => Some(format!("{:?}", group.name())),
            _ => None,
        };
        let config = QuicClientConfig::try_from(config).map_err(|e| e.to_string())?;
        let passed = Passed::default();
        let config = Seeing { inner: Arc::new(config), passed: passed.clone() };
        Ok(QuicTls {
            config: Arc::new(config),
            passed,
            host: host.to_owned(),
            only_group,
            address_tokens: self.shared.as_ref().map(|_| Arc::clone(&self.address_tokens)),
            had_session: self.shared.is_some() && self.sessions.has_session(&name),
            verified_before: verifier.verified(),
            client_auth: Arc::clone(&self.client_auth),
            asked_before: self.client_auth.asked(),
            verifier,
            offered: self.offered.clone(),
            certificates: Rc::clone(&self.certificates),
            name,
            sessions: Arc::clone(&self.sessions),
        })
    }
}

impl QuicTls {
    /// Whether the server presented certificates in this handshake: it always does in a full one, and never in a
    /// resumed one (RFC 8446 §2.2).
    pub(in crate::probe) fn was_certified(&self) -> bool {
        self.verifier.verified() > self.verified_before
    }

    /// The certificates presented by the server.
    pub(in crate::probe) fn shown(&self) -> Seen {
        if self.was_certified() { self.verifier.seen() } else { Seen::default() }
    }

    /// The error of the certificate, if it ended the handshake.
    pub(in crate::probe) fn certificate_cause(&self) -> Option<Cause> {
        let seen = self.shown();
        let error = Error::InvalidCertificate(seen.error?);
        let shown = errors::Shown {
            certificates: &|| self.certificates.describe(&seen.chain),
            weakness: seen.weakness.as_deref(),
            asked_for_certificate: false,
        };
        Some(errors::cause(&error, &self.offered, &shown))
    }

    /// The cause behind an alert from the server.
    pub(in crate::probe) fn alert_cause(&self, alert: u8) -> Cause {
        let error = Error::AlertReceived(AlertDescription::from(alert));
        let shown = errors::Shown {
            certificates: &Vec::new,
            weakness: None,
            asked_for_certificate: self.client_auth.asked() > self.asked_before,
        };
        errors::cause(&error, &self.offered, &shown)
    }

    /// Whether there is a session for the next handshake with this server.
    pub(in crate::probe) fn left_a_session(&self) -> bool {
        self.sessions.has_session(&self.name)
    }
}
