//! The thread that writes raw samples first, then their rollups.
//!
//! A sample is written when it arrives. It counts as kept once its line is on the disk; the thread syncs once a second.
//! Every few seconds, one transaction adds rollups to the store together with the position in the raw files that they
//! cover. Neither a full disk nor a store locked by another process ends the thread: it reports the problem, makes room
//! by deleting the oldest raw file, and continues when it can.

mod in_step;
mod queue;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use firstbyte_clock::{Monotonic, Realtime, day_stamp};
use firstbyte_core::document::run::RunHeader;
use firstbyte_core::run::Taken;
use firstbyte_monitor::budget::Promise;
use firstbyte_monitor::detect::LatestSamples;
use firstbyte_monitor::outages::Outcome;
use firstbyte_monitor::rollup::Rollup;
use firstbyte_monitor::store::{
    PendingRollups, Retention, SeriesId, SeriesLabels, StoreError, StoredEvent,
};
use firstbyte_probe::probe::describe_io;
use tracing::info;

use self::queue::SampleQueue;
use super::backlog::Backlog;
use super::budgets::{BudgetWatch, Promised};
use super::changes::{ChangeWatch, Outlets, Watch, WatchedSeries};
use super::labels::series_labels;
use super::observed::{Health, Observed};
use super::opening::{Prepared, lock, prepare_or_begin_anew};
use super::raw::{RawLimits, raw_files};
use super::store_thread::{StoreThread, Summed};
use crate::parallel::side_by_side;
use crate::runs::{DayWriter, RunError};
use crate::webhooks::Notices;

/// Maximum number of samples per write. Writes to a busy disk can take half a second each, so a small batch would limit
/// the number of samples per second.
const MOST_AT_ONCE: usize = 10_000;
/// Interval between syncs of raw samples.
///
/// Each sync costs a page of the file and two or three of the file system's journal. With a sync for each of 33 samples
/// a second, these pages were most of the bytes written.
const SYNC_EVERY: Duration = Duration::from_secs(1);
/// Interval between store updates, longer if an update takes long.
///
/// Series are measured in no particular order, so each update writes most pages that hold the minute's rows: with 2,000
/// series a minute 3.2 MB a minute, or 5.9 MB when updating every five seconds (measured with rows of 370 bytes).
const FLUSH_EVERY: Duration = Duration::from_secs(10);
/// More pending rollups than this are flushed sooner: with 50,000 series a minute, ten seconds of them take some 80 MB.
const MANY_SUMS: usize = 2_000;
const FLUSH_MANY_EVERY: Duration = Duration::from_secs(5);
/// A flush may take at most one part in this many of the time.
const FLUSH_SHARE: u32 = 10;
/// How often to check whether a store job has finished.
const STORE_LOOK_EVERY: Duration = Duration::from_millis(20);
/// How often to look for finished hours and days.
const CLOSE_EVERY: Duration = Duration::from_secs(60);
/// How often to look for old rollups and files.
const RETAIN_EVERY: Duration = Duration::from_secs(60);
/// Maximum number of samples summed up before they are counted; their rollups take some megabytes.
const SUMMED_TOGETHER: usize = 1_024;
/// Samples that one processor sums up at a time, which takes a few milliseconds.
const SUMMED_BY_ONE: usize = 64;
/// Maximum number of rollups in memory while the store cannot be written; the raw files have the rest.
const MOST_WAITING: usize = 50_000;

/// Reports a message to the user.
pub(crate) type Tell = Arc<dyn Fn(&str) + Send + Sync>;

/// Reports an event, as text and as JSON.
pub(crate) type TellEvent = Arc<dyn Fn(&str, &str) + Send + Sync>;

/// What a recorder keeps and where.
pub(crate) struct RecorderSettings {
    /// Directory of the raw files.
    pub(crate) raw: PathBuf,
    /// Path of the store.
    pub(crate) store: PathBuf,
    /// Series of the samples, until [`Recorder::follow`] replaces them.
    pub(crate) recorded: RecordedSeries,
    /// Receives messages about problems and recoveries.
    pub(crate) tell: Tell,
    /// Receives events.
    pub(crate) tell_event: TellEvent,
    /// Receives the current state.
    pub(crate) observed: Observed,
    /// Webhooks that receive events.
    pub(crate) notices: Notices,
}

/// Series that a recorder keeps, and for how long.
pub(crate) struct RecordedSeries {
    /// Header of each raw file.
    pub(crate) header: Arc<RunHeader>,
    /// Sampling interval of each cell in the header.
    pub(crate) periods: Vec<Duration>,
    /// Promises of each cell in the header.
    pub(crate) budgets: Vec<Vec<Promise>>,
    pub(crate) raw_limits: RawLimits,
    pub(crate) retention: Retention,
}

impl RecordedSeries {
    pub(super) fn labels(&self) -> Vec<SeriesLabels> {
        series_labels(&self.header).unwrap_or_default()
    }
}

/// Message to the recorder's thread.
#[expect(clippy::large_enum_variant, reason = "nearly all are samples")]
enum Pending {
    Sample(Taken),
    /// Cells of later samples belong to these series.
    Series(Box<RecordedSeries>),
}

/// Result of a recorder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Recorded {
    /// The last raw file written.
    pub(crate) path: PathBuf,
    /// Samples that could not be written to any raw file.
    pub(crate) lost: u64,
}

/// Handle of the recorder's thread.
pub(crate) struct Recorder {
    pending: Sender<Pending>,
    queue: Arc<SampleQueue>,
    tell: Tell,
    thread: JoinHandle<Recorded>,
    changes: ChangeWatch,
    path: PathBuf,
}

/// Reason why a recorder cannot start.
#[derive(Debug)]
pub(crate) enum RecorderError {
    Raw(RunError),
    Store(StoreError),
    Thread(io::Error),
}

impl Recorder {
    /// Opens or creates the raw file and the store, and starts the thread.
    ///
    /// # Errors
    /// If either cannot be opened: another process writes it, or it is not writable.
    pub(crate) fn start(mut settings: RecorderSettings) -> Result<Self, RecorderError> {
        let tell = Arc::clone(&settings.tell);
        let tell_event = Arc::clone(&settings.tell_event);
        let notices = std::mem::take(&mut settings.notices);
        let (events, to_keep) = channel();
        let (watched, to_watch) = channel();
        let budgets = BudgetWatch::new(settings.observed.board());
        let queue = Arc::new(SampleQueue::default());
        let worker = Worker::open(settings, Arc::clone(&queue), to_keep, watched.clone())?;
        let path = worker.days.path().to_owned();
        let store = worker.settings.store.clone();
        let latest = Arc::clone(&worker.latest);
        let (pending, samples) = channel();
        let thread = std::thread::Builder::new()
            .name("recorder".into())
            .spawn(move || worker.work(&samples))
            .map_err(RecorderError::Thread)?;
        let outlets = Outlets { events, tell: Arc::clone(&tell), tell_event, notices };
        let changes = ChangeWatch::start(&store, (watched, to_watch), latest, outlets, budgets)?;
        Ok(Self { pending, queue, tell, thread, changes, path })
    }

    /// The raw file that the recorder started with.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Queues `taken` without waiting. If the queue is full, the sample is lost.
    pub(crate) fn keep(&self, taken: Taken) {
        if self.queue.admit(|what| (self.tell)(what)) {
            // The thread outlives its senders unless it panics; `finish` then panics as well.
            let _ = self.pending.send(Pending::Sample(taken));
        }
    }

    /// Whether the queue has room for a sample.
    pub(crate) fn has_room(&self) -> bool {
        self.queue.has_room()
    }

    /// Samples queued after this call belong to `series`. The queue's limit does not apply to this message.
    pub(crate) fn follow(&self, series: RecordedSeries) {
        let _ = self.pending.send(Pending::Series(Box::new(series)));
    }

    /// Waits until everything is written.
    pub(crate) fn finish(self) -> Recorded {
        self.changes.finish();
        drop(self.pending);
        self.thread.join().unwrap_or_else(|panicked| std::panic::resume_unwind(panicked))
    }
}

struct Worker {
    settings: RecorderSettings,
    queue: Arc<SampleQueue>,
    /// Held as long as the worker lives, so that no other process sums up the same raw files.
    _lock: File,
    days: DayWriter,
    /// Samples written to the raw file but perhaps not yet on the disk.
    written: Vec<Taken>,
    synced: Monotonic,
    store: StoreThread,
    series: Vec<SeriesId>,
    /// Rollups for the next flush to the store.
    sums: PendingRollups,
    /// Samples that change detection looks at first.
    latest: Arc<Mutex<LatestSamples>>,
    backlog: Backlog,
    /// New events to keep.
    events: Receiver<StoredEvent>,
    /// Tells the change detection thread which series to watch.
    watched: Sender<Watch>,
    /// Events that could not be kept yet.
    waiting: Vec<StoredEvent>,
    /// Positions in the raw files up to which samples are summed up but the store does not know it yet.
    summed: Summed,
    lost: u64,
    /// Consecutive samples lost; not zero while raw files cannot be written.
    losing: u64,
    store_fails: bool,
    /// Raw files to read again once the store is writable, because it was not for too long.
    left_to_backlog: BTreeMap<PathBuf, u64>,
    flushed: Monotonic,
    flush_took: Duration,
    closed: Monotonic,
    retained: Monotonic,
}

impl Worker {
    fn open(
        settings: RecorderSettings,
        queue: Arc<SampleQueue>,
        events: Receiver<StoredEvent>,
        watched: Sender<Watch>,
    ) -> Result<Self, RecorderError> {
        let lock = lock(&settings).map_err(RecorderError::Raw)?;
        let Prepared { store, series, labels, backlog } =
            prepare_or_begin_anew(&settings).map_err(RecorderError::Store)?;
        let RecordedSeries { header, periods, .. } = &settings.recorded;
        let days =
            DayWriter::open(&settings.raw, Arc::clone(header), periods.clone(), &backlog.files())
                .map_err(RecorderError::Raw)?;
        let store =
            StoreThread::start(store, Arc::clone(&settings.tell)).map_err(RecorderError::Thread)?;
        let now = Monotonic::now();
        let mut worker = Self {
            settings,
            queue,
            _lock: lock,
            days,
            written: Vec::new(),
            synced: now - SYNC_EVERY,
            store,
            series,
            sums: PendingRollups::default(),
            latest: Arc::new(Mutex::new(LatestSamples::default())),
            backlog,
            events,
            watched,
            waiting: Vec::new(),
            summed: Summed::new(),
            lost: 0,
            losing: 0,
            store_fails: false,
            left_to_backlog: BTreeMap::new(),
            flushed: now,
            flush_took: Duration::ZERO,
            // Soon, but not before everything has started.
            closed: now - (CLOSE_EVERY - Duration::from_secs(2)),
            retained: now - (RETAIN_EVERY - Duration::from_secs(1)),
        };
        worker.tell_of_backlog();
        worker.have_watched(&labels);
        Ok(worker)
    }

    fn work(mut self, pending: &Receiver<Pending>) -> Recorded {
        let mut batch = Vec::new();
        self.settings.observed.says(self.health());
        loop {
            match pending.recv_timeout(self.patience()) {
                Ok(first) => {
                    let rest = pending.try_iter().take(MOST_AT_ONCE - 1);
                    for one in std::iter::once(first).chain(rest) {
                        match one {
                            Pending::Sample(taken) => {
                                self.queue.take();
                                batch.push(taken);
                            }
                            Pending::Series(series) => {
                                self.write(&mut batch);
                                self.follow(*series);
                            }
                        }
                    }
                    self.write(&mut batch);
                }
                Err(RecvTimeoutError::Timeout) => self.fold_backlog(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if self.until_sync().is_zero() {
                self.acknowledge();
            }
            if let Some(lost) = self.queue.lost_before_recovery() {
                (self.settings.tell)(&format!(
                    "the disk keeps up again; {lost} samples are missing"
                ));
            }
            if let Some(done) = self.store.take_done() {
                self.take_in(done);
            }
            if !self.store.is_busy() {
                self.settings.observed.keep_annotations(&self.store.store());
                self.keep_new_events();
                self.have_store_kept();
            }
            self.settings.observed.says(self.health());
        }
        self.acknowledge();
        self.wait_for_store();
        self.flush();
        self.wait_for_store();
        self.store.finish();
        Recorded { path: self.days.path().to_owned(), lost: self.lost + self.queue.lost() }
    }

    /// How long the thread may wait for samples.
    fn patience(&self) -> Duration {
        let patience = match (self.store.is_busy(), self.backlog.is_empty()) {
            (true, _) => STORE_LOOK_EVERY,
            (false, true) => self.until_flush(),
            (false, false) => Duration::ZERO,
        };
        match self.written.is_empty() {
            true => patience,
            false => patience.min(self.until_sync()),
        }
    }

    fn until_sync(&self) -> Duration {
        SYNC_EVERY.saturating_sub(Monotonic::now().since(self.synced))
    }

    fn health(&self) -> Health {
        Health {
            runs: true,
            lost: self.lost + self.queue.lost(),
            loses: self.losing > 0 || self.queue.loses(),
            store_fails: self.store_fails,
            catches_up: !self.backlog.is_empty() || !self.left_to_backlog.is_empty(),
        }
    }

    fn until_flush(&self) -> Duration {
        let is_much = self.sums.len() >= MANY_SUMS;
        let every = if is_much { FLUSH_MANY_EVERY } else { FLUSH_EVERY };
        let every = every.max(self.flush_took * FLUSH_SHARE);
        every.saturating_sub(Monotonic::now().since(self.flushed))
    }

    /// Writes `batch` to the raw file. Its samples are counted once they are on the disk.
    fn write(&mut self, batch: &mut Vec<Taken>) {
        if batch.is_empty() {
            return;
        }
        let today = day_stamp();
        if self.days.ends_file(&today) {
            self.acknowledge();
        }
        loop {
            match self.days.write_all(batch, &today) {
                Ok(()) => {
                    self.written.append(batch);
                    return;
                }
                Err(error) if is_full(&error) && self.make_room("the disk is full") => {}
                Err(error) => {
                    self.acknowledge();
                    self.lose(&error, batch.len());
                    self.count(batch);
                    batch.clear();
                    return;
                }
            }
        }
    }

    /// Waits until everything written is on the disk, and counts it.
    pub(super) fn acknowledge(&mut self) {
        if self.written.is_empty() {
            return;
        }
        self.synced = Monotonic::now();
        let mut written = std::mem::take(&mut self.written);
        let mut synced = self.days.sync(&written);
        loop {
            match synced {
                Ok(()) => {
                    if std::mem::take(&mut self.losing) > 0 {
                        let (path, lost) = (self.days.path().display(), self.lost);
                        let what = format!("{path} is writable again; {lost} samples are missing");
                        (self.settings.tell)(&what);
                    }
                    break;
                }
                Err(error) if is_full(&error) && self.make_room("the disk is full") => {
                    // The failed sync cut the samples off.
                    let again = self.days.write_all(&mut written, &day_stamp());
                    synced = again.and_then(|()| self.days.sync(&written));
                }
                Err(error) => {
                    self.lose(&error, written.len());
                    break;
                }
            }
        }
        self.count(&written);
        written.clear();
        self.written = written;
    }

    /// Counts `number` samples as lost.
    fn lose(&mut self, error: &io::Error, number: usize) {
        if self.losing == 0 {
            let (path, why) = (self.days.path().display(), describe_io(error));
            (self.settings.tell)(&format!("cannot write {path}: {why}; samples are lost"));
        }
        self.losing += number as u64;
        self.lost += number as u64;
    }

    /// Counts `samples`, the last ones of the raw file.
    fn count(&mut self, samples: &[Taken]) {
        let now = Realtime::now().unix_nanos();
        let to_store = self.left_to_backlog.is_empty();
        let latest = Arc::clone(&self.latest);
        let mut latest = latest.lock().unwrap_or_else(PoisonError::into_inner);
        let mut outcomes = Vec::with_capacity(samples.len());
        for samples in samples.chunks(SUMMED_TOGETHER) {
            for (taken, one) in samples.iter().zip(sums_of_each(samples)) {
                let began = taken.sample.connection.started_unix_ns.unwrap_or(now);
                self.settings.observed.count(taken, began, &one);
                // No series before they have been added to the store.
                let Some(series) = self.series.get(usize::from(taken.cell)) else { continue };
                if to_store {
                    self.sums.add(*series, began, &one);
                }
                let at = i64::try_from(began / 1_000_000).unwrap_or(i64::MAX);
                latest.add(u64::from(*series), at, &one);
                outcomes.push(outcome(*series, at, taken));
            }
        }
        drop(latest);
        // The receiver may have ended; the end of its thread reports why.
        let _ = self.watched.send(Watch::Outcomes(outcomes));
        if to_store {
            self.summed.insert(file_name(self.days.path()), self.days.length());
        } else {
            self.leave_file_to_backlog();
        }
    }

    /// Later samples belong to `recorded`.
    fn follow(&mut self, recorded: RecordedSeries) {
        self.acknowledge();
        self.settings.recorded = recorded;
        let labels = self.settings.recorded.labels();
        self.settings.observed.follow(labels.clone());
        let RecordedSeries { header, periods, .. } = &self.settings.recorded;
        let mut not = self.backlog.files();
        not.extend(self.left_to_backlog.keys().cloned());
        self.days.follow(Arc::clone(header), periods.clone(), not);
        self.wait_for_store();
        let enrolled = self.store.store().enrol(&labels);
        match enrolled {
            Ok(series) => self.series = series,
            // Raw files keep the samples until the series can be added to the store.
            Err(error) => {
                info!(%error, "series cannot be added to the store now");
                self.series.clear();
                self.leave_to_backlog();
                if error.is_corrupt() {
                    self.begin_anew(&error);
                }
            }
        }
        self.have_watched(&labels);
    }

    /// Starts change detection for the current series, which have these labels, in the current store.
    fn have_watched(&self, labels: &[SeriesLabels]) {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        latest.keep_alone(&self.series.iter().copied().map(u64::from).collect());
        drop(latest);
        // The receiver may have ended; the end of its thread reports why.
        let ids = self.series.iter().copied();
        let promised = ids.clone().zip(labels).zip(&self.settings.recorded.budgets);
        let promised = promised.filter(|(_, budget)| !budget.is_empty());
        let promised = promised.map(|((id, labels), budget)| Promised {
            id,
            labels: labels.clone(),
            budget: budget.clone(),
        });
        let _ = self.watched.send(Watch::Budgets(promised.collect()));
        let periods = &self.settings.recorded.periods;
        let watched = ids.zip(labels).zip(periods).map(|((id, labels), every)| WatchedSeries {
            id,
            labels: labels.clone(),
            every: *every,
        });
        let _ = self.watched.send(Watch::Series(watched.collect()));
    }

    /// Deletes the oldest raw file other than the current one. Returns whether it deleted one.
    fn make_room(&mut self, why: &str) -> bool {
        let files = raw_files(&self.settings.raw).unwrap_or_default();
        let oldest = files.iter().find(|file| file.path != self.days.path());
        let Some(oldest) = oldest.filter(|oldest| std::fs::remove_file(&oldest.path).is_ok())
        else {
            return false;
        };
        (self.settings.tell)(&format!("{why}: {} is deleted", oldest.path.display()));
        true
    }
}

/// Each of `samples` summed up alone. Large batches use all processors, since attributing a visit's time is the slowest
/// step of handling a sample.
fn sums_of_each(samples: &[Taken]) -> Vec<Rollup> {
    let sums = |samples: &[Taken]| -> Vec<Rollup> {
        let one = |taken: &Taken| {
            let mut one = Rollup::default();
            one.add(taken);
            one
        };
        samples.iter().map(one).collect()
    };
    if samples.len() <= SUMMED_BY_ONE {
        return sums(samples);
    }
    let parts: Vec<&[Taken]> = samples.chunks(SUMMED_BY_ONE).collect();
    side_by_side(parts.len(), |part| sums(parts[part])).into_iter().flatten().collect()
}

/// Outcome of a sample of `series` that began at `at`.
fn outcome(series: SeriesId, at: i64, taken: &Taken) -> Outcome {
    let failure = taken.sample.failure();
    Outcome {
        series: u64::from(series),
        at,
        stands_for: taken.stands_for.unwrap_or_default(),
        failure: failure.map(|failure| failure.failure_type()),
        status: taken.sample.connection.facts.http.as_ref().and_then(|http| http.status),
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

fn file_name(path: &Path) -> String {
    path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}
