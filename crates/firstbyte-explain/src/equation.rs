//! The typical connection's time as a sum: whole round trips, and the remaining time by cause.
//!
//! Typical connections have the most common shape (the same round trips in the same phases) and lie in the middle
//! half of these by total time. Each term is their mean, so the terms add up to the total as each connection's own
//! terms do. A term's interval is that of its median over all connections of the shape.

use std::collections::BTreeMap;
use std::time::Duration;

use firstbyte_core::split::server_model::constants::NOISE_NS;
use firstbyte_core::split::{Held, PhaseSplit, Split, Why};
use firstbyte_core::stats::{Interval, in_steps, median_estimate};
use firstbyte_core::timeline::PhaseName;

/// The step of the connection that a term's time belongs to.
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
    /// The request, up to the first byte of the response.
    Request,
    /// The rest of the response.
    Response,
}

impl Span {
    /// Every span, in chronological order.
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

    /// Its label in the equation.
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

/// Kind of time of a term, in the order of the equation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TermKind {
    /// Waiting for the name server.
    Resolver,
    /// Trying another address first.
    Fallback,
    /// Whole round trips.
    RoundTrips,
    /// Whole round trips during which the server waited with a full congestion window.
    Stalls,
    /// Whole round trips during which Nagle's algorithm held back the rest of an answer.
    Nagle,
    /// The time of the TCP handshake beyond one round trip.
    Variation,
    /// The server's own time.
    Server,
    /// The sender paused in the middle of an answer.
    Pause,
    /// The client's own time.
    Client,
    /// Time between the first and the last byte of answers.
    Transfer,
    /// Time that could not be attributed.
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

    /// Whether terms of this kind are split by span.
    const fn by_span(self) -> bool {
        matches!(self, Self::RoundTrips | Self::Stalls | Self::Nagle | Self::Server | Self::Pause)
    }
}

/// A term of the equation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Term {
    /// Kind of time.
    pub kind: TermKind,
    /// The span it belongs to; absent if the term covers the whole connection.
    pub span: Option<Span>,
    /// Number of round trips in it.
    pub round_trips: u32,
    /// Its time.
    pub time: Duration,
    /// 95 % interval of the term's median, nanoseconds; absent with fewer than 20 connections.
    pub interval: Option<Interval>,
    /// Mean of how far the time may be off because another explanation fits the arrivals equally well.
    pub doubt: Duration,
}

/// Extra time of the first connection over the typical one, for one kind; negative if it took less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extra {
    /// Kind of time.
    pub kind: TermKind,
    /// The span it belongs to; absent if it covers the whole connection.
    pub span: Option<Span>,
    /// Additional round trips.
    pub round_trips: i64,
    /// Additional time, nanoseconds.
    pub ns: i64,
}

/// The typical connection's time, as a sum.
#[derive(Clone, Debug, PartialEq)]
pub struct Equation {
    /// The sum of all terms.
    pub total: Duration,
    /// 95 % interval of the median total, nanoseconds.
    pub interval: Option<Interval>,
    /// The round-trip time that is the unit for counting round trips.
    pub rtt: Option<Duration>,
    /// The terms, in chronological order and then by kind.
    pub terms: Vec<Term>,
    /// Number of connections of the typical shape.
    pub typical: usize,
    /// Number of connections observed.
    pub of: usize,
    /// The first connection's total and its extra times, largest first. They add up to the difference of the two
    /// totals.
    pub first: Option<(Duration, Vec<Extra>)>,
}

type Key = (Option<Span>, TermKind);

/// Round trips by kind and span.
type Shape = Vec<(Key, u32)>;

/// One connection's terms: round trips and nanoseconds.
#[derive(Clone, Debug, Default)]
struct Terms {
    /// Round trips, nanoseconds, and the nanoseconds of doubt.
    by_key: BTreeMap<Key, (u32, u64, u64)>,
    total: u64,
    rtt: Option<u64>,
    /// Resolution of the clock, nanoseconds, if the times come from a reported clock.
    steps: u64,
}

impl Terms {
    /// If `whole` is set, the response's waits for acknowledgements count as transfer.
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

/// Number of a phase's stalls that Nagle's algorithm caused.
fn nagle_waits(split: &Split, phase: &PhaseSplit) -> u32 {
    let (start, end) = (phase.phase.start, phase.phase.end);
    let is_it = |held: &&Held| held.why == Why::Nagle && held.until > start && held.until <= end;
    u32::try_from(split.held.iter().filter(is_it).count())
        .map_or(phase.stalls, |n| n.min(phase.stalls))
}

impl Equation {
    /// The equation of connections from their splits, in the order in which they were made, and from the split of
    /// the first connection, made before them. Absent if there are no connections.
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
            // The number of stalls of a long response varies, so count them as transfer.
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

    /// Total time of the terms of one kind.
    pub fn time(&self, kind: TermKind) -> Duration {
        self.terms.iter().filter(|t| t.kind == kind).map(|t| t.time).sum()
    }

    /// Number of round trips, including stalls.
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

/// The connections with the most common shape; of equally common shapes, the first one seen.
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
            // Each interval between two timestamps may be off by one step of the clock.
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

/// Sort key of a term: round trips and related terms chronologically, then the rest.
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

/// Averages are rounded down. The remainder, at most a nanosecond per term and round trip, goes to the largest term
/// that is not a multiple of the round trip.
fn settle(terms: &mut Vec<Term>, total: u64) {
    let sum: u64 = terms.iter().map(|term| term.time.as_nanos() as u64).sum();
    // Happens if a wait for an acknowledgement was shorter than the round trip it is counted as.
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
    /// Whether the uncertainty is smaller than the time itself. Uncertainty below the hosts' noise is ignored.
    pub fn is_known(&self) -> bool {
        self.doubt <= self.time || self.doubt.as_nanos() as i64 <= NOISE_NS
    }

    /// Widens the interval so that it contains the time.
    fn hold_time(&mut self) {
        let value = self.time.as_nanos() as f64;
        self.interval = self.interval.map(|interval| holding(interval, value));
    }
}

fn holding(interval: Interval, value: f64) -> Interval {
    Interval { low: interval.low.min(value), high: interval.high.max(value) }
}

/// Confidence interval of the median, widened to contain `value`; each value may be off by `steps`.
fn interval(series: &[f64], value: u64, steps: f64) -> Option<Interval> {
    let interval = in_steps(median_estimate(series)?, steps, series.len()).interval?;
    Some(holding(interval, value as f64))
}
