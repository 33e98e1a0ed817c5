//! The request to send: the head in HTTP/1, the fields in HTTP/2 and HTTP/3, and the body.
//!
//! hyper uses neither curl's order of fields nor its spelling of their names. So for HTTP/1 hyper gets a stand-in, and
//! the head that it writes is replaced on the way ([`HeadReplacement`]).

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use hyper::body::{Body, Frame, SizeHint};

use super::options::{ExactRequest, HeaderChange, HttpOptions};
use super::secret::Secret;
use super::target::Target;

/// A body that is entirely in memory, or no body.
pub(super) struct RequestBody {
    bytes: Option<Bytes>,
    /// Whether hyper learns the length. It would then add a Content-Length to each HTTP/2 request without one, which
    /// curl does not do.
    tells_length: bool,
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Poll::Ready(self.bytes.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        match &self.bytes {
            Some(bytes) if self.tells_length => SizeHint::with_exact(bytes.len() as u64),
            _ => SizeHint::default(),
        }
    }
}

/// The HTTP/1 head that is sent instead of hyper's.
#[derive(Debug, Default)]
pub(super) struct HeadReplacement {
    own: Option<Bytes>,
    /// Bytes that hyper has written of this request.
    pub hyper_bytes: u64,
}

impl HeadReplacement {
    pub(super) fn restart(&mut self, own: Option<Bytes>) {
        *self = Self { own, hyper_bytes: 0 };
    }

    /// Accepts `bytes` from hyper, which begin with its head; calls `write` with the bytes to send instead. Returns how
    /// many of hyper's bytes were accepted.
    pub(super) fn write(
        &mut self,
        bytes: &[u8],
        mut write: impl FnMut(&[u8]) -> Poll<std::io::Result<usize>>,
    ) -> Poll<std::io::Result<usize>> {
        let taken = match self.own.take() {
            None => std::task::ready!(write(bytes))?,
            Some(mut own) => {
                while !own.is_empty() {
                    match write(&own) {
                        Poll::Ready(Ok(written)) => drop(own.split_to(written)),
                        other => {
                            self.own = Some(own);
                            return other;
                        }
                    }
                }
                let end = bytes.windows(HEAD_END.len()).position(|end| end == HEAD_END);
                end.map_or(bytes.len(), |at| at + HEAD_END.len())
            }
        };
        self.hyper_bytes += taken as u64;
        Poll::Ready(Ok(taken))
    }
}

const HEAD_END: &[u8] = b"\r\n\r\n";

/// Additions to a request for a proxy that forwards it.
#[derive(Debug)]
pub(super) struct ProxyForwarding {
    /// `Proxy-Authorization`.
    pub authorization: Option<Secret<String>>,
}

/// An HTTP/1 request: the stand-in for hyper, and the head that replaces hyper's.
pub(super) fn for_http1(
    target: &Target,
    options: &HttpOptions,
    forwarding: Option<&ProxyForwarding>,
) -> (http::Request<RequestBody>, Bytes) {
    let body = options.body.as_ref().map(|body| body.reveal().clone()).filter(|b| !b.is_empty());
    let has_body = body.is_some();
    let mut request = http::Request::new(RequestBody { bytes: body, tells_length: true });
    let (head, is_head, is_chunked) = match &options.exact {
        Some(exact) => (exact.head.reveal().clone(), exact.is_head, exact.is_chunked),
        None => {
            let fields = fields(target, options, forwarding);
            let is_chunked = fields.iter().any(|(name, value)| {
                *name == header::TRANSFER_ENCODING && ends_in_chunked(value.as_bytes())
            });
            let path = if forwarding.is_some() { absolute(target) } else { path(target) };
            let is_head = options.method == http::Method::HEAD;
            (write_head(&options.method, path, &fields), is_head, is_chunked)
        }
    };
    *request.method_mut() = match (is_head, has_body) {
        (true, _) => http::Method::HEAD,
        (false, true) => http::Method::POST,
        (false, false) => http::Method::GET,
    };
    if is_chunked && has_body {
        let chunked = HeaderValue::from_static("chunked");
        request.headers_mut().insert(header::TRANSFER_ENCODING, chunked);
    }
    let head = match is_chunked && !has_body {
        true => Bytes::from([&head[..], b"0\r\n\r\n"].concat()),
        false => head,
    };
    (request, head)
}

/// Number of bytes after the head in HTTP/1.
pub(super) fn framed_body_bytes(options: &HttpOptions) -> u64 {
    let bytes = options.body.as_ref().map_or(0, |body| body.reveal().len() as u64);
    let is_chunked = options.exact.as_ref().is_some_and(|exact| exact.is_chunked);
    match is_chunked && bytes > 0 {
        // One chunk, and the last (empty) one.
        true => format!("{bytes:X}\r\n\r\n0\r\n\r\n").len() as u64 + bytes,
        false => bytes,
    }
}

fn ends_in_chunked(value: &[u8]) -> bool {
    let coding = value.rsplit(|byte| *byte == b',').next().unwrap_or_default();
    coding.trim_ascii().eq_ignore_ascii_case(b"chunked")
}

/// An HTTP/2 or HTTP/3 request.
pub(super) fn for_http2(target: &Target, options: &HttpOptions) -> http::Request<RequestBody> {
    let body = options.body.as_ref().map(|body| body.reveal().clone()).filter(|b| !b.is_empty());
    let mut request = http::Request::new(RequestBody { bytes: body, tells_length: false });
    let scheme = if target.tls { "https" } else { "http" };
    let (authority, path, fields) = match options.exact.as_deref() {
        Some(ExactRequest { authority, path, fields, .. }) => {
            let fields = fields.iter().map(|(name, value)| (name.clone(), value.reveal().clone()));
            (authority.clone(), path.clone(), fields.collect())
        }
        None => {
            (authority(target, options), path(target).to_owned(), fields(target, options, None))
        }
    };
    *request.method_mut() = options.method.clone();
    let uri = http::Uri::builder().scheme(scheme).authority(authority).path_and_query(path);
    // The url crate has percent-encoded everything that is not allowed in a URI.
    *request.uri_mut() = uri.build().unwrap_or_else(|_| http::Uri::from_static("/"));
    *request.version_mut() = http::Version::HTTP_2;
    for (name, value) in fields {
        // HTTP/2 has `:authority` instead of Host (RFC 9113 §8.3.1), and no connection-specific fields (§8.2.2).
        if name != header::HOST && !is_of_connection(&name, &value) {
            request.headers_mut().append(name, value);
        }
    }
    request
}

fn is_of_connection(name: &HeaderName, value: &HeaderValue) -> bool {
    match name.as_str() {
        "connection" | "keep-alive" | "proxy-connection" | "transfer-encoding" | "upgrade" => true,
        "te" => value != "trailers",
        _ => false,
    }
}

/// The fields in curl's order. A field given by the user stays among the other given ones and replaces the generated
/// field of the same name; `Host` stays first.
fn fields(
    target: &Target,
    options: &HttpOptions,
    forwarding: Option<&ProxyForwarding>,
) -> Vec<(HeaderName, HeaderValue)> {
    let is_changed = |name: &HeaderName| {
        options.headers.iter().any(|change| match change {
            HeaderChange::Set(changed, _) | HeaderChange::Remove(changed) => changed == name,
        })
    };
    let body = options.body.as_ref().map(|body| body.reveal());
    let mut fields: Vec<(HeaderName, HeaderValue)> = Vec::new();
    let generate = |fields: &mut Vec<_>, name: HeaderName, value: &str| {
        if let Ok(value) = HeaderValue::from_str(value)
            && !is_changed(&name)
        {
            fields.push((name, value));
        }
    };
    match options.header_value(&header::HOST) {
        Some(typed) => fields.push((header::HOST, typed.clone())),
        None => generate(&mut fields, header::HOST, &target.authority()),
    }
    if let Some(authorization) = forwarding.and_then(|to| to.authorization.as_ref()) {
        generate(&mut fields, header::PROXY_AUTHORIZATION, authorization.reveal());
    }
    // As with curl, an empty name removes the field.
    if !options.user_agent.is_empty() {
        generate(&mut fields, header::USER_AGENT, &options.user_agent);
    }
    generate(&mut fields, header::ACCEPT, "*/*");
    if options.compressed {
        generate(&mut fields, header::ACCEPT_ENCODING, "deflate, gzip, br, zstd");
    }
    if forwarding.is_some() {
        generate(&mut fields, HeaderName::from_static("proxy-connection"), "Keep-Alive");
    }
    for change in &options.headers {
        match change {
            HeaderChange::Set(header::HOST, _) | HeaderChange::Remove(_) => {}
            // The length is that of the body, whatever the user typed.
            HeaderChange::Set(header::CONTENT_LENGTH, _) if body.is_some() => {}
            HeaderChange::Set(name, value) => fields.push((name.clone(), value.reveal().clone())),
        }
    }
    if let Some(body) = body {
        if !is_changed(&header::TRANSFER_ENCODING)
            && let Ok(length) = HeaderValue::from_str(&body.len().to_string())
        {
            fields.push((header::CONTENT_LENGTH, length));
        }
        generate(&mut fields, header::CONTENT_TYPE, "application/x-www-form-urlencoded");
    }
    fields
}

fn write_head(method: &http::Method, target: &str, fields: &[(HeaderName, HeaderValue)]) -> Bytes {
    let mut head = format!("{method} {target} HTTP/1.1\r\n").into_bytes();
    for (name, value) in fields {
        write_title_case(name, &mut head);
        head.push(b':');
        if !value.is_empty() {
            head.push(b' ');
            head.extend_from_slice(value.as_bytes());
        }
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(b"\r\n");
    head.into()
}

/// `Content-Type`: the way curl writes the names of its own fields.
fn write_title_case(name: &HeaderName, out: &mut Vec<u8>) {
    let mut is_first = true;
    for byte in name.as_str().bytes() {
        out.push(if is_first { byte.to_ascii_uppercase() } else { byte });
        is_first = byte == b'-';
    }
}

fn path(target: &Target) -> &str {
    &target.url[url::Position::BeforePath..url::Position::AfterQuery]
}

/// The request target for a proxy (RFC 9112 §3.2.2).
fn absolute(target: &Target) -> &str {
    &target.url[..url::Position::AfterQuery]
}

/// Host and port of the request: those of the URL, unless the user gave a `Host` field.
fn authority(target: &Target, options: &HttpOptions) -> String {
    options.header(&header::HOST).unwrap_or_else(|| target.authority())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(name: &str, value: &'static str) -> HeaderChange {
        let value = Secret::new(HeaderValue::from_static(value));
        HeaderChange::Set(name.parse().unwrap(), value)
    }

    fn head_of(options: &HttpOptions) -> String {
        let target = Target::parse("http://a.test:8080/x?y=1").unwrap();
        let (_, head) = for_http1(&target, options, None);
        String::from_utf8(head.to_vec()).unwrap()
    }

    #[test]
    fn typed_fields_keep_their_order_and_stand_before_those_of_the_body() {
        let options = HttpOptions {
            method: http::Method::POST,
            user_agent: "agent".into(),
            body: Some(Secret::new(Bytes::from_static(b"a=1"))),
            headers: vec![
                typed("x-two", "2"),
                typed("accept", "text/html"),
                typed("x-one", ""),
                typed("x-two", "3"),
            ],
            ..HttpOptions::default()
        };
        assert_eq!(
            head_of(&options),
            "POST /x?y=1 HTTP/1.1\r\nHost: a.test:8080\r\nUser-Agent: agent\r\nX-Two: 2\r\n\
             Accept: text/html\r\nX-One:\r\nX-Two: 3\r\nContent-Length: 3\r\n\
             Content-Type: application/x-www-form-urlencoded\r\n\r\n"
        );
    }

    #[test]
    fn generated_fields_are_removed_and_replaced() {
        let options = HttpOptions {
            headers: vec![
                HeaderChange::Remove(header::ACCEPT),
                HeaderChange::Remove(header::USER_AGENT),
                typed("host", "b.test"),
            ],
            ..HttpOptions::default()
        };
        assert_eq!(head_of(&options), "GET /x?y=1 HTTP/1.1\r\nHost: b.test\r\n\r\n");
        let target = Target::parse("https://a.test/").unwrap();
        let request = for_http2(&target, &options);
        assert_eq!(request.uri(), "https://b.test/");
        assert!(request.headers().is_empty());
    }

    #[test]
    fn a_proxy_gets_the_whole_url_and_who_asks() {
        let target = Target::parse("http://a.test/x?y=1#z").unwrap();
        let options = HttpOptions {
            user_agent: "agent".into(),
            headers: vec![typed("x-one", "1")],
            ..HttpOptions::default()
        };
        let authorization = Some(Secret::new("Basic x".to_owned()));
        let forwarding = ProxyForwarding { authorization };
        let (_, head) = for_http1(&target, &options, Some(&forwarding));
        assert_eq!(
            String::from_utf8(head.to_vec()).unwrap(),
            "GET http://a.test/x?y=1 HTTP/1.1\r\nHost: a.test\r\nProxy-Authorization: Basic x\r\n\
             User-Agent: agent\r\nAccept: */*\r\nProxy-Connection: Keep-Alive\r\nX-One: 1\r\n\r\n"
        );
    }

    #[test]
    fn hypers_head_is_replaced_and_what_follows_is_not() {
        let mut replacement = HeadReplacement::default();
        replacement.restart(Some(Bytes::from_static(b"own\r\n\r\n")));
        let mut sent = Vec::new();
        // Accept three bytes at a time.
        let mut write = |bytes: &[u8]| {
            let taken = bytes.len().min(3);
            sent.extend_from_slice(&bytes[..taken]);
            Poll::Ready(Ok(taken))
        };
        let hypers = b"GET / HTTP/1.1\r\n\r\nbody";
        let Poll::Ready(Ok(taken)) = replacement.write(hypers, &mut write) else { panic!() };
        assert_eq!(&hypers[taken..], b"body");
        let Poll::Ready(Ok(3)) = replacement.write(&hypers[taken..], &mut write) else { panic!() };
        assert_eq!(replacement.hyper_bytes, taken as u64 + 3);
        assert_eq!(sent, b"own\r\n\r\nbod");
    }
}
