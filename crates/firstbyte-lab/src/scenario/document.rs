//! A scenario file as written: the shape of the TOML. Only types and key names are checked.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::units::WrittenSize;

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Document {
    pub(super) description: String,
    #[serde(default)]
    pub(super) story: String,
    #[serde(default)]
    pub(super) seed: u64,
    #[serde(default)]
    pub(super) host: Vec<HostDocument>,
    #[serde(default)]
    pub(super) change: Vec<ChangeDocument>,
}

/// One `[[change]]`: keys of a host that change at some time.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ChangeDocument {
    pub(super) after: String,
    pub(super) host: String,
    pub(super) server: Option<toml::Table>,
    pub(super) up: Option<toml::Table>,
    pub(super) down: Option<toml::Table>,
}

/// One `[[host]]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HostDocument {
    pub(super) name: String,
    pub(super) role: String,
    pub(super) ipv4: Option<String>,
    pub(super) ipv6: Option<String>,
    #[serde(default)]
    pub(super) names: Vec<String>,
    pub(super) server: Option<ServerDocument>,
    pub(super) resolver: Option<ResolverDocument>,
    pub(super) congestion_control: Option<String>,
    pub(super) quick_acks: Option<bool>,
    pub(super) rto_min: Option<String>,
    #[serde(default)]
    pub(super) up: LinkDocument,
    #[serde(default)]
    pub(super) down: LinkDocument,
}

/// A host's `server = {}`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ServerDocument {
    pub(super) kind: Option<String>,
    pub(super) refuses: Option<bool>,
    pub(super) page_bytes: Option<WrittenSize>,
    pub(super) think_time: Option<String>,
    pub(super) slow: Option<SlowDocument>,
    pub(super) handshake_delay: Option<String>,
    pub(super) tls: Option<Vec<String>>,
    pub(super) resumption: Option<String>,
    pub(super) tickets: Option<u64>,
    pub(super) early_data: Option<String>,
    pub(super) groups: Option<Vec<String>>,
    pub(super) key: Option<String>,
    pub(super) chain_bytes: Option<WrittenSize>,
    pub(super) certificate_days: Option<i64>,
    pub(super) http3: Option<bool>,
    pub(super) retry: Option<bool>,
    pub(super) nagle: Option<bool>,
    pub(super) command: Option<Vec<String>>,
    pub(super) package: Option<String>,
    #[serde(default)]
    pub(super) files: BTreeMap<String, String>,
    pub(super) backend: Option<bool>,
    #[serde(default)]
    pub(super) redirects: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) content: BTreeMap<String, ContentDocument>,
    #[serde(default)]
    pub(super) nginx: NginxDocument,
}

/// A server's `slow = {}`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SlowDocument {
    pub(super) every: u64,
    pub(super) think_time: String,
}

/// One entry of a server's `content`: its response at one path.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ContentDocument {
    #[serde(rename = "type")]
    pub(super) content_type: String,
    pub(super) text: Option<String>,
    pub(super) hex: Option<String>,
    pub(super) bytes: Option<WrittenSize>,
    pub(super) think_time: Option<String>,
}

/// A host's `resolver = {}`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ResolverDocument {
    pub(super) answer_delay: Option<String>,
    pub(super) aaaa_delay: Option<String>,
}

/// A server's `nginx = {}`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NginxDocument {
    #[serde(default)]
    pub(super) directives: Vec<String>,
}

/// A host's `up = {}` or `down = {}`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LinkDocument {
    pub(super) delay: Option<String>,
    pub(super) jitter: Option<String>,
    pub(super) loss: Option<String>,
    pub(super) reorder: Option<bool>,
    pub(super) rate: Option<String>,
    pub(super) queue: Option<String>,
    pub(super) mtu: Option<u64>,
    pub(super) initial_window: Option<u64>,
    pub(super) drop_syn: Option<u64>,
    pub(super) drop_data: Option<u64>,
    #[serde(default)]
    pub(super) ipv4: PathDocument,
    #[serde(default)]
    pub(super) ipv6: PathDocument,
}

/// A link's `ipv4 = {}` or `ipv6 = {}`: settings that differ for that family.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PathDocument {
    pub(super) delay: Option<String>,
    pub(super) jitter: Option<String>,
    pub(super) loss: Option<String>,
    pub(super) reorder: Option<bool>,
    pub(super) rate: Option<String>,
    pub(super) mtu: Option<u64>,
    pub(super) initial_window: Option<u64>,
    pub(super) drop_syn: Option<u64>,
    pub(super) drop_data: Option<u64>,
}
