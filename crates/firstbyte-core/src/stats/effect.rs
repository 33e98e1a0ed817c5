//! Effect on a metric of changing from one cell to another: the whole analysis of one pair.
//!
//! Input: both cells' values of the same rounds, and a seed. Output: an [`Effect`]. A pure function of one pair, so
//! that pairs can be analysed in parallel.

use super::bootstrap::{Ranked, resample, resamples};
use super::dependence::{
    ALPHA, block_length, blocks, critical, lag1_within, recolouring, recolouring_of,
};
use super::linear::{
    Side, at_rank, difference_autocorrelation, difference_reach, quantile_interval,
};
use super::{Estimate, Interval, Spread, hodges_lehmann, quantile, supports_quantile};

/// Standard errors on either side that cover 95 % of the normal distribution.
const NORMAL_CRITICAL: f64 = 1.959_964;

/// Quantiles to compare.
pub const QUANTILES: [f64; 5] = [0.5, 0.75, 0.9, 0.95, 0.99];

/// Up to this many rounds quantile differences are resampled; beyond, they are linearised. Both agree at this size.
pub const RESAMPLED_UP_TO: usize = 1_000;

/// A difference between the same quantile of two cells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QuantileEffect {
    /// The quantile.
    pub q: f64,
    /// Value of the base.
    pub base: f64,
    /// Value of the variant.
    pub variant: f64,
    /// Variant minus base.
    pub difference: Estimate,
    /// Half-width of the interval that comes from the clocks' resolution.
    pub steps: f64,
}

/// Resolution of the clocks behind each side's values, such as those of a browser or of another program.
///
/// A value may be off by this much in either direction. Zero for clocks whose resolution does not matter.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClockSteps {
    /// Resolution of the base, in the unit of the values.
    pub base: f64,
    /// Resolution of the variant.
    pub variant: f64,
}

impl ClockSteps {
    /// Largest error of a difference.
    pub fn of_difference(&self) -> f64 {
        self.base + self.variant
    }
}

/// The effect of a variant, paired by round.
#[derive(Clone, Debug, PartialEq)]
pub struct Effect {
    /// Rounds in which both cells were measured.
    pub rounds: usize,
    /// Median over rounds of `variant − base`.
    pub difference: Estimate,
    /// Median over rounds of `(variant − base) / base`; absent when a base is zero.
    pub relative: Option<Estimate>,
    /// Hodges–Lehmann estimate of `variant − base`.
    pub hodges_lehmann: f64,
    /// Hodges–Lehmann estimate of `(variant − base) / base`.
    pub hodges_lehmann_relative: Option<f64>,
    /// Differences of quantiles, one for each of [`QUANTILES`].
    pub quantiles: Vec<QuantileEffect>,
    /// Lag-1 autocorrelation of the per-round differences.
    pub autocorrelation: Option<f64>,
    /// Resolution of the clocks, which every interval here includes.
    pub steps: ClockSteps,
    /// Half-width of the relative change's interval that comes from the resolution.
    pub relative_steps: f64,
}

/// Method of computing an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    /// Resampling.
    Resampled { resamples: usize, seed: u64 },
    /// By linearisation.
    Linearised,
}

impl Method {
    /// Chooses the method for `n` rounds.
    pub(super) fn for_rounds(n: usize, seed: u64) -> Self {
        match n <= RESAMPLED_UP_TO {
            true => Self::Resampled { resamples: resamples(n), seed },
            false => Self::Linearised,
        }
    }
}

/// The effect of changing from `base` to `variant`, whose values at index `i` are of the same round, in the order of
/// rounds.
///
/// `None` without rounds. Values must be finite.
pub fn paired_effect(base: &[f64], variant: &[f64], seed: u64) -> Option<Effect> {
    analyse(base, variant, Method::for_rounds(base.len().min(variant.len()), seed))
}

/// Like [`paired_effect`], for values known only up to the resolution of their clocks.
///
/// Every interval then covers the possible true values: the median of values that are each off by at most one step is
/// off by at most one step. This is wider than chance requires, and does not narrow with more rounds: whole samples
/// can be off in the same direction. There is no relative change if a base is not above its step.
pub fn paired_effect_in_steps(
    base: &[f64],
    variant: &[f64],
    steps: ClockSteps,
    seed: u64,
) -> Option<Effect> {
    let mut effect = paired_effect(base, variant, seed)?;
    let off = steps.of_difference();
    if off <= 0.0 {
        return Some(effect);
    }
    let precision = Precision::for_rounds(effect.rounds);
    let degrees = precision.degrees;
    effect.steps = steps;
    effect.difference = effect.difference.off_by(off, degrees);
    for quantile in &mut effect.quantiles {
        quantile.steps = off;
        quantile.difference = quantile.difference.off_by(off, degrees);
    }
    let pairs = || base.iter().zip(variant);
    let all_above = pairs().all(|(base, _)| *base > steps.base);
    let Some(relative) = effect.relative.filter(|_| all_above) else {
        (effect.relative, effect.hodges_lehmann_relative) = (None, None);
        return Some(effect);
    };
    // Smallest and largest possible value of each change.
    let changes = |sign: f64| -> Vec<f64> {
        let change =
            |(b, v): (&f64, &f64)| (v + sign * steps.variant) / (b - sign * steps.base) - 1.0;
        pairs().map(change).collect()
    };
    let ends = [-1.0, 1.0]
        .map(|sign| Series::from_values(&changes(sign))?.median_estimate(&precision).interval);
    if let ([Some(least), Some(most)], Some(read)) = (ends, relative.interval) {
        effect.relative = Some(Estimate::within(relative.value, least.low, most.high, degrees));
        effect.relative_steps = (read.low - least.low).max(most.high - read.high).max(0.0);
    }
    Some(effect)
}

/// Widens the `estimate` of a series of `rounds` values that each may be off by `steps` in either direction.
pub fn in_steps(estimate: Estimate, steps: f64, rounds: usize) -> Estimate {
    estimate.off_by(steps, Precision::for_rounds(rounds).degrees)
}

/// Parameters shared by all intervals of one pair.
pub(crate) struct Precision {
    rounds: usize,
    block: usize,
    degrees: f64,
    critical: f64,
}

impl Precision {
    pub(crate) fn for_rounds(rounds: usize) -> Self {
        let degrees = blocks(rounds);
        Self { rounds, block: block_length(rounds), degrees, critical: critical(degrees) }
    }

    /// Number of block bootstrap standard errors on either side: the wider of the correction for a quantile's share
    /// with this lag-1 autocorrelation, and the series' own recolouring.
    fn reach(&self, share_lag1: f64, recolouring_of_series: f64) -> f64 {
        self.critical * recolouring(share_lag1, self.rounds).max(recolouring_of_series)
    }

    /// The interval from resampled values: the percentiles that cover 95 %, with their distances from the estimate
    /// widened from the normal distribution's 1.96 standard errors to `reach`.
    fn estimate(&self, value: f64, draws: &mut [f64], reach: f64) -> Estimate {
        draws.sort_unstable_by(f64::total_cmp);
        let wider = reach / NORMAL_CRITICAL;
        let end = |share: f64| {
            // Interpolate by the same proportion in both directions.
            let percentile = at_rank(draws, share * (draws.len() as f64 - 1.0));
            value + wider * (percentile - value)
        };
        Estimate::within(value, end(ALPHA / 2.0), end(1.0 - ALPHA / 2.0), self.degrees)
    }
}

/// The median of a series in the order of rounds, with an interval from [`super::FEWEST_ROUNDS`] values on.
///
/// `None` without values, which must be finite.
pub fn median_estimate(values: &[f64]) -> Option<Estimate> {
    Some(Series::from_values(values)?.median_estimate(&Precision::for_rounds(values.len())))
}

/// The `q` quantile of a series in the order of rounds, with an interval if there are enough rounds
/// ([`supports_quantile`]).
///
/// `None` without values, which must be finite.
pub fn quantile_estimate(values: &[f64], q: f64) -> Option<Estimate> {
    Series::from_values(values)?.quantile_estimate(q, &Precision::for_rounds(values.len()))
}

/// The median of `(variant − base) / base` over rounds with its interval, like [`Effect::relative`].
///
/// It skips the rest of the analysis, for a preview during a run.
pub fn median_change(base: &[f64], variant: &[f64]) -> Option<Estimate> {
    median_estimate(&relative_changes(base, variant)?)
}

/// `None` if a base is not above zero: a relative change is undefined then.
fn relative_changes(base: &[f64], variant: &[f64]) -> Option<Vec<f64>> {
    base.iter().zip(variant).map(|(b, v)| (*b > 0.0).then(|| (v - b) / b)).collect()
}

/// A series in time order and sorted.
pub(crate) struct Series<'a> {
    values: &'a [f64],
    /// Values, ascending.
    pub(crate) sorted: Vec<f64>,
    pub(crate) spread: Spread,
    /// Lag-1 autocorrelation.
    pub(crate) autocorrelation: Option<f64>,
    /// Factor by which correlations widen intervals.
    recolouring: f64,
}

impl<'a> Series<'a> {
    pub(crate) fn from_values(values: &'a [f64]) -> Option<Self> {
        let sorted = ascending(values);
        let spread = Spread::from_sorted(&sorted)?;
        let autocorrelation = lag1_within(values, &spread);
        let recolouring = autocorrelation.map_or(1.0, |r| recolouring_of(values, &spread, r));
        Some(Self { values, sorted, spread, autocorrelation, recolouring })
    }

    pub(crate) fn median_estimate(&self, precision: &Precision) -> Estimate {
        self.estimate(self.spread.median, 0.5, precision)
    }

    pub(crate) fn quantile_estimate(&self, q: f64, precision: &Precision) -> Option<Estimate> {
        Some(self.estimate(quantile(&self.sorted, q)?, q, precision))
    }

    /// An interval around `value`, an estimate of the `q` quantile.
    fn estimate(&self, value: f64, q: f64, precision: &Precision) -> Estimate {
        if !supports_quantile(precision.rounds, q) {
            return Estimate::alone(value);
        }
        let side = Side { values: self.values, sorted: &self.sorted, quantile: value };
        let reach = precision.critical * self.recolouring;
        let Interval { low, high } = quantile_interval(&side, q, precision.block, reach);
        Estimate::within(value, low, high, precision.degrees)
    }
}

/// Sorts as `total_cmp` does. Sorting is most of the work on large runs, and integers with the same order sort in two
/// thirds of the time.
fn ascending(values: &[f64]) -> Vec<f64> {
    const SIGN: u64 = 1 << 63;
    let mut keys: Vec<u64> = values
        .iter()
        .map(|x| x.to_bits())
        .map(|bits| if bits & SIGN == 0 { bits | SIGN } else { !bits })
        .collect();
    keys.sort_unstable();
    keys.into_iter()
        .map(|key| f64::from_bits(if key & SIGN == 0 { !key } else { key ^ SIGN }))
        .collect()
}

pub(super) fn analyse(base: &[f64], variant: &[f64], method: Method) -> Option<Effect> {
    let n = base.len().min(variant.len());
    let (base, variant) = (&base[..n], &variant[..n]);
    let precision = Precision::for_rounds(n);
    let differences: Vec<f64> = base.iter().zip(variant).map(|(b, v)| v - b).collect();
    let differences = Series::from_values(&differences)?;
    let changes = relative_changes(base, variant);
    let relative = changes.as_deref().and_then(Series::from_values);
    Some(Effect {
        rounds: n,
        difference: differences.median_estimate(&precision),
        relative: relative.as_ref().map(|r| r.median_estimate(&precision)),
        hodges_lehmann: hodges_lehmann(&differences.sorted)?,
        hodges_lehmann_relative: relative.as_ref().and_then(|r| hodges_lehmann(&r.sorted)),
        quantiles: quantile_effects(
            (base, variant),
            &QUANTILES,
            method,
            (&precision, differences.recolouring),
        ),
        autocorrelation: differences.autocorrelation,
        steps: ClockSteps::default(),
        relative_steps: 0.0,
    })
}

/// Differences of `quantiles` (ascending), computed like those of [`QUANTILES`] in [`paired_effect_in_steps`].
pub fn paired_quantile_effects(
    base: &[f64],
    variant: &[f64],
    quantiles: &[f64],
    steps: ClockSteps,
    seed: u64,
) -> Vec<QuantileEffect> {
    let n = base.len().min(variant.len());
    let (base, variant) = (&base[..n], &variant[..n]);
    let precision = Precision::for_rounds(n);
    let differences: Vec<f64> = base.iter().zip(variant).map(|(b, v)| v - b).collect();
    let Some(differences) = Series::from_values(&differences) else { return Vec::new() };
    let method = Method::for_rounds(n, seed);
    let widened = (&precision, differences.recolouring);
    let mut effects = quantile_effects((base, variant), quantiles, method, widened);
    let off = steps.of_difference();
    if off > 0.0 {
        for effect in &mut effects {
            effect.steps = off;
            effect.difference = effect.difference.off_by(off, precision.degrees);
        }
    }
    effects
}

fn quantile_effects(
    (base, variant): (&[f64], &[f64]),
    quantiles: &[f64],
    method: Method,
    (precision, recolouring): (&Precision, f64),
) -> Vec<QuantileEffect> {
    let (base_sorted, variant_sorted) = (&ascending(base), &ascending(variant));
    let mut effects: Vec<QuantileEffect> = quantiles
        .iter()
        .filter_map(|&q| {
            let (base, variant) = (quantile(base_sorted, q)?, quantile(variant_sorted, q)?);
            let difference = Estimate::alone(variant - base);
            Some(QuantileEffect { q, base, variant, difference, steps: 0.0 })
        })
        .collect();
    let is_supported = |q: f64| supports_quantile(precision.rounds, q);
    let effects_to_bound = effects.iter_mut().filter(|effect| is_supported(effect.q));
    let sides = |effect: &QuantileEffect| {
        (
            Side { values: base, sorted: base_sorted, quantile: effect.base },
            Side { values: variant, sorted: variant_sorted, quantile: effect.variant },
        )
    };
    match method {
        Method::Linearised => {
            for effect in effects_to_bound {
                let (b, v) = sides(effect);
                let widths = |lag1: f64| precision.reach(lag1, recolouring);
                let reach = difference_reach(&b, &v, effect.q, precision.block, widths);
                let value = effect.difference.value;
                effect.difference =
                    Estimate::within(value, value - reach, value + reach, precision.degrees);
            }
        }
        Method::Resampled { resamples, seed } => {
            let plan = (precision.block, resamples, seed);
            let supported: Vec<f64> =
                quantiles.iter().copied().filter(|q| is_supported(*q)).collect();
            let draws = resample(&Ranked::new(base), &Ranked::new(variant), &supported, plan);
            for (effect, mut draws) in effects_to_bound.zip(draws) {
                let (b, v) = sides(effect);
                let reach = precision.reach(difference_autocorrelation(&b, &v), recolouring);
                effect.difference = precision.estimate(effect.difference.value, &mut draws, reach);
            }
        }
    }
    effects
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_order_as_values_do() {
        let values = [3.5, -0.0, 0.0, -2.0, 1e300, -1e-300, 7.0, -2.5, f64::MIN_POSITIVE];
        let mut expected = values;
        expected.sort_by(f64::total_cmp);
        let sorted = ascending(&values);
        assert!(
            sorted.iter().zip(&expected).all(|(a, b)| a.to_bits() == b.to_bits()),
            "{sorted:?}"
        );
    }
}
