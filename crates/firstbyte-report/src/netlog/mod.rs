//! Requests from a browser's network log: for the terminal, and as rows.
//!
//! Input: [`NetLogRequest`](firstbyte_sources::netlog::NetLogRequest)s and their summary. Output: text. Fields and
//! columns: `docs/formats.md`, "Requests of network logs"; their meaning: `docs/netlog.md`.

mod columns;
mod json;
#[cfg(test)]
mod tests;
mod text;

pub use columns::NetLogCsv;
pub use json::line;
pub use text::{NetLogReport, text};
