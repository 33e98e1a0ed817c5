//! HTTP Archives written by other programs: `report` shows them, `har clean` removes their secrets.

use std::io::{self, Write};
use std::path::Path;

use firstbyte_core::timeline::Navigation;
use firstbyte_pages::page_load::PageLoad;
use firstbyte_report::archive::{ArchiveCsvWriter, ArchiveShown, archive, archive_lines};
use firstbyte_report::{chart, units};
use firstbyte_sources::har::{
    CleanError, Cleaned, HarArchive, HarEnd, HarError, HarSummary, clean, page, read_archive,
};

use super::report::forms::check_forms;
use crate::cli::exit::{self, Problem};
use crate::cli::exports::{print, sink};
use crate::cli::files::{Files, cannot_write};
use crate::cli::unpacked::unpacked;
use crate::cli::{render, terminal};
use crate::plans::{Destination, HarCleanPlan, ReportPlan};

/// `report` of archives: shows each by itself, one after the other.
pub(in crate::cli) fn report(plan: &ReportPlan) -> Result<u8, Problem> {
    let outputs = &plan.render.outputs;
    let hint = match outputs.har {
        Some(_) => "firstbyte har clean FILE writes a copy without secrets",
        None => "use --json, --csv, or --svg or --png for its page",
    };
    check_forms(plan, &["--csv", "--svg", "--png"], "not possible for an HTTP Archive", hint)?;
    if outputs.draw() && plan.files.len() > 1 {
        let message = "pictures of several archives would get the same name";
        return Err(Problem::new(exit::USAGE, message).hint("give them one by one"));
    }
    let files = Files::default().reads(&plan.files).exports(outputs);
    files.check()?;
    // Read before any output is opened: an unreadable file must not cost an existing output.
    let mut first = plan.files.first().map(|path| ReadArchive::read(path)).transpose()?;
    let opened = files.open()?;
    let mut csv = match &outputs.csv {
        Some(to) => Some((to, sink(to).and_then(ArchiveCsvWriter::new).map_err(failed(to))?)),
        None => None,
    };
    let mut json = match &outputs.json {
        Some(to) => Some((to, sink(to).map_err(failed(to))?)),
        None => None,
    };
    for (place, path) in plan.files.iter().enumerate() {
        let read = match first.take() {
            Some(read) => read,
            None => ReadArchive::read(path)?,
        };
        let name = path.display().to_string();
        read.warn(&name);
        if let Some((to, csv)) = &mut csv {
            csv.archive(&name, &read.archive, &read.summary).map_err(failed(to))?;
        }
        if let Some((to, json)) = &mut json {
            archive_lines(&name, &read.archive, &read.summary, json).map_err(failed(to))?;
        }
        if !outputs.use_stdout() {
            let gap = if place > 0 { "\n" } else { "" };
            let shown = ArchiveShown {
                file: &name,
                archive: &read.archive,
                summary: &read.summary,
                page: read.page.as_ref(),
            };
            print(&format!("{gap}{}", archive(&shown, &terminal::style(plan.render.colors))))?;
        }
        if outputs.draw() {
            match &read.page {
                Some((page, load)) => {
                    render::pictures(&[chart::page_load_laid_out(page, load)], outputs)?;
                }
                None => terminal::note("warning: the archive has no page to draw"),
            }
        }
    }
    if let Some((to, csv)) = csv {
        csv.finish().map_err(failed(to))?;
    }
    if let Some((to, mut json)) = json {
        json.flush().map_err(failed(to))?;
    }
    opened.keep();
    Ok(exit::OK)
}

fn failed(to: &Destination) -> impl FnOnce(io::Error) -> Problem {
    move |error| cannot_write(to.path(), &error)
}

fn cannot_read(path: &Path, why: &str) -> Problem {
    Problem::new(exit::READ, format!("cannot read {}: {why}", path.display()))
}

fn not_read(path: &Path, error: &HarError) -> Problem {
    match error {
        HarError::Io(error) => cannot_read(path, &firstbyte_probe::probe::describe_io(error)),
        HarError::NotHar { detail } => {
            let message = format!("{} is not an HTTP Archive: {detail}", path.display());
            Problem::new(exit::READ, message).hint("check the file name")
        }
    }
}

struct ReadArchive {
    archive: HarArchive,
    summary: HarSummary,
    page: Option<(Navigation, PageLoad)>,
    /// Why the page is not drawn although the archive has one.
    undrawn: Option<String>,
}

impl ReadArchive {
    fn read(path: &Path) -> Result<Self, Problem> {
        let io = |error: io::Error| cannot_read(path, &firstbyte_probe::probe::describe_io(&error));
        let archive = read_archive(unpacked(path).map_err(io)?).map_err(|e| not_read(path, &e))?;
        let summary = archive.summary();
        let (page, undrawn) = match page(&archive, &summary) {
            Ok(page) => (page, None),
            Err(flaw) => (None, Some(flaw.to_string())),
        };
        Ok(Self { archive, summary, page, undrawn })
    }

    fn warn(&self, name: &str) {
        if let Some(why) = incomplete(&self.archive.end) {
            let read = units::count(self.archive.entries.len() as u64, "request");
            terminal::note(&format!("warning: {name} {why}; the {read} before that are shown"));
        }
        if let Some(why) = &self.undrawn {
            terminal::note(&format!("warning: the page of {name} is not drawn: {why}"));
        }
    }
}

fn incomplete(end: &HarEnd) -> Option<String> {
    match end {
        HarEnd::Whole => None,
        HarEnd::Cut { offset } => Some(format!("is cut at byte {offset}")),
        HarEnd::Damaged { detail } => Some(format!("is damaged: {detail}")),
    }
}

/// `har clean`: writes a copy of the archive without credentials and other secrets.
pub(in crate::cli) fn clean_archive(plan: &HarCleanPlan) -> Result<u8, Problem> {
    let files = Files::default().reads([&plan.file]).writes([&plan.output]);
    files.check()?;
    let io =
        |error: io::Error| cannot_read(&plan.file, &firstbyte_probe::probe::describe_io(&error));
    let input = unpacked(&plan.file).map_err(io)?;
    let kept = files.open()?;
    let out = sink(&plan.output).map_err(failed(&plan.output))?;
    let cleaned = clean(input, out).map_err(|error| match error {
        CleanError::Read(error) => not_read(&plan.file, &error),
        CleanError::Write(error) => cannot_write(plan.output.path(), &error),
    })?;
    kept.keep();
    terminal::note(&left_out(&cleaned));
    match incomplete(&cleaned.end) {
        None => Ok(exit::OK),
        Some(why) => {
            let written = units::count(cleaned.entries, "request");
            let message = format!("{} {why}", plan.file.display());
            Err(Problem::new(exit::READ, message)
                .hint(format!("the {written} before that are written")))
        }
    }
}

fn left_out(cleaned: &Cleaned) -> String {
    let Cleaned { entries, fields, cookies, bodies, posted, urls, members, end: _ } = cleaned;
    let left = [
        (*fields, "field"),
        (*cookies, "cookie"),
        (*bodies, "body"),
        (*posted, "posted body"),
        (*urls, "query or user"),
        (*members, "other member"),
    ];
    let left = left.iter().filter(|(n, _)| *n > 0).map(|(n, noun)| match *noun {
        // These nouns have irregular plurals.
        "body" if *n > 1 => format!("{} bodies", units::grouped(*n)),
        "posted body" if *n > 1 => format!("{} posted bodies", units::grouped(*n)),
        "query or user" if *n > 1 => format!("queries or users of {} URLs", units::grouped(*n)),
        noun => units::count(*n, noun),
    });
    let left: Vec<String> = left.collect();
    let requests = units::count(*entries, "request");
    match left.is_empty() {
        true => format!("{requests}; nothing was left out"),
        false => format!("{requests}; left out: {}", left.join(", ")),
    }
}
