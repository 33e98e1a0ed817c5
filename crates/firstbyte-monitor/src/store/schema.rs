//! The tables, and the setup of a connection. Documented in `docs/formats.md`, "The monitor's store".

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;

use super::StoreError;

/// Version of the tables. An older store is migrated step by step.
pub(super) const SCHEMA_VERSION: i64 = 1;
/// How long to wait for another process that writes or recovers the same store.
const PATIENCE: Duration = Duration::from_secs(5);

/// Migration from version n to n + 1, by n.
const MIGRATIONS: [&str; SCHEMA_VERSION as usize] = ["
    CREATE TABLE series (
        id INTEGER PRIMARY KEY,
        place TEXT NOT NULL,
        target TEXT NOT NULL,
        variant TEXT NOT NULL,
        labels TEXT NOT NULL,
        UNIQUE (place, target, variant)
    ) STRICT;
    CREATE TABLE fact_value (
        id INTEGER PRIMARY KEY,
        fact TEXT NOT NULL,
        value TEXT NOT NULL,
        UNIQUE (fact, value)
    ) STRICT;
    CREATE TABLE rollup_minute (key INTEGER PRIMARY KEY, body BLOB NOT NULL) STRICT;
    CREATE TABLE rollup_hour (key INTEGER PRIMARY KEY, body BLOB NOT NULL) STRICT;
    CREATE TABLE rollup_day (key INTEGER PRIMARY KEY, body BLOB NOT NULL) STRICT;
    CREATE TABLE open_hour (key INTEGER PRIMARY KEY) STRICT;
    CREATE TABLE open_day (key INTEGER PRIMARY KEY) STRICT;
    CREATE TABLE folded (file TEXT PRIMARY KEY, bytes INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE event (
        id TEXT PRIMARY KEY,
        at INTEGER NOT NULL,
        state TEXT NOT NULL,
        body TEXT NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX event_at ON event (at);
    CREATE TABLE annotation (
        id INTEGER PRIMARY KEY,
        at INTEGER NOT NULL,
        text TEXT NOT NULL,
        tags TEXT NOT NULL
    ) STRICT;
    CREATE INDEX annotation_at ON annotation (at);
    CREATE VIEW rollups AS
        SELECT 'minute' AS step, key & 4294967295 AS series, (key >> 32) * 60 AS start, length(body) AS bytes FROM rollup_minute
        UNION ALL
        SELECT 'hour', key >> 32, (key & 4294967295) * 3600, length(body) FROM rollup_hour
        UNION ALL
        SELECT 'day', key >> 32, (key & 4294967295) * 86400, length(body) FROM rollup_day;
"];

/// Opens a store for writing, and creates it if it does not exist.
pub(super) fn open_to_write(path: &Path) -> Result<Connection, StoreError> {
    // Readable only by its owner, as raw files are. SQLite gives its other files the same permissions.
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)
        .map_err(|source| StoreError::Io { path: path.to_owned(), source })?;
    let failed = StoreError::sqlite("open the store");
    let connection = Connection::open(path).map_err(failed)?;
    let set = |connection: &Connection| {
        connection.busy_timeout(PATIENCE)?;
        // These two settings take effect only before the first table is created.
        connection.pragma_update(None, "page_size", 8_192)?;
        connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        // Rollups lost in a power cut are rebuilt from raw samples, which are synced.
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        connection.pragma_update(None, "cache_size", -32_768)?;
        connection.pragma_update(None, "temp_store", "MEMORY")?;
        // The writer checkpoints once a minute; SQLite does so earlier if the log has grown to 32 MB. A page written in
        // each flush of a minute is then written to the file only once.
        connection.pragma_update(None, "wal_autocheckpoint", 4_096)?;
        connection.pragma_update(None, "journal_size_limit", 64 << 20)
    };
    set(&connection).map_err(StoreError::sqlite("set up the store"))?;
    migrate(&connection, path)?;
    Ok(connection)
}

pub(super) fn open_to_read(path: &Path) -> Result<Connection, StoreError> {
    use rusqlite::OpenFlags;
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)
        .map_err(StoreError::sqlite("open the store to read"))?;
    connection.busy_timeout(PATIENCE).map_err(StoreError::sqlite("set up the store"))?;
    match version(&connection)? {
        SCHEMA_VERSION => Ok(connection),
        version => Err(StoreError::Version { path: path.to_owned(), version }),
    }
}

fn version(connection: &Connection) -> Result<i64, StoreError> {
    connection
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .map_err(StoreError::sqlite("read the store's version"))
}

fn migrate(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    let version = version(connection)?;
    let Some(missing) = usize::try_from(version).ok().and_then(|done| MIGRATIONS.get(done..))
    else {
        return Err(StoreError::Version { path: path.to_owned(), version });
    };
    for (number, migration) in (version + 1..).zip(missing) {
        let step = format!("BEGIN; {migration} PRAGMA user_version = {number}; COMMIT;");
        connection.execute_batch(&step).map_err(StoreError::sqlite("make the store's tables"))?;
    }
    Ok(())
}
