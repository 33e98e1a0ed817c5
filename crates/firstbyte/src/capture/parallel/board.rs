//! What is to be done next, by whom: the only place where threads meet.
//!
//! Pieces are read by any thread, framed in their order, and then followed part by part, each part in the
//! file's order and by one thread at a time. A thread prefers parts of its own, whose connections are in its
//! cache, then reads, and helps with others' parts when there is nothing else. So many pieces are on their way
//! at most: who is fast waits, and memory is bounded.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use firstbyte_core::passive::Happened;

use super::block::Block;
use super::framer::Filled;

/// What a thread is to do.
pub(super) enum Job {
    /// Fill the block with the piece of this number.
    Read(u64, Block),
    /// Find the packets of the piece that is next.
    Frame(Block, Filled),
    /// Follow this part through these pieces.
    Follow(usize, Vec<Piece>),
    /// Go home.
    Nothing,
}

/// A piece with a number in the order of those framed, shared by who follows its parts.
pub(super) type Piece = (u64, Arc<Block>);

#[derive(Debug)]
pub(super) struct Board {
    state: Mutex<State>,
    /// There is something to do.
    work: Condvar,
    /// Something is ready to be given out.
    results: Condvar,
    threads: usize,
    most: usize,
    /// Threads read pieces wherever they are, in a file; otherwise somebody else brings them.
    reads: bool,
}

#[derive(Debug, Default)]
struct State {
    /// The next piece to be read, and the next to be framed.
    next_read: u64,
    next_frame: u64,
    /// Read, and not framed.
    read: BTreeMap<u64, (Block, Filled)>,
    framing: bool,
    /// What is to be followed, by part.
    parts: Vec<Waiting>,
    /// Framed, and not followed by all parts.
    under_way: VecDeque<UnderWay>,
    first_under_way: u64,
    /// What is ready to be given out, in order.
    ready: VecDeque<Happened>,
    free: Vec<Vec<Block>>,
    /// Pieces that are on their way.
    pieces: usize,
    /// All of the file is framed.
    over: bool,
    /// A thread broke down.
    failed: bool,
    idle: usize,
    awaited: bool,
}

#[derive(Debug, Default)]
struct Waiting {
    pieces: Vec<Piece>,
    followed: bool,
}

#[derive(Debug)]
struct UnderWay {
    block: Arc<Block>,
    parts_left: usize,
    happened: Happened,
}

impl Board {
    /// For so many threads that follow `parts`. With `reads` they read as well.
    pub(super) fn new(threads: usize, parts: usize, reads: bool) -> Self {
        let mut state = State::default();
        state.parts.resize_with(parts, Waiting::default);
        // One more for who brings pieces.
        state.free.resize_with(threads + 1, Vec::new);
        let (work, results) = (Condvar::new(), Condvar::new());
        let most = 4 * threads + 2;
        Self { state: Mutex::new(state), work, results, threads, most, reads }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A thread that breaks down says so; what it held is not used any more.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What `thread` is to do next. Waits until there is something.
    pub(super) fn next(&self, thread: usize) -> Job {
        let mut state = self.lock();
        loop {
            if let Some(job) = self.pick(&mut state, thread) {
                return job;
            }
            state.idle += 1;
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }

    fn pick(&self, state: &mut State, thread: usize) -> Option<Job> {
        if state.failed || state.is_done() {
            return Some(Job::Nothing);
        }
        if !state.framing
            && !state.over
            && let Some((block, filled)) = state.read.remove(&state.next_frame)
        {
            state.framing = true;
            return Some(Job::Frame(block, filled));
        }
        let parts = state.parts.len();
        if let Some(job) = state.follow((thread..parts).step_by(self.threads)) {
            return Some(job);
        }
        if self.reads && !state.over && state.pieces < self.most {
            let number = state.next_read;
            state.next_read += 1;
            let block = state.block(thread);
            return Some(Job::Read(number, block));
        }
        state.follow(0..parts)
    }

    /// A block to be filled by who brings pieces, when there is room for one; `None` where nobody follows any
    /// more.
    pub(super) fn room(&self) -> Option<Block> {
        let mut state = self.lock();
        while state.pieces >= self.most && !state.failed {
            state.idle += 1;
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
        (!state.failed).then(|| state.block(self.threads))
    }

    /// A piece was read.
    pub(super) fn read(&self, number: u64, block: Block, filled: Filled) {
        let mut state = self.lock();
        state.read.insert(number, (block, filled));
    }

    /// The next piece was framed; perhaps the file is over with it.
    pub(super) fn framed(&self, block: Block, over: bool) {
        let block = Arc::new(block);
        let mut state = self.lock();
        let number = state.next_frame;
        let mut parts_left = 0;
        for part in block.parts() {
            parts_left += 1;
            state.parts[part].pieces.push((number, Arc::clone(&block)));
        }
        state.under_way.push_back(UnderWay { block, parts_left, happened: Happened::default() });
        state.next_frame += 1;
        state.framing = false;
        if over {
            state.over = true;
            // What was read beyond the end, of a file that grows.
            state.pieces -= state.read.len();
            state.read.clear();
        }
        state.put_in_order();
        self.tell(state);
    }

    /// A part was followed through these pieces.
    pub(super) fn followed(&self, part: usize, results: Vec<(u64, Happened)>) {
        let mut state = self.lock();
        state.parts[part].followed = false;
        let first = state.first_under_way;
        for (number, happened) in results {
            let piece = &mut state.under_way[(number - first) as usize];
            piece.parts_left -= 1;
            piece.happened.append(happened);
        }
        state.put_in_order();
        self.tell(state);
    }

    /// What happened in the pieces that are next; `None` when all was given out.
    pub(super) fn ready(&self) -> Option<VecDeque<Happened>> {
        let mut state = self.lock();
        loop {
            if !state.ready.is_empty() {
                let ready = std::mem::take(&mut state.ready);
                state.pieces -= ready.len();
                self.tell(state);
                return Some(ready);
            }
            if state.failed || state.is_done() {
                return None;
            }
            state.awaited = true;
            state = self.results.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.awaited = false;
        }
    }

    /// A thread broke down, or there is none: everybody goes home.
    pub(super) fn fail(&self) {
        let mut state = self.lock();
        state.failed = true;
        self.work.notify_all();
        self.results.notify_all();
    }

    /// Wakes who may have something to do now.
    fn tell(&self, state: MutexGuard<'_, State>) {
        let (idle, awaited) = (state.idle > 0, state.awaited);
        let ready = !state.ready.is_empty() || state.is_done();
        drop(state);
        if idle {
            self.work.notify_all();
        }
        if awaited && ready {
            self.results.notify_one();
        }
    }
}

impl State {
    /// All that will be framed was followed.
    fn is_done(&self) -> bool {
        self.over && self.under_way.is_empty()
    }

    /// The first of `parts` that waits to be followed.
    fn follow(&mut self, mut parts: impl Iterator<Item = usize>) -> Option<Job> {
        let waits = |waiting: &Waiting| !waiting.followed && !waiting.pieces.is_empty();
        let part = parts.find(|part| waits(&self.parts[*part]))?;
        let waiting = &mut self.parts[part];
        waiting.followed = true;
        Some(Job::Follow(part, std::mem::take(&mut waiting.pieces)))
    }

    fn block(&mut self, owner: usize) -> Block {
        self.pieces += 1;
        self.free[owner].pop().unwrap_or_else(|| Block::new(owner))
    }

    /// Takes pieces that all parts are through from the front.
    fn put_in_order(&mut self) {
        while self.under_way.front().is_some_and(|piece| piece.parts_left == 0) {
            let Some(piece) = self.under_way.pop_front() else { return };
            self.first_under_way += 1;
            if piece.happened.is_empty() {
                self.pieces -= 1;
            } else {
                self.ready.push_back(piece.happened);
            }
            if let Some(mut block) = Arc::into_inner(piece.block) {
                block.clear();
                self.free[block.owner].push(block);
            }
        }
    }
}
