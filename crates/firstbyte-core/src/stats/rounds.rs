//! Forecasts the number of further rounds: intervals shrink with the square root of the number of rounds.
//!
//! The forecast extrapolates from the rounds so far, so it is reported as "about". Stopping once an interval is
//! *narrow* enough barely changes its coverage; stopping once it *excludes zero* does (repeated looks find a
//! difference in one of five runs without any). So only the width may end a run.

use super::Estimate;

/// Longest forecast, rounds in all.
pub const FORESEEABLE_ROUNDS: usize = 100_000;

/// Number of rounds beyond `rounds` that shrink `half_width` to `target`; zero if it is there already.
///
/// `None` if that takes more than [`FORESEEABLE_ROUNDS`] in all, or if `target` is not positive.
pub fn rounds_needed(rounds: usize, half_width: f64, target: f64) -> Option<usize> {
    if half_width <= target {
        return Some(0);
    }
    let in_all = (rounds as f64 * (half_width / target).powi(2)).ceil();
    (target > 0.0 && in_all <= FORESEEABLE_ROUNDS as f64).then(|| in_all as usize - rounds)
}

/// Effect of more rounds on an interval that includes zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outlook {
    /// At the present effect and spread the interval would exclude zero.
    Settles {
        /// Number of further rounds.
        more: usize,
    },
    /// At the present effect and spread the interval would exclude everything beyond the margin.
    Excludes {
        /// Number of further rounds.
        more: usize,
        /// The margin: the largest difference that is negligible.
        margin: f64,
    },
    /// Neither happens within [`FORESEEABLE_ROUNDS`].
    Narrows {
        /// Largest difference that would then remain possible.
        margin: f64,
    },
}

/// The outlook of `estimate` after `rounds`, if differences up to `negligible` do not matter: whichever comes first.
///
/// `None` without an interval. `steps` of the interval, in either direction, come from the clocks' resolution and do
/// not shrink.
pub fn outlook(estimate: &Estimate, rounds: usize, negligible: f64, steps: f64) -> Option<Outlook> {
    let interval = estimate.interval?;
    let effect = estimate.value.abs();
    let towards_zero = if estimate.value > 0.0 {
        estimate.value - interval.low
    } else {
        interval.high - estimate.value
    };
    // An interval that ends exactly at zero takes one more round.
    let more = |half_width, target| Some(rounds_needed(rounds, half_width, target)?.max(1));
    let reach = estimate.reach()? - steps;
    let settles = more(towards_zero - steps, effect - steps);
    let excludes = more(reach, negligible - effect - steps);
    Some(match (settles, excludes) {
        (Some(more), None) => Outlook::Settles { more },
        (Some(more), Some(other)) if more <= other => Outlook::Settles { more },
        (_, Some(more)) => Outlook::Excludes { more, margin: negligible },
        (None, None) => {
            let shrink = (rounds as f64 / FORESEEABLE_ROUNDS.max(rounds) as f64).sqrt();
            Outlook::Narrows { margin: effect + steps + reach * shrink }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_the_width_takes_four_times_the_rounds() {
        assert_eq!(rounds_needed(100, 0.02, 0.01), Some(300));
        assert_eq!(rounds_needed(100, 0.01, 0.01), Some(0));
        assert_eq!(rounds_needed(100, 0.02, 0.0), None);
        assert_eq!(rounds_needed(100, 1.0, 0.001), None);
        assert_eq!(rounds_needed(0, f64::INFINITY, 1.0), None);
    }

    #[test]
    fn small_effects_are_ruled_out_rather_than_shown() {
        let within = |value, low, high| Estimate::within(value, low, high, 10.0);
        assert_eq!(
            outlook(&within(-0.01, -0.03, 0.01), 100, 0.005, 0.0),
            Some(Outlook::Settles { more: 300 })
        );
        assert_eq!(
            outlook(&within(0.0, -0.02, 0.02), 100, 0.01, 0.0),
            Some(Outlook::Excludes { more: 300, margin: 0.01 })
        );
        let Some(Outlook::Narrows { margin }) = outlook(&within(0.0, -1.0, 1.0), 1_000, 0.01, 0.0)
        else {
            panic!("1,000 rounds at ±100 % cannot come to ±1 %");
        };
        assert!((margin - 0.1).abs() < 1e-12);
        assert_eq!(outlook(&Estimate::alone(1.0), 5, 0.01, 0.0), None);
    }

    #[test]
    fn rounds_do_not_make_the_steps_of_clocks_smaller() {
        let estimate = Estimate::within(0.01, -0.02, 0.04, 10.0);
        // Of the 0.03 on either side, 0.008 are steps: 0.022 must shrink to 0.002.
        let Some(Outlook::Settles { more }) = outlook(&estimate, 100, 0.005, 0.008) else {
            panic!("the effect is larger than the steps");
        };
        assert_eq!(more, 12_000);
        // No number of rounds settles an effect smaller than the steps.
        let Some(Outlook::Narrows { margin }) = outlook(&estimate, 100, 0.005, 0.02) else {
            panic!("steps stay");
        };
        assert!(margin >= 0.03, "{margin}");
    }
}
