//! The scheduler: assigns work to threads. Threads synchronise only here.
//!
//! Any thread reads pieces. Pieces are framed in file order and then followed, oldest first: a few shards at a time,
//! each shard in file order and by one thread at a time. A thread prefers its own shards, whose connections are in its
//! cache; then it reads; if nothing else is left, it helps with other shards. The number of pieces in progress is
//! limited, so fast threads wait and memory is bounded.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use firstbyte_passive::Happened;

use super::block::Block;
use super::framer::Filled;

/// A thread's next job.
pub(super) enum Job {
    /// Fill the block with the piece of this number.
    Read(u64, Block),
    /// Find the packets of the next piece.
    Frame(Block, Filled),
    /// Follow some shards through a piece.
    Follow(Task),
    /// End the thread.
    Nothing,
}

/// A set of shards, one bit each.
pub(super) type Shards = u32;

/// Shards that one thread follows through a piece.
pub(super) struct Task {
    number: u64,
    pub(super) shards: Shards,
    pub(super) block: Arc<Block>,
}

/// Limits on pieces whose results wait to be emitted: `ENOUGH_READY` wakes the emitting thread, `MOST_READY` stops
/// reading.
const ENOUGH_READY: usize = 8;
const MOST_READY: usize = 64;

#[derive(Debug)]
pub(super) struct Board {
    state: Mutex<State>,
    /// Signals that there is work.
    work: Condvar,
    /// Signals that results are ready to be emitted.
    results: Condvar,
    threads: usize,
    /// Maximum number of pieces in progress.
    most: usize,
    /// Shards that one thread follows at once.
    at_once: u32,
    /// The shards preferred by each thread.
    own: Vec<Shards>,
    /// The threads read pieces themselves, at any offset of a file; otherwise another thread supplies them.
    reads: bool,
}

#[derive(Debug, Default)]
struct State {
    /// Numbers of the next piece to read and the next to frame.
    next_read: u64,
    next_frame: u64,
    /// Pieces read but not framed.
    read: BTreeMap<u64, (Block, Filled)>,
    framing: bool,
    /// Pieces framed, but not yet followed by all shards.
    under_way: VecDeque<UnderWay>,
    first_under_way: u64,
    /// Results ready to be emitted, in order.
    ready: VecDeque<Results>,
    /// Results already emitted, by the thread that made them.
    spent: Vec<Vec<Happened>>,
    free: Vec<Vec<Block>>,
    /// Number of pieces in progress.
    pieces: usize,
    /// The whole file is framed.
    over: bool,
    /// A thread panicked or could not be started.
    failed: bool,
    idle: usize,
    awaited: bool,
}

#[derive(Debug)]
struct UnderWay {
    block: Arc<Block>,
    /// Shards with packets in the piece that no thread has taken yet.
    waiting: Shards,
    left: Shards,
    results: Results,
}

/// Events of a piece.
#[derive(Debug, Default)]
pub(super) struct Results {
    pub(super) happened: Vec<Happened>,
    /// The thread that made each entry and will free it: the memory is in that thread's cache and behind its own
    /// allocator lock.
    makers: Vec<usize>,
}

impl Board {
    /// Creates a scheduler for `threads` threads that follow `shards` shards. With `reads`, these threads also read.
    pub(super) fn new(threads: usize, shards: usize, reads: bool) -> Self {
        let mut state = State::default();
        // One more for the thread that supplies pieces.
        state.free.resize_with(threads + 1, Vec::new);
        state.spent.resize_with(threads, Vec::new);
        let bits = |shards: &mut dyn Iterator<Item = usize>| shards.fold(0, |all, n| all | 1 << n);
        Self {
            state: Mutex::new(state),
            work: Condvar::new(),
            results: Condvar::new(),
            threads,
            most: 4 * threads + 2,
            at_once: shards.div_ceil(2 * threads) as u32,
            own: (0..threads).map(|n| bits(&mut (n..shards).step_by(threads))).collect(),
            reads,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panicking thread reports its failure; the state that it held is not used any more.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the next job of `thread`; blocks until there is one.
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
        if let Some(job) = state.follow(self.own[thread], self.at_once) {
            return Some(job);
        }
        if self.reads && !state.over && self.has_room(state) {
            let number = state.next_read;
            state.next_read += 1;
            let block = state.block(thread);
            return Some(Job::Read(number, block));
        }
        state.follow(Shards::MAX, self.at_once)
    }

    fn has_room(&self, state: &State) -> bool {
        state.pieces < self.most && state.ready.len() < MOST_READY
    }

    /// Returns a block for the supplying thread to fill, once there is room. `None` if a thread has failed.
    pub(super) fn room(&self) -> Option<Block> {
        let mut state = self.lock();
        while !self.has_room(&state) && !state.failed {
            state.idle += 1;
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
        (!state.failed).then(|| state.block(self.threads))
    }

    pub(super) fn read(&self, number: u64, block: Block, filled: Filled) {
        let mut state = self.lock();
        state.read.insert(number, (block, filled));
    }

    /// Records the next piece as framed; `over` says whether it ends the file.
    pub(super) fn framed(&self, block: Block, over: bool) {
        let block = Arc::new(block);
        let mut state = self.lock();
        let left = block.shards().fold(0, |all, shard| all | 1 << shard);
        let results = Results::default();
        state.under_way.push_back(UnderWay { block, waiting: left, left, results });
        state.next_frame += 1;
        state.framing = false;
        if over {
            state.over = true;
            // Discard pieces read beyond the end; the file has grown meanwhile.
            state.pieces -= state.read.len();
            state.read.clear();
        }
        state.put_in_order();
        self.tell(state);
    }

    /// Records the events of a task that `thread` finished. Returns the thread's earlier results that are no longer
    /// needed.
    pub(super) fn followed(&self, thread: usize, task: Task, happened: Happened) -> Vec<Happened> {
        let Task { number, shards, block } = task;
        drop(block);
        let mut state = self.lock();
        let place = (number - state.first_under_way) as usize;
        let piece = &mut state.under_way[place];
        piece.left &= !shards;
        if !happened.is_empty() {
            piece.results.happened.push(happened);
            piece.results.makers.push(thread);
        }
        state.put_in_order();
        let spent = std::mem::take(&mut state.spent[thread]);
        self.tell(state);
        spent
    }

    /// Returns emitted results to the threads that made them.
    pub(super) fn settled(&self, results: Results) {
        let mut state = self.lock();
        for (happened, maker) in results.happened.into_iter().zip(results.makers) {
            state.spent[maker].push(happened);
        }
    }

    /// Waits for the results of the next pieces; `None` when all were emitted or a thread failed.
    pub(super) fn ready(&self) -> Option<VecDeque<Results>> {
        let mut state = self.lock();
        loop {
            if !state.ready.is_empty() {
                let ready = std::mem::take(&mut state.ready);
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

    /// Stops all threads, because a thread panicked or could not be started.
    pub(super) fn fail(&self) {
        let mut state = self.lock();
        state.failed = true;
        self.work.notify_all();
        self.results.notify_all();
    }

    /// Wakes the threads that may have work now.
    fn tell(&self, state: MutexGuard<'_, State>) {
        let (idle, awaited) = (state.idle > 0, state.awaited);
        // The thread that supplies a stream may itself be waiting for its next bytes.
        let enough = if self.reads { ENOUGH_READY } else { 1 };
        let ready = state.ready.len() >= enough || state.is_done();
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
    /// Whether every piece that will be framed was followed.
    fn is_done(&self) -> bool {
        self.over && self.under_way.is_empty()
    }

    /// Finds the oldest piece with shards of `wanted` that can be followed now, and takes up to `most` of them.
    fn follow(&mut self, wanted: Shards, most: u32) -> Option<Job> {
        let mut before = 0;
        for (number, piece) in (self.first_under_way..).zip(&mut self.under_way) {
            let mut able = piece.waiting & wanted & !before;
            if able != 0 {
                let mut shards = 0;
                for _ in 0..most.min(able.count_ones()) {
                    shards |= able & able.wrapping_neg();
                    able &= able - 1;
                }
                piece.waiting &= !shards;
                let block = Arc::clone(&piece.block);
                return Some(Job::Follow(Task { number, shards, block }));
            }
            before |= piece.left;
        }
        None
    }

    fn block(&mut self, owner: usize) -> Block {
        self.pieces += 1;
        self.free[owner].pop().unwrap_or_else(|| Block::new(owner))
    }

    /// Removes pieces from the front that all shards have been followed through.
    fn put_in_order(&mut self) {
        while self.under_way.front().is_some_and(|piece| piece.left == 0) {
            let Some(piece) = self.under_way.pop_front() else { return };
            self.first_under_way += 1;
            self.pieces -= 1;
            if !piece.results.happened.is_empty() {
                self.ready.push_back(piece.results);
            }
            if let Some(mut block) = Arc::into_inner(piece.block) {
                block.clear();
                self.free[block.owner].push(block);
            }
        }
    }
}
