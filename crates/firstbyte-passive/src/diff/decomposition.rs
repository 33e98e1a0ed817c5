//! Decomposes the total change into parts that add up: changes of mixes, and changes within them.
//!
//! In: the connections of both sides. Out: how long a connection takes on either side, and how much of the difference
//! each source causes. A connection takes
//!
//! `(the opening's round trip + those of the handshake + exchanges) × round trip + server and rest of the handshake +
//! exchanges × server's time in one`,
//!
//! each at its typical value: means within strata, with outliers clamped, weighted by each stratum's number of
//! connections. The difference between sums over strata is split into that of the shares, at the mean of both sides'
//! times, and that of the times, at the mean of both sides' shares (Kitagawa 1955). Nothing is left over, and nothing
//! counts twice. The formulas are in `docs/statistics.md`, "Captured traffic".

use std::collections::HashMap;

use super::super::observed::CertificateKey;
use super::strata::{Row, Sides, Within, typical};
use firstbyte_core::stats::quantile;

/// Why the time of a connection changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Version,
    /// Different clients: more that connect for the first time, or from farther away.
    Clients,
    Resumption,
    HelloRetryRequest,
    Key,
    Group,
    CipherSuite,
    ServerRoundTrip,
    ClientRoundTrip,
    ServerTimeFull,
    ServerTimeShort,
    ServerTimeExchange,
    /// More or fewer exchanges per connection.
    Exchanges,
    /// The client's part of the handshake, the duration of flights, and round trips not explained by the above.
    Rest,
}

const SOURCES: usize = Source::Rest as usize + 1;

/// The part of a difference that each source causes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Parts([f64; SOURCES]);

impl Parts {
    pub(super) const fn caused_by(&self, source: Source) -> f64 {
        self.0[source as usize]
    }

    const fn at(&mut self, source: Source) -> &mut f64 {
        &mut self.0[source as usize]
    }

    fn add(&mut self, other: &Self, times: f64) {
        for (part, other) in self.0.iter_mut().zip(&other.0) {
            *part += times * other;
        }
    }

    fn scaled(&self, times: f64) -> Self {
        Self(self.0.map(|part| part * times))
    }
}

/// How long a connection takes before and after, and why that changed.
#[derive(Clone, Debug)]
pub(super) struct Decomposition {
    /// Seconds per connection.
    pub(super) all: Changed,
    /// The parts that scale with distance; absent unless round trips are known on both sides of the tap.
    ways: Option<Ways>,
    /// The server's part in handshakes.
    pub(super) server: Parts,
    /// Number of connections on either side, and how many had full handshakes.
    pub(super) connections: [usize; 2],
    pub(super) full: [usize; 2],
}

/// A connection's time, split into round trips and everything else.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ways {
    /// Round trips of a connection, including those for flights larger than the initial window.
    pub(super) round_trips: Changed,
    /// Duration of one round trip, seconds.
    pub(super) path: Changed,
    /// Everything else.
    work: Changed,
}

impl Ways {
    /// Duration of a connection if the round trip before had been `round_trip`. All paths become longer by the same
    /// amount, and everything else stays. Absent if the round trips became shorter by more than `round_trip`.
    pub(super) fn at(&self, round_trip: f64) -> Option<Changed> {
        let farther = Changed { sides: [round_trip - self.path.sides[0]; 2], ..Changed::default() };
        let path = self.path.plus(&farther);
        (path.sides[1] > 0.0).then(|| self.round_trips.times(&path).plus(&self.work))
    }
}

impl Decomposition {
    pub(super) const fn ways(&self) -> Option<&Ways> {
        self.ways.as_ref()
    }
}

/// A figure on either side, and why it changed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Changed {
    pub(super) sides: [f64; 2],
    pub(super) parts: Parts,
}

impl Changed {
    fn mean(&self) -> f64 {
        (self.sides[0] + self.sides[1]) / 2.0
    }

    /// The same figures, with the whole change attributed to one source.
    fn because_of(mut self, source: Source) -> Self {
        self.parts = Parts::default();
        *self.parts.at(source) = self.sides[1] - self.sides[0];
        self
    }

    /// The sum of two figures.
    fn plus(&self, other: &Self) -> Self {
        let mut parts = self.parts;
        parts.add(&other.parts, 1.0);
        Self { sides: [0, 1].map(|side| self.sides[side] + other.sides[side]), parts }
    }

    /// The product of two figures: the change of each counts at the mean of the other.
    fn times(&self, other: &Self) -> Self {
        let mut parts = self.parts.scaled(other.mean());
        parts.add(&other.parts, self.mean());
        Self { sides: [0, 1].map(|side| self.sides[side] * other.sides[side]), parts }
    }
}

/// Decomposes the difference between both sides, with times of handshakes compared within `families`. Absent if a side
/// has no successful connection, or none with a known time.
pub(super) fn decompose(sides: &Sides<'_>, families: Within) -> Option<Decomposition> {
    let any = sides.0.iter().flatten().any(|row| row.seen.resumed.is_some());
    let came_about =
        |row: &Row<'_>| row.seen.failed.is_none() && (row.seen.resumed.is_some() || !any);
    let sides = sides.filtered(came_about);
    let rows = sides.0.each_ref().map(|side| side.iter().collect::<Vec<_>>());
    let connections = rows.each_ref().map(Vec::len);
    if connections.contains(&0) {
        return None;
    }
    let of_handshake = |of: fn(&Row<'_>) -> Option<f64>, kind, within: [Source; 2]| {
        let levels = handshake_levels(families);
        let measure = Measure { of, mean: kind, levels, own: true, within };
        measure.changed(&rows)
    };
    let of_path = |of: fn(&Row<'_>) -> Option<f64>, source| {
        let levels = vec![Level::Version, Level::First];
        let measure = Measure { of, mean: false, levels, own: false, within: [source; 2] };
        measure.changed(&rows)
    };
    let rest = [Source::Rest; 2];
    let server_within = [Source::ServerTimeFull, Source::ServerTimeShort];
    let server = of_handshake(|row| Some(row.seen.handshake?.1), false, server_within);
    let client = of_handshake(|row| row.seen.rest_of_handshake(), false, rest);
    let trips = of_handshake(|row| row.seen.round_trips.map(f64::from), true, rest);
    let of_all = |of: fn(&Row<'_>) -> Option<f64>, source| {
        let within = [source; 2];
        let measure = Measure { of, mean: true, levels: Vec::new(), own: true, within };
        measure.changed(&rows).unwrap_or_default()
    };
    let exchanges = of_all(|row| Some(f64::from(row.seen.answered)), Source::Exchanges);
    let opening = of_all(|row| Some(if row.seen.has_opening { 1.0 } else { 0.0 }), Source::Rest);
    let near = of_path(|row| row.seen.client_rtt, Source::ClientRoundTrip);
    let far = of_path(|row| row.seen.server_rtt, Source::ServerRoundTrip);
    let exchange = of_path(|row| row.seen.exchange_server, Source::ServerTimeExchange);
    if [&server, &near, &far, &exchange].into_iter().all(Option::is_none) {
        return None;
    }
    let path = near.as_ref().zip(far.as_ref()).map(|(near, far)| near.plus(far));
    let [server, client, trips, near, far, exchange] =
        [server, client, trips, near, far, exchange].map(Option::unwrap_or_default);
    let round_trips = opening.plus(&trips).plus(&exchanges);
    let ways = round_trips.times(&near.plus(&far));
    let together =
        Changed { sides: rows.each_ref().map(|side| together(side)), ..Changed::default() };
    let together = together.because_of(Source::Resumption);
    let work = together.plus(&server).plus(&client).plus(&exchanges.times(&exchange));
    let full = rows
        .each_ref()
        .map(|side| side.iter().filter(|row| row.seen.resumed == Some(false)).count());
    Some(Decomposition {
        all: ways.plus(&work),
        ways: path.map(|path| Ways { round_trips, path, work }),
        server: server.parts,
        connections,
        full,
    })
}

/// How much longer the round trips of handshakes take than the same number at the average path, seconds per connection.
///
/// Clients that resume may be farther away than others, and their handshakes have fewer round trips. Paths beyond the
/// 5th and 95th percentile are clamped, because one late packet says little about the others.
fn together(rows: &[&Row<'_>]) -> f64 {
    let known: Vec<(f64, f64)> = rows
        .iter()
        .filter_map(|row| {
            let path = row.seen.server_rtt? + row.seen.client_rtt?;
            Some((f64::from(row.seen.round_trips?), path))
        })
        .collect();
    let mut paths: Vec<f64> = known.iter().map(|(_, path)| *path).collect();
    paths.sort_by(f64::total_cmp);
    let ends = [0.05, 0.95].map(|q| quantile(&paths, q));
    let [Some(low), Some(high)] = ends else { return 0.0 };
    let n = known.len() as f64;
    let mean = |of: &dyn Fn(f64, f64) -> f64| -> f64 {
        known.iter().map(|(trips, path)| of(*trips, path.clamp(low, high))).sum::<f64>() / n
    };
    mean(&|trips, path| trips * path) - mean(&|trips, _| trips) * mean(&|_, path| path)
}

/// The properties by which connections are split, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Version,
    First,
    Handshake,
    HelloRetryRequest,
    Key,
    Group,
    CipherSuite,
}

fn handshake_levels(families: Within) -> Vec<Level> {
    let all = [
        (true, Level::Version),
        (true, Level::First),
        (true, Level::Handshake),
        (families.hello_retry_request, Level::HelloRetryRequest),
        (families.key, Level::Key),
        (families.group, Level::Group),
        (families.cipher_suite, Level::CipherSuite),
    ];
    all.into_iter().filter_map(|(is, level)| is.then_some(level)).collect()
}

/// A value of one property.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Value {
    Number(Option<u16>),
    Flag(Option<bool>),
    Key(Option<CertificateKey>),
}

impl Level {
    const fn value(self, row: &Row<'_>) -> Value {
        let seen = row.seen;
        match self {
            Self::Version => Value::Number(seen.version),
            Self::First => Value::Flag(Some(row.first)),
            Self::Handshake => Value::Flag(seen.resumed),
            Self::HelloRetryRequest => Value::Flag(seen.hello_retry_request),
            Self::Key => Value::Key(seen.key),
            Self::Group => Value::Number(seen.group),
            Self::CipherSuite => Value::Number(seen.cipher_suite),
        }
    }

    const fn source(self) -> Source {
        match self {
            Self::Version => Source::Version,
            Self::First => Source::Clients,
            Self::Handshake => Source::Resumption,
            Self::HelloRetryRequest => Source::HelloRetryRequest,
            Self::Key => Source::Key,
            Self::Group => Source::Group,
            Self::CipherSuite => Source::CipherSuite,
        }
    }
}

/// A measure of a connection, and how it is decomposed.
struct Measure {
    of: fn(&Row<'_>) -> Option<f64>,
    /// Use the mean rather than the median.
    mean: bool,
    levels: Vec<Level>,
    /// If a value exists on one side only, whether that value causes the whole change: a new key makes the handshakes
    /// in which it is used. Otherwise the value is compared with the whole other side: a path is not longer because of
    /// what it carries.
    own: bool,
    /// Why it changes within a stratum: for full handshakes and for resumed ones.
    within: [Source; 2],
}

type Rows<'a, 'b> = Vec<&'b Row<'a>>;

impl Measure {
    /// Absent if it is unknown for all connections of a side.
    fn changed(&self, rows: &[Rows<'_, '_>; 2]) -> Option<Changed> {
        let all = [self.typical(&rows[0])?, self.typical(&rows[1])?];
        Some(self.node(&self.levels, rows, all, self.within[0]))
    }

    fn typical(&self, rows: &[&Row<'_>]) -> Option<f64> {
        let values: Vec<f64> = rows.iter().filter_map(|row| (self.of)(row)).collect();
        match self.mean {
            true => (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64),
            false => typical(values),
        }
    }

    /// Decomposes a stratum that has connections on both sides. Unknown values are taken from the stratum around it.
    fn node(
        &self,
        levels: &[Level],
        rows: &[Rows<'_, '_>; 2],
        around: [f64; 2],
        within: Source,
    ) -> Changed {
        let own = rows.each_ref().map(|rows| self.typical(rows));
        let mut parts = Parts::default();
        let Some((level, deeper)) = levels.split_first() else {
            let sides = match own {
                [Some(before), Some(after)] => [before, after],
                // The value is unknown on one side, so it is not known to have changed.
                [Some(known), None] | [None, Some(known)] => [known; 2],
                [None, None] => [(around[0] + around[1]) / 2.0; 2],
            };
            *parts.at(within) += sides[1] - sides[0];
            return Changed { sides, parts };
        };
        let around = [own[0].unwrap_or(around[0]), own[1].unwrap_or(around[1])];
        // Each side as a whole, to compare with values that only the other side has.
        let wholes =
            (!self.own).then(|| [0, 1].map(|side| self.alone(levels, &rows[side], around[side])));
        let mut sides = [0.0; 2];
        let mix = if self.own { level.source() } else { Source::Clients };
        for (value, children) in children(*level, rows) {
            let within = match value {
                Value::Flag(Some(true)) if *level == Level::Handshake => self.within[1],
                Value::Flag(_) if *level == Level::Handshake => self.within[0],
                _ => within,
            };
            let shares =
                [0, 1].map(|side| children[side].len() as f64 / rows[side].len().max(1) as f64);
            let child = match children.each_ref().map(|side| !side.is_empty()) {
                [true, true] => self.node(deeper, &children, around, within),
                [before, _] => {
                    let side = usize::from(!before);
                    let known = self.alone(deeper, &children[side], around[side]);
                    let mut sides = [known; 2];
                    if let Some(wholes) = wholes {
                        sides[1 - side] = wholes[1 - side];
                    }
                    let mut parts = Parts::default();
                    *parts.at(within) += sides[1] - sides[0];
                    Changed { sides, parts }
                }
            };
            parts.add(&child.parts, (shares[0] + shares[1]) / 2.0);
            *parts.at(mix) += (shares[1] - shares[0]) * child.mean();
            sides = [0, 1].map(|side| sides[side] + shares[side] * child.sides[side]);
        }
        Changed { sides, parts }
    }

    /// The figure of a stratum that exists on one side only.
    fn alone(&self, levels: &[Level], rows: &[&Row<'_>], around: f64) -> f64 {
        let own = self.typical(rows).unwrap_or(around);
        let Some((level, deeper)) = levels.split_first() else { return own };
        let all = rows.len().max(1) as f64;
        children(*level, &[rows.to_vec(), Vec::new()])
            .into_iter()
            .map(|(_, [rows, _])| rows.len() as f64 / all * self.alone(deeper, &rows, own))
            .sum()
    }
}

type Children<'a, 'b> = Vec<(Value, [Rows<'a, 'b>; 2])>;

/// The strata of a level, in the order of their first connections.
fn children<'a, 'b>(level: Level, rows: &[Rows<'a, 'b>; 2]) -> Children<'a, 'b> {
    let mut places: HashMap<Value, usize> = HashMap::new();
    let mut children: Children<'a, 'b> = Vec::new();
    for (side, rows) in rows.iter().enumerate() {
        for row in rows {
            let value = level.value(row);
            let place = *places.entry(value).or_insert_with(|| {
                children.push((value, [Vec::new(), Vec::new()]));
                children.len() - 1
            });
            children[place].1[side].push(row);
        }
    }
    children
}
