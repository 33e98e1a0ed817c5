//! The arguments that users can type. Interdependent defaults and conflicts are handled in `plan`.

mod check;
mod explain;
mod exporter;
mod generated;
mod har;
mod live;
mod log_format;
mod monitor;
mod monitor_annotate;
mod monitor_demo;
mod monitor_events;
mod monitor_export;
mod monitor_status;
mod outputs;
mod page;
mod predict;
mod rum;
mod serve;
mod wire;

use std::path::PathBuf;

use clap::{ArgMatches, Args, FromArgMatches, Parser, Subcommand, ValueEnum};

use super::typed::{AxisText, BodyText, FieldText, RawBodyText, UrlText};
use crate::plans::{ColorChoice, Destination};
pub(super) use check::CheckArgs;
pub(super) use explain::ExplainArgs;
pub(super) use exporter::ExporterArgs;
use firstbyte_core::access::ACCESS_PROFILES;
pub(super) use generated::{CompletionsArgs, ManArgs};
pub(super) use har::{HarArgs, HarCommand};
pub(super) use live::{FilterArgs, LiveArgs};
pub(super) use log_format::LogFormatArgs;
pub(super) use monitor::{MonitorArgs, MonitorCommand};
pub(super) use monitor_annotate::MonitorAnnotateArgs;
pub(super) use monitor_demo::MonitorDemoArgs;
pub(super) use monitor_events::{FormChoice, MonitorEventsArgs, StateChoice};
pub(super) use monitor_export::{MonitorExportArgs, RowForm, StepChoice};
pub(super) use monitor_status::MonitorStatusArgs;
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
    // As with curl, the last one wins.
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
    /// Measure connections to URLs (the default command)
    Probe(Box<ProbeArgs>),
    Curl(CurlArgs),
    /// Compare ways to connect: randomised rounds, confidence intervals
    Compare(Box<CompareArgs>),
    Explain(Box<ExplainArgs>),
    Page(Box<PageArgs>),
    /// Measure a plan and fail if a condition is met, for CI pipelines
    Check(CheckArgs),
    Monitor(Box<MonitorArgs>),
    Exporter(ExporterArgs),
    /// Predict times, for one visitor or a whole audience
    Predict(Box<PredictArgs>),
    /// Show saved runs, HAR files, logs and field data
    Report(Box<ReportArgs>),
    Har(HarArgs),
    LogFormat(LogFormatArgs),
    /// Try it: connections to three continents, emulated on this machine
    Demo(DemoArgs),
    /// Run commands and studies with servers behind emulated links
    Lab(LabArgs),
    Serve(Box<ServeArgs>),
    Rum(RumArgs),
    Wire(Box<WireArgs>),
    Completions(CompletionsArgs),
    Man(ManArgs),
}

/// Carry out a command line of curl, and show where its time went
///
/// What follows is read as curl reads it: paste a line as it is. The timing report takes the place of the body on standard
/// output. docs/from-curl.md lists every option.
#[derive(Args, Debug)]
#[command(after_help = CURL_EXAMPLES)]
pub(super) struct CurlArgs {
    /// The words after curl
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "OPTIONS AND URLS"
    )]
    pub words: Vec<RawBodyText>,
}

const CURL_EXAMPLES: &str = "\
Examples:
  firstbyte curl -sS -H 'Accept: application/json' https://example.com/api
  firstbyte curl --json '{\"n\": 1}' https://example.com/items
  firstbyte curl -K requests.txt";

/// Flags mean what they mean to curl.
#[derive(Args, Debug)]
#[command(mut_arg("json", |a| a.help("A JSON object per sample, to stdout or FILE")))]
#[command(mut_arg("csv", |a| {
    a.help("One CSV row per sample, times in microseconds, to stdout or FILE")
}))]
pub(super) struct ProbeArgs {
    /// URL to measure; https:// is assumed
    #[arg(required = true, value_name = "URL")]
    pub urls: Vec<UrlText>,

    /// Number of samples
    #[arg(short = 'n', long, alias = "runs", value_name = "N", default_value_t = 1, help_heading = "Sampling",
          allow_negative_numbers = true, value_parser = at_least_one)]
    pub samples: u32,
    /// Time between the starts of two samples, such as 250ms; a bare number is seconds [default: none]
    #[arg(long, value_name = "TIME", help_heading = "Sampling", allow_negative_numbers = true)]
    pub interval: Option<String>,
    /// Samples taken first and left out of the statistics [default: 1 when N > 1]
    #[arg(long, value_name = "N", help_heading = "Sampling",
          allow_negative_numbers = true, value_parser = whole_number)]
    pub warmup: Option<u32>,

    #[command(flatten)]
    pub rows: RowArgs,
    /// Write a qlog file for each QUIC connection into DIR [default: $QLOGDIR with --http3-only]
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub qlog: Option<PathBuf>,
    /// Output format after each sample, as in curl
    ///
    /// @FILE reads it from a file, @- from standard input.
    #[arg(short = 'w', long, value_name = "FORMAT", help_heading = "Output")]
    pub write_out: Option<String>,
    /// Draw a sequence diagram (median sample)
    #[arg(long, help_heading = "Output")]
    pub sequence: bool,
    /// Show the response headers, and every flight of packets
    #[arg(short, long, help_heading = "Output")]
    pub verbose: bool,
    /// Show the response headers
    #[arg(short, long, help_heading = "Output")]
    pub include: bool,
    /// Write the response body to FILE; with -, the body goes to stdout and the report to stderr
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    pub output: Option<PathBuf>,
    /// No progress bar
    #[arg(short, long, help_heading = "Output")]
    pub silent: bool,
    /// Accepted for curl's sake: errors are always shown
    #[arg(short = 'S', long, hide = true)]
    pub show_error: bool,
    /// When to use colours
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
    /// Requests per sample, all for the same URL; the total ends with the last byte of the last response
    /// [default: 1]
    #[arg(long, value_name = "N", help_heading = "Requests", allow_negative_numbers = true,
          value_parser = at_least_one)]
    pub requests: Option<u32>,
    /// How to send them: 1 (one after the other on one HTTP/1.1 connection), 6 or another number of
    /// parallel HTTP/1.1 connections, h2 or h3 (all at once on one connection) [default: 1]
    #[arg(
        long,
        value_name = "HOW",
        help_heading = "Requests",
        allow_negative_numbers = true,
        requires = "requests"
    )]
    pub parallel: Option<String>,
}

/// How a visit is made.
#[derive(Args, Clone, Debug)]
pub(super) struct VisitArgs {
    /// Client that connects: firstbyte, curl, chromium or firefox
    #[arg(long, value_name = "CLIENT", default_value = "firstbyte", help_heading = "Connection")]
    pub client: String,
    /// Resolver: dns (times A and AAAA separately), system (getaddrinfo), or a name server's address
    #[arg(long, value_name = "RESOLVER", default_value = "dns", help_heading = "Connection")]
    pub resolver: String,
    /// Use ADDRESS for HOST:PORT, without DNS
    #[arg(long, value_name = "HOST:PORT:ADDRESS[,ADDRESS]", help_heading = "Connection")]
    pub resolve: Vec<String>,
    /// Connect to HOST2:PORT2 instead of HOST1:PORT1
    #[arg(long, value_name = "HOST1:PORT1:HOST2:PORT2", help_heading = "Connection")]
    pub connect_to: Vec<String>,
    /// IPv4 only
    #[arg(short = '4', long, help_heading = "Connection", conflicts_with = "ipv6")]
    pub ipv4: bool,
    /// IPv6 only
    #[arg(short = '6', long, help_heading = "Connection")]
    pub ipv6: bool,
    /// Proxy: http, https, socks4, socks4a, socks5 or socks5h; "" connects directly
    /// [default: $http_proxy, $https_proxy or $all_proxy]
    #[arg(
        short = 'x',
        long,
        value_name = "[SCHEME://][USER:PASSWORD@]HOST[:PORT]",
        help_heading = "Connection"
    )]
    pub proxy: Option<UrlText>,
    /// User of the proxy
    #[arg(short = 'U', long, value_name = "USER:PASSWORD", help_heading = "Connection")]
    pub proxy_user: Option<RawBodyText>,
    /// Hosts and domains to connect to directly, separated by commas; * for all [default: $no_proxy]
    #[arg(long, value_name = "HOST,HOST", help_heading = "Connection")]
    pub noproxy: Option<String>,
    /// Accept an invalid certificate of an https proxy
    #[arg(long, help_heading = "Connection")]
    pub proxy_insecure: bool,
    /// Trust the issuers in this PEM file for the certificate of an https proxy
    #[arg(long, value_name = "FILE", help_heading = "Connection")]
    pub proxy_cacert: Option<PathBuf>,
    /// Send from this network interface or address
    #[arg(long, value_name = "NAME", help_heading = "Connection")]
    pub interface: Option<String>,
    /// Time limit for DNS, TCP and TLS; a bare number is seconds [default: 300s]
    #[arg(long, value_name = "TIME", help_heading = "Connection", allow_negative_numbers = true)]
    pub connect_timeout: Option<String>,
    /// Time limit for a whole sample, redirects included; a bare number is seconds, 0 means unlimited
    /// [default: no limit; 30s in compare, explain and check]
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
    /// Highest TLS version: 1.2, 1.3 or default
    #[arg(long, value_name = "VERSION", help_heading = "TLS")]
    pub tls_max: Option<String>,
    /// Key-exchange groups to offer, preferred first, separated by colons
    #[arg(long, value_name = "GROUPS", help_heading = "TLS")]
    pub curves: Option<String>,
    /// Accept an invalid certificate
    #[arg(short = 'k', long, help_heading = "TLS")]
    pub insecure: bool,
    /// Trust the issuers in this PEM file instead of the system's
    #[arg(long, value_name = "FILE", help_heading = "TLS")]
    pub cacert: Option<PathBuf>,
    /// Client certificate (PEM)
    #[arg(short = 'E', long, value_name = "FILE", help_heading = "TLS")]
    pub cert: Option<PathBuf>,
    /// Key of the client certificate (PEM), if --cert does not contain it
    #[arg(long, value_name = "FILE", help_heading = "TLS", requires = "cert")]
    pub key: Option<PathBuf>,

    /// Use HTTP/1.1
    #[arg(long = "http1.1", help_heading = "HTTP", group = "http")]
    pub http1_1: bool,
    /// HTTP/2 if the server supports it (the default with https)
    #[arg(long = "http2", help_heading = "HTTP", group = "http")]
    pub http2: bool,
    /// HTTP/2 without asking first
    #[arg(long = "http2-prior-knowledge", help_heading = "HTTP", group = "http")]
    pub http2_prior_knowledge: bool,
    /// HTTP/3 only
    #[arg(long = "http3-only", help_heading = "HTTP", group = "http")]
    pub http3_only: bool,
    /// Header to send
    ///
    /// "Name:" removes a default header, "Name;" sends an empty one.
    #[arg(
        short = 'H',
        long,
        value_name = "FIELD",
        help_heading = "HTTP",
        allow_hyphen_values = true
    )]
    pub header: Vec<FieldText>,
    /// Request method [default: GET; POST with -d]
    #[arg(short = 'X', long, value_name = "METHOD", help_heading = "HTTP")]
    pub request: Option<String>,
    /// Send a HEAD request
    #[arg(short = 'I', long, help_heading = "HTTP")]
    pub head: bool,
    #[command(flatten)]
    pub body: BodyArgs,
    /// Cookies to send, such as 'a=1; b=2'
    #[arg(short = 'b', long, value_name = "DATA", help_heading = "HTTP")]
    pub cookie: Vec<RawBodyText>,
    /// User-Agent header
    #[arg(short = 'A', long, value_name = "NAME", help_heading = "HTTP")]
    pub user_agent: Option<String>,
    /// Request a compressed response and decode it
    #[arg(long, help_heading = "HTTP")]
    pub compressed: bool,
    /// Follow redirects, each on a new connection
    #[arg(short = 'L', long, help_heading = "HTTP")]
    pub location: bool,
    /// Maximum number of redirects with -L; -1 means 1000
    #[arg(long, value_name = "N", default_value_t = 50, help_heading = "HTTP",
          allow_negative_numbers = true, value_parser = number_within::<i64>(-1..=1_000_000))]
    pub max_redirs: i64,
    /// Treat status 400 and above as a failure (exit code 22)
    #[arg(short, long, help_heading = "HTTP")]
    pub fail: bool,
}

/// The parts of a request's body, in the order typed.
#[derive(Clone, Debug)]
pub(super) struct BodyArgs {
    pub parts: Vec<BodyPart>,
}

/// One part of a body, by its flag.
#[derive(Clone, Debug)]
pub(super) enum BodyPart {
    Data(BodyText),
    Raw(RawBodyText),
    Binary(BodyText),
}

/// The flags of a body, each with all its values.
#[derive(Args, Debug)]
struct BodyFlags {
    /// Request body; @FILE reads it from a file
    #[arg(
        short = 'd',
        long,
        value_name = "DATA",
        help_heading = "HTTP",
        visible_alias = "data-ascii",
        allow_hyphen_values = true,
        conflicts_with = "head"
    )]
    pub data: Vec<BodyText>,
    /// Request body, sent as typed: @ has no special meaning, newlines are kept
    #[arg(
        long,
        value_name = "DATA",
        help_heading = "HTTP",
        allow_hyphen_values = true,
        conflicts_with = "head"
    )]
    pub data_raw: Vec<RawBodyText>,
    /// Request body with newlines kept; @FILE reads it from a file
    #[arg(
        long,
        value_name = "DATA",
        help_heading = "HTTP",
        allow_hyphen_values = true,
        conflicts_with = "head"
    )]
    pub data_binary: Vec<BodyText>,
}

impl Args for BodyArgs {
    fn augment_args(command: clap::Command) -> clap::Command {
        BodyFlags::augment_args(command)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        BodyFlags::augment_args_for_update(command)
    }
}

impl FromArgMatches for BodyArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let flags = BodyFlags::from_arg_matches(matches)?;
        let places = |id| matches.indices_of(id).into_iter().flatten();
        let data = places("data").zip(flags.data.into_iter().map(BodyPart::Data));
        let raw = places("data_raw").zip(flags.data_raw.into_iter().map(BodyPart::Raw));
        let binary = places("data_binary").zip(flags.data_binary.into_iter().map(BodyPart::Binary));
        let mut parts: Vec<(usize, BodyPart)> = data.chain(raw).chain(binary).collect();
        parts.sort_by_key(|(place, _)| *place);
        Ok(Self { parts: parts.into_iter().map(|(_, part)| part).collect() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn at_least_one(text: &str) -> Result<u32, &'static str> {
    text.parse().ok().filter(|n| *n > 0).ok_or("expected a whole number, 1 or more")
}

/// Numbers of any type, by one message.
fn number_within<N: TryFrom<i64>>(
    range: std::ops::RangeInclusive<i64>,
) -> impl Fn(&str) -> Result<N, String> + Clone {
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        let (low, high) = (range.start(), range.end());
        number
            .and_then(|number| N::try_from(number).ok())
            .ok_or_else(|| format!("expected a whole number from {low} to {high}"))
    }
}

fn whole_number(text: &str) -> Result<u32, &'static str> {
    text.parse().map_err(|_| "expected a whole number, 0 or more")
}

#[derive(Args, Clone, Debug)]
#[command(after_help = compare_help())]
pub(super) struct CompareArgs {
    /// URL to measure; https:// is assumed. Several are compared with each other
    #[arg(value_name = "URL", required_unless_present_any = ["plan", "resume"])]
    pub urls: Vec<UrlText>,

    /// Axis to vary and the values to compare; the first value is the baseline
    #[arg(long, value_name = "AXIS=VALUE,VALUE", help_heading = "Experiment")]
    pub vary: Vec<AxisText>,
    /// One variant: values of several axes under one name
    #[arg(long, value_name = "NAME: AXIS=VALUE AXIS=VALUE", help_heading = "Experiment")]
    pub variant: Vec<AxisText>,
    /// Read the experiment from a TOML file; flags override it
    #[arg(long, value_name = "FILE", help_heading = "Experiment")]
    pub plan: Option<PathBuf>,
    /// Rounds; each round measures every variant once
    #[arg(short = 'n', long, alias = "runs", value_name = "N", default_value_t = 30, value_parser = at_least_one,
          help_heading = "Experiment", allow_negative_numbers = true)]
    pub samples: u32,
    /// Continue until the interval of every variant's median is this narrow, such as median±1% or
    /// ttfb.median±0.5% (+- works for ±)
    #[arg(long, value_name = "WIDTH", help_heading = "Experiment")]
    pub until: Option<String>,
    /// Maximum number of rounds with --until [default: 1000]
    #[arg(long, value_name = "N", value_parser = at_least_one, help_heading = "Experiment",
          allow_negative_numbers = true)]
    pub max_samples: Option<u32>,
    /// Rounds measured first and left out of the statistics
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole_number,
          help_heading = "Experiment", allow_negative_numbers = true)]
    pub warmup: u32,
    /// Time between the starts of two samples, such as 250ms; a bare number is seconds, 0 runs back to back
    /// [default: 110% of the first round's time per sample]
    #[arg(long, value_name = "TIME", help_heading = "Experiment", allow_negative_numbers = true)]
    pub interval: Option<String>,
    /// Measure the variants of a round in parallel: all, or those that differ in these axes
    #[arg(long, value_name = "AXIS,AXIS", num_args = 0..=1, require_equals = true,
          default_missing_value = "", help_heading = "Experiment")]
    pub concurrent: Option<String>,
    /// Measure the first variant twice, to check the experiment itself (A/A test)
    #[arg(long, help_heading = "Experiment")]
    pub aa: bool,
    /// Seed of the random order and of the bootstrap
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Experiment")]
    pub seed: u64,
    /// Print what would be measured, and stop
    #[arg(long, help_heading = "Experiment")]
    pub dry_run: bool,
    /// Send requests as early data even if their method is not safe to repeat
    #[arg(long, help_heading = "Experiment")]
    pub early_data_any_method: bool,

    /// Run file that keeps every sample [default: firstbyte-DATE-TIME.run]
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub run: Option<PathBuf>,
    /// Continue an interrupted run
    #[arg(long = "continue", id = "resume", value_name = "FILE", help_heading = "Output",
          conflicts_with_all = ["plan", "run", "vary", "variant"])]
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
    a.help("Axis to compare first [default: the first that varies, TLS before addresses]. For access logs: columns to group by (host, protocol, tls, session, status, \
            method, path)")
}))]
pub(super) struct ReportArgs {
    /// Run files, CSV files of curl timers, HAR files, Chromium network logs, field data, access logs of
    /// nginx, Apache and Caddy, or the directory of a monitor's store
    #[arg(required_unless_present = "averages", value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Daily averages exported from analytics (CSV): find when they changed, and by how much
    #[arg(long, value_name = "FILE",
          conflicts_with_all = ["files", "by", "compare_unlike", "csv", "parquet", "har", "html", "packets",
                                "since", "until", "target"])]
    pub averages: Option<PathBuf>,
    /// Capture of the same connections, taken at the client, to check each client's own times against
    #[arg(long, value_name = "FILE", help_heading = "Input")]
    pub packets: Option<PathBuf>,
    /// Start of the period, for a monitor's store [default: 30 days before the end]
    #[arg(long, value_name = "WHEN", help_heading = "Input")]
    pub since: Option<String>,
    /// End of the period, for a monitor's store [default: now]
    #[arg(long, value_name = "WHEN", help_heading = "Input")]
    pub until: Option<String>,
    /// Target of a monitor's store; repeatable [default: all]
    #[arg(long, value_name = "NAME", help_heading = "Input")]
    pub target: Vec<String>,
    /// Hosts of a network log to show, longest wait for a connection first; rows of access logs
    #[arg(long, value_name = "N", default_value_t = 20, help_heading = "Output")]
    pub hosts: usize,
    /// Requests of a network log to show, longest wait for a connection first
    #[arg(long, value_name = "N", default_value_t = 10, help_heading = "Output")]
    pub requests: usize,
    /// Paths of access logs to show, highest p95 first
    #[arg(long, value_name = "N", default_value_t = 10, help_heading = "Output")]
    pub paths: usize,
    #[command(flatten)]
    pub render: RenderArgs,
}

const REPORT_HELP: &str = "\
Examples:
  firstbyte report firstbyte-20260102-150405.run --html report.html
  firstbyte report monday.run tuesday.run   compare two runs
  firstbyte report tls12.csv tls13.csv      tables with the columns
                                            DNS,Connect,SSL,Wait,TTFB,Total Time
  firstbyte report a.run --csv | cut -d, -f2,10
  firstbyte report a.run --percentiles      differences from p5 to p99, as CSV
  firstbyte report http3.run --qlog logs    QUIC connections as qlog files
  firstbyte report example.com.har          a page load exported from a browser
  firstbyte report --averages analytics.csv --svg .
  firstbyte report field.ndjson             beacons from `firstbyte rum serve`
  firstbyte report a.run --packets client.pcapng   errors of each client's own
                                            times
  firstbyte report netlog.json              a log of chrome://net-export or
                                            --log-net-log=FILE
  firstbyte report access.log               an access log; `firstbyte log-format`
                                            prints the best format
  firstbyte report access.log access.log.1.gz --by path,status
  firstbyte report /var/lib/firstbyte --since 7d    a monitor's store

Formats: docs/formats.md.";

/// Where the results of a comparison go.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct RenderArgs {
    /// Axis to compare first [default: the first that varies, TLS before addresses]
    #[arg(long, value_name = "AXIS", help_heading = "Output")]
    pub by: Option<String>,
    /// Give verdicts on times even if the statuses or sizes of the responses differ
    #[arg(long, help_heading = "Output")]
    pub compare_unlike: bool,
    /// Write a self-contained page with all charts and tables
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub html: Option<Destination>,
    /// Write the table of medians and the verdicts as Markdown
    #[arg(long = "export-markdown", value_name = "FILE", help_heading = "Output")]
    pub markdown: Option<Destination>,
    /// Write every chart as SVG into DIR
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub svg: Option<PathBuf>,
    /// Write every chart as PNG into DIR
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub png: Option<PathBuf>,
    #[command(flatten)]
    pub rows: RowArgs,
    /// Differences of all compared variants at each percentile as CSV, to stdout or FILE
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true,
          default_missing_value = Destination::STREAM, help_heading = "Output")]
    pub percentiles: Option<Destination>,
    /// Write all samples as Parquet
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub parquet: Option<Destination>,
    /// Write all samples as HTTP Archive (HAR 1.2)
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub har: Option<Destination>,
    /// Write a qlog file for each QUIC connection into DIR
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub qlog: Option<PathBuf>,
    /// When to use colours
    #[arg(long, value_enum, default_value_t = ColorChoice::Auto, help_heading = "Output")]
    pub color: ColorChoice,
}

const COMPARE_INTRODUCTION: &str = "\
A variant is one combination of the axes' values. Every round measures each
variant once, in random order. A sample counts only if it was verified on the
wire: it used the TLS version, session, protocol … that its variant asks for.";

const COMPARE_EXAMPLES: &str = "\
Examples:
  firstbyte compare https://example.com/ --vary tls=1.2,1.3 --vary family=4,6
  firstbyte compare URL --vary session=full,resumed,0rtt --html report.html
  firstbyte compare URL --vary http=2,3 --until median±1% --max-samples 200
  firstbyte compare URL --requests 12 --vary parallel=1,6,h2,h3
  firstbyte compare URL --variant 'HTTP/2: http=2 tls=1.3' \\
                        --variant 'HTTP/3, 0-RTT: http=3 session=0rtt'
  firstbyte compare --plan study.toml --dry-run
  firstbyte compare --continue firstbyte-20260102-150405.run";

fn compare_help() -> String {
    let axes = list_axes(firstbyte_probe::experiment::axis::axes());
    format!("{COMPARE_INTRODUCTION}\n\n{axes}\n{COMPARE_EXAMPLES}")
}

/// The axes of `--vary`, a line each.
fn list_axes<'a>(axes: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let lines = axes.map(|(name, values)| format!("  {name:<11} {values}\n"));
    format!("Axes and their values:\n{}", lines.collect::<String>())
}

#[derive(Args, Debug)]
pub(super) struct DemoArgs {
    /// Rounds; each round measures every variant once, in random order
    #[arg(short = 'n', long, alias = "rounds", value_name = "N", default_value_t = 20,
          value_parser = number_within::<u32>(1..=1_000))]
    pub samples: u32,
    /// Directory for firstbyte-demo.html, firstbyte-demo.csv and firstbyte-demo.run
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub output_dir: PathBuf,
    /// Seed of the variants' order and of the links' jitter
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Use the built-in server even if nginx is installed
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
    /// Start a lab, run a command on its client host, stop the lab
    #[command(after_help = "Example: firstbyte lab run govuk -- curl https://london.govuk.test/")]
    Run {
        #[command(flatten)]
        lab: NewLabArgs,
        /// The command and its arguments
        #[arg(required = true, last = true, value_name = "COMMAND")]
        command: Vec<std::ffi::OsString>,
    },
    /// Open a shell on the client host of a running lab, or of a new one
    Shell {
        #[command(flatten)]
        lab: NewLabArgs,
    },
    /// Start a lab that runs until `lab down`
    Up {
        #[command(flatten)]
        lab: NewLabArgs,
    },
    /// Run a command in a running lab
    Exec {
        /// Scenario of the running lab
        scenario: String,
        /// Host to run on [default: the client]
        #[arg(long, value_name = "HOST")]
        host: Option<String>,
        /// The command and its arguments
        #[arg(required = true, last = true, value_name = "COMMAND")]
        command: Vec<std::ffi::OsString>,
    },
    /// List running labs
    Status,
    /// Stop the lab of a scenario, or those of this terminal
    Down {
        /// Scenario of the lab to stop [default: all that were started from this terminal]
        scenario: Option<String>,
    },
    /// Measure published figures again and compare them
    #[command(after_help = "Example: firstbyte lab study pq --html pq.html")]
    Study(Box<StudyArgs>),
    Export(ExportArgs),
    /// List the scenarios that come with firstbyte
    List,
    /// Show a scenario: its story, hosts and round-trip times
    Show {
        /// Name of a shipped scenario, or a TOML file
        scenario: String,
        /// Print its TOML file, to copy and change
        #[arg(long)]
        source: bool,
    },
}

#[derive(Args, Debug)]
pub(super) struct StudyArgs {
    #[command(flatten)]
    pub lab: NewLabArgs,
    /// Plan of the study [default: the study that comes with the scenario]
    #[arg(long, value_name = "FILE")]
    pub plan: Option<PathBuf>,
    /// Rounds [default: as the plan says]
    #[arg(short = 'n', long, value_name = "N", value_parser = at_least_one,
          allow_negative_numbers = true)]
    pub samples: Option<u32>,
    /// Run file that keeps every sample [default: firstbyte-DATE-TIME.run]
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
    /// Name of a shipped scenario (see `firstbyte lab list`), or a TOML file
    pub scenario: String,
    /// Write the packets at client, middle and servers into DIR, as pcapng
    #[arg(long, value_name = "DIR")]
    pub capture: Option<PathBuf>,
    /// Copy the servers' access logs into DIR when the lab ends
    #[arg(long, value_name = "DIR")]
    pub logs: Option<PathBuf>,
    /// Access network of the client (docs/access.md)
    #[arg(long, value_name = "NAME", value_parser = access_names())]
    pub access: Option<String>,
    /// Seed of jitter and loss [default: as the scenario says]
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
    /// As the scenario says: nginx if installed, else the built-in server
    Auto,
    Nginx,
    Caddy,
    Builtin,
}
