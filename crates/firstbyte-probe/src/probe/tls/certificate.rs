//! Describes certificates in the form of the facts.

use std::cell::RefCell;

use firstbyte_core::timeline::Certificate;
use rustls::pki_types::CertificateDer;
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::public_key::PublicKey;
use x509_parser::x509::SubjectPublicKeyInfo;

/// Maximum number of descriptions kept.
const KEPT: usize = 32;

/// Descriptions of certificates seen before, because a server presents the same ones every time.
#[derive(Debug, Default)]
pub(in crate::probe) struct Certificates(RefCell<Vec<(CertificateDer<'static>, Certificate)>>);

impl Certificates {
    pub(in crate::probe) fn describe(&self, chain: &[CertificateDer<'static>]) -> Vec<Certificate> {
        chain.iter().map(|der| self.one(der)).collect()
    }

    fn one(&self, der: &CertificateDer<'static>) -> Certificate {
        let mut kept = self.0.borrow_mut();
        if let Some((_, known)) = kept.iter().find(|(known, _)| known == der) {
            return known.clone();
        }
        let described = describe(der);
        if kept.len() == KEPT {
            kept.remove(0);
        }
        kept.push((der.clone(), described.clone()));
        described
    }
}

/// Describes `der`; a certificate that cannot be parsed gets only its length.
fn describe(der: &CertificateDer<'static>) -> Certificate {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_what_a_certificate_says_itself() {
        let shown = |i: usize| {
            let names = vec![format!("host{i}.example")];
            let key = rcgen::KeyPair::generate().unwrap();
            let params = rcgen::CertificateParams::new(names).unwrap();
            params.self_signed(&key).unwrap().der().clone()
        };
        let chain: Vec<_> = (0..KEPT + 2).map(shown).collect();
        let own: Vec<_> = chain.iter().map(describe).collect();
        assert!(own.iter().all(|c| c.key == "ECDSA P-256" && c.not_after_unix.is_some()));
        let certificates = Certificates::default();
        for _ in 0..2 {
            assert_eq!(certificates.describe(&chain), own);
            assert_eq!(certificates.describe(&chain[KEPT..]), own[KEPT..]);
        }
        assert_eq!(certificates.0.borrow().len(), KEPT);
    }
}
