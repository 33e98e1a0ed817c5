//! Plan of `predict`.

use std::path::PathBuf;
use std::time::Duration;

use firstbyte_core::document::nanoseconds_if_any;
use firstbyte_core::timeline::Parallel;
use firstbyte_predict::{CongestionControl, KexGroup};
use serde::{Deserialize, Serialize};

use super::outputs::{ColorChoice, Outputs};

/// Plan of `predict`: predicts one visitor's connections or those of a whole audience.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PredictionPlan {
    /// Run file; its first way provides the values that the plan leaves out.
    pub from: Option<PathBuf>,
    /// The path.
    pub path: PathPlan,
    /// The server.
    pub server: PredictedServerPlan,
    /// The exchange.
    pub exchange: ExchangePlan,
    /// Several requests instead of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<PredictedRequestsPlan>,
    /// Axes of ways to connect, each `AXIS=VALUE,VALUE`; every possible way if empty.
    pub vary: Vec<String>,
    /// Names of access networks before the path; without one if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub access: Vec<String>,
    /// The audience, if one is given.
    pub audience: Option<AudiencePlan>,
    /// Number of connections to simulate for each way if packets get lost.
    pub samples: u32,
    /// Seed of the packet losses.
    pub seed: u64,
    /// Draws every way with its flights.
    pub verbose: bool,
    /// Outputs to write.
    pub outputs: Outputs,
    /// Colours on the terminal.
    pub colors: ColorChoice,
}

/// The path. Absent values come from the run if there is one, else from the defaults in `firstbyte predict --help`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PathPlan {
    /// Round-trip time.
    #[serde(rename = "rtt_ns", with = "nanoseconds_if_any")]
    pub rtt: Option<Duration>,
    /// Packet loss rate in each direction independently, from 0 to below 1.
    pub loss: f64,
    /// Bits per second from the server; unlimited if absent.
    pub down_bits_per_second: Option<u64>,
    /// Bits per second to the server; unlimited if absent.
    pub up_bits_per_second: Option<u64>,
    /// Bytes of payload in a full TCP segment.
    pub mss_bytes: Option<u32>,
}

/// The server. Defaults work as for the path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PredictedServerPlan {
    /// Total size of the certificates, in bytes.
    pub chain_bytes: Option<u64>,
    /// Time between request and response.
    #[serde(rename = "think_time_ns", with = "nanoseconds_if_any")]
    pub think_time: Option<Duration>,
    /// Segments sent before the first acknowledgement.
    pub initial_window: Option<u32>,
    /// Congestion control of TCP.
    #[serde(with = "congestion_control")]
    pub congestion_control: CongestionControl,
    /// Whether QUIC connections must validate their address with a Retry.
    pub retry: bool,
}

/// The exchange. Defaults work as for the path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExchangePlan {
    /// Bytes of the response's body.
    pub response_bytes: Option<u64>,
    /// Bytes of the request's body.
    pub upload_bytes: Option<u64>,
    /// Time of the name lookup.
    #[serde(rename = "resolver_time_ns", with = "nanoseconds_if_any")]
    pub resolver_time: Option<Duration>,
    /// Key-exchange groups to offer, most preferred first; the usual ones if absent.
    #[serde(default, with = "groups")]
    pub groups: Option<Vec<KexGroup>>,
}

/// Several requests that a user waits for together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PredictedRequestsPlan {
    /// Number of requests, at least two.
    pub count: u32,
    /// How to make them if no axis sets it; one after the other if absent.
    pub parallel: Option<Parallel>,
}

/// An audience, and a change to evaluate for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AudiencePlan {
    /// Table of round-trip times, weights and loss rates.
    pub population: PathBuf,
    /// Changes, each `AXIS=FROM:TO`; if empty, the plan's two ways are compared.
    pub change: Vec<String>,
    /// Number of visitors; each is simulated before and after the change.
    pub visitors: u32,
}

/// Stores the algorithm by its Linux name.
mod congestion_control {
    use firstbyte_predict::CongestionControl;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(
        control: &CongestionControl,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.serialize_str(control.name())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<CongestionControl, D::Error> {
        let name = String::deserialize(from)?;
        let unknown = || D::Error::custom(format!("no congestion control is called {name:?}"));
        CongestionControl::named(&name).ok_or_else(unknown)
    }
}

/// Stores the groups by name.
mod groups {
    use firstbyte_predict::KexGroup;
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(
        groups: &Option<Vec<KexGroup>>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        let names = |groups: &Vec<KexGroup>| -> Vec<&str> {
            groups.iter().map(|group| group.name()).collect()
        };
        groups.as_ref().map(names).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Vec<KexGroup>>, D::Error> {
        let Some(names) = Option::<Vec<String>>::deserialize(from)? else { return Ok(None) };
        let group = |name: &String| {
            let unknown = || D::Error::custom(format!("no group is called {name:?}"));
            KexGroup::named(name).ok_or_else(unknown)
        };
        names.iter().map(group).collect::<Result<_, _>>().map(Some)
    }
}
