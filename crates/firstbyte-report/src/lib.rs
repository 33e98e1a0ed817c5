//! Views of samples: one file per format, each a pure function from samples to text.
//!
//! Input: [`Sample`](firstbyte_core::timeline::Sample)s from any source. Output: text. No view reads a clock, the
//! environment or a file, and only [`write_out::deliver`] writes its output anywhere itself.

pub mod advice;
#[cfg(test)]
mod any_test;
pub mod archive;
pub mod audience;
pub mod averages;
mod axis;
pub mod capacity_study;
pub mod chart;
mod columns;
pub mod csv;
pub mod dates;
#[cfg(test)]
mod docs_test;
mod equation;
pub mod error;
pub mod explanation;
pub mod export;
mod facts;
pub mod field_data;
#[cfg(any(test, feature = "fixtures"))]
pub mod fixtures;
pub mod flights;
pub mod har;
pub mod headers;
pub mod html;
pub mod markdown;
pub mod monitor_period;
pub mod ndjson;
pub mod netlog;
pub mod page_load;
pub mod page_savings;
pub mod parquet;
pub mod percentiles;
pub mod prediction;
pub mod qlog;
mod requests;
pub mod rollups;
pub mod sequence;
pub mod server_log;
pub mod shell;
pub mod study;
pub mod study_story;
pub mod study_table;
pub mod style;
mod svg;
pub mod table;
pub mod units;
pub mod warning;
pub mod waterfall;
pub mod wire;
pub mod write_out;

pub use style::Style;
