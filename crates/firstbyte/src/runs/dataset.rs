//! Combines several files: the measurements of each become a variant of the whole.

use firstbyte_report::warning::Warning;
use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use firstbyte_core::document::run::{AxisRecord, RunHeader, SampleDetail};
use firstbyte_core::run::{Cell, FILE_AXIS, Factor, Row, Taken};
use firstbyte_core::timeline::Failure;

use super::curl_csv::CurlTable;
use super::{Run, RunError};

/// Name of the axis that distinguishes runs.
const RUN: &str = "run";

/// Cells and rows of one or several files, with access to the complete samples.
#[derive(Debug)]
pub struct Dataset {
    /// The varied axes; with several files, the first axis tells which file.
    pub axes: Vec<AxisRecord>,
    /// The cells of all files.
    pub cells: Vec<Cell>,
    /// The rows of all files, one file after another.
    pub rows: Vec<Row>,
    /// Warnings for the user, for example about skipped lines.
    pub warnings: Vec<Warning>,
    parts: Vec<Part>,
}

#[derive(Debug)]
struct Part {
    source: Source,
    first_row: usize,
}

/// Format of a file with samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleFile {
    /// A run.
    Run,
    /// A table of curl's timers.
    Table,
}

impl SampleFile {
    /// Detects the format from the first bytes. A run begins with a brace; a table does not, unless it is curl's
    /// `%{json}`.
    pub fn from_begin(begin: &[u8]) -> Self {
        let begin = begin.trim_ascii_start();
        let is_object = begin.starts_with(b"{");
        let is_curls = is_object
            && memchr::memmem::find(begin, b"\"time_total\"").is_some()
            && memchr::memmem::find(begin, b"\"firstbyte/").is_none();
        if is_object && !is_curls { Self::Run } else { Self::Table }
    }
}

/// File that samples are read from.
#[derive(Debug)]
enum Source {
    Run(Box<Run>),
    Table(CurlTable),
}

impl Source {
    fn read(path: &Path, form: SampleFile) -> Result<Self, RunError> {
        match form {
            SampleFile::Run => Run::read(path).map(|run| Self::Run(Box::new(run))),
            SampleFile::Table => CurlTable::read(path).map(Self::Table),
        }
    }

    fn path(&self) -> &Path {
        match self {
            Self::Run(run) => run.path(),
            Self::Table(table) => table.path(),
        }
    }

    fn taken_in(
        &self,
        range: Range<usize>,
        detail: SampleDetail,
    ) -> Box<dyn Iterator<Item = Result<Taken, RunError>> + '_> {
        match self {
            Self::Run(run) => Box::new(run.taken_in(range, detail)),
            Self::Table(table) => Box::new(range.map(|index| Ok(table.taken(index)))),
        }
    }

    fn taken(&self, index: usize) -> Result<Taken, RunError> {
        match self {
            Self::Run(run) => run.taken(index),
            Self::Table(table) => Ok(table.taken(index)),
        }
    }
}

impl Dataset {
    /// Reads run files and tables of curl's timers.
    ///
    /// # Errors
    /// The error of the first file that cannot be read.
    pub fn read(files: &[(PathBuf, SampleFile)]) -> Result<Self, RunError> {
        let sources = files.iter().map(|(path, form)| Source::read(path, *form));
        let sources: Result<_, _> = sources.collect();
        Ok(Self::from_sources(sources?))
    }

    /// A single run.
    pub fn from_run(run: Run) -> Self {
        Self::from_sources(vec![Source::Run(Box::new(run))])
    }

    /// Samples of `runs` under other cells than their own; their rows already refer to `cells`.
    pub fn of_cells(axes: Vec<AxisRecord>, cells: Vec<Cell>, runs: Vec<Run>) -> Self {
        let (rows, warnings) = (Vec::new(), vec![Warning::NotInTurn]);
        let mut data = Self { axes, cells, rows, warnings, parts: Vec::new() };
        for mut run in runs {
            let first_row = data.rows.len();
            data.rows.append(&mut run.rows);
            data.parts.push(Part { source: Source::Run(Box::new(run)), first_row });
        }
        data
    }

    fn from_sources(sources: Vec<Source>) -> Self {
        let mut data = Self {
            axes: Vec::new(),
            cells: Vec::new(),
            rows: Vec::new(),
            warnings: Vec::new(),
            parts: Vec::new(),
        };
        let has_table = sources.iter().any(|source| matches!(source, Source::Table(_)));
        // A single run is described by its own axes; a table only by its name.
        if sources.len() > 1 || has_table {
            let axis = if has_table { FILE_AXIS } else { RUN };
            let names = names(&sources);
            data.axes.push(AxisRecord { name: axis.into(), values: names.clone() });
            for (source, name) in sources.into_iter().zip(names) {
                let label = name.clone();
                data.add(source, Some(&Factor { axis: axis.into(), value: name, label }));
            }
        } else {
            sources.into_iter().for_each(|source| data.add(source, None));
        }
        if data.parts.len() > 1 {
            data.warnings.push(Warning::NotInTurn);
        }
        data
    }

    fn add(&mut self, mut source: Source, name: Option<&Factor>) {
        let (first_row, base) = (self.rows.len(), self.cells.len());
        let first_cell = u16::try_from(base).unwrap_or(u16::MAX);
        match &mut source {
            Source::Run(run) => {
                for axis in &run.header.axes {
                    self.add_axis(axis);
                }
                for mut cell in run.header.cells() {
                    cell.factors.splice(0..0, name.cloned());
                    cell.twin_of = cell.twin_of.map(|twin| twin + base);
                    self.cells.push(cell);
                }
                // A run has many rows, so move them instead of copying.
                let mut rows = std::mem::take(&mut run.rows);
                rows.iter_mut().for_each(|row| row.cell = row.cell.saturating_add(first_cell));
                if self.rows.is_empty() {
                    self.rows = rows
                } else {
                    self.rows.append(&mut rows)
                }
                self.warnings.append(&mut run.warnings());
            }
            Source::Table(table) => {
                let factors = name.cloned().into_iter().collect();
                self.cells.push(Cell { factors, ..Cell::default() });
                self.rows.extend(table.rows().map(|row| Row { cell: first_cell, ..row }));
                self.warnings.append(&mut table.warnings);
            }
        }
        self.parts.push(Part { source, first_row });
    }

    fn add_axis(&mut self, axis: &AxisRecord) {
        match self.axes.iter_mut().find(|known| known.name == axis.name) {
            None => self.axes.push(axis.clone()),
            Some(known) => {
                for value in &axis.values {
                    if !known.values.contains(value) {
                        known.values.push(value.clone());
                    }
                }
            }
        }
    }

    /// Headers of the runs, with the paths of their files.
    pub fn headers(&self) -> impl Iterator<Item = (&Path, &RunHeader)> {
        self.parts.iter().filter_map(|part| match &part.source {
            Source::Run(run) => Some((run.path(), &run.header)),
            Source::Table(_) => None,
        })
    }

    /// Paths of the files.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.parts.iter().map(|part| part.source.path())
    }

    /// The complete sample of `rows[index]`.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn taken(&self, index: usize) -> Result<Taken, RunError> {
        let part = &self.parts[self.part_of(index)];
        let mut taken = part.source.taken(index - part.first_row)?;
        taken.cell = self.rows[index].cell;
        Ok(taken)
    }

    /// Why the sample of `rows[index]` failed; absent if it did not.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn failure(&self, index: usize) -> Result<Option<String>, RunError> {
        let part = &self.parts[self.part_of(index)];
        let index = index - part.first_row;
        match &part.source {
            Source::Run(run) => run.failure(index),
            Source::Table(table) => Ok(table.taken(index).sample.failure().map(in_words)),
        }
    }

    /// Index of the part that contains row `index`.
    fn part_of(&self, index: usize) -> usize {
        self.parts.partition_point(|part| part.first_row <= index).saturating_sub(1)
    }

    /// The samples of `rows[range]` in order, one at a time.
    pub fn taken_in(
        &self,
        range: Range<usize>,
        detail: SampleDetail,
    ) -> impl Iterator<Item = Result<Taken, RunError>> + '_ {
        let ends = self.parts.iter().skip(1).map(|part| part.first_row).chain([self.rows.len()]);
        self.parts.iter().zip(ends).flat_map(move |(part, end)| {
            let of_it = range.start.max(part.first_row)..range.end.min(end);
            let of_it = of_it.start - part.first_row..of_it.end.max(of_it.start) - part.first_row;
            let rows = &self.rows[part.first_row + of_it.start..];
            part.source.taken_in(of_it, detail).zip(rows).map(|(taken, row)| {
                let mut taken = taken?;
                taken.cell = row.cell;
                Ok(taken)
            })
        })
    }

    /// Every complete sample, in the order of `rows`.
    pub fn each_taken(&self) -> impl Iterator<Item = Result<Taken, RunError>> + '_ {
        self.taken_in(0..self.rows.len(), SampleDetail::Whole)
    }
}

fn in_words(failure: &Failure) -> String {
    format!("{}: {}", failure.phase, failure.cause)
}

/// Names of the files without their common extension; numbered if two are the same.
fn names(sources: &[Source]) -> Vec<String> {
    let mut seen: HashMap<String, u32> = HashMap::new();
    let stems = sources.iter().map(|source| {
        let stem = source.path().file_stem().unwrap_or(source.path().as_os_str());
        let stem = stem.to_string_lossy().into_owned();
        let count = seen.entry(stem.clone()).or_default();
        *count += 1;
        if *count > 1 { format!("{stem} ({count})") } else { stem }
    });
    stems.collect()
}
