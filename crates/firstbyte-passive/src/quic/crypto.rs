//! The stream of CRYPTO frames in one direction's Initial packets (RFC 9000 §19.6).
//!
//! In: pieces in any order, from any number of packets, overlapping or not. Out: complete handshake messages. The
//! buffer is bounded; pieces beyond it are dropped.

/// Longer hellos are not buffered beyond this.
const LONGEST: usize = 16 * 1024;
/// Most disjoint pieces.
const PIECES: usize = 128;
/// Most missing bytes between pieces, so that a few bytes at a large offset do not take much memory.
const HOLES: usize = 4 * 1024;
const HEADER: usize = 4;

/// Result of adding a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Added {
    /// It held new bytes.
    New,
    /// All its bytes had been received before.
    Again,
    /// It was too large to buffer.
    TooMuch,
}

#[derive(Debug, Default)]
pub(super) struct Stream {
    data: Vec<u8>,
    /// Ranges of `data` that were received: start and end, sorted, disjoint.
    pieces: Vec<(u32, u32)>,
    read: usize,
}

impl Stream {
    /// Adds `bytes` at `offset`, unless that needs more than `room` more bytes of memory.
    pub(super) fn add(&mut self, offset: u64, bytes: &[u8], room: usize) -> Added {
        let end = offset.saturating_add(bytes.len() as u64);
        if end > LONGEST as u64 {
            return Added::TooMuch;
        }
        let (from, to) = (offset as u32, end as u32);
        if bytes.is_empty() || self.pieces.iter().any(|(a, b)| *a <= from && to <= *b) {
            return Added::Again;
        }
        let (start, end) = (from as usize, to as usize);
        if end > self.data.len() {
            let there: usize = self.pieces.iter().map(|(a, b)| (b - a) as usize).sum();
            let holes = end.saturating_sub(there + bytes.len());
            if end - self.data.len() > room || holes > HOLES {
                return Added::TooMuch;
            }
            self.data.resize(end, 0);
        }
        // Pieces that touch the new one are merged with it.
        let first = self.pieces.partition_point(|(_, b)| *b < from);
        let behind = self.pieces.partition_point(|(a, _)| *a <= to);
        if first == behind && self.pieces.len() == PIECES {
            return Added::TooMuch;
        }
        let joined = self.pieces[first..behind]
            .iter()
            .fold((from, to), |(from, to), (a, b)| (from.min(*a), to.max(*b)));
        self.pieces.splice(first..behind, [joined]);
        self.data[start..end].copy_from_slice(bytes);
        Added::New
    }

    /// The next complete message: its type and body.
    pub(super) fn next(&mut self) -> Option<(u8, &[u8])> {
        let whole = self.contiguous();
        let rest = self.data.get(self.read..whole)?;
        let [kind, a, b, c] = *rest.first_chunk::<HEADER>()?;
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        (rest.len() >= HEADER + length).then_some(())?;
        let start = self.read + HEADER;
        self.read = start + length;
        Some((kind, self.data.get(start..self.read)?))
    }

    /// The incomplete message as far as received: its type, its length, the start of its body.
    pub(super) fn partial(&self) -> Option<(u8, u32, &[u8])> {
        let rest = self.data.get(self.read..self.contiguous())?;
        let [kind, a, b, c] = *rest.first_chunk::<HEADER>()?;
        Some((kind, u32::from_be_bytes([0, a, b, c]), &rest[HEADER..]))
    }

    /// Bytes buffered.
    pub(super) fn held(&self) -> usize {
        self.data.len()
    }

    fn contiguous(&self) -> usize {
        self.pieces.first().filter(|(from, _)| *from == 0).map_or(0, |(_, to)| *to as usize)
    }
}
