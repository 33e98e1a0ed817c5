//! From addresses to one open connection: Happy Eyeballs (RFC 8305).
//!
//! Attempts begin one Connection Attempt Delay apart, or as soon as the previous one has failed; the first to connect
//! wins. Every attempt stays in the observation.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use firstbyte_core::timeline::{Attempt, AttemptOutcome, Cause, Mark, PhaseName, Stamp, TcpFacts};
use tokio::time::sleep_until;

use super::observation::{Shared, When};
use super::options::Options;
use super::resolve::{Late, Resolved};
use crate::net::{self, Bind, ConnectError, Connected, SynWatch};
use firstbyte_clock::{Timebase, timer_now};

/// Connection Attempt Delay (RFC 8305 §8).
pub(super) const CONNECTION_ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// The port to connect to, and the interface for an address that is valid on one link only.
#[derive(Clone, Copy, Debug)]
pub(super) struct RemotePort {
    port: u16,
    /// The interface's index; 0 if the address does not need one.
    scope: u32,
}

/// The index of an interface given by name or by index.
pub(super) fn interface_number(zone: &str) -> Result<u32, String> {
    let named = nix::net::if_::if_nametoindex(zone).ok();
    let number = named.or_else(|| zone.parse().ok());
    number.ok_or_else(|| format!("no network interface is called {zone:?}"))
}

impl From<u16> for RemotePort {
    fn from(port: u16) -> Self {
        Self { port, scope: 0 }
    }
}

impl RemotePort {
    /// The port at an address in `zone`, an interface's name or index.
    pub(super) fn in_zone(port: u16, zone: Option<&str>) -> Result<Self, Cause> {
        let Some(zone) = zone else { return Ok(port.into()) };
        let scope = interface_number(zone).map_err(|detail| Cause::SocketSetup { detail })?;
        Ok(Self { port, scope })
    }

    pub(super) fn remote(self, address: IpAddr) -> SocketAddr {
        match address {
            IpAddr::V4(_) => SocketAddr::new(address, self.port),
            IpAddr::V6(v6) => SocketAddrV6::new(v6, self.port, 0, self.scope).into(),
        }
    }
}

/// Connects to the first address that answers.
pub(super) async fn connect(
    seen: &Shared,
    options: &Options,
    syns: Option<&Rc<SynWatch>>,
    resolved: Resolved,
    port: RemotePort,
) -> Result<Connected, Cause> {
    let dial = |remote, timebase| {
        let (bind, syns) = (options.bind.clone(), syns.cloned());
        async move { net::connect(remote, &bind, timebase, syns.as_deref()).await }
    };
    let delay = options.attempt_delay.unwrap_or(CONNECTION_ATTEMPT_DELAY);
    race(seen, &options.bind, delay, resolved, port, dial).await
}

/// Calls `dial` for one address after another until one connects; `bind` is for error messages only.
pub(super) async fn race<D, F>(
    seen: &Shared,
    bind: &Bind,
    attempt_delay: Duration,
    resolved: Resolved,
    port: RemotePort,
    dial: D,
) -> Result<Connected, Cause>
where
    D: Fn(SocketAddr, Timebase) -> F,
    F: Future<Output = Result<Connected, ConnectError>> + 'static,
{
    seen.borrow_mut().phase = PhaseName::Connect;
    let Resolved { addresses, mut late } = resolved;
    let mut waiting = VecDeque::from(addresses);
    let mut attempts = Attempts::default();
    let mut failure = None;
    let mut next_due = timer_now();
    let mut due = true;
    loop {
        if due && let Some(address) = waiting.pop_front() {
            begin(&mut attempts, seen, &dial, port.remote(address));
            next_due = timer_now() + attempt_delay;
            due = false;
        }
        tokio::select! {
            biased;
            (index, remote, finished) = attempts.next(), if !attempts.0.is_empty() => match finished {
                Ok(connected) => return Ok(won(seen, index, remote, connected)),
                Err(error) => {
                    let cause = cause(seen, bind, remote, error);
                    failed(seen, index, &cause);
                    failure = Some(cause);
                    due = true;
                }
            },
            more = arrival(&mut late), if late.is_some() => {
                late = None;
                waiting = alternate(more, waiting);
            }
            // The delay has passed: the next attempt starts in parallel to those in progress.
            () = sleep_until(next_due), if !due && !waiting.is_empty() => due = true,
            else => {
                return Err(failure.unwrap_or(Cause::SocketSetup {
                    detail: "there is no address to connect to".into(),
                }));
            }
        }
    }
}

/// Addresses not yet resolved; pends forever if there are none.
pub(super) async fn arrival(late: &mut Option<Late>) -> Vec<IpAddr> {
    match late {
        Some(late) => late.await,
        None => std::future::pending().await,
    }
}

/// Takes addresses from both lists in turn, beginning with `first`, whose family has not been tried yet.
fn alternate(first: Vec<IpAddr>, then: VecDeque<IpAddr>) -> VecDeque<IpAddr> {
    let (mut first, mut then) = (first.into_iter(), then.into_iter());
    let mut both = VecDeque::new();
    while first.len() + then.len() > 0 {
        both.extend(first.next());
        both.extend(then.next());
    }
    both
}

/// Attempts in progress, in the order in which they began.
///
/// They are polled in place: a task for each would wake the runtime, which costs two system calls between the SYN and
/// the task that waits for the answer.
#[derive(Default)]
struct Attempts(Vec<(usize, SocketAddr, Dialled)>);

type Dialled = Pin<Box<dyn Future<Output = Result<Connected, ConnectError>>>>;

impl Attempts {
    /// The next attempt that ends; pends forever if there are none.
    async fn next(&mut self) -> (usize, SocketAddr, Result<Connected, ConnectError>) {
        poll_fn(|cx| {
            for (at, (index, remote, dialled)) in self.0.iter_mut().enumerate() {
                if let Poll::Ready(result) = dialled.as_mut().poll(cx) {
                    let ended = (*index, *remote, result);
                    drop(self.0.remove(at));
                    return Poll::Ready(ended);
                }
            }
            Poll::Pending
        })
        .await
    }
}

fn begin<D, F>(attempts: &mut Attempts, seen: &Shared, dial: &D, remote: SocketAddr)
where
    D: Fn(SocketAddr, Timebase) -> F,
    F: Future<Output = Result<Connected, ConnectError>> + 'static,
{
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
    let dialled = dial(remote, timebase);
    attempts.0.push((index, remote, Box::pin(dialled)));
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
        syn_departure_uncertainty: connected.syn_uncertainty,
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

fn cause(seen: &Shared, bind: &Bind, remote: SocketAddr, error: ConnectError) -> Cause {
    let error = match error {
        ConnectError::Setup(error) => {
            let why = describe(&error);
            return Cause::SocketSetup {
                detail: match bind {
                    Bind::Any => why,
                    Bind::Device(name) => format!("--interface {name}: {why}"),
                    Bind::Address(address) => format!("--interface {address}: {why}"),
                    Bind::Ports { lowest, highest } => {
                        format!("--local-port {lowest}-{highest}: {why}")
                    }
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

/// The kernel's message, without the number that Rust appends.
pub fn describe(error: &io::Error) -> String {
    error.raw_os_error().map_or_else(
        || error.to_string(),
        |code| nix::errno::Errno::from_raw(code).desc().to_lowercase(),
    )
}
