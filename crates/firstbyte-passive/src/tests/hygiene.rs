//! Cleaning up the capture before it is read, and limits.

use std::time::Duration;

use super::made::{
    ACK, FIN, MS, Made, RST, SYN, Talk, client_hello13, conversation13, open_conversation13, read,
    read_with, record,
};
use super::{Analyzer, Doubts, Ending, Limits, Time, facts, only};
use firstbyte_core::pcap::Frame;
use firstbyte_core::timeline::Handshake;

#[test]
fn without_times_nothing_is_a_time() {
    let packets = conversation13(false, 1_400).packets;
    let mut analyzer = Analyzer::new(Limits::default());
    let mut all = Vec::new();
    for made in &packets {
        analyzer.frame(&Frame { at: None, ..made.as_frame() }, &mut |_| {});
    }
    analyzer.finish(&mut |observed| all.push(observed.clone()));
    let observed = &all[0];
    assert_eq!(observed.doubts.names().collect::<Vec<_>>(), ["untimed"]);
    assert_eq!((observed.round_trips, observed.handshake_time), Default::default());
    assert_eq!((observed.exchanges.count, observed.exchanges.first.len()), (Some(2), 0));
    assert_eq!((observed.exchanges.time, observed.longest_idle), (None, None));
    assert_eq!(facts(observed).handshake, Some(Handshake::Full));
}

#[test]
fn copies_by_the_capture_are_removed() {
    let packets = conversation13(false, 1_000).packets;
    let copied: Vec<Made> = packets
        .iter()
        .flat_map(|packet| [packet.clone(), Made { at: packet.at + 20_000, ..packet.clone() }])
        .collect();
    let (all, hygiene) = read(&copied);
    let plain = only(&packets);
    assert_eq!(hygiene.duplicates, packets.len() as u64);
    assert_eq!(all[0].received.retransmitted, 0);
    assert_eq!(all[0].handshake_time, plain.handshake_time);
    assert_eq!(all[0].exchanges, plain.exchanges);
}

#[test]
fn what_is_sent_again_is_no_copy() {
    let mut packets = conversation13(false, 1_000).packets;
    let place = packets.iter().position(|p| p.frame.len() > 1_000).unwrap();
    let mut again = packets[place].clone();
    again.at += 500_000;
    // With another IP identification.
    again.frame[18] ^= 0x40;
    packets.insert(place + 1, again);
    let (all, hygiene) = read(&packets);
    assert_eq!((hygiene.duplicates, all[0].received.retransmitted), (0, 1));
    assert!(all[0].doubts.any(Doubts::LOSS_IN_HANDSHAKE));
    assert!(!all[0].handshake_time.unwrap().confident);
}

#[test]
fn a_port_used_again_is_a_new_connection() {
    let mut packets = conversation13(false, 1_000).packets;
    let end = packets.last().unwrap().at;
    let mut second = conversation13(true, 1_000);
    for packet in &mut second.packets {
        packet.at += end;
        // With another sequence number.
        let client = packet.frame[26] == 10;
        packet.frame[if client { 38 } else { 42 }] ^= 0x10;
    }
    packets.extend(second.packets);
    let (all, hygiene) = read(&packets);
    assert_eq!((all.len(), hygiene.port_reuses), (2, 1));
    assert_eq!(facts(&all[0]).resumption.accepted, None);
    assert!(facts(&all[1]).resumption.accepted.is_some());
    assert_eq!(all[0].ending, Ending::Closed);
}

#[test]
fn floods_of_syns_are_bounded() {
    let limits = Limits { half_open: 100, connections: 1_000, shards: 1, ..Limits::default() };
    let mut packets = conversation13(false, 1_000).packets;
    let later = packets.split_off(8);
    for port in 0..5_000 {
        packets.extend(Talk::new(port, 5).send(0, SYN, &[]).packets.clone());
    }
    packets.extend(later);
    let (all, hygiene) = read_with(limits, &packets);
    assert!(hygiene.half_open_evicted >= 4_800, "{}", hygiene.half_open_evicted);
    // The connection in progress is not among the victims.
    assert!(all.iter().any(|o| o.exchanges.count == Some(2)));
    assert!(all.len() <= 102);
}

#[test]
fn too_many_connections_cost_the_most_idle() {
    let limits = Limits { connections: 50, shards: 1, ..Limits::default() };
    let mut packets = Vec::new();
    for port in 0..200 {
        packets.extend(Talk::new(port, 5).open().send(0, ACK, b"hello").packets.clone());
    }
    let (all, hygiene) = read_with(limits, &packets);
    assert_eq!((all.len(), hygiene.evicted), (200, 150));
    assert_eq!(all.iter().filter(|o| o.ending == Ending::Evicted).count(), 150);
}

#[test]
fn hellos_cut_by_the_snap_length_are_read_as_far_as_they_go() {
    let mut packets = conversation13(false, 60_000).packets;
    for packet in &mut packets {
        packet.frame.truncate(54 + 110);
    }
    let observed = only(&packets);
    assert!(observed.doubts.any(Doubts::CUT));
    let seen = facts(&observed);
    // The server name comes before the cut, the key shares after it.
    assert!(seen.client_hello && seen.server_hello);
    assert_eq!(seen.sni.as_deref(), Some("shop.example"));
    assert_eq!(seen.client_key_exchange_bytes, None);
    assert_eq!(observed.exchanges.count, Some(2));
    assert!(observed.exchanges.approximate);
}

#[test]
fn what_a_filter_leaves_out_is_not_counted() {
    let packets = conversation13(false, 1_000).packets;
    let other = Talk::new(9, 5).open().packets.clone();
    let filter = crate::filter::Filter::new(&[], &[9]).unwrap();
    let mut analyzer = Analyzer::new(Limits::default()).with_filter(filter);
    let mut all = Vec::new();
    for made in packets.iter().chain(&other) {
        analyzer.frame(&made.as_frame(), &mut |observed| all.push(observed.clone()));
    }
    analyzer.finish(&mut |observed| all.push(observed.clone()));
    assert_eq!((all.len(), analyzer.hygiene().frames), (1, 3));
    assert_eq!(all[0].client.socket_addr().port(), 9);
}

#[test]
fn connections_under_way_while_frames_were_dropped_are_marked() {
    let first = conversation13(false, 1_000).packets;
    let mut second = conversation13(false, 1_000).packets;
    for packet in &mut second {
        packet.at += 1_000_000_000;
        let client = packet.frame[26] == 10;
        packet.frame[if client { 34 } else { 36 }] ^= 0x10;
    }
    let mut analyzer = Analyzer::new(Limits::default());
    let mut all = Vec::new();
    let begun = Time::from_unix_ns(second[0].at);
    for made in first.iter().chain(&second) {
        analyzer.frame(&made.as_frame(), &mut |observed| all.push(observed.clone()));
    }
    analyzer.dropped(0, Time::from_unix_ns(first[0].at), begun);
    assert_eq!(analyzer.hygiene().dropped, Some(0));
    analyzer.dropped(3, begun, begun);
    analyzer.finish(&mut |observed| all.push(observed.clone()));
    assert_eq!(analyzer.hygiene().dropped, Some(3));
    let marks: Vec<_> = all.iter().map(|o| o.doubts.any(Doubts::FRAMES_DROPPED)).collect();
    assert_eq!(marks, [false, true]);
    assert!(all[0].handshake_time.unwrap().confident && !all[1].handshake_time.unwrap().confident);
}

#[test]
fn what_is_over_comes_out_without_another_packet() {
    let packets = conversation13(false, 1_000).packets;
    let mut analyzer = Analyzer::new(Limits::default());
    let mut all = Vec::new();
    for made in &packets {
        analyzer.frame(&made.as_frame(), &mut |observed| all.push(observed.clone()));
    }
    let last = packets.last().unwrap().at;
    analyzer.advance(Time::from_unix_ns(last + 9_000_000_000), &mut |o| all.push(o.clone()));
    assert_eq!((all.len(), analyzer.live()), (0, 1));
    analyzer.advance(Time::from_unix_ns(last + 11_000_000_000), &mut |o| all.push(o.clone()));
    assert_eq!((all.len(), analyzer.live()), (1, 0));
    assert_eq!((all[0].ending, analyzer.hygiene().idle), (Ending::Closed, 0));
}

/// Two captures of the same packets order packets that cross within microseconds differently, because each direction
/// passes on its own processor.
#[test]
fn of_packets_that_cross_the_stamp_decides() {
    let talk = open_conversation13(false, 1_400);
    let one = |side, after, flags| {
        let mut talk = talk.clone();
        talk.after(after).send(side, flags, &[]);
        talk.packets.pop().unwrap()
    };
    for flags in [FIN | ACK, RST] {
        let both = [one(0, 40 * MS, flags), one(1, 40 * MS + 3_000, FIN | ACK)];
        let ordered = |order: [usize; 2]| {
            only(&[&talk.packets[..], &order.map(|n| both[n].clone())].concat())
        };
        let (in_order, crossed) = (ordered([0, 1]), ordered([1, 0]));
        assert!(in_order.closing.unwrap().by_client);
        assert_eq!(in_order, crossed);
    }
}

#[test]
fn an_acknowledgment_that_crosses_more_data_is_one_all_the_same() {
    let hello = record(22, &client_hello13(&[]));
    let (first, second) = hello.split_at(100);
    let mut talk = Talk::new(40_000, 1_000);
    talk.open().after(MS).send(0, ACK, first);
    let mut answer = talk.clone();
    let answer = answer.after(MS / 2).send(1, ACK, &[]).packets.pop().unwrap();
    talk.after(MS / 2 + 2_000).send(0, ACK, second);
    let more = talk.packets.pop().unwrap();
    let ordered = |order: [&Made; 2]| only(&[&talk.packets[..], &order.map(Made::clone)].concat());
    let in_order = ordered([&answer, &more]);
    assert_eq!(in_order.round_trips.server_min, Some(Duration::from_nanos(MS as u64 / 2)));
    assert_eq!(in_order, ordered([&more, &answer]));
}
