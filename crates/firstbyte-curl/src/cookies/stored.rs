//! One cookie: how it is read, where it belongs, and how a jar writes it.

use std::net::IpAddr;

use crate::address::CurlUrl;
use crate::dates::{parse_date, unix_seconds};

const BLANKS: [char; 2] = [' ', '\t'];
/// curl's limits (lib/cookie.h), in bytes: of a name and its value, and of a field without the space and the line end.
const LONGEST_PAIR: usize = 4096;
const LONGEST_FIELD: usize = 5000 - " \r\n".len();

#[derive(Clone, Default)]
pub(super) struct StoredCookie {
    pub(super) name: String,
    pub(super) value: String,
    /// Absent if a `Set-Cookie` line of a file names none.
    pub(super) domain: Option<String>,
    covers_subdomains: bool,
    /// As written, for the jar. Absent like the domain.
    pub(super) path: Option<String>,
    pub(super) secure: bool,
    http_only: bool,
    /// Seconds since 1970; 0 for a session cookie.
    pub(super) expires: i64,
    /// Not from a file.
    pub(super) from_response: bool,
    pub(super) creation: u64,
}

impl StoredCookie {
    pub(super) fn lives_at(&self, now: i64) -> bool {
        self.expires == 0 || self.expires >= now
    }

    pub(super) fn matches_host(&self, host: &str) -> bool {
        let is_ip = host.parse::<IpAddr>().is_ok();
        match &self.domain {
            // curl has these in the list for IP addresses.
            None => is_ip,
            Some(domain) if self.covers_subdomains && !is_ip => is_within(host, domain),
            Some(domain) => host.eq_ignore_ascii_case(domain),
        }
    }

    pub(super) fn matches_path(&self, path: &str) -> bool {
        let Some(own) = self.folder() else { return true };
        own == "/"
            || path.strip_prefix(own).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// The path without quotes and without a slash at its end.
    fn folder(&self) -> Option<&str> {
        let path = self.path.as_deref()?;
        let path = path.strip_prefix('"').unwrap_or(path);
        let path = path.strip_suffix('"').unwrap_or(path);
        if !path.starts_with('/') {
            return Some("/");
        }
        Some(path.strip_suffix('/').unwrap_or(path))
    }

    fn has_name_and_domain_of(&self, other: &Self) -> bool {
        self.name.eq_ignore_ascii_case(&other.name)
            && is_same(self.domain.as_deref(), other.domain.as_deref())
    }

    pub(super) fn is_replaced_by(&self, new: &Self) -> bool {
        self.has_name_and_domain_of(new)
            && self.covers_subdomains == new.covers_subdomains
            && is_same(self.folder(), new.folder())
    }

    /// A plain response may not hide this secure cookie behind one of its own. As curl does, compares the first segment
    /// of the path alone, and as a prefix: `/login` shields `/loginhelper`.
    pub(super) fn shields(&self, new: &Self) -> bool {
        let (Some(own), Some(path)) = (self.folder(), new.folder()) else { return false };
        let own = own.as_bytes();
        let end = own.iter().skip(1).position(|byte| *byte == b'/').map_or(own.len(), |at| at + 1);
        self.secure
            && !new.secure
            && self.has_name_and_domain_of(new)
            && path
                .as_bytes()
                .get(..end)
                .is_some_and(|start| start.eq_ignore_ascii_case(&own[..end]))
    }

    /// What the prefixes `__Secure-` and `__Host-` promise holds.
    pub(super) fn has_honest_prefix(&self) -> bool {
        let begins_with = |prefix: &str| {
            self.name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
        };
        if begins_with("__Secure-") {
            self.secure
        } else if begins_with("__Host-") {
            self.secure && self.path.as_deref() == Some("/") && !self.covers_subdomains
        } else {
            true
        }
    }

    pub(super) fn to_netscape_line(&self) -> Option<String> {
        let flag = |is_set: bool| if is_set { "TRUE" } else { "FALSE" };
        Some(format!(
            "{}{}{}\t{}\t{}\t{}\t{}\t{}\t{}\n",
            if self.http_only { "#HttpOnly_" } else { "" },
            if self.covers_subdomains { "." } else { "" },
            self.domain.as_ref()?,
            flag(self.covers_subdomains),
            self.path.as_deref().unwrap_or("/"),
            flag(self.secure),
            self.expires,
            self.name,
            self.value,
        ))
    }
}

/// Reads a `Set-Cookie` field, of the response to a URL or of a file.
pub(super) fn parse_field(text: &str, url: Option<&CurlUrl>, now: i64) -> Option<StoredCookie> {
    if text.len() > LONGEST_FIELD {
        return None;
    }
    let mut pairs = Vec::new();
    for part in text.split(';') {
        let (name, value) = match part.split_once('=') {
            Some((name, value)) => (name, Some(value.trim_matches(BLANKS))),
            None => (part, None),
        };
        let name = name.trim_start_matches(BLANKS);
        if name.is_empty() {
            continue;
        }
        let (length, value_length) = (name.len(), value.map_or(0, str::len));
        if length.max(value_length) >= LONGEST_PAIR - 1
            || length + value_length > LONGEST_PAIR
            || value.is_some_and(|value| value.contains('\t'))
        {
            return None;
        }
        pairs.push((name, value));
    }
    let (name, Some(value)) = *pairs.first()? else { return None };
    if name.contains(|letter: char| letter.is_ascii_control())
        || value.contains(|letter: char| letter.is_ascii_control())
    {
        return None;
    }
    let mut cookie = StoredCookie {
        name: name.trim_end_matches(' ').to_owned(),
        value: value.to_owned(),
        from_response: url.is_some(),
        ..StoredCookie::default()
    };
    for (name, value) in &pairs[1..] {
        let name = name.trim_end_matches(BLANKS).to_ascii_lowercase();
        match (name.as_str(), *value) {
            ("secure", None | Some("")) => {
                if url.is_some_and(|url| !is_secure(url)) {
                    return None;
                }
                cookie.secure = true;
            }
            ("httponly", None | Some("")) => cookie.http_only = true,
            ("path", Some(path)) => cookie.path = Some(path.to_owned()),
            ("domain", Some(domain)) if !domain.is_empty() => {
                let domain = domain.strip_prefix('.').unwrap_or(domain);
                let host = url.map_or(domain, |url| url.host.as_str());
                let is_ip = host.parse::<IpAddr>().is_ok();
                let is_own = if is_ip { host == domain } else { is_within(host, domain) };
                if !is_own {
                    return None;
                }
                cookie.domain = Some(domain.to_owned());
                cookie.covers_subdomains = !is_ip;
            }
            // 1 is in the past.
            ("max-age", Some(age)) => {
                cookie.expires = match read_number(age.strip_prefix('"').unwrap_or(age)) {
                    None | Some(0) => 1,
                    Some(seconds) => now.saturating_add(seconds),
                }
            }
            // A date that is unreadable or before 1970 leaves a session cookie.
            ("expires", Some(date)) if cookie.expires == 0 && date.len() < 128 => {
                cookie.expires = parse_date(date).map_or(0, |time| match unix_seconds(time) {
                    0 => 1,
                    seconds => seconds.max(0),
                });
            }
            _ => {}
        }
    }
    if let Some(url) = url {
        cookie.domain.get_or_insert_with(|| url.host.clone());
        let end = url.path.rfind('/').map_or(0, |at| at + 1);
        cookie.path.get_or_insert_with(|| url.path[..end].to_owned());
    }
    Some(cookie)
}

/// Reads a line of seven fields, and the path and the value may be missing.
pub(super) fn parse_netscape_line(line: &str) -> Option<StoredCookie> {
    let (line, http_only) = match line.strip_prefix("#HttpOnly_") {
        Some(rest) => (rest, true),
        None => (line, false),
    };
    if line.starts_with('#') {
        return None;
    }
    let mut fields: Vec<&str> = line.split('\t').filter(|field| !field.is_empty()).collect();
    if fields.get(2).is_some_and(|field| matches!(*field, "TRUE" | "FALSE")) {
        fields.insert(2, "/");
    }
    if fields.len() == 6 {
        fields.push("");
    }
    let [domain, subdomains, path, secure, expires, name, value] = fields[..] else { return None };
    Some(StoredCookie {
        name: name.to_owned(),
        value: value.to_owned(),
        domain: Some(domain.strip_prefix('.').unwrap_or(domain).to_owned()),
        covers_subdomains: subdomains.eq_ignore_ascii_case("TRUE"),
        path: Some(path.to_owned()),
        secure: secure.eq_ignore_ascii_case("TRUE"),
        http_only,
        expires: read_number(expires)?,
        ..StoredCookie::default()
    })
}

/// Reads the digits at the start of a text, which may have a plus sign.
fn read_number(text: &str) -> Option<i64> {
    let text = text.trim_start_matches(BLANKS);
    let text = text.strip_prefix('+').unwrap_or(text);
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    (end > 0).then(|| text[..end].parse().unwrap_or(i64::MAX))
}

/// Secure cookies go over TLS, and to this machine.
pub(super) fn is_secure(url: &CurlUrl) -> bool {
    url.is_tls()
        || url.host.eq_ignore_ascii_case("localhost")
        || url.host == "127.0.0.1"
        || url.host == "::1"
}

/// Whether a host is a domain, or a name below it. There is no name below a single label: that is a public suffix.
fn is_within(host: &str, domain: &str) -> bool {
    let (host, domain) = (host.as_bytes(), domain.as_bytes());
    match host.len().checked_sub(domain.len()) {
        None => false,
        Some(0) => host.eq_ignore_ascii_case(domain),
        Some(at) => {
            host[at..].eq_ignore_ascii_case(domain)
                && host[at - 1] == b'.'
                && domain.contains(&b'.')
        }
    }
}

fn is_same(one: Option<&str>, other: Option<&str>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one.eq_ignore_ascii_case(other),
        _ => one.is_none() && other.is_none(),
    }
}
