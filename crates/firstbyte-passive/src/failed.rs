//! Whether a connection failed, and how.
//!
//! In: an [`Observed`]. Out: the way it failed, only where the capture shows it: a handshake of which a part
//! is missing may have come to its end.

use super::observed::{ANSWER_WITHIN, TlsSeen};
use super::{Carrier, Doubts, Ending, Observed};
use firstbyte_core::timeline::FailureType;

/// A way for a connection to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failed {
    /// The server refused it.
    Refused,
    /// Nothing answered.
    Unanswered,
    /// An alert ended the handshake.
    Alert,
    /// A reset ended the handshake.
    Reset,
    /// It was closed before the handshake was over.
    Closed,
}

const SSL_2_0: u16 = 0x0002;

/// What a capture may lack of a handshake.
const INCOMPLETE: Doubts = Doubts::MID_STREAM
    .with(Doubts::ONE_SIDED)
    .with(Doubts::GAP)
    .with(Doubts::CUT)
    .with(Doubts::RECORDS_LOST)
    .with(Doubts::TOO_MUCH_HELD)
    .with(Doubts::MALFORMED_HANDSHAKE)
    .with(Doubts::FRAMES_DROPPED);

impl Failed {
    /// Every way.
    pub const ALL: [Self; 5] =
        [Self::Refused, Self::Unanswered, Self::Alert, Self::Reset, Self::Closed];

    /// Every type that a failure in a capture can be of.
    pub const TYPES: [FailureType; 17] = [
        FailureType::TcpTimedOut,
        FailureType::TcpClosed,
        FailureType::TcpReset,
        FailureType::TcpRefused,
        FailureType::TlsVersionOrCipherMismatch,
        FailureType::TlsBadClientAuthCert,
        FailureType::TlsCertDateInvalid,
        FailureType::TlsCertAuthorityInvalid,
        FailureType::TlsCertInvalid,
        FailureType::TlsCertRevoked,
        FailureType::TlsProtocolError,
        FailureType::TlsFailed,
        FailureType::QuicTimedOut,
        FailureType::QuicClosed,
        FailureType::QuicReset,
        FailureType::QuicRefused,
        FailureType::Abandoned,
    ];

    /// The name used in stored forms.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Unanswered => "unanswered",
            Self::Alert => "alert",
            Self::Reset => "reset",
            Self::Closed => "closed",
        }
    }

    /// The type of this failure of `observed`, in the words that all sources share.
    ///
    /// Of a client that leaves in the middle of the handshake a capture does not show why.
    pub fn failure_type(self, observed: &Observed) -> FailureType {
        let quic = observed.carrier == Carrier::Quic;
        let by_client = observed.closing.is_some_and(|closing| closing.by_client);
        let alert = observed.tls.as_deref().and_then(|tls| tls.alert);
        match self {
            Self::Refused if quic => FailureType::QuicRefused,
            Self::Refused => FailureType::TcpRefused,
            Self::Unanswered if quic => FailureType::QuicTimedOut,
            Self::Unanswered => FailureType::TcpTimedOut,
            Self::Alert => {
                match alert.and_then(|alert| Some((alert.description?, alert.by_client))) {
                    Some((description, by_client)) => {
                        FailureType::from_alert(description, by_client)
                    }
                    // Encrypted.
                    None => FailureType::TlsFailed,
                }
            }
            Self::Reset | Self::Closed if by_client => FailureType::Abandoned,
            Self::Reset if quic => FailureType::QuicReset,
            Self::Reset => FailureType::TcpReset,
            Self::Closed if quic => FailureType::QuicClosed,
            Self::Closed => FailureType::TcpClosed,
        }
    }

    /// How `observed` failed; absent when it did not, or it cannot be known.
    pub fn judge(observed: &Observed) -> Option<Self> {
        match observed.ending {
            Ending::Refused => return Some(Self::Refused),
            Ending::Unanswered => return Some(Self::Unanswered),
            _ => {}
        }
        let tls = observed.tls.as_deref().filter(|tls| tls.client_hello)?;
        if tls.complete {
            return Self::behind_the_finished(observed, tls);
        }
        // Messages of SSL 2.0 are not followed to their end.
        if tls.version == Some(SSL_2_0) {
            return None;
        }
        let complete = !observed.doubts.any(INCOMPLETE);
        let over = matches!(
            observed.ending,
            Ending::Closed | Ending::ResetByClient | Ending::ResetByServer
        );
        let closing = observed.closing.filter(|_| over);
        let alert = tls.alert.filter(|alert| {
            // What one end says when the other has left is not why.
            let too_late = observed.closing.is_some_and(|closing| {
                closing.by_client != alert.by_client && closing.at < alert.at
            });
            // After a warning the handshake may go on.
            let last =
                observed.flights.last().is_none_or(|last| last.messages.last() == Some(&"Alert"));
            let ends = !alert.warning || last && closing.is_some();
            // One that cannot be read says nothing where something is missing: it may be that of a proper end.
            ends && !too_late && (complete || !alert.warning && alert.description.is_some())
        });
        match (alert, closing) {
            (Some(_), _) => Some(Self::Alert),
            (None, Some(closing)) if complete => {
                Some(if closing.reset { Self::Reset } else { Self::Closed })
            }
            _ => None,
        }
    }

    /// TLS 1.3: the client has nothing of the server's that says whether it took its last flight. A server that
    /// refuses it (its certificate) sends an alert, or leaves, before anything else.
    fn behind_the_finished(observed: &Observed, tls: &TlsSeen) -> Option<Self> {
        if !tls.unconfirmed || observed.doubts.any(INCOMPLETE) {
            return None;
        }
        let finished = observed.flights.iter().rfind(|flight| flight.by_client)?.end;
        let alert = tls.alert.filter(|alert| !alert.by_client);
        let (way, at) = match (alert, observed.closing) {
            (alert, Some(closing)) if closing.by_client => {
                // What one end says when the other has left is not why.
                let alert = alert.filter(|alert| alert.at <= closing.at)?;
                (Self::Alert, alert.at)
            }
            (Some(alert), _) => (Self::Alert, alert.at),
            (None, Some(closing)) if closing.reset => (Self::Reset, closing.at),
            (None, Some(closing)) => (Self::Closed, closing.at),
            (None, None) => return None,
        };
        // Long after, with nothing asked, it is the end of a connection that was not used.
        let asked = observed.exchanges.count.is_some_and(|count| count > 0);
        (asked || at.since(finished) < ANSWER_WITHIN).then_some(way)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_alerts_say_is_among_the_types() {
        for description in 0..=u8::MAX {
            for by_client in [false, true] {
                let found = FailureType::from_alert(description, by_client);
                assert!(Failed::TYPES.contains(&found), "{description}: {found}");
            }
        }
    }
}
