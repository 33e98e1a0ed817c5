//! Visits with the user's own curl, version 7.68 or later.
//!
//! Input: `firstbyte_probe`'s options and a target, as far as that curl supports them (`capabilities`, `options`).
//! Output: samples. Each exchange is one process (`run`), which reads its instructions from a config file on standard
//! input (`config`), reports its times at the end (`report`), and logs events (`log`). `assembly` builds a connection
//! from report and log, and `failure` converts errors. [`CurlProber`] is the prober.

mod assembly;
mod capabilities;
mod config;
mod failure;
mod log;
mod options;
mod prober;
mod report;
mod run;
#[cfg(test)]
mod tests;

use std::fmt;

pub use self::capabilities::CurlCapabilities;
pub use self::options::CurlOptions;
pub use self::prober::{CurlMaker, CurlProber};

use crate::process::ClientError;

/// Why a curl cannot be used.
#[derive(Debug)]
pub enum CurlError {
    /// It is not installed, or cannot be run.
    Client(ClientError),
    /// It is older than 7.68.
    TooOld {
        /// The program.
        program: String,
        /// The version that it reports.
        version: String,
    },
    /// The program is not curl.
    NotCurl {
        /// The program.
        program: String,
        /// The first line of its output for `--version`.
        said: String,
    },
}

impl CurlError {
    fn missing(program: &str) -> Self {
        Self::Client(ClientError::Missing { program: program.to_owned(), package: "curl" })
    }
}

impl From<ClientError> for CurlError {
    fn from(error: ClientError) -> Self {
        Self::Client(error)
    }
}

impl fmt::Display for CurlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(error) => error.fmt(f),
            Self::TooOld { program, version } => {
                write!(f, "{program} is version {version}; version 7.68 or later is required")
            }
            Self::NotCurl { program, said } => {
                write!(f, "{program} is not curl; it prints {:?}", failure::shown(said))
            }
        }
    }
}

impl std::error::Error for CurlError {}
