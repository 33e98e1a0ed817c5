//! Writes samples over months, one run file per day.
//!
//! In: samples, and the header that every file begins with. Out: files such as `2026-11-23.run` in one directory; days
//! are in UTC. An existing file is continued if it has the same cells and options and is not too long. Otherwise the
//! day gets another file.
//!
//! A sample's round is the number of its period within its UTC day: for a series measured every minute, a sample at
//! 00:10 has round 10. So samples of one round are from the same time, also after a pause or failures, and can be
//! compared as pairs. If jitter puts two samples into one period, the second one gets the next round.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use firstbyte_clock::{Realtime, day_stamp};
use firstbyte_core::document::run::RunHeader;
use firstbyte_core::run::Taken;

use super::{Creation, RunError, RunWriter};

/// Maximum number of files per day, for users who change the configuration often.
const MOST_FILES: u32 = 1_000;
/// Longer files (in bytes) are not continued, because all of them would have to be read first.
const LONGEST_CONTINUED: u64 = 1 << 30;

/// Writes each sample into the file of its day.
#[derive(Debug)]
pub struct DayWriter {
    directory: PathBuf,
    header: Arc<RunHeader>,
    day: String,
    writer: RunWriter,
    /// For each cell, the time from one sample to the next.
    periods: Vec<Duration>,
    /// For each cell, the round after its last one in the day's file.
    rounds: Vec<u32>,
    /// Set if the next samples belong to other cells.
    next: Option<OtherCells>,
}

#[derive(Debug)]
struct OtherCells {
    header: Arc<RunHeader>,
    periods: Vec<Duration>,
    /// Files that their samples must not go to.
    not: Vec<PathBuf>,
}

impl DayWriter {
    /// Starts or continues today's file in `directory`, which is created if it is missing.
    ///
    /// `periods` are those of the header's cells. Files in `not` are left as they are.
    ///
    /// # Errors
    /// If the file cannot be written, or another process is writing it.
    pub fn open(
        directory: &Path,
        header: Arc<RunHeader>,
        periods: Vec<Duration>,
        not: &[PathBuf],
    ) -> Result<Self, RunError> {
        std::fs::create_dir_all(directory).map_err(RunError::io(directory, "create"))?;
        let day = day_stamp();
        let (writer, rounds) = Self::of_day(directory, &day, &header, not)?;
        let directory = directory.to_owned();
        Ok(Self { directory, header, day, writer, periods, rounds, next: None })
    }

    /// Later samples belong to the cells of `header`, measured every `periods`.
    ///
    /// If the cells differ from the current ones, the first such sample starts another file, which is not one of `not`.
    pub fn follow(&mut self, header: Arc<RunHeader>, periods: Vec<Duration>, not: Vec<PathBuf>) {
        self.next = None;
        match self.header.difference(&header) {
            None => self.periods = periods,
            Some(_) => self.next = Some(OtherCells { header, periods, not }),
        }
    }

    /// Path of today's file.
    pub fn path(&self) -> &Path {
        self.writer.path()
    }

    /// Length of today's file, in bytes.
    pub const fn length(&self) -> u64 {
        self.writer.length()
    }

    /// Whether samples of the day `today` go to another file than the samples before them.
    pub fn ends_file(&self, today: &str) -> bool {
        today != self.day || self.next.is_some()
    }

    /// Writes all of `taken` on the day `today`, each as the next sample of its cell, or none of them.
    ///
    /// They are on the disk after the next [`Self::sync`], which must come before samples that go to another file.
    ///
    /// # Errors
    /// If they, or a new day's file, cannot be written. The file then ends with the previous sample.
    pub fn write_all(&mut self, taken: &mut [Taken], today: &str) -> io::Result<()> {
        if self.ends_file(today) {
            self.begin(today, &[]).map_err(|error| match error {
                RunError::Io { source, .. } => source,
                error => io::Error::other(error.to_string()),
            })?;
        }
        let now = Realtime::now().unix_nanos();
        let mut rounds = self.rounds.clone();
        for one in &mut *taken {
            let cell = usize::from(one.cell);
            let (Some(next), Some(period)) = (rounds.get_mut(cell), self.periods.get(cell)) else {
                return Err(io::Error::other("a sample of a variant that is not in the run"));
            };
            one.sample.sequence = round_of_day(now, *period).max(*next);
            *next = one.sample.sequence.saturating_add(1);
        }
        self.writer.write_all(taken)?;
        self.rounds = rounds;
        Ok(())
    }

    /// Waits until `written`, all the samples written since the last sync, are on the disk.
    ///
    /// # Errors
    /// If the sync fails. The samples are then cut off from the file.
    pub fn sync(&mut self, written: &[Taken]) -> io::Result<()> {
        self.writer.sync().inspect_err(|_| {
            for one in written {
                if let Some(next) = self.rounds.get_mut(usize::from(one.cell)) {
                    *next = one.sample.sequence.min(*next);
                }
            }
        })
    }

    /// Ends the current file and starts another one for the same day.
    ///
    /// # Errors
    /// If it cannot be written. The current file then stays in use.
    pub fn begin_another(&mut self) -> Result<(), RunError> {
        let ended = self.path().to_owned();
        self.begin(&day_stamp(), &[ended])
    }

    fn begin(&mut self, day: &str, not: &[PathBuf]) -> Result<(), RunError> {
        let mut others = not.to_vec();
        let next = match &self.next {
            Some(next) => {
                others.extend_from_slice(&next.not);
                // The current file has the old cells.
                others.push(self.path().to_owned());
                Arc::clone(&next.header)
            }
            None => Arc::clone(&self.header),
        };
        let header =
            RunHeader { created_unix_ns: Realtime::now().unix_nanos(), ..RunHeader::clone(&next) };
        let (writer, rounds) = Self::of_day(&self.directory, day, &header, &others)?;
        if let Some(OtherCells { periods, .. }) = self.next.take() {
            self.periods = periods;
        }
        (self.header, self.writer) = (next, writer);
        (self.rounds, self.day) = (rounds, day.to_owned());
        Ok(())
    }

    fn of_day(
        directory: &Path,
        day: &str,
        header: &RunHeader,
        not: &[PathBuf],
    ) -> Result<(RunWriter, Vec<u32>), RunError> {
        let cells = header.cells.len();
        for number in 1..=MOST_FILES {
            let name = match number {
                1 => format!("{day}.run"),
                _ => format!("{day}-{number}.run"),
            };
            let path = directory.join(name);
            let length = path.metadata().map_or(0, |metadata| metadata.len());
            if not.contains(&path) || length > LONGEST_CONTINUED {
                continue;
            }
            if length == 0 {
                return Ok((RunWriter::create(&path, header, Creation::New)?, vec![0; cells]));
            }
            match RunWriter::resume_whole(&path, Some(header)) {
                Ok((writer, resumed)) => return Ok((writer, resumed.done.next_rounds(cells))),
                // Leave a damaged file unchanged: its other lines can still be read.
                Err(RunError::Differs { .. } | RunError::Line { .. } | RunError::Header { .. }) => {
                }
                Err(error) => return Err(error),
            }
        }
        let what = io::Error::other(format!("{MOST_FILES} files of {day} already exist"));
        Err(RunError::io(directory, "create")(what))
    }
}

/// Number of whole `period`s of its UTC day that are over at `unix_ns`.
fn round_of_day(unix_ns: u64, period: Duration) -> u32 {
    const DAY_NS: u128 = 86_400_000_000_000;
    let of_day = u128::from(unix_ns) % DAY_NS;
    u32::try_from(of_day / period.as_nanos().max(1)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_periods_of_the_day() {
        let midnight = 1_795_392_000_000_000_000;
        let minute = Duration::from_secs(60);
        assert_eq!(round_of_day(midnight, minute), 0);
        assert_eq!(round_of_day(midnight + 61_000_000_000, minute), 1);
        assert_eq!(round_of_day(midnight - 1, minute), 1_439);
        assert_eq!(round_of_day(midnight - 1, Duration::from_secs(7 * 86_400)), 0);
    }
}
