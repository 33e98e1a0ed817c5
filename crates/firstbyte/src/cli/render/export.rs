//! Exports all samples in the requested forms; reads them once for all forms.

use std::collections::BTreeMap;
use std::path::Path;

use firstbyte_core::document::run::SampleDetail;
use firstbyte_core::run::{Cell, Taken};

use crate::cli::exit::Problem;
use crate::cli::exports::{Sink, sink};
use crate::cli::files::cannot_write;
use crate::cli::qlog::QlogDirectory;
use crate::cli::run_problem;
use crate::parallel::in_turn;
use crate::plans::{Destination, Outputs};
use crate::runs::Dataset;
use firstbyte_report::export::{self, FilePart, Form, PartMaker, SampleWriter};

/// The requested forms and their destinations.
fn files(outputs: &Outputs) -> impl Iterator<Item = (Form, &Destination)> {
    let Outputs { json, csv, parquet, har, .. } = outputs;
    let forms = [(Form::Json, json), (Form::Csv, csv), (Form::Parquet, parquet), (Form::Har, har)];
    forms.into_iter().filter_map(|(form, to)| to.as_ref().map(|to| (form, to)))
}

/// Writes all samples to the requested files.
pub(super) fn samples(data: &Dataset, outputs: &Outputs) -> Result<(), Problem> {
    // Open all outputs before reading. Forms that take parts of the same size share one reading.
    let axes: Vec<String> = data.axes.iter().map(|axis| axis.name.clone()).collect();
    let mut by_size: BTreeMap<usize, Opened<'_>> = BTreeMap::new();
    for (form, to) in files(outputs) {
        let begun = sink(to).and_then(|out| export::begin(form, out, &axes));
        let (writer, maker) = begun.map_err(|error| cannot_write(to.path(), &error))?;
        let size = form.samples_at_once(outputs.parquet.is_some());
        let (writers, makers) = by_size.entry(size).or_default();
        writers.push((to.path(), writer));
        makers.push(maker);
    }
    by_size.into_iter().try_for_each(|(size, opened)| all_parts(data, size, opened))?;
    outputs.qlog.as_deref().map_or(Ok(()), |directory| logs(data, directory))
}

/// Writes a log for each QUIC connection.
fn logs(data: &Dataset, directory: &Path) -> Result<(), Problem> {
    let mut logs = QlogDirectory::new(directory);
    for taken in data.taken_in(0..data.rows.len(), SampleDetail::Whole) {
        let taken = taken.map_err(run_problem)?;
        let way = data.cells.get(usize::from(taken.cell)).map(Cell::name);
        logs.take(&taken.sample, way.as_deref())?;
    }
    logs.finish();
    Ok(())
}

type Opened<'a> = (Vec<(&'a Path, SampleWriter<Sink>)>, Vec<PartMaker>);

/// Reads all samples, splits them into parts of `size` samples, and writes these.
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
