//! Mergeable histograms of times: across workers, hours and places.
//!
//! Base-2 exponential, like OpenTelemetry's exponential histograms and Prometheus' native histograms. At scale `s` the
//! base is `2^(2^-s)`, and bucket `i` holds seconds in `(base^i, base^(i+1)]`; Prometheus' index of the same bucket
//! (its "schema" is our scale) is `i + 1`. At [`HISTOGRAM_SCALE`] a bucket is 0.54 % wide. Definitions:
//! `docs/statistics.md`, "Histograms".

mod boundaries;
mod stored;
#[cfg(test)]
mod tests;

use std::time::Duration;

use super::quantile::places;

use boundaries::FINEST_SCALE;
pub use boundaries::{bucket_index, bucket_within};
pub use stored::StoredHistogramError;

/// Initial scale of a histogram: 128 buckets for a factor of two.
pub const HISTOGRAM_SCALE: i8 = FINEST_SCALE;
/// The coarsest scale: a bucket is a factor of 2^16. Prometheus has no schema below -4.
pub const COARSEST_SCALE: i8 = -4;

/// Times, counted in exponentially growing buckets.
///
/// A merged histogram equals a single histogram of all times, in any order: counts, sums and ends are integers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExponentialHistogram {
    scale: i8,
    count: u64,
    /// Number of times that are exactly zero, which fit into no bucket.
    zero: u64,
    sum_ns: u128,
    ends: Option<(Duration, Duration)>,
    /// Index and count of the non-empty buckets, by index.
    buckets: Vec<(i32, u64)>,
}

impl Default for ExponentialHistogram {
    fn default() -> Self {
        Self {
            scale: HISTOGRAM_SCALE,
            count: 0,
            zero: 0,
            sum_ns: 0,
            ends: None,
            buckets: Vec::new(),
        }
    }
}

/// Buckets that times can fall into at `scale`: from a nanosecond to 2^64 seconds.
fn possible(scale: i8) -> std::ops::RangeInclusive<i32> {
    let index = |time: Duration| bucket_index(time.as_secs_f64(), scale).unwrap_or_default();
    index(Duration::from_nanos(1))..=index(Duration::MAX)
}

/// A quantile with the precision of a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketedQuantile {
    /// Geometric middle of the bucket.
    pub value: Duration,
    /// Lower bound of the quantile of the times themselves.
    pub low: Duration,
    /// Upper bound of that quantile.
    pub high: Duration,
}

/// Buckets in the form of Prometheus' native histograms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NativeBuckets {
    /// Runs of consecutive buckets, as (offset, length). The first run's offset is the index (Prometheus') of its
    /// first bucket; later offsets are the number of empty buckets before the run.
    pub spans: Vec<(i32, u32)>,
    /// Count of the first bucket, then the difference of each count from the previous one.
    pub deltas: Vec<i64>,
}

impl ExponentialHistogram {
    /// Counts `time`.
    pub fn add(&mut self, time: Duration) {
        // No process ever counts 2^64 times, but a restored histogram may claim so.
        self.count = self.count.saturating_add(1);
        self.sum_ns = self.sum_ns.saturating_add(time.as_nanos());
        self.widen(time, time);
        match bucket_index(time.as_secs_f64(), self.scale) {
            None => self.zero = self.zero.saturating_add(1),
            Some(index) => match self.buckets.binary_search_by_key(&index, |(index, _)| *index) {
                Ok(place) => self.buckets[place].1 = self.buckets[place].1.saturating_add(1),
                Err(place) => self.buckets.insert(place, (index, 1)),
            },
        }
    }

    /// Adds everything that `other` has counted. The coarser of the two scales remains.
    pub fn merge(&mut self, other: &Self) {
        self.downscale(other.scale);
        let steps = other.scale - self.scale;
        self.count = self.count.saturating_add(other.count);
        self.zero = self.zero.saturating_add(other.zero);
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        if let Some((least, most)) = other.ends {
            self.widen(least, most);
        }
        let others = other.buckets.iter().map(|(index, number)| (index >> steps, *number));
        self.buckets.extend(others);
        // Both are in order, so little is left to sort.
        self.buckets.sort_by_key(|(index, _)| *index);
        self.join_equal();
    }

    /// Merges buckets until the scale is at most `scale`, but no further than [`COARSEST_SCALE`].
    pub fn downscale(&mut self, scale: i8) {
        let scale = scale.max(COARSEST_SCALE);
        if scale < self.scale {
            let steps = self.scale - scale;
            self.buckets.iter_mut().for_each(|(index, _)| *index >>= steps);
            self.join_equal();
            self.scale = scale;
        }
    }

    /// Merges buckets until at most `most` of them are non-empty, as far as [`COARSEST_SCALE`] allows.
    pub fn limit_buckets(&mut self, most: usize) {
        while self.buckets.len() > most && self.scale > COARSEST_SCALE {
            self.downscale(self.scale - 1);
        }
    }

    fn join_equal(&mut self) {
        self.buckets.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 = kept.1.saturating_add(next.1);
            }
            same
        });
    }

    fn widen(&mut self, least: Duration, most: Duration) {
        let (low, high) = self.ends.unwrap_or((least, most));
        self.ends = Some((low.min(least), high.max(most)));
    }

    /// Number of counted times.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Number of counted times that are zero.
    pub const fn zero_count(&self) -> u64 {
        self.zero
    }

    /// Exact sum of the times, nanoseconds.
    pub const fn sum_ns(&self) -> u128 {
        self.sum_ns
    }

    /// The shortest and the longest time, exactly; `None` for an empty histogram.
    pub const fn ends(&self) -> Option<(Duration, Duration)> {
        self.ends
    }

    /// The scale; Prometheus' schema.
    pub const fn scale(&self) -> i8 {
        self.scale
    }

    /// Index (OpenTelemetry's) and count of the non-empty buckets, by index.
    pub fn buckets(&self) -> impl Iterator<Item = (i32, u64)> + '_ {
        self.buckets.iter().copied()
    }

    /// OpenTelemetry's form: the first bucket's index, and all counts from there to the last bucket.
    pub fn dense(&self) -> (i32, Vec<u64>) {
        let Some((first, _)) = self.buckets.first() else { return (0, Vec::new()) };
        let mut counts = Vec::new();
        for (index, number) in &self.buckets {
            counts.resize(index.abs_diff(*first) as usize, 0);
            counts.push(*number);
        }
        (*first, counts)
    }

    /// Prometheus' form.
    pub fn native(&self) -> NativeBuckets {
        let mut native = NativeBuckets::default();
        let (mut next, mut before) = (0, 0);
        for (index, number) in &self.buckets {
            let index = index + 1;
            match native.spans.last_mut() {
                Some((_, length)) if index == next => *length += 1,
                _ => native.spans.push((index - next, 1)),
            }
            let number = i64::try_from(*number).unwrap_or(i64::MAX);
            native.deltas.push(number - before);
            (next, before) = (index + 1, number);
        }
        native
    }

    /// Number of times up to `bound`, rounded up to the next bucket border.
    pub fn count_up_to(&self, bound: Duration) -> u64 {
        let Some(bound) = bucket_index(bound.as_secs_f64(), self.scale) else { return self.zero };
        let within = self.buckets.iter().take_while(|(index, _)| *index <= bound);
        within.fold(self.zero, |sum, (_, number)| sum.saturating_add(*number))
    }

    /// The `q` quantile as defined for all percentiles (`docs/statistics.md`), with its bounds. `None` for an empty
    /// histogram.
    ///
    /// `value` is off by at most the square root of the base (0.27 % at [`HISTOGRAM_SCALE`]) and half a nanosecond.
    pub fn quantile(&self, q: f64) -> Option<BucketedQuantile> {
        let count = usize::try_from(self.count).ok().filter(|count| *count > 0)?;
        let (low, high) = places(count, q.clamp(0.0, 1.0));
        let (below, above) = (self.at(low as u64)?, self.at(high as u64)?);
        let midway = |a: Duration, b: Duration| a + b.saturating_sub(a) / 2;
        Some(BucketedQuantile {
            value: midway(below.value, above.value),
            low: midway(below.low, above.low),
            high: midway(below.high, above.high),
        })
    }

    /// The time at index `place`, from 0, of all times in order.
    fn at(&self, place: u64) -> Option<BucketedQuantile> {
        let (least, most) = self.ends?;
        let mut before = self.zero;
        if place < before {
            let zero = Duration::ZERO;
            return Some(BucketedQuantile { value: zero, low: zero, high: zero });
        }
        let (index, _) = self.buckets.iter().find(|(_, number)| {
            before = before.saturating_add(*number);
            place < before
        })?;
        let (above, up_to) = bucket_within(*index, self.scale);
        // Times are integer nanoseconds, so rounding cannot move one past a border, except in the last digits of very
        // long times.
        let time = |seconds: f64| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        let inside = |time: Duration| time.clamp(least, most);
        Some(BucketedQuantile {
            value: inside(time((above * up_to).sqrt())),
            low: inside(time(above)),
            high: inside(time(up_to)),
        })
    }
}
