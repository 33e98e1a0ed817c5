//! What `wire` can be told.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::ColorChoice;

/// Read TLS handshakes, resumption and where time went out of captured traffic
///
/// Nothing is decrypted. Files are pcap or pcapng, plain or packed by gzip or zstd; - is standard
/// input. Several are read one after the other, as one capture.
#[derive(Args, Clone, Debug)]
#[command(after_help = WIRE_HELP, args_conflicts_with_subcommands = true)]
#[command(subcommand_negates_reqs = true)]
pub(in crate::cli) struct WireArgs {
    #[command(subcommand)]
    pub command: Option<WireCommand>,

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

A file that is called diff is ./diff. Columns are explained in docs/wire.md, JSON in docs/formats.md.";

#[derive(Clone, Debug, Subcommand)]
pub(in crate::cli) enum WireCommand {
    Diff(WireDiffArgs),
}

/// What changed between two captures, or is different between servers of one
///
/// Servers are compared by address and port. A change is named when it is certain among all that was
/// tested and large enough to matter, what costs most first.
#[derive(Args, Clone, Debug)]
#[command(after_help = WIRE_DIFF_HELP)]
pub(in crate::cli) struct WireDiffArgs {
    /// Capture of how it was; with --by or --group, the only one
    #[arg(value_name = "BEFORE")]
    pub before: PathBuf,
    /// Capture of how it is
    #[arg(value_name = "AFTER", required_unless_present_any = ["by", "group"])]
    pub after: Option<PathBuf>,

    /// Each server of one capture against all the others
    #[arg(long, value_enum, value_name = "WHAT", conflicts_with_all = ["after", "group"])]
    pub by: Option<WireDiffBy>,
    /// Servers of one capture that belong together, twice: what it should be like, and what is held
    /// against that. A server is a name, in which * stands for any letters, an address, or ADDRESS:PORT
    #[arg(long, value_name = "NAME=SERVER,…", conflicts_with = "after")]
    pub group: Vec<String>,

    /// One JSON object
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Colours
    #[arg(long, value_enum, default_value_t = ColorChoice::Auto, help_heading = "Output")]
    pub color: ColorChoice,
}

/// What parts the connections of one capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(in crate::cli) enum WireDiffBy {
    /// Address and port
    Server,
}

const WIRE_DIFF_HELP: &str = "\
Examples:
  firstbyte wire diff monday.pcapng tuesday.pcapng
  firstbyte wire diff --by server office.pcapng
  firstbyte wire diff office.pcap --group 'a=node1*' --group 'b=10.0.0.7'

What is tested, from when on it matters and what costs are: docs/wire.md, \"What
changed\". JSON: docs/formats.md.";
