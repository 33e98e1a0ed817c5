//! What of a ClientHello rustls keeps to itself: whether it offers TLS 1.3.
//!
//! Cipher suites do not tell: clients that want TLS 1.2 alone may still name those of 1.3.

const HANDSHAKE_RECORD: u8 = 22;
const RECORD_HEADER: usize = 5;
/// RFC 8446 §4.2.1.
const SUPPORTED_VERSIONS: u16 = 43;
const TLS13: [u8; 2] = [0x03, 0x04];

/// Whether the ClientHello at the beginning of `bytes` offers TLS 1.3. rustls has found it to be
/// whole and well-formed.
pub(super) fn offers_tls13(bytes: &[u8]) -> bool {
    supported_versions(&handshake_bytes(bytes))
        .is_some_and(|versions| versions.chunks(2).any(|version| version == TLS13))
}

/// The content of the handshake records at the beginning.
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

/// The versions of the extension `supported_versions`, two bytes each.
fn supported_versions(hello: &[u8]) -> Option<Vec<u8>> {
    // Type and length of the message, legacy version, random.
    let mut rest = Reader(hello.get(4 + 2 + 32..)?);
    let _session_id = rest.prefixed(1)?;
    let _cipher_suites = rest.prefixed(2)?;
    let _compression = rest.prefixed(1)?;
    let mut extensions = Reader(rest.prefixed(2)?);
    loop {
        let kind = extensions.number(2)?;
        let content = extensions.prefixed(2)?;
        if kind == usize::from(SUPPORTED_VERSIONS) {
            return Reader(content).prefixed(1).map(<[u8]>::to_vec);
        }
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn number(&mut self, bytes: usize) -> Option<usize> {
        let (number, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(number.iter().fold(0, |number, byte| number << 8 | usize::from(*byte)))
    }

    /// A vector whose length stands before it, in so many bytes.
    fn prefixed(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let length = self.number(bytes)?;
        let (content, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(content)
    }
}
