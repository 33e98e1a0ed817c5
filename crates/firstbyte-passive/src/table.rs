//! Finds flows by their addresses and ports: a hash table with bounded size.
//!
//! In: five-tuples (one table per protocol). Out: the flow's slot. Idle flows are removed; if there are too many, the
//! most idle of a few. Attackers can choose addresses, so the hash has a secret seed.

use std::hash::{BuildHasher, Hasher};

use hashbrown::HashTable;

use super::Time;
use super::layers::Endpoint;

/// Two endpoints, in an order that does not depend on who sends.
#[derive(Clone, Copy, Debug, Eq)]
pub(crate) struct Key([u64; 5]);

impl PartialEq for Key {
    /// Compares five numbers without a call, and without a branch for each.
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        let [a, b, c, d, ports] = self.0;
        let [e, f, g, h, others] = other.0;
        (a ^ e) | (b ^ f) | (c ^ g) | (d ^ h) | (ports ^ others) == 0
    }
}

impl std::hash::Hash for Key {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.iter().for_each(|part| state.write_u64(*part));
    }
}

/// The end of a [`Key`] that sends: 0 or 1.
pub(crate) type Side = usize;

impl Key {
    /// The key of a packet, and the side that sent it.
    #[inline]
    pub(crate) fn from_endpoints(source: Endpoint, destination: Endpoint) -> (Self, Side) {
        // Without branches: directions alternate freely, so that branch prediction fails.
        let ends = [source.parts(), destination.parts()];
        let [(a, b, ap), (c, d, dp)] = ends;
        let later = (a > c) | ((a == c) & ((b > d) | ((b == d) & (ap > dp))));
        let side = usize::from(later);
        let ((a, b, ap), (c, d, dp)) = (ends[side], ends[1 - side]);
        (Self([a, b, c, d, u64::from(ap) << 16 | u64::from(dp)]), side)
    }

    /// Endpoints of sides 0 and 1.
    pub(crate) const fn ends(&self) -> [Endpoint; 2] {
        let [a, b, c, d, ports] = self.0;
        [Endpoint::of_parts(a, b, (ports >> 16) as u16), Endpoint::of_parts(c, d, ports as u16)]
    }
}

/// Entries in a block.
const BLOCK: usize = 128;

/// A position in the table; valid until its flow is removed.
pub(crate) type Slot = u32;

/// An entry of a table.
pub(crate) trait Lasting {
    /// Time of its last packet.
    fn last(&self) -> Time;
}

#[derive(Debug)]
struct Entry<T> {
    key: Key,
    flow: T,
}

/// Allocated in blocks, so that growing moves nothing.
type Blocks<T> = Vec<Vec<Option<Entry<T>>>>;

/// Flows of one protocol.
#[derive(Debug)]
pub(crate) struct Table<T> {
    /// Slots by the hash of their keys; only the entries store the keys.
    index: HashTable<Slot>,
    hash: Seeded,
    blocks: Blocks<T>,
    free: Vec<Slot>,
    hand: usize,
    /// The last flow found: packets come in runs.
    recent: Option<(Key, Slot)>,
}

impl<T: Lasting> Table<T> {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            index: HashTable::new(),
            hash: Seeded(seed),
            blocks: Vec::new(),
            free: Vec::new(),
            hand: 0,
            recent: None,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.places() - self.free.len()
    }

    #[inline]
    pub(crate) fn find(&mut self, key: &Key) -> Option<Slot> {
        if let Some((recent, slot)) = &self.recent
            && recent == key
        {
            return Some(*slot);
        }
        let has_key = |slot: &Slot| has_key(&self.blocks, *slot, key);
        let slot = *self.index.find(self.hash.hash_one(key), has_key)?;
        self.recent = Some((*key, slot));
        Some(slot)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, slot: Slot) -> Option<&mut T> {
        self.entry(slot)?.as_mut().map(|entry| &mut entry.flow)
    }

    #[inline]
    pub(crate) fn get(&self, slot: Slot) -> Option<&T> {
        place(&self.blocks, slot).map(|entry| &entry.flow)
    }

    pub(crate) fn key(&self, slot: Slot) -> Option<&Key> {
        place(&self.blocks, slot).map(|entry| &entry.key)
    }

    /// Inserts a flow. If another flow has the key, the key no longer finds that one.
    pub(crate) fn insert(&mut self, key: Key, flow: T) -> Slot {
        let entry = Some(Entry { key, flow });
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
        self.point(&key, slot);
        slot
    }

    /// Changes the key of the flow at `slot`.
    pub(crate) fn rekey(&mut self, slot: Slot, key: Key) {
        let Some(Some(entry)) = self.entry(slot) else { return };
        let old = std::mem::replace(&mut entry.key, key);
        self.forget(&old, slot);
        self.point(&key, slot);
    }

    /// Makes `key` point to `slot`.
    fn point(&mut self, key: &Key, slot: Slot) {
        let (blocks, hash) = (&self.blocks, self.hash);
        let of = |slot: &Slot| place(blocks, *slot).map_or(0, |entry| hash.hash_one(entry.key));
        let found = self.index.entry(hash.hash_one(key), |other| has_key(blocks, *other, key), of);
        found.insert(slot);
        self.recent = Some((*key, slot));
    }

    /// Removes the pointer from `key` to `slot`.
    fn forget(&mut self, key: &Key, slot: Slot) {
        if let Ok(found) = self.index.find_entry(self.hash.hash_one(key), |other| *other == slot) {
            found.remove();
        }
        self.recent = None;
    }

    /// Ends the flow at `slot` without moving it.
    pub(crate) fn end(&mut self, slot: Slot, end: impl FnOnce(&Key, &mut T)) {
        let Some(place) = self.entry(slot) else { return };
        let Some(entry) = place else { return };
        let key = entry.key;
        end(&key, &mut entry.flow);
        *place = None;
        self.forget(&key, slot);
        self.free.push(slot);
    }

    pub(crate) fn remove(&mut self, slot: Slot) -> Option<(Key, T)> {
        let entry = self.entry(slot)?.take()?;
        self.forget(&entry.key, slot);
        self.free.push(slot);
        Some((entry.key, entry.flow))
    }

    #[inline]
    fn entry(&mut self, slot: Slot) -> Option<&mut Option<Entry<T>>> {
        let place = slot as usize;
        self.blocks.get_mut(place / BLOCK)?.get_mut(place % BLOCK)
    }

    /// Number of positions, free ones included.
    fn places(&self) -> usize {
        self.blocks.last().map_or(0, |last| (self.blocks.len() - 1) * BLOCK + last.len())
    }

    /// A flow that at `at` has been idle for longer than its limit, searched for in the next few positions.
    pub(crate) fn next_idle(
        &mut self,
        at: Time,
        limit_ns: impl Fn(&T) -> i64,
        places: usize,
    ) -> Option<Slot> {
        let all = self.places();
        for _ in 0..places.min(all) {
            self.hand = (self.hand + 1) % all;
            if let Some(flow) = self.get(self.hand as Slot)
                && at.signed_since(flow.last()) > limit_ns(flow)
            {
                return Some(self.hand as Slot);
            }
        }
        None
    }

    /// The most idle flow in the next few positions.
    pub(crate) fn most_idle(&mut self, places: usize) -> Option<Slot> {
        let mut most: Option<(Time, usize)> = None;
        let mut looked = 0;
        let all = self.places();
        for _ in 0..all {
            if looked == places {
                break;
            }
            self.hand = (self.hand + 1) % all;
            if let Some(flow) = self.get(self.hand as Slot) {
                looked += 1;
                if most.is_none_or(|(last, _)| flow.last() < last) {
                    most = Some((flow.last(), self.hand));
                }
            }
        }
        most.map(|(_, place)| place as Slot)
    }

    /// All flows, with their slots.
    pub(crate) fn flows(&self) -> impl Iterator<Item = (Slot, &T)> {
        (0..self.places()).filter_map(|slot| Some((slot as Slot, self.get(slot as Slot)?)))
    }

    /// All flows, in the order of their slots; empties the table.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = (Key, T)> {
        self.index.clear();
        self.free.clear();
        self.recent = None;
        let all = std::mem::take(&mut self.blocks).into_iter().flatten().flatten();
        all.map(|entry| (entry.key, entry.flow))
    }
}

#[inline]
fn place<T>(blocks: &Blocks<T>, slot: Slot) -> Option<&Entry<T>> {
    let place = slot as usize;
    blocks.get(place / BLOCK)?.get(place % BLOCK)?.as_ref()
}

#[inline]
fn has_key<T>(blocks: &Blocks<T>, slot: Slot, key: &Key) -> bool {
    place(blocks, slot).is_some_and(|entry| entry.key == *key)
}

/// A seeded multiplicative hash, which folds its products as wyhash does.
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
