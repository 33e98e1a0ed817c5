//! Passes TLS records to rustls one at a time, because the output of each shows what it was.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;

use firstbyte_core::timeline::{Cause, Direction, SessionMechanism};
use firstbyte_core::wire::client_hello::ClientHello;
use firstbyte_core::wire::tls::{ContentType, Event, RecordScanner};
use rustls::client::ClientConnection;
use rustls::{HandshakeKind, ProtocolVersion};

use super::io_cause;
use crate::net::Recorder;
use crate::probe::tls::Session;

/// Length of a TLS record's header (RFC 8446 §5.1).
const RECORD_HEADER: usize = 5;
/// Number of records that can hold the beginning of a response: the nine bytes of a frame's header, or, inside TLS to a
/// proxy, a whole record of the target's in segments of 400 bytes.
const RECORDS: usize = 48;

pub(super) struct TlsLayer {
    pub(super) session: Box<Session>,
    pub(super) sent: RecordScanner,
    pub(super) received: RecordScanner,
    pub(super) tickets: u32,
    /// Bytes of plaintext decrypted so far.
    pub(super) decrypted: u64,
    /// Bytes of that plaintext that HTTP has read.
    pub(super) read: u64,
    /// Positions of the last records with plaintext, until the response has begun.
    pub(super) records: VecDeque<PlainRecord>,
    /// The ClientHello as it was sent.
    pub(super) hello: Option<ClientHello>,
    pub(super) early: Option<Early>,
    /// Whether the server asked to renegotiate in the last record.
    pub(super) renegotiates: bool,
}

/// A request that is sent before the handshake is complete.
#[derive(Default)]
pub(super) struct Early {
    /// The bytes sent early; they are sent again if the server rejects them.
    pub(super) sent: Vec<u8>,
    /// The rest, which exceeded the server's limit.
    pub(super) rest: Vec<u8>,
    /// Names of the messages sent early.
    pub(super) names: Vec<String>,
    pub(super) accepted: Option<bool>,
}

/// A record that carried plaintext.
pub(super) struct PlainRecord {
    /// Offset of its first byte on the TCP stream, and of the byte after its last.
    start: u64,
    end: u64,
    /// Offset of its plaintext among all plaintext received.
    plaintext: u64,
}

impl TlsLayer {
    pub(super) fn new(session: Box<Session>, early: Option<Early>) -> Self {
        Self {
            session,
            sent: RecordScanner::default(),
            received: RecordScanner::default(),
            tickets: 0,
            decrypted: 0,
            read: 0,
            records: VecDeque::new(),
            hello: None,
            early,
            renegotiates: false,
        }
    }

    /// Records the plaintext from the record received last; `unread` bytes of plaintext are waiting now.
    fn note_decrypted(&mut self, unread: usize) {
        let new = (self.read + unread as u64).saturating_sub(self.decrypted);
        if new > 0 {
            let (start, end) = (self.received.record_start(), self.received.offset());
            if self.records.len() == RECORDS {
                self.records.pop_front();
            }
            self.records.push_back(PlainRecord { start, end, plaintext: self.decrypted });
            self.decrypted += new;
        }
    }

    /// Two offsets on the TCP stream for the plaintext at `offset`: where it came from, and the last byte of its
    /// record, without which it cannot be read.
    ///
    /// For the first plaintext byte of a record, the former is the first byte of the record itself.
    pub(super) fn stream_offsets(&self, offset: u64) -> Option<[u64; 2]> {
        let record = self.records.iter().rev().find(|r| r.plaintext <= offset)?;
        let within = offset - record.plaintext;
        let header = if within == 0 { 0 } else { RECORD_HEADER as u64 };
        Some([record.start + header + within, record.end - 1])
    }
}

impl TlsLayer {
    /// Accepts plaintext; it is early data as long as the handshake continues and the server's limit allows.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let connection = &mut self.session.connection;
        let Some(early) = self.early.as_mut().filter(|early| early.accepted.is_none()) else {
            return io::Write::write(&mut connection.writer(), bytes);
        };
        let taken = match connection.early_data().filter(|_| early.rest.is_empty()) {
            Some(mut writer) => io::Write::write(&mut writer, bytes)?,
            None => 0,
        };
        early.sent.extend_from_slice(&bytes[..taken]);
        early.rest.extend_from_slice(&bytes[taken..]);
        Ok(bytes.len())
    }

    /// Whether part of the request exceeded the server's limit for early data.
    pub(super) fn holds_a_rest(&self) -> bool {
        self.early.as_ref().is_some_and(|early| !early.rest.is_empty())
    }

    pub(super) fn took_early_data(&self) -> bool {
        self.early.as_ref().is_some_and(|early| early.accepted == Some(true))
    }
}

/// Passes `bytes` to TLS up to the end of one record; returns how many that were.
///
/// One record at a time, because the output of each shows what it was.
pub(super) fn process_record(
    tls: &mut TlsLayer,
    bytes: &[u8],
    recorder: &RefCell<Recorder>,
) -> Result<usize, Cause> {
    let mut recorder = recorder.borrow_mut();
    let handshaking = tls.session.connection.is_handshaking();
    // In TLS 1.3, records after the handshake have another type (RFC 8446 §5.1). In earlier versions, a server sends
    // only one handshake message after it: a request to renegotiate.
    let mut asks_again = false;
    let taken = tls.received.feed_record(bytes, |event| {
        asks_again |= !handshaking && is_handshake_record(&event);
        if let Some(name) = received_name(&event, handshaking) {
            recorder.name_message(Direction::Received, name);
        }
    });
    let taken = taken.map_err(|not_tls| Cause::NotTls {
        looks_like: looks_like(bytes).filter(|_| not_tls.offset < 5),
        server: None,
    })?;
    let connection = &mut tls.session.connection;
    let mut record = &bytes[..taken];
    while !record.is_empty() {
        connection.read_tls(&mut record).map_err(|e| io_cause(&e, "read TLS records"))?;
    }
    let state = connection.process_new_packets();
    let state = state.map_err(|error| tls.session.cause(&error))?;
    tls.renegotiates = asks_again;
    tls.note_decrypted(state.plaintext_bytes_to_read());
    let connection = &tls.session.connection;
    if handshaking && !connection.is_handshaking() {
        for name in encrypted_handshake(connection) {
            recorder.name_message(Direction::Received, *name);
        }
    }
    let tickets = connection.tls13_tickets_received();
    for _ in tls.tickets..tickets {
        recorder.name_message(Direction::Received, "{NewSessionTicket}");
    }
    tls.tickets = tickets;
    Ok(taken)
}

/// The protocol whose servers begin like this.
fn looks_like(bytes: &[u8]) -> Option<&'static str> {
    let known: [(&[u8], _); 3] = [(b"HTTP/", "HTTP"), (b"SSH-", "SSH"), (b"220", "SMTP or FTP")];
    known.iter().find(|(start, _)| bytes.starts_with(start)).map(|(_, name)| *name)
}

/// The messages of a server's first flight that the record layer cannot see (RFC 8446 §2).
fn encrypted_handshake(connection: &ClientConnection) -> &'static [&'static str] {
    match (connection.protocol_version(), connection.handshake_kind()) {
        (Some(ProtocolVersion::TLSv1_3), Some(HandshakeKind::Resumed)) => {
            &["{EncryptedExtensions}", "{Finished}"]
        }
        (Some(ProtocolVersion::TLSv1_3), _) => {
            &["{EncryptedExtensions}", "{Certificate}", "{CertificateVerify}", "{Finished}"]
        }
        _ => &[],
    }
}

/// How a ClientHello offered to resume a session, if it did.
pub(super) fn offered(hello: &ClientHello, session: &Session) -> Option<SessionMechanism> {
    if hello.pre_shared_key {
        Some(SessionMechanism::Psk)
    } else if hello.ticket_bytes > 0 {
        Some(SessionMechanism::Ticket)
    } else {
        // The session ID alone may be a random one.
        let kept = hello.session_id_bytes > 0 && session.had_tls12_session;
        kept.then_some(SessionMechanism::SessionId)
    }
}

fn is_handshake_record(event: &Event) -> bool {
    matches!(event, Event::Record { content_type: ContentType::Handshake, .. })
}

/// The name of the received message, if the record layer can tell.
fn received_name(event: &Event, handshaking: bool) -> Option<&'static str> {
    match event {
        Event::Handshake { name, .. } => Some(name),
        Event::Record { content_type, .. } => match content_type {
            ContentType::ChangeCipherSpec => Some("ChangeCipherSpec"),
            ContentType::Handshake if handshaking => Some("{Finished}"),
            ContentType::Handshake => Some("{HelloRequest}"),
            ContentType::Alert if handshaking => Some("Alert"),
            ContentType::Alert | ContentType::ApplicationData => None,
        },
    }
}
