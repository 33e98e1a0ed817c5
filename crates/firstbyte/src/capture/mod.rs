//! Capture files to connections: opening, unpacking, reading in pieces.
//!
//! In: paths (`-` is standard input), plain or packed by gzip or zstd; what a file is, its first bytes
//! say. Out: what [`Analyzer`] makes of the frames, in the files' order. The parsing is the core's; here
//! are files and buffers. One thread reads and unpacks, the caller's analyses. A file that ends or breaks in the middle is read up to there, and that is told.

mod ahead;
pub mod write;

pub mod live;

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use firstbyte_core::passive::pcap::{CaptureError, Frame, Read, Reader};
use firstbyte_core::passive::{Analyzer, Observed};

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
            Self::NotACapture { path, empty: true } => write!(f, "{}: is empty", name(path)),
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

/// Hands all frames of the file at `path` to `analyzer`, and what it gives out to `emit`.
///
/// # Errors
/// The file cannot be opened or read, or is no capture.
pub fn read(
    path: &Path,
    analyzer: &mut Analyzer,
    emit: &mut dyn FnMut(Observed),
) -> Result<Ended, CaptureFileError> {
    for_each(path, &mut |frame| analyzer.frame(frame, emit))
}

/// Hands all frames of the file at `path` to `each`.
///
/// # Errors
/// The file cannot be opened or read, or is no capture.
pub fn for_each(path: &Path, each: &mut impl FnMut(&Frame<'_>)) -> Result<Ended, CaptureFileError> {
    let open = |error| CaptureFileError::Open { path: path.to_owned(), error };
    if path == Path::new("-") {
        return unpacked(path, io::stdin(), each);
    }
    let file = File::open(path).map_err(open)?;
    if file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
        return Err(open(io::Error::from(io::ErrorKind::IsADirectory)));
    }
    unpacked(path, file, each)
}

/// Unpacks what is packed, as its first bytes say.
fn unpacked(
    path: &Path,
    mut source: impl io::Read + Send + 'static,
    each: &mut impl FnMut(&Frame<'_>),
) -> Result<Ended, CaptureFileError> {
    const GZIP: [u8; 2] = [0x1f, 0x8b];
    const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
    let read = |error| CaptureFileError::Read { path: path.to_owned(), offset: 0, error };
    let mut magic = Vec::with_capacity(4);
    source.by_ref().take(4).read_to_end(&mut magic).map_err(read)?;
    let packed_gzip = magic.starts_with(&GZIP);
    let packed_zstd = magic.starts_with(&ZSTD);
    let whole = io::Cursor::new(magic).chain(source);
    if packed_gzip {
        frames(path, flate2::read::MultiGzDecoder::new(whole), true, each)
    } else if packed_zstd {
        let decoder = zstd::Decoder::new(whole).map_err(read)?;
        frames(path, decoder, true, each)
    } else {
        frames(path, whole, false, each)
    }
}

fn frames(
    path: &Path,
    source: impl io::Read + Send + 'static,
    packed: bool,
    each: &mut impl FnMut(&Frame<'_>),
) -> Result<Ended, CaptureFileError> {
    let failed = |offset, error| CaptureFileError::Read { path: path.to_owned(), offset, error };
    let ahead = Ahead::of(source, packed).map_err(|error| failed(0, error))?;
    let mut reader = Reader::default();
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
