//! Arguments of `firstbyte page`.

use std::path::PathBuf;

use clap::Args;

use super::VisitArgs;
use crate::cli::typed::UrlText;
use crate::plans::{ColorChoice, Destination};

const EXAMPLES: &str = "\
Loads the page in a browser with a new profile and an empty cache. Shows the
connections that it opened, the requests on each, and how much of the load time
was waiting for connection set-up.

Examples:
  firstbyte page https://example.com/
  firstbyte page https://example.com/ --html page.html
  firstbyte page https://example.com/ --savings
  firstbyte page https://example.com/ --svg pictures
  firstbyte page https://example.com/ --json | jq '.connections | length'";

/// Flags of visits that browsers have not.
const NOT_OF_BROWSERS: [&str; 26] = [
    "resolver",
    "interface",
    "connect_timeout",
    "curves",
    "insecure",
    "cert",
    "key",
    "http2_prior_knowledge",
    "header",
    "request",
    "head",
    "data",
    "data_raw",
    "data_binary",
    "user_agent",
    "compressed",
    "location",
    "max_redirs",
    "fail",
    "connect_to",
    "cookie",
    "proxy",
    "proxy_user",
    "noproxy",
    "proxy_insecure",
    "proxy_cacert",
];

/// Load a page in a browser: connections and the cost of set-up
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
#[command(mut_arg("client", |a| {
    a.default_value("chromium").help("Browser: chromium or firefox")
}))]
// Hide flags that no browser supports; using them is an error.
#[command(mut_args(|a| match NOT_OF_BROWSERS.contains(&a.get_id().as_str()) {
    true => a.hide(true),
    false => a,
}))]
pub(in crate::cli) struct PageArgs {
    /// URL of the page; https:// is assumed
    #[arg(value_name = "URL")]
    pub url: UrlText,

    /// Estimate the savings of open connections, resumption, 0-RTT, HTTP/3 and a nearer edge
    #[arg(long)]
    pub savings: bool,

    /// One JSON object, to stdout or FILE
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true,
          default_missing_value = Destination::STREAM, help_heading = "Output")]
    pub json: Option<Destination>,
    /// Write the page load as HTTP Archive (HAR 1.2)
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub har: Option<Destination>,
    /// Write a self-contained page: figures, waterfall, connections, origins, requests
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub html: Option<Destination>,
    /// Write the waterfall as DIR/page.svg
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub svg: Option<PathBuf>,
    /// Write the waterfall as DIR/page.png
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub png: Option<PathBuf>,
    /// When to use colours
    #[arg(long, value_enum, default_value_t = ColorChoice::Auto, help_heading = "Output")]
    pub color: ColorChoice,

    #[command(flatten)]
    pub visit: VisitArgs,
}
