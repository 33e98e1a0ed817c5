//! Summaries of many samples in bounded memory, sufficient for a table.
//!
//! A [`Column`] keeps every value up to a limit, and beyond that a uniform random sample (reservoir sampling,
//! Vitter's algorithm R). A [`Middle`] keeps the values near the median.

use std::collections::BTreeMap;
use std::time::Duration;

use firstbyte_core::stats::quantile;

/// Values of one quantity.
#[derive(Clone, Debug)]
pub(super) struct Column {
    values: Vec<u64>,
    /// Number of zeros. Many parts are mostly zero, and counting them takes no space.
    zeros: u64,
    /// Number of all other values.
    others: u64,
    limit: usize,
}

impl Column {
    pub(super) const fn new(limit: usize) -> Self {
        Self { values: Vec::new(), zeros: 0, others: 0, limit }
    }

    pub(super) fn take(&mut self, value: Duration) {
        self.take_number(u64::try_from(value.as_nanos()).unwrap_or(u64::MAX));
    }

    pub(super) fn take_number(&mut self, value: u64) {
        if value == 0 {
            self.zeros += 1;
            return;
        }
        self.others += 1;
        if self.values.len() < self.limit {
            self.values.push(value);
        } else if let Some(place) = usize::try_from(fastrand::u64(..self.others))
            .ok()
            .and_then(|place| self.values.get_mut(place))
        {
            *place = value;
        }
    }

    /// Number of values.
    pub(super) const fn count(&self) -> u64 {
        self.zeros + self.others
    }

    /// Number of non-zero values.
    pub(super) const fn others(&self) -> u64 {
        self.others
    }

    /// Number of values used for quantiles, if that is not all.
    pub(super) fn drawn(&self) -> Option<u64> {
        let kept = self.values.len() as u64;
        (kept < self.others).then_some(kept)
    }

    /// The kept values, ascending.
    pub(super) fn sorted(&self) -> Vec<f64> {
        // In a random sample, scale the number of zeros likewise.
        let share = self.values.len() as f64 / (self.others.max(1)) as f64;
        let zeros = (self.zeros as f64 * share).round() as usize;
        let zeros = if self.others == 0 { 1 } else { zeros };
        let mut sorted = vec![0.0; zeros];
        sorted.extend(self.values.iter().map(|value| *value as f64));
        sorted[zeros..].sort_unstable_by(f64::total_cmp);
        sorted
    }

    pub(super) fn quantiles<const N: usize>(&self, wanted: [f64; N]) -> [f64; N] {
        let sorted = self.sorted();
        wanted.map(|q| quantile(&sorted, q).unwrap_or_default())
    }
}

/// Keeps the item with the median value.
///
/// It has a window of the items closest to the median so far. The median of n values in random order moves by about
/// the square root of n places, so a window of thousands suffices for millions. For values outside the window, one
/// item is kept per bin of half a per cent: if the median leaves the window, an item that close to it is returned.
#[derive(Clone, Debug)]
pub struct Middle<T> {
    /// Ordered by value, then by number, then by arrival.
    window: BTreeMap<Key, T>,
    below: Outside<T>,
    above: Outside<T>,
    limit: usize,
}

type Key = (Duration, u32, usize);

/// Items on one side of the window.
#[derive(Clone, Debug)]
struct Outside<T> {
    count: usize,
    /// For each bin, the number of items, and the last one.
    bins: BTreeMap<u32, (usize, Key, T)>,
}

/// Bins per doubling of a value; each is 0.54 % wide.
const BINS: f64 = 128.0;

impl<T> Outside<T> {
    const fn new() -> Self {
        Self { count: 0, bins: BTreeMap::new() }
    }

    fn add(&mut self, key: Key, kept: T) {
        self.count += 1;
        let bin = ((key.0.as_nanos() as f64).max(1.0).log2() * BINS) as u32;
        let before = self.bins.get(&bin).map_or(0, |(count, ..)| *count);
        self.bins.insert(bin, (before + 1, key, kept));
    }

    /// An item from the bin that contains this rank.
    fn at(&self, rank: usize) -> Option<(&Key, &T)> {
        let mut passed = 0;
        let found = self.bins.values().find(|(count, ..)| {
            passed += count;
            passed > rank
        });
        found.map(|(_, key, kept)| (key, kept))
    }
}

impl<T> Middle<T> {
    /// Creates one with a window of `limit` items.
    pub const fn new(limit: usize) -> Self {
        Self { window: BTreeMap::new(), below: Outside::new(), above: Outside::new(), limit }
    }

    fn count(&self) -> usize {
        self.below.count + self.window.len() + self.above.count
    }

    /// Adds the item that `make` returns. Equal values are ordered by `sequence`.
    pub fn take(&mut self, value: Duration, sequence: u32, make: impl FnOnce() -> T) {
        let key = (value, sequence, self.count());
        if self.below.count > 0 && self.window.keys().next().is_some_and(|first| key < *first) {
            return self.below.add(key, make());
        }
        if self.above.count > 0 && self.window.keys().next_back().is_some_and(|last| key > *last) {
            return self.above.add(key, make());
        }
        self.window.insert(key, make());
        if self.window.len() > self.limit {
            let before = self.rank().saturating_sub(self.below.count);
            if before > self.window.len() / 2 {
                if let Some((key, kept)) = self.window.pop_first() {
                    self.below.add(key, kept);
                }
            } else if let Some((key, kept)) = self.window.pop_last() {
                self.above.add(key, kept);
            }
        }
    }

    /// Rank of the median; the lower one if the number is even.
    fn rank(&self) -> usize {
        self.count().saturating_sub(1) / 2
    }

    /// The median item with its value and number, and whether it is exact or only within half a per cent.
    pub fn middle(&self) -> Option<(Duration, u32, &T, bool)> {
        let (rank, window) = (self.rank(), self.below.count..self.below.count + self.window.len());
        let found = if rank < window.start {
            self.below.at(rank)
        } else if rank < window.end {
            self.window.iter().nth(rank - window.start)
        } else {
            self.above.at(rank - window.end)
        };
        found.map(|((value, sequence, _), kept)| (*value, *sequence, kept, window.contains(&rank)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn below_its_limit_a_column_is_exact(values in prop::collection::vec(0..50u64, 1..200)) {
            let mut column = Column::new(200);
            values.iter().for_each(|value| column.take_number(*value));
            let mut sorted: Vec<f64> = values.iter().map(|value| *value as f64).collect();
            sorted.sort_by(f64::total_cmp);
            let wanted = [0.0, 0.25, 0.5, 0.9, 0.99, 1.0];
            let exact = wanted.map(|q| quantile(&sorted, q).unwrap());
            prop_assert_eq!(column.quantiles(wanted), exact);
            prop_assert_eq!((column.count(), column.drawn()), (values.len() as u64, None));
        }

        #[test]
        fn a_middle_within_its_window_is_the_middle(
            values in prop::collection::vec(0..1_000u64, 1..300),
        ) {
            let mut middle = Middle::new(150);
            for (value, sequence) in values.iter().zip(0..) {
                middle.take(Duration::from_nanos(*value), sequence, || *value);
            }
            let mut sorted = values.clone();
            sorted.sort_unstable();
            let (value, _, kept, exact) = middle.middle().unwrap();
            prop_assert_eq!(value, Duration::from_nanos(*kept));
            if exact {
                prop_assert_eq!(*kept, sorted[(sorted.len() - 1) / 2]);
            }
            prop_assert!(exact || values.len() > 150);
        }
    }

    #[test]
    fn beyond_its_limit_a_column_is_a_fair_draw() {
        fastrand::seed(7);
        let mut column = Column::new(10_000);
        // One third are zeros; the first half of the others is small.
        for value in 0..300_000u64 {
            column.take_number(if value % 3 == 0 { 0 } else { value });
        }
        assert_eq!((column.count(), column.drawn()), (300_000, Some(10_000)));
        let [third, middle, last] = column.quantiles([0.3, 0.5, 1.0]);
        assert!(third.abs() < 1.0, "{third}");
        assert!((middle - 75_000.0).abs() < 4_000.0, "{middle}");
        assert!(last > 299_000.0, "{last}");
    }

    #[test]
    fn the_middle_of_many_in_any_order_is_exact() {
        fastrand::seed(11);
        let mut values: Vec<u64> = (0..200_000).collect();
        fastrand::shuffle(&mut values);
        let mut middle = Middle::new(2_048);
        for (value, sequence) in values.iter().zip(0..) {
            middle.take(Duration::from_nanos(*value), sequence, || ());
        }
        let (value, _, (), exact) = middle.middle().unwrap();
        assert_eq!((value, exact), (Duration::from_nanos(99_999), true));
        assert!(middle.window.len() <= 2_048);
    }

    #[test]
    fn a_middle_that_drifts_out_of_its_window_is_known_to_half_a_per_cent() {
        for falls in [false, true] {
            let mut middle = Middle::new(10);
            for n in 0..10_000 {
                let value = if falls { 20_000 - n } else { 10_000 + n };
                middle.take(Duration::from_nanos(value), 0, || value);
            }
            let (value, _, kept, exact) = middle.middle().unwrap();
            assert!(!exact);
            assert_eq!(value, Duration::from_nanos(*kept));
            assert!(kept.abs_diff(15_000) < 90, "{kept}");
        }
    }
}
