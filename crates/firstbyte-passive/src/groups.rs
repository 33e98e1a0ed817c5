//! Connections grouped by server: how many handshakes were full or resumed, and how long each kind took.
//!
//! In: [`Observed`] connections, in any order. Out: one [`ServerSummary`] per address, port and server name. The
//! definitions are in `docs/wire.md`, "Servers". Times come only from handshakes without doubts; counts come from all.
//! Memory is bounded ([`GroupLimits`]); connections and times beyond the limits are counted.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::Duration;

use super::layers::Endpoint;
use super::observed::{Carrier, Observed};
use super::sampled::Sampled;
use super::{Failed, Roles, Time};
use firstbyte_core::stats::quantile;
use firstbyte_core::timeline::Handshake;
use firstbyte_core::wire::tls::is_tls13;

/// The key by which connections are grouped.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ServerKey {
    /// Protocol that carries the connections.
    pub carrier: Carrier,
    /// Address and port.
    pub server: Endpoint,
    /// The requested server name.
    pub sni: Option<Box<str>>,
}

#[derive(Clone, Debug)]
struct Server {
    /// Total time that Nagle's algorithm held answers back.
    held_back: Duration,
    first: Time,
    last: Time,
    counts: Counts,
    /// Times of full handshakes, of resumed ones and of exchanges, each by index into [`VERSIONS`].
    times: [[Times; 2]; 3],
}

const FULL: usize = 0;
const SHORT: usize = 1;
const EXCHANGE: usize = 2;

/// Versions whose handshakes are compared with each other: up to TLS 1.2, and TLS 1.3.
const VERSIONS: [&str; 2] = ["TLS 1.2", "TLS 1.3"];
/// Fewest times whose median is worth comparing.
const LEAST: u64 = 2;

/// Times of one kind, nanoseconds: a sample, and the sum of all.
#[derive(Clone, Debug, Default)]
struct Times {
    sampled: Sampled<u64>,
    sum_ns: u64,
    /// Seeded identically in every run, so that the same connections give the same figures.
    random: Random,
}

#[derive(Clone, Debug)]
struct Random(fastrand::Rng);

impl Default for Random {
    fn default() -> Self {
        Self(fastrand::Rng::with_seed(0x5eed))
    }
}

/// Limits of the state kept in memory.
#[derive(Clone, Copy, Debug)]
pub struct GroupLimits {
    /// Number of servers. Beyond it, the half with the fewest connections is dropped.
    pub servers: usize,
    /// Number of times, over all servers. Beyond it, the longest lists are halved at random.
    pub times: usize,
}

impl Default for GroupLimits {
    /// 16,384 servers, and 16 MiB of times.
    fn default() -> Self {
        Self { servers: 1 << 14, times: 1 << 21 }
    }
}

/// Connections and times beyond the limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Connections of servers that were dropped.
    pub connections: u64,
    /// How many times were kept, and of how many; absent if all were kept.
    pub times: Option<(u64, u64)>,
}

/// Numbers of connections of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All connections.
    pub connections: u64,
    /// With a full handshake.
    pub full: u64,
    /// With a resumed session.
    pub resumed: u64,
    /// With a ClientHello.
    pub hellos: u64,
    /// With a session offered.
    pub offered: u64,
    /// With a session offered and nevertheless a full handshake.
    pub declined: u64,
    /// With a full handshake for which the capture does not show whether a session was offered.
    pub undetermined: u64,
    /// With a full handshake in which the server issued a session for later resumption.
    pub issuing: u64,
    /// With a full handshake in which the server is known to have issued no session.
    pub ticketless: u64,
    /// With a HelloRetryRequest.
    pub hello_retry_requests: u64,
    /// That sent early data.
    pub early_data: u64,
    /// Whose early data was accepted.
    pub early_data_accepted: u64,
    /// That failed, by the way they failed, as in [`Failed::ALL`].
    pub failed: [u64; Failed::ALL.len()],
    /// In which Nagle's algorithm held back the server's answer.
    pub held_back: u64,
    /// With doubts about their numbers.
    pub doubtful: u64,
    /// Exchanges that were answered.
    pub exchanges: u64,
}

impl Counts {
    /// Number of failed connections of any kind.
    pub fn errors(&self) -> u64 {
        self.failed.iter().sum()
    }

    /// The ways in which connections failed, each with their number.
    pub fn failures(&self) -> impl Iterator<Item = (Failed, u64)> {
        Failed::ALL.into_iter().zip(self.failed).filter(|(_, number)| *number > 0)
    }
}

/// Distribution of the times of one kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Distribution {
    /// Number of times.
    pub count: u64,
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
    fn from_times(times: &[Times]) -> Option<Self> {
        let kept = times.iter().flat_map(|times| times.sampled.kept());
        let mut sorted: Vec<f64> = kept.map(|ns| *ns as f64 / 1e9).collect();
        sorted.sort_by(f64::total_cmp);
        let count: u64 = times.iter().map(|times| times.sampled.met()).sum();
        let sum_ns = times.iter().fold(0_u64, |sum, times| sum.saturating_add(times.sum_ns));
        Some(Self {
            count,
            p50_seconds: quantile(&sorted, 0.5)?,
            p90_seconds: quantile(&sorted, 0.9)?,
            p99_seconds: quantile(&sorted, 0.99)?,
            mean_seconds: sum_ns as f64 / 1e9 / count as f64,
        })
    }
}

/// Full and resumed handshakes of the same version, compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Compared {
    /// The version, if other versions have times as well.
    pub version: Option<&'static str>,
    /// Times of full handshakes.
    pub full: Distribution,
    /// Times of resumed handshakes.
    pub short: Distribution,
}

impl Compared {
    /// Compares the version with the most times of both kinds; absent if no version has several of both.
    fn from_times(full: &[Times; 2], short: &[Times; 2]) -> Option<Self> {
        let met = |times: &Times| times.sampled.met();
        let place = (0..VERSIONS.len()).max_by_key(|place| {
            let [full, short] = [met(&full[*place]), met(&short[*place])];
            full.min(short)
        })?;
        let others = met(&full[1 - place]) + met(&short[1 - place]) > 0;
        let of = |times: &[Times; 2]| {
            let distribution = Distribution::from_times(std::slice::from_ref(&times[place]))?;
            (distribution.count >= LEAST).then_some(distribution)
        };
        let version = others.then_some(VERSIONS[place]);
        Some(Self { version, full: of(full)?, short: of(short)? })
    }

    /// Ratio of a full handshake's time to a resumed one's, at the median.
    pub fn ratio(&self) -> Option<f64> {
        ratio(self.full.p50_seconds, self.short.p50_seconds)
    }
}

/// Summary of one server.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerSummary {
    /// The server.
    pub key: ServerKey,
    /// Numbers of its connections.
    pub counts: Counts,
    /// Times of the first and the last packet.
    pub span: (Time, Time),
    /// Mean time for which Nagle's algorithm held answers back, over the connections in which it did; absent without
    /// one.
    pub held_back: Option<Duration>,
    /// Times of full handshakes.
    pub full: Option<Distribution>,
    /// Times of resumed handshakes.
    pub short: Option<Distribution>,
    /// Both, for one version.
    pub compared: Option<Compared>,
    /// Times of exchanges, from a request's first byte to its response's last.
    pub exchange: Option<Distribution>,
}

impl ServerSummary {
    /// Ratio of a full handshake's time to a resumed one's of the same version, at the median.
    pub fn full_to_short(&self) -> Option<f64> {
        self.compared?.ratio()
    }

    /// How much longer a full handshake takes than a resumed one of the same version, at the median; absent if it does
    /// not take longer.
    pub fn full_above_short(&self) -> Option<Duration> {
        let Compared { full, short, .. } = self.compared?;
        let more = full.p50_seconds - short.p50_seconds;
        (more > 0.0).then(|| Duration::from_secs_f64(more))
    }

    /// Ratio of a full handshake's time to the time of an exchange, at the median.
    pub fn full_to_exchange(&self) -> Option<f64> {
        let several = |times: Option<Distribution>| times.filter(|times| times.count >= LEAST);
        ratio(several(self.full)?.p50_seconds, several(self.exchange)?.p50_seconds)
    }

    /// Share of handshakes that were resumed.
    pub fn resumed_share(&self) -> Option<f64> {
        let all = self.counts.full + self.counts.resumed;
        (all > 0).then(|| self.counts.resumed as f64 / all as f64)
    }

    /// Handshakes per second from the first packet to the last; absent if there were none, or within less than a
    /// second.
    pub fn handshakes_per_second(&self) -> Option<f64> {
        let span = self.span.1.since(self.span.0).as_secs_f64();
        let handshakes = self.counts.full + self.counts.resumed;
        (span >= 1.0 && handshakes > 0).then(|| handshakes as f64 / span)
    }
}

fn ratio(above: f64, below: f64) -> Option<f64> {
    (below > 0.0).then_some(above / below)
}

/// Groups connections by server.
#[derive(Clone, Debug)]
pub struct Groups {
    limits: GroupLimits,
    servers: HashMap<ServerKey, Server>,
    /// Times kept, over all servers.
    times: usize,
    left_out: u64,
}

impl Default for Groups {
    fn default() -> Self {
        Self::new(GroupLimits::default())
    }
}

impl Groups {
    /// Creates an empty set of groups.
    pub fn new(limits: GroupLimits) -> Self {
        Self { limits, servers: HashMap::new(), times: 0, left_out: 0 }
    }

    /// Adds a connection. Connections whose client and server cannot be told apart are ignored.
    pub fn add(&mut self, observed: &Observed) {
        if observed.roles == Roles::Unknown {
            return;
        }
        let sni = observed.tls.as_ref().and_then(|tls| tls.sni.clone());
        let key = ServerKey { carrier: observed.carrier, server: observed.server, sni };
        if self.servers.len() >= self.limits.servers && !self.servers.contains_key(&key) {
            self.forget_the_smallest();
        }
        let server = self.servers.entry(key).or_insert_with(|| Server {
            held_back: Duration::ZERO,
            first: observed.started,
            last: observed.last,
            counts: Counts::default(),
            times: Default::default(),
        });
        self.times += server.add(observed);
        while self.times > self.limits.times {
            self.halve_the_longest();
        }
    }

    /// Connections and times beyond the limits.
    pub fn left_out(&self) -> LeftOut {
        let met: u64 = self.all_times().map(|times| times.sampled.met()).sum();
        let kept = self.times as u64;
        LeftOut { connections: self.left_out, times: (kept < met).then_some((kept, met)) }
    }

    fn all_times(&self) -> impl Iterator<Item = &Times> {
        self.servers.values().flat_map(|server| server.times.as_flattened())
    }

    fn forget_the_smallest(&mut self) {
        let mut sizes: Vec<(u64, Time)> =
            self.servers.values().map(|server| (server.counts.connections, server.last)).collect();
        sizes.sort_unstable_by_key(|size| Reverse(*size));
        let Some(largest_to_go) = sizes.get(self.limits.servers / 2).copied() else { return };
        let (times, left_out) = (&mut self.times, &mut self.left_out);
        self.servers.retain(|_, server| {
            let goes = (server.counts.connections, server.last) <= largest_to_go;
            if goes {
                *times -= server.times.iter().map(kept).sum::<usize>();
                *left_out += server.counts.connections;
            }
            !goes
        });
    }

    /// Halves the longest lists of times; servers with few times keep theirs. All times of a kind are halved together,
    /// so that each is equally likely to be kept.
    fn halve_the_longest(&mut self) {
        let kinds = self.servers.values().flat_map(|server| &server.times);
        let longest = kinds.map(kept).max().unwrap_or(0);
        let kinds = self.servers.values_mut().flat_map(|server| &mut server.times);
        for times in kinds.filter(|times| kept(times) > longest / 2).flatten() {
            self.times -= times.sampled.halve(&mut times.random.0);
        }
    }

    /// All servers, sorted by falling number of connections.
    pub fn summaries(&self) -> Vec<ServerSummary> {
        let mut all: Vec<ServerSummary> = self
            .servers
            .iter()
            .map(|(key, server)| ServerSummary {
                key: key.clone(),
                counts: server.counts,
                span: (server.first, server.last),
                held_back: u32::try_from(server.counts.held_back)
                    .ok()
                    .and_then(|many| server.held_back.checked_div(many)),
                full: Distribution::from_times(&server.times[FULL]),
                short: Distribution::from_times(&server.times[SHORT]),
                compared: Compared::from_times(&server.times[FULL], &server.times[SHORT]),
                exchange: Distribution::from_times(&server.times[EXCHANGE]),
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

/// How many times of one kind are kept.
fn kept(kind: &[Times; 2]) -> usize {
    kind.iter().map(|times| times.sampled.kept().len()).sum()
}

impl Times {
    fn add(&mut self, time: Duration) -> bool {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.sum_ns = self.sum_ns.saturating_add(ns);
        self.sampled.add(ns, &mut self.random.0)
    }
}

impl Server {
    /// Adds a connection. Returns how many of its times were kept.
    fn add(&mut self, observed: &Observed) -> usize {
        self.first = self.first.min(observed.started);
        self.last = self.last.max(observed.last);
        let counts = &mut self.counts;
        counts.connections += 1;
        counts.doubtful += u64::from(!observed.doubts.is_empty());
        if let Some(held) = observed.held_back {
            counts.held_back += 1;
            self.held_back = self.held_back.saturating_add(held.time);
        }
        if let Some(failed) = Failed::judge(observed) {
            counts.failed[failed as usize] += 1;
        }
        counts.exchanges += u64::from(observed.exchanges.answered);
        let answered = observed
            .exchanges
            .first
            .iter()
            .filter_map(|exchange| Some(exchange.response_end?.since(exchange.request_start)));
        let version = observed.tls.as_deref().and_then(|tls| tls.version);
        let version = usize::from(version.is_some_and(is_tls13));
        let exchanges = &mut self.times[EXCHANGE][version];
        let mut kept = answered.filter(|time| exchanges.add(*time)).count();
        let Some(tls) = &observed.tls else { return kept };
        counts.hellos += u64::from(tls.client_hello);
        counts.offered += u64::from(tls.resumption.offered.is_some());
        counts.declined += u64::from(tls.resumption.declined);
        counts.hello_retry_requests += u64::from(tls.hello_retry_request);
        if let Some(early) = &tls.early_data {
            counts.early_data += u64::from(early.bytes > 0);
            counts.early_data_accepted += u64::from(early.accepted == Some(true));
        }
        let kind = match tls.handshake {
            Some(Handshake::Resumed) => {
                counts.resumed += 1;
                SHORT
            }
            Some(_) => {
                counts.full += 1;
                counts.undetermined += u64::from(tls.offer_is_unknown());
                counts.issuing += u64::from(tls.session_issued == Some(true));
                counts.ticketless += u64::from(tls.session_issued == Some(false));
                FULL
            }
            None => return kept,
        };
        if let Some(time) = observed.handshake_time.filter(|time| time.confident) {
            kept += usize::from(self.times[kind][version].add(time.total()));
        }
        kept
    }
}
