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

/// Rows of a group: some tens of megabytes while it is gathered.
pub(super) const GROUP: usize = 16_384;
/// Costs little time, and leaves little for higher levels to gain.
const ZSTD_LEVEL: i32 = 3;

/// What the values of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Int,
    /// Nanoseconds since the Unix epoch.
    Time,
    Number,
    Text,
    Bool,
}

/// A column.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub name: String,
    pub kind: Kind,
}

/// A value of a column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Int(i64),
    Number(f64),
    Text(String),
    Bool(bool),
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
        let values = match field.kind {
            Kind::Int | Kind::Time => Values::Int(Vec::new()),
            Kind::Number => Values::Number(Vec::new()),
            Kind::Text => Values::Text(Vec::new()),
            Kind::Bool => Values::Bool(Vec::new()),
        };
        Self { values, definitions: Vec::new() }
    }

    fn push(&mut self, value: Option<Value>) {
        let there = match (value, &mut self.values) {
            (Some(Value::Int(value)), Values::Int(values)) => {
                values.push(value);
                true
            }
            (Some(Value::Number(value)), Values::Number(values)) => {
                values.push(value);
                true
            }
            (Some(Value::Text(value)), Values::Text(values)) => {
                values.push(ByteArray::from(value.into_bytes()));
                true
            }
            (Some(Value::Bool(value)), Values::Bool(values)) => {
                values.push(value);
                true
            }
            (value, _) => {
                debug_assert!(value.is_none(), "{value:?} in a column of another kind");
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
    pub(crate) fn row(
        &mut self,
        values: impl IntoIterator<Item = Option<Value>>,
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
    let (physical, logical) = match field.kind {
        Kind::Int => (PhysicalType::INT64, None),
        Kind::Time => (PhysicalType::INT64, Some(LogicalType::timestamp(true, TimeUnit::NANOS))),
        Kind::Number => (PhysicalType::DOUBLE, None),
        Kind::Text => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
        Kind::Bool => (PhysicalType::BOOLEAN, None),
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
