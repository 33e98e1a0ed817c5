//! The thread that performs long store jobs, such as updating it and deleting old data.
//!
//! In: jobs, one at a time. Out: the result of each job. Writing raw samples never waits for this thread.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use firstbyte_clock::Monotonic;
use firstbyte_monitor::store::{
    ClosedPeriods, Flushed, Folded, PendingRollups, Retained, Retention, Store, StoreError,
};
use firstbyte_probe::probe::describe_io;

use super::recorder::Tell;

/// Position up to which each raw file is summed up, by file name.
pub(super) type Summed = BTreeMap<String, u64>;

/// A job for the store.
pub(super) enum Job {
    /// Adds rollups, with the positions in raw files that they cover.
    Flush { sums: PendingRollups, summed: Summed },
    /// Closes hours and days that are over at `now` (seconds since 1970).
    Close { now: i64 },
    /// Deletes raw files, and rollups that are old at `now` (seconds since 1970).
    Retain { outdated: Vec<PathBuf>, retention: Retention, now: i64 },
}

/// Result of a job.
pub(super) enum Done {
    Flushed { flushed: Result<Flushed, StoreError>, summed: Summed, took: Duration },
    Closed(Result<ClosedPeriods, StoreError>),
    Retained(Result<Retained, StoreError>),
}

/// Handle of the thread.
pub(super) struct StoreThread {
    store: Arc<Mutex<Store>>,
    jobs: Sender<Job>,
    done: Receiver<Done>,
    thread: JoinHandle<()>,
    is_busy: bool,
}

impl StoreThread {
    /// Starts the thread without a job. It reports files that it cannot delete.
    pub(super) fn start(store: Store, tell: Tell) -> io::Result<Self> {
        let store = Arc::new(Mutex::new(store));
        let (jobs, to_do) = channel();
        let (tell_done, done) = channel();
        let of_thread = Arc::clone(&store);
        let thread = std::thread::Builder::new().name("store".into()).spawn(move || {
            for job in to_do {
                // The receiver may be gone.
                let _ = tell_done.send(carry_out(job, &of_thread, &tell));
            }
        })?;
        Ok(Self { store, jobs, done, thread, is_busy: false })
    }

    /// Whether a job is running or its result was not taken yet.
    pub(super) const fn is_busy(&self) -> bool {
        self.is_busy
    }

    /// Starts `job`; call only if the thread is not busy.
    pub(super) fn begin(&mut self, job: Job) {
        // The thread outlives this handle unless it panics; `finish` then panics as well.
        self.is_busy = self.jobs.send(job).is_ok();
    }

    /// Result of the job, if it is finished.
    pub(super) fn take_done(&mut self) -> Option<Done> {
        let done = self.done.try_recv().ok()?;
        self.is_busy = false;
        Some(done)
    }

    /// Waits for the result of the job, if there is one.
    pub(super) fn wait(&mut self) -> Option<Done> {
        let done = if self.is_busy { self.done.recv().ok() } else { None };
        self.is_busy = false;
        done
    }

    /// The store itself; blocks while a job uses it.
    pub(super) fn store(&self) -> MutexGuard<'_, Store> {
        lock(&self.store)
    }

    /// Ends the thread.
    pub(super) fn finish(self) {
        drop(self.jobs);
        if let Err(panicked) = self.thread.join() {
            std::panic::resume_unwind(panicked);
        }
    }
}

fn lock(store: &Mutex<Store>) -> MutexGuard<'_, Store> {
    store.lock().unwrap_or_else(PoisonError::into_inner)
}

fn carry_out(job: Job, store: &Mutex<Store>, tell: &Tell) -> Done {
    match job {
        Job::Flush { sums, summed } => {
            let began = Monotonic::now();
            let folded: Vec<Folded> = summed
                .iter()
                .map(|(file, bytes)| Folded { file: file.clone(), bytes: *bytes })
                .collect();
            let mut store = lock(store);
            store.add_pending(sums);
            let flushed = store.flush(&folded);
            Done::Flushed { flushed, summed, took: Monotonic::now().since(began) }
        }
        Job::Close { now } => Done::Closed(lock(store).close_periods(now)),
        Job::Retain { outdated, retention, now } => {
            let gone: Vec<String> =
                outdated.iter().filter(|path| delete(path, tell)).map(|path| name(path)).collect();
            let store = lock(store);
            let retained = store.forget_files(&gone).and_then(|()| store.retain(&retention, now));
            Done::Retained(retained)
        }
    }
}

/// Deletes a raw file. Returns whether it is gone.
fn delete(path: &Path, tell: &Tell) -> bool {
    match std::fs::remove_file(path) {
        Ok(()) => true,
        // The file was deleted meanwhile to make room.
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        Err(error) => {
            let (path, why) = (path.display(), describe_io(&error));
            tell(&format!("cannot delete {path}: {why}"));
            false
        }
    }
}

fn name(path: &Path) -> String {
    path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use firstbyte_monitor::rollup::Rollup;
    use firstbyte_monitor::store::SeriesLabels;

    use super::*;

    /// Only a caller that wants the result waits for a job, however long it takes.
    #[test]
    fn a_job_is_under_way_until_it_is_done() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(&directory.path().join("store.sqlite")).unwrap();
        let old = directory.path().join("2026-11-01.run");
        std::fs::write(&old, "old").unwrap();
        let mut thread = StoreThread::start(store, Arc::new(|_| {})).unwrap();
        let series = thread.store().enrol(&[SeriesLabels::default()]).unwrap()[0];
        let mut sums = PendingRollups::default();
        let mut one = Rollup::default();
        one.samples = 1;
        sums.add(series, 1_795_392_000_000_000_000, &one);
        let summed = Summed::from([("2026-11-01.run".to_owned(), 3)]);
        let held = Arc::clone(&thread.store);
        let held = held.lock().unwrap();
        thread.begin(Job::Flush { sums, summed });
        assert!(thread.is_busy() && thread.take_done().is_none());
        drop(held);
        let Some(Done::Flushed { flushed: Ok(flushed), .. }) = thread.wait() else {
            panic!("it is flushed");
        };
        assert_eq!((flushed.written, thread.is_busy()), (1, false));
        assert_eq!(thread.store().folded().unwrap()[0].bytes, 3);
        thread.begin(Job::Close { now: 1_795_392_000 + 86_400 });
        let Some(Done::Closed(Ok(closed))) = thread.wait() else { panic!("it is closed") };
        assert_eq!((closed.closed, closed.damaged), (1, 0));
        // A file that is already gone is not an error.
        let outdated = vec![old.clone(), directory.path().join("2026-11-02.run")];
        let retention = Retention { minutes: Some(60), hours: None, days: None };
        thread.begin(Job::Retain { outdated, retention, now: 1_795_392_000 + 86_400 });
        let Some(Done::Retained(Ok(retained))) = thread.wait() else { panic!("it is retained") };
        assert_eq!((retained.deleted, old.exists()), (1, false));
        assert_eq!(thread.store().folded().unwrap(), []);
        assert!(thread.wait().is_none());
        thread.finish();
    }
}
