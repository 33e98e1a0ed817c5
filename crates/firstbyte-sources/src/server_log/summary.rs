//! What the requests of a log come to: by host, protocol, version of TLS and session, or as asked; and the paths that took
//! longest. Memory is bounded, however many requests, hosts and paths there are.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use super::request::{LogForm, LoggedRequest, LoggedTime};
use firstbyte_core::stats::ExponentialHistogram;

/// So many groups are told apart; those behind them are one.
const MOST_GROUPS: usize = 256;
/// What stands for all values of the groups that are not told apart.
const OTHERS: &str = "(others)";
/// So many hosts are counted.
const MOST_HOSTS: usize = 4096;
/// So many paths are kept at a time.
const MOST_PATHS: usize = 4096;
/// The scale of paths' histograms: quantiles are right within 2.2 %.
const PATH_SCALE: i8 = 4;
/// Longer paths are cut.
const PATH_BYTES: usize = 512;

/// What requests can be told apart by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogDimension {
    /// The host asked for.
    Host,
    /// HTTP's version.
    Protocol,
    /// TLS' version.
    Tls,
    /// Full, resumed, with early data.
    Session,
    /// The response's status.
    Status,
    /// The method.
    Method,
    /// The path.
    Path,
}

impl LogDimension {
    /// Each.
    pub const ALL: [Self; 7] = [
        Self::Host,
        Self::Protocol,
        Self::Tls,
        Self::Session,
        Self::Status,
        Self::Method,
        Self::Path,
    ];

    /// What requests are told apart by where nothing else is asked for.
    pub const USUAL: [Self; 4] = [Self::Host, Self::Protocol, Self::Tls, Self::Session];

    /// What it is called.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Protocol => "protocol",
            Self::Tls => "tls",
            Self::Session => "session",
            Self::Status => "status",
            Self::Method => "method",
            Self::Path => "path",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dimension| dimension.name() == name)
    }

    /// A request's value; empty where it is not known, or there is none.
    fn value(self, request: &LoggedRequest) -> String {
        match self {
            Self::Host => request.host.clone().unwrap_or_default(),
            Self::Protocol => request.protocol.unwrap_or_default().to_owned(),
            Self::Tls => request.tls.clone().unwrap_or_default(),
            Self::Session => match (request.early_data, request.resumed) {
                (Some(true), _) => "early data".to_owned(),
                (_, Some(true)) => "resumed".to_owned(),
                (_, Some(false)) => "full".to_owned(),
                _ => String::new(),
            },
            Self::Status => request.status.map(|it| it.to_string()).unwrap_or_default(),
            Self::Method => request.method.clone().unwrap_or_default(),
            Self::Path => path(request),
        }
    }
}

fn path(request: &LoggedRequest) -> String {
    let path = request.path.as_deref().unwrap_or_default();
    let end = (0..=PATH_BYTES.min(path.len())).rev().find(|end| path.is_char_boundary(*end));
    path[..end.unwrap_or_default()].to_owned()
}

/// How many of those that it is known of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogShare {
    /// Those.
    pub of: u64,
    /// How many of them.
    pub yes: u64,
}

impl LogShare {
    fn add(&mut self, known: Option<bool>) {
        self.of += u64::from(known.is_some());
        self.yes += u64::from(known == Some(true));
    }
}

/// What requests come to that have something in common.
#[derive(Clone, Debug, Default)]
pub struct LogGroup {
    /// How many.
    pub requests: u64,
    /// What they took, as logged.
    pub request_time: ExponentialHistogram,
    /// The time of the first byte.
    pub first_byte: ExponentialHistogram,
    /// Upstreams' times.
    pub upstream_connect: ExponentialHistogram,
    /// Upstreams' times.
    pub upstream_header: ExponentialHistogram,
    /// Upstreams' times.
    pub upstream_response: ExponentialHistogram,
    /// Round-trip times of their connections.
    pub rtt: ExponentialHistogram,
}

impl LogGroup {
    fn add(&mut self, request: &LoggedRequest) {
        self.requests += 1;
        let times = [
            (&mut self.request_time, request.request_time),
            (&mut self.first_byte, request.first_byte),
            (&mut self.upstream_connect, request.upstream_connect),
            (&mut self.upstream_header, request.upstream_header),
            (&mut self.upstream_response, request.upstream_response),
        ];
        for (histogram, time) in times {
            if let Some(LoggedTime { value, .. }) = time {
                histogram.add(value);
            }
        }
        if let Some(rtt) = request.rtt {
            self.rtt.add(rtt);
        }
    }
}

/// What requests of one path come to.
#[derive(Clone, Debug, Default)]
pub struct LogPath {
    /// How many.
    pub requests: u64,
    /// What they took, as logged: those of which it is known.
    pub request_time: ExponentialHistogram,
}

impl LogPath {
    fn longest(&self) -> Duration {
        self.request_time.ends().map(|(_, longest)| longest).unwrap_or_default()
    }
}

/// What the requests of a log come to.
#[derive(Debug, Default)]
pub struct ServerLogSummary {
    by: Vec<LogDimension>,
    groups: BTreeMap<Vec<String>, LogGroup>,
    paths: HashMap<String, LogPath>,
    /// Paths were given up, those whose longest request was the shortest.
    paths_left_out: bool,
    all: LogGroup,
    forms: BTreeMap<LogForm, u64>,
    statuses: BTreeMap<u16, u64>,
    coarsest: Option<Duration>,
    hosts: BTreeSet<String>,
    span: Option<(Duration, Duration)>,
    first_requests: LogShare,
    resumed: LogShare,
    resumed_connections: LogShare,
    early_data: LogShare,
}

impl ServerLogSummary {
    /// One that tells requests apart by `by`.
    pub fn telling_apart(by: Vec<LogDimension>) -> Self {
        Self { by, ..Self::default() }
    }

    /// Takes a request in.
    pub fn add(&mut self, request: &LoggedRequest) {
        self.all.add(request);
        *self.forms.entry(request.form).or_default() += 1;
        if let Some(status) = request.status {
            *self.statuses.entry(status).or_default() += 1;
        }
        if let Some(time) = request.request_time {
            self.coarsest = self.coarsest.max(Some(time.step));
        }
        if let Some(at) = request.logged {
            let (first, last) = self.span.unwrap_or((at, at));
            self.span = Some((first.min(at), last.max(at)));
        }
        if let Some(host) = &request.host
            && self.hosts.len() < MOST_HOSTS
            && !self.hosts.contains(host)
        {
            self.hosts.insert(host.clone());
        }
        let is_first = request.number.map(|number| number == 1);
        self.first_requests.add(is_first);
        self.resumed.add(request.resumed);
        if is_first == Some(true) {
            self.resumed_connections.add(request.resumed);
        }
        self.early_data.add(request.early_data);
        let mut key: Vec<String> = self.by.iter().map(|by| by.value(request)).collect();
        if self.groups.len() >= MOST_GROUPS && !self.groups.contains_key(&key) {
            key = vec![OTHERS.to_owned(); self.by.len()];
        }
        self.groups.entry(key).or_default().add(request);
        self.add_path(request);
    }

    fn add_path(&mut self, request: &LoggedRequest) {
        let (Some(_), Some(time)) = (&request.path, request.request_time) else { return };
        let path = self.paths.entry(path(request)).or_default();
        path.requests += 1;
        path.request_time.add(time.value);
        path.request_time.downscale(PATH_SCALE);
        if self.paths.len() > MOST_PATHS {
            self.paths_left_out = true;
            let mut longest: Vec<Duration> = self.paths.values().map(LogPath::longest).collect();
            let (_, middle, _) = longest.select_nth_unstable(MOST_PATHS / 2);
            let (middle, mut room) = (*middle, MOST_PATHS / 2);
            self.paths.retain(|_, path| {
                let is_kept = path.longest() > middle || path.longest() == middle && room > 0;
                room -= usize::from(is_kept && path.longest() == middle);
                is_kept
            });
        }
    }

    /// What requests are told apart by.
    pub fn dimensions(&self) -> &[LogDimension] {
        &self.by
    }

    /// All of them.
    pub const fn all(&self) -> &LogGroup {
        &self.all
    }

    /// The groups by their values: those with the same first value together, the one with the most requests first; those that
    /// are not told apart come last.
    pub fn groups(&self) -> Vec<(&[String], &LogGroup)> {
        let mut firsts: BTreeMap<&str, u64> = BTreeMap::new();
        let first = |key: &'_ Vec<String>| key.first().map_or("", String::as_str).to_owned();
        for (key, group) in &self.groups {
            *firsts.entry(key.first().map_or("", String::as_str)).or_default() += group.requests;
        }
        let mut groups: Vec<(&Vec<String>, &LogGroup)> = self.groups.iter().collect();
        groups.sort_by_key(|(key, group)| {
            let of_first = firsts.get(&*first(key)).copied().unwrap_or_default();
            let is_rest = key.iter().all(|value| value == OTHERS);
            (is_rest, std::cmp::Reverse(of_first), first(key), std::cmp::Reverse(group.requests))
        });
        groups.into_iter().map(|(key, group)| (key.as_slice(), group)).collect()
    }

    /// The paths, those first whose p95 is longest.
    pub fn paths(&self) -> Vec<(&str, &LogPath)> {
        let p95 = |path: &LogPath| path.request_time.quantile(0.95).map(|it| it.value);
        let mut paths: Vec<(&str, &LogPath)> =
            self.paths.iter().map(|(path, sum)| (path.as_str(), sum)).collect();
        paths.sort_by_cached_key(|(name, path)| {
            (std::cmp::Reverse((p95(path), path.requests)), (*name).to_owned())
        });
        paths
    }

    /// Whether paths were given up, those whose longest request was the shortest.
    pub const fn paths_left_out(&self) -> bool {
        self.paths_left_out
    }

    /// How many requests were logged in which form.
    pub const fn forms(&self) -> &BTreeMap<LogForm, u64> {
        &self.forms
    }

    /// How many requests ended with which status.
    pub const fn statuses(&self) -> &BTreeMap<u16, u64> {
        &self.statuses
    }

    /// The coarsest step of the times' clocks; absent where there are no times.
    pub const fn coarsest_step(&self) -> Option<Duration> {
        self.coarsest
    }

    /// How many hosts were asked for, and whether there may be more, which are not counted.
    pub fn hosts(&self) -> (usize, bool) {
        (self.hosts.len(), self.hosts.len() == MOST_HOSTS)
    }

    /// The first and the last time logged, since 1970.
    pub const fn span(&self) -> Option<(Duration, Duration)> {
        self.span
    }

    /// Requests that were the first of their connection, of those whose number is logged.
    pub const fn first_requests(&self) -> LogShare {
        self.first_requests
    }

    /// Requests over connections whose session was resumed.
    pub const fn resumed(&self) -> LogShare {
        self.resumed
    }

    /// Connections whose session was resumed, of those whose first request is logged.
    pub const fn resumed_connections(&self) -> LogShare {
        self.resumed_connections
    }

    /// Requests that came as early data.
    pub const fn early_data(&self) -> LogShare {
        self.early_data
    }
}
