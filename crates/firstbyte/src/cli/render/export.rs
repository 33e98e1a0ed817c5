//! All samples, in the forms that were asked for: read once, written to every one of them.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use firstbyte_core::run::{Cell, Taken};

use crate::cli::args::RenderArgs;
use crate::cli::exit::Problem;
use crate::cli::files::cannot_write;
use crate::cli::run_problem;
use crate::parallel::side_by_side;
use crate::report::csv::RunCsvWriter;
use crate::report::har::HarWriter;
use crate::report::ndjson;
use crate::report::parquet::ParquetWriter;
use crate::runs::Dataset;

/// The forms that hold samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Json,
    Csv,
    Parquet,
    Har,
}

/// The files that were asked for.
fn files(args: &RenderArgs) -> impl Iterator<Item = (Form, &Path)> {
    let forms = [
        (Form::Json, &args.json),
        (Form::Csv, &args.csv),
        (Form::Parquet, &args.parquet),
        (Form::Har, &args.har),
    ];
    forms.into_iter().filter_map(|(form, path)| path.as_deref().map(|path| (form, path)))
}

fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

/// Whether standard output is taken by one of them.
pub(super) fn uses_stdout(args: &RenderArgs) -> bool {
    files(args).map(|(_, path)| path).chain(args.html.as_deref()).any(is_stdout)
}

/// Writes `bytes`, all there is of a file.
pub(in crate::cli) fn whole(path: &Path, bytes: &[u8]) -> Result<(), Problem> {
    let written =
        if is_stdout(path) { io::stdout().lock().write_all(bytes) } else { fs::write(path, bytes) };
    written.map_err(|error| cannot_write(path, &error))
}

type Sink = Box<dyn Write + Send>;

/// One form on its way.
enum Writer {
    Json(Sink),
    Csv(Box<RunCsvWriter<Sink>>),
    Parquet(Box<ParquetWriter<Sink>>),
    Har(HarWriter<Sink>),
}

impl Writer {
    fn new(form: Form, path: &Path, axes: &[String]) -> io::Result<Self> {
        let out: Sink = if is_stdout(path) {
            Box::new(BufWriter::new(io::stdout()))
        } else {
            Box::new(BufWriter::with_capacity(1 << 16, File::create(path)?))
        };
        Ok(match form {
            Form::Json => Self::Json(out),
            Form::Csv => Self::Csv(Box::new(RunCsvWriter::new(out, axes)?)),
            Form::Parquet => Self::Parquet(Box::new(ParquetWriter::new(out, axes)?)),
            Form::Har => Self::Har(HarWriter::new(out)?),
        })
    }

    fn taken(&mut self, cell: &Cell, taken: &Taken) -> io::Result<()> {
        match self {
            Self::Json(out) => ndjson::taken(cell, taken, out),
            Self::Csv(out) => out.taken(cell, taken),
            Self::Parquet(out) => out.taken(cell, taken),
            Self::Har(out) => out.taken(cell, taken),
        }
    }

    fn finish(self) -> io::Result<()> {
        match self {
            Self::Json(mut out) => out.flush(),
            Self::Csv(out) => out.finish(),
            Self::Parquet(out) => out.finish(),
            Self::Har(out) => out.finish(),
        }
    }
}

/// Samples read by one thread at a time, and how often that is done before they are written.
const BLOCK: usize = 256;
/// See [`BLOCK`].
const SIDE_BY_SIDE: usize = 16;

/// Writes all samples to the files that were asked for.
pub(super) fn samples(data: &Dataset, args: &RenderArgs) -> Result<(), Problem> {
    let axes: Vec<String> = data.axes.iter().map(|axis| axis.name.clone()).collect();
    let mut writers = Vec::new();
    for (form, path) in files(args) {
        let writer = Writer::new(form, path, &axes).map_err(|error| cannot_write(path, &error))?;
        writers.push((path, writer));
    }
    if writers.is_empty() {
        return Ok(());
    }
    let nowhere = Cell::default();
    // Reading a sample whole takes longer than writing it.
    let blocks = data.rows.len().div_ceil(BLOCK);
    for first in (0..blocks).step_by(SIDE_BY_SIDE) {
        let read = side_by_side(SIDE_BY_SIDE.min(blocks - first), |n| {
            let from = (first + n) * BLOCK;
            let to = (from + BLOCK).min(data.rows.len());
            (from..to).map(|index| data.taken(index)).collect::<Result<Vec<_>, _>>()
        });
        for block in read {
            for taken in block.map_err(run_problem)? {
                let cell = data.cells.get(usize::from(taken.cell)).unwrap_or(&nowhere);
                for (path, writer) in &mut writers {
                    writer.taken(cell, &taken).map_err(|error| cannot_write(path, &error))?;
                }
            }
        }
    }
    writers
        .into_iter()
        .try_for_each(|(path, writer)| writer.finish().map_err(|error| cannot_write(path, &error)))
}
