//! Arguments of `firstbyte exporter`: blackbox_exporter's flags under the same names.

use std::path::PathBuf;

use clap::Args;

use super::number_within;

const EXAMPLES: &str = "\
A drop-in replacement for blackbox_exporter: same configuration, same metrics,
with the phases of HTTP probes timed by the kernel. SIGHUP and POST /-/reload
read the configuration again. It listens on 127.0.0.1 unless
--web.listen-address says otherwise. See docs/exporter.md.

Examples:
  firstbyte exporter --config.file blackbox.yml
  firstbyte exporter --config.file blackbox.yml --config.check
  firstbyte exporter --web.listen-address :9115 --compat.version 0.23
  curl 'http://127.0.0.1:9115/probe?module=http_2xx&target=https://example.com/'
  curl 'http://127.0.0.1:9115/probe?module=tcp&target=example.com:25&debug=true'";

const LOG_LEVELS: [&str; 4] = ["debug", "info", "warn", "error"];

/// Serve Prometheus, as a drop-in replacement of blackbox_exporter
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct ExporterArgs {
    /// Configuration file, in blackbox_exporter's YAML
    #[arg(long = "config.file", value_name = "FILE", default_value = "blackbox.yml")]
    pub config_file: PathBuf,
    /// Check the configuration file, and exit
    #[arg(long = "config.check")]
    pub config_check: bool,
    /// Seconds to subtract from the scrape timeout
    #[arg(
        long = "timeout-offset",
        value_name = "SECONDS",
        default_value = "0.5",
        allow_negative_numbers = true
    )]
    pub timeout_offset: String,
    /// Address to listen on; :9115 is all addresses; repeatable
    #[arg(
        long = "web.listen-address",
        value_name = "ADDRESS:PORT",
        default_value = "127.0.0.1:9115"
    )]
    pub listen_address: Vec<String>,
    /// Number of probes kept for /logs; as many failed ones again
    #[arg(long = "history.limit", value_name = "N", default_value_t = 100,
          value_parser = number_within::<u32>(0..=100_000))]
    pub history_limit: u32,
    /// Least severe messages to write: debug, info, warn or error
    #[arg(long = "log.level", value_name = "LEVEL", default_value = "info",
          value_parser = LOG_LEVELS, hide_possible_values = true)]
    pub log_level: String,
    /// Form of messages and probe logs: logfmt or json
    #[arg(long = "log.format", value_name = "FORMAT", default_value = "logfmt",
          value_parser = ["logfmt", "json"], hide_possible_values = true)]
    pub log_format: String,
    /// Least severe lines of probe logs to write
    #[arg(long = "log.prober", value_name = "LEVEL", default_value = "info",
          value_parser = LOG_LEVELS, hide_possible_values = true)]
    pub log_prober: String,
    /// Version of blackbox_exporter whose metrics to serve
    #[arg(long = "compat.version", value_name = "VERSION", default_value = "0.28",
          value_parser = ["0.23", "0.28"])]
    pub compat_version: String,
}
