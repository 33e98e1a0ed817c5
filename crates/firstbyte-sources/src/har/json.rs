//! A streaming JSON reader: one pass, in the order of the file, in bounded memory.
//!
//! Input: bytes. Output: members and elements, handed to the callers that ask for them. Everything else is skipped and
//! not kept. The reader is lenient if that loses nothing (`NaN`, which some programs write, is accepted as a non-finite
//! number).

use std::io::{self, Read};

/// Bytes read at once.
const BLOCK: usize = 64 << 10;
const MOST_DEPTH: usize = 10_000;
const LONGEST_NUMBER: usize = 64;

/// Why reading stopped early.
#[derive(Debug)]
pub enum JsonFlaw {
    /// The bytes end within a value.
    Cut {
        /// Number of bytes.
        offset: u64,
    },
    /// The bytes there are not JSON.
    NotJson {
        /// At which byte.
        offset: u64,
        /// What was expected instead.
        expected: &'static str,
    },
    /// Values are nested more deeply than in any real file.
    TooDeep {
        /// At which byte.
        offset: u64,
    },
    /// Reading failed.
    Io(io::Error),
}

/// Kind of the next value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JsonShape {
    Object,
    Array,
    Text,
    /// A number, `true`, `false` or `null`.
    Scalar,
}

/// A value that is neither object nor array.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum JsonLeaf {
    /// A string, or its beginning up to the limit.
    Text(String),
    /// A number and its text; it may be non-finite.
    Number(f64, String),
    Flag(bool),
    Null,
    /// An object or an array, which was skipped.
    Other,
}

/// Bytes, read as JSON.
pub(super) struct JsonSource<R> {
    input: R,
    buffer: Box<[u8]>,
    at: usize,
    end: usize,
    /// Bytes of the input before the buffer.
    before: u64,
    depth: usize,
    text: Vec<u8>,
}

type ReadJson<T> = Result<T, JsonFlaw>;

impl<R: Read> JsonSource<R> {
    pub(super) fn new(input: R) -> Self {
        let buffer = vec![0; BLOCK].into_boxed_slice();
        Self { input, buffer, at: 0, end: 0, before: 0, depth: 0, text: Vec::new() }
    }

    /// Number of bytes read.
    pub(super) fn offset(&self) -> u64 {
        self.before + self.at as u64
    }

    /// Skips a byte-order mark.
    pub(super) fn skip_mark(&mut self) -> ReadJson<()> {
        const MARK: &[u8] = b"\xef\xbb\xbf";
        // A source may return its first bytes one by one.
        while self.end < MARK.len() {
            match self.read_behind()? {
                0 => break,
                n => self.end += n,
            }
        }
        if self.buffer[self.at..self.end].starts_with(MARK) {
            self.at += MARK.len();
        }
        Ok(())
    }

    /// Appends input to the buffer. Returns the number of bytes, 0 at the end.
    fn read_behind(&mut self) -> ReadJson<usize> {
        loop {
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(n) => return Ok(n),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Compressed input is truncated.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Err(JsonFlaw::Cut { offset: self.before });
                }
                Err(error) => return Err(JsonFlaw::Io(error)),
            }
        }
    }

    /// Reads more input if the buffer is used up; false at the end.
    fn fill(&mut self) -> ReadJson<bool> {
        while self.at == self.end {
            self.before += self.end as u64;
            (self.at, self.end) = (0, 0);
            match self.read_behind()? {
                0 => return Ok(false),
                n => self.end = n,
            }
        }
        Ok(true)
    }

    fn byte(&mut self) -> ReadJson<u8> {
        if self.at == self.end && !self.fill()? {
            return Err(JsonFlaw::Cut { offset: self.offset() });
        }
        Ok(self.buffer[self.at])
    }

    /// The next byte that is not whitespace, without consuming it.
    fn visible(&mut self) -> ReadJson<u8> {
        loop {
            match self.byte()? {
                b' ' | b'\t' | b'\r' | b'\n' => self.at += 1,
                byte => return Ok(byte),
            }
        }
    }

    fn not_json(&self, expected: &'static str) -> JsonFlaw {
        JsonFlaw::NotJson { offset: self.offset(), expected }
    }

    /// Kind of the value that begins here.
    pub(super) fn shape(&mut self) -> ReadJson<JsonShape> {
        Ok(match self.visible()? {
            b'{' => JsonShape::Object,
            b'[' => JsonShape::Array,
            b'"' => JsonShape::Text,
            b'-' | b'+' | b'.' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => JsonShape::Scalar,
            _ => return Err(self.not_json("a value")),
        })
    }

    /// Passes each member of the object that begins here to `each`, which reads its value. Skips other values and
    /// returns false.
    pub(super) fn members(
        &mut self,
        each: &mut dyn FnMut(&mut Self, &str) -> ReadJson<()>,
    ) -> ReadJson<bool> {
        if self.shape()? != JsonShape::Object {
            return self.skip().map(|()| false);
        }
        self.enter()?;
        let mut is_first = true;
        while self.goes_on(b'}', &mut is_first)? {
            if self.visible()? != b'"' {
                return Err(self.not_json("a member's name"));
            }
            self.quoted(256)?;
            let name = String::from_utf8_lossy(&self.text).into_owned();
            if self.visible()? != b':' {
                return Err(self.not_json("a colon"));
            }
            self.at += 1;
            each(self, &name)?;
        }
        Ok(true)
    }

    /// Does the same for the elements of an array.
    pub(super) fn elements(
        &mut self,
        each: &mut dyn FnMut(&mut Self) -> ReadJson<()>,
    ) -> ReadJson<bool> {
        if self.shape()? != JsonShape::Array {
            return self.skip().map(|()| false);
        }
        self.enter()?;
        let mut is_first = true;
        while self.goes_on(b']', &mut is_first)? {
            each(self)?;
        }
        Ok(true)
    }

    fn enter(&mut self) -> ReadJson<()> {
        self.at += 1;
        self.depth += 1;
        match self.depth > MOST_DEPTH {
            true => Err(JsonFlaw::TooDeep { offset: self.offset() }),
            false => Ok(()),
        }
    }

    /// Whether another element follows; otherwise consumes `close`.
    fn goes_on(&mut self, close: u8, is_first: &mut bool) -> ReadJson<bool> {
        let found = self.visible()?;
        if found == close {
            self.at += 1;
            self.depth -= 1;
            return Ok(false);
        }
        if !std::mem::replace(is_first, false) {
            if found != b',' {
                return Err(self.not_json("a comma"));
            }
            self.at += 1;
        }
        Ok(true)
    }

    /// Skips a value of any kind.
    pub(super) fn skip(&mut self) -> ReadJson<()> {
        let mut open: Vec<u8> = Vec::new();
        loop {
            match self.shape_within(&open)? {
                b'{' => open.push(b'}'),
                b'[' => open.push(b']'),
                b'"' => {
                    self.quoted(0)?;
                    if open.is_empty() {
                        return Ok(());
                    }
                    continue;
                }
                close @ (b'}' | b']') => {
                    if open.pop() != Some(close) {
                        return Err(self.not_json("a value"));
                    }
                    if open.is_empty() {
                        self.at += 1;
                        return Ok(());
                    }
                }
                b',' | b':' => {}
                _ => {
                    self.scalar()?;
                    if open.is_empty() {
                        return Ok(());
                    }
                    continue;
                }
            }
            self.at += 1;
            if self.depth + open.len() > MOST_DEPTH {
                return Err(JsonFlaw::TooDeep { offset: self.offset() });
            }
        }
    }

    fn shape_within(&mut self, open: &[u8]) -> ReadJson<u8> {
        let byte = self.visible()?;
        if open.is_empty() {
            self.shape()?;
        }
        Ok(byte)
    }

    /// Reads a value that is neither object nor array; keeps at most `keep` bytes of a string.
    pub(super) fn leaf(&mut self, keep: usize) -> ReadJson<JsonLeaf> {
        Ok(match self.shape()? {
            JsonShape::Object | JsonShape::Array => {
                self.skip()?;
                JsonLeaf::Other
            }
            JsonShape::Text => {
                self.quoted(keep)?;
                JsonLeaf::Text(String::from_utf8_lossy(&self.text).into_owned())
            }
            JsonShape::Scalar => self.scalar()?,
        })
    }

    fn scalar(&mut self) -> ReadJson<JsonLeaf> {
        self.text.clear();
        let begun = self.offset();
        loop {
            if self.at == self.end && !self.fill()? {
                break;
            }
            match self.buffer[self.at] {
                b'0'..=b'9' | b'-' | b'+' | b'.' | b'a'..=b'z' | b'A'..=b'Z' => {
                    self.text.push(self.buffer[self.at]);
                    self.at += 1;
                }
                _ => break,
            }
            if self.text.len() > LONGEST_NUMBER {
                return Err(self.not_json("a shorter number"));
            }
        }
        let text = String::from_utf8_lossy(&self.text).into_owned();
        let number = |value| JsonLeaf::Number(value, text.clone());
        Ok(match &*text {
            "true" => JsonLeaf::Flag(true),
            "false" => JsonLeaf::Flag(false),
            "null" => JsonLeaf::Null,
            "NaN" | "-NaN" => number(f64::NAN),
            "Infinity" => number(f64::INFINITY),
            "-Infinity" => number(f64::NEG_INFINITY),
            _ => match text.parse() {
                Ok(value) if text.starts_with(|c: char| c == '-' || c.is_ascii_digit()) => {
                    number(value)
                }
                _ => return Err(JsonFlaw::NotJson { offset: begun, expected: "a value" }),
            },
        })
    }

    /// Reads the string that begins here and puts at most `keep` bytes of it into `text`.
    fn quoted(&mut self, keep: usize) -> ReadJson<()> {
        self.at += 1;
        self.text.clear();
        loop {
            self.byte()?;
            let found = &self.buffer[self.at..self.end];
            let plain = found.iter().position(|b| matches!(b, b'"' | b'\\')).unwrap_or(found.len());
            let room = keep.saturating_sub(self.text.len());
            self.text.extend_from_slice(&found[..plain.min(room)]);
            self.at += plain;
            if self.at == self.end {
                continue;
            }
            let is_end = self.buffer[self.at] == b'"';
            self.at += 1;
            if is_end {
                // The text may have been truncated within a character.
                return Ok(());
            }
            self.escaped(keep)?;
        }
    }

    fn escaped(&mut self, keep: usize) -> ReadJson<()> {
        let byte = self.byte()?;
        self.at += 1;
        let c = match byte {
            b'n' => '\n',
            b't' => '\t',
            b'r' => '\r',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'"' | b'\\' | b'/' => byte.into(),
            b'u' => {
                let first = self.hex()?;
                // A lone surrogate is replaced, as in other lossy readers.
                return self.code_unit(first, keep);
            }
            _ => return Err(self.not_json("an escaped character")),
        };
        self.push(c, keep);
        Ok(())
    }

    fn code_unit(&mut self, first: u16, keep: usize) -> ReadJson<()> {
        if !(0xd800..0xdc00).contains(&first) {
            let c = char::from_u32(first.into()).unwrap_or(char::REPLACEMENT_CHARACTER);
            self.push(c, keep);
            return Ok(());
        }
        if self.byte()? != b'\\' {
            self.push(char::REPLACEMENT_CHARACTER, keep);
            return Ok(());
        }
        self.at += 1;
        if self.byte()? != b'u' {
            self.push(char::REPLACEMENT_CHARACTER, keep);
            return self.escaped(keep);
        }
        self.at += 1;
        let second = self.hex()?;
        let pair = char::decode_utf16([first, second]).next().and_then(Result::ok);
        self.push(pair.unwrap_or(char::REPLACEMENT_CHARACTER), keep);
        Ok(())
    }

    fn hex(&mut self) -> ReadJson<u16> {
        let mut value = 0;
        for _ in 0..4 {
            let digit = char::from(self.byte()?).to_digit(16);
            let digit = digit.and_then(|digit| u16::try_from(digit).ok());
            value = value << 4 | digit.ok_or_else(|| self.not_json("four hexadecimal digits"))?;
            self.at += 1;
        }
        Ok(value)
    }

    fn push(&mut self, c: char, keep: usize) {
        if self.text.len() + c.len_utf8() <= keep {
            self.text.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
}

impl JsonLeaf {
    pub(super) fn into_text(self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl std::fmt::Display for JsonFlaw {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cut { offset } => {
                write!(f, "the file ends at byte {offset}, in the middle of a value")
            }
            Self::NotJson { offset, expected } => {
                write!(f, "not JSON at byte {offset}: expected {expected}")
            }
            Self::TooDeep { offset } => {
                write!(f, "values are nested more than {MOST_DEPTH} levels deep at byte {offset}")
            }
            Self::Io(error) => write!(f, "cannot read the file: {error}"),
        }
    }
}

impl std::error::Error for JsonFlaw {}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf(text: &str) -> Result<JsonLeaf, JsonFlaw> {
        JsonSource::new(text.as_bytes()).leaf(1_000)
    }

    #[test]
    fn strings_are_what_was_meant() {
        for (json, text) in [
            (r#""a\n\"\\\/\u00e9""#, "a\n\"\\/é"),
            (r#""\ud83d\ude00!""#, "😀!"),
            (r#""\ud83dx""#, "\u{fffd}x"),
            (r#""\ud83d\n""#, "\u{fffd}\n"),
            (r#""\ude00""#, "\u{fffd}"),
        ] {
            assert_eq!(leaf(json).unwrap(), JsonLeaf::Text(text.into()), "{json}");
        }
        let cut = JsonSource::new(&b"\"abcdef\""[..]).leaf(3).unwrap();
        assert_eq!(cut, JsonLeaf::Text("abc".into()));
    }

    #[test]
    fn numbers_keep_their_text_and_may_be_none() {
        assert_eq!(leaf("1.50 ").unwrap(), JsonLeaf::Number(1.5, "1.50".into()));
        assert!(matches!(leaf("NaN,").unwrap(), JsonLeaf::Number(n, _) if n.is_nan()));
        assert!(matches!(leaf("-1e999").unwrap(), JsonLeaf::Number(n, _) if n.is_infinite()));
        for bad in ["nope", "+1", "1-", "--1", ".5"] {
            assert!(matches!(leaf(bad), Err(JsonFlaw::NotJson { .. })), "{bad}");
        }
    }

    #[test]
    fn what_nobody_wants_is_passed_over() {
        let json = r#"{"a":[{"b":"]}\""},[],null,-1.5,true],"c":7}"#;
        let mut seen = Vec::new();
        let mut source = JsonSource::new(json.as_bytes());
        let whole = source.members(&mut |source, name| {
            seen.push(name.to_owned());
            source.skip()
        });
        assert!(whole.unwrap());
        assert_eq!(seen, ["a", "c"]);
        for bad in [r#"{"a":[}]}"#, r#"{"a" 1}"#, r#"{"a":1 "b":2}"#, "{1:2}", r#"{"a":}"#] {
            let mut source = JsonSource::new(bad.as_bytes());
            let read = source.members(&mut |source, _| source.skip());
            assert!(matches!(read, Err(JsonFlaw::NotJson { .. })), "{bad}: {read:?}");
        }
    }

    #[test]
    fn depth_has_an_end() {
        for open in ["[", "{\"a\":"] {
            let deep = open.repeat(1_000_000);
            let flaw = JsonSource::new(deep.as_bytes()).skip().unwrap_err();
            assert!(matches!(flaw, JsonFlaw::TooDeep { .. }), "{flaw}");
        }
    }
}
