//! What a monitor keeps: raw samples, a file a day, and the store of their sums, in step with each other.
//!
//! In: samples as they end, through a queue. Out: files, and a store that counts each sample once, whatever happened in between.
//! Of what the store has, changes are told, and promises that are not kept. Threads of their own do it: a disk that takes its time is nothing that a sample should wait for.

mod backlog;
mod budgets;
mod changes;
mod feeding;
mod labels;
mod lock_file;
mod observed;
mod opening;
mod raw;
mod recorder;
mod store_thread;
#[cfg(test)]
mod tests;

pub(crate) use budgets::{Budgets, Judged, series_name};
pub use feeding::record_samples;
pub(crate) use labels::series_labels;
pub(crate) use lock_file::is_recording;
pub(crate) use observed::{
    BOUNDS, Figures, Health, MEASURES, ObservedTimes, Observer, SeriesFigures, observed,
};
pub(crate) use raw::{RawFile, RawLimits, raw_files};
pub(crate) use recorder::{Recorded, RecordedSeries, Recorder, RecorderError, RecorderSettings};
