//! Raw samples from the daily run files: the samples of a minute, one complete sample, or two periods compared.
//!
//! In: validated names and times. Out: JSON, or a report page. A complete sample and a comparison need the whole file
//! of a day. They are limited separately, because reading a file of a gigabyte takes seconds and store reads must not
//! wait for it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use firstbyte_clock::day_stamp_of;
use firstbyte_core::document::run::{AxisRecord, RunHeader};
use firstbyte_core::run::{Cell, Factor, Metric, Standing};
use firstbyte_report::dates;
use firstbyte_report::html::{self, SampleView, sample_page};
use firstbyte_report::study::Study;
use serde::Serialize;

use super::annotations::now;
use super::answers::Refusal;
use super::parameters::{Parameters, period};
use crate::recording::{RawFile, raw_files, series_labels};
use crate::runs::{Dataset, PlacedRow, Run, RunError, rows_of_period};
use crate::study::{ComparisonChoices, Material};

/// Maximum number of samples in a response.
const MOST_SAMPLES: usize = 1_000;
/// Maximum number of bytes read for one page.
const MOST_BYTES: u64 = 4 << 30;
/// Maximum duration of a sample in seconds. Samples are written when they end, so one that began before midnight may be
/// in the next day's file.
const LONGEST_SAMPLE: i64 = 3_600;

/// A series, with the names that its raw files use.
struct RawSeries {
    target: String,
    variant: String,
    place: Option<String>,
}

impl RawSeries {
    fn from_parameters(parameters: &Parameters) -> Result<Self, Refusal> {
        Ok(Self {
            target: parameters.needed("target", "www.example.com")?.to_owned(),
            variant: parameters.get("variant").unwrap_or_default().to_owned(),
            place: parameters.get("place").map(str::to_owned),
        })
    }

    /// Cell of the series in a run with this header.
    fn cell_in(&self, header: &RunHeader) -> Option<u16> {
        let labels = series_labels(header)?;
        let is_it = |labels: &firstbyte_monitor::store::SeriesLabels| {
            labels.target == self.target
                && labels.variant == self.variant
                && self.place.as_ref().is_none_or(|place| labels.place == *place)
        };
        u16::try_from(labels.iter().position(is_it)?).ok()
    }

    fn parameters(&self) -> Vec<(&str, &str)> {
        let place = self.place.as_deref().map(|place| ("place", place));
        [("target", self.target.as_str()), ("variant", self.variant.as_str())]
            .into_iter()
            .chain(place)
            .collect()
    }

    /// Link to the series' page.
    fn address(&self, more: &[(&str, String)]) -> String {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(self.parameters());
        query.extend_pairs(more);
        format!("/target?{}", query.finish())
    }
}

/// Files that may contain samples of `period`.
fn files_of(directory: &Path, period: &Range<i64>) -> Result<Vec<RawFile>, Refusal> {
    let all = raw_files(directory).map_err(|error| unreadable(&error))?;
    let [first, last] = [period.start, period.end + LONGEST_SAMPLE].map(day_stamp_of);
    let within = |file: &RawFile| file.day() >= first.as_str() && file.day() <= last.as_str();
    Ok(all.into_iter().filter(within).collect())
}

fn unreadable(error: &dyn std::fmt::Display) -> Refusal {
    tracing::info!(%error, "raw samples cannot be read");
    Refusal::unavailable("raw samples cannot be read now: see the monitor's log")
}

fn run_unreadable(error: RunError) -> Refusal {
    unreadable(&error.to_string())
}

/// Converts a period from seconds to nanoseconds since the Unix epoch.
fn nanoseconds(period: &Range<i64>) -> Range<u64> {
    let ns = |seconds: i64| seconds.unsigned_abs().saturating_mul(1_000_000_000);
    ns(period.start)..ns(period.end)
}

/// A series and a period of at most an hour.
pub(super) struct SamplesQuery {
    series: RawSeries,
    period: Range<i64>,
}

#[derive(Serialize)]
pub(super) struct SamplesFound {
    format: &'static str,
    version: u32,
    from: i64,
    until: i64,
    /// Number of raw files that exist for the period.
    files: usize,
    more: bool,
    samples: Vec<SampleFound>,
}

#[derive(Serialize)]
struct SampleFound {
    file: String,
    offset: u64,
    started_unix_ns: u64,
    standing: &'static str,
    metrics_ns: BTreeMap<&'static str, u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
}

impl SamplesQuery {
    pub(super) fn read(query: Option<&str>) -> Result<Self, Refusal> {
        let known = ["target", "variant", "place", "from", "until"];
        let parameters = Parameters::read(query, &known)?;
        let series = RawSeries::from_parameters(&parameters)?;
        let until = parameters.moment("until")?.unwrap_or_else(now);
        let from = parameters.moment("from")?.unwrap_or((until - 60).max(0));
        if until - from > 3_600 {
            return Err(Refusal::Bad("more than an hour: request a shorter period".to_owned()));
        }
        Ok(Self { series, period: period(["from", "until"], from, until)? })
    }

    pub(super) fn find(&self, directory: &Path) -> Result<SamplesFound, Refusal> {
        let files = files_of(directory, &self.period)?;
        let mut samples = Vec::new();
        for file in &files {
            let cell = |header: &RunHeader| self.series.cell_in(header);
            let rows = rows_of_period(&file.path, nanoseconds(&self.period), cell);
            for PlacedRow { row, offset, failure } in rows.map_err(run_unreadable)? {
                samples.push(SampleFound {
                    file: file.name.clone(),
                    offset,
                    started_unix_ns: row.started_unix_ns,
                    standing: standing(row.standing),
                    metrics_ns: Metric::ALL
                        .into_iter()
                        .filter_map(|metric| Some((metric.name(), row.metric(metric)?)))
                        .collect(),
                    failure,
                });
            }
        }
        samples.sort_by_key(|sample| sample.started_unix_ns);
        let more = samples.len() > MOST_SAMPLES;
        samples.truncate(MOST_SAMPLES);
        let Range { start: from, end: until } = self.period;
        let (format, version, files) = ("firstbyte/monitor-samples", 1, files.len());
        Ok(SamplesFound { format, version, from, until, files, more, samples })
    }
}

const fn standing(standing: Standing) -> &'static str {
    match standing {
        Standing::Proven => "verified",
        Standing::Failed => "failed",
        Standing::Unproven(_) => "unverified",
    }
}

/// One sample, by file and offset of its line.
pub(super) struct SampleQuery {
    series: RawSeries,
    file: String,
    offset: u64,
    back: String,
}

impl SampleQuery {
    pub(super) fn read(query: Option<&str>) -> Result<Self, Refusal> {
        let known = ["file", "offset", "target", "variant", "place", "back"];
        let parameters = Parameters::read(query, &known)?;
        let offset = parameters.needed("offset", "1234")?;
        let bad = |_| Refusal::Bad(format!("offset {offset:?} is not a number"));
        Ok(Self {
            series: RawSeries::from_parameters(&parameters)?,
            file: parameters.needed("file", "2026-11-23.run")?.to_owned(),
            offset: offset.parse().map_err(bad)?,
            back: parameters.get("back").unwrap_or_default().to_owned(),
        })
    }

    /// HTML page of the sample.
    pub(super) fn page(&self, directory: &Path) -> Result<String, Refusal> {
        let gone = || {
            let what = format!("{} has no such sample, or was deleted", self.file);
            Refusal::Because(http::StatusCode::NOT_FOUND, what)
        };
        // Look the name up in the directory listing, so that it cannot be a path.
        let files = raw_files(directory).map_err(|error| unreadable(&error))?;
        let file = files.into_iter().find(|file| file.name == self.file).ok_or_else(gone)?;
        let run = Run::read(&file.path).map_err(run_unreadable)?;
        let index = run.row_from(self.offset);
        if index >= run.rows.len() || run.offset(index) != self.offset {
            return Err(gone());
        }
        let taken = run.taken(index).map_err(run_unreadable)?;
        let labels = series_labels(&run.header).and_then(|mut all| {
            let cell = usize::from(taken.cell);
            (cell < all.len()).then(|| all.swap_remove(cell))
        });
        let title = labels.map_or_else(
            || "A sample".to_owned(),
            |labels| {
                format!("{}, {}", labels.target, way_name(&labels.variant_label, &labels.variant))
            },
        );
        let began = dates::second(taken.row().started_unix_ns).unwrap_or_default();
        let back = match self.back.strip_prefix('?') {
            Some(query) => format!("/target?{query}"),
            None => self.series.address(&[]),
        };
        let links =
            [("All targets".to_owned(), "/".to_owned()), ("Back to the target".to_owned(), back)];
        Ok(sample_page(&SampleView { title: &title, date: &began, links: &links, taken: &taken }))
    }
}

fn way_name<'a>(label: &'a str, variant: &'a str) -> &'a str {
    match (label, variant) {
        ("", "") => "as negotiated",
        ("", variant) => variant,
        (label, _) => label,
    }
}

/// Two periods of one series to compare.
pub(super) struct CompareQuery {
    series: RawSeries,
    base: Range<i64>,
    other: Range<i64>,
}

impl CompareQuery {
    pub(super) fn read(query: Option<&str>) -> Result<Self, Refusal> {
        let known = ["target", "variant", "place", "base_from", "base_until", "from", "until"];
        let parameters = Parameters::read(query, &known)?;
        let series = RawSeries::from_parameters(&parameters)?;
        let read = |names: [&'static str; 2]| {
            let needed = |name: &'static str| {
                parameters.needed(name, "2026-11-23T12:00:00Z")?;
                Ok(parameters.moment(name)?.unwrap_or_default())
            };
            let [from, until] = [needed(names[0])?, needed(names[1])?];
            period(names, from, until)
        };
        let (base, other) = (read(["base_from", "base_until"])?, read(["from", "until"])?);
        if base.start < other.end && other.start < base.end {
            return Err(Refusal::Bad(
                "the two periods overlap: a sample cannot belong to \
                                     both"
                    .into(),
            ));
        }
        Ok(Self { series, base, other })
    }

    /// HTML page that `compare` makes of the two periods.
    pub(super) fn page(&self, directory: &Path) -> Result<String, Refusal> {
        let periods = [&self.base, &self.other];
        let mut files: Vec<RawFile> = Vec::new();
        for period in periods {
            for file in files_of(directory, period)? {
                if !files.contains(&file) {
                    files.push(file);
                }
            }
        }
        let bytes: u64 = files.iter().map(|file| file.bytes).sum();
        if bytes > MOST_BYTES {
            let what =
                format!("the raw files of these periods are {bytes} bytes: choose shorter ones");
            return Err(Refusal::Because(http::StatusCode::PAYLOAD_TOO_LARGE, what));
        }
        let mut runs = Vec::new();
        let mut rounds = [0; 2];
        let (mut url, mut variant) = (String::new(), String::new());
        for file in files {
            let mut run = Run::read(&file.path).map_err(run_unreadable)?;
            let Some(cell) = self.series.cell_in(&run.header) else { continue };
            if let Some(found) = run.header.cells().get(usize::from(cell)) {
                url = found.url.clone();
                variant =
                    found.factors.get(1).map_or_else(String::new, |factor| factor.label.clone());
            }
            run.keep_rows(|row| {
                let place = periods
                    .iter()
                    .position(|period| nanoseconds(period).contains(&row.started_unix_ns));
                let Some(place) = place.filter(|_| row.cell == cell) else { return false };
                // Pair the n-th samples of both periods: they share no rounds.
                row.round = rounds[place];
                rounds[place] += 1;
                row.cell = place as u16;
                true
            });
            if !run.rows.is_empty() {
                runs.push(run);
            }
        }
        if let Some(place) = rounds.iter().position(|round| *round == 0) {
            let which = words(periods[place]);
            let what =
                format!("no raw samples of {which}: they were deleted, or nothing was measured");
            return Err(Refusal::Because(http::StatusCode::NOT_FOUND, what));
        }
        self.study(&url, &variant, runs)
    }

    fn study(&self, url: &str, variant: &str, runs: Vec<Run>) -> Result<String, Refusal> {
        let periods = [&self.base, &self.other];
        let names = periods.map(words);
        let cell = |place: usize| {
            let value = ["before", "after"][place].to_owned();
            let label = value.clone();
            Cell {
                factors: vec![Factor { axis: "period".into(), value, label }],
                url: url.to_owned(),
                twin_of: None,
            }
        };
        let values = vec!["before".to_owned(), "after".to_owned()];
        let axes = vec![AxisRecord { name: "period".into(), values }];
        let data = Dataset::of_cells(axes, vec![cell(0), cell(1)], runs);
        let choices = ComparisonChoices { with_percentiles: true, ..ComparisonChoices::default() };
        let material = Material::from_dataset(&data, choices, None).map_err(run_unreadable)?;
        let back = [("from", self.other.start.to_string()), ("until", self.other.end.to_string())];
        let links = [
            ("All targets".to_owned(), "/".to_owned()),
            ("Back to the target".to_owned(), self.series.address(&back)),
        ];
        let title = format!(
            "{}, {}: two periods",
            self.series.target,
            way_name(variant, &self.series.variant)
        );
        let [before, after] = names;
        let note = format!(
            "before: {before}; after: {after}. Measured one period after the other, not in turn: \
             the n-th sample of one period is compared with the n-th of the other"
        );
        Ok(material.show(&data, |study| {
            html::page(&Study {
                title: &title,
                date: &note,
                links: &links,
                command: "",
                ..study.clone()
            })
        }))
    }
}

/// Text of a period, in UTC.
fn words(period: &Range<i64>) -> String {
    let minute = |at: i64| dates::minute(at.unsigned_abs() * 1_000_000_000).unwrap_or_default();
    format!("{} – {}", minute(period.start), minute(period.end))
}

/// HTML page of an error, for requests whose response would be a page.
pub(super) fn problem_page(why: &str) -> String {
    html::notice_page("This page cannot be shown", why, &[("All targets".into(), "/".into())])
}

/// Directory of the raw files next to `store`.
pub(super) fn raw_directory(store: &Path) -> PathBuf {
    store.parent().unwrap_or(Path::new("")).join("raw")
}
