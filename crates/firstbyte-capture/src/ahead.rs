//! Reading ahead: a thread reads and unpacks while another analyses.
//!
//! In: a source of bytes. Out: its bytes in order, in pieces that are used again; at most [`AHEAD`] wait at
//! once. What the pieces are does not matter to who reads them. It must not look at what it reads.

use std::io::{self, Read};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

/// Bytes read at once: within a core's own cache, so that what is skipped costs little.
pub(super) const PIECE: usize = 256 * 1024;
/// Pieces that were read and wait.
const AHEAD: usize = 6;

/// Bytes of a source, read by another thread.
pub(super) struct Ahead {
    pieces: Receiver<io::Result<Piece>>,
    used: Sender<Vec<u8>>,
}

/// Some bytes of the source; none are its end.
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
    /// Begins to read `source`. With `whole` pieces are filled, without they are what one reading gave:
    /// who writes into a pipe slowly is not waited for.
    ///
    /// # Errors
    /// The system has no more threads.
    pub(super) fn start_reading(
        source: impl Read + Send + 'static,
        whole: bool,
    ) -> io::Result<Self> {
        let (filled, pieces) = sync_channel(AHEAD);
        let (used, empty) = channel();
        // Not joined: when nobody wants more, it may be waiting for a pipe's next bytes.
        thread::Builder::new()
            .name("read".into())
            .spawn(move || read(source, whole, &filled, &empty))?;
        Ok(Self { pieces, used })
    }

    /// The next bytes; `before` are not needed any more.
    ///
    /// # Errors
    /// Reading or unpacking failed.
    pub(super) fn next(&self, before: Option<Piece>) -> io::Result<Piece> {
        if let Some(before) = before {
            // When the thread is through, nobody takes it.
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
            // Nobody there to be told: nobody wants to know.
            let _ = filled.send(Err(error));
            return;
        }
        if end {
            return;
        }
    }
}

/// Bytes that are in the buffer, and why no more came.
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
