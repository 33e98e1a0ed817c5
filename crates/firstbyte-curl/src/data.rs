//! Bodies and queries of `-d` and its like, `-G` and `--url-query`.
//!
//! Input: the texts as typed, and their files. Output: the bytes that curl 7.88 sends. A missing file is a problem here;
//! curl 7.88 sends an empty part instead.

use std::io;

use crate::files::{LineFiles, read_named};
use crate::problem::{LineProblem, exit};
use crate::settings::DataPart;

/// Line ends are looked for in pieces of this many bytes, as long as curl's buffer (`file2string` in tool_paramhlp.c).
const LINE_PIECE: usize = 255;

/// Joins all parts of a body in the order typed.
///
/// # Errors
/// When a file cannot be read.
pub fn build_body(parts: &[DataPart], files: &dyn LineFiles) -> Result<Vec<u8>, LineProblem> {
    let mut body = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        if at > 0 && !matches!(part, DataPart::Json(_)) {
            body.push(b'&');
        }
        body.extend(read_data(part, files)?);
    }
    Ok(body)
}

/// The query that `-G` makes of a body.
///
/// # Errors
/// When it cannot stand in a URL: curl encodes only `--data-urlencode`.
pub fn build_query(body: &[u8]) -> Result<String, LineProblem> {
    // curl reads the body as text of C here: it ends at a NUL.
    let text = body.split(|byte| *byte == 0).next().unwrap_or_default();
    let text = std::str::from_utf8(text).map_err(|_| {
        LineProblem::option("get", "the data is not UTF-8: it cannot go into a URL")
    })?;
    finish_query("get", text)
}

/// Joins the texts of `--url-query`: encoded as by `--data-urlencode`, except those after `+`.
///
/// # Errors
/// When a file cannot be read, or the text after `+` cannot stand in a URL.
pub fn build_url_query(texts: &[String], files: &dyn LineFiles) -> Result<String, LineProblem> {
    let mut parts = Vec::new();
    for text in texts {
        parts.push(match text.strip_prefix('+') {
            Some(raw) => raw.to_owned(),
            None => encode_for_url("url-query", text, files)?,
        });
    }
    finish_query("url-query", &parts.join("&"))
}

/// Reads the file that an option names; `-` is standard input.
pub(crate) fn read_file(
    long: &str,
    name: &str,
    files: &dyn LineFiles,
) -> Result<Vec<u8>, LineProblem> {
    read_named(files, name).map_err(|error| unreadable_file(long, name, &error))
}

/// Names the option and its file that cannot be read.
pub(crate) fn unreadable_file(long: &str, name: &str, error: &io::Error) -> LineProblem {
    LineProblem::option(long, format!("cannot read {name:?}: {error}")).with_code(exit::READ)
}

/// The bytes of one part.
fn read_data(part: &DataPart, files: &dyn LineFiles) -> Result<Vec<u8>, LineProblem> {
    let (long, text) = match part {
        DataPart::Ascii(text) => ("data", text),
        DataPart::Binary(text) => ("data-binary", text),
        DataPart::Json(text) => ("json", text),
        DataPart::Raw(text) => return Ok(text.clone().into_bytes()),
        DataPart::UrlEncode(text) => {
            return encode_for_url("data-urlencode", text, files).map(String::into_bytes);
        }
    };
    let Some(name) = text.strip_prefix('@') else {
        return Ok(text.clone().into_bytes());
    };
    let bytes = read_file(long, name, files)?;
    Ok(if matches!(part, DataPart::Ascii(_)) { drop_line_ends(&bytes) } else { bytes })
}

/// Joins lines as curl does: a CR or a NUL inside a line drops what follows on it.
fn drop_line_ends(bytes: &[u8]) -> Vec<u8> {
    let lines = bytes.split_inclusive(|byte| *byte == b'\n');
    let pieces = lines.flat_map(|line| line.chunks(LINE_PIECE));
    pieces
        .flat_map(|piece| piece.iter().take_while(|byte| !matches!(**byte, b'\r' | b'\n' | 0)))
        .copied()
        .collect()
}

/// Encodes `content`, `=content`, `name=content`, `@file` or `name@file`. The name is sent as typed.
fn encode_for_url(long: &str, text: &str, files: &dyn LineFiles) -> Result<String, LineProblem> {
    let (name, content) = match (text.split_once('='), text.split_once('@')) {
        (Some((name, content)), _) => (name, content.as_bytes().to_vec()),
        (None, Some((name, file))) => {
            let content = read_file(long, file, files)?;
            // An empty file drops its name too.
            (if content.is_empty() { "" } else { name }, content)
        }
        (None, None) => ("", text.as_bytes().to_vec()),
    };
    let mut encoded = if name.is_empty() { String::new() } else { format!("{name}=") };
    for byte in content {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(char::from(byte));
            }
            b' ' => encoded.push('+'),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    Ok(encoded)
}

/// Does to a query what curl's URL parser does: refuses blanks, cuts the fragment, and lowers the digits after `%`.
fn finish_query(long: &str, text: &str) -> Result<String, LineProblem> {
    if text.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
        let problem = LineProblem::option(long, "a URL has no blanks and control characters");
        return Err(problem
            .with_code(exit::URL)
            .hint("--data-urlencode with --get, or --url-query NAME=VALUE, encodes them"));
    }
    let text = text.split('#').next().unwrap_or_default();
    let mut pieces = text.split('%');
    let mut query = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        query.push('%');
        match piece.split_at_checked(2) {
            Some((digits, rest)) if digits.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
                query.push_str(&digits.to_ascii_lowercase());
                query.push_str(rest);
            }
            _ => query.push_str(piece),
        }
    }
    Ok(query)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::MemoryFiles;
    use crate::settings::DataPart::{Ascii, Binary, Json, Raw, UrlEncode};

    type TypedPart = (fn(String) -> DataPart, &'static str);

    fn files() -> MemoryFiles {
        let files = MemoryFiles::with(&[
            ("file.txt", "first line\nsecond line\n"),
            ("odd", "a\rb\r\nc\nd\0e"),
            ("nul", "a\0b\r\n"),
            ("empty", ""),
        ]);
        *files.stdin.borrow_mut() = b"l1\nl2\n".to_vec();
        files
    }

    fn body_of(parts: &[TypedPart]) -> Result<Vec<u8>, LineProblem> {
        let parts: Vec<_> = parts.iter().map(|(part, text)| part((*text).to_owned())).collect();
        build_body(&parts, &files())
    }

    #[test]
    fn bodies_as_curl_sends_them() {
        let cases: [(&[TypedPart], &str); 30] = [
            (&[(Raw, "a=1"), (Ascii, "b=2")], "a=1&b=2"),
            (&[(Ascii, "@file.txt")], "first linesecond line"),
            (&[(Ascii, "@odd")], "acd"),
            (&[(Ascii, "@-")], "l1l2"),
            (&[(Ascii, "a\r\nb")], "a\r\nb"),
            (&[(Ascii, "")], ""),
            (&[(Ascii, ""), (Ascii, "a=1")], "&a=1"),
            (&[(Ascii, "a=1"), (Ascii, "")], "a=1&"),
            (&[(Raw, "@x")], "@x"),
            (&[(Binary, "@nul")], "a\0b\r\n"),
            (&[(Json, "@nul")], "a\0b\r\n"),
            (&[(Json, ""), (Json, "{}")], "{}"),
            (&[(Json, "{\"a\":1}"), (Json, ",2")], "{\"a\":1},2"),
            (&[(Json, "{}"), (Ascii, "x=1")], "{}&x=1"),
            (&[(Ascii, "x=1"), (Json, "{}")], "x=1{}"),
            (&[(UrlEncode, "content")], "content"),
            (&[(UrlEncode, "=con=tent &")], "con%3Dtent+%26"),
            (&[(UrlEncode, "na me=con tent")], "na me=con+tent"),
            (&[(UrlEncode, "@file.txt")], "first+line%0Asecond+line%0A"),
            (&[(UrlEncode, "name@file.txt")], "name=first+line%0Asecond+line%0A"),
            (&[(UrlEncode, "@nul")], "a%00b%0D%0A"),
            (&[(UrlEncode, "a=~._-!*()")], "a=~._-%21%2A%28%29"),
            (&[(UrlEncode, "a=b@c")], "a=b%40c"),
            (&[(UrlEncode, "a@b=c")], "a@b=c"),
            (&[(UrlEncode, "ü=ä")], "ü=%C3%A4"),
            (&[(UrlEncode, "n@empty")], ""),
            (&[(UrlEncode, "n=")], "n="),
            (&[(UrlEncode, "=")], ""),
            (&[(UrlEncode, "a="), (Ascii, "@empty"), (UrlEncode, "=b")], "a=&&b"),
            (&[(Ascii, "x"), (UrlEncode, "q=1 2")], "x&q=1+2"),
        ];
        for (parts, sent) in cases {
            let body = body_of(parts).unwrap();
            assert_eq!(String::from_utf8(body).unwrap(), sent);
        }
    }

    #[test]
    fn long_lines_are_read_in_pieces() {
        let text = [&*"x".repeat(254), "\rAB\rC\n", &*"y".repeat(255), "Z\n"].concat();
        let sent = [&*"x".repeat(254), "AB", &*"y".repeat(255), "Z"].concat();
        assert_eq!(drop_line_ends(text.as_bytes()), sent.as_bytes());
    }

    #[test]
    fn missing_files_are_named() {
        let cases: [(TypedPart, &str); 4] = [
            ((Ascii, "@gone"), "--data: cannot read \"gone\": "),
            ((Binary, "@gone"), "--data-binary: cannot read \"gone\": "),
            ((Json, "@gone"), "--json: cannot read \"gone\": "),
            ((UrlEncode, "n@gone"), "--data-urlencode: cannot read \"gone\": "),
        ];
        for (part, start) in cases {
            let problem = body_of(&[part]).unwrap_err();
            assert_eq!(problem.code, exit::READ);
            assert!(problem.message.starts_with(start), "{problem}");
        }
    }

    #[test]
    fn queries_of_bodies() {
        let cases: [(&[u8], &str); 8] = [
            (b"a=1&q=x+y", "a=1&q=x+y"),
            (b"", ""),
            (b"q=%C3%A4%2F%C3%9C+%2B&r=%2F%AB", "q=%c3%a4%2f%c3%9c+%2b&r=%2f%ab"),
            (b"%Fg%FF%AA%aB%", "%Fg%ff%aa%ab%"),
            (b"c={\"x\":[1]}", "c={\"x\":[1]}"),
            (b"a=1#f", "a=1"),
            (b"a\0b", "a"),
            ("ü=1".as_bytes(), "ü=1"),
        ];
        for (body, query) in cases {
            assert_eq!(build_query(body).as_deref(), Ok(query));
        }
        for body in ["a b", "a#b c", "a\x7f", "alpha=1\n"] {
            assert_eq!(build_query(body.as_bytes()).unwrap_err().code, exit::URL);
        }
        assert!(build_query(b"\xff").is_err());
    }

    #[test]
    fn queries_of_url_query() {
        let cases: [(&[&str], &str); 8] = [
            (&["q=a b"], "q=a+b"),
            (&["+raw=a", "b=2"], "raw=a&b=2"),
            (&["a=%2F", "b", "=c d", "+e=%2F"], "a=%252F&b&c+d&e=%2f"),
            (&["@file.txt"], "first+line%0asecond+line%0a"),
            (&["n@empty", "b"], "&b"),
            (&["+a#b", "c"], "a"),
            (&[""], ""),
            (&["", "a"], "&a"),
        ];
        for (texts, query) in cases {
            let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
            assert_eq!(build_url_query(&texts, &files()).as_deref(), Ok(query));
        }
        let problem = build_url_query(&["+a b".to_owned()], &files()).unwrap_err();
        assert_eq!(problem.code, exit::URL);
        assert!(problem.message.starts_with("--url-query: "), "{problem}");
        let problem = build_url_query(&["@gone".to_owned()], &files()).unwrap_err();
        assert_eq!(problem.code, exit::READ);
    }
}
