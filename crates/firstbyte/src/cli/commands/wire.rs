//! `firstbyte wire FILE…`: what captured packets show of TLS.

mod choice;
pub(in crate::cli) mod diff;
mod files;
mod live;
mod metrics;
mod outputs;
mod packets;

use std::cell::RefCell;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use firstbyte_core::passive::groups::Groups;
use firstbyte_core::passive::{Analyzer, Limits, Observed};

use crate::capture::{self, Ended};
use crate::cli::args::{FilterArgs, WireArgs, WireCommand};
use crate::cli::exit::{self, Problem};
use crate::cli::terminal;
use crate::report::wire;

pub(in crate::cli) fn run(args: &WireArgs) -> Result<u8, Problem> {
    if let Some(WireCommand::Diff(diff)) = &args.command {
        return diff::run(diff);
    }
    if args.live.interface.is_none() {
        return files::run(args);
    }
    let mut analyzer = analyzer(&args.filter)?;
    if args.json { lines(args, &mut analyzer) } else { tables(args, &mut analyzer) }
}

/// An analyzer of the packets that `filter` lets pass.
fn analyzer(filter: &FilterArgs) -> Result<Analyzer, Problem> {
    let limits = Limits { seed: seed(), ..Limits::default() };
    Ok(Analyzer::new(limits).with_filter(live::filter(filter)?))
}

/// Packets may be made to collide in hash tables by who knows the seed.
fn seed() -> u64 {
    fastrand::u64(..)
}

fn lines(args: &WireArgs, analyzer: &mut Analyzer) -> Result<u8, Problem> {
    let mut out = BufWriter::new(io::stdout().lock());
    let failed: RefCell<Option<io::Error>> = RefCell::new(None);
    let interface = args.live.interface.as_deref();
    let mut all = 0;
    let mut emit = |observed: Observed| {
        let mut failed = failed.borrow_mut();
        if failed.is_none() {
            all += 1;
            *failed = wire::line(&observed, &mut out).err();
        }
        // Who reads along wants each when it is over.
        if failed.is_none() && interface.is_some() {
            *failed = out.flush().err();
        }
    };
    let code = read(args, analyzer, &mut emit, &|| failed.borrow().is_some());
    if let Some(error) = failed.into_inner() {
        return Err(Problem::output(&error));
    }
    if never_began(args, analyzer) {
        return code;
    }
    if let Some(interface) = interface {
        wire::capture_line(interface, all, analyzer.hygiene(), &mut out)
            .map_err(|e| Problem::output(&e))?;
    }
    out.flush().map_err(|e| Problem::output(&e))?;
    terminal::note(wire::hygiene(analyzer.hygiene()).trim_end());
    code
}

fn tables(args: &WireArgs, analyzer: &mut Analyzer) -> Result<u8, Problem> {
    let mut groups = Groups::default();
    let mut shown: Vec<Observed> = Vec::new();
    let mut all = 0;
    let mut emit = |observed: Observed| {
        groups.add(&observed);
        all += 1;
        keep_first(&mut shown, observed, args.connections);
    };
    let code = read(args, analyzer, &mut emit, &|| false);
    if never_began(args, analyzer) {
        return code;
    }
    shown.sort_unstable_by_key(|observed| observed.number);
    let style = terminal::style(args.color);
    let mut text = wire::hygiene(analyzer.hygiene());
    text.push('\n');
    text.push_str(&wire::servers(&groups.summaries(), &style));
    text.push_str(&wire::connections(&shown, &style));
    if all > shown.len() {
        text.push_str(&format!("first {} of {all} connections\n", shown.len()));
    }
    io::stdout().lock().write_all(text.as_bytes()).map_err(|e| Problem::output(&e))?;
    code
}

/// A live capture that could not be begun has no results, not even empty ones.
const fn never_began(args: &WireArgs, analyzer: &Analyzer) -> bool {
    args.live.interface.is_some() && analyzer.hygiene().dropped.is_none()
}

/// Keeps the `most` connections that began first.
fn keep_first(kept: &mut Vec<Observed>, observed: Observed, most: usize) {
    if observed.number <= most as u64 {
        kept.push(observed);
    }
}

/// Reads all files, or the interface, which ends when `is_over`. What could be read is given out, whatever
/// comes after.
fn read(
    args: &WireArgs,
    analyzer: &mut Analyzer,
    emit: &mut dyn FnMut(Observed),
    is_over: &dyn Fn() -> bool,
) -> Result<u8, Problem> {
    if args.live.interface.is_some() {
        return live::read(args, analyzer, emit, is_over);
    }
    let mut code = Ok(exit::OK);
    for path in &args.files {
        match capture::read(path, analyzer, emit) {
            Ok(ended) => note_end(path, ended, &mut code),
            Err(error) => {
                code = Err(Problem::new(exit::READ, error.to_string()));
                break;
            }
        }
    }
    analyzer.finish(emit);
    code
}

fn note_end(path: &Path, ended: Ended, code: &mut Result<u8, Problem>) {
    let name = capture::name(path);
    match ended {
        Ended::Whole => {}
        Ended::CutOff { offset } => terminal::note(&format!(
            "note: {name}: ends in the middle of a packet, at offset {offset}: read up to there"
        )),
        Ended::Malformed { offset, what } => {
            let message = format!("{name}: malformed at offset {offset}: {what}");
            *code = Err(Problem::new(exit::READ, message).hint("what comes before it was read"));
        }
    }
}
