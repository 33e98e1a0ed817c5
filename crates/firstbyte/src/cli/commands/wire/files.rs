//! `firstbyte wire FILE…`: files read to their end, and everything that is written of them.

use std::path::{Path, PathBuf};

use firstbyte_passive::{Analyzer, Limits, Observed};

use super::kept::Kept;
use super::{choice, live, note_end, outputs, packets};
use crate::cli::args::WireArgs;
use crate::cli::exit::{self, Problem};
use crate::cli::terminal;
use firstbyte_report::units::count;

pub(super) fn run(args: &WireArgs) -> Result<u8, Problem> {
    packets::check(args)?;
    // The second reading for packets has to see what the first one saw.
    let limits = Limits { seed: super::seed(), ..Limits::default() };
    let analyzer = || Ok(Analyzer::new(limits).with_filter(live::filter(&args.filter)?));
    let mut first = analyzer()?;
    let mut rows = outputs::Rows::open(args, &first.begin())?;
    let mut kept = Kept::new(args);
    let mut emit = |observed: &Observed| {
        if choice::is_written(args, observed) {
            rows.add(observed);
        }
        if choice::is_chosen(args, observed) {
            kept.add(observed);
        }
    };
    let code = read(args, &mut first, &mut emit);
    rows.finish(first.hygiene(), None)?;
    if code.is_err() && first.hygiene().frames == 0 {
        return code;
    }
    kept.sort();
    kept.check_flows(first.connections())?;
    kept.show(&first)?;
    // Where a file lies is nobody's business whom the page is shown.
    let name = |path: &PathBuf| firstbyte_capture::name(path.file_name().map_or(path, Path::new));
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
    let threads = args.threads.map_or_else(firstbyte_capture::threads, usize::from);
    let mut code = Ok(exit::OK);
    for (place, path) in args.files.iter().enumerate() {
        match firstbyte_capture::read_on(threads, path, analyzer, emit) {
            Ok(ended) => note_end(path, ended, &mut code),
            Err(error) => {
                let problem = Problem::new(exit::READ, error.to_string());
                let behind: Vec<String> = args.files[place + 1..]
                    .iter()
                    .map(|path| firstbyte_capture::name(path))
                    .collect();
                code = Err(match behind.is_empty() {
                    true => problem,
                    false => problem.hint(format!("not read either: {}", behind.join(", "))),
                });
                break;
            }
        }
    }
    firstbyte_capture::finish_on(threads, analyzer, emit);
    code
}
