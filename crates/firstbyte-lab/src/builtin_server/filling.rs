//! Response bodies of the built-in server: text of any size. All responses share one piece of memory.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::LazyLock;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

const LINE: &[u8] = b"The quick brown fox jumps over the lazy dog.\n";
/// About a megabyte, in whole lines.
const PIECE_BYTES: usize = LINE.len() * 23_000;
static PIECE: LazyLock<Bytes> = LazyLock::new(|| page(PIECE_BYTES).into());

/// Builds the shared piece in advance: this takes a while, and no response should wait for it.
pub(super) fn prepare() {
    LazyLock::force(&PIECE);
}

/// Text of exactly this many bytes.
pub(crate) fn page(bytes: usize) -> Vec<u8> {
    LINE.iter().copied().cycle().take(bytes).collect()
}

/// A body of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Filling {
    left: usize,
}

impl Filling {
    pub(super) fn new(bytes: usize) -> Self {
        Self { left: bytes }
    }

    /// Remaining bytes.
    pub(super) fn left(self) -> usize {
        self.left
    }
}

impl Iterator for Filling {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let length = self.left.min(PIECE_BYTES);
        self.left -= length;
        (length > 0).then(|| PIECE.slice(..length))
    }
}

impl Body for Filling {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.next().map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_add_up_to_the_page() {
        for bytes in [0, 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES + 7] {
            let whole: Vec<u8> = Filling::new(bytes).flatten().collect();
            assert_eq!(whole, page(bytes), "{bytes}");
        }
    }
}
