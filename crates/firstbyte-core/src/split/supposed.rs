//! Joint hypotheses about what held the arrivals back and how much the path's times vary.
//!
//! Input: a [`Connection`], its walks, its bottleneck, its round-trip time. Output: [`Reading`]s with the [`Path`]
//! that each assumes, best first. A connection has few undisturbed round trips. If two of them agree by chance, the
//! arrivals show that the path varies, because each of them would otherwise need a separate explanation. Definitions:
//! `docs/measurement.md`.

use std::time::Duration;

use super::observed::ObservedConnection;
use super::path::Path;
use super::quic;
use super::rules::Rules;
use crate::split::server_model::{
    Judge, OUT_COST, REFUTED_COST, Reading, RoundTripTimes, ServerCost, ServerFit,
};

/// Cost (a negative logarithm of odds, like the judge's) of a path that varies more than observed.
const JITTER: f64 = 6.0;
/// Smallest assumed spread; `MOST` is the largest.
const LEAST: Duration = Duration::from_micros(800);
const MOST: Duration = Duration::from_millis(40);
/// Precision of sums of costs.
const ROUNDING: f64 = 1e-9;
/// Variation caused by hosts.
const NOISE: Duration = Duration::from_micros(400);

/// The fitting readings, best first; at least one.
pub(super) fn readings(rules: Rules, observed: &ObservedConnection<'_>) -> Vec<(Path, Reading)> {
    let ObservedConnection { connection, bottleneck, walks, rtt } = observed;
    let (connection, rtt) = (*connection, *rtt);
    let seen = Path::infer(connection, walks, bottleneck, rtt, None);
    let Some(rtt) = rtt else { return vec![(seen, Reading::default())] };
    let spread = seen.spread.unwrap_or_default();
    if connection.facts.quic.is_some() {
        let reading = quic::datagrams(connection, rtt, spread);
        return vec![(seen, reading)];
    }
    let times = RoundTripTimes { rtt, spread, seen: spread };
    let mut judge = Judge::for_connection(connection, times, bottleneck).with_rules(rules);
    let fits = judge.readings(None);
    let of_seen = fits.first().map_or(0.0, |(cost, _)| *cost);
    let mut best = of_seen;
    let mut all: Vec<(f64, Option<Duration>, Reading)> =
        fits.into_iter().map(|(cost, reading)| (cost, None, reading)).collect();
    for supposed in spreads(rtt, spread) {
        let cost = JITTER + cost_of(&seen, supposed, spread);
        // Largest cost left for a reading, plus a rounding error: costs are never negative.
        let most = best + OUT_COST - cost + ROUNDING;
        if cost >= of_seen + OUT_COST || most < 0.0 {
            break;
        }
        judge.suppose(supposed);
        let fits = judge.readings(Some(most));
        best = fits.iter().fold(best, |best, (fit, _)| best.min(cost + fit));
        all.extend(fits.into_iter().map(|(fit, reading)| (cost + fit, Some(supposed), reading)));
    }
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let least = all.first().map_or(0.0, |(cost, ..)| *cost);
    all.retain(|(cost, ..)| *cost <= least + OUT_COST);
    let path = |supposed: Option<Duration>| match supposed {
        Some(_) => Path::infer(connection, walks, bottleneck, Some(rtt), supposed),
        None => seen.clone(),
    };
    all.into_iter().map(|(_, supposed, reading)| (path(supposed), reading)).collect()
}

/// The readings under the possible models of the server, best first.
///
/// Empty if the connection does not fit them: another server may have answered, or it was already open and its window
/// has grown.
pub(super) fn readings_by_fit(
    observed: &ObservedConnection<'_>,
    fit: &ServerFit,
) -> Option<Vec<(Path, Reading)>> {
    let ObservedConnection { connection, bottleneck, walks, rtt } = observed;
    if connection.facts.reused || fit.models.is_empty() {
        return None;
    }
    let (judge, spread) = judge_of(observed)?;
    let mut judge = judge.with_think(fit.think);
    let paths: Vec<(Option<Duration>, f64)> = std::iter::once((None, 0.0))
        .chain(spread.wider.iter().map(|(spread, cost)| (Some(*spread), *cost)))
        .collect();
    let mut all: Vec<(f64, Option<Duration>, Reading)> = Vec::new();
    let mut least_of_best = f64::INFINITY;
    for (excess, model) in &fit.models {
        let nagle = model.has_nagle(connection);
        let (mut least, begin) = (f64::INFINITY, all.len());
        for (supposed, of_path) in &paths {
            // Costs are never negative.
            if *of_path > least + OUT_COST {
                break;
            }
            judge.suppose(supposed.unwrap_or(spread.seen));
            for (cost, reading) in judge.readings_of(model, nagle) {
                least = least.min(cost + of_path);
                all.push((cost + of_path, *supposed, reading));
            }
        }
        for (cost, ..) in &mut all[begin..] {
            *cost += excess - least;
        }
        if *excess <= 0.0 {
            least_of_best = least_of_best.min(least);
        }
    }
    if least_of_best >= REFUTED_COST {
        judge.suppose(spread.seen);
        let alone = judge.readings(None).first().map_or(0.0, |(cost, _)| *cost);
        if least_of_best >= alone + REFUTED_COST {
            return None;
        }
    }
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let best = all.first()?.0;
    let mut readings: Vec<(Option<Duration>, Reading)> = Vec::new();
    for (cost, supposed, reading) in all {
        let is_new = |(path, other): &(Option<Duration>, Reading)| {
            *path != supposed || other.releases != reading.releases
        };
        if cost <= best + OUT_COST && readings.iter().all(is_new) {
            readings.push((supposed, reading));
        }
    }
    let path = |supposed| Path::infer(connection, walks, bottleneck, *rtt, supposed);
    Some(readings.into_iter().map(|(supposed, reading)| (path(supposed), reading)).collect())
}

/// The cost of each server hypothesis for the connection's arrivals, each with the path that makes it cheapest. Empty
/// over QUIC, and without a round-trip time.
pub(crate) fn server_costs(judge: &mut Judge, path: &PathSpread) -> Vec<ServerCost> {
    let mut all = judge.server_costs();
    for (spread, of_path) in &path.wider {
        judge.suppose(*spread);
        for mut new in judge.server_costs() {
            new.cost += of_path;
            let old = all.iter_mut().find(|old| old.server.is_same_server(new.server));
            if let Some(old) = old.filter(|old| new.cost < old.cost) {
                *old = new;
            }
        }
    }
    judge.suppose(path.seen);
    all
}

/// Observed spread of the round trips, and the improbability of larger spreads.
#[derive(Clone, Debug, Default)]
pub(crate) struct PathSpread {
    seen: Duration,
    wider: Vec<(Duration, f64)>,
}

/// The judge of a connection over TCP with a known round-trip time, and the spread of its round trips.
pub(crate) fn judge_of(observed: &ObservedConnection<'_>) -> Option<(Judge, PathSpread)> {
    let ObservedConnection { connection, bottleneck, walks, rtt } = observed;
    let rtt = rtt.filter(|_| connection.facts.quic.is_none() && connection.facts.tcp.is_some())?;
    let path = Path::infer(connection, walks, bottleneck, Some(rtt), None);
    let seen = path.spread.unwrap_or_default();
    let judge =
        Judge::for_connection(connection, RoundTripTimes { rtt, spread: seen, seen }, bottleneck);
    let wider = spreads(rtt, seen).map(|s| (s, JITTER + cost_of(&path, s, seen)));
    let wider = wider.take_while(|(_, cost)| *cost < REFUTED_COST).collect();
    Some((judge, PathSpread { seen, wider }))
}

/// Candidate spreads: each is twice the previous one.
fn spreads(rtt: Duration, seen: Duration) -> impl Iterator<Item = Duration> {
    let least = LEAST.max(2 * (seen + NOISE));
    let most = MOST.min(rtt / 2);
    std::iter::successors(Some(least), |spread| Some(*spread * 2)).take_while(move |s| *s <= most)
}

/// Cost of observing round trips this close together if they vary by `supposed`.
fn cost_of(path: &Path, supposed: Duration, seen: Duration) -> f64 {
    let wider = (supposed + NOISE).as_secs_f64() / (seen + NOISE).as_secs_f64();
    wider.ln() * path.seen() as f64
}

/// Describes the fitting readings.
pub(super) fn in_words(observed: &ObservedConnection<'_>) -> String {
    let ObservedConnection { connection, bottleneck, walks, rtt } = observed;
    let (connection, rtt) = (*connection, *rtt);
    let path = Path::infer(connection, walks, bottleneck, rtt, None);
    let Some(rtt) = rtt.filter(|_| connection.facts.quic.is_none()) else { return String::new() };
    let seen = path.spread.unwrap_or_default();
    let told = |supposed: Option<Duration>| {
        let spread = supposed.unwrap_or(seen);
        let of_path = supposed.map_or(0.0, |s| JITTER + cost_of(&path, s, seen));
        let judge =
            Judge::for_connection(connection, RoundTripTimes { rtt, spread, seen }, bottleneck);
        format!("round trips differ by {spread:?}, which costs {of_path:.2}:\n{}", judge.in_words())
    };
    let all = std::iter::once(None).chain(spreads(rtt, seen).map(Some));
    all.map(told).collect::<Vec<_>>().join("\n")
}
