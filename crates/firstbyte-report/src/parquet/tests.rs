use std::time::Duration;

use firstbyte_core::run::{Cell, Factor, Metric, Shortfall, Standing, Taken};
use firstbyte_core::split::Split;
use firstbyte_core::timeline::{Mark, Sample};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};

use super::super::fixtures;
use super::*;

fn cell() -> Cell {
    let factor = |axis: &str, value: &str| Factor {
        axis: axis.into(),
        value: value.into(),
        label: value.to_uppercase(),
    };
    Cell { factors: vec![factor("tls", "a"), factor("family", "b")], ..Cell::default() }
}

fn taken(sample: Sample) -> Taken {
    let standing = match sample.failure() {
        Some(_) => Standing::Failed,
        None => Standing::Unproven(Shortfall::NotResumed),
    };
    Taken { stands_for: None, cell: 3, standing, lateness: Duration::from_nanos(17), sample }
}

fn written(samples: impl Iterator<Item = Sample>) -> Vec<u8> {
    let mut out = Vec::new();
    let axes = ["tls", "family"].map(String::from);
    let mut writer = ParquetWriter::new(&mut out, &axes).unwrap();
    write(&mut writer, samples).unwrap();
    writer.finish().unwrap();
    out
}

/// In groups of [`GROUP`] rows.
fn write<W: Write + Send>(
    writer: &mut ParquetWriter<W>,
    samples: impl Iterator<Item = Sample>,
) -> io::Result<()> {
    let grouper = writer.grouper();
    let mut samples = samples.peekable();
    while samples.peek().is_some() {
        let mut group = grouper.begin();
        for sample in samples.by_ref().take(GROUP) {
            grouper.add(&mut group, &SampleRow::of_run(&cell(), &taken(sample)));
        }
        writer.append(grouper.end(group)?)?;
    }
    Ok(())
}

fn field<'a>(row: &'a Row, name: &str) -> &'a Field {
    row.get_column_iter().find(|(column, _)| *column == name).unwrap().1
}

#[test]
fn what_is_written_is_read_by_the_format_s_own_reader() {
    let samples = fixtures::all();
    let file = bytes::Bytes::from(written(samples.clone().into_iter()));
    let reader = SerializedFileReader::new(file).unwrap();
    let rows: Vec<Row> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
    assert_eq!(rows.len(), samples.len());
    for (row, sample) in rows.iter().zip(samples) {
        let connection = &sample.connection;
        let split = Split::attribute(connection);
        for mark in Mark::ALL {
            let expected =
                connection.marks.at(mark).map_or(Field::Null, |at| Field::Long(at.as_nanos()));
            assert_eq!(field(row, &format!("mark_{}_ns", mark.name())), &expected);
        }
        let mut sum = 0;
        for (part, duration) in split.parts.named() {
            let expected = Field::Long(duration.as_nanos() as i64);
            assert_eq!(field(row, &format!("part_{part}_ns")), &expected);
            sum += duration.as_nanos();
        }
        assert_eq!(sum, split.total().as_nanos());
        let row_of = taken(sample.clone()).row();
        for metric in Metric::ALL {
            let expected = row_of.metric(metric).map_or(Field::Null, |ns| Field::Long(ns as i64));
            assert_eq!(field(row, &format!("{}_ns", metric.name())), &expected);
        }
        assert_eq!(field(row, "axis_tls"), &Field::Str("a".into()));
        assert_eq!(field(row, "axis_family"), &Field::Str("b".into()));
        let tls = connection.facts.tls.as_ref().and_then(|tls| tls.version.clone());
        assert_eq!(field(row, "tls_version"), &tls.map_or(Field::Null, Field::Str));
        let cause = sample.failure().map(|f| f.cause.name().to_owned());
        assert_eq!(field(row, "failure_cause"), &cause.map_or(Field::Null, Field::Str));
        let shortfall =
            if sample.failure().is_some() { Field::Null } else { Field::Str("not-resumed".into()) };
        assert_eq!(field(row, "shortfall"), &shortfall);
    }
}

#[test]
fn every_fixture_with_its_values() {
    let file =
        bytes::Bytes::from(written(fixtures::all().into_iter().chain([fixtures::every_fact()])));
    let reader = SerializedFileReader::new(file).unwrap();
    let mut text = String::new();
    for field in reader.metadata().file_metadata().schema().get_fields() {
        let (physical, logical) = (field.get_physical_type(), field.get_basic_info());
        text += &format!("{} {physical} {:?}\n", field.name(), logical.logical_type_ref());
    }
    for row in reader.get_row_iter(None).unwrap().map(Result::unwrap) {
        text.push('\n');
        let mut values: Vec<_> =
            row.get_column_iter().filter(|(_, value)| **value != Field::Null).collect();
        values.sort_by_key(|(name, _)| *name);
        for (name, value) in values {
            text += &format!("{name}: {value}\n");
        }
    }
    insta::assert_snapshot!(text);
}

#[test]
fn groups_bound_what_is_gathered() {
    let file = bytes::Bytes::from(written((0..GROUP + 5).map(|n| {
        let mut sample = fixtures::plain_http();
        sample.sequence = n as u32;
        sample
    })));
    let reader = SerializedFileReader::new(file).unwrap();
    let groups: Vec<i64> =
        reader.metadata().row_groups().iter().map(|group| group.num_rows()).collect();
    assert_eq!(groups, [GROUP as i64, 5]);
    let rounds =
        reader.get_row_iter(None).unwrap().map(|row| field(&row.unwrap(), "round").clone());
    assert!(rounds.eq((0..GROUP as i64 + 5).map(Field::Long)));
}

#[test]
fn a_run_without_samples_is_a_table_without_rows() {
    let reader =
        SerializedFileReader::new(bytes::Bytes::from(written(std::iter::empty()))).unwrap();
    assert_eq!(reader.metadata().file_metadata().num_rows(), 0);
    assert!(reader.metadata().file_metadata().schema().get_fields().len() > 80);
}

#[test]
fn a_sink_that_is_full_says_so() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let error = ParquetWriter::new(Full, &[]).and_then(|mut writer| {
        write(&mut writer, std::iter::once(fixtures::plain_http()))?;
        writer.finish()
    });
    assert_eq!(error.unwrap_err().kind(), io::ErrorKind::StorageFull);
}
