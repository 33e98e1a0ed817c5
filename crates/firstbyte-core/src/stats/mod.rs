//! Statistics of samples. Definitions and sources: `docs/statistics.md`.

mod bootstrap;
mod change;
mod dependence;
mod effect;
mod estimate;
mod histogram;
mod hodges_lehmann;
mod holm;
mod linear;
mod outliers;
mod quantile;
mod rounds;
#[cfg(test)]
mod simulated;
mod special;
mod stratified;

pub use change::{
    ChangeForm, ChangeSettings, FEWEST_SLOTS, LevelChange, Pace, SeriesChanges, SeriesPoint,
    find_changes,
};
pub use dependence::{ALPHA, block_length, lag1_autocorrelation, notable_autocorrelation};
pub use effect::{
    ClockSteps, Effect, QUANTILES, QuantileEffect, RESAMPLED_UP_TO, in_steps, median_change,
    median_estimate, paired_effect, paired_effect_in_steps, paired_quantile_effects,
    quantile_estimate,
};
pub(crate) use effect::{Precision, Series};
pub use estimate::{
    Estimate, FEWEST_BEYOND, FEWEST_ROUNDS, Interval, fewest_for_quantile, supports_quantile,
};
pub use histogram::{
    BucketedQuantile, COARSEST_SCALE, ExponentialHistogram, HISTOGRAM_SCALE, NativeBuckets,
    StoredHistogramError, bucket_index, bucket_within,
};
pub use hodges_lehmann::hodges_lehmann;
pub use holm::holm;
pub use outliers::{OUTLIER_MADS, Spread};
pub use quantile::{median, percentile, quantile};
pub use rounds::{FORESEEABLE_ROUNDS, Outlook, outlook, rounds_needed};
pub use stratified::{Stratified, Stratum, share_estimate, stratified_medians, stratified_shares};
