//! Annotations from people: parsed, checked, and handed to the recorder, which alone writes to the store.

use std::collections::BTreeMap;
use std::time::Duration;

use firstbyte_clock::Realtime;
use firstbyte_monitor::store::Annotation;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use super::answers::Refusal;
use super::parameters::{is_moment, moment};
use crate::recording::Observer;

/// Maximum size of a request body, in bytes.
const MOST_BYTES: usize = 64 * 1024;
const MOST_TEXT: usize = 2_000;
const MOST_TAGS: usize = 32;
const MOST_TAG: usize = 200;
/// Time limit for the request body.
const BODY_PATIENCE: Duration = Duration::from_secs(10);
/// Time limit for storing it; the recorder looks every few seconds.
const KEEP_PATIENCE: Duration = Duration::from_secs(30);

/// An annotation in a request.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sent {
    at: Option<When>,
    text: String,
    #[serde(default)]
    tags: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum When {
    Seconds(i64),
    Text(String),
}

/// An annotation in a response.
#[derive(Serialize)]
pub(super) struct Shown {
    at: i64,
    text: String,
    tags: BTreeMap<String, String>,
}

impl Shown {
    pub(super) fn new(annotation: Annotation) -> Self {
        let Annotation { at, text, tags } = annotation;
        Self { at, text, tags }
    }
}

pub(super) fn now() -> i64 {
    i64::try_from(Realtime::now().unix_nanos() / 1_000_000_000).unwrap_or(i64::MAX)
}

/// Stores the annotation in `body`.
pub(super) async fn keep(
    headers: &HeaderMap,
    body: Incoming,
    observer: &Observer,
) -> Result<Shown, Refusal> {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/json") {
        // Another site's page cannot send this type without a preflight.
        let what = "expected a JSON annotation: send Content-Type: application/json";
        return Err(Refusal::Because(StatusCode::UNSUPPORTED_MEDIA_TYPE, what.to_owned()));
    }
    let bytes = match timeout(BODY_PATIENCE, Limited::new(body, MOST_BYTES).collect()).await {
        Err(_) => {
            let what = format!("the body took longer than {} s", BODY_PATIENCE.as_secs());
            return Err(Refusal::Because(StatusCode::REQUEST_TIMEOUT, what));
        }
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let what = format!("more than {MOST_BYTES} bytes");
            return Err(Refusal::Because(StatusCode::PAYLOAD_TOO_LARGE, what));
        }
        Ok(Err(_)) => return Err(Refusal::Bad("the body is incomplete".to_owned())),
        Ok(Ok(body)) => body.to_bytes(),
    };
    let annotation = read(&bytes, now()).map_err(Refusal::Bad)?;
    match timeout(KEEP_PATIENCE, observer.keep(annotation.clone())).await {
        Ok(Ok(())) => Ok(Shown::new(annotation)),
        Ok(Err(why)) => Err(Refusal::unavailable(format!("not stored: {why}"))),
        Err(_) => Err(Refusal::unavailable(
            "the recorder is busy: the annotation may be stored \
                                            later",
        )),
    }
}

fn read(bytes: &[u8], now: i64) -> Result<Annotation, String> {
    let sent: Sent = serde_json::from_slice(bytes).map_err(|error| {
        format!(
            "{error}: write {{\"at\": \"2026-11-23T12:00:00Z\", \"text\": \"…\", \"tags\": {{}}}}"
        )
    })?;
    let at = match sent.at {
        None => Some(now),
        Some(When::Seconds(seconds)) => Some(seconds).filter(|seconds| is_moment(*seconds)),
        Some(When::Text(text)) => moment(&text),
    };
    let at = at.ok_or(
        "\"at\" is not a time: write seconds since 1970, or \
                       \"2026-11-23T12:00:00Z\"",
    )?;
    let Sent { text, tags, .. } = sent;
    check_annotation(&text, &tags)?;
    Ok(Annotation { at, text, tags })
}

/// Checks whether `text` and `tags` can be stored as an annotation.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn check_annotation(text: &str, tags: &BTreeMap<String, String>) -> Result<(), String> {
    if text.trim().is_empty() || text.chars().count() > MOST_TEXT {
        return Err(format!("the text is empty or longer than {MOST_TEXT} characters"));
    }
    if text.chars().any(|c| c.is_control() && c != '\n') {
        return Err("the text has control characters".to_owned());
    }
    if tags.len() > MOST_TAGS {
        return Err(format!("more than {MOST_TAGS} tags"));
    }
    for (name, value) in tags {
        let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.len() <= MOST_TAG;
        if !is_name {
            return Err(format!("{name:?} is not a tag name: use letters, digits and _"));
        }
        if value.chars().count() > MOST_TAG || value.chars().any(char::is_control) {
            let what = format!("longer than {MOST_TAG} characters, or not a single line");
            return Err(format!("tag {name}: {what}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_are_checked() {
        let kept = read(br#"{"at":"2026-11-23T00:00:00Z","text":"deploy","tags":{"a":"b"}}"#, 7);
        let kept = kept.unwrap();
        assert_eq!((kept.text.as_str(), kept.tags["a"].as_str()), ("deploy", "b"));
        assert_eq!(kept.at, 1_795_392_000);
        assert_eq!(read(br#"{"text":"now"}"#, 7).unwrap().at, 7);
        assert_eq!(read(br#"{"text":"then","at":3}"#, 7).unwrap().at, 3);
        for (bad, part) in [
            (r#"{"at":1}"#, "missing field `text`"),
            (r#"{"text":" "}"#, "the text is empty"),
            (r#"{"text":"x","at":-1}"#, "\"at\" is not a time"),
            (r#"{"text":"x","at":"soon"}"#, "\"at\" is not a time"),
            (r#"{"text":"x\u001b[2J"}"#, "control characters"),
            (r#"{"text":"x","tags":{"a b":"c"}}"#, "\"a b\" is not a tag name"),
            (r#"{"text":"x","tags":{"a":"\n"}}"#, "tag a: "),
            (r#"{"text":"x","who":"me"}"#, "unknown field `who`"),
            ("[]", "write {"),
        ] {
            let why = read(bad.as_bytes(), 7).unwrap_err();
            assert!(why.contains(part), "{bad}: {why}");
        }
    }
}
