//! One QUIC connection: the state machine, its socket, and the observation of it.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use firstbyte_core::timeline::{Cause, Direction, Mark};
use firstbyte_core::wire::quic::{ACKNOWLEDGMENT, PacketKind, only_acknowledges, packets};
use quinn_proto::{
    ClientConfig, ConnectionError, ConnectionHandle, DatagramEvent, Endpoint, EndpointConfig,
    Event, StreamEvent, StreamId, TransportConfig, VarInt,
};
use tokio::time::Sleep;

use super::ledger::Ledger;
use super::packets::PacketLog;
use super::refused;
use crate::net::{Arrival, Recorder, SendId, UdpSocket};
use crate::probe::observation::{Shared, StreamTimes, When};
use crate::probe::stream::SharedTimes;
use crate::probe::tls::{Opened, QuicTls};

/// A connection shared by its streams and the exchange.
pub(in crate::probe) type SharedConnection = Rc<RefCell<Connection>>;

/// Maximum size of a UDP datagram.
const DATAGRAM: usize = 64 * 1024;
/// The same as browsers and curl, so that no response waits for more flow-control credit.
const STREAM_WINDOW: u32 = 6 * 1024 * 1024;
const CONNECTION_WINDOW: u32 = 16 * 1024 * 1024;

/// Why a connection ended.
#[derive(Clone, Debug)]
pub(in crate::probe) enum Lost {
    /// The protocol ended it.
    Quic(ConnectionError),
    /// The socket reported an error.
    Socket { kind: io::ErrorKind, detail: String, operation: &'static str },
}

impl Lost {
    /// Whether the idle timeout that both sides agreed on expired.
    pub(in crate::probe) const fn is_idle(&self) -> bool {
        matches!(self, Self::Quic(ConnectionError::TimedOut))
    }
}

pub(in crate::probe) struct Connection {
    endpoint: Endpoint,
    handle: ConnectionHandle,
    pub(super) quic: quinn_proto::Connection,
    socket: UdpSocket,
    pub(super) seen: Shared,
    pub(super) remote: SocketAddr,
    pub(super) tls: QuicTls,
    timer: Pin<Box<Sleep>>,
    buffer: Box<[u8]>,
    outgoing: Vec<u8>,
    pub(super) lost: Option<Lost>,
    pub(super) connected: bool,
    /// Whether the first datagram after the end of the handshake has left.
    completion_marked: bool,
    confirmed: bool,
    pub(super) request: Option<Request>,
    /// The times of several streams, if they are recorded separately, and their identifiers.
    several: Option<(SharedTimes, Vec<StreamId>)>,
    /// Present if early data was offered, with the server's decision.
    pub(super) early: Option<EarlyState>,
    /// Whether the offered session allows early data; absent unless early data was wanted and there was a session.
    pub(super) early_allowed: Option<bool>,
    pub(super) wire: Wire,
    pub(super) ledger: Ledger,
    pub(super) packets: PacketLog,
    /// Whether its facts were written into the observation.
    pub(super) noted: Cell<bool>,
}

/// The exchange in progress.
#[derive(Debug)]
pub(super) struct Request {
    pub stream: StreamId,
    /// Bytes of the request that were written.
    pub written: u64,
    started: bool,
    ended: Option<SendId>,
    pub answered: bool,
}

/// State of the early data in a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EarlyState {
    pub accepted: Option<bool>,
}

/// Observations of the wire other than times.
#[derive(Clone, Debug, Default)]
pub(super) struct Wire {
    pub version: Option<u32>,
    pub sent: u32,
    pub received: u32,
    pub retry: bool,
    /// Bytes of 0-RTT packets that left before anything arrived.
    pub early_bytes: u64,
}

impl Connection {
    /// Creates a connection over `socket`; nothing has been sent yet.
    pub(super) fn new(
        seen: &Shared,
        socket: UdpSocket,
        remote: SocketAddr,
        tls: &QuicTls,
    ) -> Result<Self, Cause> {
        let mut endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), None, false, None);
        let mut config = ClientConfig::new(Arc::clone(&tls.config) as Arc<_>);
        config.transport_config(Arc::new(transport()));
        if let Some(tokens) = &tls.address_tokens {
            config.token_store(Arc::clone(tokens) as Arc<_>);
        }
        let connecting =
            endpoint.connect(firstbyte_clock::timer_now().into_std(), config, remote, &tls.host);
        let (handle, quic) =
            connecting.map_err(|error| Cause::TlsSetup { detail: error.to_string() })?;
        Ok(Self {
            endpoint,
            handle,
            quic,
            socket,
            seen: Shared::clone(seen),
            remote,
            tls: tls.clone(),
            timer: Box::pin(tokio::time::sleep(Duration::ZERO)),
            buffer: vec![0; DATAGRAM].into_boxed_slice(),
            outgoing: Vec::new(),
            lost: None,
            connected: false,
            completion_marked: false,
            confirmed: false,
            request: None,
            several: None,
            early: None,
            early_allowed: None,
            wire: Wire::default(),
            ledger: Ledger::default(),
            packets: PacketLog::default(),
            noted: Cell::new(false),
        })
    }

    pub(super) fn recorder(&self) -> Rc<RefCell<Recorder>> {
        self.socket.recorder()
    }

    pub(super) fn local(&self) -> Option<SocketAddr> {
        self.socket.local()
    }

    /// Takes everything that the kernel knows by now.
    pub(in crate::probe) fn note_kernel(&mut self) {
        self.socket.collect_sent_stamps();
    }

    /// Whether there is a session that allows early data.
    pub(super) fn can_send_early(&mut self) -> bool {
        let can = self.quic.has_0rtt();
        self.early_allowed = self.tls.had_session.then_some(can);
        if can {
            self.early = Some(EarlyState { accepted: None });
        }
        can
    }

    /// Whether the request is sent as early data and the server has not yet accepted or rejected it.
    pub(in crate::probe) fn is_early(&self) -> bool {
        self.early.is_some_and(|early| early.accepted.is_none())
    }

    /// Whether the server rejected the early data.
    pub(in crate::probe) fn early_rejected(&self) -> bool {
        self.early.is_some_and(|early| early.accepted == Some(false))
    }

    /// Sends the first flight as far as possible without a request.
    pub(super) fn send_first(&mut self) -> Result<Option<SendId>, Cause> {
        // With early data, the request must be part of the flight, so only the first datagram leaves now.
        self.transmit_one(now()).map_err(|error| refused(self.remote, &error))
    }

    /// Continues until the handshake is complete. The client's last flight is not sent yet, so that the request leaves
    /// with it.
    pub(super) fn poll_connected(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Lost>> {
        loop {
            if let Some(lost) = &self.lost {
                return Poll::Ready(Err(lost.clone()));
            }
            if self.connected {
                return Poll::Ready(Ok(()));
            }
            self.send();
            if self.lost.is_none() && !self.receive_one(cx) {
                return Poll::Pending;
            }
        }
    }

    /// Sends everything that is ready, and then processes one datagram or one timer. Returns whether there was one.
    pub(in crate::probe) fn step(&mut self, cx: &mut Context<'_>) -> bool {
        self.send();
        self.lost.is_none() && self.receive_one(cx)
    }

    /// Sends everything that is ready.
    pub(in crate::probe) fn send(&mut self) {
        while self.lost.is_none() {
            match self.transmit_one(now()) {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(error) => self.lose(&error, "send"),
            }
        }
    }

    fn lose(&mut self, error: &io::Error, operation: &'static str) {
        let detail = crate::probe::describe_io(error);
        self.lost.get_or_insert(Lost::Socket { kind: error.kind(), detail, operation });
    }

    /// Sends one datagram, if one is ready.
    fn transmit_one(&mut self, now: Instant) -> io::Result<Option<SendId>> {
        self.outgoing.clear();
        let Some(transmit) = self.quic.poll_transmit(now, 1, &mut self.outgoing) else {
            return Ok(None);
        };
        let datagram = &self.outgoing[..transmit.size];
        let passed = self.tls.passed.take();
        let Some(id) = self.socket.send(datagram)? else { return Ok(None) };
        let recorder = self.socket.recorder();
        let mut recorder = recorder.borrow_mut();
        for packet in packets(datagram) {
            recorder.name_message(Direction::Sent, packet.kind.name());
            self.wire.version = packet.version.filter(|v| *v != 0).or(self.wire.version);
            if packet.kind == PacketKind::ZeroRtt && self.wire.received == 0 {
                self.wire.early_bytes += packet.bytes as u64;
            }
        }
        let exchange = self.request.as_ref().map(|request| u64::from(request.stream));
        let place = recorder.last_place(Direction::Sent);
        if let Some(place) = place {
            self.packets.note(Direction::Sent, place, datagram, &passed);
        }
        // A retransmission does not move the end of the request.
        let of_request =
            place.is_some_and(|p| self.ledger.note(Direction::Sent, p, &passed, exchange));
        drop(recorder);
        self.note_asked(id, &passed);
        self.wire.sent += 1;
        let mut seen = self.seen.borrow_mut();
        if self.connected && !std::mem::replace(&mut self.completion_marked, self.connected) {
            seen.mark(Mark::HandshakeComplete, When::Departure(id));
        }
        if let Some(request) = self.request.as_mut().filter(|r| r.written > 0 && !r.answered)
            && of_request
        {
            if !std::mem::replace(&mut request.started, true) {
                seen.mark(Mark::RequestStart, When::Departure(id));
            }
            request.ended = Some(id);
            seen.mark(Mark::RequestEnd, When::Departure(id));
            seen.phase = firstbyte_core::timeline::PhaseName::Wait;
        }
        Ok(Some(id))
    }

    /// Processes one datagram or one expired timer. Returns whether there was one.
    fn receive_one(&mut self, cx: &mut Context<'_>) -> bool {
        match self.socket.poll_receive(cx, &mut self.buffer) {
            Poll::Ready(Ok(bytes)) => {
                self.take_in(bytes);
                return true;
            }
            Poll::Ready(Err(error)) => {
                self.lose(&error, "receive");
                return true;
            }
            Poll::Pending => {}
        }
        let Some(due) = self.quic.poll_timeout() else { return false };
        let due = tokio::time::Instant::from_std(due);
        if self.timer.deadline() != due {
            self.timer.as_mut().reset(due);
        }
        if self.timer.as_mut().poll(cx).is_pending() {
            return false;
        }
        self.quic.handle_timeout(now());
        self.note_events();
        true
    }

    fn take_in(&mut self, bytes: usize) {
        let datagram = &self.buffer[..bytes];
        self.wire.received += 1;
        let recorder = self.socket.recorder();
        if only_acknowledges(datagram) {
            recorder.borrow_mut().name_message(Direction::Received, ACKNOWLEDGMENT);
        } else {
            for packet in packets(datagram) {
                recorder.borrow_mut().name_message(Direction::Received, packet.kind.name());
            }
        }
        let retry = packets(datagram).any(|packet| packet.kind == PacketKind::Retry);
        // A client accepts only one Retry (RFC 9000 §17.2.5.2).
        let retried = retry && !std::mem::replace(&mut self.wire.retry, true);
        let data = BytesMut::from(datagram);
        let mut answer = Vec::new();
        let event = self.endpoint.handle(now(), self.remote, None, None, data, &mut answer);
        if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
            self.quic.handle_event(event);
        }
        let passed = self.tls.passed.take();
        let exchange = self.request.as_ref().map(|request| u64::from(request.stream));
        if let Some(place) = recorder.borrow().last_place(Direction::Received) {
            if retried {
                self.ledger.retried(place);
            }
            self.ledger.note(Direction::Received, place, &passed, exchange);
            self.packets.note(Direction::Received, place, &self.buffer[..bytes], &passed);
        }
        self.note_events();
        if let Some(place) = recorder.borrow().last_place(Direction::Received) {
            if self.tls.passed.knows_server() {
                self.packets.knows_server_since(place);
            }
            let window = self.quic.congestion_state().window();
            self.packets.recovered(place, self.quic.rtt(), window);
        }
    }

    fn note_events(&mut self) {
        while let Some(event) = self.quic.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.quic.handle_event(event);
            }
        }
        while let Some(event) = self.quic.poll() {
            match event {
                Event::Connected => {
                    self.connected = true;
                    if let Some(early) = &mut self.early {
                        let accepted = self.quic.accepted_0rtt();
                        early.accepted = Some(accepted);
                        if !accepted {
                            self.ledger.rejected();
                        }
                    }
                }
                Event::ConnectionLost { reason } => {
                    self.lost.get_or_insert(Lost::Quic(reason));
                }
                Event::Stream(StreamEvent::Readable { id }) => self.note_readable(id),
                _ => {}
            }
        }
        if !self.confirmed && self.quic.stats().frame_rx.handshake_done > 0 {
            self.confirmed = true;
            self.mark_arrival(Mark::HandshakeConfirmed);
        }
    }

    /// Called when bytes have arrived on a stream; on the request's stream, they are the response.
    fn note_readable(&mut self, stream: StreamId) {
        if self.several.is_some() {
            let last = self.last_arrival();
            self.with_times(stream, |times| times.response_start = times.response_start.or(last));
        }
        let Some(request) = self.request.as_mut().filter(|r| r.stream == stream) else { return };
        if !std::mem::replace(&mut request.answered, true) {
            self.mark_arrival(Mark::ResponseStart);
            self.seen.borrow_mut().phase = firstbyte_core::timeline::PhaseName::Receive;
        }
    }

    /// Records that a response's head on stream `stream` is complete. Another head follows an interim one; if it
    /// arrives in a later datagram, the response begins with that datagram.
    pub(in crate::probe) fn note_head(&mut self, stream: u64, interim: bool) {
        let Ok(stream) = VarInt::from_u64(stream).map(StreamId::from) else { return };
        let last = self.last_arrival();
        self.with_times(stream, |times| {
            times.response_start = if interim { None } else { times.response_start.or(last) };
        });
        let Some(request) = self.request.as_mut().filter(|r| r.stream == stream) else { return };
        request.answered = !interim;
        if interim && self.seen.borrow().connection.marks.at(Mark::InterimResponseStart).is_none() {
            self.mark_arrival(Mark::InterimResponseStart);
        }
    }

    fn mark_arrival(&self, mark: Mark) {
        if let Some(arrival) = self.last_arrival() {
            self.seen.borrow_mut().mark(mark, When::Arrival(arrival));
        }
    }

    pub(in crate::probe) fn last_arrival(&self) -> Option<Arrival> {
        self.socket.recorder().borrow().last_arrival()
    }

    /// From now on, records the times of streams in `times`, which has an entry for each.
    pub(in crate::probe) fn tell_streams_apart(&mut self, times: &SharedTimes) {
        self.several = Some((Rc::clone(times), Vec::new()));
    }

    fn with_times(&self, stream: StreamId, note: impl FnOnce(&mut StreamTimes)) {
        let Some((times, streams)) = &self.several else { return };
        let Some(place) = streams.iter().position(|known| *known == stream) else { return };
        if let Some(times) = times.borrow_mut().get_mut(place) {
            note(times);
        }
    }

    /// Records which requests are in a datagram that left with these packets.
    fn note_asked(&self, id: SendId, packets: &[Opened]) {
        if self.several.is_none() {
            return;
        }
        for stream in packets.iter().flat_map(|packet| &packet.pieces).filter_map(|p| p.stream) {
            let Ok(stream) = VarInt::from_u64(stream).map(StreamId::from) else { continue };
            self.with_times(stream, |times| {
                // A retransmission after the response began is not part of the request.
                if times.response_start.is_none() {
                    times.request_start.get_or_insert(id);
                    times.request_end = Some(id);
                }
            });
        }
    }

    /// Records that the response on stream `stream` is complete.
    pub(in crate::probe) fn note_answered(&self, stream: u64) {
        let (Ok(stream), last) = (VarInt::from_u64(stream), self.last_arrival()) else { return };
        self.with_times(stream.into(), |times| times.response_end = last);
    }

    /// Called when the request will be sent on `stream`.
    pub(super) fn begin_request(&mut self, stream: StreamId) {
        if let Some((_, streams)) = &mut self.several {
            streams.push(stream);
            if streams.len() > 1 {
                // The observation is of the first request.
                return;
            }
        }
        self.request =
            Some(Request { stream, written: 0, started: false, ended: None, answered: false });
    }

    /// Starts another exchange on the open connection, with its own observation.
    pub(in crate::probe) fn observe(&mut self, seen: &Shared) {
        self.note_kernel();
        self.seen = Shared::clone(seen);
        let recorder = self.socket.recorder();
        recorder.borrow_mut().restart(seen.borrow().timebase);
        seen.borrow_mut().record_with(recorder);
        self.ledger.restart();
        self.packets.restart();
        self.request = None;
        self.noted.set(false);
    }

    /// Writes the log of packets so far into the observation.
    pub(in crate::probe) fn note_packets(&self) {
        let parameters = self.tls.passed.parameters();
        let log = self.packets.log(&self.recorder().borrow(), parameters);
        if let Ok(mut seen) = self.seen.try_borrow_mut()
            && let Some(quic) = &mut seen.connection.facts.quic
        {
            quic.log = Some(Box::new(log));
        }
    }

    pub(in crate::probe) fn request_bytes(&self) -> Option<u64> {
        self.request.as_ref().map(|request| request.written)
    }

    pub(in crate::probe) fn answered(&self) -> bool {
        self.request.as_ref().is_some_and(|request| request.answered)
    }

    /// Why the connection ended, if it has.
    pub(in crate::probe) fn lost(&self) -> Option<Lost> {
        self.lost.clone()
    }

    /// Whether the server has sent a session for the next connection.
    pub(in crate::probe) fn left_a_session(&self) -> bool {
        self.tls.left_a_session()
    }

    pub(in crate::probe) fn is_alive(&self) -> bool {
        self.lost.is_none()
    }

    /// Closes the connection as far as possible without waiting (`H3_NO_ERROR`, RFC 9114 §8.1).
    pub(in crate::probe) fn close(&mut self) {
        const H3_NO_ERROR: u32 = 0x100;
        self.quic.close(now(), VarInt::from_u32(H3_NO_ERROR), Bytes::new());
        self.send();
    }
}

impl Drop for Connection {
    /// A connection that is given up keeps the facts known so far.
    fn drop(&mut self) {
        if !self.noted.get() {
            self.note_facts();
        }
        // Include the last datagrams sent.
        self.note_kernel();
        self.note_packets();
    }
}

fn now() -> Instant {
    firstbyte_clock::timer_now().into_std()
}

fn transport() -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW))
        .receive_window(VarInt::from_u32(CONNECTION_WINDOW))
        // Keep everything except the exchange off the wire, and give every datagram its own stamp.
        .mtu_discovery_config(None)
        .enable_segmentation_offload(false)
        // The user determines how long to wait; the server may choose a shorter time (RFC 9000 §10.1).
        .max_idle_timeout(None);
    transport
}
