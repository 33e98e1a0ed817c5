//! All samples, in the forms that were asked for: read once, written to every one of them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use firstbyte_core::document::run::SampleDetail;
use firstbyte_core::run::{Cell, Taken};

use crate::cli::args::RenderArgs;
use crate::cli::exit::Problem;
use crate::cli::files::cannot_write;
use crate::cli::run_problem;
use crate::parallel::in_turn;
use crate::runs::Dataset;
use firstbyte_report::export::{self, FilePart, Form, PartMaker, SampleWriter};

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
pub(in crate::cli) fn uses_stdout(args: &RenderArgs) -> bool {
    files(args).map(|(_, path)| path).chain(args.html.as_deref()).any(is_stdout)
}

/// Writes `bytes`, all there is of a file.
pub(in crate::cli) fn whole(path: &Path, bytes: &[u8]) -> Result<(), Problem> {
    let written =
        if is_stdout(path) { io::stdout().lock().write_all(bytes) } else { fs::write(path, bytes) };
    written.map_err(|error| cannot_write(path, &error))
}

type Sink = Box<dyn Write + Send>;

pub(in crate::cli) fn sink(path: &Path) -> io::Result<Sink> {
    Ok(if is_stdout(path) {
        Box::new(BufWriter::new(io::stdout()))
    } else {
        Box::new(BufWriter::with_capacity(1 << 16, File::create(path)?))
    })
}

/// Writes all samples to the files that were asked for.
pub(super) fn samples(data: &Dataset, args: &RenderArgs) -> Result<(), Problem> {
    // All are opened before anything is read. Those with as large parts are read once for all.
    let axes: Vec<String> = data.axes.iter().map(|axis| axis.name.clone()).collect();
    let mut by_size: BTreeMap<usize, Opened<'_>> = BTreeMap::new();
    for (form, path) in files(args) {
        let begun = sink(path).and_then(|out| export::begin(form, out, &axes));
        let (writer, maker) = begun.map_err(|error| cannot_write(path, &error))?;
        let (writers, makers) =
            by_size.entry(form.samples_at_once(args.parquet.is_some())).or_default();
        writers.push((path, writer));
        makers.push(maker);
    }
    by_size.into_iter().try_for_each(|(size, opened)| all_parts(data, size, opened))
}

type Opened<'a> = (Vec<(&'a Path, SampleWriter<Sink>)>, Vec<PartMaker>);

/// Reads all samples, makes parts of `size` samples of them, and writes these.
fn all_parts(
    data: &Dataset,
    size: usize,
    (mut writers, makers): Opened<'_>,
) -> Result<(), Problem> {
    let nowhere = Cell::default();
    let cell = |taken: &Taken| data.cells.get(usize::from(taken.cell)).unwrap_or(&nowhere);
    let of_columns = makers.iter().all(PartMaker::is_of_columns);
    let detail = if of_columns { SampleDetail::Columns } else { SampleDetail::Whole };
    let make = |n: usize| {
        let rows = n * size..((n + 1) * size).min(data.rows.len());
        let samples = data.taken_in(rows, detail).map(|taken| taken.map_err(run_problem));
        export::parts(&makers, samples, cell, |error| Problem::output(&error))
    };
    in_turn(data.rows.len().div_ceil(size), make, |made: Result<Vec<FilePart>, Problem>| {
        let mut parts = made?.into_iter().zip(&mut writers);
        parts.try_for_each(|(part, (path, writer))| {
            writer.append(part).map_err(|error| cannot_write(path, &error))
        })
    })?;
    writers
        .into_iter()
        .try_for_each(|(path, writer)| writer.finish().map_err(|error| cannot_write(path, &error)))
}
