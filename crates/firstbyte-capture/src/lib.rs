//! Capture files to connections: opening, unpacking, reading in pieces.
//!
//! In: paths (`-` is standard input), plain or packed by gzip or zstd; what a file is, its first bytes
//! say. Out: what [`Analyzer`] makes of the frames, in the files' order. The parsing is the core's; here
//! are files and buffers. One thread reads and unpacks while the caller's analyses, or several do both
//! (`parallel`). A file that ends or breaks in the middle is read up to there, and that is told.

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
    /// At its end.
    Whole,
    /// In the middle of a packet: the capture was cut off.
    CutOff {
        /// Where the packet begins, as an offset in the (unpacked) file.
        offset: u64,
    },
    /// It is broken from here on.
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
    /// It cannot be opened.
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
    /// It is no capture.
    NotACapture {
        /// The file.
        path: PathBuf,
        /// There is nothing in it.
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

/// What a file is called in messages.
pub fn name(path: &Path) -> String {
    if path == Path::new("-") { "standard input".into() } else { path.display().to_string() }
}

/// The operating system's words, without its number.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    let words = text.split(" (os error").next().unwrap_or(&text);
    let mut letters = words.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

/// Threads that [`read`] follows a capture on.
pub fn threads() -> usize {
    thread::available_parallelism().map_or(1, |available| available.get().min(MOST_THREADS))
}

/// More threads would have nothing to do: there are so many parts that flows are divided among.
pub const MOST_THREADS: usize = 8;

/// Hands all frames of the file at `path` to `analyzer`, and what it gives out to `emit`, on all processors that
/// there are for this process.
///
/// # Errors
/// The file cannot be opened or read, or is no capture.
pub fn read(
    path: &Path,
    analyzer: &mut Analyzer,
    emit: &mut dyn FnMut(&Observed),
) -> Result<Ended, CaptureFileError> {
    read_on(threads(), path, analyzer, emit)
}

/// The same on so many threads. What is given out, and in which order, does not depend on their number.
///
/// # Errors
/// The file cannot be opened or read, or is no capture.
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

/// The capture is over: gives out all that is under way in `analyzer`, as its `finish` does, on so many threads.
pub fn finish_on(threads: usize, analyzer: &mut Analyzer, emit: &mut dyn FnMut(&Observed)) {
    match threads {
        0 | 1 => analyzer.finish(emit),
        _ => parallel::finish(threads.min(MOST_THREADS), analyzer, emit),
    }
}

/// Hands all frames of the file at `path` to `each`.
///
/// # Errors
/// The file cannot be opened or read, or is no capture.
pub fn for_each(path: &Path, each: &mut impl FnMut(&Frame<'_>)) -> Result<Ended, CaptureFileError> {
    each_of(path, Source::open(path)?, each)
}

/// Looks whether `path` begins as a capture does, before outputs are emptied for its sake. What can be read only once is
/// left alone.
///
/// # Errors
/// The file cannot be opened or unpacked, or is no capture.
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
    /// A plain file: they can be read from any place of it.
    File(File),
    /// They come one after another. Whether it is worth waiting for many at once: not for who writes into a
    /// pipe slowly.
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

    /// Unpacks what is packed, as its first bytes say.
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

/// How a file is packed.
#[derive(Clone, Copy)]
enum Packed {
    Gzip,
    Zstd,
}

impl Packed {
    /// What the first bytes say.
    const fn from_magic(begin: &[u8]) -> Option<Self> {
        match begin {
            [0x1f, 0x8b, ..] => Some(Self::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd] => Some(Self::Zstd),
            _ => None,
        }
    }
}

/// The first bytes, by which files are known.
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
    // What reaches from one piece into the next.
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
                    // As much as is asked for and no more: the rest is read where it lies.
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
