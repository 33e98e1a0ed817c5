//! What is read out of captured packets.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU8;
use std::path::PathBuf;
use std::time::Duration;

use firstbyte_core::document::{nanoseconds_if_any, nanoseconds_of_each};
use serde::{Deserialize, Serialize};

use super::outputs::{ColorChoice, Outputs};

/// What is shown and written of the connections in captures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WirePlan {
    /// Where packets come from.
    pub source: PacketSource,
    /// Which packets count.
    pub filter: PacketFilter,
    /// Which connections count.
    pub choice: ConnectionChoice,
    /// Servers to show, those with most connections.
    pub shown_servers: usize,
    /// Connections to show, the first of them.
    pub shown_connections: usize,
    /// Whether it is said how many connections a second servers sustain.
    #[serde(default)]
    pub capacity: bool,
    /// What is written.
    pub outputs: Outputs,
    /// Colours on the terminal.
    pub colors: ColorChoice,
}

/// Where packets come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PacketSource {
    /// Files, read one after the other as one capture; `-` is standard input.
    Files {
        /// In the order in which they were made.
        paths: Vec<PathBuf>,
        /// Threads that read, 1 to 8; as many as there are processors when absent.
        threads: Option<NonZeroU8>,
    },
    /// An interface.
    Live(LivePlan),
}

/// A live capture, and what is done meanwhile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LivePlan {
    /// What is captured.
    pub capture: LiveCapture,
    /// For how long; until it is ended when absent.
    #[serde(rename = "length_ns", with = "nanoseconds_if_any")]
    pub length: Option<Duration>,
    /// Where metrics are served.
    pub metrics: Option<SocketAddr>,
    /// Room on the disk for packets of connections that are not over yet.
    pub spool_bytes: u64,
}

/// An interface, and how packets are taken from it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveCapture {
    /// Its name; `any` is all of them.
    pub interface: String,
    /// Bytes kept of each packet.
    pub snaplen_bytes: u32,
    /// The kernel's buffer.
    pub buffer_bytes: u64,
    /// Also packets that are not for this host.
    pub promiscuous: bool,
}

/// Which packets count: without any ports all do, and so with hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PacketFilter {
    /// From or to one of these addresses.
    pub hosts: Vec<IpAddr>,
    /// From or to one of these ports, of TCP or UDP.
    pub ports: Vec<u16>,
}

/// Which connections count: of each, without any all do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionChoice {
    /// To one of these: a name, in which `*` stands for any letters, an address, or `ADDRESS:PORT`.
    pub servers: Vec<String>,
    /// Whose handshake was one of these.
    pub sessions: Vec<WireSession>,
    /// With these numbers, from 1 in the order of first packets: what is written is of these alone, and they are drawn.
    pub flows: Vec<u64>,
}

/// What a handshake was like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WireSession {
    /// A full handshake, for whatever reason.
    Full,
    /// A full handshake although a session was offered.
    Declined,
    /// The server sent a HelloRetryRequest.
    Hrr,
    /// A session was taken up, with early data or without.
    Resumed,
    /// Early data was sent.
    EarlyData,
    /// Refused, unanswered, or ended in the handshake by an alert, a reset or a close.
    Failed,
    /// Neither full nor resumed as far as could be seen, and not failed.
    Unknown,
}

/// What is compared by their captured connections.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireDiffPlan {
    /// What with what.
    pub compared: ComparedCaptures,
    /// The interface, where one of the captures is live.
    pub live: Option<LiveCapture>,
    /// Round trips between client and server at which costs are wanted as well.
    #[serde(rename = "project_rtt_ns", with = "nanoseconds_of_each", default)]
    pub project_rtt: Vec<Duration>,
    /// Which packets count.
    pub filter: PacketFilter,
    /// What is written.
    pub outputs: Outputs,
    /// Colours on the terminal.
    pub colors: ColorChoice,
}

/// What is compared with what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ComparedCaptures {
    /// A capture with an earlier one, server by server.
    Captures {
        /// How it was.
        before: DiffCapture,
        /// How it is.
        after: DiffCapture,
    },
    /// Each server of a capture with all others in it.
    EachServer(DiffCapture),
    /// A group of a capture's servers with another one.
    Groups {
        /// The capture.
        capture: DiffCapture,
        /// What it should be like, and what is held against that.
        groups: [ServerGroup; 2],
    },
}

/// One of the captures that are compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DiffCapture {
    /// A file; `-` is standard input.
    File(PathBuf),
    /// Taken now.
    Live {
        /// For so long; until it is ended when absent.
        #[serde(rename = "length_ns", with = "nanoseconds_if_any")]
        length: Option<Duration>,
    },
}

/// Servers that belong together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerGroup {
    /// What it is called.
    pub name: String,
    /// Each a name, in which `*` stands for any letters, an address, or `ADDRESS:PORT`.
    pub servers: Vec<String>,
}

impl ComparedCaptures {
    /// The captures, in the order in which they are read or taken.
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
