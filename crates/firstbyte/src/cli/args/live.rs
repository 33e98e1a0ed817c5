//! Arguments of live captures, and filters for packets.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use clap::Args;
use firstbyte_core::units::{BareSize, BareTime, parse_size_within, parse_time_within};

use super::number_within;
use crate::cli::plan::quantities::told;

/// Which packets count, of files and of live captures.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Packets")]
pub(in crate::cli) struct FilterArgs {
    /// Only packets from or to this TCP or UDP port; repeatable
    #[arg(long = "port", value_name = "N", value_parser = number_within::<u16>(1..=65_535))]
    pub ports: Vec<u16>,
    /// Only packets from or to this address; repeatable
    #[arg(long = "host", value_name = "ADDR", value_parser = address)]
    pub hosts: Vec<IpAddr>,
}

/// Capturing on an interface.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Live capture (Linux)")]
pub(in crate::cli) struct LiveArgs {
    /// Capture on this interface; "any" is all interfaces
    #[arg(short, long, value_name = "IFACE")]
    pub interface: Option<String>,
    /// Bytes to keep of each packet
    #[arg(long, value_name = "BYTES", default_value = "262144", requires = "interface",
          value_parser = snaplen)]
    pub snaplen: u32,
    /// Size of the kernel's capture buffer; a bare number is MiB
    #[arg(long, value_name = "SIZE", default_value = "32", requires = "interface",
          value_parser = buffer)]
    pub buffer: u64,
    /// Do not put the interface into promiscuous mode
    #[arg(short = 'p', long, requires = "interface")]
    pub no_promiscuous_mode: bool,
}

/// A length of time to capture for: `60s`, `5min`, `500ms`.
pub(in crate::cli) fn window(text: &str) -> Result<Duration, String> {
    const MOST: Duration = Duration::from_secs(30 * 86_400);
    parse_time_within(text, BareTime::Refused, Duration::from_nanos(1)..=MOST)
        .map_err(|error| told(&error))
}

/// A round trip that costs are projected to: `80ms`.
pub(in crate::cli) fn round_trip(text: &str) -> Result<Duration, String> {
    const MOST: Duration = Duration::from_secs(60);
    parse_time_within(text, BareTime::Refused, Duration::from_micros(1)..=MOST)
        .map_err(|error| told(&error))
}

/// Bytes of a packet.
fn snaplen(text: &str) -> Result<u32, String> {
    let bytes = parse_size_within(text, BareSize::Bytes, 64..=262_144);
    bytes.map(|bytes| bytes as u32).map_err(|error| told(&error))
}

/// A buffer's bytes, MiB where no unit is given.
fn buffer(text: &str) -> Result<u64, String> {
    parse_size_within(text, BareSize::Mebibytes, 1 << 20..=2_048 << 20)
        .map_err(|error| told(&error))
}

/// Room on the disk, MiB where no unit is given.
pub(in crate::cli) fn spool(text: &str) -> Result<u64, String> {
    parse_size_within(text, BareSize::Mebibytes, 16 << 20..=1 << 40).map_err(|error| told(&error))
}

fn address(text: &str) -> Result<IpAddr, &'static str> {
    text.parse().map_err(|_| "not an address, such as 192.0.2.1 or 2001:db8::1")
}

/// Where metrics are served: an address and a port, or a port on loopback.
pub(in crate::cli) fn metrics_address(text: &str) -> Result<SocketAddr, &'static str> {
    if let Ok(port) = text.parse() {
        return Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    }
    text.parse().map_err(|_| "not a port, or an address and a port, such as 9464 or [::1]:9464")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_have_units() {
        assert_eq!(window("60s"), Ok(Duration::from_secs(60)));
        assert_eq!(window("1.5min"), Ok(Duration::from_secs(90)));
        assert_eq!(window("250 ms"), Ok(Duration::from_millis(250)));
        for bad in ["", "60", "0s", "s", "-1s", "31d", "1 week", "1.2.3s"] {
            assert!(window(bad).is_err(), "{bad}");
        }
        assert_eq!(round_trip("0.5ms"), Ok(Duration::from_micros(500)));
        assert!(round_trip("80").is_err() && round_trip("61s").is_err());
        assert_eq!((buffer("32"), spool("1GiB")), (Ok(32 << 20), Ok(1 << 30)));
        assert!(snaplen("63").is_err() && snaplen("0.25KiB").is_ok() && buffer("3GiB").is_err());
    }

    #[test]
    fn a_port_alone_is_on_loopback() {
        assert_eq!(metrics_address("9464"), Ok(SocketAddr::from(([127, 0, 0, 1], 9464))));
        assert_eq!(metrics_address("0.0.0.0:1"), Ok(SocketAddr::from(([0, 0, 0, 0], 1))));
        assert!(metrics_address("[::1]:9464").is_ok());
        assert!(metrics_address("localhost").is_err() && metrics_address("99999").is_err());
    }
}
