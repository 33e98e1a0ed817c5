//! The two hosts of a QUIC connection: quinn's endpoint and connection, and the data they exchange.

use std::collections::VecDeque;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use quinn_proto::{
    Connection, ConnectionError, ConnectionHandle, DatagramEvent, Dir, Endpoint, Event, Incoming,
    StreamEvent, StreamId,
};

use super::record::Record;
use super::{
    CLIENT, CLIENT_COLD, CLIENT_COLD_DATAGRAM, CLIENT_DATAGRAM, CLIENT_REST, CLIENT_WAKE, Configs,
    Lane, SERVER, TIMER_TICK, since,
};
use crate::tls::{HOST, REST};
use crate::{PredictError, Reuse, Session, Setup, Way, http};
use firstbyte_core::simulation::tcp::{Nanos, nanos};
use firstbyte_core::timeline::Direction;

/// The control stream's type and SETTINGS (RFC 9114 §6.2.1, §7.2.4), and the types of the two QPACK streams.
const CONTROL_STREAMS: [&[u8]; 3] = [&[0, 4, 6, 1, 0, 7, 0, 6, 0], &[2], &[3]];

/// A server's SETTINGS do not wait for the client: they are sent this long after its hello, on their own.
const CONTROLS_AFTER: Nanos = 140_000;

/// Bytes still to be written on a stream before it ends.
struct Outgoing {
    stream: StreamId,
    bytes: Bytes,
}

/// Writes as much as the stream accepts. Returns whether more is left.
fn write_on(connection: &mut Connection, outgoing: &mut Outgoing) -> bool {
    let mut stream = connection.send_stream(outgoing.stream);
    while !outgoing.bytes.is_empty() {
        let Ok(written) = stream.write(&outgoing.bytes) else { return true };
        outgoing.bytes = outgoing.bytes.slice(written..);
    }
    // A stream that the peer has stopped does not need to be finished.
    let _ = stream.finish();
    false
}

fn open_control_streams(connection: &mut Connection) {
    for bytes in CONTROL_STREAMS {
        if let Some(stream) = connection.streams().open(Dir::Uni) {
            // A few bytes fit any flow control window.
            let _ = connection.send_stream(stream).write(bytes);
        }
    }
}

/// Number of bytes that can be read on a stream now, and whether it ends with them.
fn read_from(connection: &mut Connection, stream: StreamId) -> (u64, bool) {
    let (mut bytes, mut ended) = (0, false);
    let mut receiving = connection.recv_stream(stream);
    let Ok(mut chunks) = receiving.read(true) else { return (0, false) };
    loop {
        match chunks.next(usize::MAX) {
            Ok(Some(chunk)) => bytes += chunk.bytes.len() as u64,
            Ok(None) => {
                ended = true;
                break;
            }
            Err(_) => break,
        }
    }
    // Any frames it wants to send leave with the next transmission anyway.
    let _ = chunks.finalize();
    (bytes, ended)
}

fn exchange_events(endpoint: &mut Endpoint, handle: ConnectionHandle, connection: &mut Connection) {
    while let Some(event) = connection.poll_endpoint_events() {
        if let Some(event) = endpoint.handle_event(handle, event) {
            connection.handle_event(event);
        }
    }
}

pub(super) struct Client<'a> {
    setup: &'a Setup,
    way: &'a Way,
    endpoint: Endpoint,
    handle: ConnectionHandle,
    connection: Connection,
    pub(super) busy_until: Nanos,
    /// Number of datagrams processed since it last slept.
    awake: u32,
    connected: bool,
    asked: u32,
    ask_again_at: Option<Nanos>,
    /// Requests that are not yet completely written.
    outgoing: Vec<Outgoing>,
    /// Streams of the exchange, or of several simultaneous requests.
    streams: Vec<StreamId>,
    lost: Option<ConnectionError>,
    pub(super) record: Record,
}

impl<'a> Client<'a> {
    pub(super) fn new(
        setup: &'a Setup,
        way: &'a Way,
        configs: &Configs,
        base: Instant,
    ) -> Result<Self, PredictError> {
        let mut endpoint = Endpoint::new(configs.endpoint.clone(), None, true, None);
        let (handle, connection) = endpoint
            .connect(base, configs.client.clone(), SERVER, HOST)
            .map_err(|error| PredictError::Quic { detail: error.to_string() })?;
        let mut client = Self {
            setup,
            way,
            endpoint,
            handle,
            connection,
            busy_until: 0,
            awake: 0,
            connected: false,
            asked: 0,
            ask_again_at: None,
            outgoing: Vec::new(),
            streams: Vec::new(),
            lost: None,
            record: Record::default(),
        };
        if way.session == Session::ZeroRtt {
            if !client.connection.has_0rtt() {
                return Err(PredictError::Stalled { what: "no session that allows early data" });
            }
            client.ask(0);
        }
        Ok(client)
    }

    pub(super) fn done_at(&self) -> Option<Nanos> {
        self.record.end().filter(|_| self.ask_again_at.is_none())
    }

    /// When it processes a datagram that arrives at `arrives`.
    pub(super) fn sees(&self, arrives: Nanos) -> Nanos {
        let sleeps = arrives > self.busy_until.saturating_add(CLIENT_REST);
        if sleeps { arrives.saturating_add(CLIENT_WAKE) } else { arrives.max(self.busy_until) }
    }

    /// Processes a datagram now. Returns when it is done with it.
    pub(super) fn look(&mut self, now: Nanos) -> Nanos {
        let slept = now > self.busy_until.saturating_add(CLIENT_REST);
        self.awake = if slept { 0 } else { self.awake.saturating_add(1) };
        now + if self.awake < CLIENT_COLD { CLIENT_COLD_DATAGRAM } else { CLIENT_DATAGRAM }
    }

    /// The reason why the connection is lost, if it is.
    pub(super) fn lost(&self) -> Option<&ConnectionError> {
        self.lost.as_ref()
    }

    pub(super) fn next(&mut self, base: Instant) -> Nanos {
        let timer = self.connection.poll_timeout().map_or(Nanos::MAX, |at| since(base, at));
        let again = self.ask_again_at.unwrap_or(Nanos::MAX);
        // Finished work may have produced something to send.
        let work =
            if self.record.idle_since(self.busy_until) { Nanos::MAX } else { self.busy_until };
        timer.min(again).min(work).max(self.busy_until)
    }

    fn ask(&mut self, now: Nanos) {
        if self.asked == 0 {
            open_control_streams(&mut self.connection);
        }
        self.asked += 1;
        let exchange = &self.setup.exchange;
        let request = http::packed(exchange.request_head_bytes) + 3 + exchange.upload_bytes;
        let count = self.way.several.map_or(1, |several| several.count);
        self.streams.clear();
        self.record.begin_requests(now, self.asked > 1, request, count);
        for _ in 0..count {
            let Some(stream) = self.connection.streams().open(Dir::Bi) else { return };
            self.streams.push(stream);
            let mut outgoing = Outgoing { stream, bytes: zeros(request) };
            if write_on(&mut self.connection, &mut outgoing) {
                self.outgoing.push(outgoing);
            }
        }
    }

    pub(super) fn receive(&mut self, at: Instant, now: Nanos, datagram: BytesMut) {
        self.record.datagram(Direction::Received, now, &datagram);
        let mut answer = Vec::new();
        let event = self.endpoint.handle(at, SERVER, None, None, datagram, &mut answer);
        if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
            self.connection.handle_event(event);
        }
        self.take_events(now);
    }

    /// Handles expired timers and sends whatever is ready.
    pub(super) fn act(&mut self, at: Instant, now: Nanos, up: &mut Lane) {
        if now < self.busy_until {
            return;
        }
        self.connection.handle_timeout(at);
        if self.ask_again_at.is_some_and(|due| due <= now) {
            self.ask_again_at = None;
            self.ask(now);
        }
        let connection = &mut self.connection;
        self.outgoing.retain_mut(|outgoing| write_on(connection, outgoing));
        self.take_events(now);
        let mut buffer = Vec::new();
        loop {
            buffer.clear();
            let streams = self.connection.stats().frame_tx.stream;
            let Some(transmit) = self.connection.poll_transmit(at, 1, &mut buffer) else { break };
            let carries_streams = self.connection.stats().frame_tx.stream > streams;
            let datagram = &buffer[..transmit.size];
            self.record.datagram(Direction::Sent, now, datagram);
            self.record.sent(now, self.connected, carries_streams);
            up.send(now, datagram);
        }
        self.record.acted(now);
    }

    fn take_events(&mut self, now: Nanos) {
        exchange_events(&mut self.endpoint, self.handle, &mut self.connection);
        while let Some(event) = self.connection.poll() {
            match event {
                Event::Connected => self.note_connected(now),
                Event::ConnectionLost { reason } => {
                    self.lost.get_or_insert(reason);
                }
                Event::Stream(StreamEvent::Readable { id }) => self.read(now, id),
                _ => {}
            }
        }
        let stats = self.connection.stats();
        self.record.note(now, &stats, self.connection.min_rtt());
    }

    fn note_connected(&mut self, now: Nanos) {
        self.connected = true;
        let resumed = self.way.session != Session::Full;
        let client = &self.setup.client;
        let finish = client.finish_time.full_or_resumed(resumed);
        // If the request was already sent, the client needs no wake-up to send one.
        let work = if self.asked == 0 { finish + client.wake_time } else { finish / 2 };
        self.busy_until = now + nanos(work);
        self.record.connected(&self.connection, resumed);
        if self.asked == 0 {
            self.ask(now);
        }
    }

    fn read(&mut self, now: Nanos, stream: StreamId) {
        let Some(place) = self.streams.iter().position(|own| *own == stream) else { return };
        let (bytes, ended) = read_from(&mut self.connection, stream);
        self.record.response(now, place, bytes, ended);
        if ended && self.way.reuse == Reuse::Reused && self.asked == 1 {
            self.ask_again_at = Some(now + nanos(REST));
        }
    }
}

pub(super) struct Server<'a> {
    setup: &'a Setup,
    endpoint: Endpoint,
    config: std::sync::Arc<quinn_proto::ServerConfig>,
    resumes: bool,
    /// Offset of its clock within a millisecond, at the start.
    clock: Nanos,
    incoming: Option<Incoming>,
    pub(super) busy_until: Nanos,
    /// When it last ran out of work.
    asleep_since: Nanos,
    connection: Option<(ConnectionHandle, Connection)>,
    /// When to open its streams that carry no response.
    controls_due: Option<Nanos>,
    connected: bool,
    /// Complete requests, and when their answers are due.
    answers: VecDeque<(Nanos, StreamId)>,
    /// Answers that are not yet completely written.
    outgoing: Vec<Outgoing>,
    streams: Vec<StreamId>,
}

impl<'a> Server<'a> {
    pub(super) fn new(setup: &'a Setup, way: &Way, configs: &Configs, clock: Nanos) -> Self {
        let endpoint =
            Endpoint::new(configs.endpoint.clone(), Some(configs.server.clone()), true, None);
        Self {
            setup,
            endpoint,
            config: configs.server.clone(),
            resumes: way.session != Session::Full,
            clock,
            incoming: None,
            busy_until: 0,
            asleep_since: 0,
            connection: None,
            controls_due: None,
            connected: false,
            answers: VecDeque::new(),
            outgoing: Vec::new(),
            streams: Vec::new(),
        }
    }

    pub(super) fn next(&mut self, base: Instant) -> Nanos {
        if self.incoming.is_some() {
            return self.busy_until;
        }
        let timer = self.connection.as_mut().and_then(|(_, connection)| connection.poll_timeout());
        let timer = timer.map_or(Nanos::MAX, |at| {
            let due = (since(base, at) + self.clock).next_multiple_of(TIMER_TICK) - self.clock;
            if due <= self.asleep_since {
                return self.asleep_since;
            }
            due + (self.asleep_since + self.clock) % TIMER_TICK
        });
        let answer = self.answers.front().map_or(Nanos::MAX, |(at, _)| *at);
        timer.min(answer).min(self.controls_due.unwrap_or(Nanos::MAX))
    }

    pub(super) fn receive(&mut self, at: Instant, now: Nanos, datagram: BytesMut, down: &mut Lane) {
        let mut answer = Vec::new();
        match self.endpoint.handle(at, CLIENT, None, None, datagram, &mut answer) {
            Some(DatagramEvent::NewConnection(incoming)) => {
                if self.setup.server.retry && incoming.may_retry() {
                    let mut retry = Vec::new();
                    // Cannot fail: `may_retry` was just checked.
                    if let Ok(transmit) = self.endpoint.retry(incoming, &mut retry) {
                        down.send(now, &retry[..transmit.size]);
                    }
                    return;
                }
                let server = &self.setup.server;
                self.busy_until =
                    now + nanos(server.hello_time.full_or_resumed(self.resumes) + server.wake_time);
                self.incoming = Some(incoming);
            }
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some((_, connection)) = &mut self.connection {
                    connection.handle_event(event);
                }
            }
            Some(DatagramEvent::Response(transmit)) => down.send(now, &answer[..transmit.size]),
            None => {}
        }
    }

    pub(super) fn act(&mut self, at: Instant, now: Nanos, down: &mut Lane) {
        if now < self.busy_until {
            return;
        }
        if let Some(incoming) = self.incoming.take() {
            let mut refusal = Vec::new();
            let config = Some(self.config.clone());
            match self.endpoint.accept(incoming, at, &mut refusal, config) {
                Ok(accepted) => {
                    self.connection = Some(accepted);
                    self.controls_due = Some(now + CONTROLS_AFTER);
                }
                Err(error) => {
                    if let Some(transmit) = error.response {
                        down.send(now, &refusal[..transmit.size]);
                    }
                }
            }
        }
        let Some((handle, mut connection)) = self.connection.take() else { return };
        connection.handle_timeout(at);
        exchange_events(&mut self.endpoint, handle, &mut connection);
        self.take_events(now, &mut connection);
        self.speak(now, &mut connection);
        let mut buffer = Vec::new();
        loop {
            buffer.clear();
            let Some(transmit) = connection.poll_transmit(at, 1, &mut buffer) else { break };
            down.send(now, &buffer[..transmit.size]);
        }
        exchange_events(&mut self.endpoint, handle, &mut connection);
        self.connection = Some((handle, connection));
        self.asleep_since = now;
    }

    fn take_events(&mut self, now: Nanos, connection: &mut Connection) {
        while let Some(event) = connection.poll() {
            self.connected |= matches!(event, Event::Connected);
        }
        while let Some(stream) = connection.streams().accept(Dir::Bi) {
            self.streams.push(stream);
        }
        while let Some(stream) = connection.streams().accept(Dir::Uni) {
            let _ = read_from(connection, stream);
        }
        let server = &self.setup.server;
        let think = nanos(server.think_time + server.wake_time);
        self.streams.retain(|stream| {
            let (_, whole) = read_from(connection, *stream);
            if whole {
                self.answers.push_back((now + think, *stream));
            }
            !whole
        });
    }

    fn speak(&mut self, now: Nanos, connection: &mut Connection) {
        if self.controls_due.is_some_and(|due| due <= now) {
            self.controls_due = None;
            open_control_streams(connection);
        }
        while let Some((due, stream)) = self.answers.front().copied()
            && due <= now
        {
            self.answers.pop_front();
            let exchange = &self.setup.exchange;
            // The HEADERS and DATA frames each have a type and a length.
            let bytes =
                http::packed(exchange.response_head_bytes) + 3 + 5 + exchange.response_bytes;
            self.outgoing.push(Outgoing { stream, bytes: zeros(bytes) });
        }
        self.outgoing.retain_mut(|outgoing| write_on(connection, outgoing));
    }
}

fn zeros(bytes: u64) -> Bytes {
    Bytes::from(vec![0; usize::try_from(bytes).unwrap_or(0)])
}
