//! Assigns TCP segments to connections.
//!
//! In: segments with their times. Out: one [`Observed`] per connection. The numbers of connections, of half-open ones
//! and of buffered bytes are limited. The client is told from SYNs and hellos, never from ports.

mod again;
mod copies;
mod flow;
mod half;
mod nagle;

use std::collections::VecDeque;

use super::Time;
use super::layers::{Packet, Segment};
use super::limits::Limits;
use super::numbers::{Output, Spent};
use super::observed::{Ending, Observed};
use super::table::{Key, Slot, Table};
use flow::{Flow, Taken};

/// After this many packets, [`SWEPT`] places of the table are checked for idle connections.
const SWEEP_EVERY: u64 = 16;
const SWEPT: usize = 4;
/// Number of connections from which the most idle one is dropped if there are too many.
const CANDIDATES: usize = 16;
/// How long to wait for late packets of a closed connection.
const AFTER_CLOSE_NS: i64 = 10_000_000_000;

/// The TCP connections in progress.
#[derive(Debug)]
pub(super) struct Connections {
    table: Table<Flow>,
    limits: Limits,
    /// Half-open connections, oldest first. Those that have since opened stay in it for a while.
    half_open: VecDeque<(Slot, u64)>,
    half_open_count: usize,
    held: usize,
    packets: u64,
    /// The connection of the last segment.
    latest: Option<u64>,
}

impl Connections {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            table: Table::new(limits.seed),
            limits,
            half_open: VecDeque::new(),
            half_open_count: 0,
            held: 0,
            packets: 0,
            latest: None,
        }
    }

    pub(super) fn live(&self) -> usize {
        self.table.len()
    }

    /// The number of the connection of the last segment.
    pub(super) const fn latest(&self) -> Option<u64> {
        self.latest
    }

    /// Takes the next segment.
    #[inline]
    pub(super) fn segment(
        &mut self,
        at: Time,
        packet: &Packet<'_>,
        segment: &Segment<'_>,
        out: &mut Output<'_>,
    ) {
        self.packets += 1;
        self.latest = None;
        if self.packets.is_multiple_of(SWEEP_EVERY) {
            self.sweep(at, out);
        }
        let (key, side) = Key::from_endpoints(packet.source, packet.destination);
        let mut slot = self.table.find(&key);
        if let Some(old) = slot
            && segment.has(Segment::SYN)
            && self.table.get(old).is_some_and(|flow| flow.is_replaced_by(side, segment, at))
        {
            out.hygiene.port_reuses += 1;
            self.remove(old, Some(Ending::Replaced), out);
            slot = None;
        }
        let slot = match slot {
            Some(slot) => slot,
            None => {
                // The end of an unknown connection does not begin one.
                if segment.has(Segment::RST) {
                    return;
                }
                self.insert(key, at, side, out)
            }
        };
        let Some(flow) = self.table.get_mut(slot) else { return };
        self.latest = Some(flow.number());
        let was_half_open = flow.is_half_open();
        let taken = flow.segment(at, side, packet, segment, out.hygiene);
        if !out.timed {
            flow.untimed();
        }
        if let Some(id) = flow.take_issued() {
            out.issue(id);
        }
        if was_half_open && !flow.is_half_open() {
            self.half_open_count = self.half_open_count.saturating_sub(1);
        }
        if let Taken::Held(before, after) = taken {
            self.held = (self.held + after).saturating_sub(before);
            if self.held > self.limits.held_bytes {
                out.hygiene.held_overflow += 1;
                let let_go = flow.let_go(at);
                self.held = self.held.saturating_sub(let_go);
            }
        }
    }

    /// Ends the capture: returns the connections still in progress.
    pub(super) fn rest(&mut self) -> Rest {
        self.half_open.clear();
        let table = std::mem::replace(&mut self.table, Table::new(self.limits.seed));
        let mut order: Vec<(u64, Slot)> =
            table.flows().map(|(slot, flow)| (flow.number(), slot)).collect();
        order.sort_unstable();
        Rest { table, order: order.into_iter() }
    }

    fn insert(&mut self, key: Key, at: Time, side: usize, out: &mut Output<'_>) -> Slot {
        if self.table.len() >= self.limits.connections
            && let Some(idle) = self.table.most_idle(CANDIDATES)
        {
            out.hygiene.evicted += 1;
            self.remove(idle, Some(Ending::Evicted), out);
        }
        let number = out.begin();
        let flow = Flow::new(number, at, side, self.limits.exchanges);
        let slot = self.table.insert(key, flow);
        self.half_open_count += 1;
        self.half_open.push_back((slot, number));
        self.bound_half_open(out);
        slot
    }

    /// Keeps the half-open connections, and their queue, within the limit.
    fn bound_half_open(&mut self, out: &mut Output<'_>) {
        while let Some((slot, number)) = self.half_open.front().copied() {
            let flow = self.table.get(slot).filter(|flow| flow.number() == number);
            let waiting = flow.is_some_and(Flow::is_half_open);
            if waiting && self.half_open_count <= self.limits.half_open {
                break;
            }
            self.half_open.pop_front();
            if waiting {
                out.hygiene.half_open_evicted += 1;
                self.half_open_count -= 1;
                self.table.remove(slot);
                out.forget(number);
            }
        }
        if self.half_open.len() > 2 * self.limits.half_open.max(1024) {
            let table = &self.table;
            self.half_open.retain(|(slot, number)| {
                table.get(*slot).is_some_and(|f| f.number() == *number && f.is_half_open())
            });
        }
    }

    /// Reports all connections that are idle at `at`.
    pub(super) fn advance(&mut self, at: Time, out: &mut Output<'_>) {
        while self.sweep_some(at, usize::MAX, out) {}
    }

    fn sweep(&mut self, at: Time, out: &mut Output<'_>) {
        self.sweep_some(at, SWEPT, out);
    }

    /// Reports the first idle connection in the next `places`. Returns false if there is none.
    fn sweep_some(&mut self, at: Time, places: usize, out: &mut Output<'_>) -> bool {
        let idle_ns = self.limits.idle_ns;
        let limit = |flow: &Flow| if flow.is_closed() { AFTER_CLOSE_NS } else { idle_ns };
        let Some(slot) = self.table.next_idle(at, limit, places) else { return false };
        let closed = self.table.get(slot).is_some_and(Flow::is_closed);
        out.hygiene.idle += u64::from(!closed);
        self.remove(slot, (!closed).then_some(Ending::Idle), out);
        true
    }

    fn remove(&mut self, slot: Slot, ending: Option<Ending>, out: &mut Output<'_>) {
        let (half_open_count, held) = (&mut self.half_open_count, &mut self.held);
        self.table.end(slot, |key, flow| {
            if flow.is_half_open() {
                *half_open_count = half_open_count.saturating_sub(1);
            }
            *held = held.saturating_sub(flow.held());
            out.emit(|spent| flow.end(key, ending, spent));
        });
    }
}

/// The connections in progress at the end, in the order in which they began.
pub(super) struct Rest {
    table: Table<Flow>,
    /// Numbers of the connections, with their slots.
    order: std::vec::IntoIter<(u64, Slot)>,
}

impl Rest {
    /// The number of the next connection.
    pub(super) fn number(&self) -> Option<u64> {
        self.order.as_slice().first().map(|(number, _)| *number)
    }

    /// The next connection, in the memory of `spent`.
    pub(super) fn next(&mut self, spent: Spent) -> Option<Observed> {
        let (_, slot) = self.order.next()?;
        let mut ended = None;
        self.table.end(slot, |key, flow| ended = Some(flow.end(key, None, spent)));
        ended
    }
}
