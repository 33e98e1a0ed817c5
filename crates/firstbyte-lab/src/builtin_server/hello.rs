//! Whether a ClientHello offers TLS 1.3, which rustls does not expose.
//!
//! Cipher suites do not tell: clients that only want TLS 1.2 may still name those of 1.3.

use firstbyte_core::wire::cursor::ByteCursor;

const HANDSHAKE_RECORD: u8 = 22;
const RECORD_HEADER: usize = 5;
/// RFC 8446 §4.2.1.
const SUPPORTED_VERSIONS: u16 = 43;
const TLS13: [u8; 2] = [0x03, 0x04];

/// Whether the ClientHello at the start of `bytes` offers TLS 1.3. rustls has already checked that it is
/// complete and well-formed.
pub(super) fn offers_tls13(bytes: &[u8]) -> bool {
    supported_versions(&handshake_bytes(bytes))
        .is_some_and(|versions| versions.chunks(2).any(|version| version == TLS13))
}

/// Payload of the handshake records at the start of `records`.
fn handshake_bytes(mut records: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    while let [HANDSHAKE_RECORD, _, _, high, low, ..] = records {
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        let end = (RECORD_HEADER + length).min(records.len());
        content.extend_from_slice(&records[RECORD_HEADER..end]);
        records = &records[end..];
    }
    content
}

/// Content of the extension `supported_versions`, two bytes per version.
fn supported_versions(hello: &[u8]) -> Option<Vec<u8>> {
    // Skips message type and length, legacy version and random.
    let mut rest = ByteCursor::new(hello.get(4 + 2 + 32..)?);
    let _session_id = rest.block8()?;
    let _cipher_suites = rest.block16()?;
    let _compression = rest.block8()?;
    let mut extensions = ByteCursor::new(rest.block16()?);
    loop {
        let kind = extensions.u16()?;
        let content = extensions.block16()?;
        if kind == SUPPORTED_VERSIONS {
            return ByteCursor::new(content).block8().map(<[u8]>::to_vec);
        }
    }
}
