//! HTTP Archives that other programs wrote, shown: what became of their requests, and what opening connections took.
//!
//! Input: an archive with its summary. Output: text, and rows as NDJSON and CSV, which one table of columns defines.

mod columns;
mod rows;
mod text;

pub use rows::{ArchiveCsvWriter, archive_lines};
pub use text::{ArchiveShown, archive};
