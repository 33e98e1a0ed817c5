//! A tunnel through a SOCKS proxy: versions 4 and 4a (OpenSSH's PROTOCOL documents of both), and 5 (RFC 1928) with a
//! password (RFC 1929).

use std::net::IpAddr;

use firstbyte_core::timeline::{Cause, ProxyKind};

use super::ProxyRoute;
use crate::probe::stream::Stream;

/// SOCKS 5 stores the lengths of names, users and passwords in one byte.
const LONGEST: usize = 255;

/// `address` is the target's, if the proxy needs it.
pub(super) async fn open(
    stream: &mut Stream,
    route: &ProxyRoute<'_>,
    address: Option<IpAddr>,
) -> Result<(), Cause> {
    match route.proxy.kind {
        ProxyKind::Socks4 | ProxyKind::Socks4a => open4(stream, route, address).await,
        _ => open5(stream, route, address).await,
    }
}

async fn open4(
    stream: &mut Stream,
    route: &ProxyRoute<'_>,
    address: Option<IpAddr>,
) -> Result<(), Cause> {
    // With this impossible address, the proxy uses the name after the user instead.
    const NAME_FOLLOWS: [u8; 4] = [0, 0, 0, 1];
    let user = route.proxy.user.as_ref().map_or("", |user| user.name.reveal().as_str());
    let (address, name) = match address {
        Some(IpAddr::V4(address)) => (address.octets(), None),
        _ => (NAME_FOLLOWS, Some(route.host.as_str())),
    };
    if [user, name.unwrap_or_default()].iter().any(|text| text.contains('\0')) {
        return Err(route.refused("SOCKS4: a name cannot hold a zero byte"));
    }
    let mut request: Vec<u8> = vec![4, 1];
    request.extend(route.port.to_be_bytes());
    request.extend(address);
    request.extend(user.bytes().chain([0]));
    if let Some(name) = name {
        request.extend(name.bytes().chain([0]));
    }
    tell(stream, route, &request, format!("SOCKS4 connect {}", route.target_authority())).await?;
    match hear(stream, route, 8).await?[..] {
        [0, 90, ..] => Ok(()),
        [0, 91, ..] => Err(route.refused("SOCKS4: request rejected or failed")),
        [0, 92 | 93, ..] => {
            Err(route.refused("SOCKS4: the proxy cannot confirm the user by identd"))
        }
        _ => Err(route.misbehaved("its answer is not SOCKS4")),
    }
}

async fn open5(
    stream: &mut Stream,
    route: &ProxyRoute<'_>,
    address: Option<IpAddr>,
) -> Result<(), Cause> {
    const NO_PASSWORD: u8 = 0;
    const PASSWORD: u8 = 2;
    let user = route.proxy.user.as_ref();
    let greeting: &[u8] =
        if user.is_some() { &[5, 2, NO_PASSWORD, PASSWORD] } else { &[5, 1, NO_PASSWORD] };
    tell(stream, route, greeting, "SOCKS5 greeting".into()).await?;
    match (&hear(stream, route, 2).await?[..], user) {
        ([5, NO_PASSWORD], _) => {}
        ([5, PASSWORD], Some(user)) => {
            let (name, password) = (user.name.reveal(), user.password.reveal());
            let mut login: Vec<u8> = vec![1];
            for text in [name, password] {
                login.push(length(route, text, "the user or the password")?);
                login.extend(text.bytes());
            }
            tell(stream, route, &login, "SOCKS5 user".into()).await?;
            match hear(stream, route, 2).await?[..] {
                [1, 0] => {}
                [1, _] => return Err(route.refused("SOCKS5: user or password not accepted")),
                _ => return Err(route.misbehaved("its answer to the password is not SOCKS5")),
            }
        }
        ([5, 0xff], None) => {
            return Err(route.refused("SOCKS5: the proxy requires authentication"));
        }
        ([5, 0xff], Some(_)) => {
            return Err(route.refused("SOCKS5: the proxy accepts no user with a password"));
        }
        _ => return Err(route.misbehaved("its answer to the greeting is not SOCKS5")),
    }
    let mut request: Vec<u8> = vec![5, 1, 0];
    match address {
        Some(IpAddr::V4(address)) => {
            request.push(1);
            request.extend(address.octets());
        }
        Some(IpAddr::V6(address)) => {
            request.push(4);
            request.extend(address.octets());
        }
        None => {
            request.extend([3, length(route, &route.host, "the host name")?]);
            request.extend(route.host.bytes());
        }
    }
    request.extend(route.port.to_be_bytes());
    tell(stream, route, &request, format!("SOCKS5 connect {}", route.target_authority())).await?;
    let answer = hear(stream, route, 4).await?;
    let [5, code, _, kind] = answer[..] else {
        return Err(route.misbehaved("its answer to the request is not SOCKS5"));
    };
    if code != 0 {
        return Err(route.refused(&format!("SOCKS5: {}", refusal(code))));
    }
    // The address that the proxy connects from, and a port of two bytes.
    let address_bytes = match kind {
        1 => 4,
        3 => usize::from(hear(stream, route, 1).await?.first().copied().unwrap_or(0)),
        4 => 16,
        _ => return Err(route.misbehaved("SOCKS5: its address has an unknown type")),
    };
    hear(stream, route, address_bytes + 2).await.map(drop)
}

fn length(route: &ProxyRoute<'_>, text: &str, what: &str) -> Result<u8, Cause> {
    u8::try_from(text.len())
        .map_err(|_| route.refused(&format!("SOCKS5: {what} is longer than {LONGEST} bytes")))
}

/// The meaning of a reply code (RFC 1928 §6).
fn refusal(code: u8) -> String {
    match code {
        1 => "general failure of the proxy",
        2 => "connection not allowed",
        3 => "network unreachable",
        4 => "host unreachable",
        5 => "connection refused by the server",
        6 => "TTL expired",
        7 => "command not supported",
        8 => "address type not supported",
        _ => return format!("reply {code}"),
    }
    .to_owned()
}

async fn tell(
    stream: &mut Stream,
    route: &ProxyRoute<'_>,
    bytes: &[u8],
    name: String,
) -> Result<(), Cause> {
    stream.tell_proxy(bytes, name).await.map_err(|cause| route.blame(cause))
}

/// Receives the next `wanted` bytes.
async fn hear(
    stream: &mut Stream,
    route: &ProxyRoute<'_>,
    wanted: usize,
) -> Result<Vec<u8>, Cause> {
    let mut answer = Vec::with_capacity(wanted);
    while answer.len() < wanted {
        let bytes = stream.hear_proxy().await.map_err(|cause| route.blame(cause))?;
        if bytes.is_empty() {
            return Err(route.closed());
        }
        let taken = bytes.len().min(wanted - answer.len());
        answer.extend_from_slice(&bytes[..taken]);
        stream.take_from_proxy(taken, "SOCKS answer");
    }
    Ok(answer)
}
