//! Why there is no prediction.

use std::fmt;

use super::tcp::Nanos;
use crate::timeline::{Cause, Connection, Failure, FailureType, Fault, Mark, Offset, PhaseName};

/// Losses kept a connection from coming to its end, and a host gave up.
#[derive(Clone, Debug)]
pub(crate) struct GaveUp {
    /// When, counted from the first packet.
    pub at: Nanos,
    /// What a measurement would call it.
    pub name: &'static str,
    pub message: String,
}

impl GaveUp {
    /// As the failure of `connection`, which has the marks of what was seen before, and ended `at`.
    pub(super) fn failure(self, connection: &Connection, at: Offset) -> Failure {
        let has = |mark| connection.marks.at(mark).is_some();
        let quic = connection.facts.quic.is_some();
        let reused = connection.facts.reused;
        let phase = if has(Mark::ResponseStart) {
            PhaseName::Receive
        } else if has(Mark::RequestEnd) {
            PhaseName::Wait
        } else if reused || has(Mark::HandshakeComplete) {
            PhaseName::Send
        } else if quic {
            PhaseName::Quic
        } else if has(Mark::SecureConnectionStart) {
            PhaseName::Tls
        } else if has(Mark::TcpConnected) {
            PhaseName::Send
        } else {
            PhaseName::Connect
        };
        let Self { name, message, .. } = self;
        let cause = Cause::Recorded {
            name: name.into(),
            failure_type: FailureType::timed_out(phase),
            fault: Fault::Network,
            message,
            advice: None,
        };
        Failure { phase, cause, at: Some(at) }
    }
}

/// Why there is no prediction.
#[derive(Debug)]
pub enum PredictError {
    /// The way is none.
    NoSuchWay {
        /// What excludes what.
        why: &'static str,
    },
    /// TLS refuses the certificate, or the two sides do not come together.
    Tls(rustls::Error),
    /// QUIC refuses it.
    Quic {
        /// Why, in the state machine's words.
        detail: String,
    },
    /// The conversation came to rest before the response was there.
    Stalled {
        /// Who is waiting for what.
        what: &'static str,
    },
}

impl fmt::Display for PredictError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchWay { why } => f.write_str(why),
            Self::Tls(error) => write!(f, "client and server find no way to speak TLS: {error}"),
            Self::Quic { detail } => {
                write!(f, "client and server find no way to speak QUIC: {detail}")
            }
            Self::Stalled { what } => write!(f, "the predicted connection came to rest: {what}"),
        }
    }
}

impl std::error::Error for PredictError {}

impl From<rustls::Error> for PredictError {
    fn from(error: rustls::Error) -> Self {
        Self::Tls(error)
    }
}
