//! `firstbyte wire FILE…` and `firstbyte wire -i IFACE`: what packets reveal of TLS.

mod choice;
pub(in crate::cli) mod diff;
mod files;
mod kept;
mod live;
mod metrics;
mod outputs;
mod packets;

use std::path::Path;

use firstbyte_passive::{Analyzer, Limits, Observed};

use crate::cli::exit::{self, Problem};
use crate::cli::files::Files;
use crate::cli::terminal;
use crate::plans::{PacketFilter, PacketSource, WirePlan};
use firstbyte_capture::{self, Ended};

pub(in crate::cli) fn run(plan: &WirePlan) -> Result<u8, Problem> {
    let paths: &[_] = match &plan.source {
        PacketSource::Files { paths, .. } => paths,
        PacketSource::Live(_) => &[],
    };
    let opened = Files::default().reads(paths).exports(&plan.outputs).open()?;
    match &plan.source {
        PacketSource::Files { paths, threads } => files::run(plan, paths, *threads, opened),
        PacketSource::Live(live) => live::run(plan, live, opened),
    }
}

/// An analyzer of the packets that match `filter`.
fn analyzer(filter: &PacketFilter) -> Result<Analyzer, Problem> {
    let limits = Limits { seed: seed(), ..Limits::default() };
    Ok(Analyzer::new(limits).with_filter(live::filter(filter)?))
}

/// Random, because anyone who knows the seed can craft packets that collide in hash tables.
fn seed() -> u64 {
    fastrand::u64(..)
}

/// Passes every connection of a capture to `take`. A truncated capture is read as far as possible, with a note.
pub(in crate::cli) fn connections(
    path: &Path,
    mut take: impl FnMut(&Observed),
) -> Result<(), Problem> {
    let mut analyzer = analyzer(&PacketFilter::default())?;
    let ended = firstbyte_capture::read(path, &mut analyzer, &mut take)
        .map_err(|error| Problem::new(exit::READ, error.to_string()))?;
    firstbyte_capture::finish_on(firstbyte_capture::threads(), &mut analyzer, &mut take);
    let mut code = Ok(exit::OK);
    note_end(path, ended, &mut code);
    code.map(drop)
}

fn note_end(path: &Path, ended: Ended, code: &mut Result<u8, Problem>) {
    let name = firstbyte_capture::name(path);
    match ended {
        Ended::Whole => {}
        Ended::CutOff { offset } => terminal::note(&format!(
            "note: {name}: ends in the middle of a packet, at offset {offset}; everything before \
             it was read"
        )),
        Ended::Malformed { offset, what } => {
            let message = format!("{name}: malformed at offset {offset}: {what}");
            *code = Err(Problem::new(exit::READ, message).hint("everything before it was read"));
        }
    }
}
