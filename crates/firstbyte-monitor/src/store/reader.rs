//! Reading: series, rollups by step and period, and events. Each answer takes one short look at the store.
//!
//! Hours and days that are not closed have no rows of their own: the reader sums them up from their finer rollups.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::closing::{HOURS_OF_DAY, MINUTES_OF_HOUR};
use super::{
    Annotation, SeriesId, SeriesLabels, Step, StoreError, StoredEvent, events, in_series_key,
    in_time_key, schema, series_key, time_key,
};
use crate::rollup::{Measure, MonitoredFact, Rollup};

/// The rollup of a period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RollupAt {
    /// Where the period begins, seconds since the Unix epoch.
    pub start: i64,
    /// Its samples.
    pub rollup: Rollup,
}

/// A read-only connection to a store.
pub struct StoreReader {
    connection: Connection,
    values: HashMap<u64, (MonitoredFact, String)>,
    /// Whether to read facts, which take most of the time of reading thousands of rollups.
    with_facts: bool,
    /// Damaged rows seen since the reader was opened.
    damaged: u64,
}

impl StoreReader {
    /// Opens the store at `path`.
    ///
    /// # Errors
    /// If the store does not exist or cannot be read.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let connection = schema::open_to_read(path)?;
        Ok(Self { connection, values: HashMap::new(), with_facts: true, damaged: 0 })
    }

    /// Makes this reader return rollups without facts.
    #[must_use]
    pub fn without_facts(self) -> Self {
        Self { with_facts: false, ..self }
    }

    /// Every series that the store has ever had.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn series(&self) -> Result<Vec<(SeriesId, SeriesLabels)>, StoreError> {
        all_series(&self.connection)
    }

    /// The rollups of `series` whose periods begin in `from..until`, seconds since the Unix epoch, in order of time.
    ///
    /// Only the histograms of `wanted` measures are restored.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn rollups(
        &mut self,
        series: SeriesId,
        step: Step,
        from: i64,
        until: i64,
        wanted: impl Fn(Measure) -> bool,
    ) -> Result<Vec<RollupAt>, StoreError> {
        let failed = StoreError::sqlite("read rollups");
        let rows = self.bodies(series, step, from, until).map_err(failed)?;
        let mut found: Vec<RollupAt> = Vec::with_capacity(rows.len());
        for (number, body) in rows {
            let Some(rollup) = self.restore(&body, &wanted)? else {
                self.damaged += 1;
                continue;
            };
            let start = number * step.seconds();
            match found.last_mut() {
                Some(last) if last.start == start => last.rollup.merge(&rollup),
                _ => found.push(RollupAt { start, rollup }),
            }
        }
        Ok(found)
    }

    /// The sum of all rollups of a period, read in the coarsest steps that the period consists of.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn sum(
        &mut self,
        series: SeriesId,
        from: i64,
        until: i64,
        wanted: impl Fn(Measure) -> bool,
    ) -> Result<Rollup, StoreError> {
        let mut sum = Rollup::default();
        for (step, from, until) in pieces(from, until) {
            for RollupAt { rollup, .. } in self.rollups(series, step, from, until, &wanted)? {
                sum.merge(&rollup);
            }
        }
        Ok(sum)
    }

    /// Start of the oldest rollup of `step` in any series; `None` if the store has none.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn oldest(&self, step: Step) -> Result<Option<i64>, StoreError> {
        let first_in = |table: &str| -> rusqlite::Result<Option<i64>> {
            let sql = format!("SELECT min(key) FROM {table}");
            let first: Option<i64> =
                self.connection.prepare_cached(&sql)?.query_row([], |row| row.get(0))?;
            Ok(first.map(|key| in_time_key(key).0))
        };
        let read = || -> rusqlite::Result<Option<i64>> {
            let numbers = match step {
                Step::Minute => vec![first_in("rollup_minute")?],
                Step::Hour => vec![self.oldest_closed(step)?, first_in("open_hour")?],
                Step::Day => {
                    let hour = first_in("open_hour")?;
                    let of_hour = hour.map(|hour| hour.div_euclid(HOURS_OF_DAY));
                    vec![self.oldest_closed(step)?, first_in("open_day")?, of_hour]
                }
            };
            Ok(numbers.into_iter().flatten().min().map(|number| number * step.seconds()))
        };
        read().map_err(StoreError::sqlite("read rollups"))
    }

    /// The number of the oldest row of hours or days. Goes series by series, as the first row of each is its oldest.
    fn oldest_closed(&self, step: Step) -> rusqlite::Result<Option<i64>> {
        let sql = format!("SELECT min(key) FROM {} WHERE key >= ?1", step.table());
        let mut first = self.connection.prepare_cached(&sql)?;
        let (mut series, mut oldest): (SeriesId, Option<i64>) = (0, None);
        while let Some(next) =
            first.query_row([series_key(series, 0)], |row| row.get::<_, Option<i64>>(0))?
        {
            let number = in_series_key(next);
            oldest = Some(oldest.map_or(number, |oldest| oldest.min(number)));
            let own = SeriesId::try_from(next >> 32).unwrap_or(SeriesId::MAX);
            match own.checked_add(1) {
                Some(after) => series = after,
                None => break,
            }
        }
        Ok(oldest)
    }

    /// Events of a period, latest first, including outages that began before it and had not ended by then.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn events(&self, from: i64, until: i64) -> Result<Vec<StoredEvent>, StoreError> {
        events::events(&self.connection, from, until)
    }

    /// Annotations of a period.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn annotations(&self, from: i64, until: i64) -> Result<Vec<Annotation>, StoreError> {
        events::annotations(&self.connection, from, until)
    }

    /// Number of requested rollups that were damaged.
    pub const fn damaged(&self) -> u64 {
        self.damaged
    }

    /// Stored rollups with the numbers of their periods, in order. A period that is not closed has several.
    fn bodies(
        &self,
        series: SeriesId,
        step: Step,
        from: i64,
        until: i64,
    ) -> rusqlite::Result<Vec<(i64, Vec<u8>)>> {
        let number = |seconds: i64| -(-seconds.max(0)).div_euclid(step.seconds());
        let numbers = number(from)..number(until);
        // Read one state of the store: an hour may be closed between two reads.
        let snapshot = self.connection.unchecked_transaction()?;
        let mut found = Vec::new();
        match step {
            Step::Minute => self.put_minutes(series, numbers, |minute| minute, &mut found)?,
            Step::Hour => {
                self.put_closed(step, series, numbers.clone(), |hour| hour, &mut found)?;
                for hour in self.open_periods("open_hour", series, numbers)? {
                    let minutes = finer(hour, MINUTES_OF_HOUR);
                    self.put_minutes(series, minutes, |_| hour, &mut found)?;
                }
            }
            Step::Day => {
                self.put_closed(step, series, numbers.clone(), |day| day, &mut found)?;
                for day in self.open_periods("open_day", series, numbers.clone())? {
                    let hours = finer(day, HOURS_OF_DAY);
                    self.put_closed(Step::Hour, series, hours, |_| day, &mut found)?;
                }
                let hours = numbers.start * HOURS_OF_DAY..numbers.end.saturating_mul(HOURS_OF_DAY);
                for hour in self.open_periods("open_hour", series, hours)? {
                    let (minutes, day) =
                        (finer(hour, MINUTES_OF_HOUR), hour.div_euclid(HOURS_OF_DAY));
                    self.put_minutes(series, minutes, |_| day, &mut found)?;
                }
            }
        }
        snapshot.commit()?;
        found.sort_by_key(|(number, _)| *number);
        Ok(found)
    }

    /// Adds rows of hours or days, which are adjacent in the table.
    fn put_closed(
        &self,
        step: Step,
        series: SeriesId,
        numbers: Range<i64>,
        shown_as: impl Fn(i64) -> i64,
        found: &mut Vec<(i64, Vec<u8>)>,
    ) -> rusqlite::Result<()> {
        let sql = format!(
            "SELECT key, body FROM {} WHERE key >= ?1 AND key < ?2 ORDER BY key",
            step.table()
        );
        let mut statement = self.connection.prepare_cached(&sql)?;
        let bounds = params![series_key(series, numbers.start), series_key(series, numbers.end)];
        let mut rows = statement.query(bounds)?;
        while let Some(row) = rows.next()? {
            found.push((shown_as(in_series_key(row.get(0)?)), row.get(1)?));
        }
        Ok(())
    }

    fn put_minutes(
        &self,
        series: SeriesId,
        minutes: Range<i64>,
        shown_as: impl Fn(i64) -> i64,
        found: &mut Vec<(i64, Vec<u8>)>,
    ) -> rusqlite::Result<()> {
        const SQL: &str = "SELECT key, body FROM rollup_minute WHERE key >= ?1 AND key < ?2 \
                           ORDER BY key LIMIT 1";
        each_of_series(&self.connection, SQL, series, minutes, |minute, row| {
            found.push((shown_as(minute), row.get(1)?));
            Ok(())
        })
    }

    fn open_periods(
        &self,
        table: &str,
        series: SeriesId,
        numbers: Range<i64>,
    ) -> rusqlite::Result<Vec<i64>> {
        let sql =
            format!("SELECT key FROM {table} WHERE key >= ?1 AND key < ?2 ORDER BY key LIMIT 1");
        let mut open = Vec::new();
        each_of_series(&self.connection, &sql, series, numbers, |number, _| {
            open.push(number);
            Ok(())
        })?;
        Ok(open)
    }

    /// The rollup in a row; `None` if the row is damaged.
    fn restore(
        &mut self,
        body: &[u8],
        wanted: impl Fn(Measure) -> bool,
    ) -> Result<Option<Rollup>, StoreError> {
        if !self.with_facts {
            return Ok(Rollup::restore_without_facts(body, &wanted).ok());
        }
        let restore = |values: &HashMap<u64, (MonitoredFact, String)>| {
            let value = |number| values.get(&number).map(|(fact, value)| (*fact, value.as_str()));
            Rollup::restore_of(body, value, &wanted)
        };
        if let Ok(rollup) = restore(&self.values) {
            return Ok(Some(rollup));
        }
        // The row may use values stored after `self.values` was read.
        self.values = fact_values(&self.connection)?;
        Ok(restore(&self.values).ok())
    }
}

/// Numbers of the `each` finer periods of the period `number`.
const fn finer(number: i64, each: i64) -> Range<i64> {
    number * each..(number + 1) * each
}

/// Calls `found` with the rows of `series` in a table ordered by time. `sql` returns the first row between two keys, so
/// a gap of months takes one step.
///
/// A year of minutes takes 525,600 steps of about 3 µs each.
fn each_of_series(
    connection: &Connection,
    sql: &str,
    series: SeriesId,
    numbers: Range<i64>,
    mut found: impl FnMut(i64, &Row<'_>) -> rusqlite::Result<()>,
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(sql)?;
    let end = time_key(numbers.end, 0);
    let mut next = numbers.start.max(0);
    while next < numbers.end {
        let mut rows = statement.query(params![time_key(next, series), end])?;
        let Some(row) = rows.next()? else { break };
        let (number, of) = in_time_key(row.get(0)?);
        next = if of < series { number } else { number + 1 };
        if of == series {
            found(number, row)?;
        }
    }
    Ok(())
}

/// Splits the period from `from` to `until`, rounded to minutes, into whole days, hours and minutes.
fn pieces(from: i64, until: i64) -> Vec<(Step, i64, i64)> {
    let up = |seconds: i64, step: Step| -(-seconds).div_euclid(step.seconds()) * step.seconds();
    let down = |seconds: i64, step: Step| seconds.div_euclid(step.seconds()) * step.seconds();
    let (from, until) = (down(from, Step::Minute), up(until, Step::Minute));
    let (first_hour, last_hour) = (up(from, Step::Hour), down(until, Step::Hour));
    if first_hour >= last_hour {
        return vec![(Step::Minute, from, until)];
    }
    let ends = [(Step::Minute, from, first_hour), (Step::Minute, last_hour, until)];
    let (first_day, last_day) = (up(first_hour, Step::Day), down(last_hour, Step::Day));
    let middle = match first_day >= last_day {
        true => vec![(Step::Hour, first_hour, last_hour)],
        false => vec![
            (Step::Hour, first_hour, first_day),
            (Step::Day, first_day, last_day),
            (Step::Hour, last_day, last_hour),
        ],
    };
    let pieces = ends.into_iter().chain(middle);
    pieces.filter(|(_, from, until)| from < until).collect()
}

pub(super) fn all_series(
    connection: &Connection,
) -> Result<Vec<(SeriesId, SeriesLabels)>, StoreError> {
    let read = || {
        let mut statement = connection
            .prepare_cached("SELECT id, place, target, variant, labels FROM series ORDER BY id")?;
        let series = statement.query_map([], |row| {
            let labels: String = row.get(4)?;
            let known: SeriesLabels = serde_json::from_str(&labels).unwrap_or_default();
            let (place, target, variant) = (row.get(1)?, row.get(2)?, row.get(3)?);
            Ok((row.get(0)?, SeriesLabels { place, target, variant, ..known }))
        })?;
        series.collect::<Result<Vec<_>, _>>()
    };
    read().map_err(StoreError::sqlite("read series"))
}

pub(super) fn fact_values(
    connection: &Connection,
) -> Result<HashMap<u64, (MonitoredFact, String)>, StoreError> {
    let read = || {
        let mut statement = connection.prepare_cached("SELECT id, fact, value FROM fact_value")?;
        let rows = statement.query_map([], |row| {
            let fact: String = row.get(1)?;
            Ok((row.get::<_, i64>(0)?, fact, row.get::<_, String>(2)?))
        })?;
        let mut values = HashMap::new();
        for row in rows {
            let (id, fact, value) = row?;
            if let (Ok(id), Some(fact)) = (u64::try_from(id), MonitoredFact::named(&fact)) {
                values.insert(id, (fact, value));
            }
        }
        Ok(values)
    };
    read().map_err(StoreError::sqlite("read values of facts"))
}

pub(super) fn body_at(
    connection: &Connection,
    step: Step,
    key: i64,
) -> rusqlite::Result<Option<Vec<u8>>> {
    let sql = format!("SELECT body FROM {} WHERE key = ?1", step.table());
    connection.prepare_cached(&sql)?.query_row([key], |row| row.get(0)).optional()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_is_days_and_hours_and_minutes_without_gaps() {
        let day = 86_400;
        for (from, until) in [
            (0, 3 * day),
            (61, 2 * day + 3_601),
            (30, 90),
            (3_599, 3_600),
            (10, 7_300),
            (5, 5 * day),
        ] {
            let mut pieces = pieces(from, until);
            pieces.sort_by_key(|(_, from, _)| *from);
            assert_eq!(pieces.first().unwrap().1, from / 60 * 60);
            assert_eq!(pieces.last().unwrap().2, (until + 59) / 60 * 60);
            assert!(pieces.windows(2).all(|pair| pair[0].2 == pair[1].1), "{pieces:?}");
            assert!(pieces.iter().all(|(step, from, until)| {
                from % step.seconds() == 0 && until % step.seconds() == 0
            }));
            assert!(pieces.len() <= 5);
        }
        assert_eq!(pieces(0, 3 * day), [(Step::Day, 0, 3 * day)]);
    }
}
