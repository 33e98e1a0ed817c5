//! Stored events and annotations: detected changes, and what people noted.

use std::collections::BTreeMap;

use rusqlite::{Connection, params};

use super::StoreError;

/// Longest time, in seconds, that an outage may have begun before a period to be found.
const LONGEST_OUTAGE: i64 = 400 * 86_400;

/// A stored event: its JSON, and the columns for lookups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredEvent {
    /// Identity of the event, which stays the same when the event changes.
    pub id: String,
    /// When it happened, seconds since the Unix epoch.
    pub at: i64,
    /// State: "provisional", "confirmed", "withdrawn".
    pub state: String,
    /// The complete event as JSON.
    pub json: String,
}

/// Something that a person noted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Annotation {
    /// When it happened, seconds since the Unix epoch.
    pub at: i64,
    /// Text of the annotation.
    pub text: String,
    /// The annotation concerns the series that have all these tags.
    pub tags: BTreeMap<String, String>,
}

pub(super) fn put_event(connection: &Connection, event: &StoredEvent) -> Result<(), StoreError> {
    let StoredEvent { id, at, state, json } = event;
    connection
        .prepare_cached(
            "INSERT INTO event (id, at, state, body) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (id) DO UPDATE SET at = ?2, state = ?3, body = ?4",
        )
        .and_then(|mut statement| statement.execute(params![id, at, state, json]))
        .map(drop)
        .map_err(StoreError::sqlite("store an event"))
}

/// Events in `from..until`, latest first, including outages that began before and lasted until then.
pub(super) fn events(
    connection: &Connection,
    from: i64,
    until: i64,
) -> Result<Vec<StoredEvent>, StoreError> {
    let read = || {
        let mut statement = connection.prepare_cached(
            "SELECT id, at, state, body FROM event
             WHERE at < ?2 AND (at >= ?1 OR at >= ?1 - ?3 AND CASE WHEN json_valid(body)
                 THEN json_extract(body, '$.kind') = 'outage'
                     AND unixepoch(coalesce(json_extract(body, '$.ended'), '9999-01-01')) >= ?1
                 END)
             ORDER BY at DESC, id",
        )?;
        let events = statement.query_map(params![from, until, LONGEST_OUTAGE], |row| {
            Ok(StoredEvent {
                id: row.get(0)?,
                at: row.get(1)?,
                state: row.get(2)?,
                json: row.get(3)?,
            })
        })?;
        events.collect::<Result<Vec<_>, _>>()
    };
    read().map_err(StoreError::sqlite("read events"))
}

pub(super) fn put_annotation(
    connection: &Connection,
    annotation: &Annotation,
) -> Result<(), StoreError> {
    let tags = serde_json::to_string(&annotation.tags).unwrap_or_else(|_| "{}".to_owned());
    connection
        .prepare_cached("INSERT INTO annotation (at, text, tags) VALUES (?1, ?2, ?3)")
        .and_then(|mut statement| statement.execute(params![annotation.at, annotation.text, tags]))
        .map(drop)
        .map_err(StoreError::sqlite("store an annotation"))
}

pub(super) fn annotations(
    connection: &Connection,
    from: i64,
    until: i64,
) -> Result<Vec<Annotation>, StoreError> {
    let read = || {
        let mut statement = connection.prepare_cached(
            "SELECT at, text, tags FROM annotation WHERE at >= ?1 AND at < ?2 ORDER BY at, id",
        )?;
        let annotations = statement.query_map(params![from, until], |row| {
            let tags: String = row.get(2)?;
            let tags = serde_json::from_str(&tags).unwrap_or_default();
            Ok(Annotation { at: row.get(0)?, text: row.get(1)?, tags })
        })?;
        annotations.collect::<Result<Vec<_>, _>>()
    };
    read().map_err(StoreError::sqlite("read annotations"))
}
