//! Connections by server: how many handshakes were full, how many short, and what both cost.
//!
//! In: [`Observed`] connections, in any order. Out: one [`ServerSummary`] per address, port and server
//! name. The definitions are in `docs/wire.md`, "Servers". It must not pool what is doubtful: times come from
//! handshakes without doubts alone, counts from all.

use std::collections::HashMap;
use std::time::Duration;

use super::layers::Endpoint;
use super::observed::{Carrier, Ending, Observed};
use super::{Roles, Time};
use crate::stats::quantile;
use crate::timeline::Handshake;

/// Which connections belong together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ServerKey {
    /// What carries them.
    pub carrier: Carrier,
    /// Address and port.
    pub server: Endpoint,
    /// The server name asked for.
    pub sni: Option<Box<str>>,
}

/// Connections of one server.
#[derive(Clone, Debug)]
struct Server {
    first: Time,
    last: Time,
    counts: Counts,
    /// Handshakes' times, nanoseconds.
    full_ns: Vec<u64>,
    short_ns: Vec<u64>,
    /// Exchanges' times, nanoseconds.
    exchange_ns: Vec<u64>,
}

/// How many connections are what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All.
    pub connections: u64,
    /// With a full handshake.
    pub full: u64,
    /// With a session taken up again.
    pub resumed: u64,
    /// With a ClientHello.
    pub hellos: u64,
    /// With a session offered.
    pub offered: u64,
    /// With a session offered, and a full handshake all the same.
    pub declined: u64,
    /// With a HelloRetryRequest.
    pub hello_retry_requests: u64,
    /// That sent early data.
    pub early_data: u64,
    /// Whose early data was taken.
    pub early_data_accepted: u64,
    /// That ended badly: refused, unanswered, reset before the handshake was over, or with an alert.
    pub errors: u64,
    /// Of the numbers of which something is in doubt.
    pub doubtful: u64,
    /// Exchanges that were answered.
    pub exchanges: u64,
}

/// Times of a kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Distribution {
    /// How many.
    pub count: usize,
    /// Median, seconds.
    pub p50_seconds: f64,
    /// 90th percentile, seconds.
    pub p90_seconds: f64,
    /// 99th percentile, seconds.
    pub p99_seconds: f64,
    /// Arithmetic mean, seconds.
    pub mean_seconds: f64,
}

impl Distribution {
    fn of(times_ns: &[u64]) -> Option<Self> {
        let mut sorted: Vec<f64> = times_ns.iter().map(|ns| *ns as f64 / 1e9).collect();
        sorted.sort_by(f64::total_cmp);
        Some(Self {
            count: sorted.len(),
            p50_seconds: quantile(&sorted, 0.5)?,
            p90_seconds: quantile(&sorted, 0.9)?,
            p99_seconds: quantile(&sorted, 0.99)?,
            mean_seconds: sorted.iter().sum::<f64>() / sorted.len() as f64,
        })
    }
}

/// What is known of one server.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerSummary {
    /// Which.
    pub key: ServerKey,
    /// How many connections are what.
    pub counts: Counts,
    /// First packet, and last.
    pub span: (Time, Time),
    /// Full handshakes' times.
    pub full: Option<Distribution>,
    /// Short handshakes' times.
    pub short: Option<Distribution>,
    /// Exchanges' times, from a request's first byte to its response's last.
    pub exchange: Option<Distribution>,
}

impl ServerSummary {
    /// How many times as long a full handshake takes as a short one, at the median.
    pub fn full_to_short(&self) -> Option<f64> {
        ratio(self.full?.p50_seconds, self.short?.p50_seconds)
    }

    /// How many times as long a full handshake takes as the exchange it is made for, at the median.
    pub fn full_to_exchange(&self) -> Option<f64> {
        ratio(self.full?.p50_seconds, self.exchange?.p50_seconds)
    }

    /// Share of the handshakes that were short.
    pub fn resumed_share(&self) -> Option<f64> {
        let all = self.counts.full + self.counts.resumed;
        (all > 0).then(|| self.counts.resumed as f64 / all as f64)
    }

    /// Handshakes in a second, from the first packet to the last; absent within less than a second.
    pub fn handshakes_per_second(&self) -> Option<f64> {
        let span = self.span.1.since(self.span.0).as_secs_f64();
        (span >= 1.0).then(|| (self.counts.full + self.counts.resumed) as f64 / span)
    }
}

fn ratio(above: f64, below: f64) -> Option<f64> {
    (below > 0.0).then_some(above / below)
}

/// Connections by server.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    servers: HashMap<ServerKey, Server>,
}

impl Groups {
    /// Adds a connection. One whose ends are not known to be client and server belongs to none.
    pub fn add(&mut self, observed: &Observed) {
        if observed.roles == Roles::Unknown {
            return;
        }
        let sni = observed.tls.as_ref().and_then(|tls| tls.sni.clone());
        let key = ServerKey { carrier: observed.carrier, server: observed.server, sni };
        self.servers
            .entry(key)
            .or_insert_with(|| Server {
                first: observed.started,
                last: observed.last,
                counts: Counts::default(),
                full_ns: Vec::new(),
                short_ns: Vec::new(),
                exchange_ns: Vec::new(),
            })
            .add(observed);
    }

    /// All servers, those with most connections first.
    pub fn summaries(&self) -> Vec<ServerSummary> {
        let mut all: Vec<ServerSummary> = self
            .servers
            .iter()
            .map(|(key, server)| ServerSummary {
                key: key.clone(),
                counts: server.counts,
                span: (server.first, server.last),
                full: Distribution::of(&server.full_ns),
                short: Distribution::of(&server.short_ns),
                exchange: Distribution::of(&server.exchange_ns),
            })
            .collect();
        all.sort_by(|a, b| {
            (b.counts.connections, a.key.server, &a.key.sni).cmp(&(
                a.counts.connections,
                b.key.server,
                &b.key.sni,
            ))
        });
        all
    }
}

impl Server {
    fn add(&mut self, observed: &Observed) {
        self.first = self.first.min(observed.started);
        self.last = self.last.max(observed.last);
        let counts = &mut self.counts;
        counts.connections += 1;
        counts.doubtful += u64::from(!observed.doubts.is_empty());
        counts.errors += u64::from(is_error(observed));
        counts.exchanges += u64::from(observed.exchanges.answered);
        self.exchange_ns.extend(observed.exchanges.first.iter().filter_map(|exchange| {
            Some(nanoseconds(exchange.response_end?.since(exchange.request_start)))
        }));
        let Some(tls) = &observed.tls else { return };
        counts.hellos += u64::from(tls.client_hello);
        counts.offered += u64::from(tls.resumption.offered.is_some());
        counts.declined += u64::from(tls.resumption.declined);
        counts.hello_retry_requests += u64::from(tls.hello_retry_request);
        if let Some(early) = &tls.early_data {
            counts.early_data += u64::from(early.bytes > 0);
            counts.early_data_accepted += u64::from(early.accepted == Some(true));
        }
        let times = match tls.handshake {
            Some(Handshake::Resumed) => {
                counts.resumed += 1;
                &mut self.short_ns
            }
            Some(_) => {
                counts.full += 1;
                &mut self.full_ns
            }
            None => return,
        };
        if let Some(time) = observed.handshake_time.filter(|time| time.confident) {
            times.push(nanoseconds(time.total()));
        }
    }
}

/// Whether it ended badly.
pub fn is_error(observed: &Observed) -> bool {
    let complete = observed.tls.as_ref().is_some_and(|tls| tls.complete);
    let alerted = observed.tls.as_ref().is_some_and(|tls| tls.alert.is_some());
    let reset = matches!(observed.ending, Ending::ResetByClient | Ending::ResetByServer);
    matches!(observed.ending, Ending::Refused | Ending::Unanswered)
        || alerted
        || reset && !complete && observed.tls.is_some()
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
