//! Strength of negotiated algorithms, in bits: an attack with classical computers costs as much as trying 2ⁿ keys.
//!
//! In: numbers of groups and cipher suites, keys of certificates. Out: the classes of NIST SP 800-57 Part 1 Rev. 5
//! (§5.6.1, tables 2 and 4): 112, 128, 192, 256, or a lower value. A size between two classes belongs to the lower one.
//! Ciphers for which NIST gives no figure are rated by their key length. Unknown algorithms have no class.

use super::names;
use super::observed::{CertificateKey, TlsSeen};

/// Smallest acceptable strength (NIST SP 800-131A Rev. 2); lower ones are weak.
pub const LEAST_BITS: u16 = 112;

/// The class of a strength.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Strength {
    /// Bits: 0, 40, 56, 80, 112, 128, 192 or 256.
    pub bits: u16,
    /// Known to be broken, or disallowed whatever its length.
    pub broken: bool,
}

impl Strength {
    const fn bits(bits: u16) -> Self {
        Self { bits, broken: false }
    }

    const fn broken(bits: u16) -> Self {
        Self { bits, broken: true }
    }

    /// Whether it should no longer be used.
    pub const fn is_weak(self) -> bool {
        self.broken || self.bits < LEAST_BITS
    }
}

/// The class of an RSA modulus or a finite field, by its length (table 2).
const fn modulus(bits: u32) -> Strength {
    Strength::bits(match bits {
        15_360.. => 256,
        7_680.. => 192,
        3_072.. => 128,
        2_048.. => 112,
        1_024.. => 80,
        512.. => 56,
        _ => 40,
    })
}

/// The class of a curve, by the length of its order (table 2; SP 800-186 for Curve25519 and Curve448).
const fn curve(bits: u32) -> Strength {
    Strength::bits(match bits {
        512.. => 256,
        384.. => 192,
        // The orders of Curve25519 and brainpoolP256 have 253 to 256 bits.
        252.. => 128,
        224.. => 112,
        160.. => 80,
        _ => 56,
    })
}

/// The class of a certificate's key.
pub const fn certificate_key(key: CertificateKey) -> Option<Strength> {
    Some(match key {
        CertificateKey::Rsa(bits) => modulus(bits),
        CertificateKey::P256 | CertificateKey::Ed25519 => Strength::bits(128),
        CertificateKey::P384 => Strength::bits(192),
        CertificateKey::P521 => Strength::bits(256),
        // FIPS 204: categories 2, 3 and 5.
        CertificateKey::MlDsa(44) => Strength::bits(128),
        CertificateKey::MlDsa(65) => Strength::bits(192),
        CertificateKey::MlDsa(87) => Strength::bits(256),
        CertificateKey::MlDsa(_) | CertificateKey::Other => return None,
    })
}

/// The class of a group. A hybrid is as strong as the stronger of its two parts; ML-KEM goes by its category (FIPS 203:
/// 1, 3, 5).
pub const fn group(number: u16) -> Option<Strength> {
    Some(match number {
        0x0001..=0x0003 | 0x000f..=0x0011 => curve(163),
        0x0004 | 0x0005 | 0x0012 | 0x0013 => curve(193),
        0x0006..=0x0008 | 0x0014 | 0x0015 => curve(224),
        0x0009 | 0x000a | 0x0016 | 0x0017 | 0x001a | 0x001d | 0x001f | 0x0029 => curve(256),
        0x000b | 0x000c | 0x0018 | 0x001b | 0x0020 | 0x001e => curve(384),
        0x000d | 0x000e | 0x0019 | 0x001c | 0x0021 => curve(521),
        0x0100 => modulus(2_048),
        0x0101 => modulus(3_072),
        0x0102 => modulus(4_096),
        0x0103 => modulus(6_144),
        0x0104 => modulus(8_192),
        0x0200 => Strength::bits(128),
        0x0201 | 0x11eb | 0x11ec | 0x11ee | 0x4138 | 0x6399 | 0x639a => Strength::bits(192),
        0x0202 | 0x11ed => Strength::bits(256),
        _ => return None,
    })
}

/// The class of a cipher suite's cipher. Ciphers that are not disallowed are rated by their key length.
pub fn cipher(number: u16) -> Option<Strength> {
    let name = names::cipher_suite(number);
    // TLS 1.3 suites have no `_WITH_`.
    let cipher = match name.split_once("_WITH_") {
        Some((_, cipher)) => cipher,
        None => name.strip_prefix("TLS_")?,
    };
    let starts = |with: &[&str]| with.iter().any(|it| cipher.starts_with(it));
    Some(if starts(&["NULL"]) || cipher.starts_with("SHA") {
        Strength::broken(0)
    } else if name.contains("_EXPORT") {
        Strength::broken(40)
    } else if starts(&["DES_", "DES40"]) {
        Strength::broken(56)
    } else if starts(&["3DES"]) {
        // Three keys are worth 112 bits, in 64-bit blocks; SP 800-131A Rev. 2 disallows this after 2023.
        Strength::broken(112)
    } else if starts(&["RC4"]) {
        // RFC 7465.
        Strength::broken(80)
    } else if starts(&["AES_128", "CAMELLIA_128", "ARIA_128", "SEED", "IDEA", "SM4"]) {
        Strength::bits(128)
    } else if starts(&[
        "AES_256",
        "CAMELLIA_256",
        "ARIA_256",
        "CHACHA20",
        "28147",
        "MAGMA",
        "KUZNYECHIK",
    ]) {
        Strength::bits(256)
    } else {
        return None;
    })
}

/// The class and name of a handshake's key exchange: a group, a finite field by its length, or the certificate's own
/// RSA key. Absent if none was seen: a resumed TLS 1.2 session has none.
pub fn key_exchange(tls: &TlsSeen) -> Option<(Strength, KeyExchange)> {
    if let Some(number) = tls.group {
        return Some((group(number)?, KeyExchange::Group(number)));
    }
    tls.handshake.filter(|kind| *kind != firstbyte_core::timeline::Handshake::Resumed)?;
    let name = names::cipher_suite(tls.cipher_suite?);
    let (kind, _) = name.strip_prefix("TLS_")?.split_once("_WITH_")?;
    if kind == "RSA" || kind == "RSA_EXPORT" {
        let key = tls.certificates?.key?;
        let CertificateKey::Rsa(bits) = key else { return None };
        return Some((certificate_key(key)?, KeyExchange::Rsa(bits)));
    }
    if kind.starts_with("DHE") || kind.starts_with("DH_anon") {
        // Leading zeros of public values may be left out; field lengths are multiples of 64 bits.
        let bits = tls.server_key_exchange_bytes?.div_ceil(8).checked_mul(64)?;
        return Some((modulus(bits), KeyExchange::Field(bits)));
    }
    None
}

/// The method of key exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyExchange {
    /// A group, by its number.
    Group(u16),
    /// A finite field chosen by the server, by its length in bits.
    Field(u32),
    /// The client encrypted to the certificate's RSA key of this length in bits. Whoever gets that key can read the
    /// capture.
    Rsa(u32),
}

impl KeyExchange {
    /// A name for people: "X25519", "finite field of 1024 bits", "RSA 2048, without forward secrecy".
    pub fn name(self) -> String {
        match self {
            Self::Group(number) => names::group(number),
            Self::Field(bits) => format!("finite field of {bits} bits"),
            Self::Rsa(bits) => format!("RSA {bits}, without forward secrecy"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observed::CertificatesSeen;
    use firstbyte_core::timeline::Handshake;

    #[test]
    fn classes_are_those_of_sp_800_57() {
        let moduli = [1_024, 2_047, 2_048, 3_072, 4_096, 7_680, 15_360].map(|n| modulus(n).bits);
        assert_eq!(moduli, [80, 80, 112, 128, 128, 192, 256]);
        let groups = [0x0017, 0x001d, 0x0018, 0x001e, 0x0019, 0x0100, 0x0102, 0x11ec, 0x0013]
            .map(|number| group(number).unwrap().bits);
        assert_eq!(groups, [128, 128, 192, 192, 256, 112, 128, 192, 80]);
        assert_eq!(group(0x0a0a), None);
    }

    #[test]
    fn ciphers_are_told_by_what_they_are() {
        let bits = [0x1301, 0x1302, 0x1303, 0xc02f, 0xc030, 0xcca8, 0x002f, 0x000a, 0x0005, 0x0003]
            .map(|number| cipher(number).unwrap())
            .map(|strength| (strength.bits, strength.is_weak()));
        let strong = |bits| (bits, false);
        let expected = [128, 256, 256, 128, 256, 256, 128].map(strong);
        assert_eq!(bits[..7], expected);
        assert_eq!(bits[7..], [(112, true), (80, true), (40, true)]);
        assert_eq!(cipher(0x0002).unwrap(), Strength::broken(0));
        assert_eq!(cipher(0xfafa), None);
    }

    #[test]
    fn an_exchange_without_a_group_is_told_by_the_suite() {
        let tls = TlsSeen {
            handshake: Some(Handshake::Full),
            cipher_suite: Some(0x002f),
            certificates: Some(CertificatesSeen {
                key: Some(CertificateKey::Rsa(2_048)),
                ..CertificatesSeen::default()
            }),
            ..TlsSeen::default()
        };
        let (strength, how) = key_exchange(&tls).unwrap();
        assert_eq!((strength.bits, how), (112, KeyExchange::Rsa(2_048)));
        // A public value of 1,016 bits belongs to a field of 1,024 bits and begins with zeros.
        let dhe = TlsSeen {
            cipher_suite: Some(0x0033),
            server_key_exchange_bytes: Some(127),
            ..tls.clone()
        };
        let (strength, how) = key_exchange(&dhe).unwrap();
        assert_eq!((strength.is_weak(), how), (true, KeyExchange::Field(1_024)));
        let resumed = TlsSeen { handshake: Some(Handshake::Resumed), ..dhe };
        assert_eq!(key_exchange(&resumed), None);
    }
}
