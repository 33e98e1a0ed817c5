//! Recomputes a page's times with something changed.
//!
//! Input: the dependency graph, and the changes. Output: when each request had its response, and when the page was
//! loaded. Without a change, these are the observed times, to the nanosecond.

use super::graph::{Link, Node, Ns, PageGraph, Request, Trigger};

/// The changes to one connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LinkChange {
    /// It is open from the beginning.
    pub(super) open: bool,
    /// Round trips of its set-up, if changed.
    pub(super) trips: Option<i64>,
    /// How much less time its set-up takes besides.
    pub(super) less: Ns,
    /// Its round trip, if changed.
    pub(super) round_trip: Option<Ns>,
    /// Another connection that carries its requests instead.
    pub(super) replaced_by: Option<usize>,
    /// Its requests do not wait for turns: responses arrive in parallel.
    pub(super) multiplexed: bool,
    /// Whether the round trips that responses waited for the sender's window disappear.
    pub(super) window_open: bool,
}

/// Changes by connection.
#[derive(Clone, Debug)]
pub(super) struct Alteration {
    pub(super) links: Vec<LinkChange>,
}

/// Times after a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Replayed {
    pub(super) first_byte: Ns,
    pub(super) load: Ns,
}

impl Alteration {
    pub(super) fn none(graph: &PageGraph) -> Self {
        Self { links: vec![LinkChange::default(); graph.connections.len()] }
    }
}

/// Times of the requests computed so far.
struct Times<'a> {
    graph: &'a PageGraph,
    changed: &'a Alteration,
    asked: Vec<Ns>,
    ready: Vec<Option<Ns>>,
    first_byte: Vec<Ns>,
    end: Vec<Ns>,
}

/// Replays the page with `changed`.
pub(super) fn replay(graph: &PageGraph, changed: &Alteration) -> Replayed {
    let (requests, connections) = (graph.requests.len(), graph.connections.len());
    let mut times = Times {
        graph,
        changed,
        asked: vec![0; requests],
        ready: vec![None; connections],
        first_byte: vec![0; requests],
        end: vec![0; requests],
    };
    for node in &graph.order {
        match *node {
            Node::Asked(request) => {
                times.asked[request] = times.after(&graph.requests[request].trigger)
            }
            Node::Ready(connection) => times.ready[connection] = times.ready_at(connection),
            Node::Done(request) => times.exchange(request),
        }
    }
    let first_byte = times.first_byte.get(graph.document).copied().unwrap_or_default();
    Replayed { first_byte, load: times.after(&graph.end) }
}

impl Times<'_> {
    /// When everything that `trigger` waits for is complete, plus its gap.
    fn after(&self, trigger: &Trigger) -> Ns {
        let within = trigger.within.map(|(by, far, of)| {
            let now = i128::from(self.end[by] - self.first_byte[by]);
            let share = now * i128::from(far) / i128::from(of.max(1));
            self.first_byte[by] + i64::try_from(share).unwrap_or_default()
        });
        let ends = trigger.after.iter().map(|request| self.end[*request]);
        ends.chain(within).max().unwrap_or(0) + trigger.gap
    }

    /// The connection that carries requests of `connection`, and its changes.
    fn link(&self, connection: usize) -> (usize, &Link, LinkChange) {
        let place = self.changed.links[connection].replaced_by.unwrap_or(connection);
        (place, &self.graph.connections[place], self.changed.links[place])
    }

    fn ready_at(&self, connection: usize) -> Option<Ns> {
        let (link, change) = (&self.graph.connections[connection], self.changed.links[connection]);
        let (set_up, opener) = (link.set_up?, link.opener?);
        if change.open {
            return None;
        }
        let round_trip = change.round_trip.or(link.round_trip).unwrap_or_default();
        let trips = change.trips.unwrap_or(set_up.trips);
        Some(self.asked[opener] + set_up.before + trips * round_trip + set_up.rest - change.less)
    }

    fn exchange(&mut self, place: usize) {
        let request = &self.graph.requests[place];
        let mut sent = self.asked[place];
        let mut round_trip = 0;
        let mut window_open = false;
        let mut multiplexed = false;
        if let Some(connection) = request.connection {
            let own = self.changed.links[connection];
            let (used, link, change) = self.link(connection);
            sent = sent.max(self.ready[used].unwrap_or(sent));
            round_trip = change.round_trip.or(link.round_trip).unwrap_or_default();
            window_open = change.window_open || own.window_open;
            multiplexed = change.multiplexed || own.multiplexed;
        }
        for turn in request.turns.iter().filter(|_| !multiplexed) {
            sent = sent.max(self.end[*turn]);
        }
        sent += request.hold;
        let (wait, transfer) = trips(request, window_open);
        self.first_byte[place] = sent + wait * round_trip + request.server;
        self.end[place] = self.first_byte[place] + transfer * round_trip + request.transfer;
    }
}

/// Round trips before and after the first byte; with an open window, none are spent waiting for the window.
fn trips(request: &Request, window_open: bool) -> (i64, i64) {
    match window_open {
        true => (request.wait_trips.min(1), 0),
        false => (request.wait_trips, request.transfer_trips),
    }
}
