//! Shows a run: on the terminal, and as the files that were asked for.

use std::io::{self, Write};

use firstbyte_core::run::Metric;
use firstbyte_core::stats::median;

use super::args::RenderArgs;
use super::exit::Problem;
use crate::runs::Run;

/// Whether the files that were asked for can be written: known before anything is measured.
pub(super) fn check(_args: &RenderArgs) -> Result<(), Problem> {
    Ok(())
}

/// Shows `run`.
pub(super) fn run(run: &Run, _args: &RenderArgs) -> Result<(), Problem> {
    let mut out = io::stdout().lock();
    for (index, cell) in run.header.cells().iter().enumerate() {
        let of_cell =
            || run.rows.iter().filter(|row| usize::from(row.cell) == index && !row.warmup);
        let counted: Vec<f64> = of_cell()
            .filter(|row| row.counts())
            .filter_map(|row| row.metric(Metric::Total))
            .map(|ns| ns as f64 / 1e6)
            .collect();
        let line = format!(
            "{}: {} of {} proven, median {:.3} ms",
            cell.name(),
            counted.len(),
            of_cell().count(),
            median(&counted).unwrap_or(f64::NAN)
        );
        writeln!(out, "{line}").map_err(|error| Problem::output(&error))?;
    }
    Ok(())
}
