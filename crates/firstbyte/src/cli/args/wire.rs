//! What `wire` can be told.

use std::path::PathBuf;

use clap::Args;

use super::ColorChoice;

/// Read TLS handshakes, resumption and where time went out of captured traffic
///
/// Nothing is decrypted. Files are pcap or pcapng, plain or packed by gzip or zstd; - is standard
/// input. Several are read one after the other, as one capture.
#[derive(Args, Clone, Debug)]
#[command(after_help = WIRE_HELP)]
pub(in crate::cli) struct WireArgs {
    /// Captures, in the order in which they were made
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,

    /// One JSON object per connection (NDJSON)
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Connections to show, the first of them; servers count all
    #[arg(long, value_name = "N", default_value_t = 50, help_heading = "Output")]
    pub connections: usize,
    /// Colours
    #[arg(long, value_enum, default_value_t = ColorChoice::Auto, help_heading = "Output")]
    pub color: ColorChoice,
}

const WIRE_HELP: &str = "\
Examples:
  firstbyte wire office.pcapng                servers, verdicts, connections
  tcpdump -w - port 443 | firstbyte wire -    from a pipe
  firstbyte wire --json day-*.pcap.gz | jq .handshake_time.server_ns

Columns are explained in docs/wire.md, JSON in docs/formats.md.";
