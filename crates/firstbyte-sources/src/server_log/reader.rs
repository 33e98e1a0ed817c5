//! Reads a log in pieces, line by line, with bounded memory.

use std::fmt;

use super::request::LoggedRequest;
use super::{combined, json};

/// Longer lines are rejected. Caddy's are the longest, with all fields of request and response.
const LONGEST_LINE: usize = 256 << 10;
/// Number of lines that are tried when recognising a log: the first may be another program's, or cut.
const LINES_LOOKED_AT: usize = 5;

/// Why a line cannot be read as a request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLineError {
    /// It begins like JSON, but is invalid or cut.
    NotJson,
    /// It is not a line of a known access log.
    NotALog,
    /// It is in a later version of our format.
    Version(String),
    /// It is longer than 256 kB.
    TooLong,
    /// The file ends within it: it is still being written, or was cut.
    Cut,
}

impl fmt::Display for LogLineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotJson => f.write_str("not JSON, or cut short"),
            Self::NotALog => f.write_str("not a line of a known access log"),
            Self::Version(version) => {
                write!(f, "a format of a later version of firstbyte: {}", version.escape_default())
            }
            Self::TooLong => f.write_str("longer than 256 kB"),
            Self::Cut => f.write_str("the file ends in the middle of the line"),
        }
    }
}

impl std::error::Error for LogLineError {}

/// Whether a file with these first bytes is an access log.
pub fn begins_server_log(begin: &[u8]) -> bool {
    let mut lines = begin.split_inclusive(|byte| *byte == b'\n').take(LINES_LOOKED_AT);
    lines.any(|line| line.ends_with(b"\n") && parse(line).is_some_and(|parsed| parsed.is_ok()))
}

/// Parses a line; `None` if it is empty.
fn parse(line: &[u8]) -> Option<Result<LoggedRequest, LogLineError>> {
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    let text = String::from_utf8_lossy(line);
    let text = text.trim_matches(['\r', '\n', ' ']);
    match text.as_bytes().first()? {
        b'{' => Some(json::parse(text)),
        _ => Some(combined::parse(text)),
    }
}

/// Reads a log.
#[derive(Debug, Default)]
pub struct ServerLogReader {
    /// Bytes of the current line so far.
    line: Vec<u8>,
    /// The current line is too long; the rest of it is skipped.
    is_too_long: bool,
    number: u64,
}

impl ServerLogReader {
    /// Reads more bytes and passes each complete line to `take` with its number, from 1. Skips empty lines.
    pub fn feed(
        &mut self,
        bytes: &[u8],
        mut take: impl FnMut(u64, Result<LoggedRequest, LogLineError>),
    ) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let room = LONGEST_LINE - self.line.len();
            self.is_too_long |= piece.len() > room;
            let ends = piece.ends_with(b"\n");
            if !ends || !self.line.is_empty() || self.is_too_long {
                self.line.extend_from_slice(&piece[..piece.len().min(room)]);
            }
            if !ends {
                continue;
            }
            self.number += 1;
            let line = if self.line.is_empty() { piece } else { self.line.as_slice() };
            let parsed = match self.is_too_long {
                true => Some(Err(LogLineError::TooLong)),
                false => parse(line),
            };
            if let Some(parsed) = parsed {
                take(self.number, parsed);
            }
            self.line.clear();
            self.is_too_long = false;
        }
    }

    /// Ends reading. An unfinished last line counts only if it is visibly complete, which only JSON shows.
    pub fn finish(self, take: impl FnOnce(u64, Result<LoggedRequest, LogLineError>)) {
        let left =
            if self.is_too_long { Some(Err(LogLineError::TooLong)) } else { parse(&self.line) };
        match left {
            None => {}
            Some(Ok(request)) if self.line.trim_ascii_end().ends_with(b"}") => {
                take(self.number + 1, Ok(request));
            }
            Some(Err(LogLineError::TooLong)) => take(self.number + 1, Err(LogLineError::TooLong)),
            Some(_) => take(self.number + 1, Err(LogLineError::Cut)),
        }
    }
}
