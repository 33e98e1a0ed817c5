//! `firstbyte wire FILE…` and `firstbyte wire -i IFACE`: what packets show of TLS.

mod choice;
pub(in crate::cli) mod diff;
mod files;
mod kept;
mod live;
mod metrics;
mod outputs;
mod packets;

use std::path::Path;

use firstbyte_passive::{Analyzer, Limits};

use crate::cli::args::{FilterArgs, WireArgs, WireCommand};
use crate::cli::exit::{self, Problem};
use crate::cli::terminal;
use firstbyte_capture::{self, Ended};

pub(in crate::cli) fn run(args: &WireArgs) -> Result<u8, Problem> {
    if let Some(WireCommand::Diff(diff)) = &args.command {
        return diff::run(diff);
    }
    if args.live.interface.is_some() && !args.files.is_empty() {
        return Err(Problem::new(exit::USAGE, "give files or -i, not both"));
    }
    outputs::check(args)?;
    match args.live.interface.as_deref() {
        Some(interface) => live::run(args, interface),
        None => files::run(args),
    }
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

fn note_end(path: &Path, ended: Ended, code: &mut Result<u8, Problem>) {
    let name = firstbyte_capture::name(path);
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
