//! Starting the browser: switches and profile.
//!
//! Input: options, and the origin to visit. Output: a [`ClientCommand`]. A comment next to each switch explains it.

use std::net::{IpAddr, ToSocketAddrs};

use firstbyte_probe::probe::options::Family;

use super::RunningChromium;
use crate::browser::RunningBrowser;
use crate::browser::{BrowserHttp, BrowserOptions, BrowserSession, BrowserTls, HostPin};
use crate::process::{ClientCommand, ClientError};

pub(super) const PROGRAM: &str = "chromium";
/// Host of the service that a new profile asks about accounts: it is not resolved.
pub(super) const ACCOUNTS: &str = "accounts.google.com";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) tls: bool,
    /// Without the brackets of an IPv6 address.
    pub(super) host: String,
    pub(super) port: u16,
}

impl Origin {
    pub(super) fn of_url(url: &str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let tls = match scheme {
            _ if scheme.eq_ignore_ascii_case("https") => true,
            _ if scheme.eq_ignore_ascii_case("http") => false,
            _ => return None,
        };
        let authority = rest.split(['/', '?', '#']).next()?;
        let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        let (host, port) = match authority.strip_prefix('[') {
            Some(rest) => {
                let (host, after) = rest.split_once(']')?;
                (host, after.strip_prefix(':'))
            }
            None => match authority.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (authority, None),
            },
        };
        let default = if tls { 443 } else { 80 };
        let port = port.filter(|port| !port.is_empty());
        let port = port.map_or(Some(default), |port| port.parse().ok())?;
        (!host.is_empty()).then(|| Self { tls, host: host.to_ascii_lowercase(), port })
    }

    /// The origin of a socket group in the log: "https://site.test:8443 <…>", without default port, with a prefix such
    /// as "pm/".
    pub(super) fn of_group(group_id: &str) -> Option<Self> {
        let group = group_id.split(' ').next()?;
        Self::of_url(group.get(group.find("http")?..)?)
    }

    /// "host:port", as a certificate or a log names the authority.
    pub(super) fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// The origin as in URLs, always with the port.
    pub(super) fn text(&self) -> String {
        format!("{}://{}", if self.tls { "https" } else { "http" }, self.authority())
    }
}

/// Whether this process cannot use the sandbox, because it runs as root.
pub(super) fn without_sandbox() -> bool {
    nix::unistd::Uid::effective().is_root()
}

/// The command that starts the browser for visits to `origin`.
///
/// # Errors
/// If the host has no address of the requested family.
pub(super) fn command(
    options: &BrowserOptions,
    origin: &Origin,
) -> Result<ClientCommand, ClientError> {
    let mut arguments: Vec<String> = [
        "--headless",
        "--remote-debugging-pipe",
        "--user-data-dir={home}/profile",
        // No traffic of its own: updates, reports, accounts, hints.
        "--disable-background-networking",
        "--disable-breakpad",
        "--disable-client-side-phishing-detection",
        "--disable-component-extensions-with-background-pages",
        "--disable-component-update",
        "--disable-default-apps",
        "--disable-domain-reliability",
        "--disable-extensions",
        "--disable-sync",
        "--metrics-recording-only",
        "--no-default-browser-check",
        "--no-first-run",
        "--no-pings",
        "--no-service-autorun",
        // Connect directly: otherwise `https_proxy` of the environment, or the system's proxy, would be measured.
        "--no-proxy-server",
        // For containers: no screen, little shared memory.
        "--disable-dev-shm-usage",
        "--disable-gpu",
        // Do not slow down invisible tabs.
        "--disable-background-timer-throttling",
        "--disable-backgrounding-occluded-windows",
        "--disable-renderer-backgrounding",
        "--mute-audio",
        // Do not use the desktop's keyring.
        "--password-store=basic",
    ]
    .map(str::to_owned)
    .to_vec();
    if without_sandbox() {
        arguments.push("--no-sandbox".to_owned());
    }
    arguments.push(format!("--host-resolver-rules={}", resolver_rules(options, origin)?));
    match options.http {
        BrowserHttp::Negotiated => {}
        BrowserHttp::Http1 => {
            arguments.extend(["--disable-http2", "--disable-quic"].map(str::to_owned));
        }
        BrowserHttp::Http2 => arguments.push("--disable-quic".to_owned()),
        BrowserHttp::Http3 => {
            arguments.push("--enable-quic".to_owned());
            arguments.push(format!("--origin-to-force-quic-on={}", origin.authority()));
        }
    }
    match options.tls {
        BrowserTls::Both => {}
        BrowserTls::Tls12 => arguments.push("--ssl-version-max=tls1.2".to_owned()),
        BrowserTls::Tls13 => arguments.push("--ssl-version-min=tls1.3".to_owned()),
    }
    if options.session == BrowserSession::EarlyData {
        arguments.push("--enable-features=EnableTLS13EarlyData".to_owned());
    }
    arguments.push("--disable-features=MediaRouter,OptimizationHints,Translate".to_owned());
    arguments.push("about:blank".to_owned());
    Ok(ClientCommand {
        program: options.program.clone().unwrap_or_else(|| PROGRAM.to_owned()),
        package: RunningChromium::PACKAGE,
        arguments,
        files: vec![("profile/Default/Preferences".to_owned(), PREFERENCES.to_owned())],
        trusted_pem: options.trusted_pem.clone(),
        ..ClientCommand::default()
    })
}

/// No connections in advance (2: never), so that all connections belong to the visit; no accounts.
const PREFERENCES: &str = r#"{"net":{"network_prediction_options":2},"signin":{"allowed":false},"search":{"suggest_enabled":false},"alternate_error_pages":{"enabled":false}}"#;

fn resolver_rules(options: &BrowserOptions, origin: &Origin) -> Result<String, ClientError> {
    let mut rules: Vec<String> = Vec::new();
    for pin in options.pins.iter().chain(&pin_of_family(options, origin)?) {
        let address = match pin.address {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => format!("[{address}]"),
        };
        rules.push(format!("MAP {} {address}", pin.host));
    }
    if origin.host != ACCOUNTS && options.pins.iter().all(|pin| pin.host != ACCOUNTS) {
        rules.push(format!("MAP {ACCOUNTS} ~NOTFOUND"));
    }
    Ok(rules.join(","))
}

/// Address of `origin`'s host, if one address family is requested and the host is not pinned.
fn pin_of_family(
    options: &BrowserOptions,
    origin: &Origin,
) -> Result<Option<HostPin>, ClientError> {
    let host = &origin.host;
    if options.family == Family::Any || options.pins.iter().any(|pin| pin.host == *host) {
        return Ok(None);
    }
    let refused =
        |detail: String| ClientError::Refused { command: format!("looking up {host}"), detail };
    let addresses = (host.as_str(), origin.port).to_socket_addrs();
    let addresses = addresses.map_err(|error| refused(error.to_string()))?;
    let address = addresses.map(|address| address.ip()).find(|ip| options.family.allows(ip));
    let none = || refused(format!("the host has no {} address", options.family.name()));
    Ok(Some(HostPin { host: host.clone(), address: address.ok_or_else(none)? }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_read_from_urls() {
        let text = |url: &str| Origin::of_url(url).map(|origin| origin.text());
        assert_eq!(text("https://Example.org").as_deref(), Some("https://example.org:443"));
        assert_eq!(text("http://a.b:81/x?y#z").as_deref(), Some("http://a.b:81"));
        assert_eq!(text("https://[::1]:8443/").as_deref(), Some("https://[::1]:8443"));
        assert_eq!(text("https://me:secret@h/").as_deref(), Some("https://h:443"));
        for bad in ["", "example.org", "ftp://h/", "https://", "https://h:port/", "https://[::1/"] {
            assert_eq!(text(bad), None, "{bad}");
        }
    }

    #[test]
    fn origins_are_read_from_socket_groups() {
        let text = |group: &str| Origin::of_group(group).map(|origin| origin.text());
        assert_eq!(text("http://h <null>").as_deref(), Some("http://h:80"));
        assert_eq!(text("pm/https://a.co <https://a.co x>").as_deref(), Some("https://a.co:443"));
        assert_eq!(text("https://[::1]:8443").as_deref(), Some("https://[::1]:8443"));
        assert_eq!(text("ws/ftp://h"), None);
    }

    #[test]
    fn switches_are_those_of_the_options() {
        let origin = Origin::of_url("https://site.test:8443/").unwrap();
        let switches =
            |options: BrowserOptions| command(&options, &origin).unwrap().arguments.join(" ");
        let plain = switches(BrowserOptions::default());
        assert!(
            !plain.contains("quic")
                && !plain.contains("ssl-version")
                && !plain.contains("EarlyData")
        );
        assert!(!plain.contains("ignore-certificate-errors"));
        assert!(plain.contains("--no-proxy-server "), "{plain}");
        let http3 = switches(BrowserOptions { http: BrowserHttp::Http3, ..Default::default() });
        assert!(http3.contains("--origin-to-force-quic-on=site.test:8443"));
        let pin = HostPin { host: "site.test".to_owned(), address: "::1".parse().unwrap() };
        let pinned = switches(BrowserOptions { pins: vec![pin], ..Default::default() });
        assert!(pinned.contains("MAP site.test [::1],"), "{pinned}");
        let early = BrowserOptions { session: BrowserSession::EarlyData, ..Default::default() };
        assert!(switches(early).contains("EnableTLS13EarlyData"));
    }
}
