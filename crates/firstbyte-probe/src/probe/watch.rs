//! Watches the decrypted bytes for the end of the request and the beginning of the response.
//!
//! Input: plaintext in both directions, in pieces of any size. This module only observes; hyper speaks HTTP.
//! NewSessionTickets do not appear here, and HTTP/2 settings are distinguished from a response.

use std::collections::HashSet;

use firstbyte_core::shown_url::shown_urls_within;
use firstbyte_core::wire::http2::{FrameHeader, FrameScanner, FrameType, PREFACE};
use memchr::memchr_iter;

#[derive(Debug)]
pub(super) struct HttpWatch {
    protocol: Protocol,
    pub request_bytes: u64,
    pub header_bytes: u64,
    /// Whether the last byte of the request was written.
    pub request_complete: bool,
    /// Whether the head of the final response has begun.
    pub response_started: bool,
    /// Offset in the received plaintext at which the last head began; once the final response has begun, its head.
    pub response_offset: u64,
    /// Offset in the received plaintext at which the first interim response began (RFC 9110 §15.2).
    pub interim_offset: Option<u64>,
    /// Offset in the received plaintext of the last byte of the final response's head, until it is recorded.
    pub head_end: Option<u64>,
    /// The first line received, whatever it was.
    pub answer: Option<String>,
    pub answer_is_tls: bool,
    /// Bytes of this exchange written so far, of any kind.
    pub written: u64,
    received_bytes: u64,
    /// The state of each stream, if several are recorded separately.
    streams: Option<Box<StreamWatch>>,
    /// The last stream that a request was sent on.
    asked_stream: u32,
    /// The last GOAWAY, as far as it was received.
    go_away: Option<Box<GoAwayBytes>>,
    /// Bytes of the request's body written so far.
    pub body_written: u64,
}

/// The server's message at the end of an HTTP/2 connection (RFC 9113 §6.8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GoAway {
    /// Requests on later streams were not processed.
    pub last_stream: u32,
    /// An error code (RFC 9113 §7).
    pub code: u32,
    /// Debug data for people.
    pub debug: String,
}

/// A GOAWAY's payload, which may come in pieces.
#[derive(Debug)]
struct GoAwayBytes {
    /// Its offset in the received plaintext.
    begin: u64,
    payload: Vec<u8>,
    /// Number of bytes to keep.
    wanted: usize,
}

/// Length of a GOAWAY's last stream and code.
const GO_AWAY_FIXED: usize = 8;
/// Maximum number of bytes kept of its text.
const GO_AWAY_TEXT: usize = 64;

impl GoAwayBytes {
    fn begin_behind(frame: FrameHeader) -> Self {
        let wanted = (frame.payload_bytes as usize).min(GO_AWAY_FIXED + GO_AWAY_TEXT);
        Self { begin: frame.offset + 9, payload: Vec::new(), wanted }
    }

    /// Takes its part of `bytes`, which begin at `offset`.
    fn take(&mut self, offset: u64, bytes: &[u8]) {
        let next = self.begin + self.payload.len() as u64;
        let Some(skipped) = next.checked_sub(offset).and_then(|n| usize::try_from(n).ok()) else {
            return;
        };
        let rest = bytes.get(skipped..).unwrap_or_default();
        let left = self.wanted - self.payload.len();
        self.payload.extend_from_slice(&rest[..rest.len().min(left)]);
    }

    fn parse(&self) -> Option<GoAway> {
        let (fixed, text) = self.payload.split_first_chunk::<GO_AWAY_FIXED>()?;
        let [s0, s1, s2, s3, c0, c1, c2, c3] = *fixed;
        Some(GoAway {
            last_stream: u32::from_be_bytes([s0 & 0x7f, s1, s2, s3]),
            code: u32::from_be_bytes([c0, c1, c2, c3]),
            debug: String::from_utf8_lossy(text).into_owned(),
        })
    }
}

/// Events of several HTTP/2 streams since the last query.
#[derive(Debug, Default)]
pub(super) struct StreamWatch {
    /// Streams whose requests are completely written.
    pub asked: Vec<u32>,
    /// Heads of responses, with their offsets in the received plaintext. If a stream has several, the last one is the
    /// final response's.
    pub begun: Vec<(u32, u64)>,
    /// Streams whose bodies have begun, so that later heads are trailers.
    with_body: HashSet<u32>,
    /// Streams whose responses end, with the offset in the received plaintext after their last byte.
    pub ending: Vec<(u32, u64)>,
}

impl StreamWatch {
    fn note_received(&mut self, frame: FrameHeader) {
        match frame.frame_type {
            FrameType::Headers if !self.with_body.contains(&frame.stream) => {
                self.begun.push((frame.stream, frame.offset));
            }
            FrameType::Data => {
                self.with_body.insert(frame.stream);
            }
            _ => {}
        }
        if ends_stream(frame) {
            let end = frame.offset + 9 + u64::from(frame.payload_bytes);
            self.ending.push((frame.stream, end));
        }
    }
}

#[derive(Debug)]
enum Protocol {
    Http1 {
        request: Head,
        /// Bytes of the request's body not written yet.
        body_left: u64,
        response: Head,
    },
    Http2 {
        preface_left: usize,
        sent: FrameScanner,
        received: FrameScanner,
        /// A head has begun but no body, so another head may follow.
        has_head: bool,
    },
}

/// Looks for the end of a head.
#[derive(Debug, Default)]
struct Head {
    /// Its first bytes, up to the status.
    start: Vec<u8>,
    /// The last bytes so far, to find a blank line that began in an earlier piece.
    tail: [u8; 2],
    complete: bool,
}

/// The first bytes of an interim response (RFC 9112 §4); the minor version may differ.
const INTERIM: &[u8; UP_TO_STATUS] = b"HTTP/1.1 1";
const UP_TO_STATUS: usize = 10;
const MINOR: usize = 7;

impl Head {
    /// Feeds the next bytes; returns how many of them belong to the head.
    fn feed(&mut self, bytes: &[u8]) -> usize {
        if self.complete {
            return 0;
        }
        let end = self.end_in(bytes);
        self.complete = end.is_some();
        let head = &bytes[..end.unwrap_or(bytes.len())];
        let wanted = UP_TO_STATUS.saturating_sub(self.start.len());
        self.start.extend_from_slice(&head[..wanted.min(head.len())]);
        let kept = self.tail.len();
        match head.last_chunk() {
            Some(last) => self.tail = *last,
            None => {
                self.tail.rotate_left(head.len());
                self.tail[kept - head.len()..].copy_from_slice(head);
            }
        }
        head.len()
    }

    /// How many of the next bytes belong to the head, if it ends in them with an empty line (RFC 9112 §2.1). A line may
    /// end with LF alone (§2.2).
    fn end_in(&self, bytes: &[u8]) -> Option<usize> {
        let kept = self.tail.len();
        let before = |at: usize, back: usize| match at.checked_sub(back) {
            Some(there) => bytes[there],
            None => self.tail[kept + at - back],
        };
        let is_empty = |at: &usize| match before(*at, 1) {
            b'\r' => before(*at, 2) == b'\n',
            byte => byte == b'\n',
        };
        memchr_iter(b'\n', bytes).find(is_empty).map(|at| at + 1)
    }

    /// Whether the head is of an interim response, once its first bytes show that.
    fn is_interim(&self) -> Option<bool> {
        let is_begin = |(index, byte): (usize, &u8)| index == MINOR || *byte == INTERIM[index];
        match self.start.iter().enumerate().all(is_begin) {
            true if self.start.len() == UP_TO_STATUS => Some(true),
            true if !self.complete => None,
            _ => Some(false),
        }
    }
}

impl HttpWatch {
    /// Creates a watch for a request with a body of `body_bytes` bytes.
    pub(super) fn new(http2: bool, body_bytes: u64) -> Self {
        let protocol = if http2 {
            Protocol::Http2 {
                preface_left: PREFACE.len(),
                sent: FrameScanner::default(),
                received: FrameScanner::default(),
                has_head: false,
            }
        } else {
            Protocol::Http1 {
                request: Head::default(),
                body_left: body_bytes,
                response: Head::default(),
            }
        };
        Self {
            protocol,
            request_bytes: 0,
            header_bytes: 0,
            request_complete: false,
            response_started: false,
            response_offset: 0,
            interim_offset: None,
            head_end: None,
            answer: None,
            answer_is_tls: false,
            written: 0,
            received_bytes: 0,
            streams: None,
            asked_stream: 0,
            go_away: None,
            body_written: 0,
        }
    }

    /// The server's GOAWAY, if it sent one.
    pub(super) fn go_away(&self) -> Option<GoAway> {
        self.go_away.as_ref()?.parse()
    }

    /// Whether the server is ending the connection without an error.
    pub(super) fn is_shut_down(&self) -> bool {
        self.go_away().is_some_and(|go_away| go_away.code == 0)
    }

    /// Whether the server is ending the connection without an error and has not processed the last request.
    pub(super) fn is_unprocessed(&self) -> bool {
        let before = |go_away: GoAway| go_away.code == 0 && go_away.last_stream < self.asked_stream;
        self.go_away().is_some_and(before)
    }

    /// From now on, records several HTTP/2 streams separately.
    pub(super) fn tell_streams_apart(&mut self) {
        self.streams = Some(Box::default());
    }

    /// The state of the streams, if they are recorded separately.
    pub(super) fn streams(&mut self) -> Option<&mut StreamWatch> {
        self.streams.as_deref_mut()
    }

    pub(super) const fn is_http1(&self) -> bool {
        matches!(self.protocol, Protocol::Http1 { .. })
    }

    /// Bytes of plaintext received.
    pub(super) const fn received_bytes(&self) -> u64 {
        self.received_bytes
    }

    /// Prepares for the next exchange on the same connection, with a body of `body_bytes` bytes.
    pub(super) fn next_exchange(&mut self, body_bytes: u64) {
        match &mut self.protocol {
            Protocol::Http1 { request, body_left, response } => {
                (*request, *response, *body_left) = (Head::default(), Head::default(), body_bytes);
            }
            Protocol::Http2 { has_head, .. } => *has_head = false,
        }
        (self.interim_offset, self.head_end) = (None, None);
        (self.request_bytes, self.header_bytes, self.written) = (0, 0, 0);
        self.body_written = 0;
        (self.request_complete, self.response_started) = (false, false);
        self.answer = None;
        self.answer_is_tls = false;
    }

    /// Called when HTTP has read the head of the final response, which is therefore the last head received.
    pub(super) fn note_final_head(&mut self) {
        self.response_started |= matches!(self.protocol, Protocol::Http2 { has_head: true, .. });
    }

    /// Whether any part of the awaited head has arrived, even if it is too short to tell whether the head is final.
    pub(super) const fn head_begun(&self) -> bool {
        match &self.protocol {
            Protocol::Http1 { response, .. } => !response.start.is_empty(),
            Protocol::Http2 { .. } => self.response_started,
        }
    }

    /// Whether the end of the response's head has arrived.
    pub(super) const fn head_complete(&self) -> bool {
        match &self.protocol {
            Protocol::Http1 { response, .. } => response.complete,
            Protocol::Http2 { .. } => self.response_started,
        }
    }

    /// Records plaintext about to be sent, and names the messages in it.
    pub(super) fn sent(&mut self, bytes: &[u8]) -> Vec<String> {
        let first = self.request_bytes == 0;
        self.written += bytes.len() as u64;
        if !self.response_started && !self.request_complete {
            self.request_bytes += bytes.len() as u64;
        }
        match &mut self.protocol {
            Protocol::Http1 { request, body_left, .. } => {
                let body = (bytes.len() - request.feed(bytes)) as u64;
                *body_left = body_left.saturating_sub(body);
                self.body_written += body;
                self.request_complete |= request.complete && *body_left == 0;
                vec![if first { request_line(bytes) } else { "request body".into() }]
            }
            Protocol::Http2 { preface_left, sent, .. } => {
                let mut names = Vec::new();
                let preface = bytes.len().min(*preface_left);
                if preface > 0 {
                    *preface_left -= preface;
                    if *preface_left == 0 {
                        names.push("preface".into());
                    }
                }
                let mut complete = false;
                sent.feed(&bytes[preface..], |frame| {
                    complete |= ends_stream(frame);
                    match frame.frame_type {
                        FrameType::Headers => self.asked_stream = frame.stream,
                        FrameType::Data => self.body_written += u64::from(frame.payload_bytes),
                        _ => {}
                    }
                    if let Some(streams) = self.streams.as_mut().filter(|_| ends_stream(frame)) {
                        streams.asked.push(frame.stream);
                    }
                    names.push(frame_name(frame));
                });
                self.request_complete |= complete;
                names
            }
        }
    }

    /// Records plaintext that arrived, and names the messages in it.
    pub(super) fn received(&mut self, bytes: &[u8]) -> Vec<String> {
        let before = self.received_bytes;
        self.received_bytes += bytes.len() as u64;
        if before == 0 && !bytes.is_empty() {
            self.answer = Some(first_line(bytes));
            // A TLS record: an alert, or something else.
            self.answer_is_tls = matches!(bytes, [20..=23, 3, 0..=4, ..]);
        }
        match &mut self.protocol {
            Protocol::Http1 { response, .. } => {
                let (mut names, mut fed) = (Vec::new(), 0);
                while fed < bytes.len() && !response.complete {
                    if response.start.is_empty() {
                        self.response_offset = before + fed as u64;
                        names.push(first_line(&bytes[fed..]));
                    }
                    fed += response.feed(&bytes[fed..]);
                    match response.is_interim() {
                        Some(true) => {
                            self.interim_offset.get_or_insert(self.response_offset);
                            if response.complete {
                                *response = Head::default();
                            }
                        }
                        is_interim => {
                            self.response_started = is_interim.is_some();
                            self.head_end = response.complete.then(|| before + fed as u64 - 1);
                        }
                    }
                }
                self.header_bytes += fed as u64;
                names
            }
            Protocol::Http2 { received, has_head, .. } => {
                // With several streams, heads follow each other; the first one that began counts.
                let several = self.streams.is_some();
                let mut names = Vec::new();
                received.feed(bytes, |frame| {
                    let head =
                        matches!(frame.frame_type, FrameType::Headers | FrameType::Continuation);
                    if head && frame.stream != 0 {
                        self.header_bytes += u64::from(frame.payload_bytes) + 9;
                    }
                    if frame.frame_type == FrameType::Headers && !self.response_started {
                        if std::mem::replace(has_head, true) {
                            self.interim_offset.get_or_insert(self.response_offset);
                        }
                        self.response_offset = frame.offset;
                    }
                    if head && !self.response_started {
                        // `END_HEADERS` (RFC 9113 §6.2).
                        let last = frame.offset + 8 + u64::from(frame.payload_bytes);
                        self.head_end = (frame.flags & 4 != 0).then_some(last);
                    }
                    self.response_started |= *has_head && (several || ends_head(frame));
                    if let Some(streams) = self.streams.as_mut() {
                        streams.note_received(frame);
                    }
                    if frame.frame_type == FrameType::GoAway {
                        self.go_away = Some(Box::new(GoAwayBytes::begin_behind(frame)));
                    }
                    names.push(frame_name(frame));
                });
                if let Some(go_away) = &mut self.go_away {
                    go_away.take(before, bytes);
                }
                names
            }
        }
    }
}

/// Whether no other head of a response can follow, because its body has begun or the stream ends.
fn ends_head(frame: FrameHeader) -> bool {
    frame.frame_type == FrameType::Data || ends_stream(frame)
}

/// Whether a frame of a request or a response has `END_STREAM` (RFC 9113 §8.1).
fn ends_stream(frame: FrameHeader) -> bool {
    matches!(frame.frame_type, FrameType::Headers | FrameType::Data) && frame.flags & 1 != 0
}

fn frame_name(frame: FrameHeader) -> String {
    let ack = if frame.is_ack() { " ack" } else { "" };
    format!("{}{ack}", frame.frame_type.name())
}

/// A request's first line in displayable form: queries may contain credentials.
fn request_line(bytes: &[u8]) -> String {
    let line = first_line(bytes);
    match line.split_once(' ') {
        Some((method, rest)) => format!("{method} {}", shown_urls_within(rest)),
        None => line,
    }
}

/// The line of an HTTP/1 response's head that hyper's message `why` refers to, in displayable form.
pub(super) fn wrong_line(mut head: &[u8], why: &str) -> Option<String> {
    loop {
        let mut one = Head::default();
        let length = one.feed(head);
        if !(one.complete && one.is_interim() == Some(true)) {
            break;
        }
        head = &head[length..];
    }
    let mut lines = head.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end);
    let status = lines.next()?;
    let mut fields = lines.take_while(|line| !line.is_empty());
    let why = why.to_ascii_lowercase();
    let named = ["content-length", "transfer-encoding"].into_iter().find(|name| why.contains(name));
    let wrong = if let Some(name) = named {
        // Of two contradictory fields, the second.
        fields.filter(|line| field_name(line).eq_ignore_ascii_case(name.as_bytes())).last()
    } else if why.contains("status") || why.contains("version") {
        Some(status)
    } else {
        fields.find(|line| is_no_field(line))
    }?;
    let is_secret = field_name(wrong).eq_ignore_ascii_case(b"set-cookie");
    Some(first_line(if is_secret { field_name(wrong) } else { wrong }))
}

/// The part of a field before its colon, without trailing spaces, which some servers send.
fn field_name(line: &[u8]) -> &[u8] {
    let end = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
    line[..end].trim_ascii_end()
}

/// Whether a line of a head is neither a field nor a continuation of the previous line (RFC 9112 §5).
fn is_no_field(line: &[u8]) -> bool {
    let token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    let name = field_name(line);
    let is_field = line.contains(&b':') && !name.is_empty() && name.iter().all(token);
    let goes_on = matches!(line.first(), Some(b' ' | b'\t'));
    let control = |byte: &u8| byte.is_ascii_control() && *byte != b'\t';
    !(is_field || goes_on) || line.iter().any(control)
}

fn first_line(bytes: &[u8]) -> String {
    let line = bytes.split(|b| *b == b'\r' || *b == b'\n').next().unwrap_or_default();
    if line.len() <= SHOWN
        && line.iter().all(|byte| matches!(byte, b' '..=b'~'))
        && let Ok(text) = str::from_utf8(line)
    {
        return text.to_owned();
    }
    let text: String = String::from_utf8_lossy(line)
        .chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect();
    let whole = text.chars().count() <= SHOWN;
    if whole { text } else { text.chars().take(SHOWN - 1).chain(['…']).collect() }
}

/// Maximum number of characters shown of a line.
const SHOWN: usize = 48;

#[cfg(test)]
mod tests {
    use memchr::memmem;

    use super::*;

    #[test]
    fn a_goaway_is_read_wherever_it_is_cut() {
        // SETTINGS; GOAWAY after stream 3 with `ENHANCE_YOUR_CALM` and a text; PING.
        let mut bytes = vec![0, 0, 0, 4, 0, 0, 0, 0, 0];
        bytes.extend([0, 0, 12, 7, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 11]);
        bytes.extend(b"calm");
        bytes.extend([0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
        for cut in 0..bytes.len() {
            let mut watch = HttpWatch::new(true, 0);
            watch.received(&bytes[..cut]);
            watch.received(&bytes[cut..]);
            let expected = GoAway { last_stream: 3, code: 11, debug: "calm".into() };
            assert_eq!(watch.go_away(), Some(expected), "cut at {cut}");
            assert!(!watch.is_shut_down());
        }
    }

    #[test]
    fn http2_settings_are_no_response() {
        let mut watch = HttpWatch::new(true, 0);
        let mut request = PREFACE.to_vec();
        request.extend([0, 0, 0, 4, 0, 0, 0, 0, 0]);
        request.extend([0, 0, 1, 1, 5, 0, 0, 0, 1, 0x82]);
        assert_eq!(watch.sent(&request), ["preface", "SETTINGS", "HEADERS"]);
        assert!(watch.request_complete);
        assert_eq!(watch.received(&[0, 0, 0, 4, 0, 0, 0, 0, 0]), ["SETTINGS"]);
        assert!(!watch.response_started);
        watch.received(&[0, 0, 1, 1, 5, 0, 0, 0, 1]);
        assert!(watch.response_started);
        assert_eq!((watch.header_bytes, watch.response_offset), (10, 9));
        assert_eq!(watch.head_end, Some(18));
    }

    #[test]
    fn the_last_head_before_the_body_is_the_final_one() {
        const HEAD: [u8; 10] = [0, 0, 1, 1, 4, 0, 0, 0, 1, 0x88];
        let heads = || {
            let mut watch = HttpWatch::new(true, 0);
            watch.received(&HEAD);
            assert!(!watch.response_started);
            watch.received(&HEAD);
            assert!(!watch.response_started);
            assert_eq!((watch.interim_offset, watch.response_offset), (Some(0), 10));
            watch
        };
        let mut with_body = heads();
        with_body.received(&[0, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert!(with_body.response_started);
        // Trailers.
        with_body.received(&HEAD);
        assert_eq!((with_body.response_offset, with_body.head_end), (10, Some(19)));
        let mut read_by_http = heads();
        read_by_http.note_final_head();
        assert!(read_by_http.response_started);
    }

    #[test]
    fn http1_request_is_complete_with_the_last_byte_of_its_body() {
        let mut watch = HttpWatch::new(false, 5);
        watch.sent(b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nab");
        assert!(!watch.request_complete);
        watch.sent(b"cde");
        assert!(watch.request_complete);
        let mut bodiless = HttpWatch::new(false, 0);
        bodiless.sent(b"GET / HTTP/1.1\r\n\r\n");
        assert!(bodiless.request_complete);
    }

    #[test]
    fn heads_of_interim_responses_count() {
        let heads = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n\
                      HTTP/1.1 200 OK\r\nA: b\r\n\r\n";
        let all = [heads.as_slice(), b"body\r\n\r\n"].concat();
        for cut in 0..all.len() {
            let mut watch = HttpWatch::new(false, 0);
            watch.received(&all[..cut]);
            watch.received(&all[cut..]);
            assert_eq!(watch.header_bytes, heads.len() as u64, "cut at {cut}");
            let last = memmem::rfind(heads, b"HTTP/1.1 200").unwrap() as u64;
            assert_eq!((watch.interim_offset, watch.response_offset), (Some(0), last), "{cut}");
            assert_eq!(watch.head_end, Some(heads.len() as u64 - 1), "cut at {cut}");
            assert!(watch.response_started);
            assert!(watch.head_complete());
        }
    }

    #[test]
    fn http1_head_ends_at_the_blank_line_wherever_it_is_cut() {
        let mut watch = HttpWatch::new(false, 0);
        assert_eq!(watch.received(b"HTTP/1.1 200 OK\r\nA: b\r"), ["HTTP/1.1 200 OK"]);
        watch.received(b"\n\r\nbody\r\n\r\n");
        assert_eq!(watch.header_bytes, b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n".len() as u64);
    }

    #[test]
    fn lines_of_an_http1_head_may_end_with_lf_alone() {
        for head in ["HTTP/1.1 200 OK\nA: b\n\n", "HTTP/1.1 200 OK\nA: b\n\r\n"] {
            let all = [head.as_bytes(), b"body\n\n"].concat();
            for cut in 0..all.len() {
                let mut watch = HttpWatch::new(false, 0);
                watch.received(&all[..cut]);
                watch.received(&all[cut..]);
                assert_eq!(watch.header_bytes, head.len() as u64, "{head:?} cut at {cut}");
                assert!(watch.head_complete());
            }
        }
    }

    #[test]
    fn the_line_that_is_wrong_is_found() {
        let of = |head: &str, why: &str| wrong_line(head.as_bytes(), why).unwrap_or_default();
        let header = "invalid HTTP header";
        let early = "HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n";
        for (fields, why, line) in [
            ("A: b\r\n folded\r\nno colon\r\nC: d\r\n\r\n", header, "no colon"),
            ("A : b\r\n: empty\r\n\r\n", header, ": empty"),
            ("a b: c\r\n\r\nno colon\r\n", header, "a b: c"),
            ("Set-Cookie: a=\u{1}\r\n\r\n", header, "Set-Cookie"),
            ("A: b\r\n\r\n", header, ""),
            ("Content-Length: five\r\n\r\n", "invalid content-length", "Content-Length: five"),
            ("A: b\r\n\r\n", "invalid HTTP version", "HTTP/1.1 200 OK"),
        ] {
            let head = format!("HTTP/1.1 200 OK\r\n{fields}");
            assert_eq!(of(&head, why), line);
            assert_eq!(of(&format!("{early}{head}"), why), line);
        }
    }
}
