//! Converts an [`Observed`] connection into the common model, so that every view can show it.
//!
//! In: an [`Observed`]. Out: a [`Connection`] as the client saw it: the client sent each packet half a round trip
//! between client and tap before the tap saw it, and received the server's packets half of it later. The model holds
//! only the first exchange, as everywhere. Nothing of it is stored. Encrypted messages have no names: whatever they are
//! taken for, they appear as [`ENCRYPTED_RECORDS`] or [`ENCRYPTED_PACKETS`].

use std::time::Duration;

use super::observed::{Ending, Exchange, FlightSeen, Message, Observed, QuicSeen, TlsSeen};
use super::{AlertSeen, Carrier, Closing, Doubts, Failed, Time, names};
use firstbyte_core::timeline::{
    Attempt, AttemptOutcome, Cause, Certificate, Chunk, Clock, Connection, Direction, EarlyData,
    Facts, Failure, Flight, Mark, Offset, OpenEnd, PhaseName, QuicFacts, Stamp, TcpFacts, TlsFacts,
};

/// Name for the messages of a flight that the path cannot read.
pub const ENCRYPTED_RECORDS: &str = "encrypted records";
/// The same for QUIC.
pub const ENCRYPTED_PACKETS: &str = "encrypted packets";

/// Converts a connection to what its client saw.
pub fn connection(observed: &Observed) -> Connection {
    seen_from(&View::from_observed(observed))
}

/// The same for a capture made on the client itself: capture times are the times at which packets left or arrived.
pub fn connection_captured_at_client(observed: &Observed) -> Connection {
    seen_from(&View {
        half: Duration::ZERO,
        clock: Clock::Kernel,
        origin: observed.started,
        observed,
    })
}

fn seen_from(view: &View<'_>) -> Connection {
    let observed = view.observed;
    let mut connection = Connection {
        started_unix_ns: u64::try_from(view.origin.unix_ns()).ok(),
        facts: facts(observed),
        ..Connection::default()
    };
    view.marks(&mut connection);
    view.attempt(&mut connection);
    view.flights(&mut connection);
    connection.failure = view.failure();
    connection.open_end = view.open_end().filter(|_| connection.failure.is_none());
    connection
}

/// A capture, converted to the client's point of view.
struct View<'a> {
    observed: &'a Observed,
    origin: Time,
    /// Half the round trip between client and tap.
    half: Duration,
    clock: Clock,
}

impl<'a> View<'a> {
    fn from_observed(observed: &'a Observed) -> Self {
        let half = observed.round_trips.client_min.unwrap_or_default() / 2;
        let clock = if half.is_zero() { Clock::Kernel } else { Clock::KernelDerived };
        let half_ns = i64::try_from(half.as_nanos()).unwrap_or(0);
        let origin = Time::from_unix_ns(observed.started.unix_ns().saturating_sub(half_ns));
        Self { observed, origin, half, clock }
    }

    /// When the client sent, or received, what the tap saw at `at`.
    fn stamp(&self, at: Time, direction: Direction) -> Stamp {
        let seen = Offset::from_nanos(at.signed_since(self.origin));
        let at = match direction {
            Direction::Sent => seen - self.half,
            Direction::Received => seen + self.half,
        };
        Stamp { at, clock: self.clock }
    }

    fn marks(&self, connection: &mut Connection) {
        use Direction::{Received, Sent};
        let observed = self.observed;
        let mut set = |mark, at: Option<Time>, direction| {
            if let Some(at) = at {
                connection.marks.set(mark, self.stamp(at, direction));
            }
        };
        let tcp = observed.carrier == Carrier::Tcp;
        set(Mark::ConnectStart, observed.opening[0], Sent);
        set(Mark::TcpConnected, observed.opening[1].filter(|_| tcp), Received);
        let Some(tls) = &observed.tls else { return };
        // QUIC has no separate connection set-up before TLS.
        match observed.carrier {
            Carrier::Tcp => set(Mark::SecureConnectionStart, observed.opening[1], Received),
            Carrier::Quic => set(Mark::SecureConnectionStart, observed.opening[0], Sent),
        }
        let first = self.first_exchange();
        if tls.complete
            && let Some(last) = self.last_waited_for(first)
        {
            let direction = if last.by_client { Sent } else { Received };
            set(Mark::HandshakeComplete, Some(last.end), direction);
        }
        if let Some(first) = first {
            set(Mark::RequestStart, Some(first.request_start), Sent);
            set(Mark::RequestEnd, Some(first.request_end), Sent);
            if first.first_record_ns > 0 {
                set(Mark::ResponseFirstPacket, first.response_first_packet, Received);
            }
            set(Mark::ResponseStart, first.response_start(), Received);
            set(Mark::ResponseEnd, first.response_end, Received);
        }
    }

    /// The flight that completed the handshake for the client: the last one, or the client's own last one if it made a
    /// false start (RFC 7918), which does not wait for the server's Finished.
    fn last_waited_for(&self, first: Option<&Exchange>) -> Option<&'a FlightSeen> {
        let last = self.observed.flights.last()?;
        let own = self.observed.flights.iter().rfind(|flight| flight.by_client)?;
        let false_start = |exchange: &Exchange| {
            !last.by_client && (own.end..last.end).contains(&exchange.request_start)
        };
        Some(if first.is_some_and(false_start) { own } else { last })
    }

    fn first_exchange(&self) -> Option<&'a Exchange> {
        self.observed.exchanges.first.first()
    }

    fn attempt(&self, connection: &mut Connection) {
        let Some(start) = connection.marks.at(Mark::ConnectStart) else { return };
        let end = connection.marks.at(Mark::TcpConnected);
        let outcome = match self.observed.ending {
            Ending::Refused => AttemptOutcome::Failed { error: "connection refused".into() },
            Ending::Unanswered => AttemptOutcome::Failed { error: "no answer".into() },
            _ => AttemptOutcome::Won,
        };
        let remote = self.observed.server.socket_addr();
        connection.attempts.push(Attempt { remote, start, end, outcome });
    }

    fn flights(&self, connection: &mut Connection) {
        let complete = self.observed.tls.as_ref().is_some_and(|tls| tls.complete);
        let left = self.observed.closing.filter(|closing| !complete && !closing.by_client);
        for flight in &self.observed.flights {
            // The server had already closed the connection, so nothing received this flight.
            if flight.by_client && left.is_some_and(|closing| closing.at <= flight.start) {
                break;
            }
            let direction = if flight.by_client { Direction::Sent } else { Direction::Received };
            let messages = self.named(&flight.messages);
            let chunks = self.chunks(flight.start, flight.end, flight.bytes, direction);
            connection.flights.push(Flight { direction, chunks, messages });
        }
        let Some(first) = self.first_exchange() else { return };
        let early = self.observed.flights.first().is_some_and(|f| f.start == first.request_start);
        if !early {
            let chunks = self.chunks(
                first.request_start,
                first.request_end,
                first.request_bytes,
                Direction::Sent,
            );
            let messages = vec!["(request)".to_owned()];
            connection.flights.push(Flight { direction: Direction::Sent, chunks, messages });
        }
        if let (Some(start), Some(end)) = (first.response_first_packet, first.response_end) {
            let chunks = self.chunks(start, end, first.response_bytes, Direction::Received);
            let messages = Vec::new();
            connection.flights.push(Flight { direction: Direction::Received, chunks, messages });
        }
        connection.flights.sort_by_key(Flight::first);
    }

    /// Names of the messages in a flight; all encrypted ones share one name.
    fn named(&self, messages: &[Message]) -> Vec<String> {
        let encrypted = match self.observed.carrier {
            Carrier::Tcp => ENCRYPTED_RECORDS,
            Carrier::Quic => ENCRYPTED_PACKETS,
        };
        let mut names: Vec<String> = Vec::new();
        for message in messages {
            let name = if message.starts_with('{') { encrypted } else { message };
            if name != encrypted || names.iter().all(|earlier| earlier != encrypted) {
                names.push(name.to_owned());
            }
        }
        names
    }

    /// Only a flight's start, end and length are kept, so all its bytes are put at its end.
    fn chunks(&self, start: Time, end: Time, bytes: u64, direction: Direction) -> Vec<Chunk> {
        let chunk = |at, bytes| Chunk::new(self.stamp(at, direction), bytes);
        if start == end {
            return vec![chunk(end, bytes)];
        }
        vec![chunk(start, 0), chunk(end, bytes)]
    }

    /// When the last flight ended.
    fn last_flight(&self) -> Option<Offset> {
        let observed = self.observed;
        let last = observed.flights.last().map_or(observed.last, |flight| flight.end);
        Some(self.stamp(last, Direction::Received).at)
    }

    const fn handshake(&self) -> PhaseName {
        match self.observed.carrier {
            Carrier::Tcp => PhaseName::Tls,
            Carrier::Quic => PhaseName::Quic,
        }
    }

    /// Set if the capture does not show how the handshake ended and the connection is not known to have failed.
    fn open_end(&self) -> Option<OpenEnd> {
        self.observed.tls.as_deref().filter(|tls| !tls.complete)?;
        Some(OpenEnd { phase: self.handshake(), at: self.last_flight() })
    }

    /// Why the handshake failed.
    fn failure(&self) -> Option<Failure> {
        let observed = self.observed;
        let remote = observed.server.socket_addr();
        if observed.ending == Ending::Refused {
            let (phase, cause) = (PhaseName::Connect, Cause::Refused { remote });
            return Some(Failure { phase, cause, at: self.last_flight() });
        }
        let failed = Failed::judge(observed)?;
        let tls = observed.tls.as_deref()?;
        let end = |at, by_client| {
            let direction = if by_client { Direction::Sent } else { Direction::Received };
            Some(self.stamp(at, direction).at)
        };
        let (message, at) = match (failed, tls.alert, observed.closing) {
            (Failed::Alert, Some(alert), _) => (alerted(alert), end(alert.at, alert.by_client)),
            (Failed::Reset | Failed::Closed, _, Some(closing)) => {
                (self.left(tls, closing), end(closing.at, closing.by_client))
            }
            _ => return None,
        };
        let (name, failure_type) = (failed.name(), failed.failure_type(observed));
        let cause = Cause::Captured { name, failure_type, message };
        Some(Failure { phase: self.handshake(), cause, at })
    }

    /// Describes which end left in the middle of the handshake, and what it had waited for.
    fn left(&self, tls: &TlsSeen, closing: Closing) -> String {
        let who = if closing.by_client { "client" } else { "server" };
        let how = if closing.reset { "reset" } else { "closed" };
        let hello = self.observed.flights.iter().rfind(|flight| flight.by_client);
        match hello.filter(|_| closing.by_client && !tls.server_hello) {
            Some(_) if self.observed.doubts.any(Doubts::UNTIMED) => {
                format!("the {who} {how} the connection: no ServerHello")
            }
            Some(hello) => {
                let waited = closing.at.since(hello.end).as_secs_f64();
                format!("the {who} {how} the connection: no ServerHello within {waited:.3} s")
            }
            None => format!("the {who} {how} the connection in the middle of the handshake"),
        }
    }
}

fn alerted(alert: AlertSeen) -> String {
    let who = if alert.by_client { "client" } else { "server" };
    match alert.description {
        Some(number) => {
            let name = names::alert(number).map_or_else(|| number.to_string(), str::to_owned);
            format!("the {who} sent the TLS alert {name}")
        }
        None => format!("the {who} sent an encrypted TLS alert"),
    }
}

fn facts(observed: &Observed) -> Facts {
    let trips = &observed.round_trips;
    let syn_rtt = trips.server_syn.zip(trips.client_syn).map(|(server, client)| server + client);
    let tcp = TcpFacts {
        syn_rtt,
        min_rtt: trips.path(),
        retransmits: Some(observed.sent.retransmitted),
        ..TcpFacts::default()
    };
    Facts {
        remote: Some(observed.server.socket_addr()),
        local: Some(observed.client.socket_addr()),
        tcp: (observed.carrier == Carrier::Tcp).then_some(tcp),
        quic: observed.quic.as_deref().map(|quic| quic_facts(observed, quic)),
        tls: observed.tls.as_deref().map(tls_facts),
        ..Facts::default()
    }
}

fn quic_facts(observed: &Observed, quic: &QuicSeen) -> QuicFacts {
    QuicFacts {
        version: quic.version.map(names::quic_version),
        min_rtt: observed.round_trips.path(),
        datagrams_sent: Some(observed.sent.packets),
        datagrams_received: Some(observed.received.packets),
        retry: quic.retries > 0,
        bytes_before_validation: quic.unvalidated_bytes,
        amplification_stall: quic.limit_stall,
        ..QuicFacts::default()
    }
}

fn tls_facts(tls: &TlsSeen) -> TlsFacts {
    let early = tls.early_data.filter(|early| early.bytes > 0);
    // Only the total length of all certificates is known, and the key of the first, so they are shown as one.
    let certificates = tls.certificates.filter(|seen| seen.count > 0).map(|seen| Certificate {
        key: seen.key.map(|key| key.name()).unwrap_or_default(),
        der_bytes: seen.chain_bytes,
        ..Certificate::default()
    });
    TlsFacts {
        version: tls.version.and_then(names::version).map(str::to_owned),
        cipher_suite: tls.cipher_suite.map(names::cipher_suite),
        group: tls.group.map(names::group),
        handshake: tls.handshake,
        session_offered: tls.resumption.offered,
        early_data_allowed: None,
        early_data: early.map(|early| EarlyData {
            bytes_before_server_hello: Some(early.bytes),
            accepted: early.accepted,
        }),
        alpn: tls.alpn.as_deref().map(str::to_owned),
        certificates: certificates.into_iter().collect(),
        verified: None,
        tickets_received: tls.tickets.or(tls.tickets_inferred),
    }
}
