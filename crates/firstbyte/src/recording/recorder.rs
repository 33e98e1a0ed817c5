//! The thread that writes: raw samples first, then their sums.
//!
//! A sample counts as kept once its line is on the disk; what is pending together is written together. Sums go into the store
//! every few seconds, in one transaction with how far the raw files are in them. Neither a full disk nor a store that somebody
//! else holds ends it: it says so, makes room by deleting the oldest raw file, and goes on when it can.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use firstbyte_clock::{Monotonic, Realtime, file_stamp};
use firstbyte_core::document::run::RunHeader;
use firstbyte_core::run::Taken;
use firstbyte_monitor::store::{Folded, Retention, SeriesId, Store, StoreError, StoredEvent};
use firstbyte_probe::probe::describe_io;
use tracing::{debug, info};

use super::backlog::Backlog;
use super::changes::ChangeWatch;
use super::labels::series_labels;
use super::raw::{RawLimits, outdated, raw_files};
use crate::runs::{DayWriter, RunError};

/// Samples on their way to the disk, at most: a disk that is slower than that holds measuring up.
const MOST_PENDING: usize = 10_000;
/// Samples that are written together, at most.
const MOST_AT_ONCE: usize = 1_000;
/// The store is brought up to date this often, or less often where that takes long.
const FLUSH_EVERY: Duration = Duration::from_secs(5);
/// A flush is not to take more than this share of the thread's time: one in so many.
const FLUSH_SHARE: u32 = 10;
/// Old rollups and files are looked for this often.
const RETAIN_EVERY: Duration = Duration::from_secs(60);
/// How long its start may take for what an earlier process left.
const LONGEST_START: Duration = Duration::from_millis(1_500);
/// Rollups that wait in memory for a store that cannot be written, at most; the raw files have the rest.
const MOST_WAITING: usize = 50_000;

/// Who is told in words.
pub(crate) type Tell = Arc<dyn Fn(&str) + Send + Sync>;

/// What a recorder keeps, and where.
pub(crate) struct RecorderSettings {
    /// Where raw files are.
    pub(crate) raw: PathBuf,
    /// The store.
    pub(crate) store: PathBuf,
    /// What each raw file begins with.
    pub(crate) header: RunHeader,
    /// Of the header's cells, from one sample to the next.
    pub(crate) periods: Vec<Duration>,
    pub(crate) raw_limits: RawLimits,
    pub(crate) retention: Retention,
    /// Told what went wrong, and what goes on again.
    pub(crate) tell: Tell,
}

/// What a recorder came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Recorded {
    /// The raw file that was written last.
    pub(crate) path: PathBuf,
    /// Samples that could not be written to any.
    pub(crate) lost: u64,
}

/// A handle on the thread.
pub(crate) struct Recorder {
    pending: SyncSender<Taken>,
    thread: JoinHandle<Recorded>,
    changes: ChangeWatch,
    path: PathBuf,
}

/// Why a recorder could not be started.
#[derive(Debug)]
pub(crate) enum RecorderError {
    Raw(RunError),
    Store(StoreError),
    Thread(io::Error),
}

impl Recorder {
    /// Opens, or makes, what is written to, and begins.
    ///
    /// # Errors
    /// When it cannot be opened: another process writes it, or there is no way to write there.
    pub(crate) fn start(settings: RecorderSettings) -> Result<Self, RecorderError> {
        let tell = Arc::clone(&settings.tell);
        let (events, to_keep) = channel();
        let worker = Worker::open(settings, to_keep)?;
        let path = worker.days.path().to_owned();
        let store = worker.store.path().to_owned();
        let labels = series_labels(&worker.settings.header).unwrap_or_default();
        let series: Vec<_> = worker.series.iter().copied().zip(labels).collect();
        let (pending, samples) = sync_channel(MOST_PENDING);
        let thread = std::thread::Builder::new()
            .name("recorder".into())
            .spawn(move || worker.work(&samples))
            .map_err(RecorderError::Thread)?;
        let changes = ChangeWatch::start(&store, &series, events, tell)?;
        Ok(Self { pending, thread, changes, path })
    }

    /// The raw file that it began with.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Hands `taken` over. Waits only where far too many are pending.
    pub(crate) fn keep(&self, taken: Taken) {
        // It ends after its senders do, unless it panicked, which `finish` then does as well.
        let _ = self.pending.send(taken);
    }

    /// Waits until all is written.
    pub(crate) fn finish(self) -> Recorded {
        self.changes.finish();
        drop(self.pending);
        self.thread.join().unwrap_or_else(|panicked| std::panic::resume_unwind(panicked))
    }
}

struct Worker {
    settings: RecorderSettings,
    /// Held for as long as this lives: nobody else sums up the same raw files.
    _lock: File,
    days: DayWriter,
    store: Store,
    series: Vec<SeriesId>,
    backlog: Backlog,
    /// Events to keep.
    events: Receiver<StoredEvent>,
    /// Those that could not be kept yet.
    waiting: Vec<StoredEvent>,
    /// How far raw files are summed up, where the store does not know it yet.
    summed: BTreeMap<String, u64>,
    lost: u64,
    /// Samples that were lost in a row: raw files cannot be written now.
    losing: u64,
    store_fails: bool,
    /// The store could not be written for so long that raw files are read again when it can.
    left_to_backlog: Option<(PathBuf, u64)>,
    flushed: Monotonic,
    flush_took: Duration,
    retained: Monotonic,
}

impl Worker {
    fn open(
        settings: RecorderSettings,
        events: Receiver<StoredEvent>,
    ) -> Result<Self, RecorderError> {
        let lock = lock(&settings).map_err(RecorderError::Raw)?;
        let Prepared { store, series, backlog } =
            prepare_or_begin_anew(&settings).map_err(RecorderError::Store)?;
        let (header, periods) = (settings.header.clone(), settings.periods.clone());
        let days = DayWriter::open(&settings.raw, header, periods, &backlog.files())
            .map_err(RecorderError::Raw)?;
        let now = Monotonic::now();
        let mut worker = Self {
            settings,
            _lock: lock,
            days,
            store,
            series,
            backlog,
            events,
            waiting: Vec::new(),
            summed: BTreeMap::new(),
            lost: 0,
            losing: 0,
            store_fails: false,
            left_to_backlog: None,
            flushed: now,
            flush_took: Duration::ZERO,
            retained: now,
        };
        worker.tell_of_backlog();
        Ok(worker)
    }

    fn work(mut self, samples: &Receiver<Taken>) -> Recorded {
        let mut batch = Vec::new();
        loop {
            let wait = if self.backlog.is_empty() { self.until_flush() } else { Duration::ZERO };
            match samples.recv_timeout(wait) {
                Ok(taken) => {
                    batch.push(taken);
                    batch.extend(samples.try_iter().take(MOST_AT_ONCE - 1));
                    self.write(&mut batch);
                }
                Err(RecvTimeoutError::Timeout) => self.fold_backlog(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if self.until_flush().is_zero() {
                self.flush();
            }
            if Monotonic::now().since(self.retained) >= RETAIN_EVERY {
                self.retain();
            }
        }
        self.flush();
        Recorded { path: self.days.path().to_owned(), lost: self.lost }
    }

    fn until_flush(&self) -> Duration {
        let every = FLUSH_EVERY.max(self.flush_took * FLUSH_SHARE);
        every.saturating_sub(Monotonic::now().since(self.flushed))
    }

    /// Writes `batch` to the raw file, and counts it.
    fn write(&mut self, batch: &mut Vec<Taken>) {
        let number = batch.len() as u64;
        loop {
            match self.days.append_all(batch) {
                Ok(()) => {
                    if std::mem::take(&mut self.losing) > 0 {
                        let (path, lost) = (self.days.path().display(), self.lost);
                        let what =
                            format!("{path} can be written again; {lost} samples are missing");
                        (self.settings.tell)(&what);
                    }
                    break;
                }
                Err(error) if is_full(&error) && self.make_room("the disk is full") => {}
                Err(error) => {
                    if self.losing == 0 {
                        let (path, why) = (self.days.path().display(), describe_io(&error));
                        let what = format!("cannot write {path}: {why}: samples are lost");
                        (self.settings.tell)(&what);
                    }
                    self.losing += number;
                    self.lost += number;
                    break;
                }
            }
        }
        if self.left_to_backlog.is_none() {
            let now = Realtime::now().unix_nanos();
            for taken in &*batch {
                let began = taken.sample.connection.started_unix_ns.unwrap_or(now);
                if let Some(series) = self.series.get(usize::from(taken.cell)) {
                    self.store.add(*series, began, taken);
                }
            }
            self.summed.insert(file_name(self.days.path()), self.days.length());
        }
        batch.clear();
    }

    /// Brings the store up to date.
    fn flush(&mut self) {
        let began = Monotonic::now();
        let folded: Vec<Folded> = self
            .summed
            .iter()
            .map(|(file, bytes)| Folded { file: file.clone(), bytes: *bytes })
            .collect();
        let flushed = loop {
            match self.store.flush(&folded) {
                Err(error) if error.is_full() && self.make_room("the disk is full") => {}
                flushed => break flushed,
            }
        };
        match flushed {
            Ok(flushed) => {
                self.summed.clear();
                self.keep_events();
                if flushed.damaged > 0 {
                    let (number, path) = (flushed.damaged, self.store.path().display());
                    (self.settings.tell)(&format!("{path}: {number} damaged rollups begin anew"));
                }
                if std::mem::take(&mut self.store_fails) {
                    let path = self.store.path().display();
                    (self.settings.tell)(&format!("{path} can be written again"));
                }
                self.read_again();
            }
            Err(error) if error.is_corrupt() => self.begin_anew(&error),
            Err(error) => {
                if !std::mem::replace(&mut self.store_fails, true) {
                    let path = self.store.path().display();
                    (self.settings.tell)(&format!("{path}: {error}: tried again later"));
                }
                if self.store.pending() > MOST_WAITING {
                    self.leave_to_backlog();
                }
            }
        }
        let now = Monotonic::now();
        (self.flushed, self.flush_took) = (now, now.since(began));
        debug!(took = ?self.flush_took, "the store is up to date");
    }

    fn keep_events(&mut self) {
        self.waiting.extend(self.events.try_iter());
        let store = &self.store;
        self.waiting.retain(|event| store.put_event(event).is_err());
    }

    /// Gives up what waits in memory: the raw files have it.
    fn leave_to_backlog(&mut self) {
        let path = self.days.path().to_owned();
        let folded = self.store.folded().ok();
        let known = folded
            .and_then(|folded| folded.into_iter().find(|folded| folded.file == file_name(&path)));
        self.left_to_backlog = Some((path, known.map_or(0, |folded| folded.bytes)));
        self.store.discard_pending();
        self.summed.clear();
    }

    /// After a store could be written again, has raw files read that it missed.
    fn read_again(&mut self) {
        let Some((path, bytes)) = self.left_to_backlog.take() else { return };
        // What is read again must not grow.
        match self.days.begin_another() {
            Ok(()) => self.backlog.push(path, bytes),
            Err(error) => {
                info!(%error, "cannot begin another raw file");
                self.left_to_backlog = Some((path, bytes));
            }
        }
    }

    /// The store is damaged: it is moved aside, and made again from raw files.
    fn begin_anew(&mut self, error: &StoreError) {
        let path = self.settings.store.clone();
        let anew = Store::move_aside(&path, &file_stamp()).and_then(|aside| {
            let mut store = Store::open(&path)?;
            let labels = series_labels(&self.settings.header).unwrap_or_default();
            let series = store.enrol(&labels)?;
            Ok((aside, store, series))
        });
        match anew {
            Ok((aside, store, series)) => {
                let (path, aside) = (path.display(), aside.display());
                (self.settings.tell)(&format!(
                    "{path}: {error}: moved to {aside}, and made again from raw samples"
                ));
                (self.store, self.series) = (store, series);
                self.summed.clear();
                self.left_to_backlog = None;
                // All files but the new one are read again.
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

    /// Sums up some of what raw files have and the store has not.
    fn fold_backlog(&mut self) {
        if self.backlog.is_empty() || self.store_fails {
            return;
        }
        match self.backlog.fold_some(&mut self.store) {
            Ok(Some(folded)) => {
                self.summed.insert(folded.file, folded.bytes);
            }
            Ok(None) => {}
            Err(error) => info!(%error, "raw samples wait"),
        }
        self.tell_of_backlog();
    }

    fn tell_of_backlog(&mut self) {
        for unread in self.backlog.unread.drain(..) {
            (self.settings.tell)(&format!("raw samples: {unread}: not summed up"));
        }
        if self.backlog.is_empty() && self.backlog.samples > 0 {
            let samples = std::mem::take(&mut self.backlog.samples);
            (self.settings.tell)(&format!("{samples} samples of raw files are summed up again"));
        }
    }

    /// Deletes the oldest raw file but the one that is written. Whether there was one.
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

    /// Deletes what is old, or too much.
    fn retain(&mut self) {
        let RawLimits { age, bytes } = self.settings.raw_limits;
        let now = i64::try_from(Realtime::now().unix_nanos() / 1_000_000_000).unwrap_or(0);
        let oldest = now.saturating_sub_unsigned(age.as_secs());
        let first_day = firstbyte_clock::day_stamp_of(oldest);
        let files = raw_files(&self.settings.raw).unwrap_or_default();
        let mut gone = Vec::new();
        for file in outdated(&files, self.days.path(), &first_day, bytes) {
            match std::fs::remove_file(&file.path) {
                Ok(()) => gone.push(file.name.clone()),
                Err(error) => {
                    let (path, why) = (file.path.display(), describe_io(&error));
                    (self.settings.tell)(&format!("cannot delete {path}: {why}"));
                }
            }
        }
        let retained = self
            .store
            .forget_files(&gone)
            .and_then(|()| self.store.retain(&self.settings.retention, now));
        match retained {
            // The rest soon, but not at once.
            Ok(retained) if retained.unfinished => {
                self.retained = Monotonic::now() - (RETAIN_EVERY - Duration::from_secs(1));
            }
            Ok(_) => self.retained = Monotonic::now(),
            Err(error) => {
                info!(%error, "old rollups stay for now");
                self.retained = Monotonic::now();
            }
        }
    }
}

/// Makes the directories, and sees to it that no other process writes there.
fn lock(settings: &RecorderSettings) -> Result<File, RunError> {
    let RecorderSettings { raw, store, .. } = settings;
    std::fs::create_dir_all(raw).map_err(RunError::io(raw, "create"))?;
    let path = store.with_extension("lock");
    let options =
        OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
    let file = options.map_err(RunError::io(&path, "create"))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(RunError::Locked { path }),
        Err(TryLockError::Error(error)) => Err(RunError::io(&path, "lock")(error)),
    }
}

/// A store, with as much of what an earlier process left in raw files as there is time for at a start.
struct Prepared {
    store: Store,
    series: Vec<SeriesId>,
    backlog: Backlog,
}

/// The store of `settings`; one that is damaged is moved aside.
fn prepare_or_begin_anew(settings: &RecorderSettings) -> Result<Prepared, StoreError> {
    match prepare(settings) {
        Err(error) if error.is_corrupt() => {
            let path = &settings.store;
            let aside = Store::move_aside(path, &file_stamp())?;
            let (path, aside) = (path.display(), aside.display());
            (settings.tell)(&format!(
                "{path}: {error}: moved to {aside}, and made again from raw samples"
            ));
            prepare(settings)
        }
        prepared => prepared,
    }
}

fn prepare(settings: &RecorderSettings) -> Result<Prepared, StoreError> {
    let began = Monotonic::now();
    let mut store = Store::open(&settings.store)?;
    let mut backlog = Backlog::of_store(&store, &settings.raw)?;
    while !backlog.is_empty() && Monotonic::now().since(began) < LONGEST_START {
        let folded: Vec<Folded> = backlog.fold_some(&mut store)?.into_iter().collect();
        store.flush(&folded)?;
    }
    let series = store.enrol(&series_labels(&settings.header).unwrap_or_default())?;
    Ok(Prepared { store, series, backlog })
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

fn file_name(path: &Path) -> String {
    path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}
