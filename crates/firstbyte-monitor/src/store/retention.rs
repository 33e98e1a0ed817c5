//! Deletes old rollups, a few at a time so that nothing has to wait.
//!
//! Minutes of an open hour and hours of an open day are not deleted. An hour is kept at least as long as its minutes,
//! because its row shows that they have been summed up.

use rusqlite::params;

use super::closing::{HOURS_OF_DAY, MINUTES_OF_HOUR, oldest_open};
use super::{SeriesId, Step, Store, StoreError, in_series_key, series_key, time_key};

/// Most rows deleted in one step.
const ROWS: i64 = 2_000;
/// Most pages returned to the file system in one step.
const PAGES: i64 = 256;
/// Pages kept free for future rows. Deleting and writing keep pace, so returning every page would move as many pages
/// each time.
const FREE_PAGES: i64 = 2_048;

/// How long rollups are kept, in seconds; `None` keeps them forever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Rollups of minutes.
    pub minutes: Option<i64>,
    /// Rollups of hours, kept at least as long as minutes.
    pub hours: Option<i64>,
    /// Rollups of days, kept at least as long as hours.
    pub days: Option<i64>,
}

impl Retention {
    /// Periods of `step` that begin before this time (seconds since the Unix epoch) are old at `now`; `None` if no
    /// period is old.
    fn oldest_kept(&self, step: Step, now: i64) -> Option<i64> {
        let finer = [self.minutes, self.hours, self.days];
        let kept = match step {
            Step::Minute => &finer[..1],
            Step::Hour => &finer[..2],
            Step::Day => &finer[..],
        };
        kept.iter().copied().collect::<Option<Vec<i64>>>()?.into_iter().max().map(|kept| now - kept)
    }
}

impl Default for Retention {
    fn default() -> Self {
        Self { minutes: Some(14 * 86_400), hours: Some(730 * 86_400), days: None }
    }
}

/// Result of one step of deletion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retained {
    /// Number of deleted rollups.
    pub deleted: u64,
    /// Whether there may be more to delete.
    pub unfinished: bool,
}

impl Store {
    /// Deletes some of the rollups that are older than `retention` at `now` (seconds since the Unix epoch).
    ///
    /// # Errors
    /// If the store cannot be written.
    pub fn retain(&self, retention: &Retention, now: i64) -> Result<Retained, StoreError> {
        let mut retained = Retained::default();
        for step in Step::ALL {
            let Some(oldest) = retention.oldest_kept(step, now) else { break };
            let failed = StoreError::sqlite("delete old rollups");
            let oldest = step.number(oldest);
            retained.deleted += self.delete_before(step, oldest).map_err(failed)?;
            // Finer rollups are deleted first.
            if retained.deleted >= ROWS as u64 {
                retained.unfinished = true;
                break;
            }
        }
        if retained.deleted > 0 {
            let failed = StoreError::sqlite("shrink the store");
            self.shrink().map_err(failed)?;
        }
        Ok(retained)
    }

    fn delete_before(&self, step: Step, oldest: i64) -> rusqlite::Result<u64> {
        let connection = self.connection();
        let first_needed = match step {
            Step::Minute => oldest_open(connection, Step::Hour)?.map(|hour| hour * MINUTES_OF_HOUR),
            Step::Hour => oldest_open(connection, Step::Day)?.map(|day| day * HOURS_OF_DAY),
            Step::Day => None,
        };
        let oldest = first_needed.map_or(oldest, |needed| oldest.min(needed));
        match step {
            Step::Minute => self.delete_minutes_before(oldest),
            Step::Hour | Step::Day => self.delete_closed_before(step, oldest),
        }
    }

    /// The table is ordered by time, so old rows are adjacent.
    fn delete_minutes_before(&self, oldest: i64) -> rusqlite::Result<u64> {
        const LAST: &str = "SELECT max(key) FROM (SELECT key FROM rollup_minute WHERE key < ?1 \
                            ORDER BY key LIMIT ?2)";
        let connection = self.connection();
        let last: Option<i64> = connection
            .prepare_cached(LAST)?
            .query_row(params![time_key(oldest, 0), ROWS], |row| row.get(0))?;
        let Some(last) = last else { return Ok(0) };
        let mut delete = connection.prepare_cached("DELETE FROM rollup_minute WHERE key <= ?1")?;
        Ok(delete.execute([last])? as u64)
    }

    /// Goes series by series: the old rows of each are adjacent.
    fn delete_closed_before(&self, step: Step, oldest: i64) -> rusqlite::Result<u64> {
        let table = step.table();
        let connection = self.connection();
        let mut delete = connection
            .prepare_cached(&format!("DELETE FROM {table} WHERE key >= ?1 AND key < ?2"))?;
        let mut first =
            connection.prepare_cached(&format!("SELECT min(key) FROM {table} WHERE key >= ?1"))?;
        let (mut series, mut deleted): (SeriesId, u64) = (0, 0);
        // The first rollup of a series shows whether there is anything to delete.
        while let Some(next) =
            first.query_row([series_key(series, 0)], |row| row.get::<_, Option<i64>>(0))?
        {
            series = SeriesId::try_from(next >> 32).unwrap_or(SeriesId::MAX);
            let number = in_series_key(next);
            if number < oldest {
                let until = series_key(series, oldest.min(number + ROWS));
                deleted += delete.execute(params![series_key(series, 0), until])? as u64;
                if deleted >= ROWS as u64 {
                    break;
                }
            }
            match series.checked_add(1) {
                Some(after) => series = after,
                None => break,
            }
        }
        Ok(deleted)
    }

    fn shrink(&self) -> rusqlite::Result<()> {
        let number = |pragma: &str| -> rusqlite::Result<i64> {
            self.connection().pragma_query_value(None, pragma, |row| row.get(0))
        };
        if number("freelist_count")? < FREE_PAGES.max(number("page_count")? / 8) {
            return Ok(());
        }
        let mut vacuum =
            self.connection().prepare_cached(&format!("PRAGMA incremental_vacuum({PAGES})"))?;
        let mut rows = vacuum.query([])?;
        while rows.next()?.is_some() {}
        Ok(())
    }
}
