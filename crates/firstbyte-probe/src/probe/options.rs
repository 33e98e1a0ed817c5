//! What to measure and how: the user's request in parsed, consistent form.
//!
//! Plain data. Built by `cli::plan`; read by the other modules of `probe`.

use std::net::{IpAddr, SocketAddr};
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use firstbyte_core::document::{nanoseconds, nanoseconds_if_any};
use firstbyte_core::timeline::{HttpFacts, Parallel, SessionMechanism};
use http::header;
use serde::{Deserialize, Serialize};
use url::Url;

use super::connect::interface_number;
use super::kept::{KeptBody, KeptCertificates};
use super::options_stored::{body, method};
use super::proxy::options::authority;
pub use super::proxy::options::{ProxyOptions, ProxyRules, ProxyUser};
use super::secret::Secret;
use super::target::Target;
use crate::net::Bind;

/// The client that makes the visits.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names say it")]
pub enum Client {
    #[default]
    Firstbyte,
    Curl,
    Chromium,
    Firefox,
}

impl Client {
    /// All clients, ours first.
    pub const ALL: [Self; 4] = [Self::Firstbyte, Self::Curl, Self::Chromium, Self::Firefox];

    /// The name that people write.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Firstbyte => "firstbyte",
            Self::Curl => "curl",
            Self::Chromium => "Chromium",
            Self::Firefox => "Firefox",
        }
    }

    /// Reads a name, ignoring case.
    ///
    /// # Errors
    /// The name is not known.
    pub fn read(text: &str) -> Result<Self, String> {
        let named = |client: &Self| client.name().eq_ignore_ascii_case(text);
        Self::ALL.into_iter().find(named).ok_or_else(|| "unknown client".to_owned())
    }
}

/// Everything that a probe needs to know besides the URL.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Options {
    /// The client that makes the visits.
    pub client: Client,
    /// How names are resolved.
    pub resolver: ResolverChoice,
    /// Which address families may be used.
    pub family: Family,
    /// Addresses given by the user for a host and port (`--resolve`).
    pub resolve: Vec<ResolveOverride>,
    /// Other hosts or ports to connect to (`--connect-to`).
    pub connect_to: Vec<ConnectTo>,
    /// The local end of connections.
    pub bind: Bind,
    /// TLS.
    pub tls: TlsOptions,
    /// HTTP.
    pub http: HttpOptions,
    /// Time allowed until the handshakes are done.
    #[serde(rename = "connect_timeout_ns", with = "nanoseconds")]
    pub connect_timeout: Duration,
    /// Time allowed for the whole sample including redirects, if limited.
    #[serde(rename = "max_time_ns", with = "nanoseconds_if_any")]
    pub max_time: Option<Duration>,
    /// Whether samples are exchanges on one connection that stays open.
    pub reuse: bool,
    /// Redirects to follow; none if absent.
    pub max_redirects: Option<u32>,
    /// Several requests per sample, if requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<RequestsOptions>,
    /// The Connection Attempt Delay of Happy Eyeballs, if it differs from RFC 8305.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt_delay: Option<Duration>,
    /// Whether each connection begins with a line of HAProxy's PROXY protocol (`--haproxy-protocol`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub proxy_protocol: bool,
    /// Proxies. The proxy is chosen for each target separately, including redirects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<ProxyRules>,
}

/// How several requests are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestsOptions {
    /// Number of requests, at least two.
    pub count: u32,
    /// On which connections they are made.
    pub parallel: Parallel,
}

impl RequestsOptions {
    /// Maximum number of requests in a sample, since each of them is kept.
    pub const MOST: u32 = 1_000;
}

/// Options shared by many visits. A visit that changes them gets its own copy.
#[derive(Clone, Debug, PartialEq)]
pub struct SharedOptions(Arc<Options>);

impl From<Options> for SharedOptions {
    fn from(options: Options) -> Self {
        Self(Arc::new(options))
    }
}

impl Deref for SharedOptions {
    type Target = Options;

    fn deref(&self) -> &Options {
        &self.0
    }
}

impl DerefMut for SharedOptions {
    fn deref_mut(&mut self) -> &mut Options {
        Arc::make_mut(&mut self.0)
    }
}

impl Options {
    /// The proxy used to reach `target`, if any.
    pub fn proxy_for(&self, target: &Target) -> Option<&ProxyOptions> {
        self.proxy.as_ref()?.proxy_for(target)
    }

    /// The `HOST:PORT` requested from an HTTP proxy to reach `target`.
    pub fn authority_behind_proxy(&self, target: &Target) -> String {
        let (host, port) = self.place_behind_proxy(target);
        authority(&host, port)
    }

    /// Host and port that a proxy connects to for `target`: those of the URL, unless `--connect-to` overrides them.
    pub(super) fn place_behind_proxy(&self, target: &Target) -> (String, u16) {
        let rule = self.connect_rule(target);
        let other = rule.and_then(|rule| rule.to_host.as_deref()).map(|host| split_zone(host).0);
        let host = other.map(|host| host.trim_matches(['[', ']']).to_owned());
        let port = rule.and_then(|rule| rule.to_port).unwrap_or(target.port);
        (host.unwrap_or_else(|| target.host.clone()), port)
    }

    /// The rule of `--connect-to` that applies to `target`.
    pub(super) fn connect_rule(&self, target: &Target) -> Option<&ConnectTo> {
        self.connect_to.iter().find(|rule| {
            rule.from_host.as_deref().is_none_or(|h| h.eq_ignore_ascii_case(&target.host))
                && rule.from_port.is_none_or(|p| p == target.port)
        })
    }

    /// Adapts the options to several requests, if there are several; above all the version of HTTP.
    ///
    /// # Errors
    /// Why several requests conflict with the other options.
    pub fn settle_requests(&mut self, over_tls: bool) -> Result<(), String> {
        let Some(RequestsOptions { count, parallel }) = self.requests else { return Ok(()) };
        let version = match parallel {
            Parallel::Connections(_) => HttpVersion::Http1,
            Parallel::Http2 => HttpVersion::Http2,
            Parallel::Http3 => HttpVersion::Http3,
        };
        let version_name = parallel.http_version();
        if ![HttpVersion::Negotiate, version].contains(&self.http.version) {
            return Err(format!(
                "parallel={parallel} uses HTTP/{version_name}, but another version is requested"
            ));
        }
        if version != HttpVersion::Http1 && !over_tls {
            return Err("HTTP/2 and HTTP/3 require https".into());
        }
        if version == HttpVersion::Http3 {
            if self.tls.max < TlsVersion::V1_3 {
                return Err("HTTP/3 requires TLS 1.3".into());
            }
            self.tls.min = TlsVersion::V1_3;
        }
        if u32::from(parallel.connections()) > count {
            return Err(format!("{parallel} connections are more than the {count} requests"));
        }
        if self.reuse {
            return Err(
                "several requests always open new connections; only one request can reuse a \
                 connection"
                    .into(),
            );
        }
        if matches!(self.tls.session, SessionUse::EarlyData { .. }) {
            return Err(
                "early data is possible for one request only; several are sent after the handshake"
                    .into(),
            );
        }
        if self.max_redirects.is_some() {
            return Err("redirects are not followed if a sample has several requests".into());
        }
        if self.http.output.is_some() {
            return Err("bodies are not written if a sample has several requests".into());
        }
        self.http.version = version;
        Ok(())
    }
}

/// Default time allowed until the handshakes are done, the same as curl's.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(300);

/// The settings without any flags.
impl Default for Options {
    fn default() -> Self {
        Self {
            client: Client::default(),
            resolver: ResolverChoice::default(),
            family: Family::default(),
            resolve: Vec::new(),
            connect_to: Vec::new(),
            bind: Bind::Any,
            tls: TlsOptions::default(),
            http: HttpOptions::default(),
            connect_timeout: CONNECT_TIMEOUT,
            max_time: None,
            reuse: false,
            max_redirects: None,
            requests: None,
            attempt_delay: None,
            proxy_protocol: false,
            proxy: None,
        }
    }
}

/// How names are resolved.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResolverChoice {
    /// DNS queries to the servers that the system configures; A and AAAA are timed separately.
    #[default]
    Dns,
    /// DNS queries to this server.
    Server(SocketAddr),
    /// The system's own resolver (`getaddrinfo`), with everything configured there.
    System,
}

impl ResolverChoice {
    /// Reads `dns`, `system`, or a server's address with or without a port.
    ///
    /// # Errors
    /// The text has none of these forms.
    pub fn read(text: &str) -> Result<Self, String> {
        match text {
            "dns" => return Ok(Self::Dns),
            "system" => return Ok(Self::System),
            _ => {}
        }
        let (text, zone) = split_zone(text);
        let with_default_port = || {
            let address = text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
            address.map(|address| SocketAddr::new(address, 53))
        };
        let server = text.parse::<SocketAddr>().or_else(|_| with_default_port());
        match (server.map_err(|_| "not a resolver".to_owned())?, zone) {
            (SocketAddr::V6(mut server), Some(zone)) => {
                server.set_scope_id(interface_number(zone)?);
                Ok(Self::Server(server.into()))
            }
            (SocketAddr::V4(_), Some(_)) => Err("IPv4 addresses have no zones".into()),
            (server, None) => Ok(Self::Server(server)),
        }
    }
}

/// Address families allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// Both, by Happy Eyeballs (RFC 8305).
    #[default]
    Any,
    /// IPv4 only.
    V4,
    /// IPv6 only.
    V6,
}

impl Family {
    /// Whether `address` is of an allowed family.
    pub const fn allows(self, address: &IpAddr) -> bool {
        match self {
            Self::Any => true,
            Self::V4 => address.is_ipv4(),
            Self::V6 => address.is_ipv6(),
        }
    }

    /// Its name in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }
}

/// `--resolve HOST:PORT:ADDRESS[,ADDRESS…]`; host and port may be `*`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResolveOverride {
    /// Host in lower case; any host if absent.
    pub host: Option<String>,
    /// Port; any port if absent.
    pub port: Option<u16>,
    /// The addresses to use.
    pub addresses: Vec<IpAddr>,
    /// Name or index of the interface for the IPv6 addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
}

/// Splits the zone from an address (RFC 4007 §11): `fe80::1%eth0`, or `[fe80::1%eth0]` with following text.
pub fn split_zone(text: &str) -> (String, Option<&str>) {
    let Some((address, rest)) = text.split_once('%') else { return (text.to_owned(), None) };
    let (zone, behind) = rest.split_at(rest.find(']').unwrap_or(rest.len()));
    (format!("{address}{behind}"), Some(zone))
}

/// `--connect-to HOST1:PORT1:HOST2:PORT2`; an empty part means "any" on the left and "the same" on the right.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectTo {
    /// Host of the URL that the rule applies to.
    pub from_host: Option<String>,
    /// Port of the URL that the rule applies to.
    pub from_port: Option<u16>,
    /// Host to connect to instead; an IPv6 address may have a zone.
    pub to_host: Option<String>,
    /// Port to connect to instead.
    pub to_port: Option<u16>,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub enum TlsVersion {
    #[serde(rename = "1.2")]
    V1_2,
    #[serde(rename = "1.3")]
    V1_3,
}

/// How to use the sessions of earlier connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionUse {
    /// Not at all: every handshake is a full one.
    #[default]
    Full,
    /// Offer a session, of this mechanism if given.
    Resume(Option<SessionMechanism>),
    /// Offer a session, and send the request as early data.
    EarlyData {
        /// Whether this includes requests that are not safe to repeat (RFC 9110 §9.2.1).
        any_method: bool,
    },
}

/// TLS options.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TlsOptions {
    /// Lowest version offered.
    pub min: TlsVersion,
    /// Highest version offered.
    pub max: TlsVersion,
    /// Key-exchange groups by name, in order of preference; the default set if empty.
    pub groups: Vec<String>,
    /// Whether to measure despite a bad certificate (`-k`).
    pub insecure: bool,
    /// File of issuers to trust instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// How to use sessions of earlier connections.
    pub session: SessionUse,
    /// Client certificate (PEM), and its key if that is in another file.
    pub client_certificate: Option<(PathBuf, Option<PathBuf>)>,
    /// The protocols to offer (ALPN) if they do not follow from the HTTP version; no ALPN if empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alpn: Option<Vec<String>>,
    /// Cipher suites by their IANA names, in order of preference; the default set if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cipher_suites: Vec<String>,
    /// Storage for the server's certificates; if absent, they are described and dropped.
    #[serde(skip)]
    pub keep: Option<KeptCertificates>,
}

/// Both versions, the default groups, a new session every time.
impl Default for TlsOptions {
    fn default() -> Self {
        Self {
            min: TlsVersion::V1_2,
            max: TlsVersion::V1_3,
            groups: Vec::new(),
            insecure: false,
            ca_file: None,
            session: SessionUse::Full,
            client_certificate: None,
            alpn: None,
            cipher_suites: Vec::new(),
            keep: None,
        }
    }
}

/// The HTTP version to use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HttpVersion {
    /// HTTP/2 if the server agrees by ALPN, otherwise HTTP/1.1.
    #[default]
    Negotiate,
    /// HTTP/1.1 only.
    Http1,
    /// HTTP/2 without negotiation (`--http2-prior-knowledge`); a server that does not speak it causes an error.
    Http2,
    /// HTTP/3 over QUIC, without negotiation (`--http3-only`).
    Http3,
}

/// The HTTP request and how its response is handled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HttpOptions {
    /// Version.
    pub version: HttpVersion,
    /// Method.
    #[serde(with = "method")]
    pub method: http::Method,
    /// Whether the user named the method (`-X`); redirects then keep it.
    pub method_forced: bool,
    /// Header fields in addition to the generated ones; a field given here replaces a generated one.
    pub headers: Vec<HeaderChange>,
    /// Body of the request.
    #[serde(with = "body")]
    pub body: Option<Secret<bytes::Bytes>>,
    /// `User-Agent`.
    pub user_agent: String,
    /// Whether to ask for a compressed body and decode it (`--compressed`).
    pub compressed: bool,
    /// Whether a status of 400 or more is a failure (`--fail`).
    pub fail: bool,
    /// Where the body goes; if absent, it is counted and dropped.
    pub output: Option<Output>,
    /// Storage for the body in memory, if it has no other output.
    #[serde(skip)]
    pub keep: Option<KeptBody>,
    /// A request to write instead of one built from the other fields.
    #[serde(skip)]
    pub exact: Option<Box<ExactRequest>>,
}

/// A request byte by byte.
#[derive(Clone, Debug, PartialEq)]
pub struct ExactRequest {
    /// HTTP/1: from the request line to the empty line.
    pub head: Secret<bytes::Bytes>,
    /// HTTP/2 and HTTP/3: the fields in order.
    pub fields: Vec<(http::HeaderName, Secret<http::HeaderValue>)>,
    /// HTTP/2 and HTTP/3: `:authority`.
    pub authority: String,
    /// HTTP/2 and HTTP/3: `:path`.
    pub path: String,
    /// Whether HTTP/1 sends the body in chunks.
    pub is_chunked: bool,
    /// Whether the response has no body, whatever the method.
    pub is_head: bool,
    /// A response with this status leads to another request, and its body is dropped.
    pub dropped_status: Option<u16>,
    /// Whether the body is written even if the status is a failure (`--fail-with-body`).
    pub keeps_failed_body: bool,
    /// The tunnel request to an HTTP proxy, from CONNECT to the empty line.
    pub connect_head: Option<Secret<bytes::Bytes>>,
}

/// A GET with the version that the server agrees to.
impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            version: HttpVersion::Negotiate,
            method: http::Method::GET,
            method_forced: false,
            headers: Vec::new(),
            body: None,
            user_agent: concat!("firstbyte/", env!("CARGO_PKG_VERSION")).to_owned(),
            compressed: false,
            fail: false,
            output: None,
            keep: None,
            exact: None,
        }
    }
}

impl HttpOptions {
    /// The value of a field given by the user.
    pub fn header(&self, name: &http::HeaderName) -> Option<String> {
        self.header_value(name)?.to_str().ok().map(str::to_owned)
    }

    pub(super) fn header_value(&self, name: &http::HeaderName) -> Option<&http::HeaderValue> {
        self.headers.iter().rev().find_map(|change| match change {
            HeaderChange::Set(given, value) if given == name => Some(value.reveal()),
            _ => None,
        })
    }

    /// Changes the request for the next hop, as RFC 9110 §15.4 allows and as curl does.
    ///
    /// A POST answered with 301, 302 or 303 becomes a GET. Credentials stay with their origin (scheme, host and port):
    /// anything meant for https is not sent in the clear.
    pub fn redirected(&mut self, response: Option<&HttpFacts>, from: &Url, to: &Url) {
        let status = response.and_then(|r| r.status);
        if self.method == http::Method::POST && matches!(status, Some(301..=303)) {
            self.body = None;
            if !self.method_forced {
                self.method = http::Method::GET;
            }
        }
        let (same_origin, same_host) = (from.origin() == to.origin(), from.host() == to.host());
        self.headers.retain(|change| match change {
            HeaderChange::Set(header::AUTHORIZATION | header::COOKIE, _) => same_origin,
            HeaderChange::Set(header::HOST, _) => same_host,
            HeaderChange::Set(..) | HeaderChange::Remove(_) => true,
        });
    }
}

/// A change to the header fields (`-H`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeaderChange {
    /// `Name: value`, or `Name;` for an empty value.
    Set(http::HeaderName, Secret<http::HeaderValue>),
    /// `Name:` removes a generated field.
    Remove(http::HeaderName),
}

/// Where a body goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Output {
    /// Standard output.
    Stdout,
    /// A file, replaced by each sample.
    File(PathBuf),
    /// The end of a file.
    Append(PathBuf),
}
