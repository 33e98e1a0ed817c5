//! Arguments of `firstbyte explain`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use firstbyte_core::units::{BareTime, parse_time_within};

use super::{VisitArgs, at_least_one};
use crate::cli::plan::quantities::told;
use crate::cli::typed::UrlText;
use crate::plans::{ColorChoice, Destination};

const EXAMPLES: &str = "\
Measures every variant that the server offers (TLS 1.2 and 1.3, resumed, early
data, an open connection, no TLS, HTTP/3, IPv4 and IPv6) in random order. Then
prints where the time goes, what costs time needlessly, and what a change would
save.

Examples:
  firstbyte explain https://example.com/
  firstbyte explain https://example.com/ --server-log-ms 8
                             compare with the server's own figure
  firstbyte explain https://example.com/ --html why.html --run why.run
  firstbyte explain --from why.run
  firstbyte explain https://example.com/ --client chromium
                             measure a browser's connections
  firstbyte explain --from why.run --server-log access.log
                             compare with the log, request by request
  firstbyte lab run curl-length -- \\
      firstbyte explain https://far.curl-length.test/";

/// Explain why a URL takes so long and what a change would save
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct ExplainArgs {
    /// URL to explain; https:// is assumed
    #[arg(value_name = "URL", required_unless_present = "from")]
    pub url: Option<UrlText>,

    /// Rounds; each round measures every variant once. Intervals need 20 rounds
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20, help_heading = "Experiment",
          allow_negative_numbers = true, value_parser = at_least_one)]
    pub samples: u32,
    /// Seed of the random order
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Experiment")]
    pub seed: u64,
    /// Explain an earlier run that `explain --run` wrote
    #[arg(long, value_name = "RUN", help_heading = "Experiment", conflicts_with_all = ["url", "run"])]
    pub from: Option<PathBuf>,

    /// Time of a request in the server's own log; a bare number is milliseconds
    #[arg(long, value_name = "MS", help_heading = "Evidence from elsewhere", value_parser = milliseconds,
          allow_negative_numbers = true)]
    pub server_log_ms: Option<Duration>,

    /// Access log of the server (nginx, Apache, Caddy), in the format of `firstbyte log-format`
    #[arg(long, value_name = "FILE", help_heading = "Evidence from elsewhere")]
    pub server_log: Option<PathBuf>,

    /// Capture (pcap, pcapng) of these connections, taken at the client or the server
    #[arg(long, value_name = "FILE", help_heading = "Evidence from elsewhere")]
    pub capture: Option<PathBuf>,

    /// One JSON object, to stdout or FILE
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true,
          default_missing_value = Destination::STREAM, help_heading = "Output")]
    pub json: Option<Destination>,
    /// Write the explanation as a self-contained page
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub html: Option<Destination>,
    /// Write the pictures as SVG into DIR: variants side by side, sequence of messages
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub svg: Option<PathBuf>,
    /// Write the pictures as PNG into DIR
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub png: Option<PathBuf>,
    /// Run file that keeps every sample, for `explain --from` and `report`
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub run: Option<PathBuf>,
    /// No progress bar
    #[arg(short, long, help_heading = "Output")]
    pub silent: bool,
    /// When to use colours
    #[arg(long, value_enum, default_value_t = ColorChoice::Auto, help_heading = "Output")]
    pub color: ColorChoice,

    #[command(flatten)]
    pub visit: VisitArgs,
}

fn milliseconds(text: &str) -> Result<Duration, String> {
    let allowed = Duration::ZERO..=Duration::from_secs(3_600);
    parse_time_within(text, BareTime::Milliseconds, allowed).map_err(|error| told(&error))
}
