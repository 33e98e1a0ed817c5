//! Requests from servers' access logs: for the terminal, and as rows.
//!
//! Input: [`LoggedRequest`](firstbyte_sources::server_log::LoggedRequest)s and their summary. Output: text.
//! Columns: `docs/formats.md`, "Requests of server logs"; their meaning: `docs/server-logs.md`.

mod columns;
#[cfg(test)]
mod tests;
mod text;

pub use columns::{ServerLogCsv, line};
pub use text::{ServerLogReport, text};
