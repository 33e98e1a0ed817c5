//! Observes SYNs and SYN/ACKs at the device, if the process may look at packets (Linux, `CAP_NET_RAW`).
//!
//! A SYN carries no data, so a TCP socket gives no stamp for it; a packet socket does. It receives only the headers of
//! segments with SYN; those of other programs are ignored.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::rc::{Rc, Weak};

use super::sys;
use firstbyte_clock::Realtime;

/// Maximum number of segments remembered until they are queried.
const REMEMBERED: usize = 2_048;

/// A packet socket for SYNs.
#[derive(Debug)]
pub struct SynWatch {
    socket: OwnedFd,
    passed: RefCell<VecDeque<Passed>>,
}

/// A SYN that left, or a SYN/ACK that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Passed {
    local: SocketAddr,
    remote: SocketAddr,
    outgoing: bool,
    at: Realtime,
}

impl Passed {
    /// Compares without the scope of addresses, which a packet does not contain.
    fn is_of(&self, local: SocketAddr, remote: SocketAddr) -> bool {
        let same = |a: SocketAddr, b: SocketAddr| (a.ip(), a.port()) == (b.ip(), b.port());
        same(self.local, local) && same(self.remote, remote)
    }
}

/// When a connection's first SYN left, and when the answer arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SynTimes {
    pub departed: Realtime,
    pub arrived: Realtime,
}

impl SynWatch {
    /// This thread's watch; `None` if the process may not look at packets.
    pub fn shared() -> Option<Rc<Self>> {
        thread_local! {
            static SHARED: RefCell<Weak<SynWatch>> = const { RefCell::new(Weak::new()) };
        }
        SHARED.with_borrow_mut(|shared| {
            if let Some(open) = shared.upgrade() {
                return Some(open);
            }
            let socket = sys::open_syn_watch().inspect_err(|error| {
                tracing::debug!(%error, "no packet socket: SYN times are estimated");
            });
            let socket = socket.ok()?;
            let opened = Rc::new(Self { socket, passed: RefCell::default() });
            *shared = Rc::downgrade(&opened);
            Some(opened)
        })
    }

    /// Takes the packets seen so far from the kernel, whose buffer is limited.
    pub(super) fn collect(&self) {
        let mut passed = self.passed.borrow_mut();
        sys::receive_syns(self.socket.as_fd(), |packet, outgoing, at| {
            if let Some(found) = at.and_then(|at| read(packet, outgoing, at)) {
                if passed.len() == REMEMBERED {
                    passed.pop_front();
                }
                passed.push_back(found);
            }
        });
    }

    /// The connection's SYN and its answer, if both were seen. SYNs before `since` belong to another connection.
    pub(super) fn times(
        &self,
        local: SocketAddr,
        remote: SocketAddr,
        since: Realtime,
    ) -> Option<SynTimes> {
        self.collect();
        let mut passed = self.passed.borrow_mut();
        let first = |outgoing: bool| {
            let wanted = |p: &&Passed| p.is_of(local, remote) && p.outgoing == outgoing;
            passed.iter().filter(wanted).map(|p| p.at).filter(|at| *at >= since).min()
        };
        let times = first(true).zip(first(false));
        passed.retain(|p| !p.is_of(local, remote));
        let (departed, arrived) = times.filter(|(departed, arrived)| departed <= arrived)?;
        Some(SynTimes { departed, arrived })
    }
}

/// Parses an IP packet with a TCP header; returns it if it is a SYN that leaves or a SYN/ACK that arrives.
fn read(packet: &[u8], outgoing: bool, at: Realtime) -> Option<Passed> {
    const ACK: u8 = 0x10;
    let address = |from: usize, length: usize| -> Option<IpAddr> {
        let bytes = packet.get(from..from + length)?;
        match <[u8; 4]>::try_from(bytes) {
            Ok(four) => Some(IpAddr::from(four)),
            Err(_) => Some(IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?)),
        }
    };
    let (source, destination, tcp) = match packet.first()? >> 4 {
        4 => (address(12, 4)?, address(16, 4)?, usize::from(packet[0] & 15) * 4),
        6 => (address(8, 16)?, address(24, 16)?, 40),
        _ => return None,
    };
    let port = |from: usize| Some(u16::from_be_bytes(packet.get(from..from + 2)?.try_into().ok()?));
    let source = SocketAddr::new(source, port(tcp)?);
    let destination = SocketAddr::new(destination, port(tcp + 2)?);
    let acknowledges = packet.get(tcp + 13)? & ACK != 0;
    let (local, remote) = if outgoing { (source, destination) } else { (destination, source) };
    (acknowledges != outgoing).then_some(Passed { local, remote, outgoing, at })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A SYN from 192.0.2.1:4660 to 198.51.100.2:443, or its answer with the same addresses.
    fn segment(flags: u8) -> Vec<u8> {
        let mut packet = vec![0x46; 1];
        packet.resize(24, 0);
        packet[12..20].copy_from_slice(&[192, 0, 2, 1, 198, 51, 100, 2]);
        packet.extend([0x12, 0x34, 1, 187, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, flags, 0, 0, 0, 0, 0, 0]);
        packet
    }

    #[test]
    fn a_syn_that_leaves_and_an_answer_that_comes_are_read() {
        let at = Realtime::now();
        let syn = read(&segment(0x02), true, at).unwrap();
        assert_eq!(syn.local, "192.0.2.1:4660".parse().unwrap());
        assert_eq!(syn.remote, "198.51.100.2:443".parse().unwrap());
        let answer = read(&segment(0x12), false, at).unwrap();
        assert_eq!(answer.remote, "192.0.2.1:4660".parse().unwrap());
        // Another program's handshake, at a server.
        assert_eq!(read(&segment(0x02), false, at), None);
        assert_eq!(read(&segment(0x12), true, at), None);
        for length in 0..38 {
            assert_eq!(read(&segment(0x02)[..length], true, at), None, "{length} bytes");
        }
    }

    #[test]
    fn addresses_of_ipv6_are_read() {
        let mut packet = vec![0; 40];
        packet[0] = 0x60;
        packet[8..24]
            .copy_from_slice(&"2001:db8::1".parse::<std::net::Ipv6Addr>().unwrap().octets());
        packet[24..40]
            .copy_from_slice(&"2001:db8::2".parse::<std::net::Ipv6Addr>().unwrap().octets());
        packet.extend([0, 80, 0, 81, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 2, 0, 0, 0, 0, 0, 0]);
        let syn = read(&packet, true, Realtime::now()).unwrap();
        assert_eq!(syn.local, "[2001:db8::1]:80".parse().unwrap());
        assert_eq!(syn.remote, "[2001:db8::2]:81".parse().unwrap());
    }
}
