//! Versions that cannot be read are counted, and nothing else is mistaken for one.

use super::made::{Made, Talk, read};
use crate::Limits;

fn of_version(port: u16, version: u32, bytes: usize) -> Vec<Made> {
    let mut payload = vec![0xc3];
    payload.extend(version.to_be_bytes());
    payload.extend([8, 1, 2, 3, 4, 5, 6, 7, 8, 0]);
    payload.resize(bytes, 7);
    let mut talk = Talk::new();
    talk.port = port;
    talk.client(payload.clone()).client(payload);
    talk.made
}

#[test]
fn versions_that_cannot_be_read_are_counted_by_connection() {
    let mut google = vec![0x0d, 1, 2, 3, 4, 5, 6, 7, 8];
    google.extend(*b"Q043");
    google.resize(1350, 7);
    let mut talk = Talk::new();
    talk.port = 9;
    talk.client(google.clone()).client(google);
    let made = [
        talk.made,
        of_version(1, 0x5130_3436, 1350),
        of_version(2, 0x5130_3436, 1350),
        of_version(3, 0xface_b002, 1250),
        // Too short for a first datagram; a reserved version; an unknown one.
        of_version(4, 0x5130_3436, 300),
        of_version(5, 0x1a2a_3a4a, 1250),
        of_version(6, 0x1234_5678, 1250),
    ];
    let (_, hygiene) = read(&made.concat(), Limits::default());
    let found: Vec<(u32, u64)> = hygiene.unread_quic.versions().collect();
    assert_eq!(found, [(0x5130_3433, 1), (0x5130_3436, 2), (0xface_b002, 1)]);
    assert_eq!(hygiene.unread_quic.connections(), 4);
}

#[test]
fn the_order_of_versions_changes_no_count() {
    let count = |order: &mut dyn Iterator<Item = u32>| {
        let mut unread = crate::UnreadQuic::default();
        order.for_each(|version| unread.add(0xface_b000 + version % 9, 1));
        unread
    };
    let forwards = count(&mut (0..90));
    assert_eq!(forwards, count(&mut (0..90).rev()));
    assert_eq!((forwards.connections(), forwards.versions().count()), (90, 6));
    assert!(forwards.versions().all(|(_, connections)| connections == 10));
    let mut twice = forwards;
    twice.merge(&forwards);
    assert_eq!(twice.connections(), 180);
}
