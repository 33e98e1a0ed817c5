//! Where did the time before the first byte go?
//!
//! `probe` measures, `report` shows, `cli` reads what the user wants. The pure half (model, split,
//! statistics, stored forms) is the crate `firstbyte-core`; the emulated network is `firstbyte-lab`.

pub mod advice;
pub mod capture;
pub mod cli;
pub mod clock;
pub mod experiment;
pub mod net;
mod parallel;
pub mod plans;
pub mod prediction;
pub mod probe;
pub mod report;
pub mod runs;
pub mod warning;
