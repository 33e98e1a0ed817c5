//! Names to addresses, with A and AAAA asked side by side and timed apart.
//!
//! Input: a target and the options. Output: addresses in the order in which to try them (RFC 8305
//! §4: families interleaved, IPv6 first), those still to come, and every lookup in the observation.

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use firstbyte_core::timeline::{Cause, Lookup, Mark, RecordType};
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{NameServerConfig, ResolverConfig};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::rr::RData;

use super::observation::Shared;
use super::options::{Family, Options, ResolverChoice};

/// Resolution Delay: how long an answer for IPv4 waits for one for IPv6 (RFC 8305 §8).
const RESOLUTION_DELAY: Duration = Duration::from_millis(50);

/// The addresses of a host, at least one.
pub(super) struct Resolved {
    /// Those known by now, in the order in which to try them.
    pub addresses: Vec<IpAddr>,
    /// Those of the other family, when its answer is still under way.
    pub late: Option<Late>,
}

/// Addresses that are still to come; none if nothing comes of it.
pub(super) type Late = Pin<Box<dyn Future<Output = Vec<IpAddr>>>>;

impl From<Vec<IpAddr>> for Resolved {
    fn from(addresses: Vec<IpAddr>) -> Self {
        Self { addresses, late: None }
    }
}

/// A resolver that is ready to be asked.
pub(super) enum Resolver {
    Dns(Rc<TokioResolver>),
    System,
}

impl Resolver {
    pub(super) fn new(choice: &ResolverChoice) -> Result<Self, String> {
        let builder = match choice {
            ResolverChoice::System => return Ok(Self::System),
            ResolverChoice::Dns => TokioResolver::builder_tokio()
                .map_err(|e| format!("could not read the system's DNS configuration: {e}"))?,
            ResolverChoice::Server(address) => {
                let mut server = NameServerConfig::udp_and_tcp(address.ip());
                for connection in &mut server.connections {
                    connection.port = address.port();
                }
                let config = ResolverConfig::from_name_servers(vec![server]);
                TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
            }
        };
        let mut builder = builder;
        // Every sample asks anew: a cache would measure itself.
        builder.options_mut().cache_size = 0;
        let resolver = builder.build().map_err(|e| format!("could not set up DNS: {e}"))?;
        Ok(Self::Dns(Rc::new(resolver)))
    }

    /// The addresses of `host`.
    pub(super) async fn resolve(
        &self,
        seen: &Shared,
        options: &Options,
        host: &str,
        port: u16,
    ) -> Result<Resolved, Cause> {
        if let Ok(address) = host.parse::<IpAddr>() {
            return allowed(vec![address], options.family, host).map(Resolved::from);
        }
        if let Some(given) = overridden(options, host, port) {
            return allowed(given, options.family, host).map(Resolved::from);
        }
        seen.borrow_mut().mark_now(Mark::DomainLookupStart);
        let found = match self {
            // Kilobytes, which a connection to an address does without.
            Self::Dns(resolver) => Box::pin(dns(resolver, seen, options.family, host)).await,
            Self::System => {
                Box::pin(system(seen, options.family, host, port)).await.map(Resolved::from)
            }
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

fn overridden(options: &Options, host: &str, port: u16) -> Option<Vec<IpAddr>> {
    // As with curl, the last one given wins.
    options
        .resolve
        .iter()
        .rev()
        .find(|o| {
            o.host.as_deref().is_none_or(|h| h.eq_ignore_ascii_case(host))
                && o.port.is_none_or(|p| p == port)
        })
        .map(|o| o.addresses.clone())
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

async fn dns(
    resolver: &Rc<TokioResolver>,
    seen: &Shared,
    family: Family,
    host: &str,
) -> Result<Resolved, Cause> {
    // What comes late may be waited for by connections that outlive this one.
    let asked = |of| ask(Rc::clone(resolver), Shared::clone(seen), of, host.to_owned());
    let (v6, v4) = (asked(RecordType::Aaaa), asked(RecordType::A));
    let answers = match family {
        Family::V4 => vec![v4.await],
        Family::V6 => vec![v6.await],
        Family::Any => {
            let (mut v6, mut v4) = (Box::pin(v6), Box::pin(v4));
            tokio::select! {
                biased;
                first = &mut v6 => match first {
                    // RFC 8305 §3: with IPv6 addresses at hand there is nothing to wait for. What
                    // comes later is for attempts after the first.
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
                                let late: Late =
                                    Box::pin(async { v6.await.unwrap_or_default() });
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

/// The addresses in `answers`; without any, what is most worth telling of why.
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

/// Asks one question. An answer without records is an empty list, not an error.
async fn ask(
    resolver: Rc<TokioResolver>,
    seen: Shared,
    record_type: RecordType,
    host: String,
) -> Result<Vec<IpAddr>, Cause> {
    let start = seen.borrow().timebase.now().at;
    let index = {
        let mut seen = seen.borrow_mut();
        let lookup = Lookup { record_type, start, end: None, addresses: vec![], error: None };
        seen.connection.lookups.push(lookup);
        seen.connection.lookups.len() - 1
    };
    let answer = match record_type {
        RecordType::Aaaa => resolver.ipv6_lookup(host.as_str()).await,
        RecordType::A | RecordType::Any => resolver.ipv4_lookup(host.as_str()).await,
    };
    let mut seen = seen.borrow_mut();
    let end = seen.timebase.now().at;
    // Once the connection that asked is over, others may still wait for the answer: it is noted nowhere then.
    let mut unnoted = Lookup { record_type, start, end: None, addresses: vec![], error: None };
    let lookup = seen.connection.lookups.get_mut(index).unwrap_or(&mut unnoted);
    lookup.end = Some(end);
    match answer {
        Ok(found) => {
            let address = |data: &RData| match data {
                RData::A(a) => Some(IpAddr::V4(a.0)),
                RData::AAAA(a) => Some(IpAddr::V6(a.0)),
                _ => None,
            };
            lookup.addresses = found.answers().iter().filter_map(|r| address(&r.data)).collect();
            Ok(lookup.addresses.clone())
        }
        Err(error) if error.is_nx_domain() => {
            lookup.error = Some("NXDOMAIN".into());
            Err(Cause::NameNotFound { name: host })
        }
        Err(error) if error.is_no_records_found() => Ok(Vec::new()),
        Err(error) => {
            let detail = describe(&error);
            lookup.error = Some(detail.clone());
            let name = host;
            Err(match error {
                NetError::Timeout => Cause::ResolverTimedOut { name, after: end.since(start) },
                _ => Cause::ResolverFailed { name, detail },
            })
        }
    }
}

/// With response codes by their names in RFC 1035 §4.1.1 and RFC 2136 §2.2.
fn describe(error: &NetError) -> String {
    match error {
        NetError::Dns(DnsError::ResponseCode(code)) => {
            let name = format!("{code:?}").to_uppercase();
            format!("the name server answered {name}")
        }
        NetError::NoConnections => "no name server can be reached".into(),
        other => other.to_string(),
    }
}

async fn system(
    seen: &Shared,
    family: Family,
    host: &str,
    port: u16,
) -> Result<Vec<IpAddr>, Cause> {
    let start = seen.borrow().timebase.now().at;
    let answer = tokio::net::lookup_host((host, port)).await;
    let mut seen = seen.borrow_mut();
    let end = Some(seen.timebase.now().at);
    let mut lookup =
        Lookup { record_type: RecordType::Any, start, end, addresses: vec![], error: None };
    let found = match answer {
        Ok(found) => {
            for address in found.map(|a: SocketAddr| a.ip()) {
                if !lookup.addresses.contains(&address) {
                    lookup.addresses.push(address);
                }
            }
            // The system has sorted them already (RFC 6724); that order is kept.
            let allowed: Vec<IpAddr> =
                lookup.addresses.iter().copied().filter(|a| family.allows(a)).collect();
            if allowed.is_empty() {
                Err(Cause::NoAddresses { name: host.to_owned(), family: family.name() })
            } else {
                Ok(allowed)
            }
        }
        Err(error) => {
            // EAI_NONAME and its kin have no stable form beyond their text.
            let detail = error.to_string();
            let detail = detail.rsplit(": ").next().unwrap_or(&detail).to_owned();
            lookup.error = Some(detail.clone());
            Err(if detail.contains("not known") {
                Cause::NameNotFound { name: host.to_owned() }
            } else {
                Cause::ResolverFailed { name: host.to_owned(), detail }
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
