//! TLS: the client's offer, and the results of the handshake.
//!
//! Input: the options. Output: a configuration that starts one handshake at a time, the facts of a handshake, and
//! causes for its errors. Sessions are kept only if the options ask for it.

mod certificate;
mod client_auth;
mod errors;
mod pinned;
mod quic;
mod quic_keys;
mod session;
mod verifier;

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use firstbyte_core::timeline::{Cause, Handshake, OfferedGroups, SessionMechanism, TlsFacts};
use quinn_proto::TokenMemoryCache;
use rustls::client::{ClientConnection, Resumption, Tls12Resumption, WebPkiServerVerifier};
use rustls::crypto::aws_lc_rs as provider;
use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{
    ClientConfig, HandshakeKind, ProtocolVersion, RootCertStore, SupportedProtocolVersion,
};

pub(super) use quic::QuicTls;
pub(super) use quic_keys::{Opened, Parameters, Piece, hexadecimal};
pub(super) use session::Spoken;

use certificate::Certificates;
use client_auth::ClientAuth;
use verifier::{Trust, Verifier};

use super::kept::KeptCertificates;
use super::options::{HttpVersion, SessionUse, TlsOptions, TlsVersion};
use super::{MOST_TEXT, describe_io, read_file};
use session::SessionStore;

/// The groups offered by default: the same as browsers', with key shares for the first two.
const DEFAULT_GROUPS: [&str; 4] = ["X25519MLKEM768", "X25519", "P-256", "P-384"];

/// A TLS configuration for handshakes.
pub(super) struct Tls {
    config: ClientConfig,
    trust: Arc<Trust>,
    insecure: bool,
    offered: Offered,
    keep: Option<KeptCertificates>,
    client_auth: Arc<ClientAuth>,
    certificates: Rc<Certificates>,
    sessions: Arc<SessionStore>,
    /// Tokens from servers that prove the client's address (RFC 9000 §8.1.3); used if sessions are resumed.
    address_tokens: Arc<TokenMemoryCache>,
    /// One configuration for all handshakes if sessions are resumed, because a session is bound to its verifier.
    shared: Option<(Arc<ClientConfig>, Arc<Verifier>)>,
    /// Otherwise the configuration of the last handshake; the next one reuses it once that connection is gone.
    last: RefCell<Option<(Arc<ClientConfig>, Arc<Verifier>)>>,
}

/// A description of the client's offer, for errors.
#[derive(Clone, Debug)]
pub(super) struct Offered {
    pub versions: &'static str,
    pub alpn: String,
    pub client_certificate: bool,
    /// Names of the groups.
    pub groups: String,
    pub chosen: OfferedGroups,
}

/// Resources shared by all TLS configurations: trusted issuers, the crypto provider, client certificates, the key log.
/// Each is loaded on first use.
#[derive(Default)]
pub(super) struct TlsStock {
    trusts: RefCell<HashMap<Trusted, Arc<Trust>>>,
    bases: RefCell<HashMap<TlsBase, (ClientConfig, Arc<Trust>)>>,
    key_log: OnceCell<Arc<dyn rustls::KeyLog>>,
}

/// The source of trusted issuers (a file, or the system), and whether verification may fail.
type Trusted = (Option<PathBuf>, bool);

/// The options that all handshakes of a configuration share, except sessions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct TlsBase {
    min: TlsVersion,
    max: TlsVersion,
    groups: Vec<String>,
    trusted: Trusted,
    client_certificate: Option<(PathBuf, Option<PathBuf>)>,
    cipher_suites: Vec<String>,
}

impl TlsStock {
    fn trust(&self, trusted: &Trusted) -> Result<Arc<Trust>, TlsSetupError> {
        if let Some(known) = self.trusts.borrow().get(trusted) {
            return Ok(Arc::clone(known));
        }
        let (ca_file, insecure) = trusted;
        let crypto = Arc::new(provider::default_provider());
        seed_random_generator(&crypto)?;
        let loaded = Arc::new(trust(ca_file.as_deref(), *insecure, &crypto)?);
        let from =
            ca_file.as_ref().map_or_else(|| "the system".into(), |path| path.display().to_string());
        tracing::debug!(from, "loaded trusted certificates");
        self.trusts.borrow_mut().insert(trusted.clone(), Arc::clone(&loaded));
        Ok(loaded)
    }

    /// A configuration for handshakes that are not measured: protocols other than HTTP, through `tokio-rustls`.
    pub(super) fn client_config(
        &self,
        options: &TlsOptions,
        alpn: &[&str],
    ) -> Result<Arc<ClientConfig>, TlsSetupError> {
        let (mut config, _) = self.base(options)?;
        config.resumption = Resumption::disabled();
        config.alpn_protocols = alpn.iter().map(|p| p.as_bytes().to_vec()).collect();
        Ok(Arc::new(config))
    }

    fn base(&self, options: &TlsOptions) -> Result<(ClientConfig, Arc<Trust>), TlsSetupError> {
        let base = TlsBase {
            min: options.min,
            max: options.max,
            groups: options.groups.clone(),
            trusted: (options.ca_file.clone(), options.insecure),
            client_certificate: options.client_certificate.clone(),
            cipher_suites: options.cipher_suites.clone(),
        };
        if let Some((config, trust)) = self.bases.borrow().get(&base) {
            return Ok((config.clone(), Arc::clone(trust)));
        }
        let mut crypto = provider::default_provider();
        crypto.kx_groups = groups(&base.groups)?;
        if !base.cipher_suites.is_empty() {
            crypto.cipher_suites = cipher_suites(&crypto.cipher_suites, &base.cipher_suites)?;
        }
        let crypto = Arc::new(crypto);
        let trust = self.trust(&base.trusted)?;
        let nobody =
            Arc::new(Verifier::new(Arc::clone(&trust), Arc::clone(&crypto), options.insecure));
        let builder = ClientConfig::builder_with_provider(crypto)
            .with_protocol_versions(versions(options).0)
            .map_err(|e| TlsSetupError::Other(e.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(nobody);
        let mut config = match &base.client_certificate {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let (chain, key) = client_certificate(certificate, key.as_deref())?;
                builder.with_client_auth_cert(chain, key).map_err(|error| {
                    let why = match error {
                        rustls::Error::InconsistentKeys(_) => {
                            "the private key does not match the certificate".into()
                        }
                        other => other.to_string(),
                    };
                    let file = certificate.display();
                    TlsSetupError::ClientCertificate(format!("--cert {file}: {why}"))
                })?
            }
        };
        // As in curl and browsers: if SSLKEYLOGFILE names a file, its contents can decrypt captures.
        config.key_log = Arc::clone(self.key_log.get_or_init(key_log));
        self.bases.borrow_mut().insert(base, (config.clone(), Arc::clone(&trust)));
        Ok((config, trust))
    }
}

/// The offered versions, and a description of them.
fn versions(options: &TlsOptions) -> (&'static [&'static SupportedProtocolVersion], &'static str) {
    static BOTH: [&SupportedProtocolVersion; 2] =
        [&rustls::version::TLS13, &rustls::version::TLS12];
    match (options.min, options.max) {
        (TlsVersion::V1_2, TlsVersion::V1_2) => (&BOTH[1..], "TLS 1.2"),
        (TlsVersion::V1_3, _) => (&BOTH[..1], "TLS 1.3"),
        (TlsVersion::V1_2, TlsVersion::V1_3) => (&BOTH, "TLS 1.2 and 1.3"),
    }
}

impl Tls {
    /// # Errors
    /// What could not be set up, in words.
    pub(super) fn new(
        options: &TlsOptions,
        http: HttpVersion,
        stock: &TlsStock,
    ) -> Result<Self, TlsSetupError> {
        let (mut config, trust) = stock.base(options)?;
        let crypto = Arc::clone(config.crypto_provider());
        let verifier = Arc::new(Verifier::new(Arc::clone(&trust), crypto, options.insecure));
        config.dangerous().set_certificate_verifier(Arc::clone(&verifier) as Arc<_>);
        let client_auth = Arc::new(ClientAuth::new(Arc::clone(&config.client_auth_cert_resolver)));
        config.client_auth_cert_resolver = Arc::clone(&client_auth) as Arc<_>;
        let sessions = Arc::new(SessionStore::default());
        config.resumption = resumption(options.session, &sessions);
        config.enable_early_data = matches!(options.session, SessionUse::EarlyData { .. });
        let alpn: Vec<&str> = match (http, &options.alpn) {
            (_, Some(given)) => given.iter().map(String::as_str).collect(),
            (HttpVersion::Negotiate, None) => vec!["h2", "http/1.1"],
            (HttpVersion::Http1, None) => vec!["http/1.1"],
            (HttpVersion::Http2, None) => vec!["h2"],
            (HttpVersion::Http3, None) => vec!["h3"],
        };
        config.alpn_protocols = alpn.iter().map(|p| p.as_bytes().to_vec()).collect();
        let offered = Offered {
            versions: versions(options).1,
            alpn: alpn.join(", "),
            client_certificate: options.client_certificate.is_some(),
            groups: group_names(&config),
            chosen: match options.groups.is_empty() {
                true => OfferedGroups::Usual,
                false => OfferedGroups::Chosen,
            },
        };
        let shared =
            (options.session != SessionUse::Full).then(|| (Arc::new(config.clone()), verifier));
        Ok(Self {
            config,
            trust,
            insecure: options.insecure,
            offered,
            keep: options.keep.clone(),
            client_auth,
            certificates: Rc::default(),
            sessions,
            address_tokens: Arc::default(),
            shared,
            last: RefCell::default(),
        })
    }

    /// Begins a handshake with `host`.
    pub(super) fn begin(&self, host: &str) -> Result<Box<Session>, String> {
        let name = server_name(host)?;
        let (config, verifier) = self.for_one_handshake();
        let had_tls12_session = self.sessions.has_tls12_session(&name);
        let could_send_early = config.enable_early_data && self.sessions.has_session(&name);
        let mut connection =
            ClientConnection::new(config, name.clone()).map_err(|e| e.to_string())?;
        Ok(Box::new(Session {
            early_data_allowed: could_send_early.then(|| connection.early_data().is_some()),
            connection,
            verifier,
            client_auth: Arc::clone(&self.client_auth),
            asked_before: self.client_auth.asked(),
            spoken_before: self.sessions.spoken(&name),
            had_tls12_session,
            offered: self.offered.clone(),
            keep: self.keep.clone(),
            certificates: Rc::clone(&self.certificates),
            name,
            sessions: self.shared.is_some().then(|| Arc::clone(&self.sessions)),
        }))
    }

    /// Makes the TLS stack do its one-time initialisation.
    pub(super) fn warm_up(&self) {
        let mut config = self.config.clone();
        config.resumption = Resumption::disabled();
        if let Ok(nobody) = ServerName::try_from("localhost") {
            let _ = ClientConnection::new(Arc::new(config), nobody);
        }
    }

    /// The configuration and the verifier of one handshake.
    fn for_one_handshake(&self) -> (Arc<ClientConfig>, Arc<Verifier>) {
        if let Some((config, verifier)) = &self.shared {
            return (Arc::clone(config), Arc::clone(verifier));
        }
        let mut last = self.last.borrow_mut();
        // The verifier is referenced once more, by its own configuration.
        if let Some((config, verifier)) = &*last
            && (Arc::strong_count(config), Arc::strong_count(verifier)) == (1, 2)
        {
            verifier.forget();
            return (Arc::clone(config), Arc::clone(verifier));
        }
        let mut config = self.config.clone();
        let crypto = Arc::clone(self.config.crypto_provider());
        let verifier = Arc::new(Verifier::new(Arc::clone(&self.trust), crypto, self.insecure));
        config.dangerous().set_certificate_verifier(Arc::clone(&verifier) as Arc<_>);
        let config = Arc::new(config);
        *last = Some((Arc::clone(&config), Arc::clone(&verifier)));
        (config, verifier)
    }

    pub(super) fn has_session(&self, host: &str) -> bool {
        server_name(host).is_ok_and(|name| self.sessions.has_session(&name))
    }
}

/// Writes secrets to the file named by SSLKEYLOGFILE. If this creates the file, only the user can read it.
fn key_log() -> Arc<dyn rustls::KeyLog> {
    if let Some(path) = std::env::var_os("SSLKEYLOGFILE").filter(|path| !path.is_empty()) {
        let mut options = std::fs::OpenOptions::new();
        options.append(true).create(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        // If the file cannot be written, no secrets are logged, as with curl.
        drop(options.open(path));
    }
    Arc::new(rustls::KeyLogFile::new())
}

fn server_name(host: &str) -> Result<ServerName<'static>, String> {
    ServerName::try_from(host.to_owned())
        .map_err(|_| format!("{host} is not a valid name for a certificate"))
}

/// How to offer sessions of earlier connections.
fn resumption(session: SessionUse, store: &Arc<SessionStore>) -> Resumption {
    let tls12 = match session {
        SessionUse::Full => return Resumption::disabled(),
        SessionUse::Resume(Some(SessionMechanism::SessionId)) => Tls12Resumption::SessionIdOnly,
        _ => Tls12Resumption::SessionIdOrTickets,
    };
    Resumption::store(Arc::clone(store) as Arc<_>).tls12_resumption(tls12)
}

/// A handshake in progress, later a session. It is a kilobyte large, so it is passed on boxed.
pub(super) struct Session {
    pub connection: ClientConnection,
    verifier: Arc<Verifier>,
    pub offered: Offered,
    keep: Option<KeptCertificates>,
    certificates: Rc<Certificates>,
    name: ServerName<'static>,
    /// The protocol of the previous connection, which early data must use again.
    pub spoken_before: Option<Spoken>,
    /// Whether the offered session allows early data; absent unless early data was wanted and there was a session.
    early_data_allowed: Option<bool>,
    client_auth: Arc<ClientAuth>,
    /// How many times servers had asked for a client certificate before.
    asked_before: u64,
    /// Whether there was a TLS 1.2 session to offer.
    pub had_tls12_session: bool,
    /// The store for new sessions, if they are kept.
    sessions: Option<Arc<SessionStore>>,
}

impl Session {
    /// The protocol of early data, if it can be sent now.
    pub(super) fn early_protocol(&mut self) -> Option<&Spoken> {
        self.connection.early_data()?;
        self.spoken_before.as_ref()
    }

    /// The cause behind an error of this handshake.
    pub(super) fn cause(&self, error: &rustls::Error) -> Cause {
        let seen = self.shown();
        let shown = errors::Shown {
            certificates: &|| self.certificates.describe(&seen.chain),
            weakness: seen.weakness.as_deref(),
            asked_for_certificate: self.client_auth.asked() > self.asked_before,
        };
        errors::cause(error, &self.offered, &shown)
    }

    /// Whether there is a session for the next handshake with this server.
    pub(super) fn left_a_session(&self) -> bool {
        self.sessions.as_ref().is_none_or(|sessions| sessions.has_session(&self.name))
    }

    /// Call this when the handshake is complete.
    pub(super) fn remember_protocol(&self) {
        if let Some(sessions) = &self.sessions {
            sessions.remember_protocol(&self.name, self.connection.alpn_protocol());
        }
    }

    /// The certificates presented in this handshake; none if a session was resumed.
    fn shown(&self) -> verifier::Seen {
        let seen = self.verifier.seen();
        let Some(kind) = self.connection.handshake_kind().filter(|_| self.sessions.is_some())
        else {
            return seen;
        };
        // Other handshakes share the verifier, so it may have seen their certificates last.
        match (kind, self.connection.peer_certificates()) {
            (HandshakeKind::Resumed, _) => verifier::Seen::default(),
            (_, Some(chain)) => verifier::Seen { chain: chain.to_vec(), ..seen },
            _ => seen,
        }
    }

    /// The facts known by now; only those that the handshake has shown.
    pub(super) fn facts(&self) -> TlsFacts {
        let connection = &self.connection;
        if let Some(keep) = &self.keep {
            keep.put(self.shown().chain.iter().map(|der| der.to_vec()).collect());
        }
        let (certificates, verified) = if self.sessions.is_some() {
            let seen = self.shown();
            (self.certificates.describe(&seen.chain), seen.verified)
        } else {
            self.verifier.look(|seen| (self.certificates.describe(&seen.chain), seen.verified))
        };
        TlsFacts {
            version: connection.protocol_version().map(version_name),
            cipher_suite: connection
                .negotiated_cipher_suite()
                .map(|suite| suite_name(suite.suite())),
            group: connection
                .negotiated_key_exchange_group()
                .map(|group| group.name())
                .map(|name| name.as_str().map_or_else(|| format!("{name:?}"), str::to_owned)),
            handshake: connection.handshake_kind().map(|kind| match kind {
                HandshakeKind::Full => Handshake::Full,
                HandshakeKind::FullWithHelloRetryRequest => Handshake::FullWithHelloRetryRequest,
                HandshakeKind::Resumed => Handshake::Resumed,
            }),
            session_offered: None,
            early_data_allowed: self.early_data_allowed,
            early_data: None,
            alpn: connection.alpn_protocol().map(|p| String::from_utf8_lossy(p).into_owned()),
            certificates,
            verified,
            tickets_received: (connection.protocol_version() == Some(ProtocolVersion::TLSv1_3))
                .then(|| connection.tls13_tickets_received()),
        }
    }
}

fn group_names(config: &ClientConfig) -> String {
    let groups = config.crypto_provider().kx_groups.iter();
    let names = groups
        .map(|group| group.name())
        .map(|name| name.as_str().map_or_else(|| format!("{name:?}"), str::to_owned));
    names.collect::<Vec<_>>().join(", ")
}

fn version_name(version: ProtocolVersion) -> String {
    match version {
        ProtocolVersion::TLSv1_2 => "TLSv1.2".into(),
        ProtocolVersion::TLSv1_3 => "TLSv1.3".into(),
        other => format!("{other:?}"),
    }
}

/// Why TLS cannot be set up as requested. The user sees the text.
#[derive(Debug)]
pub enum TlsSetupError {
    /// A group is not known.
    Group(String),
    /// The file of trusted issuers (`--cacert`) cannot be used.
    CaFile(String),
    /// The client certificate or its key cannot be used.
    ClientCertificate(String),
    /// Any other error of the TLS stack.
    Other(String),
}

impl std::fmt::Display for TlsSetupError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Self::Group(text)
        | Self::CaFile(text)
        | Self::ClientCertificate(text)
        | Self::Other(text)) = self;
        f.write_str(text)
    }
}

/// The name registered at IANA.
fn suite_name(suite: rustls::CipherSuite) -> String {
    let name = suite.as_str().map_or_else(|| format!("{suite:?}"), str::to_owned);
    match name.strip_prefix("TLS13_") {
        Some(rest) => ["TLS_", rest].concat(),
        None => name,
    }
}

/// The suites of `known` with the given names, in the order of the names.
fn cipher_suites(
    known: &[rustls::SupportedCipherSuite],
    names: &[String],
) -> Result<Vec<rustls::SupportedCipherSuite>, TlsSetupError> {
    let find = |name: &String| {
        let mut known = known.iter().copied();
        known
            .find(|suite| suite_name(suite.suite()) == *name)
            .ok_or_else(|| TlsSetupError::Other(format!("cipher suite {name:?} is not supported")))
    };
    names.iter().map(find).collect()
}

fn groups(names: &[String]) -> Result<Vec<&'static dyn SupportedKxGroup>, TlsSetupError> {
    let find = |name: &str| {
        let group: &'static dyn SupportedKxGroup = match name.to_ascii_lowercase().as_str() {
            "x25519" => provider::kx_group::X25519,
            "p-256" | "p256" | "secp256r1" | "prime256v1" => provider::kx_group::SECP256R1,
            "p-384" | "p384" | "secp384r1" => provider::kx_group::SECP384R1,
            "x25519mlkem768" => provider::kx_group::X25519MLKEM768,
            "secp256r1mlkem768" => provider::kx_group::SECP256R1MLKEM768,
            "mlkem768" => provider::kx_group::MLKEM768,
            _ => {
                return Err(TlsSetupError::Group(format!(
                    "unknown group {name:?} in --curves; choose from X25519, P-256, P-384, \
                     X25519MLKEM768, SecP256r1MLKEM768, MLKEM768"
                )));
            }
        };
        Ok(group)
    };
    if names.is_empty() {
        return DEFAULT_GROUPS.iter().map(|name| find(name)).collect();
    }
    names.iter().map(|name| find(name)).collect()
}

/// Seeds AWS-LC's generator, which otherwise happens on a thread's first use. If it was built with jitter entropy, that
/// takes 45 ms of processor time, which would be attributed to the first visit.
fn seed_random_generator(crypto: &CryptoProvider) -> Result<(), TlsSetupError> {
    let unused = &mut [0; 32];
    let seeded = crypto.secure_random.fill(unused);
    seeded.map_err(|_| TlsSetupError::Other("the random generator cannot be seeded".to_owned()))
}

/// Loads the trusted issuers; none if verification is disabled and the system trusts nobody.
fn trust(
    ca_file: Option<&Path>,
    insecure: bool,
    crypto: &Arc<CryptoProvider>,
) -> Result<Trust, TlsSetupError> {
    let mut store = RootCertStore::empty();
    let mut given = Vec::new();
    if let Some(path) = ca_file {
        given = read_certificates(path, "--cacert").map_err(TlsSetupError::CaFile)?;
        for certificate in &given {
            store.add(certificate.clone()).map_err(|_| {
                TlsSetupError::CaFile(format!(
                    "--cacert {}: the PEM data is not a certificate",
                    path.display()
                ))
            })?;
        }
    } else {
        store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    if store.is_empty() {
        return if insecure {
            Ok(Trust { issuers: None, given })
        } else {
            Err(TlsSetupError::CaFile(
                "the system has no trusted certificates: install the package ca-certificates, \
                 or pass --cacert FILE"
                    .into(),
            ))
        };
    }
    WebPkiServerVerifier::builder_with_provider(Arc::new(store), Arc::clone(crypto))
        .build()
        .map(|issuers| Trust { issuers: Some(issuers), given })
        .map_err(|e| TlsSetupError::CaFile(e.to_string()))
}

fn read_certificates(path: &Path, flag: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let text = read_file(path, MOST_TEXT)
        .map_err(|e| format!("{flag} {}: {}", path.display(), describe_io(&e)))?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match certificates {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(format!("{flag} {}: the file has no PEM certificate", path.display())),
        Err(e) => Err(format!("{flag} {}: damaged PEM: {}", path.display(), in_words(&e))),
    }
}

fn client_certificate(
    certificate: &Path,
    key: Option<&Path>,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsSetupError> {
    let chain =
        read_certificates(certificate, "--cert").map_err(TlsSetupError::ClientCertificate)?;
    let (flag, path) = key.map_or(("--cert", certificate), |path| ("--key", path));
    let text = read_file(path, MOST_TEXT).map_err(|e| {
        TlsSetupError::ClientCertificate(format!("{flag} {}: {}", path.display(), describe_io(&e)))
    })?;
    let key = PrivateKeyDer::from_pem_slice(&text).map_err(|error| {
        let why = match (&error, key) {
            (PemError::NoItemsFound, None) => {
                "the file has no private key; give one with --key".into()
            }
            (PemError::NoItemsFound, Some(_)) => "the file has no private key".into(),
            _ => in_words(&error),
        };
        TlsSetupError::ClientCertificate(format!("{flag} {}: {why}", path.display()))
    })?;
    Ok((chain, key))
}

fn in_words(error: &PemError) -> String {
    match error {
        PemError::MissingSectionEnd { .. } => "a line -----END …----- is missing".into(),
        PemError::IllegalSectionStart { .. } => "bad line -----BEGIN …-----".into(),
        PemError::Base64Decode(_) => "not base64".into(),
        PemError::Io(error) => describe_io(error),
        other => other.to_string(),
    }
}
