//! Arguments of `firstbyte har`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::plans::Destination;

const EXAMPLES: &str = "\
Examples:
  firstbyte har clean example.com.har -o clean.har
  firstbyte report clean.har

docs/har.md lists what is kept.";

/// Remove secrets from HTTP Archive (HAR) files
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

/// Write a copy with times, hosts and sizes only: no headers, cookies, bodies or queries
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct HarCleanArgs {
    /// HAR file, plain or gzip; - is standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// File to write; - is standard output
    #[arg(short, long, value_name = "FILE", default_value = Destination::STREAM)]
    pub output: Destination,
}
