//! Errors of a store.

use std::fmt;
use std::path::PathBuf;

use rusqlite::ErrorCode;

/// Why a store could not be read or written.
#[derive(Debug)]
pub enum StoreError {
    /// An error of SQLite.
    Sqlite {
        /// The operation that failed.
        what: &'static str,
        /// Why it failed.
        source: rusqlite::Error,
    },
    /// A later version of the program wrote the store.
    Version {
        /// Path of the store.
        path: PathBuf,
        /// Version of the store.
        version: i64,
    },
    /// The store's file could not be moved or created.
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Why it failed.
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

    /// Whether the file is damaged, or is not a store.
    pub fn is_corrupt(&self) -> bool {
        matches!(self.code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
    }

    /// Whether the disk is full.
    pub fn is_full(&self) -> bool {
        matches!(self.code(), Some(ErrorCode::DiskFull))
    }

    /// Whether another process holds a lock. A later attempt may work.
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
