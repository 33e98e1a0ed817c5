//! The byte stream HTTP is spoken over: TCP, or TLS over TCP, watched from both sides.
//!
//! What is written is held back until it is released with [`Stream::release`]: the client's
//! Finished, the HTTP/2 preface, SETTINGS and the request's HEADERS leave together, in one send.
//! Sent apart, the small first one would wait for a delayed acknowledgement somewhere.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BufMut, BytesMut};
use firstbyte_core::timeline::{
    Cause, Direction, EarlyData, Mark, PhaseName, SessionMechanism, TlsFacts,
};
use firstbyte_core::wire::client_hello::ClientHello;
use firstbyte_core::wire::tls::{ContentType, Event, RecordScanner};
use rustls::client::ClientConnection;
use rustls::{HandshakeKind, ProtocolVersion};

use super::connect::describe;
use super::observation::{Shared, When};
use super::tls::Session;
use super::watch::HttpWatch;
use crate::net::{Arrival, Connected, Recorder, SendId, TcpStream};

/// Of a TLS record (RFC 8446 §5.1).
const RECORD_HEADER: usize = 5;
/// Read at most this much at once, when there is nothing left to time.
const BULK: usize = 64 * 1024;
/// So much of a response is read a segment at a time: the first rounds of a congestion window show what held it.
const TIMED: usize = 128 * 1024;
/// What a small exchange needs; what fills it grows it, up to `BULK`.
const FIRST_BUFFER: usize = 8 * 1024;
/// The record, whole (RFC 8446 §D.4).
const CHANGE_CIPHER_SPEC: &[u8] = &[20, 3, 3, 0, 1, 1];
/// Hold back at most this much.
const HELD_BACK: usize = 256 * 1024;

pub(super) struct Stream {
    tcp: TcpStream,
    tls: Option<Box<TlsLayer>>,
    seen: Shared,
    /// Until released, nothing leaves.
    held: bool,
    /// Ready to be sent.
    outgoing: BytesMut,
    /// What is in `outgoing`, by name.
    outgoing_names: Vec<String>,
    buffer: Vec<u8>,
    /// The last read filled `buffer`.
    grow: bool,
    /// The part of `buffer` that was received and that TLS does not have yet.
    undigested: Range<usize>,
    /// One segment: reads that are timed take no more, so that each has a stamp of its own.
    segment_bytes: usize,
    /// Read of the segment that the last read ended in, if segments are full ones: the next read ends with it.
    in_segment: usize,
    /// Received since the response began, as it came over TCP.
    response_bytes: usize,
    ended: bool,
    /// It ended without close_notify.
    ended_abruptly: bool,
    watch: HttpWatch,
    handshake_complete_marked: bool,
    request_start_marked: bool,
    request_end_marked: bool,
    /// How many bytes of `outgoing` are before the request's first, once that is written.
    request_at: Option<usize>,
    /// The send that took the last bytes of the request so far.
    request_sent: Option<SendId>,
    /// What went wrong on this stream, if anything did.
    pub fault: Option<Cause>,
}

/// As many records can hold what a response begins with: a frame's header of nine bytes.
const RECORDS: usize = 16;

struct TlsLayer {
    session: Session,
    sent: RecordScanner,
    received: RecordScanner,
    tickets: u32,
    /// Plaintext decrypted so far, bytes.
    decrypted: u64,
    /// Where the last records with plaintext stood, until the response has begun.
    records: VecDeque<PlainRecord>,
    /// What was offered, as it was written.
    hello: Option<ClientHello>,
    early: Option<Early>,
}

/// A request that is sent before the handshake is complete.
#[derive(Default)]
struct Early {
    /// What was sent early: to be sent again if the server does not take it.
    sent: Vec<u8>,
    /// What the server's limit left no room for.
    rest: Vec<u8>,
    /// What it is, by name.
    names: Vec<String>,
    accepted: Option<bool>,
}

/// A record that carried plaintext.
struct PlainRecord {
    /// Offset of its first byte on the TCP stream.
    start: u64,
    /// Offset of its plaintext among all plaintext received.
    plaintext: u64,
}

impl TlsLayer {
    /// Takes note of plaintext that came out of the record received last.
    fn note_decrypted(&mut self, unread_before: usize, unread: usize) {
        let new = unread.saturating_sub(unread_before) as u64;
        if new > 0 {
            let start = self.received.record_start();
            if self.records.len() == RECORDS {
                self.records.pop_front();
            }
            self.records.push_back(PlainRecord { start, plaintext: self.decrypted });
            self.decrypted += new;
        }
    }

    /// Where on the TCP stream the plaintext at `offset` came from. The first of a record came with
    /// the record's own first byte.
    fn stream_offset(&self, offset: u64) -> Option<u64> {
        let record = self.records.iter().rev().find(|r| r.plaintext <= offset)?;
        let within = offset - record.plaintext;
        let header = if within == 0 { 0 } else { RECORD_HEADER as u64 };
        Some(record.start + header + within)
    }
}

impl TlsLayer {
    /// Takes plaintext: as early data as long as the handshake goes on and the server's limit allows.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
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

    fn took_early_data(&self) -> bool {
        self.early.as_ref().is_some_and(|early| early.accepted == Some(true))
    }
}

impl Stream {
    pub(super) fn new(connected: Connected, seen: &Shared) -> Self {
        Self {
            segment_bytes: connected.segment_bytes.unwrap_or(1_200).clamp(512, BULK),
            tcp: connected.stream,
            tls: None,
            seen: Shared::clone(seen),
            held: false,
            outgoing: BytesMut::new(),
            outgoing_names: Vec::new(),
            buffer: vec![0; FIRST_BUFFER],
            grow: false,
            undigested: 0..0,
            in_segment: 0,
            response_bytes: 0,
            ended: false,
            ended_abruptly: false,
            watch: HttpWatch::new(false, 0),
            handshake_complete_marked: false,
            request_start_marked: false,
            request_end_marked: false,
            request_at: None,
            request_sent: None,
            fault: None,
        }
    }

    fn begin_tls(&mut self, session: Session, early: Option<Early>) {
        self.tls = Some(Box::new(TlsLayer {
            session,
            sent: RecordScanner::default(),
            received: RecordScanner::default(),
            tickets: 0,
            decrypted: 0,
            records: VecDeque::new(),
            hello: None,
            early,
        }));
    }

    /// Begins the TLS handshake with the request to come as early data: both leave together, and
    /// the handshake goes on while the response is read.
    pub(super) fn begin_early(&mut self, mut session: Session) -> io::Result<()> {
        session.connection.set_buffer_limit(None);
        self.begin_tls(session, Some(Early::default()));
        self.held = true;
        self.encrypt()
    }

    /// Does the TLS handshake. Its last flight is held back, to leave with the request.
    pub(super) async fn handshake(&mut self, session: Session) -> Result<(), Cause> {
        self.begin_tls(session, None);
        let result = std::future::poll_fn(|cx| self.poll_handshake(cx)).await;
        let facts = self.tls_facts();
        self.seen.borrow_mut().connection.facts.tls = facts;
        result.map_err(|error| self.fault.take().unwrap_or_else(|| io_cause(&error, "handshake")))
    }

    fn poll_handshake(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.is_handshaking() {
            self.encrypt()?;
            // A ChangeCipherSpec alone, as in TLS 1.3 when the server's flight is not whole yet, has
            // time until what it goes before.
            if self.outgoing[..] != *CHANGE_CIPHER_SPEC {
                ready!(self.poll_send_all(cx))?;
            }
            ready!(self.poll_fill(cx))?;
            if self.ended && self.is_handshaking() {
                self.fault.get_or_insert(Cause::ClosedInHandshake);
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
        }
        self.held = true;
        let Some(tls) = &self.tls else { return Poll::Ready(Ok(())) };
        tls.session.remember_protocol();
        if !tls.session.connection.wants_write() {
            // The server had the last word: a full TLS 1.2 handshake ends with its Finished.
            let recorder = self.tcp.recorder();
            let end = recorder.borrow().received_bytes() - self.undigested.len() as u64;
            self.tcp.part_merged(end);
            if let Some(arrival) = recorder.borrow().arrival_of(end.saturating_sub(1)) {
                self.seen.borrow_mut().mark(Mark::HandshakeComplete, When::Arrival(arrival));
                self.handshake_complete_marked = true;
            }
        }
        Poll::Ready(Ok(()))
    }

    fn is_handshaking(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.session.connection.is_handshaking())
    }

    pub(super) fn alpn_is_http2(&self) -> bool {
        self.tls.as_ref().and_then(|tls| tls.session.connection.alpn_protocol()) == Some(b"h2")
    }

    /// From here on HTTP is spoken, and watched: a request with a body of `body_bytes`.
    pub(super) fn speak_http(&mut self, http2: bool, body_bytes: u64) {
        self.held = true;
        self.watch = HttpWatch::new(http2, body_bytes);
        self.response_bytes = 0;
    }

    /// Another exchange on the open connection, under another observation.
    pub(super) fn speak_again(&mut self, seen: &Shared, body_bytes: u64) {
        self.held = true;
        self.watch.next_exchange(body_bytes);
        self.seen = Shared::clone(seen);
        let recorder = self.tcp.recorder();
        recorder.borrow_mut().restart(seen.borrow().timebase);
        seen.borrow_mut().record_with(recorder);
        (self.request_start_marked, self.request_end_marked) = (false, false);
        (self.request_at, self.request_sent, self.fault) = (None, None, None);
    }

    /// Lets everything written so far leave, and all that comes.
    pub(super) fn release(&mut self) {
        self.held = false;
    }

    pub(super) const fn watch(&self) -> &HttpWatch {
        &self.watch
    }

    /// Whether the server ended it without saying so (RFC 8446 §6.1).
    pub(super) const fn ended_without_close_notify(&self) -> bool {
        self.ended_abruptly
    }

    pub(super) fn tls_facts(&self) -> Option<TlsFacts> {
        let tls = self.tls.as_ref()?;
        let before = self.tcp.recorder().borrow().sent_before_first_arrival();
        let hello = tls.hello.unwrap_or_default();
        Some(TlsFacts {
            session_offered: offered(&hello, &tls.session),
            early_data: tls.early.as_ref().map(|early| EarlyData {
                bytes_before_server_hello: before.saturating_sub(hello.record_bytes as u64),
                accepted: early.accepted,
            }),
            ..tls.session.facts()
        })
    }

    /// Receives until the server has left a session for another connection.
    pub(super) fn poll_session(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut discarded = [0; 4 * 1024];
        loop {
            if self.tls.as_ref().is_none_or(|tls| tls.session.left_a_session()) {
                return Poll::Ready(Ok(()));
            }
            if ready!(self.poll_read(cx, &mut discarded))? == 0 {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
        }
    }

    /// Takes plaintext to be sent.
    pub(super) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.outgoing.len() >= HELD_BACK {
            // There is enough to leave together: the first byte of a large upload does not wait
            // until the last one is encrypted.
            self.held = false;
            ready!(self.poll_send_all(cx))?;
        }
        if self.request_at.is_none() {
            self.request_at = Some(self.outgoing.len());
        }
        let taken = match &mut self.tls {
            Some(tls) => tls.write(bytes)?,
            None => {
                let taken = bytes.len().min(HELD_BACK);
                self.outgoing.extend_from_slice(&bytes[..taken]);
                taken
            }
        };
        let names = self.watch.sent(&bytes[..taken]);
        if let Some(early) = self.tls.as_mut().and_then(|tls| tls.early.as_mut())
            && early.accepted.is_none()
        {
            early.names.extend(names.iter().cloned());
        }
        self.outgoing_names.extend(names);
        self.encrypt()?;
        Poll::Ready(Ok(taken))
    }

    /// Moves what TLS has ready into `outgoing`.
    fn encrypt(&mut self) -> io::Result<()> {
        if let Some(tls) = &mut self.tls {
            while tls.session.connection.wants_write() {
                tls.session.connection.write_tls(&mut (&mut self.outgoing).writer())?;
            }
            if tls.hello.is_none() {
                tls.hello = ClientHello::at_start_of(&self.outgoing);
            }
        }
        Ok(())
    }

    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.held { Poll::Ready(Ok(())) } else { self.poll_send_all(cx) }
    }

    fn poll_send_all(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.encrypt()?;
        while !self.outgoing.is_empty() {
            let limit = self.send_limit().min(self.outgoing.len());
            let sent = ready!(self.tcp.poll_send(cx, &self.outgoing[..limit]));
            let (bytes, id) = sent.map_err(|e| self.note_io(e, "send"))?;
            self.note_sent(bytes, id);
            self.outgoing.advance(bytes);
        }
        Poll::Ready(Ok(()))
    }

    /// A send is stamped when its last byte leaves. The one in which the request begins is a segment
    /// at most: of a larger one, the last byte may have to wait for acknowledgements.
    fn send_limit(&self) -> usize {
        let begins = self.request_at.is_some() && !self.request_start_marked;
        if begins { self.segment_bytes } else { usize::MAX }
    }

    /// Names what has just left, and sets the marks that are its departure.
    fn note_sent(&mut self, bytes: usize, id: SendId) {
        let recorder = self.tcp.recorder();
        let mut recorder = recorder.borrow_mut();
        let mut seen = self.seen.borrow_mut();
        if let Some(tls) = &mut self.tls {
            let handshaking = tls.session.connection.is_handshaking();
            // What comes before application data once the handshake is complete.
            let mut last_flight: VecDeque<&str> = VecDeque::new();
            if !self.handshake_complete_marked && !handshaking {
                last_flight.extend(tls.took_early_data().then_some("(EndOfEarlyData)"));
                last_flight.push_back("{Finished}");
            }
            let _ = tls.sent.feed(&self.outgoing[..bytes], |event| match event {
                Event::Handshake { name, .. } => recorder.name_message(Direction::Sent, name),
                Event::Record { content_type, .. } => match content_type {
                    ContentType::ChangeCipherSpec => {
                        recorder.name_message(Direction::Sent, "ChangeCipherSpec");
                    }
                    ContentType::Handshake => recorder.name_message(Direction::Sent, "{Finished}"),
                    ContentType::Alert => recorder.name_message(Direction::Sent, "Alert"),
                    ContentType::ApplicationData => {
                        if let Some(name) = last_flight.pop_front() {
                            recorder.name_message(Direction::Sent, name);
                        }
                    }
                },
            });
            if !self.handshake_complete_marked && !handshaking {
                seen.mark(Mark::HandshakeComplete, When::Departure(id));
                self.handshake_complete_marked = true;
            }
        }
        for name in self.outgoing_names.drain(..) {
            recorder.name_message(Direction::Sent, name);
        }
        let begun = match &mut self.request_at {
            Some(at) if *at >= bytes => {
                *at -= bytes;
                false
            }
            at => at.is_some(),
        };
        if begun && !self.request_end_marked {
            if !std::mem::replace(&mut self.request_start_marked, true) {
                seen.mark(Mark::RequestStart, When::Departure(id));
            }
            self.request_sent = Some(id);
            if self.watch.request_complete && bytes == self.outgoing.len() {
                seen.mark(Mark::RequestEnd, When::Departure(id));
                self.request_end_marked = true;
                seen.phase = PhaseName::Wait;
            }
        }
    }

    /// Gives plaintext; 0 bytes is the end.
    pub(super) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            if let Some(tls) = &mut self.tls {
                match io::Read::read(&mut tls.session.connection.reader(), into) {
                    Ok(bytes) => {
                        self.note_plaintext(&into[..bytes]);
                        return Poll::Ready(Ok(bytes));
                    }
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock && !self.ended => {}
                    // Closed without close_notify: HTTP knows whether the response was complete.
                    Err(_) => {
                        self.ended_abruptly = true;
                        return Poll::Ready(Ok(0));
                    }
                }
                ready!(self.poll_fill(cx))?;
            } else {
                let limit = self.read_limit();
                let received = ready!(self.tcp.poll_receive(cx, into, limit));
                let bytes = received.map_err(|e| self.note_io(e, "receive"))?;
                self.note_read(bytes, limit);
                self.note_plaintext(&into[..bytes]);
                return Poll::Ready(Ok(bytes));
            }
        }
    }

    /// A read that takes bytes from several segments has the stamp of the last of them. What is timed
    /// is therefore read a segment at a time, and with TLS not beyond the record: a record begins and
    /// ends with a stamp of its own, however small it is and however late the process.
    fn read_limit(&self) -> usize {
        match &self.tls {
            _ if self.response_bytes >= TIMED => BULK,
            Some(tls) => tls.received.sure_of_record().min(self.segment_bytes - self.in_segment),
            None => self.segment_bytes - self.in_segment,
        }
    }

    /// Receives ciphertext and lets TLS have it, as far as the next plaintext: what is in it has to
    /// be read before TLS takes more. And no further than the end of the handshake.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.undigested.is_empty() {
            if std::mem::take(&mut self.grow) {
                self.buffer.resize(self.buffer.len() * 2, 0);
            }
            let limit = self.read_limit();
            let received = ready!(self.tcp.poll_receive(cx, &mut self.buffer, limit));
            let received = received.map_err(|e| self.note_io(e, "receive"))?;
            self.undigested = 0..received;
            self.note_read(received, limit);
            self.grow = received == self.buffer.len() && received < BULK;
        }
        let Some(tls) = &mut self.tls else { return Poll::Ready(Ok(())) };
        if self.undigested.is_empty() {
            self.ended = true;
            tls.session.connection.read_tls(&mut io::empty())?;
            if tls.early.is_some() && self.is_handshaking() {
                self.fault.get_or_insert(Cause::ClosedInHandshake);
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
            return Poll::Ready(Ok(()));
        }
        let undecided = tls.early.as_ref().is_some_and(|early| early.accepted.is_none());
        let decrypted = tls.decrypted;
        let handshaking = tls.session.connection.is_handshaking();
        while !self.undigested.is_empty()
            && tls.decrypted == decrypted
            && tls.session.connection.is_handshaking() == handshaking
        {
            let bytes = &self.buffer[self.undigested.clone()];
            match process_record(tls, bytes, &self.tcp.recorder()) {
                Ok(taken) => self.undigested.start += taken,
                Err(cause) => {
                    self.fault.get_or_insert(cause);
                    // The alert that tells the server why; the error itself is what counts.
                    let _ = self.poll_send_all(cx);
                    return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
                }
            }
        }
        if undecided && !self.is_handshaking() {
            self.settle_early_data()?;
            // What does not leave now does so with the next flush.
            if let Poll::Ready(Err(error)) = self.poll_send_all(cx) {
                return Poll::Ready(Err(error));
            }
        }
        Poll::Ready(Ok(()))
    }

    /// The handshake is complete: what the server did not take of the request is sent again, or for
    /// the first time.
    fn settle_early_data(&mut self) -> io::Result<()> {
        let Some(tls) = &mut self.tls else { return Ok(()) };
        let spoken = tls.session.spoken_before.take().and_then(|spoken| spoken.alpn);
        tls.session.remember_protocol();
        let connection = &mut tls.session.connection;
        let Some(early) = &mut tls.early else { return Ok(()) };
        let accepted = connection.is_early_data_accepted();
        early.accepted = Some(accepted);
        if accepted {
            io::Write::write_all(&mut connection.writer(), &early.rest)?;
        } else {
            if connection.alpn_protocol().map(<[u8]>::to_vec) != spoken {
                self.fault.get_or_insert(Cause::AlpnMismatch {
                    offered: tls.session.offered.alpn.clone(),
                });
                return Err(io::ErrorKind::InvalidData.into());
            }
            let mut again = std::mem::take(&mut early.sent);
            again.append(&mut early.rest);
            self.outgoing_names.append(&mut early.names);
            self.encrypt()?;
            self.request_at = Some(self.outgoing.len());
            (self.request_start_marked, self.request_end_marked) = (false, false);
            self.seen.borrow_mut().phase = PhaseName::Send;
            if let Some(tls) = &mut self.tls {
                io::Write::write_all(&mut tls.session.connection.writer(), &again)?;
            }
        }
        Ok(())
    }

    /// A read of less or more than its limit ended with a segment: it took all there was, or the rest of one.
    fn note_read(&mut self, bytes: usize, limit: usize) {
        let ended = bytes != limit;
        self.in_segment = if ended { 0 } else { (self.in_segment + bytes) % self.segment_bytes };
        if self.watch.response_started {
            self.response_bytes += bytes;
        }
    }

    fn note_plaintext(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let begun = self.watch.response_started;
        let names = self.watch.received(bytes);
        let recorder = self.tcp.recorder();
        let mut recorder = recorder.borrow_mut();
        for name in names {
            recorder.name_message(Direction::Received, name);
        }
        if !begun && self.watch.response_started {
            self.seen.borrow_mut().phase = PhaseName::Receive;
            // An answer that comes early ends the request where it stands.
            if let Some(id) = self.request_sent.filter(|_| !self.request_end_marked) {
                self.seen.borrow_mut().mark(Mark::RequestEnd, When::Departure(id));
                self.request_end_marked = true;
            }
            let offset = self.watch.response_offset;
            let offset = match &mut self.tls {
                Some(tls) => tls.stream_offset(offset),
                None => Some(offset),
            };
            if let Some(arrival) = offset.and_then(|offset| recorder.arrival_of(offset)) {
                self.seen.borrow_mut().mark(Mark::ResponseStart, When::Arrival(arrival));
            }
        }
        if let Some(tls) = self.tls.as_mut().filter(|_| self.watch.response_started) {
            tls.records.clear();
        }
    }

    /// Takes over what the kernel knows by now.
    pub(super) fn note_kernel(&self) {
        self.tcp.note_kernel();
    }

    /// When the last bytes arrived.
    pub(super) fn last_arrival(&self) -> Option<Arrival> {
        self.tcp.recorder().borrow().last_arrival()
    }

    fn note_io(&mut self, error: io::Error, operation: &'static str) -> io::Error {
        let cause =
            match error.kind() {
                io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
                    if self.is_handshaking() { Cause::ResetInHandshake } else { Cause::Reset }
                }
                _ => io_cause(&error, operation),
            };
        self.fault.get_or_insert(cause);
        error
    }

    /// Says goodbye (close_notify, RFC 8446 §6.1) as far as that needs no waiting.
    pub(super) fn close(&mut self, cx: &mut Context<'_>) {
        if let Some(tls) = &mut self.tls {
            tls.session.connection.send_close_notify();
            self.outgoing_names.push("close_notify".into());
            let _ = self.poll_send_all(cx);
        }
    }
}

impl Drop for Stream {
    /// A handshake that is given up leaves what it has settled so far.
    fn drop(&mut self) {
        if self.is_handshaking() {
            let facts = self.tls_facts();
            self.seen.borrow_mut().connection.facts.tls = facts;
        }
    }
}

/// Lets TLS have `bytes` up to the end of one record; gives how many that were.
///
/// Record by record, because what comes out of each says what it was.
fn process_record(
    tls: &mut TlsLayer,
    bytes: &[u8],
    recorder: &RefCell<Recorder>,
) -> Result<usize, Cause> {
    let mut recorder = recorder.borrow_mut();
    let handshaking = tls.session.connection.is_handshaking();
    let taken = tls.received.feed_record(bytes, |event| {
        if let Some(name) = received_name(&event, handshaking) {
            recorder.name_message(Direction::Received, name);
        }
    });
    let taken = taken.map_err(|not_tls| Cause::NotTls {
        looks_like: looks_like(bytes).filter(|_| not_tls.offset < 5),
    })?;
    let connection = &mut tls.session.connection;
    let unread = connection.process_new_packets().map_or(0, |s| s.plaintext_bytes_to_read());
    let mut record = &bytes[..taken];
    while !record.is_empty() {
        connection.read_tls(&mut record).map_err(|e| io_cause(&e, "read TLS records"))?;
    }
    let state = connection.process_new_packets();
    let state = state.map_err(|error| tls.session.cause(&error))?;
    tls.note_decrypted(unread, state.plaintext_bytes_to_read());
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
fn offered(hello: &ClientHello, session: &Session) -> Option<SessionMechanism> {
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

fn io_cause(error: &io::Error, operation: &'static str) -> Cause {
    Cause::Io { operation, detail: describe(error) }
}

/// The name of what arrived, where the record layer can tell.
fn received_name(event: &Event, handshaking: bool) -> Option<&'static str> {
    match event {
        Event::Handshake { name, .. } => Some(name),
        Event::Record { content_type, .. } => match content_type {
            ContentType::ChangeCipherSpec => Some("ChangeCipherSpec"),
            ContentType::Handshake => Some("{Finished}"),
            ContentType::Alert if handshaking => Some("Alert"),
            ContentType::Alert | ContentType::ApplicationData => None,
        },
    }
}
