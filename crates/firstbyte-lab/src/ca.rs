//! The lab's own certificate authority: a root, an intermediate, and a leaf per server.
//!
//! Every lab makes new keys and certificates, in memory, and only programs that are configured to do so
//! trust them. Keys are P-256, as most keys on the web, unless a leaf asks for another type.

use std::fmt;
use std::time::Duration;

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, CustomExtension,
    DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose,
    PKCS_ECDSA_P256_SHA256, PKCS_RSA_SHA256,
};
use time::OffsetDateTime;

use crate::clock;

/// How far back certificates are dated, for clients whose clock is slow.
const BACKDATED: Duration = Duration::from_secs(24 * 3600);
/// Validity of certificates in days, unless a leaf asks for fewer.
pub(crate) const DAYS_VALID: i64 = 30;

/// The enterprise number for examples (RFC 5612), and one below it: an extension that nobody knows.
const PADDING_OID: [u64; 8] = [1, 3, 6, 1, 4, 1, 32_473, 1];
/// Bytes of an extension besides its content if that exceeds 255 bytes: sequence, OID, octet string.
const PADDING_OVERHEAD: usize = 19;
/// Largest difference between the requested and the actual size of a chain, bytes. An ECDSA signature with P-256 has 72
/// bytes in DER, and sometimes a few less.
const SIZE_TOLERANCE: usize = 10;

/// A root and an intermediate that signs leaves.
pub struct Ca {
    root: CertifiedIssuer<'static, KeyPair>,
    root_pem: String,
    intermediate: CertifiedIssuer<'static, KeyPair>,
}

/// Options of a leaf certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LeafOptions {
    /// Type of the key.
    pub key: LeafKey,
    /// Size of leaf and intermediate together, within ten bytes (DER, as TLS sends them).
    ///
    /// Padding is random bytes in a non-critical extension. If absent, the chain is not padded and has about
    /// 950 bytes with P-256. If both certificates are larger than this, the root signs the leaf, and the
    /// chain has no intermediate.
    pub chain_bytes: Option<usize>,
    /// Days until it expires; 30 if absent. Negative if it has already expired.
    pub days_left: Option<i64>,
}

/// Type of a leaf's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LeafKey {
    /// ECDSA on P-256.
    #[default]
    P256,
    /// RSA with 2048 bits.
    Rsa2048,
}

/// Why a certificate could not be made.
#[derive(Debug)]
pub enum CertificateError {
    /// A name or key is not valid for a certificate.
    Refused(rcgen::Error),
    /// The chain without padding is longer than requested.
    ChainTooShort {
        /// The requested size, bytes.
        asked: usize,
        /// Size without padding, bytes.
        needed: usize,
    },
}

impl fmt::Display for CertificateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(error) => write!(f, "{error}"),
            Self::ChainTooShort { asked, needed } => {
                write!(f, "a chain of {asked} bytes is too small; it needs at least {needed} bytes")
            }
        }
    }
}

impl std::error::Error for CertificateError {}

impl From<rcgen::Error> for CertificateError {
    fn from(error: rcgen::Error) -> Self {
        Self::Refused(error)
    }
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
        Ok(Self { root_pem: root.pem(), root, intermediate })
    }

    /// The root certificate that clients must trust, PEM.
    pub fn root_pem(&self) -> &str {
        &self.root_pem
    }

    /// Issues a leaf for these DNS names and addresses.
    ///
    /// # Errors
    /// A name is invalid.
    pub fn issue(&self, names: &[String]) -> Result<ServerCertificate, rcgen::Error> {
        let key = key()?;
        let leaf = leaf(names, &key, 0, DAYS_VALID, &self.intermediate)?;
        Ok(chain(&[&leaf, self.intermediate.as_ref()], &key))
    }

    /// Issues a leaf for these DNS names and addresses, with a chosen key and size.
    ///
    /// # Errors
    /// A name is invalid, or the chain cannot be that short.
    pub fn issue_with(
        &self,
        names: &[String],
        options: &LeafOptions,
    ) -> Result<ServerCertificate, CertificateError> {
        let key = match options.key {
            LeafKey::P256 => key()?,
            LeafKey::Rsa2048 => KeyPair::generate_for(&PKCS_RSA_SHA256)?,
        };
        let days = options.days_left.unwrap_or(DAYS_VALID);
        let signed = leaf(names, &key, 0, days, &self.intermediate)?;
        let Some(asked) = options.chain_bytes else {
            return Ok(chain(&[&signed, self.intermediate.as_ref()], &key));
        };
        let intermediate = self.intermediate.der().len();
        if asked >= signed.der().len() + intermediate {
            let leaf = padded(names, &key, asked - intermediate, days, &self.intermediate)?;
            return Ok(chain(&[&leaf, self.intermediate.as_ref()], &key));
        }
        Ok(chain(&[&padded(names, &key, asked, days, &self.root)?], &key))
    }
}

/// Makes a leaf of `asked` bytes, within [`SIZE_TOLERANCE`].
fn padded(
    names: &[String],
    key: &KeyPair,
    asked: usize,
    days: i64,
    issuer: &CertifiedIssuer<'static, KeyPair>,
) -> Result<Certificate, CertificateError> {
    let plain = leaf(names, key, 0, days, issuer)?;
    let needed = plain.der().len();
    // ECDSA signatures vary in length, so a leaf can exceed the size of the one that the caller made before.
    if needed > asked + SIZE_TOLERANCE {
        return Err(CertificateError::ChainTooShort { asked, needed });
    }
    let missing = asked.saturating_sub(needed);
    match missing.saturating_sub(PADDING_OVERHEAD) {
        0 => Ok(plain),
        padding => Ok(leaf(names, key, padding, days, issuer)?),
    }
}

fn chain(certificates: &[&Certificate], key: &KeyPair) -> ServerCertificate {
    ServerCertificate {
        chain_pem: certificates.iter().map(|certificate| certificate.pem()).collect(),
        key_pem: key.serialize_pem(),
    }
}

fn leaf(
    names: &[String],
    key: &KeyPair,
    padding: usize,
    days: i64,
    issuer: &CertifiedIssuer<'static, KeyPair>,
) -> Result<Certificate, rcgen::Error> {
    let mut params = CertificateParams::new(names)?;
    // RFC 5280 limits a common name to 64 characters; the actual names are in the extension.
    params.distinguished_name = DistinguishedName::new();
    if let Some(first) = names.first().filter(|name| name.len() <= 64) {
        params.distinguished_name.push(DnType::CommonName, first.as_str());
    }
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    if padding > 0 {
        let content = incompressible(padding);
        params.custom_extensions.push(CustomExtension::from_oid_content(&PADDING_OID, content));
    }
    set_validity(&mut params, days);
    params.signed_by(key, issuer)
}

/// Bytes of xorshift64, which certificate compression (RFC 8879) cannot shorten.
fn incompressible(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_be_bytes());
    }
    bytes.truncate(length);
    bytes
}

fn issuer(common_name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.use_authority_key_identifier_extension = true;
    set_validity(&mut params, DAYS_VALID);
    params
}

fn set_validity(params: &mut CertificateParams, days: i64) {
    let now = OffsetDateTime::from(clock::wall());
    params.not_after = now + time::Duration::days(days);
    params.not_before = now.min(params.not_after) - BACKDATED;
}

fn key() -> Result<KeyPair, rcgen::Error> {
    KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::RootCertStore;
    use rustls::client::WebPkiServerVerifier;
    use rustls::client::danger::ServerCertVerifier;
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, UnixTime};

    use super::*;

    const NAME: &str = "www.lab.test";

    /// Size of the chain, if rustls accepts it for the name.
    fn verify(ca: &Ca, certificate: &ServerCertificate) -> Result<usize, rustls::Error> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(ca.root_pem().as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
        let chain: Vec<_> = CertificateDer::pem_slice_iter(certificate.chain_pem.as_bytes())
            .collect::<Result<_, _>>()
            .unwrap();
        let now = clock::wall().duration_since(std::time::UNIX_EPOCH).unwrap();
        verifier
            .build()
            .unwrap()
            .verify_server_cert(
                &chain[0],
                &chain[1..],
                &NAME.try_into().unwrap(),
                &[],
                UnixTime::since_unix_epoch(now),
            )
            .map(|_| chain.iter().map(|certificate| certificate.len()).sum())
    }

    fn verified_bytes(ca: &Ca, certificate: &ServerCertificate) -> usize {
        verify(ca, certificate).unwrap()
    }

    #[test]
    fn chains_have_the_size_asked_for_and_verify() {
        let ca = Ca::new().unwrap();
        for key in [LeafKey::P256, LeafKey::Rsa2048] {
            // With RSA, the smallest chain has no room for an intermediate.
            for asked in [1_000, 2_000, 3_600, 10_000, 40_000] {
                let options =
                    LeafOptions { key, chain_bytes: Some(asked), ..LeafOptions::default() };
                let certificate = ca.issue_with(&[NAME.to_owned()], &options).unwrap();
                let bytes = verified_bytes(&ca, &certificate);
                assert!(
                    bytes.abs_diff(asked) <= SIZE_TOLERANCE,
                    "{key:?}: {bytes} bytes, {asked} asked"
                );
            }
        }
    }

    /// Signatures vary in length, so the same size is sometimes a byte short of the next leaf's.
    #[test]
    fn a_chain_of_the_natural_size_is_always_possible() {
        let ca = Ca::new().unwrap();
        for _ in 0..200 {
            let asked = verified_bytes(&ca, &ca.issue(&[NAME.to_owned()]).unwrap());
            let options = LeafOptions { chain_bytes: Some(asked), ..LeafOptions::default() };
            let certificate = ca.issue_with(&[NAME.to_owned()], &options).unwrap();
            let bytes = verified_bytes(&ca, &certificate);
            assert!(bytes.abs_diff(asked) <= SIZE_TOLERANCE, "{bytes} bytes, {asked} requested");
        }
    }

    #[test]
    fn certificates_expire_when_they_are_told_to() {
        let ca = Ca::new().unwrap();
        for (days, chain_bytes, is_valid) in
            [(1, None, true), (-1, None, false), (-365, Some(3_000), false), (-1, Some(700), false)]
        {
            let options =
                LeafOptions { days_left: Some(days), chain_bytes, ..LeafOptions::default() };
            let certificate = ca.issue_with(&[NAME.to_owned()], &options).unwrap();
            let verdict = format!("{:?}", verify(&ca, &certificate));
            assert_eq!(verdict.starts_with("Ok"), is_valid, "{days} days left: {verdict}");
            assert!(is_valid || verdict.contains("Expired"), "{days} days left: {verdict}");
        }
    }

    #[test]
    fn short_chains_have_no_intermediate() {
        let ca = Ca::new().unwrap();
        let bytes = verified_bytes(&ca, &ca.issue(&[NAME.to_owned()]).unwrap());
        assert!((800..1_100).contains(&bytes), "{bytes}");
        let options = LeafOptions { chain_bytes: Some(700), ..LeafOptions::default() };
        let alone = ca.issue_with(&[NAME.to_owned()], &options).unwrap();
        assert_eq!(alone.chain_pem.matches("BEGIN").count(), 1);
        assert!(verified_bytes(&ca, &alone).abs_diff(700) <= SIZE_TOLERANCE);
        let options = LeafOptions { chain_bytes: Some(300), ..LeafOptions::default() };
        let error = ca.issue_with(&[NAME.to_owned()], &options).unwrap_err();
        assert!(error.to_string().contains("too small"), "{error}");
    }
}
