//! Properties of a link that hold for all settings and packets.

use std::time::Duration;

use proptest::prelude::*;

use super::*;

fn path(delay_us: u64, jitter_us: u64, loss: f64) -> PathSettings {
    PathSettings {
        delay: Duration::from_micros(delay_us),
        jitter: Duration::from_micros(jitter_us),
        loss,
        reorder: false,
        rate: None,
        mtu: 1_500,
        initial_window: None,
        drop_syn: 0,
        drop_data: 0,
    }
}

fn settings(path: PathSettings, rate: Option<u64>) -> LinkSettings {
    LinkSettings {
        rate: rate.and_then(Rate::from_bits_per_second),
        queue: Duration::from_millis(200),
        mtu: 1_500,
        ipv4: path.clone(),
        ipv6: path,
    }
}

fn release(offer: Offer) -> Nanos {
    match offer {
        Offer::Release(at) => at,
        Offer::Drop(cause) => panic!("dropped: {cause:?}"),
    }
}

/// Gaps between arrivals in nanoseconds, sizes, families.
fn packets() -> impl Strategy<Value = Vec<(u64, usize, bool)>> {
    prop::collection::vec((0..2_000_000_u64, 40..1_500_usize, any::<bool>()), 1..200)
}

fn family(v6: bool) -> Family {
    if v6 { Family::V6 } else { Family::V4 }
}

proptest! {
    #[test]
    fn nothing_arrives_before_its_delay_and_nothing_overtakes(
        packets in packets(),
        delay_us in 0..100_000_u64,
        jitter_us in 0..10_000_u64,
        loss in 0.0..0.5_f64,
        rate in prop::option::of(100_000..10_000_000_000_u64),
        seed: u64,
    ) {
        let settings = settings(path(delay_us, jitter_us, loss), rate);
        let mut link = Link::new(&settings, seed, "test");
        let mut now = 0;
        let mut last = [0, 0];
        for (gap, bytes, v6) in packets {
            now += gap;
            if let Offer::Release(at) = link.offer(now, bytes, family(v6)) {
                prop_assert!(at >= now + delay_us * 1_000);
                prop_assert!(at >= last[usize::from(v6)]);
                last[usize::from(v6)] = at;
            }
        }
    }

    #[test]
    fn without_a_rate_no_packet_waits_longer_than_delay_and_jitter(
        packets in packets(),
        delay_us in 0..100_000_u64,
        jitter_us in 0..10_000_u64,
        seed: u64,
    ) {
        let mut link = Link::new(&settings(path(delay_us, jitter_us, 0.0), None), seed, "test");
        let mut now = 0;
        for (gap, bytes, v6) in packets {
            now += gap;
            let at = release(link.offer(now, bytes, family(v6)));
            prop_assert!(at <= now + (delay_us + jitter_us) * 1_000);
        }
    }

    #[test]
    fn the_rate_is_never_exceeded(
        packets in packets(),
        rate in 100_000..1_000_000_000_u64,
        seed: u64,
    ) {
        let rate_of = Rate::from_bits_per_second(rate).unwrap();
        let mut link = Link::new(&settings(path(0, 0, 0.0), Some(rate)), seed, "test");
        let (mut now, mut last) = (0, 0);
        for (gap, bytes, v6) in packets {
            now += gap;
            if let Offer::Release(at) = link.offer(now, bytes, family(v6)) {
                prop_assert!(at >= last + rate_of.serialisation_ns(bytes));
                prop_assert!(at - now <= 200_000_000 + rate_of.serialisation_ns(bytes));
                last = at;
            }
        }
    }

    #[test]
    fn the_same_seed_decides_the_same(packets in packets(), seed: u64) {
        let settings = settings(path(10_000, 5_000, 0.2), Some(10_000_000));
        let run = || {
            let mut link = Link::new(&settings, seed, "test");
            let mut now = 0;
            packets
                .iter()
                .map(|(gap, bytes, v6)| {
                    now += gap;
                    link.offer(now, *bytes, family(*v6))
                })
                .collect::<Vec<_>>()
        };
        prop_assert_eq!(run(), run());
    }
}

#[test]
fn one_familys_packets_leave_the_others_decisions_alone() {
    let settings = settings(path(1_000, 500, 0.3), None);
    let mut quiet = Link::new(&settings, 7, "test");
    let mut busy = Link::new(&settings, 7, "test");
    for index in 0..200 {
        let now = index * 10_000_000;
        busy.offer(now, 100, Family::V6);
        assert_eq!(quiet.offer(now, 100, Family::V4), busy.offer(now, 100, Family::V4));
    }
}

#[test]
fn loss_is_near_what_was_configured() {
    let mut link = Link::new(&settings(path(0, 0, 0.02), None), 42, "test");
    let lost = (0..100_000)
        .filter(|index| link.offer(index * 1_000, 100, Family::V4) == Offer::Drop(DropCause::Loss))
        .count();
    // 2,000 expected, standard deviation 44.
    assert!((1_800..2_200).contains(&lost), "{lost}");
}

#[test]
fn back_to_back_packets_leave_at_the_rate_until_the_queue_is_full() {
    let mut link = Link::new(&settings(path(0, 0, 0.0), Some(10_000_000)), 1, "test");
    // 1,250 bytes take 1 ms at 10 Mbit/s; a queue of 200 ms holds 201 of them, including the one being sent.
    for index in 1..=201 {
        assert_eq!(link.offer(0, 1_250, Family::V4), Offer::Release(index * 1_000_000));
    }
    assert_eq!(link.offer(0, 1_250, Family::V4), Offer::Drop(DropCause::QueueFull));
    assert_eq!(link.offer(1_000_000, 1_250, Family::V6), Offer::Release(202_000_000));
}

#[test]
fn jitter_reorders_only_when_asked() {
    let mut path = path(1_000, 1_000, 0.0);
    let overtakes = |path: &PathSettings| {
        let mut link = Link::new(&settings(path.clone(), None), 3, "test");
        let releases: Vec<_> =
            (0..1_000).map(|i| release(link.offer(i * 100_000, 100, Family::V4))).collect();
        releases.windows(2).filter(|pair| pair[1] < pair[0]).count()
    };
    assert_eq!(overtakes(&path), 0);
    path.reorder = true;
    assert!(overtakes(&path) > 100);
}

#[test]
fn packets_above_the_mtu_are_dropped() {
    let mut link = Link::new(&settings(path(0, 0, 0.0), None), 1, "test");
    assert_eq!(link.offer(5, 1_500, Family::V4), Offer::Release(5));
    let too_big = Offer::Drop(DropCause::TooBig { mtu: 1_500 });
    assert_eq!(link.offer(5, 1_501, Family::V4), too_big);
}

#[test]
fn a_family_can_have_a_rate_and_an_mtu_of_its_own() {
    let mut settings = settings(path(0, 0, 0.0), Some(8_000_000));
    settings.ipv6.rate = Rate::from_bits_per_second(800_000);
    settings.ipv6.mtu = 1_280;
    let mut link = Link::new(&settings, 1, "test");
    // 1,000 bytes take 1 ms at 8 Mbit/s, and 10 ms at 0.8 Mbit/s; neither waits for the other.
    assert_eq!(release(link.offer(0, 1_000, Family::V6)), 10_000_000);
    assert_eq!(release(link.offer(0, 1_000, Family::V4)), 1_000_000);
    assert_eq!(link.offer(0, 1_400, Family::V6), Offer::Drop(DropCause::TooBig { mtu: 1_280 }));
    assert_eq!(release(link.offer(0, 1_400, Family::V4)), 2_400_000);
}
