//! What changed in all, taken apart so that the parts add up: mixes, and what changed within them.
//!
//! In: the connections of both sides. Out: how long a connection takes on either side, and what each source of
//! change has to do with the difference. A connection takes
//!
//! `(the opening's round trip + those of the handshake + exchanges) × round trip + server and rest of the handshake
//! + exchanges × server's time in one`,
//!
//! each as it typically is: means within strata, without what is far out, weighed by how many connections each
//! stratum has. A difference of sums over strata is that of their shares, at the mean of both
//! sides' times, and that of their times, at the mean of both sides' shares (Kitagawa 1955): nothing is left
//! over, and nothing counts twice. The formulas are in `docs/statistics.md`, "Captured traffic".

use std::collections::HashMap;

use super::super::observed::CertificateKey;
use super::strata::{Row, Sides, Within, typical};
use firstbyte_core::stats::quantile;

/// Why the time of a connection changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Version,
    /// Other clients: more that come for the first time, or from farther away.
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
    /// More or fewer exchanges in a connection.
    Exchanges,
    /// The client's part of the handshake, what flights took to pass, round trips for no reason of the above.
    Rest,
}

const SOURCES: usize = Source::Rest as usize + 1;

/// What each source has to do with a difference.
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

/// How long a connection takes, before and after, and why that changed.
#[derive(Clone, Debug)]
pub(super) struct Decomposition {
    /// Seconds of a connection.
    pub(super) all: Changed,
    /// What distance multiplies; absent where the way is not known on both sides of the tap.
    ways: Option<Ways>,
    /// Of these, what the server takes in handshakes.
    pub(super) server: Parts,
    /// Connections on either side, and how many of them had full handshakes.
    pub(super) connections: [usize; 2],
    pub(super) full: [usize; 2],
}

/// What of a connection's time is round trips, and what is not.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ways {
    /// Round trips of a connection, those for flights beyond the initial window included.
    pub(super) round_trips: Changed,
    /// What one takes, seconds.
    pub(super) path: Changed,
    /// Everything else.
    work: Changed,
}

impl Ways {
    /// What a connection takes where the round trip was `round_trip` before: as much longer for all, everything else as
    /// it is. Absent where the round trips became shorter by more than that.
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

    /// The same, for this reason.
    fn because_of(mut self, source: Source) -> Self {
        self.parts = Parts::default();
        *self.parts.at(source) = self.sides[1] - self.sides[0];
        self
    }

    /// A sum.
    fn plus(&self, other: &Self) -> Self {
        let mut parts = self.parts;
        parts.add(&other.parts, 1.0);
        Self { sides: [0, 1].map(|side| self.sides[side] + other.sides[side]), parts }
    }

    /// A product: the change of either counts at the mean of the other.
    fn times(&self, other: &Self) -> Self {
        let mut parts = self.parts.scaled(other.mean());
        parts.add(&other.parts, self.mean());
        Self { sides: [0, 1].map(|side| self.sides[side] * other.sides[side]), parts }
    }
}

/// Takes the difference between both sides apart; times of handshakes within `families` as well. Absent where no
/// connection came about on a side, or nothing of them was timed.
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

/// By how much the ways of handshakes are longer than as many round trips on the way that all have on average:
/// who resumes may be farther away than who does not, and its handshakes have fewer. Seconds of a connection; paths
/// beyond the 5th and 95th percentile are taken to be there, as one that was late says little of the others.
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

/// What connections are told apart by, one after the other.
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

/// A value of a level.
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

/// Something of a connection, and how it is looked at.
struct Measure {
    of: fn(&Row<'_>) -> Option<f64>,
    /// Its mean, not its median.
    mean: bool,
    levels: Vec<Level>,
    /// What is on one side only is why the whole of it changed: a new key makes the handshakes that it is in.
    /// Otherwise it is held against all of the other side: a path is not longer because of what it carries.
    own: bool,
    /// Why it changes within a stratum, of full handshakes and of short ones.
    within: [Source; 2],
}

type Rows<'a, 'b> = Vec<&'b Row<'a>>;

impl Measure {
    /// Absent where it is not known of any connection of a side.
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

    /// Both sides of a stratum, in which there are connections of both. What is not known of them is as in the
    /// stratum around it.
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
                // Of one side nothing is known: that it changed is not known either.
                [Some(known), None] | [None, Some(known)] => [known; 2],
                [None, None] => [(around[0] + around[1]) / 2.0; 2],
            };
            *parts.at(within) += sides[1] - sides[0];
            return Changed { sides, parts };
        };
        let around = [own[0].unwrap_or(around[0]), own[1].unwrap_or(around[1])];
        // Each side as a whole, for what is on the other alone.
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

    /// A stratum that is on one side only.
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

/// The strata of a level, in the order in which they were met.
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
