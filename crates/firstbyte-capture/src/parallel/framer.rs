//! Finds the packets in pieces of a file. This must happen in file order, one piece after another.
//!
//! In: pieces. Out: their packets, each with its shard. A frame that spans two pieces belongs to the second.
//! Connections are the shards' work, not this module's.

use std::io;
use std::ops::Range;
use std::path::Path;

use firstbyte_core::pcap::{CaptureError, CaptureReader, Read};
use firstbyte_passive::Intake;

use super::super::{CaptureFileError, Ended};
use super::block::{Block, ROOM};

/// The result of reading a piece: the number of bytes, and the error that stopped the reading, if any.
pub(super) type Filled = (usize, Option<io::Error>);

pub(super) struct Framer<'a> {
    path: &'a Path,
    intake: &'a mut Intake,
    reader: CaptureReader,
    /// The beginning of a frame that ends in the next piece.
    across: Vec<u8>,
    /// The datagram reassembled last.
    whole: Vec<u8>,
    ended: Option<Result<Ended, CaptureFileError>>,
}

impl<'a> Framer<'a> {
    pub(super) fn new(path: &'a Path, intake: &'a mut Intake) -> Self {
        Self {
            path,
            intake,
            reader: CaptureReader::default(),
            across: Vec::new(),
            whole: Vec::new(),
            ended: None,
        }
    }

    /// How the file ended, if it has.
    pub(super) fn into_ended(self) -> Option<Result<Ended, CaptureFileError>> {
        self.ended
    }

    pub(super) const fn is_over(&self) -> bool {
        self.ended.is_some()
    }

    /// Finds the packets of the next piece, which has `filled` bytes after the block's reserved room.
    ///
    /// The file ends with an empty piece or with the `last` one: if the file grows meanwhile, there is a gap after the
    /// last piece.
    pub(super) fn piece(&mut self, block: &mut Block, (filled, failed): Filled, last: bool) {
        if self.is_over() {
            return;
        }
        if filled > 0 {
            self.packets(block, filled);
        }
        if !self.is_over() {
            self.ended = self.end(filled > 0 && !last, failed);
        }
    }

    /// How the file ended, if this piece ended it.
    fn end(
        &self,
        goes_on: bool,
        failed: Option<io::Error>,
    ) -> Option<Result<Ended, CaptureFileError>> {
        let (left, offset) = (self.across.len(), self.reader.offset());
        let path = self.path.to_owned();
        match failed {
            Some(error) => {
                let offset = offset + left as u64;
                Some(Err(CaptureFileError::Read { path, offset, error }))
            }
            None if goes_on => None,
            None => Some(match (left, offset) {
                (left, 0) => Err(CaptureFileError::NotACapture { path, empty: left == 0 }),
                (0, _) => Ok(Ended::Whole),
                (_, offset) => Ok(Ended::CutOff { offset }),
            }),
        }
    }

    fn packets(&mut self, block: &mut Block, filled: usize) {
        let place = self.prepend(block, filled);
        let Block { bytes, packets, .. } = block;
        let mut rest = &bytes[place];
        self.across.clear();
        loop {
            match self.reader.read(rest) {
                Ok(Read::Frame { frame, bytes: used }) => {
                    if let Some(arrival) = self.intake.frame(&frame, &mut self.whole) {
                        packets.add(&arrival, bytes);
                    }
                    rest = &rest[used..];
                }
                Ok(Read::Skipped { bytes: used }) => rest = &rest[used..],
                Ok(Read::NeedMore { .. }) => {
                    self.across.extend_from_slice(rest);
                    return;
                }
                Err(error) => {
                    self.ended = Some(match error {
                        CaptureError::NotACapture => Err(CaptureFileError::NotACapture {
                            path: self.path.to_owned(),
                            empty: false,
                        }),
                        CaptureError::Malformed { offset, what } => {
                            Ok(Ended::Malformed { offset, what })
                        }
                    });
                    return;
                }
            }
        }
    }

    /// Puts the remainder of the previous piece in front of this one. Returns the range of both in `block.bytes`.
    fn prepend(&self, block: &mut Block, filled: usize) -> Range<usize> {
        let left = self.across.len();
        if left <= ROOM {
            block.bytes[ROOM - left..ROOM].copy_from_slice(&self.across);
            return ROOM - left..ROOM + filled;
        }
        let piece = &block.bytes[ROOM..ROOM + filled];
        block.bytes = [&self.across, piece].concat();
        0..left + filled
    }
}
