//! Happy Eyeballs (RFC 8305): when each address is tried, and the result.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use firstbyte_core::timeline::{AttemptOutcome, Cause, Connection, Mark, Offset, PhaseName};
use tokio::time::sleep;

use super::visit::{REMOTE, keep_the_laws, simulated};
use crate::net::simulated::{Path, Silent, SimulatedStream};
use crate::net::{Bind, ConnectError, Connected};
use crate::probe::connect::{CONNECTION_ATTEMPT_DELAY, race};
use crate::probe::observation::Observation;
use crate::probe::resolve::{Late, Resolved};
use crate::probe::several::SharedAddresses;

/// The reaction of an address to a SYN, and its delay.
#[derive(Clone, Copy)]
enum Host {
    Answers(u64),
    Refuses(u64),
    Silent,
}

async fn dial(host: Host, timebase: firstbyte_clock::Timebase) -> Result<Connected, ConnectError> {
    match host {
        Host::Answers(ms) => {
            let path = Path { round_trip: Duration::from_millis(ms), ..Path::default() };
            SimulatedStream::new(path, Silent).connect(timebase).await
        }
        Host::Refuses(ms) => {
            sleep(Duration::from_millis(ms)).await;
            Err(ConnectError::Failed(io::ErrorKind::ConnectionRefused.into()))
        }
        Host::Silent => std::future::pending().await,
    }
}

/// Tries addresses that end in 0, 1, 2 …; `late` is a delay in milliseconds, and the number of addresses known before.
async fn try_all(
    hosts: &'static [Host],
    late: Option<(u64, usize)>,
) -> (Connection, Result<(), Cause>) {
    let known = late.map_or(hosts.len(), |(_, known)| known);
    let resolved = Resolved {
        addresses: (0..known).map(address).collect(),
        late: late.map(|(ms, known)| -> Late {
            Box::pin(async move {
                sleep(Duration::from_millis(ms)).await;
                (known..hosts.len()).map(address).collect()
            })
        }),
    };
    try_resolved(hosts, resolved).await
}

fn address(number: usize) -> IpAddr {
    IpAddr::from([192, 0, 2, u8::try_from(number).unwrap()])
}

async fn try_resolved(
    hosts: &'static [Host],
    resolved: Resolved,
) -> (Connection, Result<(), Cause>) {
    let seen = Observation::start("http://server.test/");
    let number = |remote: SocketAddr| match remote.ip() {
        IpAddr::V4(address) => usize::from(address.octets()[3]),
        IpAddr::V6(_) => unreachable!(),
    };
    let dialled = race(
        &seen,
        &Bind::Any,
        CONNECTION_ATTEMPT_DELAY,
        resolved,
        REMOTE.port().into(),
        |remote, timebase| dial(hosts[number(remote)], timebase),
    );
    let limited = tokio::time::timeout(Duration::from_secs(5), dialled).await;
    let outcome = limited.unwrap_or(Err(Cause::Interrupted)).map(drop);
    let connection = seen.borrow_mut().finish(outcome.clone());
    keep_the_laws(&Connection {
        failure: outcome.clone().err().map(|cause| firstbyte_core::timeline::Failure {
            phase: PhaseName::Connect,
            cause,
            at: None,
        }),
        ..connection.clone()
    });
    (connection, outcome)
}

fn starts(connection: &Connection) -> Vec<u128> {
    let since = |at: Offset| at.since(Offset::ZERO).as_millis();
    connection.attempts.iter().map(|attempt| since(attempt.start)).collect()
}

fn outcomes(connection: &Connection) -> Vec<&'static str> {
    let name = |outcome: &AttemptOutcome| match outcome {
        AttemptOutcome::Won => "won",
        AttemptOutcome::Lost => "lost",
        AttemptOutcome::Failed { .. } => "failed",
    };
    connection.attempts.iter().map(|attempt| name(&attempt.outcome)).collect()
}

#[test]
fn the_next_address_is_tried_a_quarter_of_a_second_later() {
    simulated(async {
        let (connection, outcome) =
            try_all(&[Host::Silent, Host::Silent, Host::Answers(40), Host::Answers(1)], None).await;
        assert_eq!(outcome, Ok(()));
        assert_eq!(starts(&connection), [0, 250, 500]);
        assert_eq!(outcomes(&connection), ["lost", "lost", "won"]);
        let marks = &connection.marks;
        let connect = marks.at(Mark::TcpConnected).unwrap();
        assert_eq!(connect.since(Offset::ZERO), Duration::from_millis(540));
        assert_eq!(marks.at(Mark::ConnectStart), Some(connection.attempts[0].start));
    });
}

#[test]
fn the_first_to_answer_wins_whoever_was_asked_first() {
    simulated(async {
        let (connection, _) = try_all(&[Host::Answers(400), Host::Answers(20)], None).await;
        assert_eq!(outcomes(&connection), ["lost", "won"]);
        let (connection, _) = try_all(&[Host::Answers(260), Host::Answers(200)], None).await;
        assert_eq!(outcomes(&connection), ["won", "lost"]);
    });
}

#[test]
fn an_address_that_refuses_is_followed_at_once() {
    simulated(async {
        let (connection, outcome) =
            try_all(&[Host::Refuses(30), Host::Refuses(30), Host::Answers(30)], None).await;
        assert_eq!(outcome, Ok(()));
        assert_eq!(starts(&connection), [0, 30, 60]);
        assert_eq!(outcomes(&connection), ["failed", "failed", "won"]);
    });
}

#[test]
fn where_all_refuse_the_last_one_says_why() {
    simulated(async {
        let (connection, outcome) = try_all(&[Host::Refuses(5), Host::Refuses(9)], None).await;
        let remote = SocketAddr::new(IpAddr::from([192, 0, 2, 1]), REMOTE.port());
        assert_eq!(outcome, Err(Cause::Refused { remote }));
        assert_eq!(outcomes(&connection), ["failed", "failed"]);
        assert!(connection.marks.at(Mark::ConnectStart).is_some());
        assert!(connection.marks.at(Mark::TcpConnected).is_none());
    });
}

#[test]
fn addresses_that_come_late_are_tried_between_the_others() {
    simulated(async {
        let hosts = &[Host::Silent, Host::Silent, Host::Answers(10)];
        let (connection, outcome) = try_all(hosts, Some((100, 2))).await;
        assert_eq!(outcome, Ok(()));
        // The next attempt uses the address that arrived at 100 ms, not the second of those known before.
        let last = connection.attempts.last().unwrap();
        assert_eq!(last.remote.ip(), IpAddr::from([192, 0, 2, 2]));
        assert_eq!(starts(&connection), [0, 250]);
    });
}

/// Connections in parallel to the first one, and after it, race all addresses too.
#[test]
fn addresses_that_come_late_are_every_connections() {
    simulated(async {
        const HOSTS: &[Host] = &[Host::Refuses(1), Host::Answers(10)];
        let names = Rc::new(SharedAddresses::default());
        let late: Late = Box::pin(async {
            sleep(Duration::from_millis(100)).await;
            vec![address(1)]
        });
        let first = names.share(Resolved { addresses: vec![address(0)], late: Some(late) });
        let second = names.resolved().unwrap();
        let both = tokio::join!(try_resolved(HOSTS, first), try_resolved(HOSTS, second));
        for (connection, outcome) in [both.0, both.1] {
            assert_eq!(outcome, Ok(()));
            assert_eq!(outcomes(&connection), ["failed", "won"]);
            assert_eq!(starts(&connection), [0, 100]);
        }
        let third = names.resolved().unwrap();
        assert!(third.late.is_none());
        let (connection, outcome) = try_resolved(HOSTS, third).await;
        assert_eq!((outcome, outcomes(&connection)), (Ok(()), vec!["failed", "won"]));
    });
}
