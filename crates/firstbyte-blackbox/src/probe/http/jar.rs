//! Cookies between the hops of one probe (RFC 6265), kept only as long as the probe runs.

use firstbyte_core::timeline::HttpFacts;
use url::Url;

#[derive(Default)]
pub(super) struct Jar(Vec<Cookie>);

struct Cookie {
    name: String,
    value: String,
    domain: String,
    /// Whether subdomains receive it too.
    wide: bool,
    path: String,
    secure: bool,
}

impl Jar {
    /// Stores the cookies that a response from `url` sets.
    pub(super) fn take(&mut self, url: &Url, http: &HttpFacts) {
        let host = url.host_str().unwrap_or_default().to_ascii_lowercase();
        let set = http.headers.iter().filter(|h| h.name.eq_ignore_ascii_case("set-cookie"));
        for field in set {
            let mut parts = field.value.split(';');
            let Some((name, value)) = parts.next().and_then(|pair| pair.split_once('=')) else {
                continue;
            };
            let (name, value) = (name.trim().to_owned(), value.trim().to_owned());
            let mut cookie = Cookie {
                name,
                value,
                domain: host.clone(),
                wide: false,
                path: "/".into(),
                secure: false,
            };
            let mut is_gone = false;
            for part in parts {
                let (key, value) = part.split_once('=').unwrap_or((part, ""));
                let value = value.trim();
                match key.trim().to_ascii_lowercase().as_str() {
                    "domain" => {
                        let domain = value.trim_start_matches('.').to_ascii_lowercase();
                        if is_within(&host, &domain) && domain.contains('.') {
                            cookie.domain = domain;
                            cookie.wide = true;
                        }
                    }
                    "path" if value.starts_with('/') => cookie.path = value.to_owned(),
                    "secure" => cookie.secure = true,
                    "max-age" => is_gone = value.parse::<i64>().is_ok_and(|age| age <= 0),
                    _ => {}
                }
            }
            self.0.retain(|known| {
                (&known.name, &known.domain, &known.path)
                    != (&cookie.name, &cookie.domain, &cookie.path)
            });
            if !is_gone {
                self.0.push(cookie);
            }
        }
    }

    /// The `Cookie` field for a request to `url`.
    pub(super) fn for_url(&self, url: &Url) -> Option<String> {
        let host = url.host_str().unwrap_or_default().to_ascii_lowercase();
        let sent = self.0.iter().filter(|cookie| {
            let of_host = host == cookie.domain || cookie.wide && is_within(&host, &cookie.domain);
            let below = url.path().strip_prefix(&cookie.path);
            let of_path = below.is_some_and(|rest| {
                rest.is_empty() || cookie.path.ends_with('/') || rest.starts_with('/')
            });
            of_host && of_path && (!cookie.secure || url.scheme() == "https")
        });
        let all: Vec<String> = sent.map(|c| format!("{}={}", c.name, c.value)).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }
}

fn is_within(host: &str, domain: &str) -> bool {
    host == domain || host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use firstbyte_core::timeline::Header;

    use super::*;

    #[test]
    fn cookies_go_where_they_belong() {
        let url = |text: &str| Url::parse(text).unwrap();
        let set = |value: &str| HttpFacts {
            headers: vec![Header { name: "set-cookie".into(), value: value.into() }],
            ..HttpFacts::default()
        };
        let mut jar = Jar::default();
        jar.take(&url("https://a.example.com/x"), &set("s=1; Path=/; Secure"));
        jar.take(&url("https://a.example.com/x"), &set("w=2; Domain=example.com; Path=/in"));
        assert_eq!(jar.for_url(&url("https://a.example.com/")).as_deref(), Some("s=1"));
        assert_eq!(jar.for_url(&url("http://b.example.com/in/x")).as_deref(), Some("w=2"));
        assert_eq!(jar.for_url(&url("http://badexample.com/in")), None);
        jar.take(&url("https://a.example.com/"), &set("s=; Max-Age=0; Path=/"));
        assert_eq!(jar.for_url(&url("https://a.example.com/")), None);
    }
}
