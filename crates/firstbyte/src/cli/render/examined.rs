//! Compares clients' own times with a capture of the same connections.

use std::path::Path;

use firstbyte_core::cross_examination::CrossExamination;
use firstbyte_passive::model::connection_captured_at_client;
use firstbyte_report::study::Examined;

use crate::cli::commands::wire::connections;
use crate::cli::exit::Problem;
use crate::cli::run_problem;
use crate::runs::Dataset;

/// Compares the clients' own times in `data` with the capture in that file.
pub(super) fn examined(data: &Dataset, capture: &Path) -> Result<Examined, Problem> {
    let mut examination = CrossExamination::default();
    connections(capture, |observed| {
        examination.captured(&connection_captured_at_client(observed))
    })?;
    for taken in data.each_taken() {
        let taken = taken.map_err(run_problem)?;
        if !taken.sample.warmup {
            examination.hear(usize::from(taken.cell), &taken.sample.connection);
        }
    }
    let mut clients: Vec<(String, Vec<usize>)> = Vec::new();
    for (number, cell) in data.cells.iter().enumerate() {
        let client = cell.factors.iter().find(|factor| factor.axis == "client");
        let client = client.map_or("all ways", |factor| &factor.label);
        match clients.iter_mut().find(|(name, _)| name == client) {
            Some((_, ways)) => ways.push(number),
            None => clients.push((client.to_owned(), vec![number])),
        }
    }
    let cells = data.cells.iter().enumerate();
    Ok(Examined {
        ways: cells.map(|(n, cell)| (cell.name(), examination.examined(&[n]))).collect(),
        clients: clients.into_iter().map(|(n, ways)| (n, examination.examined(&ways))).collect(),
    })
}
