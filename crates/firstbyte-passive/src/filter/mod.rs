//! Selects packets by host and port.
//!
//! In: captured frames. Out: whether each one counts. Only the outermost IP header after VLAN tags is checked, so that
//! packets in a tunnel have the tunnel's addresses. [`Filter::program`] is the same filter for a kernel. It may pass
//! more packets but never fewer, so that [`Filter::passes`] decides alike for files and live captures.

mod program;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::layers::Outer;
use firstbyte_core::pcap::LinkType;

pub use program::{Begin, Instruction};

/// Most hosts in a filter, so that its program stays within the kernel's limit of 4,096 instructions.
pub const MOST_HOSTS: usize = 48;
/// Most ports in a filter.
pub const MOST_PORTS: usize = 256;

/// Packets from or to one of the hosts and from or to one of the ports. An empty list of either matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    v4: Vec<Ipv4Addr>,
    v6: Vec<Ipv6Addr>,
    ports: Vec<u16>,
}

impl Filter {
    /// A filter for these hosts and ports; `None` with more than [`MOST_HOSTS`] or [`MOST_PORTS`].
    pub fn new(hosts: &[IpAddr], ports: &[u16]) -> Option<Self> {
        let mut filter = Self { ports: ports.to_vec(), ..Self::default() };
        for host in hosts {
            match host.to_canonical() {
                IpAddr::V4(host) => filter.v4.push(host),
                IpAddr::V6(host) => filter.v6.push(host),
            }
        }
        (hosts.len() <= MOST_HOSTS && ports.len() <= MOST_PORTS).then_some(filter)
    }

    /// Whether every packet passes.
    pub const fn is_empty(&self) -> bool {
        !self.has_hosts() && self.ports.is_empty()
    }

    const fn has_hosts(&self) -> bool {
        !self.v4.is_empty() || !self.v6.is_empty()
    }

    /// Whether the frame passes. In a fragmented datagram only the first fragment has ports; the others pass if their
    /// hosts do.
    #[inline]
    pub fn passes(&self, link: LinkType, captured: &[u8], wire_bytes: u32) -> bool {
        self.is_empty() || self.has_packet(link, captured, wire_bytes)
    }

    fn has_packet(&self, link: LinkType, captured: &[u8], wire_bytes: u32) -> bool {
        let Some(outer) = Outer::parse(link, captured, wire_bytes) else { return false };
        let host = !self.has_hosts() || outer.hosts.iter().any(|host| self.has(*host));
        let port = self.ports.is_empty()
            || outer.later_fragment
            || outer.ports.is_some_and(|ports| ports.iter().any(|port| self.ports.contains(port)));
        host && port
    }

    fn has(&self, host: IpAddr) -> bool {
        match host {
            IpAddr::V4(host) => self.v4.contains(&host),
            IpAddr::V6(host) => self.v6.contains(&host),
        }
    }
}

#[cfg(test)]
mod tests;
