//! Resolves names to addresses, with A and AAAA queried in parallel and timed separately.
//!
//! Input: a target and the options. Output: addresses in the order in which to try them (RFC 8305 §4: families
//! interleaved, IPv6 first), those not yet resolved, and every lookup in the observation.

pub(super) mod configuration;
pub(super) mod notes;
mod sockets;
pub(super) mod stub;

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use firstbyte_core::timeline::{Cause, Lookup, Mark, RecordType};
use hickory_resolver::proto::rr::Name;

use self::configuration::RESOLV_CONF;
use self::notes::{LookupFailure, LookupNotes};
use self::stub::{QuestionTransport, StubResolver};
use super::observation::Shared;
use super::options::{Family, Options, ResolveOverride, ResolverChoice};

/// Resolution Delay: how long an IPv4 answer waits for the IPv6 answer (RFC 8305 §8).
const RESOLUTION_DELAY: Duration = Duration::from_millis(50);

/// The addresses of a host, at least one.
pub(super) struct Resolved {
    /// Addresses known so far, in the order in which to try them.
    pub addresses: Vec<IpAddr>,
    /// Addresses of the other family, if its answer is still pending.
    pub late: Option<Late>,
}

/// Addresses not yet resolved; empty if the lookup fails.
pub(super) type Late = Pin<Box<dyn Future<Output = Vec<IpAddr>>>>;

impl From<Vec<IpAddr>> for Resolved {
    fn from(addresses: Vec<IpAddr>) -> Self {
        Self { addresses, late: None }
    }
}

pub(super) enum Resolver {
    Dns(SystemResolver),
    Server(Rc<StubResolver>),
    System,
}

/// The stub resolver configured by the system's files. It is created anew when they change, because a monitor runs for
/// months.
pub(super) struct SystemResolver {
    stub: RefCell<Rc<StubResolver>>,
    changed: Cell<FileTimes>,
}

type FileTimes = [Option<SystemTime>; 2];

fn file_times() -> FileTimes {
    let changed = |file| std::fs::metadata(file).and_then(|about| about.modified()).ok();
    [RESOLV_CONF, "/etc/hosts"].map(changed)
}

impl SystemResolver {
    fn from_system() -> Result<Self, String> {
        let changed = Cell::new(file_times());
        Ok(Self { stub: RefCell::new(Rc::new(StubResolver::from_system()?)), changed })
    }

    fn current_stub(&self) -> Rc<StubResolver> {
        let changed = file_times();
        if changed != self.changed.get()
            && let Ok(stub) = StubResolver::from_system()
        {
            self.stub.replace(Rc::new(stub));
            self.changed.set(changed);
        }
        Rc::clone(&self.stub.borrow())
    }
}

impl Resolver {
    pub(super) fn new(choice: &ResolverChoice) -> Result<Self, String> {
        Ok(match choice {
            ResolverChoice::System => Self::System,
            ResolverChoice::Dns => Self::Dns(SystemResolver::from_system()?),
            ResolverChoice::Server(address) => {
                Self::Server(Rc::new(StubResolver::from_server(*address)))
            }
        })
    }

    /// Resolves the addresses of `host`; with a trailing dot, no search domains are appended.
    pub(super) async fn resolve(
        &self,
        seen: &Shared,
        options: &Options,
        host: &str,
        port: u16,
    ) -> Result<Resolved, Cause> {
        let name = host.trim_end_matches('.');
        if let Ok(address) = name.parse::<IpAddr>() {
            return allowed(vec![address], options.family, name).map(Resolved::from);
        }
        if let Some(given) = overridden(options, name, port) {
            let addresses = given.addresses.clone();
            return allowed(addresses, options.family, name).map(Resolved::from);
        }
        let stub = match self {
            Self::Dns(files) => Some(files.current_stub()),
            Self::Server(stub) => Some(Rc::clone(stub)),
            Self::System => None,
        };
        seen.borrow_mut().mark_now(Mark::DomainLookupStart);
        let found = match stub {
            // Boxed, because the future is kilobytes large and connections to an address do not need it.
            Some(stub) => Box::pin(dns(&stub, seen, options.family, host)).await,
            None => Box::pin(system(seen, options.family, host, port)).await.map(Resolved::from),
        };
        if found.is_ok() {
            seen.borrow_mut().mark_now(Mark::DomainLookupEnd);
        }
        found
    }
}

fn allowed(addresses: Vec<IpAddr>, family: Family, host: &str) -> Result<Vec<IpAddr>, Cause> {
    let allowed: Vec<IpAddr> = addresses.into_iter().filter(|a| family.allows(a)).collect();
    if allowed.is_empty() {
        return Err(Cause::NoAddresses { name: host.to_owned(), family: family.name() });
    }
    Ok(interleave(allowed))
}

pub(super) fn overridden<'a>(
    options: &'a Options,
    host: &str,
    port: u16,
) -> Option<&'a ResolveOverride> {
    // As with curl, the last matching option wins.
    options.resolve.iter().rev().find(|o| {
        o.host.as_deref().is_none_or(|h| h.eq_ignore_ascii_case(host))
            && o.port.is_none_or(|p| p == port)
    })
}

/// IPv6 first, then one of each family in turn (RFC 8305 §4).
pub(super) fn interleave(addresses: Vec<IpAddr>) -> Vec<IpAddr> {
    let total = addresses.len();
    let (v6, v4): (Vec<_>, Vec<_>) = addresses.into_iter().partition(IpAddr::is_ipv6);
    let (mut v6, mut v4) = (v6.into_iter(), v4.into_iter());
    let mut ordered = Vec::with_capacity(total);
    while ordered.len() < total {
        ordered.extend(v6.next());
        ordered.extend(v4.next());
    }
    ordered
}

/// Asks for `host`, and for the names from the search list, until there are addresses.
pub(super) async fn dns<T: QuestionTransport + 'static>(
    stub: &Rc<StubResolver<T>>,
    seen: &Shared,
    family: Family,
    host: &str,
) -> Result<Resolved, Cause> {
    let typed = host.trim_end_matches('.');
    let notes = |record_type| Rc::new(LookupNotes::new(seen, record_type));
    let (v6, v4) = (notes(RecordType::Aaaa), notes(RecordType::A));
    let types: &[RecordType] = match family {
        Family::Any => &[RecordType::Aaaa, RecordType::A],
        Family::V4 => &[RecordType::A],
        Family::V6 => &[RecordType::Aaaa],
    };
    let local = stub.local_addresses(host, types);
    if !local.is_empty() {
        for notes in [&v6, &v4].into_iter().filter(|notes| types.contains(&notes.record_type)) {
            let of_type =
                |address: &IpAddr| address.is_ipv6() == (notes.record_type == RecordType::Aaaa);
            notes.begin_lookup();
            notes.end_lookup(&Ok(local.iter().copied().filter(of_type).collect()));
        }
        return allowed(local, family, typed).map(Resolved::from);
    }
    let searched = stub
        .searched_names(host)
        .map_err(|detail| Cause::ResolverFailed { name: typed.to_owned(), detail })?;
    let first = stub.take_turn();
    let mut failure: Option<Cause> = None;
    for (place, name) in searched.names.iter().enumerate() {
        // Connections that outlive this one may wait for late answers.
        let asked = |notes: &Rc<LookupNotes>| {
            ask(Rc::clone(stub), Rc::clone(notes), name.clone(), typed.to_owned(), first)
        };
        let answers = (asked(&v6), asked(&v4));
        let found = first_answers(answers, family, stub.asks_one_at_a_time(), typed).await;
        let cause = match found {
            Ok(resolved) => return Ok(resolved),
            Err(cause) => cause,
        };
        // If the typed name comes first, its failure is always the one reported (`__res_context_search` in glibc's
        // `res_query.c`). If the servers do not answer for that name, the search list is still tried; if they do not
        // answer for a name from the list, the search ends.
        let gives_up = matches!(cause, Cause::ResolverTimedOut { .. })
            && !(place == 0 && searched.typed_first);
        let tells_more = |known: &Cause| !searched.typed_first && weight(&cause) > weight(known);
        if failure.as_ref().is_none_or(tells_more) {
            failure = Some(cause);
        }
        if gives_up {
            break;
        }
    }
    Err(failure.unwrap_or_else(|| Cause::NameNotFound { name: typed.to_owned() }))
}

/// Ranks failures: of several names, the most informative failure is reported.
const fn weight(cause: &Cause) -> u8 {
    match cause {
        Cause::ResolverTimedOut { .. } => 3,
        Cause::NoAddresses { .. } => 2,
        Cause::ResolverFailed { .. } => 1,
        _ => 0,
    }
}

/// The addresses of one name, as soon as a connection attempt can begin with them.
async fn first_answers<F>(
    (v6, v4): (F, F),
    family: Family,
    one_at_a_time: bool,
    host: &str,
) -> Result<Resolved, Cause>
where
    F: Future<Output = Result<Vec<IpAddr>, Cause>> + 'static,
{
    let answers = match family {
        Family::V4 => vec![v4.await],
        Family::V6 => vec![v6.await],
        Family::Any if one_at_a_time => {
            let v4 = v4.await;
            vec![v6.await, v4]
        }
        Family::Any => {
            let (mut v6, mut v4) = (Box::pin(v6), Box::pin(v4));
            tokio::select! {
                biased;
                first = &mut v6 => match first {
                    // RFC 8305 §3: with IPv6 addresses there is nothing to wait for. Later answers serve attempts after
                    // the first.
                    Ok(addresses) if !addresses.is_empty() => {
                        let late: Late = Box::pin(async { v4.await.unwrap_or_default() });
                        return Ok(Resolved { addresses, late: Some(late) });
                    }
                    nothing => vec![nothing, v4.await],
                },
                first = &mut v4 => match first {
                    Ok(addresses) if !addresses.is_empty() => {
                        match tokio::time::timeout(RESOLUTION_DELAY, &mut v6).await {
                            Ok(second) => vec![second, Ok(addresses)],
                            Err(_) => {
                                let late: Late = Box::pin(async { v6.await.unwrap_or_default() });
                                return Ok(Resolved { addresses, late: Some(late) });
                            }
                        }
                    }
                    nothing => vec![v6.await, nothing],
                },
            }
        }
    };
    settle(answers, family, host).map(Resolved::from)
}

/// The addresses in `answers`; if there are none, the most informative error.
fn settle(
    answers: Vec<Result<Vec<IpAddr>, Cause>>,
    family: Family,
    host: &str,
) -> Result<Vec<IpAddr>, Cause> {
    let mut addresses = Vec::new();
    let mut failure = None;
    for answer in answers {
        match answer {
            Ok(found) => addresses.extend(found),
            Err(cause) => failure = Some(cause),
        }
    }
    match failure {
        Some(cause) if addresses.is_empty() => Err(cause),
        _ => allowed(addresses, family, host),
    }
}

/// Makes one query. An answer without records is an empty list, not an error.
async fn ask<T: QuestionTransport>(
    stub: Rc<StubResolver<T>>,
    notes: Rc<LookupNotes>,
    asked: Name,
    name: String,
    first: usize,
) -> Result<Vec<IpAddr>, Cause> {
    notes.begin_lookup();
    let answer = stub.ask(&asked, first, &notes).await;
    notes.end_lookup(&answer);
    answer.map_err(|why| match why {
        LookupFailure::NoSuchName => Cause::NameNotFound { name },
        LookupFailure::Failed(detail) => Cause::ResolverFailed { name, detail },
        LookupFailure::Silence => {
            let (after, asked) = notes.time_and_servers();
            Cause::ResolverTimedOut { name, after, asked }
        }
    })
}

async fn system(
    seen: &Shared,
    family: Family,
    host: &str,
    port: u16,
) -> Result<Vec<IpAddr>, Cause> {
    let name = host.trim_end_matches('.');
    let start = seen.borrow().timebase.now().at;
    let answer = tokio::net::lookup_host((host, port)).await;
    let mut seen = seen.borrow_mut();
    let end = Some(seen.timebase.now().at);
    let mut lookup = Lookup {
        record_type: RecordType::Any,
        start,
        end,
        addresses: vec![],
        error: None,
        tries: vec![],
    };
    let found = match answer {
        Ok(found) => {
            for address in found.map(|a: SocketAddr| a.ip()) {
                if !lookup.addresses.contains(&address) {
                    lookup.addresses.push(address);
                }
            }
            // The system has already sorted them (RFC 6724); keep that order.
            let allowed: Vec<IpAddr> =
                lookup.addresses.iter().copied().filter(|a| family.allows(a)).collect();
            if allowed.is_empty() {
                Err(Cause::NoAddresses { name: name.to_owned(), family: family.name() })
            } else {
                Ok(allowed)
            }
        }
        Err(error) => {
            // `EAI_NONAME` and similar errors have no stable form except their text.
            let detail = error.to_string();
            let detail = detail.rsplit(": ").next().unwrap_or(&detail).to_owned();
            lookup.error = Some(detail.clone());
            Err(if detail.contains("not known") {
                Cause::NameNotFound { name: name.to_owned() }
            } else {
                Cause::ResolverFailed { name: name.to_owned(), detail }
            })
        }
    };
    seen.connection.lookups.push(lookup);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_alternate_with_ipv6_first() {
        let parse = |text: &str| text.parse::<IpAddr>().unwrap();
        let ordered = interleave(
            ["192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::2", "2001:db8::3"]
                .map(parse)
                .to_vec(),
        );
        let expected = ["2001:db8::1", "192.0.2.1", "2001:db8::2", "192.0.2.2", "2001:db8::3"];
        assert_eq!(ordered, expected.map(parse));
    }

    #[test]
    fn a_family_that_is_missing_is_named() {
        let v4 = vec!["192.0.2.1".parse().unwrap()];
        let error = allowed(v4, Family::V6, "example.test").unwrap_err();
        assert_eq!(error.to_string(), "example.test has no IPv6 address");
    }
}
