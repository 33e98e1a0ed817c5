//! The envelope of a trace: Perfetto's packets (protocol buffers), as returned by `Tracing.start` with `streamFormat:
//! proto` and the category `netlog`.
//!
//! Input: bytes of the trace, in pieces. Output: events in the order of the trace. Only the parts of Perfetto that such
//! traces use are implemented (fields by number from `trace_packet.proto`, `track_event.proto`,
//! `debug_annotation.proto`, `interned_data.proto`, `clock_snapshot.proto`); other packets and fields are skipped.
//!
//! Chromium puts each source of its log on a track, and reuses the track once the source has ended. So a track is not a
//! source. A new source is recognised if the event's kind or start time differs, which every event names, or if the
//! track's first event occurs again.

use std::collections::HashMap;
use std::rc::Rc;

use serde_json::Value;

use super::{NetLogError, NetLogEvent, NetLogPhase};

/// No packet of any trace is larger than this: events have tens of kilobytes at most.
const PACKET_LIMIT_BYTES: usize = 8 << 20;
/// Maximum number of tracks and names that are kept.
const TABLE_LIMIT: usize = 1 << 20;
/// Maximum number of open events on one track.
const DEPTH_LIMIT: usize = 1 << 10;

/// `BuiltinClock` of Perfetto.
const REALTIME: u64 = 1;
const MONOTONIC: u64 = 3;

/// Reads a trace.
#[derive(Debug, Default)]
pub struct PerfettoReader {
    unread: Vec<u8>,
    /// Offset of `unread` in the input.
    offset: u64,
    sequences: HashMap<u64, Sequence>,
    tracks: HashMap<u64, Track>,
    sources: u64,
    names: Interner,
    wall_clock: Option<WallClock>,
}

/// State of a packet sequence that its later packets refer to.
#[derive(Debug, Default)]
struct Sequence {
    event_names: HashMap<u64, Rc<str>>,
    annotation_names: HashMap<u64, Rc<str>>,
    strings: HashMap<u64, Rc<str>>,
    clocks: HashMap<u64, SequenceClock>,
    default_clock: Option<u64>,
    default_track: Option<u64>,
}

/// A clock that a sequence uses.
#[derive(Clone, Copy, Debug)]
struct SequenceClock {
    now: u64,
    unit_ns: u64,
    incremental: bool,
}

#[derive(Debug)]
struct Track {
    source: u64,
    kind: Rc<str>,
    start: Option<Rc<str>>,
    began_with: Option<Rc<str>>,
    open: Vec<Rc<str>>,
}

/// Relation between wall-clock time and the browser's monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WallClock {
    /// Wall-clock time since the Unix epoch minus the monotonic clock's time, nanoseconds.
    pub ahead_ns: i64,
}

impl WallClock {
    /// Converts a time of the log to nanoseconds since the Unix epoch.
    pub fn unix_ns(self, at_us: i64) -> Option<u64> {
        let ns = at_us.checked_mul(1000)?.checked_add(self.ahead_ns)?;
        u64::try_from(ns).ok()
    }
}

impl PerfettoReader {
    /// Reads more bytes and passes complete events to `sink`.
    ///
    /// # Errors
    /// If the bytes are not a trace.
    pub fn feed(
        &mut self,
        bytes: &[u8],
        mut sink: impl FnMut(NetLogEvent),
    ) -> Result<(), NetLogError> {
        self.unread.extend_from_slice(bytes);
        let mut unread = std::mem::take(&mut self.unread);
        let mut rest = &unread[..];
        let result = loop {
            match first_packet(rest) {
                Ok(Some((packet, after))) => {
                    if self.packet(packet, &mut sink).is_none() {
                        break Err(self.malformed("a packet is damaged"));
                    }
                    if self.tables() > TABLE_LIMIT {
                        break Err(NetLogError::TooMany { what: "names and tracks" });
                    }
                    self.offset += (rest.len() - after.len()) as u64;
                    rest = after;
                }
                Ok(None) if rest.len() > PACKET_LIMIT_BYTES => {
                    break Err(NetLogError::TooLarge {
                        offset_bytes: self.offset,
                        limit_bytes: PACKET_LIMIT_BYTES,
                    });
                }
                Ok(None) => break Ok(()),
                Err(detail) => break Err(self.malformed(detail)),
            }
        };
        let read = unread.len() - rest.len();
        unread.drain(..read);
        self.unread = unread;
        result
    }

    /// Number of bytes at the end that are not a complete packet: 0 unless the trace was truncated.
    pub const fn left_over_bytes(&self) -> usize {
        self.unread.len()
    }

    /// Relation between the log's clock and wall-clock time, if the trace has it.
    pub const fn wall_clock(&self) -> Option<WallClock> {
        self.wall_clock
    }

    const fn malformed(&self, detail: &'static str) -> NetLogError {
        NetLogError::Malformed { offset_bytes: self.offset, detail }
    }

    fn tables(&self) -> usize {
        let sequences = self.sequences.values().map(|sequence| {
            sequence.event_names.len()
                + sequence.annotation_names.len()
                + sequence.strings.len()
                + sequence.clocks.len()
        });
        self.tracks.len() + self.names.0.len() + sequences.sum::<usize>() + self.sequences.len()
    }

    /// `TracePacket`.
    fn packet(&mut self, packet: &[u8], sink: &mut impl FnMut(NetLogEvent)) -> Option<()> {
        let (mut sequence, mut flags, mut time, mut clock) = (0, 0, 0, None);
        let (mut interned, mut defaults, mut snapshot, mut event) = (None, None, None, None);
        for field in Fields(packet) {
            match field? {
                (8, Field::Number(n)) => time = n,
                (10, Field::Number(n)) => sequence = n,
                (13, Field::Number(n)) => flags = n,
                (58, Field::Number(n)) => clock = Some(n),
                (6, Field::Bytes(b)) => snapshot = Some(b),
                (11, Field::Bytes(b)) => event = Some(b),
                (12, Field::Bytes(b)) => interned = Some(b),
                (59, Field::Bytes(b)) => defaults = Some(b),
                _ => {}
            }
        }
        const STATE_CLEARED: u64 = 1;
        let state = self.sequences.entry(sequence).or_default();
        if flags & STATE_CLEARED != 0 {
            *state = Sequence::default();
        }
        if let Some(snapshot) = snapshot {
            self.wall_clock = state.clocks_set(snapshot)?.or(self.wall_clock);
        }
        if let Some(defaults) = defaults {
            state.defaults_set(defaults)?;
        }
        if let Some(interned) = interned {
            state.intern(interned, &mut self.names)?;
        }
        // The clock advances with every packet, including skipped ones.
        let at_ns = state.time(time, clock);
        let Some(event) = event else { return Some(()) };
        let event = Seen::read(event, state, &mut self.names)?;
        if let Some(event) = self.told(event, i64::try_from(at_ns / 1000).ok()?) {
            sink(event);
        }
        Some(())
    }

    /// Converts an event on a track to an event of a source.
    fn told(&mut self, seen: Seen, at_us: i64) -> Option<NetLogEvent> {
        let start = seen.params.get("source_start_time").and_then(Value::as_str);
        let same = |track: &Track| {
            seen.kind.as_ref().is_none_or(|kind| *kind == track.kind)
                && (start.is_none() || start == track.start.as_deref())
                // The track was reused, for a source with the same start time.
                && !(track.open.is_empty()
                    && seen.phase == NetLogPhase::Begin
                    && seen.name.is_some()
                    && track.began_with == seen.name)
        };
        let known = self.tracks.get(&seen.track).is_some_and(same);
        if !known {
            // An end whose beginning was not seen, or not an event of the log.
            let kind = seen.kind.clone().filter(|_| seen.phase != NetLogPhase::End)?;
            self.sources += 1;
            let track = Track {
                source: self.sources,
                kind,
                start: start.map(|start| self.names.get(start)),
                began_with: seen.name.clone().filter(|_| seen.phase == NetLogPhase::Begin),
                open: Vec::new(),
            };
            self.tracks.insert(seen.track, track);
        }
        let track = self.tracks.get_mut(&seen.track)?;
        let name = match seen.phase {
            NetLogPhase::End => track.open.pop()?,
            NetLogPhase::Begin => {
                let name = seen.name?;
                if track.open.len() < DEPTH_LIMIT {
                    track.open.push(Rc::clone(&name));
                }
                name
            }
            NetLogPhase::Point => seen.name?,
        };
        Some(NetLogEvent {
            at_us,
            source: track.source,
            source_kind: Rc::clone(&track.kind),
            source_number: None,
            name,
            phase: seen.phase,
            params: seen.params,
        })
    }
}

impl Sequence {
    /// `ClockSnapshot`. Returns the offset between wall clock and monotonic clock, if it has both.
    fn clocks_set(&mut self, snapshot: &[u8]) -> Option<Option<WallClock>> {
        let (mut wall, mut monotonic) = (None, None);
        for field in Fields(snapshot) {
            let (1, Field::Bytes(clock)) = field? else { continue };
            let (mut id, mut now, mut unit_ns, mut incremental) = (0, 0, 1, false);
            for field in Fields(clock) {
                match field? {
                    (1, Field::Number(n)) => id = n,
                    (2, Field::Number(n)) => now = n,
                    (3, Field::Number(n)) => incremental = n != 0,
                    (4, Field::Number(n)) => unit_ns = n.max(1),
                    _ => {}
                }
            }
            match id {
                REALTIME => wall = i64::try_from(now).ok(),
                MONOTONIC => monotonic = i64::try_from(now).ok(),
                _ => {}
            }
            self.clocks.insert(id, SequenceClock { now, unit_ns, incremental });
        }
        let both = wall.zip(monotonic);
        Some(both.map(|(wall, monotonic)| WallClock { ahead_ns: wall.saturating_sub(monotonic) }))
    }

    /// `TracePacketDefaults`.
    fn defaults_set(&mut self, defaults: &[u8]) -> Option<()> {
        for field in Fields(defaults) {
            match field? {
                (58, Field::Number(n)) => self.default_clock = Some(n),
                (11, Field::Bytes(event)) => {
                    for field in Fields(event) {
                        if let (11, Field::Number(n)) = field? {
                            self.default_track = Some(n);
                        }
                    }
                }
                _ => {}
            }
        }
        Some(())
    }

    /// `InternedData`.
    fn intern(&mut self, interned: &[u8], names: &mut Interner) -> Option<()> {
        for field in Fields(interned) {
            let (table, entry) = match field? {
                (2, Field::Bytes(b)) => (&mut self.event_names, b),
                (3, Field::Bytes(b)) => (&mut self.annotation_names, b),
                (29, Field::Bytes(b)) => (&mut self.strings, b),
                _ => continue,
            };
            let (mut id, mut text) = (0, Rc::from(""));
            for field in Fields(entry) {
                match field? {
                    (1, Field::Number(n)) => id = n,
                    (2, Field::Bytes(b)) => text = names.get(&String::from_utf8_lossy(b)),
                    _ => {}
                }
            }
            table.insert(id, text);
        }
        Some(())
    }

    /// Time of a packet, nanoseconds.
    fn time(&mut self, time: u64, clock: Option<u64>) -> u64 {
        let clock = clock.or(self.default_clock).and_then(|id| self.clocks.get_mut(&id));
        match clock {
            Some(clock) if clock.incremental => {
                clock.now = clock.now.saturating_add(time);
                clock.now.saturating_mul(clock.unit_ns)
            }
            Some(clock) => time.saturating_mul(clock.unit_ns),
            None => time,
        }
    }
}

/// `TrackEvent`, with its names resolved.
struct Seen {
    track: u64,
    phase: NetLogPhase,
    name: Option<Rc<str>>,
    kind: Option<Rc<str>>,
    params: Value,
}

impl Seen {
    fn read(event: &[u8], sequence: &Sequence, names: &mut Interner) -> Option<Self> {
        let mut track = sequence.default_track.unwrap_or(0);
        let (mut phase, mut name, mut kind) = (NetLogPhase::Point, None, None);
        let mut params = Value::Null;
        for field in Fields(event) {
            match field? {
                (9, Field::Number(1)) => phase = NetLogPhase::Begin,
                (9, Field::Number(2)) => phase = NetLogPhase::End,
                (10, Field::Number(n)) => name = sequence.event_names.get(&n).cloned(),
                (11, Field::Number(n)) => track = n,
                (23, Field::Bytes(b)) => name = Some(names.get(&String::from_utf8_lossy(b))),
                (4, Field::Bytes(annotation)) => {
                    let (called, said) = Annotation::read(annotation, sequence)?;
                    match (called.as_deref(), said) {
                        (Some("source_type"), Annotation::Text(text)) => {
                            kind = Some(names.get(&text));
                        }
                        (Some("params"), Annotation::Json(json)) => params = json,
                        _ => {}
                    }
                }
                _ => {}
            }
        }
        Some(Self { track, phase, name, kind, params })
    }
}

/// `DebugAnnotation`, limited to the kinds that are needed.
enum Annotation {
    Text(String),
    Json(Value),
    Other,
}

impl Annotation {
    fn read(annotation: &[u8], sequence: &Sequence) -> Option<(Option<Rc<str>>, Self)> {
        let (mut name, mut said) = (None, Self::Other);
        for field in Fields(annotation) {
            match field? {
                (1, Field::Number(n)) => name = sequence.annotation_names.get(&n).cloned(),
                (10, Field::Bytes(b)) => name = Some(Rc::from(&*String::from_utf8_lossy(b))),
                (6, Field::Bytes(b)) => {
                    said = Self::Text(String::from_utf8_lossy(b).into_owned());
                }
                (17, Field::Number(n)) => {
                    let text = sequence.strings.get(&n);
                    said = text.map_or(Self::Other, |text| Self::Text(text.to_string()));
                }
                // Invalid JSON has no parameters; the event happened anyway.
                (9, Field::Bytes(b)) => {
                    said = serde_json::from_slice(b).map_or(Self::Other, Self::Json);
                }
                _ => {}
            }
        }
        Some((name, said))
    }
}

/// Interned texts.
#[derive(Debug, Default)]
struct Interner(HashMap<Rc<str>, ()>);

impl Interner {
    fn get(&mut self, text: &str) -> Rc<str> {
        if let Some((known, ())) = self.0.get_key_value(text) {
            return Rc::clone(known);
        }
        let text: Rc<str> = Rc::from(text);
        self.0.insert(Rc::clone(&text), ());
        text
    }
}

enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The fields of a message, by number; yields `None` for a malformed field.
struct Fields<'a>(&'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = Option<(u64, Field<'a>)>;

    fn next(&mut self) -> Option<Self::Item> {
        (!self.0.is_empty()).then(|| {
            let field = self.field();
            if field.is_none() {
                self.0 = &[];
            }
            field
        })
    }
}

impl<'a> Fields<'a> {
    fn field(&mut self) -> Option<(u64, Field<'a>)> {
        let key = self.varint()?;
        let content = match key & 7 {
            0 => Field::Number(self.varint()?),
            1 => Field::Number(u64::from_le_bytes(self.bytes(8)?.try_into().ok()?)),
            2 => {
                let length = usize::try_from(self.varint()?).ok()?;
                Field::Bytes(self.bytes(length)?)
            }
            5 => Field::Number(u64::from(u32::from_le_bytes(self.bytes(4)?.try_into().ok()?))),
            _ => return None,
        };
        Some((key >> 3, content))
    }

    fn varint(&mut self) -> Option<u64> {
        let mut number = 0;
        for place in 0..10 {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << (7 * place);
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    fn bytes(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }
}

/// A packet, and the bytes after it.
type Packet<'a> = (&'a [u8], &'a [u8]);

/// The packet at the start of `bytes`, and the bytes after it; `None` if the packet is incomplete.
fn first_packet(bytes: &[u8]) -> Result<Option<Packet<'_>>, &'static str> {
    const PACKET: u64 = 1 << 3 | 2;
    let mut fields = Fields(bytes);
    let Some(key) = fields.varint() else { return whole_varint(bytes) };
    if key != PACKET {
        return Err("expected a packet of a trace");
    }
    let after_key = fields.0;
    let Some(length) = fields.varint() else { return whole_varint(after_key) };
    if length > PACKET_LIMIT_BYTES as u64 {
        return Err("a packet has an impossible length");
    }
    let length = usize::try_from(length).map_err(|_| "a packet has an impossible length")?;
    Ok(fields.bytes(length).map(|packet| (packet, fields.0)))
}

/// Result if `bytes` does not start with a complete number: more bytes are needed, or the number is too long.
fn whole_varint<'a>(bytes: &[u8]) -> Result<Option<Packet<'a>>, &'static str> {
    if bytes.len() < 10 { Ok(None) } else { Err("a number does not end") }
}
