//! Chooses the ways to connect that are worth trying, from what the first visit showed.

use firstbyte_core::timeline::{Connection, Handshake, RecordType};
use firstbyte_explain::WayKind;

use firstbyte_probe::experiment::Axis;
use firstbyte_probe::probe::Target;
use firstbyte_probe::probe::options::{Client, Family, HttpVersion, Options, TlsVersion};

/// The ways to try, as an axis whose values are named after their kinds.
///
/// The user's own way comes first, another client's last.
pub(super) fn ways(
    target: &Target,
    options: &Options,
    seen: &Connection,
    other_client: Option<Client>,
) -> Result<Axis, String> {
    let mut ways: Vec<(WayKind, String)> = vec![(WayKind::Subject, String::new())];
    let mut add = |kind: WayKind, settings: &str| ways.push((kind, settings.to_owned()));
    let quic = options.http.version == HttpVersion::Http3;
    if target.tls {
        // The other scheme would go through a different proxy, so a proxy rules this way out.
        if target.port == 443 && !quic && options.proxy.is_none() {
            add(WayKind::Plain, "scheme=http");
        }
        if options.tls.min < options.tls.max && !quic {
            match version(seen) {
                Some("TLSv1.2") => add(WayKind::Tls13, "tls=1.3"),
                _ => add(WayKind::Tls12, "tls=1.2"),
            }
        }
        add(WayKind::Resumed, "session=resumed");
        if options.tls.max >= TlsVersion::V1_3
            && version(seen) != Some("TLSv1.2")
            && options.http.method.is_safe()
        {
            add(WayKind::EarlyData, "session=0rtt");
        }
        if let Some(group) = wanted_group(seen) {
            ways.push((WayKind::ServersGroup, format!("kex={group}")));
        }
    }
    let mut add = |kind: WayKind, settings: &str| ways.push((kind, settings.to_owned()));
    add(WayKind::Reused, "connection=reused");
    if target.tls && !quic && seen.facts.proxy.is_none() && announces_http3(seen) {
        add(WayKind::Http3, "http=3");
    }
    if options.family == Family::Any && has_both_families(seen) {
        add(WayKind::Ipv4, "family=4");
        add(WayKind::Ipv6, "family=6");
    }
    if let Some(client) = other_client {
        ways.push((WayKind::OtherClient, format!("client={}", client.name())));
    }
    let texts: Vec<String> =
        ways.iter().map(|(kind, settings)| format!("{}: {settings}", kind.name())).collect();
    Axis::read_ways(&texts)
}

fn version(seen: &Connection) -> Option<&str> {
    seen.facts.tls.as_ref()?.version.as_deref()
}

/// The group that a HelloRetryRequest asked for, as a value of the `kex` axis.
fn wanted_group(seen: &Connection) -> Option<&'static str> {
    let tls = seen.facts.tls.as_ref()?;
    if tls.handshake != Some(Handshake::FullWithHelloRetryRequest) {
        return None;
    }
    match tls.group.as_deref()? {
        "X25519" => Some("x25519"),
        "secp256r1" => Some("p256"),
        "secp384r1" => Some("p384"),
        "X25519MLKEM768" => Some("x25519mlkem768"),
        _ => None,
    }
}

/// Whether the response advertises HTTP/3 (`Alt-Svc`, RFC 7838).
fn announces_http3(seen: &Connection) -> bool {
    let value = seen.facts.http.as_ref().and_then(|http| http.header("alt-svc"));
    value.is_some_and(|value| {
        value.split(',').any(|service| service.trim_start().starts_with("h3="))
    })
}

fn has_both_families(seen: &Connection) -> bool {
    let answered =
        |wanted| seen.lookups.iter().any(|l| l.record_type == wanted && !l.addresses.is_empty());
    let addresses = || seen.lookups.iter().flat_map(|l| &l.addresses);
    (answered(RecordType::A) && answered(RecordType::Aaaa))
        || (addresses().any(|a| a.is_ipv4()) && addresses().any(|a| a.is_ipv6()))
}
