//! A response's head, given to hyper once more.
//!
//! hyper sets room aside for as many fields as it may be given, each time it looks at a head: for the ten thousand that
//! may come, a third of all that a connection costs. So it is told of as many as there usually are, and where that is not
//! enough a second one is given the same head with all the room. Nothing of it is on the wire: what the second one
//! writes is what the first one has written.

use bytes::{Buf, Bytes};

/// What came of the head so far, and what of it a second hyper has yet to be given.
#[derive(Debug, Default)]
pub(super) struct HeadAgain {
    kept: Vec<u8>,
    /// There is no use for it any more.
    over: bool,
    again: Bytes,
    /// Bytes of the request that are written once more, and do not leave.
    swallow: u64,
}

impl HeadAgain {
    /// Another exchange begins.
    pub(super) fn restart(&mut self) {
        self.kept.clear();
        self.over = false;
    }

    /// Takes note of what hyper is given; `complete` when the head is.
    pub(super) fn note(&mut self, bytes: &[u8], complete: bool) {
        if self.over {
            return;
        }
        self.kept.extend_from_slice(bytes);
        if complete && !bytes.is_empty() {
            // What hyper says of it, it says when it is given the last bytes.
            self.over = true;
        }
    }

    /// What came of the head so far, with what came behind it in one piece; nothing once it is given again.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.kept
    }

    /// All of it comes again, for a hyper that writes a request of `request_bytes` first.
    pub(super) fn give_again(&mut self, request_bytes: u64) {
        self.again = std::mem::take(&mut self.kept).into();
        self.over = true;
        self.swallow = request_bytes;
    }

    /// Whether the second hyper has yet to write its request: an answer before that would be none.
    pub(super) fn awaits_request(&self) -> bool {
        self.swallow > 0 && self.again.has_remaining()
    }

    /// What is given again, at most so many bytes; nothing where all has been.
    pub(super) fn next(&mut self, room: usize) -> Option<Bytes> {
        let bytes = room.min(self.again.remaining());
        (bytes > 0).then(|| self.again.split_to(bytes))
    }

    /// How many of so many bytes are not to leave.
    pub(super) fn swallowed(&mut self, bytes: usize) -> usize {
        let swallowed = usize::try_from(self.swallow).unwrap_or(usize::MAX).min(bytes);
        self.swallow -= swallowed as u64;
        swallowed
    }
}
