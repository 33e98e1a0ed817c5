//! Arguments of `firstbyte rum`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::number_within;

/// Collect connection times from your visitors' browsers
#[derive(Args, Debug)]
pub(in crate::cli) struct RumArgs {
    #[command(subcommand)]
    pub command: RumCommand,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum RumCommand {
    Snippet(RumSnippetArgs),
    Serve(RumServeArgs),
}

const SNIPPET_HELP: &str = "\
Examples:
  firstbyte rum snippet > rum.js
  firstbyte rum snippet --endpoint https://field.example.com/rum --sample 10%

The script is smaller than 2 kB, loads nothing, and sends one beacon when the
visitor leaves the page: times and origins of connections, no identifiers. Put
it into a <script> element or a file of its own. Other origins show their times
if they answer with Timing-Allow-Origin. See docs/field-data.md.";

/// Print the script to include in your pages
#[derive(Args, Debug)]
#[command(after_help = SNIPPET_HELP)]
pub(in crate::cli) struct RumSnippetArgs {
    /// URL to send beacons to, or a path on the page's own origin
    #[arg(long, value_name = "URL", default_value = "/rum")]
    pub endpoint: String,
    /// Share of page views that send a beacon: 0.1 or 10%
    #[arg(long, value_name = "SHARE", default_value = "100%")]
    pub sample: String,
}

const SERVE_HELP: &str = "\
Examples:
  firstbyte rum serve --into field.ndjson
  firstbyte rum serve --into field.ndjson --listen 127.0.0.1:9090 --origin https://www.example.com
  firstbyte report field.ndjson

It speaks plain HTTP; let the web server of the site forward to it (nginx):
  location = /rum {
    proxy_pass http://127.0.0.1:8480;
    proxy_set_header X-Forwarded-For $remote_addr;
  }

It stores no addresses, URLs, cookies or browser names. Stop it with Ctrl-C or
SIGTERM.";

/// Receive beacons and Network Error Logging reports
#[derive(Args, Debug)]
#[command(after_help = SERVE_HELP)]
pub(in crate::cli) struct RumServeArgs {
    /// File to append each beacon and report to, as a line of NDJSON
    #[arg(long, value_name = "FILE")]
    pub into: PathBuf,
    /// Address to listen on
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8480",
          value_parser = listen_address)]
    pub listen: SocketAddr,
    /// Accept only beacons from pages of this origin; repeatable [default: all]
    #[arg(long, value_name = "ORIGIN")]
    pub origin: Vec<String>,
    /// Maximum requests per second
    #[arg(long, value_name = "N", default_value_t = 500, help_heading = "Limits",
          value_parser = number_within::<u32>(1..=100_000))]
    pub rate: u32,
    /// Maximum requests per second from one source; 0 means unlimited
    #[arg(long, value_name = "N", default_value_t = 20, help_heading = "Limits",
          value_parser = number_within::<u32>(0..=100_000))]
    pub rate_per_source: u32,
    /// Maximum size of FILE
    #[arg(long, value_name = "BYTES", default_value = "1GB", help_heading = "Limits")]
    pub max_file: String,
}

fn listen_address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| "not an address and a port, such as 127.0.0.1:8480 or [::1]:8480")
}
