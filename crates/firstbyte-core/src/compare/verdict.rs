//! Verdicts on effects.

use super::{AnswerDifference, Settings, estimate_of};
use crate::stats::{
    ALPHA, Effect, Estimate, FEWEST_ROUNDS, Outlook, QuantileEffect, fewest_for_quantile, outlook,
};

/// Verdict on an effect.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// The interval lies below zero.
    Faster,
    /// The interval lies above zero.
    Slower,
    /// The interval includes only negligible differences.
    NoDifference {
        /// Largest difference in the interval, in the estimate's unit.
        largest: f64,
        /// Whether the clock's error is the reason: a difference may exist, but a timestamp's error
        /// ([`Settings::floor_ns`]) or a reported clock's resolution could produce it.
        below_floor: bool,
    },
    /// The interval includes zero, and differences that matter.
    Open {
        /// Effect of more rounds.
        outlook: Outlook,
    },
    /// The interval excludes zero, but not after adjusting for all comparisons of its kind.
    NotAmongAll {
        /// The adjusted p-value.
        p_adjusted: f64,
    },
    /// Too few rounds for an interval.
    TooFewRounds {
        /// Fewest rounds for an interval.
        needed: usize,
    },
    /// The answers differ, so their times are not compared.
    Unlike(AnswerDifference),
}

/// The verdict on an effect at the median; `p_value` is the p-value to use.
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

/// The verdict on the difference at a quantile, as a share of the base's quantile. There is none with fewer rounds
/// than the quantile needs.
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

/// The difference at a quantile as a share of the base's.
pub(super) fn relative_quantile(effect: &QuantileEffect) -> Estimate {
    effect.difference.per(base_of(effect))
}

const fn base_of(effect: &QuantileEffect) -> f64 {
    if effect.base > 0.0 { effect.base } else { 1.0 }
}

/// Negligible differences in the unit of an estimate, and in nanoseconds; and the part of its interval that more
/// rounds do not reduce, in its unit.
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
