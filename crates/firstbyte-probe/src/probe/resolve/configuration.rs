//! The C library's DNS configuration (resolv.conf(5)), with its limits.
//!
//! Input: the text of `/etc/resolv.conf`. Output: the servers to ask, for how long, how often, and for which names.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV6};
use std::time::Duration;

use hickory_resolver::proto::rr::Name;
use resolv_conf::{Config, ScopedIp};

use crate::probe::connect::interface_number;

pub(super) const RESOLV_CONF: &str = "/etc/resolv.conf";

const PORT: u16 = 53;
/// `RES_MAXRETRANS`, `RES_MAXRETRY` and `RES_MAXNDOTS` of `<resolv.h>`.
const LONGEST_TIMEOUT: u32 = 30;
const MOST_ATTEMPTS: u32 = 5;
const MOST_NDOTS: u32 = 15;

/// Name servers, and how to ask them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::probe) struct DnsConfiguration {
    /// In the order in which they are asked; at least one.
    pub(in crate::probe) servers: Vec<SocketAddr>,
    /// How long to wait for the first server.
    pub(in crate::probe) timeout: Duration,
    /// How many times to ask all of them.
    pub(in crate::probe) attempts: u32,
    /// Whether each lookup begins with the next server.
    pub(in crate::probe) rotate: bool,
    pub(in crate::probe) search: Vec<Name>,
    pub(in crate::probe) ndots: usize,
    pub(in crate::probe) edns: bool,
    /// Whether to ask over TCP only (`use-vc`).
    pub(in crate::probe) over_tcp: bool,
    /// Whether to ask for A before AAAA, instead of both in parallel (`single-request`).
    pub(in crate::probe) one_at_a_time: bool,
    pub(in crate::probe) without_aaaa: bool,
}

/// The names that a host may stand for.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::probe) struct SearchedNames {
    /// In the order in which they are asked for; at least one.
    pub(in crate::probe) names: Vec<Name>,
    /// Whether the first name is the host as typed; then its failure is the one to report.
    pub(in crate::probe) typed_first: bool,
}

impl DnsConfiguration {
    pub(super) fn from_system() -> Result<Self, String> {
        match std::fs::read(RESOLV_CONF) {
            Ok(text) => Ok(Self::parse(&text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::parse(b"")),
            Err(error) => Err(format!("could not read {RESOLV_CONF}: {error}")),
        }
    }

    /// A configuration with one server, asked as the C library would.
    pub(in crate::probe) fn from_server(address: SocketAddr) -> Self {
        Self { servers: vec![address], search: Vec::new(), ..Self::parse(b"") }
    }

    /// Parses the text. Unknown lines are ignored, as in the C library.
    pub(in crate::probe) fn parse(text: &[u8]) -> Self {
        let (mut file, _) = Config::parse_with_errors(text);
        file.glibc_normalize();
        let mut servers: Vec<SocketAddr> = file.nameservers.iter().map(server_address).collect();
        if servers.is_empty() {
            servers.push(SocketAddr::from((Ipv4Addr::LOCALHOST, PORT)));
        }
        let mut domains: Vec<String> = file.get_last_search_or_domain().cloned().collect();
        if domains.is_empty() {
            domains.extend(file.get_system_domain());
        }
        let seconds = file.timeout.clamp(1, LONGEST_TIMEOUT);
        Self {
            servers,
            timeout: Duration::from_secs(u64::from(seconds)),
            attempts: file.attempts.clamp(1, MOST_ATTEMPTS),
            rotate: file.rotate,
            search: domains.iter().filter_map(|domain| Name::from_ascii(domain).ok()).collect(),
            ndots: file.ndots.min(MOST_NDOTS) as usize,
            edns: file.edns0,
            over_tcp: file.use_vc,
            one_at_a_time: file.single_request || file.single_request_reopen,
            without_aaaa: file.no_aaaa,
        }
    }

    /// How long to wait for the server at `place`. The timeout doubles with each server; from the second one on, it is
    /// divided by the number of servers (`get_timeout` in glibc's `res_send.c`).
    pub(in crate::probe) fn wait_time(&self, place: usize) -> Duration {
        let seconds = self.timeout.as_secs() << place.min(8);
        let seconds = if place > 0 { seconds / self.servers.len() as u64 } else { seconds };
        Duration::from_secs(seconds.max(1))
    }

    /// The names to ask for. Only a trailing dot prevents the use of the search domains.
    ///
    /// # Errors
    /// `host` is not a valid name.
    pub(in crate::probe) fn searched_names(&self, host: &str) -> Result<SearchedNames, String> {
        let mut typed = Name::from_ascii(host).map_err(|error| error.to_string())?;
        typed.set_fqdn(true);
        if host.ends_with('.') {
            return Ok(SearchedNames { names: vec![typed], typed_first: true });
        }
        let typed_first = host.matches('.').count() >= self.ndots;
        let searched = self.search.iter().filter_map(|d| typed.clone().append_domain(d).ok());
        let mut names: Vec<Name> = Vec::new();
        let first = typed_first.then(|| typed.clone());
        for name in first.into_iter().chain(searched).chain([typed.clone()]) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        Ok(SearchedNames { names, typed_first })
    }
}

fn server_address(server: &ScopedIp) -> SocketAddr {
    match server {
        ScopedIp::V4(address) => SocketAddr::from((*address, PORT)),
        ScopedIp::V6(address, zone) => {
            let scope = zone.as_deref().and_then(|zone| interface_number(zone).ok()).unwrap_or(0);
            SocketAddr::V6(SocketAddrV6::new(*address, PORT, 0, scope))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str, host: &str) -> Vec<String> {
        let searched = DnsConfiguration::parse(text.as_bytes()).searched_names(host).unwrap();
        searched.names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn options_have_the_c_librarys_limits() {
        let text = "nameserver 192.0.2.1\nnameserver 192.0.2.2\nnameserver 192.0.2.3\nnameserver 192.0.2.4\n\
                    options timeout:99 attempts:9 ndots:99 rotate single-request edns0\n";
        let read = DnsConfiguration::parse(text.as_bytes());
        assert_eq!(read.servers.len(), 3);
        assert_eq!((read.timeout, read.attempts, read.ndots), (Duration::from_secs(30), 5, 15));
        assert!(read.rotate && read.one_at_a_time && read.edns && !read.over_tcp);
        let nothing = DnsConfiguration::parse(b"options timeout:0 attempts:0");
        assert_eq!((nothing.timeout, nothing.attempts), (Duration::from_secs(1), 1));
        assert_eq!(nothing.servers, [SocketAddr::from((Ipv4Addr::LOCALHOST, 53))]);
    }

    #[test]
    fn link_local_servers_have_an_interface() {
        let read = DnsConfiguration::parse(b"nameserver fe80::1%lo\nnameserver fe80::2%7\n");
        let lo = nix::net::if_::if_nametoindex("lo").unwrap();
        assert_eq!(read.servers[0].to_string(), format!("[fe80::1%{lo}]:53"));
        assert_eq!(read.servers[1].to_string(), "[fe80::2%7]:53");
    }

    #[test]
    fn later_servers_are_waited_for_as_the_c_library_does() {
        let waits = |servers: usize, timeout| {
            let text =
                format!("{}options timeout:{timeout}", "nameserver 192.0.2.1\n".repeat(servers));
            let read = DnsConfiguration::parse(text.as_bytes());
            (0..servers).map(|place| read.wait_time(place).as_secs()).collect::<Vec<_>>()
        };
        assert_eq!(waits(1, 5), [5]);
        assert_eq!(waits(2, 5), [5, 5]);
        assert_eq!(waits(3, 5), [5, 3, 6]);
        assert_eq!(waits(3, 1), [1, 1, 1]);
    }

    #[test]
    fn names_with_enough_dots_are_asked_for_first() {
        let text = "search corp.test lab.test";
        assert_eq!(names(text, "www"), ["www.corp.test.", "www.lab.test.", "www."]);
        assert_eq!(names(text, "a.test"), ["a.test.", "a.test.corp.test.", "a.test.lab.test."]);
        assert_eq!(names(text, "a.test."), ["a.test."]);
        let text = "domain corp.test\noptions ndots:2";
        assert_eq!(names(text, "a.test"), ["a.test.corp.test.", "a.test."]);
        assert_eq!(names("search .", "a.test"), ["a.test."]);
    }

    #[test]
    fn a_server_that_is_given_knows_no_search_domains() {
        let server: SocketAddr = "192.0.2.53:5353".parse().unwrap();
        let given = DnsConfiguration::from_server(server);
        assert_eq!(given.servers, [server]);
        assert_eq!((given.search, given.attempts), (vec![], 2));
        assert_eq!(given.timeout, Duration::from_secs(5));
    }
}
