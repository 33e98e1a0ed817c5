//! Accepts a server certificate that is itself a trusted one, as curl with OpenSSL does. Its issuer does not matter,
//! nor whether it is a CA certificate; its dates, its name and its purpose do.
//!
//! Also describes weaknesses of a chain in words.

use rustls::CertificateError;
use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::public_key::PublicKey;

/// Minimum size in bits of an RSA key for checking signatures.
const RSA_BITS: usize = 2_048;

/// Whether `leaf`, which is itself trusted, is valid for `name` at `now`.
pub(super) fn check(
    leaf: &CertificateDer<'_>,
    name: &ServerName<'_>,
    now: UnixTime,
) -> Result<(), CertificateError> {
    let (_, parsed) = X509Certificate::from_der(leaf).map_err(|_| CertificateError::BadEncoding)?;
    let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    let validity = parsed.validity();
    if seconds > validity.not_after.timestamp() {
        let not_after = unix(validity.not_after.timestamp());
        return Err(CertificateError::ExpiredContext { time: now, not_after });
    }
    if seconds < validity.not_before.timestamp() {
        let not_before = unix(validity.not_before.timestamp());
        return Err(CertificateError::NotValidYetContext { time: now, not_before });
    }
    if let Ok(Some(usage)) = parsed.extended_key_usage()
        && !(usage.value.server_auth || usage.value.any)
    {
        return Err(CertificateError::InvalidPurpose);
    }
    let by_alternative_name =
        ParsedCertificate::try_from(leaf).map_err(|_| rustls::Error::from(BAD_NAME));
    match by_alternative_name.and_then(|leaf| verify_server_name(&leaf, name)) {
        Ok(()) => Ok(()),
        // Without alternative names, the common name counts (RFC 6125 §6.4.4).
        Err(_) if !has_alternative_names(&parsed) && common_name_is(&parsed, name) => Ok(()),
        Err(rustls::Error::InvalidCertificate(error)) => Err(error),
        Err(_) => Err(BAD_NAME),
    }
}

const BAD_NAME: CertificateError = CertificateError::NotValidForName;

fn unix(seconds: i64) -> UnixTime {
    let seconds = u64::try_from(seconds).unwrap_or_default();
    UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds))
}

fn has_alternative_names(certificate: &X509Certificate<'_>) -> bool {
    !matches!(certificate.subject_alternative_name(), Ok(None))
}

fn common_name_is(certificate: &X509Certificate<'_>, name: &ServerName<'_>) -> bool {
    let ServerName::DnsName(name) = name else { return false };
    let mut names = certificate.subject().iter_common_name();
    names.any(|known| {
        known.as_str().is_ok_and(|known| match known.strip_prefix("*.") {
            // A wildcard cannot cover a whole top-level domain.
            Some(domain) if domain.contains('.') => {
                name.as_ref().split_once('.').is_some_and(|(_, of)| of.eq_ignore_ascii_case(domain))
            }
            Some(_) => false,
            None => known.eq_ignore_ascii_case(name.as_ref()),
        })
    })
}

/// The weakness in `chain` (leaf first) that caused `error`: a key that is too short, or a signature with a broken
/// hash.
///
/// `given` are the trusted certificates; one of them may have signed the last of the chain.
pub(super) fn weakness(
    chain: &[CertificateDer<'_>],
    given: &[CertificateDer<'_>],
    error: &CertificateError,
) -> Option<String> {
    let parse = |der: &'_ CertificateDer<'_>| -> Option<(String, Option<usize>, &'static str)> {
        let (_, parsed) = X509Certificate::from_der(der).ok()?;
        let bits = match parsed.public_key().parsed() {
            Ok(PublicKey::RSA(key)) => Some(key.key_size()),
            _ => None,
        };
        let hash = match parsed.signature_algorithm.algorithm.to_id_string().as_str() {
            "1.2.840.113549.1.1.5" | "1.2.840.10045.4.1" | "1.2.840.10040.4.3" => "SHA-1",
            "1.2.840.113549.1.1.4" => "MD5",
            _ => "",
        };
        Some((parsed.subject().to_string(), bits, hash))
    };
    let whose = |index: usize, subject: &str, its: &str, of: &str| {
        if index == 0 { its.to_owned() } else { of.replace("{}", subject) }
    };
    match error {
        CertificateError::BadSignature => {
            chain.iter().chain(given).enumerate().find_map(|(index, der)| {
                let (subject, bits, _) = parse(der)?;
                let bits = bits.filter(|bits| *bits < RSA_BITS)?;
                let key = whose(index, &subject, "its RSA key", "the RSA key of {}");
                Some(format!(
                    "{key} has {bits} bits, which is too weak; at least {RSA_BITS} are required"
                ))
            })
        }
        _ => chain.iter().enumerate().find_map(|(index, der)| {
            let (subject, _, hash) = parse(der).filter(|(_, _, hash)| !hash.is_empty())?;
            let who = whose(index, &subject, "it", "the certificate of {}");
            Some(format!("{who} is signed with {hash}, which is too weak"))
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustls::pki_types::pem::PemObject;

    use super::*;

    /// `openssl x509 -req -signkey`: X.509 version 1, with a common name only.
    const VERSION_1: &str = "\
-----BEGIN CERTIFICATE-----
MIIBHTCBwwIUNLBLlCegqmzZlon4qh5fsSuzifcwCgYIKoZIzj0EAwIwETEPMA0G
A1UEAwwGYS50ZXN0MB4XDTI2MTEyMjEzMDgxM1oXDTM2MTExOTEzMDgxM1owETEP
MA0GA1UEAwwGYS50ZXN0MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAESAUhYevi
tTADKflT2O1roCQ2xn7wFa9Nwn4Sn6Yhhc7XA1nwaqHkYiWsaojQ0/YbS1a5PzS9
E4FXXKv7W35yfjAKBggqhkjOPQQDAgNJADBGAiEAtpC20+0zoSYwmFvoydrAd5Bo
aUGhw9EM+OqM0qy55TYCIQCfKqQbvolhkJWU2YqIxKvNCY7vtr7pD02u810sE3Qu
SQ==
-----END CERTIFICATE-----
";
    /// `openssl req -x509 -newkey rsa:1024`.
    const SHORT_KEY: &str = "\
-----BEGIN CERTIFICATE-----
MIICDjCCAXegAwIBAgIUdQr+0ujOmwyxQc1YGVP0wJiROdowDQYJKoZIhvcNAQEL
BQAwETEPMA0GA1UEAwwGYS50ZXN0MB4XDTI2MTEyMjEyMzgzN1oXDTI2MTIyMjEy
MzgzN1owETEPMA0GA1UEAwwGYS50ZXN0MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCB
iQKBgQC7uPEPhnWR2p3X3qQaHxND34MBTRDnVDPXwDA5JZtiKcXn1jBIYhp7l8NG
TmhXR/A+6QtIo/8WpLfsGYLHaN+Fmc9A2F/90Qre2XVr8ubtsRGlnEIuSKjXEfM3
NQudXCDV0fmlqqjvCJWUIl50g6fOVg8XVvglcpenR9tNQHBqwwIDAQABo2MwYTAd
BgNVHQ4EFgQUbhUzhetKEVzhWQ4bSg2lI7LA3CowHwYDVR0jBBgwFoAUbhUzhetK
EVzhWQ4bSg2lI7LA3CowEQYDVR0RBAowCIIGYS50ZXN0MAwGA1UdEwEB/wQCMAAw
DQYJKoZIhvcNAQELBQADgYEAOK0bzyi/y1JncxixghHO3Ww5XPKVST/Tdf+f2xcg
F0oPqWZITrpXdqrsCxPZkQH+ewvYPIquVQWJmxFPcXjudmwr0nsGiriotcAm1ca/
iGDG2g/jzNkVFe5g2R4Il2SfMFGxe8sDYm9lDRxdAs2P4It0xQPFboQMkw4TVtXG
CXY=
-----END CERTIFICATE-----
";

    fn certificate(pem: &str) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()
    }

    fn at(seconds: u64) -> UnixTime {
        UnixTime::since_unix_epoch(Duration::from_secs(seconds))
    }

    #[test]
    fn an_old_certificate_is_good_for_its_common_name_while_it_is_valid() {
        let (within, before, after) = (at(1_796_000_000), at(1_700_000_000), at(2_200_000_000));
        let leaf = certificate(VERSION_1);
        let check = |name: &'static str, now| check(&leaf, &name.try_into().unwrap(), now);
        assert_eq!(check("a.test", within), Ok(()));
        assert_eq!(check("A.TEST", within), Ok(()));
        assert_eq!(check("b.test", within), Err(CertificateError::NotValidForName));
        assert_eq!(check("192.0.2.1", within), Err(CertificateError::NotValidForName));
        assert!(matches!(
            check("a.test", before),
            Err(CertificateError::NotValidYetContext { .. })
        ));
        assert!(matches!(check("a.test", after), Err(CertificateError::ExpiredContext { .. })));
    }

    #[test]
    fn what_is_too_weak_is_said_of_whom() {
        let (short, good) = (certificate(SHORT_KEY), certificate(VERSION_1));
        let bad = CertificateError::BadSignature;
        let said = |chain: &[_], given: &[_]| weakness(chain, given, &bad);
        let of_leaf = "its RSA key has 1024 bits, which is too weak; at least 2048 are required";
        assert_eq!(said(std::slice::from_ref(&short), &[]).as_deref(), Some(of_leaf));
        let of_issuer =
            "the RSA key of CN=a.test has 1024 bits, which is too weak; at least 2048 are required";
        let chain = [good.clone(), short.clone()];
        assert_eq!(said(&chain, &[]).as_deref(), Some(of_issuer));
        assert_eq!(said(&chain[..1], &[short]).as_deref(), Some(of_issuer));
        assert_eq!(said(&chain[..1], &[]), None);
    }
}
