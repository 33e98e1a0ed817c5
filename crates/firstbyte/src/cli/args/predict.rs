//! `firstbyte predict`.

use std::path::PathBuf;

use clap::Args;

use super::{RequestsArgs, RowArgs, at_least_one};
use crate::plans::{ColorChoice, Destination};

/// What connections would take, without a network: TLS and QUIC as they are, over a simulated path.
#[derive(Args, Clone, Debug)]
#[command(after_help = PREDICT_HELP)]
#[command(mut_arg("json", |a| a.help(JSON)))]
#[command(mut_arg("requests", |a| a.help(REQUESTS).help_heading("Exchange").conflicts_with("population")))]
#[command(mut_arg("parallel", |a| a.help(PARALLEL).help_heading("Exchange")))]
#[command(mut_arg("csv", |a| a.help(CSV).conflicts_with("population")))]
pub(in crate::cli) struct PredictArgs {
    /// Take path, chain, sizes and server time from the first way of this run; flags count more
    #[arg(long, value_name = "RUN", help_heading = "Path")]
    pub from: Option<PathBuf>,
    /// Round-trip time [default: 80ms]
    #[arg(long, value_name = "TIME", help_heading = "Path")]
    pub rtt: Option<String>,
    /// Packets lost, each way by itself [default: none]
    #[arg(long, value_name = "SHARE", help_heading = "Path")]
    pub loss: Option<String>,
    /// Bits per second from the server, as 20mbit [default: no limit]
    #[arg(long, value_name = "RATE", help_heading = "Path")]
    pub rate: Option<String>,
    /// Bits per second to the server [default: no limit]
    #[arg(long, value_name = "RATE", help_heading = "Path")]
    pub up_rate: Option<String>,
    /// Bytes of payload in a full TCP segment [default: 1448]
    #[arg(long, value_name = "BYTES", help_heading = "Path")]
    pub mss: Option<String>,

    /// Bytes of the certificates together [default: 3000]
    #[arg(long, value_name = "BYTES", help_heading = "Server")]
    pub chain: Option<String>,
    /// Time between request and response, as the server's log has it [default: none]
    #[arg(long, value_name = "TIME", help_heading = "Server")]
    pub think: Option<String>,
    /// Segments sent before the first acknowledgement [default: 10]
    #[arg(long, value_name = "N", value_parser = at_least_one, help_heading = "Server")]
    pub initial_window: Option<u32>,
    /// Congestion control of TCP: cubic, reno, bbr
    #[arg(long, value_name = "NAME", default_value = "cubic", help_heading = "Server")]
    pub congestion_control: String,
    /// QUIC connections have to prove their address by a Retry
    #[arg(long, help_heading = "Server")]
    pub retry: bool,

    /// Bytes of the response's body [default: 20kB]
    #[arg(long, value_name = "BYTES", help_heading = "Exchange")]
    pub response: Option<String>,
    /// Bytes of the request's body [default: none]
    #[arg(long, value_name = "BYTES", help_heading = "Exchange")]
    pub upload: Option<String>,
    /// Time that the name takes [default: known already]
    #[arg(long, value_name = "TIME", help_heading = "Exchange")]
    pub dns: Option<String>,
    /// Key-exchange groups offered, most wanted first, separated by colons
    #[arg(long, value_name = "GROUPS", help_heading = "Exchange")]
    pub curves: Option<String>,

    #[command(flatten)]
    pub several: RequestsArgs,

    /// Access networks before that path, one table for all of them: a name of docs/access.md, repeated,
    /// or all
    #[arg(long, value_name = "NAME", help_heading = "Path", conflicts_with_all = ["population", "verbose"])]
    pub access: Vec<String>,

    /// What to vary; the first way is what others are compared with [default: every way there is]
    #[arg(long, value_name = "AXIS=VALUE,VALUE", help_heading = "Ways")]
    pub vary: Vec<String>,

    /// Play a whole audience: CSV with the columns rtt_ms, weight and, if known, loss
    #[arg(long, value_name = "FILE", help_heading = "Audience")]
    pub population: Option<PathBuf>,
    /// What changes for the audience; --vary with two ways will do as well
    #[arg(long, value_name = "AXIS=FROM:TO", help_heading = "Audience", requires = "population")]
    pub change: Vec<String>,
    /// Visitors to play, each before and after the change
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = at_least_one,
          help_heading = "Audience")]
    pub connections: u32,
    /// One page with the chart and the figures, which needs no network
    #[arg(long, value_name = "FILE", help_heading = "Audience", requires = "population")]
    pub html: Option<Destination>,
    /// The chart as SVG, into this directory
    #[arg(long, value_name = "DIR", help_heading = "Audience", requires = "population")]
    pub svg: Option<PathBuf>,
    /// The chart as PNG, into this directory
    #[arg(long, value_name = "DIR", help_heading = "Audience", requires = "population")]
    pub png: Option<PathBuf>,

    /// Connections played for each way where packets get lost
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1000, value_parser = at_least_one,
          help_heading = "Output")]
    pub samples: u32,
    /// Seed of losses
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Output")]
    pub seed: u64,
    #[command(flatten)]
    pub rows: RowArgs,
    /// Draw every way, and show its flights
    #[arg(short, long, help_heading = "Output")]
    pub verbose: bool,
    /// Colours
    #[arg(long, value_enum, default_value_t = ColorChoice::Auto, help_heading = "Output")]
    pub color: ColorChoice,
}

const REQUESTS: &str = "Requests, all alike: the total is until the last response's last byte, as a user waits for them [default: 1]";
const PARALLEL: &str = "How they are made: 1 (one after the other on a kept HTTP/1.1 connection), 6 or another number of HTTP/1.1 connections side by side, h2 or h3 (all at once on one connection) [default: 1]";
const JSON: &str = "One JSON object per predicted connection (NDJSON), on stdout or in FILE; of an audience, one object";
const CSV: &str =
    "One CSV row per predicted connection, times in microseconds, on stdout or in FILE";

const PREDICT_HELP: &str = "\
Axes, and their values:
  tls         none, 1.2, 1.3
  session     full, resumed, 0rtt
  http        1.1, 2, 3
  kex         x25519, p256, p384, x25519mlkem768
  connection  new, reused
  parallel    1, 6 or another number of HTTP/1.1 connections, h2, h3; with --requests

Examples:
  firstbyte predict --rtt 80ms --chain 4000 --response 20kB --think 8ms
  firstbyte predict --rtt 200ms --vary tls=1.2,1.3 --vary session=full,resumed
  firstbyte predict --vary http=2,3 --loss 1% -n 10000
  firstbyte predict --requests 12 --vary parallel=1,6,h2,h3
  firstbyte predict --from firstbyte-20260102-150405.run
  firstbyte predict --population rum.csv --change tls=1.2:1.3 --svg .

What is simulated, and how far off it is: docs/prediction.md.";
