//! How many connections per second a server can sustain, full and resumed, as far as a capture shows it.
//!
//! In: [`Observed`] connections, in any order. Out: one [`ServerCapacity`] per carrier, address and port. A `Visit` is
//! the time from the arrival of a client's flight to the server's answer; `estimate::judge` computes the capacity from
//! many of these. The definitions are in `docs/measurement.md`, "Capacity". No capacity is stated for a server at which
//! nothing waited. Memory is bounded ([`CapacityLimits`]).

mod estimate;
mod queue;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::time::Duration;

use firstbyte_core::stats::Interval;
use firstbyte_core::timeline::Handshake;

use crate::layers::Endpoint;
use crate::observed::{Carrier, Observed};
use crate::timing::nanoseconds;
use crate::{Roles, Time};

pub use estimate::{AtOnce, Capacity, Demand, Standing};

/// Kinds of handshake: full, resumed.
pub const KINDS: usize = 2;

/// Time that a handshake, or a part of one, spent in the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Visit {
    /// When the client's flight had arrived at the server, nanoseconds.
    pub(crate) from: i64,
    /// When the server's answer left, nanoseconds.
    pub(crate) until: i64,
    /// Whether a session was resumed.
    pub(crate) resumed: bool,
    /// Whether this is the first visit of its handshake: the answer to the ClientHello.
    pub(crate) first: bool,
}

/// Limits of the state kept in memory.
#[derive(Clone, Copy, Debug)]
pub struct CapacityLimits {
    /// Number of servers. Connections of later ones are only counted.
    pub servers: usize,
    /// Number of handshakes, over all servers. Later ones are only counted.
    pub handshakes: usize,
}

impl Default for CapacityLimits {
    /// 1,024 servers, and about 64 MiB of times.
    fn default() -> Self {
        Self { servers: 1 << 10, handshakes: 1 << 20 }
    }
}

/// Capacity of one server, and its load.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerCapacity {
    /// Protocol that carries its connections.
    pub carrier: Carrier,
    /// Address and port.
    pub server: Endpoint,
    /// The server name that its connections requested; absent if they requested none or several.
    pub sni: Option<Box<str>>,
    /// Number of handshakes: full, resumed.
    pub handshakes: [u64; KINDS],
    /// How many of these are not in the times, because their times are in doubt or the limit was reached.
    pub untimed: u64,
    /// Most handshakes that ended within one second; absent if all ended within less than a second.
    pub most_per_second: Option<u64>,
    /// Length of a time slot, and the handshakes of each slot.
    pub slots: (Duration, Vec<Slot>),
    /// Capacity computed from the handshakes' times.
    pub capacity: Capacity,
}

/// Handshakes that ended in one time slot.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Slot {
    /// Number of handshakes: full, resumed.
    pub handshakes: [u64; KINDS],
    /// Mean time in the server of those with known times, seconds.
    pub server_seconds: Option<f64>,
}

/// When a handshake ended.
#[derive(Clone, Copy, Debug)]
struct End {
    at: Time,
    resumed: bool,
    /// Time in the server; absent if in doubt.
    server: Option<Duration>,
}

#[derive(Debug, Default)]
struct Load {
    sni: Option<Box<str>>,
    several_names: bool,
    handshakes: [u64; KINDS],
    untimed: u64,
    ends: Vec<End>,
    visits: Vec<Visit>,
}

/// Collects connections by server, with the times of their handshakes in the server.
#[derive(Debug, Default)]
pub struct Capacities {
    limits: CapacityLimits,
    servers: HashMap<(Carrier, Endpoint), Load>,
    kept: usize,
    left_out: u64,
}

impl Capacities {
    /// Creates an empty collection.
    pub fn new(limits: CapacityLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Adds a connection. Only connections whose handshake is known to be full or resumed count.
    pub fn add(&mut self, observed: &Observed) {
        let Some(tls) = observed.tls.as_deref().filter(|_| observed.roles != Roles::Unknown) else {
            return;
        };
        let Some(handshake) = tls.handshake else { return };
        let key = (observed.carrier, observed.server);
        if self.servers.len() >= self.limits.servers && !self.servers.contains_key(&key) {
            self.left_out += 1;
            return;
        }
        let load = self.servers.entry(key).or_default();
        load.name(tls.sni.as_deref());
        let resumed = handshake == Handshake::Resumed;
        load.handshakes[usize::from(resumed)] += 1;
        if self.kept >= self.limits.handshakes {
            load.untimed += 1;
            return;
        }
        self.kept += 1;
        load.add(observed, resumed);
    }

    /// Number of connections to servers beyond the limit.
    pub const fn left_out(&self) -> u64 {
        self.left_out
    }

    /// All servers, sorted by falling number of handshakes.
    pub fn summaries(&self) -> Vec<ServerCapacity> {
        let mut all: Vec<ServerCapacity> = self
            .servers
            .iter()
            .map(|((carrier, server), load)| load.summary(*carrier, *server))
            .collect();
        all.sort_by_key(|one| (std::cmp::Reverse(one.handshakes.iter().sum::<u64>()), one.server));
        all
    }
}

/// Largest number of time slots per server.
const SLOTS: i64 = 120;
const SECOND_NS: i64 = 1_000_000_000;

impl Load {
    fn name(&mut self, sni: Option<&str>) {
        if self.handshakes == [0; KINDS] {
            self.sni = sni.map(Box::from);
        } else if self.sni.as_deref() != sni {
            self.several_names = true;
        }
    }

    fn add(&mut self, observed: &Observed, resumed: bool) {
        let timed = observed.handshake_time.filter(|time| time.confident);
        self.untimed += u64::from(timed.is_none());
        // If frames have no times, the handshake has no end time either.
        if let Some(last) = observed.flights.last().filter(|_| observed.handshake_time.is_some()) {
            let server = timed.map(|time| time.server);
            self.ends.push(End { at: last.end, resumed, server });
        }
        if let Some(time) = timed {
            self.visits.extend(visits(observed, time.server, resumed));
        }
    }

    fn summary(&self, carrier: Carrier, server: Endpoint) -> ServerCapacity {
        let mut ends = self.ends.clone();
        ends.sort_by_key(|end| end.at);
        let timed: u64 = self.handshakes.iter().sum::<u64>() - self.untimed;
        ServerCapacity {
            carrier,
            server,
            sni: self.sni.clone().filter(|_| !self.several_names),
            handshakes: self.handshakes,
            untimed: self.untimed,
            most_per_second: most_per_second(&ends),
            slots: slots(&ends),
            capacity: estimate::judge(&self.visits, timed, self.untimed),
        }
    }
}

/// The visits of a handshake: from the last byte of a client's flight to the first byte of the answer, both at the
/// server. They took `server` in total; the round trip between tap and server follows from that.
fn visits(observed: &Observed, server: Duration, resumed: bool) -> Vec<Visit> {
    let flights = &observed.flights;
    let answered = flights.windows(2).filter(|pair| pair[0].by_client && !pair[1].by_client);
    let waits: Vec<(i64, i64)> =
        answered.map(|pair| (pair[0].end.unix_ns(), pair[1].start.unix_ns())).collect();
    let Ok(count) = i64::try_from(waits.len()) else { return Vec::new() };
    if count == 0 {
        return Vec::new();
    }
    let waited: i64 = waits.iter().map(|(from, until)| until - from).sum();
    let half = ((waited - nanoseconds(server)) / count).max(0) / 2;
    waits
        .iter()
        .enumerate()
        .map(|(place, (from, until))| {
            let from = from + half;
            Visit { from, until: (until - half).max(from), resumed, first: place == 0 }
        })
        .collect()
}

/// Most handshakes that ended within any one second.
fn most_per_second(ends: &[End]) -> Option<u64> {
    let (first, last) = (ends.first()?.at, ends.last()?.at);
    if last.signed_since(first) < SECOND_NS {
        return None;
    }
    let (mut behind, mut most) = (0, 0);
    for (place, end) in ends.iter().enumerate() {
        while end.at.signed_since(ends[behind].at) >= SECOND_NS {
            behind += 1;
        }
        most = most.max(place - behind + 1);
    }
    Some(most as u64)
}

/// Slots of whole seconds, as short as [`SLOTS`] allows.
fn slots(ends: &[End]) -> (Duration, Vec<Slot>) {
    let Some((first, last)) = ends.first().zip(ends.last()) else {
        return (Duration::ZERO, Vec::new());
    };
    let seconds = last.at.signed_since(first.at) / SECOND_NS + 1;
    let length = (seconds + SLOTS - 1) / SLOTS * SECOND_NS;
    let count = last.at.signed_since(first.at) / length + 1;
    let mut slots = vec![(Slot::default(), 0_u64, 0.0); usize::try_from(count).unwrap_or(0)];
    for end in ends {
        let place = usize::try_from(end.at.signed_since(first.at) / length).unwrap_or(0);
        let Some((slot, timed, sum)) = slots.get_mut(place) else { continue };
        slot.handshakes[usize::from(end.resumed)] += 1;
        if let Some(server) = end.server {
            *timed += 1;
            *sum += server.as_secs_f64();
        }
    }
    let mean = |(slot, timed, sum): (Slot, u64, f64)| Slot {
        server_seconds: (timed > 0).then(|| sum / timed as f64),
        ..slot
    };
    (Duration::from_nanos(length.unsigned_abs()), slots.into_iter().map(mean).collect())
}

impl ServerCapacity {
    /// Connections per second of this kind that the server can sustain; absent if unknown.
    pub fn sustained(&self, resumed: bool) -> Option<(f64, Interval)> {
        match self.capacity.standing {
            Standing::Queueing { .. } => Some(self.capacity.demands[usize::from(resumed)]?.rate()),
            _ => None,
        }
    }
}
