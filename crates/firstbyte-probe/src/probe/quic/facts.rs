//! The facts of a QUIC connection, and the causes of its failures.

use std::time::Duration;

use firstbyte_core::timeline::{
    Cause, Direction, EarlyData, FailureType, Flight, Handshake, QuicFacts, SessionMechanism,
    TlsFacts,
};
use firstbyte_core::wire::quic::SMALLEST_INITIAL;
use quinn_proto::crypto::rustls::HandshakeData;
use quinn_proto::{ConnectionError, TransportErrorCode};
use rustls::pki_types::CertificateDer;

use super::connection::{Connection, Lost};
use super::refused;

/// Factor by which an unvalidated server may send more than it has received (RFC 9000 §8.1).
const AMPLIFICATION: u64 = 3;
impl Connection {
    /// Writes the facts known by now into the observation.
    pub(in crate::probe) fn note_facts(&self) {
        self.noted.set(true);
        let flights = self.recorder().borrow().flights();
        let stats = self.quic.stats();
        let min_rtt = self.connected.then(|| {
            // The stack's own clock readings include the time during which the machine was busy.
            first_answer(&flights).into_iter().chain([self.quic.min_rtt()]).min()
        });
        let min_rtt = min_rtt.flatten();
        let validation = validation(&flights, min_rtt);
        let facts = QuicFacts {
            version: self.wire.version.map(version_name),
            min_rtt,
            datagrams_sent: Some(self.wire.sent),
            datagrams_received: Some(self.wire.received),
            lost_packets: Some(stats.path.lost_packets),
            retry: self.wire.retry,
            bytes_before_validation: validation.map(|v| v.bytes),
            amplification_stall: validation.and_then(|v| v.stall),
            congestion_control: Some("cubic".into()),
            datagrams: self.ledger.datagrams(&self.recorder().borrow()),
            // The log is made later, when nothing is waiting.
            log: None,
        };
        let mut seen = self.seen.borrow_mut();
        let reused = seen.connection.facts.reused;
        seen.connection.facts.quic = Some(if reused {
            // Facts of the handshake do not belong to this exchange.
            QuicFacts {
                retry: false,
                bytes_before_validation: None,
                amplification_stall: None,
                ..facts
            }
        } else {
            facts
        });
        if !reused {
            seen.connection.facts.tls = Some(self.tls_facts());
        }
    }

    fn tls_facts(&self) -> TlsFacts {
        let session = self.quic.crypto_session();
        let protocol = session
            .handshake_data()
            .and_then(|data| data.downcast::<HandshakeData>().ok())
            .and_then(|data| data.protocol);
        let shown = self.tls.shown();
        let full = self.tls.was_certified();
        let chain = session
            .peer_identity()
            .and_then(|identity| identity.downcast::<Vec<CertificateDer<'static>>>().ok())
            .filter(|_| full)
            .map_or(shown.chain, |chain| *chain);
        TlsFacts {
            version: self.connected.then(|| "TLSv1.3".into()),
            // The stack does not report the group; if only one is offered, it must be that.
            group: self.tls.only_group.clone().filter(|_| self.connected),
            handshake: self.connected.then_some(if full {
                Handshake::Full
            } else {
                Handshake::Resumed
            }),
            session_offered: self.tls.had_session.then_some(SessionMechanism::Psk),
            early_data_allowed: self.early_allowed,
            early_data: self.early.map(|early| EarlyData {
                bytes_before_server_hello: Some(self.wire.early_bytes),
                accepted: early.accepted,
            }),
            alpn: protocol.map(|p| String::from_utf8_lossy(&p).into_owned()),
            certificates: if full { self.tls.certificates.describe(&chain) } else { Vec::new() },
            verified: shown.verified.filter(|_| full),
            ..TlsFacts::default()
        }
    }

    /// The cause of the end of the connection.
    pub(in crate::probe) fn cause(&mut self, lost: &Lost) -> Cause {
        let error = match lost {
            Lost::Socket { kind, detail, operation } if self.wire.received > 0 => {
                let _ = kind;
                return Cause::Io { operation, detail: detail.clone() };
            }
            Lost::Socket { kind, .. } => return refused(self.remote, &(*kind).into()),
            Lost::Quic(error) => error,
        };
        match error {
            ConnectionError::TimedOut if !self.connected => {
                let seen = self.seen.borrow();
                let begun = seen.connection.attempts.last().map(|attempt| attempt.start);
                let after = begun.map_or(Duration::ZERO, |at| seen.timebase.now().at.since(at));
                Cause::QuicConnectTimedOut { remote: self.remote, after }
            }
            ConnectionError::TimedOut => Cause::Quic {
                detail: "the server sent nothing within its idle timeout".into(),
                failure_type: FailureType::QuicTimedOut,
            },
            ConnectionError::TransportError(error) => {
                self.tls.certificate_cause().filter(|_| !self.connected).unwrap_or_else(|| {
                    Cause::Quic {
                        detail: error.to_string(),
                        failure_type: FailureType::QuicProtocolError,
                    }
                })
            }
            ConnectionError::ConnectionClosed(close) if !self.connected => {
                match alert(close.error_code) {
                    Some(alert) => self.tls.alert_cause(alert),
                    None => ended(error, FailureType::QuicClosed),
                }
            }
            ConnectionError::ConnectionClosed(_) | ConnectionError::ApplicationClosed(_) => {
                ended(error, FailureType::QuicClosed)
            }
            ConnectionError::Reset => ended(error, FailureType::QuicReset),
            ConnectionError::VersionMismatch
            | ConnectionError::LocallyClosed
            | ConnectionError::CidsExhausted => ended(error, FailureType::QuicFailed),
        }
    }
}

fn ended(error: &ConnectionError, failure_type: FailureType) -> Cause {
    Cause::Quic { detail: error.to_string(), failure_type }
}

/// The TLS alert that a transport error represents (RFC 9001 §4.8).
fn alert(code: TransportErrorCode) -> Option<u8> {
    let code = u64::from(code);
    (0x100..=0x1ff).contains(&code).then(|| u8::try_from(code - 0x100).unwrap_or(u8::MAX))
}

fn version_name(version: u32) -> String {
    match version {
        1 => "1".into(),
        0x6b33_43cf => "2".into(),
        other => format!("{other:#010x}"),
    }
}

/// The server's data before the client's address was validated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Validation {
    bytes: u64,
    stall: Option<Duration>,
}

/// The time from the departure of the first datagram to the arrival of the first one from the server, which takes at
/// least a round trip.
fn first_answer(flights: &[Flight]) -> Option<Duration> {
    let sent = flights.iter().position(|flight| flight.direction == Direction::Sent)?;
    let answer = flights[sent..].iter().find(|flight| flight.direction == Direction::Received)?;
    Some(answer.first().since(flights[sent].first()))
}

/// Finds the server's first flight, and whether it stalled at its limit: there was no room for another Initial, and it
/// continued a round trip after the client's next datagram.
///
/// Some stacks begin a datagram while there is any room left, and so exceed the limit by part of one.
fn validation(flights: &[Flight], min_rtt: Option<Duration>) -> Option<Validation> {
    let rtt = min_rtt?;
    let first = flights.iter().position(|flight| flight.direction == Direction::Sent)?;
    let (sent, rest) = (flights[first].bytes(), &flights[first + 1..]);
    let mut bytes = 0;
    let mut answered = None;
    for flight in rest {
        match flight.direction {
            Direction::Sent => {
                answered.get_or_insert(flight.first());
            }
            Direction::Received => {
                for chunk in &flight.chunks {
                    // Before this, nothing that the client sent in reply can have had an effect.
                    let validated =
                        answered.is_some_and(|at| chunk.stamp.at.since(at) >= rtt * 3 / 4);
                    if !validated {
                        bytes += chunk.bytes;
                        continue;
                    }
                    let limit = AMPLIFICATION * sent;
                    let stood_still = bytes.abs_diff(limit) < SMALLEST_INITIAL as u64;
                    let last = last_before(rest, chunk.stamp.at);
                    let handshaking = flight.messages.iter().any(|name| name == "Handshake");
                    let stall = last
                        .filter(|_| stood_still && handshaking)
                        .map(|last| chunk.stamp.at.since(last))
                        .filter(|gap| *gap >= rtt / 2);
                    return Some(Validation { bytes, stall });
                }
            }
        }
    }
    Some(Validation { bytes, stall: None })
}

/// The arrival of the last datagram before `at`.
fn last_before(
    flights: &[Flight],
    at: firstbyte_core::timeline::Offset,
) -> Option<firstbyte_core::timeline::Offset> {
    flights
        .iter()
        .filter(|flight| flight.direction == Direction::Received)
        .flat_map(|flight| &flight.chunks)
        .map(|chunk| chunk.stamp.at)
        .filter(|arrived| *arrived < at)
        .max()
}

#[cfg(test)]
mod tests {
    use firstbyte_core::timeline::{Chunk, Offset, Stamp};

    use super::*;

    fn flight(direction: Direction, chunks: &[(i64, u64)], name: &str) -> Flight {
        let chunk = |(ms, bytes): &(i64, u64)| {
            Chunk::new(Stamp::kernel(Offset::from_nanos(ms * 1_000_000)), *bytes)
        };
        let chunks = chunks.iter().map(chunk).collect();
        Flight { direction, chunks, messages: vec![name.into()] }
    }

    #[test]
    fn a_server_at_three_times_what_it_got_stands_still_for_a_round_trip() {
        let stalled = [
            flight(Direction::Sent, &[(0, 1_200)], "Initial"),
            flight(Direction::Received, &[(50, 1_200), (50, 1_200), (51, 1_200)], "Handshake"),
            flight(Direction::Sent, &[(52, 80)], "Handshake"),
            flight(Direction::Received, &[(102, 900)], "Handshake"),
        ];
        let rtt = Some(Duration::from_millis(50));
        let found = validation(&stalled, rtt).unwrap();
        assert_eq!((found.bytes, found.stall), (3_600, Some(Duration::from_millis(51))));
        let mut roomy = stalled;
        roomy[1].chunks.truncate(1);
        assert_eq!(validation(&roomy, rtt).unwrap().stall, None);
    }
}
