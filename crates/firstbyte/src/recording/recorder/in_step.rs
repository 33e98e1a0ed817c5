//! Keeps the store in step with the raw files: updates it, deletes old data, and rebuilds it after damage.

use std::time::Duration;

use firstbyte_clock::{Monotonic, Realtime, file_stamp};
use firstbyte_monitor::store::{ClosedPeriods, Flushed, Retained, Store, StoreError};
use tracing::{debug, info};

use super::{CLOSE_EVERY, MOST_WAITING, RETAIN_EVERY, Worker, file_name};
use crate::recording::backlog::Backlog;
use crate::recording::raw::{KeptDays, RawLimits, outdated, raw_files};
use crate::recording::store_thread::{Done, Job, Summed};

impl Worker {
    /// Starts the next store job that is due, one at a time.
    pub(super) fn have_store_kept(&mut self) {
        let now = Monotonic::now();
        // Samples that come after their hour is closed are added to its rows one by one.
        let may_close = self.backlog.is_empty() && !self.store_fails;
        if self.until_flush().is_zero() {
            self.flush();
        } else if may_close && now.since(self.closed) >= CLOSE_EVERY {
            self.store.begin(Job::Close { now: unix_seconds() });
        } else if now.since(self.retained) >= RETAIN_EVERY {
            self.retain();
        }
    }

    /// Waits for the current store job.
    pub(super) fn wait_for_store(&mut self) {
        while let Some(done) = self.store.wait() {
            self.take_in(done);
        }
    }

    /// Handles the result of a store job.
    pub(super) fn take_in(&mut self, done: Done) {
        match done {
            Done::Flushed { flushed, summed, took } => self.flushed(flushed, summed, took),
            Done::Closed(closed) => self.closed(closed),
            Done::Retained(retained) => self.retained(&retained),
        }
    }

    /// Starts a store update.
    pub(super) fn flush(&mut self) {
        let (sums, summed) = (std::mem::take(&mut self.sums), std::mem::take(&mut self.summed));
        self.store.begin(Job::Flush { sums, summed });
    }

    fn flushed(&mut self, flushed: Result<Flushed, StoreError>, summed: Summed, took: Duration) {
        debug!(?took, "the store was brought up to date");
        (self.flushed, self.flush_took) = (Monotonic::now(), took);
        let error = match flushed {
            Ok(flushed) => return self.is_up_to_date(flushed),
            Err(error) => error,
        };
        // The store keeps the rollups for the next flush. Newer positions of a file override the failed flush's.
        for (file, bytes) in summed {
            self.summed.entry(file).or_insert(bytes);
        }
        if error.is_full() && self.make_room("the disk is full") {
            self.flush();
        } else if error.is_corrupt() {
            self.begin_anew(&error);
        } else {
            if !std::mem::replace(&mut self.store_fails, true) {
                let path = self.settings.store.display();
                (self.settings.tell)(&format!("{path}: {error}; retrying later"));
            }
            if self.store.store().pending() + self.sums.len() > MOST_WAITING {
                self.leave_to_backlog();
            }
        }
    }

    fn is_up_to_date(&mut self, flushed: Flushed) {
        self.keep_events();
        let path = self.settings.store.display();
        if flushed.damaged > 0 {
            let number = flushed.damaged;
            (self.settings.tell)(&format!("{path}: {number} damaged rollups start over"));
        }
        if std::mem::take(&mut self.store_fails) {
            (self.settings.tell)(&format!("{path} is writable again"));
        }
        self.read_again();
    }

    /// Keeps events that arrived since the last call. The next flush retries those that cannot be kept now.
    pub(super) fn keep_new_events(&mut self) {
        let before = self.waiting.len();
        self.waiting.extend(self.events.try_iter());
        if self.waiting.len() > before && !self.store_fails {
            self.keep_events();
        }
    }

    fn keep_events(&mut self) {
        self.waiting.extend(self.events.try_iter());
        let store = self.store.store();
        self.waiting.retain(|event| store.put_event(event).is_err());
    }

    /// Drops what waits in memory; the raw files have it.
    pub(super) fn leave_to_backlog(&mut self) {
        let folded = self.store.store().folded().unwrap_or_default();
        let current = file_name(self.days.path());
        let waiting = std::mem::take(&mut self.backlog).files();
        let unsummed = self.summed.keys().cloned().chain([current]);
        let unsummed = unsummed.map(|name| self.settings.raw.join(name));
        for path in unsummed.chain(waiting) {
            let name = file_name(&path);
            let known = folded.iter().find(|folded| folded.file == name);
            self.left_to_backlog.entry(path).or_insert(known.map_or(0, |folded| folded.bytes));
        }
        self.store.store().discard_pending();
        self.sums.clear();
        self.summed.clear();
    }

    /// Leaves the current raw file to the backlog, if it was started after the others were left.
    pub(super) fn leave_file_to_backlog(&mut self) {
        let path = self.days.path().to_owned();
        if self.left_to_backlog.contains_key(&path) {
            return;
        }
        let folded = self.store.store().folded().unwrap_or_default();
        let name = file_name(&path);
        let known = folded.iter().find(|folded| folded.file == name);
        self.left_to_backlog.insert(path, known.map_or(0, |folded| folded.bytes));
    }

    /// Once the store is writable again, queues the raw files that it missed for reading.
    fn read_again(&mut self) {
        if self.left_to_backlog.is_empty() {
            return;
        }
        if self.series.is_empty() {
            let labels = self.settings.recorded.labels();
            let enrolled = self.store.store().enrol(&labels);
            match enrolled {
                Ok(series) => self.series = series,
                Err(error) => {
                    info!(%error, "series cannot be added to the store yet");
                    return;
                }
            }
            self.have_watched(&labels);
        }
        // Files to read again must not grow.
        self.acknowledge();
        match self.days.begin_another() {
            Ok(()) => {
                for (path, bytes) in std::mem::take(&mut self.left_to_backlog) {
                    self.backlog.push(path, bytes);
                }
            }
            Err(error) => info!(%error, "cannot start another raw file"),
        }
    }

    /// Moves a damaged store aside and rebuilds it from the raw files.
    pub(super) fn begin_anew(&mut self, error: &StoreError) {
        self.acknowledge();
        let path = self.settings.store.clone();
        let labels = self.settings.recorded.labels();
        // It was already moved if an earlier attempt could not create the new store.
        let moved = match path.exists() {
            true => Store::move_aside(&path, &file_stamp()).map(Some),
            false => Ok(None),
        };
        let anew = moved.and_then(|aside| {
            let mut store = Store::open(&path)?;
            let series = store.enrol(&labels)?;
            Ok((aside, store, series))
        });
        match anew {
            Ok((aside, store, series)) => {
                let path = path.display();
                let moved = aside.map_or_else(String::new, |aside| {
                    format!("moved to {}, and ", aside.display())
                });
                (self.settings.tell)(&format!("{path}: {error}: {moved}rebuilt from raw samples"));
                *self.store.store() = store;
                self.series = series;
                self.sums.clear();
                self.summed.clear();
                self.left_to_backlog.clear();
                // Readers of the old store still have a file open that nobody writes any more.
                self.have_watched(&labels);
                self.keep_events();
                // Read all files except the new one again.
                match self.days.begin_another() {
                    Ok(()) => {
                        let current = self.days.path().to_owned();
                        let files = raw_files(&self.settings.raw).unwrap_or_default();
                        self.backlog = Backlog::default();
                        for file in files.into_iter().filter(|file| file.path != current) {
                            self.backlog.push(file.path, 0);
                        }
                    }
                    Err(error) => (self.settings.tell)(&format!("raw samples: {error}")),
                }
            }
            Err(error) => {
                if !std::mem::replace(&mut self.store_fails, true) {
                    (self.settings.tell)(&format!("{}: {error}", path.display()));
                }
            }
        }
    }

    /// Sums up some of the samples in raw files that are not in the store yet.
    pub(super) fn fold_backlog(&mut self) {
        if self.backlog.is_empty() || self.store_fails || self.store.is_busy() {
            return;
        }
        let folded = self.backlog.fold_some(&mut self.store.store());
        match folded {
            Ok(Some(folded)) => {
                self.summed.insert(folded.file, folded.bytes);
            }
            Ok(None) => {}
            Err(error) if error.is_corrupt() => self.begin_anew(&error),
            Err(error) => info!(%error, "raw samples wait"),
        }
        self.tell_of_backlog();
    }

    pub(super) fn tell_of_backlog(&mut self) {
        for unread in self.backlog.unread.drain(..) {
            (self.settings.tell)(&format!("raw samples: {unread}: not in the store's sums"));
        }
        if self.backlog.is_empty() && self.backlog.samples > 0 {
            let samples = std::mem::take(&mut self.backlog.samples);
            (self.settings.tell)(&format!(
                "{samples} samples of raw files were added to the store \
                                           again"
            ));
        }
    }

    fn closed(&mut self, closed: Result<ClosedPeriods, StoreError>) {
        self.closed = Monotonic::now();
        match closed {
            Ok(ClosedPeriods { closed, damaged }) => {
                if damaged > 0 {
                    let path = self.settings.store.display();
                    let what = format!("{path}: {damaged} damaged rollups are left out");
                    (self.settings.tell)(&what);
                }
                // Close the rest right away, except for a flush in between.
                if closed > 0 {
                    self.closed = self.closed - CLOSE_EVERY;
                }
            }
            Err(error) if error.is_corrupt() => self.begin_anew(&error),
            Err(error) => info!(%error, "hours stay open for now"),
        }
    }

    /// Starts deleting data that is too old or too much.
    fn retain(&mut self) {
        let RawLimits { age, bytes } = self.settings.recorded.raw_limits;
        let retention = self.settings.recorded.retention;
        let files = raw_files(&self.settings.raw).unwrap_or_default();
        let days = KeptDays::of_files(&files, age);
        let outdated = outdated(&files, self.days.path(), &days.first, bytes);
        let outdated = outdated.into_iter().map(|file| file.path.clone()).collect();
        let now = unix_seconds().min(days.end.unwrap_or(i64::MAX));
        self.store.begin(Job::Retain { outdated, retention, now });
    }

    fn retained(&mut self, retained: &Result<Retained, StoreError>) {
        self.retained = Monotonic::now();
        match retained {
            // The rest soon, but not at once.
            Ok(retained) if retained.unfinished => {
                self.retained = self.retained - (RETAIN_EVERY - Duration::from_secs(1));
            }
            Ok(_) => {}
            Err(error) => info!(%error, "old rollups are kept for now"),
        }
    }
}

fn unix_seconds() -> i64 {
    i64::try_from(Realtime::now().unix_nanos() / 1_000_000_000).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::{Receiver, channel};

    use firstbyte_monitor::store::{StoreReader, StoredEvent};

    use super::*;
    use crate::recording::changes::Watch;
    use crate::recording::tests::Scene;

    /// Readers that opened the old store have a file that nobody writes any more, so they are told to open the new one.
    #[test]
    fn events_are_kept_in_a_store_that_is_made_anew_and_readers_are_told_of_it() {
        let scene = Scene::new();
        let (events, to_keep) = channel();
        let (watched, to_watch) = channel();
        let mut worker =
            Worker::open(scene.settings(&["a"]), Arc::default(), to_keep, watched).unwrap();
        let told_series = |to_watch: &Receiver<Watch>| {
            to_watch.try_iter().filter(|told| matches!(told, Watch::Series(_))).count()
        };
        let kept = |reader: &StoreReader| reader.events(0, i64::MAX).unwrap().len();
        assert_eq!(told_series(&to_watch), 1);
        let event = |id: &str| StoredEvent {
            id: id.to_owned(),
            at: 1_795_392_000,
            state: "confirmed".to_owned(),
            json: "{}".to_owned(),
        };
        let damaged = StoreError::Version { path: scene.store(), version: 0 };
        for number in 0..2 {
            let before = StoreReader::open(&scene.store()).unwrap();
            worker.begin_anew(&damaged);
            assert_eq!(told_series(&to_watch), 1);
            let after = StoreReader::open(&scene.store()).unwrap();
            assert_eq!((after.series().unwrap().len(), kept(&after)), (1, 0));
            events.send(event(&number.to_string())).unwrap();
            worker.keep_new_events();
            assert_eq!((kept(&before), kept(&after)), (number, 1));
        }
        // The damaged store was moved, but the new one could not be created.
        for ending in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{ending}", scene.store().display()));
        }
        worker.begin_anew(&damaged);
        assert_eq!(told_series(&to_watch), 1);
        assert!(scene.told().ends_with("rebuilt from raw samples"), "{}", scene.told());
    }
}
