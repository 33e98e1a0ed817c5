//! Views of HTTP Archives written by other programs: the outcome of their requests, and the cost of opening
//! connections.
//!
//! Input: an archive with its summary. Output: text, and rows as NDJSON and CSV; one table of columns defines both.

mod columns;
mod rows;
mod text;

pub use rows::{ArchiveCsvWriter, archive_lines};
pub use text::{ArchiveShown, archive};
