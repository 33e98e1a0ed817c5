//! Arguments of `firstbyte serve` and `firstbyte lab export`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use firstbyte_core::units::{BareSize, BareTime, parse_size_within, parse_time_within};

use super::number_within;
use crate::cli::plan::quantities::told;
use crate::plans::Destination;

const EXAMPLES: &str = "\
Examples:
  firstbyte serve --self-signed localhost --ca-out ca.pem --early-data
  firstbyte --cacert ca.pem -4 https://localhost:8443/
                                  measure the server
  firstbyte serve --cert chain.pem --key key.pem --listen [::]:443 --early-data
                                  listen on all addresses

Paths: / is a page, /bytes/N is N bytes, /redirect redirects to /,
/w?think=20&writes=1000,500@40 answers slowly (docs/scenarios.md).";

/// Run a test server: HTTP/1.1, 2 and 3, resumption, early data
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
#[command(group = clap::ArgGroup::new("certificate").required(true).args(["cert", "self_signed"]))]
pub(in crate::cli) struct ServeArgs {
    /// Certificate chain, leaf first (PEM)
    #[arg(long, value_name = "FILE", help_heading = "Certificate", requires = "key")]
    pub cert: Option<PathBuf>,
    /// The certificate's key (PEM)
    #[arg(long, value_name = "FILE", help_heading = "Certificate", requires = "cert")]
    pub key: Option<PathBuf>,
    /// Make a CA, and a certificate for these names or addresses
    #[arg(
        long,
        value_name = "NAME",
        help_heading = "Certificate",
        value_delimiter = ',',
        requires = "ca_out",
        conflicts_with = "key"
    )]
    pub self_signed: Vec<String>,
    /// Write the certificate of that CA to FILE, for clients to trust
    #[arg(long, value_name = "FILE", help_heading = "Certificate", requires = "self_signed")]
    pub ca_out: Option<Destination>,

    /// Address to listen on, TCP and UDP
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8443",
          help_heading = "Listening", value_parser = socket_address)]
    pub listen: SocketAddr,
    /// Address to listen on for plain HTTP [default: none]
    #[arg(long, value_name = "ADDRESS:PORT", help_heading = "Listening",
          value_parser = socket_address)]
    pub http_listen: Option<SocketAddr>,
    /// HTTP/3 over QUIC (the default)
    #[arg(long, help_heading = "Listening", overrides_with = "no_http3")]
    pub http3: bool,
    /// No HTTP/3
    #[arg(long, help_heading = "Listening")]
    pub no_http3: bool,
    /// Write an access log to FILE; - is standard output
    #[arg(long, value_name = "FILE", help_heading = "Listening")]
    pub access_log: Option<Destination>,

    /// TLS versions over TCP, separated by commas [default: 1.2,1.3]
    #[arg(long, value_name = "VERSIONS", help_heading = "Protocol", value_delimiter = ',')]
    pub tls: Vec<Version>,
    /// Accept early data (0-RTT) [default: off; on if given without a value]
    #[arg(long, value_name = "MODE", help_heading = "Protocol", value_enum, num_args = 0..=1,
          require_equals = true, default_missing_value = "on", default_value = "off",
          hide_default_value = true)]
    pub early_data: EarlyDataChoice,
    /// How sessions can be resumed
    #[arg(long, value_name = "HOW", help_heading = "Protocol", value_enum, default_value = "both")]
    pub resumption: ResumptionChoice,
    /// Number of tickets to send after a TLS 1.3 handshake
    #[arg(long, value_name = "N", help_heading = "Protocol", default_value_t = 2,
          value_parser = number_within::<u8>(0..=20))]
    pub tickets: u8,
    /// Answer every new QUIC connection with a Retry packet
    #[arg(long, help_heading = "Protocol", conflicts_with = "no_http3")]
    pub retry: bool,

    /// Size of the page at /
    #[arg(long, value_name = "BYTES", help_heading = "Content", default_value = "2000",
          value_parser = body_bytes)]
    pub page_bytes: u32,
    /// Server think time, such as 8ms [default: none]
    #[arg(long, value_name = "TIME", help_heading = "Content", value_parser = duration)]
    pub think_time: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum Version {
    #[value(name = "1.2")]
    Tls12,
    #[value(name = "1.3")]
    Tls13,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum EarlyDataChoice {
    /// Tickets do not permit early data
    Off,
    /// Accept early data, and answer before the handshake ends
    On,
    /// Tickets permit early data, but the server rejects it
    Reject,
    /// Accept early data, and answer 425 (Too Early)
    TooEarly,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum ResumptionChoice {
    /// By ticket, and in TLS 1.2 also by session ID
    Both,
    /// By ticket only
    Tickets,
    /// By session ID in TLS 1.2; TLS 1.3 always uses tickets
    SessionIds,
    /// Never
    None,
}

fn socket_address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| "not an address and a port, such as 127.0.0.1:8443 or [::1]:8443")
}

fn duration(text: &str) -> Result<Duration, String> {
    parse_time_within(text, BareTime::Refused, Duration::ZERO..=Duration::from_secs(60))
        .map_err(|error| told(&error))
}

/// Bytes of an answer of the built-in server.
fn body_bytes(text: &str) -> Result<u32, String> {
    answer_bytes(text, 100_000_000)
}

/// Bytes of a page, which is text.
fn page_bytes(text: &str) -> Result<u32, String> {
    answer_bytes(text, 10_000_000)
}

fn answer_bytes(text: &str, most: u32) -> Result<u32, String> {
    let bytes = parse_size_within(text, BareSize::Bytes, 0..=most.into());
    bytes.map(|bytes| bytes as u32).map_err(|error| told(&error))
}

/// Write a docker-compose project with the lab's servers, for a host of your own
#[derive(Args, Debug)]
#[command(after_help = "\
Example: firstbyte lab export server --early-data on
         server/README.md says how to start it and what to compare")]
pub(in crate::cli) struct ExportArgs {
    /// Directory to write; created if it does not exist
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// nginx's ssl_early_data
    #[arg(long, value_enum, default_value = "on")]
    pub early_data: OnOff,
    /// Size of the page
    #[arg(long, value_name = "BYTES", default_value = "4000",
          value_parser = page_bytes)]
    pub page_bytes: u32,
    /// Size of the image
    #[arg(long, value_name = "BYTES", default_value = "1000000",
          value_parser = body_bytes)]
    pub image_bytes: u32,
    /// Write into DIR even if it is not empty, and replace files of the same name
    #[arg(long)]
    pub force: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum OnOff {
    On,
    Off,
}
