//! Some of many: all values up to a limit, from there on a random part of them.
//!
//! In: values, one after the other, and who says when there are too many. Out: a sample in which each value
//! stands with the same chance, a half, a quarter… of them. It must not depend on what the values are: then
//! quantiles of the sample are those of all, but for chance.

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
    /// Adds a value, which is kept with the chance that all before it have; gives back whether it is.
    pub fn add(&mut self, value: T, random: &mut Rng) -> bool {
        self.met += 1;
        let is_kept = random.u64(..).trailing_zeros() >= self.halvings;
        if is_kept {
            self.kept.push(value);
        }
        is_kept
    }

    /// Keeps each value with the chance of a half; gives back how many went.
    pub fn halve(&mut self, random: &mut Rng) -> usize {
        let before = self.kept.len();
        self.kept.retain(|_| random.bool());
        self.kept.shrink_to_fit();
        self.halvings += 1;
        before - self.kept.len()
    }

    /// Those that are kept, in the order in which they came.
    pub fn kept(&self) -> &[T] {
        &self.kept
    }

    /// How many there were.
    pub const fn met(&self) -> u64 {
        self.met
    }

    /// One in so many is kept: a power of two.
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
        // Early ones and late ones alike: a sixteenth of each tenth, within five standard errors.
        for tenth in 0..10 {
            let of = |value: &&u32| **value / 10_000 == tenth;
            let n = sampled.kept().iter().filter(of).count();
            assert!((500..=750).contains(&n), "{tenth}: {n}");
        }
    }
}
