//! `--har`: samples as an HTTP Archive 1.2, for HAR viewers.
//!
//! There is one entry per request, including redirected ones. HAR has only six timings; other data is in the member
//! `_firstbyte`. A failed visit is an entry without a response: status 0, as in browsers' archives.

mod entry;
mod page;
#[cfg(test)]
mod tests;

pub use page::page_archive;

use std::io::{self, Write};

use firstbyte_core::run::{Cell, Taken};
use serde_json::json;

/// Writes entries to a sink as they arrive.
pub struct HarWriter<W: Write> {
    out: W,
    begun: bool,
}

impl<W: Write> HarWriter<W> {
    /// Begins an archive.
    ///
    /// # Errors
    /// Returns errors from writing to `out`.
    pub fn new(mut out: W) -> io::Result<Self> {
        let creator = json!({ "name": "firstbyte", "version": env!("CARGO_PKG_VERSION") });
        write!(out, r#"{{"log":{{"version":"1.2","creator":{creator},"entries":["#)?;
        Ok(Self { out, begun: false })
    }

    /// Appends entries made by [`entries`].
    ///
    /// # Errors
    /// Returns errors from writing to the sink.
    pub(super) fn append(&mut self, entries: &[u8]) -> io::Result<()> {
        // The first entry has no comma before it.
        let entries =
            if self.begun { entries } else { entries.strip_prefix(b",").unwrap_or(entries) };
        self.begun |= !entries.is_empty();
        self.out.write_all(entries)
    }

    /// Writes the end of the archive.
    ///
    /// # Errors
    /// Returns errors from writing to the sink.
    pub fn finish(mut self) -> io::Result<()> {
        self.out.write_all(b"\n]}}\n")?;
        self.out.flush()
    }
}

/// Appends the entries of `taken`, a visit to `cell`, to `out`, each on its own line after a comma.
///
/// # Errors
/// Never fails in practice.
pub(super) fn entries(cell: &Cell, taken: &Taken, out: &mut Vec<u8>) -> io::Result<()> {
    for entry in entry::entries(cell, taken) {
        out.extend_from_slice(b",\n");
        serde_json::to_writer(&mut *out, &entry)?;
    }
    Ok(())
}
