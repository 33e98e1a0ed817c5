//! Whether a connection failed, and how.
//!
//! In: an [`Observed`]. Out: the way it failed, only where the capture shows it: a handshake of which a part
//! is missing may have come to its end.

use super::{AlertSeen, Closing, Doubts, Ending, Observed};

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

    /// How `observed` failed; absent when it did not, or it cannot be known.
    pub fn of(observed: &Observed) -> Option<Self> {
        match observed.ending {
            Ending::Refused => return Some(Self::Refused),
            Ending::Unanswered => return Some(Self::Unanswered),
            _ => {}
        }
        let tls = observed.tls.as_deref().filter(|tls| tls.client_hello && !tls.complete)?;
        let ended = match observed.ending {
            Ending::ResetByClient | Ending::ResetByServer => Some(Self::Reset),
            Ending::Closed => Some(Self::Closed),
            _ => None,
        };
        // What one end says when the other has left is not why.
        let too_late = |alert: &AlertSeen| {
            let left = |closing: &Closing| closing.by_client != alert.by_client;
            observed.closing.filter(left).is_some_and(|closing| closing.at < alert.at)
        };
        let alert = tls.alert.filter(|alert| !too_late(alert));
        if alert.is_some_and(|alert| !alert.warning || ended.is_some()) {
            return Some(Self::Alert);
        }
        ended.filter(|_| !observed.doubts.any(INCOMPLETE))
    }
}
