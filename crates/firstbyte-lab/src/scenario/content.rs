//! Content of single paths of a server host: documents, style sheets, pictures, fonts.
//!
//! In: the file's `content`. Out: bodies with their media types, each of the configured length.

use std::collections::BTreeMap;

use super::document::ContentDocument;
use super::error::ScenarioError;
use super::place::{DURATION, Place, optional, quoted};
use super::units;
use crate::builtin_server::Content;

/// Longest body in bytes; bodies are kept in memory.
const MAX_BYTES: u64 = 10_000_000;

pub(super) fn check(
    place: &Place<'_>,
    raw: BTreeMap<String, ContentDocument>,
) -> Result<BTreeMap<String, Content>, ScenarioError> {
    let checked = raw.into_iter().map(|(path, raw)| {
        if !is_plain_path(&path) {
            let allowed = "a path of letters, digits and -._~, such as \"/style.css\"";
            return Err(place.bad(quoted(&path), allowed));
        }
        let content = one(&place.at(&path), raw)?;
        Ok((path, content))
    });
    checked.collect()
}

/// Whether a path needs no escaping in any server's configuration, and is not one that the servers answer anyway.
fn is_plain_path(path: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._~/".contains(c);
    let own = path == "/w" || path == "/redirect" || path.starts_with("/bytes/");
    path.starts_with('/') && path.chars().all(plain) && !path.contains("..") && !own
}

fn one(place: &Place<'_>, raw: ContentDocument) -> Result<Content, ScenarioError> {
    let plain_type =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '-' | '+' | '.' | ';' | '=' | ' ');
    if raw.content_type.is_empty() || !raw.content_type.chars().all(plain_type) {
        let allowed = "a content type, such as \"text/html; charset=utf-8\"";
        return Err(place.at("type").bad(quoted(&raw.content_type), allowed));
    }
    let (mut body, filler) = match (raw.text, raw.hex) {
        (text, None) => (text.unwrap_or_default().into_bytes(), b'\n'),
        (None, Some(hex)) => {
            let bytes = parse_hex(&hex);
            let bad = || place.at("hex").bad("…", "pairs of hexadecimal digits");
            (bytes.ok_or_else(bad)?, 0)
        }
        (Some(_), Some(_)) => return Err(place.at("hex").bad("…", "text or hex, not both")),
    };
    if let Some(size) = raw.bytes {
        let least = body.len() as u64;
        let bytes = size.bytes().filter(|bytes| (least..=MAX_BYTES).contains(bytes));
        let bad = || place.at("bytes").bad(&size, format!("{least} to {MAX_BYTES}"));
        body.resize(bytes.ok_or_else(bad)? as usize, filler);
    }
    let think_time = optional(&place.at("think_time"), raw.think_time, units::duration, DURATION)?;
    Ok(Content { content_type: raw.content_type, body, think_time: think_time.unwrap_or_default() })
}

/// Parses pairs of hexadecimal digits, ignoring white space.
fn parse_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.chars().filter(|c| !c.is_ascii_whitespace()).map(|c| c.to_digit(16));
    let digits: Vec<u32> = digits.collect::<Option<_>>()?;
    let pair = |pair: &[u32]| match pair {
        [high, low] => u8::try_from(high * 16 + low).ok(),
        _ => None,
    };
    digits.chunks(2).map(pair).collect()
}
