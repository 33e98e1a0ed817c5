//! What `wire` can be told.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::RowArgs;
use super::live::{FilterArgs, LiveArgs, metrics_address, round_trip, spool, window};
use crate::plans::{ColorChoice, Destination, WireSession};

/// Read TLS handshakes, resumption and where time went out of captured traffic
///
/// Nothing is decrypted. Files are pcap or pcapng, plain or packed by gzip or zstd; - is standard
/// input. Several are read one after the other, as one capture. With -i packets are taken from an
/// interface as they pass; Ctrl-C ends that and shows the results, a second one ends at once.
#[derive(Args, Clone, Debug)]
#[command(after_help = WIRE_HELP, args_conflicts_with_subcommands = true)]
#[command(subcommand_negates_reqs = true)]
#[command(mut_arg("json", |a| {
    a.help("One JSON object per connection (NDJSON), on stdout or in FILE")
}))]
#[command(mut_arg("csv", |a| a.help("One row per connection, as CSV, on stdout or in FILE")))]
pub(in crate::cli) struct WireArgs {
    #[command(subcommand)]
    pub command: Option<WireCommand>,

    /// Captures, in the order in which they were made
    #[arg(required_unless_present = "interface", value_name = "FILE")]
    pub files: Vec<PathBuf>,

    #[command(flatten)]
    pub live: LiveArgs,
    /// Capture for so long: 60s, 5min, 2h
    #[arg(long = "for", value_name = "TIME", value_parser = window, requires = "interface",
          help_heading = "Live capture (Linux)")]
    pub window: Option<Duration>,
    /// Serve Prometheus metrics there meanwhile, at /metrics; a port alone is on 127.0.0.1
    #[arg(long, value_name = "ADDR:PORT", value_parser = metrics_address, requires = "interface",
          help_heading = "Live capture (Linux)")]
    pub metrics: Option<SocketAddr>,

    #[command(flatten)]
    pub filter: FilterArgs,

    /// Read files on so many threads, 1 to 8; without it on as many as there are processors. Results are
    /// the same
    #[arg(long, value_name = "N", conflicts_with = "interface", help_heading = "Packets",
          value_parser = clap::value_parser!(u8).range(1..=8))]
    pub threads: Option<u8>,

    /// Show connection N, the number in the table's first column, as a sequence diagram, with all that
    /// is known of it; with --html draw it there too; rows (--json and the like) and --pcap-out are of
    /// it alone. Can be given several times
    #[arg(long, value_name = "N", help_heading = "Which connections")]
    pub flow: Vec<u64>,
    /// Only connections to this server: a name, in which * stands for any letters, an address, or
    /// ADDRESS:PORT. Can be given several times
    #[arg(long, value_name = "SERVER", help_heading = "Which connections")]
    pub server: Vec<String>,
    /// Only connections whose handshake was so. Can be given several times
    #[arg(long, value_enum, value_name = "KIND", help_heading = "Which connections")]
    pub session: Vec<WireSession>,

    #[command(flatten)]
    pub rows: RowArgs,
    /// One row per connection, as Parquet
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub parquet: Option<Destination>,
    /// One row per connection with TLS, as Zeek's ssl.log has them
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub zeek: Option<Destination>,
    /// One page with findings, pictures, tables and diagrams, that loads nothing
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub html: Option<Destination>,
    /// The diagrams of --flow as SVG, into this directory
    #[arg(long, value_name = "DIR", requires = "flow", help_heading = "Output")]
    pub svg: Option<PathBuf>,
    /// The packets of the connections chosen, as pcapng. Files are read twice; live packets are written
    /// as they come, or, with --server or --session, when their connection is over. As with tcpdump -w
    #[arg(short = 'w', long, value_name = "FILE", help_heading = "Output")]
    pub pcap_out: Option<Destination>,
    /// Room on the disk for live packets whose connection is not over yet, MiB where no unit is given. A connection that does
    /// not end within as many is left out of --pcap-out, and counted
    #[arg(long, value_name = "SIZE", default_value = "1024", requires = "interface",
          value_parser = spool, help_heading = "Live capture (Linux)")]
    pub spool: u64,
    /// Servers to show, those with most connections; findings are of all
    #[arg(long, value_name = "N", default_value_t = 20, help_heading = "Output")]
    pub servers: usize,
    /// Say also how many connections a second each server sustains, full against resumed, where handshakes wait
    /// for each other; or that it cannot be known, and why
    #[arg(long, help_heading = "Output")]
    pub capacity: bool,
    /// Connections to show, the first of them; servers count all
    #[arg(long, value_name = "N", default_value_t = 50, help_heading = "Output")]
    pub connections: usize,
    /// Colours
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
  firstbyte wire busy.pcapng --capacity       what servers sustain
  firstbyte wire office.pcapng --session failed --pcap-out failed.pcapng

A FILE to write is - for standard output. A file that is called diff is ./diff.
Columns are explained in docs/wire.md, formats in docs/formats.md.";

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
#[command(mut_arg("json", |a| a.help("One JSON object, on stdout or in FILE")))]
#[command(mut_arg("csv", |a| a.help("One row per change, as CSV, on stdout or in FILE")))]
pub(in crate::cli) struct WireDiffArgs {
    /// Capture of how it was; with --by or --group, the only one
    #[arg(value_name = "BEFORE", required_unless_present = "interface")]
    pub before: Option<PathBuf>,
    /// Capture of how it is; with -i, the live capture
    #[arg(value_name = "AFTER", required_unless_present_any = ["by", "group", "interface"],
          conflicts_with = "interface")]
    pub after: Option<PathBuf>,

    /// Each server of one capture against all the others
    #[arg(long, value_enum, value_name = "WHAT", conflicts_with_all = ["after", "group"])]
    pub by: Option<WireDiffBy>,
    /// Servers of one capture that belong together, twice: what it should be like, and what is held
    /// against that. A server is a name, in which * stands for any letters, an address, or ADDRESS:PORT
    #[arg(long, value_name = "NAME=SERVER,…", conflicts_with = "after")]
    pub group: Vec<String>,

    /// Say also what each change would cost where the round trip between client and server is so long:
    /// 80ms, or up to four: 20ms,80ms. Round trips take the new time, hosts what they took
    #[arg(long, value_name = "TIME,…", value_delimiter = ',', value_parser = round_trip)]
    pub project_rtt: Vec<Duration>,

    #[command(flatten)]
    pub live: LiveArgs,
    /// Capture for so long: 60s, 5min, 2h. Given twice, without BEFORE: two live captures, one after
    /// the other
    #[arg(long = "for", value_name = "TIME", value_parser = window, requires = "interface",
          help_heading = "Live capture (Linux)")]
    pub windows: Vec<Duration>,

    #[command(flatten)]
    pub filter: FilterArgs,

    #[command(flatten)]
    pub rows: RowArgs,
    /// One page with sentences, pictures before and after, and tables, that loads nothing
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub html: Option<Destination>,
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
  firstbyte wire diff monday.pcapng -i eth0 --for 60s     now against then
  firstbyte wire diff -i eth0 --for 60s --for 60s         two minutes
  firstbyte wire diff monday.pcapng tuesday.pcapng --project-rtt 20ms,80ms   for users who are farther away
  firstbyte wire diff office.pcap --group 'a=node1*' --group 'b=10.0.0.7'
  firstbyte wire diff monday.pcapng tuesday.pcapng --html changed.html --csv

A FILE to write is - for standard output. What is tested, from when on it matters and what costs are: docs/wire.md, \"What
changed\". JSON: docs/formats.md.";
