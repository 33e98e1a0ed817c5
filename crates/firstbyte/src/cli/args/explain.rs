//! What can be typed after `firstbyte explain`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use firstbyte_core::units::{BareTime, parse_time_within};

use super::{VisitArgs, at_least_one};
use crate::cli::plan::quantities::told;
use crate::cli::typed::UrlText;
use crate::plans::{ColorChoice, Destination};

const EXAMPLES: &str = "\
Connects in several ways (TLS 1.2 and 1.3, resumed, with early data, on an open
connection, without TLS, over HTTP/3, over IPv4 and IPv6: what the server
offers), in random order, and says where the time of a connection goes, what
costs time and could be otherwise, and what that would save.

Examples:
  firstbyte explain https://example.com/
  firstbyte explain https://example.com/ --server-log-ms 8
                             does the server's log agree with what is seen here?
  firstbyte explain https://example.com/ --html why.html --run why.run
  firstbyte explain --from why.run
  firstbyte explain https://example.com/ --client chromium
                             and what does a browser take besides?
  firstbyte explain --from why.run --server-log access.log
                             the log itself, request by request
  firstbyte lab run curl-length -- \\
      firstbyte explain https://far.curl-length.test/";

/// Why does it take so long? The equation, the sequence, what to change and what that saves
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct ExplainArgs {
    /// What to explain; https:// unless it says otherwise
    #[arg(value_name = "URL", required_unless_present = "from")]
    pub url: Option<UrlText>,

    /// Rounds; each connects in every way once. From 20 on, figures have intervals
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20, help_heading = "Experiment",
          allow_negative_numbers = true, value_parser = at_least_one)]
    pub samples: u32,
    /// Seed of the order
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Experiment")]
    pub seed: u64,
    /// Explain what an earlier `explain --run FILE` has measured
    #[arg(long, value_name = "RUN", help_heading = "Experiment", conflicts_with_all = ["url", "run"])]
    pub from: Option<PathBuf>,

    /// What the server's own log says the request took, milliseconds where no unit is given
    #[arg(long, value_name = "MS", help_heading = "Other witnesses", value_parser = milliseconds,
          allow_negative_numbers = true)]
    pub server_log_ms: Option<Duration>,

    /// The server's access log (nginx, Apache, Caddy), as `firstbyte log-format` has it written
    #[arg(long, value_name = "FILE", help_heading = "Other witnesses")]
    pub server_log: Option<PathBuf>,

    /// A capture (pcap, pcapng) of these connections, taken at either end while they were made
    #[arg(long, value_name = "FILE", help_heading = "Other witnesses")]
    pub capture: Option<PathBuf>,

    /// One JSON object, on stdout instead of text, or in FILE
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true,
          default_missing_value = Destination::STREAM, help_heading = "Output")]
    pub json: Option<Destination>,
    /// The explanation as one page, which needs no network
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub html: Option<Destination>,
    /// Every picture as SVG: the ways beside each other, the sequence of messages
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub svg: Option<PathBuf>,
    /// Every picture as PNG
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub png: Option<PathBuf>,
    /// Keep every sample in FILE, for `explain --from` and `report`
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub run: Option<PathBuf>,
    /// No progress bar
    #[arg(short, long, help_heading = "Output")]
    pub silent: bool,
    /// Colours
    #[arg(long, value_enum, default_value_t = ColorChoice::Auto, help_heading = "Output")]
    pub color: ColorChoice,

    #[command(flatten)]
    pub visit: VisitArgs,
}

fn milliseconds(text: &str) -> Result<Duration, String> {
    let allowed = Duration::ZERO..=Duration::from_secs(3_600);
    parse_time_within(text, BareTime::Milliseconds, allowed).map_err(|error| told(&error))
}
