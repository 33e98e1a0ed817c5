//! A tunnel through an HTTP proxy: CONNECT (RFC 9110 §9.3.6) and its response.

use firstbyte_core::timeline::Cause;
use http::StatusCode;

use super::ProxyRoute;
use super::options::ProxyUser;
use crate::probe::observation::Shared;
use crate::probe::options::HttpOptions;
use crate::probe::stream::Stream;

/// Size limit of a response's head.
const LARGEST_HEAD: usize = 64 * 1024;

pub(super) async fn open(
    stream: &mut Stream,
    route: &ProxyRoute<'_>,
    options: &HttpOptions,
    seen: &Shared,
) -> Result<(), Cause> {
    let authority = route.target_authority();
    let exact = options.exact.as_ref().and_then(|exact| exact.connect_head.as_ref());
    let head = match exact {
        Some(head) => head.reveal().to_vec(),
        None => {
            let user = route.proxy.user.as_ref();
            write_connect(&authority, user, &options.user_agent, route.rules.http10)
        }
    };
    stream.tell_proxy(&head, format!("CONNECT {authority}")).await.map_err(|c| route.blame(c))?;
    loop {
        let head = receive_head(stream, route).await?;
        let Some((status, reason)) = parse_status(&head) else {
            return Err(route.misbehaved(&not_http(&head)));
        };
        if status < 200 {
            continue;
        }
        if let Some(proxy) = &mut seen.borrow_mut().connection.facts.proxy {
            proxy.status = Some(status);
        }
        return match status {
            200..=299 => Ok(()),
            _ => Err(Cause::ProxyRefused {
                authority: route.proxy.authority(),
                detail: format!("{status} {reason}").trim_end().to_owned(),
                status: Some(status),
            }),
        };
    }
}

/// Writes CONNECT as curl does.
fn write_connect(
    authority: &str,
    user: Option<&ProxyUser>,
    user_agent: &str,
    http10: bool,
) -> Vec<u8> {
    let version = if http10 { "1.0" } else { "1.1" };
    let mut lines =
        vec![format!("CONNECT {authority} HTTP/{version}"), format!("Host: {authority}")];
    lines.extend(user.map(|user| format!("Proxy-Authorization: {}", user.authorization())));
    if !user_agent.is_empty() {
        lines.push(format!("User-Agent: {user_agent}"));
    }
    lines.push("Proxy-Connection: Keep-Alive\r\n\r\n".to_owned());
    lines.join("\r\n").into_bytes()
}

/// Receives one head from the proxy. Bytes after it remain in the stream.
async fn receive_head(stream: &mut Stream, route: &ProxyRoute<'_>) -> Result<Vec<u8>, Cause> {
    const BEGIN: &[u8] = b"HTTP/";
    let mut head = Vec::new();
    loop {
        let before = head.len();
        let bytes = stream.hear_proxy().await.map_err(|cause| route.blame(cause))?;
        if bytes.is_empty() {
            return Err(route.closed());
        }
        head.extend_from_slice(bytes);
        if let Some(end) = find_head_end(&head) {
            head.truncate(end);
            let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
            stream.take_from_proxy(end - before, &String::from_utf8_lossy(line));
            return Ok(head);
        }
        stream.take_from_proxy(head.len() - before, "CONNECT answer");
        let begun = head.len().min(BEGIN.len());
        if head[..begun] != BEGIN[..begun] {
            return Err(route.misbehaved(&not_http(&head)));
        }
        if head.len() > LARGEST_HEAD {
            return Err(route.misbehaved("the head of its answer has no end"));
        }
    }
}

/// The offset after the empty line (RFC 9112 §2.1); a line may end with LF alone (§2.2).
fn find_head_end(head: &[u8]) -> Option<usize> {
    let find = |end: &[u8]| {
        head.windows(end.len()).position(|window| window == end).map(|at| at + end.len())
    };
    [&b"\n\r\n"[..], &b"\n\n"[..]].into_iter().filter_map(find).min()
}

/// The status code and its reason phrase.
fn parse_status(head: &[u8]) -> Option<(u16, String)> {
    let line = String::from_utf8_lossy(head.split(|byte| *byte == b'\n').next()?);
    let rest = line.trim_end().strip_prefix("HTTP/1.")?.get(1..)?.trim_start();
    let (code, reason) = rest.split_once(' ').unwrap_or((rest, ""));
    let status = code.parse::<u16>().ok().filter(|status| (100..600).contains(status))?;
    let reason = match reason.trim() {
        "" => StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()),
        reason => Some(reason),
    };
    Some((status, reason.unwrap_or_default().to_owned()))
}

fn not_http(head: &[u8]) -> String {
    const SHOWN: usize = 40;
    let line = head.split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
    let line = String::from_utf8_lossy(&line[..line.len().min(SHOWN)]).into_owned();
    format!("its answer to CONNECT is not HTTP/1: it begins with {line:?}")
}

#[cfg(test)]
mod tests {
    use super::super::options::ProxyOptions;
    use super::*;

    #[test]
    fn connect_is_as_curl_writes_it() {
        let proxy = ProxyOptions::read("http://user:pass@127.0.0.1:3128").unwrap();
        let head = write_connect("a.test:443", proxy.user.as_ref(), "curl/7.88.1", false);
        assert_eq!(
            String::from_utf8(head).unwrap(),
            "CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\
             Proxy-Authorization: Basic dXNlcjpwYXNz\r\nUser-Agent: curl/7.88.1\r\n\
             Proxy-Connection: Keep-Alive\r\n\r\n"
        );
        let head = write_connect("[::1]:443", None, "", true);
        assert_eq!(
            String::from_utf8(head).unwrap(),
            "CONNECT [::1]:443 HTTP/1.0\r\nHost: [::1]:443\r\nProxy-Connection: Keep-Alive\r\n\r\n"
        );
    }

    #[test]
    fn heads_and_what_is_none() {
        for (head, status) in [
            (
                &b"HTTP/1.1 200 Connection established\r\n\r\n"[..],
                Some((200, "Connection established")),
            ),
            (b"HTTP/1.0 200\n\n", Some((200, "OK"))),
            (b"HTTP/1.1 407 \r\n\r\n", Some((407, "Proxy Authentication Required"))),
            (b"HTTP/2 200\r\n\r\n", None),
            (b"HTTP/1.1 abc\r\n\r\n", None),
            (b"SSH-2.0-x\n\n", None),
        ] {
            let parsed = parse_status(head);
            let parsed = parsed.as_ref().map(|(status, reason)| (*status, reason.as_str()));
            assert_eq!(parsed, status, "{head:?}");
            assert_eq!(find_head_end(head), Some(head.len()));
            assert_eq!(find_head_end(&head[..head.len() - 1]), None);
        }
    }
}
