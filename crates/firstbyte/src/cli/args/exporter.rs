//! What can be typed after `firstbyte exporter`: blackbox_exporter's flags, by their names.

use std::path::PathBuf;

use clap::Args;

const EXAMPLES: &str = "\
An unchanged configuration of blackbox_exporter, and unchanged scrapes of
Prometheus, have the metrics that they had; phases of http come from the
kernel's times. SIGHUP and POST /-/reload read the configuration again. Only
this machine can reach it, unless --web.listen-address says otherwise. See
docs/exporter.md.

Examples:
  firstbyte exporter --config.file blackbox.yml
  firstbyte exporter --config.file blackbox.yml --config.check
  firstbyte exporter --web.listen-address :9115 --compat.version 0.23
  curl 'http://127.0.0.1:9115/probe?module=http_2xx&target=https://example.com/'
  curl 'http://127.0.0.1:9115/probe?module=tcp&target=example.com:25&debug=true'";

/// Answer Prometheus as blackbox_exporter does
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct ExporterArgs {
    /// The configuration, in blackbox_exporter's YAML
    #[arg(long = "config.file", value_name = "FILE", default_value = "blackbox.yml")]
    pub config_file: PathBuf,
    /// Check FILE, and end
    #[arg(long = "config.check")]
    pub config_check: bool,
    /// Seconds that a probe ends before the scrape's time is up
    #[arg(
        long = "timeout-offset",
        value_name = "SECONDS",
        default_value = "0.5",
        allow_negative_numbers = true
    )]
    pub timeout_offset: String,
    /// Where to listen; :9115 is at all addresses. Can be given several times
    #[arg(
        long = "web.listen-address",
        value_name = "ADDRESS:PORT",
        default_value = "127.0.0.1:9115"
    )]
    pub listen_address: Vec<String>,
    /// Probes to remember for /logs; failed ones are kept for as many more
    #[arg(long = "history.limit", value_name = "N", default_value_t = 100,
          value_parser = clap::value_parser!(u32).range(0..=100_000))]
    pub history_limit: u32,
    /// Whose metrics: 0.23 or 0.28
    #[arg(long = "compat.version", value_name = "VERSION", default_value = "0.28",
          value_parser = ["0.23", "0.28"])]
    pub compat_version: String,
}
