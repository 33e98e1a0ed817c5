//! Gives a response's head to hyper a second time.
//!
//! Each time hyper looks at a head, it reserves room for the maximum number of fields. For the ten thousand that we
//! accept, that is a third of the cost of a whole connection. So hyper first gets the usual limit. If that is too low,
//! a second hyper connection with the full limit gets the same head. None of this is visible on the wire: the second
//! hyper writes the same request as the first, and it is discarded.

use bytes::{Buf, Bytes};

/// The part of the head received so far, and the part that a second hyper connection must still get.
#[derive(Debug, Default)]
pub(super) struct HeadAgain {
    kept: Vec<u8>,
    /// The copy is not needed any more.
    over: bool,
    again: Bytes,
    /// Bytes of the request that the second hyper writes again and that must not be sent.
    swallow: u64,
}

impl HeadAgain {
    /// Resets for another exchange.
    pub(super) fn restart(&mut self) {
        self.kept.clear();
        self.over = false;
    }

    /// Records bytes given to hyper; `complete` says that the head is complete.
    pub(super) fn note(&mut self, bytes: &[u8], complete: bool) {
        if self.over {
            return;
        }
        self.kept.extend_from_slice(bytes);
        if complete && !bytes.is_empty() {
            // hyper reports errors in the head when it gets the last bytes.
            self.over = true;
        }
    }

    /// The head received so far, with following bytes of the same read; empty once the head is given again.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.kept
    }

    /// Gives the whole head again, to a hyper that first writes a request of `request_bytes` bytes.
    pub(super) fn give_again(&mut self, request_bytes: u64) {
        self.again = std::mem::take(&mut self.kept).into();
        self.over = true;
        self.swallow = request_bytes;
    }

    /// Whether the second hyper must still write its request; it would not accept a response before that.
    pub(super) fn awaits_request(&self) -> bool {
        self.swallow > 0 && self.again.has_remaining()
    }

    /// The next bytes to give again, at most `room`; `None` if all were given.
    pub(super) fn next(&mut self, room: usize) -> Option<Bytes> {
        let bytes = room.min(self.again.remaining());
        (bytes > 0).then(|| self.again.split_to(bytes))
    }

    /// How many of `bytes` bytes must not be sent.
    pub(super) fn swallowed(&mut self, bytes: usize) -> usize {
        let swallowed = usize::try_from(self.swallow).unwrap_or(usize::MAX).min(bytes);
        self.swallow -= swallowed as u64;
        swallowed
    }
}
