//! The typical connection's time as a sum: round trips counted, and what is left by cause.
//!
//! Typical are the connections of the most common shape (the same round trips in the same phases),
//! and of these the half in the middle by total time; each term is their mean, so that the terms add
//! up to the total as each connection's own do. The interval is that of the term's median over all
//! connections of the shape.

use std::collections::BTreeMap;
use std::time::Duration;

use firstbyte_core::split::server_model::constants::NOISE_NS;
use firstbyte_core::split::{Held, PhaseSplit, Split, Why};
use firstbyte_core::stats::{Interval, in_steps, median_estimate};
use firstbyte_core::timeline::PhaseName;

/// What a term's time was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Span {
    /// The name lookup.
    Resolve,
    /// The TCP handshake.
    Connect,
    /// The TLS handshake with the proxy.
    ProxyTls,
    /// Opening the tunnel through the proxy.
    Tunnel,
    /// The TLS handshake, over TCP.
    Tls,
    /// The QUIC handshake.
    Quic,
    /// Request and first byte of the response.
    Request,
    /// The rest of the response.
    Response,
}

impl Span {
    /// Every span, in the order of time.
    pub const ALL: [Self; 8] = [
        Self::Resolve,
        Self::Connect,
        Self::ProxyTls,
        Self::Tunnel,
        Self::Tls,
        Self::Quic,
        Self::Request,
        Self::Response,
    ];

    const fn for_phase(phase: PhaseName) -> Self {
        match phase {
            PhaseName::Resolve => Self::Resolve,
            PhaseName::Connect => Self::Connect,
            PhaseName::ProxyTls => Self::ProxyTls,
            PhaseName::Tunnel => Self::Tunnel,
            PhaseName::Tls => Self::Tls,
            PhaseName::Quic => Self::Quic,
            PhaseName::Send | PhaseName::Wait => Self::Request,
            PhaseName::Receive => Self::Response,
        }
    }

    /// What it is called in the equation.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Resolve => "DNS",
            Self::Connect => "TCP",
            Self::ProxyTls => "proxy TLS",
            Self::Tunnel => "tunnel",
            Self::Tls => "TLS",
            Self::Quic => "QUIC",
            Self::Request => "request",
            Self::Response => "response",
        }
    }
}

/// What kind of time a term is. The order is that of the equation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TermKind {
    /// Waiting for the name service.
    Resolver,
    /// Another address was tried first.
    Fallback,
    /// Whole round trips.
    RoundTrips,
    /// Whole round trips for which the server stood still with its congestion window full.
    Stalls,
    /// Whole round trips for which Nagle's algorithm held back the rest of an answer.
    Nagle,
    /// What the TCP handshake took beyond a round trip.
    Variation,
    /// The server's own time.
    Server,
    /// The sender stood still in the middle of an answer.
    Pause,
    /// The client's own time.
    Client,
    /// Between the first and the last byte of answers.
    Transfer,
    /// Not attributable.
    Unexplained,
}

impl TermKind {
    /// The name used in stored forms.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Resolver => "resolver",
            Self::Fallback => "fallback",
            Self::RoundTrips => "round-trips",
            Self::Stalls => "stalls",
            Self::Nagle => "nagle",
            Self::Variation => "variation",
            Self::Server => "server",
            Self::Pause => "pause",
            Self::Client => "client",
            Self::Transfer => "transfer",
            Self::Unexplained => "unexplained",
        }
    }

    /// Whether it is told apart by what it was for.
    const fn by_span(self) -> bool {
        matches!(self, Self::RoundTrips | Self::Stalls | Self::Nagle | Self::Server | Self::Pause)
    }
}

/// A term of the equation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Term {
    /// What kind of time.
    pub kind: TermKind,
    /// What it was for; absent where the term is of the whole connection.
    pub span: Option<Span>,
    /// Round trips in it.
    pub round_trips: u32,
    /// Its time.
    pub time: Duration,
    /// 95 % interval of its median, nanoseconds; absent with fewer than 20 connections.
    pub interval: Option<Interval>,
    /// How far its time may be off, because another explanation of the arrivals fits as well: the mean.
    pub doubt: Duration,
}

/// What the first connection took more than the typical one, of one kind; negative where less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extra {
    /// What kind of time.
    pub kind: TermKind,
    /// What it was for; absent where it is of the whole connection.
    pub span: Option<Span>,
    /// More round trips.
    pub round_trips: i64,
    /// More time, nanoseconds.
    pub ns: i64,
}

/// The typical connection's time, as a sum.
#[derive(Clone, Debug, PartialEq)]
pub struct Equation {
    /// The sum of all terms.
    pub total: Duration,
    /// 95 % interval of the median total, nanoseconds.
    pub interval: Option<Interval>,
    /// The round-trip time that round trips are counted in.
    pub rtt: Option<Duration>,
    /// The terms, in the order of time and then of kind.
    pub terms: Vec<Term>,
    /// Connections of the typical shape.
    pub typical: usize,
    /// Connections seen.
    pub of: usize,
    /// The first connection's total, and what it additionally took, the largest first; they add up to
    /// the difference of both totals.
    pub first: Option<(Duration, Vec<Extra>)>,
}

/// A kind of time, and what it was for.
type Key = (Option<Span>, TermKind);

/// Round trips by what they were for.
type Shape = Vec<(Key, u32)>;

/// One connection's terms: round trips and nanoseconds.
#[derive(Clone, Debug, Default)]
struct Terms {
    /// Round trips, nanoseconds, and the nanoseconds of doubt.
    by_key: BTreeMap<Key, (u32, u64, u64)>,
    total: u64,
    rtt: Option<u64>,
    /// The steps of a clock that was reported.
    steps: u64,
}

impl Terms {
    /// With `whole`, what the response waited for acknowledgements is transfer.
    fn from_split(split: &Split, whole: bool) -> Self {
        let ns = |d: Duration| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX);
        let mut terms =
            Self { total: ns(split.total()), rtt: split.rtt.map(ns), ..Self::default() };
        terms.steps = ns(split.resolution);
        for phase in &split.phases {
            let span = Span::for_phase(phase.phase.name);
            let parts = phase.parts;
            let rtt = split.rtt.unwrap_or_default();
            let stalled = (rtt * phase.stalls).min(parts.network);
            let by_nagle = nagle_waits(split, phase);
            let nagle = (rtt * by_nagle).min(stalled);
            let fold = whole && span == Span::Response;
            let transfer = if fold { stalled } else { Duration::ZERO };
            let mut add = |kind: TermKind, count: u32, time: Duration| {
                if count > 0 || !time.is_zero() {
                    let key = (kind.by_span().then_some(span), kind);
                    let term = terms.by_key.entry(key).or_default();
                    term.0 += count;
                    term.1 += ns(time);
                    term.2 += ns(phase.doubt);
                }
            };
            add(TermKind::Resolver, 0, parts.resolver);
            add(TermKind::Fallback, 0, parts.fallback);
            add(TermKind::RoundTrips, phase.round_trips - phase.stalls, parts.network - stalled);
            if !fold {
                add(TermKind::Stalls, phase.stalls - by_nagle, stalled - nagle);
                add(TermKind::Nagle, by_nagle, nagle);
            }
            add(TermKind::Variation, 0, parts.variation);
            add(TermKind::Server, 0, parts.server);
            add(TermKind::Pause, 0, parts.pause);
            add(TermKind::Client, 0, parts.client);
            add(TermKind::Transfer, 0, parts.transfer + transfer);
            add(TermKind::Unexplained, 0, parts.unexplained);
        }
        terms
    }

    fn shape(&self) -> Shape {
        let counted = self.by_key.iter().filter(|(_, (count, ..))| *count > 0);
        counted.map(|(key, (count, ..))| (*key, *count)).collect()
    }

    fn get(&self, key: &Key) -> (u32, u64, u64) {
        self.by_key.get(key).copied().unwrap_or_default()
    }
}

/// Of a phase's stalls, those that Nagle's algorithm made.
fn nagle_waits(split: &Split, phase: &PhaseSplit) -> u32 {
    let (start, end) = (phase.phase.start, phase.phase.end);
    let is_it = |held: &&Held| held.why == Why::Nagle && held.until > start && held.until <= end;
    u32::try_from(split.held.iter().filter(is_it).count())
        .map_or(phase.stalls, |n| n.min(phase.stalls))
}

impl Equation {
    /// The equation of connections by their splits, in the order in which they were made, and of the one before
    /// them. Absent without any.
    pub fn from_splits<'a>(
        splits: impl IntoIterator<Item = &'a Split>,
        first: Option<&Split>,
    ) -> Option<Self> {
        let splits: Vec<&Split> = splits.into_iter().collect();
        let of_all = |whole| -> Vec<Terms> {
            splits.iter().map(|split| Terms::from_split(split, whole)).collect()
        };
        let (mut all, mut whole) = (of_all(false), false);
        let mut typical = most_common(&all);
        if typical.len() * 2 < all.len() {
            // How often a long response stands still varies; that is then part of its transfer.
            whole = true;
            all = of_all(true);
            typical = most_common(&all);
        }
        let mut equation = mean(&typical, all.len())?;
        equation.first = first.map(|split| {
            let terms = Terms::from_split(split, whole);
            (Duration::from_nanos(terms.total), equation.extras(&terms))
        });
        Some(equation)
    }

    /// The terms of one kind, together.
    pub fn time(&self, kind: TermKind) -> Duration {
        self.terms.iter().filter(|t| t.kind == kind).map(|t| t.time).sum()
    }

    /// Round trips, stalls included.
    pub fn round_trips(&self) -> u32 {
        self.terms.iter().map(|t| t.round_trips).sum()
    }

    fn extras(&self, first: &Terms) -> Vec<Extra> {
        let signed = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
        let mut keys: Vec<Key> = self.terms.iter().map(|t| (t.span, t.kind)).collect();
        keys.extend(first.by_key.keys());
        keys.sort_unstable();
        keys.dedup();
        let extra = |(span, kind): Key| {
            let (count, ns, _) = first.get(&(span, kind));
            let term = self.terms.iter().find(|t| (t.span, t.kind) == (span, kind));
            let usual = term.map_or(0, |t| signed(t.time.as_nanos() as u64));
            Extra {
                kind,
                span,
                round_trips: i64::from(count) - i64::from(term.map_or(0, |t| t.round_trips)),
                ns: signed(ns) - usual,
            }
        };
        let mut extras: Vec<Extra> = keys.into_iter().map(extra).filter(|e| e.ns != 0).collect();
        extras.sort_by_key(|extra| std::cmp::Reverse(extra.ns.abs()));
        extras
    }
}

/// Those of the most common shape; of shapes that are as common, the one seen first.
fn most_common(all: &[Terms]) -> Vec<&Terms> {
    let mut shapes: Vec<(Shape, Vec<&Terms>)> = Vec::new();
    for terms in all {
        let shape = terms.shape();
        match shapes.iter_mut().find(|(other, _)| *other == shape) {
            Some((_, of_it)) => of_it.push(terms),
            None => shapes.push((shape, vec![terms])),
        }
    }
    let most = shapes.iter().map(|(_, of_it)| of_it.len()).max();
    let most = shapes.into_iter().find(|(_, of_it)| Some(of_it.len()) == most);
    most.map(|(_, of_it)| of_it).unwrap_or_default()
}

fn mean(typical: &[&Terms], of: usize) -> Option<Equation> {
    let mut by_total = typical.to_vec();
    by_total.sort_by_key(|terms| terms.total);
    let quarter = by_total.len() / 4;
    let middle = by_total.get(quarter..by_total.len() - quarter).filter(|m| !m.is_empty())?;
    let n = middle.len() as u64;
    let average = |sum: u64| sum / n;
    let rtt: Option<u64> = middle.iter().map(|terms| terms.rtt).sum::<Option<u64>>().map(average);

    let mut keys: Vec<Key> = typical.iter().flat_map(|t| t.by_key.keys().copied()).collect();
    keys.sort_unstable();
    keys.dedup();
    let total = average(middle.iter().map(|terms| terms.total).sum());
    let steps = typical.iter().map(|terms| terms.steps).max().unwrap_or_default() as f64;
    let mut terms: Vec<Term> = Vec::with_capacity(keys.len());
    for key in keys {
        let round_trips = middle[0].get(&key).0;
        let time = match rtt {
            Some(rtt) if round_trips > 0 => rtt * u64::from(round_trips),
            _ => average(middle.iter().map(|terms| terms.get(&key).1).sum()),
        };
        let series: Vec<f64> = typical.iter().map(|terms| terms.get(&key).1 as f64).collect();
        terms.push(Term {
            kind: key.1,
            span: key.0,
            round_trips,
            time: Duration::from_nanos(time),
            // Each stretch between two stamps may be off by a step.
            interval: interval(&series, time, steps * f64::from(round_trips.max(1))),
            doubt: Duration::from_nanos(average(middle.iter().map(|t| t.get(&key).2).sum())),
        });
    }
    settle(&mut terms, total);
    terms.retain(|term| !term.time.is_zero());
    terms.sort_by_key(|term| (place(term), term.kind));
    let totals: Vec<f64> = typical.iter().map(|terms| terms.total as f64).collect();
    Some(Equation {
        total: Duration::from_nanos(total),
        interval: interval(&totals, total, steps),
        rtt: rtt.map(Duration::from_nanos),
        terms,
        typical: typical.len(),
        of,
        first: None,
    })
}

/// Where a term stands: round trips and what goes with them in the order of time, then the rest.
fn place(term: &Term) -> (u8, Option<Span>) {
    match term.kind {
        TermKind::Resolver => (0, None),
        TermKind::Fallback | TermKind::Variation => (1, Some(Span::Connect)),
        TermKind::RoundTrips | TermKind::Stalls | TermKind::Nagle => (1, term.span),
        TermKind::Server => (2, term.span),
        TermKind::Pause => (3, term.span),
        TermKind::Client => (4, None),
        TermKind::Transfer => (5, None),
        TermKind::Unexplained => (6, None),
    }
}

/// Averages are rounded down: what that leaves, at most a nanosecond a term and round trip, goes to
/// the largest term that is no multiple of the round trip.
fn settle(terms: &mut Vec<Term>, total: u64) {
    let sum: u64 = terms.iter().map(|term| term.time.as_nanos() as u64).sum();
    // A wait for an acknowledgement that was shorter than the round trip it is counted as.
    let over = Duration::from_nanos(sum.saturating_sub(total));
    if let Some(term) = terms.iter_mut().filter(|t| t.round_trips > 0).max_by_key(|t| t.time) {
        term.time -= over.min(term.time);
        term.hold_time();
    }
    let left = Duration::from_nanos(total.saturating_sub(sum));
    let free = terms.iter_mut().filter(|term| term.round_trips == 0);
    match free.max_by_key(|term| term.time) {
        Some(term) => {
            term.time += left;
            term.hold_time();
        }
        None if left.is_zero() => {}
        None => terms.push(Term {
            kind: TermKind::Unexplained,
            span: None,
            round_trips: 0,
            time: left,
            interval: None,
            doubt: Duration::ZERO,
        }),
    }
}

impl Term {
    /// Whether the time is known better than within itself. What is shorter than the noise of hosts always is.
    pub fn is_known(&self) -> bool {
        self.doubt <= self.time || self.doubt.as_nanos() as i64 <= NOISE_NS
    }

    /// Makes the interval hold the time.
    fn hold_time(&mut self) {
        let value = self.time.as_nanos() as f64;
        self.interval = self.interval.map(|interval| holding(interval, value));
    }
}

fn holding(interval: Interval, value: f64) -> Interval {
    Interval { low: interval.low.min(value), high: interval.high.max(value) }
}

/// The interval of the median, of values that each may be off by `steps`, made to hold `value`.
fn interval(series: &[f64], value: u64, steps: f64) -> Option<Interval> {
    let interval = in_steps(median_estimate(series)?, steps, series.len()).interval?;
    Some(holding(interval, value as f64))
}
