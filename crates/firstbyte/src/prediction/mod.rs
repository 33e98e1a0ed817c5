//! Predictions for people: which ways, taken from what run.
//!
//! `firstbyte_predict` plays connections and audiences; here are the values of axes, and setups read from runs.

use std::time::Duration;

use firstbyte_clock::timer_now;
use firstbyte_predict::{Player, PredictError, Range, Setup, Way};

use crate::parallel::side_by_side;

pub mod hosts;
pub mod setup;
pub mod ways;

/// A player of `way` for visitors within `range`: what takes long is done by all processors.
///
/// # Errors
/// There is no such way, or the state machines refuse what they are given.
pub fn player(setup: &Setup, way: &Way, range: &Range) -> Result<Player, PredictError> {
    let base = timer_now().into_std();
    Player::new(setup, way, range, base, &|n, work| side_by_side(n, work))
}

fn middle(values: impl Iterator<Item = Duration>) -> Option<Duration> {
    let mut values: Vec<Duration> = values.collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}
