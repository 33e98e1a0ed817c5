//! `--csv`: tidy data, one row per sample, times in microseconds.
//!
//! Quoted according to RFC 4180, but with Unix line ends, so that `cut` and `awk` see clean last columns. An
//! unknown value is an empty field, never zero. Columns are described in `docs/formats.md`.

use std::io::{self, Write};

use firstbyte_core::run::{Cell, Taken};
use firstbyte_core::timeline::Sample;

use super::columns::delimited;
use super::columns::sample::{SampleField, SampleRow, csv_fields};

/// Writes the header and one row per sample to a sink, as they arrive.
pub struct CsvWriter<W: Write> {
    out: W,
    fields: Vec<SampleField>,
    row: Vec<u8>,
}

impl<W: Write> CsvWriter<W> {
    /// Writes the header to `out`.
    ///
    /// # Errors
    /// Returns errors from writing to `out`.
    pub fn new(out: W) -> io::Result<Self> {
        let mut writer = Self { out, fields: csv_fields(None), row: Vec::new() };
        header(&mut writer.row, &writer.fields);
        writer.flush()?;
        Ok(writer)
    }

    /// Writes the row of `sample` and flushes it, so that an interrupted run loses nothing.
    ///
    /// # Errors
    /// Returns errors from writing to the sink.
    pub fn sample(&mut self, sample: &Sample) -> io::Result<()> {
        row(&mut self.row, &self.fields, &SampleRow::new(sample));
        self.flush()
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.write_all(&self.row)?;
        self.row.clear();
        self.out.flush()
    }
}

/// Writes the samples of a run: the columns of their cells, then those of a sample.
pub struct RunCsvWriter<W: Write> {
    out: io::BufWriter<W>,
    fields: Vec<SampleField>,
    row: Vec<u8>,
}

impl<W: Write> RunCsvWriter<W> {
    /// Writes the header to `out`.
    ///
    /// # Errors
    /// Returns errors from writing to `out`.
    pub fn new(out: W, axes: &[String]) -> io::Result<Self> {
        let fields = csv_fields(Some(axes));
        let mut writer = Self { out: io::BufWriter::new(out), fields, row: Vec::new() };
        header(&mut writer.row, &writer.fields);
        writer.out.write_all(&writer.row)?;
        Ok(writer)
    }

    /// Writes the row of `taken`, a visit to `cell`.
    ///
    /// # Errors
    /// Returns errors from writing to the sink.
    pub fn taken(&mut self, cell: &Cell, taken: &Taken) -> io::Result<()> {
        self.row.clear();
        row(&mut self.row, &self.fields, &SampleRow::of_run(cell, taken));
        self.out.write_all(&self.row)
    }

    /// Writes buffered data.
    ///
    /// # Errors
    /// Returns errors from writing to the sink.
    pub fn finish(mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Writes the header and the rows of `samples`.
///
/// # Errors
/// Returns errors from writing to `out`.
pub fn samples(samples: &[Sample], out: &mut dyn Write) -> io::Result<()> {
    let mut writer = CsvWriter::new(out)?;
    samples.iter().try_for_each(|sample| writer.sample(sample))
}

pub(super) fn header(out: &mut Vec<u8>, fields: &[SampleField]) {
    let headings = fields.iter().map(SampleField::heading);
    delimited::header(out, headings.map(|(name, holds)| holds.csv_heading(&name)));
}

pub(super) fn row(out: &mut Vec<u8>, fields: &[SampleField], of: &SampleRow<'_>) {
    delimited::row(out, fields.iter().map(|field| field.value(of)));
}

#[cfg(test)]
mod tests {
    use super::super::fixtures;
    use super::*;
    use firstbyte_core::run::{Factor, Shortfall, Standing};
    use std::time::Duration;

    fn read(list: &[Sample]) -> (String, Vec<csv::StringRecord>) {
        let mut out = Vec::new();
        samples(list, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let rows =
            csv::Reader::from_reader(text.as_bytes()).records().map(Result::unwrap).collect();
        (text, rows)
    }

    fn names() -> Vec<String> {
        let headings = csv_fields(None);
        let headings = headings.iter().map(SampleField::heading);
        headings.map(|(name, holds)| holds.csv_heading(&name)).collect()
    }

    fn field<'a>(row: &'a csv::StringRecord, column: &str) -> &'a str {
        &row[names().iter().position(|c| *c == column).unwrap()]
    }

    #[test]
    fn the_header_is_there_without_samples() {
        let (text, rows) = read(&[]);
        assert_eq!(text.trim_end(), names().join(","));
        assert!(rows.is_empty());
    }

    #[test]
    fn microseconds_and_absent_values() {
        let (_, rows) = read(&[fixtures::tls12_sydney(), fixtures::plain_http()]);
        assert_eq!(field(&rows[0], "started"), "2026-11-20T14:05:09.123456Z");
        assert_eq!(field(&rows[0], "tls_us"), "166300");
        assert_eq!(field(&rows[0], "round_trips"), "4");
        assert_eq!(field(&rows[0], "clock"), "kernel");
        assert_eq!(field(&rows[1], "tls_us"), "");
        assert_eq!(field(&rows[1], "certificate_chain_bytes"), "");
        assert_eq!(field(&rows[1], "family"), "IPv4");
    }

    #[test]
    fn parts_add_up_to_the_total() {
        let (_, rows) = read(&fixtures::all());
        for row in &rows {
            let value = |column: &str| field(row, column).parse::<f64>().unwrap();
            let parts = ["resolver", "network", "variation", "server", "client", "transfer"];
            let parts = parts.iter().chain(&["pause", "fallback", "unexplained"]);
            let sum: f64 = parts.map(|p| value(&format!("{p}_us"))).sum();
            assert!((sum - value("total_us")).abs() < 0.0005, "{row:?}");
        }
    }

    #[test]
    fn a_failure_fills_its_columns() {
        let (text, rows) = read(&[fixtures::expired_certificate()]);
        assert_eq!(field(&rows[0], "error_phase"), "tls");
        assert_eq!(field(&rows[0], "error_fault"), "peer");
        assert_eq!(field(&rows[0], "error_cause"), "certificate-expired");
        assert_eq!(field(&rows[0], "error"), "certificate expired on 2026-10-01 12:00:00 UTC");
        insta::assert_snapshot!(text);
    }

    #[test]
    fn every_fixture_as_a_row_of_a_run() {
        let factor = |axis: &str, value: &str| Factor {
            axis: axis.into(),
            value: value.into(),
            label: value.to_uppercase(),
        };
        let cell = Cell {
            factors: vec![factor("tls", "1.3"), factor("edge", "a \"quoted\", b")],
            ..Cell::default()
        };
        let mut out = Vec::new();
        let axes = ["tls", "family", "edge"].map(String::from);
        let mut writer = RunCsvWriter::new(&mut out, &axes).unwrap();
        let samples = fixtures::all().into_iter().chain([fixtures::every_fact()]);
        for (number, sample) in samples.enumerate() {
            let standing = match (sample.failure(), number % 2) {
                (Some(_), _) => Standing::Failed,
                (None, 0) => Standing::Proven,
                (None, _) => Standing::Unproven(Shortfall::NotResumed),
            };
            let lateness = Duration::from_nanos(1_017 * number as u64);
            writer
                .taken(&cell, &Taken { stands_for: None, cell: 3, standing, lateness, sample })
                .unwrap();
        }
        writer.finish().unwrap();
        insta::assert_snapshot!(String::from_utf8(out).unwrap());
    }

    #[test]
    fn quotes_as_rfc_4180_says() {
        let mut sample = fixtures::plain_http();
        sample.requested_url = "http://a/\"x\",y".into();
        let (text, rows) = read(&[sample]);
        assert!(text.contains(r#""http://a/""x"",y""#));
        assert_eq!(field(&rows[0], "url"), "http://a/\"x\",y");
    }
}
