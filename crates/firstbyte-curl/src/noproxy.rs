//! Which proxy a URL goes through: `-x`, `--noproxy` and the environment's variables.
//!
//! Input: the settings, a URL, and the environment. Output: the proxy's address with credentials. It does not connect.

use std::fmt;
use std::net::Ipv4Addr;

use firstbyte_core::timeline::ProxyKind;

use crate::address::{CurlUrl, percent_decode};
use crate::files::LineFiles;
use crate::problem::LineProblem;
use crate::settings::ProxySettings;

/// curl's exit code for a proxy whose scheme it does not know.
const UNKNOWN_PROXY_SCHEME: u8 = 7;
/// curl's exit code for a proxy that it cannot read.
const MALFORMED_PROXY: u8 = 5;

/// The kind of proxy with this scheme, in capitals or not.
fn kind_of_scheme(scheme: &str) -> Option<ProxyKind> {
    match scheme.to_ascii_lowercase().as_str() {
        "socks" => Some(ProxyKind::Socks4),
        name => ProxyKind::named(name),
    }
}

fn default_port(kind: ProxyKind) -> u16 {
    if kind == ProxyKind::Https { 443 } else { 1080 }
}

/// Where a proxy listens, and the credentials for it.
#[derive(Clone, PartialEq, Eq)]
pub struct ProxyAddress {
    /// Its protocol.
    pub kind: ProxyKind,
    /// A name, an IPv4 address, or an IPv6 address without brackets.
    pub host: String,
    /// As typed, or 1080; 443 for HTTPS.
    pub port: u16,
    /// A name and a password, decoded.
    pub user: Option<(String, String)>,
    /// The variable that names the proxy, if no option does.
    pub from_environment: Option<String>,
}

impl fmt::Debug for ProxyAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, host, port, user: _, from_environment } = self;
        let mut shown = f.debug_struct("ProxyAddress");
        shown.field("kind", kind).field("host", host).field("port", port);
        shown.field("from_environment", from_environment).finish_non_exhaustive()
    }
}

/// The proxy for a URL, if it has one.
///
/// # Errors
/// When the proxy's address or the credentials for it cannot be read.
pub fn find_proxy(
    settings: &ProxySettings,
    url: &CurlUrl,
    files: &dyn LineFiles,
) -> Result<Option<ProxyAddress>, LineProblem> {
    let list = settings.noproxy.clone();
    let list = list.or_else(|| files.variable("no_proxy")).or_else(|| files.variable("NO_PROXY"));
    if list.is_some_and(|list| is_excluded(&list, &url.host)) {
        return Ok(None);
    }
    let mut proxy = match settings.url.as_deref() {
        Some("") => return Ok(None),
        Some(text) => parse_proxy(text)?,
        None => match find_variable(url, files) {
            None => return Ok(None),
            Some((name, text)) => ProxyAddress {
                from_environment: Some(name.to_owned()),
                ..read_address(&text, name)?
            },
        },
    };
    if proxy.user.is_none()
        && let Some(text) = settings.user.as_deref()
    {
        let (name, password) = text.split_once(':').unwrap_or((text, ""));
        // curl decodes the credentials of -U, and not those of -u.
        let user = percent_decode(name).zip(percent_decode(password)).ok_or_else(|| {
            LineProblem::option("proxy-user", "the name or the password is not text")
        })?;
        proxy.user = Some(user);
    }
    Ok(Some(proxy))
}

/// The first variable that is set, and its value. `HTTP_PROXY` does not count: a CGI program's client sets it.
fn find_variable(url: &CurlUrl, files: &dyn LineFiles) -> Option<(&'static str, String)> {
    let names: &[&'static str] = if url.is_tls() {
        &["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]
    } else {
        &["http_proxy", "all_proxy", "ALL_PROXY"]
    };
    names.iter().find_map(|name| files.variable(name).map(|text| (*name, text)))
}

/// Reads `[scheme://][user:password@]host[:port]`.
///
/// # Errors
/// When the scheme is not one of proxies, or the rest is malformed.
pub fn parse_proxy(text: &str) -> Result<ProxyAddress, LineProblem> {
    read_address(text, "--proxy")
}

/// Reads an address. Problems name its source, and never its text, which may hold a password.
fn read_address(text: &str, source: &str) -> Result<ProxyAddress, LineProblem> {
    let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
    let kind = kind_of_scheme(scheme).ok_or_else(|| {
        let what = "expected http, https, socks4, socks4a, socks5 or socks5h as the proxy's scheme";
        LineProblem::new(UNKNOWN_PROXY_SCHEME, format!("{source}: {what}"))
    })?;
    let url = CurlUrl::parse(&format!("http://{rest}"), None, false).map_err(|_| {
        let what = "cannot read the proxy; expected [scheme://][user:password@]host[:port]";
        LineProblem::new(MALFORMED_PROXY, format!("{source}: {what}"))
    })?;
    Ok(ProxyAddress {
        kind,
        port: url.port.unwrap_or(default_port(kind)),
        user: url.user.map(|user| (user.name, user.password.unwrap_or_default())),
        host: url.host,
        from_environment: None,
    })
}

/// Whether a list of `--noproxy` names a host, its domain, or its IPv4 network.
///
/// IPv6 addresses match as text, and ports match nothing: so it is in curl 7.88.
pub fn is_excluded(list: &str, host: &str) -> bool {
    let address = host.parse::<Ipv4Addr>().ok();
    let mut patterns = list.split([',', ' ', '\t']).filter(|pattern| !pattern.is_empty());
    list == "*"
        || patterns.any(|pattern| match address {
            Some(address) => is_in_network(address, pattern),
            None => is_in_domain(host, pattern),
        })
}

fn is_in_network(address: Ipv4Addr, pattern: &str) -> bool {
    let (network, bits) = pattern.split_once('/').unwrap_or((pattern, "32"));
    let Ok(network) = network.parse::<Ipv4Addr>() else { return false };
    let difference = u32::from(network) ^ u32::from(address);
    match bits.parse::<u32>().unwrap_or(0) {
        // curl takes "/0" for the address alone.
        0 | 32 => difference == 0,
        bits @ 1..32 => difference >> (32 - bits) == 0,
        _ => false,
    }
}

fn is_in_domain(host: &str, pattern: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host).as_bytes();
    let pattern = pattern.strip_suffix('.').unwrap_or(pattern);
    let pattern = pattern.strip_prefix('.').unwrap_or(pattern).as_bytes();
    let Some(start) = host.len().checked_sub(pattern.len()) else { return false };
    !pattern.is_empty()
        && host[start..].eq_ignore_ascii_case(pattern)
        && (start == 0 || host[start - 1] == b'.')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::MemoryFiles;

    #[test]
    fn hosts_that_need_no_proxy() {
        for (list, host, excluded) in [
            ("*", "localhost", true),
            ("a,*", "localhost", false),
            (" *", "localhost", false),
            ("a localhost", "localhost", true),
            ("a  ,  localhost", "localhost", true),
            ("a,,localhost", "localhost", true),
            ("a\tlocalhost", "localhost", true),
            ("LOCALHOST", "localhost", true),
            ("localhost.", "localhost", true),
            (".localhost", "localhost", true),
            ("..localhost", "localhost", false),
            ("ocalhost", "localhost", false),
            ("localhost:1", "localhost", false),
            ("localhost/8", "localhost", false),
            ("example.com", "a.example.com", true),
            (".example.com", "a.example.com", true),
            ("*.example.com", "a.example.com", false),
            ("example.com", "example.com.", true),
            ("xample.com", "example.com", false),
            ("", "localhost", false),
            (".", "localhost", false),
            ("127.0.0.1", "127.0.0.1", true),
            ("127.0.0.0/8", "127.0.0.1", true),
            ("127.0.0.0/31", "127.0.0.1", true),
            ("127.0.0.4/31", "127.0.0.1", false),
            ("127.0.0.128/25", "127.0.0.1", false),
            ("127.0.0.1/32", "127.0.0.1", true),
            ("127.0.0.0/33", "127.0.0.1", false),
            ("0.0.0.0/0", "127.0.0.1", false),
            ("127.0.0.1/", "127.0.0.1", true),
            ("127.0.0.1.", "127.0.0.1", false),
            (".0.0.1", "127.0.0.1", false),
            ("localhost", "127.0.0.1", false),
            ("::1", "::1", true),
            ("0:0::1", "::1", false),
            ("[::1]", "::1", false),
            ("::1/128", "::1", false),
            ("2001:DB8::5", "2001:db8::5", true),
            ("a, ,  127.0.0.0/33 127.0.0.1", "127.0.0.1", true),
        ] {
            assert_eq!(is_excluded(list, host), excluded, "{list:?} {host}");
        }
    }

    #[test]
    fn addresses_as_curl_reads_them() {
        for (text, kind, host, port, user) in [
            ("127.0.0.1:81", ProxyKind::Http, "127.0.0.1", 81, None),
            ("127.0.0.1", ProxyKind::Http, "127.0.0.1", 1080, None),
            ("HTTP://127.0.0.1:80/path?x", ProxyKind::Http, "127.0.0.1", 80, None),
            ("https://127.0.0.1", ProxyKind::Https, "127.0.0.1", 443, None),
            ("socks://127.0.0.1", ProxyKind::Socks4, "127.0.0.1", 1080, None),
            ("SOCKS4A://127.0.0.1", ProxyKind::Socks4a, "127.0.0.1", 1080, None),
            ("socks5://127.0.0.1", ProxyKind::Socks5, "127.0.0.1", 1080, None),
            ("socks5h://127.0.0.1", ProxyKind::Socks5h, "127.0.0.1", 1080, None),
            ("http://[::1]", ProxyKind::Http, "::1", 1080, None),
            ("a%3ab:c%40@127.0.0.1:81", ProxyKind::Http, "127.0.0.1", 81, Some(("a:b", "c@"))),
            ("a@127.0.0.1:81", ProxyKind::Http, "127.0.0.1", 81, Some(("a", ""))),
            (":p@127.0.0.1:81", ProxyKind::Http, "127.0.0.1", 81, Some(("", "p"))),
        ] {
            let proxy = parse_proxy(text).unwrap();
            assert_eq!((proxy.kind, proxy.host.as_str(), proxy.port), (kind, host, port), "{text}");
            let expected = user.map(|(name, password)| (name.to_owned(), password.to_owned()));
            assert_eq!(proxy.user, expected, "{text}");
        }
    }

    #[test]
    fn problems_name_the_option_and_hide_the_password() {
        for (text, code) in [
            ("foo://u:secret@127.0.0.1:81", 7),
            ("u:secret@127.0.0.1:99999", 5),
            ("u:secret@a b", 5),
            ("http://", 5),
        ] {
            let problem = parse_proxy(text).unwrap_err();
            assert_eq!(problem.code, code, "{text}");
            assert!(problem.message.starts_with("--proxy: "), "{problem}");
            assert!(!problem.message.contains("secret"), "{problem}");
        }
        let proxy = parse_proxy("u:secret@127.0.0.1").unwrap();
        assert!(!format!("{proxy:?}").contains("secret"));
    }

    #[test]
    fn variables_and_options() {
        let proxy = "http://127.0.0.1:81";
        let with_user = "http://a:b@127.0.0.1:81";
        let http = "http://localhost/";
        let https = "https://localhost/";
        let none = ProxySettings::default();
        let typed = |url: &str| ProxySettings { url: Some(url.to_owned()), ..none.clone() };
        let user = |user: &str| ProxySettings { user: Some(user.to_owned()), ..none.clone() };
        let list = |list: &str| ProxySettings { noproxy: Some(list.to_owned()), ..none.clone() };
        // The settings, the environment, the URL; then the source and the credentials of the proxy.
        type ProxyCase<'a> = (ProxySettings, &'a [(&'a str, &'a str)], &'a str, Option<&'a str>);
        let cases: &[ProxyCase<'_>] = &[
            (none.clone(), &[], http, None),
            (none.clone(), &[("http_proxy", proxy)], http, Some("http_proxy -")),
            (none.clone(), &[("http_proxy", "127.0.0.1:81")], http, Some("http_proxy -")),
            (none.clone(), &[("http_proxy", proxy)], https, None),
            (none.clone(), &[("HTTP_PROXY", proxy)], http, None),
            (none.clone(), &[("https_proxy", proxy)], https, Some("https_proxy -")),
            (none.clone(), &[("HTTPS_PROXY", proxy)], https, Some("HTTPS_PROXY -")),
            (none.clone(), &[("all_proxy", proxy)], http, Some("all_proxy -")),
            (none.clone(), &[("ALL_PROXY", proxy)], https, Some("ALL_PROXY -")),
            (none.clone(), &[("http_proxy", ""), ("all_proxy", proxy)], http, Some("all_proxy -")),
            (none.clone(), &[("http_proxy", proxy), ("no_proxy", "localhost")], http, None),
            (none.clone(), &[("http_proxy", proxy), ("NO_PROXY", "localhost")], http, None),
            (
                none.clone(),
                &[("http_proxy", proxy), ("no_proxy", "x"), ("NO_PROXY", "localhost")],
                http,
                Some("http_proxy -"),
            ),
            (
                list(""),
                &[("http_proxy", proxy), ("no_proxy", "localhost")],
                http,
                Some("http_proxy -"),
            ),
            (typed(""), &[("http_proxy", proxy)], http, None),
            (typed(proxy), &[("no_proxy", "localhost")], http, None),
            (typed(proxy), &[("http_proxy", with_user)], http, Some("option -")),
            (none.clone(), &[("http_proxy", with_user)], http, Some("http_proxy a:b")),
            (user("c:d"), &[("http_proxy", proxy)], http, Some("http_proxy c:d")),
            (user("c:d"), &[("http_proxy", with_user)], http, Some("http_proxy a:b")),
            (user("a%3ab:c%40d%4"), &[("http_proxy", proxy)], http, Some("http_proxy a:b:c@d%4")),
            (user("a:b:c"), &[("http_proxy", proxy)], http, Some("http_proxy a:b:c")),
            (user("a"), &[("http_proxy", proxy)], http, Some("http_proxy a:")),
        ];
        for (settings, variables, url, expected) in cases {
            let variables =
                variables.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
            let files = MemoryFiles { variables: variables.collect(), ..MemoryFiles::default() };
            let url = CurlUrl::parse(url, None, false).unwrap();
            let shown = find_proxy(settings, &url, &files).unwrap().map(|proxy| {
                let source = proxy.from_environment.as_deref().unwrap_or("option");
                match proxy.user {
                    Some((name, password)) => format!("{source} {name}:{password}"),
                    None => format!("{source} -"),
                }
            });
            assert_eq!(shown.as_deref(), *expected, "{settings:?} {:?}", files.variables);
        }
        let files = MemoryFiles {
            variables: [("http_proxy".to_owned(), "ftp://127.0.0.1".to_owned())].into(),
            ..MemoryFiles::default()
        };
        let url = CurlUrl::parse(http, None, false).unwrap();
        let problem = find_proxy(&none, &url, &files).unwrap_err();
        assert_eq!(problem.code, 7);
        assert!(problem.message.starts_with("http_proxy: "), "{problem}");
    }
}
