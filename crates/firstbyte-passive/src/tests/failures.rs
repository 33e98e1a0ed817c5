//! How connections fail, how that is reported, and that no failure is invented.

use super::made::{ACK, FIN, MS, Made, RST, SYN, Talk};
use super::made::{client_hello12, client_hello13, flight13, message, read, record, sealed};
use super::{facts, ms, only};
use crate::model::connection;
use crate::{Analyzer, Ending, Failed, Limits, Time};
use firstbyte_core::sequence::Sequence;
use firstbyte_core::split::Split;
use firstbyte_core::timeline::FailureType;

fn hello() -> Talk {
    let mut talk = Talk::new(40_000, 7);
    talk.open().send(0, ACK, &record(22, &client_hello13(&[])));
    talk
}

/// The last line of a diagram.
fn told(packets: &[Made]) -> String {
    connection(&only(packets)).broken_off().map(|stop| stop.message).unwrap_or_default()
}

/// The failure type, in the model as in the capture.
fn called(packets: &[Made]) -> Option<&'static str> {
    let observed = only(packets);
    let failure_type = Failed::judge(&observed).map(|failed| failed.failure_type(&observed));
    assert_eq!(connection(&observed).failure.map(|failure| failure.failure_type()), failure_type);
    failure_type.map(FailureType::as_str)
}

#[test]
fn an_alert_in_the_clear_has_its_name() {
    let mut talk = hello();
    talk.after(MS).send(1, ACK, &record(21, &[2, 70]));
    talk.send(1, FIN | ACK, &[]).send(0, FIN | ACK, &[]);
    let observed = only(&talk.packets);
    let alert = facts(&observed).alert.unwrap();
    assert_eq!((alert.by_client, alert.description, alert.warning), (false, Some(70), false));
    assert_eq!(Failed::judge(&observed), Some(Failed::Alert));
    assert_eq!(
        told(&talk.packets),
        "failed in tls: the server sent the TLS alert protocol_version"
    );
    assert_eq!(called(&talk.packets), Some("tls.version_or_cipher_mismatch"));
}

#[test]
fn a_record_too_short_for_a_finished_is_an_alert() {
    let mut talk = hello();
    talk.after(5 * MS).send(1, ACK, &flight13(false)).after(9 * MS);
    talk.send(0, ACK, &[record(20, &[1]), sealed(19)].concat()).send(0, RST | ACK, &[]);
    let observed = only(&talk.packets);
    let seen = facts(&observed);
    let alert = seen.alert.unwrap();
    assert_eq!((alert.by_client, alert.description, seen.complete), (true, None, false));
    assert_eq!(observed.handshake_time, None);
    assert_eq!(Failed::judge(&observed), Some(Failed::Alert));
    assert_eq!(told(&talk.packets), "failed in tls: the client sent an encrypted TLS alert");
    assert_eq!(called(&talk.packets), Some("tls.failed"));
}

#[test]
fn a_warning_after_which_it_goes_on_is_no_failure() {
    let mut talk = Talk::new(40_000, 7);
    talk.open().send(0, ACK, &record(22, &client_hello12(&[]))).after(MS);
    talk.send(1, ACK, &record(21, &[1, 112])).send(
        1,
        ACK,
        &record(22, &super::made::server_hello12()),
    );
    let ongoing = only(&talk.packets);
    assert!(facts(&ongoing).alert.unwrap().warning);
    assert_eq!(Failed::judge(&ongoing), None);
    let mut fatal = talk.clone();
    fatal.after(MS).send(0, ACK, &record(21, &[2, 40]));
    let alert = facts(&only(&fatal.packets)).alert.unwrap();
    assert_eq!((alert.warning, alert.description), (false, Some(40)));
    // The handshake continued, and was closed for another reason.
    talk.after(MS).send(0, FIN | ACK, &[]).send(1, FIN | ACK, &[]);
    assert_eq!(Failed::judge(&only(&talk.packets)), Some(Failed::Closed));
    // The handshake did not continue.
    let mut talk = Talk::new(40_000, 7);
    talk.open().send(0, ACK, &record(22, &client_hello12(&[]))).after(MS);
    talk.send(1, ACK, &record(21, &[1, 112])).send(0, FIN | ACK, &[]).send(1, FIN | ACK, &[]);
    assert_eq!(Failed::judge(&only(&talk.packets)), Some(Failed::Alert));
}

#[test]
fn a_proper_end_after_what_is_missing_is_no_failure() {
    let mut talk = Talk::new(40_000, 7);
    talk.open().send(0, ACK, &record(22, &client_hello12(&[]))).after(5 * MS);
    let flight = [super::made::server_hello12(), message(11, &[0; 3]), message(14, &[])].concat();
    talk.send(1, ACK, &record(22, &flight)).after(9 * MS);
    let finished = [record(20, &[1]), record(22, &[0x77; 40])].concat();
    talk.send(0, ACK, &[record(22, &message(16, &[4; 33])), finished.clone()].concat());
    talk.after(3 * MS).send(1, ACK, &finished).after(MS);
    // An encrypted close_notify in both directions.
    talk.send(0, ACK, &record(21, &[9; 26])).send(0, FIN | ACK, &[]);
    talk.send(1, ACK, &record(21, &[9; 26])).send(1, FIN | ACK, &[]);
    assert_eq!(Failed::judge(&only(&talk.packets)), None);
    // Without the server's Finished; then only the client's direction.
    let mut gap = talk.packets.clone();
    gap.remove(6);
    assert_eq!(Failed::judge(&only(&gap)), None);
    talk.packets.retain(|packet| packet.frame[26] == 10);
    assert_eq!(Failed::judge(&only(&talk.packets)), None);
}

#[test]
fn who_reset_what_the_other_had_closed_is_not_who_ended_it() {
    let mut talk = hello();
    talk.after(1_200 * MS).send(0, FIN | ACK, &[]).after(MS).send(1, RST, &[]);
    let observed = only(&talk.packets);
    assert_eq!(observed.ending, Ending::ResetByServer);
    assert_eq!(Failed::judge(&observed), Some(Failed::Closed));
    assert!(told(&talk.packets).starts_with("failed in tls: the client closed the connection"));
}

#[test]
fn who_closed_in_the_middle_is_said() {
    let mut talk = hello();
    talk.after(4 * MS).send(1, FIN | ACK, &[]).after(MS).send(0, ACK, &record(21, &[2, 50]));
    talk.send(0, FIN | ACK, &[]);
    let observed = only(&talk.packets);
    assert_eq!(observed.closing.map(|closing| closing.by_client), Some(false));
    assert_eq!(Failed::judge(&observed), Some(Failed::Closed));
    // The alert came after a wait, so it is not part of the hello's flight; and after the end, so it is not drawn.
    let flights: Vec<u64> = observed.flights.iter().map(|flight| flight.bytes).collect();
    assert_eq!(flights.len(), 2, "{flights:?}");
    let drawn = connection(&observed);
    assert_eq!(drawn.flights.len(), 1);
    let expected = "failed in tls: the server closed the connection in the middle of the handshake";
    assert_eq!(told(&talk.packets), expected);
    assert_eq!(called(&talk.packets), Some("tcp.closed"));
    assert_eq!(Split::attribute(&drawn).parts.transfer, ms(0));
    let mut talk = hello();
    talk.after(1_200 * MS).send(0, FIN | ACK, &[]).after(MS).send(1, FIN | ACK, &[]);
    let observed = only(&talk.packets);
    assert_eq!(Failed::judge(&observed), Some(Failed::Closed));
    let expected = "failed in tls: the client closed the connection: no ServerHello within 1.200 s";
    assert_eq!(told(&talk.packets), expected);
    assert_eq!(called(&talk.packets), Some("abandoned"));
}

#[test]
fn a_reset_in_the_handshake_is_drawn_with_what_came_before() {
    let mut talk = hello();
    talk.after(5 * MS).send(1, ACK, &flight13(false)).after(2 * MS).send(0, RST, &[]);
    let observed = only(&talk.packets);
    assert_eq!(Failed::judge(&observed), Some(Failed::Reset));
    let drawn = Sequence::lay_out(&connection(&observed));
    let names: Vec<&String> = drawn.arrows.iter().flat_map(|arrow| &arrow.messages).collect();
    assert!(names.iter().any(|name| *name == "ClientHello"), "{names:?}");
    assert!(names.iter().any(|name| *name == "ServerHello"), "{names:?}");
    let expected = "failed in tls: the client reset the connection in the middle of the handshake";
    assert_eq!(told(&talk.packets), expected);
}

#[test]
fn what_the_capture_does_not_show_is_no_failure() {
    // The capture ends in the middle of the handshake.
    assert_eq!(Failed::judge(&only(&hello().packets)), None);
    assert_eq!(told(&hello().packets), "tls: its end was not seen");
    assert_eq!(called(&hello().packets), None);
    // One direction is missing: the handshake may well have completed.
    let mut talk = hello();
    talk.after(5 * MS).send(1, ACK, &flight13(false)).after(2 * MS).send(0, FIN | ACK, &[]);
    talk.send(1, FIN | ACK, &[]);
    let hidden: Vec<Made> =
        talk.packets.iter().filter(|packet| packet.frame[26] == 10).cloned().collect();
    assert_eq!(Failed::judge(&only(&hidden)), None);
}

#[test]
fn nothing_answers_only_after_a_second() {
    let mut refused = Talk::new(40_000, 7);
    refused.send(0, SYN, &[]).after(MS).send(1, RST | ACK, &[]);
    assert_eq!(only(&refused.packets).ending, Ending::Refused);
    // The capture ends with the SYN.
    assert_eq!(only(&refused.packets[..1]).ending, Ending::Open);
    let with_more = |wait: i64| {
        let mut talk = Talk::new(40_000, 7);
        talk.send(0, SYN, &[]);
        let mut other = Talk::new(50_000, 7);
        other.after(wait).send(0, SYN, &[]).after(MS).send(1, RST | ACK, &[]);
        read(&[talk.packets, other.packets].concat()).0[0].ending
    };
    assert_eq!(with_more(900 * MS), Ending::Open);
    assert_eq!(with_more(1_100 * MS), Ending::Unanswered);
    // A client that acknowledges an answer has received one.
    let mut one_way = Talk::new(40_000, 7);
    one_way.open().after(5_000 * MS).send(0, FIN | ACK, &[]);
    one_way.packets.retain(|packet| packet.frame[26] == 10);
    assert_eq!(only(&one_way.packets).ending, Ending::Open);
    // The same if it is dropped for its silence, long before the end.
    let mut analyzer = Analyzer::new(Limits::default());
    let mut endings = Vec::new();
    analyzer.frame(&refused.packets[0].as_frame(), &mut |_| {});
    let later = Time::from_unix_ns(400_000 * MS);
    analyzer.advance(later, &mut |observed| endings.push(observed.ending));
    assert_eq!((endings, analyzer.hygiene().idle), (vec![Ending::Unanswered], 1));
}

#[test]
fn a_false_start_leaves_the_handshake_its_time() {
    let mut talk = Talk::new(40_000, 7);
    talk.open().send(0, ACK, &record(22, &client_hello12(&[]))).after(40 * MS);
    let flight = [super::made::server_hello12(), message(11, &[0; 3]), message(14, &[])].concat();
    talk.send(1, ACK, &record(22, &flight)).after(9 * MS);
    let finished = [record(20, &[1]), record(22, &[0x77; 40])].concat();
    let answer = [record(22, &message(16, &[4; 33])), finished.clone()].concat();
    talk.send(0, ACK, &answer).after(MS).send(0, ACK, &sealed(100)).after(3 * MS);
    talk.send(1, ACK, &finished).after(9 * MS).send(1, ACK, &sealed(300));
    let split = Split::attribute(&connection(&only(&talk.packets)));
    let phases: Vec<_> = split.phases.iter().map(|split| split.phase.name.to_string()).collect();
    assert_eq!(phases, ["connect", "tls", "send", "wait", "receive"]);
}

#[test]
fn a_stray_packet_of_before_is_another_connection() {
    let mut old = Talk::new(40_000, 0x9000_0000);
    old.send(0, ACK, &[]);
    let mut talk = Talk::new(40_000, 7);
    talk.after(5_000 * MS).open().send(0, ACK, &record(22, &client_hello13(&[]))).after(5 * MS);
    talk.send(1, ACK, &flight13(false)).after(9 * MS).send(0, ACK, &sealed(53));
    let (all, hygiene) = read(&[old.packets, talk.packets].concat());
    assert_eq!((all.len(), hygiene.port_reuses), (2, 1));
    assert!(all[1].doubts.is_empty(), "{:?}", all[1].doubts.names().collect::<Vec<_>>());
    assert_eq!(all[1].started.unix_ns(), 6_000_000_000);
}
