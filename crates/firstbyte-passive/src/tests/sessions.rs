//! Sessions, early data and other facts from the handshake.

use super::made::{ACK, MS, Made, Talk};
use super::made::{client_hello12, client_hello13, flight13, message, read, record, sealed};
use super::made::{server_hello12, with_session_id};
use super::{facts, only};
use crate::{CertificateKey, Roles};
use firstbyte_core::timeline::{Handshake, SessionMechanism};

const TICKET: u16 = 35;
const PRE_SHARED_KEY: u16 = 41;
const EARLY_DATA: u16 = 42;

fn identity() -> (u16, Vec<u8>) {
    (PRE_SHARED_KEY, vec![0, 38, 0, 32].into_iter().chain([1; 36]).collect())
}

fn finished12() -> Vec<u8> {
    [record(20, &[1]), record(22, &[0x77; 40])].concat()
}

/// A TLS 1.2 conversation up to both Finished messages.
fn conversation12(offer: &[(u16, Vec<u8>)], resumed: bool) -> Talk {
    let mut talk = Talk::new(40_000, 7);
    talk.open().send(0, ACK, &record(22, &client_hello12(offer))).after(5 * MS);
    if resumed {
        let flight = [record(22, &server_hello12()), finished12()].concat();
        talk.send(1, ACK, &flight).after(9 * MS).send(0, ACK, &finished12());
    } else {
        let flight = [server_hello12(), message(11, &[0; 3]), message(14, &[])].concat();
        talk.send(1, ACK, &record(22, &flight)).after(9 * MS);
        let answer = [record(22, &message(16, &[4; 33])), finished12()].concat();
        talk.send(0, ACK, &answer).after(3 * MS);
        let ticket = record(22, &message(4, &[0; 100]));
        talk.send(1, ACK, &[ticket, finished12()].concat());
    }
    talk.after(9 * MS).send(0, ACK, &sealed(100)).after(2 * MS).send(1, ACK, &sealed(300));
    talk
}

#[test]
fn tls12_is_resumed_only_by_the_abbreviated_flow() {
    // The session ID is echoed in both cases.
    let full = facts(&only(&conversation12(&[], false).packets));
    assert_eq!(full.handshake, Some(Handshake::Full));
    assert_eq!(full.tickets, Some(1));
    assert_eq!(full.resumption.accepted, None);
    let offer = [(TICKET, vec![3; 192])];
    let short = only(&conversation12(&offer, true).packets);
    assert_eq!(short.exchanges.count, Some(1));
    let short = facts(&short);
    assert_eq!(short.handshake, Some(Handshake::Resumed));
    assert_eq!(short.resumption.accepted, Some(SessionMechanism::Ticket));
    assert_eq!(short.tickets, Some(0));
    let declined = facts(&only(&conversation12(&offer, false).packets));
    assert!(declined.resumption.declined);
    assert_eq!(declined.resumption.offered_size, Some(192));
    let by_id = facts(&only(&conversation12(&[], true).packets));
    assert_eq!(by_id.resumption.accepted, Some(SessionMechanism::SessionId));
}

#[test]
fn tls13_is_resumed_by_the_servers_word() {
    let run = |accepted| {
        let mut talk = Talk::new(40_000, 7);
        talk.open().send(0, ACK, &record(22, &client_hello13(&[identity()]))).after(5 * MS);
        talk.send(1, ACK, &flight13(accepted)).after(9 * MS);
        talk.send(0, ACK, &[record(20, &[1]), sealed(53)].concat());
        facts(&only(&talk.packets))
    };
    let resumed = run(true);
    assert_eq!(resumed.resumption.accepted, Some(SessionMechanism::Psk));
    assert_eq!(resumed.resumption.offered_size, Some(1));
    assert!(resumed.complete);
    let declined = run(false);
    assert_eq!(declined.handshake, Some(Handshake::Full));
    assert!(declined.resumption.declined);
    assert_eq!(declined.sni.as_deref(), Some("shop.example"));
    assert_eq!(declined.group, Some(29));
    assert_eq!(declined.server_flight_bytes, Some(flight13(false).len() as u64));
}

fn early(sent: bool, taken: Option<bool>) -> crate::Observed {
    let mut talk = Talk::new(40_000, 7);
    let hello = record(22, &client_hello13(&[(EARLY_DATA, vec![]), identity()]));
    talk.open().send(0, ACK, &hello);
    if sent {
        talk.send(0, ACK, &sealed(300));
    }
    talk.after(5 * MS).send(1, ACK, &flight13(taken.is_some())).after(9 * MS);
    let end = if taken == Some(true) { sealed(21) } else { vec![] };
    talk.send(0, ACK, &[end, sealed(53)].concat());
    if taken != Some(true) {
        talk.send(0, ACK, &sealed(300));
    }
    talk.after(20 * MS).send(1, ACK, &sealed(1_200));
    only(&talk.packets)
}

#[test]
fn early_data_is_what_was_sent_and_taken_not_what_was_offered() {
    for (sent, taken) in
        [(true, Some(true)), (true, Some(false)), (true, None), (false, Some(false))]
    {
        let observed = early(sent, taken);
        let seen = facts(&observed).early_data.unwrap();
        assert!(seen.offered);
        assert_eq!(seen.bytes, if sent { 305 } else { 0 }, "{sent} {taken:?}");
        let expected = match (sent, taken) {
            (_, None) => Some(false),
            (true, taken) => taken,
            (false, _) => None,
        };
        assert_eq!(seen.accepted, expected, "{sent} {taken:?}");
        assert_eq!(seen.inferred, sent && taken.is_some());
        // Whether it is sent once or twice, it is one request.
        assert_eq!(observed.exchanges.count, Some(1), "{sent} {taken:?}");
        assert_eq!(observed.exchanges.answered, 1);
    }
}

#[test]
fn a_certificate_after_refused_early_data_is_none() {
    let mut talk = Talk::new(40_000, 7);
    let hello = record(22, &client_hello13(&[(EARLY_DATA, vec![]), identity()]));
    talk.open().send(0, ACK, &hello).send(0, ACK, &sealed(300));
    talk.after(5 * MS).send(1, ACK, &flight13(false)).after(9 * MS);
    // Certificate, CertificateVerify and Finished in one record, then the request again.
    talk.send(0, ACK, &sealed(1_500)).send(0, ACK, &sealed(300));
    talk.after(20 * MS).send(1, ACK, &sealed(1_200));
    let observed = only(&talk.packets);
    let seen = facts(&observed);
    assert!(seen.complete);
    let early = seen.early_data.unwrap();
    assert_eq!((early.bytes, early.accepted), (305, Some(false)));
    assert_eq!(observed.exchanges.count, Some(1));
}

#[test]
fn early_data_whose_end_is_missing_may_have_been_taken() {
    let mut talk = Talk::new(40_000, 7);
    let hello = record(22, &client_hello13(&[(EARLY_DATA, vec![]), identity()]));
    talk.open().send(0, ACK, &hello).send(0, ACK, &sealed(300));
    talk.after(5 * MS).send(1, ACK, &flight13(true)).after(9 * MS);
    talk.send(0, ACK, &[sealed(21), sealed(53)].concat());
    talk.send(1, ACK, &sealed(1_200)).after(MS).send(0, ACK, &sealed(300));
    talk.after(20 * MS).send(1, ACK, &sealed(1_200));
    let taken = |packets: &[Made]| facts(&only(packets)).early_data.unwrap();
    assert_eq!(taken(&talk.packets).accepted, Some(true));
    let mut gap = talk.packets;
    gap.remove(6);
    let early = taken(&gap);
    assert_eq!((early.bytes, early.accepted), (305, None));
}

#[test]
fn tickets_before_the_response_are_no_response() {
    let mut talk = Talk::new(40_000, 7);
    talk.open().send(0, ACK, &record(22, &client_hello13(&[]))).after(5 * MS);
    talk.send(1, ACK, &flight13(false)).after(9 * MS);
    talk.send(0, ACK, &[sealed(53), sealed(400)].concat()).after(3 * MS);
    talk.send(1, ACK, &[sealed(250), sealed(250)].concat()).after(25 * MS);
    talk.send(1, ACK, &sealed(900));
    let observed = only(&talk.packets);
    assert_eq!(facts(&observed).tickets_inferred, Some(2));
    let exchange = observed.exchanges.first[0];
    assert_eq!(exchange.response_bytes, 905);
    let waited = exchange.response_start().unwrap().since(exchange.request_end);
    assert_eq!(waited, std::time::Duration::from_millis(28));
}

/// A full TLS 1.2 handshake with these session IDs in the hellos.
fn with_ids(port: u16, client: u8, server: u8) -> Vec<Made> {
    let mut talk = Talk::new(port, 7);
    let hello = with_session_id(client_hello12(&[]), client);
    talk.open().send(0, ACK, &record(22, &hello)).after(5 * MS);
    let hello = with_session_id(server_hello12(), server);
    let flight = [hello, message(11, &[0; 3]), message(14, &[])].concat();
    talk.send(1, ACK, &record(22, &flight)).after(9 * MS);
    let answer = [record(22, &message(16, &[4; 33])), finished12()].concat();
    talk.send(0, ACK, &answer).after(3 * MS).send(1, ACK, &finished12());
    talk.packets
}

#[test]
fn a_session_id_is_an_offer_if_it_was_issued() {
    // The second client sends the ID issued to the first; the third made its own up, and the server echoes it.
    let packets = [with_ids(1, 1, 5), with_ids(2, 5, 6), with_ids(3, 2, 2), with_ids(4, 2, 7)];
    let (all, _) = read(&packets.concat());
    let offered: Vec<_> = all
        .iter()
        .map(|observed| facts(observed).resumption)
        .map(|resumption| (resumption.offered, resumption.offered_size, resumption.declined))
        .collect();
    let no = (None, None, false);
    let declined = (Some(SessionMechanism::SessionId), Some(32), true);
    assert_eq!(offered, [no, declined, no, no]);
    // For the others it is unknown.
    let unknown: Vec<bool> =
        all.iter().map(|observed| facts(observed).offer_is_unknown()).collect();
    assert_eq!(unknown, [true, false, true, true]);
}

#[test]
fn a_hello_after_the_answer_offers_nothing() {
    let mut talk = Talk::new(40_000, 7);
    talk.open().send(0, ACK, &record(22, &client_hello13(&[identity()]))).after(5 * MS);
    talk.send(1, ACK, &record(22, &super::made::server_hello13(false)));
    talk.send(0, ACK, &record(22, &client_hello13(&[])));
    let resumption = facts(&only(&talk.packets)).resumption;
    assert_eq!((resumption.offered, resumption.declined), (Some(SessionMechanism::Psk), true));
}

#[test]
fn postgresql_agrees_to_tls_with_one_byte() {
    let mut talk = Talk::new(40_000, 7);
    talk.open().send(0, ACK, &[0, 0, 0, 8, 4, 0xd2, 0x16, 0x2f]).after(MS).send(1, ACK, b"S");
    talk.send(0, ACK, &record(22, &client_hello13(&[]))).after(5 * MS);
    talk.send(1, ACK, &flight13(false)).after(9 * MS);
    talk.send(0, ACK, &[record(20, &[1]), sealed(53)].concat());
    let seen = facts(&only(&talk.packets));
    assert_eq!((seen.version, seen.complete), (Some(0x0304), true));
}

#[test]
fn a_hello_that_is_cut_does_not_say_its_version() {
    let mut talk = Talk::new(40_000, 7);
    talk.open().send(0, ACK, &record(22, &client_hello13(&[]))).after(5 * MS);
    talk.send(1, ACK, &flight13(false));
    // Headers, and a hello up to its session ID.
    for packet in &mut talk.packets {
        packet.frame.truncate(54 + 5 + 60);
    }
    let seen = facts(&only(&talk.packets));
    assert!(seen.client_hello && seen.server_hello);
    assert_eq!((seen.version_offered, seen.version), (None, None));
}

#[test]
fn names_are_kept_up_to_their_longest() {
    let name = vec![b'a'; 9_000];
    let list = [vec![0], (name.len() as u16).to_be_bytes().to_vec(), name].concat();
    let names = (0, [(list.len() as u16).to_be_bytes().to_vec(), list].concat());
    let mut talk = Talk::new(40_000, 7);
    talk.open().send(0, ACK, &record(22, &client_hello12(&[names])));
    let sni = facts(&only(&talk.packets)).sni.unwrap();
    assert_eq!((sni.chars().count(), sni.ends_with('…')), (256, true));
}

#[test]
fn who_is_the_client_is_told_by_hellos_without_a_syn() {
    let packets = super::conversation13(false, 1_400).packets;
    let (all, _) = read(&packets[3..]);
    assert_eq!(all[0].roles, Roles::Hello);
    assert_eq!(all[0].client.socket_addr().port(), 40_000);
    // Only data: the roles are unknown.
    let (all, _) = read(&packets[packets.len() - 6..]);
    assert_eq!(all[0].roles, Roles::Unknown);
    assert_eq!(all[0].exchanges.count, None);
}

#[test]
fn keys_have_names() {
    assert_eq!(CertificateKey::Rsa(2048).name(), "RSA 2048");
}
