//! Runs on disk: written so that no measurement is lost, and read back as rows or complete samples.
//!
//! Input: samples as they are taken, or files. Output: files, or cells and rows. Nothing here measures or interprets
//! numbers.

mod curl_csv;
mod dataset;
mod days;
pub mod environment;
mod error;
mod header;
mod period;
mod read;
mod write;

pub use curl_csv::CurlTable;
pub use dataset::{Dataset, SampleFile};
pub use days::DayWriter;
pub use error::RunError;
pub use header::run_header;
pub use period::{PlacedRow, rows_of_period};
pub use read::{BadLine, Run};
pub use write::{Creation, Done, Resumed, RunWriter};
