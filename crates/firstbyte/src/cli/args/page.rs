//! What can be typed after `firstbyte page`.

use clap::Args;

use super::VisitArgs;
use crate::cli::typed::UrlText;
use crate::plans::{ColorChoice, Destination};

const EXAMPLES: &str = "\
A browser loads the page, with a new profile and an empty cache. Shown are the
connections that it opened, what went over each, and how much of the load was
waiting for connections to be set up.

Examples:
  firstbyte page https://example.com/
  firstbyte page https://example.com/ --json | jq '.connections | length'";

/// Load a page in a browser: every connection, every request, and what set-up cost
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
#[command(mut_arg("client", |a| a.default_value("chromium").help("Who loads it: chromium")))]
pub(in crate::cli) struct PageArgs {
    /// The page; https:// unless it says otherwise
    #[arg(value_name = "URL")]
    pub url: UrlText,

    /// The page as one JSON object, on stdout or in FILE
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true,
          default_missing_value = Destination::STREAM, help_heading = "Output")]
    pub json: Option<Destination>,
    /// Colours
    #[arg(long, value_enum, default_value_t = ColorChoice::Auto, help_heading = "Output")]
    pub color: ColorChoice,

    #[command(flatten)]
    pub visit: VisitArgs,
}
