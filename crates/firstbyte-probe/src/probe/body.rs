//! Handles a response's body: counts it, and decodes and writes it if requested.

mod decoder;

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Write};
use std::rc::Rc;

use firstbyte_core::timeline::Cause;
use http::header::{CONTENT_ENCODING, LOCATION};
use http::{HeaderMap, StatusCode};

use super::kept::KeptBody;
use super::observation::Shared;
use super::options::{HttpOptions, Output};
use decoder::{Decoder, decoder};

/// The body of one response.
pub(super) struct Body {
    output: Option<Output>,
    keep: Option<KeptBody>,
    decode: bool,
    follows_redirects: bool,
    fail: bool,
    dropped_status: Option<u16>,
    received: u64,
    encoding: String,
    writer: Option<Box<dyn Decoder>>,
    /// Bytes that came out of the decoder; absent without a decoder.
    decoded: Option<Rc<Cell<u64>>>,
    /// Updated as bytes arrive, so that the observation is right however the exchange ends.
    seen: Shared,
}

/// Counts the bytes written.
struct Counted {
    sink: Box<dyn Write>,
    bytes: Rc<Cell<u64>>,
}

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.sink.write(bytes)?;
        self.bytes.set(self.bytes.get() + written as u64);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

impl Body {
    /// With `follows_redirects`, bodies of redirect responses are discarded, as with curl; so are those of errors with
    /// `--fail`.
    pub(super) fn new(options: &HttpOptions, follows_redirects: bool, seen: &Shared) -> Self {
        let exact = options.exact.as_deref();
        Self {
            output: options.output.clone(),
            keep: options.keep.clone(),
            decode: options.compressed,
            follows_redirects,
            fail: options.fail && !exact.is_some_and(|exact| exact.keeps_failed_body),
            dropped_status: exact.and_then(|exact| exact.dropped_status),
            received: 0,
            encoding: String::new(),
            writer: None,
            decoded: None,
            seen: Shared::clone(seen),
        }
    }

    /// Bytes received, before decoding.
    pub(super) const fn received(&self) -> u64 {
        self.received
    }

    /// Whether the head has arrived.
    pub(super) const fn has_begun(&self) -> bool {
        self.writer.is_some()
    }

    /// Called when the head has arrived: opens the output and chooses the decoder.
    pub(super) fn begin(&mut self, status: StatusCode, headers: &HeaderMap) -> Result<(), Cause> {
        self.note();
        let passed_over = self.follows_redirects
            && super::redirects(status.as_u16())
            && headers.get(LOCATION).is_some_and(|to| !to.as_bytes().trim_ascii().is_empty())
            || self.fail && status.as_u16() >= 400
            || self.dropped_status == Some(status.as_u16());
        let sink: Box<dyn Write> = match &self.output {
            _ if passed_over => Box::new(io::sink()),
            None => match &self.keep {
                Some(kept) => kept.sink(),
                None => Box::new(io::sink()),
            },
            Some(Output::Stdout) => Box::new(io::stdout().lock()),
            Some(Output::File(path)) => {
                Box::new(File::create(path).map_err(|e| self.not_written(&e))?)
            }
            Some(Output::Append(path)) => {
                let file = File::options().append(true).create(true).open(path);
                Box::new(file.map_err(|e| self.not_written(&e))?)
            }
        };
        let encoding = headers.get(CONTENT_ENCODING).and_then(|v| v.to_str().ok()).unwrap_or("");
        self.encoding = encoding.trim().to_ascii_lowercase();
        let encoding = if self.decode { self.encoding.as_str() } else { "" };
        let bytes = Rc::new(Cell::new(0));
        self.decoded = (!matches!(encoding, "" | "identity")).then(|| Rc::clone(&bytes));
        let sink = Box::new(Counted { sink, bytes });
        self.writer = match decoder(encoding, sink) {
            Ok(Some(decoder)) => Some(decoder),
            Ok(None) => {
                return Err(Cause::BadContentEncoding {
                    encoding: self.encoding.clone(),
                    detail: "unknown encoding".into(),
                });
            }
            Err(error) => return Err(self.problem(&error)),
        };
        Ok(())
    }

    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<(), Cause> {
        self.received += bytes.len() as u64;
        let result = self.writer.as_mut().map_or(Ok(()), |w| w.write_all(bytes));
        self.note();
        result.map_err(|e| self.problem(&e))
    }

    fn note(&self) {
        if let Some(http) = &mut self.seen.borrow_mut().connection.facts.http {
            http.body_bytes = Some(self.received);
            http.decoded_bytes = self.decoded.as_ref().map(|bytes| bytes.get());
            let behind = self.writer.as_ref().map_or(0, |writer| writer.behind());
            http.undecoded_bytes = (behind > 0).then_some(behind);
        }
    }

    pub(super) fn finish(&mut self) -> Result<(), Cause> {
        // An absent body cannot be decoded: HEAD, 304.
        let writer = self.writer.as_mut().filter(|_| self.received > 0);
        let result = writer.map_or(Ok(()), |w| w.end());
        self.note();
        result.map_err(|error| match self.problem(&error) {
            // An error noticed only at the end means that the end is missing or wrong.
            Cause::BadContentEncoding { encoding, .. } => Cause::BadContentEncoding {
                encoding,
                detail: "the data is cut short, or its checksum is wrong".into(),
            },
            other => other,
        })
    }

    fn problem(&self, error: &io::Error) -> Cause {
        if error.raw_os_error().is_some() || error.kind() == io::ErrorKind::BrokenPipe {
            return self.not_written(error);
        }
        let detail = error.to_string().to_lowercase();
        Cause::BadContentEncoding { encoding: self.encoding.clone(), detail }
    }

    fn not_written(&self, error: &io::Error) -> Cause {
        let path = match &self.output {
            Some(Output::File(path)) => path.display().to_string(),
            _ => "standard output".into(),
        };
        Cause::WriteOutput { path, detail: super::connect::describe(error) }
    }
}
