//! What is deleted because it is old: a little at a time, so that nobody waits for it.

use rusqlite::params;

use super::{SeriesId, Step, Store, StoreError, key, number_in};

/// Rows that one step deletes, at most.
const ROWS: i64 = 2_000;
/// Pages that one step gives back to the file system, at most.
const PAGES: i64 = 256;

/// For how long rollups are kept, in seconds; absent is for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Of a minute.
    pub minutes: Option<i64>,
    /// Of an hour.
    pub hours: Option<i64>,
    /// Of a day.
    pub days: Option<i64>,
}

impl Default for Retention {
    fn default() -> Self {
        Self { minutes: Some(14 * 86_400), hours: Some(730 * 86_400), days: None }
    }
}

/// What a step of it did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retained {
    /// Rollups deleted.
    pub deleted: u64,
    /// There may be more to delete.
    pub unfinished: bool,
}

impl Store {
    /// Deletes some of the rollups that are older than `retention` at `now` (seconds since the Unix epoch).
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn retain(&self, retention: &Retention, now: i64) -> Result<Retained, StoreError> {
        let mut retained = Retained::default();
        let kept = [retention.minutes, retention.hours, retention.days];
        for (step, kept) in Step::ALL.into_iter().zip(kept) {
            let Some(kept) = kept else { continue };
            let oldest = step.number(now - kept);
            let failed = StoreError::sqlite("delete what is old");
            retained.deleted += self.delete_before(step, oldest).map_err(failed)?;
        }
        retained.unfinished = retained.deleted >= ROWS as u64;
        if retained.deleted > 0 {
            let failed = StoreError::sqlite("shrink the store");
            self.shrink().map_err(failed)?;
        }
        Ok(retained)
    }

    /// Series by series: the old ones of each are together.
    fn delete_before(&self, step: Step, oldest: i64) -> rusqlite::Result<u64> {
        let table = step.table();
        let connection = self.connection();
        let mut delete = connection
            .prepare_cached(&format!("DELETE FROM {table} WHERE key >= ?1 AND key < ?2"))?;
        let mut first =
            connection.prepare_cached(&format!("SELECT min(key) FROM {table} WHERE key >= ?1"))?;
        let (mut series, mut deleted): (SeriesId, u64) = (0, 0);
        // The first rollup of each series says whether there is anything to delete.
        while let Some(next) =
            first.query_row([key(series, 0)], |row| row.get::<_, Option<i64>>(0))?
        {
            series = SeriesId::try_from(next >> 32).unwrap_or(SeriesId::MAX);
            if number_in(next) < oldest {
                let until = key(series, oldest.min(number_in(next) + ROWS));
                deleted += delete.execute(params![next, until])? as u64;
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
        let mut vacuum =
            self.connection().prepare_cached(&format!("PRAGMA incremental_vacuum({PAGES})"))?;
        let mut rows = vacuum.query([])?;
        while rows.next()?.is_some() {}
        Ok(())
    }
}
