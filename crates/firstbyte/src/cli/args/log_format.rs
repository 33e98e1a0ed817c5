//! Arguments of `firstbyte log-format`.

use clap::{Args, ValueEnum};
use firstbyte_sources::server_log::ServerKind;

const EXAMPLES: &str = "\
Examples:
  firstbyte log-format nginx > /etc/nginx/conf.d/firstbyte.conf
  firstbyte report /var/log/nginx/firstbyte.log
  firstbyte explain https://example.com/ --server-log firstbyte.log

Comments in the output say where it belongs. The log holds request and upstream
times, TLS version, resumption, early data and the kernel's round-trip time, as
far as the server knows them. It holds no client address and no query strings.
See docs/server-logs.md.";

/// Print a log configuration for nginx, Apache or Caddy
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct LogFormatArgs {
    /// Server software
    #[arg(value_enum, value_name = "SERVER")]
    pub server: LogServer,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(in crate::cli) enum LogServer {
    Nginx,
    Apache,
    Caddy,
}

impl From<LogServer> for ServerKind {
    fn from(server: LogServer) -> Self {
        match server {
            LogServer::Nginx => Self::Nginx,
            LogServer::Apache => Self::Apache,
            LogServer::Caddy => Self::Caddy,
        }
    }
}
