//! A browser's network log: its requests as rows, and a summary.
//!
//! It is read once, in pieces. Rows are written as requests end, and only what is shown is kept in memory.

use std::io::{self, Read, Write};
use std::path::Path;
use std::time::Duration;

use firstbyte_report::netlog::{NetLogCsv, NetLogReport, line, text};
use firstbyte_report::warning::Warning;
use firstbyte_sources::netlog::net_export::NetExportReader;
use firstbyte_sources::netlog::{NetLogEvent, NetLogReduction, NetLogRequest, NetLogSummary};

use super::forms::check_forms;
use super::unreadable;
use crate::cli::exit::{self, Problem};
use crate::cli::exports::{Exporter, Exports, Lines, Sink, print};
use crate::cli::files::Files;
use crate::cli::terminal;
use crate::cli::unpacked::unpacked;
use crate::plans::ReportPlan;

/// Bytes read at once.
const PIECE_BYTES: usize = 1 << 18;

pub(super) fn run(plan: &ReportPlan) -> Result<u8, Problem> {
    let [path] = &*plan.files else {
        let problem = Problem::new(exit::USAGE, "a network log cannot be shown with other files");
        return Err(problem.hint("give one file at a time"));
    };
    let files = Files::default().reads(&plan.files).exports_of_responses(&plan.render.outputs);
    files.check()?;
    let why = format!("{} is a network log: this output is not possible", path.display());
    check_forms(plan, &["--csv"], &why, "use --json or --csv")?;
    // Read before any output is opened: an unreadable file must not cost an existing output.
    let mut reader = NetExportReader::only(NetLogReduction::wants);
    let begun = BegunLog::read(path, &mut reader)?;
    let opened = files.open()?;
    let outputs = &plan.render.outputs;
    let mut rows: Exports<'_, NetLogRequest> = Exports::default();
    rows.open(&outputs.json, |out| {
        Ok(Lines { out, line: |request: &NetLogRequest, out: &mut dyn Write| line(request, out) })
    })?;
    rows.open(&outputs.csv, NetLogCsv::new)?;
    let mut log = Log {
        reduction: NetLogReduction::default(),
        taken: Taken { rows, summary: NetLogSummary::keeping(plan.requests), failed: None },
    };
    let broken_off = log.read(begun, &mut reader)?;
    let Log { reduction, taken } = log;
    taken.rows.finish(&())?;
    if let Some(detail) = broken_off {
        terminal::warn(&Warning::LogBrokenOff { file: path.to_owned(), detail });
    }
    if !outputs.use_stdout() {
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
        let report = NetLogReport {
            name: &name,
            client: reader.client(),
            span: reduction.span_us().map(Duration::from_micros),
            summary: &taken.summary,
            hosts: plan.hosts,
        };
        print(&text(&report, &terminal::style(plan.render.colors)))?;
    }
    opened.keep();
    Ok(exit::OK)
}

struct Log<'a> {
    reduction: NetLogReduction,
    taken: Taken<'a>,
}

/// Receives the requests.
struct Taken<'a> {
    rows: Exports<'a, NetLogRequest>,
    summary: NetLogSummary,
    failed: Option<Problem>,
}

impl Taken<'_> {
    fn add(&mut self, request: NetLogRequest) {
        if self.failed.is_none() {
            self.failed = self.rows.export(&request).err();
        }
        self.summary.add(request);
    }
}

/// A log that has been read at least as far as its constants.
struct BegunLog {
    file: Box<dyn Read>,
    piece: Vec<u8>,
    events: Vec<NetLogEvent>,
    at_end: bool,
    /// Why it cannot be read further.
    broken_off: Option<String>,
}

impl BegunLog {
    fn read(path: &Path, reader: &mut NetExportReader) -> Result<Self, Problem> {
        let file = unpacked(path).map_err(|error| unreadable(path, error))?;
        let (piece, events) = (vec![0; PIECE_BYTES], Vec::new());
        let mut begun = Self { file, piece, events, at_end: false, broken_off: None };
        while !reader.has_constants() {
            begun.read_on(reader).map_err(|error| unreadable(path, error))?;
            if begun.at_end && !reader.has_constants() {
                let why = begun.broken_off;
                let why =
                    why.unwrap_or_else(|| "the network log ends before its constants".to_owned());
                let message = format!("cannot read {}: {why}", path.display());
                return Err(Problem::new(exit::READ, message));
            }
        }
        Ok(begun)
    }

    /// Reads the next events, unless at the end.
    fn read_on(&mut self, reader: &mut NetExportReader) -> io::Result<()> {
        match self.file.read(&mut self.piece) {
            Ok(0) => self.at_end = true,
            Ok(n) => {
                let read = reader.feed(&self.piece[..n], |event| self.events.push(event));
                self.broken_off = read.err().map(|error| error.to_string());
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // A compressed file that is truncated or damaged.
            Err(error) if reader.has_constants() => self.broken_off = Some(error.to_string()),
            Err(error) => return Err(error),
        }
        self.at_end |= self.broken_off.is_some();
        Ok(())
    }
}

impl Log<'_> {
    /// Reads the log to its end. Returns why the log is incomplete, if it is.
    fn read(
        &mut self,
        mut begun: BegunLog,
        reader: &mut NetExportReader,
    ) -> Result<Option<String>, Problem> {
        let Self { reduction, taken } = self;
        loop {
            for event in begun.events.drain(..) {
                reduction.push(&event, reader, &mut |request| taken.add(request));
            }
            // The reader has gone, or the disk is full: reading further is pointless.
            if let Some(failed) = taken.failed.take() {
                return Err(failed);
            }
            if begun.at_end {
                break;
            }
            if let Err(error) = begun.read_on(reader) {
                return Err(Problem::new(exit::READ, error.to_string()));
            }
        }
        let broken_off = begun.broken_off;
        reduction.finish(reader, &mut |request| taken.add(request));
        taken.failed.take().map_or(Ok(()), Err)?;
        let cut = || "it is incomplete: the browser was killed or is still writing".to_owned();
        Ok(broken_off.or_else(|| (!reader.is_whole()).then(cut)))
    }
}

impl Exporter<NetLogRequest> for NetLogCsv<Sink> {
    fn export(&mut self, request: &NetLogRequest) -> io::Result<()> {
        self.row(request)
    }

    fn flush(&mut self) -> io::Result<()> {
        Self::flush(self)
    }

    fn finish(mut self: Box<Self>, (): &()) -> io::Result<()> {
        Self::flush(&mut self)
    }
}
