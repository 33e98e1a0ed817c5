//! Meaning of the log's numbers and texts: cipher suites, groups, TLS messages.
//!
//! Input: parameters of events. Output: IANA names, facts of handshakes. Chromium offers few suites and groups: other
//! numbers have no name.

use firstbyte_core::timeline::SessionMechanism;
use firstbyte_core::wire::client_hello::ClientHello;
use firstbyte_core::wire::cursor::ByteCursor;
use firstbyte_core::wire::tls::handshake_name;

/// Handshake message types (IANA TLS HandshakeType).
pub(super) const CLIENT_HELLO: i64 = 1;
pub(super) const SERVER_HELLO: i64 = 2;
pub(super) const NEW_SESSION_TICKET: i64 = 4;
pub(super) const END_OF_EARLY_DATA: i64 = 5;
pub(super) const FINISHED: i64 = 20;

/// `ssl_early_data_accepted` of BoringSSL's `ssl_early_data_reason_t`.
pub(super) const EARLY_DATA_ACCEPTED: i64 = 2;

/// The IANA name of a cipher suite that Chromium offers.
pub(super) fn cipher_suite(number: i64) -> Option<&'static str> {
    Some(match number {
        0x1301 => "TLS_AES_128_GCM_SHA256",
        0x1302 => "TLS_AES_256_GCM_SHA384",
        0x1303 => "TLS_CHACHA20_POLY1305_SHA256",
        0xc02b => "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        0xc02c => "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        0xc02f => "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        0xc030 => "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        0xcca8 => "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        0xcca9 => "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        0xc009 => "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
        0xc00a => "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
        0xc013 => "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
        0xc014 => "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
        0x002f => "TLS_RSA_WITH_AES_128_CBC_SHA",
        0x0035 => "TLS_RSA_WITH_AES_256_CBC_SHA",
        0x009c => "TLS_RSA_WITH_AES_128_GCM_SHA256",
        0x009d => "TLS_RSA_WITH_AES_256_GCM_SHA384",
        _ => return None,
    })
}

/// The IANA name of a group that Chromium offers.
pub(super) fn group(number: i64) -> Option<&'static str> {
    Some(match number {
        23 => "secp256r1",
        24 => "secp384r1",
        25 => "secp521r1",
        29 => "X25519",
        4588 => "X25519MLKEM768",
        25497 => "X25519Kyber768Draft00",
        _ => return None,
    })
}

/// "TLSv1.3" for Chromium's "TLS 1.3".
pub(super) fn tls_version(text: &str) -> Option<&'static str> {
    match text {
        "TLS 1.3" | "QUIC" => Some("TLSv1.3"),
        "TLS 1.2" => Some("TLSv1.2"),
        _ => None,
    }
}

/// Name of a message, in braces if it was encrypted; `handshaken` is true once the first keys are available.
pub(super) fn message_name(kind: i64, handshaken: bool) -> String {
    let name = match kind {
        END_OF_EARLY_DATA => "EndOfEarlyData",
        _ => handshake_name(u8::try_from(kind).unwrap_or(u8::MAX)),
    };
    if handshaken { format!("{{{name}}}") } else { name.to_owned() }
}

/// The session mechanism and early data that a ClientHello offers, if any.
pub(super) fn offered(message: &[u8]) -> (Option<SessionMechanism>, bool) {
    // Wrap the message in a record, since the parser reads records.
    let Some(length) = u16::try_from(message.len()).ok() else { return (None, false) };
    let mut record = vec![0x16, 3, 1];
    record.extend(length.to_be_bytes());
    record.extend(message);
    let Some(hello) = ClientHello::at_start_of(&record) else { return (None, false) };
    let mechanism = if hello.pre_shared_key {
        Some(SessionMechanism::Psk)
    } else {
        (hello.ticket_bytes > 0).then_some(SessionMechanism::Ticket)
    };
    (mechanism, hello.early_data)
}

/// Parameters chosen by a ServerHello.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ServerHello {
    pub(super) cipher_suite: u16,
    pub(super) group: Option<u16>,
    /// Whether it resumes the session that was offered.
    pub(super) resumed: bool,
    /// Whether it is a HelloRetryRequest.
    pub(super) retry: bool,
}

impl ServerHello {
    /// Parses a message (RFC 8446 §4.1.3), beginning with its header.
    pub(super) fn read(message: &[u8]) -> Option<Self> {
        const PRE_SHARED_KEY: u16 = 41;
        const KEY_SHARE: u16 = 51;
        // The SHA-256 of "HelloRetryRequest" (RFC 8446 §4.1.3).
        const RETRY: [u8; 8] = [0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11];
        let mut reader = ByteCursor::new(message);
        if i64::from(reader.u8()?) != SERVER_HELLO {
            return None;
        }
        reader.take(3 + 2)?;
        let retry = reader.take(32)?.starts_with(&RETRY);
        reader.block8()?;
        let cipher_suite = reader.u16()?;
        reader.u8()?;
        let mut hello = Self { cipher_suite, retry, ..Self::default() };
        let mut extensions = ByteCursor::new(reader.block16().unwrap_or_default());
        while !extensions.is_empty() {
            let kind = extensions.u16()?;
            let mut content = ByteCursor::new(extensions.block16()?);
            match kind {
                PRE_SHARED_KEY => hello.resumed = true,
                KEY_SHARE => hello.group = content.u16(),
                _ => {}
            }
        }
        Some(hello)
    }
}

/// Decodes base64 (RFC 4648 §4); `None` if it is invalid.
pub(super) fn base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count) = (0u32, 0);
    for character in text.trim_end_matches('=').bytes() {
        let six = match character {
            b'A'..=b'Z' => character - b'A',
            b'a'..=b'z' => character - b'a' + 26,
            b'0'..=b'9' => character - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(six);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(bits >> count & 0xff).ok()?);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_read() {
        assert_eq!(base64("").as_deref(), Some(&b""[..]));
        assert_eq!(base64("Zg==").as_deref(), Some(&b"f"[..]));
        assert_eq!(base64("Zm9vYmFy").as_deref(), Some(&b"foobar"[..]));
        assert_eq!(base64("Zm9v!").as_deref(), None);
    }

    /// A ServerHello of nginx: X25519, no session.
    #[test]
    fn a_server_hello_is_read() {
        let message = base64(
            "AgAAdgMDV5O8PIA9tJE5aa8hXlSsBZ0ogi306ihxy6Ufo32hWnwgJ2wt0XXvQOM7gOUwPGZHZA4bV7fo7wI8Dt0gkSK29iETAQA\
             ALgArAAIDBAAzACQAHQAgCjrwagjHsRoD5E3QKRvnMAG45jfzwh6XU2IB9QeOCks=",
        );
        let hello = ServerHello::read(&message.unwrap()).unwrap();
        let expected =
            ServerHello { cipher_suite: 0x1301, group: Some(29), resumed: false, retry: false };
        assert_eq!(hello, expected);
    }
}
