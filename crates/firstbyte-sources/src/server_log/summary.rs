//! Aggregated requests of a log: by host, protocol, TLS version and session, or by the dimensions asked for; and the
//! slowest paths. Memory is bounded, however many requests, hosts and paths there are.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use super::request::{LogForm, LoggedRequest, LoggedTime};
use firstbyte_core::stats::ExponentialHistogram;

/// Maximum number of separate groups; all further ones share one group.
const MOST_GROUPS: usize = 256;
/// Value of every dimension in the group for the rest.
const OTHERS: &str = "(others)";
/// Maximum number of hosts that are counted.
const MOST_HOSTS: usize = 4096;
/// Maximum number of paths kept at a time.
const MOST_PATHS: usize = 4096;
/// Scale of the histograms of paths: quantiles are accurate to 2.2 %.
const PATH_SCALE: i8 = 4;
/// Longer paths are truncated.
const PATH_BYTES: usize = 512;

/// Dimension by which requests are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogDimension {
    /// The host asked for.
    Host,
    /// HTTP version.
    Protocol,
    /// TLS version.
    Tls,
    /// Full handshake, resumed, or early data.
    Session,
    /// The response's status.
    Status,
    /// The method.
    Method,
    /// The path.
    Path,
}

impl LogDimension {
    /// All dimensions.
    pub const ALL: [Self; 7] = [
        Self::Host,
        Self::Protocol,
        Self::Tls,
        Self::Session,
        Self::Status,
        Self::Method,
        Self::Path,
    ];

    /// Dimensions used by default.
    pub const USUAL: [Self; 4] = [Self::Host, Self::Protocol, Self::Tls, Self::Session];

    /// Name of the dimension.
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

    /// Finds a dimension by its name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dimension| dimension.name() == name)
    }

    /// A request's value; empty if it is unknown or absent.
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

/// How many of the requests (or connections) with a known answer have a property.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogShare {
    /// Number with a known answer.
    pub of: u64,
    /// Number with the property.
    pub yes: u64,
}

impl LogShare {
    fn add(&mut self, known: Option<bool>) {
        self.of += u64::from(known.is_some());
        self.yes += u64::from(known == Some(true));
    }
}

/// Aggregate of the requests in a group.
#[derive(Clone, Debug, Default)]
pub struct LogGroup {
    /// Number of requests.
    pub requests: u64,
    /// Request times, as logged.
    pub request_time: ExponentialHistogram,
    /// Times to first byte.
    pub first_byte: ExponentialHistogram,
    /// Times until the upstream was connected.
    pub upstream_connect: ExponentialHistogram,
    /// Times until the upstream's header was read.
    pub upstream_header: ExponentialHistogram,
    /// Times until the upstream's response was read.
    pub upstream_response: ExponentialHistogram,
    /// Round-trip times of the connections.
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

/// Aggregate of the requests for one path.
#[derive(Clone, Debug, Default)]
pub struct LogPath {
    /// Number of requests.
    pub requests: u64,
    /// Request times, as logged, of the requests that have one.
    pub request_time: ExponentialHistogram,
}

impl LogPath {
    fn longest(&self) -> Duration {
        self.request_time.ends().map(|(_, longest)| longest).unwrap_or_default()
    }
}

/// Summary of a log's requests.
#[derive(Debug, Default)]
pub struct ServerLogSummary {
    by: Vec<LogDimension>,
    groups: BTreeMap<Vec<String>, LogGroup>,
    paths: HashMap<String, LogPath>,
    /// Whether paths were dropped, those with the shortest longest request first.
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
    /// An empty summary that groups requests by `by`.
    pub fn telling_apart(by: Vec<LogDimension>) -> Self {
        Self { by, ..Self::default() }
    }

    /// Adds a request.
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

    /// Dimensions by which requests are grouped.
    pub fn dimensions(&self) -> &[LogDimension] {
        &self.by
    }

    /// Aggregate of all requests.
    pub const fn all(&self) -> &LogGroup {
        &self.all
    }

    /// The groups, ordered by their first value, with the most frequent first value first, then by number of requests.
    /// The group for the rest comes last.
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

    /// The paths, slowest p95 first.
    pub fn paths(&self) -> Vec<(&str, &LogPath)> {
        let p95 = |path: &LogPath| path.request_time.quantile(0.95).map(|it| it.value);
        let mut paths: Vec<(&str, &LogPath)> =
            self.paths.iter().map(|(path, sum)| (path.as_str(), sum)).collect();
        paths.sort_by_cached_key(|(name, path)| {
            (std::cmp::Reverse((p95(path), path.requests)), (*name).to_owned())
        });
        paths
    }

    /// Whether paths were dropped, those with the shortest longest request first.
    pub const fn paths_left_out(&self) -> bool {
        self.paths_left_out
    }

    /// Number of requests by log format.
    pub const fn forms(&self) -> &BTreeMap<LogForm, u64> {
        &self.forms
    }

    /// Number of requests by status.
    pub const fn statuses(&self) -> &BTreeMap<u16, u64> {
        &self.statuses
    }

    /// Coarsest clock step among the times; absent if there are no times.
    pub const fn coarsest_step(&self) -> Option<Duration> {
        self.coarsest
    }

    /// Number of hosts that were asked for, and whether the limit was reached, so that there may be more.
    pub fn hosts(&self) -> (usize, bool) {
        (self.hosts.len(), self.hosts.len() == MOST_HOSTS)
    }

    /// First and last logged time, since 1970.
    pub const fn span(&self) -> Option<(Duration, Duration)> {
        self.span
    }

    /// Requests that were the first on their connection, among those with a logged number.
    pub const fn first_requests(&self) -> LogShare {
        self.first_requests
    }

    /// Requests over connections with a resumed session.
    pub const fn resumed(&self) -> LogShare {
        self.resumed
    }

    /// Connections with a resumed session, among those whose first request is logged.
    pub const fn resumed_connections(&self) -> LogShare {
        self.resumed_connections
    }

    /// Requests that arrived as early data.
    pub const fn early_data(&self) -> LogShare {
        self.early_data
    }
}
