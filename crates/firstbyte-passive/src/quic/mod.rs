//! Assigns UDP datagrams to QUIC connections.
//!
//! In: datagrams with their times and endpoints. Out: one [`Observed`] per connection. A datagram finds its connection
//! by both addresses and ports, or if that fails by connection ID. Only Initial packets are decrypted, with keys that
//! anyone on the path can derive. Datagrams that are not QUIC are ignored.

mod connection;
mod crypto;
mod exchanges;
mod facts;
mod flights;
mod handshake;
mod ids;
mod initial;
mod packet;
mod spin;
#[cfg(test)]
mod tests;
mod unread;

use super::Time;
use super::layers::{Endpoint, Payload};
use super::limits::Limits;
use super::numbers::Output;
use super::observed::{Ending, Observed};
use super::table::{Key, Side, Slot, Table};
use connection::Connection;
use ids::Ids;
use packet::{Cid, Packet};
use unread::Unfollowed;
pub use unread::UnreadQuic;

/// A UDP datagram.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// When it was captured.
    pub at: Time,
    /// Source endpoint.
    pub source: Endpoint,
    /// Destination endpoint.
    pub destination: Endpoint,
    /// UDP payload.
    pub payload: Payload<'a>,
}

/// Fewest bytes of a connection ID that identifies a connection.
const TELLING: usize = 4;
/// After this many datagrams, [`SWEPT`] places of the table are checked for idle connections.
const SWEEP_EVERY: u64 = 16;
const SWEPT: usize = 16;
/// Smallest datagram that can hold a client's first Initial (RFC 9000 §14.1).
const LEAST_OPENING: u32 = 1200;
/// Packets less than this apart were sent together.
const BURST_NS: i64 = 1_000_000;
/// Number of connections from which the most idle one is dropped if there are too many.
const CANDIDATES: usize = 16;

/// The QUIC connections in progress.
#[derive(Debug)]
pub(super) struct Connections {
    table: Table<Connection>,
    ids: Ids,
    held: usize,
    datagrams: u64,
    limits: Limits,
    unfollowed: Unfollowed,
    scratch: Vec<u8>,
    /// The connection of the last datagram.
    latest: Option<u64>,
}

impl Connections {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            table: Table::new(limits.seed),
            ids: Ids::new(limits.seed),
            held: 0,
            datagrams: 0,
            limits,
            unfollowed: Unfollowed::new(limits.seed),
            scratch: Vec::new(),
            latest: None,
        }
    }

    pub(super) fn live(&self) -> usize {
        self.table.len()
    }

    /// The number of the connection of the last datagram.
    pub(super) const fn latest(&self) -> Option<u64> {
        self.latest
    }

    /// Takes the next datagram.
    pub(super) fn datagram(&mut self, datagram: &Datagram<'_>, out: &mut Output<'_>) {
        self.latest = None;
        self.datagrams += 1;
        if self.datagrams.is_multiple_of(SWEEP_EVERY) {
            self.end_idle(datagram.at, SWEPT, out);
        }
        let bytes = datagram.payload.captured;
        let (key, side) = Key::from_endpoints(datagram.source, datagram.destination);
        let first = packet::packets(datagram.payload).next();
        if let Some((slot, side)) = self.find(&key, side, datagram, first.as_ref())
            && !self.is_replaced(slot, side, datagram, first.as_ref(), out)
        {
            self.deliver(slot, side, datagram, out);
            return;
        }
        let Some(Packet::Long(long)) = first.as_ref().filter(|_| packet::may_be_first(bytes))
        else {
            if let Some(version) = self.unfollowed.begins(key, datagram.payload) {
                out.hygiene().unread_quic.add(version, 1);
            }
            return;
        };
        let negotiates = long.version == 0;
        if negotiates && !packet::negotiated(long).any(packet::is_known) {
            return;
        }
        // With a reserved version it counts as QUIC only if the datagram is as long as one with an Initial (RFC 9000
        // §14.1).
        if packet::is_reserved(long.version) && datagram.payload.bytes < LEAST_OPENING {
            return;
        }
        self.make_room(out);
        if !negotiates && !packet::is_known(long.version) && !packet::is_reserved(long.version) {
            out.hygiene().unread_quic.add(long.version, 1);
        }
        let number = out.begin();
        let connection = Connection::new(number, datagram.at, side, self.limits.exchanges);
        let slot = self.table.insert(key, connection);
        self.deliver(slot, side, datagram, out);
    }

    /// Ends the capture: returns the connections still in progress.
    pub(super) fn rest(&mut self) -> Rest {
        self.ids.clear();
        self.held = 0;
        let quic = self.table.drain().filter(|(_, connection)| connection.is_quic());
        let mut connections: Vec<(Key, Connection)> = quic.collect();
        connections.sort_unstable_by_key(|(_, connection)| connection.number);
        Rest(connections.into_iter())
    }

    /// The connection of a datagram, and the side that sent it.
    fn find(
        &mut self,
        key: &Key,
        side: Side,
        datagram: &Datagram<'_>,
        first: Option<&Packet<'_>>,
    ) -> Option<(Slot, Side)> {
        let (source, destination) = (datagram.source, datagram.destination);
        let near = self.table.find(key);
        let mut side = side;
        if let Some(slot) = near {
            let connection = self.table.get(slot)?;
            // After a migration the ends may be in the opposite order to the key.
            side = usize::from(connection.ends(key)[0] != source);
            if first.is_none_or(|first| connection.is_sent_to(1 - side, first)) {
                return Some((slot, side));
            }
        }
        let by_id = first.and_then(|first| self.by_id(datagram, first));
        let Some((slot, to)) = by_id else { return near.map(|slot| (slot, side)) };
        let from = 1 - to;
        let ends = self.table.get(slot)?.ends(self.table.key(slot)?);
        if [ends[from], ends[to]] == [source, destination] {
            return Some((slot, from));
        }
        if near.is_some() {
            return near.map(|slot| (slot, side));
        }
        // One end kept its address; the other has moved.
        let (moved, place) = if ends[to] == destination {
            (from, source)
        } else if ends[from] == source {
            (to, destination)
        } else {
            return None;
        };
        self.table.get_mut(slot)?.moved(ends, moved, place);
        self.table.rekey(slot, *key);
        Some((slot, from))
    }

    fn by_id(&self, datagram: &Datagram<'_>, first: &Packet<'_>) -> Option<(Slot, Side)> {
        match first {
            Packet::Long(long) => self.ids.find(&long.destination, &self.table),
            Packet::Short(short) => {
                if !packet::may_be_short(datagram.payload.captured) {
                    return None;
                }
                let mut ids = self.ids.lengths().filter_map(|n| Cid::new(short.destination(n)?));
                ids.find_map(|id| self.ids.find(&id, &self.table))
            }
        }
    }

    /// Whether the datagram begins another connection that replaces the one at `slot`.
    fn is_replaced(
        &mut self,
        slot: Slot,
        side: Side,
        datagram: &Datagram<'_>,
        first: Option<&Packet<'_>>,
        out: &mut Output<'_>,
    ) -> bool {
        let Some(Packet::Long(long)) = first else { return false };
        if datagram.payload.bytes < LEAST_OPENING {
            return false;
        }
        let Some(connection) = self.table.get_mut(slot) else { return false };
        if !connection.is_replaced_by(side, long, &mut self.scratch) {
            return false;
        }
        // If connection IDs tell them apart, both connections continue.
        if !connection.is_told_by_ids() {
            out.hygiene().port_reuses += 1;
            self.end(slot, Some(Ending::Replaced), out);
        }
        true
    }

    fn deliver(&mut self, slot: Slot, side: Side, datagram: &Datagram<'_>, out: &mut Output<'_>) {
        let Some(connection) = self.table.get_mut(slot) else { return };
        self.latest = Some(connection.number);
        let (ids, before) = (connection.ids(), connection.held());
        let room = self.limits.held_bytes.saturating_sub(self.held);
        let (at, payload) = (datagram.at, datagram.payload);
        connection.datagram(at, side, payload, room, &mut self.scratch, out.hygiene());
        if !out.timed {
            connection.untimed();
        }
        let mut after = connection.held();
        if (self.held + after).saturating_sub(before) > self.limits.held_bytes {
            connection.let_go();
            out.hygiene().held_overflow += 1;
            after = 0;
        }
        self.held = (self.held + after).saturating_sub(before);
        let now = connection.ids();
        self.ids.update(slot, ids, now, &self.table);
    }

    /// Reports all connections that are idle at `at`.
    pub(super) fn advance(&mut self, at: Time, out: &mut Output<'_>) {
        while self.end_idle(at, usize::MAX, out) {}
    }

    /// Reports the first idle connection in the next `places`. Returns false if there is none.
    fn end_idle(&mut self, at: Time, places: usize, out: &mut Output<'_>) -> bool {
        let idle_ns = self.limits.idle_ns;
        let Some(slot) = self.table.next_idle(at, |_| idle_ns, places) else { return false };
        out.hygiene().idle += 1;
        self.end(slot, Some(Ending::Idle), out);
        true
    }

    /// If there are too many connections, drops the most idle one of a few.
    fn make_room(&mut self, out: &mut Output<'_>) {
        if self.live() < self.limits.connections.max(1) {
            return;
        }
        if let Some(slot) = self.table.most_idle(CANDIDATES) {
            out.hygiene().evicted += 1;
            self.end(slot, Some(Ending::Evicted), out);
        }
    }

    fn end(&mut self, slot: Slot, ending: Option<Ending>, out: &mut Output<'_>) {
        let Some((key, connection)) = self.table.remove(slot) else { return };
        self.ids.update(slot, connection.ids(), [None; 2], &self.table);
        self.held = self.held.saturating_sub(connection.held());
        if connection.is_quic() {
            out.emit(|_| connection.end(&key, ending));
        } else {
            out.forget(connection.number);
        }
    }
}

/// The connections in progress at the end, in the order in which they began.
pub(super) struct Rest(std::vec::IntoIter<(Key, Connection)>);

impl Rest {
    /// The number of the next connection.
    pub(super) fn number(&self) -> Option<u64> {
        self.0.as_slice().first().map(|(_, connection)| connection.number)
    }

    pub(super) fn next(&mut self) -> Option<Observed> {
        self.0.next().map(|(key, connection)| connection.end(&key, None))
    }
}
