//! What the user can type. No defaults that depend on each other, no conflicts: that is `plan`.

mod check;
mod explain;
mod exporter;
mod har;
mod live;
mod log_format;
mod monitor;
mod monitor_events;
mod monitor_export;
mod outputs;
mod page;
mod predict;
mod rum;
mod serve;
mod wire;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use super::typed::{AxisText, BodyText, FieldText, RawBodyText, UrlText};
use crate::plans::{ColorChoice, Destination};
pub(super) use check::CheckArgs;
pub(super) use explain::ExplainArgs;
pub(super) use exporter::ExporterArgs;
use firstbyte_core::access::ACCESS_PROFILES;
pub(super) use har::{HarArgs, HarCommand};
pub(super) use live::{FilterArgs, LiveArgs};
pub(super) use log_format::LogFormatArgs;
pub(super) use monitor::{MonitorArgs, MonitorCommand};
pub(super) use monitor_events::{FormChoice, MonitorEventsArgs, StateChoice};
pub(super) use monitor_export::{MonitorExportArgs, RowForm, StepChoice};
pub(super) use outputs::RowArgs;
pub(super) use page::PageArgs;
pub(super) use predict::PredictArgs;
pub(super) use rum::{RumArgs, RumCommand};
pub(super) use serve::{EarlyDataChoice, ExportArgs, OnOff, ResumptionChoice, ServeArgs, Version};
pub(super) use wire::{WireArgs, WireCommand, WireDiffArgs};

/// Where did the time before the first byte go?
///
/// Measures a connection to the microsecond, and says which part was network, server and client.
#[derive(Debug, Parser)]
#[command(
    name = "firstbyte",
    version,
    args_conflicts_with_subcommands = true,
    // As with curl, the last one counts.
    args_override_self = true,
    subcommand_negates_reqs = true,
    after_help = EXAMPLES,
)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub command: Option<Command>,
    #[command(flatten)]
    pub probe: ProbeArgs,
}

const EXAMPLES: &str = "\
Examples:
  firstbyte https://example.com/              one connection, as a waterfall
  firstbyte -n 100 https://example.com/       percentiles of 100 connections
  firstbyte --json -n 20 URL | jq .total_ns   one JSON object per sample
  firstbyte -w '%{time_connect} %{time_appconnect}\\n' URL
                                              the format you have for curl
  firstbyte --http3-only --qlog logs URL      a QUIC connection as qlog, into logs
  firstbyte demo                              try it without network or root
  firstbyte lab run govuk -- firstbyte https://sydney.govuk.test/

Times are written 5s, 250ms or 1.5min, sizes 20kB; see docs/units.md.
Exit codes are curl's where curl has one; see docs/exit-codes.md.";

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Measure connections to URLs (the default when no command is named)
    Probe(Box<ProbeArgs>),
    /// Compare ways to connect: randomised rounds, proof, and statistics to decide by
    Compare(Box<CompareArgs>),
    Explain(Box<ExplainArgs>),
    Page(Box<PageArgs>),
    /// Measure a plan, and fail when a condition is met: for pipelines
    Check(CheckArgs),
    Monitor(Box<MonitorArgs>),
    Exporter(ExporterArgs),
    /// Predict what connections would take, of one visitor or of a whole audience
    Predict(Box<PredictArgs>),
    /// Show runs, curl's timers, or HAR files: as text, page, charts, data
    Report(Box<ReportArgs>),
    Har(HarArgs),
    LogFormat(LogFormatArgs),
    /// Compare ways to connect to three continents, on this machine alone
    Demo(DemoArgs),
    /// Real servers behind emulated links, in network namespaces
    Lab(LabArgs),
    Serve(Box<ServeArgs>),
    Rum(RumArgs),
    Wire(Box<WireArgs>),
}

/// Flags mean what they mean to curl.
#[derive(Args, Debug)]
#[command(mut_arg("json", |a| a.help("One JSON object per sample (NDJSON), on stdout or in FILE")))]
#[command(mut_arg("csv", |a| {
    a.help("One CSV row per sample, times in microseconds, on stdout or in FILE")
}))]
pub(super) struct ProbeArgs {
    /// What to measure; https:// unless it says otherwise
    #[arg(required = true, value_name = "URL")]
    pub urls: Vec<UrlText>,

    /// How many samples to take, each on a connection of its own
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1, help_heading = "Sampling",
          allow_negative_numbers = true, value_parser = at_least_one)]
    pub samples: u32,
    /// Time from the start of a sample to the start of the next, such as 250ms; seconds where no unit is
    /// given [default: none]
    #[arg(long, value_name = "TIME", help_heading = "Sampling", allow_negative_numbers = true)]
    pub interval: Option<String>,
    /// Samples measured first, shown apart and not pooled [default: 1 when N > 1]
    #[arg(long, value_name = "N", help_heading = "Sampling",
          allow_negative_numbers = true, value_parser = whole_number)]
    pub warmup: Option<u32>,

    #[command(flatten)]
    pub rows: RowArgs,
    /// Log each QUIC connection as qlog, into DIR, for viewers of such [default: with --http3-only
    /// QLOGDIR, where that is set]
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub qlog: Option<PathBuf>,
    /// Print in curl's format language after each sample; @FILE reads it from a file, @- from stdin
    #[arg(short = 'w', long, value_name = "FORMAT", help_heading = "Output")]
    pub write_out: Option<String>,
    /// Draw the connection as a sequence diagram; of several samples the one in the middle by total
    #[arg(long, help_heading = "Output")]
    pub sequence: bool,
    /// Show every flight
    #[arg(short, long, help_heading = "Output")]
    pub verbose: bool,
    /// Write the response's body to FILE; - is stdout, and what is shown for people goes to stderr
    /// [default: it is dropped]
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    pub output: Option<PathBuf>,
    /// No progress bar
    #[arg(short, long, help_heading = "Output")]
    pub silent: bool,
    /// Accepted for curl's sake: errors are always shown
    #[arg(short = 'S', long, hide = true)]
    pub show_error: bool,
    /// Colours
    #[arg(long, value_enum, default_value_t = ColorChoice::Auto, help_heading = "Output")]
    pub color: ColorChoice,

    #[command(flatten)]
    pub visit: VisitArgs,
    #[command(flatten)]
    pub several: RequestsArgs,
}

/// How many requests a sample is of.
#[derive(Args, Clone, Debug)]
pub(super) struct RequestsArgs {
    /// Requests of each sample, all of the same URL: its total is until the last response's last byte, as a
    /// user waits for them [default: 1]
    #[arg(long, value_name = "N", help_heading = "HTTP", allow_negative_numbers = true,
          value_parser = at_least_one)]
    pub requests: Option<u32>,
    /// How the requests of a sample are made: 1 (one after the other on a kept HTTP/1.1 connection), 6 or
    /// another number of HTTP/1.1 connections side by side, h2 or h3 (all at once on one connection)
    /// [default: 1]
    #[arg(
        long,
        value_name = "WAY",
        help_heading = "HTTP",
        allow_negative_numbers = true,
        requires = "requests"
    )]
    pub parallel: Option<String>,
}

/// How a visit is made.
#[derive(Args, Clone, Debug)]
pub(super) struct VisitArgs {
    /// Who visits: firstbyte, curl, chromium or firefox
    #[arg(long, value_name = "WHO", default_value = "firstbyte", help_heading = "Connection")]
    pub client: String,
    /// Who resolves names: dns (A and AAAA timed apart), system (getaddrinfo), or a server's address
    #[arg(long, value_name = "WHO", default_value = "dns", help_heading = "Connection")]
    pub resolver: String,
    /// Use ADDRESS for HOST:PORT instead of asking DNS
    #[arg(long, value_name = "HOST:PORT:ADDRESS[,ADDRESS]", help_heading = "Connection")]
    pub resolve: Vec<String>,
    /// Connect to HOST2:PORT2 when the URL says HOST1:PORT1
    #[arg(long, value_name = "HOST1:PORT1:HOST2:PORT2", help_heading = "Connection")]
    pub connect_to: Vec<String>,
    /// IPv4 only
    #[arg(short = '4', long, help_heading = "Connection", conflicts_with = "ipv6")]
    pub ipv4: bool,
    /// IPv6 only
    #[arg(short = '6', long, help_heading = "Connection")]
    pub ipv6: bool,
    /// Leave from this device or address
    #[arg(long, value_name = "NAME", help_heading = "Connection")]
    pub interface: Option<String>,
    /// Time allowed until the handshakes are done, seconds where no unit is given [default: 300s]
    #[arg(long, value_name = "TIME", help_heading = "Connection", allow_negative_numbers = true)]
    pub connect_timeout: Option<String>,
    /// Time allowed for a whole sample, redirects included, such as 5 or 1.5min, seconds where no unit is
    /// given; 0 is no limit [default: no limit; 30s in compare, explain and check]
    #[arg(
        short,
        long,
        value_name = "TIME",
        help_heading = "Connection",
        allow_negative_numbers = true
    )]
    pub max_time: Option<String>,

    /// TLS 1.2 or later
    #[arg(long = "tlsv1.2", help_heading = "TLS")]
    pub tlsv1_2: bool,
    /// TLS 1.3 or later
    #[arg(long = "tlsv1.3", help_heading = "TLS")]
    pub tlsv1_3: bool,
    /// Highest TLS version offered: 1.2, 1.3 or default
    #[arg(long, value_name = "VERSION", help_heading = "TLS")]
    pub tls_max: Option<String>,
    /// Key-exchange groups offered, most wanted first, separated by colons
    #[arg(long, value_name = "GROUPS", help_heading = "TLS")]
    pub curves: Option<String>,
    /// Measure although the certificate is bad
    #[arg(short = 'k', long, help_heading = "TLS")]
    pub insecure: bool,
    /// Trust the issuers in this PEM file instead of the system's
    #[arg(long, value_name = "FILE", help_heading = "TLS")]
    pub cacert: Option<PathBuf>,
    /// Client certificate (PEM)
    #[arg(short = 'E', long, value_name = "FILE", help_heading = "TLS")]
    pub cert: Option<PathBuf>,
    /// The client certificate's key (PEM), when it is in a file of its own
    #[arg(long, value_name = "FILE", help_heading = "TLS", requires = "cert")]
    pub key: Option<PathBuf>,

    /// HTTP/1.1
    #[arg(long = "http1.1", help_heading = "HTTP", group = "http")]
    pub http1_1: bool,
    /// HTTP/2 where the server agrees (the default with https)
    #[arg(long = "http2", help_heading = "HTTP", group = "http")]
    pub http2: bool,
    /// HTTP/2 or nothing; with http:// without asking first
    #[arg(long = "http2-prior-knowledge", help_heading = "HTTP", group = "http")]
    pub http2_prior_knowledge: bool,
    /// HTTP/3 over QUIC or nothing
    #[arg(long = "http3-only", help_heading = "HTTP", group = "http")]
    pub http3_only: bool,
    /// Header field to add; NAME: removes a generated one, NAME; sends it empty
    #[arg(short = 'H', long, value_name = "FIELD", help_heading = "HTTP")]
    pub header: Vec<FieldText>,
    /// Method [default: GET, POST with -d]
    #[arg(short = 'X', long, value_name = "METHOD", help_heading = "HTTP")]
    pub request: Option<String>,
    /// HEAD
    #[arg(short = 'I', long, help_heading = "HTTP")]
    pub head: bool,
    /// Body to send; @FILE reads it from a file
    #[arg(
        short = 'd',
        long,
        value_name = "DATA",
        help_heading = "HTTP",
        visible_alias = "data-ascii",
        conflicts_with = "head"
    )]
    pub data: Vec<BodyText>,
    /// Body to send, as it is: an @ is no file, newlines are kept
    #[arg(long, value_name = "DATA", help_heading = "HTTP", conflicts_with = "head")]
    pub data_raw: Vec<RawBodyText>,
    /// Body to send, newlines kept; @FILE reads it from a file
    #[arg(long, value_name = "DATA", help_heading = "HTTP", conflicts_with = "head")]
    pub data_binary: Vec<BodyText>,
    /// User-Agent
    #[arg(short = 'A', long, value_name = "NAME", help_heading = "HTTP")]
    pub user_agent: Option<String>,
    /// Ask for a compressed body, and decode it
    #[arg(long, help_heading = "HTTP")]
    pub compressed: bool,
    /// Follow redirects, each measured on a connection of its own
    #[arg(short = 'L', long, help_heading = "HTTP")]
    pub location: bool,
    /// Redirects to follow with -L; -1 is any number
    #[arg(long, value_name = "N", default_value_t = 50, help_heading = "HTTP",
          allow_negative_numbers = true, value_parser = clap::value_parser!(i64).range(-1..=1_000_000))]
    pub max_redirs: i64,
    /// A status of 400 or more is a failure (exit code 22)
    #[arg(short, long, help_heading = "HTTP")]
    pub fail: bool,
}

fn at_least_one(text: &str) -> Result<u32, &'static str> {
    text.parse().ok().filter(|n| *n > 0).ok_or("not a whole number from 1")
}

fn whole_number(text: &str) -> Result<u32, &'static str> {
    text.parse().map_err(|_| "not a whole number from 0")
}

#[derive(Args, Clone, Debug)]
#[command(after_help = COMPARE_HELP)]
pub(super) struct CompareArgs {
    /// What to measure; https:// unless it says otherwise
    #[arg(value_name = "URL", required_unless_present_any = ["plan", "resume"])]
    pub url: Option<UrlText>,

    /// What to vary, and the values to compare; the first is what others are compared with
    #[arg(long, value_name = "AXIS=VALUE,VALUE", help_heading = "Experiment")]
    pub vary: Vec<AxisText>,
    /// A way to connect, as several axes' values under one name
    #[arg(long, value_name = "NAME: AXIS=VALUE AXIS=VALUE", help_heading = "Experiment")]
    pub way: Vec<AxisText>,
    /// Read the experiment from a TOML file; flags given beside it count more
    #[arg(long, value_name = "FILE", help_heading = "Experiment")]
    pub plan: Option<PathBuf>,
    /// Rounds that count; each visits every cell once
    #[arg(short = 'n', long, value_name = "N", default_value_t = 30, value_parser = at_least_one,
          help_heading = "Experiment", allow_negative_numbers = true)]
    pub samples: u32,
    /// Go on until the interval of every cell's median is this narrow, such as median±1% or
    /// ttfb.median±0.5% (+- will do for ±)
    #[arg(long, value_name = "WIDTH", help_heading = "Experiment")]
    pub until: Option<String>,
    /// Rounds after which --until gives up [default: 1000]
    #[arg(long, value_name = "N", value_parser = at_least_one, help_heading = "Experiment",
          allow_negative_numbers = true)]
    pub max_samples: Option<u32>,
    /// Rounds measured first, shown apart and not pooled
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole_number,
          help_heading = "Experiment", allow_negative_numbers = true)]
    pub warmup: u32,
    /// Time from when one sample is due to when the next is, such as 250ms; seconds where no unit is
    /// given; 0 is as fast as it goes [default:
    /// what a visit takes in the first round, and a tenth]
    #[arg(long, value_name = "TIME", help_heading = "Experiment", allow_negative_numbers = true)]
    pub interval: Option<String>,
    /// Visit a round's cells side by side: all of them, or those that differ in these axes
    #[arg(long, value_name = "AXIS,AXIS", num_args = 0..=1, require_equals = true,
          default_missing_value = "", help_heading = "Experiment")]
    pub concurrent: Option<String>,
    /// Measure the first cell twice, to check the experiment itself
    #[arg(long, help_heading = "Experiment")]
    pub aa: bool,
    /// Seed of the order and of the resampling
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Experiment")]
    pub seed: u64,
    /// Say what would be measured, and measure nothing
    #[arg(long, help_heading = "Experiment")]
    pub dry_run: bool,
    /// Send requests as early data although their method is not safe to repeat
    #[arg(long, help_heading = "Experiment")]
    pub early_data_any_method: bool,

    /// File that every sample is written to before the next one is begun
    /// [default: firstbyte-DATE-TIME.run]
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub run: Option<PathBuf>,
    /// Go on with the run in FILE where it was interrupted
    #[arg(long = "continue", id = "resume", value_name = "FILE", help_heading = "Output",
          conflicts_with_all = ["plan", "run", "vary", "way"])]
    pub resume: Option<PathBuf>,
    #[command(flatten)]
    pub render: RenderArgs,
    /// No progress bar
    #[arg(short, long, help_heading = "Output")]
    pub silent: bool,

    #[command(flatten)]
    pub visit: VisitArgs,
    #[command(flatten)]
    pub several: RequestsArgs,
}

/// Files are told apart by what is in them; several runs are compared with each other.
#[derive(Args, Clone, Debug)]
#[command(after_help = REPORT_HELP)]
#[command(mut_arg("by", |a| {
    a.help("The axis that leads: verdicts are about it first [default: tls, session, http, kex, \
            connection; those of the path, such as family and edge, come last]. Of access logs: \
            what requests are told apart by (host, protocol, tls, session, status, method, path)")
}))]
pub(super) struct ReportArgs {
    /// Run files, CSV files of curl's timers, HAR files, network logs of Chromium's, field data,
    /// access logs of nginx, Apache and Caddy, or the directory of a monitor's store
    #[arg(required_unless_present = "averages", value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Daily averages as an analytics product exports them: when they changed, and by how much
    #[arg(long, value_name = "FILE",
          conflicts_with_all = ["files", "by", "csv", "parquet", "har", "html", "packets",
                                "since", "until", "target"])]
    pub averages: Option<PathBuf>,
    /// A capture of the same connections, made at the client: what each client says of them is
    /// held against it
    #[arg(long, value_name = "FILE", help_heading = "Input")]
    pub packets: Option<PathBuf>,
    /// From when on, of a monitor's store [default: 30 days before the end]
    #[arg(long, value_name = "WHEN", help_heading = "Input")]
    pub since: Option<String>,
    /// Until when, of a monitor's store [default: now]
    #[arg(long, value_name = "WHEN", help_heading = "Input")]
    pub until: Option<String>,
    /// This target of a monitor's store. Can be given several times [default: all]
    #[arg(long, value_name = "NAME", help_heading = "Input")]
    pub target: Vec<String>,
    /// Hosts of a network log to show, those whose requests waited longest for connections; rows of
    /// access logs
    #[arg(long, value_name = "N", default_value_t = 20, help_heading = "Output")]
    pub hosts: usize,
    /// Requests of a network log to show, those that waited longest for a connection
    #[arg(long, value_name = "N", default_value_t = 10, help_heading = "Output")]
    pub requests: usize,
    /// Paths of access logs to show, the slowest by p95
    #[arg(long, value_name = "N", default_value_t = 10, help_heading = "Output")]
    pub paths: usize,
    #[command(flatten)]
    pub render: RenderArgs,
}

const REPORT_HELP: &str = "\
Examples:
  firstbyte report firstbyte-20260102-150405.run --html report.html
  firstbyte report monday.run tuesday.run   the runs, compared with each other
  firstbyte report tls12.csv tls13.csv      tables with the columns
                                            DNS,Connect,SSL,Wait,TTFB,Total Time
  firstbyte report a.run --csv | cut -d, -f2,10
  firstbyte report a.run --percentiles      the ways' differences, p5 to p99, as CSV
  firstbyte report http3.run --qlog logs    QUIC connections, for viewers of qlog
  firstbyte report example.com.har          what a browser exported
  firstbyte report --averages analytics.csv --svg .
  firstbyte report field.ndjson             what browsers sent to `rum serve`
  firstbyte report a.run --packets client.pcapng   by how much each client's own
                                            times are off
  firstbyte report netlog.json              what Chromium's chrome://net-export
                                            or --log-net-log=FILE wrote
  firstbyte report access.log               what a server logged, best as
                                            `firstbyte log-format` has it
  firstbyte report access.log access.log.1.gz --by path,status
  firstbyte report /var/lib/firstbyte --since 7d    what a monitor summed up

What is read and written is described in docs/formats.md.";

/// Where the results of a comparison go.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct RenderArgs {
    /// The axis that leads: verdicts are about it first [default: tls, session, http, kex,
    /// connection; those of the path, such as family and edge, come last]
    #[arg(long, value_name = "AXIS", help_heading = "Output")]
    pub by: Option<String>,
    /// One page with all pictures and tables, which needs no network
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub html: Option<Destination>,
    /// Every chart as SVG
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub svg: Option<PathBuf>,
    /// Every chart as PNG
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub png: Option<PathBuf>,
    #[command(flatten)]
    pub rows: RowArgs,
    /// Differences of all compared ways, percentile by percentile, as CSV, on stdout or in FILE
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true,
          default_missing_value = Destination::STREAM, help_heading = "Output")]
    pub percentiles: Option<Destination>,
    /// All samples as Parquet
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub parquet: Option<Destination>,
    /// All samples as HTTP Archive (HAR 1.2)
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub har: Option<Destination>,
    /// Each QUIC connection as qlog
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub qlog: Option<PathBuf>,
    /// Colours
    #[arg(long, value_enum, default_value_t = ColorChoice::Auto, help_heading = "Output")]
    pub color: ColorChoice,
}

const COMPARE_HELP: &str = "\
A cell is one combination of the axes' values; every round visits each cell
once, in random order. A sample counts for its cell only if the wire proves it.

Axes, and their values:
  tls         1.2, 1.3
  client      firstbyte, curl, chromium, firefox
  session     full, resumed, 0rtt (or session-id, ticket, psk by name)
  http        1.1, 2, 3
  scheme      http, https, each with :PORT where it is not 80 or 443
  connection  new, reused
  family      4, 6
  edge        NAME:ADDRESS, several addresses joined by +, or NAME:HOST
  kex         x25519, p256, p384, x25519mlkem768
  site        NAME:URL, to visit different URLs
  parallel    1, 6 or another number of HTTP/1.1 connections, h2, h3; with --requests
  resolver    dns, system, or a server's address

Examples:
  firstbyte compare https://example.com/ --vary tls=1.2,1.3 --vary family=4,6
  firstbyte compare URL --vary session=full,resumed,0rtt --html report.html
  firstbyte compare URL --vary http=2,3 --until median±1% --max-samples 200
  firstbyte compare URL --requests 12 --vary parallel=1,6,h2,h3
  firstbyte compare URL --way 'HTTP/2: http=2 tls=1.3' \\
                        --way 'HTTP/3, 0-RTT: http=3 session=0rtt'
  firstbyte compare --plan study.toml --dry-run
  firstbyte compare --continue firstbyte-20260102-150405.run";

#[derive(Args, Debug)]
pub(super) struct DemoArgs {
    /// Rounds; each visits every variant once, in random order
    #[arg(short = 'n', long, alias = "rounds", value_name = "N", default_value_t = 20,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub samples: u32,
    /// Directory for firstbyte-demo.html, .csv and .run
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub output_dir: PathBuf,
    /// Seed of the order of variants and of the links' jitter
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Use the built-in server although nginx is installed
    #[arg(long)]
    pub builtin: bool,
}

#[derive(Args, Debug)]
pub(super) struct LabArgs {
    #[command(subcommand)]
    pub command: LabCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum LabCommand {
    /// Run a command on the scenario's client host, in a lab of its own
    #[command(after_help = "Example: firstbyte lab run govuk -- curl https://london.govuk.test/")]
    Run {
        #[command(flatten)]
        lab: NewLabArgs,
        /// The command and its arguments
        #[arg(required = true, last = true, value_name = "COMMAND")]
        command: Vec<std::ffi::OsString>,
    },
    /// Open a shell on the client host: of the lab that is up, or of one of its own
    Shell {
        #[command(flatten)]
        lab: NewLabArgs,
    },
    /// Start a lab that stays until it is taken down
    Up {
        #[command(flatten)]
        lab: NewLabArgs,
    },
    /// Run a command in a lab that is up
    Exec {
        /// The scenario of the lab that is up
        scenario: String,
        /// Host to run on [default: the client]
        #[arg(long, value_name = "HOST")]
        host: Option<String>,
        /// The command and its arguments
        #[arg(required = true, last = true, value_name = "COMMAND")]
        command: Vec<std::ffi::OsString>,
    },
    /// Which labs are up
    Status,
    /// Take labs down: that of a scenario, or all
    Down {
        /// The scenario of the lab to take down [default: all]
        scenario: Option<String>,
    },
    /// Run a scenario's study, and say whether what is expected came out
    #[command(after_help = "Example: firstbyte lab study pq --html pq.html")]
    Study(Box<StudyArgs>),
    Export(ExportArgs),
    /// The scenarios that come with firstbyte
    List,
    /// A scenario: its story, hosts and round trips; --source prints its file
    Show {
        /// A shipped scenario's name, or a file
        scenario: String,
        /// Print the TOML file, to copy and change
        #[arg(long)]
        source: bool,
    },
}

#[derive(Args, Debug)]
pub(super) struct StudyArgs {
    #[command(flatten)]
    pub lab: NewLabArgs,
    /// What to measure and what to expect [default: the study that comes with the scenario]
    #[arg(long, value_name = "FILE")]
    pub plan: Option<PathBuf>,
    /// Rounds that count [default: the plan's]
    #[arg(short = 'n', long, value_name = "N", value_parser = at_least_one,
          allow_negative_numbers = true)]
    pub samples: Option<u32>,
    /// File that every sample is written to [default: firstbyte-DATE-TIME.run]
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub run: Option<PathBuf>,
    #[command(flatten)]
    pub render: RenderArgs,
    /// No progress bar
    #[arg(short, long, help_heading = "Output")]
    pub silent: bool,
}

#[derive(Args, Debug)]
pub(super) struct NewLabArgs {
    /// A shipped scenario's name (see `lab list`), or a TOML file
    pub scenario: String,
    /// Write what passes client, middle and servers into DIR, as pcapng
    #[arg(long, value_name = "DIR")]
    pub capture: Option<PathBuf>,
    /// When the lab ends, copy its servers' access logs into DIR
    #[arg(long, value_name = "DIR")]
    pub logs: Option<PathBuf>,
    /// Put an access network before the client (docs/access.md)
    #[arg(long, value_name = "NAME", value_parser = access_names())]
    pub access: Option<String>,
    /// Seed of jitter and loss [default: the scenario's]
    #[arg(long)]
    pub seed: Option<u64>,
    /// Server software
    #[arg(long, value_enum, default_value_t = ServerSoftware::Auto)]
    pub server: ServerSoftware,
}

/// What access networks are called.
fn access_names() -> clap::builder::PossibleValuesParser {
    clap::builder::PossibleValuesParser::new(ACCESS_PROFILES.iter().map(|profile| profile.name))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ServerSoftware {
    /// As the scenario says; nginx where it is installed, else the built-in one
    Auto,
    Nginx,
    Caddy,
    Builtin,
}
