//! Origins and protocols as they are stored: an origin without path or query, and a protocol from a fixed list.

/// Longest origin that is kept: `https://`, a DNS name, a port.
const LONGEST_ORIGIN: usize = 8 + 253 + 6;

/// The origin (RFC 6454 §6.2) of a URL or origin: scheme, host and port, all that is kept of an address.
///
/// Absent unless the scheme is http or https, or if it contains a user or characters that no host has.
pub fn page_origin(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let scheme = scheme.to_ascii_lowercase();
    let default_port = match scheme.as_str() {
        "https" => ":443",
        "http" => ":80",
        _ => return None,
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let host = rest[..end].to_ascii_lowercase();
    let host = host.strip_suffix(default_port).unwrap_or(&host);
    let (name, port) = match host.rfind(':') {
        // The colons of an IPv6 address are inside brackets.
        Some(at) if !host[at..].contains(']') => (&host[..at], Some(&host[at + 1..])),
        _ => (host, None),
    };
    let is_port = |port: &str| port.parse::<u16>().is_ok_and(|number| number > 0);
    let of_v6 = |c: char| c.is_ascii_hexdigit() || c == ':' || c == '.';
    let of_name = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    let is_name = match name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(address) => !address.is_empty() && address.chars().all(of_v6),
        None => !name.is_empty() && name.chars().all(of_name),
    };
    let origin = format!("{scheme}://{host}");
    let good = is_name && port.is_none_or(is_port) && origin.len() <= LONGEST_ORIGIN;
    good.then_some(origin)
}

/// Stored name of a protocol. `nextHopProtocol` and NEL's `protocol` hold ALPN identifiers (RFC 7301 §6), but senders
/// can put anything there.
pub fn protocol_name(said: &str) -> &'static str {
    match said.to_ascii_lowercase().as_str() {
        "http/1.0" | "http/1.1" => "h1",
        "h2" | "h2c" => "h2",
        name if name == "h3" || name.starts_with("h3-") => "h3",
        "" | "unknown" => "unknown",
        _ => "other",
    }
}
