//! Captures with flipped bits, truncated and reordered: no panic, no stall, no invented times.

use std::time::Duration;

use proptest::prelude::*;

use super::made::{Made, Talk, conversation13, read_with};
use crate::{Hygiene, Limits, Observed};

fn few() -> ProptestConfig {
    ProptestConfig { cases: 192, ..ProptestConfig::default() }
}

/// Properties of every capture.
fn laws(all: &[Observed], hygiene: &Hygiene, packets: &[Made]) {
    assert_eq!(hygiene.frames, packets.len() as u64);
    let halves = all.iter().flat_map(|one| [one.sent, one.received]);
    let counted: u64 = halves.map(|h| u64::from(h.packets) + u64::from(h.duplicates)).sum();
    assert!(counted <= hygiene.frames, "{counted} packets of {}", hygiene.frames);
    let Some((first, last)) = hygiene.span else { return };
    for one in all {
        let exchanges = one.exchanges.first.iter();
        let answers = exchanges.clone().flat_map(|e| [e.response_start(), e.response_end]);
        let times = [one.started, one.last]
            .into_iter()
            .chain(one.opening.into_iter().flatten())
            .chain(one.flights.iter().flat_map(|flight| [flight.start, flight.end]))
            .chain(exchanges.flat_map(|e| [e.request_start, e.request_end]))
            .chain(answers.flatten());
        for at in times {
            assert!(first <= at && at <= last, "a time outside the capture: {one:?}");
        }
        let total = one.handshake_time.map_or(Duration::ZERO, |time| time.total());
        assert!(hygiene.clock_steps > 0 || total <= 2 * last.since(first) || !confident(one));
        assert!(one.exchanges.answered <= one.exchanges.count.unwrap_or(u32::MAX));
    }
}

fn confident(one: &Observed) -> bool {
    one.handshake_time.is_some_and(|time| time.confident)
}

proptest! {
    #![proptest_config(few())]

    #[test]
    fn damaged_captures_are_survived(
        resumed in any::<bool>(),
        size in 40usize..1_400,
        flips in proptest::collection::vec((any::<u16>(), any::<u16>(), 0u8..8), 0..40),
        cuts in proptest::collection::vec((any::<u16>(), any::<u16>()), 0..6),
        swaps in proptest::collection::vec((any::<u16>(), any::<u16>()), 0..12),
        again in proptest::collection::vec((any::<u16>(), any::<u16>()), 0..6),
        lost in proptest::collection::vec(any::<u16>(), 0..6),
        steps in proptest::collection::vec((any::<u16>(), any::<i32>()), 0..3),
    ) {
        let mut packets = conversation13(resumed, size).packets;
        let place = |n: u16, packets: &[Made]| usize::from(n) % packets.len();
        for (packet, byte, bit) in flips {
            let packet = place(packet, &packets);
            let frame = &mut packets[packet].frame;
            let byte = usize::from(byte) % frame.len();
            frame[byte] ^= 1 << bit;
        }
        for (packet, length) in cuts {
            let packet = place(packet, &packets);
            let frame = &mut packets[packet].frame;
            frame.truncate(usize::from(length) % frame.len() + 1);
        }
        for (a, b) in swaps {
            let (a, b) = (place(a, &packets), place(b, &packets));
            packets.swap(a, b);
        }
        for (from, to) in again {
            let copy = packets[place(from, &packets)].clone();
            let to = place(to, &packets);
            packets.insert(to, copy);
        }
        for packet in lost {
            let packet = place(packet, &packets);
            packets.remove(packet);
        }
        for (packet, ns) in steps {
            let packet = place(packet, &packets);
            packets[packet].at += i64::from(ns) * 10;
        }
        let limits = Limits { connections: 4, half_open: 2, held_bytes: 4_096, ..Limits::default() };
        let (all, hygiene) = read_with(limits, &packets);
        laws(&all, &hygiene, &packets);
    }
}

#[test]
fn a_hole_in_front_of_everything_does_not_stall() {
    // Each segment comes after a gap: the buffered ones are searched for each new one.
    let mut packets = Talk::new(40_000, 1_000).open().packets.clone();
    let mut talk = Talk::new(40_000, 1_000);
    talk.open().send(0, 16, &[22]);
    for _ in 0..20_000 {
        talk.after(1_000).send(0, 16, &[7; 10]);
    }
    packets.extend(talk.packets.drain(4..));
    let (all, hygiene) = read_with(Limits::default(), &packets);
    assert_eq!(all.len(), 1);
    assert!(all[0].sent.missing_bytes >= 1, "{:?}", all[0].sent);
    laws(&all, &hygiene, &packets);
}

#[test]
fn a_flood_of_syns_costs_what_its_limit_says() {
    let mut packets = Vec::new();
    for n in 0..5_000u16 {
        let mut talk = Talk::new(1_000 + n, u32::from(n) << 16);
        talk.send(0, 2, &[]);
        packets.append(&mut talk.packets);
    }
    let limits = Limits { half_open: 100, shards: 1, ..Limits::default() };
    let (all, hygiene) = read_with(limits, &packets);
    assert_eq!((all.len(), hygiene.half_open_evicted), (100, 4_900));
}
