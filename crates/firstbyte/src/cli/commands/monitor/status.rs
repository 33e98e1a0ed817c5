//! `firstbyte monitor status`: what a store contains, how each series is doing, and whether a monitor runs on it.
//!
//! In: a store, which a monitor may be writing meanwhile, and the files next to it. Out: a screen of text, or JSON.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use firstbyte_monitor::detect::Event;
use firstbyte_monitor::rollup::Rollup;
use firstbyte_monitor::store::{SeriesId, SeriesLabels, Step, StoreError, StoreReader};
use firstbyte_probe::probe::describe_io;
use firstbyte_report::units::{count, grouped};
use serde_json::{Value, json};

use super::events::wrap;
use super::reading::{DAY, open, problem, unix_seconds};
use super::{safe, store};
use crate::cli::exit::{self, Problem};
use crate::cli::exports::{print, whole};
use crate::cli::terminal::{note, style};
use crate::plans::{ColorChoice, Destination, MonitorStatusPlan};
use crate::recording::{is_recording, raw_files};

const HOUR: i64 = 3_600;
/// Age limit of outages that are looked for, by their beginning, in seconds.
const OUTAGE_AGE: i64 = 90 * DAY;
/// Most lines of series and of outages, so that the text fits one screen.
const MOST_SERIES: usize = 14;
const MOST_OUTAGES: usize = 3;

pub(in crate::cli) fn run(plan: &MonitorStatusPlan) -> Result<u8, Problem> {
    let directory = store(plan.store.as_deref())?;
    let status = StoreStatus::read(directory, unix_seconds())?;
    if let Some(to) = &plan.json {
        whole(to, format!("{}\n", status.json()).as_bytes())?;
    }
    if !matches!(plan.json, Some(Destination::StandardOutput)) {
        print(&status.text(style(ColorChoice::Never).width))?;
    }
    if status.damaged > 0 {
        let rollups = count(status.damaged, "damaged rollup");
        note(&format!("{rollups} of the store cannot be read: left out"));
    }
    Ok(exit::OK)
}

/// Samples and failures of a series in a period.
#[derive(Clone, Debug, Default, PartialEq)]
struct PeriodFigures {
    samples: u64,
    failures: u64,
    /// Share of the time.
    failed_share: Option<f64>,
}

impl PeriodFigures {
    fn from_rollup(rollup: &Rollup) -> Self {
        Self {
            samples: rollup.samples,
            failures: rollup.failed(),
            failed_share: rollup.failed_share(),
        }
    }

    fn json(&self) -> Value {
        let Self { samples, failures, failed_share } = self;
        json!({ "samples": samples, "failures": failures, "failed_share": failed_share })
    }

    fn share(&self) -> String {
        let percent = self.failed_share.map(|share| share * 100.0);
        match percent {
            None => "–".to_owned(),
            Some(0.0) => "0 %".to_owned(),
            Some(percent) if percent < 0.1 => "< 0.1 %".to_owned(),
            Some(percent) => format!("{percent:.1} %"),
        }
    }
}

/// The state of a series.
struct SeriesStanding {
    labels: SeriesLabels,
    last_hour: PeriodFigures,
    last_day: PeriodFigures,
    /// Start of the minute or hour of the last sample, in seconds since 1970.
    ///
    /// Absent if that is more than a day ago.
    last_sample: Option<i64>,
}

impl SeriesStanding {
    fn read(
        reader: &mut StoreReader,
        id: SeriesId,
        labels: SeriesLabels,
        now: i64,
    ) -> Result<Self, StoreError> {
        let until = now + HOUR;
        let minutes = reader.rollups(id, Step::Minute, now - HOUR, until, |_| false)?;
        let mut hour = Rollup::default();
        minutes.iter().for_each(|at| hour.merge(&at.rollup));
        let mut last_sample = minutes.last().map(|at| at.start);
        if last_sample.is_none() {
            let hours = reader.rollups(id, Step::Hour, now - DAY, until, |_| false)?;
            last_sample = hours.last().map(|at| at.start);
        }
        let day = reader.sum(id, now - DAY, until, |_| false)?;
        Ok(Self {
            labels,
            last_hour: PeriodFigures::from_rollup(&hour),
            last_day: PeriodFigures::from_rollup(&day),
            last_sample,
        })
    }

    fn name(&self) -> String {
        let SeriesLabels { target, variant_label, place, .. } = &self.labels;
        let parts = [target, variant_label, place].into_iter().filter(|part| !part.is_empty());
        parts.map(String::as_str).collect::<Vec<_>>().join(", ")
    }

    fn json(&self) -> Value {
        let SeriesLabels { target, variant, variant_label, place, tags, .. } = &self.labels;
        json!({
            "target": target,
            "variant": variant,
            "variant_label": variant_label,
            "place": place,
            "tags": tags,
            "last_sample": self.last_sample,
            "last_hour": self.last_hour.json(),
            "last_day": self.last_day.json(),
        })
    }
}

/// The whole status.
struct StoreStatus {
    directory: PathBuf,
    now: i64,
    is_recording: bool,
    raw_files: usize,
    raw_bytes: u64,
    store_bytes: u64,
    series: Vec<SeriesStanding>,
    /// Outages that have not ended, as stored, latest first.
    outages: Vec<String>,
    damaged: u64,
}

impl StoreStatus {
    fn read(directory: PathBuf, now: i64) -> Result<Self, Problem> {
        let path = directory.join("store.sqlite");
        let failed = |error: StoreError| problem(&path, &error);
        let unreadable = |what: &Path, error: io::Error| {
            let why = describe_io(&error);
            Problem::new(exit::READ, format!("cannot read {}: {why}", what.display()))
        };
        let mut reader = open(&path)?.without_facts();
        let mut series = Vec::new();
        for (id, labels) in reader.series().map_err(failed)? {
            series.push(SeriesStanding::read(&mut reader, id, labels, now).map_err(failed)?);
        }
        let events = reader.events(now - OUTAGE_AGE, now + DAY).map_err(failed)?;
        let outages =
            events.into_iter().map(|event| event.json).filter(|json| is_open_outage(json));
        let raw = directory.join("raw");
        let raw_files = match raw_files(&raw) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            files => files.map_err(|error| unreadable(&raw, error))?,
        };
        Ok(Self {
            now,
            is_recording: is_recording(&path).map_err(|error| unreadable(&path, error))?,
            raw_files: raw_files.len(),
            raw_bytes: raw_files.iter().map(|file| file.bytes).sum(),
            store_bytes: store_bytes(&path),
            series,
            outages: outages.collect(),
            damaged: reader.damaged(),
            directory,
        })
    }

    fn targets(&self) -> usize {
        self.series.iter().map(|one| &one.labels.target).collect::<HashSet<_>>().len()
    }

    fn text(&self, width: usize) -> String {
        let running = match self.is_recording {
            true => "a monitor is running",
            false => "no monitor is running",
        };
        let mut text = format!("{}: {running}\n", safe(&self.directory.display().to_string()));
        let _ = writeln!(
            text,
            "{}, {} series; {} of {}, store of {}",
            count(self.targets() as u64, "target"),
            grouped(self.series.len() as u64),
            count(self.raw_files as u64, "raw file"),
            rounded_size(self.raw_bytes),
            rounded_size(self.store_bytes),
        );
        for outage in self.outages.iter().take(MOST_OUTAGES) {
            let sentence = match serde_json::from_str::<Event>(outage) {
                Ok(event) => event.sentence(),
                Err(_) => "written by a newer firstbyte; --json shows it".to_owned(),
            };
            text.push_str("open outage:\n");
            wrap(&safe(&sentence), width, &mut text);
        }
        if self.outages.len() > MOST_OUTAGES {
            let more = self.outages.len() - MOST_OUTAGES;
            let _ = writeln!(text, "and {}", count(more as u64, "more open outage"));
        }
        self.push_series(&mut text);
        text
    }

    /// Appends the table of series, worst first.
    fn push_series(&self, text: &mut String) {
        let is_recent = |one: &&SeriesStanding| one.last_day.samples > 0;
        let mut recent: Vec<&SeriesStanding> = self.series.iter().filter(is_recent).collect();
        let share = |figures: &PeriodFigures| figures.failed_share.unwrap_or_default();
        recent.sort_by(|a, b| {
            let hour = share(&b.last_hour).total_cmp(&share(&a.last_hour));
            hour.then(share(&b.last_day).total_cmp(&share(&a.last_day)))
        });
        if !recent.is_empty() {
            text.push_str("\n     last hour           last day       last\n");
            text.push_str("samples   failed   samples   failed   sample  series\n");
        }
        for one in recent.iter().take(MOST_SERIES) {
            let SeriesStanding { last_hour, last_day, .. } = one;
            let _ = writeln!(
                text,
                "{:>7}  {:>7}  {:>8}  {:>7}  {:>7}  {}",
                grouped(last_hour.samples),
                last_hour.share(),
                grouped(last_day.samples),
                last_day.share(),
                one.last_sample.map_or_else(String::new, |at| age(self.now - at)),
                safe(&one.name()),
            );
        }
        if recent.len() > MOST_SERIES {
            let more = grouped((recent.len() - MOST_SERIES) as u64);
            let _ = writeln!(text, "and {more} more series: --json lists them");
        }
        let others = self.series.len() - recent.len();
        if others > 0 {
            let _ =
                writeln!(text, "{} series without samples in the last day", grouped(others as u64));
        }
    }

    fn json(&self) -> Value {
        let outages = self.outages.iter().filter_map(|json| serde_json::from_str(json).ok());
        json!({
            "format": "firstbyte/monitor-status",
            "version": 1,
            "at": self.now,
            "store": self.directory,
            "running": self.is_recording,
            "targets": self.targets(),
            "raw_files": self.raw_files,
            "raw_bytes": self.raw_bytes,
            "store_bytes": self.store_bytes,
            "outages": outages.collect::<Vec<Value>>(),
            "series": self.series.iter().map(SeriesStanding::json).collect::<Vec<_>>(),
        })
    }
}

/// Whether an event's JSON describes an outage that has not ended.
fn is_open_outage(json: &str) -> bool {
    let Ok(event) = serde_json::from_str::<Value>(json) else { return false };
    event["kind"] == "outage" && event["ended"].is_null()
}

/// Size of the store's file and of SQLite's files next to it.
fn store_bytes(path: &Path) -> u64 {
    let beside = |ending: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(ending);
        PathBuf::from(name)
    };
    let bytes = |path: PathBuf| path.metadata().map_or(0, |metadata| metadata.len());
    ["", "-wal", "-shm"].map(|ending| bytes(beside(ending))).iter().sum()
}

/// `1.2 GB`.
fn rounded_size(bytes: u64) -> String {
    let (value, unit) = match bytes {
        0..1_000 => return format!("{bytes} B"),
        1_000..1_000_000 => (bytes as f64 / 1e3, "kB"),
        1_000_000..1_000_000_000 => (bytes as f64 / 1e6, "MB"),
        _ => (bytes as f64 / 1e9, "GB"),
    };
    let digits = usize::from(value < 10.0);
    format!("{value:.digits$} {unit}")
}

/// Age in minutes or hours; rollups are no more precise than that.
fn age(seconds: i64) -> String {
    match seconds.max(0) / 60 {
        0..2 => "now".to_owned(),
        minutes @ 2..120 => format!("{minutes} min"),
        minutes => format!("{} h", minutes / 60),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use firstbyte_core::timeline::FailureType;
    use firstbyte_monitor::store::{Store, StoredEvent};

    use super::*;

    const NOW: i64 = 1_795_786_080;

    fn labels(target: &str) -> SeriesLabels {
        SeriesLabels {
            target: target.into(),
            variant_label: "TLS 1.3".into(),
            ..SeriesLabels::default()
        }
    }

    fn sample(is_failed: bool) -> Rollup {
        let mut rollup = Rollup::default();
        rollup.samples = 1;
        rollup.monitored = Duration::from_secs(60);
        if is_failed {
            rollup.failures.insert(FailureType::TcpRefused, 1);
            rollup.failed_time = Duration::from_secs(60);
        }
        rollup
    }

    #[test]
    fn a_store_is_summed_up_on_one_screen() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store.sqlite");
        let mut store = Store::open(&path).unwrap();
        let ids = store.enrol(&[labels("shop"), labels("news\u{1b}[31m"), labels("old")]).unwrap();
        for minute in 0..120 {
            let at = (NOW - minute * 60).unsigned_abs() * 1_000_000_000;
            store.add_rollup(ids[0], at, &sample(minute < 6));
            if minute >= 30 {
                store.add_rollup(ids[1], at, &sample(false));
            }
        }
        store.flush(&[]).unwrap();
        for (id, ended) in [("1", ""), ("2", r#","ended":"2026-11-27T13:00:00Z""#)] {
            let json = format!(r#"{{"kind":"outage","state":"began","version":99{ended}}}"#);
            let state = "began".to_owned();
            store.put_event(&StoredEvent { id: id.to_owned(), at: NOW, state, json }).unwrap();
        }
        let status = StoreStatus::read(directory.path().to_owned(), NOW).unwrap();
        let text = status.text(80).replace(&directory.path().display().to_string(), "DIR");
        let (head, rows) = text.split_once("\n\n").unwrap();
        assert!(head.starts_with("DIR: no monitor is running\n3 targets, 3 series; 0 raw files"));
        assert_eq!(head.matches("open outage:\n").count(), 1, "{head}");
        let rows: Vec<&str> = rows.lines().skip(2).collect();
        assert_eq!(rows.len(), 3, "{text}");
        assert!(rows[0].ends_with("now  shop, TLS 1.3") && rows[0].contains(" 5.0 % "), "{text}");
        assert!(rows[1].ends_with(r"30 min  news\u{1b}[31m, TLS 1.3"), "{text}");
        assert_eq!(rows[2], "1 series without samples in the last day");
        let json = status.json();
        assert_eq!(json["outages"].as_array().unwrap().len(), 1);
        let shop = &json["series"][0];
        assert_eq!(
            (&shop["last_day"]["samples"], &shop["last_day"]["failures"]),
            (&120.into(), &6.into())
        );
        assert_eq!(shop["last_day"]["failed_share"], 0.05);
        assert_eq!(json["series"][2]["last_sample"], Value::Null);
    }

    #[test]
    fn sizes_and_ages_are_rounded() {
        assert_eq!(
            [0, 999, 1_234, 45_678, 9_900_000, 310_000_000, 1_240_000_000].map(rounded_size),
            ["0 B", "999 B", "1.2 kB", "46 kB", "9.9 MB", "310 MB", "1.2 GB"]
        );
        assert_eq!([0, 119, 120, 7_199, 7_200].map(age), ["now", "now", "2 min", "119 min", "2 h"]);
    }
}
