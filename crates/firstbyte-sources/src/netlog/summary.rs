//! Aggregated requests of a log: by host, by finding, and the requests that waited longest. Memory is bounded, however
//! many requests there are.

use std::collections::BTreeMap;
use std::time::Duration;

use super::findings::NetLogFindingKind;
use super::request::{NetLogRequest, SocketOrigin};

/// Maximum number of separate hosts; all further ones are counted as one.
const MOST_HOSTS: usize = 4096;
pub(super) const OTHER_HOSTS: &str = "(other hosts)";

/// Summary of a log's requests.
#[derive(Debug, Default)]
pub struct NetLogSummary {
    hosts: BTreeMap<String, HostSum>,
    findings: BTreeMap<(NetLogFindingKind, String), FindingSum>,
    slowest: Vec<NetLogRequest>,
    keep: usize,
    requests: u64,
    without_network: u64,
}

/// Aggregate of the requests to one host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostSum {
    /// The host, with the port unless it is the scheme's default.
    pub host: String,
    /// Requests that needed a connection.
    pub requests: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Connections that were opened for them, or in advance.
    pub opened: u64,
    /// Total time that they waited for a connection.
    pub waited: Duration,
    /// Longest time that one of them waited.
    pub longest: Duration,
    /// Total cost of their findings.
    pub cost: Duration,
}

/// The same finding on several requests to one host.
#[derive(Clone, Debug, PartialEq)]
pub struct FindingSum {
    /// The kind.
    pub kind: NetLogFindingKind,
    /// The host.
    pub host: String,
    /// Number of affected requests.
    pub requests: u64,
    /// Total cost; absent if no request has a known cost.
    pub cost: Option<Duration>,
    /// Highest cost for one request.
    pub longest: Option<Duration>,
    /// Evidence for the request with the highest cost.
    pub evidence: String,
    /// URL of that request.
    pub url: String,
}

/// The same finding on all hosts.
#[derive(Clone, Debug)]
pub struct FindingGroup<'a> {
    /// The kind.
    pub kind: NetLogFindingKind,
    /// Number of affected requests.
    pub requests: u64,
    /// Total cost; absent if no request has a known cost. The requests may have waited at the same time.
    pub cost: Option<Duration>,
    /// By host, highest cost first.
    pub hosts: Vec<&'a FindingSum>,
}

impl NetLogSummary {
    /// An empty summary that keeps the `keep` requests that waited longest.
    pub fn keeping(keep: usize) -> Self {
        Self { keep, ..Self::default() }
    }

    /// Adds a request.
    pub fn add(&mut self, request: NetLogRequest) {
        self.requests += 1;
        let Some(stream) = request.stream.or(request.error.is_some().then_some(Duration::ZERO))
        else {
            self.without_network += 1;
            return;
        };
        let is_known = self.hosts.contains_key(&request.host) || self.hosts.len() < MOST_HOSTS;
        let host = if is_known { &request.host } else { OTHER_HOSTS };
        let sum = self
            .hosts
            .entry(host.to_owned())
            .or_insert_with(|| HostSum { host: host.to_owned(), ..HostSum::default() });
        sum.requests += 1;
        sum.failed += u64::from(request.error.is_some());
        let opened = matches!(request.origin, Some(SocketOrigin::New | SocketOrigin::InAdvance));
        sum.opened += u64::from(opened);
        sum.waited = sum.waited.saturating_add(stream);
        sum.longest = sum.longest.max(stream);
        sum.cost = sum.cost.saturating_add(request.cost());
        for finding in &request.findings {
            let key = (finding.kind, host.to_owned());
            let sum = self.findings.entry(key).or_insert_with(|| FindingSum {
                kind: finding.kind,
                host: host.to_owned(),
                requests: 0,
                cost: None,
                longest: None,
                evidence: finding.evidence.clone(),
                url: request.url.clone(),
            });
            sum.requests += 1;
            let Some(cost) = finding.cost else { continue };
            sum.cost = Some(sum.cost.unwrap_or_default().saturating_add(cost));
            if sum.longest.is_none_or(|longest| cost > longest) {
                sum.longest = Some(cost);
                sum.evidence.clone_from(&finding.evidence);
                sum.url.clone_from(&request.url);
            }
        }
        // Longest first; equal ones in order of arrival.
        let at = self.slowest.partition_point(|other| other.stream.unwrap_or_default() >= stream);
        if at < self.keep {
            self.slowest.insert(at, request);
            self.slowest.truncate(self.keep);
        }
    }

    /// Number of requests added.
    pub const fn requests(&self) -> u64 {
        self.requests
    }

    /// Requests that needed no connection, because a cache answered.
    pub const fn without_network(&self) -> u64 {
        self.without_network
    }

    /// The hosts, longest total wait for connections first.
    pub fn hosts(&self) -> Vec<&HostSum> {
        let mut hosts: Vec<&HostSum> = self.hosts.values().collect();
        hosts.sort_by(|a, b| b.waited.cmp(&a.waited).then_with(|| a.host.cmp(&b.host)));
        hosts
    }

    /// The findings, highest cost first; those without a known cost come last.
    pub fn findings(&self) -> Vec<FindingGroup<'_>> {
        let mut groups: Vec<FindingGroup<'_>> = Vec::new();
        // The map is ordered by kind.
        for sum in self.findings.values() {
            if groups.last().is_none_or(|group| group.kind != sum.kind) {
                groups.push(FindingGroup {
                    kind: sum.kind,
                    requests: 0,
                    cost: None,
                    hosts: Vec::new(),
                });
            }
            let Some(group) = groups.last_mut() else { break };
            group.requests += sum.requests;
            let costs = [group.cost, sum.cost].into_iter().flatten();
            group.cost = costs.reduce(Duration::saturating_add);
            group.hosts.push(sum);
        }
        for group in &mut groups {
            group.hosts.sort_by(|a, b| {
                (b.cost, b.requests).cmp(&(a.cost, a.requests)).then_with(|| a.host.cmp(&b.host))
            });
        }
        groups.sort_by_key(|group| std::cmp::Reverse(group.cost));
        groups
    }

    /// The requests that waited longest for a connection, longest first.
    pub fn slowest(&self) -> &[NetLogRequest] {
        &self.slowest
    }
}
