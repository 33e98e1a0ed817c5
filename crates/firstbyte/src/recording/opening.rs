//! Opens a recorder's directory, which no other process writes to, and its store, with what earlier processes left.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;

use firstbyte_clock::{Monotonic, file_stamp};
use firstbyte_monitor::store::{Folded, SeriesId, SeriesLabels, Store, StoreError};

use super::backlog::Backlog;
use super::lock_file::lock_path;
use super::recorder::RecorderSettings;
use crate::runs::RunError;

/// Time limit at a start for handling what an earlier process left.
const LONGEST_START: Duration = Duration::from_millis(1_500);

/// Creates the directories and locks them against other processes.
pub(super) fn lock(settings: &RecorderSettings) -> Result<File, RunError> {
    let RecorderSettings { raw, store, .. } = settings;
    std::fs::create_dir_all(raw).map_err(RunError::io(raw, "create"))?;
    let path = lock_path(store);
    let options =
        OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
    let file = options.map_err(RunError::io(&path, "create"))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(RunError::Locked { path }),
        Err(TryLockError::Error(error)) => Err(RunError::io(&path, "lock")(error)),
    }
}

/// A store, with as much of an earlier process's raw files as there is time for at a start.
pub(super) struct Prepared {
    pub(super) store: Store,
    pub(super) series: Vec<SeriesId>,
    /// Labels of the series. Creating them takes a tenth of a second for 50,000 series.
    pub(super) labels: Vec<SeriesLabels>,
    pub(super) backlog: Backlog,
}

/// Opens the store of `settings`; a damaged store is moved aside.
pub(super) fn prepare_or_begin_anew(settings: &RecorderSettings) -> Result<Prepared, StoreError> {
    match prepare(settings) {
        Err(error) if error.is_corrupt() => {
            let path = &settings.store;
            let aside = Store::move_aside(path, &file_stamp())?;
            let (path, aside) = (path.display(), aside.display());
            (settings.tell)(&format!(
                "{path}: {error}: moved to {aside}, and rebuilt from raw samples"
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
    let labels = settings.recorded.labels();
    let series = store.enrol(&labels)?;
    Ok(Prepared { store, series, labels, backlog })
}
