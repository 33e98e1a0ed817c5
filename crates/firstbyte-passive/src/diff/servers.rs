//! Groups connections by server, and pairs the servers to compare.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::Range;

use super::super::layers::Endpoint;
use super::super::observed::{Carrier, Observed};
use super::Side;

/// Two sides to compare, and their names.
#[derive(Clone, Debug, Default)]
pub struct Pair {
    /// The server, or group of servers, that is compared.
    pub name: String,
    /// What it is compared with, unless that is the same thing at an earlier time.
    pub against: Option<String>,
    /// Connections before, or those to measure up to.
    pub before: Side,
    /// Connections after.
    pub after: Side,
}

/// Connections by server: address and port. Server names do not separate them, because a refused connection has none.
/// Memory is bounded: connections beyond [`MOST_CONNECTIONS`] are only counted.
#[derive(Clone, Debug, Default)]
pub struct Servers {
    servers: BTreeMap<(Endpoint, bool), Server>,
    kept: usize,
    left_out: u64,
}

/// Most connections on one side that are compared.
pub const MOST_CONNECTIONS: usize = 1 << 20;
/// Most servers of one capture that are compared with the others.
pub const MOST_SERVERS: usize = 256;
/// Most names kept for one server.
const MOST_NAMES: usize = 1_024;

#[derive(Clone, Debug, Default)]
struct Server {
    names: BTreeSet<Box<str>>,
    side: Side,
}

impl Servers {
    /// Adds a connection.
    pub fn add(&mut self, observed: &Observed) {
        if self.kept == MOST_CONNECTIONS {
            self.left_out += 1;
            return;
        }
        self.kept += 1;
        let key = (observed.server, observed.carrier == Carrier::Quic);
        let server = self.servers.entry(key).or_default();
        server.side.add(observed);
        let sni = observed.tls.as_ref().and_then(|tls| tls.sni.as_ref());
        if let Some(name) = sni
            && server.names.len() < MOST_NAMES
            && !server.names.contains(name)
        {
            server.names.insert(name.clone());
        }
    }

    /// Number of connections beyond [`MOST_CONNECTIONS`], which are not compared.
    pub const fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Number of connections.
    pub fn connections(&self) -> usize {
        self.servers.values().map(|server| server.side.connections()).sum()
    }

    /// Pairs of each server before and after; and the names of servers on one side only, before and after.
    pub fn pairs(before: &Self, after: &Self) -> (Vec<Pair>, [Vec<String>; 2]) {
        let mut pairs = Vec::new();
        for (key, was) in &before.servers {
            if let Some(is) = after.servers.get(key) {
                let names = was.names.union(&is.names).cloned().collect();
                pairs.push(Pair {
                    name: label(*key, &names),
                    against: None,
                    before: was.side.clone(),
                    after: is.side.clone(),
                });
            }
        }
        (pairs, [before.without(after), after.without(before)])
    }

    /// Pairs each server with all others together, for the [`MOST_SERVERS`] with most connections. The others include
    /// servers beyond this limit. Also returns the number of servers.
    pub fn each_against_others(&self) -> (Vec<Pair>, usize) {
        let mut all = Side::default();
        let mut places = Vec::with_capacity(self.servers.len());
        for (key, server) in &self.servers {
            let begin = all.connections();
            all.merge(&server.side);
            places.push((key, server, begin..all.connections()));
        }
        if places.len() < 2 {
            return (Vec::new(), places.len());
        }
        let mut largest: Vec<usize> = (0..places.len()).collect();
        largest.sort_by_key(|place| Reverse(places[*place].2.len()));
        largest.truncate(MOST_SERVERS);
        largest.sort_unstable();
        let pair = |(key, server, place): &(&(Endpoint, bool), &Server, Range<usize>)| Pair {
            name: label(**key, &server.names),
            against: Some("the others".to_owned()),
            before: all.without(place.clone()),
            after: server.side.clone(),
        };
        (largest.into_iter().map(|place| pair(&places[place])).collect(), places.len())
    }

    /// All connections of the servers that match one of `patterns`.
    pub fn group(&self, patterns: &[&str]) -> Side {
        let mut side = Side::default();
        for (key, server) in &self.servers {
            if patterns.iter().any(|pattern| matches(pattern, key.0, &server.names)) {
                side.merge(&server.side);
            }
        }
        side
    }

    fn without(&self, other: &Self) -> Vec<String> {
        self.servers
            .iter()
            .filter(|(key, _)| !other.servers.contains_key(key))
            .map(|(key, server)| label(*key, &server.names))
            .collect()
    }
}

fn label((server, quic): (Endpoint, bool), names: &BTreeSet<Box<str>>) -> String {
    let address = server.socket_addr();
    let carrier = if quic { " over QUIC" } else { "" };
    let mut names = names.iter();
    match (names.next(), names.next()) {
        (Some(name), None) => format!("{name} ({address}{carrier})"),
        _ => format!("{address}{carrier}"),
    }
}

/// Whether a pattern matches a server: by server name, in which `*` stands for any characters, by address, or by
/// address and port.
fn matches(pattern: &str, server: Endpoint, names: &BTreeSet<Box<str>>) -> bool {
    let address = server.socket_addr();
    if pattern.parse::<IpAddr>().is_ok_and(|ip| ip == address.ip()) {
        return true;
    }
    // Host names are case-insensitive (RFC 4343).
    let pattern = pattern.to_ascii_lowercase();
    is_like(&pattern, &address.to_string())
        || names.iter().any(|name| is_like(&pattern, &name.to_ascii_lowercase()))
}

/// Whether a pattern matches the server of `observed`, as in [`Servers::group`].
pub fn is_server(pattern: &str, observed: &Observed) -> bool {
    let sni = observed.tls.as_ref().and_then(|tls| tls.sni.clone());
    matches(pattern, observed.server, &sni.into_iter().collect())
}

fn is_like(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_name_servers() {
        let server = Endpoint::new("10.0.0.5".parse().unwrap(), 443);
        let names = BTreeSet::from(["node4.nam.test".into()]);
        for pattern in ["10.0.0.5", "10.0.0.5:443", "10.0.0.*", "NODE4.nam.test", "node*.test", "*"]
        {
            assert!(matches(pattern, server, &names), "{pattern}");
        }
        for pattern in ["10.0.0.50", "10.0.0", "node5*", "*.com", "node4", ""] {
            assert!(!matches(pattern, server, &names), "{pattern}");
        }
    }

    #[test]
    fn stars_stand_for_any_letters() {
        assert!(is_like("a*b*c", "aXbYc") && is_like("a*", "a") && is_like("*a*", "bab"));
        assert!(!is_like("a*b", "aXbY") && !is_like("ab*b", "ab"));
    }
}
