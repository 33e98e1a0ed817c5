//! Reasons why there is no prediction.

use std::fmt;

/// The reason why there is no prediction.
#[derive(Debug)]
pub enum PredictError {
    /// The combination of options is impossible.
    NoSuchWay {
        /// Which options exclude each other.
        why: &'static str,
    },
    /// TLS rejects the certificate, or the two sides have nothing in common to negotiate.
    Tls(rustls::Error),
    /// QUIC rejects the setup.
    Quic {
        /// The state machine's error message.
        detail: String,
    },
    /// The exchange came to a halt before the response was complete.
    Stalled {
        /// Which side waits for what.
        what: &'static str,
    },
    /// The request is outside what can be predicted.
    NotPredicted {
        /// The reason.
        why: &'static str,
    },
}

impl fmt::Display for PredictError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchWay { why } | Self::NotPredicted { why } => f.write_str(why),
            Self::Tls(error) => write!(f, "client and server cannot agree on TLS: {error}"),
            Self::Quic { detail } => {
                write!(f, "client and server cannot agree on QUIC: {detail}")
            }
            Self::Stalled { what } => write!(f, "the predicted connection stalled: {what}"),
        }
    }
}

impl std::error::Error for PredictError {}

impl From<rustls::Error> for PredictError {
    fn from(error: rustls::Error) -> Self {
        Self::Tls(error)
    }
}
