//! Reduces any number of rows to what a picture can show.
//!
//! A cell's rounds are divided into *columns* of consecutive rounds, up to a maximum number of columns. A column
//! shows one real sample: the one with the median total time, whose phases add up (medians of phases would not),
//! together with the minimum and maximum total. With few rounds, a column is a single sample.

use firstbyte_core::compare::{AnswerCounts, find_difference};
use firstbyte_core::run::{Metric, Row, Shortfall, Standing};
use firstbyte_core::stats::percentile;

use crate::units::grouped;

/// The phases in chronological order, as the metrics that hold their times.
pub(crate) const PHASES: [Metric; 7] = [
    Metric::Resolve,
    Metric::Connect,
    Metric::Tls,
    Metric::Quic,
    Metric::Send,
    Metric::Wait,
    Metric::Receive,
];

/// Index of the TCP handshake among them; the other handshakes follow.
const CONNECT: usize = 1;
/// Largest difference between a sum and its individually rounded metrics.
const ROUNDING_NS: u64 = 1_000;

/// Metrics with a drawn distribution.
pub(crate) const SPREADS: [Metric; 3] = [Metric::Total, Metric::Ttfb, Metric::Setup];

/// Number of quantiles through which a distribution is drawn: every percent.
pub(crate) const STEPS: usize = 100;

/// Sorted values, or their percentiles if there are more than [`STEPS`].
pub(crate) fn percentiles(sorted: &[u64]) -> Vec<u64> {
    if sorted.len() <= STEPS {
        return sorted.to_vec();
    }
    (0..=STEPS).filter_map(|percent| percentile(sorted, percent)).collect()
}

/// All cells of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Digest {
    pub cells: Vec<Series>,
    /// The first round after warm-up.
    pub first_round: u32,
    /// Number of rounds after warm-up.
    pub rounds: u32,
    /// Rounds per column.
    pub per_column: u32,
}

/// One cell.
#[derive(Clone, Debug, Default)]
pub(crate) struct Series {
    pub warmup: Vec<Column>,
    pub columns: Vec<Column>,
    /// Number of samples that are not warm-up.
    pub asked: u64,
    pub proven: u64,
    pub failed: u64,
    pub shortfalls: Vec<(Shortfall, u64)>,
    /// Answers of the proven samples.
    pub answers: AnswerCounts,
    /// The sample with the median total.
    pub middle: Option<Column>,
    /// For each of [`SPREADS`]: the sorted values, or the quantiles at every percent if there are more than
    /// [`STEPS`].
    pub spreads: [Vec<u64>; SPREADS.len()],
    /// Quartiles of the total.
    pub quartiles: Option<[u64; 3]>,
}

/// Consecutive rounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Column {
    /// Number of samples that count.
    pub samples: u32,
    pub failed: u32,
    pub unproven: u32,
    /// Phases of the median sample, nanoseconds.
    pub phases: [u64; PHASES.len()],
    /// Their sum.
    pub total: u64,
    /// The minimum total; below, the maximum.
    pub low: u64,
    pub high: u64,
}

impl Column {
    /// Time from the origin to the end of the phase with this index, nanoseconds.
    pub(crate) fn until(&self, phase: usize) -> u64 {
        self.phases[..=phase].iter().fold(0, |sum, ns| sum.saturating_add(*ns))
    }
}

impl Digest {
    /// Columns of all cells together: about as many as fit on a page of one megabyte.
    const COLUMNS: usize = 7_200;

    pub(crate) fn from_rows(cells: usize, rows: &[Row]) -> Self {
        let counting = rows.iter().filter(|r| !r.warmup).map(|r| r.round);
        let first_round = counting.clone().min().unwrap_or(0);
        let rounds = counting.max().map_or(0, |last| (last - first_round).saturating_add(1));
        let most = (Self::COLUMNS / cells.max(1)).clamp(120, 600);
        let per_column = rounds.div_ceil(u32::try_from(most).unwrap_or(600)).max(1);
        let shape = Self { cells: Vec::new(), first_round, rounds, per_column };
        let series =
            by_cell(cells, rows).iter().map(|of| Series::from_rows(&shape, rows, of)).collect();
        Self { cells: series, ..shape }
    }

    /// Whether answers differ between or within cells.
    pub(crate) fn has_unlike_answers(&self) -> bool {
        find_difference(self.cells.iter().map(|series| &series.answers)).is_some()
    }

    /// Whether answers have to be shown, because they differ or some are errors.
    pub(crate) fn shows_answers(&self) -> bool {
        self.has_unlike_answers() || self.cells.iter().any(|series| series.answers.has_errors())
    }

    /// Number of columns of a cell.
    pub(crate) fn columns(&self) -> usize {
        self.rounds.div_ceil(self.per_column.max(1)) as usize
    }

    /// The largest number of warm-up columns in any cell.
    pub(crate) fn warmups(&self) -> usize {
        self.cells.iter().map(|c| c.warmup.len()).max().unwrap_or(0)
    }
}

/// Indices of each cell's rows, by round.
fn by_cell(cells: usize, rows: &[Row]) -> Vec<Vec<u32>> {
    let mut counts = vec![0usize; cells];
    for row in rows {
        if let Some(count) = counts.get_mut(usize::from(row.cell)) {
            *count += 1;
        }
    }
    let mut out: Vec<Vec<u32>> = counts.into_iter().map(Vec::with_capacity).collect();
    for (index, row) in (0u32..).zip(rows) {
        if let Some(of) = out.get_mut(usize::from(row.cell)) {
            of.push(index);
        }
    }
    for of in &mut out {
        if !of.is_sorted_by_key(|i| rows[*i as usize].round) {
            of.sort_unstable_by_key(|i| rows[*i as usize].round);
        }
    }
    out
}

impl Series {
    fn from_rows(shape: &Digest, rows: &[Row], of: &[u32]) -> Self {
        let mut series = Self::default();
        let at = |i: &u32| &rows[*i as usize];
        let warm: Vec<u32> = of.iter().copied().filter(|i| at(i).warmup).collect();
        let rest: Vec<u32> = of.iter().copied().filter(|i| !at(i).warmup).collect();
        series.warmup = warm
            .chunk_by(|a, b| at(a).round == at(b).round)
            .map(|chunk| column(rows, chunk, &mut Vec::new()))
            .collect();
        series.columns = vec![Column::default(); shape.columns()];
        let number = |i: &u32| (at(i).round - shape.first_round) / shape.per_column;
        let mut scratch = Vec::new();
        for chunk in rest.chunk_by(|a, b| number(a) == number(b)) {
            let slot = chunk.first().map_or(0, |i| number(i) as usize);
            series.columns[slot] = column(rows, chunk, &mut scratch);
        }
        series.count(rest.iter().map(at));
        let whole = column(rows, &rest, &mut scratch);
        series.middle = (whole.samples > 0).then_some(whole);
        series.spread(rest.iter().map(at));
        series
    }

    fn count<'a>(&mut self, rows: impl Iterator<Item = &'a Row>) {
        for row in rows {
            self.asked += 1;
            match row.standing {
                Standing::Proven => {
                    self.proven += 1;
                    self.answers.add(row.answer);
                }
                Standing::Failed => self.failed += 1,
                Standing::Unproven(what) => {
                    match self.shortfalls.iter_mut().find(|(s, _)| *s == what) {
                        Some((_, count)) => *count += 1,
                        None => self.shortfalls.push((what, 1)),
                    }
                }
            }
        }
        self.shortfalls.sort_unstable();
    }

    fn spread<'a>(&mut self, rows: impl Iterator<Item = &'a Row> + Clone) {
        let mut values: Vec<u64> = Vec::new();
        for (spread, metric) in self.spreads.iter_mut().zip(SPREADS) {
            values.clear();
            let counting = rows.clone().filter(|r| r.counts());
            values.extend(counting.filter_map(|r| r.metric(metric)));
            values.sort_unstable();
            *spread = percentiles(&values);
            if metric == Metric::Total
                && let [Some(q1), Some(q2), Some(q3)] = [25, 50, 75].map(|p| percentile(&values, p))
            {
                self.quartiles = Some([q1, q2, q3]);
            }
        }
    }

    /// "47 of 50 verified, 2 with early data rejected, 1 answered 425, 1 failed"
    pub(crate) fn proof(&self, verified: &str) -> String {
        let counts = format!("{} of {} {verified}", grouped(self.proven), grouped(self.asked));
        let rest = self.rest();
        if rest.is_empty() { counts } else { format!("{counts}, {rest}") }
    }

    /// "2 with early data rejected, 1 answered 425, 1 failed"
    pub(crate) fn rest(&self) -> String {
        let mut parts: Vec<String> = Vec::new();
        for (what, count) in &self.shortfalls {
            parts.push(format!("{} {}", grouped(*count), what.phrase()));
        }
        if self.failed > 0 {
            parts.push(format!("{} failed", grouped(self.failed)));
        }
        parts.join(", ")
    }

    pub(crate) fn unproven(&self) -> u64 {
        self.shortfalls.iter().map(|(_, n)| n).sum()
    }
}

/// The column of the rows with these indices; `scratch` is a reused buffer.
fn column(rows: &[Row], of: &[u32], scratch: &mut Vec<(u64, u32)>) -> Column {
    let mut column = Column { low: u64::MAX, ..Column::default() };
    scratch.clear();
    for &index in of {
        let row = &rows[index as usize];
        match row.standing {
            Standing::Failed => column.failed += 1,
            Standing::Unproven(_) => column.unproven += 1,
            Standing::Proven => {
                let total = row.metric(Metric::Total).unwrap_or(0);
                column.samples += 1;
                column.low = column.low.min(total);
                column.high = column.high.max(total);
                scratch.push((total, index));
            }
        }
    }
    if scratch.is_empty() {
        return Column { low: 0, ..column };
    }
    let middle = (scratch.len() - 1) / 2;
    let (_, &mut (total, index), _) = scratch.select_nth_unstable(middle);
    let row = &rows[index as usize];
    column.phases = PHASES.map(|phase| row.metric(phase).unwrap_or(0));
    // A proxy's TLS and tunnel are only part of the set-up; draw them with the TCP handshake.
    let handshakes = column.until(CONNECT + 2) - column.phases[0];
    let of_proxy = row.metric(Metric::Setup).unwrap_or(0).saturating_sub(handshakes);
    if of_proxy > ROUNDING_NS {
        column.phases[CONNECT] = column.phases[CONNECT].saturating_add(of_proxy);
    }
    column.total = total.max(column.until(PHASES.len() - 1));
    column
}
