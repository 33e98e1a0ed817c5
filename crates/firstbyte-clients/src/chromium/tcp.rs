//! Reads a TCP connection from the log.
//!
//! Input: the record, the socket, and the request's leg. Output: attempts, marks, flights and facts of a `Connection`.
//! Times are those of the socket's own events: a `write` that returned, a `read` that returned bytes. Later processing
//! in the browser (threads, cache, renderer) is not included.

use std::net::SocketAddr;

use firstbyte_core::timeline::{
    Attempt, AttemptOutcome, Connection, Direction, EarlyData, Handshake, Mark, TlsFacts,
};

use super::assembly::Leg;
use super::facts;
use super::flights::{Flights, Origin};
use crate::netlog::{NetLogEvent, NetLogPhase, NetLogRecord};

/// Positions of an exchange's parts in the log.
#[derive(Clone, Copy, Debug, Default)]
struct Places {
    /// Before the first bytes of the request are sent.
    request: Option<usize>,
    /// After the last bytes of the request were sent.
    request_end: Option<usize>,
    /// After the header of the first interim response (1xx) was read.
    interim: Option<usize>,
    /// After the header of the final response was read.
    response: Option<usize>,
    /// After the end of the response was read.
    response_end: Option<usize>,
}

/// When the connection of `socket` was started, and when it was ready.
pub(super) fn set_up(log: &NetLogRecord, socket: u64) -> Option<(i64, Option<i64>)> {
    let (begun, connected) = log.span(socket, "TCP_CONNECT", i64::MIN)?;
    let ready = match log.span(socket, "SSL_CONNECT", i64::MIN) {
        // With early data, SSL_CONNECT ends before the server has answered.
        Some((_, ready)) => ready.and(handshake_complete(log, socket)),
        None => connected,
    };
    Some((begun, ready))
}

/// Records the exchange of `leg` on `socket`. `fresh` is true if the connection was opened for it.
pub(super) fn put_down(
    log: &NetLogRecord,
    socket: u64,
    leg: &Leg,
    fresh: bool,
    origin: Origin,
    connection: &mut Connection,
) {
    addresses(log, socket, connection);
    let tls = tls_facts(log, socket);
    let is_tls = tls.is_some();
    if fresh {
        connection.attempts = attempts(log, socket, origin);
        set_up_marks(log, socket, origin, tls.as_ref(), connection);
    }
    connection.facts.tls = tls;
    let session = http2_session(log, socket);
    let places = match session {
        Some(session) => http2_places(log, session, leg, connection),
        None => http1_places(log, socket, leg, is_tls),
    };
    exchange_marks(log, socket, places, origin, connection);
    let from = if fresh { 0 } else { leg.from };
    let to = places.response_end.unwrap_or(leg.to);
    connection.flights = flights(log, socket, session, leg, from..=to, origin);
}

fn addresses(log: &NetLogRecord, socket: u64, connection: &mut Connection) {
    let connected = log.of_source(socket).find(|event| event.ends("TCP_CONNECT"));
    let address = |name| connected?.text(name)?.parse::<SocketAddr>().ok();
    connection.facts.local = address("local_address");
    connection.facts.remote = address("remote_address").or_else(|| {
        let begun = log.of_source(socket).find(|event| event.begins("TCP_CONNECT_ATTEMPT"));
        begun?.text("address")?.parse().ok()
    });
}

/// The attempts of the job that made `socket`: several may have raced, each on its own socket.
fn attempts(log: &NetLogRecord, socket: u64, origin: Origin) -> Vec<Attempt> {
    let job = |source| {
        let alive = log.of_source(source).find(|event| event.begins("SOCKET_ALIVE"));
        alive.and_then(NetLogEvent::dependency)
    };
    let own_job = job(socket);
    let mut sockets = vec![socket];
    if own_job.is_some() {
        let others = log.events().filter(|event| {
            event.begins("SOCKET_ALIVE") && event.source != socket && event.dependency() == own_job
        });
        sockets.extend(others.map(|event| event.source));
    }
    let mut attempts = Vec::new();
    for source in sockets {
        for event in log.of_source(source).filter(|event| &*event.name == "TCP_CONNECT_ATTEMPT") {
            match event.phase {
                NetLogPhase::Begin => {
                    let remote = event.text("address").and_then(|address| address.parse().ok());
                    let Some(remote) = remote else { continue };
                    // Until it turns out to be connected and used.
                    let outcome = AttemptOutcome::Lost;
                    let start = origin.offset(event.at_us);
                    attempts.push(Attempt { remote, start, end: None, outcome });
                }
                NetLogPhase::End => {
                    let Some(attempt) = attempts.last_mut() else { continue };
                    attempt.end = Some(origin.offset(event.at_us));
                    attempt.outcome = match attempt_error(event) {
                        Some(error) => AttemptOutcome::Failed { error },
                        None if source == socket => AttemptOutcome::Won,
                        None => AttemptOutcome::Lost,
                    };
                }
                NetLogPhase::Point => {}
            }
        }
    }
    attempts.sort_by_key(|attempt| attempt.start);
    attempts
}

/// Why an attempt failed: in the kernel's words if the log has its number, otherwise by Chromium's name.
fn attempt_error(ended: &NetLogEvent) -> Option<String> {
    let errno = ended.number("os_error").and_then(|number| i32::try_from(number).ok());
    let of_kernel = errno.map(|number| nix::errno::Errno::from_raw(number).desc().to_owned());
    of_kernel.or_else(|| {
        let number = ended.number("net_error")?;
        Some(format!("Chromium's network error {number}"))
    })
}

fn set_up_marks(
    log: &NetLogRecord,
    socket: u64,
    origin: Origin,
    tls: Option<&TlsFacts>,
    connection: &mut Connection,
) {
    let Some((begun, _)) = log.span(socket, "TCP_CONNECT", i64::MIN) else { return };
    let first = connection.attempts.iter().map(|attempt| attempt.start).min();
    let begun = first.map_or(origin.stamp(begun), |at| firstbyte_core::timeline::Stamp {
        at,
        ..origin.stamp(begun)
    });
    connection.marks.set(Mark::ConnectStart, begun);
    let connected = log.of_source(socket).rfind(|event| {
        event.ends("TCP_CONNECT_ATTEMPT")
            && event.number("os_error").is_none()
            && event.number("net_error").is_none()
    });
    // An abandoned attempt ends without an error, and without a local address.
    let Some(connected) = connected.filter(|_| connection.facts.local.is_some()) else { return };
    connection.marks.set(Mark::TcpConnected, origin.stamp(connected.at_us));
    if tls.is_none() {
        return;
    }
    connection.marks.set(Mark::SecureConnectionStart, origin.stamp(connected.at_us));
    if let Some(complete) = handshake_complete(log, socket) {
        connection.marks.set(Mark::HandshakeComplete, origin.stamp(complete));
    }
}

/// When both Finished messages had been sent and received: the later of the two times. With a false start (RFC 7918)
/// the client continues as soon as its own is sent.
fn handshake_complete(log: &NetLogRecord, socket: u64) -> Option<i64> {
    let events: Vec<&NetLogEvent> = log.of_source(socket).collect();
    let place = |name: &str| {
        events.iter().position(|e| &*e.name == name && e.number("type") == Some(facts::FINISHED))
    };
    let sent = place("SSL_HANDSHAKE_MESSAGE_SENT")?;
    let received = place("SSL_HANDSHAKE_MESSAGE_RECEIVED")?;
    let false_start = || events[sent..received].iter().any(|e| &*e.name == "SSL_SOCKET_BYTES_SENT");
    if sent > received || false_start() {
        let left = events[sent..].iter().find(|event| &*event.name == "SOCKET_BYTES_SENT");
        return left.map(|event| event.at_us);
    }
    let came = events[..received].iter().rev();
    came.clone().find(|event| &*event.name == "SOCKET_BYTES_RECEIVED").map(|event| event.at_us)
}

fn tls_facts(log: &NetLogRecord, socket: u64) -> Option<TlsFacts> {
    log.of_source(socket).find(|event| event.begins("SSL_CONNECT"))?;
    let mut facts = TlsFacts::default();
    let (mut hellos, mut tickets, mut early_bytes) = (0, 0, 0);
    let (mut answered, mut early_offered, mut accepted) = (false, false, None);
    for event in log.of_source(socket) {
        let message = |event: &NetLogEvent| facts::base64(event.text("bytes")?);
        match (&*event.name, event.phase) {
            ("SSL_HANDSHAKE_MESSAGE_SENT", _)
                if event.number("type") == Some(facts::CLIENT_HELLO) =>
            {
                hellos += 1;
                if let Some(message) = message(event) {
                    (facts.session_offered, early_offered) = facts::offered(&message);
                }
            }
            ("SSL_HANDSHAKE_MESSAGE_RECEIVED", _) => match event.number("type") {
                Some(facts::SERVER_HELLO) => {
                    answered = true;
                    let hello = message(event).as_deref().and_then(facts::ServerHello::read);
                    if let Some(hello) = hello.filter(|_| facts.handshake.is_some()) {
                        correct(&mut facts, hello);
                    }
                }
                Some(facts::NEW_SESSION_TICKET) => tickets += 1,
                _ => {}
            },
            // Early data: sent before anything arrived. The ClientHello itself is not followed by
            // SSL_SOCKET_BYTES_SENT.
            ("SSL_SOCKET_BYTES_SENT", _) if !answered => {
                early_bytes += event.number("byte_count").unwrap_or(0).unsigned_abs();
            }
            ("SSL_HANDSHAKE_EARLY_DATA_REASON", _) => {
                accepted = event.number("early_data_reason");
            }
            ("SSL_CONNECT", NetLogPhase::End) => {
                let known = |name| event.number(name);
                facts.version = event.text("version").and_then(facts::tls_version).map(Into::into);
                facts.cipher_suite =
                    known("cipher_suite").and_then(facts::cipher_suite).map(Into::into);
                facts.group = known("key_exchange_group").and_then(facts::group).map(Into::into);
                facts.handshake = event.truth("is_resumed").map(|resumed| match resumed {
                    true => Handshake::Resumed,
                    false if hellos > 1 => Handshake::FullWithHelloRetryRequest,
                    false => Handshake::Full,
                });
                let alpn = event.text("next_proto");
                facts.alpn = alpn.filter(|alpn| *alpn != "unknown").map(str::to_owned);
                if facts.handshake.is_some_and(|handshake| handshake != Handshake::Resumed) {
                    facts.verified = event.number("net_error").is_none().then_some(true);
                }
            }
            _ => {}
        }
    }
    if !answered {
        // With early data, SSL_CONNECT ends at once and reports the offered session's own parameters.
        facts = TlsFacts { session_offered: facts.session_offered, ..TlsFacts::default() };
    }
    facts.tickets_received = answered.then_some(tickets);
    if early_offered {
        facts.early_data_allowed = Some(true);
        if early_bytes > 0 {
            let accepted = accepted.map(|reason| reason == facts::EARLY_DATA_ACCEPTED);
            let bytes_before_server_hello = Some(early_bytes);
            facts.early_data = Some(EarlyData { bytes_before_server_hello, accepted });
        }
    }
    Some(facts)
}

/// Corrects the facts of a handshake that had ended early, with early data, once the server answers.
fn correct(facts: &mut TlsFacts, hello: facts::ServerHello) {
    if hello.resumed {
        return;
    }
    // The server rejected the session, so none of its parameters apply to this connection.
    let suite = facts::cipher_suite(i64::from(hello.cipher_suite));
    let group = hello.group.and_then(|group| facts::group(i64::from(group)));
    (facts.cipher_suite, facts.group) = (suite.map(Into::into), group.map(Into::into));
    (facts.alpn, facts.verified) = (None, None);
    facts.handshake = Some(match hello.retry {
        true => Handshake::FullWithHelloRetryRequest,
        false => Handshake::Full,
    });
}

/// The HTTP/2 session that uses `socket`.
fn http2_session(log: &NetLogRecord, socket: u64) -> Option<u64> {
    let number = log.number_of(socket)?;
    let begun = log.events().find(|event| {
        &*event.name == "HTTP2_SESSION_INITIALIZED" && event.dependency() == Some(number)
    });
    begun.map(|event| event.source)
}

fn http2_places(
    log: &NetLogRecord,
    session: u64,
    leg: &Leg,
    connection: &mut Connection,
) -> Places {
    let mut places = Places::default();
    let (mut stream, mut received, mut has_body) = (None, 0, false);
    let in_leg = log.placed(session).filter(|(place, _)| (leg.from..=leg.to).contains(place));
    for (place, event) in in_leg {
        let of_stream = stream.is_some() && event.number("stream_id") == stream;
        let fin = event.truth("fin") == Some(true);
        match &*event.name {
            "HTTP2_SESSION_SEND_HEADERS"
                if stream.is_none() && leg.job.is_some() && event.dependency() == leg.job =>
            {
                stream = event.number("stream_id");
                places.request = Some(place);
                places.request_end = fin.then_some(place);
            }
            "HTTP2_SESSION_SEND_DATA" if of_stream => {
                places.request_end = fin.then_some(place).or(places.request_end);
            }
            "HTTP2_SESSION_RECV_HEADERS" if of_stream => {
                // Headers after the body are trailers.
                if !has_body {
                    places.interim = places.interim.or(places.response);
                    places.response = Some(place);
                }
                places.response_end = fin.then_some(place).or(places.response_end);
            }
            "HTTP2_SESSION_RECV_DATA" if of_stream => {
                has_body = true;
                received += event.number("size").unwrap_or(0).unsigned_abs();
                places.response_end = fin.then_some(place).or(places.response_end);
            }
            _ => {}
        }
    }
    if let Some(http) = connection.facts.http.as_mut().filter(|_| places.response_end.is_some()) {
        http.body_bytes = Some(received);
    }
    places
}

fn http1_places(log: &NetLogRecord, socket: u64, leg: &Leg, tls: bool) -> Places {
    let request = |wanted: &dyn Fn(&NetLogEvent) -> bool| {
        let mut events = log.placed(leg.source).filter(|(at, _)| (leg.from..=leg.to).contains(at));
        events.find(|(_, event)| wanted(event)).map(|(place, _)| place)
    };
    let mut places = Places {
        request: request(&|event| event.begins("HTTP_TRANSACTION_SEND_REQUEST")),
        request_end: request(&|event| event.ends("HTTP_TRANSACTION_SEND_REQUEST")),
        ..Places::default()
    };
    let heads = log.placed(leg.source).filter(|(at, event)| {
        (leg.from..=leg.to).contains(at) && &*event.name == "HTTP_TRANSACTION_READ_RESPONSE_HEADERS"
    });
    let heads: Vec<usize> = heads.map(|(place, _)| place).collect();
    let Some((head, interim)) = heads.split_last() else { return places };
    // This event marks a completely read header; its first bytes may have arrived earlier.
    let plain = if tls { "SSL_SOCKET_BYTES_RECEIVED" } else { "SOCKET_BYTES_RECEIVED" };
    let sent = places.request_end.unwrap_or(leg.from);
    let begins = |after: usize, head: usize| {
        let mut came = log.placed(socket).filter(|(place, _)| (after..head).contains(place));
        let first = came.find(|(_, event)| &*event.name == plain);
        first.map_or(head, |(place, _)| place + 1)
    };
    places.interim = interim.first().map(|first| begins(sent, *first));
    places.response = Some(begins(interim.last().copied().unwrap_or(sent), *head));
    let broke_off = |event: &NetLogEvent| match &*event.name {
        "CANCELLED" | "FAILED" => true,
        _ => event.ends("HTTP_TRANSACTION_READ_BODY") && event.number("net_error").is_some(),
    };
    if request(&broke_off).is_some() {
        return places;
    }
    let mut events = log.placed(leg.source).filter(|(at, _)| (leg.from..=leg.to).contains(at));
    let read = events.rfind(|(_, event)| &*event.name == "HTTP_TRANSACTION_READ_BODY");
    places.response_end = match read {
        Some((place, event)) => (event.phase == NetLogPhase::End).then_some(place),
        // The response has no body.
        None => Some(*head),
    };
    places
}

fn exchange_marks(
    log: &NetLogRecord,
    socket: u64,
    places: Places,
    origin: Origin,
    connection: &mut Connection,
) {
    let sent_after = |from: usize| {
        let mut events = log.placed(socket).filter(|(place, _)| *place > from);
        events.find(|(_, event)| &*event.name == "SOCKET_BYTES_SENT").map(|(_, event)| event.at_us)
    };
    let mut set = |mark, at: Option<i64>| {
        if let Some(at) = at {
            connection.marks.set(mark, origin.stamp(at));
        }
    };
    let begun = places.request.and_then(sent_after);
    set(Mark::RequestStart, begun);
    // Over HTTP/1.1 the end event follows the last bytes, over HTTP/2 it precedes them.
    let end = places.request_end.and_then(|end| {
        let mut sent = log.placed(socket).filter(|(place, event)| {
            Some(*place) > places.request && *place < end && &*event.name == "SOCKET_BYTES_SENT"
        });
        sent.next_back().map(|(_, event)| event.at_us).or_else(|| sent_after(end))
    });
    set(Mark::RequestEnd, end);
    let came = |place: Option<usize>| place.and_then(|place| arrivals(log, socket, place));
    set(Mark::InterimResponseStart, came(places.interim).map(|[_, readable]| readable));
    if let Some([first, readable]) = came(places.response) {
        set(Mark::ResponseFirstPacket, (first < readable).then_some(first));
        set(Mark::ResponseStart, Some(readable));
    }
    let last = places.response_end.and_then(|end| {
        let mut came = log.placed(socket).filter(|(place, _)| *place < end);
        came.rfind(|(_, event)| &*event.name == "SOCKET_BYTES_RECEIVED")
    });
    set(Mark::ResponseEnd, last.map(|(_, event)| event.at_us));
}

/// Arrival times of the first and the last bytes of the TLS record that was decrypted last before `place`. Without TLS,
/// both are the last arrival.
fn arrivals(log: &NetLogRecord, socket: u64, place: usize) -> Option<[i64; 2]> {
    let mut came: Option<[i64; 2]> = None;
    let mut read_out = false;
    for (_, event) in log.placed(socket).rev().filter(|(at, _)| *at < place) {
        match &*event.name {
            "SOCKET_BYTES_RECEIVED" => {
                came = Some([event.at_us, came.map_or(event.at_us, |[_, last]| last)]);
                if !read_out {
                    // Without encryption, arriving bytes are read directly.
                    return came;
                }
            }
            "SSL_SOCKET_BYTES_RECEIVED" | "SSL_HANDSHAKE_MESSAGE_RECEIVED" => {
                if read_out && came.is_some() {
                    return came;
                }
                read_out = true;
            }
            _ => {}
        }
    }
    came
}

fn flights(
    log: &NetLogRecord,
    socket: u64,
    session: Option<u64>,
    leg: &Leg,
    places: std::ops::RangeInclusive<usize>,
    origin: Origin,
) -> Vec<firstbyte_core::timeline::Flight> {
    let mut events: Vec<(usize, &NetLogEvent)> = log.placed(socket).collect();
    events.extend(session.into_iter().flat_map(|session| log.placed(session)));
    events.extend(log.placed(leg.source).filter(|(place, _)| *place >= leg.from));
    events.sort_by_key(|(place, _)| *place);
    let mut flights = Flights::default();
    let mut keys = [false, false];
    let mut old = true;
    let mut stream = None;
    for (_, event) in events.into_iter().filter(|(place, _)| places.contains(place)) {
        let of_stream = stream.is_some() && event.number("stream_id") == stream;
        let handshake = |direction, encrypted: bool| {
            (direction, facts::message_name(event.number("type").unwrap_or(-1), encrypted))
        };
        let (direction, name) = match &*event.name {
            "SOCKET_BYTES_SENT" | "SOCKET_BYTES_RECEIVED" => {
                let sent = &*event.name == "SOCKET_BYTES_SENT";
                let direction = if sent { Direction::Sent } else { Direction::Received };
                let bytes = event.number("byte_count").unwrap_or(0).unsigned_abs();
                flights.moved(direction, origin.stamp(event.at_us), bytes);
                continue;
            }
            "SSL_HANDSHAKE_MESSAGE_SENT" => {
                let finished = event.number("type") == Some(facts::FINISHED);
                handshake(Direction::Sent, finished || !old && keys[0])
            }
            "SSL_HANDSHAKE_MESSAGE_RECEIVED" => {
                let kind = event.number("type");
                let encrypted = kind == Some(facts::FINISHED) || !old && keys[1];
                if kind == Some(facts::SERVER_HELLO) {
                    let message = event.text("bytes").and_then(facts::base64);
                    let hello = message.as_deref().and_then(facts::ServerHello::read);
                    // A ServerHello of TLS 1.2 has no key share.
                    old = hello.is_none_or(|hello| hello.group.is_none() && !hello.resumed);
                    keys = [hello.is_some_and(|hello| !hello.retry); 2];
                }
                handshake(Direction::Received, encrypted)
            }
            "HTTP2_SESSION_SEND_SETTINGS" => (Direction::Sent, "{SETTINGS}".to_owned()),
            "HTTP2_SESSION_RECV_SETTINGS" => (Direction::Received, "{SETTINGS}".to_owned()),
            "HTTP2_SESSION_SEND_HEADERS" if event.dependency() == leg.job => {
                stream = event.number("stream_id");
                (Direction::Sent, "{HEADERS}".to_owned())
            }
            "HTTP2_SESSION_RECV_HEADERS" if of_stream => {
                (Direction::Received, "{HEADERS}".to_owned())
            }
            "HTTP2_SESSION_RECV_DATA" if of_stream && event.truth("fin") == Some(true) => {
                (Direction::Received, "{DATA}".to_owned())
            }
            "HTTP_TRANSACTION_SEND_REQUEST_HEADERS" if session.is_none() => {
                let line = event.text("line").unwrap_or_default().trim();
                (Direction::Sent, line.to_owned())
            }
            _ => continue,
        };
        flights.message(direction, name);
    }
    flights.finish()
}
