//! Checks a file as written and turns it into a [`Scenario`].

use std::collections::HashMap;
use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use super::document::{Document, HostDocument, LinkDocument, PathDocument, ResolverDocument};
use super::error::ScenarioError;
use super::place::{DURATION, Place, optional, quoted};
use super::{
    CongestionControl, Host, LinkSettings, PathSettings, Rate, ResolverSettings, Role, Scenario,
    change, server, units,
};
use super::{GATEWAY_IPV4, GATEWAY_IPV6};

const MILLISECONDS: &str = r#"whole milliseconds from "1ms" to "60s", such as "20ms""#;
const DEFAULT_QUEUE: Duration = Duration::from_millis(200);
const DEFAULT_MTU: usize = 1_500;
const MAX_MTU: u64 = 9_000;
/// RFC 791: packet size that every host must accept.
const MIN_MTU_IPV4: u64 = 576;
/// RFC 8200 §5.
const MIN_MTU_IPV6: u64 = 1_280;
/// Senders would give up on more losses than this.
const MAX_DROPPED: u64 = 20;
/// More segments than any link of a lab holds.
const INITIAL_WINDOWS: std::ops::RangeInclusive<u64> = 1..=1_000;
const MAX_HOSTS: usize = 200;

/// Checks a whole file.
pub(super) fn scenario(
    name: &str,
    file: &str,
    source: &str,
    document: Document,
) -> Result<Scenario, ScenarioError> {
    let place = Place { file, key: String::new() };
    if document.host.len() > MAX_HOSTS {
        let value = format!("{} hosts", document.host.len());
        return Err(place.at("host").bad(value, format!("at most {MAX_HOSTS} hosts")));
    }
    let mut hosts = Vec::with_capacity(document.host.len());
    for (index, raw) in document.host.into_iter().enumerate() {
        let key = if raw.name.is_empty() { format!("host[{index}]") } else { raw.name.clone() };
        hosts.push(host(&place.at(&key), raw)?);
    }
    roles(&place, &hosts)?;
    unique(&place, &hosts)?;
    let mut scenario = Scenario {
        name: name.to_owned(),
        description: document.description,
        story: document.story.trim().to_owned(),
        seed: document.seed,
        hosts,
        source: source.to_owned(),
        directory: std::env::current_dir().unwrap_or_default(),
        changes: Vec::new(),
    };
    scenario.changes = change::changes(&place, &scenario, document.change)?;
    Ok(scenario)
}

/// Requires one client, at most one resolver, at least one server.
fn roles(place: &Place<'_>, hosts: &[Host]) -> Result<(), ScenarioError> {
    let place = place.at("host");
    let of = |role: Role| hosts.iter().filter(move |host| host.role == role);
    for (role, word) in [(Role::Client, "client"), (Role::Resolver, "resolver")] {
        let mut with_role = of(role);
        if let (Some(first), Some(second)) = (with_role.next(), with_role.next()) {
            let key = Place { file: place.file, key: second.name.clone() };
            return Err(key.at("role").twice(quoted(word), &first.name));
        }
    }
    if of(Role::Client).next().is_none() {
        return Err(place.missing(r#"one [[host]] with role = "client""#));
    }
    if of(Role::Server).next().is_none() {
        return Err(place.missing(r#"a [[host]] with role = "server""#));
    }
    Ok(())
}

/// No two hosts share a host name or an address. A DNS name belongs to one host, or to several servers: its edges.
fn unique(place: &Place<'_>, hosts: &[Host]) -> Result<(), ScenarioError> {
    let mut seen: HashMap<String, &Host> = HashMap::new();
    for host in hosts {
        let mut claim = |key: &str, value: String| match seen.insert(value.clone(), host) {
            Some(first)
                if key == "names" && first.role == Role::Server && host.role == Role::Server =>
            {
                Ok(())
            }
            Some(first) => {
                let place = place.at(&host.name);
                Err(place.at(key).twice(quoted(&value), &first.name))
            }
            None => Ok(()),
        };
        claim("name", host.name.clone())?;
        if let Some(address) = host.ipv4 {
            claim("ipv4", address.to_string())?;
        }
        if let Some(address) = host.ipv6 {
            claim("ipv6", address.to_string())?;
        }
        for name in &host.names {
            claim("names", name.clone())?;
        }
    }
    Ok(())
}

pub(super) fn host(place: &Place<'_>, raw: HostDocument) -> Result<Host, ScenarioError> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if raw.name.is_empty() || raw.name.len() > 15 || !raw.name.chars().all(plain) {
        let allowed = "1 to 15 of a-z, 0-9 and -";
        return Err(place.at("name").bad(quoted(&raw.name), allowed));
    }
    let role = match raw.role.as_str() {
        "client" => Role::Client,
        "server" => Role::Server,
        "resolver" => Role::Resolver,
        other => {
            let allowed = r#""client", "server" or "resolver""#;
            return Err(place.at("role").bad(quoted(other), allowed));
        }
    };
    let ipv4 = address(&place.at("ipv4"), raw.ipv4, "an IPv4 address, such as \"192.0.2.1\"")?;
    let ipv6 = address(&place.at("ipv6"), raw.ipv6, "an IPv6 address, such as \"2001:db8::1\"")?;
    for (key, address) in [("ipv4", ipv4.map(IpAddr::V4)), ("ipv6", ipv6.map(IpAddr::V6))] {
        let refused = address.and_then(|address| Some((address, no_hosts_own(address)?)));
        if let Some((address, what)) = refused {
            let allowed = format!("an address that a host can have; this is {what}");
            return Err(place.at(key).bad(quoted(&address.to_string()), allowed));
        }
    }
    if ipv4.is_none() && ipv6.is_none() {
        return Err(place.at("ipv4").missing("an ipv4 or an ipv6 address, or both"));
    }
    for name in &raw.names {
        check_dns_name(&place.at("names"), name)?;
    }
    let server = match (role, raw.server) {
        (Role::Server, settings) => {
            Some(server::check(&place.at("server"), settings.unwrap_or_default(), &raw.names)?)
        }
        (_, None) => None,
        (_, Some(_)) => {
            return Err(place.at("server").bad("{ … }", "only where role = \"server\""));
        }
    };
    let resolver = match (role, raw.resolver) {
        (Role::Resolver, settings) => {
            Some(resolver(&place.at("resolver"), settings.unwrap_or_default())?)
        }
        (_, None) => None,
        (_, Some(_)) => {
            return Err(place.at("resolver").bad("{ … }", "only where role = \"resolver\""));
        }
    };
    if role == Role::Server && raw.names.is_empty() {
        return Err(place.at("names").missing(
            "at least one DNS name for the server's certificate, such as [\"www.example.test\"]",
        ));
    }
    let min_mtu = if ipv6.is_some() { MIN_MTU_IPV6 } else { MIN_MTU_IPV4 };
    let up = link(&place.at("up"), raw.up, min_mtu)?;
    let down = link(&place.at("down"), raw.down, min_mtu)?;
    let congestion_control = raw
        .congestion_control
        .map(|name| {
            let all = CongestionControl::ALL.map(|one| (one.name(), one));
            server::word(&place.at("congestion_control"), Some(name), &all)
        })
        .transpose()?;
    let rto_min = optional(&place.at("rto_min"), raw.rto_min, units::milliseconds, MILLISECONDS)?;
    Ok(Host {
        name: raw.name,
        role,
        ipv4,
        ipv6,
        names: raw.names,
        server,
        resolver,
        congestion_control,
        quick_acks: raw.quick_acks.unwrap_or_default(),
        rto_min,
        up,
        down,
    })
}

fn address<A: FromStr>(
    place: &Place<'_>,
    text: Option<String>,
    allowed: &str,
) -> Result<Option<A>, ScenarioError> {
    let Some(text) = text else { return Ok(None) };
    text.parse().map(Some).map_err(|_| place.bad(quoted(&text), allowed))
}

/// Describes `address` if no host on a link can have it.
fn no_hosts_own(address: IpAddr) -> Option<&'static str> {
    let is_gateway = match address {
        IpAddr::V4(v4) => v4 == GATEWAY_IPV4,
        IpAddr::V6(v6) => v6 == GATEWAY_IPV6,
    };
    let v4 = match address {
        IpAddr::V4(v4) => Some(v4),
        IpAddr::V6(v6) => v6.to_ipv4_mapped(),
    };
    let link_local = match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    let is = |holds: bool, what| holds.then_some(what);
    is(is_gateway, "the lab's gateway")
        .or(is(address.is_loopback(), "a loopback address"))
        .or(is(address.is_multicast(), "a multicast address"))
        .or(is(v4.is_some_and(|v4| v4.is_broadcast()), "the broadcast address"))
        .or(is(link_local, "a link-local address"))
        .or(is(address.is_unspecified(), "no address"))
        .or(is(
            v4.is_some_and(|v4| v4.octets()[0] == 0 || v4.octets()[0] >= 240),
            "a reserved address",
        ))
        .or(is(address.is_ipv6() && v4.is_some(), "an IPv4 address"))
}

/// Requires a lower-case name that certificates and DNS servers accept.
fn check_dns_name(place: &Place<'_>, name: &str) -> Result<(), ScenarioError> {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
    };
    if name.len() <= 253 && name.split('.').all(label) {
        return Ok(());
    }
    Err(place.bad(quoted(name), "a lower-case DNS name, such as \"www.example.test\""))
}

fn link(place: &Place<'_>, raw: LinkDocument, min_mtu: u64) -> Result<LinkSettings, ScenarioError> {
    let mtu = mtu(place, raw.mtu, min_mtu, MAX_MTU)?.unwrap_or(DEFAULT_MTU);
    let common = PathDocument {
        delay: raw.delay,
        jitter: raw.jitter,
        loss: raw.loss,
        reorder: raw.reorder,
        rate: None,
        mtu: None,
        initial_window: raw.initial_window,
        drop_syn: raw.drop_syn,
        drop_data: raw.drop_data,
    };
    let nothing = PathSettings {
        delay: Duration::ZERO,
        jitter: Duration::ZERO,
        loss: 0.0,
        reorder: false,
        rate: None,
        mtu,
        initial_window: None,
        drop_syn: 0,
        drop_data: 0,
    };
    let common = path(place, common, &nothing, MIN_MTU_IPV4)?;
    Ok(LinkSettings {
        rate: rate(place, raw.rate)?,
        queue: optional(&place.at("queue"), raw.queue, units::duration, DURATION)?
            .unwrap_or(DEFAULT_QUEUE),
        mtu,
        ipv4: path(&place.at("ipv4"), raw.ipv4, &common, MIN_MTU_IPV4)?,
        ipv6: path(&place.at("ipv6"), raw.ipv6, &common, MIN_MTU_IPV6)?,
    })
}

fn rate(place: &Place<'_>, text: Option<String>) -> Result<Option<Rate>, ScenarioError> {
    let allowed = "a rate up to \"1000gbit\", such as \"512kbit\", \"100mbit\" or \"1gbit\"";
    optional(&place.at("rate"), text, units::rate, allowed)
}

fn mtu(
    place: &Place<'_>,
    mtu: Option<u64>,
    smallest: u64,
    largest: u64,
) -> Result<Option<usize>, ScenarioError> {
    let Some(mtu) = mtu else { return Ok(None) };
    if !(smallest..=largest).contains(&mtu) {
        let why = if smallest == MIN_MTU_IPV6 { " (IPv6 needs 1280, RFC 8200 §5)" } else { "" };
        return Err(place.at("mtu").bad(mtu, format!("{smallest} to {largest}{why}")));
    }
    Ok(Some(mtu as usize))
}

fn resolver(place: &Place<'_>, raw: ResolverDocument) -> Result<ResolverSettings, ScenarioError> {
    let delay = |key: &str, text| {
        optional(&place.at(key), text, units::duration, DURATION).map(Option::unwrap_or_default)
    };
    Ok(ResolverSettings {
        answer_delay: delay("answer_delay", raw.answer_delay)?,
        aaaa_delay: delay("aaaa_delay", raw.aaaa_delay)?,
    })
}

fn dropped(place: &Place<'_>, packets: Option<u64>) -> Result<Option<u32>, ScenarioError> {
    let bad = |packets: u64| place.bad(packets, format!("0 to {MAX_DROPPED} packets"));
    let checked = |packets: u64| (packets <= MAX_DROPPED).then_some(packets as u32).ok_or(packets);
    packets.map(checked).transpose().map_err(bad)
}

fn initial_window(place: &Place<'_>, segments: Option<u64>) -> Result<Option<u32>, ScenarioError> {
    let Some(segments) = segments else { return Ok(None) };
    if !INITIAL_WINDOWS.contains(&segments) {
        let (least, most) = (INITIAL_WINDOWS.start(), INITIAL_WINDOWS.end());
        return Err(place
            .at("initial_window")
            .bad(segments, format!("{least} to {most} segments")));
    }
    Ok(Some(segments as u32))
}

/// Settings from `raw`, with missing ones from `default`.
fn path(
    place: &Place<'_>,
    raw: PathDocument,
    default: &PathSettings,
    smallest_mtu: u64,
) -> Result<PathSettings, ScenarioError> {
    let duration_of = |key: &str, text| optional(&place.at(key), text, units::duration, DURATION);
    let loss = optional(
        &place.at("loss"),
        raw.loss,
        units::share,
        "a percentage from \"0%\" to \"100%\", such as \"0.5%\"",
    )?;
    Ok(PathSettings {
        delay: duration_of("delay", raw.delay)?.unwrap_or(default.delay),
        jitter: duration_of("jitter", raw.jitter)?.unwrap_or(default.jitter),
        loss: loss.unwrap_or(default.loss),
        reorder: raw.reorder.unwrap_or(default.reorder),
        rate: rate(place, raw.rate)?,
        mtu: mtu(place, raw.mtu, smallest_mtu, default.mtu as u64)?.unwrap_or(default.mtu),
        initial_window: initial_window(place, raw.initial_window)?.or(default.initial_window),
        drop_syn: dropped(&place.at("drop_syn"), raw.drop_syn)?.unwrap_or(default.drop_syn),
        drop_data: dropped(&place.at("drop_data"), raw.drop_data)?.unwrap_or(default.drop_data),
    })
}
