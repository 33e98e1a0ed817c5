//! Assembles handshake messages from records (RFC 8446 §4, RFC 5246 §7.4).
//!
//! In: the payloads of unencrypted handshake records. Out: the messages' types, and the bodies of those that are
//! parsed. Other messages are skipped; hellos are buffered up to a limit.

use super::certificates::Chain;
use crate::observed::CertificatesSeen;

pub(super) const CLIENT_HELLO: u8 = 1;
pub(super) const SERVER_HELLO: u8 = 2;
pub(super) const NEW_SESSION_TICKET: u8 = 4;
pub(super) const OLD_HELLO_RETRY_REQUEST: u8 = 6;
pub(super) const CERTIFICATE: u8 = 11;
pub(super) const SERVER_KEY_EXCHANGE: u8 = 12;
pub(super) const CERTIFICATE_REQUEST: u8 = 13;
pub(super) const SERVER_HELLO_DONE: u8 = 14;
pub(super) const CLIENT_KEY_EXCHANGE: u8 = 16;
// These are not message types: they stand for other records, and for inferred messages.
pub(super) const CHANGE_CIPHER_SPEC: u8 = 200;
pub(super) const ALERT: u8 = 201;
pub(super) const ENCRYPTED_FINISHED: u8 = 202;
pub(super) const ENCRYPTED_EXTENSIONS: u8 = 203;
pub(super) const EARLY_DATA: u8 = 204;
pub(super) const END_OF_EARLY_DATA: u8 = 205;
pub(super) const ENCRYPTED: u8 = 206;
pub(super) const RETRY: u8 = 207;
pub(super) const ENCRYPTED_ALERT: u8 = 208;

/// The name of a message, in braces if it is encrypted and inferred.
pub(crate) const fn name(code: u8) -> &'static str {
    match code {
        CHANGE_CIPHER_SPEC => "ChangeCipherSpec",
        ALERT => "Alert",
        ENCRYPTED_FINISHED => "{Finished}",
        ENCRYPTED_EXTENSIONS => "{EncryptedExtensions}",
        EARLY_DATA => "(early data)",
        END_OF_EARLY_DATA => "{EndOfEarlyData}",
        ENCRYPTED => "{…}",
        ENCRYPTED_ALERT => "{Alert}",
        RETRY | OLD_HELLO_RETRY_REQUEST => "HelloRetryRequest",
        17 => "NextProtocol",
        21 => "CertificateURL",
        other => firstbyte_core::wire::tls::handshake_name(other),
    }
}

/// Longer hellos are read only up to here.
const LONGEST_KEPT: usize = 16 * 1024;
/// Only the curve and a length of a ServerKeyExchange are needed.
const KEY_EXCHANGE_KEPT: usize = 8;
const HEADER: usize = 4;

/// A message that has ended.
pub(super) struct Message<'a> {
    pub(super) kind: u8,
    pub(super) body: &'a [u8],
    /// Length of the message including its header.
    pub(super) bytes: u32,
    pub(super) certificates: Option<CertificatesSeen>,
    /// Whether part of it is missing.
    pub(super) cut: bool,
}

/// Assembles the messages of one direction.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    header: [u8; HEADER],
    have: u8,
    left: u32,
    length: u32,
    body: Vec<u8>,
    chain: Option<Box<Chain>>,
    cut: bool,
    /// The message boundaries are lost until the next record.
    lost: bool,
}

impl Assembler {
    /// Takes the next bytes of handshake records.
    pub(super) fn feed(&mut self, mut bytes: &[u8], found: &mut dyn FnMut(Message<'_>)) {
        while !bytes.is_empty() && !self.lost {
            if self.left > 0 {
                let taken = bytes.len().min(self.left as usize);
                self.keep(&bytes[..taken]);
                self.left -= taken as u32;
                bytes = &bytes[taken..];
                if self.left == 0 {
                    self.end(found);
                }
                continue;
            }
            if let Some((body, rest)) = self.whole_hello(bytes) {
                found(Message {
                    kind: bytes[0],
                    body,
                    bytes: (HEADER + body.len()) as u32,
                    certificates: None,
                    cut: false,
                });
                bytes = rest;
                continue;
            }
            let have = usize::from(self.have);
            let taken = bytes.len().min(HEADER - have);
            self.header[have..have + taken].copy_from_slice(&bytes[..taken]);
            self.have += taken as u8;
            bytes = &bytes[taken..];
            if usize::from(self.have) == HEADER {
                let [_, a, b, c] = self.header;
                self.begin(u32::from_be_bytes([0, a, b, c]), found);
            }
        }
    }

    /// The body of a hello that lies completely within `bytes`, and the bytes after it. Such a hello need not be
    /// buffered.
    fn whole_hello<'a>(&self, bytes: &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
        let (&[kind, a, b, c], rest) = bytes.split_first_chunk::<HEADER>()?;
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        let hello = matches!(kind, CLIENT_HELLO | SERVER_HELLO) && length <= LONGEST_KEPT;
        let begins = self.have == 0 && !self.cut;
        if hello && begins { rest.split_at_checked(length) } else { None }
    }

    /// Notes that `bytes` of the handshake records were not captured.
    pub(super) fn missing(&mut self, bytes: u32, found: &mut dyn FnMut(Message<'_>)) {
        self.cut = true;
        self.chain = None;
        if self.left >= bytes && self.left > 0 {
            self.left -= bytes;
            if self.left == 0 {
                self.end(found);
            }
        } else {
            self.lose(found);
        }
    }

    /// Notes that the message boundaries are lost; hands out the part of the current message that was read.
    pub(super) fn lose(&mut self, found: &mut dyn FnMut(Message<'_>)) {
        if self.left > 0 {
            self.cut = true;
            self.chain = None;
            self.end(found);
        }
        self.have = 0;
        self.left = 0;
        self.lost = true;
    }

    /// Notes the start of a handshake record. After a loss it is assumed to start with a message.
    pub(super) const fn at_record(&mut self) {
        self.lost = false;
    }

    pub(super) const fn in_message(&self) -> bool {
        self.left > 0 || self.have > 0
    }

    /// Notes that a hello in SSL 2.0 format follows, from its message type on.
    pub(super) fn sslv2(&mut self, length: u32) {
        self.header = [CLIENT_HELLO, 0, 0, 0];
        (self.have, self.left, self.length) = (HEADER as u8, length, length);
    }

    /// Bytes buffered.
    pub(super) fn held(&self) -> usize {
        self.body.capacity()
    }

    /// Frees the buffer.
    pub(super) fn forget(&mut self) {
        self.body = Vec::new();
        self.cut = true;
    }

    fn begin(&mut self, length: u32, found: &mut dyn FnMut(Message<'_>)) {
        (self.left, self.length) = (length, length);
        if self.header[0] == CERTIFICATE {
            self.chain = Some(Box::default());
        }
        if length == 0 {
            self.end(found);
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        let limit = match self.header[0] {
            CLIENT_HELLO | SERVER_HELLO | OLD_HELLO_RETRY_REQUEST => LONGEST_KEPT,
            SERVER_KEY_EXCHANGE => KEY_EXCHANGE_KEPT,
            CERTIFICATE => {
                if let Some(chain) = &mut self.chain {
                    chain.feed(bytes);
                }
                return;
            }
            _ => return,
        };
        if self.cut {
            return;
        }
        let room = limit.saturating_sub(self.body.len()).min(bytes.len());
        self.body.extend_from_slice(&bytes[..room]);
    }

    fn end(&mut self, found: &mut dyn FnMut(Message<'_>)) {
        let certificates = self.chain.take().map(|chain| chain.end());
        found(Message {
            kind: self.header[0],
            body: &self.body,
            bytes: self.length.saturating_add(HEADER as u32),
            certificates,
            cut: self.cut,
        });
        self.body = Vec::new();
        self.have = 0;
        self.left = 0;
        self.cut = false;
    }
}
