//! Requests to the monitor's server, as a page or a script makes them.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use firstbyte_clock::Monotonic;

/// A response, and the time until its last byte.
pub(crate) struct Answered {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
    pub(crate) took: Duration,
}

/// An address on loopback that nobody listens on.
pub(crate) fn free_address() -> SocketAddr {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap()
}

/// Requests `path` over a new connection.
pub(crate) fn ask(address: SocketAddr, path: &str) -> std::io::Result<Answered> {
    let begun = Monotonic::now();
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let took = Monotonic::now().since(begun);
    let bad = || std::io::Error::other(format!("{path}: no answer in HTTP"));
    let end = memchr::memmem::find(&answer, b"\r\n\r\n").ok_or_else(bad)?;
    let status = answer.get(9..12).and_then(|status| std::str::from_utf8(status).ok());
    let status = status.and_then(|status| status.parse().ok()).ok_or_else(bad)?;
    Ok(Answered { status, body: answer.split_off(end + 4), took })
}

/// `text`, encoded for a query.
pub(crate) fn encoded(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

/// Median and maximum of `times`.
pub(crate) fn median_and_worst(times: &[Duration]) -> (Duration, Duration) {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    (sorted[sorted.len() / 2], sorted[sorted.len() - 1])
}
