//! The built-in server on a real host.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use firstbyte_core::document::nanoseconds;
use firstbyte_lab::builtin_server::{EarlyData, Resumption, TlsVersions};
use serde::{Deserialize, Serialize};

use super::outputs::Destination;

/// A server to measure against.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServePlan {
    /// Whose certificate it shows.
    pub certificate: CertificatePlan,
    /// Where it listens, TCP and UDP. With port 0 the system chooses one.
    pub listen: SocketAddr,
    /// Where it listens without TLS.
    pub http_listen: Option<SocketAddr>,
    /// HTTP/3 over QUIC, too.
    pub http3: bool,
    /// Where a line for every request goes.
    pub access_log: Option<Destination>,
    /// Versions of TLS over TCP.
    pub tls: TlsVersions,
    /// What is done about early data.
    pub early_data: EarlyData,
    /// How sessions are resumed.
    pub resumption: Resumption,
    /// Tickets after a TLS 1.3 handshake, at most 20.
    pub tickets: u8,
    /// Every QUIC connection begins with a Retry.
    pub retry: bool,
    /// Size of the page at `/`.
    pub page_bytes: u32,
    /// Between a request and its response.
    #[serde(rename = "think_time_ns", with = "nanoseconds")]
    pub think_time: Duration,
}

/// Where a certificate is from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CertificatePlan {
    /// Files (PEM).
    Files {
        /// The chain, leaf first.
        chain: PathBuf,
        /// The leaf's key. The key itself is not in the plan.
        key: PathBuf,
    },
    /// Made for these names or addresses, by a CA made for it.
    SelfSigned {
        /// Names or addresses, at least one.
        names: Vec<String>,
        /// Where that CA's certificate goes.
        issuer: Destination,
    },
}
