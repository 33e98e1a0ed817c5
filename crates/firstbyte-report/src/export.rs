//! Writes all samples of a run in several formats. Any thread can make parts, and they are put together in order.
//!
//! Input: samples, one run of them at a time. Output: files. A sample's split is computed once for all formats.

use std::cell::OnceCell;
use std::io::{self, Write};

use firstbyte_core::run::{Cell, Taken};

use super::columns::sample::{SampleField, SampleRow, csv_fields};
use super::csv;
use super::har::{self, HarWriter};
use super::ndjson;
use super::parquet::{self, ParquetWriter, SampleGrouper};

/// The formats that hold samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// NDJSON: one sample per line.
    Json,
    /// CSV: one sample per row.
    Csv,
    /// Parquet: the same columns, compressed.
    Parquet,
    /// HTTP archive 1.2.
    Har,
}

impl Form {
    /// Maximum number of samples in a part.
    ///
    /// A Parquet part is a row group, and CSV written along with it uses the same samples, so that they are split
    /// once. Parts of the other formats are small enough for a processor's cache.
    pub const fn samples_at_once(self, beside_parquet: bool) -> usize {
        match self {
            Self::Parquet => parquet::GROUP,
            Self::Csv if beside_parquet => parquet::GROUP,
            Self::Csv | Self::Json | Self::Har => 1_024,
        }
    }
}

/// A file being written.
pub enum SampleWriter<W: Write + Send> {
    /// Formats whose parts are simply concatenated.
    Plain(W),
    /// Row groups and a footer.
    Parquet(Box<ParquetWriter<W>>),
    /// Entries between a header and an end.
    Har(HarWriter<W>),
}

/// Makes parts of a file.
pub struct PartMaker(Maker);

enum Maker {
    Json,
    Csv(Vec<SampleField>),
    Parquet(SampleGrouper),
    Har,
}

/// A finished part of a file.
pub struct FilePart(Made);

enum Made {
    Bytes(Vec<u8>),
    Group(parquet::EncodedGroup),
}

enum Unfinished {
    Bytes(Vec<u8>),
    Group(parquet::GroupRows),
}

/// Begins the file of a run with these axes. Returns it with the maker of its parts.
///
/// # Errors
/// Returns errors from writing to `out`.
pub fn begin<W: Write + Send>(
    form: Form,
    mut out: W,
    axes: &[String],
) -> io::Result<(SampleWriter<W>, PartMaker)> {
    Ok(match form {
        Form::Json => (SampleWriter::Plain(out), PartMaker(Maker::Json)),
        Form::Csv => {
            let fields = csv_fields(Some(axes));
            let mut header = Vec::new();
            csv::header(&mut header, &fields);
            out.write_all(&header)?;
            (SampleWriter::Plain(out), PartMaker(Maker::Csv(fields)))
        }
        Form::Parquet => {
            let writer = ParquetWriter::new(out, axes)?;
            let maker = PartMaker(Maker::Parquet(writer.grouper()));
            (SampleWriter::Parquet(Box::new(writer)), maker)
        }
        Form::Har => (SampleWriter::Har(HarWriter::new(out)?), PartMaker(Maker::Har)),
    })
}

impl<W: Write + Send> SampleWriter<W> {
    /// Appends a part of the same format.
    ///
    /// # Errors
    /// Returns errors from writing to the sink.
    pub fn append(&mut self, part: FilePart) -> io::Result<()> {
        match (self, part.0) {
            (Self::Plain(out), Made::Bytes(bytes)) => out.write_all(&bytes),
            (Self::Har(out), Made::Bytes(bytes)) => out.append(&bytes),
            (Self::Parquet(out), Made::Group(group)) => out.append(group),
            _ => Err(io::Error::other("a part of another format")),
        }
    }

    /// Writes the end of the file.
    ///
    /// # Errors
    /// Returns errors from writing to the sink.
    pub fn finish(self) -> io::Result<()> {
        match self {
            Self::Plain(mut out) => out.flush(),
            Self::Parquet(out) => out.finish(),
            Self::Har(out) => out.finish(),
        }
    }
}

/// Makes one part for each file in `makers` from all `samples` and their cells.
///
/// # Errors
/// The first error among `samples`. Making parts cannot fail in practice; if it did, `failed` would convert the
/// error.
pub fn parts<'a, E>(
    makers: &[PartMaker],
    samples: impl Iterator<Item = Result<Taken, E>>,
    cell: impl Fn(&Taken) -> &'a Cell,
    failed: impl Fn(io::Error) -> E,
) -> Result<Vec<FilePart>, E> {
    let mut begun: Vec<Unfinished> = makers.iter().map(PartMaker::begin).collect();
    for taken in samples {
        let taken = taken?;
        let cell = cell(&taken);
        let row = OnceCell::new();
        let row = || row.get_or_init(|| SampleRow::of_run(cell, &taken));
        for (maker, part) in makers.iter().zip(&mut begun) {
            match (&maker.0, part) {
                (Maker::Json, Unfinished::Bytes(out)) => ndjson::taken(cell, &taken, out),
                (Maker::Har, Unfinished::Bytes(out)) => har::entries(cell, &taken, out),
                (Maker::Csv(fields), Unfinished::Bytes(out)) => {
                    csv::row(out, fields, row());
                    Ok(())
                }
                (Maker::Parquet(grouper), Unfinished::Group(group)) => {
                    grouper.add(group, row());
                    Ok(())
                }
                _ => Err(io::Error::other("a part of another format")),
            }
            .map_err(&failed)?;
        }
    }
    let ended = makers.iter().zip(begun).map(|(maker, part)| maker.end(part));
    ended.collect::<io::Result<_>>().map_err(failed)
}

impl PartMaker {
    /// Whether the format needs only those parts of a sample that its columns use.
    pub const fn is_of_columns(&self) -> bool {
        matches!(self.0, Maker::Csv(_) | Maker::Parquet(_))
    }

    fn begin(&self) -> Unfinished {
        match &self.0 {
            Maker::Json | Maker::Csv(_) | Maker::Har => Unfinished::Bytes(Vec::new()),
            Maker::Parquet(grouper) => Unfinished::Group(grouper.begin()),
        }
    }

    fn end(&self, part: Unfinished) -> io::Result<FilePart> {
        match (&self.0, part) {
            (Maker::Parquet(grouper), Unfinished::Group(group)) => {
                grouper.end(group).map(|group| FilePart(Made::Group(group)))
            }
            (_, Unfinished::Bytes(bytes)) => Ok(FilePart(Made::Bytes(bytes))),
            _ => Err(io::Error::other("a part of another format")),
        }
    }
}
