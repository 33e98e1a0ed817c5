//! Writes samples in the view that the user chose.
//!
//! Machine-readable views are written sample by sample, so that an interrupted run is complete up to that point;
//! views for people wait for the end.

use std::io::{self, Write};

use firstbyte_core::split;
use firstbyte_core::timeline::{Connection, Failure, Sample};

use super::{ReadyView, Visits};
use crate::cli::exit::{self, Problem};
use crate::cli::exports::{Exporter, Exports, Lines};
use crate::cli::files::{Files, Opened};
use crate::cli::qlog::QlogDirectory;
use crate::cli::terminal;
use crate::plans::{Destination, ProbePlan};
use firstbyte_report::flights::flights;
use firstbyte_report::headers::headers;
use firstbyte_report::sequence::sequence;
use firstbyte_report::table::{Middle, Tables};
use firstbyte_report::units::count;
use firstbyte_report::warning::Warning;
use firstbyte_report::waterfall::waterfall;
use firstbyte_report::write_out::{Format, Transfer, deliver};
use firstbyte_report::{Style, csv, error, ndjson};

pub(super) struct Shown<'a> {
    visits: &'a Visits<'a>,
    style: Style,
    sink: Sink<'a>,
    files: Exports<'a, Sample>,
    qlog: Option<QlogDirectory<'a>>,
    opened: Opened,
    code: u8,
}

enum Sink<'a> {
    /// Shown at the end.
    Terminal(&'a mut dyn Write, Box<Kept>),
    /// Written as they arrive.
    Rows(Box<dyn Exporter<Sample> + 'a>),
    WriteOut(&'a mut dyn Write, &'a Format),
}

/// One JSON object per sample.
fn lines<W: Write>(out: W) -> impl Exporter<Sample> {
    Lines { out, line: |row: &Sample, out: &mut dyn Write| ndjson::sample(row, out) }
}

impl<W: Write> Exporter<Sample> for csv::CsvWriter<W> {
    fn export(&mut self, sample: &Sample) -> io::Result<()> {
        self.sample(sample)
    }

    fn flush(&mut self) -> io::Result<()> {
        // Each row is flushed as it is written.
        Ok(())
    }

    fn finish(self: Box<Self>, (): &()) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> Shown<'a> {
    /// Creates the output files of `visits` and begins their view on `out`.
    pub(super) fn new(
        visits: &'a Visits<'a>,
        style: Style,
        out: &'a mut dyn Write,
    ) -> Result<Self, Problem> {
        let outputs = &visits.plan.outputs;
        let opened = Files::default().exports_of_responses(outputs).open()?;
        let in_file = |to: &Option<Destination>| to.as_ref().is_some_and(|to| !to.is_stdout());
        let mut files = Exports::default();
        if in_file(&outputs.json) {
            files.open(&outputs.json, |out| Ok(lines(out)))?;
        }
        if in_file(&outputs.csv) {
            files.open(&outputs.csv, csv::CsvWriter::new)?;
        }
        let begun = |error: io::Error| Problem::output(&error);
        let sink = match &visits.view {
            _ if outputs.json.as_ref().is_some_and(Destination::is_stdout) => {
                Sink::Rows(Box::new(lines(out)))
            }
            _ if outputs.csv.as_ref().is_some_and(Destination::is_stdout) => {
                Sink::Rows(Box::new(csv::CsvWriter::new(out).map_err(begun)?))
            }
            ReadyView::WriteOut(format) => Sink::WriteOut(out, format),
            ReadyView::Terminal { sequence, verbose, headers } => {
                let single = visits.rounds() == 1;
                let mut kept = Kept::new(visits.targets.len(), single, *sequence, *verbose);
                kept.headers = *headers;
                Sink::Terminal(out, Box::new(kept))
            }
        };
        let qlog = outputs.qlog.as_deref().map(QlogDirectory::new);
        Ok(Self { visits, style, sink, files, qlog, opened, code: exit::OK })
    }

    /// Adds a sample of the target with number `index`.
    pub(super) fn take(&mut self, index: usize, sample: Sample) -> Result<(), Problem> {
        self.files.export(&sample)?;
        self.files.flush()?;
        if let Some(qlog) = &mut self.qlog {
            qlog.take(&sample, None)?;
        }
        self.show(index, sample).map_err(|error| Problem::output(&error))
    }

    fn show(&mut self, index: usize, sample: Sample) -> io::Result<()> {
        if let Some(failure) = sample.failure() {
            self.code = exit::code(&failure.cause);
        }
        match &mut self.sink {
            Sink::Terminal(_, kept) => kept.take(sample),
            Sink::Rows(rows) => {
                rows.export(&sample)?;
                rows.flush()?;
            }
            // Scripts take every line for a measurement, and no variable would mark it as warm-up.
            Sink::WriteOut(..) if sample.warmup => {}
            Sink::WriteOut(out, format) => {
                let transfer = Transfer {
                    url_number: u32::try_from(index).unwrap_or(u32::MAX),
                    filename_effective: filename(self.visits.plan),
                    exit_code: sample.failure().map_or(0, |f| i32::from(exit::code(&f.cause))),
                    error_message: sample.failure().map(Failure::to_string),
                    referer: self.visits.plan.options.http.header(&http::header::REFERER),
                };
                deliver(&format.render(&sample, &transfer), *out, &mut io::stderr())?;
                out.flush()?;
                // A format need not contain the error; curl prints it on standard error too.
                if sample.failure().is_some() {
                    let plain = Style { color: false, ..self.style };
                    terminal::note(error::failure(&sample, &plain).trim_end());
                }
            }
        }
        Ok(())
    }

    /// Shows the views that wait for the end; returns the exit code.
    pub(super) fn end(self) -> io::Result<u8> {
        self.opened.keep();
        if let Some(qlog) = self.qlog {
            qlog.finish();
        }
        let Sink::Terminal(out, kept) = self.sink else { return Ok(self.code) };
        let answers = kept.tables.as_ref().map(Tables::list_unlike_answers).unwrap_or_default();
        if !answers.is_empty() {
            terminal::warn(&Warning::UnlikeAnswers { answers, compared: false });
        }
        out.write_all(kept.text(&self.style).as_bytes())?;
        for connection in kept.connections() {
            writeln!(out)?;
            out.write_all(flights(connection, &self.style).as_bytes())?;
        }
        if kept.left_out > 0 {
            writeln!(out, "\nand {} more", count(kept.left_out, "sample"))?;
        }
        out.flush()?;
        Ok(self.code)
    }
}

/// Data for the views at the end, kept in bounded memory.
struct Kept {
    tables: Option<Tables>,
    /// The sample to draw for each URL, in the requested order.
    drawn: Option<Vec<Drawn>>,
    /// Samples that are shown one by one.
    whole: Vec<Sample>,
    /// Number of samples beyond that limit.
    left_out: u64,
    keeps_whole: bool,
    /// Draws kept samples as waterfalls; `verbose` adds their flights.
    waterfalls: bool,
    verbose: bool,
    /// Prints the response headers before each waterfall.
    headers: bool,
}

/// Most samples that are shown one by one.
const WHOLE: usize = 1_000;
/// How many samples around the middle are kept until the median one is known.
const AROUND_MIDDLE: usize = 1_024;

/// The sample of a URL to draw: the median by total time, or the last one if all failed.
struct Drawn {
    url: String,
    good: Middle<Sample>,
    last: Option<Sample>,
}

impl Kept {
    fn new(targets: usize, single: bool, sequence: bool, verbose: bool) -> Self {
        // A single sample per URL gets a waterfall; several get a table.
        let waterfalls = single && !sequence;
        Self {
            tables: (!single).then(|| Tables::new(targets)),
            drawn: sequence.then(Vec::new),
            whole: Vec::new(),
            left_out: 0,
            keeps_whole: waterfalls || verbose,
            waterfalls,
            verbose,
            headers: false,
        }
    }

    fn take(&mut self, sample: Sample) {
        if let Some(tables) = &mut self.tables {
            tables.take(&sample);
        }
        if let Some(drawn) = &mut self.drawn {
            draw(drawn, &sample);
        }
        if !self.keeps_whole {
            return;
        }
        if self.whole.len() < WHOLE {
            self.whole.push(sample);
        } else {
            self.left_out += 1;
        }
    }

    fn text(&self, style: &Style) -> String {
        let mut each: Vec<String> = Vec::new();
        each.extend(self.tables.as_ref().map(|tables| tables.render(style)));
        if self.waterfalls {
            each.extend(self.whole.iter().map(|sample| match self.headers {
                true => headers(sample, style) + &waterfall(sample, style),
                false => waterfall(sample, style),
            }));
        }
        let drawn = self.drawn.iter().flatten();
        let drawn = drawn.filter_map(|d| match d.good.middle() {
            Some((_, _, sample, _)) => Some(sample),
            None => d.last.as_ref(),
        });
        each.extend(drawn.map(|sample| sequence(sample, style)));
        each.join("\n")
    }

    /// Connections whose flights are shown.
    fn connections(&self) -> impl Iterator<Item = &Connection> {
        let whole = self.whole.iter().filter(|_| self.verbose);
        whole.flat_map(|sample| sample.redirects.iter().chain([&sample.connection]))
    }
}

fn draw(drawn: &mut Vec<Drawn>, sample: &Sample) {
    let known = drawn.iter().position(|d| d.url == sample.requested_url);
    let at = known.unwrap_or_else(|| {
        let url = sample.requested_url.clone();
        drawn.push(Drawn { url, good: Middle::new(AROUND_MIDDLE), last: None });
        drawn.len() - 1
    });
    let of_url = &mut drawn[at];
    if !sample.warmup && sample.failure().is_none() {
        let total = split::total(&sample.connection);
        of_url.good.take(total, sample.sequence, || sample.clone());
        of_url.last = None;
    } else if of_url.good.middle().is_none() {
        of_url.last = Some(sample.clone());
    }
}

fn filename(plan: &ProbePlan) -> Option<String> {
    use firstbyte_probe::probe::options::Output;
    match plan.options.http.output.as_ref()? {
        Output::File(path) | Output::Append(path) => Some(path.display().to_string()),
        Output::Stdout => None,
    }
}
