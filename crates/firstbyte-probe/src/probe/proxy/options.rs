//! The proxy for a target: plain data, and the decision for each hop.

use std::net::Ipv6Addr;
use std::path::PathBuf;

use firstbyte_core::timeline::ProxyKind;
use firstbyte_curl::auth::basic;
use firstbyte_curl::noproxy::{ProxyAddress, is_excluded, parse_proxy};
use serde::{Deserialize, Serialize};

use crate::probe::secret::Secret;
use crate::probe::target::Target;

/// The proxies named by flags and the environment, and the targets that they apply to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProxyRules {
    /// The proxy for `http://` URLs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<ProxyOptions>,
    /// The proxy for `https://` URLs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub https: Option<ProxyOptions>,
    /// Hosts that are reached directly, in the form of `NO_PROXY`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub direct_hosts: String,
    /// Whether HTTP proxies open a tunnel for `http://` URLs too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tunnel: bool,
    /// Whether CONNECT uses HTTP/1.0.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub http10: bool,
    /// Whether to measure despite a bad certificate of the proxy.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub insecure: bool,
    /// File of issuers to trust for the proxy's certificate, instead of the system's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
}

impl ProxyRules {
    /// The proxy used to reach `target`, if any.
    pub fn proxy_for(&self, target: &Target) -> Option<&ProxyOptions> {
        let proxy = if target.tls { &self.https } else { &self.http };
        proxy.as_ref().filter(|_| !is_excluded(&self.direct_hosts, &target.host))
    }

    /// Whether some proxy needs TLS.
    pub(in crate::probe) fn need_tls(&self) -> bool {
        let proxies = [&self.http, &self.https];
        proxies.into_iter().flatten().any(|proxy| proxy.kind == ProxyKind::Https)
    }
}

/// A proxy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProxyOptions {
    /// The protocol that it speaks.
    #[serde(with = "kind")]
    pub kind: ProxyKind,
    /// Its name or address, without brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Credentials for the proxy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<ProxyUser>,
}

/// Credentials for a proxy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProxyUser {
    /// The name.
    pub name: Secret<String>,
    /// The password.
    pub password: Secret<String>,
}

impl ProxyUser {
    /// The value of `Proxy-Authorization`.
    pub(in crate::probe) fn authorization(&self) -> String {
        basic(self.name.reveal(), self.password.reveal())
    }
}

impl ProxyOptions {
    /// Reads `[scheme://][user:password@]host[:port]` as curl does.
    ///
    /// # Errors
    /// The expected form.
    pub fn read(text: &str) -> Result<Self, String> {
        let proxy = parse_proxy(text)
            .map_err(|problem| problem.message.trim_start_matches("--proxy: ").to_owned())?;
        Ok(proxy.into())
    }

    /// Host and port.
    pub fn authority(&self) -> String {
        authority(&self.host, self.port)
    }
}

impl From<ProxyAddress> for ProxyOptions {
    fn from(address: ProxyAddress) -> Self {
        let ProxyAddress { kind, host, port, user, from_environment: _ } = address;
        let user = user.map(|(name, password)| ProxyUser {
            name: Secret::new(name),
            password: Secret::new(password),
        });
        Self { kind, host, port, user }
    }
}

/// `host:port`, with brackets around an IPv6 address.
pub(in crate::probe) fn authority(host: &str, port: u16) -> String {
    match host.parse::<Ipv6Addr>() {
        Ok(address) => format!("[{address}]:{port}"),
        Err(_) => format!("{host}:{port}"),
    }
}

/// Stores a kind by its name.
mod kind {
    use firstbyte_core::timeline::ProxyKind;
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        kind: &ProxyKind,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(kind.name())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<ProxyKind, D::Error> {
        let name = String::deserialize(deserializer)?;
        ProxyKind::named(&name).ok_or_else(|| D::Error::custom("not a kind of proxy"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_target_asks_which_proxy_is_its_own() {
        let rules = ProxyRules {
            http: Some(ProxyOptions::read("proxy.test:3128").unwrap()),
            https: Some(ProxyOptions::read("socks5h://me:s3cret@[2001:db8::1]").unwrap()),
            direct_hosts: "localhost,.internal.test".into(),
            ..ProxyRules::default()
        };
        let proxy_for = |url: &str| {
            let proxy = rules.proxy_for(&Target::parse(url).unwrap())?;
            Some(format!("{} {}", proxy.kind.name(), proxy.authority()))
        };
        assert_eq!(proxy_for("http://a.test/").as_deref(), Some("http proxy.test:3128"));
        let https = proxy_for("https://a.test/");
        assert_eq!(https.as_deref(), Some("socks5h [2001:db8::1]:1080"));
        assert_eq!(proxy_for("https://localhost/"), None);
        assert_eq!(proxy_for("https://b.internal.test/"), None);

        let stored = serde_json::to_string(&rules).unwrap();
        assert_eq!(serde_json::from_str::<ProxyRules>(&stored).unwrap(), rules);
        assert!(stored.contains("s3cret") && !format!("{rules:?}").contains("s3cret"));
    }

    #[test]
    fn what_is_no_proxy_is_told_without_its_password() {
        let error = ProxyOptions::read("ftp://me:s3cret@a.test").unwrap_err();
        assert!(error.starts_with("expected http") && !error.contains("s3cret"), "{error}");
    }
}
