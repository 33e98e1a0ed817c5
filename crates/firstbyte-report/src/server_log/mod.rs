//! Requests of servers' access logs: for the terminal, as rows.
//!
//! Input: [`LoggedRequest`](firstbyte_sources::server_log::LoggedRequest)s, and what they come to. Output: text. Columns:
//! `docs/formats.md`, "Requests of server logs"; what they mean: `docs/server-logs.md`.

mod columns;
#[cfg(test)]
mod tests;
mod text;

pub use columns::{ServerLogCsv, line};
pub use text::{ServerLogReport, text};
