//! The end of a capture: what is still under way, ended by several threads.
//!
//! Each takes some of the parts and gives out what it ends in order; here these few sequences become one. What
//! is ended and not given out yet is bounded.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::vec;

use firstbyte_core::passive::{Analyzer, Observed, Part, Rests, Split};

/// Connections handed over at once, and how many times as many wait.
const AT_ONCE: usize = 64;
const WAITING: usize = 4;

/// Gives out all connections of `analyzer` that are under way, as its own `finish` would.
pub(in crate::capture) fn finish(
    threads: usize,
    analyzer: &mut Analyzer,
    emit: &mut dyn FnMut(Observed),
) {
    let Split { parts, mut ledger, .. } = analyzer.split();
    let each = parts.len().div_ceil(threads.max(1));
    thread::scope(|scope| {
        let start = |parts| {
            let (sender, receiver) = sync_channel(WAITING);
            scope.spawn(move || end(parts, &sender));
            Ended { receiver, next: Vec::new().into_iter() }
        };
        let mut all: Vec<Ended> = parts.chunks_mut(each).map(start).collect();
        let mut heads: Vec<Option<Observed>> = all.iter_mut().map(Iterator::next).collect();
        let first = |heads: &[Option<Observed>]| {
            let numbers = heads.iter().map(|head| head.as_ref().map(|observed| observed.number));
            numbers.enumerate().filter_map(|(n, number)| Some((number?, n))).min()
        };
        while let Some((_, n)) = first(&heads) {
            let next = all[n].next();
            if let Some(observed) = std::mem::replace(&mut heads[n], next) {
                ledger.end(observed, emit);
            }
        }
    });
}

/// Ends the connections of some parts.
fn end(parts: &mut [Part], sender: &SyncSender<Vec<Observed>>) {
    let mut rests = Rests::of(parts);
    loop {
        let some: Vec<Observed> = rests.by_ref().take(AT_ONCE).collect();
        // Nobody takes them any more where the other thread broke down.
        if some.is_empty() || sender.send(some).is_err() {
            return;
        }
    }
}

/// What another thread has ended.
struct Ended {
    receiver: Receiver<Vec<Observed>>,
    next: vec::IntoIter<Observed>,
}

impl Iterator for Ended {
    type Item = Observed;

    fn next(&mut self) -> Option<Observed> {
        if let Some(observed) = self.next.next() {
            return Some(observed);
        }
        self.next = self.receiver.recv().ok()?.into_iter();
        self.next.next()
    }
}
