//! Which packets are looked at: those of certain hosts and ports.
//!
//! In: frames as they are captured. Out: whether one counts. It looks at the outermost IP header, behind VLAN
//! tags, and no further: what is in a tunnel has the tunnel's addresses. [`Filter::program`] says the same to a
//! kernel; it may let more pass, never less, so that [`Filter::passes`] decides for files and for live
//! captures alike.

mod program;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::layers::Outer;
use firstbyte_core::pcap::LinkType;

pub use program::{Begin, Instruction};

/// Hosts that a filter can have, so that its program is within what kernels take (4,096 instructions).
pub const MOST_HOSTS: usize = 48;
/// Ports that it can have.
pub const MOST_PORTS: usize = 256;

/// Packets from or to one of the hosts, and from or to one of the ports; of either, none given means all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    v4: Vec<Ipv4Addr>,
    v6: Vec<Ipv6Addr>,
    ports: Vec<u16>,
}

impl Filter {
    /// Only these hosts and these ports; `None` with more than [`MOST_HOSTS`] or [`MOST_PORTS`].
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

    /// Whether everything passes.
    pub const fn is_empty(&self) -> bool {
        !self.has_hosts() && self.ports.is_empty()
    }

    const fn has_hosts(&self) -> bool {
        !self.v4.is_empty() || !self.v6.is_empty()
    }

    /// Whether the frame counts. Of a fragmented datagram the first piece has ports; the others pass if
    /// their hosts do.
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
