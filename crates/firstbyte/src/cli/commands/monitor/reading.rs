//! Shared by commands that read a monitor's store: locating it, the period, the targets.

use std::fmt::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};

use firstbyte_clock::Realtime;
use firstbyte_monitor::store::{Step, StoreError, StoreReader};
use time::OffsetDateTime;

use super::{safe, store};
use crate::cli::exit::{self, Problem};
use crate::plans::Moment;

pub(in crate::cli::commands) const DAY: i64 = 86_400;
/// Length of the period if no beginning is given, in days.
const USUAL_DAYS: i64 = 30;
/// How many known targets a message names if the requested one does not exist.
const NAMED: usize = 10;

/// A store opened for reading.
pub(in crate::cli::commands) struct Reading {
    pub(in crate::cli::commands) reader: StoreReader,
    pub(in crate::cli::commands) path: PathBuf,
    /// Seconds since the Unix epoch.
    pub(in crate::cli::commands) period: Range<i64>,
}

impl Reading {
    /// Opens the requested store and checks the period and the targets.
    pub(super) fn begin(
        asked: Option<&Path>,
        since_until: [Option<Moment>; 2],
        targets: &[String],
    ) -> Result<Self, Problem> {
        Self::of_file(store(asked)?.join("store.sqlite"), since_until, targets)
    }

    /// Opens the store in this file and checks the period and the targets.
    pub(in crate::cli::commands) fn of_file(
        path: PathBuf,
        since_until: [Option<Moment>; 2],
        targets: &[String],
    ) -> Result<Self, Problem> {
        let reader = open(&path)?;
        let period = period(since_until, unix_seconds())?;
        let failed = |error: StoreError| problem(&path, &error);
        check_targets(targets, &reader).map_err(|error| error.unwrap_or_else(failed))?;
        Ok(Self { reader, path, period })
    }

    /// Moves the beginning of the period to the oldest rollup, if it was earlier.
    pub(in crate::cli::commands) fn begin_with_oldest(&mut self) -> Result<(), Problem> {
        let failed = |error| problem(&self.path, &error);
        let mut oldest: Option<Range<i64>> = None;
        for step in Step::ALL.into_iter().rev() {
            let Some(at) = self.reader.oldest(step).map_err(failed)? else { continue };
            // A day's first sample may be from noon, so prefer the beginning of a shorter step within that day.
            if oldest.as_ref().is_none_or(|longer| longer.start > at || longer.contains(&at)) {
                oldest = Some(at..at + step.seconds());
            }
        }
        let oldest = oldest.map(|oldest| oldest.start).filter(|at| *at < self.period.end);
        self.period.start = self.period.start.max(oldest.unwrap_or(i64::MIN));
        Ok(())
    }
}

pub(super) fn open(path: &Path) -> Result<StoreReader, Problem> {
    check_exists(path)?;
    StoreReader::open(path).map_err(|error| problem(path, &error))
}

/// Reports a missing store.
pub(super) fn check_exists(path: &Path) -> Result<(), Problem> {
    if path.exists() {
        return Ok(());
    }
    let what = format!("no store at {}", path.display());
    Err(Problem::new(exit::READ, what).hint("give the monitor's --store DIR"))
}

/// Seconds since the Unix epoch.
pub(super) fn unix_seconds() -> i64 {
    i64::try_from(Realtime::now().unix_nanos() / 1_000_000_000).unwrap_or(i64::MAX)
}

pub(in crate::cli::commands) fn problem(path: &Path, error: &StoreError) -> Problem {
    let text = error.to_string();
    let name = path.display().to_string();
    let what = if text.contains(&name) { text } else { format!("{name}: {text}") };
    Problem::new(exit::READ, what)
}

/// Converts a moment to seconds since the Unix epoch, relative to `now`.
pub(super) const fn seconds_of(moment: Moment, now: i64) -> i64 {
    match moment {
        Moment::At(at) => at,
        Moment::SecondsAgo(ago) => match now.saturating_sub(ago) {
            ..0 => 0,
            at => at,
        },
    }
}

/// The requested period, in seconds since the Unix epoch.
pub(super) fn period([since, until]: [Option<Moment>; 2], now: i64) -> Result<Range<i64>, Problem> {
    let seconds = |moment| seconds_of(moment, now);
    let until = until.map_or(now + 1, seconds);
    let since = since.map_or_else(|| (until - USUAL_DAYS * DAY).max(0), seconds);
    if since >= until {
        let (since, until) = (minute(since), minute(until));
        let what = format!("--since {since} is not before --until {until}");
        return Err(Problem::new(exit::USAGE, what));
    }
    Ok(since..until)
}

/// Checks that the targets exist. A failure of the store is passed on unchanged.
pub(super) fn check_targets(
    asked: &[String],
    reader: &StoreReader,
) -> Result<(), Result<Problem, StoreError>> {
    if asked.is_empty() {
        return Ok(());
    }
    let mut known: Vec<String> = Vec::new();
    for (_, labels) in reader.series().map_err(Err)? {
        if !known.contains(&labels.target) {
            known.push(labels.target);
        }
    }
    match asked.iter().find(|target| !known.contains(*target)) {
        None => Ok(()),
        Some(target) => {
            let what = format!("the store has no target {target:?}");
            let mut names = known[..known.len().min(NAMED)].join(", ");
            if known.len() > NAMED {
                let _ = write!(names, " and {} more", known.len() - NAMED);
            }
            let hint = safe(&format!("there are {names}"));
            Err(Ok(Problem::new(exit::USAGE, safe(&what)).hint(hint)))
        }
    }
}

/// "2026-04-15 09:40 UTC".
pub(in crate::cli::commands) fn minute(at: i64) -> String {
    let t = OffsetDateTime::from_unix_timestamp(at).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let (month, day) = (u8::from(t.month()), t.day());
    format!("{:04}-{month:02}-{day:02} {:02}:{:02} UTC", t.year(), t.hour(), t.minute())
}
