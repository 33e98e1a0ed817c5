//! Rows of connections, in the forms that were asked for, written as connections end.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use firstbyte_passive::{Begin, Hygiene, Observed};

use crate::cli::args::WireArgs;
use crate::cli::exit::Problem;
use crate::cli::files::{Files, cannot_write};
use firstbyte_report::wire::{self, CsvWriter, ParquetWriter, ZeekWriter};

const STDOUT: &str = "-";

/// Files that are written, in the order in which they are named.
fn files(args: &WireArgs) -> impl Iterator<Item = &Path> {
    let named = [&args.json, &args.csv, &args.parquet, &args.zeek, &args.html, &args.pcap_out];
    named.into_iter().filter_map(Option::as_deref)
}

/// Whether standard output is taken by one of them: then there are no tables.
pub(super) fn use_stdout(args: &WireArgs) -> bool {
    files(args).any(|path| path == Path::new(STDOUT))
}

/// Whether the files that were asked for can be written, and are no input: known before anything is read.
pub(super) fn check(args: &WireArgs) -> Result<(), Problem> {
    let outputs: Vec<PathBuf> = files(args).map(Path::to_owned).collect();
    Files::default().reads(&args.files).writes(&outputs).draws(args.svg.as_ref(), "svg").open()
}

pub(super) type Sink = Box<dyn Write + Send>;

enum Form {
    Json(Sink),
    Csv(Box<CsvWriter<Sink>>),
    Parquet(Box<ParquetWriter<Sink>>),
    Zeek(ZeekWriter<Sink>),
}

/// Rows on their way; the first failure ends them.
pub(super) struct Rows<'a> {
    added: u64,
    forms: Vec<(&'a Path, Form)>,
    failed: Option<Problem>,
}

impl<'a> Rows<'a> {
    /// Opens what was asked for, of a capture that began at `begin`.
    pub(super) fn open(args: &'a WireArgs, begin: &Begin) -> Result<Self, Problem> {
        let mut forms = Vec::new();
        let mut add = |path: Option<&'a Path>, form: &dyn Fn(Sink) -> io::Result<Form>| {
            let Some(path) = path else { return Ok(()) };
            let opened = sink(path).and_then(form);
            forms.push((path, opened.map_err(|error| cannot_write(path, &error))?));
            Ok(())
        };
        add(args.json.as_deref(), &|out| Ok(Form::Json(out)))?;
        add(args.csv.as_deref(), &|out| CsvWriter::new(out).map(|w| Form::Csv(Box::new(w))))?;
        add(args.parquet.as_deref(), &|out| {
            ParquetWriter::new(out).map(|w| Form::Parquet(Box::new(w)))
        })?;
        add(args.zeek.as_deref(), &|out| Ok(Form::Zeek(ZeekWriter::new(out, begin.clone()))))?;
        Ok(Self { added: 0, forms, failed: None })
    }

    /// Adds a connection to all of them.
    pub(super) fn add(&mut self, observed: &Observed) {
        if self.failed.is_some() {
            return;
        }
        self.added += 1;
        for (path, form) in &mut self.forms {
            let written = match form {
                Form::Json(out) => wire::line(observed, out),
                Form::Csv(out) => out.row(observed),
                Form::Parquet(out) => out.row(observed),
                Form::Zeek(out) => out.row(observed),
            };
            if let Err(error) = written {
                self.failed = Some(cannot_write(path, &error));
                return;
            }
        }
    }

    /// Hands over what is buffered to who reads along; false after a failure.
    pub(super) fn flush(&mut self) -> bool {
        for (path, form) in &mut self.forms {
            let flushed = match form {
                Form::Json(out) => out.flush(),
                Form::Csv(out) => out.flush(),
                Form::Zeek(out) => out.flush(),
                // It has an end, without which nobody can read it.
                Form::Parquet(_) => Ok(()),
            };
            if let (Err(error), None) = (flushed, &self.failed) {
                self.failed = Some(cannot_write(path, &error));
            }
        }
        self.failed.is_none()
    }

    /// Writes their ends; a live capture on `interface` has a line of its own.
    pub(super) fn finish(self, hygiene: &Hygiene, interface: Option<&str>) -> Result<(), Problem> {
        if let Some(problem) = self.failed {
            return Err(problem);
        }
        self.forms.into_iter().try_for_each(|(path, form)| {
            let finished = match form {
                Form::Json(mut out) => interface
                    .map_or(Ok(()), |name| wire::capture_line(name, self.added, hygiene, &mut out))
                    .and_then(|()| out.flush()),
                Form::Csv(out) => out.finish(),
                Form::Parquet(out) => out.finish(),
                Form::Zeek(out) => out.finish(hygiene),
            };
            finished.map_err(|error| cannot_write(path, &error))
        })
    }
}

pub(super) fn sink(path: &Path) -> io::Result<Sink> {
    Ok(match path == Path::new(STDOUT) {
        true => Box::new(BufWriter::new(io::stdout())),
        false => Box::new(BufWriter::with_capacity(1 << 16, File::create(path)?)),
    })
}
