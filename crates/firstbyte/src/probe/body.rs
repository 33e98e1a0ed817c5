//! What becomes of a response's body: counted, decoded where asked, written where asked.

mod decoder;

use std::fs::File;
use std::io::{self, Write};

use firstbyte_core::timeline::Cause;
use http::header::{CONTENT_ENCODING, LOCATION};
use http::{HeaderMap, StatusCode};

use super::options::{HttpOptions, Output};
use decoder::{Decoder, decoder};

/// The body of one response.
pub(super) struct Body {
    output: Option<Output>,
    decode: bool,
    follows_redirects: bool,
    fail: bool,
    received: u64,
    encoding: String,
    writer: Option<Box<dyn Decoder>>,
}

impl Body {
    /// With `follows_redirects`, bodies of responses that redirect go nowhere, as with curl; so do
    /// those of errors with `--fail`.
    pub(super) fn new(options: &HttpOptions, follows_redirects: bool) -> Self {
        Self {
            output: options.output.clone(),
            decode: options.compressed,
            follows_redirects,
            fail: options.fail,
            received: 0,
            encoding: String::new(),
            writer: None,
        }
    }

    /// Bytes as received, before decoding.
    pub(super) const fn received(&self) -> u64 {
        self.received
    }

    /// The head has arrived: opens the output and picks the decoder.
    pub(super) fn begin(&mut self, status: StatusCode, headers: &HeaderMap) -> Result<(), Cause> {
        let passed_over = self.follows_redirects
            && super::redirects(status.as_u16())
            && headers.contains_key(LOCATION)
            || self.fail && status.as_u16() >= 400;
        let sink: Box<dyn Write> = match &self.output {
            _ if passed_over => Box::new(io::sink()),
            None => Box::new(io::sink()),
            Some(Output::Stdout) => Box::new(io::stdout().lock()),
            Some(Output::File(path)) => {
                Box::new(File::create(path).map_err(|e| self.not_written(&e))?)
            }
        };
        let encoding = headers.get(CONTENT_ENCODING).and_then(|v| v.to_str().ok()).unwrap_or("");
        self.encoding = encoding.trim().to_ascii_lowercase();
        let encoding = if self.decode { self.encoding.as_str() } else { "" };
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
        result.map_err(|e| self.problem(&e))
    }

    pub(super) fn finish(&mut self) -> Result<(), Cause> {
        // Of no body there is nothing to decode: HEAD, 304.
        let writer = self.writer.as_mut().filter(|_| self.received > 0);
        let result = writer.map_or(Ok(()), |w| w.end());
        result.map_err(|error| match self.problem(&error) {
            // What is only noticed at the end is that there is no proper end.
            Cause::BadContentEncoding { encoding, .. } => Cause::BadContentEncoding {
                encoding,
                detail: "it is cut short, or its checksum is wrong".into(),
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
