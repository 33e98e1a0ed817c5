//! A browser's network log: its requests as rows, and what they come to. Read once, in pieces; rows go out as requests
//! end, and no more is kept than what is shown.

use std::io::{self, Read, Write};
use std::path::Path;
use std::time::Duration;

use firstbyte_core::netlog::net_export::NetExportReader;
use firstbyte_core::netlog::{NetLogReduction, NetLogRequest, NetLogSummary};
use firstbyte_report::netlog::{NetLogCsv, NetLogReport, line, text};
use firstbyte_report::warning::Warning;

use super::unreadable;
use crate::cli::commands::har;
use crate::cli::exit::{self, Problem};
use crate::cli::exports::{Exporter, Exports, Lines, Sink, print};
use crate::cli::files::Files;
use crate::cli::terminal;
use crate::plans::ReportPlan;

/// So much is read at once.
const PIECE_BYTES: usize = 1 << 18;

pub(super) fn run(path: &Path, plan: &ReportPlan, files: &Files) -> Result<u8, Problem> {
    forms(path, plan)?;
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
    let mut reader = NetExportReader::only(NetLogReduction::wants);
    let broken_off = log.read(path, &mut reader)?;
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

/// Refuses forms that a log has not.
fn forms(path: &Path, plan: &ReportPlan) -> Result<(), Problem> {
    let outputs = &plan.render.outputs;
    let asked = [
        (outputs.html.is_some(), "--html"),
        (outputs.parquet.is_some(), "--parquet"),
        (outputs.har.is_some(), "--har"),
        (outputs.svg.is_some(), "--svg"),
        (outputs.png.is_some(), "--png"),
        (plan.render.by.is_some(), "--by"),
        (plan.render.packets.is_some(), "--packets"),
    ];
    let Some((_, flag)) = asked.into_iter().find(|(is_asked, _)| *is_asked) else { return Ok(()) };
    let message = format!("{flag}: {} is a network log, which has no such form", path.display());
    Err(Problem::new(exit::USAGE, message).hint("--json, or --csv"))
}

struct Log<'a> {
    reduction: NetLogReduction,
    taken: Taken<'a>,
}

/// What requests go to.
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

impl Log<'_> {
    /// Reads the log to its end; why that is not the end of all that was written, where it is not.
    fn read(
        &mut self,
        path: &Path,
        reader: &mut NetExportReader,
    ) -> Result<Option<String>, Problem> {
        let Self { reduction, taken } = self;
        let mut file = har::opened(path).map_err(|error| unreadable(path, error))?;
        let (mut piece, mut events) = (vec![0; PIECE_BYTES], Vec::new());
        let mut broken_off = None;
        while broken_off.is_none() {
            match file.read(&mut piece) {
                Ok(0) => break,
                Ok(n) => {
                    let read = reader.feed(&piece[..n], |event| events.push(event));
                    broken_off = read.err().map(|error| error.to_string());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // A packed file that was cut short, or is damaged.
                Err(error) if reader.has_constants() => broken_off = Some(error.to_string()),
                Err(error) => return Err(unreadable(path, error)),
            }
            for event in events.drain(..) {
                reduction.push(&event, reader, &mut |request| taken.add(request));
            }
            // Whoever read along has seen enough, or there is no room: reading on is of no use.
            if let Some(failed) = taken.failed.take() {
                return Err(failed);
            }
        }
        if !reader.has_constants() {
            let why = broken_off
                .unwrap_or_else(|| "the network log ends before its constants".to_owned());
            let message = format!("cannot read {}: {why}", path.display());
            return Err(Problem::new(exit::READ, message));
        }
        reduction.finish(reader, &mut |request| taken.add(request));
        taken.failed.take().map_or(Ok(()), Err)?;
        let cut = || "it ends in the middle: the browser was ended, or is still writing".to_owned();
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
