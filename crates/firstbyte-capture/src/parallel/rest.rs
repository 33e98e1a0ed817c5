//! The end of a capture: several threads end the connections that are still open.
//!
//! Each thread takes some of the shards and emits its connections in order; these few sequences are merged here. The
//! number of connections that have ended but are not emitted yet is bounded.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

use firstbyte_passive::{Analyzer, Observed, OpenConnections, Shard, Sharded};

/// Connections handed over at once, and how many such batches may wait.
const AT_ONCE: usize = 64;
const WAITING: usize = 4;

/// Emits all open connections of `analyzer`, as its own `finish` would.
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

/// Ends the connections of some shards, and frees them once they were emitted.
fn end(shards: &mut [Shard], sender: SyncSender<Vec<Observed>>, spent: &Receiver<Vec<Observed>>) {
    let mut rests = OpenConnections::take_from(shards);
    loop {
        // Reuses the memory of connections that were already emitted, if there are any.
        let mut some = spent.try_recv().unwrap_or_default();
        let mut again = 0;
        while some.get_mut(again).is_some_and(|place| rests.next_instead_of(place)) {
            again += 1;
        }
        some.truncate(again);
        some.extend(rests.by_ref().take(AT_ONCE - again));
        // Nobody receives them if the other thread panicked.
        if some.is_empty() || sender.send(some).is_err() {
            break;
        }
    }
    drop(sender);
    spent.iter().for_each(drop);
}

/// Connections that another thread has ended.
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
        // This fails if the thread has finished; then the batch is not needed.
        let _ = self.back.send(before);
    }
}
