//! TLS records as they are handed to rustls: one at a time, because what comes out of each says what it was.

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

/// Of a TLS record (RFC 8446 §5.1).
const RECORD_HEADER: usize = 5;
/// As many records can hold what a response begins with: a frame's header of nine bytes; inside TLS to a proxy, a whole
/// record of the target's in segments of 400 bytes.
const RECORDS: usize = 48;

pub(super) struct TlsLayer {
    pub(super) session: Box<Session>,
    pub(super) sent: RecordScanner,
    pub(super) received: RecordScanner,
    pub(super) tickets: u32,
    /// Plaintext decrypted so far, bytes.
    pub(super) decrypted: u64,
    /// Of that, what HTTP has read.
    pub(super) read: u64,
    /// Where the last records with plaintext stood, until the response has begun.
    pub(super) records: VecDeque<PlainRecord>,
    /// What was offered, as it was written.
    pub(super) hello: Option<ClientHello>,
    pub(super) early: Option<Early>,
    /// The server asked to renegotiate in the record handed over last.
    pub(super) renegotiates: bool,
}

/// A request that is sent before the handshake is complete.
#[derive(Default)]
pub(super) struct Early {
    /// What was sent early: to be sent again if the server does not take it.
    pub(super) sent: Vec<u8>,
    /// What the server's limit left no room for.
    pub(super) rest: Vec<u8>,
    /// What it is, by name.
    pub(super) names: Vec<String>,
    pub(super) accepted: Option<bool>,
}

/// A record that carried plaintext.
pub(super) struct PlainRecord {
    /// Offset of its first byte on the TCP stream, and of the one behind its last.
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

    /// Takes note of plaintext that came out of the record received last, where so much is `unread` now.
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

    /// Where on the TCP stream the plaintext at `offset` came from, the first of a record with the record's own first
    /// byte; and the last byte of its record, without which it cannot be read.
    pub(super) fn stream_offsets(&self, offset: u64) -> Option<[u64; 2]> {
        let record = self.records.iter().rev().find(|r| r.plaintext <= offset)?;
        let within = offset - record.plaintext;
        let header = if within == 0 { 0 } else { RECORD_HEADER as u64 };
        Some([record.start + header + within, record.end - 1])
    }
}

impl TlsLayer {
    /// Takes plaintext: as early data as long as the handshake goes on and the server's limit allows.
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

    /// Whether there is more of the request than the server's limit for early data left room for.
    pub(super) fn holds_a_rest(&self) -> bool {
        self.early.as_ref().is_some_and(|early| !early.rest.is_empty())
    }

    pub(super) fn took_early_data(&self) -> bool {
        self.early.as_ref().is_some_and(|early| early.accepted == Some(true))
    }
}

/// Lets TLS have `bytes` up to the end of one record; gives how many that were.
///
/// Record by record, because what comes out of each says what it was.
pub(super) fn process_record(
    tls: &mut TlsLayer,
    bytes: &[u8],
    recorder: &RefCell<Recorder>,
) -> Result<usize, Cause> {
    let mut recorder = recorder.borrow_mut();
    let handshaking = tls.session.connection.is_handshaking();
    // Since TLS 1.3 all that follows a handshake has another type (RFC 8446 §5.1); before, a server sends but one message
    // behind it.
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

/// The protocol of which this is how a server begins.
fn looks_like(bytes: &[u8]) -> Option<&'static str> {
    let known: [(&[u8], _); 3] = [(b"HTTP/", "HTTP"), (b"SSH-", "SSH"), (b"220", "SMTP or FTP")];
    known.iter().find(|(start, _)| bytes.starts_with(start)).map(|(_, name)| *name)
}

/// What a server's first flight holds besides what the record layer shows (RFC 8446 §2).
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

/// Which session a ClientHello offered to take up again.
pub(super) fn offered(hello: &ClientHello, session: &Session) -> Option<SessionMechanism> {
    if hello.pre_shared_key {
        Some(SessionMechanism::Psk)
    } else if hello.ticket_bytes > 0 {
        Some(SessionMechanism::Ticket)
    } else {
        // The identifier alone may as well be a random one.
        let kept = hello.session_id_bytes > 0 && session.had_tls12_session;
        kept.then_some(SessionMechanism::SessionId)
    }
}

fn is_handshake_record(event: &Event) -> bool {
    matches!(event, Event::Record { content_type: ContentType::Handshake, .. })
}

/// The name of what arrived, where the record layer can tell.
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
