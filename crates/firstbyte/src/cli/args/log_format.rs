//! What can be typed after `firstbyte log-format`.

use clap::{Args, ValueEnum};
use firstbyte_sources::server_log::ServerKind;

const EXAMPLES: &str = "\
Examples:
  firstbyte log-format nginx > /etc/nginx/conf.d/firstbyte.conf
  firstbyte report /var/log/nginx/firstbyte.log
  firstbyte explain https://example.com/ --server-log firstbyte.log

What is printed says in comments where it goes. The log has request and upstream
times, the version of TLS, whether the session was resumed, whether the request
came as early data, and the kernel's round-trip time, as far as the server knows
them; of the client only its port, and no queries. See docs/server-logs.md.";

/// Print the configuration that makes a web server log what `report` and `explain` can use
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct LogFormatArgs {
    /// The server's software
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
