//! The envelope of files from `chrome://net-export` and `--log-net-log`: one JSON object with `constants` and `events`.
//!
//! Input: bytes of the file, in pieces; a file that was cut short gives its whole events. Output: events in the order
//! of the file, their times in whole milliseconds, for that is what such files have (`timeTickOffset` and the ticks of
//! `base::TimeTicks`). Names come from `constants`, which every such file begins with: their numbers change with each
//! build.

use std::collections::HashMap;
use std::rc::Rc;

use serde_json::Value;

use super::{NetLogError, NetLogEvent, NetLogPhase};

/// An event, or the constants, are larger than this in no file.
const PIECE_LIMIT_BYTES: usize = 8 << 20;

/// The clock's steps in such files.
pub const RESOLUTION_NS: u32 = 1_000_000;

/// Reads such a file.
#[derive(Debug, Default)]
pub struct NetExportReader {
    place: Place,
    /// What was read of the key or value that is under way.
    piece: Vec<u8>,
    offset: u64,
    depth: u32,
    in_text: bool,
    escaped: bool,
    constants: Option<Constants>,
    skipped: u64,
}

/// Where in the file the next byte is.
#[derive(Debug, Default, Clone, PartialEq)]
enum Place {
    /// Before the outermost object.
    #[default]
    Before,
    /// Between the outermost object's members: a key follows, or its end.
    BeforeKey,
    /// In a key.
    Key,
    /// Behind the key of that name, before its value.
    BeforeValue(String),
    /// In the value of that name.
    Member(String),
    /// Between events.
    BeforeEvent,
    /// In an event.
    Event,
    /// Behind the outermost object.
    After,
}

/// The names of a build's numbers.
#[derive(Debug, Default)]
struct Constants {
    events: HashMap<i64, Rc<str>>,
    sources: HashMap<i64, Rc<str>>,
    begin: Option<i64>,
    end: Option<i64>,
    /// Milliseconds since the Unix epoch at the ticks' zero.
    tick_offset_ms: Option<i64>,
    /// The browser's name and version.
    client: Option<(String, String)>,
}

impl NetExportReader {
    /// Reads on: events that are there as a whole go to `sink`.
    ///
    /// # Errors
    /// The bytes are no such file.
    pub fn feed(
        &mut self,
        bytes: &[u8],
        mut sink: impl FnMut(NetLogEvent),
    ) -> Result<(), NetLogError> {
        for byte in bytes {
            self.byte(*byte, &mut sink)?;
            self.offset += 1;
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

    /// Events that were passed over: of no number that the file's constants name, or of another form.
    pub const fn skipped_events(&self) -> u64 {
        self.skipped
    }

    /// Milliseconds since the Unix epoch at the zero of the events' times, where the file says it.
    pub fn started_unix_ms(&self) -> Option<i64> {
        self.constants.as_ref()?.tick_offset_ms
    }

    /// Name and version of the browser, as the file says them.
    pub fn client(&self) -> Option<(&str, &str)> {
        let (name, version) = self.constants.as_ref()?.client.as_ref()?;
        Some((name, version))
    }

    fn byte(&mut self, byte: u8, sink: &mut impl FnMut(NetLogEvent)) -> Result<(), NetLogError> {
        match &self.place {
            Place::Before => match byte {
                b'{' => self.place = Place::BeforeKey,
                _ if is_space(byte) => {}
                _ => return Err(self.malformed("no JSON object")),
            },
            Place::BeforeKey => match byte {
                b'"' => self.place = Place::Key,
                b'}' => self.place = Place::After,
                b',' => {}
                _ if is_space(byte) => {}
                _ => return Err(self.malformed("no key")),
            },
            Place::Key => match byte {
                b'"' => {
                    let key = String::from_utf8_lossy(&self.piece).into_owned();
                    self.piece.clear();
                    self.place = Place::BeforeValue(key);
                }
                b'\\' => return Err(self.malformed("a key that no such file has")),
                _ => self.piece.push(byte),
            },
            Place::BeforeValue(key) => match byte {
                b':' => {}
                b'[' if key == "events" => {
                    if self.constants.is_none() {
                        return Err(self.malformed("events before the constants"));
                    }
                    self.place = Place::BeforeEvent;
                }
                _ if is_space(byte) => {}
                _ => {
                    self.place = Place::Member(key.clone());
                    self.value_byte(byte);
                }
            },
            Place::Member(key) => {
                let plain = self.depth == 0 && !self.in_text;
                if plain && matches!(byte, b',' | b'}') {
                    self.place = if byte == b',' { Place::BeforeKey } else { Place::After };
                    self.piece.clear();
                    return Ok(());
                }
                let constants = key == "constants";
                self.value_byte(byte);
                if self.depth == 0 && !self.in_text && matches!(byte, b'}' | b']') {
                    if constants {
                        let value = serde_json::from_slice(&self.piece);
                        let value: Value = value.map_err(|_| self.malformed("constants"))?;
                        self.constants = Some(Constants::read(&value));
                    }
                    self.piece.clear();
                    self.place = Place::BeforeKey;
                } else if !constants {
                    // `polledData` and others: nobody asks for them.
                    self.piece.clear();
                }
            }
            Place::BeforeEvent => match byte {
                b'{' => {
                    self.place = Place::Event;
                    self.value_byte(byte);
                }
                b']' => self.place = Place::BeforeKey,
                b',' => {}
                _ if is_space(byte) => {}
                _ => return Err(self.malformed("no event")),
            },
            Place::Event => {
                self.value_byte(byte);
                if self.depth == 0 && !self.in_text {
                    let event = serde_json::from_slice(&self.piece);
                    self.piece.clear();
                    self.place = Place::BeforeEvent;
                    let event: Value = event.map_err(|_| self.malformed("an event"))?;
                    match self.constants.as_ref().and_then(|names| names.event(event)) {
                        Some(event) => sink(event),
                        None => self.skipped += 1,
                    }
                }
            }
            Place::After => {}
        }
        Ok(())
    }

    fn value_byte(&mut self, byte: u8) {
        self.piece.push(byte);
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
    fn read(constants: &Value) -> Self {
        let table = |name: &str| {
            let entries = constants.get(name).and_then(Value::as_object);
            let entries = entries.into_iter().flatten();
            entries
                .filter_map(|(name, number)| Some((number.as_i64()?, Rc::from(&**name))))
                .collect()
        };
        let phase = |name: &str| constants.get("logEventPhase")?.get(name)?.as_i64();
        // A number, or as text where it may not fit one of JavaScript's.
        let offset = constants.get("timeTickOffset");
        let offset = offset.and_then(|at| at.as_i64().or_else(|| at.as_str()?.parse().ok()));
        let client =
            |name: &str| Some(constants.get("clientInfo")?.get(name)?.as_str()?.to_owned());
        Self {
            events: table("logEventTypes"),
            sources: table("logSourceType"),
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
            _ if phase == self.begin => NetLogPhase::Begin,
            _ if phase == self.end => NetLogPhase::End,
            _ => NetLogPhase::Point,
        };
        let name = Rc::clone(self.events.get(&event.get("type")?.as_i64()?)?);
        Some(NetLogEvent {
            at_us: i64::checked_mul(at_ms, 1000)?,
            source: number,
            source_kind: Rc::clone(self.sources.get(&kind)?),
            source_number: Some(number),
            name,
            phase,
            params: event.get_mut("params").map(Value::take).unwrap_or_default(),
        })
    }
}

const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}
