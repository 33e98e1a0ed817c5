//! The destination of a URL: host, port, and whether it uses TLS.

use std::borrow::Cow;
use std::net::IpAddr;

use url::{Host, ParseError, Url};

/// A URL that can be measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The normalised URL.
    pub url: Url,
    /// Host name in ASCII, or the address as text without brackets.
    pub host: String,
    /// Port; the scheme's default if the URL has none.
    pub port: u16,
    /// Whether the scheme is `https`.
    pub tls: bool,
    /// Scope of an IPv6 address: an interface's name or index (RFC 4007 §11). The host does not include it.
    pub zone: Option<String>,
}

/// Why a URL cannot be measured. The user sees its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadTarget {
    /// Not a URL at all.
    Malformed {
        /// The parser's message.
        detail: String,
    },
    /// A scheme that is not `http` or `https`.
    Scheme {
        /// The scheme.
        scheme: String,
    },
    /// The URL has a user or a password, which would appear in all output.
    Credentials,
}

impl std::fmt::Display for BadTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Malformed { detail } => write!(f, "not a URL: {detail}"),
            Self::Scheme { scheme } => {
                write!(f, "scheme {scheme}:// is not supported, only https:// and http://")
            }
            Self::Credentials => write!(f, "a user and password in the URL are not supported"),
        }
    }
}

impl Target {
    /// Parses the user's input; without a scheme, it is `https://`.
    ///
    /// # Errors
    /// [`BadTarget`].
    pub fn parse(text: &str) -> Result<Self, BadTarget> {
        let typed = text.trim();
        let with_scheme =
            if typed.contains("://") { typed.to_owned() } else { format!("https://{typed}") };
        let (without_zone, zone) = take_zone(&with_scheme)?;
        let url = Url::parse(&without_zone).map_err(|error| BadTarget::Malformed {
            detail: match error {
                // Most such names are not internationalised at all.
                ParseError::IdnaError => "invalid host name".into(),
                other => other.to_string(),
            },
        })?;
        let credentials = !url.username().is_empty() || url.password().is_some();
        let target = Self { zone, ..Self::from_url(url)? };
        if credentials { Err(BadTarget::Credentials) } else { Ok(target) }
    }

    /// Creates a target from a parsed URL. A user and password are removed from it: they are neither sent nor shown.
    ///
    /// # Errors
    /// [`BadTarget`].
    pub fn from_url(mut url: Url) -> Result<Self, BadTarget> {
        let tls = match url.scheme() {
            "https" => true,
            "http" => false,
            other => return Err(BadTarget::Scheme { scheme: other.to_owned() }),
        };
        let host = match url.host() {
            Some(Host::Domain(name)) => name.trim_end_matches('.').to_owned(),
            Some(Host::Ipv4(address)) => address.to_string(),
            Some(Host::Ipv6(address)) => address.to_string(),
            None => return Err(BadTarget::Malformed { detail: "the host is missing".into() }),
        };
        if host.is_empty() {
            return Err(BadTarget::Malformed { detail: "the host is missing".into() });
        }
        let port = url.port_or_known_default().unwrap_or(if tls { 443 } else { 80 });
        if port == 0 {
            return Err(BadTarget::Malformed { detail: "port 0 is not a valid port".into() });
        }
        // This cannot fail for a URL with a host.
        let _ = url.set_username("").and_then(|()| url.set_password(None));
        Ok(Self { url, host, port, tls, zone: None })
    }

    /// The target that `location` leads to from here, if it can be measured. The same address stays in the same zone.
    pub fn follow_location(&self, location: &str) -> Option<Self> {
        let mut next = Self::from_url(self.url.join(location).ok()?).ok()?;
        if next.host == self.host {
            next.zone.clone_from(&self.zone);
        }
        Some(next)
    }

    /// The URL including the zone, in the form that [`Self::parse`] accepts.
    pub fn url_with_zone(&self) -> String {
        match &self.zone {
            Some(zone) => self.url.as_str().replacen(']', &format!("%25{zone}]"), 1),
            None => self.url.as_str().to_owned(),
        }
    }

    /// The address, if the host is one.
    pub fn address(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }

    /// The host as it was typed: with a trailing dot, the resolver appends no search domains.
    pub fn dns_name(&self) -> String {
        let dot = self.url.domain().is_some_and(|name| name.ends_with('.'));
        format!("{}{}", self.host, if dot { "." } else { "" })
    }

    /// Host and port as in the `Host` header; without the port if it is the scheme's default.
    pub fn authority(&self) -> String {
        let host = self.url.host_str().unwrap_or(&self.host);
        self.url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }

    /// Host and port, always with the port.
    pub fn host_and_port(&self) -> String {
        format!("{}:{}", self.url.host_str().unwrap_or(&self.host), self.port)
    }
}

/// Removes the zone from the brackets: `%25eth0` (RFC 6874 §2), or `%eth0` as people type it. The URL standard does not
/// allow zones.
fn take_zone(url: &str) -> Result<(Cow<'_, str>, Option<String>), BadTarget> {
    let begin = url.find("://").map_or(0, |at| at + "://".len());
    let authority = url[begin..].split(['/', '?', '#']).next().unwrap_or_default();
    let bracketed = authority.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    let Some((address, zone)) = bracketed.and_then(|(inside, _)| inside.split_once('%')) else {
        return Ok((Cow::Borrowed(url), None));
    };
    let name = zone.strip_prefix("25").unwrap_or(zone);
    let is_unreserved = |c: char| c.is_ascii_alphanumeric() || "-._~".contains(c);
    if name.is_empty() || !name.chars().all(is_unreserved) {
        let detail = format!("{zone:?} is not the zone of an IPv6 address");
        return Err(BadTarget::Malformed { detail });
    }
    let plain = url.replacen(&format!("[{address}%{zone}]"), &format!("[{address}]"), 1);
    Ok((Cow::Owned(plain), Some(name.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_is_no_part_of_host_and_url() {
        for typed in
            ["https://[fe80::1%25eth0]:8443/a?b=%25c", "https://[fe80::1%eth0]:8443/a?b=%25c"]
        {
            let target = Target::parse(typed).unwrap();
            assert_eq!((target.host.as_str(), target.zone.as_deref()), ("fe80::1", Some("eth0")));
            assert_eq!(target.url.as_str(), "https://[fe80::1]:8443/a?b=%25c");
            assert_eq!(target.authority(), "[fe80::1]:8443");
            let text = target.url_with_zone();
            assert_eq!(text, "https://[fe80::1%25eth0]:8443/a?b=%25c");
            assert_eq!(Target::parse(&text).as_ref(), Ok(&target));
            assert_eq!(target.follow_location("/b").unwrap().zone.as_deref(), Some("eth0"));
            assert_eq!(target.follow_location("https://a.test/").unwrap().zone, None);
        }
        let zone = |typed: &str| Target::parse(typed).map(|target| target.zone);
        assert_eq!(zone("[fe80::1%3]"), Ok(Some("3".into())));
        for without in ["https://[fe80::1]/", "https://a.test/[x%25y]", "https://a.test/?[x%25y]"] {
            assert_eq!(zone(without), Ok(None), "{without}");
        }
        for bad in ["https://[fe80::1%25]/", "https://[fe80::1%]/", "https://[fe80::1%a b]/"] {
            assert!(zone(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_bare_name_is_https() {
        let target = Target::parse("example.test/x").unwrap();
        assert_eq!((target.host.as_str(), target.port, target.tls), ("example.test", 443, true));
        assert_eq!(target.authority(), "example.test");
    }

    #[test]
    fn brackets_belong_to_the_url_only() {
        let target = Target::parse("http://[2001:db8::1]:8080/").unwrap();
        assert_eq!(target.host, "2001:db8::1");
        assert_eq!(target.authority(), "[2001:db8::1]:8080");
        assert!(target.address().is_some());
    }

    #[test]
    fn a_final_dot_is_for_the_resolver() {
        let target = Target::parse("https://example.test./").unwrap();
        assert_eq!(
            (target.host.as_str(), target.dns_name().as_str()),
            ("example.test", "example.test.")
        );
        assert_eq!(Target::parse("https://192.0.2.1/").unwrap().dns_name(), "192.0.2.1");
    }

    #[test]
    fn other_schemes_are_named() {
        let error = Target::parse("ftp://example.test/").unwrap_err();
        assert_eq!(error.to_string(), "scheme ftp:// is not supported, only https:// and http://");
        assert!(Target::parse("https://").is_err());
    }
}
