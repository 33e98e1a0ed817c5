//! The response body as it is counted: decoded as configured, up to its limit.

use std::io::Read;

use firstbyte_core::timeline::HttpFacts;

use super::Hop;
use crate::configuration::HttpModule;

/// Size limit of an examined body if the configuration sets none, in bytes.
pub(super) const BODY_LIMIT: u64 = 64 << 20;

/// A received response body.
pub(super) struct Received {
    /// The bytes that were kept.
    pub body: Vec<u8>,
    /// Length after decoding, in bytes.
    pub length: u64,
    /// Why it was not read to its end.
    pub error: Option<String>,
    /// Why it cannot be decoded at all.
    pub no_decoder: Option<String>,
}

impl Received {
    pub(super) fn new(hop: &Hop, http: &HttpFacts, module: &HttpModule, unread: bool) -> Self {
        let failure = hop.connection.failure.as_ref().map(|failure| failure.cause.to_string());
        if unread {
            let error = Some("the response is a redirect; its body is not read".into());
            return Self { body: Vec::new(), length: 0, error, no_decoder: None };
        }
        let Some((raw, is_cut)) = &hop.body else {
            let length = http.body_bytes.unwrap_or(0);
            return Self { body: Vec::new(), length, error: failure, no_decoder: None };
        };
        let limit = match module.body_size_limit {
            0 => BODY_LIMIT,
            limit => limit.min(BODY_LIMIT),
        };
        let too_long = || Some(format!("the body is longer than {limit} bytes"));
        let (body, mut error, no_decoder) = match decoder(&module.compression, raw) {
            Ok(Some(decoder)) => {
                let mut body = Vec::new();
                let result = decoder.take(limit + 1).read_to_end(&mut body);
                (body, result.err().map(|error| error.to_string()), None)
            }
            Ok(None) => (raw.clone(), None, None),
            Err(error) => (raw.clone(), None, Some(error)),
        };
        let mut body = body;
        if body.len() as u64 > limit {
            body.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
            error = too_long();
        }
        let error = if *is_cut { too_long() } else { error.or(failure) };
        Self { length: body.len() as u64, body, error, no_decoder }
    }
}

/// A decoder of `raw`; `None` if it is not encoded.
fn decoder<'a>(compression: &str, raw: &'a [u8]) -> Result<Option<Box<dyn Read + 'a>>, String> {
    match compression.to_ascii_lowercase().as_str() {
        "" | "identity" => Ok(None),
        "br" => Ok(Some(Box::new(brotli_decompressor::Decompressor::new(raw, 4096)))),
        "deflate" => Ok(Some(Box::new(flate2::read::DeflateDecoder::new(raw)))),
        "gzip" if raw.starts_with(&[0x1f, 0x8b]) => {
            Ok(Some(Box::new(flate2::read::MultiGzDecoder::new(raw))))
        }
        "gzip" => Err("gzip: invalid header".into()),
        _ => Err("unsupported compression algorithm".into()),
    }
}

/// `Content-Length` as reported by Go: -1 if unknown.
pub(super) fn content_length(http: &HttpFacts, status: u16) -> f64 {
    if http.header("transfer-encoding").is_some() {
        return -1.0;
    }
    if let Some(length) = http.header("content-length").and_then(|text| text.parse::<u64>().ok()) {
        return length as f64;
    }
    let has_none = matches!(status, 100..200 | 204 | 304);
    let http2_without =
        matches!(http.version.as_deref(), Some("2" | "3")) && http.body_bytes == Some(0);
    if has_none || http2_without { 0.0 } else { -1.0 }
}
