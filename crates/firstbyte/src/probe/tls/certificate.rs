//! What a certificate says, in the words of the facts.

use firstbyte_core::timeline::Certificate;
use rustls::pki_types::CertificateDer;
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::public_key::PublicKey;
use x509_parser::x509::SubjectPublicKeyInfo;

/// Describes `der`; a certificate that does not parse has its length only.
pub(crate) fn describe(der: &CertificateDer<'static>) -> Certificate {
    let der_bytes = der.len() as u64;
    let Ok((_, parsed)) = X509Certificate::from_der(der) else {
        return Certificate { der_bytes, ..Certificate::default() };
    };
    Certificate {
        subject: parsed.subject().to_string(),
        issuer: parsed.issuer().to_string(),
        key: key(parsed.public_key()),
        not_after_unix: Some(parsed.validity().not_after.timestamp()),
        der_bytes,
    }
}

fn key(info: &SubjectPublicKeyInfo<'_>) -> String {
    match info.parsed() {
        Ok(PublicKey::RSA(key)) => format!("RSA {}", key.key_size()),
        Ok(PublicKey::EC(point)) => format!("ECDSA P-{}", point.key_size()),
        _ => match info.algorithm.algorithm.to_id_string().as_str() {
            "1.3.101.112" => "Ed25519".into(),
            "1.3.101.113" => "Ed448".into(),
            oid => oid.to_owned(),
        },
    }
}
