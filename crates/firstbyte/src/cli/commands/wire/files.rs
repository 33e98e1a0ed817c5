//! `firstbyte wire FILE…`: reads files to their end and writes all outputs.

use std::num::NonZeroU8;
use std::path::{Path, PathBuf};

use firstbyte_passive::{Analyzer, Limits, Observed};

use super::kept::Kept;
use super::{choice, live, note_end, outputs, packets};
use crate::cli::exit::{self, Problem};
use crate::cli::files::Opened;
use crate::cli::terminal;
use crate::plans::WirePlan;
use firstbyte_report::units::count;

pub(super) fn run(
    plan: &WirePlan,
    paths: &[PathBuf],
    threads: Option<NonZeroU8>,
    opened: Opened,
) -> Result<u8, Problem> {
    packets::check(plan, paths)?;
    // The second reading, for packets, must see the same as the first.
    let limits = Limits { seed: super::seed(), ..Limits::default() };
    let analyzer = || Ok(Analyzer::new(limits).with_filter(live::filter(&plan.filter)?));
    let mut first = analyzer()?;
    if let Some(path) = paths.first() {
        // Do not overwrite existing outputs for a capture that cannot even be opened.
        firstbyte_capture::check(path).map_err(|error| not_read(error.to_string(), &paths[1..]))?;
    }
    let mut rows = outputs::Rows::open(&plan.outputs, &first.begin())?;
    let mut kept = Kept::new(plan);
    let mut emit = |observed: &Observed| {
        if choice::is_written(&plan.choice, observed) {
            rows.add(observed);
        }
        if choice::is_chosen(&plan.choice, observed) {
            kept.add(observed);
        }
    };
    let threads = threads.map_or_else(firstbyte_capture::threads, |threads| threads.get().into());
    let code = read(paths, threads, &mut first, &mut emit);
    kept.sort();
    rows.finish(first.hygiene(), None, kept.capacities())?;
    if code.is_err() && first.hygiene().frames == 0 {
        return code;
    }
    kept.check_flows(first.connections())?;
    kept.show(&first)?;
    // The page may be shared, so it must not reveal the file's directory.
    let name = |path: &PathBuf| firstbyte_capture::name(path.file_name().map_or(path, Path::new));
    let names: Vec<String> = paths.iter().map(name).collect();
    kept.draw(&first, &names)?;
    if let Some(to) = &plan.outputs.packets {
        let written = packets::write(paths, analyzer()?, &kept.written, to)?;
        let connections = count(kept.written.len() as u64, "connection");
        terminal::note(&format!("wrote {} of {connections}", count(written, "packet")));
    }
    // However the reading ended, there is a result.
    opened.keep();
    code
}

/// The error that a file could not be read, and that the files after it were not tried.
fn not_read(error: String, behind: &[PathBuf]) -> Problem {
    let problem = Problem::new(exit::READ, error);
    let behind: Vec<String> = behind.iter().map(|path| firstbyte_capture::name(path)).collect();
    match behind.is_empty() {
        true => problem,
        false => problem.hint(format!("also not read: {}", behind.join(", "))),
    }
}

/// Reads all files. What could be read is passed on, even if a later file fails.
fn read(
    paths: &[PathBuf],
    threads: usize,
    analyzer: &mut Analyzer,
    emit: &mut dyn FnMut(&Observed),
) -> Result<u8, Problem> {
    let mut code = Ok(exit::OK);
    for (place, path) in paths.iter().enumerate() {
        match firstbyte_capture::read_on(threads, path, analyzer, emit) {
            Ok(ended) => note_end(path, ended, &mut code),
            Err(error) => {
                code = Err(not_read(error.to_string(), &paths[place + 1..]));
                break;
            }
        }
    }
    firstbyte_capture::finish_on(threads, analyzer, emit);
    code
}
