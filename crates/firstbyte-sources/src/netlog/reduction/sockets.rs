//! Events of sockets and sessions: TCP, proxy tunnels, TLS, HTTP/2, QUIC.

use std::rc::Rc;

use super::super::open::{AttemptError, OpenAttempt, OpenConnection, Shared, Stretch};
use super::super::{NetLogEvent, NetLogPhase};
use super::{MOST_OPEN, NetLogReduction, entry};

/// Maximum number of tickets that a client keeps for a host; it uses each once.
const TICKETS_KEPT: u32 = 2;
/// Handshake message types (IANA TLS HandshakeType).
const CLIENT_HELLO: i64 = 1;
const SERVER_HELLO: i64 = 2;
const NEW_SESSION_TICKET: i64 = 4;
/// `ssl_early_data_accepted` of BoringSSL's `ssl_early_data_reason_t`; smaller values mean that nothing was decided.
const EARLY_DATA_ACCEPTED: i64 = 2;

impl NetLogReduction {
    pub(super) fn socket_event(&mut self, event: &NetLogEvent) {
        if event.ends("SOCKET_ALIVE") {
            if let Some(connection) = self.connections.remove(&event.source) {
                give_up(&connection.borrow(), event);
            }
            return;
        }
        let shared = entry(&mut self.connections, event.source, &mut self.not_followed);
        let mut socket = shared.borrow_mut();
        socket.number = event.source;
        let at = Some(event.at_us);
        match (&*event.name, event.phase) {
            ("SOCKET_ALIVE", NetLogPhase::Begin) => {
                socket.begin = at;
                let job = event.dependency().and_then(|number| self.connect_jobs.get(&number));
                socket.job = job.map(Rc::clone);
            }
            ("TCP_CONNECT_ATTEMPT", NetLogPhase::Begin) => {
                let job = socket.job.get_or_insert_with(Shared::default);
                let attempts = &mut job.borrow_mut().attempts;
                // No name has more addresses that are worth showing.
                if let Some(address) = event.text("address").filter(|_| attempts.len() < 64) {
                    attempts.push(OpenAttempt {
                        socket: event.source,
                        address: address.to_owned(),
                        time: Stretch { begin: at, end: None },
                        is_connected: false,
                        error: None,
                    });
                }
            }
            ("TCP_CONNECT_ATTEMPT", NetLogPhase::End) => {
                let error = event.number("os_error").map(AttemptError::System);
                of_last_attempt(&socket, |attempt| {
                    attempt.time.end = at;
                    attempt.is_connected = error.is_none();
                    attempt.error = error;
                });
            }
            ("TCP_CONNECT", NetLogPhase::End) => {
                socket.remote = event.text("remote_address").map(str::to_owned);
                let error = event.number("net_error").filter(|error| *error != 0);
                if let Some(error) = error {
                    of_last_attempt(&socket, |attempt| {
                        attempt.is_connected = false;
                        attempt.error = Some(AttemptError::Net(error));
                    });
                }
            }
            ("HTTP_TRANSACTION_TUNNEL_SEND_REQUEST", NetLogPhase::Begin) => {
                socket.tunnel.begin = at;
            }
            ("HTTP_TRANSACTION_TUNNEL_READ_HEADERS", NetLogPhase::End) => socket.tunnel.end = at,
            _ => self.tls_event(event, &mut socket),
        }
    }

    fn tls_event(&mut self, event: &NetLogEvent, socket: &mut OpenConnection) {
        let group = socket.job.as_ref().and_then(|job| job.borrow().group.clone());
        match (&*event.name, event.phase) {
            ("SSL_CONNECT", NetLogPhase::Begin) => {
                socket.handshake.begin = Some(event.at_us);
                if let Some(left) = group.and_then(|group| self.tickets.get_mut(&group)) {
                    socket.ticket_held = *left > 0;
                    *left = left.saturating_sub(1);
                }
            }
            ("SSL_CONNECT", NetLogPhase::End) => {
                socket.handshake.end = Some(event.at_us);
                socket.tls_version = event.text("version").map(str::to_owned);
                socket.cipher_suite = event.number("cipher_suite");
                socket.group = event.number("key_exchange_group");
                let alpn = event.text("next_proto").filter(|alpn| *alpn != "unknown");
                socket.alpn = alpn.map(str::to_owned);
                socket.resumed = event.truth("is_resumed");
                socket.encrypted_hello = event.truth("encrypted_client_hello");
            }
            ("SSL_HANDSHAKE_MESSAGE_SENT", _)
                if event.number("type") == Some(CLIENT_HELLO) && socket.client_hellos.len() < 2 =>
            {
                socket.client_hellos.push(event.at_us);
            }
            ("SSL_HANDSHAKE_MESSAGE_RECEIVED", _) => match event.number("type") {
                Some(SERVER_HELLO) if socket.server_hellos.len() < 2 => {
                    socket.server_hellos.push(event.at_us);
                }
                Some(NEW_SESSION_TICKET) => {
                    let known = self.tickets.len();
                    if let Some(group) =
                        group.filter(|it| known < MOST_OPEN || self.tickets.contains_key(it))
                    {
                        let left = self.tickets.entry(group).or_default();
                        *left = (*left + 1).min(TICKETS_KEPT);
                    }
                }
                _ => {}
            },
            ("SSL_HANDSHAKE_EARLY_DATA_REASON", _) => {
                let reason = event.number("early_data_reason");
                let decided = reason.filter(|reason| *reason >= EARLY_DATA_ACCEPTED);
                socket.early_data = decided.map(|reason| reason == EARLY_DATA_ACCEPTED);
            }
            _ => {}
        }
    }

    pub(super) fn session_event(&mut self, event: &NetLogEvent) {
        match (&*event.name, event.phase) {
            ("HTTP2_SESSION", NetLogPhase::End) => {
                self.sessions.remove(&event.source);
            }
            ("HTTP2_SESSION_INITIALIZED", _) => {
                let socket = event.dependency().and_then(|number| self.connections.get(&number));
                if let Some(socket) = socket.filter(|_| self.sessions.len() < MOST_OPEN) {
                    self.sessions.insert(event.source, Rc::clone(socket));
                }
            }
            _ => {}
        }
    }

    pub(super) fn quic_event(&mut self, event: &NetLogEvent) {
        if event.ends("QUIC_SESSION") {
            self.connections.remove(&event.source);
            return;
        }
        let shared = entry(&mut self.connections, event.source, &mut self.not_followed);
        let mut session = shared.borrow_mut();
        (session.number, session.quic) = (event.source, true);
        let at = Some(event.at_us);
        match (&*event.name, event.phase) {
            ("QUIC_SESSION", NetLogPhase::Begin) => {
                session.begin = at;
                session.handshake.begin = at;
                let authority = event.text("host").zip(event.number("port"));
                session.authority = authority.map(|(host, port)| format!("{host}:{port}"));
                session.tls_version = Some("TLS 1.3".into());
            }
            ("QUIC_SESSION_PACKET_RECEIVED", _) => {
                session.answered = true;
                if session.remote.is_none() {
                    session.remote = event.text("peer_address").map(str::to_owned);
                }
            }
            ("QUIC_SESSION_PACKET_LOST", _) => session.lost_packets += 1,
            ("QUIC_SESSION_VERSION_NEGOTIATED", _) => {
                session.quic_version = event.text("version").map(str::to_owned);
            }
            ("QUIC_SESSION_VERSION_NEGOTIATION_PACKET_RECEIVED", _) => {
                session.version_negotiation = true;
            }
            ("QUIC_SESSION_CRYPTO_HANDSHAKE_COMPLETE", _) => {
                session.handshake.end = session.handshake.end.or(at);
                session.alpn = Some("h3".into());
            }
            // Remembered server parameters exist only together with a session.
            ("QUIC_SESSION_TRANSPORT_PARAMETERS_RESUMED", _) => session.resumed = Some(true),
            ("QUIC_SESSION_ZERO_RTT_REJECTED", _) => session.early_data = Some(false),
            ("QUIC_SESSION_ZERO_RTT_STATE", _) => match event.text("state") {
                Some("AttemptedAndSucceeded") => session.early_data = Some(true),
                Some("AttemptedAndRejected") => session.early_data = Some(false),
                _ => {}
            },
            ("QUIC_SESSION_CLOSED", _) => {
                session.quic_error = event.number("quic_error").or(session.quic_error);
            }
            _ => {}
        }
    }
}

/// Applies `change` to the latest attempt of this socket.
fn of_last_attempt(socket: &OpenConnection, change: impl FnOnce(&mut OpenAttempt)) {
    let Some(job) = &socket.job else { return };
    let mut job = job.borrow_mut();
    let own = |attempt: &&mut OpenAttempt| attempt.socket == socket.number;
    if let Some(attempt) = job.attempts.iter_mut().rev().find(own) {
        change(attempt);
    }
}

/// The socket is closed, which ends its current attempt.
fn give_up(socket: &OpenConnection, event: &NetLogEvent) {
    of_last_attempt(socket, |attempt| {
        attempt.time.end.get_or_insert(event.at_us);
    });
}
