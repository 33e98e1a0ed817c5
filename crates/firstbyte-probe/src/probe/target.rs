//! Where a URL leads: host, port, and whether by TLS.

use std::net::IpAddr;

use url::{Host, ParseError, Url};

/// A URL that can be measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The URL as normalised.
    pub url: Url,
    /// Host name in ASCII, or the address in text; without brackets.
    pub host: String,
    /// Port, the scheme's default where the URL names none.
    pub port: u16,
    /// `https`.
    pub tls: bool,
}

/// Why a URL cannot be measured. Its text is what the user reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadTarget {
    /// Not a URL at all.
    Malformed {
        /// What the parser says.
        detail: String,
    },
    /// A scheme that is not `http` or `https`.
    Scheme {
        /// The scheme.
        scheme: String,
    },
    /// A user or a password, which would be in all that is written.
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
    /// Parses what a user typed; without a scheme it is `https://`.
    ///
    /// # Errors
    /// [`BadTarget`].
    pub fn parse(text: &str) -> Result<Self, BadTarget> {
        let typed = text.trim();
        let with_scheme =
            if typed.contains("://") { typed.to_owned() } else { format!("https://{typed}") };
        let url = Url::parse(&with_scheme).map_err(|error| BadTarget::Malformed {
            detail: match error {
                // Most such names have nothing international about them.
                ParseError::IdnaError => "invalid host name".into(),
                other => other.to_string(),
            },
        })?;
        let credentials = !url.username().is_empty() || url.password().is_some();
        let target = Self::from_url(url)?;
        if credentials { Err(BadTarget::Credentials) } else { Ok(target) }
    }

    /// From a parsed URL, without a user and password in it: they are not sent, and not shown either.
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
        // A URL with a host can be without either.
        let _ = url.set_username("").and_then(|()| url.set_password(None));
        Ok(Self { url, host, port, tls })
    }

    /// The address, when the host is one.
    pub fn address(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }

    /// Host and port as in the `Host` header: the port only where it is not the scheme's default.
    pub fn authority(&self) -> String {
        let host = self.url.host_str().unwrap_or(&self.host);
        self.url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }

    /// Host and port, the port always.
    pub fn host_and_port(&self) -> String {
        format!("{}:{}", self.url.host_str().unwrap_or(&self.host), self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn other_schemes_are_named() {
        let error = Target::parse("ftp://example.test/").unwrap_err();
        assert_eq!(error.to_string(), "scheme ftp:// is not supported, only https:// and http://");
        assert!(Target::parse("https://").is_err());
    }
}
