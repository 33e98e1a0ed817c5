//! Compares another client's connections with the explained ones.
//!
//! Input: two ways of one experiment, paired by round. Output: how much longer the other client takes, phase by
//! phase. Both clients use the same path and server, so the difference is the client's own if both connect alike.
//! If they do not, the output says what differs. Definitions: `docs/explain.md`, "Another client".

use std::collections::BTreeMap;

use super::Way;
use firstbyte_core::run::{Metric, Metrics};
use firstbyte_core::split::AttributedConnection;
use firstbyte_core::stats::{ClockSteps, Estimate, median, paired_effect_in_steps};
use firstbyte_core::timeline::{ClientFacts, Facts};

/// How another client's times compare with ours.
#[derive(Clone, Debug, PartialEq)]
pub struct Beside {
    /// The other client.
    pub client: ClientFacts,
    /// Its connections that completed as requested.
    pub connections: usize,
    /// Its connections that were requested.
    pub asked: usize,
    /// Its phases and its total, in the order of [`Metric::ALL`]; only those that both clients have.
    pub times: Vec<BesideTime>,
    /// How its connections differ from ours. Unless this is empty, the time differences are not due to the client
    /// alone.
    pub unlike: Vec<Unlike>,
}

/// One metric of both clients, over the rounds in which both have it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BesideTime {
    /// The metric.
    pub metric: Metric,
    /// Rounds in which both clients have it.
    pub rounds: usize,
    /// Our median, nanoseconds.
    pub ours: f64,
    /// The other client's median, nanoseconds.
    pub other: f64,
    /// Median over rounds of the other client's time minus ours, nanoseconds.
    pub difference: Estimate,
}

/// A feature in which most of the other client's connections differ from most of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unlike {
    /// The feature: "HTTP", "TLS", "group", "handshake", "address".
    pub what: &'static str,
    /// Our value.
    pub ours: String,
    /// The other client's value.
    pub other: String,
}

/// Metrics that are compared: the phases and the total.
const COMPARED: [Metric; 8] = [
    Metric::Resolve,
    Metric::Connect,
    Metric::Tls,
    Metric::Quic,
    Metric::Send,
    Metric::Wait,
    Metric::Receive,
    Metric::Total,
];

impl Beside {
    /// Compares `other` with `ours`. Absent if no connection of `other` names its client, or no round has both.
    pub fn from_ways(ours: &Way, other: &Way) -> Option<Self> {
        let client = other.connections().find_map(|c| c.connection.facts.client.clone())?;
        let steps = ClockSteps { base: ours.resolution_ns(), variant: other.resolution_ns() };
        let [ours_by_round, other_by_round] = [ours, other].map(metrics_by_round);
        let times: Vec<BesideTime> = COMPARED
            .into_iter()
            .filter_map(|metric| {
                let both = ours_by_round.iter().filter_map(|(round, ours)| {
                    Some((ours.get(metric)?, other_by_round.get(round)?.get(metric)?))
                });
                let (base, variant): (Vec<f64>, Vec<f64>) =
                    both.map(|(ours, other)| (ours as f64, other as f64)).unzip();
                let effect = paired_effect_in_steps(&base, &variant, steps, 1)?;
                Some(BesideTime {
                    metric,
                    rounds: effect.rounds,
                    ours: median(&base)?,
                    other: median(&variant)?,
                    difference: effect.difference,
                })
            })
            .collect();
        let connections = other.proven.len();
        let (asked, unlike) = (other.asked(), unlike(ours, other));
        (!times.is_empty()).then_some(Self { client, connections, asked, times, unlike })
    }

    /// The comparison of `metric`.
    pub fn time(&self, metric: Metric) -> Option<&BesideTime> {
        self.times.iter().find(|time| time.metric == metric)
    }
}

fn metrics_by_round(way: &Way) -> BTreeMap<u32, Metrics> {
    way.proven.iter().map(|(round, c)| (*round, Metrics::from_connection(&c.connection))).collect()
}

/// A named feature of a connection.
type Feature = (&'static str, fn(&Facts) -> Option<String>);

const FEATURES: [Feature; 5] = [
    ("HTTP", |facts| facts.http.as_ref()?.version.clone()),
    ("TLS", |facts| Some(facts.tls.as_ref()?.version.as_ref()?.replace("TLSv", ""))),
    ("group", |facts| facts.tls.as_ref()?.group.clone()),
    ("handshake", |facts| Some(facts.tls.as_ref()?.handshake?.name().to_owned())),
    ("address", |facts| Some(facts.remote?.ip().to_string())),
];

/// Features that are known for both and differ.
fn unlike(ours: &Way, other: &Way) -> Vec<Unlike> {
    let differs = |(what, of): Feature| {
        let [ours, other] = [ours, other].map(|way| usual(way, of));
        let (ours, other) = (ours?, other?);
        (ours != other).then_some(Unlike { what, ours, other })
    };
    FEATURES.into_iter().filter_map(differs).collect()
}

/// The most common value of a feature among the connections of `way` that have one.
fn usual(way: &Way, of: fn(&Facts) -> Option<String>) -> Option<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let said = |c: &AttributedConnection| of(&c.connection.facts);
    way.connections().filter_map(said).for_each(|value| *counts.entry(value).or_default() += 1);
    counts.into_iter().max_by_key(|(_, count)| *count).map(|(value, _)| value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::Path;

    fn way(path: &Path, client: Option<&str>) -> Way {
        let connection = |round: u32| {
            let mut c = Path { rtt: path.rtt + 10 * i64::from(round), ..path.clone() }.connection();
            c.facts.client = client.map(|name| ClientFacts {
                name: name.into(),
                version: Some("1.0".into()),
                tls_library: None,
            });
            (round, AttributedConnection::alone(c))
        };
        Way { proven: (0..20).map(connection).collect(), ..Way::default() }
    }

    /// Our connections, and those of a browser that sees each response 7 ms later.
    fn ways() -> (Way, Way) {
        let path = Path::default();
        let later = Path { think: path.think + 7_000, ..path.clone() };
        (way(&path, None), way(&later, Some("Browser")))
    }

    #[test]
    fn what_another_client_takes_more_is_found_by_phase() {
        let (ours, other) = ways();
        let beside = Beside::from_ways(&ours, &other).unwrap();
        assert_eq!((beside.client.name.as_str(), beside.connections), ("Browser", 20));
        let more = |metric| beside.time(metric).unwrap().difference.value;
        assert_eq!(more(Metric::Connect), 0.0);
        assert_eq!(more(Metric::Wait), 7e6);
        assert_eq!(more(Metric::Total), 7e6);
        let total = beside.time(Metric::Total).unwrap();
        assert_eq!((total.rounds, total.other - total.ours), (20, 7e6));
        assert!(total.difference.interval.is_some() && beside.unlike.is_empty());
    }

    #[test]
    fn what_is_not_alike_is_named() {
        let (ours, mut other) = ways();
        for (_, connection) in &mut other.proven {
            connection.connection.facts.http.as_mut().unwrap().version = Some("1.1".into());
        }
        let unlike = Beside::from_ways(&ours, &other).unwrap().unlike;
        assert_eq!(unlike.len(), 1);
        assert_eq!((unlike[0].what, &*unlike[0].other), ("HTTP", "1.1"));
    }

    #[test]
    fn without_a_client_or_a_common_round_there_is_nothing_beside() {
        let (ours, other) = ways();
        assert_eq!(Beside::from_ways(&ours, &ours), None);
        let later = other.proven.into_iter().map(|(round, c)| (round + 100, c)).collect();
        assert_eq!(Beside::from_ways(&ours, &Way { proven: later, ..Way::default() }), None);
    }
}
