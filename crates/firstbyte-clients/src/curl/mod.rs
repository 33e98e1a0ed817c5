//! A visit by curl: the user's own, from 7.68 on.
//!
//! Input: `firstbyte_probe`'s options and a target, as far as that curl can do them (`capabilities`, `options`). Output:
//! samples. One process an exchange (`run`), told what to do by a config file on standard input (`config`), which says
//! its times at the end (`report`) and what happened in its log (`log`); `assembly` makes a connection of the two, and
//! `failure` of its errors ours. [`CurlProber`] is the prober of all that.

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
    /// It is not there, or cannot be run.
    Client(ClientError),
    /// It is older than 7.68.
    TooOld {
        /// The program.
        program: String,
        /// What it says that it is.
        version: String,
    },
    /// What answers is another program.
    NotCurl {
        /// The program.
        program: String,
        /// The first line of what it says to `--version`.
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
