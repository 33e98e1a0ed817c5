//! Why a command line is not carried out.

use std::fmt;

/// curl's exit codes of command lines that send nothing.
pub mod exit {
    /// An option is unknown, misused or refused.
    pub const USAGE: u8 = 2;
    /// The scheme is not supported.
    pub const SCHEME: u8 = 1;
    /// The URL is malformed.
    pub const URL: u8 = 3;
    /// A file cannot be written, or has no name.
    pub const WRITE: u8 = 23;
    /// An upload has no known length, and HTTP/1.0 needs one.
    pub const UPLOAD: u8 = 25;
    /// A file cannot be read.
    pub const READ: u8 = 26;
    /// There were more redirects than allowed.
    pub const REDIRECTS: u8 = 47;
    /// A user name in a URL is forbidden by `--disallow-username-in-url`.
    pub const USER_IN_URL: u8 = 67;
}

/// Why a command line, or one request of it, is not carried out: in words, with the option by its long name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineProblem {
    /// The exit code: curl's, where curl refuses too.
    pub code: u8,
    /// `--krb: firstbyte measures http and https; this option is for FTP`.
    pub message: String,
    /// What to do instead.
    pub hint: Option<String>,
}

impl LineProblem {
    /// With this exit code.
    pub fn new(code: u8, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: None }
    }

    /// About an option, by its long name without dashes.
    pub fn option(long: &str, what: impl fmt::Display) -> Self {
        Self::new(exit::USAGE, format!("--{long}: {what}"))
    }

    /// With another exit code.
    #[must_use]
    pub fn with_code(self, code: u8) -> Self {
        Self { code, ..self }
    }

    /// With advice.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

impl fmt::Display for LineProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
