//! From addresses to one open connection: Happy Eyeballs (RFC 8305).
//!
//! Attempts are begun one Connection Attempt Delay apart, or as soon as the one before has failed;
//! the first to connect wins. Every attempt stays in the observation.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use firstbyte_core::timeline::{Attempt, AttemptOutcome, Cause, Mark, PhaseName, Stamp, TcpFacts};
use tokio::task::JoinSet;

use super::observation::{Shared, When};
use super::options::Options;
use crate::net::{self, Bind, ConnectError, Connected};

/// Connection Attempt Delay (RFC 8305 §8).
const CONNECTION_ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// Connects to the first of `addresses` that answers.
pub(super) async fn connect(
    seen: &Shared,
    options: &Options,
    addresses: &[IpAddr],
    port: u16,
) -> Result<Connected, Cause> {
    seen.borrow_mut().phase = PhaseName::Connect;
    let mut waiting = addresses.iter().map(|a| SocketAddr::new(*a, port));
    let mut attempts: JoinSet<(usize, SocketAddr, Result<Connected, ConnectError>)> =
        JoinSet::new();
    let mut failure = None;
    loop {
        if let Some(remote) = waiting.next() {
            begin(&mut attempts, seen, options, remote);
        }
        let more = waiting.len() > 0;
        let finished = async {
            if more {
                tokio::time::timeout(CONNECTION_ATTEMPT_DELAY, attempts.join_next()).await.ok()
            } else {
                Some(attempts.join_next().await)
            }
        };
        match finished.await {
            // The delay has passed: the next one starts beside those under way.
            None => {}
            Some(None) if more => {}
            Some(None) => {
                return Err(failure.unwrap_or(Cause::SocketSetup {
                    detail: "there was no address to try".into(),
                }));
            }
            Some(Some(Err(panicked))) => std::panic::resume_unwind(panicked.into_panic()),
            Some(Some(Ok((index, remote, Ok(connected))))) => {
                return Ok(won(seen, index, remote, connected));
            }
            Some(Some(Ok((index, remote, Err(error))))) => {
                let cause = cause(seen, options, remote, error);
                failed(seen, index, &cause);
                failure = Some(cause);
            }
        }
    }
}

fn begin(
    attempts: &mut JoinSet<(usize, SocketAddr, Result<Connected, ConnectError>)>,
    seen: &Shared,
    options: &Options,
    remote: SocketAddr,
) {
    let (index, timebase) = {
        let mut seen = seen.borrow_mut();
        let now = seen.timebase.now();
        if seen.connection.attempts.is_empty() {
            seen.mark(Mark::ConnectStart, When::At(now));
        }
        seen.connection.attempts.push(Attempt {
            remote,
            start: now.at,
            end: None,
            outcome: AttemptOutcome::Lost,
        });
        (seen.connection.attempts.len() - 1, seen.timebase)
    };
    let bind = options.bind.clone();
    attempts
        .spawn_local(async move { (index, remote, net::connect(remote, &bind, timebase).await) });
}

fn won(seen: &Shared, index: usize, remote: SocketAddr, connected: Connected) -> Connected {
    let mut seen = seen.borrow_mut();
    let given_up = connected.connected.at;
    for attempt in &mut seen.connection.attempts {
        attempt.end = attempt.end.or(Some(given_up));
    }
    let attempt = &mut seen.connection.attempts[index];
    attempt.start = connected.syn_departed.at;
    attempt.outcome = AttemptOutcome::Won;
    if index == 0 {
        seen.mark(Mark::ConnectStart, When::At(connected.syn_departed));
    }
    seen.mark(Mark::TcpConnected, When::At(connected.connected));
    seen.connection.facts.remote = Some(remote);
    seen.connection.facts.local = connected.stream.local();
    seen.tcp = Some(TcpFacts {
        syn_rtt: connected.syn_rtt,
        syn_departure_uncertainty: Some(connected.syn_uncertainty),
        ..TcpFacts::default()
    });
    seen.record_with(connected.stream.recorder());
    connected
}

fn failed(seen: &Shared, index: usize, cause: &Cause) {
    let mut seen = seen.borrow_mut();
    let now: Stamp = seen.timebase.now();
    let attempt = &mut seen.connection.attempts[index];
    attempt.end = Some(now.at);
    attempt.outcome = AttemptOutcome::Failed { error: cause.to_string() };
}

fn cause(seen: &Shared, options: &Options, remote: SocketAddr, error: ConnectError) -> Cause {
    let error = match error {
        ConnectError::Setup(error) => {
            let why = describe(&error);
            return Cause::SocketSetup {
                detail: match &options.bind {
                    Bind::Any => why,
                    Bind::Device(name) => format!("--interface {name}: {why}"),
                    Bind::Address(address) => format!("--interface {address}: {why}"),
                },
            };
        }
        ConnectError::Failed(error) => error,
    };
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Cause::Refused { remote },
        io::ErrorKind::TimedOut => {
            let seen = seen.borrow();
            let begun = seen.connection.attempts.iter().find(|a| a.remote == remote);
            let after = begun.map_or(Duration::ZERO, |a| seen.timebase.now().at.since(a.start));
            Cause::ConnectTimedOut { remote, after }
        }
        _ => Cause::Unreachable { remote, detail: describe(&error) },
    }
}

/// The kernel's words, without the number Rust appends.
pub fn describe(error: &io::Error) -> String {
    error.raw_os_error().map_or_else(
        || error.to_string(),
        |code| nix::errno::Errno::from_raw(code).desc().to_lowercase(),
    )
}
