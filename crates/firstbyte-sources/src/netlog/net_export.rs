//! The envelope of files from `chrome://net-export`, and of those that Chromium writes from startup: one JSON object
//! with `constants` and `events`.
//!
//! Input: bytes of the file, in pieces; from a truncated file all complete events are read. Output: events in the order
//! of the file, with times in whole milliseconds, the resolution of such files (`timeTickOffset` and the ticks of
//! `base::TimeTicks`). Names come from `constants`, the first member of every such file, since their numbers change
//! with each build.

use std::collections::HashMap;
use std::rc::Rc;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::{NetLogError, NetLogEvent, NetLogPhase};

/// No event and no constants of any file are larger than this.
const PIECE_LIMIT_BYTES: usize = 8 << 20;

/// Clock resolution of such files.
pub const RESOLUTION_NS: u32 = 1_000_000;

/// Whether a file with the first bytes `begin` is such a file: an object whose first member is `constants`.
pub fn begins_like(begin: &[u8]) -> bool {
    let text = begin.strip_prefix(b"\xef\xbb\xbf").unwrap_or(begin).trim_ascii_start();
    let Some(text) = text.strip_prefix(b"{") else { return false };
    text.trim_ascii_start().starts_with(b"\"constants\"")
}

/// Reads such a file.
#[derive(Debug, Default)]
pub struct NetExportReader {
    place: Place,
    /// Bytes read of the current key or value.
    piece: Vec<u8>,
    offset: u64,
    depth: u32,
    in_text: bool,
    escaped: bool,
    wanted: Option<fn(&str) -> bool>,
    constants: Option<Constants>,
    skipped: u64,
}

/// Position of the next byte in the file.
#[derive(Debug, Default, Clone, PartialEq)]
enum Place {
    /// Before the outermost object.
    #[default]
    Before,
    /// Between members of the outermost object, before a key or the end.
    BeforeKey,
    /// In a key.
    Key,
    /// After the key of that name, before its value.
    BeforeValue(String),
    /// In the value of that name.
    Member(String),
    /// Between events.
    BeforeEvent,
    /// In an event.
    Event,
    /// After the outermost object.
    After,
}

/// Names for a build's numbers.
#[derive(Debug, Default)]
struct Constants {
    /// By number, each with whether it is wanted.
    events: HashMap<i64, (Rc<str>, bool)>,
    sources: HashMap<i64, Rc<str>>,
    errors: HashMap<i64, Rc<str>>,
    quic_errors: HashMap<i64, Rc<str>>,
    begin: Option<i64>,
    end: Option<i64>,
    /// Milliseconds since the Unix epoch at tick zero.
    tick_offset_ms: Option<i64>,
    /// The browser's name and version.
    client: Option<(String, String)>,
}

/// An event without parameters: enough to decide whether it is wanted.
#[derive(Deserialize)]
struct Outline {
    #[serde(default)]
    r#type: Option<i64>,
}

impl NetExportReader {
    /// A reader that returns only events whose name is `wanted`. The parameters of others are not parsed.
    pub fn only(wanted: fn(&str) -> bool) -> Self {
        Self { wanted: Some(wanted), ..Self::default() }
    }

    /// Reads more bytes and passes complete events to `sink`.
    ///
    /// # Errors
    /// If the bytes are not such a file.
    pub fn feed(
        &mut self,
        bytes: &[u8],
        mut sink: impl FnMut(NetLogEvent),
    ) -> Result<(), NetLogError> {
        let mut rest = bytes;
        while let [byte, ..] = rest {
            let read = match &self.place {
                Place::Event => self.event_bytes(rest, &mut sink)?,
                Place::Member(_) => self.member_bytes(rest)?,
                _ => {
                    self.byte(*byte)?;
                    1
                }
            };
            self.offset += read as u64;
            rest = &rest[read..];
            if self.piece.len() > PIECE_LIMIT_BYTES {
                let (offset_bytes, limit_bytes) = (self.offset, PIECE_LIMIT_BYTES);
                return Err(NetLogError::TooLarge { offset_bytes, limit_bytes });
            }
        }
        Ok(())
    }

    /// Whether the file was read to its end.
    pub fn is_whole(&self) -> bool {
        self.place == Place::After
    }

    /// Whether the constants have been read: no event precedes them.
    pub const fn has_constants(&self) -> bool {
        self.constants.is_some()
    }

    /// Number of skipped events: those whose number the constants do not name, or that have another form.
    pub const fn skipped_events(&self) -> u64 {
        self.skipped
    }

    /// Milliseconds since the Unix epoch at time zero of the events, if the file has it.
    pub fn started_unix_ms(&self) -> Option<i64> {
        self.constants.as_ref()?.tick_offset_ms
    }

    /// Name and version of the browser, if the file has them.
    pub fn client(&self) -> Option<(&str, &str)> {
        let (name, version) = self.constants.as_ref()?.client.as_ref()?;
        Some((name, version))
    }

    /// Name of a network error by number, from the file: "ERR_CONNECTION_REFUSED".
    pub fn net_error(&self, number: i64) -> Option<Rc<str>> {
        self.constants.as_ref()?.errors.get(&number).cloned()
    }

    /// Name of a QUIC error by number: "QUIC_PACKET_WRITE_ERROR".
    pub fn quic_error(&self, number: i64) -> Option<Rc<str>> {
        self.constants.as_ref()?.quic_errors.get(&number).cloned()
    }

    /// Handles a byte outside of values.
    fn byte(&mut self, byte: u8) -> Result<(), NetLogError> {
        match &self.place {
            Place::Before => match byte {
                b'{' => self.place = Place::BeforeKey,
                // A byte-order mark, as some editors write it.
                0xef | 0xbb | 0xbf if self.offset < 3 => {}
                _ if is_space(byte) => {}
                _ => return Err(self.malformed("expected a JSON object")),
            },
            Place::BeforeKey => match byte {
                b'"' => self.place = Place::Key,
                b'}' => self.place = Place::After,
                b',' => {}
                _ if is_space(byte) => {}
                _ => return Err(self.malformed("expected a key")),
            },
            Place::Key => match byte {
                b'"' => {
                    let key = String::from_utf8_lossy(&self.piece).into_owned();
                    self.piece.clear();
                    self.place = Place::BeforeValue(key);
                }
                b'\\' => return Err(self.malformed("a key with an escaped character")),
                _ => self.piece.push(byte),
            },
            Place::BeforeValue(key) => match byte {
                b':' => {}
                b'[' if key == "events" => {
                    if self.constants.is_none() {
                        return Err(self.malformed("the events come before the constants"));
                    }
                    self.place = Place::BeforeEvent;
                }
                _ if is_space(byte) => {}
                _ => {
                    self.place = Place::Member(key.clone());
                    self.look_at(byte);
                    self.piece.push(byte);
                }
            },
            Place::BeforeEvent => match byte {
                b'{' => {
                    self.place = Place::Event;
                    self.look_at(byte);
                    self.piece.push(byte);
                }
                b']' => self.place = Place::BeforeKey,
                b',' => {}
                _ if is_space(byte) => {}
                _ => return Err(self.malformed("expected an event")),
            },
            Place::Member(_) | Place::Event | Place::After => {}
        }
        Ok(())
    }

    /// Consumes bytes of a member's value; returns how many.
    fn member_bytes(&mut self, bytes: &[u8]) -> Result<usize, NetLogError> {
        let Place::Member(key) = &self.place else { return Ok(0) };
        let constants = key == "constants";
        for (at, byte) in bytes.iter().enumerate() {
            let plain = self.depth == 0 && !self.in_text;
            if plain && matches!(byte, b',' | b'}') {
                self.place = if *byte == b',' { Place::BeforeKey } else { Place::After };
                self.piece.clear();
                return Ok(at + 1);
            }
            self.look_at(*byte);
            // `polledData` and other members are not needed.
            if constants {
                self.piece.push(*byte);
                if self.piece.len() > PIECE_LIMIT_BYTES {
                    return Ok(at + 1);
                }
            }
            if self.depth == 0 && !self.in_text && matches!(byte, b'}' | b']') {
                if constants {
                    let value = serde_json::from_slice(&self.piece);
                    let value: Value =
                        value.map_err(|_| self.malformed("the constants are not valid JSON"))?;
                    self.constants = Some(Constants::read(&value, self.wanted));
                }
                self.piece.clear();
                self.place = Place::BeforeKey;
                return Ok(at + 1);
            }
        }
        Ok(bytes.len())
    }

    /// Consumes bytes of an event; returns how many. Passes the event to `sink` once it is complete.
    fn event_bytes(
        &mut self,
        bytes: &[u8],
        sink: &mut impl FnMut(NetLogEvent),
    ) -> Result<usize, NetLogError> {
        let room = PIECE_LIMIT_BYTES + 1 - self.piece.len().min(PIECE_LIMIT_BYTES);
        let bytes = &bytes[..bytes.len().min(room)];
        let end = bytes.iter().position(|byte| {
            self.look_at(*byte);
            self.depth == 0 && !self.in_text
        });
        let Some(end) = end else {
            self.piece.extend_from_slice(bytes);
            return Ok(bytes.len());
        };
        let end = end + 1;
        self.place = Place::BeforeEvent;
        let mut piece = std::mem::take(&mut self.piece);
        piece.extend_from_slice(&bytes[..end]);
        self.event(&piece, sink)?;
        piece.clear();
        self.piece = piece;
        Ok(end)
    }

    fn event(
        &mut self,
        text: &[u8],
        sink: &mut impl FnMut(NetLogEvent),
    ) -> Result<(), NetLogError> {
        let Some(names) = &self.constants else { return Ok(()) };
        if self.wanted.is_some() {
            let outline: Result<Outline, _> = serde_json::from_slice(text);
            match outline.ok().and_then(|it| names.events.get(&it.r#type?)) {
                Some((_, true)) => {}
                Some((_, false)) => return Ok(()),
                // Invalid JSON is an error; an event of another form is skipped.
                None => {
                    let any: Result<IgnoredAny, _> = serde_json::from_slice(text);
                    any.map_err(|_| self.malformed("an event is not valid JSON"))?;
                    self.skipped += 1;
                    return Ok(());
                }
            }
        }
        let event = serde_json::from_slice(text);
        let event: Value = event.map_err(|_| self.malformed("an event is not valid JSON"))?;
        match names.event(event) {
            Some(event) => sink(event),
            None => self.skipped += 1,
        }
        Ok(())
    }

    /// Updates the nesting state for this byte.
    const fn look_at(&mut self, byte: u8) {
        match byte {
            _ if self.escaped => self.escaped = false,
            b'\\' if self.in_text => self.escaped = true,
            b'"' => self.in_text = !self.in_text,
            _ if self.in_text => {}
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
    }

    const fn malformed(&self, detail: &'static str) -> NetLogError {
        NetLogError::Malformed { offset_bytes: self.offset, detail }
    }
}

impl Constants {
    fn read(constants: &Value, wanted: Option<fn(&str) -> bool>) -> Self {
        let table = |name: &str| -> HashMap<i64, Rc<str>> {
            let entries = constants.get(name).and_then(Value::as_object);
            let entries = entries.into_iter().flatten();
            entries
                .filter_map(|(name, number)| Some((number.as_i64()?, Rc::from(&**name))))
                .collect()
        };
        let phase = |name: &str| constants.get("logEventPhase")?.get(name)?.as_i64();
        // A number, or text if JavaScript could not represent it exactly.
        let offset = constants.get("timeTickOffset");
        let offset = offset.and_then(|at| at.as_i64().or_else(|| at.as_str()?.parse().ok()));
        let client =
            |name: &str| Some(constants.get("clientInfo")?.get(name)?.as_str()?.to_owned());
        let events = table("logEventTypes").into_iter();
        Self {
            events: events
                .map(|(number, name)| {
                    let is_wanted = wanted.is_none_or(|wanted| wanted(&name));
                    (number, (name, is_wanted))
                })
                .collect(),
            sources: table("logSourceType"),
            errors: table("netError"),
            quic_errors: table("quicError"),
            begin: phase("PHASE_BEGIN"),
            end: phase("PHASE_END"),
            tick_offset_ms: offset,
            client: client("name").zip(client("version")),
        }
    }

    fn event(&self, mut event: Value) -> Option<NetLogEvent> {
        let source = event.get("source")?;
        let number = source.get("id")?.as_u64()?;
        let kind = source.get("type")?.as_i64()?;
        let time = event.get("time")?;
        let at_ms = time.as_str().and_then(|t| t.parse().ok()).or_else(|| time.as_i64())?;
        let phase = event.get("phase")?.as_i64();
        let phase = match phase {
            Some(_) if phase == self.begin => NetLogPhase::Begin,
            Some(_) if phase == self.end => NetLogPhase::End,
            _ => NetLogPhase::Point,
        };
        let (name, _) = self.events.get(&event.get("type")?.as_i64()?)?;
        Some(NetLogEvent {
            at_us: i64::checked_mul(at_ms, 1000)?,
            source: number,
            source_kind: Rc::clone(self.sources.get(&kind)?),
            source_number: Some(number),
            name: Rc::clone(name),
            phase,
            params: event.get_mut("params").map(Value::take).unwrap_or_default(),
        })
    }
}

const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}
