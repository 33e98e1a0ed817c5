//! Access logs: what nginx, Apache and Caddy wrote down about the requests that they answered.
//!
//! Input: bytes of a log, in pieces: lines in the formats whose configuration is printed here ([`configuration`]), Caddy's own
//! JSON, and "combined" lines. Output: [`LoggedRequest`]s, lines that are none with their numbers, and what all of it comes to
//! ([`ServerLogSummary`]). Addresses of clients, queries and header fields are not read out. What a log does not say is absent.
//! What its times mean: `docs/measurement.md`.

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
