//! The byte stream under HTTP: TCP, or TLS over TCP, observed on both sides.
//!
//! Written bytes are held back until [`Stream::release`]: the client's Finished, the HTTP/2 preface, SETTINGS and the
//! request's HEADERS then leave together, in one send. If sent separately, the small first part could delay the rest
//! until a delayed acknowledgement.
//!
//! This module writes; `reading` reads, `records` handles TLS records, and `outer` carries everything through a proxy.

mod outer;
mod reading;
mod records;
mod several;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BufMut, BytesMut};
use firstbyte_core::timeline::{Cause, Direction, EarlyData, Mark, PhaseName, TlsFacts};
use firstbyte_core::wire::client_hello::ClientHello;
use firstbyte_core::wire::tls::{ContentType, Event};

use self::outer::{OuterTls, RECORD_OVERHEAD};
use self::reading::BULK;
use self::records::{Early, TlsLayer, offered};
use self::several::Several;
pub(super) use self::several::SharedTimes;
use super::connect::describe;
use super::observation::{Shared, When};
use super::tls::Session;
use super::watch::HttpWatch;
use crate::net::{Arrival, Connected, SendId, TcpStream};

/// Buffer size for a small exchange; a read that fills the buffer grows it, up to `BULK`.
const FIRST_BUFFER: usize = 8 * 1024;
/// The complete record (RFC 8446 §D.4).
const CHANGE_CIPHER_SPEC: &[u8] = &[20, 3, 3, 0, 1, 1];
/// Maximum number of bytes held back.
const HELD_BACK: usize = 256 * 1024;

thread_local! {
    /// The buffer of a dropped stream, for reuse without zeroing it again.
    static SPARE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

pub(super) struct Stream {
    tcp: TcpStream,
    tls: Option<Box<TlsLayer>>,
    /// TLS to a proxy that carries this stream.
    outer: Option<Box<OuterTls>>,
    seen: Shared,
    /// Nothing is sent until the stream is released.
    held: bool,
    /// Bytes ready to be sent.
    outgoing: BytesMut,
    /// Names of the messages in `outgoing`.
    outgoing_names: Vec<String>,
    buffer: Vec<u8>,
    /// The bytes last received, as HTTP reads them.
    plaintext: Vec<u8>,
    /// Whether the last read filled `buffer`.
    grow: bool,
    /// The received part of `buffer` that TLS has not processed yet.
    undigested: Range<usize>,
    /// Payload size of a segment. Timed reads take no more than this, so that each has its own stamp.
    segment_bytes: usize,
    /// How much of the current segment was read, assuming full segments; the next read ends with it.
    in_segment: usize,
    /// Bytes received over TCP since the response began.
    response_bytes: usize,
    ended: bool,
    /// Whether the stream ended without `close_notify`.
    ended_abruptly: bool,
    watch: HttpWatch,
    /// The mark for the end of the handshake; the proxy's handshake has its own.
    handshake_mark: Mark,
    handshake_complete_marked: bool,
    /// Marks to set when the next send departs.
    next_departure: Vec<Mark>,
    /// Bytes that the proxy itself sent before the target's.
    proxy_bytes: u64,
    tunnel_end: Option<Arrival>,
    /// Bytes sent and received before the tunnel was open.
    before_tunnel: (u64, u64),
    request_start_marked: bool,
    request_end_marked: bool,
    interim_marked: bool,
    /// Number of bytes in `outgoing` before the request's first byte, once that is written.
    request_at: Option<usize>,
    /// The latest send with bytes of the request.
    request_sent: Option<SendId>,
    /// Whether the results of the handshake are in the observation, or are about to be.
    facts_noted: Cell<bool>,
    /// HTTP/2 streams, if several are recorded separately.
    several: Option<Box<Several>>,
    /// The error of this stream, if there was one.
    pub fault: Option<Cause>,
}

impl Stream {
    pub(super) fn new(connected: Connected, seen: &Shared) -> Self {
        let mut buffer = SPARE.take();
        buffer.resize(FIRST_BUFFER, 0);
        Self {
            segment_bytes: connected.segment_bytes.unwrap_or(1_200).clamp(512, BULK),
            tcp: connected.stream,
            tls: None,
            outer: None,
            seen: Shared::clone(seen),
            held: false,
            outgoing: BytesMut::new(),
            outgoing_names: Vec::new(),
            buffer,
            plaintext: Vec::new(),
            grow: false,
            undigested: 0..0,
            in_segment: 0,
            response_bytes: 0,
            ended: false,
            ended_abruptly: false,
            watch: HttpWatch::new(false, 0),
            handshake_mark: Mark::HandshakeComplete,
            handshake_complete_marked: false,
            next_departure: Vec::new(),
            proxy_bytes: 0,
            tunnel_end: None,
            before_tunnel: (0, 0),
            request_start_marked: false,
            request_end_marked: false,
            interim_marked: false,
            request_at: None,
            request_sent: None,
            facts_noted: Cell::new(false),
            several: None,
            fault: None,
        }
    }

    /// Writes a line of the PROXY protocol (version 1) before anything else, with both ends of the connection.
    pub(super) fn announce_source(&mut self) {
        let seen = self.seen.borrow();
        let (local, remote) = (seen.connection.facts.local, seen.connection.facts.remote);
        if let Some((local, remote)) = local.zip(remote) {
            let family = if remote.is_ipv4() { "TCP4" } else { "TCP6" };
            let (from, to) = (local.ip(), remote.ip());
            let line = format!("PROXY {family} {from} {to} {} {}\r\n", local.port(), remote.port());
            self.outgoing.extend_from_slice(line.as_bytes());
            self.outgoing_names.push("PROXY".into());
        }
    }

    fn begin_tls(&mut self, session: Box<Session>, early: Option<Early>) {
        self.tls = Some(Box::new(TlsLayer::new(session, early)));
    }

    /// Begins the TLS handshake with the request as early data: both leave together, and the handshake continues while
    /// the response is read.
    pub(super) fn begin_early(&mut self, mut session: Box<Session>) -> io::Result<()> {
        session.connection.set_buffer_limit(None);
        self.begin_tls(session, Some(Early::default()));
        self.held = true;
        self.encrypt()
    }

    /// Performs the TLS handshake. Its last flight is held back, to leave with the request.
    pub(super) async fn handshake(&mut self, session: Box<Session>) -> Result<(), Cause> {
        self.begin_tls(session, None);
        let result = std::future::poll_fn(|cx| self.poll_handshake(cx)).await;
        result.map_err(|error| self.fault.take().unwrap_or_else(|| io_cause(&error, "handshake")))
    }

    fn poll_handshake(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.is_handshaking() {
            self.encrypt()?;
            // In TLS 1.3, a ChangeCipherSpec may be ready alone while the server's flight is incomplete. It can wait
            // for the message that it precedes.
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
            // The server sends the last message: a full TLS 1.2 handshake ends with its Finished.
            let arrival = if self.is_inside_tls() {
                self.last_arrival()
            } else {
                let recorder = self.tcp.recorder();
                let end = recorder.borrow().received_bytes() - self.undigested.len() as u64;
                self.tcp.part_merged(end);
                recorder.borrow().arrival_of(end.saturating_sub(1))
            };
            if let Some(arrival) = arrival {
                self.seen.borrow_mut().mark(self.handshake_mark, When::Arrival(arrival));
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

    /// Starts the observation of HTTP on this stream, for a request with a body of `body_bytes` bytes.
    pub(super) fn speak_http(&mut self, http2: bool, body_bytes: u64) {
        self.held = true;
        self.watch = HttpWatch::new(http2, body_bytes);
        self.response_bytes = 0;
    }

    /// Starts another exchange on the open connection, with its own observation.
    pub(super) fn speak_again(&mut self, seen: &Shared, body_bytes: u64) {
        self.held = true;
        self.watch.next_exchange(body_bytes);
        self.seen = Shared::clone(seen);
        let recorder = self.tcp.recorder();
        recorder.borrow_mut().restart(seen.borrow().timebase);
        seen.borrow_mut().record_with(recorder);
        (self.request_start_marked, self.request_end_marked) = (false, false);
        self.interim_marked = false;
        (self.request_at, self.request_sent, self.fault) = (None, None, None);
    }

    /// Stops holding bytes back: everything written so far and later may leave.
    pub(super) fn release(&mut self) {
        self.held = false;
    }

    /// Whether the first HTTP/1 request is still being written.
    pub(super) const fn holds_first_request(&self) -> bool {
        self.held && self.watch.is_http1() && self.watch.received_bytes() == 0
    }

    pub(super) const fn watch(&self) -> &HttpWatch {
        &self.watch
    }

    /// Bytes of the request's body that the kernel has accepted; bytes waiting in `outgoing` do not count.
    pub(super) fn upload_sent(&self) -> u64 {
        self.watch.body_written.saturating_sub(self.outgoing.len() as u64)
    }

    /// Whether the server ended the stream without `close_notify` (RFC 8446 §6.1).
    pub(super) const fn ended_without_close_notify(&self) -> bool {
        self.ended_abruptly
    }

    /// The results of the handshake known by now.
    pub(super) fn tls_facts(&self) -> Option<TlsFacts> {
        let is_proxys = self.handshake_mark == Mark::ProxyHandshakeComplete;
        let tls = self.tls.as_ref().filter(|_| !is_proxys)?;
        self.facts_noted.set(true);
        if tls.early.is_some() {
            self.tcp.collect_sent_stamps();
        }
        let (sent, received) = self.before_tunnel;
        let before = || self.tcp.recorder().borrow().sent_before_arrival(sent, received);
        let hello = tls.hello.unwrap_or_default();
        Some(TlsFacts {
            session_offered: offered(&hello, &tls.session),
            early_data: tls.early.as_ref().map(|early| EarlyData {
                bytes_before_server_hello: Some(before().saturating_sub(hello.record_bytes as u64)),
                accepted: early.accepted,
            }),
            ..tls.session.facts()
        })
    }

    /// Accepts plaintext to send.
    pub(super) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.outgoing.len() >= HELD_BACK {
            // Enough bytes have accumulated. The first byte of a large upload should not wait until the last one is
            // encrypted.
            self.held = false;
            ready!(self.poll_send_all(cx))?;
        }
        if self.request_at.is_none() {
            self.request_at = Some(self.outgoing.len());
        }
        let before = self.outgoing.len();
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
        self.note_asked(before);
        Poll::Ready(Ok(taken))
    }

    /// Moves encrypted bytes from TLS into `outgoing`.
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
            let sent = ready!(self.poll_send_ready(cx, limit));
            let (bytes, id) = sent.map_err(|e| self.note_io(e, "send"))?;
            self.note_sent(bytes, id);
            self.outgoing.advance(bytes);
        }
        Poll::Ready(Ok(()))
    }

    /// A send is stamped when its last byte leaves. The send with the beginning of the request is limited to one
    /// segment: the last byte of a larger one might have to wait for acknowledgements.
    fn send_limit(&self) -> usize {
        let begins = self.request_at.is_some() && !self.request_start_marked;
        let overhead = if self.is_inside_tls() { RECORD_OVERHEAD } else { 0 };
        if begins { self.segment_bytes - overhead } else { usize::MAX }
    }

    /// Names the messages that have just left, and sets the marks of their departure.
    fn note_sent(&mut self, bytes: usize, id: SendId) {
        let recorder = self.tcp.recorder();
        let mut recorder = recorder.borrow_mut();
        let mut seen = self.seen.borrow_mut();
        for mark in self.next_departure.drain(..) {
            seen.mark(mark, When::Departure(id));
        }
        if let Some(tls) = &mut self.tls {
            let handshaking = tls.session.connection.is_handshaking();
            // Messages that precede application data once the handshake is complete.
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
                seen.mark(self.handshake_mark, When::Departure(id));
                self.handshake_complete_marked = true;
            }
        }
        for name in self.outgoing_names.drain(..) {
            recorder.name_message(Direction::Sent, name);
        }
        if let Some(several) = &mut self.several {
            several.sent(bytes, id);
        }
        let begun = match &mut self.request_at {
            Some(at) if *at >= bytes => {
                *at -= bytes;
                false
            }
            Some(at) => {
                *at = 0;
                true
            }
            None => false,
        };
        if begun && !self.request_end_marked {
            if !std::mem::replace(&mut self.request_start_marked, true) {
                seen.mark(Mark::RequestStart, When::Departure(id));
            }
            self.request_sent = Some(id);
            let rest = self.tls.as_ref().is_some_and(|tls| tls.holds_a_rest());
            if self.watch.request_complete && bytes == self.outgoing.len() && !rest {
                seen.mark(Mark::RequestEnd, When::Departure(id));
                self.request_end_marked = true;
                seen.phase = PhaseName::Wait;
            }
        }
    }

    /// Takes everything that the kernel knows by now.
    pub(super) fn note_kernel(&self) {
        self.tcp.note_kernel();
    }

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

    /// Sends `close_notify` (RFC 8446 §6.1) as far as possible without waiting, together with the FIN in one segment.
    pub(super) fn close(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.session.connection.send_close_notify();
            let before = self.outgoing.len();
            if self.encrypt().is_err() {
                return;
            }
            // After a fatal alert, nothing more is sent.
            if self.outgoing.len() > before {
                self.outgoing_names.push("close_notify".into());
            }
        }
        if self.tls.is_some() || self.is_inside_tls() {
            self.send_last();
        }
    }
}

impl Drop for Stream {
    /// A connection given up before its exchange keeps the results of its handshake so far. Every connection gives its
    /// buffer back.
    fn drop(&mut self) {
        // A thread that is ending keeps no buffer.
        let buffer = std::mem::take(&mut self.buffer);
        let _ = SPARE.try_with(|spare| spare.replace(buffer));
        if self.facts_noted.get() {
            return;
        }
        if let Some(facts) = self.tls_facts() {
            self.seen.borrow_mut().connection.facts.tls = Some(facts);
        }
    }
}

fn io_cause(error: &io::Error, operation: &'static str) -> Cause {
    Cause::Io { operation, detail: describe(error) }
}
