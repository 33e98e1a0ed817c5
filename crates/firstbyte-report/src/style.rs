//! Terminal text style: width, colour, and available glyphs.
//!
//! Nothing here reads the environment; the caller decides (`NO_COLOR`, `is_terminal`, locale).

use std::borrow::Cow;
use std::fmt::Write as _;

/// Style of text for the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Whether ANSI colours may be used.
    pub color: bool,
    /// Terminal columns. The layout supports 60 to 200.
    pub width: usize,
    /// Whether glyphs outside ASCII may be used.
    pub unicode: bool,
}

impl Default for Style {
    fn default() -> Self {
        Self { color: false, width: 80, unicode: true }
    }
}

/// Meaning of a piece of text, which determines its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ink {
    /// The terminal's default.
    Plain,
    /// What a reader looks for first.
    Strong,
    /// Secondary text: axes, labels, units.
    Faint,
    /// Waiting for the name server.
    Resolver,
    /// Round trips.
    Network,
    /// The server at work.
    Server,
    /// The client at work.
    Client,
    /// Bytes in transit.
    Transfer,
    /// Time lost: retries, fallback, failures.
    Loss,
    /// The first byte.
    FirstByte,
}

impl Ink {
    const fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Strong => "1",
            Self::Faint => "2",
            Self::Resolver => "36",
            Self::Network => "94",
            Self::Server => "33",
            Self::Client => "35",
            Self::Transfer => "32",
            Self::Loss => "31",
            Self::FirstByte => "1;33",
        }
    }
}

impl Style {
    /// The supported layout widths.
    pub(crate) const WIDTHS: std::ops::RangeInclusive<usize> = 60..=200;

    /// The width used for layout.
    pub fn columns(&self) -> usize {
        self.width.clamp(*Self::WIDTHS.start(), *Self::WIDTHS.end())
    }

    /// `text` in `ink`.
    pub(crate) fn paint(&self, ink: Ink, text: &str) -> String {
        if !self.color || ink == Ink::Plain || text.is_empty() {
            return text.to_owned();
        }
        format!("\x1b[{}m{text}\x1b[0m", ink.code())
    }

    /// Cells of a bar, each with its ink, with as few escape sequences as possible.
    pub(crate) fn cells(&self, cells: &[(char, Ink)]) -> String {
        let mut out = String::new();
        for run in cells.chunk_by(|a, b| a.1 == b.1) {
            let text: String = run.iter().map(|c| c.0).collect();
            out += &self.paint(run[0].1, &text);
        }
        out
    }

    /// `unicode`, or `ascii` if the terminal supports only that.
    pub fn glyph<T>(&self, unicode: T, ascii: T) -> T {
        if self.unicode { unicode } else { ascii }
    }

    /// Our own `text`, with its few non-ASCII characters replaced if the terminal does not support them.
    pub fn plain<'a>(&self, text: &'a str) -> Cow<'a, str> {
        const SIGNS: [(char, &str); 6] =
            [('µ', "u"), ('×', "x"), ('…', "..."), ('·', ","), ('–', "-"), ('→', "->")];
        if self.unicode || text.is_ascii() {
            return text.into();
        }
        let sign = |c: char| SIGNS.iter().find(|(sign, _)| *sign == c).map(|(_, word)| *word);
        let mut plain = String::with_capacity(text.len());
        for c in text.chars() {
            match sign(c) {
                Some(word) => plain.push_str(word),
                None => plain.push(c),
            }
        }
        plain.into()
    }

    /// `text` made safe for the terminal: no control characters, which could move the cursor or change colours, and
    /// only ASCII if `unicode` is off.
    pub fn safe(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        for c in text.chars() {
            match c {
                c if c.is_control() || is_direction_control(c) => {
                    let _ = write!(out, "{}", c.escape_default());
                }
                c if c.is_ascii() || self.unicode => out.push(c),
                c => {
                    let _ = write!(out, "{}", c.escape_default());
                }
            }
        }
        out
    }
}

impl Style {
    /// Applies [`Style::safe`] to each line of `text`.
    pub fn safe_lines(&self, text: &str) -> String {
        text.split('\n').map(|line| self.safe(line)).collect::<Vec<_>>().join("\n")
    }
}

/// Removes everything that could move a terminal's cursor or reorder its text, except line breaks and our own
/// colours.
///
/// This is a second line of defence for output whose parts should already be [safe](Style::safe).
pub fn without_controls(text: &str) -> Cow<'_, str> {
    let is_fine =
        |c: char| matches!(c, '\n' | '\t') || !(c.is_control() || is_direction_control(c));
    if text.chars().all(is_fine) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let taken = match own_colour(rest) {
            Some(length) => {
                out.push_str(&rest[..length]);
                length
            }
            None if is_fine(c) => {
                out.push(c);
                c.len_utf8()
            }
            None => {
                let _ = write!(out, "{}", c.escape_default());
                c.len_utf8()
            }
        };
        rest = &rest[taken..];
    }
    out.into()
}

/// Length of the escape sequence at the start of `text`, if [`Style::paint`] writes such a sequence.
fn own_colour(text: &str) -> Option<usize> {
    let codes = text.strip_prefix("\x1b[")?;
    let (codes, _) = codes.split_once('m')?;
    let is_code = |code: &str| code.len() <= 2 && code.bytes().all(|b| b.is_ascii_digit());
    (codes.len() <= 5 && codes.split(';').all(is_code)).then_some(codes.len() + 3)
}

/// Characters that reorder the surrounding text (Unicode TR 9 §2).
pub(crate) fn is_direction_control(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Wraps `words` into lines of at most `width` columns. The first line begins with `first`, the others with as many
/// blanks.
///
/// A word that contains blanks is kept whole if it fits on a line. A word without blanks that is too long (a URL,
/// to be copied whole) gets its own line.
pub fn wrap(first: &str, words: &[String], width: usize) -> Vec<String> {
    let indent = first.chars().count();
    let words = words.iter().flat_map(|word| {
        let whole = indent + word.chars().count() <= width;
        if whole { vec![word.as_str()] } else { word.split(' ').collect() }
    });
    let mut lines = Vec::new();
    let mut line = first.to_owned();
    let mut len = indent;
    for word in words {
        let word_len = word.chars().count();
        let blank = usize::from(len > indent);
        if len > indent && len + blank + word_len > width {
            lines.push(line);
            line = " ".repeat(indent);
            len = indent;
        } else if blank == 1 {
            line.push(' ');
            len += 1;
        }
        line += word;
        len += word_len;
    }
    lines.push(line);
    lines
}

/// `text`, or as much of its beginning and end as fits, because hosts and paths differ there.
pub(crate) fn cut_middle(text: &str, room: usize, style: &Style) -> String {
    let length = text.chars().count();
    if length <= room {
        return text.to_owned();
    }
    let ellipsis = style.glyph("…", "..");
    let kept = room.saturating_sub(ellipsis.chars().count());
    let begin: String = text.chars().take(kept / 2).collect();
    let end: String = text.chars().skip(length - (kept - kept / 2)).collect();
    format!("{begin}{ellipsis}{end}")
}

/// `text`, or as much of its beginning as fits.
pub(crate) fn cut_end(text: &str, room: usize, style: &Style) -> String {
    if text.chars().count() <= room {
        return text.to_owned();
    }
    let ellipsis = style.glyph("…", "..");
    let kept = room.saturating_sub(ellipsis.chars().count());
    text.chars().take(kept).collect::<String>() + ellipsis
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_colour_there_is_no_escape() {
        let plain = Style::default();
        assert_eq!(plain.paint(Ink::Server, "x"), "x");
        let colored = Style { color: true, ..plain };
        assert_eq!(colored.paint(Ink::Server, "x"), "\x1b[33mx\x1b[0m");
        assert_eq!(colored.cells(&[('a', Ink::Plain), ('b', Ink::Plain)]), "ab");
    }

    #[test]
    fn a_server_cannot_write_to_the_terminal() {
        let hostile = "CN=\x1b[2Jx\u{202e}\r\nö";
        assert_eq!(Style::default().safe(hostile), "CN=\\u{1b}[2Jx\\u{202e}\\r\\nö");
        let ascii = Style { unicode: false, ..Style::default() };
        assert_eq!(ascii.safe("ö"), "\\u{f6}");
    }

    #[test]
    fn lines_and_colours_of_ours_are_all_that_controls() {
        let style = Style { color: true, ..Style::default() };
        let ours = format!("{}\n{}", style.paint(Ink::Loss, "a"), style.paint(Ink::FirstByte, "ö"));
        assert_eq!(without_controls(&ours), ours);
        let hostile = "a\x1b[2Jb\u{9b}2Jc\u{202e}d\x07\te\x1b]0;x\x1b[1;31;42;5mm\x1b";
        let shown =
            "a\\u{1b}[2Jb\\u{9b}2Jc\\u{202e}d\\u{7}\te\\u{1b}]0;x\\u{1b}[1;31;42;5mm\\u{1b}";
        assert_eq!(without_controls(hostile), shown);
        assert_eq!(Style::default().safe_lines("a\x1b[31m\nb"), "a\\u{1b}[31m\nb");
    }

    #[test]
    fn wraps_behind_the_first_word() {
        let words: Vec<String> =
            ["aaa", "bbb", "ccccccccccc", "d e f g h"].map(String::from).to_vec();
        assert_eq!(wrap("x  ", &words, 10), ["x  aaa bbb", "   ccccccccccc", "   d e f g", "   h"]);
    }
}
