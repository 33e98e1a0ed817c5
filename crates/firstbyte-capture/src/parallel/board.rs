//! What is to be done next, by whom: the only place where threads meet.
//!
//! Pieces are read by any thread, framed in their order, and then followed, the oldest first: a few shards at a
//! time, each shard in the file's order and by one thread at a time. A thread prefers shards of its own, whose
//! connections are in its cache, then reads, and helps with others' shards when there is nothing else. So many
//! pieces are on their way at most: who is fast waits, and memory is bounded.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use firstbyte_passive::Happened;

use super::block::Block;
use super::framer::Filled;

/// What a thread is to do.
pub(super) enum Job {
    /// Fill the block with the piece of this number.
    Read(u64, Block),
    /// Find the packets of the piece that is next.
    Frame(Block, Filled),
    /// Follow some shards through a piece.
    Follow(Task),
    /// Go home.
    Nothing,
}

/// Shards, as bits.
pub(super) type Shards = u32;

/// Shards that one thread is to follow through a piece.
pub(super) struct Task {
    number: u64,
    pub(super) shards: Shards,
    pub(super) block: Arc<Block>,
}

/// What waits to be given out, in pieces: with so many, who gives out is woken, and nothing more is read.
const ENOUGH_READY: usize = 8;
const MOST_READY: usize = 64;

#[derive(Debug)]
pub(super) struct Board {
    state: Mutex<State>,
    /// There is something to do.
    work: Condvar,
    /// Something is ready to be given out.
    results: Condvar,
    threads: usize,
    /// Pieces that may be on their way.
    most: usize,
    /// Shards that one thread follows at once.
    at_once: u32,
    /// Those of each thread.
    own: Vec<Shards>,
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
    /// Framed, and not followed by all shards.
    under_way: VecDeque<UnderWay>,
    first_under_way: u64,
    /// What is ready to be given out, in order.
    ready: VecDeque<Results>,
    /// What was given out, by who made it.
    spent: Vec<Vec<Happened>>,
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

#[derive(Debug)]
struct UnderWay {
    block: Arc<Block>,
    /// Shards that nobody follows through it yet, and that are not through.
    waiting: Shards,
    left: Shards,
    results: Results,
}

/// What happened in a piece.
#[derive(Debug, Default)]
pub(super) struct Results {
    pub(super) happened: Vec<Happened>,
    /// The threads that made each of them, and free it: a thread's memory is in its cache, and behind its own
    /// lock.
    makers: Vec<usize>,
}

impl Board {
    /// For so many threads that follow `shards`. With `reads` they read as well.
    pub(super) fn new(threads: usize, shards: usize, reads: bool) -> Self {
        let mut state = State::default();
        // One more for who brings pieces.
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

    /// A block to be filled by who brings pieces, when there is room for one; `None` where nobody follows any
    /// more.
    pub(super) fn room(&self) -> Option<Block> {
        let mut state = self.lock();
        while !self.has_room(&state) && !state.failed {
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
        let left = block.shards().fold(0, |all, shard| all | 1 << shard);
        let results = Results::default();
        state.under_way.push_back(UnderWay { block, waiting: left, left, results });
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

    /// What happened when `thread` followed shards through a piece. Gives back what the thread made before and
    /// nobody needs any more.
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

    /// What was ready was given out.
    pub(super) fn settled(&self, results: Results) {
        let mut state = self.lock();
        for (happened, maker) in results.happened.into_iter().zip(results.makers) {
            state.spent[maker].push(happened);
        }
    }

    /// What happened in the pieces that are next; `None` when all was given out.
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
        // Who brings a stream may be waiting for its next bytes.
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
    /// All that will be framed was followed.
    fn is_done(&self) -> bool {
        self.over && self.under_way.is_empty()
    }

    /// The oldest piece with shards among `wanted` that can be followed now, and up to `most` of these.
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

    /// Takes pieces that all shards are through from the front.
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
