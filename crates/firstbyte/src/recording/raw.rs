//! The raw files of a store, and which of them to delete because they are too old or too large.
//!
//! Age is counted in days that have samples, not by the clock: `raw = "30d"` keeps today and the 30 days with samples
//! before it. A clock that is years ahead adds one day for each day that it is wrong, so it removes at most that many
//! other days.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use time::{Date, Month};

const DAY: i64 = 86_400;

/// Maximum age and total size of raw samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RawLimits {
    pub(crate) age: Duration,
    pub(crate) bytes: u64,
}

/// Days whose samples are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeptDays {
    /// First day kept, as `2026-11-23`.
    pub(super) first: String,
    /// End of the last day if no day in between is missing, else earlier; in seconds since 1970. The age of rollups is
    /// counted from here.
    pub(super) end: Option<i64>,
}

impl KeptDays {
    /// Days to keep of `files`, which are sorted from the oldest, for a maximum `age`.
    pub(super) fn of_files(files: &[RawFile], age: Duration) -> Self {
        let mut days: Vec<&str> =
            files.iter().filter(|file| file.bytes > 0).map(RawFile::day).collect();
        days.dedup();
        let before_today = age.as_secs().div_ceil(DAY.cast_unsigned());
        let most = usize::try_from(before_today).unwrap_or(usize::MAX).saturating_add(1);
        let kept = &days[days.len().saturating_sub(most)..];
        let first = kept.first().copied().unwrap_or_default();
        let length = i64::try_from(kept.len()).unwrap_or(i64::MAX).saturating_mul(DAY);
        let end = unix_seconds_of_day(first).map(|start| start.saturating_add(length));
        Self { first: first.to_owned(), end }
    }
}

/// Start of a day given as `2026-11-23`.
fn unix_seconds_of_day(day: &str) -> Option<i64> {
    let mut parts = day.split('-');
    let year = parts.next()?.parse().ok()?;
    let month = Month::try_from(parts.next()?.parse::<u8>().ok()?).ok()?;
    let date = Date::from_calendar_date(year, month, parts.next()?.parse().ok()?).ok()?;
    Some(date.midnight().assume_utc().unix_timestamp())
}

/// A raw file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RawFile {
    pub(crate) path: PathBuf,
    pub(crate) name: String,
    /// Day, and number within the day; files are sorted by this.
    day: (String, u32),
    pub(crate) bytes: u64,
}

impl RawFile {
    /// Day of the file, as `2026-11-23`.
    pub(crate) fn day(&self) -> &str {
        &self.day.0
    }
}

/// All raw files in `directory`, oldest first.
pub(crate) fn raw_files(directory: &Path) -> io::Result<Vec<RawFile>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(day) = day_of(&name) else { continue };
        let metadata = entry.metadata()?;
        if metadata.is_file() {
            files.push(RawFile { path: entry.path(), name, day, bytes: metadata.len() });
        }
    }
    files.sort_by(|a, b| a.day.cmp(&b.day));
    Ok(files)
}

/// Day and number of `2026-11-23.run` or `2026-11-23-2.run`.
fn day_of(name: &str) -> Option<(String, u32)> {
    let stem = name.strip_suffix(".run")?;
    let (day, rest) = stem.split_at_checked(10)?;
    let is_day = day.bytes().enumerate().all(|(place, byte)| match place {
        4 | 7 => byte == b'-',
        _ => byte.is_ascii_digit(),
    });
    let number = match rest {
        "" => 1,
        _ => rest.strip_prefix('-')?.parse().ok()?,
    };
    is_day.then(|| (day.to_owned(), number))
}

/// Files to delete: those of days before `first_day`, and the oldest ones while the total exceeds `most_bytes`.
///
/// The file at `current` is always kept.
pub(super) fn outdated<'a>(
    files: &'a [RawFile],
    current: &Path,
    first_day: &str,
    most_bytes: u64,
) -> Vec<&'a RawFile> {
    let mut bytes: u64 = files.iter().map(|file| file.bytes).sum();
    let mut gone = Vec::new();
    for file in files.iter().filter(|file| file.path != current) {
        if file.day.0.as_str() < first_day || bytes > most_bytes {
            bytes -= file.bytes;
            gone.push(file);
        }
    }
    gone
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, bytes: u64) -> RawFile {
        RawFile { path: name.into(), name: name.into(), day: day_of(name).unwrap(), bytes }
    }

    #[test]
    fn the_oldest_go_first_and_the_current_one_stays() {
        let files =
            [file("2026-11-01.run", 10), file("2026-11-02.run", 20), file("2026-11-03.run", 30)];
        let gone = |first_day, most| {
            let current = Path::new("2026-11-03.run");
            outdated(&files, current, first_day, most)
                .iter()
                .map(|file| file.name.clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(gone("2026-11-02", 100), ["2026-11-01.run"]);
        assert_eq!(gone("2026-01-01", 55), ["2026-11-01.run"]);
        assert_eq!(gone("2026-01-01", 1), ["2026-11-01.run", "2026-11-02.run"]);
        assert_eq!(gone("2027-01-01", 100), ["2026-11-01.run", "2026-11-02.run"]);
    }

    /// Two samples of a clock that is two years ahead replace two of the days kept, and move rollups by two days.
    #[test]
    fn what_is_kept_goes_by_days_that_have_samples() {
        let days = |more: &[&str]| -> Vec<RawFile> {
            let november = (1..=27).map(|day| format!("2026-11-{day:02}.run"));
            let names = november.chain(more.iter().map(|day| format!("{day}.run")));
            names.map(|name| file(&name, 10)).collect()
        };
        let kept = |files: &[RawFile], days: u32| {
            let age = Duration::from_secs(86_400) * days;
            let KeptDays { first, end } = KeptDays::of_files(files, age);
            (first, end.map(firstbyte_clock::day_stamp_of))
        };
        let said = |first: &str, end: &str| (first.to_owned(), Some(end.to_owned()));
        assert_eq!(kept(&days(&[]), 30), said("2026-11-01", "2026-11-28"));
        assert_eq!(kept(&days(&[]), 10), said("2026-11-17", "2026-11-28"));
        let ahead = ["2028-11-27", "2028-11-28"];
        assert_eq!(kept(&days(&ahead), 30), said("2026-11-01", "2026-11-30"));
        assert_eq!(kept(&days(&ahead), 10), said("2026-11-19", "2026-11-30"));
        // A second file of a day belongs to the same day; a file without samples counts for no day.
        let more = ["2026-11-27-2", "2026-11-28"];
        let mut files = days(&more);
        files.last_mut().unwrap().bytes = 0;
        assert_eq!(kept(&files, 10), said("2026-11-17", "2026-11-28"));
        // A clock that starts in 1970.
        let mut files = days(&[]);
        files.insert(0, file("1970-01-01.run", 10));
        assert_eq!(kept(&files, 10), said("2026-11-17", "2026-11-28"));
        assert_eq!(kept(&files, 30), said("1970-01-01", "1970-01-29"));
        assert_eq!(KeptDays::of_files(&[], Duration::ZERO).end, None);
    }

    #[test]
    fn other_files_are_none_of_a_monitor() {
        assert_eq!(day_of("2026-11-01-12.run"), Some(("2026-11-01".to_owned(), 12)));
        for name in ["mine.run", "2026-11-01.parquet", "2026-11-01-x.run", "2026-1-1.run", "ü.run"]
        {
            assert_eq!(day_of(name), None, "{name}");
        }
    }
}
