//! Predictions for people: which ways, taken from what run, for which audience.
//!
//! `firstbyte_predict` plays single connections; here are the values of axes, setups read from
//! runs, and audiences played on all processors.

use std::time::Duration;

pub mod audience;
pub mod hosts;
pub mod setup;
pub mod ways;
pub mod window;

fn middle(values: impl Iterator<Item = Duration>) -> Option<Duration> {
    let mut values: Vec<Duration> = values.collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}
