use std::cell::RefCell;
use std::convert::Infallible;
use std::net::SocketAddr;

use firstbyte_core::timeline::{Cause, Failure, HttpFacts, Offset, PhaseName, Sample, TlsFacts};
use proptest::prelude::*;

use super::*;

fn taken(standing: Standing) -> Taken {
    let mut sample = Sample::default();
    let facts = &mut sample.connection.facts;
    facts.remote = Some(SocketAddr::from(([192, 0, 2, 1], 443)));
    facts.tls = Some(TlsFacts {
        version: Some("TLSv1.3".into()),
        certificates: vec![Certificate {
            key: "ECDSA P-256".into(),
            issuer: "CN=Lab".into(),
            not_after_unix: Some(1_795_392_000),
            der_bytes: 600,
            ..Certificate::default()
        }],
        ..TlsFacts::default()
    });
    facts.http = Some(HttpFacts { status: Some(200), ..HttpFacts::default() });
    Taken { stands_for: None, cell: 0, standing, lateness: Duration::ZERO, sample }
}

#[test]
fn what_a_sample_counts_for_is_what_is_counted_of_it() {
    let mut rollup = Rollup::default();
    rollup.add(&taken(Standing::Proven));
    rollup.add(&taken(Standing::Unproven(Shortfall::NotResumed)));
    let mut failed = taken(Standing::Failed);
    failed.sample.connection.failure =
        Some(Failure { phase: PhaseName::Connect, cause: Cause::Reset, at: Some(Offset::ZERO) });
    rollup.add(&failed);
    assert_eq!((rollup.samples, rollup.failed()), (3, 1));
    assert_eq!(rollup.unproven[&Shortfall::NotResumed], 1);
    assert_eq!(rollup.times(Measure::Metric(Metric::Total)).unwrap().count(), 1);
    assert_eq!(rollup.times(Measure::Metric(Metric::Ttfb)), None);
    let values = |fact: MonitoredFact| rollup.facts[&fact].clone().into_iter().collect::<Vec<_>>();
    assert_eq!(values(MonitoredFact::Address), [("192.0.2.1".to_owned(), 2)]);
    let certificate = "ECDSA P-256, issued by CN=Lab, until 2026-11-23".to_owned();
    assert_eq!(values(MonitoredFact::Certificate), [(certificate, 2)]);
    assert_eq!(values(MonitoredFact::ChainBytes), [("600".to_owned(), 2)]);
}

#[test]
fn facts_of_many_values_are_bounded() {
    let mut rollup = Rollup::default();
    for n in 0..100 {
        rollup.add_fact(MonitoredFact::Address, &format!("192.0.2.{n}"), 1);
    }
    let values = &rollup.facts[&MonitoredFact::Address];
    assert_eq!((values.len(), values[OTHER_VALUES]), (MOST_VALUES + 1, 68));
}

#[test]
fn measures_and_facts_have_names_of_their_own() {
    for (place, measure) in Measure::all().enumerate() {
        assert_eq!(measure.place(), place);
        assert_eq!(Measure::named(&measure.name()), Some(measure));
    }
    for fact in MonitoredFact::ALL {
        assert_eq!(MonitoredFact::named(fact.name()), Some(*fact));
    }
}

/// Stored numbers are places in these lists.
#[test]
fn numbers_are_places_in_lists() {
    for (place, failure) in FailureType::ALL.iter().enumerate() {
        assert_eq!(*failure as usize, place);
    }
    for (place, shortfall) in Shortfall::ALL.iter().enumerate() {
        assert_eq!(*shortfall as usize, place);
    }
}

fn rollups() -> impl Strategy<Value = Rollup> {
    let failures = prop::collection::btree_map(
        prop::sample::select(FailureType::ALL.to_vec()),
        1..1_000_000_u64,
        0..4,
    );
    let fact = (prop::sample::select(MonitoredFact::ALL.to_vec()), "[a-z]{1,3}", 1..99_u64);
    let measure = prop::sample::select(Measure::all().collect::<Vec<_>>());
    let time = (measure, any::<u32>());
    let parts = (
        0..1_000_u64,
        failures,
        prop::collection::vec(fact, 0..20),
        prop::collection::vec(time, 0..60),
    );
    parts.prop_map(|(samples, failures, facts, times)| {
        let monitored = Duration::from_millis(samples * 60_000);
        let mut rollup = Rollup { samples, monitored, failures, ..Rollup::default() };
        for (fact, value, number) in facts {
            rollup.add_fact(fact, &value, number);
        }
        for (measure, ns) in times {
            rollup.add_time(measure, Duration::from_nanos(u64::from(ns)));
        }
        rollup
    })
}

/// Numbers of fact values, as a store assigns them.
#[derive(Default)]
struct Numbers(RefCell<Vec<(MonitoredFact, String)>>);

impl Numbers {
    fn store(&self, rollup: &Rollup) -> Vec<u8> {
        let mut bytes = Vec::new();
        let stored = rollup.store(&mut bytes, |fact, value| {
            let mut known = self.0.borrow_mut();
            let is_it = |known: &(MonitoredFact, String)| known.0 == fact && known.1 == value;
            let place = known.iter().position(is_it).unwrap_or_else(|| {
                known.push((fact, value.to_owned()));
                known.len() - 1
            });
            Ok::<_, Infallible>(place as u64)
        });
        let Ok(()) = stored;
        bytes
    }

    fn restore(&self, bytes: &[u8]) -> Result<Rollup, StoredRollupError> {
        let known = self.0.borrow();
        Rollup::restore(bytes, |number| {
            known.get(number as usize).map(|(fact, value)| (*fact, value.as_str()))
        })
    }
}

proptest! {
    #[test]
    fn what_is_stored_is_restored(rollup in rollups()) {
        let numbers = Numbers::default();
        let bytes = numbers.store(&rollup);
        prop_assert_eq!(numbers.restore(&bytes), Ok(rollup.clone()));
        let none = Rollup::restore_of(&bytes, |_| Some((MonitoredFact::Group, "x")), |_| false);
        prop_assert_eq!(none.map(|rollup| rollup.times.len()), Ok(0));
        let bare = Rollup { facts: BTreeMap::new(), ..rollup };
        prop_assert_eq!(Rollup::restore_without_facts(&bytes, |_| true), Ok(bare));
    }

    #[test]
    fn added_up_is_all_in_one(one in rollups(), other in rollups()) {
        let (mut a, mut b) = (one.clone(), other.clone());
        a.merge(&other);
        b.merge(&one);
        prop_assert_eq!(&a, &b);
        prop_assert_eq!(a.samples, one.samples + other.samples);
    }

    #[test]
    fn what_breaks_off_is_no_rollup_or_one_of_less(rollup in rollups(), at in any::<prop::sample::Index>()) {
        let numbers = Numbers::default();
        let bytes = numbers.store(&rollup);
        let cut = at.index(bytes.len());
        if let Ok(less) = numbers.restore(&bytes[..cut]) {
            prop_assert!(less.times.len() < rollup.times.len());
        }
    }
}

/// An hour with a sample a minute of a connection that has every measure and fact: `docs/monitor.md`.
#[test]
fn an_hour_takes_less_than_1500_bytes() {
    let mut rollup = Rollup { samples: 60, ..Rollup::default() };
    let mut random = fastrand::Rng::with_seed(1);
    for _ in 0..60 {
        for measure in Measure::all() {
            // With 2 % noise, most values fall into different buckets.
            let ns = 30e6 * 0.02_f64.mul_add(random.f64() + random.f64() + random.f64() - 1.5, 1.0);
            rollup.add_time(measure, Duration::from_nanos(ns as u64));
        }
    }
    for fact in MonitoredFact::ALL {
        rollup.add_fact(*fact, "one", 40);
        rollup.add_fact(*fact, "other", 20);
    }
    let bytes = Numbers::default().store(&rollup);
    assert!(bytes.len() <= 1_500, "{} bytes", bytes.len());
}
