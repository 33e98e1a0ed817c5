//! The bytes that HTTP writes: real frame headers and lines, content of the requested sizes.
//!
//! HPACK and QPACK are not run. The size of their compressed heads is estimated at three fifths of HTTP/1.1's, as
//! measured with this project's own client and nginx.

use super::{Exchange, Http};
use firstbyte_core::wire::http2::PREFACE;

/// Bytes that are written together, with their names.
#[derive(Clone, Debug, Default)]
pub(super) struct Written {
    pub bytes: Vec<u8>,
    pub names: Vec<String>,
}

impl Written {
    pub(super) fn push(&mut self, bytes: &[u8], name: &str) {
        self.bytes.extend_from_slice(bytes);
        if self.names.last().is_none_or(|last| last != name) {
            self.names.push(name.into());
        }
    }
}

const SETTINGS: u8 = 4;
const WINDOW_UPDATE: u8 = 8;
const HEADERS: u8 = 1;
const DATA: u8 = 0;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// Default SETTINGS_MAX_FRAME_SIZE, which nobody changes (RFC 9113 §6.5.2).
const MAX_FRAME: u64 = 16_384;

fn frame(kind: u8, flags: u8, stream: u8, payload: u64) -> Vec<u8> {
    let [.., a, b, c] = payload.to_be_bytes();
    let mut bytes = vec![a, b, c, kind, flags, 0, 0, 0, stream];
    bytes.resize(9 + usize::try_from(payload).unwrap_or(0), 0);
    bytes
}

/// Size of a head after compression.
pub(super) const fn packed(head: u64) -> u64 {
    head * 3 / 5
}

/// The request; `first` if it is the first on its connection.
pub(super) fn request(http: Http, exchange: &Exchange, first: bool) -> Written {
    let mut written = Written::default();
    if http == Http::V1_1 {
        let mut head = b"GET / HTTP/1.1\r\n".to_vec();
        pad(&mut head, exchange.request_head_bytes);
        written.push(&head, "GET / HTTP/1.1");
        if exchange.upload_bytes > 0 {
            written.push(&zeros(exchange.upload_bytes), "request body");
        }
        return written;
    }
    if first {
        written.push(PREFACE, "preface");
        written.push(&frame(SETTINGS, 0, 0, 24), "SETTINGS");
        written.push(&frame(WINDOW_UPDATE, 0, 0, 4), "WINDOW_UPDATE");
    }
    let ends = if exchange.upload_bytes == 0 { END_STREAM } else { 0 };
    let head = frame(HEADERS, END_HEADERS | ends, 1, packed(exchange.request_head_bytes));
    written.push(&head, "HEADERS");
    data(&mut written, exchange.upload_bytes);
    written
}

/// Compressed size of a head that resembles the previous one, as measured with this project's own client: HPACK's
/// table already has most of it.
const REPEATED_HEAD: u64 = 15;

/// `count` simultaneous requests on a new HTTP/2 connection.
pub(super) fn requests_at_once(exchange: &Exchange, count: u32) -> Written {
    let mut written = request(Http::V2, exchange, true);
    let head = packed(exchange.request_head_bytes).min(REPEATED_HEAD);
    for _ in 1..count {
        written.push(&frame(HEADERS, END_HEADERS | END_STREAM, 1, head), "HEADERS");
    }
    written
}

/// The responses to `count` requests, heads first, then interleaved frame by frame. Also returns for each response
/// the position of its first byte, and the number of bytes up to its last.
pub(super) fn responses_at_once(exchange: &Exchange, count: u32) -> (Written, Vec<(u64, u64)>) {
    let mut written = Written::default();
    let head = Exchange { response_bytes: 0, ..exchange.clone() };
    let mut places = Vec::new();
    for _ in 0..count {
        let start = written.bytes.len() as u64;
        let response = response(Http::V2, &head);
        written.push(&response.bytes, "HEADERS");
        places.push((start, written.bytes.len() as u64));
    }
    let mut left = exchange.response_bytes;
    while left > 0 {
        let payload = left.min(MAX_FRAME);
        left -= payload;
        let flags = if left == 0 { END_STREAM } else { 0 };
        for (_, end) in &mut places {
            written.push(&frame(DATA, flags, 1, payload), "DATA");
            *end = written.bytes.len() as u64;
        }
    }
    (written, places)
}

/// Frames that an HTTP/2 server sends before any request, as nginx does.
pub(super) fn server_settings() -> Vec<u8> {
    [frame(SETTINGS, 0, 0, 18), frame(WINDOW_UPDATE, 0, 0, 4)].concat()
}

/// The acknowledgement of SETTINGS.
pub(super) fn settings_ack() -> Vec<u8> {
    frame(SETTINGS, 1, 0, 0)
}

pub(super) fn response(http: Http, exchange: &Exchange) -> Written {
    let mut written = Written::default();
    if http == Http::V1_1 {
        let mut head = b"HTTP/1.1 200 OK\r\n".to_vec();
        pad(&mut head, exchange.response_head_bytes);
        written.push(&head, "HTTP/1.1 200 OK");
        written.bytes.extend(zeros(exchange.response_bytes));
        return written;
    }
    let ends = if exchange.response_bytes == 0 { END_STREAM } else { 0 };
    let head = frame(HEADERS, END_HEADERS | ends, 1, packed(exchange.response_head_bytes));
    written.push(&head, "HEADERS");
    data(&mut written, exchange.response_bytes);
    written
}

fn data(written: &mut Written, bytes: u64) {
    let mut left = bytes;
    while left > 0 {
        let payload = left.min(MAX_FRAME);
        left -= payload;
        let flags = if left == 0 { END_STREAM } else { 0 };
        written.push(&frame(DATA, flags, 1, payload), "DATA");
    }
}

/// Pads a head to `bytes` bytes, including the blank line, if it is shorter.
fn pad(head: &mut Vec<u8>, bytes: u64) {
    const END: &[u8] = b"\r\n\r\n";
    let filling = usize::try_from(bytes).unwrap_or(0).saturating_sub(END.len());
    if head.len() < filling {
        head.resize(filling, b'x');
    }
    head.truncate(head.len().max(filling));
    head.extend_from_slice(END);
}

fn zeros(bytes: u64) -> Vec<u8> {
    vec![0; usize::try_from(bytes).unwrap_or(0)]
}
