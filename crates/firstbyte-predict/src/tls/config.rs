//! The TLS configurations of both sides, and their session storage.

use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{
    ClientSessionMemoryCache, ClientSessionStore, Resumption, Tls12ClientSessionValue,
    Tls13ClientSessionValue,
};
use rustls::crypto::{CryptoProvider, SupportedKxGroup, aws_lc_rs};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::{ClientHello, ResolvesServerCert, ServerSessionMemoryCache};
use rustls::sign::CertifiedKey;
use rustls::time_provider::TimeProvider;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, DigitallySignedStruct, NamedGroup, ServerConfig, SignatureScheme};

use crate::{Http, KexGroup, PredictError, Session, Setup, Tls, Way};

/// Limit in a ticket over TCP, as in nginx.
const MAX_EARLY_DATA: u32 = 16_384;
/// Limit required over QUIC (RFC 9001 §4.6.1).
const QUIC_EARLY_DATA: u32 = u32::MAX;
/// Capacity of the session store; only a session or two are stored.
const SESSIONS: usize = 32;

pub(crate) struct Machines {
    client: ClientConfig,
    sessions: Arc<Sessions>,
    pub(crate) server: Arc<ServerConfig>,
}

impl Machines {
    pub(crate) fn new(setup: &Setup, way: &Way) -> Result<Self, PredictError> {
        let versions = if way.tls == Tls::V1_2 { [&TLS12] } else { [&TLS13] };
        let only = way.group.map(|group| vec![group]);
        let offered = only.as_ref().unwrap_or(&setup.client.groups);
        let alpn = match way.http {
            Http::V1_1 => b"http/1.1".to_vec(),
            Http::V2 => b"h2".to_vec(),
            Http::V3 => b"h3".to_vec(),
        };
        let sessions = Arc::new(Sessions(ClientSessionMemoryCache::new(SESSIONS)));
        let mut client = ClientConfig::builder_with_details(provider(offered), Arc::new(Still))
            .with_protocol_versions(&versions)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Trusting))
            .with_no_client_auth();
        client.alpn_protocols = vec![alpn.clone()];
        client.resumption = Resumption::store(Arc::clone(&sessions) as Arc<_>);
        let certified = OneCertificate(Arc::clone(&setup.server.certified));
        let taken = provider(&setup.server.groups);
        let mut server = ServerConfig::builder_with_details(taken, Arc::new(Still))
            .with_protocol_versions(&versions)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(certified));
        server.alpn_protocols = vec![alpn];
        server.send_tls13_tickets = match way.session {
            Session::Full => setup.server.tickets,
            Session::Resumed | Session::ZeroRtt => setup.server.tickets.max(1),
        };
        server.session_storage = ServerSessionMemoryCache::new(SESSIONS);
        if way.session == Session::ZeroRtt {
            server.max_early_data_size =
                if way.http == Http::V3 { QUIC_EARLY_DATA } else { MAX_EARLY_DATA };
            server.send_half_rtt_data = true;
        } else {
            server.ticketer = aws_lc_rs::Ticketer::new()?;
        }
        Ok(Self { client, sessions, server: Arc::new(server) })
    }

    pub(crate) fn client(&self, early_data: bool) -> Arc<ClientConfig> {
        let mut config = self.client.clone();
        config.enable_early_data = early_data;
        Arc::new(config)
    }

    pub(crate) fn has_tls12_session(&self, server: &ServerName<'_>) -> bool {
        self.sessions.tls12_session(server).is_some()
    }
}

/// A provider with these groups; if none is given, all groups in rustls' order of preference.
fn provider(groups: &[KexGroup]) -> Arc<CryptoProvider> {
    let mut provider = aws_lc_rs::default_provider();
    if !groups.is_empty() {
        provider.kx_groups = groups.iter().map(|group| key_exchange(*group)).collect();
    }
    Arc::new(provider)
}

fn key_exchange(group: KexGroup) -> &'static dyn SupportedKxGroup {
    match group {
        KexGroup::X25519 => aws_lc_rs::kx_group::X25519,
        KexGroup::P256 => aws_lc_rs::kx_group::SECP256R1,
        KexGroup::P384 => aws_lc_rs::kx_group::SECP384R1,
        KexGroup::X25519MlKem768 => aws_lc_rs::kx_group::X25519MLKEM768,
    }
}

/// A clock that stands still at 2026-01-01, so that no ticket expires.
#[derive(Debug)]
struct Still;

impl TimeProvider for Still {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_secs(1_767_225_600)))
    }
}

#[derive(Debug)]
struct OneCertificate(Arc<CertifiedKey>);

impl ResolvesServerCert for OneCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }
}

/// Accepts every certificate: both sides are our own, in memory, so there is no attacker. The time to verify a
/// certificate is modelled by [`finish_time`](crate::Client::finish_time).
#[derive(Debug)]
struct Trusting;

impl ServerCertVerifier for Trusting {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        aws_lc_rs::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

/// Stores sessions as the probe does: if it remembered the group, a resumed handshake would differ in more than the
/// session.
#[derive(Debug)]
struct Sessions(ClientSessionMemoryCache);

impl ClientSessionStore for Sessions {
    fn set_kx_hint(&self, _: ServerName<'static>, _: NamedGroup) {}

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        None
    }

    fn set_tls12_session(&self, server: ServerName<'static>, value: Tls12ClientSessionValue) {
        self.0.set_tls12_session(server, value);
    }

    fn tls12_session(&self, server: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.0.tls12_session(server)
    }

    fn remove_tls12_session(&self, server: &ServerName<'static>) {
        self.0.remove_tls12_session(server);
    }

    fn insert_tls13_ticket(&self, server: ServerName<'static>, value: Tls13ClientSessionValue) {
        self.0.insert_tls13_ticket(server, value);
    }

    fn take_tls13_ticket(&self, server: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.0.take_tls13_ticket(server)
    }
}
