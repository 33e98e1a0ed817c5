//! What can be typed after `firstbyte rum`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Field data: what people's own browsers say of their connections
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

The script is under 2 kB, loads nothing, and sends one beacon a page view, when the page is left:
times of connections, the origins they lead to, and nothing that tells who somebody is. It can stand
in a <script> element or in a file of its own. Other origins show their times where they
answer with Timing-Allow-Origin. See docs/field-data.md.";

/// Print the script that pages carry
#[derive(Args, Debug)]
#[command(after_help = SNIPPET_HELP)]
pub(in crate::cli) struct RumSnippetArgs {
    /// Where beacons are sent: a URL, or a path of the page's own origin
    #[arg(long, value_name = "URL", default_value = "/rum")]
    pub endpoint: String,
    /// The share of page views that send one: 0.1 or 10%
    #[arg(long, value_name = "SHARE", default_value = "100%")]
    pub sample: String,
}

const SERVE_HELP: &str = "\
Examples:
  firstbyte rum serve --into field.ndjson
  firstbyte rum serve --into field.ndjson --listen 127.0.0.1:9090 --origin https://www.example.com
  firstbyte report field.ndjson

Plain HTTP, for the web server that has the site's certificate to pass on:
  location = /rum {
    proxy_pass http://127.0.0.1:8480;
    proxy_set_header X-Forwarded-For $remote_addr;
  }

No address, URL, cookie or name of a browser is kept. Ctrl-C or SIGTERM ends it.";

/// Take what pages send, and Network Error Logging reports, until told to stop
#[derive(Args, Debug)]
#[command(after_help = SERVE_HELP)]
pub(in crate::cli) struct RumServeArgs {
    /// File that each of them is written to as it comes, as a line; one that is there is continued
    #[arg(long, value_name = "FILE")]
    pub into: PathBuf,
    /// Where to listen; only this machine can reach 127.0.0.1
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8480",
          value_parser = listen_address)]
    pub listen: SocketAddr,
    /// Keep only what pages of this origin send. Can be given several times [default: all]
    #[arg(long, value_name = "ORIGIN")]
    pub origin: Vec<String>,
    /// Requests taken a second, in all
    #[arg(long, value_name = "N", default_value_t = 500, help_heading = "Limits",
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub rate: u32,
    /// Requests taken a second of one source; 0 is no limit
    #[arg(long, value_name = "N", default_value_t = 20, help_heading = "Limits",
          value_parser = clap::value_parser!(u32).range(0..=100_000))]
    pub rate_per_source: u32,
    /// Write no more than this into FILE
    #[arg(long, value_name = "BYTES", default_value = "1GB", help_heading = "Limits")]
    pub max_file: String,
}

fn listen_address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| "not an address and a port, such as 127.0.0.1:8480 or [::1]:8480")
}
