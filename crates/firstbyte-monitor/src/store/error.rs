//! What does not work with a store.

use std::fmt;
use std::path::PathBuf;

use rusqlite::ErrorCode;

/// Why something of a store could not be read or written.
#[derive(Debug)]
pub enum StoreError {
    /// SQLite says so.
    Sqlite {
        /// The operation that failed.
        what: &'static str,
        /// Why it failed.
        source: rusqlite::Error,
    },
    /// A later program wrote it.
    Version {
        /// Path of the store.
        path: PathBuf,
        /// Its version.
        version: i64,
    },
    /// Its file could not be moved or made.
    Io {
        /// Where.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

impl StoreError {
    pub(super) fn sqlite(what: &'static str) -> impl FnOnce(rusqlite::Error) -> Self {
        move |source| Self::Sqlite { what, source }
    }

    fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Sqlite { source, .. } => source.sqlite_error_code(),
            _ => None,
        }
    }

    /// Whether the file is damaged, or not a store.
    pub fn is_corrupt(&self) -> bool {
        matches!(self.code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
    }

    /// Whether there is no room on the disk.
    pub fn is_full(&self) -> bool {
        matches!(self.code(), Some(ErrorCode::DiskFull))
    }

    /// Whether another process has it: it may work later.
    pub fn is_locked(&self) -> bool {
        matches!(self.code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite { what, source } => write!(f, "cannot {what}: {source}"),
            Self::Version { path, version } => {
                write!(
                    f,
                    "{}: the store has version {version}; a later version of firstbyte wrote it",
                    path.display()
                )
            }
            Self::Io { path, source } => write!(f, "{}: {source}", path.display()),
        }
    }
}

impl std::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Sqlite { source, .. } => Some(source),
            Self::Io { source, .. } => Some(source),
            Self::Version { .. } => None,
        }
    }
}
