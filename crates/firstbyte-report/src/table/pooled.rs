//! What many samples leave of themselves: enough for a table, however many they are.
//!
//! A [`Column`] keeps every value up to a limit, and beyond it a random draw of all, each as likely as any other
//! (reservoir sampling, Vitter's algorithm R). A [`Middle`] keeps what is near the middle.

use std::collections::BTreeMap;
use std::time::Duration;

use firstbyte_core::stats::quantile;

/// Values of one quantity.
#[derive(Clone, Debug)]
pub(super) struct Column {
    values: Vec<u64>,
    /// Zeros, which many parts are most of the time: they need no room.
    zeros: u64,
    /// All other values that came.
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

    /// How many values came.
    pub(super) const fn count(&self) -> u64 {
        self.zeros + self.others
    }

    /// How many values came that are not zero.
    pub(super) const fn others(&self) -> u64 {
        self.others
    }

    /// How many of them quantiles are of, where that is not all.
    pub(super) fn drawn(&self) -> Option<u64> {
        let kept = self.values.len() as u64;
        (kept < self.others).then_some(kept)
    }

    /// The values that are kept, ascending.
    pub(super) fn sorted(&self) -> Vec<f64> {
        // Of a draw, zeros are as many as their share.
        let share = self.values.len() as f64 / (self.others.max(1)) as f64;
        let zeros = (self.zeros as f64 * share).round() as usize;
        let zeros = if self.others == 0 { 1 } else { zeros };
        let mut sorted = vec![0.0; zeros];
        sorted.extend(self.values.iter().map(|value| *value as f64));
        sorted[zeros..].sort_unstable_by(f64::total_cmp);
        sorted
    }

    /// These quantiles.
    pub(super) fn quantiles<const N: usize>(&self, wanted: [f64; N]) -> [f64; N] {
        let sorted = self.sorted();
        wanted.map(|q| quantile(&sorted, q).unwrap_or_default())
    }
}

/// What is in the middle of all that came, by a key.
///
/// A window of those nearest to the middle so far: the middle of n values in any order that does not drift moves by
/// about the root of n, a window of thousands holds it for millions. Of those outside one is kept in each half per cent of
/// the value: where the middle did move out, one that is as close to it is given.
#[derive(Clone, Debug)]
pub struct Middle<T> {
    /// By value, by number, and by when they came.
    window: BTreeMap<Key, T>,
    below: Outside<T>,
    above: Outside<T>,
    limit: usize,
}

type Key = (Duration, u32, usize);

/// Those on one side of the window.
#[derive(Clone, Debug)]
struct Outside<T> {
    count: usize,
    /// How many there are in each half per cent, and the last of them.
    bins: BTreeMap<u32, (usize, Key, T)>,
}

/// Bins for each doubling of a value: 0.54 % wide.
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

    /// One in the bin of that with this rank.
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
    /// With a window of so many.
    pub const fn new(limit: usize) -> Self {
        Self { window: BTreeMap::new(), below: Outside::new(), above: Outside::new(), limit }
    }

    fn count(&self) -> usize {
        self.below.count + self.window.len() + self.above.count
    }

    /// Takes what `make` gives. Equal values are in order of `sequence`.
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

    /// Which one is the middle: of an even number, the lower one.
    fn rank(&self) -> usize {
        self.count().saturating_sub(1) / 2
    }

    /// The one in the middle with its value and number, and whether it is that or one within half a per cent of it.
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
        // A third are zeros; of the others, the first half is small.
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
