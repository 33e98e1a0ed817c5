//! Compares like with like: groups connections into strata, and finds differences within these.
//!
//! In: the connections of both sides. Out: shares and medians with the same mix of strata on both sides, and their
//! differences. A change of the mix is not a difference here; `decomposition` computes its cost.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use super::super::observed::CertificateKey;
use super::seen::{Seen, Side};
use super::{Figure, LEAST_SHARE, What};
use firstbyte_core::stats::{
    Estimate, FEWEST_ROUNDS, Stratified, Stratum, quantile, stratified_medians, stratified_shares,
};

/// Returning clients count as rare if they make less than one handshake in this many.
const HARDLY_ANY: usize = 5;
/// Most values of a version, key, group or cipher suite that are tested.
const MOST_VALUES: usize = 16;
/// The compared strata must hold this share of each side's connections; otherwise coarser strata are used.
const LEAST_COVERED: f64 = 0.5;

/// What connections that are compared with each other have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Within {
    /// The version of TLS.
    pub version: bool,
    /// Whether it is the client's first.
    pub first: bool,
    /// Whether the handshake was full or resumed.
    pub handshake: bool,
    /// Whether there was a HelloRetryRequest.
    pub hello_retry_request: bool,
    /// The certificate's key.
    pub key: bool,
    /// The key-exchange group.
    pub group: bool,
    /// The cipher suite.
    pub cipher_suite: bool,
}

impl Within {
    /// No property: all connections are compared with each other.
    pub(super) const ANYTHING: Self = Self {
        version: false,
        first: false,
        handshake: false,
        hello_retry_request: false,
        key: false,
        group: false,
        cipher_suite: false,
    };
    pub(super) const VERSION: Self = Self { version: true, ..Self::ANYTHING };
    pub(super) const CLIENTS: Self = Self { first: true, ..Self::VERSION };
    pub(super) const HANDSHAKE: Self = Self { handshake: true, ..Self::VERSION };
    pub(super) const FINEST: Self = Self { handshake: true, ..Self::CLIENTS };

    /// The names used in stored forms.
    pub fn names(self) -> Vec<&'static str> {
        let all = [
            (self.version, "version"),
            (self.first, "first-of-client"),
            (self.handshake, "handshake"),
            (self.hello_retry_request, "hello-retry-request"),
            (self.key, "certificate-key"),
            (self.group, "group"),
            (self.cipher_suite, "cipher-suite"),
        ];
        all.into_iter().filter_map(|(is, name)| is.then_some(name)).collect()
    }
}

/// A connection, and whether it is its client's first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row<'a> {
    pub(super) seen: &'a Seen,
    pub(super) first: bool,
}

/// The properties that the connections of a stratum share; those not looked at are unset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    version: Option<u16>,
    first: bool,
    resumed: Option<bool>,
    hello_retry_request: Option<bool>,
    key: Option<CertificateKey>,
    group: Option<u16>,
    cipher_suite: Option<u16>,
}

impl Key {
    fn for_row(row: &Row<'_>, within: Within) -> Self {
        let seen = row.seen;
        Self {
            version: seen.version.filter(|_| within.version),
            first: row.first && within.first,
            resumed: seen.resumed.filter(|_| within.handshake),
            hello_retry_request: seen.hello_retry_request.filter(|_| within.hello_retry_request),
            key: seen.key.filter(|_| within.key),
            group: seen.group.filter(|_| within.group),
            cipher_suite: seen.cipher_suite.filter(|_| within.cipher_suite),
        }
    }
}

/// The connections of both sides, each in the order in which they began.
#[derive(Clone, Debug)]
pub(super) struct Sides<'a>(pub(super) [Vec<Row<'a>>; 2]);

/// A difference within strata.
#[derive(Clone, Debug)]
pub(super) struct Compared {
    pub(super) figures: [Figure; 2],
    pub(super) difference: Estimate,
    /// Whether it is larger than the fluctuation within either side.
    pub(super) lasts: bool,
    pub(super) within: Within,
}

/// Smallest ratio of a difference to its standard error over quarters: Student's t with six degrees of freedom, at 1 %
/// for shares and at 0.1 % for times. Times need more, because servers are busy for a while and then idle; shares do
/// not depend on that.
const SHARES_OVER_WANDER: f64 = 3.707;
const TIMES_OVER_WANDER: f64 = 5.959;

fn lasts(found: &Stratified, least: f64) -> bool {
    found.wander.is_none_or(|wander| found.difference.value.abs() >= least * wander)
}

/// The values of one family (versions, keys, groups or cipher suites), compared.
pub(super) struct Family<T> {
    /// Each value with its comparison, by falling number of connections.
    pub(super) values: Vec<(T, Compared)>,
    /// Number of values that are not determined by the others.
    pub(super) tested: usize,
}

type Strata<T> = Vec<(Key, [Vec<(usize, T)>; 2])>;

impl<'a> Sides<'a> {
    pub(super) fn from_both(before: &'a Side, after: &'a Side) -> Self {
        let mut sides = Self([before, after].map(|side| {
            side.in_order().into_iter().map(|seen| Row { seen, first: false }).collect()
        }));
        let marked = sides.0.each_ref().map(|side| firsts(side));
        let comes_again = sides.0.iter().zip(&marked).any(|(side, first)| {
            let handshakes = side.iter().zip(first).filter(|(row, _)| row.seen.resumed.is_some());
            let (mut all, mut again) = (0, 0);
            handshakes.for_each(|(_, first)| {
                all += 1;
                again += usize::from(!first);
            });
            again >= (all / HARDLY_ANY).max(1)
        });
        if comes_again {
            for (side, first) in sides.0.iter_mut().zip(marked) {
                side.iter_mut().zip(first).for_each(|(row, first)| row.first = first);
            }
        }
        sides
    }

    /// The rows for which `keep` is true.
    pub(super) fn filtered(&self, keep: impl Fn(&Row<'_>) -> bool) -> Self {
        Self(self.0.each_ref().map(|side| side.iter().copied().filter(|row| keep(row)).collect()))
    }

    fn strata<T>(&self, within: Within, of: &impl Fn(&Row<'_>) -> Option<T>) -> Strata<T> {
        let mut places: HashMap<Key, usize> = HashMap::new();
        let mut strata: Strata<T> = Vec::new();
        for (side, rows) in self.0.iter().enumerate() {
            for (at, row) in rows.iter().enumerate() {
                let Some(value) = of(row) else { continue };
                let key = Key::for_row(row, within);
                let place = *places.entry(key).or_insert_with(|| {
                    strata.push((key, [Vec::new(), Vec::new()]));
                    strata.len() - 1
                });
                strata[place].1[side].push((at, value));
            }
        }
        strata
    }

    /// The strata to compare: those of the first of `levels` that leaves enough connections.
    fn comparable<T>(
        &self,
        levels: &[Within],
        of: &impl Fn(&Row<'_>) -> Option<T>,
    ) -> Option<(Within, Strata<T>, bool)> {
        let mut found = None;
        for within in levels {
            let mut strata = self.strata(*within, of);
            let known = counts(&strata);
            let least = |strata: &[Vec<(usize, T)>; 2]| strata.iter().map(Vec::len).min();
            let enough = |least: Option<usize>| least.unwrap_or(0) >= FEWEST_ROUNDS;
            if strata.iter().any(|(_, sides)| enough(least(sides))) {
                strata.retain(|(_, sides)| enough(least(sides)));
            } else {
                strata.retain(|(_, sides)| least(sides) > Some(0));
            }
            let kept = counts(&strata);
            let covers =
                |side: usize| kept[side] as f64 >= LEAST_COVERED * known[side].max(1) as f64;
            let supported = strata.iter().all(|(_, sides)| enough(least(sides)));
            if strata.is_empty() {
                continue;
            }
            let is_enough = supported && covers(0) && covers(1);
            found = Some((*within, strata, is_enough));
            if is_enough {
                break;
            }
        }
        found
    }

    /// Compares a share.
    pub(super) fn share(
        &self,
        levels: &[Within],
        is: impl Fn(&Row<'_>) -> Option<bool>,
    ) -> Option<Compared> {
        let (within, strata, _) = self.comparable(levels, &is)?;
        let strata = weighed(strata.into_iter().map(|(_, sides)| sides));
        shares(within, &strata)
    }

    /// Compares a median; with `whole`, only if the strata cover most connections.
    pub(super) fn time(
        &self,
        levels: &[Within],
        whole: bool,
        of: impl Fn(&Row<'_>) -> Option<f64>,
    ) -> Option<Compared> {
        let (within, strata, _) =
            self.comparable(levels, &of).filter(|(_, _, most)| *most || !whole)?;
        let strata = weighed(strata.into_iter().map(|(_, sides)| sides));
        let found = stratified_medians(&strata)?;
        let Stratified { sides, difference, .. } = found;
        let known = known(&strata);
        let figures = [0, 1].map(|n| Figure { value: sides[n], count: None, of: known[n] });
        Some(Compared { figures, difference, lasts: lasts(&found, TIMES_OVER_WANDER), within })
    }

    /// The sorted times of both sides with the same mix of strata: one per connection, at equal steps of their
    /// distribution.
    pub(super) fn times(
        &self,
        within: Within,
        of: impl Fn(&Row<'_>) -> Option<f64>,
    ) -> [Vec<f64>; 2] {
        let Some((_, strata, _)) = self.comparable(&[within], &of) else {
            return Default::default();
        };
        let strata = weighed(strata.into_iter().map(|(_, sides)| sides));
        [0, 1].map(|side| mixed(&strata, side))
    }

    /// Compares the share of every value.
    pub(super) fn family<T: Copy + Eq + Hash>(
        &self,
        levels: &[Within],
        of: impl Fn(&Row<'_>) -> Option<T>,
    ) -> Option<Family<T>> {
        let (within, strata, _) = self.comparable(levels, &of)?;
        let mut values = values(&strata);
        // With two values, one determines the other. If clients make up many values, only the most frequent ones count.
        let tested = match values.len() {
            0..=2 => 1,
            n => n.min(MOST_VALUES),
        };
        if values.len() > MOST_VALUES {
            values.sort_by_key(|(_, [before, after])| Reverse(before + after));
        }
        let mut family = Family { values: Vec::new(), tested };
        for (value, _) in values.into_iter().take(tested.max(MOST_VALUES)) {
            let is = |sides: &[Vec<(usize, T)>; 2]| {
                sides
                    .each_ref()
                    .map(|side| side.iter().map(|(at, it)| (*at, *it == value)).collect())
            };
            let weighed = weighed(strata.iter().map(|(_, sides)| is(sides)));
            family.values.push((value, shares(within, &weighed)?));
        }
        Some(family)
    }

    /// Whether a value's share changed by more than can be explained by handshakes that show their value on one side
    /// only: a client that no longer resumes shows values that were hidden before, whatever these are. The values shown
    /// before are then still there: for this value to have risen, all others would have to be at least as frequent as
    /// before.
    pub(super) fn is_more_than_shown(
        &self,
        rose: bool,
        is: impl Fn(&Row<'_>) -> Option<bool>,
    ) -> bool {
        let shown = |row: &Row<'_>| row.seen.resumed.map(|_| is(row));
        let Some((_, strata, _)) = self.comparable(&[Within::CLIENTS, Within::VERSION], &shown)
        else {
            return false;
        };
        let (mut all, mut known) = ([0; 2], [0; 2]);
        let weighed = weighed(strata.into_iter().map(|(_, sides)| {
            let shown = sides
                .each_ref()
                .map(|side| side.iter().filter(|(_, value)| value.is_some()).count());
            let [was, now] = [0, 1].map(|n| shown[n] as f64 / sides[n].len().max(1) as f64);
            for side in [0, 1] {
                all[side] += sides[side].len();
                known[side] += shown[side];
            }
            // If more is shown now, a value must have become rarer to count; otherwise more frequent.
            let more = now >= was;
            let counted = if more { !rose } else { rose };
            sides.map(|side| {
                side.into_iter()
                    .map(|(at, value)| (at, (value == Some(counted)) != more))
                    .collect::<Vec<_>>()
            })
        }));
        let least = [0, 1].map(|side| known[side] as f64 / all[side].max(1) as f64);
        let Some(found) = stratified_shares(&weighed) else { return false };
        let certain = found.difference.interval.is_some_and(|interval| interval.low > 0.0);
        certain && found.difference.value >= LEAST_SHARE * least[0].min(least[1])
    }
}

/// Marks each connection that is the first of its client, server and version: these have no session to resume.
fn firsts(side: &[Row<'_>]) -> Vec<bool> {
    let mut met = HashSet::new();
    side.iter()
        .map(|row| row.seen.resumed.is_some() && met.insert((row.seen.between, row.seen.version)))
        .collect()
}

fn counts<T>(strata: &Strata<T>) -> [usize; 2] {
    [0, 1].map(|side| strata.iter().map(|(_, sides)| sides[side].len()).sum())
}

fn known<T>(strata: &[Stratum<T>]) -> [usize; 2] {
    [0, 1].map(|side| strata.iter().map(|stratum| stratum.sides[side].len()).sum())
}

/// Strata with their weights: the mean of their shares on both sides.
fn weighed<T>(strata: impl Iterator<Item = [Vec<(usize, T)>; 2]>) -> Vec<Stratum<T>> {
    let mut strata: Vec<Stratum<T>> = strata.map(|sides| Stratum { weight: 0.0, sides }).collect();
    let all = known(&strata).map(|all| all.max(1) as f64);
    for stratum in &mut strata {
        let shares = [0, 1].map(|side| stratum.sides[side].len() as f64 / all[side]);
        stratum.weight = (shares[0] + shares[1]) / 2.0;
    }
    strata
}

fn shares(within: Within, strata: &[Stratum<bool>]) -> Option<Compared> {
    let found = stratified_shares(strata)?;
    let Stratified { sides, difference, .. } = found;
    let known = known(strata);
    let figures = [0, 1].map(|n| {
        let values = strata.iter().flat_map(|stratum| &stratum.sides[n]);
        let count = values.filter(|(_, is)| *is).count();
        Figure { value: sides[n], count: Some(count), of: known[n] }
    });
    Some(Compared { figures, difference, lasts: lasts(&found, SHARES_OVER_WANDER), within })
}

/// Every value in the order of first occurrence, with its count on either side.
fn values<T: Copy + Eq + Hash>(strata: &Strata<T>) -> Vec<(T, [usize; 2])> {
    let mut places: HashMap<T, usize> = HashMap::new();
    let mut counts: Vec<(T, [usize; 2])> = Vec::new();
    for (side, value) in strata.iter().flat_map(|(_, sides)| {
        let of = |side: usize| sides[side].iter().map(move |(_, value)| (side, *value));
        of(0).chain(of(1))
    }) {
        let place = *places.entry(value).or_insert_with(|| {
            counts.push((value, [0; 2]));
            counts.len() - 1
        });
        counts[place].1[side] += 1;
    }
    counts
}

fn mixed(strata: &[Stratum<f64>], side: usize) -> Vec<f64> {
    let of = |stratum: &Stratum<f64>| -> Vec<f64> {
        let mut values: Vec<f64> = stratum.sides[side].iter().map(|(_, value)| *value).collect();
        values.sort_by(f64::total_cmp);
        values
    };
    if let [one] = strata {
        return of(one);
    }
    let mut all: Vec<(f64, f64)> = Vec::new();
    for stratum in strata {
        let values = of(stratum);
        let each = stratum.weight / values.len().max(1) as f64;
        all.extend(values.into_iter().map(|value| (value, each)));
    }
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let whole: f64 = all.iter().map(|(_, weight)| weight).sum();
    let step = whole / all.len().max(1) as f64;
    let (mut sum, mut mixed) = (0.0, Vec::with_capacity(all.len()));
    for (value, weight) in &all {
        sum += weight;
        while mixed.len() < all.len() && (mixed.len() as f64 + 0.5) * step <= sum {
            mixed.push(*value);
        }
    }
    mixed
}

/// The value whose share changed most in the opposite direction, if it replaced the first one or was replaced by it.
pub(super) fn counterpart<T: Copy>(
    family: &Family<T>,
    place: usize,
    what: impl Fn(T) -> What,
) -> Option<(What, [Figure; 2])> {
    let own = family.values.get(place)?.1.difference.value;
    let others = family.values.iter().filter(|(_, other)| own * other.difference.value < 0.0);
    let (value, most) = others.max_by(|a, b| {
        let size = |compared: &Compared| compared.difference.value.abs();
        size(&a.1).total_cmp(&size(&b.1))
    })?;
    (2.0 * most.difference.value.abs() >= own.abs()).then(|| (what(*value), most.figures))
}

/// The mean of the values, with those beyond the 5th and 95th percentile clamped. Means of parts add up to the mean of
/// the whole, and one late packet says little about the others. Absent if there are no values.
pub(super) fn typical(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let (low, high) = (quantile(&values, 0.05)?, quantile(&values, 0.95)?);
    Some(values.iter().map(|value| value.clamp(low, high)).sum::<f64>() / values.len() as f64)
}
