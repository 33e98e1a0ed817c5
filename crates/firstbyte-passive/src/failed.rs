//! Whether a connection failed, and how.
//!
//! In: an [`Observed`]. Out: how it failed, but only if the capture shows it: a handshake with a missing part may have
//! completed.

use super::observed::{ANSWER_WITHIN, TlsSeen};
use super::{Carrier, Doubts, Ending, Observed};
use firstbyte_core::timeline::FailureType;

/// How a connection failed.
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

/// Doubts that mean the capture may lack part of a handshake.
const INCOMPLETE: Doubts = Doubts::MID_STREAM
    .with(Doubts::ONE_SIDED)
    .with(Doubts::GAP)
    .with(Doubts::CUT)
    .with(Doubts::RECORDS_LOST)
    .with(Doubts::TOO_MUCH_HELD)
    .with(Doubts::MALFORMED_HANDSHAKE)
    .with(Doubts::FRAMES_DROPPED);

impl Failed {
    /// Every variant.
    pub const ALL: [Self; 5] =
        [Self::Refused, Self::Unanswered, Self::Alert, Self::Reset, Self::Closed];

    /// Every failure type that a capture can show.
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

    /// The type of this failure of `observed`, in the vocabulary that all sources share.
    ///
    /// If the client left in the middle of the handshake, the capture does not show why.
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
                    // The alert was encrypted.
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

    /// How `observed` failed; absent if it did not fail or the capture cannot show it.
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
        // SSL 2.0 handshakes are not parsed to their end.
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
            // An alert sent after the other end has left is not the cause.
            let too_late = observed.closing.is_some_and(|closing| {
                closing.by_client != alert.by_client && closing.at < alert.at
            });
            // The handshake may continue after a warning.
            let last =
                observed.flights.last().is_none_or(|last| last.messages.last() == Some(&"Alert"));
            let ends = !alert.warning || last && closing.is_some();
            // With data missing, an encrypted alert proves nothing: it may belong to an orderly close.
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

    /// TLS 1.3: the server has sent nothing that shows the client whether its last flight was accepted. A server that
    /// refuses it (for its certificate) sends an alert or leaves before it sends anything else.
    fn behind_the_finished(observed: &Observed, tls: &TlsSeen) -> Option<Self> {
        if !tls.unconfirmed || observed.doubts.any(INCOMPLETE) {
            return None;
        }
        let finished = observed.flights.iter().rfind(|flight| flight.by_client)?.end;
        let alert = tls.alert.filter(|alert| !alert.by_client);
        let (way, at) = match (alert, observed.closing) {
            (alert, Some(closing)) if closing.by_client => {
                // An alert sent after the other end has left is not the cause.
                let alert = alert.filter(|alert| alert.at <= closing.at)?;
                (Self::Alert, alert.at)
            }
            (Some(alert), _) => (Self::Alert, alert.at),
            (None, Some(closing)) if closing.reset => (Self::Reset, closing.at),
            (None, Some(closing)) => (Self::Closed, closing.at),
            (None, None) => return None,
        };
        // Much later and without a request, this is just the end of an unused connection.
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
