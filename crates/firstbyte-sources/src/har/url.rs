//! URLs of entries: their destinations, without users, queries and fragments.

const LONGEST_PATH: usize = 1_000;

/// Schemes of URLs that do not lead to a server, but are exported by browsers.
const NOT_OF_SERVERS: [&str; 12] = [
    "about",
    "blob",
    "chrome",
    "chrome-extension",
    "data",
    "file",
    "filesystem",
    "ftp",
    "javascript",
    "moz-extension",
    "resource",
    "safari-web-extension",
];

/// The part of a URL that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HarUrl {
    /// "https", or another scheme, in lower case.
    pub scheme: String,
    /// Host and port; absent if the URL does not lead to a server ("data:", "blob:").
    pub authority: Option<String>,
    /// Starts with the first slash.
    pub path: String,
}

impl HarUrl {
    /// Parses `text`; `None` if it is not a URL that is kept.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = text.split_once(':')?;
        let is_scheme = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
        if scheme.is_empty() || scheme.len() > 32 || !scheme.chars().all(is_scheme) {
            return None;
        }
        let scheme = scheme.to_ascii_lowercase();
        let default_port = match &*scheme {
            "http" | "ws" => 80,
            "https" | "wss" => 443,
            // The rest of a data: URL is a body. If the scheme is unknown, the text may be free text with a colon: drop
            // it.
            _ if !NOT_OF_SERVERS.contains(&&*scheme) => return None,
            _ => return Some(Self { scheme, authority: None, path: String::new() }),
        };
        let rest = rest.strip_prefix("//")?;
        let rest = rest.split(['?', '#']).next().unwrap_or_default();
        let end = rest.find('/').unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        if host.is_empty() || host.len() > 300 {
            return None;
        }
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| {
            !port.is_empty() && port.bytes().all(|digit| digit.is_ascii_digit())
        });
        let host = host.to_ascii_lowercase();
        let authority = if has_port { host } else { format!("{host}:{default_port}") };
        let path = if path.is_empty() { "/" } else { path };
        let path = path.chars().take(LONGEST_PATH).collect();
        Some(Self { scheme, authority: Some(authority), path })
    }

    /// Whether the scheme uses TLS.
    pub(super) fn is_secure(&self) -> bool {
        matches!(&*self.scheme, "https" | "wss")
    }

    /// The URL as displayed.
    pub(super) fn shown(&self) -> String {
        let Some(authority) = &self.authority else { return format!("{}:", self.scheme) };
        let default = if self.is_secure() { ":443" } else { ":80" };
        let authority = authority.strip_suffix(default).unwrap_or(authority);
        format!("{}://{authority}{}", self.scheme, self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lets_somebody_in_is_left_out() {
        for (text, shown) in [
            ("https://me:s3cret@A.test/x?token=s3cret#s3cret", "https://a.test/x"),
            ("HTTP://a.test:80?q", "http://a.test/"),
            ("http://a.test:443/", "http://a.test:443/"),
            ("https://[::1]:8443/x", "https://[::1]:8443/x"),
            ("https://[::1]/", "https://[::1]/"),
            ("wss://a.test/s", "wss://a.test/s"),
            ("data:text/plain,s3cret", "data:"),
            ("blob:https://a.test/s3cret", "blob:"),
            ("s3cret", ""),
            ("s3cret:token", ""),
            ("https://", ""),
            ("/there?s3cret", ""),
        ] {
            let bare = HarUrl::parse(text).map_or_else(String::new, |url| url.shown());
            assert_eq!(bare, shown, "{text}");
        }
    }
}
