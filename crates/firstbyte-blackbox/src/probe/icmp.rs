//! `icmp`: sends one echo request over a ping socket, or over a raw socket if that is not permitted.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU16, Ordering};

use firstbyte_clock::Monotonic;
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt, sockopt,
};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::Interest;
use tokio::net::UdpSocket;

use super::Probe;
use super::failure::NetworkStep;
use crate::configuration::{IcmpModule, source_address};

const DURATION: (&str, &str) = ("probe_icmp_duration_seconds", "Duration of icmp request by phase");
/// Payload if the configuration sets no size, the same as blackbox_exporter's.
const PAYLOAD: &[u8] = b"Prometheus Blackbox Exporter";

static SEQUENCE: AtomicU16 = AtomicU16::new(0);

/// An echo whose reply is awaited.
struct Echo {
    is_raw: bool,
    v4: bool,
    identifier: u16,
    sequence: u16,
    payload: Vec<u8>,
    /// The IP header, if we have to write it ourselves in order to forbid fragmentation.
    header: Option<Header>,
}

/// The fields of an IPv4 header that the kernel does not fill in.
struct Header {
    ttl: u8,
    from: Ipv4Addr,
    to: Ipv4Addr,
}

impl Header {
    /// The kernel fills in total length, identification and checksum (raw(7)).
    fn bytes(&self) -> [u8; 20] {
        let mut bytes = [0; 20];
        let ttl = if self.ttl == 0 { 64 } else { self.ttl };
        bytes[0] = 0x45;
        // Don't Fragment.
        bytes[6] = 0x40;
        bytes[8] = ttl;
        bytes[9] = 1;
        bytes[12..16].copy_from_slice(&self.from.octets());
        bytes[16..].copy_from_slice(&self.to.octets());
        bytes
    }
}

impl Probe<'_> {
    pub(super) async fn icmp(&mut self) -> bool {
        for phase in ["resolve", "setup", "rtt"] {
            self.metrics.add(DURATION.0, DURATION.1, &[("phase", phase)], 0.0);
        }
        let module = &self.module.icmp;
        let (address, taken) = self.address(self.target, &module.address).await;
        let Ok(address) = address else { return false };
        self.icmp_phase("resolve", taken);
        let begun = Monotonic::now();
        let (socket, echo) = match self.icmp_socket(address) {
            Ok(made) => made,
            Err(error) => {
                self.note_setup_failure();
                self.log.error("Error listening to socket", &[("err", &error)]);
                return false;
            }
        };
        self.icmp_phase("setup", Monotonic::now().since(begun).as_secs_f64());
        self.log.debug("Writing out packet", &[]);
        let begun = Monotonic::now();
        let exchanged = self.in_time(NetworkStep::Ping, exchange(&socket, &echo, address)).await;
        match exchanged {
            Ok(hops) => {
                self.icmp_phase("rtt", Monotonic::now().since(begun).as_secs_f64());
                if let Some(hops) = hops {
                    let help = "Replied packet hop limit (TTL for ipv4)";
                    self.metrics.gauge("probe_icmp_reply_hop_limit", help, hops.into());
                }
                self.log.debug("Found matching reply packet", &[]);
                true
            }
            Err(error) => {
                self.log.error("Error reading from socket", &[("err", &error)]);
                false
            }
        }
    }

    fn icmp_phase(&mut self, phase: &str, seconds: f64) {
        self.metrics.add(DURATION.0, DURATION.1, &[("phase", phase)], seconds);
    }

    fn icmp_socket(&mut self, address: IpAddr) -> Result<(UdpSocket, Echo), String> {
        let module = &self.module.icmp;
        let source = source_address(&module.source)?;
        let v4 = address.is_ipv4();
        // A ping socket cannot forbid fragmentation; blackbox_exporter forbids it over IPv4 only.
        let only_raw = module.dont_fragment && v4;
        let unprivileged = if only_raw { None } else { open(v4, Type::DGRAM, module, source).ok() };
        let (socket, is_raw) = match unprivileged {
            Some(socket) => (socket, false),
            None => {
                if !only_raw {
                    self.log.debug(
                        "Unable to do unprivileged listen on socket, will attempt privileged",
                        &[],
                    );
                }
                let socket = open(v4, Type::RAW, module, source).map_err(|error| {
                    format!(
                        "{}: neither ping sockets (net.ipv4.ping_group_range) nor raw sockets \
                         (CAP_NET_RAW) are allowed",
                        firstbyte_probe::probe::describe_io(&error)
                    )
                })?;
                (socket, true)
            }
        };
        let size = usize::from(module.payload_size);
        let mut payload = PAYLOAD.to_vec();
        if size > 0 {
            payload.resize(size, 0);
        }
        let echo = Echo {
            is_raw,
            v4,
            identifier: std::process::id() as u16,
            sequence: SEQUENCE.fetch_add(1, Ordering::Relaxed),
            payload,
            header: None,
        };
        let header = match (address, source) {
            (IpAddr::V4(to), source) if only_raw => {
                let from = match source {
                    Some(IpAddr::V4(from)) => from,
                    _ => Ipv4Addr::UNSPECIFIED,
                };
                Some(Header { ttl: module.ttl, from, to })
            }
            _ => None,
        };
        // tokio's operations on datagram sockets also work on ICMP sockets.
        let socket = UdpSocket::from_std(std::net::UdpSocket::from(OwnedFd::from(socket)))
            .map_err(|error| error.to_string())?;
        Ok((socket, Echo { header, ..echo }))
    }
}

fn open(v4: bool, kind: Type, module: &IcmpModule, source: Option<IpAddr>) -> io::Result<Socket> {
    let (domain, protocol) =
        if v4 { (Domain::IPV4, Protocol::ICMPV4) } else { (Domain::IPV6, Protocol::ICMPV6) };
    let socket = Socket::new(domain, kind, Some(protocol))?;
    socket.set_nonblocking(true)?;
    let any = if v4 { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    socket.bind(&SocketAddr::new(source.unwrap_or(any), 0).into())?;
    let ttl = u32::from(module.ttl);
    // If the TTL of replies is not available, it is omitted; that is not an error.
    if v4 {
        let _ = setsockopt(&socket, sockopt::Ipv4RecvTtl, &true);
        if ttl > 0 {
            socket.set_ttl_v4(ttl)?;
        }
        if module.dont_fragment {
            socket.set_header_included_v4(true)?;
        }
    } else {
        let _ = setsockopt(&socket, sockopt::Ipv6RecvHopLimit, &true);
        if ttl > 0 {
            socket.set_unicast_hops_v6(ttl)?;
        }
    }
    Ok(socket)
}

impl Echo {
    fn packet(&self) -> Vec<u8> {
        let kind = if self.v4 { 8 } else { 128 };
        let mut packet = vec![kind, 0, 0, 0];
        packet.extend_from_slice(&self.identifier.to_be_bytes());
        packet.extend_from_slice(&self.sequence.to_be_bytes());
        packet.extend_from_slice(&self.payload);
        if self.v4 {
            // Over IPv6 the kernel computes the checksum, because only it knows the addresses.
            let sum = checksum(&packet).to_be_bytes();
            packet[2..4].copy_from_slice(&sum);
        }
        packet
    }

    /// Whether `message` is the reply. The kernel assigns ping sockets' identifiers and dispatches replies by them.
    fn is_answered_by(&self, message: &[u8]) -> bool {
        let kind = if self.v4 { 0 } else { 129 };
        let [first, _, _, _, id @ ..] = message else { return false };
        let Some((id, rest)) = id.split_at_checked(2) else { return false };
        let Some((sequence, payload)) = rest.split_at_checked(2) else { return false };
        *first == kind
            && (!self.is_raw || id == self.identifier.to_be_bytes())
            && sequence == self.sequence.to_be_bytes()
            && payload == self.payload
    }
}

/// The Internet checksum (RFC 1071).
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| match pair {
        [high, low] => u32::from(u16::from_be_bytes([*high, *low])),
        [high] => u32::from(*high) << 8,
        _ => 0,
    });
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Sends the echo and waits for the reply. Returns the reply's remaining TTL, if known.
async fn exchange(socket: &UdpSocket, echo: &Echo, to: IpAddr) -> io::Result<Option<u8>> {
    let mut packet = echo.header.as_ref().map_or_else(Vec::new, |header| header.bytes().to_vec());
    packet.extend_from_slice(&echo.packet());
    socket.send_to(&packet, SocketAddr::new(to, 0)).await?;
    let mut buffer = vec![0; 65_536];
    loop {
        let (length, from, hops) =
            socket.async_io(Interest::READABLE, || receive(socket, &mut buffer)).await?;
        let mut message = buffer.get(..length).unwrap_or_default();
        if echo.is_raw && echo.v4 {
            // Raw IPv4 sockets also deliver the header.
            let header = message.first().map_or(0, |first| usize::from(first & 0x0f) * 4);
            message = message.get(header..).unwrap_or_default();
        }
        if from.is_none_or(|from| from == to) && echo.is_answered_by(message) {
            return Ok(hops);
        }
    }
}

fn receive(
    socket: &UdpSocket,
    buffer: &mut [u8],
) -> io::Result<(usize, Option<IpAddr>, Option<u8>)> {
    let mut control = nix::cmsg_space!(i32, i32);
    let mut pieces = [io::IoSliceMut::new(buffer)];
    let received = recvmsg::<SockaddrStorage>(
        socket.as_raw_fd(),
        &mut pieces,
        Some(&mut control),
        MsgFlags::empty(),
    )?;
    let from = received.address.and_then(|address| {
        let v4 = address.as_sockaddr_in().map(|a| IpAddr::V4(a.ip()));
        v4.or_else(|| address.as_sockaddr_in6().map(|a| IpAddr::V6(a.ip())))
    });
    let mut hops = None;
    for message in received.cmsgs()? {
        if let ControlMessageOwned::Ipv4Ttl(value) | ControlMessageOwned::Ipv6HopLimit(value) =
            message
        {
            hops = u8::try_from(value).ok();
        }
    }
    Ok((received.bytes, from, hops))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_echo_knows_its_answer() {
        let mut echo = Echo {
            is_raw: true,
            v4: true,
            identifier: 7,
            sequence: 9,
            payload: b"abc".to_vec(),
            header: None,
        };
        let packet = echo.packet();
        assert_eq!(checksum(&packet), 0, "a packet with its sum sums to nothing");
        let mut reply = packet.clone();
        reply[0] = 0;
        assert!(echo.is_answered_by(&reply) && !echo.is_answered_by(&packet));
        reply[5] = 8;
        assert!(!echo.is_answered_by(&reply));
        echo.is_raw = false;
        assert!(echo.is_answered_by(&reply) && !echo.is_answered_by(&reply[..5]));
    }
}
