//! Routes of a host: one to everywhere, and one to each host whose link asks for another initial window.
//!
//! In: a scenario. Out: destinations, and settings of TCP on the way there. The kernel takes an initial
//! window only from a route. It takes the congestion control from there too, even if `/proc/sys` is
//! read-only, and even one that it allows to the machine's administrator alone.

use std::net::IpAddr;
use std::time::Duration;

use crate::scenario::{CongestionControl, Family, Host, Scenario};

/// A route of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Route {
    pub(super) family: Family,
    /// Destination address; `None` for everywhere.
    pub(super) to: Option<IpAddr>,
    /// Segments that a connection may send before the first acknowledgement.
    pub(super) initial_window: Option<u32>,
    pub(super) congestion_control: Option<CongestionControl>,
    pub(super) quick_acks: bool,
    pub(super) rto_min: Option<Duration>,
}

/// The routes of `host`, those to everywhere first.
pub(super) fn routes(scenario: &Scenario, host: &Host) -> Vec<Route> {
    let route = |family, to, initial_window| Route {
        family,
        to,
        initial_window,
        congestion_control: host.congestion_control,
        quick_acks: host.quick_acks,
        rto_min: host.rto_min,
    };
    let own = |family| host.up.path(family).initial_window;
    let families: Vec<Family> = host.addresses().map(Family::from_address).collect();
    let everywhere = families.iter().map(|family| route(*family, None, own(*family)));
    let others = scenario.hosts.iter().filter(|other| other.name != host.name);
    let to_others = others.flat_map(|other| other.addresses().map(move |to| (other, to)));
    let narrower = to_others.filter_map(|(other, to)| {
        let family = Family::from_address(to);
        let theirs = other.down.path(family).initial_window?;
        let initial_window = Some(own(family).map_or(theirs, |own| own.min(theirs)));
        families.contains(&family).then(|| route(family, Some(to), initial_window))
    });
    everywhere.chain(narrower).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = r#"
description = "d"
[[host]]
name = "client"
role = "client"
ipv4 = "192.0.2.10"
ipv6 = "2001:db8::10"
down = { initial_window = 4, ipv6 = { initial_window = 20 } }
[[host]]
name = "server"
role = "server"
ipv4 = "198.51.100.1"
ipv6 = "2001:db8::1"
names = ["www.test"]
congestion_control = "reno"
up = { initial_window = 10 }
[[host]]
name = "old"
role = "server"
ipv4 = "198.51.100.2"
names = ["old.test"]
"#;

    fn windows(host: &str) -> Vec<(Option<String>, Option<u32>)> {
        let scenario = Scenario::parse("d", "d.toml", SOURCE).unwrap();
        let routes = routes(&scenario, scenario.host(host).unwrap());
        let to = |route: &Route| route.to.map(|to| to.to_string());
        routes.iter().map(|route| (to(route), route.initial_window)).collect()
    }

    #[test]
    fn the_smaller_of_both_links_windows_holds_between_two_hosts() {
        let client = |address: &str| Some(address.to_owned());
        assert_eq!(
            windows("server"),
            [
                (None, Some(10)),
                (None, Some(10)),
                (client("192.0.2.10"), Some(4)),
                (client("2001:db8::10"), Some(10)),
            ]
        );
        assert_eq!(windows("old"), [(None, None), (client("192.0.2.10"), Some(4))]);
        assert_eq!(windows("client"), [(None, None), (None, None)]);
    }

    #[test]
    fn congestion_control_is_the_hosts_own_on_all_its_routes() {
        let scenario = Scenario::parse("d", "d.toml", SOURCE).unwrap();
        let of = |host: &str| routes(&scenario, scenario.host(host).unwrap());
        let reno = Some(CongestionControl::Reno);
        assert!(of("server").iter().all(|route| route.congestion_control == reno));
        assert!(of("client").iter().all(|route| route.congestion_control.is_none()));
    }
}
