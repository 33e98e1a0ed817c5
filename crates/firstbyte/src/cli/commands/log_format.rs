//! `firstbyte log-format`: prints the log format to put into a web server's configuration.

use firstbyte_sources::server_log::{ServerKind, configuration};

use crate::cli::exit::{self, Problem};
use crate::cli::exports::print;

pub(super) fn run(server: ServerKind) -> Result<u8, Problem> {
    print(configuration(server))?;
    Ok(exit::OK)
}
