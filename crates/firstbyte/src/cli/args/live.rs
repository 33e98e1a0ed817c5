//! What live captures can be told, and which packets count.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use clap::Args;

/// Which packets count, of files and of live captures.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Packets")]
pub(in crate::cli) struct FilterArgs {
    /// Only packets from or to this TCP or UDP port; repeatable
    #[arg(long = "port", value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub ports: Vec<u16>,
    /// Only packets from or to this address; repeatable
    #[arg(long = "host", value_name = "ADDR")]
    pub hosts: Vec<IpAddr>,
}

/// Capturing on an interface.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Live capture (Linux)")]
pub(in crate::cli) struct LiveArgs {
    /// Capture on this interface; any is all of them
    #[arg(short, long, value_name = "IFACE")]
    pub interface: Option<String>,
    /// Bytes kept of each packet
    #[arg(long, value_name = "BYTES", default_value_t = 262_144, requires = "interface",
          value_parser = clap::value_parser!(u32).range(64..=262_144))]
    pub snaplen: u32,
    /// Buffer of the kernel, MiB
    #[arg(long, value_name = "MIB", default_value_t = 32, requires = "interface",
          value_parser = clap::value_parser!(u32).range(1..=2_048))]
    pub buffer: u32,
    /// Only what is from or to this host
    #[arg(short = 'p', long, requires = "interface")]
    pub no_promiscuous_mode: bool,
}

/// A length of time to capture for: `60s`, `5min`, `500ms`.
pub(in crate::cli) fn window(text: &str) -> Result<Duration, &'static str> {
    const BAD: &str = "not a length of time up to 30 days, such as 60s, 5min or 2h";
    const MOST_SECONDS: f64 = 30.0 * 86_400.0;
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or(BAD)?;
    let number: f64 = text[..end].parse().map_err(|_| BAD)?;
    let factor = match text[end..].trim_start() {
        "ms" => 1e-3,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3_600.0,
        "d" => 86_400.0,
        _ => return Err(BAD),
    };
    let seconds = number * factor;
    let allowed = seconds > 0.0 && seconds <= MOST_SECONDS;
    allowed.then(|| Duration::from_secs_f64(seconds)).ok_or(BAD)
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
    }

    #[test]
    fn a_port_alone_is_on_loopback() {
        assert_eq!(metrics_address("9464"), Ok(SocketAddr::from(([127, 0, 0, 1], 9464))));
        assert_eq!(metrics_address("0.0.0.0:1"), Ok(SocketAddr::from(([0, 0, 0, 0], 1))));
        assert!(metrics_address("[::1]:9464").is_ok());
        assert!(metrics_address("localhost").is_err() && metrics_address("99999").is_err());
    }
}
