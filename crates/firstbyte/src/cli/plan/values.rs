//! Values of single flags, each with an error that says what was expected.

use std::net::IpAddr;

use super::usage;
use crate::cli::exit::Problem;
use firstbyte_core::shown_url::shown_url;
use firstbyte_probe::probe::options::{
    Client, ConnectTo, ResolveOverride, ResolverChoice, split_zone,
};

pub(super) fn client(text: &str) -> Result<Client, Problem> {
    Client::read(text).map_err(|why| {
        usage(format!("--client {text:?}: {why}"))
            .hint("expected firstbyte, curl, chromium or firefox")
    })
}

pub(super) fn resolver(text: &str) -> Result<ResolverChoice, Problem> {
    ResolverChoice::read(text).map_err(|why| {
        usage(format!("--resolver {:?}: {why}", shown_url(text)))
            .hint("expected dns, system, or an address such as 192.0.2.1 or [2001:db8::1]:53")
    })
}

/// An address, with the zone if it is an IPv6 address that has one.
fn address(text: &str) -> Option<(IpAddr, Option<&str>)> {
    let (text, zone) = split_zone(text);
    let address: IpAddr = text.trim_start_matches('[').trim_end_matches(']').parse().ok()?;
    (address.is_ipv6() || zone.is_none()).then_some((address, zone))
}

/// `[+]HOST:PORT:ADDRESS[,ADDRESS…]`. `-HOST:PORT` removes a cached entry in curl; here there is no cache.
pub(super) fn resolve(text: &str) -> Result<Option<ResolveOverride>, Problem> {
    if text.starts_with('-') {
        return Ok(None);
    }
    let bad = |what: String| {
        usage(format!("--resolve {:?}: {what}", shown_url(text)))
            .hint("write HOST:PORT:ADDRESS, such as example.com:443:192.0.2.1")
    };
    let mut parts = text.trim_start_matches('+').splitn(3, ':');
    let (Some(host), Some(port), Some(addresses)) = (parts.next(), parts.next(), parts.next())
    else {
        return Err(bad("expected a host, a port and an address".into()));
    };
    if host.is_empty() {
        return Err(bad("the host is missing".into()));
    }
    let port = match port {
        "*" => None,
        _ => Some(parse_port(port).ok_or_else(|| match text.contains('@') {
            // The text may be the user information in front of a host, so do not show it.
            true => bad("the port is not a number".into()),
            false => bad(format!("{port:?} is not a port")),
        })?),
    };
    let given = addresses
        .split(',')
        .map(|a| address(a).ok_or_else(|| bad(format!("{a:?} is not an address"))))
        .collect::<Result<Vec<_>, _>>()?;
    let zone = given.iter().find_map(|(_, zone)| *zone);
    if given.iter().any(|(address, other)| address.is_ipv6() && *other != zone) {
        return Err(bad("its IPv6 addresses have different zones".into()));
    }
    let addresses = given.iter().map(|(address, _)| *address).collect();
    let zone = zone.map(str::to_owned);
    // A trailing dot (the root) names the same host, as with curl.
    let host = (host != "*").then(|| without_root(host).to_ascii_lowercase());
    Ok(Some(ResolveOverride { host, port, addresses, zone }))
}

/// `HOST1:PORT1:HOST2:PORT2`, each possibly empty; addresses are in brackets.
pub(super) fn connect_to(text: &str) -> Result<ConnectTo, Problem> {
    let bad = |what: String| {
        usage(format!("--connect-to {:?}: {what}", shown_url(text)))
            .hint("write HOST1:PORT1:HOST2:PORT2, any of them empty")
    };
    let parts = split_outside_brackets(text);
    let [from_host, from_port, to_host, to_port] = parts.as_slice() else {
        return Err(bad(format!("expected four parts, got {}", parts.len())));
    };
    let host = |text: &str| {
        let plain = text.trim_start_matches('[').trim_end_matches(']');
        // The zone keeps its case: interface names may contain capitals.
        let (name, zone) = plain.split_at(plain.find('%').unwrap_or(plain.len()));
        (!plain.is_empty()).then(|| without_root(name).to_ascii_lowercase() + zone)
    };
    let port = |text: &str| match text {
        "" => Ok(None),
        _ => parse_port(text).map(Some).ok_or_else(|| bad(format!("{text:?} is not a port"))),
    };
    Ok(ConnectTo {
        from_host: host(from_host),
        from_port: port(from_port)?,
        to_host: host(to_host),
        to_port: port(to_port)?,
    })
}

/// A name without the root's trailing dot, which hosts of URLs do not have (`Target`).
fn without_root(name: &str) -> &str {
    name.strip_suffix('.').filter(|name| !name.is_empty()).unwrap_or(name)
}

fn parse_port(text: &str) -> Option<u16> {
    text.parse().ok().filter(|port| *port != 0)
}

fn split_outside_brackets(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut depth) = (0, 0_i32);
    for (at, c) in text.char_indices() {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            ':' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolve_takes_wildcards_lists_and_brackets() {
        let parsed = resolve("*:443:192.0.2.1,[2001:db8::1]").unwrap().unwrap();
        assert_eq!((parsed.host, parsed.port), (None, Some(443)));
        assert_eq!(parsed.addresses.len(), 2);
        assert!(resolve("-example.test:443").unwrap().is_none());
    }

    #[test]
    fn ipv6_addresses_have_zones() {
        let parsed = resolve("a.test:443:192.0.2.1,fe80::1%lo,[fe80::2%lo]").unwrap().unwrap();
        assert_eq!((parsed.addresses.len(), parsed.zone.as_deref()), (3, Some("lo")));
        for bad in ["a.test:443:fe80::1%lo,fe80::2%eth0", "a.test:443:192.0.2.1%lo"] {
            assert!(resolve(bad).is_err(), "{bad}");
        }
        let parsed = connect_to("A.test:443:[FE80::1%Lan0]:").unwrap();
        assert_eq!(parsed.to_host.as_deref(), Some("fe80::1%Lan0"));
        let lo = resolver("[::1%lo]:5353").unwrap();
        assert_eq!(lo, resolver("[::1%1]:5353").unwrap());
        assert_ne!(lo, resolver("[::1]:5353").unwrap());
        for bad in ["fe80::1%no-such-name", "192.0.2.1%lo"] {
            assert!(resolver(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_dot_of_the_root_is_no_part_of_a_name() {
        let parsed = resolve("Example.test.:443:192.0.2.1").unwrap().unwrap();
        assert_eq!(parsed.host.as_deref(), Some("example.test"));
        let parsed = connect_to("a.test.:443:b.test.:8443").unwrap();
        assert_eq!(parsed.from_host.as_deref(), Some("a.test"));
        assert_eq!(parsed.to_host.as_deref(), Some("b.test"));
    }

    #[test]
    fn connect_to_takes_empty_parts_and_brackets() {
        let parsed = connect_to("::[2001:db8::1]:8443").unwrap();
        assert_eq!(parsed.from_host, None);
        assert_eq!(parsed.to_host.as_deref(), Some("2001:db8::1"));
        assert_eq!(parsed.to_port, Some(8443));
    }
}
