//! What can be typed after `firstbyte har`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::plans::Destination;

const EXAMPLES: &str = "\
Examples:
  firstbyte har clean example.com.har -o clean.har
  firstbyte report clean.har

What is kept, and what is not, is in docs/har.md.";

/// HTTP Archives (HAR) that browsers and other tools export
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct HarArgs {
    #[command(subcommand)]
    pub command: HarCommand,
}

#[derive(Clone, Debug, Subcommand)]
pub(in crate::cli) enum HarCommand {
    Clean(HarCleanArgs),
}

/// Write an archive without secrets: times, hosts, sizes, and no fields, cookies, bodies or queries
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct HarCleanArgs {
    /// The archive, plain or packed by gzip; - is standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Where it goes; - is stdout
    #[arg(short, long, value_name = "FILE", default_value = Destination::STREAM)]
    pub output: Destination,
}
