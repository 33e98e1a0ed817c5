//! Chooses the address of a target to probe: a single one, of the preferred family.

use std::net::IpAddr;

use firstbyte_clock::Monotonic;
use firstbyte_core::timeline::{FailureType, PhaseName};
use firstbyte_probe::probe::describe_io;

use super::Probe;
use super::failure::lookup_type;
use crate::configuration::AddressChoice;

const LOOKUP: (&str, &str) =
    ("probe_dns_lookup_time_seconds", "Returns the time taken for probe dns lookup in seconds");
const PROTOCOL: (&str, &str) =
    ("probe_ip_protocol", "Specifies whether probe ip protocol is IP4 or IP6");
const HASH: (&str, &str) = (
    "probe_ip_addr_hash",
    "Specifies the hash of IP address. It's useful to detect if the IP address changes.",
);

impl Probe<'_> {
    /// The address of `host` to probe, and how long the lookup took, in seconds.
    pub(super) async fn address(
        &mut self,
        host: &str,
        choice: &AddressChoice,
    ) -> (Result<IpAddr, String>, f64) {
        let preferred = if choice.prefers_v6() { "ip6" } else { "ip4" };
        self.log.debug("Resolving target address", &[("host", host), ("ip_protocol", preferred)]);
        self.metrics.gauge(PROTOCOL.0, PROTOCOL.1, 0.0);
        self.metrics.gauge(HASH.0, HASH.1, 0.0);
        let begun = Monotonic::now();
        let found = self.lookup(host).await;
        let taken = Monotonic::now().since(begun).as_secs_f64();
        self.metrics.gauge(LOOKUP.0, LOOKUP.1, taken);
        let found = found.and_then(|all| {
            choose(&all, choice).ok_or_else(|| {
                self.note_failure(PhaseName::Resolve, FailureType::DnsNameNotResolved);
                format!("{host} has no {preferred} address")
            })
        });
        match &found {
            Ok(address) => {
                self.log.debug("Resolved target address", &[("ip", &address.to_string())]);
                let protocol = if address.is_ipv4() { 4.0 } else { 6.0 };
                self.metrics.gauge(PROTOCOL.0, PROTOCOL.1, protocol);
                self.metrics.gauge(HASH.0, HASH.1, hash(address).into());
            }
            Err(error) => self.log.error("Error resolving address", &[("err", error)]),
        }
        (found, taken)
    }

    /// All addresses of `host`, from the system's resolver.
    async fn lookup(&self, host: &str) -> Result<Vec<IpAddr>, String> {
        if let Ok(address) = host.parse() {
            return Ok(vec![address]);
        }
        if host.is_empty() {
            self.note_setup_failure();
            return Err("the target has no host".into());
        }
        let looking = tokio::net::lookup_host((host, 0));
        match tokio::time::timeout_at(self.deadline, looking).await {
            Err(_) => {
                self.note_failure(PhaseName::Resolve, FailureType::DnsUnreachable);
                Err(format!("{host}: the probe's timeout ended the name lookup"))
            }
            Ok(Err(error)) => {
                self.note_failure(PhaseName::Resolve, lookup_type(&error));
                Err(format!("{host}: {}", describe_io(&error)))
            }
            Ok(Ok(found)) => Ok(found.map(|address| address.ip().to_canonical()).collect()),
        }
    }
}

/// The first address of the preferred family; without one, the last of the other family, if that is allowed.
fn choose(all: &[IpAddr], choice: &AddressChoice) -> Option<IpAddr> {
    let preferred = all.iter().find(|a| a.is_ipv6() == choice.prefers_v6());
    preferred.or_else(|| all.last().filter(|_| choice.fallback)).copied()
}

/// FNV-1a hash of the address's bytes.
fn hash(address: &IpAddr) -> u32 {
    let fnv = |bytes: &[u8]| {
        bytes
            .iter()
            .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
    };
    match address {
        IpAddr::V4(address) => fnv(&address.octets()),
        IpAddr::V6(address) => fnv(&address.octets()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_theirs() {
        assert_eq!(hash(&"127.0.0.1".parse().unwrap()), 3_668_918_509);
    }

    #[test]
    fn the_preferred_family_comes_first() {
        let all: Vec<IpAddr> =
            ["192.0.2.1", "2001:db8::1", "192.0.2.2"].map(|a| a.parse().unwrap()).into();
        let choose = |preferred: &str, fallback, all: &[IpAddr]| {
            let choice = AddressChoice { preferred: preferred.into(), fallback };
            choose(all, &choice).map(|a| a.to_string())
        };
        assert_eq!(choose("", true, &all).as_deref(), Some("2001:db8::1"));
        assert_eq!(choose("ip4", true, &all).as_deref(), Some("192.0.2.1"));
        assert_eq!(choose("ip6", true, &all[..1]).as_deref(), Some("192.0.2.1"));
        assert_eq!(choose("ip6", false, &all[..1]), None);
    }
}
