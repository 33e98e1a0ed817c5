//! URLs as curl 7.88 reads and sends them: bytes of the path and the query stay as typed.
//!
//! Input: a URL of the command line, or a `Location`. Output: a [`CurlUrl`]. It must not resolve names, and must not
//! show users, passwords or queries in its messages.

mod host;

use std::fmt;

use firstbyte_core::shown_url::{HIDDEN, shown_url};

use crate::problem::{LineProblem, exit};
use host::parse_host;
pub(crate) use host::{parse_ipv6, percent_decode};

/// The user of a URL, percent-decoded.
#[derive(Clone, PartialEq, Eq)]
pub struct UrlUser {
    /// Before the first colon; may be empty.
    pub name: String,
    /// After the first colon; absent without a colon.
    pub password: Option<String>,
}

impl UrlUser {
    fn parse(typed: &str) -> Option<Self> {
        let (name, password) = match typed.split_once(':') {
            Some((name, password)) => (name, Some(percent_decode(password)?)),
            None => (typed, None),
        };
        Some(Self { name: percent_decode(name)?, password })
    }
}

impl fmt::Debug for UrlUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UrlUser").finish_non_exhaustive()
    }
}

/// The schemes that are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Without TLS.
    Http,
    /// Over TLS.
    Https,
}

impl Scheme {
    fn parse(text: &str) -> Option<Self> {
        [Self::Http, Self::Https]
            .into_iter()
            .find(|scheme| scheme.name().eq_ignore_ascii_case(text))
    }

    /// As in a URL, without the colon.
    pub fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    /// The port of a URL that names none.
    pub fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// A URL in parts, each as curl sends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CurlUrl {
    /// `http` where none is typed.
    pub scheme: Scheme,
    /// Before the `@`.
    pub user: Option<UrlUser>,
    /// In the case typed; international names as `xn--`, IPv4 addresses in four parts, IPv6 without brackets.
    pub host: String,
    /// The interface of an IPv6 address, by name or number.
    pub zone: Option<String>,
    /// As typed, even if it is the scheme's.
    pub port: Option<u16>,
    /// Begins with a slash.
    pub path: String,
    /// Without its question mark; an empty one is sent as a bare `?`.
    pub query: Option<String>,
}

impl CurlUrl {
    /// Reads a URL of the command line. `default_scheme` is for one without a scheme (`--proto-default`); `path_as_is`
    /// keeps dot segments.
    ///
    /// # Errors
    /// [`exit::URL`] if it is malformed, [`exit::SCHEME`] for schemes other than http and https.
    pub fn parse(
        text: &str,
        default_scheme: Option<&str>,
        path_as_is: bool,
    ) -> Result<Self, LineProblem> {
        if text.bytes().any(|byte| byte == b' ' || byte.is_ascii_control()) {
            return Err(malformed(
                text,
                "spaces and control characters are written as %20 and so on",
            ));
        }
        if let Some((scheme, rest)) = split_scheme(text, true) {
            return Self::parse_absolute(text, scheme, rest, path_as_is);
        }
        if let Some(scheme) = default_scheme {
            return Self::parse(&format!("{scheme}://{text}"), None, path_as_is);
        }
        let url = Self::parse_hierarchy(text, Scheme::Http, text, path_as_is)?;
        // `http:` must not be a host.
        if text.split(['/', '?', '#']).next().is_some_and(|authority| authority.ends_with(':')) {
            return Err(malformed(text, "expected a port after the colon"));
        }
        let label = url.host.split_once('.').map(|(label, _)| label.to_ascii_lowercase());
        match label.as_deref() {
            Some(scheme @ ("ftp" | "dict" | "ldap" | "imap" | "smtp" | "pop3")) => {
                Err(other_scheme(text, scheme).hint("write http:// before the host"))
            }
            _ => Ok(url),
        }
    }

    /// Reads a `Location` of this URL's response. An empty query is dropped; a relative location keeps the user.
    ///
    /// # Errors
    /// As [`CurlUrl::parse`].
    pub fn follow(&self, location: &str, path_as_is: bool) -> Result<Self, LineProblem> {
        let location = location.trim_ascii();
        if location.bytes().any(|byte| byte.is_ascii_control()) {
            return Err(malformed(location, "the redirect's URL has control characters"));
        }
        let mut url = if let Some((scheme, rest)) = split_scheme(location, false) {
            Self::parse_absolute(location, scheme, rest, path_as_is)?
        } else if location.starts_with("//") {
            Self::parse_absolute(location, self.scheme.name(), location, path_as_is)?
        } else {
            self.resolve(location, path_as_is)
        };
        url.query = url
            .query
            .take()
            .filter(|query| !query.is_empty())
            .map(|query| encode_bytes(&query.replace(' ', "+"), |byte| byte.is_ascii()));
        Ok(url)
    }

    /// `rest` is all that follows the scheme's colon.
    fn parse_absolute(
        text: &str,
        scheme: &str,
        rest: &str,
        path_as_is: bool,
    ) -> Result<Self, LineProblem> {
        let known = Scheme::parse(scheme).ok_or_else(|| other_scheme(text, scheme))?;
        let hierarchy = rest.trim_start_matches('/');
        if !(1..=3).contains(&(rest.len() - hierarchy.len())) {
            return Err(malformed(text, "two slashes must follow the scheme"));
        }
        Self::parse_hierarchy(text, known, hierarchy, path_as_is)
    }

    /// `rest` begins with the authority.
    fn parse_hierarchy(
        text: &str,
        scheme: Scheme,
        rest: &str,
        path_as_is: bool,
    ) -> Result<Self, LineProblem> {
        let (authority, rest) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let (user, address) = match authority.split_once('@') {
            Some((user, address)) => {
                let user = UrlUser::parse(user)
                    .ok_or_else(|| malformed(text, "the user or the password is not text"))?;
                (Some(user), address)
            }
            None => (None, authority),
        };
        if address.contains('@') {
            return Err(malformed(text, "an @ in a user or a password is written as %40"));
        }
        let (host, zone, port) = if let Some(after) = address.strip_prefix('[') {
            let (inside, port) = after
                .split_once(']')
                .ok_or_else(|| malformed(text, "the address has no closing bracket"))?;
            let (host, zone) = parse_ipv6(inside)
                .ok_or_else(|| malformed(text, "expected an IPv6 address in the brackets"))?;
            (host, zone, port)
        } else {
            let (host, port) = address.split_at(address.find(':').unwrap_or(address.len()));
            (parse_host(host).map_err(|why| malformed(text, why))?, None, port)
        };
        let port = parse_port(port)
            .ok_or_else(|| malformed(text, "expected a port between 0 and 65535"))?;
        let (path, query) = split_query(rest);
        Ok(Self { scheme, user, host, zone, port, path: finish_path(path, path_as_is), query })
    }

    /// A relative location: RFC 3986 §5.2, except that an empty path without a query is the directory.
    fn resolve(&self, location: &str, path_as_is: bool) -> Self {
        let (path, query) = split_query(location);
        let mut url = Self { query, ..self.clone() };
        if path.is_empty() && url.query.is_some() {
            return url;
        }
        // Dots at the beginning count even where the path is kept as it is.
        let mut directory = if path.starts_with('/') { "" } else { directory_of(&self.path) };
        let mut rest = path.strip_prefix("./").unwrap_or(path);
        while let Some(after) = rest.strip_prefix("../") {
            rest = after;
            directory = directory_of(directory.strip_suffix('/').unwrap_or(directory));
        }
        url.path = finish_path(&format!("{directory}{rest}"), path_as_is);
        url
    }

    /// The port to connect to.
    pub fn port(&self) -> u16 {
        self.port.unwrap_or(self.scheme.default_port())
    }

    /// Whether TLS comes before HTTP.
    pub fn is_tls(&self) -> bool {
        self.scheme == Scheme::Https
    }

    /// The host as in a URL: `[::1]`, without its zone.
    pub fn host_in_brackets(&self) -> String {
        if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() }
    }

    /// The value of `Host`: the port only if it is not the scheme's.
    pub fn authority(&self) -> String {
        let host = self.host_in_brackets();
        match self.port {
            Some(port) if port != self.scheme.default_port() => format!("{host}:{port}"),
            _ => host,
        }
    }

    /// Path and query as sent.
    pub fn target(&self) -> String {
        match &self.query {
            Some(query) => format!("{}?{query}", self.path),
            None => self.path.clone(),
        }
    }

    /// The target of a request to an HTTP proxy: without user, zone, the scheme's port and a bare `?`.
    pub fn absolute_target(&self) -> String {
        self.write_url(&self.authority())
    }

    /// The URL without user and fragment, with zone and port as typed: the `Referer` after a redirect.
    pub fn without_user(&self) -> String {
        let mut authority = match &self.zone {
            Some(zone) => format!("[{}%25{zone}]", self.host),
            None => self.host_in_brackets(),
        };
        if let Some(port) = self.port {
            authority += &format!(":{port}");
        }
        self.write_url(&authority)
    }

    fn write_url(&self, authority: &str) -> String {
        let Self { scheme, path, .. } = self;
        let query = self.query.as_ref().filter(|query| !query.is_empty());
        let query = query.map_or_else(String::new, |query| format!("?{query}"));
        format!("{}://{authority}{path}{query}", scheme.name())
    }

    /// Appends the query of `-G` or `--url-query`. curl reads the URL again for it, without `--path-as-is`.
    pub fn append_query(&mut self, query: &str) {
        self.path = remove_dot_segments(&self.path);
        let mut whole = self.query.take().unwrap_or_default();
        if !whole.is_empty() && !whole.ends_with('&') {
            whole.push('&');
        }
        whole += query;
        self.query = Some(whole).filter(|whole| !whole.is_empty());
    }

    /// Appends the name of an uploaded file to a path that ends with a slash. Standard input (`-`, `.`) has no name.
    pub fn complete_upload_path(&mut self, file: &str) {
        let path = remove_dot_segments(&self.path);
        if matches!(file, "-" | ".") || !path.ends_with('/') {
            return;
        }
        let name = file.rsplit(['/', '\\']).next().unwrap_or(file);
        let is_unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        self.path = path + &encode_bytes(name, is_unreserved);
        self.query = self.query.take().filter(|query| !query.is_empty());
    }

    /// The file name of `-O`; absent if the path ends with a slash.
    pub fn last_segment(&self) -> Option<String> {
        let path = remove_dot_segments(&self.path);
        let name = path.rsplit(['/', '\\']).next()?;
        (!matches!(name, "" | "." | "..")).then(|| name.to_owned())
    }

    /// Whether credentials for one may go to the other: same scheme, host and port.
    pub fn has_same_origin(&self, other: &Self) -> bool {
        self.scheme == other.scheme
            && self.host.eq_ignore_ascii_case(&other.host)
            && self.port() == other.port()
    }
}

/// A URL for a message. Behind the last `@` stands a host at most; before it stand secrets, whatever else is wrong.
pub(crate) fn show_for_message(text: &str) -> String {
    match text.rsplit_once('@') {
        Some((_, rest)) => {
            format!("{HIDDEN}@{}", rest.split(['/', '?', '#', '&']).next().unwrap_or_default())
        }
        None => shown_url(text),
    }
}

fn malformed(text: &str, why: &str) -> LineProblem {
    LineProblem::new(exit::URL, format!("URL {:?}: {why}", show_for_message(text)))
}

fn other_scheme(text: &str, scheme: &str) -> LineProblem {
    let shown = show_for_message(text);
    let what = format!("URL {shown:?}: firstbyte measures http and https, not {scheme}");
    LineProblem::new(exit::SCHEME, what)
}

/// Scheme and the rest behind its colon. Of the command line's URLs only a slash tells a scheme from a host with a port.
fn split_scheme(text: &str, needs_slash: bool) -> Option<(&str, &str)> {
    let (scheme, rest) = text.split_once(':')?;
    let is_scheme = !scheme.is_empty()
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    (is_scheme && (!needs_slash || rest.starts_with('/'))).then_some((scheme, rest))
}

/// Path and query, without the fragment.
fn split_query(rest: &str) -> (&str, Option<String>) {
    let rest = rest.split('#').next().unwrap_or_default();
    match rest.split_once('?') {
        Some((path, query)) => (path, Some(query.to_owned())),
        None => (rest, None),
    }
}

/// With its colon; `:` alone is the scheme's.
fn parse_port(text: &str) -> Option<Option<u16>> {
    if matches!(text, "" | ":") {
        return Some(None);
    }
    let digits = text.strip_prefix(':')?;
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { digits.parse().ok().map(Some) } else { None }
}

/// All but the ASCII bytes that `stays` keeps as `%xx`, in lower case as curl does.
fn encode_bytes(text: &str, stays: impl Fn(u8) -> bool) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if stays(byte) {
            encoded.push(char::from(byte));
        } else {
            encoded += &format!("%{byte:02x}");
        }
    }
    encoded
}

/// The path as sent; only a redirect's has spaces.
fn finish_path(path: &str, path_as_is: bool) -> String {
    let path = encode_bytes(path, |byte| byte.is_ascii_graphic());
    if path_as_is && !path.is_empty() { path } else { remove_dot_segments(&path) }
}

/// RFC 3986 §5.2.4.
fn remove_dot_segments(path: &str) -> String {
    let mut kept = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        match segment {
            "." => {}
            ".." => {
                kept.pop();
            }
            _ => {
                kept.push(segment);
                continue;
            }
        }
        // A directory stays one.
        if segments.peek().is_none() {
            kept.push("");
        }
    }
    format!("/{}", kept.join("/"))
}

/// Through the last slash.
fn directory_of(path: &str) -> &str {
    path.rfind('/').map_or("/", |at| &path[..=at])
}

#[cfg(test)]
mod tests;
