//! The lab's network: one namespace per host, one for the router, a veth pair from each host to it.
//!
//! In: a scenario. Out: namespaces with addressed interfaces, and the indices of the router's ends.
//! Router and hosts are configured so that only what programs send crosses a link.

mod namespace;
mod netlink;
mod routes;

use std::fs;
use std::net::IpAddr;

use nix::errno::Errno;

use crate::error::LabError;
use crate::forwarder::{GATEWAY_IPV4, GATEWAY_IPV6, GATEWAY_MAC, Mac};
use crate::scenario::{CongestionControl, Family, Host, Scenario};
use crate::sys::disable_offloads;
use crate::warning::LabWarning;
use netlink::Netlink;
use routes::{Route, routes};

pub(crate) use namespace::Namespace;

/// Name of every host's interface.
pub(crate) const INTERFACE: &str = "eth0";

/// Setting by which the calling thread's network keeps nothing of a TCP connection (round-trip time,
/// reordering, window) for the next one to the same host.
const NO_METRICS_SAVE: &str = "/proc/sys/net/ipv4/tcp_no_metrics_save";

/// Receive memory of a TCP connection in the calling thread's network, in bytes: minimum, initial, maximum.
///
/// The kernel counts the memory of packets, not their bytes. A lab's packets come one by one, each in its
/// own memory, so the kernel's initial 128 kB give a window of only 48 kB. That would delay every larger
/// response. Packets that a network card has merged (GRO) do not have this problem.
const RECEIVE_MEMORY: (&str, &str) = ("/proc/sys/net/ipv4/tcp_rmem", "4096 4194304 33554432");

/// First port on which any user of the calling thread's network may listen.
const OPEN_PORTS: &str = "/proc/sys/net/ipv4/ip_unprivileged_port_start";

/// The namespaces of a lab, ready for use.
#[derive(Debug)]
pub(crate) struct Network {
    pub(crate) router: Namespace,
    /// In the scenario's order.
    pub(crate) hosts: Vec<HostNetwork>,
    /// Things that could not be arranged, for people.
    pub(crate) warnings: Vec<LabWarning>,
}

/// One host's namespace and link.
#[derive(Debug)]
pub(crate) struct HostNetwork {
    pub(crate) name: String,
    pub(crate) namespace: Namespace,
    pub(crate) mac: Mac,
    /// Index of [`INTERFACE`] in the host's namespace.
    pub(crate) interface: u32,
    /// Index of the link's other end in the router's namespace.
    pub(crate) router_interface: u32,
}

impl Network {
    /// Builds the network. Leaves the calling thread in the router's namespace.
    pub(crate) fn build(scenario: &Scenario) -> Result<Self, LabError> {
        let router = Namespace::create().map_err(failed("create the router's namespace"))?;
        let mut hosts = Vec::with_capacity(scenario.hosts.len());
        let mut missing = Missing::default();
        for (index, host) in scenario.hosts.iter().enumerate() {
            let step = format!("connect host {}", host.name);
            let routes = routes(scenario, host);
            let connected = connect(&router, host, index, &routes, &mut missing);
            hosts.push(connected.map_err(failed(step))?);
        }
        Ok(Self { router, hosts, warnings: missing.warnings() })
    }

    pub(crate) fn host(&self, name: &str) -> Option<&HostNetwork> {
        self.hosts.iter().find(|host| host.name == name)
    }
}

/// Makes a host's namespace and its link to the router.
fn connect(
    router: &Namespace,
    host: &Host,
    index: usize,
    routes: &[Route],
    missing: &mut Missing,
) -> nix::Result<HostNetwork> {
    let mac = mac(index);
    let namespace = Namespace::create()?;
    router.enter()?;
    let mut netlink = Netlink::open()?;
    netlink.create_veth(&host.name, INTERFACE, &namespace, mac, host.up.mtu)?;
    let router_interface = nix::net::if_::if_nametoindex(host.name.as_str())?;
    disable_offloads(&host.name)?;
    // The router's end accepts whatever the host may send.
    netlink.set_mtu(router_interface, host.up.mtu.max(host.down.mtu))?;
    netlink.set_up(router_interface)?;

    namespace.enter()?;
    let interface = nix::net::if_::if_nametoindex(INTERFACE)?;
    disable_offloads(INTERFACE)?;
    configure(host, interface, routes, missing)?;
    router.enter()?;
    Ok(HostNetwork { name: host.name.clone(), namespace, mac, interface, router_interface })
}

/// Configures addresses, neighbours and routes of a host. The calling thread must be in its namespace.
fn configure(
    host: &Host,
    interface: u32,
    routes: &[Route],
    missing: &mut Missing,
) -> nix::Result<()> {
    missing.metrics_save |= fs::write(NO_METRICS_SAVE, "1").is_err();
    missing.receive_memory |= fs::write(RECEIVE_MEMORY.0, RECEIVE_MEMORY.1).is_err();
    // A scenario's own program may refuse to run as root, as Apache does.
    if host.server.as_ref().is_some_and(|server| server.command.is_some()) {
        missing.open_ports |= fs::write(OPEN_PORTS, "0").is_err();
    }
    let mut netlink = Netlink::open()?;
    netlink.set_up(nix::net::if_::if_nametoindex("lo")?)?;
    netlink.set_up(interface)?;
    for address in host.addresses() {
        let family = Family::from_address(address);
        let gateway = match family {
            Family::V4 => IpAddr::V4(GATEWAY_IPV4),
            Family::V6 => IpAddr::V6(GATEWAY_IPV6),
        };
        match netlink.add_address(interface, address) {
            // A kernel without IPv6 fails here.
            Err(Errno::EOPNOTSUPP | Errno::EACCES) if address.is_ipv6() => {
                return Err(Errno::EAFNOSUPPORT);
            }
            other => other?,
        }
        netlink.add_permanent_neighbour(interface, gateway, GATEWAY_MAC)?;
        for route in routes.iter().filter(|route| route.family == family) {
            add_route(&mut netlink, interface, gateway, route, missing)?;
        }
    }
    Ok(())
}

/// Adds a route. A host without its own congestion control gets the lab's, unless the kernel lacks it.
fn add_route(
    netlink: &mut Netlink,
    interface: u32,
    gateway: IpAddr,
    route: &Route,
    missing: &mut Missing,
) -> nix::Result<()> {
    let default = Some(CongestionControl::default());
    if route.congestion_control.is_some() {
        return netlink.add_route(interface, gateway, route).map_err(|errno| match errno {
            // The kernel's error for an unknown congestion control.
            Errno::EINVAL => Errno::EPROTONOSUPPORT,
            other => other,
        });
    }
    let with_default = Route { congestion_control: default, ..route.clone() };
    match netlink.add_route(interface, gateway, &with_default) {
        Err(Errno::EINVAL) => {
            missing.cubic = true;
            netlink.add_route(interface, gateway, route)
        }
        done => done,
    }
}

/// Settings that the kernel refused for hosts.
#[derive(Debug, Default)]
struct Missing {
    /// The lab's default congestion control.
    cubic: bool,
    /// Forgetting a connection's metrics before the next one.
    metrics_save: bool,
    /// Larger receive buffers.
    receive_memory: bool,
    /// Low ports for ordinary users.
    open_ports: bool,
}

impl Missing {
    fn warnings(&self) -> Vec<LabWarning> {
        let all = [
            (self.cubic, LabWarning::NoCubic),
            (self.metrics_save, LabWarning::LearnsFromConnections),
            (self.receive_memory, LabWarning::SmallReceiveMemory),
            (self.open_ports, LabWarning::PrivilegedPorts),
        ];
        all.into_iter().filter_map(|(missing, warning)| missing.then_some(warning)).collect()
    }
}

/// A locally administered hardware address, the same in every run.
fn mac(index: usize) -> Mac {
    let [high, low] = (index as u16 + 1).to_be_bytes();
    [0x02, 0xfb, 0, 0, high, low]
}

fn failed(step: impl Into<String>) -> impl FnOnce(Errno) -> LabError {
    let step = step.into();
    move |errno| LabError::System { step, reason: errno.desc().to_owned() }
}
