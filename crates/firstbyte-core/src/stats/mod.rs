//! Statistics of samples. Definitions and sources: `docs/statistics.md`.

mod paired;
mod quantile;

pub use paired::{Interval, PairedEffect, paired_median_change};
pub use quantile::{median, quantile};
