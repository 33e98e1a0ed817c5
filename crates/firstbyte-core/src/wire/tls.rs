//! TLS records and handshake messages, as far as they are readable without keys.
//!
//! Input: the bytes of one direction of a connection, in order, in pieces of any size. Output: one event per record or
//! handshake message. Nothing is decrypted; encrypted records are only counted.

/// Whether `version` is TLS 1.3 or one of its drafts and experiments, in which an echoed session ID means nothing.
pub const fn is_tls13(version: u16) -> bool {
    matches!(version, 0x0304 | 0x7f00..=0x7fff | 0x7e00..=0x7eff | 0xfb00..=0xfbff)
}

/// Content type of a record (RFC 8446 §5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentType {
    /// 20
    ChangeCipherSpec,
    /// 21
    Alert,
    /// 22
    Handshake,
    /// 23
    ApplicationData,
}

/// An item parsed from the byte stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A plaintext handshake message.
    Handshake {
        /// Name in RFC 8446 or RFC 5246.
        name: &'static str,
        /// Length including the four-byte header.
        bytes: u32,
    },
    /// An encrypted record, or one that is not a handshake record.
    Record {
        /// Type in the header (in TLS 1.3 ApplicationData for everything encrypted).
        content_type: ContentType,
        /// Length of the payload.
        bytes: u16,
    },
}

/// The bytes are not TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotTls {
    /// Offset in the stream of the first invalid byte.
    pub offset: u64,
}

/// Reads one direction of a TLS connection.
#[derive(Clone, Debug, Default)]
pub struct RecordScanner {
    offset: u64,
    record_start: u64,
    header: [u8; 5],
    header_len: usize,
    /// Payload bytes of the current record not yet received.
    payload_left: u16,
    content_type: Option<ContentType>,
    handshake: HandshakeScanner,
    /// After ChangeCipherSpec, TLS 1.2 handshake records are encrypted.
    encrypted: bool,
    /// First bytes of a handshake record that should be encrypted.
    opening: [u8; 4],
    opening_len: usize,
}

#[derive(Clone, Debug, Default)]
struct HandshakeScanner {
    header: [u8; 4],
    header_len: usize,
    body_left: u32,
    /// Whether this is, so far, a ServerHello with the random value of a HelloRetryRequest.
    retry: bool,
}

/// Random value that makes a ServerHello a HelloRetryRequest (RFC 8446 §4.1.3), and its offset in the message's body.
const RETRY: [u8; 32] = [
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91,
    0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
];
const RETRY_AT: usize = 2;

impl RecordScanner {
    /// Feeds the next bytes; `found` is called once per message or record, at its last byte.
    ///
    /// # Errors
    /// [`NotTls`] if a record header is invalid; the scanner is unusable from then on.
    pub fn feed(&mut self, mut bytes: &[u8], mut found: impl FnMut(Event)) -> Result<(), NotTls> {
        while !bytes.is_empty() {
            let taken = self.feed_record(bytes, &mut found)?;
            bytes = &bytes[taken..];
        }
        Ok(())
    }

    /// Feeds the next bytes up to the end of the current record; returns their number.
    ///
    /// # Errors
    /// Same as [`Self::feed`].
    pub fn feed_record(
        &mut self,
        bytes: &[u8],
        mut found: impl FnMut(Event),
    ) -> Result<usize, NotTls> {
        let mut total = 0;
        while total < bytes.len() {
            let rest = &bytes[total..];
            let taken = match self.content_type {
                None => self.take_header(rest, &mut found)?,
                Some(content_type) => self.take_payload(content_type, rest, &mut found),
            };
            self.offset += taken as u64;
            total += taken;
            if self.at_record_end() {
                break;
            }
        }
        Ok(total)
    }

    /// Whether the bytes fed so far end at a record boundary.
    pub const fn at_record_end(&self) -> bool {
        self.content_type.is_none() && self.header_len == 0
    }

    /// Number of following bytes that certainly belong to one record: the rest of its header or, once that is known,
    /// of its payload.
    pub const fn sure_of_record(&self) -> usize {
        match self.content_type {
            None => self.header.len() - self.header_len,
            Some(_) => self.payload_left as usize,
        }
    }

    /// Offset in the stream of the first byte of the record fed last, even if incomplete.
    pub const fn record_start(&self) -> u64 {
        self.record_start
    }

    /// Offset in the stream after the bytes fed last.
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    fn take_header(
        &mut self,
        bytes: &[u8],
        found: &mut impl FnMut(Event),
    ) -> Result<usize, NotTls> {
        if self.header_len == 0 {
            self.record_start = self.offset;
        }
        let taken = bytes.len().min(self.header.len() - self.header_len);
        self.header[self.header_len..self.header_len + taken].copy_from_slice(&bytes[..taken]);
        self.header_len += taken;
        if self.header_len < self.header.len() {
            return Ok(taken);
        }
        let [kind, major, _minor, high, low] = self.header;
        let not_tls = NotTls { offset: self.offset };
        let content_type = match kind {
            20 => ContentType::ChangeCipherSpec,
            21 => ContentType::Alert,
            22 => ContentType::Handshake,
            23 => ContentType::ApplicationData,
            _ => return Err(not_tls),
        };
        if major != 3 {
            return Err(not_tls);
        }
        self.header_len = 0;
        self.payload_left = u16::from_be_bytes([high, low]);
        self.content_type = Some(content_type);
        if self.payload_left == 0 {
            self.end_record(content_type, found);
        }
        Ok(taken)
    }

    fn take_payload(
        &mut self,
        content_type: ContentType,
        bytes: &[u8],
        found: &mut impl FnMut(Event),
    ) -> usize {
        let taken = bytes.len().min(usize::from(self.payload_left));
        if content_type == ContentType::Handshake {
            self.take_handshake(&bytes[..taken], found);
        }
        self.payload_left -= u16::try_from(taken).unwrap_or(self.payload_left);
        if self.payload_left == 0 {
            self.end_record(content_type, found);
        }
        taken
    }

    fn take_handshake(&mut self, mut bytes: &[u8], found: &mut impl FnMut(Event)) {
        if self.encrypted {
            let taken = bytes.len().min(self.opening.len() - self.opening_len);
            self.opening[self.opening_len..self.opening_len + taken]
                .copy_from_slice(&bytes[..taken]);
            self.opening_len += taken;
            bytes = &bytes[taken..];
            if taken > 0 && self.opening_len == self.opening.len() && self.opens_hello() {
                self.encrypted = false;
                self.handshake.feed(&self.opening, found);
            }
        }
        if !self.encrypted {
            self.handshake.feed(bytes, found);
        }
    }

    /// Whether the record is a plaintext hello: between the hellos of a HelloRetryRequest, TLS 1.3 sends a
    /// ChangeCipherSpec that means nothing (RFC 8446 §D.4).
    fn opens_hello(&self) -> bool {
        let [kind, a, b, c] = self.opening;
        let record = u32::from_be_bytes([0, 0, self.header[3], self.header[4]]);
        matches!(kind, 1 | 2) && u32::from_be_bytes([0, a, b, c]) + 4 == record
    }

    fn end_record(&mut self, content_type: ContentType, found: &mut impl FnMut(Event)) {
        self.content_type = None;
        self.opening_len = 0;
        if content_type == ContentType::Handshake && !self.encrypted {
            return;
        }
        let bytes = u16::from_be_bytes([self.header[3], self.header[4]]);
        found(Event::Record { content_type, bytes });
        if content_type == ContentType::ChangeCipherSpec {
            self.encrypted = true;
        }
    }
}

impl HandshakeScanner {
    fn feed(&mut self, mut bytes: &[u8], found: &mut impl FnMut(Event)) {
        while !bytes.is_empty() {
            if self.body_left > 0 {
                let skipped = bytes.len().min(self.body_left as usize);
                self.compare_random(&bytes[..skipped]);
                self.body_left -= u32::try_from(skipped).unwrap_or(self.body_left);
                bytes = &bytes[skipped..];
                if self.body_left == 0 {
                    self.end_message(found);
                }
                continue;
            }
            let taken = bytes.len().min(self.header.len() - self.header_len);
            self.header[self.header_len..self.header_len + taken].copy_from_slice(&bytes[..taken]);
            self.header_len += taken;
            bytes = &bytes[taken..];
            if self.header_len == self.header.len() {
                let [_, a, b, c] = self.header;
                self.body_left = u32::from_be_bytes([0, a, b, c]);
                self.retry =
                    self.header[0] == 2 && self.body_left as usize >= RETRY_AT + RETRY.len();
                if self.body_left == 0 {
                    self.end_message(found);
                }
            }
        }
    }

    fn compare_random(&mut self, bytes: &[u8]) {
        let [_, a, b, c] = self.header;
        let read = (u32::from_be_bytes([0, a, b, c]) - self.body_left) as usize;
        for (byte, at) in bytes.iter().zip(read..RETRY_AT + RETRY.len()) {
            self.retry &= at < RETRY_AT || *byte == RETRY[at - RETRY_AT];
        }
    }

    fn end_message(&mut self, found: &mut impl FnMut(Event)) {
        let [kind, a, b, c] = self.header;
        self.header_len = 0;
        let bytes = u32::from_be_bytes([0, a, b, c]) + 4;
        let name = if self.retry { "HelloRetryRequest" } else { handshake_name(kind) };
        found(Event::Handshake { name, bytes });
    }
}

/// Name of a handshake message type (IANA TLS HandshakeType).
pub const fn handshake_name(kind: u8) -> &'static str {
    match kind {
        0 => "HelloRequest",
        1 => "ClientHello",
        2 => "ServerHello",
        4 => "NewSessionTicket",
        8 => "EncryptedExtensions",
        11 => "Certificate",
        12 => "ServerKeyExchange",
        13 => "CertificateRequest",
        14 => "ServerHelloDone",
        15 => "CertificateVerify",
        16 => "ClientKeyExchange",
        20 => "Finished",
        22 => "CertificateStatus",
        24 => "KeyUpdate",
        25 => "CompressedCertificate",
        _ => "unknown handshake message",
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn scan(pieces: &[&[u8]]) -> (Vec<Event>, Result<(), NotTls>) {
        let mut scanner = RecordScanner::default();
        let mut events = Vec::new();
        for piece in pieces {
            if let Err(e) = scanner.feed(piece, |event| events.push(event)) {
                return (events, Err(e));
            }
        }
        (events, Ok(()))
    }

    /// A TLS 1.2 server's last flight: NewSessionTicket, ChangeCipherSpec, encrypted Finished.
    fn last_flight() -> Vec<u8> {
        let mut bytes = vec![22, 3, 3, 0, 9, 4, 0, 0, 5, 1, 2, 3, 4, 5];
        bytes.extend([20, 3, 3, 0, 1, 1]);
        bytes.extend([22, 3, 3, 0, 40]);
        bytes.extend([20; 40]);
        bytes
    }

    #[test]
    fn names_messages_until_they_are_encrypted() {
        let (events, end) = scan(&[&last_flight()]);
        assert_eq!(end, Ok(()));
        assert_eq!(
            events,
            [
                Event::Handshake { name: "NewSessionTicket", bytes: 9 },
                Event::Record { content_type: ContentType::ChangeCipherSpec, bytes: 1 },
                Event::Record { content_type: ContentType::Handshake, bytes: 40 },
            ]
        );
    }

    #[test]
    fn several_messages_share_a_record() {
        let (events, _) = scan(&[&[22, 3, 3, 0, 9, 14, 0, 0, 0, 2, 0, 0, 1, 7]]);
        assert_eq!(
            events,
            [
                Event::Handshake { name: "ServerHelloDone", bytes: 4 },
                Event::Handshake { name: "ServerHello", bytes: 5 },
            ]
        );
    }

    /// A hello of `kind` with `random`, in a record of its own.
    fn hello(kind: u8, random: [u8; 32]) -> Vec<u8> {
        let mut bytes = vec![22, 3, 3, 0, 44, kind, 0, 0, 40, 3, 3];
        bytes.extend(random);
        bytes.extend([0; 6]);
        bytes
    }

    /// Messages from a server that requests another key share, up to its encrypted ones.
    fn with_retry() -> Vec<u8> {
        let mut bytes = hello(2, RETRY);
        bytes.extend([20, 3, 3, 0, 1, 1]);
        bytes.extend(hello(2, [7; 32]));
        bytes
    }

    fn names(events: &[Event]) -> Vec<&'static str> {
        let name = |e: &Event| match e {
            Event::Handshake { name, .. } => name,
            Event::Record { content_type: ContentType::ChangeCipherSpec, .. } => "CCS",
            Event::Record { .. } => "encrypted",
        };
        events.iter().map(name).collect()
    }

    #[test]
    fn a_retry_is_named_and_the_hello_after_it_is_in_the_clear() {
        let (events, _) = scan(&[&with_retry()]);
        assert_eq!(names(&events), ["HelloRetryRequest", "CCS", "ServerHello"]);
        let client = [hello(1, [1; 32]), vec![20, 3, 3, 0, 1, 1], hello(1, [1; 32])].concat();
        assert_eq!(names(&scan(&[&client]).0), ["ClientHello", "CCS", "ClientHello"]);
    }

    #[test]
    fn record_by_record() {
        let bytes = last_flight();
        let mut scanner = RecordScanner::default();
        let mut at = 0;
        let mut records = Vec::new();
        while at < bytes.len() {
            let taken = scanner.feed_record(&bytes[at..], |_| {}).unwrap();
            records.push((scanner.record_start(), taken));
            at += taken;
        }
        assert_eq!(records, [(0, 14), (14, 6), (20, 45)]);
    }

    #[test]
    fn what_is_surely_of_the_record_never_goes_beyond_it() {
        let bytes = last_flight();
        let mut scanner = RecordScanner::default();
        let (mut at, mut ends) = (0, Vec::new());
        while at < bytes.len() {
            let next = scanner.sure_of_record();
            assert!(next > 0);
            scanner.feed(&bytes[at..at + next], |_| {}).unwrap();
            at += next;
            if scanner.at_record_end() {
                ends.push(at);
            }
        }
        assert_eq!(ends, [14, 20, 65]);
    }

    #[test]
    fn tells_where_it_stopped_being_tls() {
        assert_eq!(scan(&[b"HTTP/1.1 400 Bad Request\r\n"]).1, Err(NotTls { offset: 0 }));
        let mut bytes = last_flight();
        let good = bytes.len() as u64;
        bytes.extend(b"garbage");
        assert_eq!(scan(&[&bytes]).1, Err(NotTls { offset: good }));
    }

    proptest! {
        #[test]
        fn cutting_the_stream_changes_nothing(cut in 0usize..65) {
            let bytes = last_flight();
            let cut = cut.min(bytes.len());
            prop_assert_eq!(scan(&[&bytes[..cut], &bytes[cut..]]), scan(&[&bytes]));
        }

        #[test]
        fn cutting_a_retry_changes_nothing(cut in 0usize..104) {
            let bytes = with_retry();
            prop_assert_eq!(scan(&[&bytes[..cut], &bytes[cut..]]), scan(&[&bytes]));
        }

        #[test]
        fn any_bytes_are_survived(pieces in proptest::collection::vec(any::<Vec<u8>>(), 0..8)) {
            let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
            let _ = scan(&pieces);
        }
    }
}
