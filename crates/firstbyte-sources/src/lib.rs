//! Readers for other programs' records: HTTP Archives, browser network logs, access logs, field data, exported
//! averages.
//!
//! Input: bytes or lines of other programs. Output: entries and their summaries. Nothing here opens files, measures or
//! prints. Malformed input is an error that names the place.
#![forbid(unsafe_code)]

pub mod averages;
pub mod field_data;
pub mod har;
pub mod netlog;
pub mod server_log;
