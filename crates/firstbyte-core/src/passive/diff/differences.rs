//! Everything that is tested of one pair: shares and medians, before and after; and what they are taken from.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use super::super::Failed;
use super::seen::{Seen, Side};
use super::{Change, Figure, Pair, Spread, What};
use crate::stats::{Estimate, median, median_difference, share_difference};

/// Clients hardly ever come twice when fewer than one handshake in so many is of one that does.
const HARDLY_ANY: usize = 5;
/// Versions, keys or groups that are tested.
const MOST_VALUES: usize = 16;

/// All differences between `before` and `after`, whether they mean something or not.
pub(super) fn of(pair: usize, before: &Side, after: &Side) -> Vec<Change> {
    let sides = [before.in_order(), after.in_order()];
    let mut tests = Tests { pair, sides, found: Vec::new() };
    tests.resumption();
    tests.values(What::Version, |seen| seen.version);
    tests.values(What::CertificateKey, |seen| seen.key);
    tests.values(What::Group, |seen| seen.group);
    tests.share(What::HelloRetryRequest, |seen| seen.hello_retry_request);
    for way in Failed::ALL {
        tests.share(What::Failed(way), |seen| Some(seen.failed == Some(way)));
    }
    TIMES.into_iter().for_each(|what| tests.time(what));
    tests.found
}

const TIMES: [What; 5] = [
    What::ServerRoundTrip,
    What::ClientRoundTrip,
    What::ServerTimeFull,
    What::ServerTimeShort,
    What::ServerTimeExchange,
];

/// The time of a connection that `what` is the median of, seconds.
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

/// What a difference of `pair` is taken from.
pub(super) fn spread(what: What, pair: &Pair) -> Spread {
    let sides = [pair.before.in_order(), pair.after.in_order()];
    let counted = |sides: [Vec<bool>; 2]| Spread::Shares {
        of: sides.each_ref().map(Vec::len),
        values: vec![(what, sides.map(|side| side.into_iter().filter(|is| *is).count()))],
    };
    match what {
        What::Resumption => counted(resumed(&sides)),
        What::Version(_) => values(&sides, What::Version, |seen| seen.version),
        What::CertificateKey(_) => values(&sides, What::CertificateKey, |seen| seen.key),
        What::Group(_) => values(&sides, What::Group, |seen| seen.group),
        What::HelloRetryRequest => counted(known(&sides, |seen| seen.hello_retry_request)),
        What::Failed(way) => counted(known(&sides, |seen| Some(seen.failed == Some(way)))),
        _ => Spread::Times(known(&sides, |seen| time(what, seen)).map(|mut times| {
            times.sort_by(f64::total_cmp);
            times
        })),
    }
}

/// All values there are, those with most connections first.
fn values<T: Copy + Eq + Hash>(
    sides: &[Vec<&Seen>; 2],
    what: impl Fn(T) -> What,
    of: impl Fn(&Seen) -> Option<T>,
) -> Spread {
    let sides = known(sides, of);
    let mut counts = counts(&sides);
    counts.sort_by_key(|(_, [before, after])| Reverse(before + after));
    Spread::Shares {
        of: sides.map(|side| side.len()),
        values: counts.into_iter().map(|(value, count)| (what(value), count)).collect(),
    }
}

/// Every value, in the order in which they were met, and how often it was on either side.
fn counts<T: Copy + Eq + Hash>(sides: &[Vec<T>; 2]) -> Vec<(T, [usize; 2])> {
    let mut places: HashMap<T, usize> = HashMap::new();
    let mut counts: Vec<(T, [usize; 2])> = Vec::new();
    for (side, values) in sides.iter().enumerate() {
        for value in values {
            let place = *places.entry(*value).or_insert_with(|| {
                counts.push((*value, [0; 2]));
                counts.len() - 1
            });
            counts[place].1[side] += 1;
        }
    }
    counts
}

/// Of each side, what is known of its connections.
fn known<T>(sides: &[Vec<&Seen>; 2], of: impl Fn(&Seen) -> Option<T>) -> [Vec<T>; 2] {
    sides.each_ref().map(|side| side.iter().filter_map(|seen| of(seen)).collect())
}

/// Whether handshakes were short, on both sides.
///
/// A client that comes for the first time has nothing to resume, and a capture begins with many of
/// these: of each client, server and version the first handshake is not counted, on both sides. Where hardly any
/// client comes twice, all are.
fn resumed(sides: &[Vec<&Seen>; 2]) -> [Vec<bool>; 2] {
    let returning = sides.each_ref().map(|side| returning(side));
    let handshakes = known(sides, |seen| seen.resumed);
    let hardly_any =
        returning.iter().zip(&handshakes).all(|(some, all)| some.len() < all.len() / HARDLY_ANY);
    if hardly_any { handshakes } else { returning }
}

struct Tests<'a> {
    pair: usize,
    sides: [Vec<&'a Seen>; 2],
    found: Vec<Change>,
}

impl Tests<'_> {
    fn share(&mut self, what: What, is: impl Fn(&Seen) -> Option<bool>) {
        let known = known(&self.sides, is);
        self.share_of(what, &known[0], &known[1]);
    }

    fn share_of(&mut self, what: What, before: &[bool], after: &[bool]) {
        // What never was on either side cannot have changed: not a test.
        let mut all = before.iter().chain(after);
        if all.clone().any(|it| *it) && !all.all(|it| *it) {
            self.push(what, [share(before), share(after)], share_difference(before, after));
        }
    }

    fn resumption(&mut self) {
        let [before, after] = resumed(&self.sides);
        self.share_of(What::Resumption, &before, &after);
    }

    fn values<T: Copy + Eq + Hash>(
        &mut self,
        what: impl Fn(T) -> What,
        of: impl Fn(&Seen) -> Option<T>,
    ) {
        let mut values = counts(&known(&self.sides, &of));
        // With two values one says what the other does. Of many made up the most frequent count.
        let tested = match values.len() {
            0..=2 => 1,
            3..=MOST_VALUES => values.len(),
            _ => {
                values.sort_by_key(|(_, [before, after])| Reverse(before + after));
                MOST_VALUES
            }
        };
        for (value, _) in values.into_iter().take(tested) {
            self.share(what(value), |seen| of(seen).map(|it| it == value));
        }
    }

    fn time(&mut self, what: What) {
        let [before, after] = &known(&self.sides, |seen| time(what, seen));
        let figure =
            |side: &[f64]| median(side).map(|value| Figure { value, count: None, of: side.len() });
        self.push(what, [figure(before), figure(after)], median_difference(before, after));
    }

    fn push(&mut self, what: What, figures: [Option<Figure>; 2], difference: Option<Estimate>) {
        if let ([Some(before), Some(after)], Some(difference)) = (figures, difference) {
            self.found.push(Change {
                pair: self.pair,
                what,
                before,
                after,
                difference,
                p_adjusted: 1.0,
                cost: None,
                handshakes: None,
            });
        }
    }
}

/// Whether handshakes were short, without the first of each client, server and version.
fn returning(side: &[&Seen]) -> Vec<bool> {
    let mut met = HashSet::new();
    side.iter()
        .filter_map(|seen| Some((seen, seen.resumed?)))
        .filter_map(|(seen, resumed)| {
            (!met.insert((seen.between, seen.version))).then_some(resumed)
        })
        .collect()
}

fn share(values: &[bool]) -> Option<Figure> {
    let count = values.iter().filter(|value| **value).count();
    let of = values.len();
    (of > 0).then(|| Figure { value: count as f64 / of as f64, count: Some(count), of })
}
