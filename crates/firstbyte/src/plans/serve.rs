//! Plan of `serve`: the built-in server on a real host.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use firstbyte_core::document::nanoseconds;
use firstbyte_lab::builtin_server::{EarlyData, Resumption, TlsVersions};
use serde::{Deserialize, Serialize};

use super::outputs::Destination;

/// Plan of `serve`: a server to measure against.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServePlan {
    /// The certificate to use.
    pub certificate: CertificatePlan,
    /// Address to listen on with TCP and UDP. With port 0 the system chooses one.
    pub listen: SocketAddr,
    /// Address to listen on without TLS.
    pub http_listen: Option<SocketAddr>,
    /// Also serves HTTP/3 over QUIC.
    pub http3: bool,
    /// Destination of the access log, one line per request.
    pub access_log: Option<Destination>,
    /// Versions of TLS over TCP.
    pub tls: TlsVersions,
    /// How to handle early data.
    pub early_data: EarlyData,
    /// How sessions are resumed.
    pub resumption: Resumption,
    /// Tickets after a TLS 1.3 handshake, at most 20.
    pub tickets: u8,
    /// Starts every QUIC connection with a Retry.
    pub retry: bool,
    /// Size of the page at `/`, in bytes.
    pub page_bytes: u32,
    /// Time between a request and its response.
    #[serde(rename = "think_time_ns", with = "nanoseconds")]
    pub think_time: Duration,
}

/// Source of a certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CertificatePlan {
    /// PEM files.
    Files {
        /// The chain, leaf first.
        chain: PathBuf,
        /// File of the leaf's key. The key itself is not in the plan.
        key: PathBuf,
    },
    /// A certificate created for these names or addresses, issued by a CA created for it.
    SelfSigned {
        /// Names or addresses, at least one.
        names: Vec<String>,
        /// Destination of the CA's certificate.
        issuer: Destination,
    },
}
