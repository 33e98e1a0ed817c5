//! QUIC (RFC 9000): opens a connection, and carries streams for HTTP/3.
//!
//! quinn-proto is the protocol's state machine. `connection` feeds it one datagram at a time, and lets HTTP see the
//! result of each before the next is read. So it is known which datagram, with which kernel stamp, brought which data.
//! The HTTP/3 stack reads and writes `streams`; `facts` describes the connection afterwards.

mod connection;
mod facts;
mod ledger;
mod packets;
mod streams;

use std::cell::RefCell;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use firstbyte_core::timeline::{Attempt, AttemptOutcome, Cause, Mark, PhaseName};

use super::connect::{self, RemotePort};
use super::observation::{Shared, When};
use super::options::Options;
use super::resolve::Resolved;
use super::tls::QuicTls;
use crate::net::{ConnectError, UdpSocket};
use firstbyte_clock::Timebase;

pub(super) use connection::{Connection, SharedConnection};
pub(super) use streams::Streams;

/// Time limit of an attempt while there is another address to try.
const ATTEMPT_LIMIT: Duration = Duration::from_secs(1);

/// Opens a connection to the first address that answers, trying one after another.
///
/// With `early`, returns as soon as early data can be sent, before anything was received.
pub(super) async fn open(
    seen: &Shared,
    options: &Options,
    resolved: Resolved,
    port: RemotePort,
    tls: &QuicTls,
    early: bool,
) -> Result<SharedConnection, Cause> {
    let dial = |remote, timebase| UdpSocket::connect(remote, &options.bind, timebase);
    open_over(seen, resolved, port, tls, early, dial).await
}

/// Like [`open`], over sockets from `dial`.
pub(super) async fn open_over(
    seen: &Shared,
    resolved: Resolved,
    port: RemotePort,
    tls: &QuicTls,
    early: bool,
    dial: impl Fn(SocketAddr, Timebase) -> Result<UdpSocket, ConnectError>,
) -> Result<SharedConnection, Cause> {
    seen.borrow_mut().phase = PhaseName::Quic;
    let Resolved { addresses, mut late } = resolved;
    let mut waiting: std::collections::VecDeque<_> = addresses.into();
    let mut failure = None;
    loop {
        let address = match waiting.pop_front() {
            Some(address) => address,
            None => match late.take() {
                Some(more) => {
                    waiting.extend(more.await);
                    continue;
                }
                None => break,
            },
        };
        let remote = port.remote(address);
        let index = begin(seen, remote);
        let mut attempt = pin!(attempt(seen, &dial, remote, tls, early));
        let mut limit = pin!(tokio::time::sleep(ATTEMPT_LIMIT));
        let result = loop {
            let others = late.is_some() || !waiting.is_empty();
            tokio::select! {
                biased;
                result = &mut attempt => break result,
                // Take the other family's answer when it comes: its time is part of the lookup.
                more = connect::arrival(&mut late), if late.is_some() => {
                    late = None;
                    waiting.extend(more);
                }
                () = &mut limit, if others => {
                    break Err(Cause::QuicConnectTimedOut { remote, after: ATTEMPT_LIMIT });
                }
            }
        };
        let mut observation = seen.borrow_mut();
        let now = observation.timebase.now();
        let attempt = &mut observation.connection.attempts[index];
        attempt.end = Some(now.at);
        match result {
            Ok(connection) => {
                attempt.outcome = AttemptOutcome::Won;
                drop(observation);
                return Ok(connection);
            }
            Err(cause) => {
                attempt.outcome = AttemptOutcome::Failed { error: cause.to_string() };
                let gone_elsewhere = matches!(
                    cause,
                    Cause::Refused { .. }
                        | Cause::QuicConnectTimedOut { .. }
                        | Cause::Unreachable { .. }
                );
                if !gone_elsewhere {
                    return Err(cause);
                }
                failure = Some(cause);
            }
        }
    }
    Err(failure
        .unwrap_or(Cause::SocketSetup { detail: "there is no address to connect to".into() }))
}

fn begin(seen: &Shared, remote: SocketAddr) -> usize {
    let mut seen = seen.borrow_mut();
    let now = seen.timebase.now();
    let attempt = Attempt { remote, start: now.at, end: None, outcome: AttemptOutcome::Lost };
    seen.connection.attempts.push(attempt);
    seen.connection.attempts.len() - 1
}

async fn attempt(
    seen: &Shared,
    dial: impl Fn(SocketAddr, Timebase) -> Result<UdpSocket, ConnectError>,
    remote: SocketAddr,
    tls: &QuicTls,
    early: bool,
) -> Result<SharedConnection, Cause> {
    let timebase = seen.borrow().timebase;
    let socket = dial(remote, timebase).map_err(|e| match e {
        ConnectError::Setup(error) => Cause::SocketSetup { detail: connect::describe(&error) },
        ConnectError::Failed(error) => refused(remote, &error),
    })?;
    let mut connection = Connection::new(seen, socket, remote, tls)?;
    let departed = connection.send_first()?;
    {
        let mut seen = seen.borrow_mut();
        seen.record_with(connection.recorder());
        seen.connection.facts.remote = Some(remote);
        seen.connection.facts.local = connection.local();
        seen.connection.facts.quic = Some(firstbyte_core::timeline::QuicFacts::default());
        if let Some(id) = departed {
            seen.mark(Mark::ConnectStart, When::Departure(id));
            seen.mark(Mark::SecureConnectionStart, When::Departure(id));
        }
    }
    let early = early && connection.can_send_early();
    let connection = Rc::new(RefCell::new(connection));
    if early {
        return Ok(connection);
    }
    let result = std::future::poll_fn(|cx| connection.borrow_mut().poll_connected(cx)).await;
    connection.borrow().note_facts();
    result.map_err(|error| connection.borrow_mut().cause(&error))?;
    Ok(connection)
}

/// Uses the kernel's message.
fn refused(remote: SocketAddr, error: &std::io::Error) -> Cause {
    match error.kind() {
        std::io::ErrorKind::ConnectionRefused => Cause::Refused { remote },
        _ => Cause::Unreachable { remote, detail: connect::describe(error) },
    }
}
