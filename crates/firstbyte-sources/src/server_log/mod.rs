//! Access logs of nginx, Apache and Caddy.
//!
//! Input: bytes of a log, in pieces, with lines in the formats whose configuration is printed here ([`configuration`]),
//! Caddy's own JSON, or "combined" lines. Output: [`LoggedRequest`]s, the numbers of unreadable lines, and a summary
//! ([`ServerLogSummary`]). Client addresses, queries and header fields are not read. Values that a log does not have
//! are absent. The meaning of its times: `docs/measurement.md`.

mod combined;
mod configuration;
mod json;
mod reader;
mod request;
mod summary;
#[cfg(test)]
mod tests;

pub use configuration::configuration;
pub use reader::{LogLineError, ServerLogReader, begins_server_log};
pub use request::{LogForm, LoggedRequest, LoggedTime, ServerKind};
pub use summary::{LogDimension, LogGroup, LogPath, LogShare, ServerLogSummary};
