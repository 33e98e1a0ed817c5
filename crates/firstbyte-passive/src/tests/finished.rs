//! The encrypted end of a TLS 1.3 handshake, recognised by position, whatever the records' lengths.

use super::made::{ACK, FIN, MS, Talk, client_hello13, flight13, record, sealed, server_hello13};
use super::{facts, only};
use crate::{Failed, Observed};

const PRE_SHARED_KEY: u16 = 41;

/// A conversation up to the server's flight, which the client has received.
fn answered(resumed: bool) -> Talk {
    let identity = (PRE_SHARED_KEY, vec![0, 38, 0, 32].into_iter().chain([1; 36]).collect());
    let offer = if resumed { vec![identity] } else { Vec::new() };
    let mut talk = Talk::new(40_000, 7);
    talk.open().send(0, ACK, &record(22, &client_hello13(&offer))).after(5 * MS);
    talk.send(1, ACK, &flight13(resumed)).after(9 * MS);
    talk
}

/// The same with this second flight and an exchange, each record in its own segment or all in one.
fn conversation(resumed: bool, flight: &[usize], whole: bool) -> Observed {
    let mut talk = answered(resumed);
    let records: Vec<Vec<u8>> = flight.iter().chain([&95]).map(|n| sealed(*n)).collect();
    if whole {
        talk.send(0, ACK, &records.concat());
    } else {
        records.iter().for_each(|record| {
            talk.after(MS / 10).send(0, ACK, record);
        });
    }
    talk.after(4 * MS).send(1, ACK, &[sealed(282), sealed(16_401), sealed(9_000)].concat());
    only(&talk.packets)
}

#[test]
fn a_finished_of_any_length_ends_the_handshake() {
    let flights: [(bool, &[usize]); 10] = [
        (false, &[53]),
        // Padded by 16 bytes, as Java does; to a multiple of 128; of 512.
        (false, &[69]),
        (false, &[144]),
        (false, &[528]),
        (true, &[69]),
        (true, &[528]),
        // With a certificate: each message in its own record, padded or not; an empty certificate; all in one record.
        (false, &[425, 112, 69]),
        (false, &[409, 96, 53]),
        (false, &[41, 69]),
        (false, &[1_200]),
    ];
    for (resumed, flight) in flights {
        for whole in [true, false] {
            let observed = conversation(resumed, flight, whole);
            let what = format!("{resumed} {flight:?} {whole}");
            assert!(facts(&observed).complete, "{what}");
            assert_eq!(observed.exchanges.count, Some(1), "{what}");
            assert_eq!(observed.exchanges.answered, 1, "{what}");
            let first = observed.exchanges.first[0];
            assert!(first.response_bytes >= 16_401 + 9_000, "{what}");
            assert_eq!(Failed::judge(&observed), None, "{what}");
        }
    }
}

#[test]
fn who_pads_its_finished_pads_its_alerts() {
    let mut talk = answered(true);
    talk.send(0, ACK, &[sealed(69), sealed(95)].concat()).after(4 * MS);
    talk.send(1, ACK, &sealed(900)).after(9 * MS).send(0, ACK, &sealed(35));
    assert_eq!(only(&talk.packets).exchanges.count, Some(1));
    // Without padding, a record of that length is a request.
    let mut talk = answered(true);
    talk.send(0, ACK, &[sealed(53), sealed(95)].concat()).after(4 * MS);
    talk.send(1, ACK, &sealed(900)).after(9 * MS).send(0, ACK, &sealed(35));
    assert_eq!(only(&talk.packets).exchanges.count, Some(2));
}

/// rustls puts EncryptedExtensions and Finished in one record. The bytes beyond a Finished are not padding, and alerts
/// are not padded.
#[test]
fn two_messages_in_a_record_are_no_padding() {
    let mut talk = Talk::new(40_000, 7);
    let identity = vec![0, 38, 0, 32].into_iter().chain([1; 36]).collect();
    talk.open().send(0, ACK, &record(22, &client_hello13(&[(PRE_SHARED_KEY, identity)])));
    let flight = [record(22, &server_hello13(true)), record(20, &[1]), sealed(53 + 11)].concat();
    talk.after(5 * MS).send(1, ACK, &flight).after(9 * MS);
    talk.send(0, ACK, &[sealed(53), sealed(95)].concat()).after(4 * MS);
    talk.send(1, ACK, &sealed(9_000)).after(9 * MS);
    talk.send(0, ACK, &sealed(19)).send(0, FIN | ACK, &[]).after(4 * MS).send(1, ACK, &sealed(19));
    let observed = only(&talk.packets);
    assert_eq!(observed.exchanges.first[0].response_bytes, 9_005);
}

#[test]
fn a_certificate_refused_behind_the_finished_is_a_failure() {
    let refused = |request: bool| {
        let mut talk = answered(false);
        let records = [sealed(25), sealed(53), if request { sealed(95) } else { Vec::new() }];
        talk.send(0, ACK, &records.concat()).after(3 * MS);
        talk
    };
    for request in [true, false] {
        let mut talk = refused(request);
        talk.send(1, ACK, &sealed(19)).send(1, FIN | ACK, &[]).after(8 * MS);
        talk.send(0, FIN | ACK, &[]);
        let observed = only(&talk.packets);
        assert!(facts(&observed).complete);
        assert_eq!(Failed::judge(&observed), Some(Failed::Alert), "{request}");
        let told = crate::model::connection(&observed).broken_off().unwrap().message;
        assert_eq!(told, "failed in tls: the server sent an encrypted TLS alert");
        // Some servers close without an alert.
        let mut talk = refused(request);
        talk.send(1, FIN | ACK, &[]).after(8 * MS).send(0, FIN | ACK, &[]);
        assert_eq!(Failed::judge(&only(&talk.packets)), Some(Failed::Closed), "{request}");
    }
}

#[test]
fn a_proper_end_behind_the_finished_is_none() {
    // A client that only checks whether the server is up leaves first; its close_notify is answered.
    let mut talk = answered(false);
    talk.send(0, ACK, &sealed(53)).send(0, ACK, &sealed(19)).send(0, FIN | ACK, &[]);
    talk.after(3 * MS).send(1, ACK, &sealed(19)).send(1, FIN | ACK, &[]);
    assert_eq!(Failed::judge(&only(&talk.packets)), None);
    // No request for a minute.
    let mut talk = answered(false);
    talk.send(0, ACK, &sealed(53)).after(60_000 * MS);
    talk.send(1, ACK, &sealed(19)).send(1, FIN | ACK, &[]);
    assert_eq!(Failed::judge(&only(&talk.packets)), None);
    // The client had an answer, or tickets.
    for answer in [vec![900], vec![250, 250]] {
        let mut talk = answered(false);
        talk.send(0, ACK, &[sealed(53), sealed(95)].concat()).after(3 * MS);
        answer.iter().for_each(|n| {
            talk.send(1, ACK, &sealed(*n));
        });
        talk.after(MS).send(1, ACK, &sealed(19)).send(1, FIN | ACK, &[]);
        assert_eq!(Failed::judge(&only(&talk.packets)), None, "{answer:?}");
    }
    // The capture ends.
    let mut talk = answered(false);
    talk.send(0, ACK, &[sealed(53), sealed(95)].concat());
    assert_eq!(Failed::judge(&only(&talk.packets)), None);
}

#[test]
fn whether_tickets_were_issued_is_known_where_the_response_shows_it() {
    let issued = |http2: bool, early: &[usize], response: &[usize], pause: i64| {
        let offer = if http2 { vec![(16, b"\0\x03\x02h2".to_vec())] } else { Vec::new() };
        let mut talk = Talk::new(40_000, 7);
        talk.open().send(0, ACK, &record(22, &client_hello13(&offer))).after(5 * MS);
        talk.send(1, ACK, &flight13(false));
        early.iter().for_each(|n| {
            talk.send(1, ACK, &sealed(*n));
        });
        talk.after(9 * MS).send(0, ACK, &[sealed(53), sealed(95)].concat()).after(3 * MS);
        response.iter().for_each(|n| {
            talk.send(1, ACK, &sealed(*n)).after(pause);
        });
        facts(&only(&talk.packets)).session_issued
    };
    assert_eq!(issued(false, &[], &[250, 250, 9_000], MS / 10), Some(true));
    assert_eq!(issued(false, &[], &[250, 9_000], 20 * MS), Some(true));
    assert_eq!(issued(false, &[250], &[9_000], MS), Some(true));
    // A response that cannot be a ticket, or that is the only record.
    assert_eq!(issued(false, &[], &[9_000], MS), Some(false));
    assert_eq!(issued(false, &[], &[400], MS), Some(false));
    // A ticket and its response, or a head and its body.
    assert_eq!(issued(false, &[], &[250, 9_000], MS / 10), None);
    // SETTINGS are not tickets.
    assert_eq!(issued(true, &[57], &[9_000], MS), Some(false));
    assert_eq!(issued(true, &[], &[], MS), None);
}
