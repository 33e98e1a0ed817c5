//! A certificate authority of the lab's own: a root, an intermediate, and a leaf per server.
//!
//! Everything is made anew for every lab, in memory, and trusted by nobody who is not told to. Keys
//! are P-256, as most of the web's are.

use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256,
};
use time::OffsetDateTime;

use crate::clock;

/// How long before now certificates become valid, for clients whose clock is behind.
const BACKDATED: Duration = Duration::from_secs(24 * 3600);
const VALID_FOR: Duration = Duration::from_secs(30 * 24 * 3600);

/// A root and an intermediate that signs leaves.
pub struct Ca {
    root_pem: String,
    intermediate: CertifiedIssuer<'static, KeyPair>,
}

/// A server's certificate chain and key, PEM.
#[derive(Debug, Clone)]
pub struct ServerCertificate {
    /// Leaf and intermediate, in the order that TLS sends them.
    pub chain_pem: String,
    /// The leaf's private key, PKCS #8.
    pub key_pem: String,
}

impl Ca {
    /// Makes new keys and certificates.
    pub fn new() -> Result<Self, rcgen::Error> {
        let root = CertifiedIssuer::self_signed(issuer("firstbyte lab root"), key()?)?;
        let intermediate =
            CertifiedIssuer::signed_by(issuer("firstbyte lab intermediate"), key()?, &root)?;
        Ok(Self { root_pem: root.pem(), intermediate })
    }

    /// The root certificate, PEM: what clients are told to trust.
    pub fn root_pem(&self) -> &str {
        &self.root_pem
    }

    /// A new leaf for these DNS names and addresses.
    pub fn issue(&self, names: &[String]) -> Result<ServerCertificate, rcgen::Error> {
        let key = key()?;
        let mut params = CertificateParams::new(names)?;
        // RFC 5280 allows 64 characters of common name; the names proper are in the extension.
        params.distinguished_name = DistinguishedName::new();
        if let Some(first) = names.first().filter(|name| name.len() <= 64) {
            params.distinguished_name.push(DnType::CommonName, first.as_str());
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        set_validity(&mut params);
        let leaf = params.signed_by(&key, &self.intermediate)?;
        Ok(ServerCertificate {
            chain_pem: format!("{}{}", leaf.pem(), self.intermediate.pem()),
            key_pem: key.serialize_pem(),
        })
    }
}

fn issuer(common_name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.use_authority_key_identifier_extension = true;
    set_validity(&mut params);
    params
}

fn set_validity(params: &mut CertificateParams) {
    let now = OffsetDateTime::from(clock::wall());
    params.not_before = now - BACKDATED;
    params.not_after = now + VALID_FOR;
}

fn key() -> Result<KeyPair, rcgen::Error> {
    KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)
}
