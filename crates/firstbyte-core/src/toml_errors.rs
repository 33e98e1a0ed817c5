//! Rewrites errors of TOML files (plans, scenarios) for the people who write them.
//!
//! Input: the message of a TOML parser, which names Rust types, and its position in the text. Output: one line that
//! names the line, the key, and the expected and the actual kind of value. Values are never repeated: they may be
//! secrets.

use std::ops::Range;

use strsim::damerau_levenshtein;

/// Describes an error in one line: "line 3: unknown key "evry"; did you mean "every"?".
pub fn describe_toml_error(text: &str, message: &str, span: Option<Range<usize>>) -> String {
    let before = span.and_then(|span| text.get(..span.start));
    let line = before.map_or(0, |before| before.matches('\n').count()) + 1;
    let last_line = before.and_then(|before| before.rsplit('\n').next());
    let key = last_line.and_then(key_before);
    format!("line {line}: {}", describe_toml_message(message, key))
}

/// Describes the message alone: "seed: expected a whole number, 0 or more, found text". `key` is the key of the value,
/// if known.
pub fn describe_toml_message(message: &str, key: Option<&str>) -> String {
    let message = message.trim_end();
    if let Some((name, rest)) = quoted_after(message, "unknown field ") {
        return unknown(&format!("unknown key {name:?}"), name, rest);
    }
    if let Some((name, rest)) = quoted_after(message, "unknown variant ") {
        let what = key.map_or_else(|| "value".to_owned(), |key| format!("{key}: value"));
        return unknown(&format!("{what} {name:?} is not known"), name, rest);
    }
    if let Some((name, _)) = quoted_after(message, "missing field ") {
        return format!("key {name:?} is missing");
    }
    if let Some((name, _)) = quoted_after(message, "duplicate field ") {
        return format!("key {name:?} is given twice");
    }
    let kinds = ["invalid type: ", "invalid value: ", "invalid length "];
    let rest = kinds.into_iter().find_map(|kind| message.strip_prefix(kind));
    let Some((found, wanted)) = rest.and_then(|rest| rest.rsplit_once(", expected ")) else {
        let known = SYNTAX.iter().find(|(said, _)| message.starts_with(said));
        return known.map_or_else(|| message.replace('\n', "; "), |(_, meant)| (*meant).to_owned());
    };
    let place = key.map(|key| format!("{key}: ")).unwrap_or_default();
    format!("{place}expected {}, found {}", expected(wanted), shown(found))
}

/// The TOML parser's syntax errors, and the advice for each.
const SYNTAX: [(&str, &str); 10] = [
    ("unclosed array table", "write [[NAME]]"),
    ("key with no value", "write KEY = VALUE"),
    ("string values must be quoted", "put the text in quotes"),
    ("unclosed array", "] is missing"),
    ("unclosed table", "write [NAME]"),
    ("invalid literal string", "the text has no closing '"),
    ("invalid basic string", "the text has no closing \""),
    ("missing comma", "a comma is missing"),
    ("unexpected key or value", "a line has one KEY = VALUE"),
    ("duplicate key", "the key is given twice"),
];

/// Key of the last value that begins at the end of `line`.
fn key_before(line: &str) -> Option<&str> {
    let (before, _) = line.rsplit_once('=')?;
    let before = before.trim_end();
    let is_key = |c: char| c.is_alphanumeric() || "_-.\"'".contains(c);
    let start = before.char_indices().rev().take_while(|(_, c)| is_key(*c)).last()?.0;
    before.get(start..)
}

/// Text in the backticks right after `prefix`, and the text after them.
fn quoted_after<'m>(message: &'m str, prefix: &str) -> Option<(&'m str, &'m str)> {
    message.strip_prefix(prefix)?.strip_prefix('`')?.split_once('`')
}

/// Appends to `what` the nearest known name, or all names that `rest` quotes.
fn unknown(what: &str, name: &str, rest: &str) -> String {
    let known: Vec<&str> = rest.split('`').skip(1).step_by(2).collect();
    let nearest = known.iter().min_by_key(|known| damerau_levenshtein(name, known));
    match nearest {
        // A third of the letters, as in other tools.
        Some(nearest)
            if damerau_levenshtein(name, nearest) * 3 <= nearest.chars().count().max(3) =>
        {
            format!("{what}; did you mean {nearest:?}?")
        }
        Some(_) => format!("{what}; known: {}", known.join(", ")),
        None => what.to_owned(),
    }
}

/// The kind of value that the parser expects.
fn expected(wanted: &str) -> String {
    let up_to = |most: u64| format!("a whole number from 0 to {most}");
    match wanted {
        "u8" => up_to(u8::MAX.into()),
        "u16" => up_to(u16::MAX.into()),
        "u32" | "u64" | "usize" => "a whole number, 0 or more".into(),
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number".into(),
        "a nonzero u32" | "a nonzero u64" | "a nonzero usize" => "a whole number above 0".into(),
        "f32" | "f64" => "a number".into(),
        "a boolean" | "bool" => "true or false".into(),
        "a string" | "string" | "str" => "text in quotes".into(),
        "a sequence" => "a list in [ ]".into(),
        "a map" => "a table".into(),
        _ if wanted.starts_with("struct ") => "a table".into(),
        _ => match wanted.strip_prefix("an array of length ") {
            Some(length) => format!("a list of {length} values"),
            None => wanted.to_owned(),
        },
    }
}

/// The kind of value that the parser found.
fn shown(found: &str) -> String {
    let number = found.strip_prefix("integer ").or_else(|| found.strip_prefix("floating point "));
    if let Some(number) = number {
        return format!("the number {}", number.trim_matches('`'));
    }
    if let Some(truth) = found.strip_prefix("boolean ") {
        return truth.trim_matches('`').to_owned();
    }
    match found {
        "sequence" => "a list".into(),
        "map" => "a table".into(),
        _ if found.starts_with("string ") => "text".into(),
        _ => match found.parse::<u64>() {
            Ok(length) => length.to_string(),
            Err(_) => found.to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_type_of_rust_is_named() {
        for (message, said) in [
            (
                "invalid type: integer `3`, expected a string",
                "expected text in quotes, found the number 3",
            ),
            (
                "invalid type: string \"s3cret\", expected u64",
                "expected a whole number, 0 or more, found text",
            ),
            (
                "invalid value: integer `-1`, expected u32",
                "expected a whole number, 0 or more, found the number -1",
            ),
            ("invalid type: boolean `true`, expected f64", "expected a number, found true"),
            ("invalid type: map, expected a sequence", "expected a list in [ ], found a table"),
            (
                "invalid type: sequence, expected struct HostDocument",
                "expected a table, found a list",
            ),
            (
                "invalid length 1, expected an array of length 2",
                "expected a list of 2 values, found 1",
            ),
        ] {
            assert_eq!(describe_toml_message(message, None), said, "{message}");
            assert_eq!(describe_toml_message(message, Some("key")), format!("key: {said}"));
        }
    }

    #[test]
    fn line_and_key_are_found() {
        let text = "a = 1\nup = { delay = 3, loss = \"1%\" }\n";
        let at = text.find('3').unwrap();
        let message = "invalid type: integer `3`, expected a string";
        assert_eq!(
            describe_toml_error(text, message, Some(at..at + 1)),
            "line 2: delay: expected text in quotes, found the number 3"
        );
        assert_eq!(describe_toml_error(text, "broken", None), "line 1: broken");
    }

    #[test]
    fn keys_are_named_with_what_was_meant() {
        for (message, said) in [
            (
                "unknown field `evry`, expected `every` or `url`",
                r#"unknown key "evry"; did you mean "every"?"#,
            ),
            (
                "unknown field `ipv4`, expected one of `after`, `host`",
                r#"unknown key "ipv4"; known: after, host"#,
            ),
            ("unknown field `x`, there are no fields", r#"unknown key "x""#),
            ("missing field `after`", r#"key "after" is missing"#),
            ("duplicate field `after`", r#"key "after" is given twice"#),
            ("unclosed array table, expected `]`", "write [[NAME]]"),
        ] {
            assert_eq!(describe_toml_message(message, None), said);
        }
    }
}
