//! The evidence for an explanation: connections made in several ways.

use std::time::Duration;

use firstbyte_core::compare::{AnswerCounts, find_difference};
use firstbyte_core::run::{Shortfall, VisitAnswer};
use firstbyte_core::split::{AttributedConnection, ServerFit, ServerFits, Split};
use firstbyte_core::stats::{ClockSteps, Estimate, median, paired_effect_in_steps};
use firstbyte_core::timeline::{Connection, Failure, PhaseName};

/// A way to connect, tried because its time difference tells something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WayKind {
    /// As the user asked: the connection to explain.
    Subject,
    /// The same, with TLS 1.3 as the only version.
    Tls13,
    /// The same, with TLS 1.2 as the only version.
    Tls12,
    /// With a resumed session.
    Resumed,
    /// With a resumed session and the request sent as early data.
    EarlyData,
    /// On an already open connection.
    Reused,
    /// Without TLS.
    Plain,
    /// Over QUIC.
    Http3,
    /// Over IPv4 only.
    Ipv4,
    /// Over IPv6 only.
    Ipv6,
    /// With a key share for the group that the server chose.
    ServersGroup,
    /// As the user asked, by another client.
    OtherClient,
}

impl WayKind {
    /// Every way, in display order.
    pub const ALL: [Self; 12] = [
        Self::Subject,
        Self::Plain,
        Self::Tls12,
        Self::Tls13,
        Self::Resumed,
        Self::EarlyData,
        Self::Reused,
        Self::Http3,
        Self::Ipv4,
        Self::Ipv6,
        Self::ServersGroup,
        Self::OtherClient,
    ];

    /// The name used in stored forms and as the cell name in the run file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Subject => "as it is",
            Self::Tls13 => "TLS 1.3",
            Self::Tls12 => "TLS 1.2",
            Self::Resumed => "resumed",
            Self::EarlyData => "0-RTT",
            Self::Reused => "connection reused",
            Self::Plain => "http",
            Self::Http3 => "HTTP/3",
            Self::Ipv4 => "IPv4",
            Self::Ipv6 => "IPv6",
            Self::ServersGroup => "server's group",
            Self::OtherClient => "other client",
        }
    }

    /// The way with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// The measurements of one way.
#[derive(Clone, Debug, Default)]
pub struct MeasuredWay {
    /// Connections whose facts prove that they were made this way, with their rounds in ascending order.
    pub proven: Vec<(u32, Connection)>,
    /// The first connection made this way, measured separately because names and routes were not yet cached.
    pub first: Option<Connection>,
    /// Connections that completed in another way than requested, with the reason.
    pub unproven: Vec<(Shortfall, Connection)>,
    /// Connections that failed.
    pub failed: Vec<Failure>,
}

/// All measurements.
#[derive(Clone, Debug, Default)]
pub struct MeasuredWays {
    /// The ways that were tried, including the subject.
    pub ways: Vec<(WayKind, MeasuredWay)>,
    /// The redirects of one visit that led from the given URL to the explained one.
    pub redirects: Vec<Connection>,
}

impl MeasuredWay {
    fn count_answers(&self) -> AnswerCounts {
        let mut counts = AnswerCounts::default();
        self.proven.iter().for_each(|(_, connection)| counts.add(answer(connection)));
        counts
    }

    /// Marks connections with another status than `usual` as unproven: their times are those of another response.
    fn set_apart_other_statuses(&mut self, usual: u16) {
        let is_other = |c: &Connection| answer(c).status().is_some_and(|status| status != usual);
        let others = self.proven.extract_if(.., |(_, connection)| is_other(connection));
        self.unproven.extend(others.map(|(_, connection)| (Shortfall::OtherStatus, connection)));
        self.first = self.first.take().filter(|connection| !is_other(connection));
    }
}

fn answer(connection: &Connection) -> VisitAnswer {
    let http = connection.facts.http.as_ref();
    VisitAnswer::new(http.and_then(|http| http.status), http.and_then(|http| http.body_bytes))
}

/// One way, with the time of its connections attributed.
#[derive(Clone, Debug, Default)]
pub struct Way {
    /// As [`MeasuredWay::proven`].
    pub proven: Vec<(u32, AttributedConnection)>,
    /// As [`MeasuredWay::first`].
    pub first: Option<AttributedConnection>,
    /// As [`MeasuredWay::unproven`].
    pub unproven: Vec<(Shortfall, Connection)>,
    /// As [`MeasuredWay::failed`].
    pub failed: Vec<Failure>,
}

impl Way {
    /// The proven connections.
    pub fn connections(&self) -> impl Iterator<Item = &AttributedConnection> {
        self.proven.iter().map(|(_, connection)| connection)
    }

    /// Median of `of` over the proven connections for which it returns a value.
    pub fn median(
        &self,
        of: impl Fn(&AttributedConnection) -> Option<Duration>,
    ) -> Option<Duration> {
        let values: Vec<f64> =
            self.connections().filter_map(&of).map(|d| d.as_nanos() as f64).collect();
        median(&values).map(|ns| Duration::from_nanos(ns as u64))
    }

    /// Median of the totals.
    pub fn total(&self) -> Option<Duration> {
        self.median(|c| Some(c.split.total()))
    }

    /// How much shorter this way's total is than `other`'s, paired by round; negative if it is longer.
    pub fn saves_against(&self, other: &Self) -> Option<Estimate> {
        let total = |c: &AttributedConnection| c.split.total().as_nanos() as f64;
        let (mut base, mut variant) = (Vec::new(), Vec::new());
        let steps = ClockSteps { base: self.resolution_ns(), variant: other.resolution_ns() };
        for (round, connection) in &self.proven {
            if let Some((_, with)) = other.proven.iter().find(|(other, _)| other == round) {
                base.push(total(connection));
                variant.push(total(with));
            }
        }
        Some(paired_effect_in_steps(&base, &variant, steps, 1)?.difference)
    }

    /// Largest step, in nanoseconds, of a reported clock that timed its connections; zero if there is none.
    pub(super) fn resolution_ns(&self) -> f64 {
        let steps = self.connections().map(|c| c.split.resolution);
        steps.max().unwrap_or_default().as_nanos() as f64
    }

    /// Number of connections requested, not counting the first one.
    pub fn asked(&self) -> usize {
        self.proven.len() + self.unproven.len() + self.failed.len()
    }

    /// The connection with the median total time.
    pub fn middle(&self) -> Option<&AttributedConnection> {
        let mut order: Vec<&AttributedConnection> = self.connections().collect();
        order.sort_by_key(|c| c.split.total());
        order.get(order.len().saturating_sub(1) / 2).copied()
    }
}

/// All attributed measurements, and what they show about the servers.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// The ways that were tried, including the subject.
    pub ways: Vec<(WayKind, Way)>,
    /// As [`MeasuredWays::redirects`].
    pub redirects: Vec<AttributedConnection>,
    /// What the connections to the explained address show about its server.
    pub fit: ServerFit,
    /// The answers in each way, if they differ.
    pub unlike_answers: Vec<(WayKind, AnswerCounts)>,
}

impl Evidence {
    /// Attributes the time of all connections. Connections to one address are attributed using what all of them
    /// show about the server.
    ///
    /// Only connections with the subject's usual status count. [`WayKind::Plain`] is exempt, because servers
    /// redirect requests without TLS.
    pub fn from_measured(measured: MeasuredWays) -> Self {
        let MeasuredWays { mut ways, redirects } = measured;
        let counts = ways.iter().filter(|(kind, _)| *kind != WayKind::Plain);
        let mut counts: Vec<(WayKind, AnswerCounts)> =
            counts.map(|(kind, way)| (*kind, way.count_answers())).collect();
        let subject = ways.iter().find(|(kind, _)| *kind == WayKind::Subject);
        let first = subject.and_then(|(_, way)| way.first.as_ref()).map(answer);
        let subject = counts.iter_mut().find(|(kind, _)| *kind == WayKind::Subject);
        if let Some((_, counts)) = subject {
            let usual = counts.usual_status();
            counts.add(first.unwrap_or_default());
            if let Some(usual) = usual {
                let counted = ways.iter_mut().filter(|(kind, _)| *kind != WayKind::Plain);
                counted.for_each(|(_, way)| way.set_apart_other_statuses(usual));
            }
        }
        let unlike = find_difference(counts.iter().map(|(_, counts)| counts)).is_some();
        let unlike_answers = if unlike { counts } else { Vec::new() };
        let think = ways.iter().find(|(kind, _)| *kind == WayKind::Reused).and_then(|(_, way)| {
            let think = |(_, c): &(u32, Connection)| {
                let split = Split::attribute(c);
                split.phase(PhaseName::Wait).map(|wait| wait.parts.server.as_nanos() as f64)
            };
            let think: Vec<f64> = way.proven.iter().filter_map(think).collect();
            median(&think).map(|ns| Duration::from_nanos(ns as u64))
        });
        let proven = ways.iter().flat_map(|(_, way)| &way.proven).map(|(_, connection)| connection);
        let fits = ServerFits::from_connections(proven, think);
        let attribute = |connection: Connection| fits.attribute(connection);
        let attributed = |(kind, way): (WayKind, MeasuredWay)| {
            let MeasuredWay { proven, first, unproven, failed } = way;
            let proven = proven.into_iter().map(|(round, c)| (round, attribute(c))).collect();
            (kind, Way { proven, first: first.map(attribute), unproven, failed })
        };
        let ways: Vec<(WayKind, Way)> = ways.into_iter().map(attributed).collect();
        let subject = ways.iter().find(|(kind, _)| *kind == WayKind::Subject);
        let explained = subject.and_then(|(_, way)| way.connections().next());
        let fit = explained.and_then(|c| fits.get(&c.connection)).cloned();
        let redirects = redirects.into_iter().map(AttributedConnection::alone).collect();
        Self { ways, redirects, fit: fit.unwrap_or_default(), unlike_answers }
    }

    /// The given way, if it was tried.
    pub fn way(&self, kind: WayKind) -> Option<&Way> {
        self.ways.iter().find(|(other, _)| *other == kind).map(|(_, way)| way)
    }

    /// The connections to explain.
    pub fn subject(&self) -> Option<&Way> {
        self.way(WayKind::Subject)
    }
}
