//! A table as Parquet: columns of 64-bit numbers, texts and booleans, each value there or null.
//!
//! Rows are written a group at a time, so that the memory needed does not depend on their number.

use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::{
    Compression, LogicalType, Repetition, TimeUnit, Type as PhysicalType, ZstdLevel,
};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use crate::report::columns::{ColumnType, ColumnValue, nanoseconds};

/// Rows of a group: some tens of megabytes while it is gathered.
pub(super) const GROUP: usize = 16_384;
/// Costs little time, and leaves little for higher levels to gain.
const ZSTD_LEVEL: i32 = 3;

/// A column.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    name: String,
    holds: ColumnType,
}

impl Field {
    /// The column called `name`, its unit not yet in it.
    pub(in crate::report) fn new(name: &str, holds: ColumnType) -> Self {
        Self { name: holds.parquet_heading(name), holds }
    }
}

/// The values of one column in the rows gathered: those that are not null, and which those are.
enum Values {
    Int(Vec<i64>),
    Number(Vec<f64>),
    Text(Vec<ByteArray>),
    Bool(Vec<bool>),
}

struct Gathered {
    values: Values,
    /// 1 where there is a value, 0 where there is none.
    definitions: Vec<i16>,
}

impl Gathered {
    fn of(field: &Field) -> Self {
        let values = match field.holds {
            ColumnType::Integer | ColumnType::Time | ColumnType::Timestamp => {
                Values::Int(Vec::new())
            }
            ColumnType::Number => Values::Number(Vec::new()),
            ColumnType::Text => Values::Text(Vec::new()),
            ColumnType::Boolean => Values::Bool(Vec::new()),
        };
        Self { values, definitions: Vec::new() }
    }

    fn push(&mut self, value: Option<ColumnValue<'_>>) {
        let there = match (value, &mut self.values) {
            (Some(ColumnValue::Integer(value)), Values::Int(values)) => {
                values.push(value);
                true
            }
            (Some(ColumnValue::Timestamp(ns)), Values::Int(values)) => {
                values.push(ns);
                true
            }
            (Some(ColumnValue::Time(ns)), Values::Int(values)) => {
                values.push(nanoseconds(ns));
                true
            }
            (Some(ColumnValue::Number(value)), Values::Number(values)) => {
                values.push(value);
                true
            }
            (Some(ColumnValue::Text(value)), Values::Text(values)) => {
                values.push(ByteArray::from(value.into_owned().into_bytes()));
                true
            }
            (Some(ColumnValue::Boolean(value)), Values::Bool(values)) => {
                values.push(value);
                true
            }
            (value, _) => {
                debug_assert!(value.is_none(), "{value:?} in a column of another type");
                false
            }
        };
        self.definitions.push(i16::from(there));
    }

    fn clear(&mut self) {
        self.definitions.clear();
        match &mut self.values {
            Values::Int(values) => values.clear(),
            Values::Number(values) => values.clear(),
            Values::Text(values) => values.clear(),
            Values::Bool(values) => values.clear(),
        }
    }
}

/// Writes a table.
pub(crate) struct TableWriter<W: Write + Send> {
    out: SerializedFileWriter<W>,
    gathered: Vec<Gathered>,
    rows: usize,
}

impl<W: Write + Send> TableWriter<W> {
    /// Begins a file whose rows are called `name`.
    ///
    /// # Errors
    /// Those of `out`.
    pub(crate) fn new(out: W, name: &str, fields: Vec<Field>) -> io::Result<Self> {
        let types: Result<Vec<_>, _> = fields.iter().map(type_of).collect();
        let schema = types.and_then(|types| {
            Type::group_type_builder(name).with_fields(types).build().map(Arc::new)
        });
        let level = ZstdLevel::try_new(ZSTD_LEVEL).map_err(failed)?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(level))
            .set_created_by(format!("firstbyte version {}", env!("CARGO_PKG_VERSION")))
            .build();
        let out = SerializedFileWriter::new(out, schema.map_err(failed)?, Arc::new(properties));
        let gathered = fields.iter().map(Gathered::of).collect();
        Ok(Self { out: out.map_err(failed)?, gathered, rows: 0 })
    }

    /// Adds a row: a value for each column, in their order.
    ///
    /// # Errors
    /// Those of the sink.
    pub(in crate::report) fn row<'a>(
        &mut self,
        values: impl IntoIterator<Item = Option<ColumnValue<'a>>>,
    ) -> io::Result<()> {
        for (gathered, value) in self.gathered.iter_mut().zip(values) {
            gathered.push(value);
        }
        self.rows += 1;
        if self.rows == GROUP { self.group() } else { Ok(()) }
    }

    /// Writes what is left, and the end of the file.
    ///
    /// # Errors
    /// Those of the sink.
    pub(crate) fn finish(mut self) -> io::Result<()> {
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
                Values::Number(values) => {
                    writer.typed::<DoubleType>().write_batch(values, present, None)
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
            gathered.clear();
        }
        group.close().map_err(failed)?;
        self.rows = 0;
        Ok(())
    }
}

fn type_of(field: &Field) -> Result<Arc<Type>, ParquetError> {
    let (physical, logical) = match field.holds {
        ColumnType::Integer | ColumnType::Time => (PhysicalType::INT64, None),
        ColumnType::Timestamp => {
            (PhysicalType::INT64, Some(LogicalType::timestamp(true, TimeUnit::NANOS)))
        }
        ColumnType::Number => (PhysicalType::DOUBLE, None),
        ColumnType::Text => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
        ColumnType::Boolean => (PhysicalType::BOOLEAN, None),
    };
    Type::primitive_type_builder(&field.name, physical)
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
