//! UDP datagrams to QUIC connections.
//!
//! In: datagrams with their times and both ends. Out: one [`Observed`](super::Observed) per connection.
//! Datagrams find their connection by both addresses and ports, and by connection IDs where that fails.
//! Only Initial packets are opened, with the keys that anyone on the path has; what is not QUIC is left.

mod connection;
mod crypto;
mod exchanges;
mod flights;
mod handshake;
mod initial;
mod packet;
mod spin;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use super::Time;
use super::analyzer::{Limits, Output};
use super::layers::{Endpoint, Payload};
use super::observed::Ending;
use super::table::{Key, Seeded, Side, Slot};
use connection::Connection;
use packet::{Cid, Packet};

/// A UDP datagram.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// When it was captured.
    pub at: Time,
    /// Where it comes from.
    pub source: Endpoint,
    /// Where it goes.
    pub destination: Endpoint,
    /// What it carries.
    pub payload: Payload<'a>,
}

/// A connection ID that tells connections apart has so many bytes at least.
const TELLING: usize = 4;
/// Every datagram, so many places are looked at for what is idle.
const SWEPT: usize = 1;
/// Among so many the most idle is given up when there are too many.
const CANDIDATES: usize = 16;

#[derive(Debug)]
struct Entry {
    key: Key,
    /// The connection IDs by which it can be found, and the side that is sent to by each.
    ids: [Option<Cid>; 2],
    connection: Box<Connection>,
}

/// The QUIC connections that are under way.
#[derive(Debug)]
pub(super) struct Connections {
    entries: Vec<Option<Entry>>,
    free: Vec<Slot>,
    by_ends: HashMap<Key, Slot, Seeded>,
    by_id: HashMap<Cid, (Slot, Side), Seeded>,
    /// Lengths of connection IDs that are in use, as bits.
    lengths: u32,
    hand: usize,
    held: usize,
    limits: Limits,
    scratch: Vec<u8>,
    /// The connection that the last datagram belongs to.
    latest: Option<u64>,
}

impl Connections {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            entries: Vec::new(),
            free: Vec::new(),
            by_ends: HashMap::with_hasher(Seeded(limits.seed)),
            by_id: HashMap::with_hasher(Seeded(limits.seed)),
            lengths: 0,
            hand: 0,
            held: 0,
            limits,
            scratch: Vec::new(),
            latest: None,
        }
    }

    pub(super) fn live(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// The number of the connection that the last datagram belongs to.
    pub(super) const fn latest(&self) -> Option<u64> {
        self.latest
    }

    /// The next datagram.
    pub(super) fn datagram(&mut self, datagram: &Datagram<'_>, out: &mut Output<'_>) {
        self.latest = None;
        let bytes = datagram.payload.captured;
        let (key, side) = Key::of(datagram.source, datagram.destination);
        let first = packet::packets(datagram.payload).next();
        if let Some((slot, side)) = self.find(&key, side, datagram, first.as_ref())
            && !self.is_replaced(slot, side, first.as_ref(), out)
        {
            self.deliver(slot, side, datagram, out);
            return;
        }
        let Some(Packet::Long(long)) = &first else { return };
        if !packet::may_be_first(bytes) {
            return;
        }
        let negotiates = long.version == 0;
        if negotiates && !packet::negotiated(long).any(packet::is_known) {
            return;
        }
        // A version that is not known is QUIC only if the datagram has an Initial's size (RFC 9000 §14.1).
        if packet::is_reserved(long.version) && datagram.payload.bytes < 1200 {
            return;
        }
        self.sweep(datagram.at, out);
        let number = out.number();
        let ends = (datagram.source, datagram.destination);
        let connection = Connection::new(number, datagram.at, ends, side, self.limits.exchanges);
        let entry = Entry { key, ids: [None; 2], connection: Box::new(connection) };
        let slot = self.insert(entry);
        self.deliver(slot, side, datagram, out);
    }

    /// The capture is over.
    pub(super) fn finish(&mut self, out: &mut Output<'_>) {
        for slot in 0..self.entries.len() {
            self.end(slot as Slot, None, out);
        }
    }

    /// The connection of a datagram, and its sender's side.
    fn find(
        &mut self,
        key: &Key,
        side: Side,
        datagram: &Datagram<'_>,
        first: Option<&Packet<'_>>,
    ) -> Option<(Slot, Side)> {
        let near = self.by_ends.get(key).copied();
        let mut side = side;
        if let Some(slot) = near {
            let connection = &self.entry(slot)?.connection;
            // After a migration the ends may be the other way round than in the key.
            side = usize::from(connection.ends[0] != datagram.source);
            let to = connection.to[1 - side];
            let is_its_own = match (first, to) {
                (Some(Packet::Long(long)), Some(to)) => long.destination == to,
                (Some(Packet::Short(short)), Some(to)) => {
                    to.len() == 0 || short.destination(to.len()) == Some(to.as_slice())
                }
                _ => true,
            };
            if is_its_own {
                return Some((slot, side));
            }
        }
        let by_id = first.and_then(|first| self.by_id(datagram, first));
        let Some((slot, to)) = by_id else { return near.map(|slot| (slot, side)) };
        let from = 1 - to;
        let (source, destination) = (datagram.source, datagram.destination);
        let ends = self.entry(slot)?.connection.ends;
        if [ends[from], ends[to]] == [source, destination] {
            return Some((slot, from));
        }
        if near.is_some() {
            return near.map(|slot| (slot, side));
        }
        // One end is where it was; the other has moved.
        let (moved, place) = if ends[to] == destination {
            (from, source)
        } else if ends[from] == source {
            (to, destination)
        } else {
            return None;
        };
        let entry = self.entries.get_mut(slot as usize)?.as_mut()?;
        entry.connection.moved(moved, place);
        let old = std::mem::replace(&mut entry.key, *key);
        if self.by_ends.get(&old) == Some(&slot) {
            self.by_ends.remove(&old);
        }
        self.by_ends.insert(*key, slot);
        Some((slot, from))
    }

    fn by_id(&self, datagram: &Datagram<'_>, first: &Packet<'_>) -> Option<(Slot, Side)> {
        match first {
            Packet::Long(long) => self.by_id.get(&long.destination).copied(),
            Packet::Short(short) => {
                if !packet::may_be_short(datagram.payload.captured) {
                    return None;
                }
                let lengths = (TELLING..=20).rev().filter(|length| self.lengths >> length & 1 == 1);
                lengths
                    .filter_map(|length| Cid::new(short.destination(length)?))
                    .find_map(|cid| self.by_id.get(&cid).copied())
            }
        }
    }

    /// Whether the datagram begins another connection, for which the one at `slot` makes way.
    fn is_replaced(
        &mut self,
        slot: Slot,
        side: Side,
        first: Option<&Packet<'_>>,
        out: &mut Output<'_>,
    ) -> bool {
        let Some(Packet::Long(long)) = first else { return false };
        let Some(Some(entry)) = self.entries.get_mut(slot as usize) else { return false };
        if !entry.connection.is_replaced_by(side, long, &mut self.scratch) {
            return false;
        }
        // Where connection IDs tell them apart, both go on.
        if !entry.connection.is_told_by_ids() {
            out.hygiene().port_reuses += 1;
            self.end(slot, Some(Ending::Replaced), out);
        }
        true
    }

    fn deliver(&mut self, slot: Slot, side: Side, datagram: &Datagram<'_>, out: &mut Output<'_>) {
        let Some(Some(entry)) = self.entries.get_mut(slot as usize) else { return };
        let connection = &mut entry.connection;
        self.latest = Some(connection.number);
        let before = connection.held();
        let room = self.limits.held_bytes.saturating_sub(self.held);
        let (at, payload) = (datagram.at, datagram.payload);
        connection.datagram(at, side, payload, room, &mut self.scratch, out.hygiene());
        let mut after = connection.held();
        if (self.held + after).saturating_sub(before) > self.limits.held_bytes {
            connection.let_go();
            out.hygiene().held_overflow += 1;
            after = 0;
        }
        self.held = (self.held + after).saturating_sub(before);
        for to in [0, 1] {
            let id = connection.to[to].filter(|cid| cid.len() >= TELLING);
            if id == entry.ids[to] {
                continue;
            }
            if let Some(old) = std::mem::replace(&mut entry.ids[to], id)
                && self.by_id.get(&old) == Some(&(slot, to))
            {
                self.by_id.remove(&old);
            }
            if let Some(id) = id {
                self.lengths |= 1 << id.len();
                self.by_id.insert(id, (slot, to));
            }
        }
    }

    fn entry(&self, slot: Slot) -> Option<&Entry> {
        self.entries.get(slot as usize)?.as_ref()
    }

    fn insert(&mut self, entry: Entry) -> Slot {
        let key = entry.key;
        let slot = match self.free.pop() {
            Some(slot) => {
                self.entries[slot as usize] = Some(entry);
                slot
            }
            None => {
                self.entries.push(Some(entry));
                (self.entries.len() - 1) as Slot
            }
        };
        self.by_ends.insert(key, slot);
        slot
    }

    /// Gives out all that is idle at `at`.
    pub(super) fn advance(&mut self, at: Time, out: &mut Output<'_>) {
        self.end_idle(at, self.entries.len(), out);
    }

    /// Gives out what is idle among the next `places`.
    fn end_idle(&mut self, at: Time, places: usize, out: &mut Output<'_>) {
        for _ in 0..places.min(self.entries.len()) {
            self.hand = (self.hand + 1) % self.entries.len();
            let idle = self.entries[self.hand]
                .as_ref()
                .is_some_and(|entry| at.signed_since(entry.connection.last) > self.limits.idle_ns);
            if idle {
                out.hygiene().idle += 1;
                self.end(self.hand as Slot, Some(Ending::Idle), out);
            }
        }
    }

    /// Makes room: what is idle goes, and with too many the most idle of a few.
    fn sweep(&mut self, at: Time, out: &mut Output<'_>) {
        self.end_idle(at, SWEPT, out);
        if self.live() < self.limits.connections.max(1) {
            return;
        }
        let mut most: Option<(Time, usize)> = None;
        let mut looked = 0;
        for _ in 0..self.entries.len() {
            if looked == CANDIDATES {
                break;
            }
            self.hand = (self.hand + 1) % self.entries.len();
            if let Some(entry) = &self.entries[self.hand] {
                looked += 1;
                if most.is_none_or(|(last, _)| entry.connection.last < last) {
                    most = Some((entry.connection.last, self.hand));
                }
            }
        }
        if let Some((_, place)) = most {
            out.hygiene().evicted += 1;
            self.end(place as Slot, Some(Ending::Evicted), out);
        }
    }

    fn end(&mut self, slot: Slot, ending: Option<Ending>, out: &mut Output<'_>) {
        let Some(entry) = self.entries.get_mut(slot as usize).and_then(Option::take) else {
            return;
        };
        if self.by_ends.get(&entry.key) == Some(&slot) {
            self.by_ends.remove(&entry.key);
        }
        for (to, id) in entry.ids.iter().enumerate() {
            if let Some(id) = id
                && self.by_id.get(id) == Some(&(slot, to))
            {
                self.by_id.remove(id);
            }
        }
        self.free.push(slot);
        self.held = self.held.saturating_sub(entry.connection.held());
        if entry.connection.is_quic() {
            out.emit(entry.connection.end(ending));
        }
    }
}
