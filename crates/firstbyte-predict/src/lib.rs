//! Predicts how long a connection would take, without a network.
//!
//! Input: a [`Setup`] (path, server, client, exchange) and a [`Way`] to connect. Output: the predicted
//! [`Connection`], with marks, flights and facts, so that every view works on it. rustls and quinn-proto make the
//! real handshakes, and packets cross a simulated path in virtual time. Nothing here reads a clock: quinn-proto's
//! instants are counted from the caller's.
//!
//! The model is described in `docs/prediction.md`.

#![forbid(unsafe_code)]

pub mod audience;
mod error;
mod http;
mod outline;
mod population;
mod quic;
mod setup;
mod several;
mod tls;
mod way;

use std::time::Instant;

pub use error::PredictError;
pub use firstbyte_core::simulation::seed::derived as derived_seed;
pub use firstbyte_core::simulation::{CongestionControl, Link, Path};
pub use population::{Outcome, Player, Range, Workers};
pub use setup::{Client, Exchange, HandshakeTime, KexGroup, Server, Setup, certified};
pub use way::{Http, Reuse, Session, Several, Tls, Way};

use firstbyte_core::timeline::{Connection, Sample};

/// Predicts a sample taken this way: a connection, and all requests if there are several.
///
/// # Errors
/// If the combination of options is impossible, or the state machines reject the setup.
pub fn predict_sample(setup: &Setup, way: &Way, base: Instant) -> Result<Sample, PredictError> {
    way.check()?;
    let (connection, requests) = match &way.several {
        Some(several) => {
            let (connection, requests) = several::predict(setup, way, several, base)?;
            (connection, Some(Box::new(requests)))
        }
        None => (predict(setup, way, base)?, None),
    };
    let requested_url = connection.url.clone();
    Ok(Sample { requested_url, connection, requests, ..Sample::default() })
}

/// Predicts the connection made this way; of several requests, the first connection with its first exchange.
///
/// If losses kept the connection from completing, it is returned as a failed one. `base` is the origin of time for
/// the protocols' state machines: any instant will do, because none is compared with a clock.
///
/// # Errors
/// If the combination of options is impossible, or the state machines reject the setup.
pub fn predict(setup: &Setup, way: &Way, base: Instant) -> Result<Connection, PredictError> {
    way.check()?;
    if let Some(several) = &way.several {
        return several::predict(setup, way, several, base).map(|(connection, _)| connection);
    }
    if way.http == Http::V3 {
        return quic::connection(setup, way, base);
    }
    let dialogue = tls::dialogue(setup, way)?;
    Ok(outline::connection(setup, way, &dialogue))
}

#[cfg(test)]
mod explained;
#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod tests;
