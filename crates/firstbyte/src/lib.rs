//! Where did the time before the first byte go?
//!
//! The program: `cli` reads what the user wants, and has it measured (`firstbyte-probe`), read (`firstbyte-capture`),
//! predicted (`prediction`) and shown (`firstbyte-report`). The pure half (model, split, statistics, stored forms) is
//! `firstbyte-core`; the emulated network is `firstbyte-lab`.

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
