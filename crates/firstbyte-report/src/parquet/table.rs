//! A table as Parquet: columns of 64-bit numbers, texts and booleans; every value may be null.
//!
//! Rows are written in groups, so that memory use does not depend on their number.

use std::io::{self, Write};
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{
    Compression, LogicalType, Repetition, TimeUnit, Type as PhysicalType, ZstdLevel,
};
use parquet::column::writer::{ColumnCloseResult, ColumnWriter, get_column_writer};
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedPageWriter, TrackedWrite};
use parquet::schema::types::{ColumnPath, SchemaDescriptor, Type};

use crate::columns::{ColumnType, ColumnValue, nanoseconds};

/// Rows per group: some tens of megabytes before encoding.
pub(crate) const GROUP: usize = 16_384;
/// Takes little time, and higher levels would gain little.
const ZSTD_LEVEL: i32 = 3;

/// A column.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    name: String,
    holds: ColumnType,
}

impl Field {
    /// The column `name`; its unit is still to be added.
    pub(crate) fn new(name: &str, holds: ColumnType) -> Self {
        Self { name: holds.parquet_heading(name), holds }
    }
}

/// The values of one column in the collected rows: those that are not null, and their positions.
enum Values {
    Integers(Vec<i64>),
    Numbers(Vec<f64>),
    /// The texts concatenated, and the end of each.
    Texts(Vec<u8>, Vec<usize>),
    Booleans(Vec<bool>),
}

struct Gathered {
    values: Values,
    /// 1 for a value, 0 for null.
    definitions: Vec<i16>,
}

impl Gathered {
    fn new(holds: ColumnType) -> Self {
        let values = match holds {
            ColumnType::Integer | ColumnType::Time | ColumnType::Timestamp => {
                Values::Integers(Vec::with_capacity(GROUP))
            }
            ColumnType::Number => Values::Numbers(Vec::new()),
            ColumnType::Text => Values::Texts(Vec::new(), Vec::new()),
            ColumnType::Boolean => Values::Booleans(Vec::new()),
        };
        Self { values, definitions: Vec::with_capacity(GROUP) }
    }

    fn push(&mut self, value: Option<ColumnValue<'_>>) {
        let Some(value) = value else { return self.definitions.push(0) };
        match (value, &mut self.values) {
            (ColumnValue::Integer(value), Values::Integers(values))
            | (ColumnValue::Timestamp(value), Values::Integers(values)) => values.push(value),
            (ColumnValue::Time(ns), Values::Integers(values)) => values.push(nanoseconds(ns)),
            (ColumnValue::Number(value), Values::Numbers(values)) => values.push(value),
            (ColumnValue::Text(value), Values::Texts(bytes, ends)) => {
                bytes.extend_from_slice(value.as_bytes());
                ends.push(bytes.len());
            }
            (ColumnValue::Boolean(value), Values::Booleans(values)) => values.push(value),
            (value, _) => {
                debug_assert!(false, "{value:?} in a column of another type");
                return self.definitions.push(0);
            }
        }
        self.definitions.push(1);
    }

    /// The column, encoded for a file.
    fn encoded(self, layout: &Layout, place: usize) -> Result<EncodedColumn, ParquetError> {
        let mut sink = TrackedWrite::new(Vec::new());
        let pages = Box::new(SerializedPageWriter::new(&mut sink));
        let description = layout.schema.column(place);
        let mut writer = get_column_writer(description, Arc::clone(&layout.properties), pages);
        let present = Some(self.definitions.as_slice());
        let closed = match (self.values, &mut writer) {
            (Values::Integers(values), ColumnWriter::Int64ColumnWriter(writer)) => {
                writer.write_batch(&values, present, None)
            }
            (Values::Numbers(values), ColumnWriter::DoubleColumnWriter(writer)) => {
                writer.write_batch(&values, present, None)
            }
            (Values::Texts(bytes, ends), ColumnWriter::ByteArrayColumnWriter(writer)) => {
                let bytes = Bytes::from(bytes);
                let begins = std::iter::once(0).chain(ends.iter().copied());
                let texts = begins.zip(&ends).map(|(begin, end)| bytes.slice(begin..*end).into());
                writer.write_batch(&texts.collect::<Vec<ByteArray>>(), present, None)
            }
            (Values::Booleans(values), ColumnWriter::BoolColumnWriter(writer)) => {
                writer.write_batch(&values, present, None)
            }
            _ => Err(ParquetError::General("a column of another type".into())),
        }
        .and_then(|_| writer.close())?;
        Ok((sink.into_inner()?.into(), closed))
    }
}

type EncodedColumn = (Bytes, ColumnCloseResult);

/// Schema of a table, shared by all makers of its row groups.
pub(crate) struct Layout {
    columns: Vec<ColumnType>,
    schema: SchemaDescriptor,
    properties: Arc<WriterProperties>,
}

impl Layout {
    /// The layout of a table whose rows are called `name`.
    ///
    /// # Errors
    /// Never fails in practice: any fields form a table.
    fn new(name: &str, fields: &[Field]) -> Result<Self, ParquetError> {
        let types = fields.iter().map(type_of).collect::<Result<Vec<_>, _>>()?;
        let schema = Type::group_type_builder(name).with_fields(types).build()?;
        let mut properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL)?))
            .set_created_by(format!("firstbyte version {}", env!("CARGO_PKG_VERSION")));
        // Times hardly ever repeat within a group, so a dictionary would only cost time and space.
        let is_time =
            |field: &&Field| matches!(field.holds, ColumnType::Time | ColumnType::Timestamp);
        for field in fields.iter().filter(is_time) {
            let path = ColumnPath::from(field.name.as_str());
            properties = properties.set_column_dictionary_enabled(path, false);
        }
        Ok(Self {
            columns: fields.iter().map(|field| field.holds).collect(),
            schema: SchemaDescriptor::new(Arc::new(schema)),
            properties: Arc::new(properties.build()),
        })
    }
}

/// Rows being collected into a group, on any thread.
pub(crate) struct GroupRows {
    columns: Vec<Gathered>,
    rows: usize,
}

impl GroupRows {
    pub(crate) fn new(layout: &Layout) -> Self {
        Self { columns: layout.columns.iter().copied().map(Gathered::new).collect(), rows: 0 }
    }

    /// Adds a row: one value per column, in order.
    pub(crate) fn push<'a>(&mut self, values: impl IntoIterator<Item = Option<ColumnValue<'a>>>) {
        for (gathered, value) in self.columns.iter_mut().zip(values) {
            gathered.push(value);
        }
        self.rows += 1;
    }

    /// The group, encoded for a file.
    ///
    /// # Errors
    /// Never fails in practice: it writes to memory only.
    pub(crate) fn encoded(self, layout: &Layout) -> io::Result<EncodedGroup> {
        let columns = self.columns.into_iter().enumerate();
        let columns = columns.map(|(place, gathered)| gathered.encoded(layout, place));
        columns.collect::<Result<_, _>>().map(EncodedGroup).map_err(failed)
    }
}

/// An encoded and compressed group of rows.
pub(crate) struct EncodedGroup(Vec<EncodedColumn>);

/// Writes a table.
pub(crate) struct TableWriter<W: Write + Send> {
    out: SerializedFileWriter<W>,
    layout: Arc<Layout>,
    gathered: GroupRows,
}

impl<W: Write + Send> TableWriter<W> {
    /// Begins a file whose rows are called `name`.
    ///
    /// # Errors
    /// Returns errors from writing to `out`.
    pub(crate) fn new(out: W, name: &str, fields: &[Field]) -> io::Result<Self> {
        let layout = Layout::new(name, fields).map_err(failed)?;
        let (schema, properties) =
            (layout.schema.root_schema_ptr(), Arc::clone(&layout.properties));
        let out = SerializedFileWriter::new(out, schema, properties).map_err(failed)?;
        let gathered = GroupRows::new(&layout);
        Ok(Self { out, layout: Arc::new(layout), gathered })
    }

    /// The layout that its groups need.
    pub(crate) fn layout(&self) -> Arc<Layout> {
        Arc::clone(&self.layout)
    }

    /// Adds a row: one value per column, in order.
    ///
    /// # Errors
    /// Returns errors from writing to the sink.
    pub(crate) fn row<'a>(
        &mut self,
        values: impl IntoIterator<Item = Option<ColumnValue<'a>>>,
    ) -> io::Result<()> {
        self.gathered.push(values);
        if self.gathered.rows == GROUP { self.end_group() } else { Ok(()) }
    }

    /// Writes buffered rows and the end of the file.
    ///
    /// # Errors
    /// Returns errors from writing to the sink.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        if self.gathered.rows > 0 {
            self.end_group()?;
        }
        self.out.finish().map(|_| ()).map_err(failed)
    }

    fn end_group(&mut self) -> io::Result<()> {
        let gathered = std::mem::replace(&mut self.gathered, GroupRows::new(&self.layout));
        self.append(gathered.encoded(&self.layout)?)
    }

    /// Appends the rows of `group`.
    ///
    /// # Errors
    /// Returns errors from writing to the sink.
    pub(crate) fn append(&mut self, group: EncodedGroup) -> io::Result<()> {
        let mut writer = self.out.next_row_group().map_err(failed)?;
        for (bytes, closed) in group.0 {
            writer.append_column(&bytes, closed).map_err(failed)?;
        }
        writer.close().map(|_| ()).map_err(failed)
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

/// Converts an error, which usually wraps one of the sink.
fn failed(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(other) => io::Error::other(other),
        },
        other => io::Error::other(other),
    }
}
