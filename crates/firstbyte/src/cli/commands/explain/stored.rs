//! Converts the samples of a run, new or stored, to evidence.

use std::path::Path;

use firstbyte_core::document::run::RunHeader;
use firstbyte_core::run::{Standing, Taken};
use firstbyte_explain::{Evidence, MeasuredWay, MeasuredWays, WayKind};

use super::Measured;
use super::measure::WARMUP;
use crate::cli::exit::{self, Problem};
use crate::cli::{read_run, run_problem};
use firstbyte_report::dates;

/// Reads a run written by `explain --run`.
pub(super) fn read(path: &Path) -> Result<Measured, Problem> {
    let run = read_run(path)?;
    let ways =
        run.header.axes.iter().all(|axis| axis.name == firstbyte_probe::experiment::axis::WAY);
    let known = run.header.cells().iter().all(|cell| kind(&cell.name()).is_some());
    if !ways || !known {
        let message = format!("{}: not a run of explain", path.display());
        return Err(Problem::new(exit::READ, message).hint(
            "write one with: firstbyte explain URL --run FILE; show other runs with: \
                   firstbyte report",
        ));
    }
    let taken = (0..run.rows.len()).map(|index| run.taken(index));
    let taken = taken.collect::<Result<Vec<Taken>, _>>().map_err(run_problem)?;
    Ok(Measured::from_taken(run.header, taken, false))
}

fn kind(name: &str) -> Option<WayKind> {
    WayKind::named(name)
}

impl Measured {
    /// The evidence in samples; each belongs to the header's cell with its number.
    pub(super) fn from_taken(header: RunHeader, taken: Vec<Taken>, interrupted: bool) -> Self {
        let cells = header.cells();
        let mut left_out = Vec::new();
        let mut measured = MeasuredWays::default();
        for cell in &cells {
            if let Some(kind) = kind(&cell.name()) {
                measured.ways.push((kind, MeasuredWay::default()));
            }
        }
        for sample in taken {
            let Some((kind, way)) = measured.ways.get_mut(usize::from(sample.cell)) else {
                continue;
            };
            let Taken { standing, sample, .. } = sample;
            let subject = *kind == WayKind::Subject;
            if sample.warmup {
                if sample.sequence == 0 {
                    if let Some(failure) = sample.failure().filter(|_| !subject) {
                        left_out.push((*kind, format!("{}: {}", failure.phase, failure.cause)));
                    }
                    way.first = Some(sample.connection).filter(|c| c.failure.is_none());
                } else if subject && sample.sequence == WARMUP - 1 {
                    measured.redirects = sample.redirects;
                }
                continue;
            }
            match (standing, sample.connection.failure.clone()) {
                (Standing::Proven, _) => way.proven.push((sample.sequence, sample.connection)),
                (Standing::Unproven(why), _) => way.unproven.push((why, sample.connection)),
                (Standing::Failed, Some(failure)) => way.failed.push(failure),
                (Standing::Failed, None) => {}
            }
        }
        Self {
            url: cells.first().map(|cell| cell.url.clone()).unwrap_or_default(),
            date: dates::minute(header.created_unix_ns).unwrap_or_default(),
            command: header.command,
            evidence: Evidence::from_measured(measured),
            left_out,
            interrupted,
        }
    }
}
