//! What others recorded, read: HTTP Archives, browsers' network logs, access logs, field data, exports of averages.
//!
//! Input: bytes or lines of other programs. Output: entries and their summaries. Nothing here opens files, measures or
//! prints; what is no such form is an error that says where.
#![forbid(unsafe_code)]

pub mod averages;
pub mod field_data;
pub mod har;
pub mod netlog;
pub mod server_log;
