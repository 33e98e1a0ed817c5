//! The end of a capture: what is still under way, ended by several threads.
//!
//! Each takes some of the shards and gives out what it ends in order; here these few sequences become one. What
//! is ended and not given out yet is bounded.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

use firstbyte_passive::{Analyzer, Observed, OpenConnections, Shard, Sharded};

/// Connections handed over at once, and how many times as many wait.
const AT_ONCE: usize = 64;
const WAITING: usize = 4;

/// Gives out all connections of `analyzer` that are under way, as its own `finish` would.
pub(crate) fn finish(threads: usize, analyzer: &mut Analyzer, emit: &mut dyn FnMut(&Observed)) {
    let Sharded { shards, mut ledger, .. } = analyzer.sharded();
    let each = shards.len().div_ceil(threads.max(1));
    thread::scope(|scope| {
        let start = |shards| {
            let (sender, receiver) = sync_channel(WAITING);
            let (back, spent) = channel();
            scope.spawn(move || end(shards, sender, &spent));
            Ended { receiver, back, batch: Vec::new(), place: 0 }
        };
        let mut all: Vec<Ended> = shards.chunks_mut(each).map(start).collect();
        all.iter_mut().for_each(Ended::receive);
        let first = |all: &mut [Ended]| {
            let heads = all.iter_mut().enumerate();
            heads.filter_map(|(n, ended)| Some((ended.head()?.number, n))).min()
        };
        while let Some((_, n)) = first(&mut all) {
            if let Some(observed) = all[n].head() {
                ledger.end(observed, emit);
            }
            all[n].step();
        }
    });
}

/// Ends the connections of some shards, and frees them when they were given out.
fn end(shards: &mut [Shard], sender: SyncSender<Vec<Observed>>, spent: &Receiver<Vec<Observed>>) {
    let mut rests = OpenConnections::take_from(shards);
    loop {
        // In the memory of connections that were given out, as far as there are some.
        let mut some = spent.try_recv().unwrap_or_default();
        let mut again = 0;
        while some.get_mut(again).is_some_and(|place| rests.next_instead_of(place)) {
            again += 1;
        }
        some.truncate(again);
        some.extend(rests.by_ref().take(AT_ONCE - again));
        // Nobody takes them any more where the other thread broke down.
        if some.is_empty() || sender.send(some).is_err() {
            break;
        }
    }
    drop(sender);
    spent.iter().for_each(drop);
}

/// What another thread has ended.
struct Ended {
    receiver: Receiver<Vec<Observed>>,
    back: Sender<Vec<Observed>>,
    batch: Vec<Observed>,
    place: usize,
}

impl Ended {
    /// The connection that comes next.
    fn head(&mut self) -> Option<&mut Observed> {
        self.batch.get_mut(self.place)
    }

    fn step(&mut self) {
        self.place += 1;
        if self.place == self.batch.len() {
            self.receive();
        }
    }

    fn receive(&mut self) {
        let next = self.receiver.recv().unwrap_or_default();
        let before = std::mem::replace(&mut self.batch, next);
        self.place = 0;
        // When the thread is through, nobody takes it.
        let _ = self.back.send(before);
    }
}
