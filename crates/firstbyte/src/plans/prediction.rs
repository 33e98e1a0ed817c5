//! What is predicted.

use std::path::PathBuf;
use std::time::Duration;

use firstbyte_core::document::nanoseconds_if_any;
use firstbyte_core::timeline::Parallel;
use firstbyte_predict::{CongestionControl, KexGroup};
use serde::{Deserialize, Serialize};

use super::outputs::{ColorChoice, Outputs};

/// Connections that are predicted: one visitor's, or those of a whole audience.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PredictionPlan {
    /// A run: what is not said here is as its first way was measured.
    pub from: Option<PathBuf>,
    /// The path.
    pub path: PathPlan,
    /// The server.
    pub server: PredictedServerPlan,
    /// The exchange.
    pub exchange: ExchangePlan,
    /// Several requests in place of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<PredictedRequestsPlan>,
    /// Ways to connect, each axis `AXIS=VALUE,VALUE`; every way there is when empty.
    pub vary: Vec<String>,
    /// Access networks before the path, by their names; none when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub access: Vec<String>,
    /// The audience, where one is asked for.
    pub audience: Option<AudiencePlan>,
    /// Connections played for each way where packets get lost.
    pub samples: u32,
    /// Seed of losses.
    pub seed: u64,
    /// Every way is drawn, with its flights.
    pub verbose: bool,
    /// What is written.
    pub outputs: Outputs,
    /// Colours on the terminal.
    pub colors: ColorChoice,
}

/// The path. What is absent is as measured where there is a run, and as `firstbyte predict --help` says elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PathPlan {
    /// Round-trip time.
    #[serde(rename = "rtt_ns", with = "nanoseconds_if_any")]
    pub rtt: Option<Duration>,
    /// Share of packets that are lost, each way by itself: from 0 to below 1.
    pub loss: f64,
    /// Bits per second from the server; no limit when absent.
    pub down_bits_per_second: Option<u64>,
    /// Bits per second to the server; no limit when absent.
    pub up_bits_per_second: Option<u64>,
    /// Bytes of payload in a full TCP segment.
    pub mss_bytes: Option<u32>,
}

/// The server. What is absent is as for the path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PredictedServerPlan {
    /// Bytes of the certificates together.
    pub chain_bytes: Option<u64>,
    /// Between request and response.
    #[serde(rename = "think_time_ns", with = "nanoseconds_if_any")]
    pub think_time: Option<Duration>,
    /// Segments sent before the first acknowledgement.
    pub initial_window: Option<u32>,
    /// Of TCP.
    #[serde(with = "congestion_control")]
    pub congestion_control: CongestionControl,
    /// QUIC connections have to prove their address by a Retry.
    pub retry: bool,
}

/// The exchange. What is absent is as for the path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExchangePlan {
    /// Bytes of the response's body.
    pub response_bytes: Option<u64>,
    /// Bytes of the request's body.
    pub upload_bytes: Option<u64>,
    /// Time that the name takes.
    #[serde(rename = "resolver_time_ns", with = "nanoseconds_if_any")]
    pub resolver_time: Option<Duration>,
    /// Key-exchange groups offered, most wanted first; the usual ones when absent.
    #[serde(default, with = "groups")]
    pub groups: Option<Vec<KexGroup>>,
}

/// Several requests, which a user waits for together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PredictedRequestsPlan {
    /// How many: two at least.
    pub count: u32,
    /// How they are made where no axis says it: one after the other when absent.
    pub parallel: Option<Parallel>,
}

/// An audience, and what changes for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AudiencePlan {
    /// A table of round trips, weights and losses.
    pub population: PathBuf,
    /// What changes, each `AXIS=FROM:TO`; without any, the plan's two ways are compared.
    pub change: Vec<String>,
    /// Visitors, each before and after the change.
    pub visitors: u32,
}

/// By the name that Linux has for it.
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

/// By their names.
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
