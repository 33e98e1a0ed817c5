//! Heads of requests: the exact bytes of HTTP/1, and the fields of HTTP/2.
//!
//! Input: an operation's settings and the state of its journey. Output: a [`CurlRequest`]. The order of the lines is
//! curl's (`Curl_http` in `lib/http.c` of 7.88). It decides nothing about redirects and credentials.

use crate::address::CurlUrl;
use crate::auth::basic;
use crate::noproxy::ProxyAddress;
use crate::problem::{LineProblem, exit};
use crate::settings::{HttpChoice, Operation, ProxySettings, RequestKind};

/// The `User-Agent` where `-A` gives none.
pub const USER_AGENT: &str = concat!("firstbyte/", env!("CARGO_PKG_VERSION"));

/// Larger bodies of `-d` and `-F` wait for `100 Continue`: `EXPECT_100_THRESHOLD` of curl's `lib/http.h`.
const EXPECT_ABOVE_BYTES: usize = 1024 * 1024;

/// SETTINGS in Base64: 100 streams, windows of 32 MiB, no push; as curl sends them.
const HTTP2_SETTINGS: &str = "HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA";

/// One request, ready to send.
pub struct CurlRequest {
    /// Where it goes.
    pub url: CurlUrl,
    /// As sent: `-X` may be anything.
    pub method: String,
    /// HTTP/1: from the request line through the empty line.
    pub head: Vec<u8>,
    /// HTTP/2 and 3: the fields in order, without pseudo fields.
    pub fields: Vec<(String, Vec<u8>)>,
    /// `:authority`; empty where `-H Host:` removes it.
    pub authority: String,
    /// `:path`
    pub path: String,
    /// Absent for requests without one; an empty body is announced.
    pub body: Option<Vec<u8>>,
    /// HTTP/1: the body goes out in chunks.
    pub chunked: bool,
    /// HTTP/1: the body waits for `100 Continue`.
    pub waits_for_continue: bool,
    /// The response has no body.
    pub is_head: bool,
    /// The first field that HTTP/2 cannot carry; `fields` lacks it.
    pub bad_http2_field: Option<String>,
}

/// What a head depends on.
pub(crate) struct HeadInput<'a> {
    pub(crate) operation: &'a Operation,
    /// The lines of `-H`, files read.
    pub(crate) headers: &'a [String],
    pub(crate) url: &'a CurlUrl,
    pub(crate) kind: RequestKind,
    pub(crate) body: &'a [u8],
    pub(crate) has_known_length: bool,
    pub(crate) form_content_type: Option<&'a str>,
    /// The body is held back until the server has asked for credentials.
    pub(crate) is_probe: bool,
    /// A typed Host counts.
    pub(crate) keeps_host: bool,
    /// Typed Authorization and Cookie may go to this host.
    pub(crate) keeps_secrets: bool,
    pub(crate) authorization: Option<String>,
    /// A whole line, as are the other two.
    pub(crate) range: Option<String>,
    pub(crate) cookies: Option<String>,
    pub(crate) time_condition: Option<&'a str>,
    pub(crate) referer: Option<&'a str>,
    /// The HTTP proxy that gets this request itself, not only a tunnel.
    pub(crate) proxy: Option<&'a ProxyAddress>,
}

/// A typed line of this name, as curl looks for it: `Name:` or `Name;`, in any case.
pub(crate) fn find_typed<'a>(lines: &'a [String], name: &str) -> Option<&'a str> {
    lines.iter().map(String::as_str).find(|line| is_named(line, name))
}

/// What follows the name of a line that [`find_typed`] has found.
pub(crate) fn typed_value<'a>(line: &'a str, name: &str) -> &'a str {
    line.get(name.len() + 1..).unwrap_or_default().trim()
}

fn is_named(line: &str, name: &str) -> bool {
    let (line, name) = (line.as_bytes(), name.as_bytes());
    matches!(line.get(name.len()), Some(b':' | b';'))
        && line[..name.len()].eq_ignore_ascii_case(name)
}

/// The line that curl makes of a word of `-H`, if it sends one: `Name:` only removes, `Name;` sends an empty value.
fn read_typed(word: &str) -> Option<String> {
    if let Some((name, value)) = word.split_once(':') {
        return (!name.is_empty() && !value.trim_ascii().is_empty()).then(|| word.to_owned());
    }
    let name = word.strip_suffix(';')?;
    (!name.is_empty() && !name.contains(';')).then(|| format!("{name}:"))
}

fn contains_ignoring_case(text: &str, part: &str) -> bool {
    text.to_ascii_lowercase().contains(part)
}

/// The lines of a head, some of them only for HTTP/1.
#[derive(Default)]
struct HeadLines(Vec<(String, bool)>);

impl HeadLines {
    fn push(&mut self, line: impl Into<String>) {
        self.0.push((line.into(), false));
    }

    fn push_http1(&mut self, line: impl Into<String>) {
        self.0.push((line.into(), true));
    }
}

/// Builds the request.
pub(crate) fn build_request(input: &HeadInput<'_>) -> Result<CurlRequest, LineProblem> {
    let HeadInput { operation, headers, url, kind, body, .. } = *input;
    let is_typed = |name: &str| find_typed(headers, name).is_some();
    let is_http10 = operation.http == HttpChoice::V10;
    let has_body = matches!(kind, RequestKind::Post | RequestKind::Form | RequestKind::Put);
    let body = if has_body && !input.is_probe { body } else { &[] };

    let chunked = has_body
        && match find_typed(headers, "Transfer-Encoding") {
            Some(line) => contains_ignoring_case(line, "chunked"),
            None => !input.has_known_length && !input.is_probe,
        };
    let announces_chunks = chunked && !is_typed("Transfer-Encoding");
    if announces_chunks && is_http10 {
        let what = "HTTP/1.0 needs the length of an upload; give the name of a file";
        return Err(LineProblem::option("upload-file", what).with_code(exit::UPLOAD));
    }
    if !input.is_probe {
        check_length(headers, body.len())?;
    }
    let asks_for_encoding = operation.tr_encoding && !is_typed("TE");

    let mut lines = HeadLines::default();
    let host = host_line(input);
    let has_host = host.is_some();
    host.into_iter().for_each(|line| lines.push(line));
    if let Some(user) = input.proxy.and_then(|proxy| proxy.user.as_ref())
        && find_typed(&operation.proxy.headers, "Proxy-Authorization").is_none()
    {
        lines.push(format!("Proxy-Authorization: {}", basic(&user.0, &user.1)));
    }
    if let Some(value) = &input.authorization {
        lines.push(format!("Authorization: {value}"));
    }
    input.range.iter().for_each(|line| lines.push(line));
    let user_agent = operation.user_agent.as_deref().unwrap_or(USER_AGENT);
    if !user_agent.is_empty() && !is_typed("User-Agent") {
        lines.push(format!("User-Agent: {user_agent}"));
    }
    if !is_typed("Accept") {
        lines.push("Accept: */*");
    }
    if asks_for_encoding {
        let connection = find_typed(headers, "Connection");
        let connection = connection.map_or("", |line| typed_value(line, "Connection"));
        let comma = if connection.is_empty() { "" } else { ", " };
        lines.push_http1(format!("Connection: {connection}{comma}TE"));
        lines.push_http1("TE: gzip");
    }
    if operation.compressed && !is_typed("Accept-Encoding") {
        lines.push("Accept-Encoding: deflate, gzip, br, zstd");
    }
    if let Some(referer) = input.referer.filter(|_| !is_typed("Referer")) {
        lines.push(format!("Referer: {referer}"));
    }
    if input.proxy.is_some()
        && !is_typed("Proxy-Connection")
        && find_typed(&operation.proxy.headers, "Proxy-Connection").is_none()
    {
        lines.push_http1("Proxy-Connection: Keep-Alive");
    }
    if announces_chunks {
        lines.push_http1("Transfer-Encoding: chunked");
    }
    if operation.http == HttpChoice::V2 && !url.is_tls() {
        lines.push_http1("Connection: Upgrade, HTTP2-Settings");
        lines.push_http1("Upgrade: h2c");
        lines.push_http1(HTTP2_SETTINGS);
    }
    input.cookies.iter().for_each(|line| lines.push(line));
    input.time_condition.into_iter().for_each(|line| lines.push(line));

    let to_proxy: &[String] = if input.proxy.is_some() { &operation.proxy.headers } else { &[] };
    for line in headers.iter().chain(to_proxy).filter_map(|word| read_typed(word)) {
        let is_sent_elsewhere = (has_host && is_named(&line, "Host"))
            || (kind == RequestKind::Form && is_named(&line, "Content-Type"))
            || (input.is_probe && is_named(&line, "Content-Length"))
            || (asks_for_encoding && is_named(&line, "Connection"));
        let is_secret = is_named(&line, "Authorization") || is_named(&line, "Cookie");
        if !is_sent_elsewhere && (input.keeps_secrets || !is_secret) {
            lines.push(line);
        }
    }

    let has_length =
        input.is_probe || (input.has_known_length && !chunked && !is_typed("Content-Length"));
    if has_body && has_length {
        lines.push(format!("Content-Length: {}", body.len()));
    }
    match kind {
        RequestKind::Post if !is_typed("Content-Type") => {
            lines.push("Content-Type: application/x-www-form-urlencoded");
        }
        RequestKind::Form if !input.is_probe => {
            input
                .form_content_type
                .iter()
                .for_each(|kind| lines.push(format!("Content-Type: {kind}")));
        }
        _ => {}
    }
    let is_large = match kind {
        RequestKind::Put => !input.is_probe && (!input.has_known_length || !body.is_empty()),
        _ => body.len() > EXPECT_ABOVE_BYTES,
    };
    let waits_for_continue = !is_http10
        && match find_typed(headers, "Expect") {
            Some(line) => !body.is_empty() && contains_ignoring_case(line, "100-continue"),
            None => is_large,
        };
    if waits_for_continue && !is_typed("Expect") {
        lines.push_http1("Expect: 100-continue");
    }

    let method = method_of(operation, kind).to_owned();
    let path = operation.request_target.clone().unwrap_or_else(|| url.target());
    let target = match (input.proxy, &operation.request_target) {
        (Some(_), None) => url.absolute_target(),
        _ => path.clone(),
    };
    let (authority, fields, bad_http2_field) = list_fields(&lines);
    if let Some(name) = bad_http2_field.as_ref().filter(|_| is_never_http1(operation, url)) {
        return Err(LineProblem::option("header", format!("HTTP/2 cannot carry {name:?}")));
    }
    Ok(CurlRequest {
        head: write_head(
            &format!("{method} {target}"),
            is_http10,
            lines.0.iter().map(|(line, _)| line),
        ),
        is_head: kind == RequestKind::Head || method == "HEAD",
        url: url.clone(),
        method,
        fields,
        authority,
        path,
        body: has_body.then(|| body.to_vec()),
        chunked,
        waits_for_continue,
        bad_http2_field,
    })
}

/// Builds CONNECT. No line of `-H` goes to the proxy, and `-A ''` leaves an empty field.
pub(crate) fn build_connect(
    operation: &Operation,
    proxy: &ProxyAddress,
    host_and_port: &str,
) -> Vec<u8> {
    let ProxySettings { headers, http10, .. } = &operation.proxy;
    let is_typed = |name: &str| find_typed(headers, name).is_some();
    let mut lines = Vec::new();
    if !is_typed("Host") {
        lines.push(format!("Host: {host_and_port}"));
    }
    if let Some((name, password)) = proxy.user.as_ref().filter(|_| !is_typed("Proxy-Authorization"))
    {
        lines.push(format!("Proxy-Authorization: {}", basic(name, password)));
    }
    if !is_typed("User-Agent") {
        lines
            .push(format!("User-Agent: {}", operation.user_agent.as_deref().unwrap_or(USER_AGENT)));
    }
    if !is_typed("Proxy-Connection") {
        lines.push("Proxy-Connection: Keep-Alive".to_owned());
    }
    lines.extend(headers.iter().filter_map(|word| read_typed(word)));
    write_head(&format!("CONNECT {host_and_port}"), *http10, lines.iter())
}

fn write_head<'a>(
    start: &str,
    is_http10: bool,
    lines: impl Iterator<Item = &'a String>,
) -> Vec<u8> {
    let mut head = format!("{start} HTTP/1.{}\r\n", u8::from(!is_http10));
    for line in lines {
        head += line;
        head += "\r\n";
    }
    head += "\r\n";
    head.into_bytes()
}

/// What `-X` says, or the kind.
pub(crate) fn method_of(operation: &Operation, kind: RequestKind) -> &str {
    operation.request.as_deref().unwrap_or(match kind {
        RequestKind::Get => "GET",
        RequestKind::Head => "HEAD",
        RequestKind::Post | RequestKind::Form => "POST",
        RequestKind::Put => "PUT",
    })
}

/// A typed Host counts at its usual place, with the usual name.
fn host_line(input: &HeadInput<'_>) -> Option<String> {
    match find_typed(input.headers, "Host").filter(|_| input.keeps_host) {
        Some("Host:") => None,
        Some(line) => Some(format!("Host:{}", &line["Host:".len()..])),
        None => Some(format!("Host: {}", input.url.authority())),
    }
}

/// curl sends a wrong length and waits for ever.
fn check_length(headers: &[String], length: usize) -> Result<(), LineProblem> {
    let typed = headers.iter().filter(|line| is_named(line, "Content-Length"));
    for value in typed.map(|line| typed_value(line, "Content-Length")) {
        if !value.is_empty() && value.parse::<usize>() != Ok(length) {
            let what = format!("Content-Length is {value:?}, but the body has {length} bytes");
            return Err(LineProblem::option("header", what).hint("leave the line out"));
        }
    }
    Ok(())
}

/// Whether the request goes out as HTTP/2 or HTTP/3, or not at all.
fn is_never_http1(operation: &Operation, url: &CurlUrl) -> bool {
    match operation.http {
        HttpChoice::V2PriorKnowledge => !url.is_tls(),
        HttpChoice::V3 | HttpChoice::V3Only => true,
        _ => false,
    }
}

/// A field of HTTP/2: name and value.
type Http2Field = (String, Vec<u8>);

/// `:authority`, the fields of HTTP/2, and the first that it cannot carry. Fields of the connection have no meaning there.
fn list_fields(lines: &HeadLines) -> (String, Vec<Http2Field>, Option<String>) {
    let (mut authority, mut fields, mut bad) = (None, Vec::new(), None);
    let carried = lines.0.iter().filter(|(_, is_http1)| !is_http1);
    for (name, value) in carried.filter_map(|(line, _)| line.split_once(':')) {
        let mut value = value.trim_start_matches([' ', '\t']);
        let name = name.to_ascii_lowercase();
        match name.as_str() {
            "host" => {
                authority.get_or_insert_with(|| value.to_owned());
                continue;
            }
            "connection" | "keep-alive" | "proxy-connection" | "transfer-encoding" | "upgrade" => {
                continue;
            }
            "te" if contains_ignoring_case(value, "trailers") => value = "trailers",
            "te" => continue,
            _ => {}
        }
        let is_token =
            |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        let is_good = name.bytes().all(is_token)
            && !value.bytes().any(|byte| byte.is_ascii_control() && byte != b'\t');
        if is_good {
            fields.push((name, value.as_bytes().to_vec()));
        } else {
            bad.get_or_insert(name);
        }
    }
    (authority.unwrap_or_default(), fields, bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typed_words_become_lines_as_curl_reads_them() {
        let cases = [
            ("X-A: 1", Some("X-A: 1")),
            ("X-B:  spaced  ", Some("X-B:  spaced  ")),
            ("X-C:nospace", Some("X-C:nospace")),
            ("X-Empty;", Some("X-Empty:")),
            ("X-Semi;  ", None),
            ("X-A;x", None),
            ("X-A; : b", Some("X-A; : b")),
            ("X-A:   ", None),
            ("NoColon", None),
            (": x", None),
            (";", None),
            ("", None),
        ];
        for (word, line) in cases {
            assert_eq!(read_typed(word).as_deref(), line, "{word:?}");
        }
    }

    #[test]
    fn names_are_found_in_any_case_and_before_a_semicolon() {
        let lines = ["X: 1", "hOST:a", "Accept;x", "Ü"].map(str::to_owned);
        assert_eq!(find_typed(&lines, "Host"), Some("hOST:a"));
        assert_eq!(find_typed(&lines, "Accept"), Some("Accept;x"));
        assert_eq!(find_typed(&lines, "Acc"), None);
    }

    #[test]
    fn http2_cannot_carry_every_name() {
        let mut lines = HeadLines::default();
        for line in ["Host: a", "X A: 1", "X-Ü: 2", "TE: trailers, x", "X-B:  b "] {
            lines.push(line);
        }
        lines.push_http1("Expect: 100-continue");
        let (authority, fields, bad) = list_fields(&lines);
        let expected = [("te", "trailers"), ("x-b", "b ")];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec()));
        assert_eq!((authority.as_str(), bad.as_deref()), ("a", Some("x a")));
        assert_eq!(fields, expected);
    }
}
