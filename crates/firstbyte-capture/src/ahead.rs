//! Reading ahead: one thread reads and unpacks while another analyses.
//!
//! In: a source of bytes. Out: its bytes in order, in reused buffers ("pieces"); at most [`AHEAD`] pieces wait at once.
//! Piece boundaries mean nothing to the consumer. This module must not interpret the bytes.

use std::io::{self, Read};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

/// Bytes read at once. Fits in a core's own cache, so that skipping bytes is cheap.
pub(super) const PIECE: usize = 256 * 1024;
/// Pieces read ahead of the consumer.
const AHEAD: usize = 6;

/// The bytes of a source, read by another thread.
pub(super) struct Ahead {
    pieces: Receiver<io::Result<Piece>>,
    used: Sender<Vec<u8>>,
}

/// Some bytes of the source; an empty piece means its end.
pub(super) struct Piece {
    buffer: Vec<u8>,
    filled: usize,
}

impl Piece {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer[..self.filled]
    }
}

impl Ahead {
    /// Starts reading `source`. With `whole`, pieces are filled completely. Otherwise a piece is the result of one
    /// read, so that a slow writer into a pipe does not delay the analysis.
    ///
    /// # Errors
    /// The system has no more threads.
    pub(super) fn start_reading(
        source: impl Read + Send + 'static,
        whole: bool,
    ) -> io::Result<Self> {
        let (filled, pieces) = sync_channel(AHEAD);
        let (used, empty) = channel();
        // Not joined: if the consumer stops early, the thread may still be blocked on a pipe.
        thread::Builder::new()
            .name("read".into())
            .spawn(move || read(source, whole, &filled, &empty))?;
        Ok(Self { pieces, used })
    }

    /// Returns the next bytes and recycles `before`.
    ///
    /// # Errors
    /// Reading or unpacking failed.
    pub(super) fn next(&self, before: Option<Piece>) -> io::Result<Piece> {
        if let Some(before) = before {
            // This fails if the thread has finished; then the buffer is not needed.
            let _ = self.used.send(before.buffer);
        }
        let lost = |_| Err(io::Error::other("the reading thread ended unexpectedly"));
        self.pieces.recv().unwrap_or_else(lost)
    }
}

fn read(
    mut source: impl Read,
    whole: bool,
    filled: &SyncSender<io::Result<Piece>>,
    empty: &Receiver<Vec<u8>>,
) {
    loop {
        let mut buffer = empty.try_recv().unwrap_or_else(|_| vec![0; PIECE]);
        let (length, failed) = fill(&mut source, whole, &mut buffer);
        let end = length == 0;
        if (length > 0 || failed.is_none())
            && filled.send(Ok(Piece { buffer, filled: length })).is_err()
        {
            return;
        }
        if let Some(error) = failed {
            // If the receiver is gone, nobody needs the error.
            let _ = filled.send(Err(error));
            return;
        }
        if end {
            return;
        }
    }
}

/// Fills `buffer`; returns the number of bytes read and the error that stopped it, if any.
pub(super) fn fill(
    source: &mut impl Read,
    whole: bool,
    buffer: &mut [u8],
) -> (usize, Option<io::Error>) {
    let mut length = 0;
    while length < buffer.len() {
        match source.read(&mut buffer[length..]) {
            Ok(0) => break,
            Ok(more) if whole => length += more,
            Ok(more) => return (more, None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (length, Some(error)),
        }
    }
    (length, None)
}
