//! The raw files of a store: which there are, and which go because they are old or too much.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long raw samples are kept, and how much of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RawLimits {
    pub(crate) age: Duration,
    pub(crate) bytes: u64,
}

/// A raw file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RawFile {
    pub(crate) path: PathBuf,
    pub(crate) name: String,
    /// Its day and its number of that day: what files are put in order by.
    day: (String, u32),
    pub(crate) bytes: u64,
}

impl RawFile {
    /// `2026-11-23`.
    pub(crate) fn day(&self) -> &str {
        &self.day.0
    }
}

/// All of `directory`, the oldest first.
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

/// Of `2026-11-23.run` or `2026-11-23-2.run`.
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

/// Those of `files` that go: of days before `first_day`, and the oldest while all are more than `most_bytes`. The one at
/// `current` stays.
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

    #[test]
    fn other_files_are_none_of_a_monitor() {
        assert_eq!(day_of("2026-11-01-12.run"), Some(("2026-11-01".to_owned(), 12)));
        for name in ["mine.run", "2026-11-01.parquet", "2026-11-01-x.run", "2026-1-1.run", "ü.run"]
        {
            assert_eq!(day_of(name), None, "{name}");
        }
    }
}
