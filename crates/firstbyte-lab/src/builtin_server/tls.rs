//! TLS of the built-in server: one rustls configuration for each outcome of a ClientHello.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rustls::crypto::{CryptoProvider, SupportedKxGroup, aws_lc_rs};
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::{
    ClientHello, NoServerSessionStorage, ResolvesServerCert, ServerSessionMemoryCache,
};
use rustls::sign::{CertifiedKey, Signer, SigningKey};
use rustls::time_provider::TimeProvider;
use rustls::version::{TLS12, TLS13};
use rustls::{
    NamedGroup, ServerConfig, SignatureAlgorithm, SignatureScheme, SupportedProtocolVersion,
};

use super::config::{Config, EarlyData, KexGroup, Resumption, TlsVersions};
use crate::clock;

/// Sessions that the server remembers. With two tickets per connection, 2,048 connections fill this.
const SESSIONS: usize = 4_096;
/// Early data that a ticket allows over TCP: as nginx does, whose buffers have this size.
const MAX_EARLY_DATA_BYTES: u32 = 16_384;
/// Early data that a ticket must allow over QUIC (RFC 9001 §4.6.1).
const QUIC_EARLY_DATA: u32 = u32::MAX;
/// rustls accepts early data only if the ticket's age is right to within a minute.
const OUT_OF_DATE: Duration = Duration::from_secs(61);

/// The rustls configurations of a server.
pub(super) struct Tls {
    certified: Arc<CertifiedKey>,
    versions: TlsVersions,
    groups: Vec<KexGroup>,
    /// For TLS 1.2 and for TLS 1.3: first with all groups, then with each of `groups` alone.
    tls12: Vec<Arc<ServerConfig>>,
    tls13: Vec<Arc<ServerConfig>>,
    quic: ServerConfig,
}

impl Tls {
    pub(super) fn new(config: &Config) -> Result<Self, rustls::Error> {
        let certified = Arc::new(certified_key(config)?);
        let clock: Option<Arc<dyn TimeProvider>> = match config.early_data {
            EarlyData::Reject => Some(Arc::new(RunawayClock::default())),
            EarlyData::Off | EarlyData::Accept | EarlyData::AfterFinished | EarlyData::TooEarly => {
                None
            }
        };
        let made = |version, kind: Kind| -> Result<Vec<ServerConfig>, rustls::Error> {
            let sessions = Sessions::new(config, kind)?;
            let each = config.groups.iter().map(std::slice::from_ref);
            std::iter::once(config.groups.as_slice())
                .chain(each)
                .map(|groups| {
                    let mut tls = server_config(version, groups, &certified)?;
                    sessions.configure(&mut tls);
                    tls.alpn_protocols = match kind {
                        Kind::Quic => vec![b"h3".to_vec()],
                        _ => config.alpn.iter().map(|name| name.clone().into_bytes()).collect(),
                    };
                    if let Some(clock) = &clock {
                        tls.time_provider = Arc::clone(clock);
                    }
                    Ok(tls)
                })
                .collect()
        };
        let shared = |configs: Vec<ServerConfig>| configs.into_iter().map(Arc::new).collect();
        let mut quic = made(&TLS13, Kind::Quic)?;
        Ok(Self {
            versions: config.versions,
            groups: config.groups.clone(),
            tls12: shared(made(&TLS12, Kind::Tls12)?),
            tls13: shared(made(&TLS13, Kind::Tls13)?),
            quic: quic.swap_remove(0),
            certified,
        })
    }

    /// Selects the configuration for a client, by the highest common version and the server's most preferred
    /// common group. `tls13` says whether the client offers TLS 1.3.
    pub(super) fn for_client(&self, hello: &ClientHello<'_>, tls13: bool) -> Arc<ServerConfig> {
        let old = match self.versions {
            TlsVersions::Tls12 => true,
            TlsVersions::Tls13 => false,
            TlsVersions::Both => !tls13,
        };
        let configs = if old { &self.tls12 } else { &self.tls13 };
        let offered = hello.named_groups().unwrap_or_default();
        let wanted = self.groups.iter().position(|group| {
            // TLS 1.2 has no hybrid groups.
            let known = !old || *group != KexGroup::X25519MlKem768;
            known && offered.contains(&named(*group))
        });
        let index = wanted.map_or(0, |position| position + 1);
        Arc::clone(&configs[index])
    }

    /// The configuration of one QUIC connection, and a witness of how its handshake went.
    pub(super) fn for_quic(&self) -> (ServerConfig, Witness) {
        let witness = Witness::default();
        let key = WitnessedKey {
            key: Arc::clone(&self.certified.key),
            witness: Witness(Arc::clone(&witness.0)),
        };
        let certified = CertifiedKey::new(self.certified.cert.clone(), Arc::new(key));
        let mut config = self.quic.clone();
        config.cert_resolver = Arc::new(OneCertificate(Arc::new(certified)));
        (config, witness)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Tls12,
    Tls13,
    Quic,
}

/// Session storage, shared by the configurations of one kind.
struct Sessions {
    ticketer: Option<Arc<dyn rustls::server::ProducesTickets>>,
    storage: Arc<dyn rustls::server::StoresServerSessions>,
    tickets: usize,
    max_early_data: u32,
}

impl Sessions {
    fn new(config: &Config, kind: Kind) -> Result<Self, rustls::Error> {
        let resumption = config.resumption;
        let early = kind != Kind::Tls12 && config.early_data != EarlyData::Off;
        // rustls accepts early data only with tickets that refer to its cache. Each of these is good for one
        // use, which prevents replay.
        let ticketer = matches!(resumption, Resumption::Both | Resumption::Tickets) && !early;
        let storage = match resumption {
            Resumption::None => false,
            Resumption::Tickets => early,
            Resumption::Both | Resumption::SessionIds => true,
        };
        Ok(Self {
            ticketer: ticketer.then(aws_lc_rs::Ticketer::new).transpose()?,
            storage: if storage {
                ServerSessionMemoryCache::new(SESSIONS)
            } else {
                Arc::new(NoServerSessionStorage {})
            },
            tickets: if resumption == Resumption::None { 0 } else { config.tickets },
            max_early_data: match kind {
                _ if !early => 0,
                Kind::Quic => QUIC_EARLY_DATA,
                Kind::Tls12 | Kind::Tls13 => MAX_EARLY_DATA_BYTES,
            },
        })
    }

    fn configure(&self, tls: &mut ServerConfig) {
        if let Some(ticketer) = &self.ticketer {
            tls.ticketer = Arc::clone(ticketer);
        }
        tls.session_storage = Arc::clone(&self.storage);
        tls.send_tls13_tickets = self.tickets;
        tls.max_early_data_size = self.max_early_data;
        tls.send_half_rtt_data = self.max_early_data > 0;
    }
}

fn server_config(
    version: &'static SupportedProtocolVersion,
    groups: &[KexGroup],
    certified: &Arc<CertifiedKey>,
) -> Result<ServerConfig, rustls::Error> {
    let mut provider = aws_lc_rs::default_provider();
    if !groups.is_empty() {
        provider.kx_groups = groups.iter().map(|group| key_exchange(*group)).collect();
    }
    let versions = [version];
    Ok(ServerConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&versions)?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(OneCertificate(Arc::clone(certified)))))
}

fn certified_key(config: &Config) -> Result<CertifiedKey, rustls::Error> {
    let chain = CertificateDer::pem_slice_iter(config.certificate.chain_pem.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .map_err(unreadable)?;
    if chain.is_empty() {
        return Err(rustls::Error::NoCertificatesPresented);
    }
    let key =
        PrivateKeyDer::from_pem_slice(config.certificate.key_pem.as_bytes()).map_err(unreadable)?;
    let provider: CryptoProvider = aws_lc_rs::default_provider();
    // Also checks that key and certificate match.
    CertifiedKey::from_der(chain, key, &provider)
}

fn unreadable(error: PemError) -> rustls::Error {
    rustls::Error::General(format!("unreadable PEM: {error}"))
}

fn key_exchange(group: KexGroup) -> &'static dyn SupportedKxGroup {
    match group {
        KexGroup::X25519 => aws_lc_rs::kx_group::X25519,
        KexGroup::P256 => aws_lc_rs::kx_group::SECP256R1,
        KexGroup::P384 => aws_lc_rs::kx_group::SECP384R1,
        KexGroup::X25519MlKem768 => aws_lc_rs::kx_group::X25519MLKEM768,
    }
}

fn named(group: KexGroup) -> NamedGroup {
    key_exchange(group).name()
}

#[derive(Debug)]
struct OneCertificate(Arc<CertifiedKey>);

impl ResolvesServerCert for OneCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }
}

/// Whether a handshake was a full one. quinn does not report it, but only full handshakes are signed (RFC 8446 §2.2).
#[derive(Debug, Default)]
pub(super) struct Witness(Arc<AtomicBool>);

impl Witness {
    /// Valid only after the ServerHello has been sent.
    pub(super) fn resumed(&self) -> bool {
        !self.0.load(Ordering::Relaxed)
    }
}

/// A key that notifies a witness when it signs.
#[derive(Debug)]
struct WitnessedKey {
    key: Arc<dyn SigningKey>,
    witness: Witness,
}

impl SigningKey for WitnessedKey {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        // Called in full handshakes only.
        self.witness.0.store(true, Ordering::Relaxed);
        self.key.choose_scheme(offered)
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        self.key.algorithm()
    }
}

/// A clock that advances by a minute on every read. Every ticket then looks too old or too young for early
/// data (RFC 8446 §8.3), but is still good for resumption.
#[derive(Debug, Default)]
struct RunawayClock {
    reads: AtomicU64,
}

impl TimeProvider for RunawayClock {
    fn current_time(&self) -> Option<UnixTime> {
        let reads = self.reads.fetch_add(1, Ordering::Relaxed);
        let ahead = OUT_OF_DATE.checked_mul(u32::try_from(reads).ok()?)?;
        let now = clock::wall().duration_since(std::time::UNIX_EPOCH).ok()?;
        Some(UnixTime::since_unix_epoch(now + ahead))
    }
}
