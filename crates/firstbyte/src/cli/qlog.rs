//! A directory of qlog files: one for each QUIC connection, as they come.

use std::collections::BTreeMap;
use std::path::Path;

use firstbyte_core::timeline::Sample;
use firstbyte_report::qlog::{ENDING, traces};

use super::exit::Problem;
use super::exports::whole;
use super::terminal;
use crate::plans::Destination;

/// Where logs go, and how many have.
#[derive(Debug)]
pub(super) struct QlogDirectory<'a> {
    path: &'a Path,
    /// How often a connection's name was given: later exchanges on it have files of their own.
    names: BTreeMap<String, u32>,
}

impl<'a> QlogDirectory<'a> {
    pub(super) const fn new(path: &'a Path) -> Self {
        Self { path, names: BTreeMap::new() }
    }

    /// Writes the logs of the connections of `sample`; `way` is what that stands for in a run.
    pub(super) fn take(&mut self, sample: &Sample, way: Option<&str>) -> Result<(), Problem> {
        for trace in traces(sample, way) {
            // As servers name theirs.
            let name = trace.original_connection_id.unwrap_or_else(|| "unknown".into()) + "_client";
            let given = self.names.entry(name.clone()).or_default();
            *given += 1;
            let name = match *given {
                1 => format!("{name}.{ENDING}"),
                given => format!("{name}-{given}.{ENDING}"),
            };
            whole(&Destination::File(self.path.join(name)), &trace.bytes)?;
        }
        Ok(())
    }

    /// All has been written; says so where that was nothing.
    pub(super) fn finish(self) {
        if self.names.is_empty() {
            terminal::note(
                "note: --qlog: no log was written, since no QUIC connection of firstbyte's own has its packets noted; \
                 measure with --http3-only or http=3",
            );
        }
    }
}
