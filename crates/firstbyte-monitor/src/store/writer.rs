//! Writing: samples are summed up in memory, and a flush adds the sums to the store in one transaction.
//!
//! The same transaction records how far each raw file is folded in, so every sample counts once after a crash: samples
//! missing from the store are read again from the raw files. Only minutes are written. Hours and days are summed up
//! from them when they are over ([`super::closing`]).

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use firstbyte_clock::Monotonic;
use firstbyte_core::run::Taken;
use rusqlite::{Connection, Transaction, TransactionBehavior, params};

use super::closing::{Closing, unmark};
use super::reader::{all_series, fact_values};
use super::{
    Annotation, PendingRollups, SeriesId, SeriesLabels, Step, StoreError, StoredEvent, events, key,
    schema,
};
use crate::rollup::{MonitoredFact, Rollup};

/// Interval of checkpoints of the write-ahead log. A long log is checkpointed earlier.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(60);

/// How much of a raw file is folded into the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folded {
    /// Name of the file.
    pub file: String,
    /// Number of bytes folded in, from the start of the file.
    pub bytes: u64,
}

/// Result of a flush.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flushed {
    /// Rollups of minutes written.
    pub written: u64,
    /// Damaged rollups found in the store. They were replaced by the added samples.
    pub damaged: u64,
}

/// The only connection that writes a store.
pub struct Store {
    path: PathBuf,
    pub(super) connection: Connection,
    /// Numbers of the values of facts.
    pub(super) values: Values,
    pub(super) values_are_known: bool,
    /// Sums that are not in the store yet.
    open: PendingRollups,
    checkpointed: Monotonic,
}

#[derive(Default)]
pub(super) struct Values {
    numbers: HashMap<MonitoredFact, HashMap<String, u64>>,
    values: HashMap<u64, (MonitoredFact, String)>,
}

impl Values {
    fn insert(&mut self, number: u64, fact: MonitoredFact, value: &str) {
        self.numbers.entry(fact).or_default().insert(value.to_owned(), number);
        self.values.insert(number, (fact, value.to_owned()));
    }

    fn all_of(values: HashMap<u64, (MonitoredFact, String)>) -> Self {
        let mut all = Self::default();
        for (number, (fact, value)) in values {
            all.insert(number, fact, &value);
        }
        all
    }

    pub(super) fn value(&self, number: u64) -> Option<(MonitoredFact, &str)> {
        self.values.get(&number).map(|(fact, value)| (*fact, value.as_str()))
    }

    fn number(
        &mut self,
        connection: &Connection,
        fact: MonitoredFact,
        value: &str,
    ) -> rusqlite::Result<u64> {
        if let Some(number) = self.numbers.get(&fact).and_then(|numbers| numbers.get(value)) {
            return Ok(*number);
        }
        connection
            .prepare_cached("INSERT INTO fact_value (fact, value) VALUES (?1, ?2)")?
            .execute(params![fact.name(), value])?;
        let number = u64::try_from(connection.last_insert_rowid()).unwrap_or_default();
        self.insert(number, fact, value);
        Ok(number)
    }
}

impl Store {
    /// Opens the store at `path`, and creates it if it does not exist.
    ///
    /// # Errors
    /// If the store cannot be opened; see [`StoreError::is_corrupt`].
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let connection = schema::open_to_write(path)?;
        let (path, values, open) = (path.to_owned(), Values::default(), PendingRollups::default());
        let checkpointed = Monotonic::now();
        Ok(Self { path, connection, values, values_are_known: false, open, checkpointed })
    }

    /// Renames an unreadable store and its companion files to `store.sqlite.corrupt-STAMP`.
    ///
    /// # Errors
    /// If the store cannot be renamed.
    pub fn move_aside(path: &Path, stamp: &str) -> Result<PathBuf, StoreError> {
        let beside = |ending: &str| {
            let mut name = path.as_os_str().to_owned();
            name.push(ending);
            PathBuf::from(name)
        };
        let aside = beside(&format!(".corrupt-{stamp}"));
        std::fs::rename(path, &aside)
            .map_err(|source| StoreError::Io { path: path.to_owned(), source })?;
        for ending in ["-wal", "-shm"] {
            let mut to = aside.as_os_str().to_owned();
            to.push(ending);
            // This companion file may not exist.
            let _ = std::fs::rename(beside(ending), to);
        }
        Ok(aside)
    }

    /// Path of the store's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(super) const fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Returns the numbers of series, in the order of `labels`. Adds unknown series and updates the labels of known
    /// ones.
    ///
    /// # Errors
    /// If the store cannot be written.
    pub fn enrol(&mut self, labels: &[SeriesLabels]) -> Result<Vec<SeriesId>, StoreError> {
        let known = all_series(&self.connection)?;
        type Name = (String, String, String);
        let name = |labels: &SeriesLabels| -> Name {
            (labels.place.clone(), labels.target.clone(), labels.variant.clone())
        };
        let mut numbers: HashMap<Name, (SeriesId, SeriesLabels)> =
            known.into_iter().map(|(id, labels)| (name(&labels), (id, labels))).collect();
        let mut enrol = |connection: &mut Connection| {
            let transaction = begin(connection)?;
            let mut enrolled = Vec::with_capacity(labels.len());
            for one in labels {
                let json = serde_json::to_string(one).unwrap_or_else(|_| "{}".to_owned());
                let id = match numbers.get(&name(one)) {
                    Some((id, before)) if before == one => *id,
                    Some((id, _)) => {
                        transaction
                            .prepare_cached("UPDATE series SET labels = ?2 WHERE id = ?1")?
                            .execute(params![id, json])?;
                        *id
                    }
                    None => {
                        transaction
                            .prepare_cached(
                                "INSERT INTO series (place, target, variant, labels) VALUES (?1, ?2, ?3, ?4)",
                            )?
                            .execute(params![one.place, one.target, one.variant, json])?;
                        SeriesId::try_from(transaction.last_insert_rowid()).unwrap_or(SeriesId::MAX)
                    }
                };
                numbers.insert(name(one), (id, one.clone()));
                enrolled.push(id);
            }
            transaction.commit()?;
            Ok(enrolled)
        };
        enrol(&mut self.connection).map_err(StoreError::sqlite("add series to the store"))
    }

    /// Counts `taken`, a sample of `series` that began at `unix_ns`. The next flush writes it to the store.
    pub fn add(&mut self, series: SeriesId, unix_ns: u64, taken: &Taken) {
        self.open.minute(series, unix_ns).add(taken);
    }

    /// Adds `rollup` to the minute of `unix_ns`.
    pub fn add_rollup(&mut self, series: SeriesId, unix_ns: u64, rollup: &Rollup) {
        self.open.add(series, unix_ns, rollup);
    }

    /// Adds all `rollups` to those that wait for the next flush.
    pub fn add_pending(&mut self, rollups: PendingRollups) {
        self.open.add_all(rollups);
    }

    /// Number of rollups that wait for the next flush.
    pub fn pending(&self) -> usize {
        self.open.len()
    }

    /// Drops all rollups that wait for the next flush.
    pub fn discard_pending(&mut self) {
        self.open.clear();
    }

    /// Writes the sums since the last flush, and how far raw files are folded in.
    ///
    /// # Errors
    /// If the store cannot be written. Then nothing is written, and the sums wait for the next flush.
    pub fn flush(&mut self, folded: &[Folded]) -> Result<Flushed, StoreError> {
        self.know_values()?;
        let (open, values) = (&self.open, &mut self.values);
        let mut flush = |connection: &mut Connection| {
            let transaction = begin(connection)?;
            let mut closing = Closing::new(&transaction, values);
            for ((minute, series), added) in &open.0 {
                closing.add(Step::Minute, *series, *minute, added, false)?;
                closing.count_minute(*series, *minute, added)?;
            }
            let damaged = closing.closed.damaged;
            let flushed = Flushed { written: open.0.len() as u64, damaged };
            for Folded { file, bytes } in folded {
                transaction
                    .prepare_cached(
                        "INSERT INTO folded (file, bytes) VALUES (?1, ?2)
                         ON CONFLICT (file) DO UPDATE SET bytes = ?2",
                    )?
                    .execute(params![file, bytes.cast_signed()])?;
            }
            transaction.commit()?;
            Ok(flushed)
        };
        match flush(&mut self.connection) {
            Ok(flushed) => {
                self.open.clear();
                self.checkpoint_in_time();
                Ok(flushed)
            }
            Err(source) => {
                // The rollback also removed the numbers given to new values.
                self.values_are_known = false;
                Err(StoreError::Sqlite { what: "write rollups", source })
            }
        }
    }

    /// Replaces rollups of one step, each given with its series and the start of its period (seconds since the Unix
    /// epoch). Other steps stay. For stores that are not made from samples.
    ///
    /// # Errors
    /// If the store cannot be written. Then no rollup is replaced.
    pub fn put_rollups<'a>(
        &mut self,
        step: Step,
        rollups: impl IntoIterator<Item = (SeriesId, i64, &'a Rollup)>,
    ) -> Result<(), StoreError> {
        self.know_values()?;
        let values = &mut self.values;
        let put = |connection: &mut Connection| {
            let transaction = begin(connection)?;
            let mut body = Vec::new();
            for (series, start, rollup) in rollups {
                let number = step.number(start);
                let key = key(step, series, number);
                put_rollup(&transaction, values, step, key, rollup, &mut body)?;
                if step != Step::Minute {
                    unmark(&transaction, step, series, number)?;
                }
            }
            transaction.commit()
        };
        match put(&mut self.connection) {
            Ok(()) => {
                self.checkpoint_in_time();
                Ok(())
            }
            Err(source) => {
                self.values_are_known = false;
                Err(StoreError::Sqlite { what: "write rollups", source })
            }
        }
    }

    pub(super) fn know_values(&mut self) -> Result<(), StoreError> {
        if !self.values_are_known {
            self.values = Values::all_of(fact_values(&self.connection)?);
            self.values_are_known = true;
        }
        Ok(())
    }

    /// How far each raw file is folded in.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn folded(&self) -> Result<Vec<Folded>, StoreError> {
        let read = || {
            let mut statement = self.connection.prepare_cached("SELECT file, bytes FROM folded")?;
            let all = statement.query_map([], |row| {
                Ok(Folded { file: row.get(0)?, bytes: row.get::<_, i64>(1)?.cast_unsigned() })
            })?;
            all.collect::<Result<Vec<_>, _>>()
        };
        read().map_err(StoreError::sqlite("read how far raw files are in the store"))
    }

    /// Removes the records of raw files that no longer exist.
    ///
    /// # Errors
    /// If the store cannot be written.
    pub fn forget_files(&self, gone: &[String]) -> Result<(), StoreError> {
        let forget = || {
            let mut statement =
                self.connection.prepare_cached("DELETE FROM folded WHERE file = ?1")?;
            gone.iter().try_for_each(|file| statement.execute([file]).map(drop))
        };
        forget().map_err(StoreError::sqlite("forget raw files"))
    }

    /// Stores an event, or replaces its earlier version.
    ///
    /// # Errors
    /// If the store cannot be written.
    pub fn put_event(&self, event: &StoredEvent) -> Result<(), StoreError> {
        events::put_event(&self.connection, event)
    }

    /// Stores an annotation.
    ///
    /// # Errors
    /// If the store cannot be written.
    pub fn put_annotation(&self, annotation: &Annotation) -> Result<(), StoreError> {
        events::put_annotation(&self.connection, annotation)
    }

    pub(super) fn checkpoint_in_time(&mut self) {
        let now = Monotonic::now();
        if now.since(self.checkpointed) >= CHECKPOINT_EVERY {
            self.checkpointed = now;
            self.checkpoint("PASSIVE");
        }
    }

    /// Moves the write-ahead log into the file, as far as readers allow.
    fn checkpoint(&self, how: &str) {
        // If it fails, the next checkpoint moves the log.
        let _ = self.connection.query_row(&format!("PRAGMA wal_checkpoint({how})"), [], |_| Ok(()));
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.checkpoint("TRUNCATE");
    }
}

/// Begins a write transaction. Waits for other writers; nothing that it reads can change meanwhile.
pub(super) fn begin(connection: &mut Connection) -> rusqlite::Result<Transaction<'_>> {
    connection.transaction_with_behavior(TransactionBehavior::Immediate)
}

/// Writes `rollup` at `key`, with `body` as a reusable buffer.
pub(super) fn put_rollup(
    transaction: &Transaction<'_>,
    values: &mut Values,
    step: Step,
    key: i64,
    rollup: &Rollup,
    body: &mut Vec<u8>,
) -> rusqlite::Result<()> {
    body.clear();
    rollup.store(body, |fact, value| values.number(transaction, fact, value))?;
    let put = format!(
        "INSERT INTO {} (key, body) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET body = ?2",
        step.table()
    );
    transaction.prepare_cached(&put)?.execute(params![key, &*body])?;
    Ok(())
}
