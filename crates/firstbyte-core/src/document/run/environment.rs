//! Environment of a run: everything that may have affected its times.

use serde::{Deserialize, Serialize};

/// The machine and the software, without anything that identifies the owner.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub struct EnvironmentRecord {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firstbyte_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rustls_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hyper_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quinn_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_governor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_average: Option<[f64; 3]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_source: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub virtualisation: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub congestion_control: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub congestion_controls_available: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<InterfaceRecord>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packet_stamps: Option<bool>,
}

/// A network interface that outgoing traffic may use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub struct InterfaceRecord {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu_bytes: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speed_mbit: Option<u32>,
}
