//! The few rtnetlink requests that a lab needs, each waiting for the kernel's answer.
//!
//! Netlink instead of the `ip` command, which a small machine may lack.

use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::time::Duration;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::address::{
    AddressAttribute, AddressFlags, AddressHeaderFlags, AddressMessage, AddressScope,
};
use netlink_packet_route::link::{
    AfSpecInet6, AfSpecUnspec, In6AddrGenMode, InfoData, InfoKind, InfoVeth, LinkAttribute,
    LinkFlags, LinkInfo, LinkMessage,
};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::{
    RouteAttribute, RouteFlags, RouteHeader, RouteMessage, RouteMetric, RouteProtocol, RouteScope,
    RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use nix::errno::Errno;

use super::namespace::Namespace;
use super::routes::Route;
use crate::forwarder::Mac;

/// `linux/rtnetlink.h`.
const RTAX_RTO_MIN: u32 = 13;

/// A routing socket of the network namespace in which it was opened.
pub(super) struct Netlink {
    socket: Socket,
    sequence: u32,
}

impl Netlink {
    pub(super) fn open() -> nix::Result<Self> {
        let socket = Socket::new(NETLINK_ROUTE).map_err(errno)?;
        socket.connect(&SocketAddr::new(0, 0)).map_err(errno)?;
        Ok(Self { socket, sequence: 0 })
    }

    /// Creates a veth pair: `name` here, `peer` with hardware address `mac` in the namespace `there`.
    ///
    /// Neither end gets an automatic IPv6 link-local address. Without one, the kernel sends no solicitations
    /// of its own.
    pub(super) fn create_veth(
        &mut self,
        name: &str,
        peer: &str,
        there: &Namespace,
        mac: Mac,
        peer_mtu: usize,
    ) -> nix::Result<()> {
        let descriptor = there.descriptor()?;
        let mut far_end = LinkMessage::default();
        far_end.attributes = vec![
            LinkAttribute::IfName(peer.to_owned()),
            LinkAttribute::Address(mac.to_vec()),
            LinkAttribute::Mtu(peer_mtu as u32),
            LinkAttribute::NetNsFd(descriptor.as_raw_fd()),
        ];
        let mut near_end = LinkMessage::default();
        near_end.attributes = vec![
            LinkAttribute::IfName(name.to_owned()),
            LinkAttribute::LinkInfo(vec![
                LinkInfo::Kind(InfoKind::Veth),
                LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(far_end))),
            ]),
        ];
        self.request(RouteNetlinkMessage::NewLink(near_end), NLM_F_CREATE | NLM_F_EXCL)
    }

    pub(super) fn set_mtu(&mut self, interface: u32, mtu: usize) -> nix::Result<()> {
        let mut message = link(interface);
        message.attributes = vec![LinkAttribute::Mtu(mtu as u32)];
        self.request(RouteNetlinkMessage::SetLink(message), 0)
    }

    /// Brings an interface up, without an automatic IPv6 address.
    pub(super) fn set_up(&mut self, interface: u32) -> nix::Result<()> {
        let mut message = link(interface);
        message.attributes = vec![LinkAttribute::AfSpecUnspec(vec![AfSpecUnspec::Inet6(vec![
            AfSpecInet6::AddrGenMode(In6AddrGenMode::None),
        ])])];
        match self.request(RouteNetlinkMessage::SetLink(message), 0) {
            // A kernel without IPv6 does not need the setting.
            Ok(()) | Err(Errno::EAFNOSUPPORT) => {}
            Err(error) => return Err(error),
        }
        let mut message = link(interface);
        message.header.flags = LinkFlags::Up;
        message.header.change_mask = LinkFlags::Up;
        self.request(RouteNetlinkMessage::SetLink(message), 0)
    }

    /// Adds an address that is alone on its link and usable at once.
    pub(super) fn add_address(&mut self, interface: u32, address: IpAddr) -> nix::Result<()> {
        let mut message = AddressMessage::default();
        message.header.family = family(address);
        message.header.prefix_len = prefix_length(address);
        message.header.flags = AddressHeaderFlags::Nodad;
        message.header.scope = AddressScope::Universe;
        message.header.index = interface;
        message.attributes = vec![
            AddressAttribute::Local(address),
            AddressAttribute::Address(address),
            AddressAttribute::Flags(AddressFlags::Nodad),
        ];
        self.request(RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Adds a neighbour whose hardware address never needs to be resolved.
    pub(super) fn add_permanent_neighbour(
        &mut self,
        interface: u32,
        address: IpAddr,
        mac: Mac,
    ) -> nix::Result<()> {
        let mut message = NeighbourMessage::default();
        message.header.family = family(address);
        message.header.ifindex = interface;
        message.header.state = NeighbourState::Permanent;
        message.header.kind = RouteType::Unicast;
        let destination = match address {
            IpAddr::V4(address) => NeighbourAddress::Inet(address),
            IpAddr::V6(address) => NeighbourAddress::Inet6(address),
        };
        message.attributes = vec![
            NeighbourAttribute::Destination(destination),
            NeighbourAttribute::LinkLayerAddress(mac.to_vec()),
        ];
        self.request(RouteNetlinkMessage::NewNeighbour(message), NLM_F_CREATE)
    }

    /// Adds a route via `gateway`. Fails with `EINVAL` if the kernel lacks the congestion control.
    pub(super) fn add_route(
        &mut self,
        interface: u32,
        gateway: IpAddr,
        route: &Route,
    ) -> nix::Result<()> {
        let mut message = RouteMessage::default();
        message.header = RouteHeader {
            address_family: family(gateway),
            destination_prefix_length: route.to.map_or(0, prefix_length),
            table: RouteHeader::RT_TABLE_MAIN,
            protocol: RouteProtocol::Static,
            scope: RouteScope::Universe,
            kind: RouteType::Unicast,
            // The gateway's address is not in any of our networks.
            flags: RouteFlags::Onlink,
            ..RouteHeader::default()
        };
        message.attributes =
            vec![RouteAttribute::Gateway(gateway.into()), RouteAttribute::Oif(interface)];
        message.attributes.extend(route.to.map(|to| RouteAttribute::Destination(to.into())));
        let window = route.initial_window.map(RouteMetric::InitCwnd);
        let control = route.congestion_control.map(|it| RouteMetric::CcAlgo(it.name().to_owned()));
        let quick = route.quick_acks.then_some(RouteMetric::QuickAck(1));
        let milliseconds = |time: Duration| RouteMetric::RtoMin(time.as_millis() as u32);
        let rto_min = route.rto_min.map(milliseconds);
        // The kernel takes a timeout from the route only if the metric is locked.
        let locked = rto_min.as_ref().map(|_| RouteMetric::Lock(1 << RTAX_RTO_MIN));
        let metrics = [window, control, quick, locked, rto_min];
        let metrics: Vec<_> = metrics.into_iter().flatten().collect();
        if !metrics.is_empty() {
            message.attributes.push(RouteAttribute::Metrics(metrics));
        }
        self.request(RouteNetlinkMessage::NewRoute(message), NLM_F_CREATE)
    }

    fn request(&mut self, message: RouteNetlinkMessage, flags: u16) -> nix::Result<()> {
        self.sequence += 1;
        let mut message = NetlinkMessage::from(message);
        message.header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
        message.header.sequence_number = self.sequence;
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.socket.send(&bytes, 0).map_err(errno)?;
        self.acknowledgement()
    }

    fn acknowledgement(&mut self) -> nix::Result<()> {
        loop {
            let (bytes, _) = self.socket.recv_from_full().map_err(errno)?;
            let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&bytes)
                .map_err(|_| Errno::EPROTO)?;
            if answer.header.sequence_number != self.sequence {
                continue;
            }
            if let NetlinkPayload::Error(error) = answer.payload {
                let code = error.code.map_or(0, |code| -code.get());
                return if code == 0 { Ok(()) } else { Err(Errno::from_raw(code)) };
            }
        }
    }
}

fn link(interface: u32) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.header.index = interface;
    message
}

/// Prefix length of a network with a single address.
fn prefix_length(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn family(address: IpAddr) -> AddressFamily {
    match address {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    }
}

fn errno(error: std::io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO))
}
