//! Infers the properties of a server's sending side from one connection or many.
//!
//! Input: connections to one address. Output: the [`ServerModel`]s that fit, likeliest first. `judge` tests one
//! connection's arrivals against a hypothesis about the server's TCP; its costs are negative logarithms of odds.
//! Connections made alike count with their mean, and those means add up. QUIC has rules of its own (`split/quic.rs`)
//! instead of models. Definitions: `docs/measurement.md`.

mod acks;
pub mod constants;
pub(crate) mod judge;
mod sender;

use std::time::Duration;

pub(crate) use acks::By;
pub(crate) use constants::{OUT_COST, REFUTED_COST};
pub use judge::Why;
pub(crate) use judge::{Judge, Reading, Release, Released, RoundTripTimes, ServerCost};

use crate::split::{ObservedConnection, judge_of, server_costs};
use crate::timeline::{Connection, Handshake};
use constants::*;
use judge::window_prior;

/// Maximum number of connections of one kind to examine, spread evenly over all.
const MOST_CONNECTIONS: usize = 12;

/// Properties shared by all connections to a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerModel {
    /// Packets in the initial congestion window; absent if no window ever fills.
    pub initial_window: Option<u32>,
    /// Whether Nagle's algorithm is enabled, over HTTP/1 and over HTTP/2.
    pub nagle: [bool; 2],
    /// Whether the server's TCP accepts little unacknowledged data.
    pub full_buffer: bool,
}

impl ServerModel {
    /// Whether Nagle's algorithm is enabled for `connection`'s HTTP version: servers choose it with the protocol.
    pub fn has_nagle(&self, connection: &Connection) -> bool {
        self.nagle[http_index(connection)]
    }
}

fn http_index(connection: &Connection) -> usize {
    let tls = connection.facts.tls.as_ref();
    usize::from(tls.and_then(|tls| tls.alpn.as_deref()) == Some("h2"))
}

/// The possible models of a server, given its connections.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerFit {
    /// Models with their extra cost over the first, likeliest first. Empty if no connection is informative.
    pub models: Vec<(f64, ServerModel)>,
    /// Bits per second of the slowest link from the server, if more connections prove it than chance would.
    pub link_rate: Option<u64>,
    /// The server's time for an unobstructed response, if known.
    pub think: Option<Duration>,
}

/// Common properties of connections made alike: they say the same about their server, and err in the same way.
#[derive(PartialEq, Eq)]
struct ConnectionKind {
    url: String,
    http: usize,
    tls: Option<String>,
    handshake: Option<Handshake>,
    early_data: bool,
}

impl ConnectionKind {
    fn from_connection(connection: &Connection) -> Self {
        let tls = connection.facts.tls.as_ref();
        Self {
            url: connection.url.clone(),
            http: http_index(connection),
            tls: tls.and_then(|tls| tls.version.clone()),
            handshake: tls.and_then(|tls| tls.handshake),
            early_data: tls.is_some_and(|tls| tls.early_data.is_some()),
        }
    }
}

/// One connection's costs, by server.
struct CostTable {
    costs: Vec<ServerCost>,
    least: f64,
    tickets_with_settings: bool,
}

impl CostTable {
    fn from_connection(
        connection: &Connection,
        link_rate: Option<u64>,
        think: Option<Duration>,
    ) -> Option<Self> {
        let observed = ObservedConnection::from_connection(connection, link_rate);
        let (judge, path) = judge_of(&observed)?;
        let mut judge = judge.with_think(think);
        let costs = server_costs(&mut judge, &path);
        let least = costs.iter().map(|cost| cost.cost).min_by(f64::total_cmp)?;
        Some(Self { costs, least, tickets_with_settings: judge.has_tickets_with_settings() })
    }

    /// Cost of the arrivals if they came from such a server. A window or buffer that holds all data never fills.
    fn cost(&self, model: &ServerModel, http: usize) -> f64 {
        let nagle = model.nagle[http];
        let find = |window: Option<u32>, buffer: bool| {
            self.costs.iter().find(|cost| {
                let server = cost.server;
                (server.window, server.nagle, server.buffer) == (window, nagle, buffer)
            })
        };
        let ServerModel { initial_window, full_buffer, .. } = *model;
        let cost = find(initial_window, full_buffer)
            .or_else(|| find(None, full_buffer))
            .or_else(|| find(initial_window, false))
            .or_else(|| find(None, false));
        let most = self.least + REFUTED_COST;
        cost.map_or(most, |cost| cost.cost.min(most))
    }
}

/// Connections that were made alike.
struct AlikeConnections {
    kind: ConnectionKind,
    tables: Vec<CostTable>,
}

impl AlikeConnections {
    /// Mean cost of these connections' arrivals if they came from such a server.
    fn cost(&self, model: &ServerModel) -> f64 {
        let costs = self.tables.iter().map(|table| table.cost(model, self.kind.http));
        costs.sum::<f64>() / self.tables.len().max(1) as f64
    }
}

impl ServerFit {
    /// Fits models to connections to one address. `think` is the server's time for an unobstructed response, if known:
    /// on a connection that was already open.
    pub fn from_connections<'a>(
        connections: impl IntoIterator<Item = &'a Connection>,
        think: Option<Duration>,
    ) -> Self {
        let mut by_kind: Vec<(ConnectionKind, Vec<&Connection>)> = Vec::new();
        // A reused connection does not begin with the initial window.
        for connection in
            connections.into_iter().filter(|c| c.facts.tcp.is_some() && !c.facts.reused)
        {
            let kind = ConnectionKind::from_connection(connection);
            match by_kind.iter_mut().find(|(other, _)| *other == kind) {
                Some((_, all)) => all.push(connection),
                None => by_kind.push((kind, vec![connection])),
            }
        }
        for (_, all) in &mut by_kind {
            let step = all.len().div_ceil(MOST_CONNECTIONS).max(1);
            *all = all.iter().step_by(step).copied().collect();
        }
        let link_rate = proven_link_rate(by_kind.iter().flat_map(|(_, all)| all).copied());
        let alike = by_kind.into_iter().map(|(kind, all)| {
            let table =
                |connection: &Connection| CostTable::from_connection(connection, link_rate, think);
            AlikeConnections { kind, tables: all.into_iter().filter_map(table).collect() }
        });
        let alike: Vec<AlikeConnections> = alike.filter(|alike| !alike.tables.is_empty()).collect();
        if alike.is_empty() {
            return Self { models: Vec::new(), link_rate, think };
        }
        let priced = |model: ServerModel| {
            let arrivals: f64 = alike.iter().map(|alike| alike.cost(&model)).sum();
            (prior(&model, &alike) + arrivals, model)
        };
        let mut models: Vec<(f64, ServerModel)> = possible(&alike).map(priced).collect();
        models.sort_by(|a, b| a.0.total_cmp(&b.0));
        let best = models.first().map_or(0.0, |(cost, _)| *cost);
        models.retain_mut(|(cost, _)| {
            *cost -= best;
            *cost <= OUT_COST
        });
        Self { models, link_rate, think }
    }

    /// The likeliest model.
    pub fn best(&self) -> Option<ServerModel> {
        self.models.first().map(|(_, model)| *model)
    }

    /// The likeliest model, and those that explain the arrivals differently, with their odds against it: other windows
    /// below the usual one, Nagle's algorithm on or off, a small send buffer or not.
    pub fn rivals(&self) -> Vec<(f64, ServerModel)> {
        let kind = |model: &ServerModel| {
            let small = model.initial_window.filter(|window| *window < USUAL_WINDOW_PACKETS);
            (small, model.nagle, model.full_buffer)
        };
        let mut rivals: Vec<(f64, ServerModel)> = Vec::new();
        for (cost, model) in &self.models {
            if rivals.iter().all(|(_, other)| kind(other) != kind(model)) {
                rivals.push(((-cost).exp(), *model));
            }
        }
        rivals
    }

    /// The smallest and the largest initial window in packets, if a window fills in every model.
    pub fn initial_windows(&self) -> Option<(u32, u32)> {
        let windows: Option<Vec<u32>> =
            self.models.iter().map(|(_, model)| model.initial_window).collect();
        let windows = windows?;
        Some((*windows.iter().min()?, *windows.iter().max()?))
    }
}

/// All models that differ for at least one of the connections, the usual ones first.
fn possible(alike: &[AlikeConnections]) -> impl Iterator<Item = ServerModel> {
    // Of equally costly models the first is taken: on another path, the usual window may fill.
    let usual = [Some(USUAL_WINDOW_PACKETS), None].into_iter();
    let others = (1..=LARGEST_WINDOW_PACKETS).filter(|window| *window != USUAL_WINDOW_PACKETS);
    let windows = usual.chain(others.map(Some));
    let [http1, http2] = [0, 1].map(|http| alike.iter().any(|alike| alike.kind.http == http));
    let mut costs = alike.iter().flat_map(|alike| &alike.tables).flat_map(|table| &table.costs);
    let buffers = costs.any(|cost| cost.server.buffer);
    let either = |both: bool| if both { &[false, true][..] } else { &[false][..] };
    let servers =
        windows.flat_map(move |window| either(buffers).iter().map(move |buffer| (window, *buffer)));
    servers.flat_map(move |(initial_window, full_buffer)| {
        either(http1).iter().flat_map(move |one| {
            either(http2).iter().map(move |two| ServerModel {
                initial_window,
                nagle: [*one, *two],
                full_buffer,
            })
        })
    })
}

/// Prior cost of a server with these properties.
fn prior(model: &ServerModel, alike: &[AlikeConnections]) -> f64 {
    let nagle = |http: usize| {
        let of_it = alike.iter().filter(|alike| alike.kind.http == http);
        let tables: Vec<&CostTable> = of_it.flat_map(|alike| &alike.tables).collect();
        let together = tables.iter().filter(|table| table.tickets_with_settings).count();
        match (model.nagle[http], together * 2 > tables.len()) {
            (false, _) => 0.0,
            (true, false) => NAGLE_COST,
            (true, true) => NAGLE_COST + TICKETS_AND_SETTINGS_COST,
        }
    };
    let buffer = if model.full_buffer { BUFFER_COST } else { 0.0 };
    window_prior(model.initial_window) + nagle(0) + nagle(1) + buffer
}

/// Median of the rates that individual connections prove, if more do than chance would.
fn proven_link_rate<'a>(connections: impl Iterator<Item = &'a Connection>) -> Option<u64> {
    let rate = |c: &Connection| ObservedConnection::from_connection(c, None).link_rate();
    let all: Vec<Option<u64>> = connections.map(rate).collect();
    let mut rates: Vec<u64> = all.iter().flatten().copied().collect();
    rates.sort_unstable();
    let median = rates.get(rates.len() / 2).copied();
    median.filter(|_| rates.len() >= fewest_not_by_chance(all.len()))
}

/// The fewest proofs that chance produces in less than one of twenty experiments with this many connections.
///
/// This is the tail of a binomial distribution, with the bound for one proof from `docs/measurement.md`, "A slow
/// link".
fn fewest_not_by_chance(connections: usize) -> usize {
    const BY_CHANCE: f64 = 0.045;
    const LEVEL: f64 = 0.05;
    let (mut exactly, mut at_least) = ((1.0 - BY_CHANCE).powf(connections as f64), 1.0);
    for proofs in 0..connections {
        if at_least < LEVEL {
            return proofs;
        }
        at_least -= exactly;
        exactly *=
            (connections - proofs) as f64 / (proofs + 1) as f64 * BY_CHANCE / (1.0 - BY_CHANCE);
    }
    connections.max(1)
}

#[cfg(test)]
mod tests {
    #[test]
    fn proofs_that_chance_does_not_give() {
        let fewest = [1, 2, 5, 9, 20, 100].map(super::fewest_not_by_chance);
        // Of five connections, one or more by chance: 1 - 0.955^5 = 0.21; two or more: 0.019. Of nine, two or more:
        // 0.059; three or more: 0.006.
        assert_eq!(fewest, [1, 2, 2, 3, 4, 9]);
    }
}
