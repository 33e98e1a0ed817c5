//! Arguments of `firstbyte wire`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::live::{FilterArgs, LiveArgs, metrics_address, round_trip, spool, window};
use super::{RowArgs, number_within};
use crate::plans::{ColorChoice, Destination, WireSession};

/// Analyse captured traffic: handshakes, resumption, times
///
/// Decrypts nothing. Reads pcap and pcapng, plain or compressed with gzip or zstd; - is standard input.
/// Reads several files one after the other, as one capture. With -i, captures packets from an interface
/// until Ctrl-C.
#[derive(Args, Clone, Debug)]
#[command(after_help = WIRE_HELP, args_conflicts_with_subcommands = true)]
#[command(subcommand_negates_reqs = true)]
#[command(mut_arg("json", |a| {
    a.help("One JSON object per connection (NDJSON), to stdout or FILE")
}))]
#[command(mut_arg("csv", |a| a.help("One CSV row per connection, to stdout or FILE")))]
pub(in crate::cli) struct WireArgs {
    #[command(subcommand)]
    pub command: Option<WireCommand>,

    /// Capture files, oldest first
    #[arg(required_unless_present_any = ["interface", "read_file"], value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Capture file, as in tcpdump and tshark; read before those without -r; repeatable
    #[arg(short = 'r', long, value_name = "FILE", help_heading = "Packets")]
    pub read_file: Vec<PathBuf>,

    #[command(flatten)]
    pub live: LiveArgs,
    /// Stop capturing after this time: 60s, 5min, 2h
    #[arg(long = "for", value_name = "TIME", value_parser = window, requires = "interface",
          help_heading = "Live capture (Linux)")]
    pub window: Option<Duration>,
    /// Serve Prometheus metrics at /metrics while capturing; a port alone is on 127.0.0.1
    #[arg(long, value_name = "ADDR:PORT", value_parser = metrics_address, requires = "interface",
          help_heading = "Live capture (Linux)")]
    pub metrics: Option<SocketAddr>,

    #[command(flatten)]
    pub filter: FilterArgs,

    /// Number of threads for reading files, 1 to 8 [default: one per processor]
    #[arg(long, value_name = "N", conflicts_with = "interface", help_heading = "Packets",
          value_parser = number_within::<u8>(1..=8))]
    pub threads: Option<u8>,

    /// Show connection N (first column of the table) in detail, as a sequence diagram; --json, --csv and
    /// --pcap-out then write only this connection; repeatable
    #[arg(long, value_name = "N", help_heading = "Which connections")]
    pub flow: Vec<u64>,
    /// Only connections to this server: a name (* matches any letters), an address, or ADDRESS:PORT;
    /// repeatable
    #[arg(long, value_name = "SERVER", help_heading = "Which connections")]
    pub server: Vec<String>,
    /// Only connections with this kind of handshake; repeatable
    #[arg(long, value_enum, value_name = "KIND", help_heading = "Which connections")]
    pub session: Vec<WireSession>,

    #[command(flatten)]
    pub rows: RowArgs,
    /// Write one row per connection as Parquet
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub parquet: Option<Destination>,
    /// Write one row per TLS connection in the format of Zeek's ssl.log
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub zeek: Option<Destination>,
    /// Write a self-contained page with findings, charts, tables and diagrams
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub html: Option<Destination>,
    /// Write the diagrams of --flow as SVG into DIR
    #[arg(long, value_name = "DIR", requires = "flow", help_heading = "Output")]
    pub svg: Option<PathBuf>,
    /// Write the packets of the selected connections as pcapng, like tcpdump -w
    #[arg(short = 'w', long, value_name = "FILE", help_heading = "Output")]
    pub pcap_out: Option<Destination>,
    /// Disk space for live packets of unfinished connections; a bare number is MiB. Connections that need
    /// more are left out of --pcap-out, and counted
    #[arg(long, value_name = "SIZE", default_value = "1024", requires = "interface",
          value_parser = spool, help_heading = "Live capture (Linux)")]
    pub spool: u64,
    /// Servers to show, most connections first; findings cover all servers
    #[arg(long, value_name = "N", default_value_t = 20, help_heading = "Output")]
    pub servers: usize,
    /// Estimate how many connections per second each server sustains, full and resumed
    #[arg(long, help_heading = "Output")]
    pub capacity: bool,
    /// Connections to show, oldest first
    #[arg(long, value_name = "N", default_value_t = 50, help_heading = "Output")]
    pub connections: usize,
    /// When to use colours
    #[arg(long, value_enum, default_value_t = ColorChoice::Auto, help_heading = "Output")]
    pub color: ColorChoice,
}

const WIRE_HELP: &str = "\
Examples:
  firstbyte wire office.pcapng                findings, servers, connections
  tcpdump -w - port 443 | firstbyte wire -    from a pipe
  firstbyte wire --json day-*.pcap.gz | jq .handshake_time.server_ns
  firstbyte wire -i eth0 --for 60s            live, for a minute
  firstbyte wire -i eth0 --metrics 9464 --json >> connections.ndjson
  firstbyte wire -i eth0 -w all.pcapng --html all.html    until Ctrl-C
  firstbyte wire -i eth0 --session failed -w failed.pcapng --zeek - | zeek-cut
  firstbyte wire office.pcapng --flow 7       connection 7, message by message
  firstbyte wire office.pcapng --html office.html
  firstbyte wire busy.pcapng --capacity       connections per second
  firstbyte wire office.pcapng --session failed --pcap-out failed.pcapng

Output files: - is standard output. To read a file called diff, write ./diff.
Columns: docs/wire.md. Formats: docs/formats.md.";

#[derive(Clone, Debug, Subcommand)]
pub(in crate::cli) enum WireCommand {
    Diff(WireDiffArgs),
}

/// Compare two captures, or the servers of one capture
///
/// Compares servers by address and port. Lists the changes that are significant and large enough to
/// matter, most expensive first.
#[derive(Args, Clone, Debug)]
#[command(after_help = WIRE_DIFF_HELP)]
#[command(mut_arg("json", |a| a.help("One JSON object, to stdout or FILE")))]
#[command(mut_arg("csv", |a| a.help("One CSV row per change, to stdout or FILE")))]
pub(in crate::cli) struct WireDiffArgs {
    /// Capture from before; with --by or --group, the only capture
    #[arg(value_name = "BEFORE", required_unless_present = "interface")]
    pub before: Option<PathBuf>,
    /// Capture from after; with -i, the live capture
    #[arg(value_name = "AFTER", required_unless_present_any = ["by", "group", "interface"],
          conflicts_with = "interface")]
    pub after: Option<PathBuf>,

    /// Compare each server of one capture with all other servers
    #[arg(long, value_enum, value_name = "WHAT", conflicts_with_all = ["after", "group"])]
    pub by: Option<WireDiffBy>,
    /// A group of servers in one capture; give two groups, the baseline first. SERVER is a name (* matches
    /// any letters), an address, or ADDRESS:PORT
    #[arg(long, value_name = "NAME=SERVER,…", conflicts_with = "after")]
    pub group: Vec<String>,

    /// Estimate what each change costs at other round-trip times, up to four: 20ms,80ms
    #[arg(long, value_name = "TIME,…", value_delimiter = ',', value_parser = round_trip)]
    pub project_rtt: Vec<Duration>,

    #[command(flatten)]
    pub live: LiveArgs,
    /// Stop capturing after this time: 60s, 5min, 2h. Given twice, without BEFORE, makes two captures, one
    /// after the other
    #[arg(long = "for", value_name = "TIME", value_parser = window, requires = "interface",
          help_heading = "Live capture (Linux)")]
    pub windows: Vec<Duration>,

    #[command(flatten)]
    pub filter: FilterArgs,

    #[command(flatten)]
    pub rows: RowArgs,
    /// Write a self-contained page with findings, charts and tables
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub html: Option<Destination>,
    /// When to use colours
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
  firstbyte wire diff monday.pcapng -i eth0 --for 60s
  firstbyte wire diff -i eth0 --for 60s --for 60s
  firstbyte wire diff monday.pcapng tuesday.pcapng --project-rtt 20ms,80ms
  firstbyte wire diff office.pcap --group 'a=node1*' --group 'b=10.0.0.7'
  firstbyte wire diff monday.pcapng tuesday.pcapng --html changed.html --csv

Output files: - is standard output. Tests and costs: docs/wire.md. JSON:
docs/formats.md.";
