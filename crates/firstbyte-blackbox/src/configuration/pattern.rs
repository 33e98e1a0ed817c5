//! Regular expressions with the syntax of Go's `regexp` (RE2), run by `regex`.
//!
//! The two differ in places. In Go, `\d`, `\w`, `\s` and `\b` are ASCII only, a brace that does not begin a
//! repetition is literal, and `\Q…\E` quotes. [`translate`] rewrites an expression for `regex`.

use regex::bytes::{Captures, Regex, RegexBuilder};

/// A regular expression, as written and compiled.
#[derive(Clone, Debug)]
pub struct Pattern {
    written: String,
    regex: Regex,
}

impl Pattern {
    /// Compiles a regular expression.
    ///
    /// # Errors
    /// Describes why the expression is invalid.
    pub fn new(written: &str) -> Result<Self, String> {
        let regex = RegexBuilder::new(&translate(written))
            .octal(true)
            .size_limit(16 << 20)
            .build()
            .map_err(|error| {
                error.to_string().lines().last().unwrap_or_default().trim().to_owned()
            })?;
        Ok(Self { written: written.to_owned(), regex })
    }

    /// The expression as written.
    pub fn written(&self) -> &str {
        &self.written
    }

    /// Whether it matches anywhere in `bytes`.
    pub fn matches(&self, bytes: &[u8]) -> bool {
        self.regex.is_match(bytes)
    }

    /// The groups of the first match.
    pub fn groups<'a>(&self, bytes: &'a [u8]) -> Option<Captures<'a>> {
        self.regex.captures(bytes)
    }
}

/// Replaces `$1` and `${name}` in `template` by the matched `groups`.
pub fn expand(groups: &Captures<'_>, template: &[u8]) -> Vec<u8> {
    let mut expanded = Vec::new();
    groups.expand(template, &mut expanded);
    expanded
}

/// The ASCII equivalent of a Perl class, and whether it is negated.
fn class(letter: char) -> Option<(&'static str, bool)> {
    Some(match letter {
        'd' => ("0-9", false),
        'D' => ("0-9", true),
        'w' => ("0-9A-Za-z_", false),
        'W' => ("0-9A-Za-z_", true),
        's' => (r"\t\n\f\r ", false),
        'S' => (r"\t\n\f\r ", true),
        _ => return None,
    })
}

/// Translates `written` to the syntax of `regex`.
fn translate(written: &str) -> String {
    let mut out = String::with_capacity(written.len() + 16);
    let mut rest = written;
    let mut in_brackets = false;
    while let Some(first) = rest.chars().next() {
        let after = &rest[first.len_utf8()..];
        match first {
            '\\' => {
                rest = escaped(after, in_brackets, &mut out);
                continue;
            }
            '[' if in_brackets => {
                match after.starts_with(':').then(|| after.find(":]")).flatten() {
                    Some(end) => {
                        out.push_str(&rest[..end + 3]);
                        rest = &rest[end + 3..];
                        continue;
                    }
                    None => out.push_str(r"\["),
                }
            }
            '[' => {
                in_brackets = true;
                out.push('[');
                rest = after;
                if let Some(after) = rest.strip_prefix('^') {
                    out.push('^');
                    rest = after;
                }
                // A bracket in first place is literal.
                if let Some(after) = rest.strip_prefix(']') {
                    out.push_str(r"\]");
                    rest = after;
                }
                continue;
            }
            ']' if in_brackets => {
                in_brackets = false;
                out.push(']');
            }
            '&' | '~' if in_brackets => {
                out.push('\\');
                out.push(first);
            }
            '-' if in_brackets && after.starts_with('-') => out.push_str(r"\-"),
            '{' if !in_brackets && !is_repetition(rest) => out.push_str(r"\{"),
            '}' if !in_brackets && !ends_repetition(&written[..written.len() - after.len()]) => {
                out.push_str(r"\}");
            }
            other => out.push(other),
        }
        rest = after;
    }
    out
}

/// Translates the escape sequence at the start of `rest` into `out`; returns the remaining text.
fn escaped<'a>(rest: &'a str, in_brackets: bool, out: &mut String) -> &'a str {
    let Some(letter) = rest.chars().next() else {
        out.push('\\');
        return rest;
    };
    let after = &rest[letter.len_utf8()..];
    if let Some((members, negated)) = class(letter) {
        let caret = if negated { "^" } else { "" };
        match (in_brackets, negated) {
            (true, false) => out.push_str(members),
            _ => *out += &format!("[{caret}{members}]"),
        }
        return after;
    }
    match letter {
        'b' | 'B' if !in_brackets => *out += &format!(r"(?-u:\{letter})"),
        'C' if !in_brackets => out.push_str(r"(?s-u:.)"),
        'Q' if !in_brackets => {
            let (quoted, left) = after.split_once(r"\E").unwrap_or((after, ""));
            out.push_str(&regex::escape(quoted));
            return left;
        }
        // A class name, or a character by number.
        'p' | 'P' | 'x' if after.starts_with('{') => {
            let end = after.find('}').map_or(after.len(), |end| end + 1);
            out.push('\\');
            out.push(letter);
            out.push_str(&after[..end]);
            return &after[end..];
        }
        _ => {
            out.push('\\');
            out.push(letter);
        }
    }
    after
}

/// Whether `text` starts with a repetition: `{2}`, `{2,}`, `{2,5}`.
fn is_repetition(text: &str) -> bool {
    let inner =
        text.strip_prefix('{').and_then(|rest| rest.split_once('}')).map(|(inner, _)| inner);
    let is_number = |n: &str| !n.is_empty() && n.len() < 5 && n.bytes().all(|b| b.is_ascii_digit());
    inner.is_some_and(|inner| match inner.split_once(',') {
        None => is_number(inner),
        Some((least, most)) => is_number(least) && (most.is_empty() || is_number(most)),
    })
}

/// Whether the brace at the end of `text` closes a repetition.
fn ends_repetition(text: &str) -> bool {
    text.rfind('{').is_some_and(|open| is_repetition(&text[open..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, text: &str) -> bool {
        Pattern::new(pattern).unwrap_or_else(|e| panic!("{pattern}: {e}")).matches(text.as_bytes())
    }

    #[test]
    fn what_people_write_for_go_means_the_same() {
        assert!(matches(r#"{"status":"ok"}"#, r#"x{"status":"ok"}"#));
        assert!(matches(r#"\{"a":\s*\d{2,3}\}"#, "{\"a\": 42}"));
        assert!(!matches(r"^\d$", "٣"), "digits are ASCII");
        assert!(matches(r"^[\d-]+$", "1-2"));
        assert!(matches(r"^[^\d]+$", "ab"));
        assert!(matches(r"^[\D]$", "é"));
        assert!(matches(r"\Qa.b{\E$", "a.b{"));
        assert!(!matches(r"\Qa.b\E$", "axb"));
        assert!(matches("^+OK", "+OK") || Pattern::new("^+OK").is_ok());
        assert!(matches("[[:alpha:]]{3}", "abc"));
        assert!(matches("[]a]b", "]b"));
        assert!(matches("[[a]b", "[b"));
        assert!(matches("[a&&b]", "&"));
        assert!(matches(r"(?i)HELLO", "hello"));
        assert!(matches(r"\p{Greek}", "α"));
        assert!(matches(r"\bcaf\b", "café"), "word boundaries are ASCII");
        for bad in ["(", "[a", r"\8", "(?=a)", "(?<!a)"] {
            assert!(Pattern::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn groups_are_put_in_as_by_go() {
        let pattern = Pattern::new("PING :([^ ]+)").unwrap();
        let groups = pattern.groups(b"PING :abc def").unwrap();
        assert_eq!(expand(&groups, b"PONG ${1}$$"), b"PONG abc$");
    }
}
