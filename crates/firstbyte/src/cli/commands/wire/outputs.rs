//! Rows of connections in the requested forms, written as connections end.

use std::io::{self, Write};

use firstbyte_passive::capacity::ServerCapacity;
use firstbyte_passive::{Begin, Hygiene, Observed};

use crate::cli::exit::Problem;
use crate::cli::exports::{Exporter, Exports, Sink};
use crate::plans::Outputs;
use firstbyte_report::wire::{self, CsvWriter, ParquetWriter, ZeekWriter};

/// Data written after the last connection.
struct CaptureEnd<'a> {
    hygiene: &'a Hygiene,
    /// Number of connections written.
    added: u64,
    /// The interface of a live capture.
    interface: Option<&'a str>,
    /// Estimates of the servers' capacity, if requested.
    capacities: Vec<ServerCapacity>,
}

/// Open outputs for rows. After the first failure nothing more is written.
pub(super) struct Rows<'a> {
    added: u64,
    exports: Exports<'a, Observed, CaptureEnd<'a>>,
    failed: Option<Problem>,
}

impl<'a> Rows<'a> {
    /// Opens the requested outputs for a capture that began at `begin`.
    pub(super) fn open(outputs: &'a Outputs, begin: &Begin) -> Result<Self, Problem> {
        let mut exports = Exports::default();
        exports.open(&outputs.json, |out| Ok(Ndjson(out)))?;
        exports.open(&outputs.csv, CsvWriter::new)?;
        exports.open(&outputs.parquet, ParquetWriter::new)?;
        exports.open(&outputs.zeek, |out| Ok(ZeekWriter::new(out, begin.clone())))?;
        Ok(Self { added: 0, exports, failed: None })
    }

    /// Writes a connection to all outputs.
    pub(super) fn add(&mut self, observed: &Observed) {
        if self.failed.is_none() {
            self.added += 1;
            self.failed = self.exports.export(observed).err();
        }
    }

    /// Flushes buffers for readers following along; returns false after a failure.
    pub(super) fn flush(&mut self) -> bool {
        if self.failed.is_none() {
            self.failed = self.exports.flush().err();
        }
        self.failed.is_none()
    }

    /// Writes the ends of the outputs; a live capture on `interface` has a line of its own.
    pub(super) fn finish(
        self,
        hygiene: &'a Hygiene,
        interface: Option<&'a str>,
        capacities: Vec<ServerCapacity>,
    ) -> Result<(), Problem> {
        // Finish what was written, even after a failure.
        let end = CaptureEnd { hygiene, added: self.added, interface, capacities };
        let finished = self.exports.finish(&end);
        self.failed.map_or(finished, Err)
    }
}

/// NDJSON: one line per connection, and for a live capture a last one.
struct Ndjson(Sink);

impl Exporter<Observed, CaptureEnd<'_>> for Ndjson {
    fn export(&mut self, observed: &Observed) -> io::Result<()> {
        wire::line(observed, &mut self.0)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }

    fn finish(mut self: Box<Self>, end: &CaptureEnd<'_>) -> io::Result<()> {
        for server in &end.capacities {
            wire::capacity_line(server, &mut self.0)?;
        }
        if let Some(interface) = end.interface {
            wire::capture_line(interface, end.added, end.hygiene, &mut self.0)?;
        }
        self.0.flush()
    }
}

impl Exporter<Observed, CaptureEnd<'_>> for CsvWriter<Sink> {
    fn export(&mut self, observed: &Observed) -> io::Result<()> {
        self.row(observed)
    }

    fn flush(&mut self) -> io::Result<()> {
        Self::flush(self)
    }

    fn finish(self: Box<Self>, _: &CaptureEnd<'_>) -> io::Result<()> {
        Self::finish(*self)
    }
}

impl Exporter<Observed, CaptureEnd<'_>> for ParquetWriter<Sink> {
    fn export(&mut self, observed: &Observed) -> io::Result<()> {
        self.row(observed)
    }

    fn flush(&mut self) -> io::Result<()> {
        // The file is unreadable without its end, so flushing early would not help.
        Ok(())
    }

    fn finish(self: Box<Self>, _: &CaptureEnd<'_>) -> io::Result<()> {
        Self::finish(*self)
    }
}

impl Exporter<Observed, CaptureEnd<'_>> for ZeekWriter<Sink> {
    fn export(&mut self, observed: &Observed) -> io::Result<()> {
        self.row(observed)
    }

    fn flush(&mut self) -> io::Result<()> {
        Self::flush(self)
    }

    fn finish(self: Box<Self>, end: &CaptureEnd<'_>) -> io::Result<()> {
        Self::finish(*self, end.hygiene)
    }
}
