//! Capture files to connections: opening, unpacking, reading in pieces.
//!
//! In: paths (`-` is standard input), plain or compressed with gzip or zstd; the first bytes tell which. Out: what
//! [`Analyzer`] makes of the frames, in the files' order. Parsing is in the core; this crate handles files and buffers.
//! One thread reads and unpacks while the caller's analyses, or several threads do both (`parallel`). A file that is
//! cut off or broken is read up to that point, and the result says so.

mod ahead;
mod parallel;

pub mod live;

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::path::{Path, PathBuf};
use std::thread;

use firstbyte_core::pcap::{CaptureError, CaptureReader, Frame, Read};
use firstbyte_passive::{Analyzer, Observed};

use ahead::{Ahead, Piece};

/// How the reading of a file ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The file was read to its end.
    Whole,
    /// The capture was cut off in the middle of a packet.
    CutOff {
        /// Where the packet begins, as an offset in the (unpacked) file.
        offset: u64,
    },
    /// The file is malformed from here on.
    Malformed {
        /// Offset in the (unpacked) file.
        offset: u64,
        /// What is wrong.
        what: &'static str,
    },
}

/// A file that could not be read at all, or not to its end.
#[derive(Debug)]
pub enum CaptureFileError {
    /// The file cannot be opened.
    Open {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Reading or unpacking failed.
    Read {
        /// The file.
        path: PathBuf,
        /// Where, as an offset in the (unpacked) file.
        offset: u64,
        /// Why.
        error: io::Error,
    },
    /// The file is not a capture.
    NotACapture {
        /// The file.
        path: PathBuf,
        /// Whether the file is empty.
        empty: bool,
    },
}

impl fmt::Display for CaptureFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open { path, error } => write!(f, "{}: {}", name(path), reason(error)),
            Self::Read { path, offset, error } => {
                write!(f, "{}: at offset {offset}: {}", name(path), reason(error))
            }
            Self::NotACapture { path, empty: true } => {
                write!(f, "{}: the file is empty", name(path))
            }
            Self::NotACapture { path, .. } => {
                write!(f, "{}: at offset 0: neither pcap nor pcapng", name(path))
            }
        }
    }
}

impl std::error::Error for CaptureFileError {}

/// Name of a file in messages.
pub fn name(path: &Path) -> String {
    if path == Path::new("-") { "standard input".into() } else { path.display().to_string() }
}

/// The operating system's message, without its error number.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    let words = text.split(" (os error").next().unwrap_or(&text);
    let mut letters = words.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

/// Number of threads that [`read`] uses.
pub fn threads() -> usize {
    thread::available_parallelism().map_or(1, |available| available.get().min(MOST_THREADS))
}

/// Upper limit of threads: flows are divided among this many shards, so more threads would be idle.
pub const MOST_THREADS: usize = 8;

/// Feeds all frames of the file at `path` to `analyzer` and its results to `emit`, using all processors available to
/// this process.
///
/// # Errors
/// The file cannot be opened or read, or is not a capture.
pub fn read(
    path: &Path,
    analyzer: &mut Analyzer,
    emit: &mut dyn FnMut(&Observed),
) -> Result<Ended, CaptureFileError> {
    read_on(threads(), path, analyzer, emit)
}

/// Like [`read`], on `threads` threads. Their number affects neither the results nor their order.
///
/// # Errors
/// The file cannot be opened or read, or is not a capture.
pub fn read_on(
    threads: usize,
    path: &Path,
    analyzer: &mut Analyzer,
    emit: &mut dyn FnMut(&Observed),
) -> Result<Ended, CaptureFileError> {
    let source = Source::open(path)?;
    if threads < 2 {
        return each_of(path, source, &mut |frame| analyzer.frame(frame, emit));
    }
    parallel::read(path, source, threads.min(MOST_THREADS), analyzer, emit)
}

/// Ends the capture: emits all connections still open in `analyzer`, as its `finish` does, using `threads` threads.
pub fn finish_on(threads: usize, analyzer: &mut Analyzer, emit: &mut dyn FnMut(&Observed)) {
    match threads {
        0 | 1 => analyzer.finish(emit),
        _ => parallel::finish(threads.min(MOST_THREADS), analyzer, emit),
    }
}

/// Calls `each` for every frame of the file at `path`.
///
/// # Errors
/// The file cannot be opened or read, or is not a capture.
pub fn for_each(path: &Path, each: &mut impl FnMut(&Frame<'_>)) -> Result<Ended, CaptureFileError> {
    each_of(path, Source::open(path)?, each)
}

/// Checks that `path` begins like a capture, before the caller truncates its output files. Inputs that can be read only
/// once are not touched.
///
/// # Errors
/// The file cannot be opened or unpacked, or is not a capture.
pub fn check(path: &Path) -> Result<(), CaptureFileError> {
    let once = |metadata: std::fs::Metadata| !metadata.is_file() && !metadata.is_dir();
    if path == Path::new("-") || path.metadata().is_ok_and(once) {
        return Ok(());
    }
    let begun = match Source::open(path)? {
        Source::File(mut file) => begin(&mut file),
        Source::Stream(mut stream, _) => begin(&mut stream),
    };
    let path = path.to_owned();
    match begun {
        Err(error) => Err(CaptureFileError::Read { path, offset: 0, error }),
        Ok(magic) if magic.is_empty() => Err(CaptureFileError::NotACapture { path, empty: true }),
        Ok(magic) => match CaptureReader::default().read(&magic) {
            Err(CaptureError::NotACapture) => {
                Err(CaptureFileError::NotACapture { path, empty: false })
            }
            _ => Ok(()),
        },
    }
}

/// Where a capture's bytes come from.
enum Source {
    /// A plain file, which can be read at any offset.
    File(File),
    /// A sequential stream. The flag says whether to fill whole pieces; not for pipes, where the writer may be slow.
    Stream(Box<dyn io::Read + Send>, bool),
}

impl Source {
    fn open(path: &Path) -> Result<Self, CaptureFileError> {
        let open = |error| CaptureFileError::Open { path: path.to_owned(), error };
        if path == Path::new("-") {
            return Self::unpacked(path, Box::new(io::stdin()));
        }
        let mut file = File::open(path).map_err(open)?;
        let metadata = file.metadata().map_err(open)?;
        if metadata.is_dir() {
            return Err(open(io::Error::from(io::ErrorKind::IsADirectory)));
        }
        if !metadata.is_file() {
            return Self::unpacked(path, Box::new(file));
        }
        let read = |error| CaptureFileError::Read { path: path.to_owned(), offset: 0, error };
        let packed = Packed::from_magic(&begin(&mut file).map_err(read)?);
        file.rewind().map_err(read)?;
        match packed {
            None => Ok(Self::File(file)),
            Some(_) => Self::unpacked(path, Box::new(file)),
        }
    }

    /// Unpacks the source if its first bytes say that it is compressed.
    fn unpacked(
        path: &Path,
        mut source: Box<dyn io::Read + Send>,
    ) -> Result<Self, CaptureFileError> {
        let read = |error| CaptureFileError::Read { path: path.to_owned(), offset: 0, error };
        let magic = begin(&mut source).map_err(read)?;
        let packed = Packed::from_magic(&magic);
        let whole = io::Cursor::new(magic).chain(source);
        Ok(match packed {
            Some(Packed::Gzip) => {
                Self::Stream(Box::new(flate2::read::MultiGzDecoder::new(whole)), true)
            }
            Some(Packed::Zstd) => {
                Self::Stream(Box::new(zstd::Decoder::new(whole).map_err(read)?), true)
            }
            None => Self::Stream(Box::new(whole), false),
        })
    }
}

#[derive(Clone, Copy)]
enum Packed {
    Gzip,
    Zstd,
}

impl Packed {
    /// Detects the compression from the file's first bytes.
    const fn from_magic(begin: &[u8]) -> Option<Self> {
        match begin {
            [0x1f, 0x8b, ..] => Some(Self::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd] => Some(Self::Zstd),
            _ => None,
        }
    }
}

/// Reads the magic number.
fn begin(source: &mut impl io::Read) -> io::Result<Vec<u8>> {
    let mut magic = Vec::with_capacity(4);
    source.by_ref().take(4).read_to_end(&mut magic)?;
    Ok(magic)
}

fn each_of(
    path: &Path,
    source: Source,
    each: &mut impl FnMut(&Frame<'_>),
) -> Result<Ended, CaptureFileError> {
    match source {
        Source::File(file) => frames(path, file, false, each),
        Source::Stream(stream, whole) => frames(path, stream, whole, each),
    }
}

fn frames(
    path: &Path,
    source: impl io::Read + Send + 'static,
    whole: bool,
    each: &mut impl FnMut(&Frame<'_>),
) -> Result<Ended, CaptureFileError> {
    let failed = |offset, error| CaptureFileError::Read { path: path.to_owned(), offset, error };
    let ahead = Ahead::start_reading(source, whole).map_err(|error| failed(0, error))?;
    let mut reader = CaptureReader::default();
    // The beginning of an item that continues in the next piece.
    let mut across: Vec<u8> = Vec::new();
    let mut piece: Option<Piece> = None;
    loop {
        let offset = reader.offset() + across.len() as u64;
        let next = ahead.next(piece.take()).map_err(|error| failed(offset, error))?;
        let mut rest = next.bytes();
        if rest.is_empty() {
            return match (across.len(), reader.offset()) {
                (0, 0) => Err(CaptureFileError::NotACapture { path: path.to_owned(), empty: true }),
                (_, 0) => {
                    Err(CaptureFileError::NotACapture { path: path.to_owned(), empty: false })
                }
                (0, _) => Ok(Ended::Whole),
                (_, offset) => Ok(Ended::CutOff { offset }),
            };
        }
        loop {
            let from_across = !across.is_empty();
            let input = if from_across { &across[..] } else { rest };
            let used = match reader.read(input) {
                Ok(Read::Frame { frame, bytes }) => {
                    each(&frame);
                    bytes
                }
                Ok(Read::Skipped { bytes }) => bytes,
                Ok(Read::NeedMore { bytes }) => {
                    // Copies only what the reader needs; the rest is parsed in place.
                    let missing = bytes.saturating_sub(across.len()).min(rest.len());
                    let (begin, behind) = rest.split_at(missing);
                    across.extend_from_slice(begin);
                    rest = behind;
                    if missing == 0 {
                        break;
                    }
                    continue;
                }
                Err(CaptureError::NotACapture) => {
                    return Err(CaptureFileError::NotACapture {
                        path: path.to_owned(),
                        empty: false,
                    });
                }
                Err(CaptureError::Malformed { offset, what }) => {
                    return Ok(Ended::Malformed { offset, what });
                }
            };
            if from_across {
                across.drain(..used);
            } else {
                rest = &rest[used..];
            }
        }
        piece = Some(next);
    }
}

#[cfg(test)]
mod tests;
