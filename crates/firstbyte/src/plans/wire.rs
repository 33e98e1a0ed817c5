//! Plans of the commands that read captured packets.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU8;
use std::path::PathBuf;
use std::time::Duration;

use firstbyte_core::document::{nanoseconds_if_any, nanoseconds_of_each};
use serde::{Deserialize, Serialize};

use super::outputs::{ColorChoice, Outputs};

/// Plan of `wire`: what to show and write of captured connections.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WirePlan {
    /// Source of the packets.
    pub source: PacketSource,
    /// Packets to read.
    pub filter: PacketFilter,
    /// Connections to include.
    pub choice: ConnectionChoice,
    /// Number of servers to show, those with the most connections first.
    pub shown_servers: usize,
    /// Number of connections to show, from the first one on.
    pub shown_connections: usize,
    /// Also estimates how many connections a second the servers sustain.
    #[serde(default)]
    pub capacity: bool,
    /// Outputs to write.
    pub outputs: Outputs,
    /// Colours on the terminal.
    pub colors: ColorChoice,
}

/// Source of packets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PacketSource {
    /// Files, read one after another as a single capture; `-` is standard input.
    Files {
        /// The files in the order in which they were captured.
        paths: Vec<PathBuf>,
        /// Reader threads, 1 to 8; one per processor if absent.
        threads: Option<NonZeroU8>,
    },
    /// An interface.
    Live(LivePlan),
}

/// A live capture and what happens during it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LivePlan {
    /// Interface and capture settings.
    pub capture: LiveCapture,
    /// Length of the capture; until interrupted if absent.
    #[serde(rename = "length_ns", with = "nanoseconds_if_any")]
    pub length: Option<Duration>,
    /// Address of the metrics server.
    pub metrics: Option<SocketAddr>,
    /// Disk space for packets of unfinished connections, in bytes.
    pub spool_bytes: u64,
}

/// An interface and its capture settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveCapture {
    /// Name of the interface; `any` captures on all of them.
    pub interface: String,
    /// Bytes kept of each packet.
    pub snaplen_bytes: u32,
    /// Size of the kernel's buffer, in bytes.
    pub buffer_bytes: u64,
    /// Also captures packets that are not addressed to this host.
    pub promiscuous: bool,
}

/// Packets to read. An empty list of ports or hosts selects all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PacketFilter {
    /// Addresses, either source or destination.
    pub hosts: Vec<IpAddr>,
    /// TCP or UDP ports, either source or destination.
    pub ports: Vec<u16>,
}

/// Connections to include. An empty list selects all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionChoice {
    /// Servers: a name, in which `*` stands for any letters, an address, or `ADDRESS:PORT`.
    pub servers: Vec<String>,
    /// Kinds of handshake.
    pub sessions: Vec<WireSession>,
    /// Connection numbers, from 1 in the order of first packets. Outputs contain only these connections, and they are
    /// drawn.
    pub flows: Vec<u64>,
}

/// Kind of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WireSession {
    /// A full handshake, for whatever reason.
    Full,
    /// A full handshake although a session was offered.
    Declined,
    /// The server sent a HelloRetryRequest.
    Hrr,
    /// A session was resumed, with or without early data.
    Resumed,
    /// Early data was sent.
    EarlyData,
    /// Refused, unanswered, or ended in the handshake by an alert, a reset or a close.
    Failed,
    /// Neither seen to be full, nor resumed, nor failed.
    Unknown,
}

/// Plan of `wire diff`: compares captured connections.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireDiffPlan {
    /// The captures or servers to compare.
    pub compared: ComparedCaptures,
    /// The interface, if one of the captures is live.
    pub live: Option<LiveCapture>,
    /// Further client-server round-trip times to compute costs for.
    #[serde(rename = "project_rtt_ns", with = "nanoseconds_of_each", default)]
    pub project_rtt: Vec<Duration>,
    /// Packets to read.
    pub filter: PacketFilter,
    /// Outputs to write.
    pub outputs: Outputs,
    /// Colours on the terminal.
    pub colors: ColorChoice,
}

/// Captures or servers to compare.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ComparedCaptures {
    /// A capture with an earlier one, server by server.
    Captures {
        /// The earlier capture.
        before: DiffCapture,
        /// The later capture.
        after: DiffCapture,
    },
    /// Each server of a capture with all its other servers.
    EachServer(DiffCapture),
    /// Two groups of servers in one capture.
    Groups {
        /// The capture.
        capture: DiffCapture,
        /// The reference group, then the group to compare with it.
        groups: [ServerGroup; 2],
    },
}

/// One of the compared captures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DiffCapture {
    /// A file; `-` is standard input.
    File(PathBuf),
    /// A live capture, taken now.
    Live {
        /// Length of the capture; until interrupted if absent.
        #[serde(rename = "length_ns", with = "nanoseconds_if_any")]
        length: Option<Duration>,
    },
}

/// A named group of servers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerGroup {
    /// Name of the group.
    pub name: String,
    /// Servers: a name, in which `*` stands for any letters, an address, or `ADDRESS:PORT`.
    pub servers: Vec<String>,
}

impl ComparedCaptures {
    /// The captures in the order in which they are read or taken.
    pub fn captures(&self) -> impl Iterator<Item = &DiffCapture> {
        let (first, second) = match self {
            Self::Captures { before, after } => (before, Some(after)),
            Self::EachServer(capture) | Self::Groups { capture, .. } => (capture, None),
        };
        [Some(first), second].into_iter().flatten()
    }
}

impl WireDiffPlan {
    /// The captures that are files.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.compared.captures().filter_map(|capture| match capture {
            DiffCapture::File(path) => Some(path),
            DiffCapture::Live { .. } => None,
        })
    }
}
