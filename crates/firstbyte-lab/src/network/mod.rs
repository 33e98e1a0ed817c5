//! The lab's network: one namespace per host, one for the router, a veth pair from each host to it.
//!
//! In: a scenario. Out: namespaces with addressed interfaces, and the indices of the router's ends.
//! Router and hosts are configured so that nothing crosses a link but what programs send.

mod namespace;
mod netlink;

use std::net::IpAddr;

use nix::errno::Errno;

use crate::error::LabError;
use crate::forwarder::{GATEWAY_IPV4, GATEWAY_IPV6, GATEWAY_MAC, Mac};
use crate::scenario::{Host, Scenario};
use crate::sys::disable_offloads;
use netlink::Netlink;

pub(crate) use namespace::Namespace;

/// The interface of every host.
pub(crate) const INTERFACE: &str = "eth0";

/// The namespaces of a lab, ready for use.
#[derive(Debug)]
pub(crate) struct Network {
    pub(crate) router: Namespace,
    /// In the scenario's order.
    pub(crate) hosts: Vec<HostNetwork>,
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
    /// Builds the network. The calling thread is in the router's namespace afterwards.
    pub(crate) fn build(scenario: &Scenario) -> Result<Self, LabError> {
        let router = Namespace::create().map_err(failed("create the router's namespace"))?;
        let mut hosts = Vec::with_capacity(scenario.hosts.len());
        for (index, host) in scenario.hosts.iter().enumerate() {
            let step = format!("connect host {}", host.name);
            hosts.push(connect(&router, host, index).map_err(failed(step))?);
        }
        Ok(Self { router, hosts })
    }

    pub(crate) fn host(&self, name: &str) -> Option<&HostNetwork> {
        self.hosts.iter().find(|host| host.name == name)
    }
}

/// Makes a host's namespace and its link to the router.
fn connect(router: &Namespace, host: &Host, index: usize) -> nix::Result<HostNetwork> {
    let mac = mac(index);
    let namespace = Namespace::create()?;
    router.enter()?;
    let mut netlink = Netlink::open()?;
    netlink.create_veth(&host.name, INTERFACE, &namespace, mac, host.up.mtu)?;
    let router_interface = nix::net::if_::if_nametoindex(host.name.as_str())?;
    disable_offloads(&host.name)?;
    // The router's end takes whatever the host may send.
    netlink.set_mtu(router_interface, host.up.mtu.max(host.down.mtu))?;
    netlink.set_up(router_interface)?;

    namespace.enter()?;
    let interface = nix::net::if_::if_nametoindex(INTERFACE)?;
    disable_offloads(INTERFACE)?;
    configure(host, interface)?;
    router.enter()?;
    Ok(HostNetwork { name: host.name.clone(), namespace, mac, interface, router_interface })
}

/// Addresses, neighbours and routes of a host, in whose namespace the calling thread is.
fn configure(host: &Host, interface: u32) -> nix::Result<()> {
    let mut netlink = Netlink::open()?;
    netlink.set_up(nix::net::if_::if_nametoindex("lo")?)?;
    netlink.set_up(interface)?;
    for address in host.addresses() {
        let gateway = match address {
            IpAddr::V4(_) => IpAddr::V4(GATEWAY_IPV4),
            IpAddr::V6(_) => IpAddr::V6(GATEWAY_IPV6),
        };
        match netlink.add_address(interface, address) {
            // A kernel without IPv6 says so here.
            Err(Errno::EOPNOTSUPP | Errno::EACCES) if address.is_ipv6() => {
                return Err(Errno::EAFNOSUPPORT);
            }
            other => other?,
        }
        netlink.add_permanent_neighbour(interface, gateway, GATEWAY_MAC)?;
        netlink.add_default_route(interface, gateway)?;
    }
    Ok(())
}

/// A locally administered address, the same in every run.
fn mac(index: usize) -> Mac {
    let [high, low] = (index as u16 + 1).to_be_bytes();
    [0x02, 0xfb, 0, 0, high, low]
}

fn failed(step: impl Into<String>) -> impl FnOnce(Errno) -> LabError {
    let step = step.into();
    move |errno| LabError::System { step, reason: errno.desc().to_owned() }
}
