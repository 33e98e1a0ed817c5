//! Samples on their way to the output, in the view the user chose.
//!
//! Views for machines are written sample by sample, so that an interrupted run is complete up to
//! there; views for people wait for the end.

use std::io::{self, Write};

use firstbyte_core::split;
use firstbyte_core::timeline::{Failure, Sample};

use crate::cli::exit;
use crate::cli::plan::{Plan, View};
use crate::cli::terminal;
use crate::report::flights::flights;
use crate::report::sequence::sequence;
use crate::report::table::table;
use crate::report::waterfall::waterfall;
use crate::report::write_out::{Format, Transfer, deliver};
use crate::report::{Style, csv, error, ndjson};

pub(super) struct Shown<'a> {
    plan: &'a Plan,
    style: Style,
    sink: Sink<'a>,
    code: u8,
}

enum Sink<'a> {
    /// Samples kept until the end.
    Terminal {
        out: &'a mut dyn Write,
        kept: Vec<Sample>,
        sequence: bool,
        verbose: bool,
    },
    Ndjson(&'a mut dyn Write),
    Csv(Box<csv::CsvWriter<&'a mut dyn Write>>),
    WriteOut(&'a mut dyn Write, &'a Format),
}

impl<'a> Shown<'a> {
    pub(super) fn new(plan: &'a Plan, style: Style, out: &'a mut dyn Write) -> io::Result<Self> {
        let sink = match &plan.view {
            View::Terminal { sequence, verbose } => {
                Sink::Terminal { out, kept: Vec::new(), sequence: *sequence, verbose: *verbose }
            }
            View::Ndjson => Sink::Ndjson(out),
            View::Csv => Sink::Csv(Box::new(csv::CsvWriter::new(out)?)),
            View::WriteOut(format) => Sink::WriteOut(out, format),
        };
        Ok(Self { plan, style, sink, code: exit::OK })
    }

    /// Takes one sample of the target with number `index`.
    pub(super) fn take(&mut self, index: usize, sample: Sample) -> io::Result<()> {
        if let Some(failure) = sample.failure() {
            self.code = exit::code(&failure.cause);
        }
        match &mut self.sink {
            Sink::Terminal { kept, .. } => kept.push(sample),
            Sink::Ndjson(out) => {
                ndjson::sample(&sample, *out)?;
                out.flush()?;
            }
            Sink::Csv(writer) => writer.sample(&sample)?,
            // Scripts take every line for a measurement, and no variable says that it warmed up.
            Sink::WriteOut(..) if sample.warmup => {}
            Sink::WriteOut(out, format) => {
                let transfer = Transfer {
                    url_number: u32::try_from(index).unwrap_or(u32::MAX),
                    filename_effective: filename(self.plan),
                    exit_code: sample.failure().map_or(0, |f| i32::from(exit::code(&f.cause))),
                    error_message: sample.failure().map(Failure::to_string),
                    referer: self.plan.options.http.header(&http::header::REFERER),
                };
                deliver(&format.render(&sample, &transfer), *out, &mut io::stderr())?;
                out.flush()?;
                // Formats need not ask for it, and curl says it there too.
                if let Some(failure) = sample.failure() {
                    let plain = Style { color: false, ..self.style };
                    terminal::note(error::failure(failure, &plain).trim_end());
                }
            }
        }
        Ok(())
    }

    /// Shows what waited for the end; gives the exit code.
    pub(super) fn end(self) -> io::Result<u8> {
        let Sink::Terminal { out, kept, sequence: drawn, verbose } = self.sink else {
            return Ok(self.code);
        };
        // One sample a URL is worth a waterfall; more are worth a table.
        let single = self.plan.rounds() == 1;
        let mut each: Vec<String> = Vec::new();
        if !single {
            each.push(table(&kept, &self.style));
        } else if !drawn {
            each.extend(kept.iter().map(|s| waterfall(s, &self.style)));
        }
        if drawn {
            each.extend(middles(&kept).into_iter().map(|s| sequence(s, &self.style)));
        }
        let text = each.join("\n");
        out.write_all(text.as_bytes())?;
        if verbose {
            for connection in kept.iter().flat_map(|s| s.redirects.iter().chain([&s.connection])) {
                writeln!(out)?;
                out.write_all(flights(connection, &self.style).as_bytes())?;
            }
        }
        out.flush()?;
        Ok(self.code)
    }
}

/// For each URL, in the order asked, the sample in the middle by total time; where all failed, the
/// last of them.
fn middles(samples: &[Sample]) -> Vec<&Sample> {
    let mut urls: Vec<&str> = Vec::new();
    for sample in samples {
        if !urls.contains(&sample.requested_url.as_str()) {
            urls.push(&sample.requested_url);
        }
    }
    let of = |url: &&str| {
        let all = || samples.iter().filter(|s| s.requested_url == *url);
        let mut good: Vec<&Sample> = all().filter(|s| !s.warmup && s.failure().is_none()).collect();
        good.sort_by_key(|s| split::total(&s.connection));
        let middle = good.len().saturating_sub(1) / 2;
        good.get(middle).copied().or_else(|| all().next_back())
    };
    urls.iter().filter_map(of).collect()
}

fn filename(plan: &Plan) -> Option<String> {
    use crate::probe::options::Output;
    match plan.options.http.output.as_ref()? {
        Output::File(path) => Some(path.display().to_string()),
        Output::Stdout => None,
    }
}
