//! A peer that goes away, in every state. The failure must be in the right phase, and earlier observations must stay.

use std::sync::Arc;

use firstbyte_core::timeline::{Cause, Mark, PhaseName};

use super::peers::{App, CERTIFICATE, Cut, Garbled, Http2, OK, Plain, TlsPeer, http1};
use super::visit::{Asked, Client, Visited, simulated};
use crate::net::simulated::{Said, Silent, StreamPeer, What};
use crate::probe::options::{HttpVersion, TlsVersion};

const MARKS: [Mark; 8] = [
    Mark::ConnectStart,
    Mark::TcpConnected,
    Mark::SecureConnectionStart,
    Mark::HandshakeComplete,
    Mark::RequestStart,
    Mark::RequestEnd,
    Mark::ResponseStart,
    Mark::ResponseEnd,
];

fn tls(http2: bool) -> TlsPeer {
    let config = Arc::new(CERTIFICATE.config(if http2 { &["h2"] } else { &[] }));
    let app: Box<dyn App> = if http2 {
        Box::new(Http2::new(20, &[b'x'; 3_000]))
    } else {
        Box::new(http1(|| vec![Said::bytes(20, OK)]))
    };
    TlsPeer::boxed(&config, app)
}

/// Whether `cause` says that the peer went away.
const fn is_gone(cause: &Cause) -> bool {
    matches!(
        cause,
        Cause::ClosedInHandshake
            | Cause::ResetInHandshake
            | Cause::ClosedBeforeResponse
            | Cause::Reset
            | Cause::HeadCutShort
            | Cause::BodyCutShort { .. }
    )
}

/// Marks from before the peer went away must be the same as in a complete visit.
fn marks_that_were_seen_stay(cut: &Visited, whole: &Visited) {
    for mark in MARKS {
        // The last byte received is a different one.
        if mark != Mark::ResponseEnd
            && let Some(at) = cut.connection.marks.at(mark)
        {
            assert_eq!(Some(at), whole.connection.marks.at(mark), "{mark:?}");
        }
    }
}

/// Cuts the server's stream after every few bytes, and around the end of each of its messages.
fn cut_everywhere(asked: &Asked, http2: bool) {
    simulated(async {
        let server = tls(http2);
        let ends = server.ends();
        let whole = Client::new(asked).visit(server).await;
        assert_eq!((whole.failure(), whole.status()), (None, Some(200)));
        let ends: Vec<usize> = ends.borrow().iter().map(|(_, end)| *end).collect();
        let last = *ends.last().unwrap();
        let around = ends.iter().flat_map(|end| [end - 1, *end, end + 1]);
        let mut cuts: Vec<usize> = (0..last).step_by(41).chain(1..8).chain(around).collect();
        cuts.retain(|cut| *cut < last - 4);
        cuts.sort_unstable();
        cuts.dedup();
        for how in [What::Fin, What::Reset] {
            for &left in &cuts {
                let peer = Cut { peer: tls(http2), left, how: how.clone() };
                let cut = Client::new(asked).visit(peer).await;
                let context = format!("{left} of {ends:?}, {how:?}: {:?}", cut.connection);
                marks_that_were_seen_stay(&cut, &whole);
                let (phase, cause) = cut.failure().unwrap_or_else(|| panic!("{context}"));
                assert!(is_gone(cause), "{cause:?}: {context}");
                // The phase must match the last mark.
                let expected: &[PhaseName] = if cut.has(Mark::ResponseStart) {
                    &[PhaseName::Receive]
                } else if cut.has(Mark::RequestEnd) {
                    &[PhaseName::Wait]
                } else if cut.has(Mark::HandshakeComplete) {
                    &[PhaseName::Send]
                } else {
                    // A reset after the complete handshake is noticed by the first send.
                    &[PhaseName::Tls, PhaseName::Send]
                };
                assert!(expected.contains(&phase), "{phase:?}: {context}");
                let in_handshake =
                    matches!(cause, Cause::ClosedInHandshake | Cause::ResetInHandshake);
                assert_eq!(in_handshake, phase == PhaseName::Tls, "{context}");
            }
        }
    });
}

/// The alert is sent last: no `close_notify` follows it, and none is recorded.
#[test]
fn a_record_that_cannot_be_decrypted_ends_with_its_alert() {
    simulated(async {
        for http2 in [false, true] {
            let server = tls(http2);
            let ends = server.ends();
            let http = if http2 { HttpVersion::Negotiate } else { HttpVersion::Http1 };
            let asked = Asked { http, ..Asked::default() };
            let whole = Client::new(&asked).visit(server).await;
            assert_eq!((whole.failure(), whole.status()), (None, Some(200)));
            // Within the first record of the response.
            let before = ends.borrow().iter().rev().nth(1).map(|(_, end)| end + 8).unwrap();
            let garbled = Client::new(&asked).visit(Garbled { peer: tls(http2), before }).await;
            assert!(garbled.failure().is_some(), "{:?}", garbled.connection);
            let names = garbled.connection.flights.iter().flat_map(|flight| &flight.messages);
            let names: Vec<&String> = names.collect();
            assert!(!names.iter().any(|name| name.contains("close_notify")), "{names:?}");
        }
    });
}

#[test]
fn a_peer_that_goes_away_anywhere_in_tls13_and_http1() {
    cut_everywhere(&Asked::default(), false);
}

#[test]
fn a_peer_that_goes_away_anywhere_in_tls13_and_http2() {
    cut_everywhere(&Asked { http: HttpVersion::Negotiate, ..Asked::default() }, true);
}

#[test]
fn a_peer_that_goes_away_anywhere_in_tls12_and_http2() {
    let tls = TlsVersion::V1_2;
    cut_everywhere(&Asked { http: HttpVersion::Negotiate, tls, ..Asked::default() }, true);
}

#[test]
fn a_peer_that_goes_away_anywhere_in_http1_without_tls() {
    simulated(async {
        let server = || Plain(http1(|| vec![Said::bytes(20, OK)]));
        let whole = Client::plain().visit(server()).await;
        assert_eq!((whole.failure(), whole.status()), (None, Some(200)));
        for how in [What::Fin, What::Reset] {
            for left in 0..OK.len() {
                let peer = Cut { peer: server(), left, how: how.clone() };
                let cut = Client::plain().visit(peer).await;
                marks_that_were_seen_stay(&cut, &whole);
                let (phase, cause) = cut.failure().unwrap();
                assert!(is_gone(cause), "{left}, {how:?}: {cause:?}");
                // Ten bytes distinguish a final response from an interim one.
                let answered = left >= "HTTP/1.1 2".len();
                assert_eq!(cut.has(Mark::ResponseStart), answered, "{left}, {how:?}");
                let expected = if answered { PhaseName::Receive } else { PhaseName::Wait };
                assert_eq!(phase, expected, "{left}, {how:?}");
            }
        }
    });
}

/// Goes away before anything is sent.
struct Deaf(What);

impl StreamPeer for Deaf {
    fn take(&mut self, _: &[u8]) -> Vec<Said> {
        vec![Said { after: std::time::Duration::ZERO, what: self.0.clone() }]
    }
}

#[test]
fn a_peer_that_says_nothing_at_all() {
    simulated(async {
        for (how, tls, plain) in [
            (What::Fin, Cause::ClosedInHandshake, Cause::ClosedBeforeResponse),
            (What::Reset, Cause::ResetInHandshake, Cause::Reset),
        ] {
            let over_tls = Client::new(&Asked::default()).visit(Deaf(how.clone())).await;
            assert_eq!(over_tls.failure(), Some((PhaseName::Tls, &tls)));
            assert!(over_tls.has(Mark::SecureConnectionStart));
            let in_clear = Client::plain().visit(Deaf(how)).await;
            assert_eq!(in_clear.failure(), Some((PhaseName::Wait, &plain)));
            assert!(in_clear.has(Mark::RequestEnd));
        }
    });
}

#[test]
fn a_visit_that_is_given_up_at_any_time_keeps_what_was_seen() {
    simulated(async {
        let asked = Asked { http: HttpVersion::Negotiate, ..Asked::default() };
        let whole = Client::new(&asked).visit(tls(true)).await;
        for limit in (1..=145).step_by(4) {
            let limit = std::time::Duration::from_millis(limit);
            let cut = Client::new(&asked).visit_within(limit, tls(true)).await;
            if cut.connection.failure.is_none() {
                continue;
            }
            marks_that_were_seen_stay(&cut, &whole);
            let at = cut.connection.failure.as_ref().and_then(|failure| failure.at).unwrap();
            let seen = MARKS.iter().filter_map(|mark| cut.connection.marks.at(*mark));
            assert!(seen.max().is_none_or(|last| last <= at), "{limit:?}");
        }
        let client = Client::new(&asked);
        let silent = client.visit_within(std::time::Duration::from_secs(9), Silent).await;
        assert_eq!(silent.failure(), Some((PhaseName::Tls, &Cause::Interrupted)));
    });
}
