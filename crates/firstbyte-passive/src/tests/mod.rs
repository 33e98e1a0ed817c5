//! Properties of the passive half, checked on packets made by hand.

mod failures;
mod finished;
pub(crate) mod groups;
mod held;
mod hostile;
mod hygiene;
mod made;
mod model;
mod sessions;

use std::time::Duration;

use proptest::prelude::*;

use super::{Analyzer, Doubts, Ending, HandshakeTime, Limits, Observed, Time, TlsSeen};
use firstbyte_core::pcap::{Frame, LinkType};
use made::{Made, conversation13, read};

fn only(packets: &[Made]) -> Observed {
    let (mut all, _) = read(packets);
    assert_eq!(all.len(), 1);
    all.remove(0)
}

fn facts(observed: &Observed) -> TlsSeen {
    observed.tls.as_deref().cloned().unwrap_or_default()
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn parts_are_what_was_put_in() {
    let observed = only(&conversation13(false, 1_400).packets);
    assert_eq!(observed.round_trips.server_syn, Some(ms(2)));
    assert_eq!(observed.round_trips.client_syn, Some(ms(8)));
    assert_eq!(observed.round_trips.tap_position(), Some(0.8));
    let time = observed.handshake_time.unwrap();
    assert_eq!((time.network, time.server, time.client), (ms(10), ms(15), ms(12)));
    assert_eq!((time.round_trips, time.confident), (1, true));
    assert_eq!(observed.exchanges.count, Some(2));
    assert_eq!(observed.exchanges.answered, 2);
    let first = observed.exchanges.first[0];
    assert_eq!(first.response_start().unwrap().since(first.request_end), ms(27));
    assert_eq!(first.response_bytes, 5_910);
    assert_eq!(observed.ending, Ending::Closed);
    assert!(observed.doubts.is_empty(), "{:?}", observed.doubts.names().collect::<Vec<_>>());
}

proptest! {
    /// Segment boundaries in the stream do not change any fact.
    #[test]
    fn segments_change_no_fact(size in 1usize..3_000, resumed in any::<bool>()) {
        let whole = only(&conversation13(resumed, 60_000).packets);
        let cut = only(&conversation13(resumed, size).packets);
        prop_assert_eq!(facts(&cut), facts(&whole));
        prop_assert_eq!(&cut.exchanges, &whole.exchanges);
        prop_assert_eq!(cut.handshake_time, whole.handshake_time);
    }

    /// Neither does the order in which a flight's segments arrive, nor duplicates.
    #[test]
    fn order_changes_no_fact(
        size in 40usize..800,
        swaps in proptest::collection::vec((any::<u16>(), 1usize..4), 0..12),
    ) {
        let whole = only(&conversation13(false, 60_000).packets);
        let mut talk = conversation13(false, size);
        for (place, distance) in swaps {
            let place = usize::from(place) % talk.packets.len();
            let Some(other) = talk.packets.get(place + distance).cloned() else { continue };
            // Only within a burst: packets with the same time.
            if talk.packets[place..=place + distance].iter().all(|p| p.at == other.at) {
                talk.packets.swap(place, place + distance);
            }
        }
        let swapped = only(&talk.packets);
        prop_assert_eq!(facts(&swapped), facts(&whole));
        prop_assert_eq!(swapped.exchanges.count, whole.exchanges.count);
        // A packet far out of order may have been lost before: the time is the same, but may be in doubt.
        let sure = |time: Option<HandshakeTime>| time.map(|t| HandshakeTime { confident: true, ..t });
        prop_assert_eq!(sure(swapped.handshake_time), sure(whole.handshake_time));
        prop_assert_eq!(swapped.received.bytes, whole.received.bytes);
    }

    /// A capture may begin and end anywhere, be truncated anywhere, and miss anything.
    #[test]
    fn what_is_missing_is_survived(
        size in 1usize..1_500,
        keep in proptest::collection::vec(any::<bool>(), 1..40),
        snap in 40usize..1_600,
    ) {
        let mut packets = conversation13(false, size).packets;
        let mut place = 0;
        packets.retain(|_| { place += 1; keep[place % keep.len()] });
        for packet in &mut packets {
            packet.frame.truncate(snap);
        }
        let (all, hygiene) = read(&packets);
        prop_assert_eq!(hygiene.frames, packets.len() as u64);
        prop_assert!(all.len() <= 1);
        for observed in all {
            // Missing data is not invented.
            prop_assert!(observed.sent.bytes + observed.received.bytes <= 20_000);
            if let Some(time) = observed.handshake_time {
                prop_assert!(time.total() < Duration::from_secs(1));
            }
        }
    }

    /// Flipped bits change the result but do not break anything.
    #[test]
    fn flipped_bits_are_survived(
        flips in proptest::collection::vec((any::<u32>(), any::<u16>(), 0u8..8), 1..60),
        link in prop_oneof![Just(0u16), Just(1), Just(9), Just(101), Just(113), Just(276), any::<u16>()],
    ) {
        let mut packets = conversation13(false, 500).packets;
        for (packet, byte, bit) in flips {
            let count = packets.len();
            let frame = &mut packets[packet as usize % count].frame;
            let place = usize::from(byte) % frame.len();
            frame[place] ^= 1 << bit;
        }
        let mut analyzer = Analyzer::new(Limits::default());
        for made in &packets {
            let at = Some(Time::from_unix_ns(made.at));
            let captured = &made.frame[..];
            analyzer.frame(
                &Frame { at, link: LinkType(link), captured, wire_bytes: made.wire_bytes },
                &mut |_| {},
            );
        }
        analyzer.finish(&mut |_| {});
        prop_assert_eq!(analyzer.hygiene().frames, packets.len() as u64);
    }
}

#[test]
fn a_hole_in_the_capture_is_named_and_what_follows_is_read() {
    let mut packets = conversation13(false, 1_400).packets;
    // Removes a segment in the middle of the first response, which the client acknowledges all the same.
    let response = packets.iter().rposition(|p| p.frame.len() > 1_400).unwrap();
    packets.remove(response - 1);
    let observed = only(&packets);
    assert!(observed.doubts.any(Doubts::GAP));
    assert_eq!(observed.received.missing_bytes, 1_400);
    assert_eq!(observed.exchanges.count, Some(2));
}
