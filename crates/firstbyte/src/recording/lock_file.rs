//! The file that a running monitor locks, so that no other monitor writes to the same directory.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// The lock file of the store at `store`.
pub(super) fn lock_path(store: &Path) -> PathBuf {
    store.with_extension("lock")
}

/// Whether a process is writing the store at `store`.
///
/// # Errors
/// If the lock file cannot be read.
pub(crate) fn is_recording(store: &Path) -> io::Result<bool> {
    let file = match File::open(lock_path(store)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    // A shared lock, released when this function returns, so that two callers do not take each other for a monitor.
    match file.try_lock_shared() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_recorded_while_its_lock_is_held() {
        let directory = tempfile::tempdir().unwrap();
        let store = directory.path().join("store.sqlite");
        assert!(!is_recording(&store).unwrap());
        let lock = File::create(lock_path(&store)).unwrap();
        assert!(!is_recording(&store).unwrap());
        lock.lock().unwrap();
        assert!(is_recording(&store).unwrap());
        drop(lock);
        assert!(!is_recording(&store).unwrap());
    }
}
