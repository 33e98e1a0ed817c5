//! Turns errors of the TLS stack into causes that say whose fault they are.

use firstbyte_core::timeline::{Cause, Certificate};
use rustls::pki_types::{ServerName, UnixTime};
use rustls::{AlertDescription, CertificateError, Error, PeerIncompatible};

use super::Offered;

/// The information from a handshake that ended with an error.
pub(super) struct Shown<'a> {
    /// The server's certificates, leaf first.
    pub certificates: &'a dyn Fn() -> Vec<Certificate>,
    /// A weakness of these certificates, in words.
    pub weakness: Option<&'a str>,
    /// Whether the server asked for a client certificate.
    pub asked_for_certificate: bool,
}

/// The cipher suites that rustls supports; a test checks each.
const SUITES_IN_WORDS: &str = "ECDHE with AES-GCM or ChaCha20 (no RSA key exchange, no CBC)";

pub(super) fn cause(error: &Error, offered: &Offered, shown: &Shown<'_>) -> Cause {
    match error {
        Error::InvalidCertificate(error) => certificate(error, shown),
        Error::NoApplicationProtocol => Cause::AlpnMismatch { offered: offered.alpn.clone() },
        Error::AlertReceived(alert) => match alert {
            AlertDescription::ProtocolVersion => {
                Cause::ProtocolVersionRefused { offered: offered.versions.into() }
            }
            AlertDescription::NoApplicationProtocol => {
                Cause::AlpnMismatch { offered: offered.alpn.clone() }
            }
            AlertDescription::CertificateRequired => Cause::ClientCertificateRequired,
            // Before TLS 1.3, servers send these when a client certificate is missing: OpenSSL the first, Go and Java
            // the second, GnuTLS the third.
            AlertDescription::HandshakeFailure
            | AlertDescription::BadCertificate
            | AlertDescription::DecodeError
            | AlertDescription::CertificateUnknown
            | AlertDescription::AccessDenied
                if shown.asked_for_certificate && !offered.client_certificate =>
            {
                Cause::ClientCertificateRequired
            }
            AlertDescription::HandshakeFailure
                if shown.asked_for_certificate && offered.client_certificate =>
            {
                Cause::ClientCertificateRefused { alert: alert_name(*alert) }
            }
            AlertDescription::HandshakeFailure => Cause::NoCommonParameters {
                detail: format!(
                    "server sent the alert handshake_failure; offered were {SUITES_IN_WORDS} and the groups {}",
                    offered.groups
                ),
                groups: offered.chosen,
            },
            AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied
                if offered.client_certificate =>
            {
                Cause::ClientCertificateRefused { alert: alert_name(*alert) }
            }
            other => Cause::TlsAlert { alert: alert_name(*other) },
        },
        Error::PeerIncompatible(
            PeerIncompatible::ServerDoesNotSupportTls12Or13
            | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig
            | PeerIncompatible::Tls12NotOffered
            | PeerIncompatible::Tls12NotOfferedOrEnabled
            | PeerIncompatible::SupportedVersionsExtensionRequired,
        ) => Cause::ProtocolVersionRefused { offered: offered.versions.into() },
        Error::PeerIncompatible(what) => Cause::NoCommonParameters {
            detail: snake_case(&format!("{what:?}")).replace('_', " "),
            groups: offered.chosen,
        },
        other => Cause::TlsMisbehaved { detail: other.to_string() },
    }
}

fn certificate(error: &CertificateError, shown: &Shown<'_>) -> Cause {
    match error {
        CertificateError::Expired => Cause::CertificateExpired { not_after: None, authority: None },
        CertificateError::ExpiredContext { not_after, .. } => Cause::CertificateExpired {
            not_after: Some(date(*not_after)),
            authority: expired_authority(*not_after, &(shown.certificates)()),
        },
        CertificateError::NotValidYet => Cause::CertificateNotYetValid { not_before: None },
        CertificateError::NotValidYetContext { not_before, .. } => {
            Cause::CertificateNotYetValid { not_before: Some(date(*not_before)) }
        }
        CertificateError::NotValidForName => {
            let host = "the host".into();
            Cause::CertificateWrongName { host, names: Vec::new(), as_dns_name: false }
        }
        CertificateError::NotValidForNameContext { expected, presented } => {
            let host = expected.to_str().into_owned();
            let names: Vec<String> = presented.iter().map(|name| plain_name(name)).collect();
            let is_address = matches!(expected, ServerName::IpAddress(_));
            let as_dns_name = is_address && names.contains(&host);
            Cause::CertificateWrongName { host, names, as_dns_name }
        }
        CertificateError::UnknownIssuer => {
            let chain = (shown.certificates)();
            match chain.as_slice() {
                [only] if only.subject == only.issuer => {
                    Cause::CertificateSelfSigned { subject: only.subject.clone() }
                }
                chain => Cause::CertificateUnknownIssuer {
                    issuer: chain.last().map(|c| c.issuer.clone()),
                    alone: chain.len() == 1,
                },
            }
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            Cause::CertificateInvalid { detail: "it is not for server authentication".into() }
        }
        error => Cause::CertificateInvalid {
            detail: shown.weakness.map_or_else(|| in_words(error), str::to_owned),
        },
    }
}

/// The subject of the certificate in `chain` that expired at `not_after`, unless it is the first one.
fn expired_authority(not_after: UnixTime, chain: &[Certificate]) -> Option<String> {
    let seconds = i64::try_from(not_after.as_secs()).ok();
    let is_it = |certificate: &&Certificate| {
        certificate.not_after_unix.is_some() && certificate.not_after_unix == seconds
    };
    let (leaf, others) = chain.split_first()?;
    if is_it(&leaf) {
        return None;
    }
    others.iter().find(is_it).map(|certificate| certificate.subject.clone())
}

/// Describes other problems of a certificate.
fn in_words(error: &CertificateError) -> String {
    match error {
        CertificateError::BadEncoding => "it is malformed".into(),
        CertificateError::BadSignature => "a signature does not match".into(),
        CertificateError::Revoked => "it was revoked".into(),
        CertificateError::UnhandledCriticalExtension => {
            "it has a critical extension that is not supported".into()
        }
        CertificateError::UnsupportedSignatureAlgorithmContext { .. } => {
            "it is signed with an algorithm that is not supported".into()
        }
        CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "a signature algorithm does not match the key".into()
        }
        CertificateError::Other(inner) => match inner.to_string().as_str() {
            // The output of `openssl req -x509`, used directly: a CA certificate as a server's certificate.
            "CaUsedAsEndEntity" => {
                "it is a CA's own certificate (CA:TRUE), not one for a server".into()
            }
            "UnsupportedCertVersion" => {
                "it is an X.509 version 1 or 2 certificate; version 3 is required".into()
            }
            other => snake_case(other).replace('_', " "),
        },
        other => {
            let text = Error::from(other.clone()).to_string();
            let name = text.trim_start_matches("invalid peer certificate: ");
            snake_case(name).replace('_', " ")
        }
    }
}

/// Turns webpki's `DnsName("x")` into `x`.
fn plain_name(presented: &str) -> String {
    let inner = presented.split_once('(').map_or(presented, |(_, rest)| rest);
    inner.trim_end_matches(')').trim_matches('"').to_owned()
}

fn date(time: UnixTime) -> String {
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    x509_parser::time::ASN1Time::from_timestamp(seconds).map_or_else(
        |_| format!("{seconds} s since 1970"),
        |at| at.to_datetime().date().to_string(),
    )
}

/// The alert's name in RFC 8446 §6 and RFC 6066 §9.
fn alert_name(alert: AlertDescription) -> String {
    snake_case(&format!("{alert:?}")).replace("unrecognised", "unrecognized")
}

/// `HandshakeFailure` to `handshake_failure`, and `UnknownCA` to `unknown_ca`.
fn snake_case(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    let mut out = String::with_capacity(name.len() + 4);
    for (i, c) in letters.iter().enumerate() {
        let after_lower = i > 0 && letters[i - 1].is_ascii_lowercase();
        let before_lower = letters.get(i + 1).is_some_and(char::is_ascii_lowercase);
        if c.is_ascii_uppercase() && i > 0 && (after_lower || before_lower) {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_suites_are_those_of_the_words() {
        for suite in rustls::crypto::aws_lc_rs::default_provider().cipher_suites {
            let name = format!("{:?}", suite.suite());
            let is_ecdhe = name.starts_with("TLS13_") || name.starts_with("TLS_ECDHE_");
            assert!(is_ecdhe && (name.contains("_GCM_") || name.contains("CHACHA20")), "{name}");
        }
    }

    #[test]
    fn alerts_have_the_names_of_their_rfcs() {
        for (alert, name) in [
            (AlertDescription::HandshakeFailure, "handshake_failure"),
            (AlertDescription::UnknownCA, "unknown_ca"),
            (AlertDescription::UnknownPSKIdentity, "unknown_psk_identity"),
            (AlertDescription::UnrecognisedName, "unrecognized_name"),
        ] {
            assert_eq!(alert_name(alert), name);
        }
    }
}
