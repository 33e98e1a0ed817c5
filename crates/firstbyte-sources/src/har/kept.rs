//! The texts that are kept when an archive is cleaned: listed words, and field values that match a grammar.
//!
//! Input: arbitrary text. Output: the same text, or the part of it that can only be what it claims to be. Nothing here
//! tries to recognise secrets: text that is on no list is dropped.

/// Common methods of the IANA registry, and two that caches use.
const METHODS: [&str; 24] = [
    "GET",
    "HEAD",
    "POST",
    "PUT",
    "DELETE",
    "CONNECT",
    "OPTIONS",
    "TRACE",
    "PATCH",
    "PROPFIND",
    "PROPPATCH",
    "MKCOL",
    "COPY",
    "MOVE",
    "LOCK",
    "UNLOCK",
    "REPORT",
    "SEARCH",
    "QUERY",
    "BIND",
    "ACL",
    "CHECKOUT",
    "PURGE",
    "PRI",
];

/// Chromium's `ResourceType` and other programs' types, case-insensitive; all others become `other`.
const RESOURCE_TYPES: [&str; 26] = [
    "document",
    "stylesheet",
    "image",
    "media",
    "font",
    "script",
    "texttrack",
    "xhr",
    "fetch",
    "prefetch",
    "eventsource",
    "websocket",
    "manifest",
    "signedexchange",
    "ping",
    "cspviolationreport",
    "preflight",
    "fedcm",
    "beacon",
    "html",
    "css",
    "js",
    "text",
    "video",
    "audio",
    "other",
];

const PRIORITIES: [&str; 9] =
    ["VeryLow", "Low", "Medium", "High", "VeryHigh", "Lowest", "Normal", "Highest", "Idle"];

/// WebKit's fetch types.
const FETCH_TYPES: [&str; 4] = ["Network Load", "Memory Cache", "Disk Cache", "Service Worker"];

const PROTOCOLS: [&str; 21] = [
    "",
    "unknown",
    "http/0.9",
    "http/1.0",
    "http/1.1",
    "http/2",
    "http/2.0",
    "http/3",
    "http/3.0",
    "h2",
    "h2c",
    "h3",
    "http/2+quic",
    "spdy/3.1",
    "ws",
    "wss",
    "data",
    "blob",
    "file",
    "about",
    "filesystem",
];

const CODINGS: [&str; 11] = [
    "gzip", "x-gzip", "br", "zstd", "deflate", "compress", "identity", "chunked", "trailers",
    "dcb", "dcz",
];

/// Directives of RFC 9111, 5861, 8246 and 9213; their arguments are seconds.
const DIRECTIVES: [&str; 16] = [
    "max-age",
    "s-maxage",
    "no-cache",
    "no-store",
    "no-transform",
    "must-revalidate",
    "proxy-revalidate",
    "must-understand",
    "private",
    "public",
    "immutable",
    "max-stale",
    "min-fresh",
    "only-if-cached",
    "stale-while-revalidate",
    "stale-if-error",
];

/// Header fields that `Vary` may list.
const VARYING: [&str; 20] = [
    "*",
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "access-control-request-headers",
    "access-control-request-method",
    "authorization",
    "cookie",
    "dpr",
    "origin",
    "referer",
    "save-data",
    "sec-ch-ua",
    "sec-fetch-dest",
    "sec-fetch-mode",
    "sec-fetch-site",
    "user-agent",
    "x-requested-with",
    "x-forwarded-proto",
];

fn listed(text: &str, list: &[&str]) -> bool {
    list.iter().any(|known| known.eq_ignore_ascii_case(text))
}

fn are_digits(text: &str, most: usize) -> bool {
    !text.is_empty() && text.len() <= most && text.bytes().all(|c| c.is_ascii_digit())
}

pub(super) fn method(text: String) -> Option<String> {
    METHODS.contains(&&*text).then_some(text)
}

pub(super) fn protocol(text: String) -> Option<String> {
    // Drafts: "h3-29", "http/2+quic/46".
    let draft = ["h3-", "http/2+quic/"].iter().find_map(|name| text.strip_prefix(name));
    let is_draft = draft.is_some_and(|number| {
        let number = number.trim_start_matches(['Q', 'T']);
        are_digits(number, 3)
    });
    (is_draft || listed(&text, &PROTOCOLS)).then_some(text)
}

pub(super) fn resource_type(text: String) -> Option<String> {
    Some(if listed(&text, &RESOURCE_TYPES) { text } else { "other".to_owned() })
}

pub(super) fn priority(text: String) -> Option<String> {
    listed(&text, &PRIORITIES).then_some(text)
}

pub(super) fn fetch_type(text: String) -> Option<String> {
    FETCH_TYPES.contains(&&*text).then_some(text)
}

/// Name of the cache that answered. Unknown names become "cache", so that the cache hit itself is kept.
pub(super) fn cache(text: String) -> Option<String> {
    Some(if listed(&text, &["memory", "disk"]) { text } else { "cache".to_owned() })
}

/// The browser's name of an error. Other text becomes "failed", so that the failure itself is kept.
pub(super) fn error(text: String) -> Option<String> {
    let is_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    let name = text.strip_prefix("net::ERR_").or_else(|| text.strip_prefix("NS_"));
    let is_known =
        name.is_some_and(|name| (1..=50).contains(&name.len()) && name.chars().all(is_name));
    Some(if is_known || text.is_empty() { text } else { "failed".to_owned() })
}

/// Name or version of a program.
pub(super) fn program(text: String) -> Option<String> {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || " .-_+()/'".contains(c);
    (text.len() <= 60 && text.chars().all(is_of_name)).then_some(text)
}

/// A point in time, with or without a time zone.
pub(super) fn date(text: String) -> Option<String> {
    let is_of_date = |c: char| c.is_ascii_digit() || "-+:.TtZz ".contains(c);
    (text.len() <= 40 && text.chars().all(is_of_date)).then_some(text)
}

/// A media type without its parameters, since the `boundary` of a multipart body is one.
pub(super) fn media_type(text: &str) -> Option<String> {
    const KINDS: [&str; 10] = [
        "application",
        "audio",
        "font",
        "image",
        "message",
        "model",
        "multipart",
        "text",
        "video",
        "x-unknown",
    ];
    let text = text.split(';').next().unwrap_or_default().trim();
    let (kind, rest) = text.split_once('/')?;
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || "+-._".contains(c);
    let is_name = (1..=80).contains(&rest.len()) && rest.chars().all(is_of_name);
    (is_name && listed(kind, &KINDS)).then(|| text.to_owned())
}

/// The part of a field's value that is kept: that which controls caching, compression and connections.
///
/// Absent if the field is not kept.
pub(super) fn field(name: &str, value: &str) -> Option<String> {
    let value = value.trim();
    match &*name.to_ascii_lowercase() {
        "age" | "content-length" => are_digits(value, 16).then(|| value.to_owned()),
        "date" | "last-modified" => is_http_date(value).then(|| value.to_owned()),
        "expires" => (is_http_date(value) || matches!(value, "0" | "-1")).then(|| value.to_owned()),
        "content-type" => media_type(value),
        "content-encoding" | "transfer-encoding" => elements(value, |e| listed(e, &CODINGS)),
        "connection" => elements(value, |e| listed(e, &["keep-alive", "close", "upgrade"])),
        "keep-alive" => elements(value, |e| {
            e.split_once('=').is_some_and(|(name, n)| {
                listed(name.trim(), &["timeout", "max"]) && are_digits(n.trim(), 9)
            })
        }),
        "cache-control" => elements(value, |e| match e.split_once('=') {
            Some((name, n)) => listed(name, &DIRECTIVES) && are_digits(n, 12),
            None => listed(e, &DIRECTIVES),
        }),
        "vary" => elements(value, |e| listed(e, &VARYING)),
        "alt-svc" => elements(value, is_alternative),
        _ => None,
    }
}

/// The list elements for which `is_kept` holds; absent if there are none.
fn elements(value: &str, is_kept: impl Fn(&str) -> bool) -> Option<String> {
    let kept = value.split(',').map(str::trim).filter(|element| is_kept(element)).take(30);
    let kept: Vec<&str> = kept.collect();
    (!kept.is_empty()).then(|| kept.join(", "))
}

/// `h3=":443"; ma=86400`: a protocol at a port. Another host is dropped, since its name could be anything.
fn is_alternative(element: &str) -> bool {
    if element == "clear" {
        return true;
    }
    let mut parts = element.split(';').map(str::trim);
    let is_place =
        parts.next().and_then(|place| place.split_once('=')).is_some_and(|(name, at)| {
            let port = at.strip_prefix("\":").and_then(|rest| rest.strip_suffix('"'));
            protocol(name.to_owned()).is_some() && port.is_some_and(|port| are_digits(port, 5))
        });
    is_place
        && parts.all(|part| {
            part.split_once('=')
                .is_some_and(|(name, n)| listed(name, &["ma", "persist"]) && are_digits(n, 12))
        })
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`, the form of RFC 9110 §5.6.7 that senders must use.
fn is_http_date(text: &str) -> bool {
    const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let parts: Vec<&str> = text.split(' ').collect();
    let [day, of_month, month, year, time, zone] = parts[..] else { return false };
    let is_time = time.len() == 8 && time.split(':').all(|two| are_digits(two, 2));
    day.strip_suffix(',').is_some_and(|day| DAYS.contains(&day))
        && are_digits(of_month, 2)
        && MONTHS.contains(&month)
        && are_digits(year, 4)
        && is_time
        && zone == "GMT"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_keep_what_they_are_for() {
        for (name, value, kept) in [
            ("Cache-Control", "max-age=600, private, x-user=s3cret", Some("max-age=600, private")),
            ("cache-control", "max-age=s3cret", None),
            ("Vary", "Accept-Encoding, X-S3cret", Some("Accept-Encoding")),
            ("Alt-Svc", "h3=\":443\"; ma=86400, h2=\"s3cret.a:1\"", Some("h3=\":443\"; ma=86400")),
            ("alt-svc", "clear", Some("clear")),
            ("alt-svc", "h3=\":443\"; v=\"s3cret\"", None),
            ("Connection", "keep-alive, s3cret", Some("keep-alive")),
            ("Keep-Alive", "timeout=5, max=100, s=3", Some("timeout=5, max=100")),
            ("Date", "Mon, 23 Nov 2026 06:27:01 GMT", Some("Mon, 23 Nov 2026 06:27:01 GMT")),
            ("Date", "s3cret, 23 Nov 2026 06:27:01 GMT", None),
            ("Expires", "0", Some("0")),
            ("Age", "12", Some("12")),
            ("Age", "s3cret", None),
            ("Content-Length", "99999999999999999999", None),
            ("Content-Type", "text/html; boundary=s3cret", Some("text/html")),
            ("Content-Type", "s3cret/s3cret", None),
            ("Content-Encoding", "br, s3cret", Some("br")),
            ("Set-Cookie", "s3cret", None),
            ("ETag", "\"s3cret\"", None),
        ] {
            assert_eq!(field(name, value).as_deref(), kept, "{name}: {value}");
        }
    }

    #[test]
    fn words_are_on_lists() {
        let same = |word: fn(String) -> Option<String>, text: &str| {
            assert_eq!(word(text.to_owned()).as_deref(), Some(text));
        };
        same(method, "PROPFIND");
        same(protocol, "HTTP/2");
        same(protocol, "h3-29");
        same(protocol, "http/2+quic/Q046");
        same(resource_type, "XHR");
        same(cache, "disk");
        same(error, "net::ERR_CONNECTION_REFUSED");
        same(error, "NS_ERROR_UNKNOWN_HOST");
        same(error, "");
        same(date, "2026-11-23T06:26:54.604+01:00");
        same(program, "Firefox");
        for word in [method, protocol, priority, fetch_type, date] {
            assert_eq!(word("s3cret".to_owned()), None);
        }
        assert_eq!(error("no way to s3cret".to_owned()).as_deref(), Some("failed"));
        assert_eq!(error("net::ERR_s3cret".to_owned()).as_deref(), Some("failed"));
        assert_eq!(cache("s3cret".to_owned()).as_deref(), Some("cache"));
        assert_eq!(resource_type("s3cret".to_owned()).as_deref(), Some("other"));
    }
}
