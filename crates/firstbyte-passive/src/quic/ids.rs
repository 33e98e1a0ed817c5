//! Finds connections by connection ID.
//!
//! In: connection IDs in packets. Out: the connection, and the side that chose the ID. Only the connections store the
//! IDs, so an entry must be removed before its connection changes its ID.

use std::hash::BuildHasher;

use hashbrown::HashTable;

use super::connection::Connection;
use super::packet::Cid;
use crate::table::{Seeded, Side, Slot, Table};

/// Index of the connection IDs of all connections.
#[derive(Debug)]
pub(super) struct Ids {
    index: HashTable<Place>,
    hash: Seeded,
    /// Set of the ID lengths in use, as bits.
    lengths: u32,
}

/// A slot, with the side in the lowest bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place(u32);

impl Place {
    const fn new(slot: Slot, side: Side) -> Self {
        Self(slot << 1 | side as u32)
    }

    const fn parts(self) -> (Slot, Side) {
        (self.0 >> 1, (self.0 & 1) as Side)
    }

    fn id(self, of: &Table<Connection>) -> Option<Cid> {
        let (slot, side) = self.parts();
        of.get(slot)?.ids()[side]
    }
}

impl Ids {
    pub(super) fn new(seed: u64) -> Self {
        Self { index: HashTable::new(), hash: Seeded(seed), lengths: 0 }
    }

    /// The connection with this ID, and the side that chose it.
    pub(super) fn find(&self, id: &Cid, of: &Table<Connection>) -> Option<(Slot, Side)> {
        let place = self.index.find(self.hash.hash_one(id), |place| place.id(of) == Some(*id))?;
        Some(place.parts())
    }

    /// The ID lengths in use, longest first.
    pub(super) fn lengths(&self) -> impl Iterator<Item = usize> {
        (super::TELLING..=20).rev().filter(|length| self.lengths >> length & 1 == 1)
    }

    /// Replaces the IDs `before` of the connection at `slot` by `now`.
    pub(super) fn update(
        &mut self,
        slot: Slot,
        before: [Option<Cid>; 2],
        now: [Option<Cid>; 2],
        of: &Table<Connection>,
    ) {
        if before == now {
            return;
        }
        let changed = [0, 1].map(|side| before[side] != now[side]);
        // Both are removed before either is inserted: inserting one may ask all entries for their IDs.
        for (side, id) in before.iter().enumerate() {
            if let Some(id) = id.filter(|_| changed[side]) {
                self.remove(&id, Place::new(slot, side));
            }
        }
        for (side, id) in now.iter().enumerate() {
            if let Some(id) = id.filter(|_| changed[side]) {
                self.insert(&id, Place::new(slot, side), of);
            }
        }
    }

    pub(super) fn clear(&mut self) {
        self.index.clear();
    }

    fn remove(&mut self, id: &Cid, place: Place) {
        if let Ok(found) = self.index.find_entry(self.hash.hash_one(id), |other| *other == place) {
            found.remove();
        }
    }

    /// If another connection has the same ID, the ID no longer finds that one.
    fn insert(&mut self, id: &Cid, place: Place, of: &Table<Connection>) {
        let hash = self.hash;
        self.lengths |= 1 << id.len();
        let same = |other: &Place| other.id(of) == Some(*id);
        let hash_of = |other: &Place| other.id(of).map_or(0, |id| hash.hash_one(id));
        self.index.entry(hash.hash_one(id), same, hash_of).insert(place);
    }
}
