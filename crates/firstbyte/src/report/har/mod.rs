//! `--har`: samples as an HTTP Archive 1.2, for tools that show such.
//!
//! One entry a request, those that were redirected included. HAR has six timings and no more; what
//! it has no place for is in the member `_firstbyte`. A failed visit is an entry without a response:
//! status 0, as browsers write it.

mod entry;
#[cfg(test)]
mod tests;

use std::io::{self, Write};

use firstbyte_core::run::{Cell, Taken};
use serde_json::json;

/// Writes entries to a sink, as they come.
pub struct HarWriter<W: Write> {
    out: W,
    entries: u64,
}

impl<W: Write> HarWriter<W> {
    /// Begins an archive.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn new(mut out: W) -> io::Result<Self> {
        let creator = json!({ "name": "firstbyte", "version": env!("CARGO_PKG_VERSION") });
        write!(out, r#"{{"log":{{"version":"1.2","creator":{creator},"entries":["#)?;
        Ok(Self { out, entries: 0 })
    }

    /// Adds the entries of `taken`, a visit to `cell`.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn taken(&mut self, cell: &Cell, taken: &Taken) -> io::Result<()> {
        for entry in entry::entries(cell, taken) {
            self.out.write_all(if self.entries == 0 { b"\n" } else { b",\n" })?;
            serde_json::to_writer(&mut self.out, &entry)?;
            self.entries += 1;
        }
        Ok(())
    }

    /// Writes the end.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn finish(mut self) -> io::Result<()> {
        self.out.write_all(b"\n]}}\n")?;
        self.out.flush()
    }
}
