//! Hosts of URLs: names, IPv4 addresses in all their forms, IPv6 addresses with zones.

use std::net::{Ipv4Addr, Ipv6Addr};

pub(super) fn parse_host(typed: &str) -> Result<String, &'static str> {
    let host = percent_decode(typed).ok_or("the host is not text")?;
    if let Some(address) = parse_ipv4(&host) {
        return Ok(address.to_string());
    }
    let host = if host.is_ascii() {
        host
    } else {
        idna::domain_to_ascii(&host).map_err(|_| "the host is not an international domain name")?
    };
    if host.is_empty() {
        return Err("it has no host");
    }
    let is_bad =
        |byte: u8| byte <= b' ' || byte == 0x7f || b"/:#?!@{}[]\\$'\"^`*<>=;,+&()%".contains(&byte);
    if host.bytes().any(is_bad) {
        return Err("the host has a character that hosts cannot have");
    }
    Ok(host)
}

/// One to four numbers, and the last fills the remaining bytes; octal with 0, hexadecimal with 0x.
fn parse_ipv4(host: &str) -> Option<Ipv4Addr> {
    let numbers: Vec<u64> = host.split('.').map(parse_c_number).collect::<Option<_>>()?;
    let (last, heads) = numbers.split_last()?;
    if heads.len() > 3
        || heads.iter().any(|head| *head > 255)
        || *last >= 1_u64 << (8 * (4 - heads.len()))
    {
        return None;
    }
    let heads = heads.iter().enumerate().map(|(at, head)| head << (24 - 8 * at));
    u32::try_from(heads.sum::<u64>() + last).ok().map(Ipv4Addr::from)
}

fn parse_c_number(text: &str) -> Option<u64> {
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None if text.starts_with('0') => (text, 8),
        None => (text, 10),
    };
    let is_number = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_number { u64::from_str_radix(digits, radix).ok() } else { None }
}

/// Address and zone of the text in brackets. curl writes an address anew only if that is shorter.
pub(crate) fn parse_ipv6(inside: &str) -> Option<(String, Option<String>)> {
    let (typed, zone) = match inside.split_once('%') {
        Some((typed, zone)) => {
            let zone = zone.strip_prefix("25").filter(|zone| !zone.is_empty()).unwrap_or(zone);
            // As long as the name of a Linux interface can be.
            if !(1..=15).contains(&zone.len()) {
                return None;
            }
            (typed, Some(zone.to_owned()))
        }
        None => (inside, None),
    };
    let short = typed.parse::<Ipv6Addr>().ok()?.to_string();
    Some((if short.len() < typed.len() { short } else { typed.to_owned() }, zone))
}

/// `%41` to `A`; a `%` without two digits stays. Absent for a zero byte, and if the result is not UTF-8.
pub(crate) fn percent_decode(text: &str) -> Option<String> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(&byte) = text.as_bytes().get(at) {
        let digits = text
            .get(at + 1..at + 3)
            .filter(|digits| byte == b'%' && digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(value) => {
                decoded.push(value);
                at += 3;
            }
            None => {
                decoded.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8(decoded).ok().filter(|text| !text.contains('\0'))
}
