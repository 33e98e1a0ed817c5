//! `report` of servers' access logs: their requests as rows, and a summary.
//!
//! They are read once, in pieces; only what is shown is kept in memory.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::Path;

use firstbyte_report::server_log::{ServerLogCsv, ServerLogReport, line, text};
use firstbyte_report::warning::Warning;
use firstbyte_sources::server_log::{
    LogDimension, LogLineError, LoggedRequest, ServerLogReader, ServerLogSummary,
};

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
    let hint = "use text, --json or --csv";
    check_forms(plan, &["--csv", "--by"], "not possible for a server's log", hint)?;
    let by = dimensions(plan.render.by.as_deref())?;
    let outputs = &plan.render.outputs;
    let files = Files::default().reads(&plan.files).exports(outputs);
    files.check()?;
    let mut taken = Taken {
        rows: Exports::default(),
        summary: ServerLogSummary::telling_apart(by),
        skipped: BTreeMap::new(),
        failed: None,
    };
    // Checked before any output is opened: an unreadable file must not cost an existing output.
    let readable = plan.files.iter().map(|path| unpacked(path).map_err(|e| unreadable(path, e)));
    readable.collect::<Result<Vec<_>, _>>()?;
    let opened = files.open()?;
    taken.rows.open(&outputs.json, |out| {
        Ok(Lines { out, line: |request: &LoggedRequest, out: &mut dyn Write| line(request, out) })
    })?;
    taken.rows.open(&outputs.csv, ServerLogCsv::new)?;
    for path in &plan.files {
        if let Some(why) = read(path, |number, line| taken.add(number, line))? {
            terminal::warn(&Warning::LogBrokenOff { file: path.clone(), detail: why });
        }
        taken.failed.take().map_or(Ok(()), Err)?;
    }
    taken.rows.finish(&())?;
    if !outputs.use_stdout() {
        let name = |path: &Path| {
            path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
        };
        let names: Vec<String> = plan.files.iter().map(|path| name(path)).collect();
        let report = ServerLogReport {
            name: &names.join(" + "),
            summary: &taken.summary,
            skipped: &taken.skipped,
            groups: plan.hosts,
            paths: plan.paths,
        };
        print(&text(&report, &terminal::style(plan.render.colors)))?;
    }
    opened.keep();
    Ok(exit::OK)
}

/// Reads the log at `path` to its end. Returns why a damaged compressed log ends early, if it does.
pub(in crate::cli::commands) fn read(
    path: &Path,
    mut take: impl FnMut(u64, Result<LoggedRequest, LogLineError>),
) -> Result<Option<String>, Problem> {
    let mut file = unpacked(path).map_err(|error| unreadable(path, error))?;
    let mut reader = ServerLogReader::default();
    let mut piece = vec![0; PIECE_BYTES];
    let mut any = false;
    loop {
        match file.read(&mut piece) {
            Ok(0) => break,
            Ok(n) => {
                any = true;
                reader.feed(&piece[..n], &mut take);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if any => {
                reader.finish(&mut take);
                return Ok(Some(error.to_string()));
            }
            Err(error) => return Err(unreadable(path, error)),
        }
    }
    reader.finish(&mut take);
    Ok(None)
}

/// Receives the requests.
struct Taken<'a> {
    rows: Exports<'a, LoggedRequest>,
    summary: ServerLogSummary,
    skipped: BTreeMap<String, (u64, u64)>,
    failed: Option<Problem>,
}

impl Taken<'_> {
    fn add(&mut self, number: u64, line: Result<LoggedRequest, LogLineError>) {
        match line {
            Ok(request) => {
                if self.failed.is_none() {
                    self.failed = self.rows.export(&request).err();
                }
                self.summary.add(&request);
            }
            Err(error) => self.skipped.entry(error.to_string()).or_insert((number, 0)).1 += 1,
        }
    }
}

/// The dimensions to group requests by.
fn dimensions(by: Option<&str>) -> Result<Vec<LogDimension>, Problem> {
    let Some(by) = by else { return Ok(LogDimension::USUAL.to_vec()) };
    let one = |name: &str| {
        LogDimension::named(name.trim()).ok_or_else(|| {
            let names = LogDimension::ALL.map(LogDimension::name).join(", ");
            Problem::new(exit::USAGE, format!("--by {name:?}: not a field of a server's log"))
                .hint(format!("write one or more of {names}, separated by commas"))
        })
    };
    by.split(',').map(one).collect()
}

impl Exporter<LoggedRequest> for ServerLogCsv<Sink> {
    fn export(&mut self, request: &LoggedRequest) -> io::Result<()> {
        self.row(request)
    }

    fn flush(&mut self) -> io::Result<()> {
        Self::flush(self)
    }

    fn finish(mut self: Box<Self>, (): &()) -> io::Result<()> {
        Self::flush(&mut self)
    }
}
