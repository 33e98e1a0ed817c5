//! All tests for one pair: shares and medians before and after, and the data behind them.

use std::hash::Hash;

use super::super::Failed;
use super::seen::Seen;
use super::strata::{Compared, Row, Sides, Within, counterpart};
use super::{Change, Figure, Of, Pair, Spread, What};
use firstbyte_core::stats::{Estimate, Interval};

/// A tested difference, and whether it can be reported.
pub(super) struct Test {
    pub(super) change: Change,
    /// Whether it is large enough to matter, lasts, and has no other cause.
    pub(super) matters: bool,
}

/// All tests of a pair.
pub(super) struct Tests {
    pub(super) found: Vec<Test>,
    /// Families whose mix differs, reported or not: times are compared within these.
    pub(super) families: Within,
    /// Those of these families that differ only because other handshakes are visible.
    pub(super) explained: Within,
}

const TIMES: [What; 5] = [
    What::ServerRoundTrip,
    What::ClientRoundTrip,
    What::ServerTimeFull,
    What::ServerTimeShort,
    What::ServerTimeExchange,
];

/// All differences of `pair`, significant or not.
pub(super) fn find_differences(pair: usize, sides: &Sides<'_>) -> Tests {
    let mut tests =
        Tests { found: Vec::new(), families: Within::ANYTHING, explained: Within::ANYTHING };
    let mut run = Run { pair, sides, tests: &mut tests };
    run.resumption();
    run.family(What::Version, &[Within::ANYTHING], |seen| seen.version);
    run.family(What::CertificateKey, &VISIBLE, |seen| seen.key);
    run.family(What::Group, &VISIBLE, |seen| seen.group);
    run.family(What::CipherSuite, &VISIBLE, |seen| seen.cipher_suite);
    run.hello_retry_request();
    for way in Failed::ALL {
        run.failed(way);
    }
    TIMES.into_iter().for_each(|what| run.time(what));
    tests
}

/// Negotiated values are compared among similar clients, within one kind of handshake.
const VISIBLE: [Within; 2] = [Within::FINEST, Within::HANDSHAKE];

/// The time of a connection for the median of `what`, seconds.
fn time(what: What, seen: &Seen) -> Option<f64> {
    match what {
        What::ServerRoundTrip => seen.server_rtt,
        What::ClientRoundTrip => seen.client_rtt,
        What::ServerTimeFull => seen.timed(false).map(|(_, server)| server),
        What::ServerTimeShort => seen.timed(true).map(|(_, server)| server),
        What::ServerTimeExchange => seen.exchange_server,
        _ => None,
    }
}

/// Whether `what` is true of a connection; absent if the connection does not count for its share. A client's first
/// connection cannot be resumed.
fn holds(what: What, row: &Row<'_>) -> Option<bool> {
    let seen = row.seen;
    match what {
        What::Resumption => seen.resumed.filter(|_| !row.first),
        What::HelloRetryRequest => seen.hello_retry_request,
        What::Failed(way) => Some(seen.failed == Some(way)),
        _ => None,
    }
}

/// The data behind a difference within strata.
pub(super) fn spread(change: &Change, pair: &Pair) -> Spread {
    let sides = Sides::from_both(&pair.before, &pair.after);
    let within = change.within;
    let what = change.what;
    match what {
        What::Version(_) => family(&sides, within, What::Version, |seen| seen.version),
        What::CertificateKey(_) => family(&sides, within, What::CertificateKey, |seen| seen.key),
        What::Group(_) => family(&sides, within, What::Group, |seen| seen.group),
        What::CipherSuite(_) => family(&sides, within, What::CipherSuite, |seen| seen.cipher_suite),
        What::Resumption | What::HelloRetryRequest | What::Failed(_) => {
            let found = sides.share(&[within], |row| holds(what, row));
            Spread::Shares(found.map(|found| (what, found.figures)).into_iter().collect())
        }
        _ => Spread::Times(sides.times(within, |row| time(what, row.seen))),
    }
}

/// All values, by falling number of connections.
fn family<T: Copy + Eq + Hash>(
    sides: &Sides<'_>,
    within: Within,
    what: impl Fn(T) -> What,
    of: impl Fn(&Seen) -> Option<T>,
) -> Spread {
    let values = sides.family(&[within], |row| of(row.seen)).map(|family| family.values);
    let mut values: Vec<(What, [Figure; 2])> = values
        .unwrap_or_default()
        .into_iter()
        .map(|(value, compared)| (what(value), compared.figures))
        .collect();
    let count =
        |figures: &[Figure; 2]| figures.iter().filter_map(|figure| figure.count).sum::<usize>();
    values.sort_by_key(|(_, figures)| std::cmp::Reverse(count(figures)));
    Spread::Shares(values)
}

struct Run<'a, 'b> {
    pair: usize,
    sides: &'a Sides<'b>,
    tests: &'a mut Tests,
}

impl Run<'_, '_> {
    fn resumption(&mut self) {
        let what = What::Resumption;
        let Some(found) = self.sides.share(&[Within::VERSION], |row| holds(what, row)) else {
            return;
        };
        let returning = self.sides.0.iter().flatten().any(|row| row.first);
        let of = if returning { Of::Returning } else { Of::Handshakes };
        let figures = |is: fn(&Row<'_>) -> Option<bool>| {
            let of = self.sides.share(&[Within::ANYTHING], is);
            of.map(|compared| compared.figures)
        };
        let offered = figures(|row| row.seen.resumed.filter(|_| row.seen.offered == Some(true)));
        let all = figures(|row| row.seen.resumed).filter(|_| returning);
        let also = [(Of::Offered, offered), (Of::Handshakes, all)];
        let also = also.into_iter().filter_map(|(of, figures)| Some((of, figures?)));
        let lasts = found.lasts;
        let change = Change { also: also.collect(), ..self.change(what, of, found) };
        self.push(change, lasts);
    }

    fn hello_retry_request(&mut self) {
        let what = What::HelloRetryRequest;
        let Some(found) = self.sides.share(&VISIBLE, |row| holds(what, row)) else { return };
        let lasts = found.lasts;
        let change = self.change(what, Of::Answered, found);
        self.tests.families.hello_retry_request |= differs(&change);
        self.push(change, lasts);
    }

    fn failed(&mut self, way: Failed) {
        let what = What::Failed(way);
        let Some(found) = self.sides.share(&[Within::ANYTHING], |row| holds(what, row)) else {
            return;
        };
        let change = self.change(what, Of::Connections, found);
        // An outage is a change, however short.
        self.push(change, true);
    }

    fn family<T: Copy + Eq + Hash>(
        &mut self,
        what: impl Fn(T) -> What + Copy,
        levels: &[Within],
        of: impl Fn(&Seen) -> Option<T>,
    ) {
        let Some(family) = self.sides.family(levels, |row| of(row.seen)) else { return };
        let mut different = (false, false);
        for (place, (value, compared)) in family.values.iter().enumerate().take(family.tested) {
            let replaced = counterpart(&family, place, what);
            let what = what(*value);
            let of_which = match levels {
                [Within::ANYTHING] => Of::Answered,
                _ => Of::Shown,
            };
            let change = Change { replaced, ..self.change(what, of_which, compared.clone()) };
            let differs = differs(&change);
            let unexplained = differs && {
                let rose = change.difference.value > 0.0;
                let is = |row: &Row<'_>| Some(of(row.seen)? == *value);
                levels == [Within::ANYTHING] || self.sides.is_more_than_shown(rose, is)
            };
            different.0 |= differs;
            different.1 |= unexplained;
            self.push(change, compared.lasts && unexplained);
        }
        let Some((first, _)) = family.values.first() else { return };
        let (families, explained) = (&mut self.tests.families, &mut self.tests.explained);
        let (families, explained) = match what(*first) {
            What::CertificateKey(_) => (&mut families.key, &mut explained.key),
            What::Group(_) => (&mut families.group, &mut explained.group),
            What::CipherSuite(_) => (&mut families.cipher_suite, &mut explained.cipher_suite),
            _ => return,
        };
        *families = different.0;
        *explained = different.0 && !different.1;
    }

    fn time(&mut self, what: What) {
        let of = |row: &Row<'_>| time(what, row.seen);
        let found = match what {
            What::ServerTimeFull | What::ServerTimeShort => {
                // The sizes of the client's messages and the server's work depend on the negotiated parameters.
                let families = self.tests.families;
                let levels = [
                    Within { version: true, first: true, handshake: true, ..families },
                    Within { version: true, first: false, handshake: true, ..families },
                ];
                self.sides.time(&levels, false, of)
            }
            _ => {
                // Clients that resume may differ from those that do not, and handshakes of one kind may slow down what
                // follows them. A real change shows in both comparisons.
                let levels = [Within::CLIENTS, Within::VERSION, Within::ANYTHING];
                let clients = self.sides.time(&levels, false, of);
                let kinds = self.sides.time(&[Within::FINEST, Within::HANDSHAKE], true, of);
                less_certain(clients, kinds)
            }
        };
        let Some(found) = found else { return };
        let lasts = found.lasts;
        let change = self.change(what, Of::Timed, found);
        self.push(change, lasts);
    }

    fn change(&self, what: What, of: Of, found: Compared) -> Change {
        let [before, after] = found.figures;
        Change {
            pair: self.pair,
            what,
            of,
            within: found.within,
            before,
            after,
            replaced: None,
            also: Vec::new(),
            difference: found.difference,
            p_adjusted: 1.0,
            cost: None,
            server_time: None,
            handshakes: None,
            round_trips: None,
            projected: Vec::new(),
        }
    }

    fn push(&mut self, change: Change, otherwise: bool) {
        // A share that is 0, or 1, on both sides cannot have changed, so it is not tested.
        let sides = [&change.before, &change.after];
        let same = |value: fn(&Figure) -> Option<usize>| {
            sides.into_iter().all(|figure| figure.count.is_some() && figure.count == value(figure))
        };
        if same(|_| Some(0)) || same(|figure| Some(figure.of)) {
            return;
        }
        let matters =
            otherwise && change.what.matters(change.before.value, change.difference.value);
        self.tests.found.push(Test { change, matters });
    }
}

/// Whether both sides differ, if this were the only test.
fn differs(change: &Change) -> bool {
    change.difference.interval.as_ref().is_some_and(Interval::excludes_zero)
        && change.what.matters(change.before.value, change.difference.value)
}

/// The less certain of two comparisons of the same quantity; `None` if they contradict each other.
fn less_certain(one: Option<Compared>, other: Option<Compared>) -> Option<Compared> {
    let (one, other) = match (one, other) {
        (Some(one), Some(other)) => (one, other),
        (one, other) => return one.or(other),
    };
    let p = |compared: &Compared| compared.difference.p_value;
    match (p(&one), p(&other)) {
        (Some(_), Some(_)) if one.difference.value * other.difference.value < 0.0 => {
            let ends = |compared: &Compared| {
                let value = compared.difference.value;
                compared.difference.interval.unwrap_or(Interval { low: value, high: value })
            };
            let [a, b] = [ends(&one), ends(&other)];
            let interval = Interval { low: a.low.min(b.low), high: a.high.max(b.high) };
            let difference =
                Estimate { interval: Some(interval), p_value: Some(1.0), ..one.difference };
            Some(Compared { difference, ..one })
        }
        (Some(first), Some(second)) => Some(if first >= second { one } else { other }),
        (Some(_), None) => Some(one),
        _ => Some(other),
    }
}
