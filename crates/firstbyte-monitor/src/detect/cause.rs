//! Causes: what changed in a series together with its times, and explains the change.
//!
//! In: the rollups around a change. Out: the parts of the time that moved, the facts that can have moved them, and the
//! facts that changed at the same time but cannot have. Rollups hold no joint distributions, so three conditions must
//! agree: the fact moved at the same slot; such a fact can move the part that moved (the table [`CAN_MOVE`]); if the
//! fact predicts a size, the part moved by about that size. Reasons: `docs/statistics.md`.

use std::collections::BTreeMap;

use firstbyte_core::run::Metric;

use super::event::{Cause, Statistic};
use super::level::Change;
use crate::rollup::{Measure, MonitoredFact as Fact, MonitoredPart, Rollup};

/// A fact has moved if at least this share of samples has another value.
const SHARE: f64 = 0.1;
/// Least share of the change that a part must explain to be named.
const EXPLAINS: f64 = 0.2;
/// Least average number of round trips that counts.
const TRIPS: f64 = 0.1;

/// The kind of part that a change of times can consist of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    RoundTrips,
    Rtt,
    Part(MonitoredPart),
    Resolver,
}

use By::{Part, RoundTrips, Rtt};
use Metric::{Connect, Quic, Receive, Resolve, Send, Tls, Wait};
use MonitoredPart::{Client, Fallback, Pause, Server, Transfer, Unexplained, Variation};

const HANDSHAKES: &[Metric] = &[Tls, Quic];
const EXCHANGE: &[Metric] = &[Send, Wait, Receive];
const PHASES: [Metric; 7] = [Resolve, Connect, Tls, Quic, Send, Wait, Receive];

/// The parts that a fact can move, and in which phases (an empty list means all). `docs/statistics.md` gives the
/// reasons.
const CAN_MOVE: &[(Fact, &[By], &[Metric])] = &[
    (Fact::QuicRetry, &[RoundTrips], HANDSHAKES),
    (Fact::QuicAmplification, &[RoundTrips, Part(Pause)], HANDSHAKES),
    (Fact::EarlyData, &[RoundTrips, Part(Server)], &[Tls, Quic, Send, Wait]),
    (Fact::TlsVersion, &[RoundTrips, Part(Server), Part(Client)], HANDSHAKES),
    (Fact::ChainBytes, &[RoundTrips, Part(Transfer), Part(Pause)], HANDSHAKES),
    (
        Fact::Handshake,
        &[RoundTrips, Part(Server), Part(Client), Part(Transfer), Part(Pause)],
        HANDSHAKES,
    ),
    (Fact::Group, &[Part(Server), Part(Client), Part(Transfer)], HANDSHAKES),
    (Fact::Certificate, &[Part(Server), Part(Client)], HANDSHAKES),
    (
        Fact::HttpVersion,
        &[RoundTrips, Part(Server), Part(Client), Part(Transfer), Part(Pause)],
        &[Connect, Tls, Quic, Send, Wait, Receive],
    ),
    (Fact::HttpStatus, &[RoundTrips, Part(Server), Part(Transfer), Part(Pause)], EXCHANGE),
    (Fact::Address, &[Rtt, Part(Variation), Part(Server), Part(Fallback), Part(Unexplained)], &[]),
];

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Explanation {
    /// Facts first, then parts, most important first.
    pub(super) causes: Vec<Cause>,
    pub(super) also: Vec<Cause>,
    /// Equal for series that changed for the same reason.
    pub(super) key: String,
}

/// Explains `change` in a series with rollups `slots`, which are in order of time.
pub(super) fn explain(
    slots: &[(i64, Rollup)],
    change: &Change,
    statistic: Statistic,
) -> Explanation {
    let [mut before, mut after] = [Rollup::default(), Rollup::default()];
    let split = |at: &i64| (*at < change.between[0], *at >= change.between[1]);
    for (at, rollup) in slots {
        match split(at) {
            (true, _) => before.merge(rollup),
            (_, true) => after.merge(rollup),
            _ => {}
        }
    }
    // If the possible times of the change cover one side completely, split at the most likely time.
    if before.is_empty() || after.is_empty() {
        [before, after] = [Rollup::default(), Rollup::default()];
        for (at, rollup) in slots {
            if *at < change.at { before.merge(rollup) } else { after.merge(rollup) }
        }
    }
    match statistic {
        Statistic::Failures => return of_failures(&before, &after, slots, change),
        Statistic::Shortfalls => return of_shortfalls(&before, &after, slots, change),
        Statistic::Median | Statistic::P90 => {}
    }
    let quantile = if statistic == Statistic::Median { 0.5 } else { 0.9 };
    let sides = Sides { before: &before, after: &after, quantile };
    let parts = sides.parts(change.difference());
    let phases = sides.phases();
    let moved = moved_facts(&before, &after, slots, change);
    let mut chosen: Option<(f64, Fact)> = None;
    for (rank, (fact, by, within)) in CAN_MOVE.iter().enumerate() {
        if !moved.contains(fact) {
            continue;
        }
        let Some(part) = parts.iter().find(|part| by.contains(&part.by)) else { continue };
        if !(within.is_empty() || phases.iter().any(|phase| within.contains(phase))) {
            continue;
        }
        if let Some(misfit) = misfit(*fact, part, &before, &after) {
            // Order: the part that explains more of the change, then the better fit, then the order of the table.
            let cost = misfit - part.share.min(1.0) + 0.001 * rank as f64;
            if chosen.is_none_or(|(least, _)| cost < least) {
                chosen = Some((cost, *fact));
            }
        }
    }
    let as_cause = |fact: &Fact| Cause::Fact {
        fact: fact.name().to_owned(),
        before: shares(&before, *fact),
        after: shares(&after, *fact),
    };
    let mut causes: Vec<Cause> = chosen.iter().map(|(_, fact)| as_cause(fact)).collect();
    causes.extend(parts.iter().map(|part| part.cause.clone()));
    let also = moved.iter().filter(|fact| chosen.is_none_or(|(_, cause)| cause != **fact));
    let key = match (chosen, parts.first()) {
        (Some((_, fact)), _) => fact.name().to_owned(),
        (None, Some(part)) => format!("{:?}", part.by),
        (None, None) => String::new(),
    };
    Explanation { causes, also: also.map(as_cause).collect(), key }
}

/// A part of the time that moved.
struct Moved {
    by: By,
    /// Share of the whole change.
    share: f64,
    /// After minus before, in round trips or nanoseconds.
    difference: f64,
    cause: Cause,
}

struct Sides<'a> {
    before: &'a Rollup,
    after: &'a Rollup,
    quantile: f64,
}

impl Sides<'_> {
    fn both(&self, measure: Measure) -> Option<(f64, f64)> {
        let of = |rollup: &Rollup| {
            Some(rollup.times(measure)?.quantile(self.quantile)?.value.as_nanos() as f64)
        };
        match (of(self.before), of(self.after)) {
            (None, None) => None,
            (a, b) => Some((a.unwrap_or_default(), b.unwrap_or_default())),
        }
    }

    /// Parts that moved in the direction of the change, largest first.
    fn parts(&self, difference: f64) -> Vec<Moved> {
        let total = self.both(Measure::Metric(Metric::Total)).map_or(0.0, |(a, b)| b - a);
        let whole = if total.abs() > difference.abs() { total } else { difference };
        let mut all: Vec<Moved> = Vec::new();
        let mut part = |by, name: &str, values: (f64, f64), effect: f64| {
            let share = effect / whole;
            if share >= EXPLAINS {
                let (before, after) = values;
                let cause = Cause::Part { part: name.to_owned(), before, after };
                all.push(Moved { by, share, difference: after - before, cause });
            }
        };
        let trips = (mean(self.before, Fact::RoundTrips), mean(self.after, Fact::RoundTrips));
        let rtt = self.both(Measure::Rtt);
        if let ((Some(a), Some(b)), Some(rtt)) = (trips, rtt) {
            let middle = [(a + b) / 2.0, (rtt.0 + rtt.1) / 2.0];
            if (b - a).abs() >= TRIPS {
                // At p90 a fraction of the samples accounts for the whole difference.
                let effect = if self.quantile > 0.5 { (b - a).signum() } else { b - a };
                part(RoundTrips, "round trips", (a, b), effect * middle[1]);
            }
            part(Rtt, "rtt", rtt, middle[0] * (rtt.1 - rtt.0));
        }
        for which in MonitoredPart::ALL.into_iter().filter(|part| *part != MonitoredPart::Network) {
            if let Some(values) = self.both(Measure::Part(which)) {
                part(Part(which), which.name(), values, values.1 - values.0);
            }
        }
        if let Some(values) = self.both(Measure::Metric(Resolve)) {
            part(By::Resolver, "resolver", values, values.1 - values.0);
        }
        all.sort_by(|a, b| b.share.total_cmp(&a.share));
        all
    }

    /// Phases that contribute much to the change.
    fn phases(&self) -> Vec<Metric> {
        let moved = PHASES
            .map(|phase| self.both(Measure::Metric(phase)).map_or(0.0, |(a, b)| (b - a).abs()));
        let most = moved.iter().copied().fold(0.0, f64::max);
        let good = |(_, moved): &(Metric, f64)| *moved >= 0.3 * most && most > 0.0;
        PHASES.into_iter().zip(moved).filter(good).map(|(phase, _)| phase).collect()
    }
}

/// The mean of a fact with numeric values.
fn mean(rollup: &Rollup, fact: Fact) -> Option<f64> {
    let values = rollup.facts.get(&fact)?;
    let (mut sum, mut all) = (0.0, 0.0);
    for (value, count) in values {
        if let Ok(value) = value.parse::<f64>() {
            sum += value * *count as f64;
            all += *count as f64;
        }
    }
    (all > 0.0).then(|| sum / all)
}

/// The share of samples with each value of `fact`. Samples without a value are not listed.
fn shares(rollup: &Rollup, fact: Fact) -> BTreeMap<String, f64> {
    let Some(values) = rollup.facts.get(&fact) else { return BTreeMap::new() };
    let all = (rollup.samples - rollup.failed()).max(1) as f64;
    values.iter().map(|(value, count)| (value.clone(), *count as f64 / all)).collect()
}

/// How badly the moved part fits the change of the fact; `None` if they contradict each other.
fn misfit(fact: Fact, part: &Moved, before: &Rollup, after: &Rollup) -> Option<f64> {
    let share = |value: &str| {
        let of = |rollup| shares(rollup, fact).get(value).copied().unwrap_or_default();
        of(after) - of(before)
    };
    let expected = match (fact, part.by) {
        (Fact::TlsVersion, RoundTrips) => Some(-share("TLSv1.3")),
        (Fact::EarlyData, RoundTrips) => Some(-share("accepted")),
        (Fact::QuicRetry, RoundTrips) => Some(share("retry")),
        (Fact::QuicAmplification, RoundTrips) => Some(share("stalled")),
        (Fact::Handshake, RoundTrips) => {
            let retried = share("full-hello-retry-request");
            // A resumed handshake saves a round trip only up to TLS 1.2.
            let old = shares(before, Fact::TlsVersion).get("TLSv1.2").copied().unwrap_or_default();
            Some(retried - old * share("resumed"))
        }
        _ => None,
    };
    if let Some(expected) = expected {
        let fits =
            expected * part.difference > 0.0 && (0.5..=2.0).contains(&(part.difference / expected));
        return fits.then(|| 0.5 * (part.difference / expected).ln().abs());
    }
    let agrees = match fact {
        // A longer chain takes longer, a resumed handshake less.
        Fact::ChainBytes => (mean(after, fact)? - mean(before, fact)?) * part.difference > 0.0,
        Fact::Handshake => share("resumed") * part.difference < 0.0,
        // A renewed certificate has the same key and issuer.
        Fact::Certificate => kinds(before) != kinds(after),
        _ => true,
    };
    agrees.then_some(0.1)
}

/// Certificates without their expiry.
fn kinds(rollup: &Rollup) -> Vec<String> {
    let certificates = rollup.facts.get(&Fact::Certificate).into_iter().flatten();
    let mut kinds: Vec<String> = certificates
        .map(|(value, _)| value.split(", until ").next().unwrap_or(value).to_owned())
        .collect();
    kinds.dedup();
    kinds
}

/// Facts whose values changed at the same time, in the order of the table.
fn moved_facts(
    before: &Rollup,
    after: &Rollup,
    slots: &[(i64, Rollup)],
    change: &Change,
) -> Vec<Fact> {
    // The number of round trips is not a reason itself; its reasons are other facts.
    let facts = Fact::ALL.iter().filter(|fact| !matches!(fact, Fact::RoundTrips | Fact::Stalls));
    facts
        .copied()
        .filter(|fact| {
            has_moved(*fact, before, after) && at_that_time(*fact, before, after, slots, change)
        })
        .collect()
}

/// Count of each value on both sides; "" counts samples without a value.
fn counts(fact: Fact, before: &Rollup, after: &Rollup) -> BTreeMap<String, [f64; 2]> {
    let mut all: BTreeMap<String, [f64; 2]> = BTreeMap::new();
    for (side, rollup) in [before, after].into_iter().enumerate() {
        let mut rest = rollup.samples.saturating_sub(rollup.failed());
        for (value, count) in rollup.facts.get(&fact).into_iter().flatten() {
            all.entry(value.clone()).or_default()[side] += *count as f64;
            rest = rest.saturating_sub(*count);
        }
        if rest > 0 {
            all.entry(String::new()).or_default()[side] += rest as f64;
        }
    }
    all
}

/// Whether a fact moved, by the G-test and by a share that is large enough to matter.
fn has_moved(fact: Fact, before: &Rollup, after: &Rollup) -> bool {
    let counts = counts(fact, before, after);
    let sums = [0, 1].map(|side| counts.values().map(|count| count[side]).sum::<f64>());
    let all = sums[0] + sums[1];
    if sums[0] == 0.0 || sums[1] == 0.0 {
        return false;
    }
    let distance: f64 =
        counts.values().map(|count| (count[0] / sums[0] - count[1] / sums[1]).abs() / 2.0).sum();
    let mut g = 0.0;
    for count in counts.values() {
        for side in 0..2 {
            if count[side] > 0.0 {
                let expected = (count[0] + count[1]) * sums[side] / all;
                g += 2.0 * count[side] * (count[side] / expected).ln();
            }
        }
    }
    let freedom = (counts.len() - 1) as f64;
    // Far above the χ² value that chance exceeds once in ten thousand.
    distance >= SHARE && g > freedom + 5.0 * (2.0 * freedom).sqrt() + 10.0
}

/// Whether the values that became more frequent did so when the times changed.
fn at_that_time(
    fact: Fact,
    before: &Rollup,
    after: &Rollup,
    slots: &[(i64, Rollup)],
    change: &Change,
) -> bool {
    let (old, new) = (shares(before, fact), shares(after, fact));
    let gained: Vec<&String> = new
        .iter()
        .filter(|(value, share)| **share > old.get(*value).copied().unwrap_or_default())
        .map(|(value, _)| value)
        .collect();
    // If no value gained, the fact only became absent: track its old values.
    let tracked = if gained.is_empty() { old.keys().collect() } else { gained };
    let width = slots.windows(2).map(|pair| pair[1].0 - pair[0].0).min().unwrap_or_default();
    let mut sums = vec![(0.0, 0.0)];
    for (_, rollup) in slots {
        let last: (f64, f64) = sums[sums.len() - 1];
        let values = rollup.facts.get(&fact);
        let with: u64 = tracked.iter().filter_map(|value| values?.get(*value)).sum();
        let all = rollup.samples.saturating_sub(rollup.failed());
        sums.push((last.0 + with as f64, last.1 + all as f64));
    }
    let cost = |from: usize, until: usize| {
        let (with, all) = (sums[until].0 - sums[from].0, sums[until].1 - sums[from].1);
        let term = |k: f64| if k > 0.0 { k * (k / all).ln() } else { 0.0 };
        -term(with) - term(all - with)
    };
    let n = slots.len();
    let Some(at) =
        (1..n).min_by(|a, b| (cost(0, *a) + cost(*a, n)).total_cmp(&(cost(0, *b) + cost(*b, n))))
    else {
        return false;
    };
    (change.between[0] - width..=change.between[1] + width).contains(&slots[at].0)
}

fn of_failures(
    before: &Rollup,
    after: &Rollup,
    slots: &[(i64, Rollup)],
    change: &Change,
) -> Explanation {
    let shares = |rollup: &Rollup| -> BTreeMap<String, f64> {
        let all = rollup.samples.max(1) as f64;
        let types = rollup.failures.iter();
        types.map(|(failure, count)| (failure.as_str().to_owned(), *count as f64 / all)).collect()
    };
    let (old, new) = (shares(before), shares(after));
    let apart = |failure: &String| {
        let of = |shares: &BTreeMap<String, f64>| shares.get(failure).copied().unwrap_or_default();
        of(&new) - of(&old)
    };
    let most =
        old.keys().chain(new.keys()).max_by(|a, b| apart(a).abs().total_cmp(&apart(b).abs()));
    let key = format!("failures {}", most.map_or("", String::as_str));
    let also = moved_facts(before, after, slots, change).into_iter().map(|fact| Cause::Fact {
        fact: fact.name().to_owned(),
        before: self::shares(before, fact),
        after: self::shares(after, fact),
    });
    let cause = Cause::Fact { fact: "failure".to_owned(), before: old, after: new };
    Explanation { causes: vec![cause], also: also.collect(), key }
}

/// Facts that a user can request and not get.
const ASKED_FOR: [Fact; 6] = [
    Fact::EarlyData,
    Fact::TlsVersion,
    Fact::Handshake,
    Fact::Group,
    Fact::HttpVersion,
    Fact::Address,
];

/// Explains shortfalls: a request that the server no longer fulfils is a cause of its own.
fn of_shortfalls(
    before: &Rollup,
    after: &Rollup,
    slots: &[(i64, Rollup)],
    change: &Change,
) -> Explanation {
    let mut moved = moved_facts(before, after, slots, change);
    let asked = ASKED_FOR.iter().find_map(|fact| moved.iter().position(|moved| moved == fact));
    let chosen = asked.map(|at| moved.remove(at));
    let as_cause = |fact: Fact| Cause::Fact {
        fact: fact.name().to_owned(),
        before: shares(before, fact),
        after: shares(after, fact),
    };
    Explanation {
        causes: chosen.map(as_cause).into_iter().collect(),
        also: moved.into_iter().map(as_cause).collect(),
        key: format!("shortfalls {}", chosen.map_or("", Fact::name)),
    }
}
