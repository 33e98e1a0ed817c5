//! What an effect comes to.

use super::{AnswerDifference, Settings, estimate_of};
use crate::stats::{
    ALPHA, Effect, Estimate, FEWEST_ROUNDS, Outlook, QuantileEffect, fewest_for_quantile, outlook,
};

/// What an effect comes to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// The interval lies below zero.
    Faster,
    /// The interval lies above zero.
    Slower,
    /// The interval holds nothing that matters.
    NoDifference {
        /// The largest difference it holds, in the estimate's unit.
        largest: f64,
        /// Whether that is for the clock to say: the difference may even be there, but a stamp's
        /// error could make it ([`Settings::floor_ns`]), or the steps of a clock that was reported.
        below_floor: bool,
    },
    /// The interval holds zero, and more than does not matter.
    Open {
        /// What more rounds would do.
        outlook: Outlook,
    },
    /// The interval lies on one side of zero, but not once all comparisons of its kind count.
    NotAmongAll {
        /// The p-value adjusted for them.
        p_adjusted: f64,
    },
    /// Too few rounds for an interval.
    TooFewRounds {
        /// The fewest that give one.
        needed: usize,
    },
    /// The answers differ, so their times are not compared.
    Unlike(AnswerDifference),
}

/// The verdict on an effect at the median; `p_value` is what counts as its p-value.
pub fn judge(effect: &Effect, p_value: Option<f64>, settings: &Settings) -> Verdict {
    let relative = effect.relative.is_some();
    let off = effect.steps.of_difference();
    let unit = Unit {
        negligible: if relative { settings.negligible } else { settings.floor_ns },
        floor: settings.floor_ns.max(off),
        steps: if relative { effect.relative_steps } else { off },
    };
    decide(estimate_of(effect), &effect.difference, p_value, effect.rounds, &unit, FEWEST_ROUNDS)
}

/// The verdict on the difference at a quantile, in shares of the base's quantile, which it refuses
/// below as many rounds as the quantile needs.
pub fn judge_quantile(effect: &QuantileEffect, rounds: usize, settings: &Settings) -> Verdict {
    let estimate = relative_quantile(effect);
    let unit = Unit {
        negligible: settings.negligible,
        floor: settings.floor_ns.max(effect.steps),
        steps: effect.steps / base_of(effect),
    };
    let needed = fewest_for_quantile(effect.q);
    decide(&estimate, &effect.difference, estimate.p_value, rounds, &unit, needed)
}

/// The difference at a quantile in shares of the base's.
pub(super) fn relative_quantile(effect: &QuantileEffect) -> Estimate {
    effect.difference.per(base_of(effect))
}

const fn base_of(effect: &QuantileEffect) -> f64 {
    if effect.base > 0.0 { effect.base } else { 1.0 }
}

/// What does not matter in the unit of an estimate, and in nanoseconds; and what of its interval more rounds leave,
/// in its unit.
struct Unit {
    negligible: f64,
    floor: f64,
    steps: f64,
}

fn decide(
    estimate: &Estimate,
    difference: &Estimate,
    p_value: Option<f64>,
    rounds: usize,
    unit: &Unit,
    needed: usize,
) -> Verdict {
    let (Some(interval), Some(absolute)) = (estimate.interval, difference.interval) else {
        return Verdict::TooFewRounds { needed };
    };
    let largest = interval.largest();
    if absolute.largest() <= unit.floor {
        return Verdict::NoDifference { largest, below_floor: true };
    }
    if !interval.excludes_zero() {
        return match outlook(estimate, rounds, unit.negligible, unit.steps) {
            Some(outlook) if largest > unit.negligible => Verdict::Open { outlook },
            _ => Verdict::NoDifference { largest, below_floor: false },
        };
    }
    match p_value {
        Some(p_adjusted) if p_adjusted >= ALPHA => Verdict::NotAmongAll { p_adjusted },
        _ if interval.high < 0.0 => Verdict::Faster,
        _ => Verdict::Slower,
    }
}
