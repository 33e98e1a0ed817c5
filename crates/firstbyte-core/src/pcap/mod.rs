//! Reads frames from capture files (pcap and pcapng), and writes frames to pcapng ([`CaptureWriter`]).
//!
//! Input: the bytes of a file from its beginning, in a slice with all or a piece of it. Output: one frame at a time,
//! borrowed from the slice. Nothing is copied; unknown blocks are skipped if the format allows it. The reader must not
//! guess: it reports a broken file with the offset.

mod classic;
mod ng;
mod time;
mod write;

use std::fmt;

pub use time::Time;
pub use write::{CaptureWriter, Direction, InterfaceNumber};

/// Link-layer header type of a frame (<https://www.tcpdump.org/linktypes.html>).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinkType(pub u16);

/// One frame of a capture.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// When it was captured; absent in Simple Packet Blocks, which carry no time.
    pub at: Option<Time>,
    /// Link-layer header type.
    pub link: LinkType,
    /// Captured bytes.
    pub captured: &'a [u8],
    /// Length on the wire, bytes.
    pub wire_bytes: u32,
}

/// Result of reading from the start of the slice.
#[derive(Clone, Copy, Debug)]
pub enum Read<'a> {
    /// The slice ends too early: at least this many bytes from its start are needed.
    NeedMore {
        /// Bytes needed in the slice.
        bytes: usize,
    },
    /// Bytes that are not a frame.
    Skipped {
        /// Bytes to consume.
        bytes: usize,
    },
    /// A frame.
    Frame {
        /// The frame.
        frame: Frame<'a>,
        /// Bytes to consume.
        bytes: usize,
    },
}

/// Why a file cannot be read, or not any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureError {
    /// The file begins like neither pcap nor pcapng.
    NotACapture,
    /// The file is broken at this offset.
    Malformed {
        /// Offset in the file, bytes.
        offset: u64,
        /// Description of the defect.
        what: &'static str,
    },
}

impl fmt::Display for CaptureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotACapture => f.write_str("neither pcap nor pcapng"),
            Self::Malformed { offset, what } => write!(f, "malformed at offset {offset}: {what}"),
        }
    }
}

impl std::error::Error for CaptureError {}

/// Longest valid frame: a larger length means that the file is broken (libpcap's own limit).
pub const LONGEST_FRAME: u32 = 256 * 1024;

/// Reads a capture file.
#[derive(Debug, Default)]
pub struct CaptureReader {
    format: Format,
    offset: u64,
    /// Remaining bytes of a skipped block that extended beyond the slice.
    to_skip: u64,
}

#[derive(Debug, Default)]
enum Format {
    #[default]
    Unknown,
    Classic(classic::Header),
    Ng(ng::Section),
}

impl CaptureReader {
    /// Reads from `input`: the file's bytes from the end of the previous call's result.
    ///
    /// # Errors
    /// The file is not a capture, or is broken at this offset.
    #[inline]
    pub fn read<'a>(&mut self, input: &'a [u8]) -> Result<Read<'a>, CaptureError> {
        // The most common case: one simple packet record after another.
        if self.to_skip == 0
            && let Format::Classic(header) = &self.format
            && let Ok(Step::Frame(frame, bytes)) = header.read(input)
        {
            self.offset += bytes as u64;
            return Ok(Read::Frame { frame, bytes });
        }
        self.read_any(input)
    }

    #[inline(never)]
    fn read_any<'a>(&mut self, input: &'a [u8]) -> Result<Read<'a>, CaptureError> {
        if self.to_skip > 0 {
            let bytes = usize::try_from(self.to_skip).unwrap_or(usize::MAX).min(input.len());
            if bytes == 0 {
                return Ok(Read::NeedMore { bytes: 1 });
            }
            self.to_skip -= bytes as u64;
            self.offset += bytes as u64;
            return Ok(Read::Skipped { bytes });
        }
        let read = match &mut self.format {
            Format::Unknown => return self.begin(input),
            Format::Classic(header) => header.read(input),
            Format::Ng(section) => section.read(input),
        };
        match read {
            Ok(Step::Frame(frame, bytes)) => {
                self.offset += bytes as u64;
                Ok(Read::Frame { frame, bytes })
            }
            Ok(Step::Skip(bytes)) => {
                self.to_skip = bytes;
                self.read_any(input)
            }
            Ok(Step::NeedMore(bytes)) => Ok(Read::NeedMore { bytes }),
            Err(Broken { at, what }) => {
                Err(CaptureError::Malformed { offset: self.offset + at as u64, what })
            }
        }
    }

    /// Offset in the file at which the next call begins.
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    fn begin<'a>(&mut self, input: &'a [u8]) -> Result<Read<'a>, CaptureError> {
        let Some(magic) = input.first_chunk::<4>() else {
            return Ok(Read::NeedMore { bytes: 4 });
        };
        if *magic == ng::SECTION_MAGIC {
            self.format = Format::Ng(ng::Section::default());
            return self.read(input);
        }
        if !classic::Header::is_magic(*magic) {
            return Err(CaptureError::NotACapture);
        }
        let Some(head) = input.first_chunk::<{ classic::HEADER_BYTES }>() else {
            return Ok(Read::NeedMore { bytes: classic::HEADER_BYTES });
        };
        let header = classic::Header::parse(head).ok_or(CaptureError::NotACapture)?;
        self.format = Format::Classic(header);
        self.offset = classic::HEADER_BYTES as u64;
        Ok(Read::Skipped { bytes: classic::HEADER_BYTES })
    }
}

/// Result of one format's parser; offsets count from the start of the slice.
enum Step<'a> {
    Frame(Frame<'a>, usize),
    Skip(u64),
    NeedMore(usize),
}

struct Broken {
    at: usize,
    what: &'static str,
}

/// Reads a 32-bit number at `at`, in the byte order of the file.
fn u32_at(bytes: &[u8], at: usize, big_endian: bool) -> Option<u32> {
    let four = bytes.get(at..at.checked_add(4)?)?.first_chunk::<4>()?;
    Some(if big_endian { u32::from_be_bytes(*four) } else { u32::from_le_bytes(*four) })
}

/// Reads a 16-bit number at `at`, in the byte order of the file.
fn u16_at(bytes: &[u8], at: usize, big_endian: bool) -> Option<u16> {
    let two = bytes.get(at..at.checked_add(2)?)?.first_chunk::<2>()?;
    Some(if big_endian { u16::from_be_bytes(*two) } else { u16::from_le_bytes(*two) })
}

#[cfg(test)]
mod tests;
