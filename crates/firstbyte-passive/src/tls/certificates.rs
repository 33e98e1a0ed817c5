//! The Certificate message of TLS up to 1.2 (RFC 5246 §7.4.2): lengths, and the first key.
//!
//! In: the message's body in pieces. Out: number and total length of the certificates, and the kind of key in the
//! first. Only the beginning is buffered, for that key; nothing is verified.

use crate::observed::{CertificateKey, CertificatesSeen};

/// The public key of a certificate is expected within this many bytes.
const KEPT: usize = 4096;

/// A Certificate message that is being read.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    kept: Vec<u8>,
    /// Remaining bytes of a length field, then of a certificate.
    lead: u8,
    length: u32,
    left: u32,
    began: bool,
    seen: CertificatesSeen,
}

impl Chain {
    /// Takes the next bytes of the body.
    pub(crate) fn feed(&mut self, mut bytes: &[u8]) {
        let room = KEPT.saturating_sub(self.kept.len()).min(bytes.len());
        self.kept.extend_from_slice(&bytes[..room]);
        if !self.began {
            // The length of the whole list comes first. It repeats the message's own length.
            self.lead = 6;
            self.began = true;
        }
        while !bytes.is_empty() {
            if self.lead > 0 {
                if self.lead == 3 {
                    self.length = 0;
                }
                self.length = (self.length << 8 | u32::from(bytes[0])) & 0x00ff_ffff;
                self.lead -= 1;
                bytes = &bytes[1..];
                if self.lead == 0 {
                    self.left = self.length;
                    self.seen.count += 1;
                    self.seen.chain_bytes += u64::from(self.length);
                    self.lead = if self.left == 0 { 3 } else { 0 };
                }
                continue;
            }
            let skipped = bytes.len().min(self.left as usize);
            self.left -= skipped as u32;
            bytes = &bytes[skipped..];
            if self.left == 0 {
                self.lead = 3;
            }
        }
    }

    /// Ends the message.
    pub(crate) fn end(mut self) -> CertificatesSeen {
        self.seen.key = self.kept.get(6..).and_then(key);
        self.seen
    }
}

/// The kind of key of the X.509 certificate that `der` begins with (RFC 5280 §4.1).
fn key(der: &[u8]) -> Option<CertificateKey> {
    let (certificate, _) = element(der, 0x30)?;
    let (mut fields, _) = element(certificate, 0x30)?;
    if fields.first() == Some(&0xa0) {
        fields = any(fields)?.1;
    }
    // Serial number, signature, issuer, validity, subject.
    for _ in 0..5 {
        fields = any(fields)?.1;
    }
    let (info, _) = element(fields, 0x30)?;
    let (algorithm, public) = element(info, 0x30)?;
    let (oid, parameters) = element(algorithm, 0x06)?;
    Some(match oid {
        // rsaEncryption, RSASSA-PSS.
        [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01 | 0x0a] => {
            let (bits, _) = element(public, 0x03)?;
            let (numbers, _) = element(bits.get(1..)?, 0x30)?;
            let (modulus, _) = element(numbers, 0x02)?;
            let zeros = modulus.iter().take_while(|byte| **byte == 0).count();
            let significant = &modulus[zeros..];
            let leading = significant.first().map_or(0, |byte| byte.leading_zeros());
            CertificateKey::Rsa((significant.len() as u32 * 8).saturating_sub(leading))
        }
        [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01] => match element(parameters, 0x06)?.0 {
            [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07] => CertificateKey::P256,
            [0x2b, 0x81, 0x04, 0x00, 0x22] => CertificateKey::P384,
            [0x2b, 0x81, 0x04, 0x00, 0x23] => CertificateKey::P521,
            _ => CertificateKey::Other,
        },
        [0x2b, 0x65, 0x70] => CertificateKey::Ed25519,
        [0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x03, set @ 17..=19] => {
            CertificateKey::MlDsa([44, 65, 87][usize::from(*set - 17)])
        }
        _ => CertificateKey::Other,
    })
}

/// Splits off an element with `tag`. Returns its content, perhaps truncated, and the bytes after it.
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    if *der.first()? != tag {
        return None;
    }
    any(der)
}

fn any(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, header) = match *der.get(1)? {
        short @ 0..=0x7f => (usize::from(short), 2),
        0x81 => (usize::from(*der.get(2)?), 3),
        0x82 => (usize::from(*der.get(2)?) << 8 | usize::from(*der.get(3)?), 4),
        0x83 => {
            let [a, b, c] = *der.get(2..)?.first_chunk::<3>()?;
            (usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c), 5)
        }
        _ => return None,
    };
    let rest = der.get(header..)?;
    Some(rest.split_at(length.min(rest.len())))
}
