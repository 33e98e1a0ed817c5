//! The proven rows of a run by cell and metric; other rows are only counted.

use super::answers::AnswerCounts;
use crate::run::{Metric, Row, Shortfall, Standing};

/// Counts of a cell's rows by outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All rows except warm-up.
    pub asked: usize,
    /// Pooled rows.
    pub proven: usize,
    /// Rows that completed as something else, by shortfall; only those that occurred, in the order of
    /// [`Shortfall::ALL`].
    pub unproven: Vec<(Shortfall, usize)>,
    /// Failed rows.
    pub failed: usize,
    /// Warm-up rows, whatever their outcome.
    pub warmup: usize,
}

/// Represents "absent": no measured time is five centuries long.
const ABSENT: u64 = u64::MAX;

#[derive(Clone, Debug, Default)]
struct CellColumns {
    counts: Counts,
    /// Rounds of proven rows, ascending.
    rounds: Vec<u32>,
    /// Coarsest resolution of a reported clock behind the values, nanoseconds.
    resolution_ns: u32,
    /// Answers of proven rows.
    answers: AnswerCounts,
    /// Values by metric, parallel to `rounds`; empty until the metric has a value.
    values: [Vec<u64>; Metric::ALL.len()],
}

/// The rows of a run, by cell and metric.
#[derive(Clone, Debug, Default)]
pub struct Table {
    cells: Vec<CellColumns>,
}

impl Table {
    /// Creates a table of `cells` cells without rows.
    pub fn new(cells: usize) -> Self {
        Self { cells: vec![CellColumns::default(); cells] }
    }

    /// Creates a table of `cells` cells with `rows`.
    pub fn from_rows<'a>(cells: usize, rows: impl IntoIterator<Item = &'a Row>) -> Self {
        let mut table = Self::new(cells);
        rows.into_iter().for_each(|row| table.push(row));
        table
    }

    /// Adds a row. A row of an unknown cell is ignored; a second proven row of the same cell and round is counted, but
    /// only the first is pooled.
    pub fn push(&mut self, row: &Row) {
        let Some(cell) = self.cells.get_mut(usize::from(row.cell)) else { return };
        if row.warmup {
            cell.counts.warmup += 1;
            return;
        }
        cell.counts.asked += 1;
        match row.standing {
            Standing::Proven => {
                cell.counts.proven += 1;
                cell.pool(row);
            }
            Standing::Failed => cell.counts.failed += 1,
            Standing::Unproven(shortfall) => {
                let unproven = &mut cell.counts.unproven;
                match unproven.binary_search_by_key(&shortfall, |(s, _)| *s) {
                    Ok(at) => unproven[at].1 += 1,
                    Err(at) => unproven.insert(at, (shortfall, 1)),
                }
            }
        }
    }

    /// Number of cells.
    pub fn cells(&self) -> usize {
        self.cells.len()
    }

    /// Counts of the rows of `cell` by outcome.
    pub fn counts(&self, cell: usize) -> Counts {
        self.cells.get(cell).map(|c| c.counts.clone()).unwrap_or_default()
    }

    /// Largest error of each value of `cell` in either direction, due to the resolution of another program's clock,
    /// nanoseconds. Zero if no clock was reported.
    pub fn resolution_ns(&self, cell: usize) -> f64 {
        self.cells.get(cell).map_or(0.0, |cell| f64::from(cell.resolution_ns))
    }

    /// The answers of the proven rows of `cell`.
    pub fn answers(&self, cell: usize) -> Option<&AnswerCounts> {
        self.cells.get(cell).map(|cell| &cell.answers)
    }

    /// The values of `metric` in `cell`, nanoseconds, in the order of rounds.
    pub fn values(&self, cell: usize, metric: Metric) -> Vec<f64> {
        let column = self.cells.get(cell).map_or(&[][..], |c| &c.values[metric as usize]);
        column.iter().filter(|ns| **ns != ABSENT).map(|ns| *ns as f64).collect()
    }

    /// The values of `metric` in the rounds for which both cells have one, nanoseconds: of `base` and of `variant`.
    pub fn paired(&self, base: usize, variant: usize, metric: Metric) -> (Vec<f64>, Vec<f64>) {
        let mut values = (Vec::new(), Vec::new());
        let (Some(base), Some(variant)) = (self.cells.get(base), self.cells.get(variant)) else {
            return values;
        };
        let (of_base, of_variant) =
            (&base.values[metric as usize], &variant.values[metric as usize]);
        if of_base.is_empty() || of_variant.is_empty() {
            return values;
        }
        for (b, v) in common(&base.rounds, &variant.rounds) {
            let (b, v) = (of_base[b], of_variant[v]);
            if b != ABSENT && v != ABSENT {
                values.0.push(b as f64);
                values.1.push(v as f64);
            }
        }
        values
    }

    /// Number of rounds in which both cells were proven, and in which only one of them was.
    pub fn common_rounds(&self, base: usize, variant: usize) -> (usize, usize) {
        let (Some(base), Some(variant)) = (self.cells.get(base), self.cells.get(variant)) else {
            return (0, 0);
        };
        let both = common(&base.rounds, &variant.rounds).count();
        (both, base.rounds.len() + variant.rounds.len() - 2 * both)
    }
}

impl CellColumns {
    fn pool(&mut self, row: &Row) {
        // Rows come in the order of rounds; rows out of order (in a file edited by hand) are inserted in place.
        let at = match self.rounds.last() {
            Some(last) if *last >= row.round => match self.rounds.binary_search(&row.round) {
                Ok(_) => return,
                Err(at) => at,
            },
            _ => self.rounds.len(),
        };
        for metric in Metric::ALL {
            let column = &mut self.values[metric as usize];
            let value = row.metric(metric);
            if column.is_empty() {
                if value.is_none() {
                    continue;
                }
                column.resize(self.rounds.len(), ABSENT);
            }
            column.insert(at, value.unwrap_or(ABSENT));
        }
        self.resolution_ns = self.resolution_ns.max(row.metrics.resolution_ns);
        self.answers.add(row.answer);
        self.rounds.insert(at, row.round);
    }
}

/// Indices of the rounds in both ascending lists.
fn common<'a>(a: &'a [u32], b: &'a [u32]) -> impl Iterator<Item = (usize, usize)> + 'a {
    let (mut i, mut j) = (0, 0);
    std::iter::from_fn(move || {
        while i < a.len() && j < b.len() {
            match a[i].cmp(&b[j]) {
                std::cmp::Ordering::Less => i += 1,
                std::cmp::Ordering::Greater => j += 1,
                std::cmp::Ordering::Equal => {
                    (i, j) = (i + 1, j + 1);
                    return Some((i - 1, j - 1));
                }
            }
        }
        None
    })
}
