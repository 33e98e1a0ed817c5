//! Losses and delays that show in the times and the order of packets.

use super::made::{ACK, FIN, MS, Made, Talk, client_hello13, flight13, record, sealed};
use super::{facts, ms, only};
use crate::{Doubts, HeldBack, Observed};

/// A handshake: 2 ms to the server and back, 8 ms to the client and back. Each side numbers its packets.
fn handshake() -> Talk {
    let mut talk = Talk::new(40_000, 7);
    talk.open().send(0, ACK, &record(22, &client_hello13(&[]))).after(5 * MS);
    talk.send(1, ACK, &flight13(false)).after(9 * MS);
    talk.send(0, ACK, &[sealed(53), sealed(95)].concat());
    talk
}

/// The server's time if the ClientHello is acknowledged after `acknowledged` and answered after `answered`.
fn server_time(acknowledged: i64, answered: i64) -> std::time::Duration {
    let mut talk = Talk::new(40_000, 7);
    talk.open().send(0, ACK, &record(22, &client_hello13(&[]))).after(acknowledged);
    talk.send(1, ACK, &[]).after(answered - acknowledged).send(1, ACK, &flight13(false));
    talk.after(9 * MS).send(0, ACK, &[sealed(53), sealed(95)].concat());
    let time = only(&talk.packets).handshake_time.unwrap();
    assert!(time.confident);
    assert_eq!(time.total(), ms(9) + std::time::Duration::from_nanos(answered.unsigned_abs()));
    time.server
}

#[test]
fn what_the_own_acknowledgement_took_was_the_paths() {
    // An acknowledgment as fast as the SYN's; one in a queue; one delayed by a timer, which shows nothing of the path.
    assert_eq!(server_time(2 * MS, 20 * MS), ms(18));
    assert_eq!(server_time(9 * MS, 20 * MS), ms(11));
    assert_eq!(server_time(42 * MS, 60 * MS), ms(58));
}

/// Sets each side's IP identifications to a counter.
fn counted(packets: &mut [Made]) {
    let mut next = [100_u16, 7_000];
    for packet in packets {
        let side = usize::from(packet.frame[26] != 10);
        packet.frame[18..20].copy_from_slice(&next[side].to_be_bytes());
        next[side] += 1;
    }
}

fn in_doubt(observed: &Observed) -> bool {
    let confident = observed.handshake_time.unwrap().confident;
    assert_eq!(observed.doubts.any(Doubts::LOSS_IN_HANDSHAKE), !confident);
    !confident
}

fn exchanged() -> Vec<Made> {
    let mut talk = handshake();
    for _ in 0..3 {
        talk.after(3 * MS).send(1, ACK, &sealed(900)).after(8 * MS).send(0, ACK, &[]);
        talk.after(MS).send(0, ACK, &sealed(95));
    }
    talk.after(3 * MS).send(1, ACK, &sealed(900)).send(1, FIN | ACK, &[]);
    let mut packets = talk.packets;
    counted(&mut packets);
    packets
}

#[test]
fn a_finished_that_is_sent_again_puts_the_handshake_in_doubt() {
    let packets = exchanged();
    assert!(!in_doubt(&only(&packets)));
    // The segment with the Finished again, 250 ms later, before the answer.
    let finished =
        packets.iter().position(|p| p.frame[26] == 10 && p.frame.len() > 150).unwrap() + 2;
    let mut again = packets.clone();
    let mut copy = again[finished].clone();
    assert_eq!(copy.frame.len(), 54 + 58 + 100);
    copy.at += 2 * MS;
    copy.frame[18] ^= 0x40;
    again.insert(finished + 1, copy);
    assert!(in_doubt(&only(&again)));
    // A retransmitted response does not matter.
    let mut response = packets.clone();
    let mut copy = response[finished + 1].clone();
    copy.at += 2 * MS;
    copy.frame[18] ^= 0x40;
    response.insert(finished + 2, copy);
    let observed = only(&response);
    assert_eq!(observed.received.retransmitted, 1);
    assert!(!in_doubt(&observed));
}

#[test]
fn a_packet_that_the_tap_never_saw_leaves_a_gap_in_a_counter() {
    let late = |step: u16| {
        let mut packets = exchanged();
        // The ClientHello was lost before the tap, and this one was sent 250 ms later.
        let hello = packets.iter().position(|p| p.frame.len() > 150).unwrap();
        for packet in &mut packets[hello..] {
            packet.at += 250 * MS;
            if packet.frame[26] == 10 {
                let id = u16::from_be_bytes([packet.frame[18], packet.frame[19]]) + step;
                packet.frame[18..20].copy_from_slice(&id.to_be_bytes());
            }
        }
        packets
    };
    assert!(in_doubt(&only(&late(1))));
    assert!(!in_doubt(&only(&late(0))));
    // An identification that is not a counter shows nothing: random ones, or none.
    let mut random = late(1);
    for (n, packet) in random.iter_mut().enumerate() {
        let id = (n as u16).wrapping_mul(24_571);
        packet.frame[18..20].copy_from_slice(&id.to_be_bytes());
    }
    assert!(!in_doubt(&only(&random)));
    random.iter_mut().for_each(|packet| packet.frame[18..20].fill(0));
    assert!(!in_doubt(&only(&random)));
}

/// A head, and a body of `bytes` sent `late` after the head's acknowledgment, which comes after `delay`.
fn response(delay: i64, late: i64, bytes: usize) -> Observed {
    let mut talk = handshake();
    talk.after(3 * MS).send(1, ACK, &sealed(200)).after(8 * MS + delay).send(0, ACK, &[]);
    talk.after(2 * MS + late).send(1, ACK, &sealed(bytes)).after(8 * MS).send(0, ACK, &[]);
    only(&talk.packets)
}

#[test]
fn a_small_segment_that_departs_with_an_acknowledgement_was_held_back() {
    for delay in [40 * MS, 50 * MS, 200 * MS] {
        let held = response(delay, MS / 10, 500).held_back.unwrap();
        let time = ms(delay as u64 / MS as u64 + 10);
        assert_eq!(held, HeldBack { segments: 1, time }, "{delay}");
    }
    assert!(facts(&response(40 * MS, 0, 500)).complete);
    // It came later, or it fills a packet, or the acknowledgment was not delayed.
    assert_eq!(response(40 * MS, 3 * MS, 500).held_back, None);
    assert_eq!(response(40 * MS, 0, 1_395).held_back, None);
    assert_eq!(response(MS, 0, 500).held_back, None);
}

#[test]
fn what_the_client_sends_meanwhile_hides_nothing() {
    let mut talk = handshake();
    // A segment from the client crosses the head, so it does not acknowledge the head.
    talk.after(3 * MS).send(1, ACK, &sealed(200));
    let head = talk.packets.len() - 1;
    talk.after(MS / 10).send(0, ACK, &sealed(40));
    let before = talk.packets[head].frame[38..42].to_vec();
    talk.packets[head + 1].frame[42..46].copy_from_slice(&before);
    talk.after(8 * MS + 40 * MS).send(0, ACK, &[]).after(2 * MS).send(1, ACK, &sealed(500));
    assert_eq!(only(&talk.packets).held_back.map(|held| held.segments), Some(1));
}
