//! Flows by their addresses and ports: a hash table with an upper limit.
//!
//! In: five-tuples (the protocol is the table's). Out: the flow's slot. What is idle goes first; with
//! too many, the most idle of a few. Attackers choose addresses: the hash has a secret seed.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};

use super::Time;
use super::layers::Endpoint;

/// Two ends, in an order that does not depend on who sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key([u64; 5]);

impl std::hash::Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.iter().for_each(|part| state.write_u64(*part));
    }
}

/// Which end of a [`Key`] sends: 0 or 1.
pub(crate) type Side = usize;

impl Key {
    /// The key of a packet, and the side that sent it.
    #[inline]
    pub(crate) fn of(source: Endpoint, destination: Endpoint) -> (Self, Side) {
        let (first, second, side) =
            if source <= destination { (source, destination, 0) } else { (destination, source, 1) };
        let ((a, b, ap), (c, d, dp)) = (first.parts(), second.parts());
        (Self([a, b, c, d, u64::from(ap) << 16 | u64::from(dp)]), side)
    }

    /// Both ends: side 0 and side 1.
    pub(crate) const fn ends(&self) -> [Endpoint; 2] {
        let [a, b, c, d, ports] = self.0;
        [Endpoint::of_parts(a, b, (ports >> 16) as u16), Endpoint::of_parts(c, d, ports as u16)]
    }
}

/// Entries in a block.
const BLOCK: usize = 128;

/// A place in the table; valid until its flow is removed.
pub(crate) type Slot = u32;

#[derive(Debug)]
struct Entry<T> {
    key: Key,
    last: Time,
    flow: T,
}

/// Flows of one protocol.
#[derive(Debug)]
pub(crate) struct Table<T> {
    index: HashMap<Key, Slot, Seeded>,
    /// In blocks, so that growing moves nothing.
    blocks: Vec<Vec<Option<Entry<T>>>>,
    free: Vec<Slot>,
    hand: usize,
    /// The last one found: packets come in runs.
    recent: Option<(Key, Slot)>,
}

impl<T> Table<T> {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            index: HashMap::with_hasher(Seeded(seed)),
            blocks: Vec::new(),
            free: Vec::new(),
            hand: 0,
            recent: None,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    #[inline]
    pub(crate) fn find(&mut self, key: &Key) -> Option<Slot> {
        if let Some((recent, slot)) = &self.recent
            && recent == key
        {
            return Some(*slot);
        }
        let slot = *self.index.get(key)?;
        self.recent = Some((*key, slot));
        Some(slot)
    }

    #[inline]
    pub(crate) fn touch(&mut self, slot: Slot, at: Time) -> Option<&mut T> {
        let entry = self.entry(slot)?.as_mut()?;
        entry.last = at;
        Some(&mut entry.flow)
    }

    pub(crate) fn get(&self, slot: Slot) -> Option<&T> {
        self.place(slot as usize)?.as_ref().map(|entry| &entry.flow)
    }

    pub(crate) fn insert(&mut self, key: Key, at: Time, flow: T) -> Slot {
        let entry = Some(Entry { key, last: at, flow });
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                if self.blocks.last().is_none_or(|block| block.len() == BLOCK) {
                    self.blocks.push(Vec::with_capacity(BLOCK));
                }
                let slot = self.places();
                if let Some(block) = self.blocks.last_mut() {
                    block.push(None);
                }
                slot as Slot
            }
        };
        if let Some(place) = self.entry(slot) {
            *place = entry;
        }
        self.index.insert(key, slot);
        self.recent = Some((key, slot));
        slot
    }

    pub(crate) fn remove(&mut self, slot: Slot) -> Option<(Key, T)> {
        let entry = self.entry(slot)?.take()?;
        self.index.remove(&entry.key);
        self.recent = None;
        self.free.push(slot);
        Some((entry.key, entry.flow))
    }

    fn entry(&mut self, slot: Slot) -> Option<&mut Option<Entry<T>>> {
        let place = slot as usize;
        self.blocks.get_mut(place / BLOCK)?.get_mut(place % BLOCK)
    }

    fn place(&self, place: usize) -> Option<&Option<Entry<T>>> {
        self.blocks.get(place / BLOCK)?.get(place % BLOCK)
    }

    /// Places that there are, free ones included.
    fn places(&self) -> usize {
        self.blocks.last().map_or(0, |last| (self.blocks.len() - 1) * BLOCK + last.len())
    }

    /// A flow that has been idle at `at` for longer than its limit, looked for in the next few places.
    pub(crate) fn next_idle(
        &mut self,
        at: Time,
        limit_ns: impl Fn(&T) -> i64,
        places: usize,
    ) -> Option<Slot> {
        let all = self.places();
        for _ in 0..places.min(all) {
            self.hand = (self.hand + 1) % all;
            if let Some(Some(entry)) = self.place(self.hand)
                && at.signed_since(entry.last) > limit_ns(&entry.flow)
            {
                return Some(self.hand as Slot);
            }
        }
        None
    }

    /// The most idle flow of the next few places.
    pub(crate) fn most_idle(&mut self, places: usize) -> Option<Slot> {
        let mut most: Option<(Time, usize)> = None;
        let mut looked = 0;
        let all = self.places();
        for _ in 0..all {
            if looked == places {
                break;
            }
            self.hand = (self.hand + 1) % all;
            if let Some(Some(entry)) = self.place(self.hand) {
                looked += 1;
                if most.is_none_or(|(last, _)| entry.last < last) {
                    most = Some((entry.last, self.hand));
                }
            }
        }
        most.map(|(_, place)| place as Slot)
    }

    /// All flows, in the order of their slots; the table is empty afterwards.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = (Key, T)> {
        self.index.clear();
        self.free.clear();
        self.recent = None;
        let all = std::mem::take(&mut self.blocks).into_iter().flatten().flatten();
        all.map(|entry| (entry.key, entry.flow))
    }
}

/// A multiplying hash with a seed (as wyhash folds its products).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seeded(pub(crate) u64);

impl BuildHasher for Seeded {
    type Hasher = Folding;
    fn build_hasher(&self) -> Folding {
        Folding(self.0)
    }
}

pub(crate) struct Folding(u64);

impl Hasher for Folding {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    #[inline]
    fn write_u64(&mut self, value: u64) {
        let product = u128::from(self.0 ^ value) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (product as u64 ^ (product >> 64) as u64).wrapping_add(0xa076_1d64_78bd_642f);
    }
}
