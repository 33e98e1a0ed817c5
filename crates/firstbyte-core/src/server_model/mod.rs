//! What the sending side of a server is like, from the arrivals of one connection or of many.
//!
//! Input: connections to one address. Output: the [`ServerModel`]s that fit, the likeliest first. `judge` holds the
//! arrivals of one connection against a hypothesis about the server's TCP; its costs are negative logarithms of odds, so
//! those of several connections add up: what one leaves open, others decide. A delay that all connections share is priced
//! once, for it is one server. Over QUIC there are no models: `split/quic.rs` has rules of its own. Definitions:
//! `docs/measurement.md`.

mod acks;
pub mod constants;
pub(crate) mod judge;
mod sender;

use std::collections::BTreeMap;
use std::time::Duration;

pub(crate) use acks::By;
pub(crate) use constants::{OUT_COST, REFUTED_COST};
pub use judge::Why;
pub(crate) use judge::{Judge, Reading, Release, Released, ServerCost, Way};

use crate::split::{ObservedConnection, judge_of, server_costs};
use crate::timeline::Connection;
use constants::*;
use judge::{Delay, window_prior};

/// Connections of one address that are looked at, at most, spread over all that there are.
const MOST_CONNECTIONS: usize = 32;

/// What all connections to a server have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerModel {
    /// Packets in the initial congestion window; absent where no window ever fills.
    pub initial_window: Option<u32>,
    /// Whether Nagle's algorithm is enabled, over HTTP/1 and over HTTP/2.
    pub nagle: [bool; 2],
    /// Its TCP takes only a little that is not acknowledged.
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

/// The models of a server that its connections leave possible.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerFit {
    /// With what each costs more than the first, the likeliest first. Nothing where no connection says anything.
    pub models: Vec<(f64, ServerModel)>,
    /// Bits per second of the slowest link on the way from the server, where more connections prove it than chance would.
    pub link_rate: Option<u64>,
}

/// One connection's costs, by server.
struct CostTable {
    http: usize,
    costs: Vec<ServerCost>,
    least: f64,
    noise: i64,
    tickets_with_settings: bool,
}

impl CostTable {
    fn of(connection: &Connection, link_rate: Option<u64>, think: Option<Duration>) -> Option<Self> {
        let observed = ObservedConnection::from_connection(connection, link_rate);
        let (judge, path) = judge_of(&observed)?;
        let mut judge = judge.with_think(think);
        let costs = server_costs(&mut judge, &path);
        let least = costs.iter().map(|cost| cost.cost).min_by(f64::total_cmp)?;
        Some(Self {
            http: http_index(connection),
            costs,
            least,
            noise: judge.noise_ns(),
            tickets_with_settings: judge.has_tickets_with_settings(),
        })
    }

    /// A window, or a buffer, that holds all there was never fills.
    fn get(&self, model: &ServerModel) -> Option<&ServerCost> {
        let nagle = model.nagle[self.http];
        let find = |window: Option<u32>, buffer: bool| {
            self.costs.iter().find(|cost| {
                let server = cost.server;
                (server.window, server.nagle, server.buffer) == (window, nagle, buffer)
            })
        };
        let ServerModel { initial_window, full_buffer, .. } = *model;
        find(initial_window, full_buffer)
            .or_else(|| find(None, full_buffer))
            .or_else(|| find(initial_window, false))
            .or_else(|| find(None, false))
    }
}

impl ServerFit {
    /// Fits models to connections to one address. `think` is what the server takes for a response that nothing can hold
    /// back, where that is known: on a connection that was open before.
    pub fn from_connections<'a>(
        connections: impl IntoIterator<Item = &'a Connection>,
        think: Option<Duration>,
    ) -> Self {
        // A connection that was open before does not begin with the initial window.
        let shows = |c: &&Connection| c.facts.tcp.is_some() && !c.facts.reused;
        let all: Vec<&Connection> = connections.into_iter().filter(shows).collect();
        let step = all.len().div_ceil(MOST_CONNECTIONS).max(1);
        let chosen: Vec<&Connection> = all.into_iter().step_by(step).collect();
        let link_rate = proven_link_rate(&chosen);
        let table = |connection: &&Connection| CostTable::of(connection, link_rate, think);
        let tables: Vec<CostTable> = chosen.iter().filter_map(table).collect();
        if tables.is_empty() {
            return Self { models: Vec::new(), link_rate };
        }
        let priced = |model: ServerModel| (prior(&model, &tables) + cost(&model, &tables), model);
        let mut models: Vec<(f64, ServerModel)> = possible(&tables).map(priced).collect();
        models.sort_by(|a, b| a.0.total_cmp(&b.0));
        let best = models.first().map_or(0.0, |(cost, _)| *cost);
        models.retain_mut(|(cost, _)| {
            *cost -= best;
            *cost <= OUT_COST
        });
        Self { models, link_rate }
    }

    /// The likeliest model.
    pub fn best(&self) -> Option<ServerModel> {
        self.models.first().map(|(_, model)| *model)
    }

    /// The smallest and the largest initial window in packets, where a window fills by every model.
    pub fn initial_windows(&self) -> Option<(u32, u32)> {
        let windows: Option<Vec<u32>> =
            self.models.iter().map(|(_, model)| model.initial_window).collect();
        let windows = windows?;
        Some((*windows.iter().min()?, *windows.iter().max()?))
    }
}

/// Every model that differs for one of the connections, the usual ones first.
fn possible(tables: &[CostTable]) -> impl Iterator<Item = ServerModel> {
    let usual = [None, Some(USUAL_WINDOW_PACKETS)].into_iter();
    let others = (1..=LARGEST_WINDOW_PACKETS).filter(|window| *window != USUAL_WINDOW_PACKETS);
    let windows = usual.chain(others.map(Some));
    let [http1, http2] = [0, 1].map(|http| tables.iter().any(|table| table.http == http));
    let buffers = tables.iter().any(|table| table.costs.iter().any(|cost| cost.server.buffer));
    let either = |both: bool| if both { &[false, true][..] } else { &[false][..] };
    let servers = windows.flat_map(move |window| {
        either(buffers).iter().map(move |buffer| (window, *buffer))
    });
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

/// How unlikely a server is that is like this.
fn prior(model: &ServerModel, tables: &[CostTable]) -> f64 {
    let nagle = |http: usize| {
        let of_it = || tables.iter().filter(|table| table.http == http);
        let together = of_it().filter(|table| table.tickets_with_settings).count();
        let contradicted = together * 2 > of_it().count();
        match (model.nagle[http], contradicted) {
            (false, _) => 0.0,
            (true, false) => NAGLE_COST,
            (true, true) => NAGLE_COST + TICKETS_AND_SETTINGS_COST,
        }
    };
    let buffer = if model.full_buffer { BUFFER_COST } else { 0.0 };
    window_prior(model.initial_window) + nagle(0) + nagle(1) + buffer
}

/// What the arrivals of all connections cost, came they from such a server.
fn cost(model: &ServerModel, tables: &[CostTable]) -> f64 {
    let mut sum = 0.0;
    let mut shared: BTreeMap<_, Vec<(Delay, i64)>> = BTreeMap::new();
    let mut count = 0;
    for table in tables {
        let Some(cell) = table.get(model).filter(|cell| cell.cost < table.least + REFUTED_COST)
        else {
            sum += table.least + REFUTED_COST;
            continue;
        };
        count += 1;
        sum += cell.cost - cell.delays.iter().map(|delay| delay.cost).sum::<f64>();
        for delay in &cell.delays {
            shared.entry((delay.place, delay.by_timer)).or_default().push((*delay, table.noise));
        }
    }
    sum + shared.values().map(|delays| delays_cost(delays, count)).sum::<f64>()
}

/// What delays at one place cost, of so many connections: each by itself, or one for all of them and what each differs
/// by from it.
fn delays_cost(delays: &[(Delay, i64)], connections: usize) -> f64 {
    let each: f64 = delays.iter().map(|(delay, _)| delay.cost).sum();
    let mut overs: Vec<i64> = delays.iter().map(|(delay, _)| delay.over).collect();
    overs.sort_unstable();
    let Some(&usual) = overs.get(overs.len() / 2) else { return 0.0 };
    let (Some((first, noise)), without) = (delays.first(), connections - delays.len()) else {
        return 0.0;
    };
    let once = delay_cost(usual, *noise) + first.idle;
    let apart = |(delay, noise): &(Delay, i64)| {
        let apart = (delay.over - usual).abs();
        if apart <= delay.free { 0.0 } else { delay.cost.min(delay_cost(apart, *noise) + delay.idle) }
    };
    let together = once * (1 + without) as f64 + delays.iter().map(apart).sum::<f64>();
    each.min(together)
}

/// The median of the rates that connections prove each for itself, where more do than chance would.
fn proven_link_rate(connections: &[&Connection]) -> Option<u64> {
    let rate = |c: &&Connection| ObservedConnection::from_connection(c, None).link_rate();
    let mut rates: Vec<u64> = connections.iter().filter_map(rate).collect();
    rates.sort_unstable();
    let median = rates.get(rates.len() / 2).copied();
    median.filter(|_| rates.len() >= fewest_not_by_chance(connections.len()))
}

/// The fewest proofs that chance gives in less than one of twenty experiments of so many connections: the tail of a
/// binomial distribution, with the bound for one proof from `docs/measurement.md`, "A slow link".
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
        // 1 - 0.955^5 = 0.21, of two or more 0.019; of nine two or more 0.059, three or more 0.006.
        assert_eq!(fewest, [1, 2, 2, 3, 4, 9]);
    }
}
