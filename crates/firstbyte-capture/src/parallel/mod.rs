//! One capture followed by several threads.
//!
//! In: an analyzer and a file or a stream. Out: what the analyzer alone would have emitted, in the same order. Frames
//! are found sequentially, flows are divided among shards independently of the number of threads, and events are put in
//! the capture's order before they are emitted. This module must not decide anything about packets.

mod block;
mod board;
mod framer;
mod rest;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, Scope};

use firstbyte_passive::{Analyzer, Happened, Hygiene, Observed, Shard, Sharded};

use super::ahead::fill;
use super::{CaptureFileError, Ended, Source};
use block::{Block, PIECE, ROOM};
use board::{Board, Job, Task};
use framer::{Filled, Framer};

pub(super) use rest::finish;

/// Emitted lists that a thread keeps for reuse.
const MOST_SPARE: usize = 8;

/// Feeds all frames of `source` to `analyzer` on `threads` threads. Calls `emit` with the results on the caller's
/// thread.
///
/// # Errors
/// The source cannot be read or is not a capture, or the system has no more threads.
pub(super) fn read(
    path: &Path,
    source: Source,
    threads: usize,
    analyzer: &mut Analyzer,
    emit: &mut dyn FnMut(&Observed),
) -> Result<Ended, CaptureFileError> {
    let Sharded { intake, shards, mut ledger } = analyzer.sharded();
    let (file, stream) = match source {
        Source::File(file) => (Some(file), None),
        Source::Stream(stream, whole) => (None, Some((stream, whole))),
    };
    let followers = Followers {
        board: Board::new(threads, shards.len(), file.is_some()),
        file,
        framer: Mutex::new(Framer::new(path, intake)),
        shards: shards.iter_mut().map(Mutex::new).collect(),
        hygiene: Mutex::new(Hygiene::default()),
    };
    let started = thread::scope(|scope| {
        let all = &followers;
        let mut started = Ok(());
        if let Some((stream, whole)) = stream {
            let bring = move || all.bring(stream, whole);
            started = start(scope, &all.board, "read", bring);
        }
        for thread in 0..threads {
            let work = move || all.work(thread);
            started = started.and_then(|()| start(scope, &all.board, "follow", work));
        }
        if started.is_err() {
            all.board.fail();
        }
        while let Some(ready) = all.board.ready() {
            for mut results in ready {
                ledger.settle(&mut results.happened, emit);
                all.board.settled(results);
            }
        }
        started
    });
    let Followers { framer, hygiene, .. } = followers;
    let ended = framer.into_inner().unwrap_or_else(PoisonError::into_inner).into_ended();
    analyzer.count(&hygiene.into_inner().unwrap_or_else(PoisonError::into_inner));
    let failed = |error| CaptureFileError::Read { path: path.to_owned(), offset: 0, error };
    started.map_err(failed)?;
    ended.unwrap_or_else(|| Err(failed(io::Error::other("a reading thread ended unexpectedly"))))
}

/// Starts a thread that stops all others if it panics.
fn start<'scope>(
    scope: &'scope Scope<'scope, '_>,
    board: &'scope Board,
    name: &str,
    run: impl FnOnce() + Send + 'scope,
) -> io::Result<()> {
    let guarded = move || {
        let guard = Guard(board);
        run();
        std::mem::forget(guard);
    };
    thread::Builder::new().name(name.into()).spawn_scoped(scope, guarded).map(drop)
}

/// State shared by all threads.
struct Followers<'a> {
    board: Board,
    file: Option<File>,
    framer: Mutex<Framer<'a>>,
    shards: Vec<Mutex<&'a mut Shard>>,
    hygiene: Mutex<Hygiene>,
}

impl Followers<'_> {
    /// Runs jobs until the scheduler ends the thread.
    fn work(&self, thread: usize) {
        let mut hygiene = Hygiene::default();
        let mut spare: Vec<Happened> = Vec::new();
        loop {
            match self.board.next(thread) {
                Job::Read(number, mut block) => {
                    let filled = self.fill(number, &mut block);
                    self.board.read(number, block, filled);
                }
                Job::Frame(block, filled) => {
                    self.frame(block, filled);
                }
                Job::Follow(task) => {
                    let mut happened = spare.pop().unwrap_or_default();
                    self.follow(&task, &mut happened, &mut hygiene);
                    let mut spent = self.board.followed(thread, task, happened);
                    spent.iter_mut().for_each(Happened::clear);
                    spare.append(&mut spent);
                    spare.truncate(MOST_SPARE);
                }
                Job::Nothing => break,
            }
        }
        self.hygiene.lock().unwrap_or_else(PoisonError::into_inner).add(&hygiene);
    }

    /// Reads a stream to its end, piece by piece.
    fn bring(&self, mut stream: impl io::Read, whole: bool) {
        while let Some(mut block) = self.board.room() {
            let filled = fill(&mut stream, whole, &mut block.bytes[ROOM..ROOM + PIECE]);
            if self.frame(block, filled) {
                return;
            }
        }
    }

    /// Reads piece `number` of the file.
    fn fill(&self, number: u64, block: &mut Block) -> Filled {
        let Some(file) = &self.file else { return (0, None) };
        let buffer = &mut block.bytes[ROOM..ROOM + PIECE];
        let from = number * PIECE as u64;
        let mut length = 0;
        while length < buffer.len() {
            match file.read_at(&mut buffer[length..], from + length as u64) {
                Ok(0) => break,
                Ok(more) => length += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return (length, Some(error)),
            }
        }
        (length, None)
    }

    /// Finds the packets of the next piece. Returns whether the file is over.
    fn frame(&self, mut block: Block, filled: Filled) -> bool {
        let mut framer = self.framer.lock().unwrap_or_else(PoisonError::into_inner);
        let last = self.file.is_some() && filled.0 < PIECE;
        framer.piece(&mut block, filled, last);
        let over = framer.is_over();
        drop(framer);
        self.board.framed(block, over);
        over
    }

    fn follow(&self, task: &Task, happened: &mut Happened, hygiene: &mut Hygiene) {
        let followed = self.shards.iter().enumerate().filter(|(n, _)| task.shards >> n & 1 == 1);
        for (n, shard) in followed {
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            task.block.touch(n);
            for arrival in task.block.arrivals(n) {
                shard.packet(&arrival, happened, hygiene);
            }
        }
    }
}

/// Stops all threads when it is dropped.
struct Guard<'a>(&'a Board);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.0.fail();
    }
}

#[cfg(test)]
mod tests;
