//! Finds an explanation's connections in the server's own access log.
//!
//! A log line belongs to a connection if the client port is the same and the times are close. The log has no client
//! addresses and needs none. If a middlebox (a proxy, a NAT) changes the port, nothing is found.

use std::collections::HashMap;
use std::time::Duration;

use super::evidence::{Evidence, WayKind};
use super::reconcile::{Reconciled, Witness, reconcile};
use firstbyte_core::split::{AttributedConnection, Split};
use firstbyte_core::stats::{Estimate, Interval, median, median_estimate};
use firstbyte_core::timeline::{Connection, Handshake, Mark, PhaseName};
use firstbyte_sources::server_log::{LogForm, LoggedRequest};

/// The hosts' clocks differ by no more than this, and a port is not reused sooner.
const NEAR: Duration = Duration::from_secs(60);

/// Connections about which both sides report a property, and how many of these reports agree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Agreement {
    /// Number of connections for which both report it.
    pub compared: u64,
    /// Number of connections for which both report the same.
    pub agree: u64,
    /// Number of these for which the log says yes.
    pub logged_yes: u64,
}

impl Agreement {
    fn add(&mut self, logged: Option<bool>, proven: Option<bool>) {
        let (Some(logged), Some(proven)) = (logged, proven) else { return };
        self.compared += 1;
        self.agree += u64::from(logged == proven);
        self.logged_yes += u64::from(logged);
    }
}

/// What a log says about the explained connections.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerLogWitness {
    /// The log's format.
    pub form: LogForm,
    /// Explained requests found in the log.
    pub found: usize,
    /// All explained requests.
    pub of: usize,
    /// Whether the log's time ends with the response's first byte; otherwise with the last byte handed to the
    /// kernel.
    pub to_first_byte: bool,
    /// The client's estimate of the server's time minus the log's time, paired by request: median, nanoseconds.
    pub difference: Option<Estimate>,
    /// Resolution of the log's clock.
    pub step: Duration,
    /// Median times until the upstream was connected, its header was read and its response was read; absent if
    /// unknown.
    pub upstream: [Option<Duration>; 3],
    /// Bytes of the response's body, which the server may have waited to hand over.
    pub body_bytes: Option<u64>,
    /// Agreement about session resumption, over all ways to connect.
    pub resumed: Agreement,
    /// Agreement about early data, over all ways to connect.
    pub early_data: Agreement,
    /// How far the log's clock is ahead of the client's (negative if behind), including the path to the client:
    /// median, nanoseconds.
    pub clock_ahead_ns: Option<i64>,
}

/// A connection and the closest log line.
#[derive(Debug)]
struct Joined<'a> {
    kind: WayKind,
    connection: &'a AttributedConnection,
    /// When the connection ended, since the Unix epoch.
    end: Duration,
    line: Option<LoggedRequest>,
}

impl Joined<'_> {
    fn off(&self, at: Duration) -> Duration {
        self.end.abs_diff(at)
    }
}

/// Searches a log for connections, line by line.
#[derive(Debug)]
pub struct ServerLogSearch<'a> {
    connections: Vec<Joined<'a>>,
    by_port: HashMap<u16, Vec<usize>>,
    lines: u64,
}

impl<'a> ServerLogSearch<'a> {
    /// Searches for the connections of `evidence`.
    pub fn for_evidence(evidence: &'a Evidence) -> Self {
        let mut search = Self { connections: Vec::new(), by_port: HashMap::new(), lines: 0 };
        for (kind, way) in &evidence.ways {
            for connection in way.connections() {
                let Some(local) = connection.connection.facts.local else { continue };
                let Some(end) = end(&connection.connection) else { continue };
                search.by_port.entry(local.port()).or_default().push(search.connections.len());
                search.connections.push(Joined { kind: *kind, connection, end, line: None });
            }
        }
        search
    }

    /// Adds a log line.
    pub fn add(&mut self, line: LoggedRequest) {
        self.lines += 1;
        let (Some(port), Some(at)) = (line.client_port, line.logged) else { return };
        let candidates = self.by_port.get(&port).into_iter().flatten().copied();
        let Some(nearest) = candidates.min_by_key(|index| self.connections[*index].off(at)) else {
            return;
        };
        let joined = &mut self.connections[nearest];
        let off = joined.off(at);
        let known = joined.line.as_ref().and_then(|line| line.logged);
        if off <= NEAR && known.is_none_or(|known| off < joined.off(known)) {
            joined.line = Some(line);
        }
    }

    /// Number of lines added.
    pub const fn lines(&self) -> u64 {
        self.lines
    }

    /// Compares the log's times with the client's estimate of the server's time. Absent if no explained connection
    /// is in the log with its time.
    ///
    /// The interval and uncertainty of `estimated` are as in [`reconcile`].
    pub fn finish(
        self,
        estimated: Duration,
        interval: Option<Interval>,
        uncertainty: Option<Duration>,
    ) -> Option<Reconciled> {
        let subjects = || self.connections.iter().filter(|it| it.kind == WayKind::Subject);
        let found: Vec<(&AttributedConnection, &LoggedRequest)> = subjects()
            .filter_map(|it| Some((it.connection, it.line.as_ref()?)))
            .filter(|(_, line)| line.request_time.is_some())
            .collect();
        let form = found.first()?.1.form;
        let to_first_byte = found.iter().all(|(_, line)| line.first_byte.is_some());
        let time = |line: &LoggedRequest| match to_first_byte {
            true => line.first_byte,
            false => line.request_time,
        };
        let times: Vec<f64> = found
            .iter()
            .filter_map(|(_, line)| time(line))
            .map(|time| time.value.as_nanos() as f64)
            .collect();
        let step = found.iter().filter_map(|(_, line)| time(line)).map(|time| time.step).max();
        let said = Duration::from_nanos(median(&times)? as u64);
        let differences: Vec<f64> = found
            .iter()
            .filter_map(|(connection, line)| {
                let ours = servers_share(&connection.split).as_nanos() as f64;
                Some(ours - time(line)?.value.as_nanos() as f64)
            })
            .collect();
        let middle = |get: fn(&LoggedRequest) -> Option<Duration>| {
            let times = found.iter().filter_map(|(_, line)| get(line));
            let times: Vec<f64> = times.map(|time| time.as_nanos() as f64).collect();
            median(&times).map(|ns| Duration::from_nanos(ns as u64))
        };
        let (mut resumed, mut early_data) = (Agreement::default(), Agreement::default());
        let mut ahead = Vec::new();
        for joined in &self.connections {
            let Some(line) = &joined.line else { continue };
            let (is_resumed, is_early) = proven(&joined.connection.connection);
            resumed.add(line.resumed, is_resumed);
            early_data.add(line.early_data, is_early);
            let off = line.logged.map(|at| at.as_nanos() as f64 - joined.end.as_nanos() as f64);
            ahead.extend(off);
        }
        let body = |(connection, _): &(&AttributedConnection, &LoggedRequest)| {
            connection.connection.facts.http.as_ref().and_then(|http| http.body_bytes)
        };
        let witness = ServerLogWitness {
            form,
            found: found.len(),
            of: subjects().count(),
            to_first_byte,
            difference: median_estimate(&differences),
            step: step.unwrap_or_default(),
            upstream: [
                middle(|line| line.upstream_connect.map(|it| it.value)),
                middle(|line| line.upstream_header.map(|it| it.value)),
                middle(|line| line.upstream_response.map(|it| it.value)),
            ],
            body_bytes: found.iter().filter_map(body).max(),
            resumed,
            early_data,
            clock_ahead_ns: median(&ahead).map(|ns| ns as i64),
        };
        let uncertainty = uncertainty.unwrap_or_default().max(witness.step);
        let witness = Witness::ServerLog(Box::new(witness));
        Some(reconcile(witness, said, estimated, interval, Some(uncertainty)))
    }
}

/// When the response was complete, since the Unix epoch.
fn end(connection: &Connection) -> Option<Duration> {
    let end = [Mark::ResponseEnd, Mark::ResponseStart]
        .iter()
        .find_map(|mark| connection.marks.at(*mark))?;
    let started = Duration::from_nanos(connection.started_unix_ns?);
    Some(started + Duration::from_nanos(u64::try_from(end.as_nanos()).ok()?))
}

/// The time of the request that the client attributes to the server, as in the equation's term.
fn servers_share(split: &Split) -> Duration {
    let phases = [PhaseName::Send, PhaseName::Wait];
    phases.iter().filter_map(|name| split.phase(*name)).map(|phase| phase.parts.server).sum()
}

/// Proven facts: whether the session was resumed, and whether the server accepted the request as early data.
fn proven(connection: &Connection) -> (Option<bool>, Option<bool>) {
    let Some(tls) = &connection.facts.tls else { return (None, None) };
    let resumed = tls.handshake.map(|handshake| handshake == Handshake::Resumed);
    let early = match tls.early_data {
        None => Some(false),
        Some(early) => early.accepted,
    };
    (resumed, early)
}
