//! What a monitor keeps: raw samples, a file a day, and the store of their sums, in step with each other.
//!
//! In: samples as they end, through a queue. Out: files, and a store that counts each sample once, whatever happened in between.
//! Of what the store has, changes are told. Threads of their own do it: a disk that takes its time is nothing that a sample should wait for.

mod backlog;
mod changes;
mod labels;
mod raw;
mod recorder;
#[cfg(test)]
mod tests;

pub(crate) use raw::RawLimits;
pub(crate) use recorder::{Recorded, Recorder, RecorderError, RecorderSettings};
