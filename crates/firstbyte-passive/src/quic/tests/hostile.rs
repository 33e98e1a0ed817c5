//! Whatever the bytes: no panic, no unbounded memory.

use proptest::prelude::*;

use super::connections::{client_initial, conversation};
use super::made::{Initial, Made, PORT, Talk, crypto, read};
use crate::{Doubts, Limits};

fn few() -> ProptestConfig {
    ProptestConfig { cases: 128, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(few())]

    #[test]
    fn any_datagrams_are_survived(
        datagrams in proptest::collection::vec(
            (any::<bool>(), 0u16..3, proptest::collection::vec(any::<u8>(), 0..300)),
            0..20,
        ),
    ) {
        let made: Vec<Made> = datagrams
            .into_iter()
            .map(|(by_client, port, mut payload)| {
                // Half of them get further than the first byte.
                if port == 1 && payload.len() > 5 {
                    payload[..5].copy_from_slice(&[0xc0, 0, 0, 0, 1]);
                }
                Made { at: 0, by_client, port: PORT + port, payload }
            })
            .collect();
        read(&made, Limits::default());
    }

    #[test]
    fn any_frames_in_an_initial_are_survived(
        frames in proptest::collection::vec(any::<u8>(), 4..400),
        number in any::<u32>(),
    ) {
        let mut talk = Talk::new();
        talk.client(Initial { frames, number, ..client_initial() }.seal());
        talk.only();
    }

    #[test]
    fn damaged_conversations_are_survived(
        flips in proptest::collection::vec((any::<u16>(), any::<u16>(), any::<u8>()), 0..8),
        cuts in proptest::collection::vec((any::<u16>(), any::<u16>()), 0..4),
        swaps in proptest::collection::vec((any::<u16>(), any::<u16>()), 0..6),
    ) {
        let mut made = conversation().made;
        let count = made.len();
        for (place, byte, with) in flips {
            let payload = &mut made[usize::from(place) % count].payload;
            if !payload.is_empty() {
                let byte = usize::from(byte) % payload.len().min(64);
                payload[byte] ^= with;
            }
        }
        for (place, length) in cuts {
            let payload = &mut made[usize::from(place) % count].payload;
            let length = usize::from(length) % (payload.len() + 1);
            payload.truncate(length);
        }
        for (a, b) in swaps {
            made.swap(usize::from(a) % count, usize::from(b) % count);
        }
        let (all, hygiene) = read(&made, Limits::default());
        let datagrams: u64 =
            all.iter().map(|o| u64::from(o.sent.packets) + u64::from(o.received.packets)).sum();
        prop_assert!(datagrams + hygiene.duplicates <= count as u64);
    }

    #[test]
    fn the_order_of_initials_does_not_matter(order in Just([0usize, 1, 2, 3]).prop_shuffle()) {
        let hello = super::made::hex(super::made::CLIENT_HELLO)[4..].to_vec();
        let mut talk = Talk::new();
        for piece in order {
            let (from, to) = (piece * 61, (piece * 61 + 61).min(hello.len()));
            let frames = crypto(from, &hello[from..to]);
            let number = piece as u32;
            talk.client(Initial { frames, number, ..client_initial() }.padded(1200));
        }
        let observed = talk.only();
        let tls = observed.tls.unwrap();
        prop_assert_eq!(tls.sni.as_deref(), Some("example.com"));
        prop_assert_eq!(tls.client_hello_bytes, Some(241));
    }
}

#[test]
fn holes_cost_no_more_than_the_limit() {
    let refused = |offset| {
        let (all, _) = read(&far_away(offset), Limits { held_bytes: 100_000, ..Limits::default() });
        assert_eq!(all.len(), 40);
        all.iter().filter(|o| o.doubts.any(Doubts::TOO_MUCH_HELD)).count()
    };
    assert_eq!(refused(4_000), 40 - 100_000 / 4_100);
    // A few bytes at a large offset take no memory at all.
    assert_eq!(refused(15_000), 40);
}

/// Forty connections whose hellos are captured only in a hundred bytes at `offset`.
fn far_away(offset: usize) -> Vec<Made> {
    (0..40u8)
        .map(|n| {
            let id = vec![n ^ 0x55; 8];
            let frames = crypto(offset, &[n; 100]);
            let initial = Initial { keys: id.clone(), destination: id, frames, ..client_initial() };
            let port = PORT + u16::from(n);
            Made { at: 0, by_client: true, port, payload: initial.padded(1200) }
        })
        .collect()
}

#[test]
fn too_many_connections_cost_the_most_idle() {
    let limits = Limits { connections: 10, ..Limits::default() };
    let made: Vec<Made> = (0..50u8)
        .map(|n| {
            let id = vec![n ^ 0x55; 8];
            let initial = Initial {
                keys: id.clone(),
                destination: id.clone(),
                source: id,
                ..client_initial()
            };
            let (at, port) = (i64::from(n), PORT + u16::from(n));
            Made { at, by_client: true, port, payload: initial.padded(1200) }
        })
        .collect();
    let (all, hygiene) = read(&made, limits);
    assert_eq!((all.len(), hygiene.evicted), (50, 40));
}
