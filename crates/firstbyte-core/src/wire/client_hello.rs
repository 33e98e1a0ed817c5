//! Resumption offers of a ClientHello.
//!
//! Input: the bytes of a TLS stream from its beginning. Output: the offers that decide whether a handshake can be
//! abbreviated. Hostile bytes give `None`, never a panic.

use super::cursor::ByteCursor;

/// The offers of a ClientHello (RFC 8446 §4.1.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientHello {
    /// Length of `legacy_session_id`, bytes. A TLS 1.3 client fills it with random bytes (RFC 8446 §D.4): on its own
    /// it offers nothing.
    pub session_id_bytes: u8,
    /// Length of the ticket in the `session_ticket` extension (RFC 5077 §3.2).
    pub ticket_bytes: u16,
    /// Whether the `pre_shared_key` extension is present (RFC 8446 §4.2.11).
    pub pre_shared_key: bool,
    /// Whether the `early_data` extension is present (RFC 8446 §4.2.10).
    pub early_data: bool,
    /// Length of the records that contain the message, including their headers, bytes.
    pub record_bytes: usize,
}

const SESSION_TICKET: u16 = 35;
const PRE_SHARED_KEY: u16 = 41;
const EARLY_DATA: u16 = 42;

impl ClientHello {
    /// Parses the ClientHello at the start of `stream`, if it is complete.
    pub fn at_start_of(stream: &[u8]) -> Option<Self> {
        let (message, record_bytes) = first_message(stream)?;
        let mut reader = ByteCursor::new(&message);
        // legacy_version and random.
        reader.take(2 + 32)?;
        let session_id = reader.block8()?;
        let _cipher_suites = reader.block16()?;
        let _compression = reader.block8()?;
        let mut hello = Self {
            session_id_bytes: u8::try_from(session_id.len()).ok()?,
            record_bytes,
            ..Self::default()
        };
        let mut extensions = ByteCursor::new(reader.block16().unwrap_or_default());
        while !extensions.is_empty() {
            let kind = extensions.u16()?;
            let body = extensions.block16()?;
            match kind {
                SESSION_TICKET => hello.ticket_bytes = u16::try_from(body.len()).ok()?,
                PRE_SHARED_KEY => hello.pre_shared_key = true,
                EARLY_DATA => hello.early_data = true,
                _ => {}
            }
        }
        Some(hello)
    }
}

/// The body of the ClientHello at the start of `stream`, and the length of its records.
fn first_message(stream: &[u8]) -> Option<(Vec<u8>, usize)> {
    const HANDSHAKE: u8 = 22;
    const CLIENT_HELLO: u8 = 1;
    const HEADER: usize = 4;
    let mut reader = ByteCursor::new(stream);
    let mut message = Vec::new();
    loop {
        if reader.u8()? != HANDSHAKE {
            return None;
        }
        reader.take(2)?;
        message.extend_from_slice(reader.block16()?);
        let length = match message.get(..HEADER) {
            Some([CLIENT_HELLO, a, b, c]) => {
                usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c)
            }
            Some(_) => return None,
            None => continue,
        };
        if message.len() >= HEADER + length {
            message.truncate(HEADER + length);
            message.drain(..HEADER);
            return Some((message, stream.len() - reader.rest().len()));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hello(extensions: &[(u16, usize)]) -> Vec<u8> {
        let mut body = vec![3, 3];
        body.extend([7; 32]);
        body.push(32);
        body.extend([1; 32]);
        body.extend([0, 2, 0x13, 0x01, 1, 0]);
        let mut block = Vec::new();
        for (kind, length) in extensions {
            block.extend(kind.to_be_bytes());
            block.extend((*length as u16).to_be_bytes());
            block.extend(vec![0; *length]);
        }
        body.extend((block.len() as u16).to_be_bytes());
        body.extend(block);
        let mut message = vec![1, 0];
        message.extend((body.len() as u16).to_be_bytes());
        message.extend(body);
        message
    }

    fn records(message: &[u8], size: usize) -> Vec<u8> {
        let mut stream = Vec::new();
        for piece in message.chunks(size) {
            stream.extend([22, 3, 1]);
            stream.extend((piece.len() as u16).to_be_bytes());
            stream.extend(piece);
        }
        stream
    }

    #[test]
    fn offers_are_what_the_extensions_say() {
        let message =
            hello(&[(0, 9), (SESSION_TICKET, 192), (EARLY_DATA, 0), (PRE_SHARED_KEY, 80)]);
        let mut stream = records(&message, 10_000);
        let record_bytes = stream.len();
        stream.extend([23, 3, 3, 0, 5, 1, 2, 3, 4, 5]);
        let expected = ClientHello {
            session_id_bytes: 32,
            ticket_bytes: 192,
            pre_shared_key: true,
            early_data: true,
            record_bytes,
        };
        assert_eq!(ClientHello::at_start_of(&stream), Some(expected));
        let nothing = ClientHello::at_start_of(&records(&hello(&[(0, 9)]), 10_000)).unwrap();
        assert!(!nothing.pre_shared_key && !nothing.early_data && nothing.ticket_bytes == 0);
    }

    proptest! {
        #[test]
        fn cutting_into_records_changes_nothing(size in 1usize..600) {
            let message = hello(&[(SESSION_TICKET, 192), (PRE_SHARED_KEY, 80)]);
            let stream = records(&message, size);
            let hello = ClientHello::at_start_of(&stream).unwrap();
            prop_assert_eq!(hello.record_bytes, stream.len());
            prop_assert!(hello.pre_shared_key && hello.ticket_bytes == 192);
            prop_assert_eq!(ClientHello::at_start_of(&stream[..stream.len() - 1]), None);
        }

        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut stream = vec![22, 3, 1];
            stream.extend(bytes);
            let _ = ClientHello::at_start_of(&stream);
        }
    }
}
