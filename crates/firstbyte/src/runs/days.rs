//! Samples that come for months: a run file a day.
//!
//! In: samples, and the header that every file begins with. Out: `2026-11-23.run` and the like in one directory, days in UTC.
//! A file that is there is continued where it is of the same cells and options, and not too long; else the day has a second one.
//!
//! A sample's round is the period of its day that it lies in: the tenth minute's, of a series that is measured every minute. So samples
//! of one round are of one time, also after a pause or failures, and can be compared as pairs. Where jitter puts two into one period,
//! the second has the next round.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use firstbyte_clock::{Realtime, day_stamp};
use firstbyte_core::document::run::RunHeader;
use firstbyte_core::run::Taken;

use super::{Creation, RunError, RunWriter};

/// Files of one day, for whom configurations change a lot.
const MOST_FILES: u32 = 1_000;
/// A file that is longer is not continued: all of it would have to be read first.
const LONGEST_CONTINUED: u64 = 1 << 30;

/// Writes samples into the file of their day.
#[derive(Debug)]
pub struct DayWriter {
    directory: PathBuf,
    header: Arc<RunHeader>,
    day: String,
    writer: RunWriter,
    /// For each cell, from one sample to the next.
    periods: Vec<Duration>,
    /// For each cell, the round after its last, in the file of the day.
    rounds: Vec<u32>,
    /// What comes next is of other cells.
    next: Option<OtherCells>,
}

#[derive(Debug)]
struct OtherCells {
    header: Arc<RunHeader>,
    periods: Vec<Duration>,
    /// Files that they do not go to.
    not: Vec<PathBuf>,
}

impl DayWriter {
    /// Begins, or continues, today's file in `directory`, which is made where it is missing. `periods` are those of the header's
    /// cells. Files of `not` are left as they are.
    ///
    /// # Errors
    /// When it cannot be written, or another process writes it.
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

    /// What is written from now on is of the cells of `header`, of `periods`; where they differ, into another file, which is none
    /// of `not`. It is begun by the first sample.
    pub fn follow(&mut self, header: Arc<RunHeader>, periods: Vec<Duration>, not: Vec<PathBuf>) {
        self.next = None;
        match self.header.difference(&header) {
            None => self.periods = periods,
            Some(_) => self.next = Some(OtherCells { header, periods, not }),
        }
    }

    /// The file of today.
    pub fn path(&self) -> &Path {
        self.writer.path()
    }

    /// Length of the file of today, bytes.
    pub const fn length(&self) -> u64 {
        self.writer.length()
    }

    /// Whether samples of the day `today` go to another file than those before them.
    pub fn ends_file(&self, today: &str) -> bool {
        today != self.day || self.next.is_some()
    }

    /// Writes all of `taken` on the day `today`, each as the next sample of its cell, or nothing of it. They are on the disk after the
    /// next [`Self::sync`], which has to come before samples that go to another file.
    ///
    /// # Errors
    /// When they, or a new day's file, cannot be written; the file then ends with the sample before them.
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

    /// Waits until `written`, which are all that were written since the last time, are on the disk.
    ///
    /// # Errors
    /// When they cannot be put there. Then they are not in the file any more.
    pub fn sync(&mut self, written: &[Taken]) -> io::Result<()> {
        self.writer.sync().inspect_err(|_| {
            for one in written {
                if let Some(next) = self.rounds.get_mut(usize::from(one.cell)) {
                    *next = one.sample.sequence.min(*next);
                }
            }
        })
    }

    /// Ends the file, and begins another one of the same day.
    ///
    /// # Errors
    /// When it cannot be written. The file before it goes on then.
    pub fn begin_another(&mut self) -> Result<(), RunError> {
        let ended = self.path().to_owned();
        self.begin(&day_stamp(), &[ended])
    }

    fn begin(&mut self, day: &str, not: &[PathBuf]) -> Result<(), RunError> {
        let mut others = not.to_vec();
        let next = match &self.next {
            Some(next) => {
                others.extend_from_slice(&next.not);
                // It is of the cells before.
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
                // A damaged file is not changed: its other lines can still be read.
                Err(RunError::Differs { .. } | RunError::Line { .. } | RunError::Header { .. }) => {
                }
                Err(error) => return Err(error),
            }
        }
        let what = io::Error::other(format!("{MOST_FILES} files of {day} already exist"));
        Err(RunError::io(directory, "create")(what))
    }
}

/// How many whole `period`s of its day, in UTC, are over at a moment.
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
