//! A random sample: all values up to a limit, then a random part of them.
//!
//! In: values one after the other; the caller decides when there are too many. Out: a sample in which each value is
//! present with the same probability, 1/2, 1/4 and so on. It must not depend on the values: then the quantiles of the
//! sample differ from those of all values only by chance.

use fastrand::Rng;

/// A random sample that can be halved.
#[derive(Clone, Debug)]
pub struct Sampled<T> {
    kept: Vec<T>,
    met: u64,
    halvings: u32,
}

impl<T> Default for Sampled<T> {
    fn default() -> Self {
        Self { kept: Vec::new(), met: 0, halvings: 0 }
    }
}

impl<T> Sampled<T> {
    /// Adds a value, which is kept with the same probability as all before it. Returns whether it was kept.
    pub fn add(&mut self, value: T, random: &mut Rng) -> bool {
        self.met += 1;
        let is_kept = random.u64(..).trailing_zeros() >= self.halvings;
        if is_kept {
            self.kept.push(value);
        }
        is_kept
    }

    /// Keeps each value with probability 1/2. Returns how many were removed.
    pub fn halve(&mut self, random: &mut Rng) -> usize {
        let before = self.kept.len();
        self.kept.retain(|_| random.bool());
        self.kept.shrink_to_fit();
        self.halvings += 1;
        before - self.kept.len()
    }

    /// The values kept, in the order in which they came.
    pub fn kept(&self) -> &[T] {
        &self.kept
    }

    /// Number of values added.
    pub const fn met(&self) -> u64 {
        self.met
    }

    /// One in this many values is kept: a power of two.
    pub const fn one_in(&self) -> u64 {
        1 << self.halvings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_has_the_same_chance() {
        let mut random = Rng::with_seed(1);
        let mut sampled = Sampled::default();
        for value in 0..100_000u32 {
            if sampled.add(value, &mut random) && sampled.kept().len() == 8_192 {
                sampled.halve(&mut random);
            }
        }
        assert_eq!((sampled.met(), sampled.one_in()), (100_000, 16));
        assert!((4_096..8_192).contains(&sampled.kept().len()));
        // Early and late values alike: 1/16 of each tenth, within five standard errors.
        for tenth in 0..10 {
            let of = |value: &&u32| **value / 10_000 == tenth;
            let n = sampled.kept().iter().filter(of).count();
            assert!((500..=750).contains(&n), "{tenth}: {n}");
        }
    }
}
