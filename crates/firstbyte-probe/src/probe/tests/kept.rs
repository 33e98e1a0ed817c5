//! Kept connections: another exchange, and a peer that goes away between two exchanges.

use std::sync::Arc;
use std::time::Duration;

use firstbyte_core::timeline::{Direction, Mark};

use super::peers::{App, CERTIFICATE, Http2, OK, Plain, TlsPeer, http1};
use super::visit::{Asked, Client, simulated};
use crate::net::simulated::{Said, StreamPeer, What};
use crate::probe::options::HttpVersion;

const ROUND_TRIP: Duration = Duration::from_millis(40);
const PAUSE: Duration = Duration::from_secs(3);

#[test]
fn another_exchange_is_one_send_and_has_times_of_its_own() {
    for http in [HttpVersion::Http1, HttpVersion::Negotiate] {
        simulated(async {
            let http2 = http == HttpVersion::Negotiate;
            let config = Arc::new(CERTIFICATE.config(if http2 { &["h2"] } else { &[] }));
            let app: Box<dyn App> = if http2 {
                Box::new(Http2::new(30, b"hello"))
            } else {
                Box::new(http1(|| vec![Said::bytes(30, OK)]))
            };
            let client = Client::new(&Asked { http, ..Asked::default() });
            let (first, again) = client.visit_again(TlsPeer::boxed(&config, app), PAUSE).await;
            let again = again.expect("a connection that can be used");
            assert_eq!((&first.failure, &again.failure), (&None, &None));
            assert!(again.facts.reused && again.marks.at(Mark::ConnectStart).is_none());
            let marks = &again.marks;
            let waited = marks.at(Mark::ResponseStart).unwrap();
            let waited = waited.since(marks.at(Mark::RequestEnd).unwrap());
            assert_eq!(waited, ROUND_TRIP + Duration::from_millis(30));
            // Counted from its own origin, without the earlier exchange.
            assert!(marks.at(Mark::ResponseEnd).unwrap().as_nanos() < 100_000_000);
            let sent: Vec<_> =
                again.flights.iter().filter(|f| f.direction == Direction::Sent).collect();
            assert_eq!(sent[0].chunks.len(), 1, "{sent:?}");
            assert_eq!(marks.at(Mark::RequestStart), Some(sent[0].first()));
        });
    }
}

/// Answers once, and goes away later.
struct Leaves<P>(P, What);

impl<P: StreamPeer> StreamPeer for Leaves<P> {
    fn take(&mut self, bytes: &[u8]) -> Vec<Said> {
        let mut said = self.0.take(bytes);
        if !said.is_empty() {
            said.push(Said { after: Duration::from_secs(1), what: self.1.clone() });
        }
        said
    }
}

#[test]
fn a_connection_that_the_peer_has_left_is_not_used() {
    simulated(async {
        for how in [What::Fin, What::Reset] {
            let peer = || Leaves(Plain(http1(|| vec![Said::bytes(0, OK)])), how.clone());
            let (first, again) = Client::plain().visit_again(peer(), PAUSE).await;
            assert_eq!(first.failure, None);
            assert!(again.is_none(), "{how:?}");
            // Before the peer leaves, the connection can be used.
            let soon = Duration::from_millis(500);
            let (_, again) = Client::plain().visit_again(peer(), soon).await;
            assert_eq!(again.expect("still there").failure, None);
        }
    });
}
