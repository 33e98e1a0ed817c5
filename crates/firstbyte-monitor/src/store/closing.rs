//! Closing: hours and days that are over get their own rows, an hour from its minutes, a day from its hours.
//!
//! An hour of a series is *open* from its first minute until it is closed: the table `open_hour` has a mark for it, and
//! `rollup_hour` has no row. Samples that arrive after the closing are added to the row. Days work the same way; a day
//! is open from the closing of its first hour. Each change is one transaction, so every sample counts once, even if the
//! process is killed.

use rusqlite::{Connection, Transaction};

use super::reader::body_at;
use super::writer::{Values, begin, put_rollup};
use super::{SeriesId, Step, Store, StoreError, in_time_key, key, series_key, time_key};
use crate::rollup::Rollup;

pub(super) const MINUTES_OF_HOUR: i64 = 60;
pub(super) const HOURS_OF_DAY: i64 = 24;
/// An hour is closed this many seconds after its end, when most samples that began in it have ended and are stored.
const HOUR_LATE: i64 = 300;
/// The same for a day, which is closed after its last hour.
const DAY_LATE: i64 = 3_600;
/// Periods that begin more than this many seconds in the future come from a wrong clock.
const FAR_AHEAD: i64 = 7 * 86_400;
/// Most rows that one step writes, separately for past and future times: 250 hours have 15,000 minutes, which take
/// about 0.1 s.
const ROWS: i64 = 250;

/// Result of one step of closing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClosedPeriods {
    /// Hours and days closed. If this is not 0, there may be more to close.
    pub closed: u64,
    /// Damaged rollups, which were left out.
    pub damaged: u64,
}

impl Store {
    /// Closes some of the hours and days that are over at `now` (seconds since the Unix epoch). Days follow all hours.
    ///
    /// # Errors
    /// If the store cannot be written. Then nothing is closed.
    pub fn close_periods(&mut self, now: i64) -> Result<ClosedPeriods, StoreError> {
        self.know_values()?;
        let values = &mut self.values;
        let mut close = |connection: &mut Connection| {
            let transaction = begin(connection)?;
            let mut closing = Closing::new(&transaction, values);
            let open = open_periods(&transaction, Step::Hour, now, HOUR_LATE)?;
            for (hour, series) in &open {
                closing.close_hour(*series, *hour)?;
            }
            if open.is_empty() {
                for (day, series) in open_periods(&transaction, Step::Day, now, DAY_LATE)? {
                    closing.close_day(series, day)?;
                }
            }
            let closed = closing.closed;
            transaction.commit()?;
            Ok(closed)
        };
        match close(&mut self.connection) {
            Ok(closed) => {
                self.checkpoint_in_time();
                Ok(closed)
            }
            Err(source) => {
                self.values_are_known = false;
                Err(StoreError::Sqlite { what: "write rollups", source })
            }
        }
    }
}

/// Open periods that are over, oldest first, and then those recorded by a wrong clock.
fn open_periods(
    connection: &Connection,
    step: Step,
    now: i64,
    late: i64,
) -> rusqlite::Result<Vec<(i64, SeriesId)>> {
    let (first_open, first_wrong) = (step.number(now - late), step.number(now + FAR_AHEAD));
    let mut open = Vec::new();
    for (is_within, number) in [("<", first_open), (">=", first_wrong)] {
        let sql = format!(
            "SELECT key FROM {} WHERE key {is_within} ?1 ORDER BY key LIMIT {ROWS}",
            open_table(step)
        );
        let mut statement = connection.prepare_cached(&sql)?;
        let mut rows = statement.query([time_key(number, 0)])?;
        while let Some(row) = rows.next()? {
            open.push(in_time_key(row.get(0)?));
        }
    }
    Ok(open)
}

const fn open_table(step: Step) -> &'static str {
    match step {
        Step::Day => "open_day",
        Step::Minute | Step::Hour => "open_hour",
    }
}

/// Whether a period of a series is marked as open.
pub(super) fn is_open(
    connection: &Connection,
    step: Step,
    series: SeriesId,
    number: i64,
) -> rusqlite::Result<bool> {
    let sql = format!("SELECT 1 FROM {} WHERE key = ?1", open_table(step));
    let mut statement = connection.prepare_cached(&sql)?;
    statement.exists([time_key(number, series)])
}

pub(super) fn mark_open(
    connection: &Connection,
    step: Step,
    series: SeriesId,
    number: i64,
) -> rusqlite::Result<()> {
    let sql = format!("INSERT OR IGNORE INTO {} (key) VALUES (?1)", open_table(step));
    connection.prepare_cached(&sql)?.execute([time_key(number, series)]).map(drop)
}

/// Removes the mark of a period of a series.
pub(super) fn unmark(
    connection: &Connection,
    step: Step,
    series: SeriesId,
    number: i64,
) -> rusqlite::Result<()> {
    let sql = format!("DELETE FROM {} WHERE key = ?1", open_table(step));
    connection.prepare_cached(&sql)?.execute([time_key(number, series)]).map(drop)
}

/// The number of the oldest open period of a step.
pub(super) fn oldest_open(connection: &Connection, step: Step) -> rusqlite::Result<Option<i64>> {
    let sql = format!("SELECT min(key) FROM {}", open_table(step));
    let key: Option<i64> = connection.prepare_cached(&sql)?.query_row([], |row| row.get(0))?;
    Ok(key.map(|key| in_time_key(key).0))
}

/// Writes rows of hours and days within a transaction.
pub(super) struct Closing<'a, 'b> {
    transaction: &'a Transaction<'b>,
    values: &'a mut Values,
    /// Reusable buffer for the bytes of a row.
    body: Vec<u8>,
    pub(super) closed: ClosedPeriods,
}

impl<'a, 'b> Closing<'a, 'b> {
    pub(super) const fn new(transaction: &'a Transaction<'b>, values: &'a mut Values) -> Self {
        let closed = ClosedPeriods { closed: 0, damaged: 0 };
        Self { transaction, values, body: Vec::new(), closed }
    }

    /// Adds `rollup` to row `number` of `step`, and returns whether the row existed.
    pub(super) fn add(
        &mut self,
        step: Step,
        series: SeriesId,
        number: i64,
        rollup: &Rollup,
        needs_row: bool,
    ) -> rusqlite::Result<bool> {
        let key = key(step, series, number);
        let before = body_at(self.transaction, step, key)?;
        if before.is_none() && needs_row {
            return Ok(false);
        }
        let sum = match before.as_deref().and_then(|before| self.restore(before)) {
            Some(mut sum) => {
                sum.merge(rollup);
                sum
            }
            None => rollup.clone(),
        };
        put_rollup(self.transaction, self.values, step, key, &sum, &mut self.body)?;
        Ok(before.is_some())
    }

    /// Propagates an addition to a minute to its hour and its day.
    pub(super) fn count_minute(
        &mut self,
        series: SeriesId,
        minute: i64,
        added: &Rollup,
    ) -> rusqlite::Result<()> {
        let hour = minute.div_euclid(MINUTES_OF_HOUR);
        if is_open(self.transaction, Step::Hour, series, hour)? {
            return Ok(());
        }
        match self.add(Step::Hour, series, hour, added, true)? {
            true => self.count_hour(series, hour, added),
            false => mark_open(self.transaction, Step::Hour, series, hour),
        }
    }

    /// Propagates an addition to a closed hour to its day.
    fn count_hour(&mut self, series: SeriesId, hour: i64, added: &Rollup) -> rusqlite::Result<()> {
        let day = hour.div_euclid(HOURS_OF_DAY);
        match self.add(Step::Day, series, day, added, true)? {
            true => Ok(()),
            false => mark_open(self.transaction, Step::Day, series, day),
        }
    }

    fn close_hour(&mut self, series: SeriesId, hour: i64) -> rusqlite::Result<()> {
        let mut sum = Rollup::default();
        let first = hour * MINUTES_OF_HOUR;
        for minute in first..first + MINUTES_OF_HOUR {
            let body = body_at(self.transaction, Step::Minute, time_key(minute, series))?;
            if let Some(rollup) = body.and_then(|body| self.restore(&body)) {
                sum.merge(&rollup);
            }
        }
        if !sum.is_empty() {
            let key = series_key(series, hour);
            put_rollup(self.transaction, self.values, Step::Hour, key, &sum, &mut self.body)?;
            self.count_hour(series, hour, &sum)?;
        }
        self.closed.closed += 1;
        unmark(self.transaction, Step::Hour, series, hour)
    }

    fn close_day(&mut self, series: SeriesId, day: i64) -> rusqlite::Result<()> {
        let mut sum = Rollup::default();
        let first = day * HOURS_OF_DAY;
        for hour in first..first + HOURS_OF_DAY {
            let body = body_at(self.transaction, Step::Hour, series_key(series, hour))?;
            if let Some(rollup) = body.and_then(|body| self.restore(&body)) {
                sum.merge(&rollup);
            }
        }
        if !sum.is_empty() {
            let key = series_key(series, day);
            put_rollup(self.transaction, self.values, Step::Day, key, &sum, &mut self.body)?;
        }
        self.closed.closed += 1;
        unmark(self.transaction, Step::Day, series, day)
    }

    /// Restores a rollup from its stored bytes; counts it if it is damaged.
    fn restore(&mut self, body: &[u8]) -> Option<Rollup> {
        let restored = Rollup::restore(body, |number| self.values.value(number)).ok();
        self.closed.damaged += u64::from(restored.is_none());
        restored
    }
}
