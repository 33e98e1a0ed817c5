//! Records a monitor's raw samples, one file per day, and keeps the store of their rollups in step.
//!
//! In: samples as they end, through a queue. Out: files, and a store that counts each sample exactly once, whatever
//! happens in between. Changes and broken promises found in the store are reported. All of this runs on separate
//! threads, so that measurements never wait for a slow disk.

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
