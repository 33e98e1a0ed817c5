//! What becomes of a response's body: counted, decoded where asked, written where asked.

use std::fs::File;
use std::io::{self, Write};

use firstbyte_core::timeline::Cause;
use http::header::{CONTENT_ENCODING, LOCATION};
use http::{HeaderMap, StatusCode};

use super::options::{HttpOptions, Output};

/// The body of one response.
pub(super) struct Body {
    output: Option<Output>,
    decode: bool,
    follows_redirects: bool,
    received: u64,
    encoding: String,
    writer: Option<Box<dyn Decoder>>,
}

/// A writer that has an end.
trait Decoder: Write {
    fn end(&mut self) -> io::Result<()>;
}

impl Body {
    /// With `follows_redirects`, bodies of responses that redirect go nowhere, as with curl.
    pub(super) fn new(options: &HttpOptions, follows_redirects: bool) -> Self {
        Self {
            output: options.output.clone(),
            decode: options.compressed,
            follows_redirects,
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
            && headers.contains_key(LOCATION);
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
        self.writer = Some(match self.encoding.as_str() {
            _ if !self.decode => Box::new(Plain(sink)),
            "" | "identity" => Box::new(Plain(sink)),
            "gzip" | "x-gzip" => Box::new(flate2::write::MultiGzDecoder::new(sink)),
            "deflate" => Box::new(flate2::write::ZlibDecoder::new(sink)),
            "br" => Box::new(brotli::DecompressorWriter::new(sink, 4096)),
            "zstd" => Box::new(zstd::stream::write::Decoder::new(sink).map_err(|e| {
                Cause::BadContentEncoding { encoding: "zstd".into(), detail: e.to_string() }
            })?),
            other => {
                return Err(Cause::BadContentEncoding {
                    encoding: other.to_owned(),
                    detail: "unknown encoding".into(),
                });
            }
        });
        Ok(())
    }

    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<(), Cause> {
        self.received += bytes.len() as u64;
        let result = self.writer.as_mut().map_or(Ok(()), |w| w.write_all(bytes));
        result.map_err(|e| self.problem(&e))
    }

    pub(super) fn finish(&mut self) -> Result<(), Cause> {
        let result = self.writer.as_mut().map_or(Ok(()), |w| w.end());
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

struct Plain(Box<dyn Write>);

impl Write for Plain {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Decoder for Plain {
    fn end(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Decoder for flate2::write::MultiGzDecoder<Box<dyn Write>> {
    fn end(&mut self) -> io::Result<()> {
        self.try_finish()?;
        self.get_mut().flush()
    }
}

impl Decoder for flate2::write::ZlibDecoder<Box<dyn Write>> {
    fn end(&mut self) -> io::Result<()> {
        self.try_finish()?;
        self.get_mut().flush()
    }
}

impl Decoder for brotli::DecompressorWriter<Box<dyn Write>> {
    fn end(&mut self) -> io::Result<()> {
        self.close()
    }
}

impl Decoder for zstd::stream::write::Decoder<'_, Box<dyn Write>> {
    fn end(&mut self) -> io::Result<()> {
        self.flush()
    }
}
