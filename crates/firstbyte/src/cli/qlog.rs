//! A directory of qlog files: one per QUIC connection, written as they come.

use std::collections::BTreeMap;
use std::path::Path;

use firstbyte_core::timeline::Sample;
use firstbyte_report::qlog::{ENDING, traces};

use super::exit::Problem;
use super::exports::whole;
use super::terminal;
use crate::plans::Destination;

/// The directory, and the names used so far.
#[derive(Debug)]
pub(super) struct QlogDirectory<'a> {
    path: &'a Path,
    /// How often each connection's name was used: later exchanges on a connection get their own files.
    names: BTreeMap<String, u32>,
}

impl<'a> QlogDirectory<'a> {
    pub(super) const fn new(path: &'a Path) -> Self {
        Self { path, names: BTreeMap::new() }
    }

    /// Writes the logs of the connections of `sample`; `way` names its variant in a run.
    pub(super) fn take(&mut self, sample: &Sample, way: Option<&str>) -> Result<(), Problem> {
        for trace in traces(sample, way) {
            // Servers name their files in the same way.
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

    /// Call after the last sample; reports if no log was written.
    pub(super) fn finish(self) {
        if self.names.is_empty() {
            terminal::note(
                "note: --qlog: no log was written, since no QUIC connection of firstbyte's own has its packets noted; \
                 measure with --http3-only or http=3",
            );
        }
    }
}
