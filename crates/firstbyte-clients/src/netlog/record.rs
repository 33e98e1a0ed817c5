//! Events of a log by source, and which sources belong together.
//!
//! Input: events in order. Output: sources with the browser's numbers for them. Files contain these numbers. Traces do
//! not; there they are derived from the event by which another source refers to a new one. The network stack has one
//! thread, which logs a new socket, and right after it the source that requested it.

use std::collections::HashMap;

use super::{NetLogEvent, NetLogPhase};

/// A complete network log.
#[derive(Debug, Default)]
pub struct NetLogRecord {
    events: Vec<NetLogEvent>,
    by_source: HashMap<u64, Vec<usize>>,
    source_of_number: HashMap<u64, u64>,
    /// New sources whose numbers are still unknown.
    unnumbered: Vec<(u64, &'static str)>,
}

/// Kinds of sources whose numbers are needed, their first event, and the events that refer to the newest of them.
const NUMBERED: [(&str, &str, &[&str]); 3] = [
    (
        "SOCKET",
        "SOCKET_ALIVE",
        &["TCP_CONNECT_JOB_CONNECTOR_CONNECT_START", "CONNECT_JOB_SET_SOCKET"],
    ),
    (
        "QUIC_SESSION",
        "QUIC_SESSION",
        &["QUIC_SESSION_CREATED", "HTTP_STREAM_REQUEST_BOUND_TO_QUIC_SESSION"],
    ),
    ("HTTP2_SESSION", "HTTP2_SESSION", &["HTTP2_SESSION_POOL_IMPORTED_SESSION_FROM_SOCKET"]),
];

impl NetLogRecord {
    /// Adds the next event.
    pub fn push(&mut self, event: NetLogEvent) {
        if let Some(number) = event.source_number {
            self.source_of_number.insert(number, event.source);
        } else {
            self.learn(&event);
        }
        self.by_source.entry(event.source).or_default().push(self.events.len());
        self.events.push(event);
    }

    fn learn(&mut self, event: &NetLogEvent) {
        for (kind, begins_with, named_by) in NUMBERED {
            if &*event.source_kind == kind && event.begins(begins_with) {
                self.unnumbered.push((event.source, kind));
            }
            let Some(number) = event.dependency().filter(|_| named_by.contains(&&*event.name))
            else {
                continue;
            };
            if self.source_of_number.contains_key(&number) {
                continue;
            }
            let newest = self.unnumbered.iter().rposition(|(_, of_kind)| *of_kind == kind);
            if let Some(newest) = newest {
                let (source, _) = self.unnumbered.remove(newest);
                self.source_of_number.insert(number, source);
            }
        }
    }

    /// Number of events.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether the log has no events.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// All events, in order.
    pub fn events(&self) -> impl DoubleEndedIterator<Item = &NetLogEvent> {
        self.events.iter()
    }

    /// The events of a source, in order.
    pub fn of_source(&self, source: u64) -> impl DoubleEndedIterator<Item = &NetLogEvent> {
        let places = self.by_source.get(&source).map(Vec::as_slice).unwrap_or_default();
        places.iter().map(|place| &self.events[*place])
    }

    /// The events of a source with their positions in the whole log.
    pub fn placed(&self, source: u64) -> impl DoubleEndedIterator<Item = (usize, &NetLogEvent)> {
        let places = self.by_source.get(&source).map(Vec::as_slice).unwrap_or_default();
        places.iter().map(|place| (*place, &self.events[*place]))
    }

    /// The source with the browser's number `number`.
    pub fn numbered(&self, number: u64) -> Option<u64> {
        self.source_of_number.get(&number).copied()
    }

    /// The browser's number of `source`.
    pub fn number_of(&self, source: u64) -> Option<u64> {
        self.source_of_number.iter().find(|(_, known)| **known == source).map(|(number, _)| *number)
    }

    /// The kind of `source`.
    pub fn kind(&self, source: u64) -> Option<&str> {
        self.of_source(source).next().map(|event| &*event.source_kind)
    }

    /// Start and end of the last `name` on `source` that started at or after `from_us`.
    pub fn span(&self, source: u64, name: &str, from_us: i64) -> Option<(i64, Option<i64>)> {
        let mut found = None;
        for event in self.of_source(source).filter(|event| &*event.name == name) {
            match event.phase {
                NetLogPhase::Begin if event.at_us >= from_us => found = Some((event.at_us, None)),
                NetLogPhase::End => {
                    if let Some((_, end @ None)) = &mut found {
                        *end = Some(event.at_us);
                    }
                }
                _ => {}
            }
        }
        found
    }
}
