//! `firstbyte wire FILE…`: files read to their end, and everything that is written of them.

use std::path::{Path, PathBuf};

use firstbyte_core::passive::{Analyzer, Limits, Observed};

use super::kept::Kept;
use super::{choice, live, note_end, outputs, packets};
use crate::capture;
use crate::cli::args::WireArgs;
use crate::cli::exit::{self, Problem};
use crate::cli::terminal;
use crate::report::units::count;

pub(super) fn run(args: &WireArgs) -> Result<u8, Problem> {
    packets::check(args)?;
    // The second reading for packets has to see what the first one saw.
    let limits = Limits { seed: super::seed(), ..Limits::default() };
    let analyzer = || Ok(Analyzer::new(limits).with_filter(live::filter(&args.filter)?));
    let mut first = analyzer()?;
    let mut rows = outputs::Rows::open(args)?;
    let mut kept = Kept::new(args);
    let mut emit = |observed: &Observed| {
        if choice::is_chosen(args, observed) {
            rows.add(observed);
            kept.add(observed);
        }
    };
    let code = read(args, &mut first, &mut emit);
    rows.finish(first.hygiene(), None)?;
    kept.sort();
    kept.check_flows(first.connections())?;
    kept.show(&first)?;
    // Where a file lies is nobody's business whom the page is shown.
    let name = |path: &PathBuf| capture::name(path.file_name().map_or(path, Path::new));
    let names: Vec<String> = args.files.iter().map(name).collect();
    kept.draw(&first, &names)?;
    if let Some(path) = &args.pcap_out {
        let written = packets::write(args, analyzer()?, &kept.written, path)?;
        let connections = count(kept.written.len() as u64, "connection");
        terminal::note(&format!("wrote {} of {connections}", count(written, "packet")));
    }
    code
}

/// Reads all files. What could be read is given out, whatever comes after.
fn read(
    args: &WireArgs,
    analyzer: &mut Analyzer,
    emit: &mut dyn FnMut(&Observed),
) -> Result<u8, Problem> {
    let threads = args.threads.map_or_else(capture::threads, usize::from);
    let mut code = Ok(exit::OK);
    for path in &args.files {
        match capture::read_on(threads, path, analyzer, emit) {
            Ok(ended) => note_end(path, ended, &mut code),
            Err(error) => {
                code = Err(Problem::new(exit::READ, error.to_string()));
                break;
            }
        }
    }
    capture::finish_on(threads, analyzer, emit);
    code
}
