//! Prepares predictions: reads axis values, and setups from runs.
//!
//! `firstbyte_predict` simulates the connections and audiences.

use std::time::Duration;

use firstbyte_clock::timer_now;
use firstbyte_predict::{Player, PredictError, Range, Setup, Way};

use crate::parallel::side_by_side;

pub mod hosts;
pub mod setup;
pub mod ways;

/// A player of `way` for visitors within `range`; long computations use all processors.
///
/// # Errors
/// The way does not exist, or the state machines reject their inputs.
pub fn player(setup: &Setup, way: &Way, range: &Range) -> Result<Player, PredictError> {
    let base = timer_now().into_std();
    Player::new(setup, way, range, base, &|n, work| side_by_side(n, work))
}

fn middle(values: impl Iterator<Item = Duration>) -> Option<Duration> {
    let mut values: Vec<Duration> = values.collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}
