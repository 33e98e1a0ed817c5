//! Reads a QUIC connection from the log.
//!
//! Input: the record, the session, and the request's leg. Output: marks, flights and facts of a `Connection`. Times are
//! those of the UDP socket's events: when a datagram was sent or read.

use std::net::SocketAddr;

use firstbyte_core::timeline::{
    Attempt, AttemptOutcome, Connection, Direction, EarlyData, Handshake, Mark, QuicFacts,
    SessionMechanism, TlsFacts,
};

use super::assembly::Leg;
use super::facts;
use super::flights::{Flights, Origin};
use crate::netlog::{NetLogEvent, NetLogRecord};

/// When the connection of `session` was started, and when it was ready for requests.
pub(super) fn set_up(log: &NetLogRecord, session: u64) -> Option<(i64, Option<i64>)> {
    let begun = log.of_source(session).next()?;
    let mut ready = log.of_source(session);
    let ready = ready.find(|event| &*event.name == "QUIC_SESSION_CRYPTO_HANDSHAKE_COMPLETE");
    Some((begun.at_us, ready.map(|event| event.at_us)))
}

/// Events of the session and of its UDP socket, in order.
struct Seen<'a> {
    events: Vec<(usize, &'a NetLogEvent)>,
}

impl<'a> Seen<'a> {
    fn of_session(log: &'a NetLogRecord, session: u64) -> Self {
        let mut events: Vec<(usize, &NetLogEvent)> = log.placed(session).collect();
        let own = events.iter().find_map(|(_, event)| event.text("self_address"));
        let socket = own.and_then(|own| {
            let mut sockets = log.events().filter(|event| &*event.name == "UDP_LOCAL_ADDRESS");
            sockets.find(|event| event.text("address") == Some(own)).map(|event| event.source)
        });
        events.extend(socket.into_iter().flat_map(|socket| log.placed(socket)));
        events.sort_by_key(|(place, _)| *place);
        Self { events }
    }

    fn find(&self, wanted: impl Fn(&NetLogEvent) -> bool) -> Option<usize> {
        self.events.iter().position(|(_, event)| wanted(event))
    }

    fn rfind(&self, wanted: impl Fn(&NetLogEvent) -> bool) -> Option<usize> {
        self.events.iter().rposition(|(_, event)| wanted(event))
    }

    /// When the datagram with the frame at `at` was sent.
    fn left(&self, at: usize) -> Option<i64> {
        let mut after = self.events[at..].iter();
        after.find(|(_, event)| &*event.name == "UDP_BYTES_SENT").map(|(_, event)| event.at_us)
    }

    /// When the datagram with the frame at `at` was received.
    fn came(&self, at: usize) -> Option<i64> {
        let mut before = self.events[..at].iter().rev();
        before.find(|(_, event)| &*event.name == "UDP_BYTES_RECEIVED").map(|(_, e)| e.at_us)
    }
}

/// When the server's first datagram was read.
pub(super) fn first_answer(log: &NetLogRecord, session: u64) -> Option<i64> {
    let seen = Seen::of_session(log, session);
    let came = seen.find(|event| &*event.name == "UDP_BYTES_RECEIVED")?;
    Some(seen.events[came].1.at_us)
}

/// Records the exchange of `leg` on `session`. `fresh` is true if the connection was opened for it.
pub(super) fn put_down(
    log: &NetLogRecord,
    session: u64,
    leg: &Leg,
    fresh: bool,
    origin: Origin,
    connection: &mut Connection,
) {
    let seen = Seen::of_session(log, session);
    let address = |name: &str| {
        let mut texts = seen.events.iter().filter_map(|(_, event)| event.text(name));
        texts.find_map(|text| text.parse::<SocketAddr>().ok())
    };
    connection.facts.local = address("self_address");
    connection.facts.remote = address("peer_address");
    connection.facts.tls = Some(tls_facts(&seen));
    connection.facts.quic = Some(quic_facts(&seen));
    let mut set = |mark, at: Option<i64>| {
        if let Some(at) = at {
            connection.marks.set(mark, origin.stamp(at));
        }
    };
    if fresh {
        let begun = seen.find(|event| &*event.name == "UDP_BYTES_SENT");
        let begun = begun.map(|at| seen.events[at].1.at_us);
        set(Mark::ConnectStart, begun);
        set(Mark::SecureConnectionStart, begun);
        let finished = seen.find(|event| {
            &*event.name == "QUIC_SESSION_CRYPTO_FRAME_SENT"
                && event.text("encryption_level") == Some("ENCRYPTION_HANDSHAKE")
        });
        set(Mark::HandshakeComplete, finished.and_then(|at| seen.left(at)));
        let confirmed =
            seen.find(|event| &*event.name == "QUIC_SESSION_HANDSHAKE_DONE_FRAME_RECEIVED");
        set(Mark::HandshakeConfirmed, confirmed.and_then(|at| seen.came(at)));
    }
    let stream = stream(log, session, leg);
    let of_stream = |event: &NetLogEvent, name: &str| {
        &*event.name == name && stream.is_some() && event.number("stream_id") == stream
    };
    let sent = |event: &NetLogEvent| of_stream(event, "QUIC_SESSION_STREAM_FRAME_SENT");
    let received = |event: &NetLogEvent| of_stream(event, "QUIC_SESSION_STREAM_FRAME_RECEIVED");
    let fin = |event: &NetLogEvent| event.truth("fin") == Some(true);
    set(Mark::RequestStart, seen.find(sent).and_then(|at| seen.left(at)));
    // The first time: lost frames are sent again.
    let end = seen.find(|event| sent(event) && fin(event));
    set(Mark::RequestEnd, end.and_then(|at| seen.left(at)));
    set(Mark::ResponseStart, seen.find(received).and_then(|at| seen.came(at)));
    // After the frame with the end, retransmitted earlier frames may follow.
    let ended = seen.find(|event| received(event) && fin(event)).is_some();
    let last = seen.rfind(|event| received(event)).filter(|_| ended);
    set(Mark::ResponseEnd, last.and_then(|at| seen.came(at)));
    if fresh && let Some(remote) = connection.facts.remote {
        let at = |mark| connection.marks.at(mark);
        if let Some(start) = at(Mark::ConnectStart) {
            let end = at(Mark::HandshakeComplete);
            // Without a completed handshake there is no connection.
            let outcome = if end.is_some() { AttemptOutcome::Won } else { AttemptOutcome::Lost };
            connection.attempts = vec![Attempt { remote, start, end, outcome }];
        }
    }
    let from = if fresh { 0 } else { leg.from };
    let to = last.map_or(leg.to, |last| seen.events[last].0);
    connection.flights = flights(&seen, stream, from..=to, origin);
}

/// The number of the request's stream.
fn stream(log: &NetLogRecord, session: u64, leg: &Leg) -> Option<i64> {
    let mut requests = log.placed(leg.source);
    let (wanted, _) = requests.find(|(place, event)| {
        (leg.from..=leg.to).contains(place)
            && &*event.name == "HTTP_TRANSACTION_QUIC_SEND_REQUEST_HEADERS"
    })?;
    // The session logs it next.
    let mut sent = log.placed(session).filter(|(place, _)| *place > wanted);
    let (_, sent) =
        sent.find(|(_, event)| &*event.name == "QUIC_CHROMIUM_CLIENT_STREAM_SEND_REQUEST_HEADERS")?;
    sent.number("quic_stream_id").or_else(|| sent.number("stream_id"))
}

fn tls_facts(seen: &Seen<'_>) -> TlsFacts {
    let mut facts = TlsFacts::default();
    let (mut early_bytes, mut answered, mut early_state, mut tickets) = (0, false, None, 0);
    let mut first_stream = CryptoStream::default();
    for (_, event) in &seen.events {
        let level = event.text("encryption_level");
        match &*event.name {
            "QUIC_SESSION_CRYPTO_FRAME_RECEIVED" => {
                let Some(bytes) = event.text("bytes").and_then(facts::base64) else { continue };
                match level {
                    Some("ENCRYPTION_INITIAL") => {
                        answered = true;
                        first_stream.frame(event.number("offset").unwrap_or(0), &bytes);
                    }
                    Some("ENCRYPTION_FORWARD_SECURE")
                        if bytes.first().copied().map(i64::from)
                            == Some(facts::NEW_SESSION_TICKET) =>
                    {
                        tickets += 1;
                    }
                    _ => {}
                }
            }
            "QUIC_SESSION_PACKET_SENT" if level == Some("ENCRYPTION_ZERO_RTT") && !answered => {
                early_bytes += event.number("size").unwrap_or(0).unsigned_abs();
            }
            "QUIC_SESSION_ZERO_RTT_STATE" => early_state = event.text("state"),
            "QUIC_SESSION_CERTIFICATE_VERIFIED" => facts.verified = Some(true),
            _ => {}
        }
    }
    for hello in first_stream.server_hellos() {
        facts.version = Some("TLSv1.3".to_owned());
        let suite = facts::cipher_suite(i64::from(hello.cipher_suite));
        facts.cipher_suite = suite.map(str::to_owned);
        let group = hello.group.and_then(|group| facts::group(i64::from(group)));
        facts.group = group.map(str::to_owned).or(facts.group);
        facts.handshake = Some(match facts.handshake {
            _ if hello.resumed => Handshake::Resumed,
            Some(Handshake::FullWithHelloRetryRequest) => Handshake::FullWithHelloRetryRequest,
            _ if hello.retry => Handshake::FullWithHelloRetryRequest,
            _ => Handshake::Full,
        });
    }
    facts.alpn = answered.then(|| "h3".to_owned());
    facts.tickets_received = answered.then_some(tickets);
    if facts.handshake == Some(Handshake::Resumed) {
        // QUIC has no other mechanism, and the certificate was not verified again.
        facts.session_offered = Some(SessionMechanism::Psk);
        facts.verified = None;
    }
    let tried = early_state.is_some_and(|state| state.starts_with("Attempted"));
    if tried || early_bytes > 0 {
        facts.early_data_allowed = Some(true);
        let accepted = early_state.map(|state| state == "AttemptedAndSucceeded");
        let early_data = EarlyData { bytes_before_server_hello: Some(early_bytes), accepted };
        facts.early_data = (early_bytes > 0).then_some(early_data);
    }
    facts
}

/// The server's CRYPTO stream in Initial packets: a ServerHello with a post-quantum key share fills more than one
/// packet.
#[derive(Default)]
struct CryptoStream {
    bytes: Vec<u8>,
    /// Frames that arrived before an earlier part of the stream.
    ahead: Vec<(usize, Vec<u8>)>,
}

impl CryptoStream {
    fn frame(&mut self, offset: i64, bytes: &[u8]) {
        /// The messages have a few kilobytes; larger offsets are invalid.
        const LIMIT: usize = 1 << 16;
        let Some(offset) = usize::try_from(offset).ok().filter(|offset| *offset < LIMIT) else {
            return;
        };
        self.ahead.push((offset, bytes.to_vec()));
        while let Some(next) = self.ahead.iter().position(|(offset, _)| *offset <= self.bytes.len())
        {
            let (offset, bytes) = self.ahead.remove(next);
            let known = self.bytes.len() - offset;
            self.bytes.extend(bytes.get(known..).unwrap_or_default());
        }
    }

    fn server_hellos(&self) -> impl Iterator<Item = facts::ServerHello> + '_ {
        let mut rest = &self.bytes[..];
        std::iter::from_fn(move || {
            let [_, a, b, c] = *rest.first_chunk::<4>()?;
            let length = 4 + u32::from_be_bytes([0, a, b, c]) as usize;
            let message = rest.get(..length)?;
            rest = &rest[length..];
            facts::ServerHello::read(message)
        })
    }
}

fn quic_facts(seen: &Seen<'_>) -> QuicFacts {
    let count = |wanted: &dyn Fn(&NetLogEvent) -> bool| {
        let counted = seen.events.iter().filter(|(_, event)| wanted(event)).count();
        u32::try_from(counted).unwrap_or(u32::MAX)
    };
    let named = |name: &'static str| move |event: &NetLogEvent| &*event.name == name;
    let text = |name: &str, field: &str| {
        let mut events = seen.events.iter().filter(|(_, event)| &*event.name == name);
        events.find_map(|(_, event)| event.text(field))
    };
    let version = match text("QUIC_SESSION_VERSION_NEGOTIATED", "version") {
        Some("RFCv1") => Some("1".to_owned()),
        Some("RFCv2") => Some("2".to_owned()),
        other => other.map(str::to_owned),
    };
    QuicFacts {
        version,
        datagrams_sent: Some(count(&named("UDP_BYTES_SENT"))),
        datagrams_received: Some(count(&named("UDP_BYTES_RECEIVED"))),
        lost_packets: Some(u64::from(count(&named("QUIC_SESSION_PACKET_LOST")))),
        retry: count(&|event| event.text("long_header_type") == Some("RETRY")) > 0,
        congestion_control: text("QUIC_CONGESTION_CONTROL_CONFIGURED", "congestion_control_type")
            .map(|name| name.trim_end_matches("_BYTES").to_ascii_lowercase()),
        ..QuicFacts::default()
    }
}

fn flights(
    seen: &Seen<'_>,
    stream: Option<i64>,
    places: std::ops::RangeInclusive<usize>,
    origin: Origin,
) -> Vec<firstbyte_core::timeline::Flight> {
    let mut flights = Flights::default();
    for (_, event) in seen.events.iter().filter(|(place, _)| places.contains(place)) {
        let bytes = event.number("byte_count").unwrap_or(0).unsigned_abs();
        let of_stream = stream.is_some() && event.number("stream_id") == stream;
        let first = event.number("offset") == Some(0);
        let level = event.text("encryption_level");
        match &*event.name {
            "UDP_BYTES_SENT" => flights.moved(Direction::Sent, origin.stamp(event.at_us), bytes),
            "UDP_BYTES_RECEIVED" => {
                flights.moved(Direction::Received, origin.stamp(event.at_us), bytes);
            }
            "QUIC_SESSION_CRYPTO_FRAME_SENT" if first => {
                let name = match level {
                    Some("ENCRYPTION_INITIAL") => "ClientHello",
                    Some("ENCRYPTION_HANDSHAKE") => "{Finished}",
                    _ => continue,
                };
                flights.part(Direction::Sent, name);
            }
            "QUIC_SESSION_CRYPTO_FRAME_RECEIVED" if first => {
                let name = match level {
                    Some("ENCRYPTION_INITIAL") => "ServerHello",
                    Some("ENCRYPTION_HANDSHAKE") => "{EncryptedExtensions}",
                    _ => continue,
                };
                flights.part(Direction::Received, name);
            }
            "QUIC_SESSION_HANDSHAKE_DONE_FRAME_RECEIVED" => {
                flights.part(Direction::Received, "{HANDSHAKE_DONE}");
            }
            "QUIC_SESSION_STREAM_FRAME_SENT" if of_stream && first => {
                flights.part(Direction::Sent, "{HEADERS}");
            }
            "QUIC_SESSION_STREAM_FRAME_RECEIVED" if of_stream && first => {
                flights.part(Direction::Received, "{HEADERS}");
            }
            _ => {}
        }
    }
    flights.finish()
}
