//! Limits on servers and their times: dropped ones are counted, and the rest is right.

use super::made::{conversation13, read};
use crate::Observed;
use crate::groups::{GroupLimits, Groups, LeftOut};
use firstbyte_core::timeline::Handshake;

/// A connection to the server of this name, with one handshake and one exchange.
pub(crate) fn connection(name: &str) -> Observed {
    let (mut all, _) = read(&conversation13(false, 1_400).packets);
    let mut observed = all.remove(0);
    observed.tls.as_mut().unwrap().sni = Some(name.into());
    observed
}

#[test]
fn servers_with_few_connections_go_first_and_are_counted() {
    let mut groups = Groups::new(GroupLimits { servers: 8, ..GroupLimits::default() });
    let large = connection("large");
    (0..50).for_each(|_| groups.add(&large));
    for n in 0..1_000 {
        groups.add(&connection(&format!("scan-{n}")));
    }
    (0..50).for_each(|_| groups.add(&large));
    let summaries = groups.summaries();
    assert!(summaries.len() <= 8);
    assert_eq!(
        (summaries[0].key.sni.as_deref(), summaries[0].counts.connections),
        (Some("large"), 100)
    );
    let shown: u64 = summaries.iter().map(|summary| summary.counts.connections).sum();
    assert_eq!(groups.left_out(), LeftOut { connections: 1_100 - shown, times: None });
}

#[test]
fn times_beyond_the_limit_are_sampled_where_there_are_most() {
    let mut groups = Groups::new(GroupLimits { times: 1_000, ..GroupLimits::default() });
    let (mut large, small) = (connection("large"), connection("small"));
    (0..20).for_each(|_| groups.add(&small));
    for n in 0..20_000u64 {
        let time = large.handshake_time.as_mut().unwrap();
        time.server = std::time::Duration::from_micros(n * 7_919 % 20_000);
        groups.add(&large);
    }
    let summaries = groups.summaries();
    let [large_times, small_times] = [0, 1].map(|n| summaries[n].full.unwrap());
    assert_eq!((large_times.count, small_times.count), (20_000, 20));
    // The mean is over all times, the percentiles over a few hundred: within five standard errors.
    let middle = large.handshake_time.unwrap();
    let base = (middle.total() - middle.server).as_secs_f64();
    assert!((large_times.mean_seconds - base - 9.999_5e-3).abs() < 1e-8);
    assert!((large_times.p50_seconds - base - 0.010).abs() < 0.003, "{large_times:?}");
    let left_out = groups.left_out();
    let (kept, met) = left_out.times.unwrap();
    assert_eq!(left_out.connections, 0);
    let exchanges: u64 = summaries.iter().filter_map(|s| s.exchange).map(|times| times.count).sum();
    assert_eq!(met, 20_020 + exchanges);
    assert!(kept <= 1_000, "{kept}");
}

/// Adds `n` connections of a version with such a handshake.
fn add(groups: &mut Groups, version: u16, resumed: bool, ms: u64, n: u32) {
    let mut observed = connection("shop");
    let tls = observed.tls.as_mut().unwrap();
    tls.version = Some(version);
    tls.handshake = Some(if resumed { Handshake::Resumed } else { Handshake::Full });
    observed.handshake_time.as_mut().unwrap().server = std::time::Duration::from_millis(ms);
    (0..n).for_each(|_| groups.add(&observed));
}

#[test]
fn full_handshakes_are_divided_by_short_ones_of_their_version() {
    const TLS12: u16 = 0x0303;
    const TLS13: u16 = 0x0304;
    let mut groups = Groups::default();
    add(&mut groups, TLS12, false, 78, 20);
    add(&mut groups, TLS13, true, 3, 20);
    // A single full handshake has no median.
    add(&mut groups, TLS13, false, 28, 1);
    let one = &groups.summaries()[0];
    assert_eq!((one.full_to_short(), one.full_above_short()), (None, None));
    assert_eq!((one.full.unwrap().count, one.short.unwrap().count), (21, 20));
    add(&mut groups, TLS13, false, 28, 2);
    let compared = groups.summaries()[0].compared.unwrap();
    assert_eq!((compared.version, compared.full.count), (Some("TLS 1.3"), 3));
    // Each has 22 ms of network and client time.
    assert!((compared.ratio().unwrap() - 50.0 / 25.0).abs() < 1e-9);
    let mut single = Groups::default();
    add(&mut single, TLS13, false, 28, 1);
    add(&mut single, TLS13, true, 3, 1);
    let alone = &single.summaries()[0];
    assert_eq!((alone.full_to_short(), alone.full_to_exchange()), (None, None));
}
