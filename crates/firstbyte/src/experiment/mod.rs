//! Experiments: several variants measured so that they can be compared.
//!
//! Randomised complete blocks: every round visits every cell once, in random order, so that what
//! drifts meanwhile (the machine, the path) falls on all cells alike. Seeded: the same seed gives
//! the same order.

use std::future::Future;

use firstbyte_core::timeline::Sample;

/// How many rounds, and in which order cells are visited.
#[derive(Clone, Copy, Debug)]
pub struct Design {
    /// Rounds that are measured first and not pooled.
    pub warmup: u32,
    /// Rounds that count.
    pub rounds: u32,
    /// Seed of the order within each round.
    pub seed: u64,
}

impl Design {
    /// Samples that will be taken of `cells` cells.
    pub const fn samples(&self, cells: usize) -> u64 {
        (self.warmup as u64 + self.rounds as u64) * cells as u64
    }

    /// The order in which each round visits `cells` cells.
    pub fn orders(&self, cells: usize) -> Vec<Vec<usize>> {
        let mut random = fastrand::Rng::with_seed(self.seed);
        (0..self.warmup + self.rounds)
            .map(|_| {
                let mut order: Vec<usize> = (0..cells).collect();
                random.shuffle(&mut order);
                order
            })
            .collect()
    }

    /// Takes the samples, one at a time; `visit` is given the cell to measure, `took` each sample
    /// before the next one is begun. Stops early when `took` fails.
    ///
    /// # Errors
    /// Those of `took`.
    pub async fn run<F: Future<Output = Sample>, E>(
        &self,
        cells: usize,
        mut visit: impl FnMut(usize) -> F,
        mut took: impl FnMut(usize, Sample) -> Result<(), E>,
    ) -> Result<(), E> {
        for (round, order) in (0..).zip(self.orders(cells)) {
            for cell in order {
                let mut sample = visit(cell).await;
                sample.sequence = round;
                sample.warmup = round < self.warmup;
                took(cell, sample)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_round_visits_every_cell_once_and_the_seed_fixes_the_order() {
        let design = Design { warmup: 1, rounds: 20, seed: 7 };
        let orders = design.orders(12);
        assert_eq!(orders.len(), 21);
        for order in &orders {
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..12).collect::<Vec<_>>());
        }
        assert_eq!(orders, design.orders(12));
        assert_ne!(orders, Design { seed: 8, ..design }.orders(12));
        assert!(orders.windows(2).any(|pair| pair[0] != pair[1]));
    }
}
