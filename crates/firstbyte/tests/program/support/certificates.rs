//! Certificates, good and bad, and server configurations for them.

use std::sync::{Arc, LazyLock};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, PKCS_RSA_SHA256, date_time_ymd,
};
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{cipher_suite, default_provider};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::version::TLS12;
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};

/// A certificate and its key, PEM.
#[derive(Clone)]
pub(crate) struct Identity {
    pub(crate) chain_pem: String,
    pub(crate) key_pem: String,
}

/// The authority that the tests' clients trust (`ca.pem`).
pub(crate) static TRUSTED: LazyLock<Authority> =
    LazyLock::new(|| Authority::new("the tests' own CA"));

/// An authority that they do not trust.
pub(crate) static UNKNOWN: LazyLock<Authority> =
    LazyLock::new(|| Authority::new("somebody else's CA"));

pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = named(name, &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// A good server certificate for these names, modified by `change`.
    pub(crate) fn issue(
        &self,
        names: &[&str],
        change: impl FnOnce(&mut CertificateParams),
    ) -> Identity {
        let mut params = named("server", names);
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let chain_pem = params.signed_by(&key, &self.0).unwrap().pem();
        Identity { chain_pem, key_pem: key.serialize_pem() }
    }
}

impl Authority {
    /// A good server certificate issued by an intermediate of this authority, and the intermediate's certificate,
    /// modified by `change`.
    pub(crate) fn issue_through_another(
        &self,
        names: &[&str],
        change: impl FnOnce(&mut CertificateParams),
    ) -> (Identity, String) {
        let mut params = named("an intermediate", &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let another = Self(CertifiedIssuer::signed_by(params, key, &self.0).unwrap());
        (another.issue(names, |_| ()), another.pem())
    }
}

/// A good certificate for `a.test` and 127.0.0.1.
pub(crate) fn good() -> Identity {
    TRUSTED.issue(&["a.test", "127.0.0.1"], |_| ())
}

/// A self-signed certificate for `a.test`.
pub(crate) fn self_signed() -> Identity {
    let key = KeyPair::generate().unwrap();
    let chain_pem = named("server", &["a.test"]).self_signed(&key).unwrap().pem();
    Identity { chain_pem, key_pem: key.serialize_pem() }
}

/// A certificate for `a.test` that claims to be signed with RSA and SHA-1 by the trusted authority.
pub(crate) fn signed_with_sha1() -> Identity {
    const SHA256_WITH_RSA: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0b";
    const SHA1_WITH_RSA: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x05";
    let issuer_key = KeyPair::generate_for(&PKCS_RSA_SHA256).unwrap();
    let mut issuer = named("the tests' own CA", &[]);
    issuer.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(issuer, issuer_key).unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate = named("server", &["a.test"]).signed_by(&key, &issuer).unwrap();
    let mut der = certificate.der().to_vec();
    let places: Vec<usize> = (0..der.len() - SHA1_WITH_RSA.len())
        .filter(|at| der[*at..].starts_with(SHA256_WITH_RSA))
        .collect();
    assert_eq!(places.len(), 2, "what is signed says it, and the signature");
    for at in places {
        der[at..at + SHA1_WITH_RSA.len()].copy_from_slice(SHA1_WITH_RSA);
    }
    let chain_pem = pem("CERTIFICATE", &der);
    Identity { chain_pem, key_pem: key.serialize_pem() }
}

fn pem(label: &str, der: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in der.chunks(3) {
        let bits = three.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte));
        let bits = bits << (8 * (3 - three.len()));
        for place in 0..4 {
            let sextet = (bits >> (18 - 6 * place)) as usize & 63;
            text.push(if place <= three.len() { char::from(ALPHABET[sextet]) } else { '=' });
        }
    }
    let lines: String = text
        .as_bytes()
        .chunks(64)
        .map(|line| format!("{}\n", String::from_utf8_lossy(line)))
        .collect();
    format!("-----BEGIN {label}-----\n{lines}-----END {label}-----\n")
}

fn named(common_name: &str, names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let mut params = CertificateParams::new(names).unwrap();
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2090, 1, 1);
    params
}

/// A CA certificate that a server may use as its own, as made by `openssl req -x509`.
pub(crate) fn self_signed_ca() -> Identity {
    let key = KeyPair::generate().unwrap();
    let mut params = named("server", &["a.test"]);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    Identity { chain_pem: params.self_signed(&key).unwrap().pem(), key_pem: key.serialize_pem() }
}

/// A self-signed certificate for `common_name`, without alternative names.
pub(crate) fn self_signed_for(
    common_name: &str,
    change: impl FnOnce(&mut CertificateParams),
) -> Identity {
    let key = KeyPair::generate().unwrap();
    let mut params = named(common_name, &[]);
    change(&mut params);
    Identity { chain_pem: params.self_signed(&key).unwrap().pem(), key_pem: key.serialize_pem() }
}

/// Configuration of a server with `identity` and the application protocols `alpn`.
pub(crate) fn server(identity: &Identity, alpn: &[&str]) -> ServerConfig {
    versions(identity, alpn, rustls::ALL_VERSIONS)
}

/// Same as `server`, with these TLS versions only.
pub(crate) fn versions(
    identity: &Identity,
    alpn: &[&str],
    versions: &[&'static SupportedProtocolVersion],
) -> ServerConfig {
    let (chain, key) = parsed(identity);
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(versions)
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    config
}

/// A TLS 1.2 server whose keys can be extracted, with a single cipher suite.
pub(crate) fn with_open_keys(identity: &Identity) -> ServerConfig {
    let (chain, key) = parsed(identity);
    let suites = vec![cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256];
    let provider = CryptoProvider { cipher_suites: suites, ..default_provider() };
    let mut config = ServerConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&TLS12])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    config.enable_secret_extraction = true;
    config
}

/// A server that requires a client certificate of the trusted authority.
pub(crate) fn wants_client_certificate(version: &'static SupportedProtocolVersion) -> ServerConfig {
    let (chain, key) = parsed(&good());
    let provider = Arc::new(default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(TRUSTED.pem().as_bytes()).unwrap()).unwrap();
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .build()
            .unwrap();
    ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version])
        .unwrap()
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)
        .unwrap()
}

fn parsed(identity: &Identity) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    let chain = CertificateDer::pem_slice_iter(identity.chain_pem.as_bytes());
    let key = PrivateKeyDer::from_pem_slice(identity.key_pem.as_bytes()).unwrap();
    (chain.map(Result::unwrap).collect(), key)
}
