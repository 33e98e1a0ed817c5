//! The dialogue of a connection over TCP, made by rustls on both sides.
//!
//! Input: the setup and the way. Output: a [`Dialogue`]. Records are passed one by one, so that the record that
//! triggered each answer is known. As in the probe, the client's output is held back until its request can leave
//! with it.

mod config;
mod conversation;

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;

use rustls::client::ClientConnection;
use rustls::pki_types::ServerName;
use rustls::server::ServerConnection;
use rustls::{HandshakeKind, ProtocolVersion};

pub(super) use config::Machines;
pub(super) use conversation::{Conversation, FirstExchange};
use conversation::{at_once, in_sequence, plain};

use super::http::{self, Written};
use super::{Http, PredictError, Session, Setup, Tls, Way};
use firstbyte_core::simulation::dialogue::Dialogue;
use firstbyte_core::timeline::{
    Certificate, EarlyData, Handshake, HttpFacts, SessionMechanism, TlsFacts,
};
use firstbyte_core::wire::client_hello::ClientHello;
use firstbyte_core::wire::http2::{FrameScanner, FrameType};
use firstbyte_core::wire::tls::{ContentType, Event, RecordScanner};

/// How long a connection rests between two exchanges: longer than any timer of the first.
pub(super) const REST: Duration = Duration::from_secs(5);
const CHANGE_CIPHER_SPEC: &[u8] = &[20, 3, 3, 0, 1, 1];
/// The server's name, in a reserved domain (RFC 6761).
pub(super) const HOST: &str = "server.test";

/// The dialogue of a connection made this way.
pub(super) fn dialogue(setup: &Setup, way: &Way) -> Result<Dialogue, PredictError> {
    Ok(talk(setup, way)?.dialogue)
}

/// The conversation of a connection made this way; for several consecutive requests, with the first two.
pub(super) fn talk(setup: &Setup, way: &Way) -> Result<Conversation, PredictError> {
    if way.tls == Tls::None {
        return Ok(plain(setup, way));
    }
    let machines = Machines::new(setup, way)?;
    if way.session != Session::Full {
        // An earlier connection provides the session.
        let full = Way { session: Session::Full, several: None, ..*way };
        Talk::new(setup, &full, &machines)?.run()?;
    }
    Talk::new(setup, way, &machines)?.run()
}

pub(super) fn http_facts(setup: &Setup, way: &Way, request_bytes: usize) -> HttpFacts {
    let exchange = &setup.exchange;
    let upload = exchange.upload_bytes;
    let head = exchange.response_head_bytes;
    HttpFacts {
        method: if upload > 0 { "POST" } else { "GET" }.into(),
        version: Some(match way.http {
            Http::V1_1 => "1.1".into(),
            Http::V2 => "2".into(),
            Http::V3 => "3".into(),
        }),
        status: Some(200),
        headers: Vec::new(),
        request_bytes: Some(request_bytes as u64),
        upload_bytes: (upload > 0).then_some(upload),
        upload_sent_bytes: None,
        header_bytes: Some(if way.http == Http::V1_1 { head } else { http::packed(head) + 9 }),
        body_bytes: Some(exchange.response_bytes),
        decoded_bytes: None,
        undecoded_bytes: None,
        head_took: None,
        may_be_cut_short: false,
    }
}

/// Bytes in flight in one direction.
#[derive(Default)]
struct Pipe {
    bytes: Vec<u8>,
    /// Number of bytes already taken out.
    taken: usize,
    scanner: RecordScanner,
}

impl Pipe {
    /// The next record, if it is complete.
    fn next_record(&self) -> Option<std::ops::Range<usize>> {
        let rest = &self.bytes[self.taken..];
        let [_, _, _, high, low, ..] = rest else { return None };
        let length = 5 + usize::from(u16::from_be_bytes([*high, *low]));
        (rest.len() >= length).then(|| self.taken..self.taken + length)
    }
}

struct Talk<'a> {
    setup: &'a Setup,
    way: &'a Way,
    client: ClientConnection,
    server: ServerConnection,
    up: Pipe,
    down: Pipe,
    /// Output of the client that is not sent yet.
    held: Vec<u8>,
    held_names: Vec<String>,
    dialogue: Dialogue,
    hello: Option<ClientHello>,
    had_tls12_session: bool,
    early: Option<EarlyData>,
    /// Bytes of the request sent as early data.
    early_bytes: usize,
    /// Exchanges left after this one.
    exchanges_left: u32,
    /// How long the client rests between two exchanges.
    rest: Duration,
    first: Option<FirstExchange>,
    /// For simultaneous requests: where each response begins and ends in the server's plaintext.
    responses: Vec<(u64, u64)>,
    request: Written,
    /// Bytes of plaintext received by the server in the current exchange.
    asked: usize,
    server_settings_sent: bool,
    settings_acknowledged: bool,
    answered: bool,
    /// The server's plaintext: bytes written and received, start of the response, and expected end.
    spoken: u64,
    decrypted: u64,
    head_at: u64,
    end_at: Option<u64>,
    begun: bool,
    /// Records with plaintext: start and end on the stream, and offset in the plaintext.
    records: Vec<(u64, u64, u64)>,
    frames: FrameScanner,
    tickets: u32,
    done: bool,
}

impl<'a> Talk<'a> {
    fn new(setup: &'a Setup, way: &'a Way, machines: &Machines) -> Result<Self, PredictError> {
        let name = ServerName::try_from(HOST)
            .map_err(|_| PredictError::Stalled { what: "the server's name is not valid" })?;
        let had_tls12_session = machines.has_tls12_session(&name);
        let config = machines.client(way.session == Session::ZeroRtt);
        let mut client = ClientConnection::new(config, name)?;
        let mut server = ServerConnection::new(Arc::clone(&machines.server))?;
        client.set_buffer_limit(None);
        server.set_buffer_limit(None);
        let (exchanges, rest) = in_sequence(setup, way);
        let request = match at_once(way) {
            1 => http::request(way.http, &setup.exchange, true),
            count => http::requests_at_once(&setup.exchange, count),
        };
        Ok(Self {
            setup,
            way,
            client,
            server,
            up: Pipe::default(),
            down: Pipe::default(),
            held: Vec::new(),
            held_names: Vec::new(),
            dialogue: Dialogue::default(),
            hello: None,
            had_tls12_session,
            early: None,
            early_bytes: 0,
            exchanges_left: exchanges - 1,
            rest,
            first: None,
            responses: Vec::new(),
            request,
            asked: 0,
            server_settings_sent: false,
            settings_acknowledged: false,
            answered: false,
            spoken: 0,
            decrypted: 0,
            head_at: 0,
            end_at: None,
            begun: false,
            records: Vec::new(),
            frames: FrameScanner::default(),
            tickets: 0,
            done: false,
        })
    }

    fn run(mut self) -> Result<Conversation, PredictError> {
        self.begin()?;
        while !self.done {
            if let Some(record) = self.up.next_record() {
                self.hear_client(record)?;
            } else if let Some(record) = self.down.next_record() {
                self.hear_server(record)?;
            } else {
                return Err(PredictError::Stalled { what: "neither side has anything to say" });
            }
        }
        // Tickets may follow the response.
        while let Some(record) = self.down.next_record() {
            self.hear_server(record)?;
        }
        self.dialogue.tls = Some(self.tls_facts());
        self.dialogue.http = http_facts(self.setup, self.way, self.request.bytes.len());
        let place = |(start, end): &(u64, u64)| {
            let at = |offset| self.stream_places(self.head_at + offset);
            (at(*start)[1], at(end.saturating_sub(1))[0])
        };
        let responses = self.responses.iter().map(place).collect();
        Ok(Conversation { first: self.first, responses, dialogue: self.dialogue })
    }

    /// The ClientHello, together with the request if early data is possible.
    fn begin(&mut self) -> Result<(), PredictError> {
        if self.way.session == Session::ZeroRtt {
            let Some(mut early) = self.client.early_data() else {
                return Err(PredictError::Stalled { what: "no session that allows early data" });
            };
            // Writes as much as the server's limit allows.
            self.early_bytes = early.write(&self.request.bytes).map_err(internal)?;
            self.held_names.clone_from(&self.request.names);
        }
        self.collect()?;
        self.hello = ClientHello::at_start_of(&self.held);
        if self.way.session == Session::ZeroRtt {
            let hello = self.hello.map_or(0, |hello| hello.record_bytes as u64);
            self.early = Some(EarlyData {
                bytes_before_server_hello: Some((self.held.len() as u64).saturating_sub(hello)),
                accepted: None,
            });
            self.note_request(hello);
        }
        self.release(Duration::ZERO);
        Ok(())
    }

    /// Records that the request begins `before` bytes into the held output and ends with it.
    fn note_request(&mut self, before: u64) {
        let places = &mut self.dialogue.places;
        places.request_start = self.dialogue.client.bytes + before + 1;
        places.request_end = self.dialogue.client.bytes + self.held.len() as u64;
    }

    /// Takes the client's pending output.
    fn collect(&mut self) -> Result<(), PredictError> {
        while self.client.wants_write() {
            self.client.write_tls(&mut self.held).map_err(internal)?;
        }
        Ok(())
    }

    /// Sends the held output.
    fn release(&mut self, after: Duration) {
        let bytes = std::mem::take(&mut self.held);
        if bytes.is_empty() {
            return;
        }
        let start = self.dialogue.client.bytes;
        let handshaking = self.client.is_handshaking();
        let mut finished = Vec::new();
        if !handshaking && self.dialogue.places.client_finished.is_none() {
            if self.early.is_some_and(|early| early.accepted == Some(true)) {
                finished.push("(EndOfEarlyData)");
            }
            finished.push("{Finished}");
        }
        let mut finished = finished.into_iter();
        let lines = &mut self.dialogue.client;
        let places = &mut self.dialogue.places;
        let tls13 = self.client.protocol_version() == Some(ProtocolVersion::TLSv1_3);
        let mut offset = 0;
        while offset < bytes.len() {
            let mut events = Vec::new();
            let scanned = self.up.scanner.feed_record(&bytes[offset..], |event| events.push(event));
            offset += scanned.unwrap_or(bytes.len() - offset);
            let end = start + offset as u64;
            for event in events {
                let name = match event {
                    Event::Handshake { name, .. } => Some(name),
                    Event::Record { content_type, .. } => match content_type {
                        ContentType::ChangeCipherSpec => Some("ChangeCipherSpec"),
                        ContentType::Handshake => Some("{Finished}"),
                        ContentType::Alert => Some("Alert"),
                        ContentType::ApplicationData if tls13 => finished.next(),
                        ContentType::ApplicationData => None,
                    },
                };
                if name == Some("{Finished}") && !handshaking {
                    places.client_finished.get_or_insert(end);
                }
                if let Some(name) = name {
                    lines.name(end, name);
                }
            }
        }
        let end = start + bytes.len() as u64;
        for name in self.held_names.drain(..) {
            lines.name(end, name);
        }
        lines.write(self.down.taken as u64, after, bytes.len() as u64);
        self.up.bytes.extend(bytes);
    }

    /// Passes one record to the server.
    fn hear_client(&mut self, record: std::ops::Range<usize>) -> Result<(), PredictError> {
        let first = self.up.taken == 0;
        read_all(&self.up.bytes[record.clone()], |bytes| self.server.read_tls(bytes))?;
        self.up.taken = record.end;
        self.server.process_new_packets()?;
        let resumed = self.server.handshake_kind() == Some(HandshakeKind::Resumed);
        let hello_time = self.setup.server.hello_time.full_or_resumed(resumed);
        self.server_sends(if first { hello_time } else { Duration::ZERO })?;
        let mut plaintext = Vec::new();
        let early = match self.server.early_data() {
            Some(mut early) => {
                // The end of this data is not final: more may come as long as the handshake continues.
                let _ = early.read_to_end(&mut plaintext);
                true
            }
            None => false,
        };
        // The bytes read so far are kept if no more are available.
        let _ = self.server.reader().read_to_end(&mut plaintext);
        self.asked += plaintext.len();
        if self.server.is_handshaking() && !early {
            return Ok(());
        }
        if self.way.http == Http::V2 && !std::mem::replace(&mut self.server_settings_sent, true) {
            self.server_writes(&http::server_settings(), Duration::ZERO)?;
        }
        if self.asked >= self.request.bytes.len() && !self.answered {
            self.answer()?;
        }
        Ok(())
    }

    fn answer(&mut self) -> Result<(), PredictError> {
        self.answered = true;
        if self.way.http == Http::V2 && self.dialogue.origin_step.is_none() {
            self.server_writes(&http::settings_ack(), Duration::ZERO)?;
        }
        let response = match at_once(self.way) {
            1 => http::response(self.way.http, &self.setup.exchange),
            count => {
                let (response, places) = http::responses_at_once(&self.setup.exchange, count);
                self.responses = places;
                response
            }
        };
        self.head_at = self.spoken;
        self.end_at = Some(self.head_at + response.bytes.len() as u64);
        self.server_writes(&response.bytes, self.setup.server.think_time)
    }

    fn server_writes(&mut self, plaintext: &[u8], after: Duration) -> Result<(), PredictError> {
        write_all(&mut self.server.writer(), plaintext)?;
        self.spoken += plaintext.len() as u64;
        self.server_sends(after)
    }

    fn server_sends(&mut self, after: Duration) -> Result<(), PredictError> {
        let before = self.down.bytes.len();
        while self.server.wants_write() {
            self.server.write_tls(&mut self.down.bytes).map_err(internal)?;
        }
        let bytes = (self.down.bytes.len() - before) as u64;
        self.dialogue.server.write(self.up.taken as u64, after, bytes);
        Ok(())
    }

    /// Passes one record to the client.
    fn hear_server(&mut self, record: std::ops::Range<usize>) -> Result<(), PredictError> {
        let handshaking = self.client.is_handshaking();
        let bytes = &self.down.bytes[record.clone()];
        let mut names = Vec::new();
        let _ = self.down.scanner.feed(bytes, |event| names.extend(received_name(&event)));
        read_all(bytes, |bytes| self.client.read_tls(bytes))?;
        self.down.taken = record.end;
        self.client.process_new_packets()?;
        let complete = handshaking && !self.client.is_handshaking();
        if complete {
            names.extend(encrypted_handshake(&self.client));
        }
        let tickets = self.client.tls13_tickets_received();
        names.extend((self.tickets..tickets).map(|_| "{NewSessionTicket}"));
        self.tickets = tickets;
        let end = record.end as u64;
        for name in names {
            self.dialogue.server.name(end, name);
        }
        let mut plaintext = Vec::new();
        // The bytes read so far are kept if no more are available.
        let _ = self.client.reader().read_to_end(&mut plaintext);
        let settings = self.note_plaintext(record.start as u64, end, &plaintext);
        if complete {
            self.finish(end)?;
        } else {
            self.collect()?;
            // A ChangeCipherSpec alone waits for the message that it precedes.
            if self.held != CHANGE_CIPHER_SPEC {
                self.release(self.work_before(false));
            }
        }
        if settings && !self.client.is_handshaking() {
            write_all(&mut self.client.writer(), &http::settings_ack())?;
            self.held_names.push("SETTINGS ack".into());
            self.collect()?;
            self.release(Duration::ZERO);
        }
        if self.end_at.is_some_and(|end_at| self.decrypted >= end_at) && !self.done {
            self.end_exchange(end)?;
        }
        Ok(())
    }

    /// The client's work before it sends, depending on whether its handshake is then complete. In a full handshake,
    /// TLS 1.2 verifies certificates and makes keys before its key exchange, TLS 1.3 at the end.
    fn work_before(&self, complete: bool) -> Duration {
        let resumed = self.client.handshake_kind() == Some(HandshakeKind::Resumed);
        let tls12 = self.client.protocol_version() == Some(ProtocolVersion::TLSv1_2);
        match complete == (resumed || !tls12) {
            true => self.setup.client.finish_time.full_or_resumed(resumed),
            false => Duration::ZERO,
        }
    }

    /// Handles the completion of the client's handshake.
    fn finish(&mut self, end: u64) -> Result<(), PredictError> {
        let after = self.work_before(true);
        if let Some(early) = &mut self.early {
            let accepted = self.client.is_early_data_accepted();
            early.accepted = Some(accepted);
            if accepted {
                let rest = &self.request.bytes[self.early_bytes..];
                write_all(&mut self.client.writer(), rest)?;
                self.collect()?;
                if self.early_bytes < self.request.bytes.len() {
                    let end = self.dialogue.client.bytes + self.held.len() as u64;
                    self.dialogue.places.request_end = end;
                }
                self.release(after);
                return Ok(());
            }
        } else if !self.client.wants_write() && self.held.is_empty() {
            self.dialogue.places.server_finished = Some(end);
        }
        self.collect()?;
        self.ask(after)
    }

    /// Sends the request, together with the held output.
    fn ask(&mut self, after: Duration) -> Result<(), PredictError> {
        write_all(&mut self.client.writer(), &self.request.bytes)?;
        self.held_names.clone_from(&self.request.names);
        let before = self.held.len() as u64;
        self.collect()?;
        self.note_request(before);
        self.release(after);
        Ok(())
    }

    /// Handles the completion of the response.
    fn end_exchange(&mut self, end: u64) -> Result<(), PredictError> {
        self.dialogue.places.response_end = end;
        if self.exchanges_left == 0 {
            self.done = true;
            return Ok(());
        }
        self.exchanges_left -= 1;
        self.request = http::request(self.way.http, &self.setup.exchange, false);
        (self.asked, self.answered, self.begun, self.end_at) = (0, false, false, None);
        self.dialogue.origin_step = Some(self.dialogue.client.steps.len());
        if self.way.several.is_some() {
            self.first = Some(FirstExchange::ended_by(&self.dialogue));
        }
        self.ask(self.rest)
    }

    /// Processes decrypted bytes. Returns whether they contain SETTINGS that have to be acknowledged.
    fn note_plaintext(&mut self, start: u64, end: u64, plaintext: &[u8]) -> bool {
        if plaintext.is_empty() {
            return false;
        }
        let before = self.decrypted;
        self.decrypted += plaintext.len() as u64;
        self.records.push((start, end, before));
        let mut names: Vec<String> = Vec::new();
        let mut settings = false;
        if self.way.http == Http::V2 {
            self.frames.feed(plaintext, |frame| {
                settings |= frame.frame_type == FrameType::Settings && !frame.is_ack();
                let ack = if frame.is_ack() { " ack" } else { "" };
                names.push(format!("{}{ack}", frame.frame_type.name()));
            });
        } else if !self.begun {
            names.push("HTTP/1.1 200 OK".into());
        }
        for name in names {
            self.dialogue.server.name(end, name);
        }
        if !self.begun && self.answered && self.decrypted > self.head_at {
            self.begun = true;
            let [first, readable] = self.stream_places(self.head_at);
            self.dialogue.places.response_first_packet = (first < readable).then_some(first);
            self.dialogue.places.response_start = readable;
        }
        settings && !std::mem::replace(&mut self.settings_acknowledged, true)
    }

    /// Stream positions for the plaintext at `offset`: its own position (the record's first byte if it begins the
    /// record), and that of the record's last byte, which is needed to decrypt it.
    fn stream_places(&self, offset: u64) -> [u64; 2] {
        let record = self.records.iter().rev().find(|(.., plaintext)| *plaintext <= offset);
        record.map_or([0; 2], |(start, end, plaintext)| match offset - plaintext {
            0 => [start + 1, *end],
            within => [start + 5 + within + 1, *end],
        })
    }

    fn tls_facts(&self) -> TlsFacts {
        let client = &self.client;
        let hello = self.hello.unwrap_or_default();
        let kept = hello.session_id_bytes > 0 && self.had_tls12_session;
        let full = client.handshake_kind() != Some(HandshakeKind::Resumed);
        let chain = client.peer_certificates().filter(|_| full).unwrap_or_default();
        TlsFacts {
            version: client.protocol_version().map(|version| match version {
                ProtocolVersion::TLSv1_2 => "TLSv1.2".into(),
                ProtocolVersion::TLSv1_3 => "TLSv1.3".into(),
                other => format!("{other:?}"),
            }),
            cipher_suite: client
                .negotiated_cipher_suite()
                .map(|suite| format!("{:?}", suite.suite()).replacen("TLS13_", "TLS_", 1)),
            group: client.negotiated_key_exchange_group().map(|g| format!("{:?}", g.name())),
            handshake: client.handshake_kind().map(|kind| match kind {
                HandshakeKind::Full => Handshake::Full,
                HandshakeKind::FullWithHelloRetryRequest => Handshake::FullWithHelloRetryRequest,
                HandshakeKind::Resumed => Handshake::Resumed,
            }),
            session_offered: if hello.pre_shared_key {
                Some(SessionMechanism::Psk)
            } else if hello.ticket_bytes > 0 {
                Some(SessionMechanism::Ticket)
            } else {
                kept.then_some(SessionMechanism::SessionId)
            },
            early_data_allowed: None,
            early_data: self.early,
            alpn: client.alpn_protocol().map(|name| String::from_utf8_lossy(name).into_owned()),
            certificates: chain
                .iter()
                .map(|der| Certificate { der_bytes: der.len() as u64, ..Certificate::default() })
                .collect(),
            verified: None,
            tickets_received: (client.protocol_version() == Some(ProtocolVersion::TLSv1_3))
                .then_some(self.tickets),
        }
    }
}

/// The name of an event that the record layer shows.
fn received_name(event: &Event) -> Option<&'static str> {
    match event {
        Event::Handshake { name, .. } => Some(name),
        Event::Record { content_type, .. } => match content_type {
            ContentType::ChangeCipherSpec => Some("ChangeCipherSpec"),
            ContentType::Handshake => Some("{Finished}"),
            ContentType::Alert => Some("Alert"),
            ContentType::ApplicationData => None,
        },
    }
}

/// Messages in a TLS 1.3 server's flight that the record layer cannot show (RFC 8446 §2).
fn encrypted_handshake(client: &ClientConnection) -> &'static [&'static str] {
    match (client.protocol_version(), client.handshake_kind()) {
        (Some(ProtocolVersion::TLSv1_3), Some(HandshakeKind::Resumed)) => {
            &["{EncryptedExtensions}", "{Finished}"]
        }
        (Some(ProtocolVersion::TLSv1_3), _) => {
            &["{EncryptedExtensions}", "{Certificate}", "{CertificateVerify}", "{Finished}"]
        }
        _ => &[],
    }
}

fn read_all(
    mut bytes: &[u8],
    mut read: impl FnMut(&mut dyn Read) -> std::io::Result<usize>,
) -> Result<(), PredictError> {
    while !bytes.is_empty() {
        if read(&mut bytes).map_err(internal)? == 0 {
            return Err(PredictError::Stalled { what: "TLS accepts no more data" });
        }
    }
    Ok(())
}

fn write_all(into: &mut impl Write, bytes: &[u8]) -> Result<(), PredictError> {
    into.write_all(bytes).map_err(internal)
}

/// Reading and writing memory cannot fail, so the error comes from TLS.
fn internal(error: std::io::Error) -> PredictError {
    PredictError::Tls(rustls::Error::General(error.to_string()))
}
