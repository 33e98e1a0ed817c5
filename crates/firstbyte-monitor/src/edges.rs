//! Addresses of names that are measured at every edge, looked up repeatedly because they change.
//!
//! In: names, and a lookup function. Out: the addresses of each name. An address that is no longer in the answer is
//! kept for an hour, because many name servers return changing subsets of their addresses. A failed lookup changes
//! nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use firstbyte_clock::Monotonic;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tracing::info;

/// Most addresses of one name.
pub const MOST_EDGES: usize = 8;
/// How long an address is kept after it was last in an answer.
const KEPT: Duration = Duration::from_secs(3_600);
/// Concurrent lookups.
const AT_ONCE: usize = 32;
const PATIENCE: Duration = Duration::from_secs(10);

/// The addresses of names.
#[derive(Clone, Debug, Default)]
pub struct Edges {
    /// Addresses of each name, and when each was last in an answer.
    hosts: BTreeMap<String, BTreeMap<IpAddr, Monotonic>>,
}

impl Edges {
    /// Looks up all `hosts` with `lookup`, and drops all other names. Returns whether any address was added or removed.
    pub async fn look_up<F>(
        &mut self,
        hosts: &BTreeSet<String>,
        now: Monotonic,
        lookup: impl Fn(String) -> F,
    ) -> bool
    where
        F: Future<Output = std::io::Result<Vec<IpAddr>>> + Send + 'static,
    {
        let before = self.all();
        self.hosts.retain(|host, _| hosts.contains(host));
        let turns = Arc::new(Semaphore::new(AT_ONCE));
        let mut lookups = JoinSet::new();
        for host in hosts {
            let (turns, looked_up) = (Arc::clone(&turns), lookup(host.clone()));
            let host = host.clone();
            lookups.spawn(async move {
                let _turn = turns.acquire_owned().await;
                (host, tokio::time::timeout(PATIENCE, looked_up).await)
            });
        }
        while let Some(Ok((host, looked_up))) = lookups.join_next().await {
            match looked_up {
                Ok(Ok(addresses)) if !addresses.is_empty() => self.note(host, addresses, now),
                Ok(Ok(_)) => info!(host, "host has no address"),
                Ok(Err(error)) => info!(host, %error, "host cannot be looked up"),
                Err(_) => info!(host, "name lookup not answered"),
            }
        }
        self.all() != before
    }

    /// The addresses of `host`, in order; empty until a lookup has succeeded.
    pub fn of_host(&self, host: &str) -> Vec<IpAddr> {
        self.hosts.get(host).into_iter().flat_map(|known| known.keys().copied()).collect()
    }

    fn all(&self) -> BTreeSet<(String, IpAddr)> {
        let of_host = |(host, known): (&String, &BTreeMap<IpAddr, Monotonic>)| {
            known.keys().map(|address| (host.clone(), *address)).collect::<Vec<_>>()
        };
        self.hosts.iter().flat_map(of_host).collect()
    }

    fn note(&mut self, host: String, addresses: Vec<IpAddr>, now: Monotonic) {
        let known = self.hosts.entry(host).or_default();
        for address in &addresses {
            known.entry(*address).and_modify(|seen| *seen = now);
        }
        known.retain(|_, seen| now.since(*seen) < KEPT);
        for address in in_turn(addresses) {
            if known.len() < MOST_EDGES {
                known.insert(address, now);
            }
        }
    }
}

/// The addresses of both families, alternating.
fn in_turn(addresses: Vec<IpAddr>) -> Vec<IpAddr> {
    let mut placed: Vec<(usize, IpAddr)> = Vec::with_capacity(addresses.len());
    let mut seen = [0, 0];
    for address in addresses {
        let place = &mut seen[usize::from(address.is_ipv6())];
        placed.push((*place, address));
        *place += 1;
    }
    placed.sort_by_key(|(place, _)| *place);
    placed.into_iter().map(|(_, address)| address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    async fn look_up(edges: &mut Edges, now: Monotonic, answer: Option<&[&str]>) -> bool {
        let answer = answer.map(|answer| answer.iter().copied().map(address).collect::<Vec<_>>());
        let lookup = |_| {
            let answer = answer.clone();
            async move { answer.ok_or_else(|| std::io::Error::other("no answer")) }
        };
        edges.look_up(&BTreeSet::from(["a.test".to_owned()]), now, lookup).await
    }

    #[tokio::test]
    async fn addresses_come_at_once_and_go_after_an_hour() {
        let (mut edges, begun) = (Edges::default(), Monotonic::now());
        let after = |minutes: u64| begun + Duration::from_secs(60 * minutes);
        let (both, one) = (["192.0.2.1", "2001:db8::1"], ["192.0.2.1", "192.0.2.2"]);
        assert!(!look_up(&mut edges, begun, None).await);
        assert!(look_up(&mut edges, after(1), Some(&both)).await);
        assert_eq!(edges.of_host("a.test"), both.map(address));
        assert!(look_up(&mut edges, after(30), Some(&one)).await);
        assert_eq!(edges.of_host("a.test").len(), 3);
        // A lookup without an answer removes nothing.
        assert!(!look_up(&mut edges, after(300), None).await);
        assert!(!look_up(&mut edges, after(300), Some(&[])).await);
        assert!(look_up(&mut edges, after(301), Some(&one)).await);
        assert_eq!(edges.of_host("a.test"), one.map(address));
        // A name that is no longer looked up is dropped.
        let none = |_| async { Ok(Vec::new()) };
        assert!(edges.look_up(&BTreeSet::new(), after(302), none).await);
        assert!(edges.of_host("a.test").is_empty());
    }

    #[tokio::test]
    async fn of_many_addresses_some_of_both_families_are_taken_and_stay() {
        let mut edges = Edges::default();
        let many: Vec<String> = (1..=9)
            .map(|n| format!("192.0.2.{n}"))
            .chain((1..=9).map(|n| format!("2001:db8::{n}")))
            .collect();
        let mut many: Vec<&str> = many.iter().map(String::as_str).collect();
        let now = Monotonic::now();
        assert!(look_up(&mut edges, now, Some(&many)).await);
        let taken = edges.of_host("a.test");
        assert_eq!(taken.iter().filter(|address| address.is_ipv4()).count(), MOST_EDGES / 2);
        assert_eq!(taken.len(), MOST_EDGES);
        many.reverse();
        assert!(!look_up(&mut edges, now + Duration::from_secs(60), Some(&many)).await);
    }
}
