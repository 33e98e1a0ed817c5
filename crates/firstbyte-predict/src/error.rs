//! Why there is no prediction.

use std::fmt;

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
    /// What is asked for is not predicted.
    NotPredicted {
        /// Why.
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
