//! `--parquet`: all samples of a run as columns, for data frames and databases.
//!
//! One row a sample; nanoseconds as 64-bit integers, absent values as nulls, texts as UTF-8. Written
//! a group of rows at a time, so that the memory needed does not depend on the length of the run.

mod columns;
#[cfg(test)]
mod tests;

use std::io::{self, Write};
use std::sync::Arc;

use firstbyte_core::run::{Cell, Taken};
use parquet::basic::{
    Compression, LogicalType, Repetition, TimeUnit, Type as PhysicalType, ZstdLevel,
};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use columns::{Column, Get, Seen};

/// Rows of a group: some tens of megabytes while it is gathered.
const GROUP: usize = 16_384;
/// Costs little time, and leaves little for higher levels to gain.
const ZSTD_LEVEL: i32 = 3;

/// Writes the samples of a run.
pub struct ParquetWriter<W: Write + Send> {
    out: SerializedFileWriter<W>,
    columns: Vec<Column>,
    gathered: Vec<Gathered>,
    rows: usize,
}

/// The values of one column in the rows gathered: those that are not null, and which those are.
enum Values {
    Int(Vec<i64>),
    Text(Vec<ByteArray>),
    Bool(Vec<bool>),
}

struct Gathered {
    values: Values,
    /// 1 where there is a value, 0 where there is none.
    definitions: Vec<i16>,
}

impl Gathered {
    fn of(column: &Column) -> Self {
        let values = match column.get {
            Get::Int(_) | Get::Time(_) | Get::Duration(_) => Values::Int(Vec::new()),
            Get::Text(_) | Get::Factor(_) => Values::Text(Vec::new()),
            Get::Bool(_) => Values::Bool(Vec::new()),
        };
        Self { values, definitions: Vec::new() }
    }

    fn push(&mut self, column: &Column, seen: &Seen<'_>) {
        fn put<T>(values: &mut Vec<T>, value: Option<T>) -> bool {
            let there = value.is_some();
            values.extend(value);
            there
        }
        let text = |text: String| ByteArray::from(text.into_bytes());
        let there = match (&column.get, &mut self.values) {
            (Get::Int(get) | Get::Time(get), Values::Int(values)) => put(values, get(seen)),
            (Get::Duration(get), Values::Int(values)) => {
                let ns = get(seen).map(|d| i64::try_from(d.as_nanos()).unwrap_or(i64::MAX));
                put(values, ns)
            }
            (Get::Text(get), Values::Text(values)) => put(values, get(seen).map(text)),
            (Get::Factor(axis), Values::Text(values)) => {
                let factor = seen.cell.factors.iter().find(|factor| factor.axis == *axis);
                put(values, factor.map(|factor| text(factor.value.clone())))
            }
            (Get::Bool(get), Values::Bool(values)) => put(values, get(seen)),
            // `of` makes the one that fits.
            _ => false,
        };
        self.definitions.push(i16::from(there));
    }
}

impl<W: Write + Send> ParquetWriter<W> {
    /// Begins a file; `axes` are those of the run.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn new(out: W, axes: &[String]) -> io::Result<Self> {
        let columns = columns::all(axes);
        let fields: Result<Vec<_>, _> = columns.iter().map(field).collect();
        let schema = fields.and_then(|fields| {
            let group = Type::group_type_builder("sample").with_fields(fields);
            group.build().map(Arc::new)
        });
        let level = ZstdLevel::try_new(ZSTD_LEVEL).map_err(failed)?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(level))
            .set_created_by(format!("firstbyte version {}", env!("CARGO_PKG_VERSION")))
            .build();
        let out = SerializedFileWriter::new(out, schema.map_err(failed)?, Arc::new(properties));
        let gathered = columns.iter().map(Gathered::of).collect();
        Ok(Self { out: out.map_err(failed)?, columns, gathered, rows: 0 })
    }

    /// Adds `taken`, a visit to `cell`.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn taken(&mut self, cell: &Cell, taken: &Taken) -> io::Result<()> {
        let seen = Seen::of(cell, taken);
        for (column, gathered) in self.columns.iter().zip(&mut self.gathered) {
            gathered.push(column, &seen);
        }
        self.rows += 1;
        if self.rows == GROUP { self.group() } else { Ok(()) }
    }

    /// Writes what is left, and the end of the file.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn finish(mut self) -> io::Result<()> {
        if self.rows > 0 {
            self.group()?;
        }
        self.out.finish().map(|_| ()).map_err(failed)
    }

    /// Writes the rows gathered as a group.
    fn group(&mut self) -> io::Result<()> {
        let mut group = self.out.next_row_group().map_err(failed)?;
        for gathered in &mut self.gathered {
            let Some(mut writer) = group.next_column().map_err(failed)? else { break };
            let present = Some(gathered.definitions.as_slice());
            match &gathered.values {
                Values::Int(values) => {
                    writer.typed::<Int64Type>().write_batch(values, present, None)
                }
                Values::Text(values) => {
                    writer.typed::<ByteArrayType>().write_batch(values, present, None)
                }
                Values::Bool(values) => {
                    writer.typed::<BoolType>().write_batch(values, present, None)
                }
            }
            .map_err(failed)?;
            writer.close().map_err(failed)?;
            gathered.definitions.clear();
            match &mut gathered.values {
                Values::Int(values) => values.clear(),
                Values::Text(values) => values.clear(),
                Values::Bool(values) => values.clear(),
            }
        }
        group.close().map_err(failed)?;
        self.rows = 0;
        Ok(())
    }
}

/// The names of the columns.
#[cfg(test)]
pub(super) fn column_names(axes: &[String]) -> Vec<String> {
    columns::all(axes).into_iter().map(|column| column.name).collect()
}

fn field(column: &Column) -> Result<Arc<Type>, ParquetError> {
    let (physical, logical) = match column.get {
        Get::Int(_) | Get::Duration(_) => (PhysicalType::INT64, None),
        Get::Time(_) => (PhysicalType::INT64, Some(LogicalType::timestamp(true, TimeUnit::NANOS))),
        Get::Text(_) | Get::Factor(_) => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
        Get::Bool(_) => (PhysicalType::BOOLEAN, None),
    };
    Type::primitive_type_builder(&column.name, physical)
        .with_logical_type(logical)
        .with_repetition(Repetition::OPTIONAL)
        .build()
        .map(Arc::new)
}

/// What went wrong below: mostly an error of the sink in other clothes.
fn failed(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(other) => io::Error::other(other),
        },
        other => io::Error::other(other),
    }
}
