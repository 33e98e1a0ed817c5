//! Where did the time before the first byte go?
//!
//! The program: `cli` parses the user's request and has it measured (`firstbyte-probe`), read (`firstbyte-capture`),
//! predicted (`prediction`) and shown (`firstbyte-report`). The pure half (model, split, statistics, stored formats) is
//! in `firstbyte-core`, and the emulated network in `firstbyte-lab`.

pub mod cli;
mod exposition;
mod monitor_server;
mod parallel;
pub mod plans;
mod posting;
pub mod prediction;
mod pushing;
mod recording;
pub mod rum;
pub mod runs;
mod study;
mod webhooks;

pub use recording::record_samples;
