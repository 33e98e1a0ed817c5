//! Arguments of `firstbyte predict`.

use std::path::PathBuf;

use clap::Args;

use super::{RequestsArgs, RowArgs, at_least_one, list_axes};
use crate::plans::{ColorChoice, Destination};
use crate::prediction::ways;

/// Predicts times without a network: real TLS and QUIC state machines over a simulated path.
#[derive(Args, Clone, Debug)]
#[command(after_help = predict_help())]
#[command(mut_arg("json", |a| a.help(JSON)))]
#[command(mut_arg("requests", |a| a.help(REQUESTS).help_heading("Exchange").conflicts_with("population")))]
#[command(mut_arg("parallel", |a| a.help(PARALLEL).help_heading("Exchange")))]
#[command(mut_arg("csv", |a| a.help(CSV).conflicts_with("population")))]
pub(in crate::cli) struct PredictArgs {
    /// Take path, certificate chain, sizes and server time from the first variant of a run; flags override them
    #[arg(long, value_name = "RUN", help_heading = "Path")]
    pub from: Option<PathBuf>,
    /// Round-trip time [default: 80ms]
    #[arg(long, value_name = "TIME", help_heading = "Path")]
    pub rtt: Option<String>,
    /// Packet loss in each direction, such as 1% [default: none]
    #[arg(long, value_name = "SHARE", help_heading = "Path")]
    pub loss: Option<String>,
    /// Download rate, such as 20mbit [default: no limit]
    #[arg(long, value_name = "RATE", help_heading = "Path")]
    pub rate: Option<String>,
    /// Upload rate [default: no limit]
    #[arg(long, value_name = "RATE", help_heading = "Path")]
    pub up_rate: Option<String>,
    /// Maximum TCP segment size, payload only [default: 1448]
    #[arg(long, value_name = "BYTES", help_heading = "Path")]
    pub mss: Option<String>,

    /// Size of the certificate chain in bytes [default: 3000]
    #[arg(long, value_name = "BYTES", help_heading = "Server")]
    pub chain: Option<String>,
    /// Server think time: from request to response, as in the server's log [default: none]
    #[arg(long, value_name = "TIME", help_heading = "Server")]
    pub think: Option<String>,
    /// Initial congestion window of the server in segments [default: 10]
    #[arg(long, value_name = "N", value_parser = at_least_one, help_heading = "Server")]
    pub initial_window: Option<u32>,
    /// TCP congestion control: cubic, reno, bbr
    #[arg(long, value_name = "NAME", default_value = "cubic", help_heading = "Server")]
    pub congestion_control: String,
    /// The server validates the address of QUIC clients with a Retry packet
    #[arg(long, help_heading = "Server")]
    pub retry: bool,

    /// Size of the response body [default: 20kB]
    #[arg(long, value_name = "BYTES", help_heading = "Exchange")]
    pub response: Option<String>,
    /// Size of the request body [default: none]
    #[arg(long, value_name = "BYTES", help_heading = "Exchange")]
    pub upload: Option<String>,
    /// DNS time [default: the name is cached]
    #[arg(long, value_name = "TIME", help_heading = "Exchange")]
    pub dns: Option<String>,
    /// Key-exchange groups to offer, preferred first, separated by colons
    #[arg(long, value_name = "GROUPS", help_heading = "Exchange")]
    pub curves: Option<String>,

    #[command(flatten)]
    pub several: RequestsArgs,

    /// Access network of the client, by name (docs/access.md), or all; repeatable
    #[arg(long, value_name = "NAME", help_heading = "Path", conflicts_with_all = ["population", "verbose"])]
    pub access: Vec<String>,

    /// Axis to vary and the values to predict; the first value is the baseline [default: all common variants]
    #[arg(long, value_name = "AXIS=VALUE,VALUE", help_heading = "Variants")]
    pub vary: Vec<String>,

    /// Predict for an audience: CSV with the columns rtt_ms, weight and optionally loss
    #[arg(long, value_name = "FILE", help_heading = "Audience")]
    pub population: Option<PathBuf>,
    /// Change to predict for the audience (--vary with two values works too)
    #[arg(long, value_name = "AXIS=FROM:TO", help_heading = "Audience", requires = "population")]
    pub change: Vec<String>,
    /// Number of visitors to simulate
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = at_least_one,
          help_heading = "Audience")]
    pub connections: u32,
    /// Write a self-contained page with chart and figures
    #[arg(long, value_name = "FILE", help_heading = "Audience", requires = "population")]
    pub html: Option<Destination>,
    /// Write the chart as SVG into DIR
    #[arg(long, value_name = "DIR", help_heading = "Audience", requires = "population")]
    pub svg: Option<PathBuf>,
    /// Write the chart as PNG into DIR
    #[arg(long, value_name = "DIR", help_heading = "Audience", requires = "population")]
    pub png: Option<PathBuf>,

    /// Connections to simulate for each variant when packets are lost
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1000, value_parser = at_least_one,
          help_heading = "Output")]
    pub samples: u32,
    /// Seed of packet loss
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Output")]
    pub seed: u64,
    #[command(flatten)]
    pub rows: RowArgs,
    /// Draw every variant with its flights of packets
    #[arg(short, long, help_heading = "Output")]
    pub verbose: bool,
    /// When to use colours
    #[arg(long, value_enum, default_value_t = ColorChoice::Auto, help_heading = "Output")]
    pub color: ColorChoice,
}

const REQUESTS: &str =
    "Number of equal requests; the total ends with the last byte of the last response [default: 1]";
const PARALLEL: &str = "How to send them: 1 (one after the other on one HTTP/1.1 connection), 6 or another number of parallel HTTP/1.1 connections, h2 or h3 (all at once on one connection) [default: 1]";
const JSON: &str =
    "One JSON object per predicted connection (NDJSON), or one for an audience, to stdout or FILE";
const CSV: &str = "One CSV row per predicted connection, times in microseconds, to stdout or FILE";

const EXAMPLES: &str = "\
Examples:
  firstbyte predict --rtt 80ms --chain 4000 --response 20kB --think 8ms
  firstbyte predict --rtt 200ms --vary tls=1.2,1.3 --vary session=full,resumed
  firstbyte predict --vary http=2,3 --loss 1% -n 10000
  firstbyte predict --requests 12 --vary parallel=1,6,h2,h3
  firstbyte predict --from firstbyte-20260102-150405.run
  firstbyte predict --population rum.csv --change tls=1.2:1.3 --svg .

docs/prediction.md says what is simulated and how accurate it is.";

fn predict_help() -> String {
    format!("{}\n{EXAMPLES}", list_axes(ways::axes()))
}
