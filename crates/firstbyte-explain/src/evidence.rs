//! What an explanation rests on: connections, made in several ways.

use std::time::Duration;

use firstbyte_core::compare::{AnswerCounts, find_difference};
use firstbyte_core::run::{Shortfall, VisitAnswer};
use firstbyte_core::split::{AttributedConnection, ServerFit, ServerFits, Split};
use firstbyte_core::stats::{ClockSteps, Estimate, median, paired_effect_in_steps};
use firstbyte_core::timeline::{Connection, Failure, PhaseName};

/// A way to connect, tried for what its difference says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WayKind {
    /// As the user asked: the connection that is explained.
    Subject,
    /// The same, with TLS 1.3 at most and at least.
    Tls13,
    /// The same, with TLS 1.2.
    Tls12,
    /// A session is resumed.
    Resumed,
    /// A session is resumed, and the request leaves as early data.
    EarlyData,
    /// On a connection that is open.
    Reused,
    /// Without TLS.
    Plain,
    /// Over QUIC.
    Http3,
    /// Over IPv4 alone.
    Ipv4,
    /// Over IPv6 alone.
    Ipv6,
    /// With a share for the group that the server chose.
    ServersGroup,
    /// As the user asked, by another client.
    OtherClient,
}

impl WayKind {
    /// Every way, in the order in which they are shown.
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

    /// The name used in stored forms, and of the cell in the run file.
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

/// One way as it was measured.
#[derive(Clone, Debug, Default)]
pub struct MeasuredWay {
    /// Connections whose facts prove that they were made this way, with their rounds, ascending.
    pub proven: Vec<(u32, Connection)>,
    /// The first connection made this way, measured apart: names and routes were not cached.
    pub first: Option<Connection>,
    /// Connections that came to their end as something else, with what they lack.
    pub unproven: Vec<(Shortfall, Connection)>,
    /// Connections that failed.
    pub failed: Vec<Failure>,
}

/// All that was measured.
#[derive(Clone, Debug, Default)]
pub struct MeasuredWays {
    /// The ways that were tried. The subject is among them.
    pub ways: Vec<(WayKind, MeasuredWay)>,
    /// The redirects that led from the URL given to the one explained, one visit's.
    pub redirects: Vec<Connection>,
}

impl MeasuredWay {
    fn count_answers(&self) -> AnswerCounts {
        let mut counts = AnswerCounts::default();
        self.proven.iter().for_each(|(_, connection)| counts.add(answer(connection)));
        counts
    }

    /// Connections with another status than this become unproven: their times show another response.
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

/// One way, and where the time of its connections went.
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

    /// The median of what `of` gives, over the proven connections that it gives something for.
    pub fn median(
        &self,
        of: impl Fn(&AttributedConnection) -> Option<Duration>,
    ) -> Option<Duration> {
        let values: Vec<f64> =
            self.connections().filter_map(&of).map(|d| d.as_nanos() as f64).collect();
        median(&values).map(|ns| Duration::from_nanos(ns as u64))
    }

    /// The median of their totals.
    pub fn total(&self) -> Option<Duration> {
        self.median(|c| Some(c.split.total()))
    }

    /// What this way's total takes less than `other`'s, round by round; negative where it takes more.
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

    /// The largest steps of a reported clock that its connections were timed by, nanoseconds; zero without.
    pub(super) fn resolution_ns(&self) -> f64 {
        let steps = self.connections().map(|c| c.split.resolution);
        steps.max().unwrap_or_default().as_nanos() as f64
    }

    /// How many connections were asked for, the first one apart.
    pub fn asked(&self) -> usize {
        self.proven.len() + self.unproven.len() + self.failed.len()
    }

    /// The connection in the middle by total time.
    pub fn middle(&self) -> Option<&AttributedConnection> {
        let mut order: Vec<&AttributedConnection> = self.connections().collect();
        order.sort_by_key(|c| c.split.total());
        order.get(order.len().saturating_sub(1) / 2).copied()
    }
}

/// All that was seen, and what it shows of the servers.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// The ways that were tried. The subject is among them.
    pub ways: Vec<(WayKind, Way)>,
    /// As [`MeasuredWays::redirects`].
    pub redirects: Vec<AttributedConnection>,
    /// What the connections to the address that is explained show of its server.
    pub fit: ServerFit,
    /// The answers in each way, if they are not all alike.
    pub unlike_answers: Vec<(WayKind, AnswerCounts)>,
}

impl Evidence {
    /// Attributes the time of all connections: of those to one address by what all of them show of the server.
    ///
    /// Only connections with the subject's usual status count. Servers redirect requests without TLS, so
    /// [`WayKind::Plain`] is exempt.
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

    /// One of the ways, if it was tried.
    pub fn way(&self, kind: WayKind) -> Option<&Way> {
        self.ways.iter().find(|(other, _)| *other == kind).map(|(_, way)| way)
    }

    /// The connections that are explained.
    pub fn subject(&self) -> Option<&Way> {
        self.way(WayKind::Subject)
    }
}
