//! Settings of a server host, and which software supports them.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU64;
use std::ops::RangeInclusive;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::command::{self, CommandSettings};
use super::content;
use super::document::{ServerDocument, SlowDocument};
use super::error::ScenarioError;
use super::place::{DURATION, Place, optional, quoted};
use super::units::{self, WrittenSize};
use crate::builtin_server::{Content, EarlyData, KexGroup, Resumption, SlowRequests, TlsVersions};
use crate::ca::{DAYS_VALID, LeafKey, LeafOptions};

const DEFAULT_PAGE_BYTES: u64 = 2_000;
const MAX_PAGE_BYTES: u64 = 100_000_000;
/// Permitted size of a chain in bytes: at least what a P-256 leaf with one name needs, at most what one
/// certificate may have (rustls-webpki reads DER of up to 65,535 bytes).
const CHAIN_BYTES: RangeInclusive<u64> = 600..=60_000;
/// OpenSSL and rustls send two by default.
const DEFAULT_TICKETS: usize = 2;
const MAX_TICKETS: u64 = 20;
/// Days until a leaf expires: not after its issuers, and not more than a year ago.
const CERTIFICATE_DAYS: RangeInclusive<i64> = -365..=DAYS_VALID;
/// Maximum of `slow.every`: more requests than any test sends.
const MAX_SLOW_EVERY: u64 = 1_000_000;

/// How a server host serves.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerSettings {
    /// Server software.
    pub choice: ServerChoice,
    /// Whether nothing listens: connections are refused.
    pub refuses: bool,
    /// Size of the page at `/`.
    pub page_bytes: usize,
    /// Time between a request and its response; the built-in server only.
    pub think_time: Duration,
    /// Requests that take longer; the built-in server only.
    pub slow: Option<SlowRequests>,
    /// Time between a ClientHello and its ServerHello; the built-in server only.
    pub handshake_delay: Duration,
    /// TLS versions over TCP.
    pub versions: TlsVersions,
    /// How sessions are resumed.
    pub resumption: Resumption,
    /// Number of tickets sent after a TLS 1.3 handshake.
    pub tickets: usize,
    /// How early data is handled.
    pub early_data: EarlyData,
    /// Key-exchange groups, most preferred first; empty for the software's default.
    pub groups: Vec<KexGroup>,
    /// Key and expiry of the certificate, and size of the chain.
    pub leaf: LeafOptions,
    /// Whether it serves HTTP/3 at UDP port 443. With nginx, the built-in server does that.
    pub http3: bool,
    /// Whether the server validates QUIC clients' addresses by a Retry.
    pub retry: bool,
    /// Whether small writes wait until earlier ones are acknowledged (Nagle's algorithm, RFC 1122 §4.2.3.4);
    /// the built-in server only.
    pub nagle: bool,
    /// Redirects (301): URL without query, and `location` of the response.
    pub redirects: BTreeMap<String, String>,
    /// Content at single paths, for every name; not with Caddy.
    pub content: BTreeMap<String, Content>,
    /// Lines for nginx's `server` block; nginx only.
    pub nginx_directives: Vec<String>,
    /// The program that serves; `Some` exactly with [`ServerChoice::Command`].
    pub command: Option<CommandSettings>,
    /// Whether the built-in server answers at port 8080 of the host's loopback, for a server that forwards
    /// requests to it.
    pub backend: bool,
}

/// Which server software a host runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerChoice {
    /// nginx if it is installed and supports all settings, otherwise the built-in server.
    #[default]
    Auto,
    /// nginx; an error if it is not installed.
    Nginx,
    /// Caddy; an error if it is not installed.
    Caddy,
    /// The built-in server.
    Builtin,
    /// The program that the scenario names.
    Command,
}

impl fmt::Display for ServerChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Nginx => "nginx",
            Self::Caddy => "caddy",
            Self::Builtin => "builtin",
            Self::Command => "command",
        })
    }
}

impl ServerSettings {
    /// A setting that the software does not support, and why; `None` if it supports all.
    pub(crate) fn beyond(&self, software: ServerChoice) -> Option<(&'static str, &'static str)> {
        let delays = !self.think_time.is_zero() || !self.handshake_delay.is_zero();
        match software {
            ServerChoice::Auto => None,
            ServerChoice::Command if self.command.is_none() => {
                Some(("no command", "kind = \"command\" needs a program to start"))
            }
            ServerChoice::Command if self.is_for_servers_of_the_labs() => Some((
                "settings of the lab's own servers",
                "a program is configured by its command",
            )),
            ServerChoice::Command => None,
            _ if self.command.is_some() => {
                Some(("command", "only kind = \"command\" starts a program"))
            }
            ServerChoice::Builtin if !self.nginx_directives.is_empty() => {
                Some(("nginx.directives", "the built-in server has no directives"))
            }
            ServerChoice::Builtin => None,
            ServerChoice::Nginx if delays || self.content_thinks() => {
                Some(("think_time or handshake_delay", "nginx supports neither"))
            }
            ServerChoice::Nginx if self.slow.is_some() => {
                Some(("slow", "nginx answers all requests at once"))
            }
            ServerChoice::Nginx if self.groups.contains(&KexGroup::X25519MlKem768) => {
                Some(("groups with x25519mlkem768", "nginx supports it only with OpenSSL 3.5"))
            }
            ServerChoice::Nginx if self.nagle => {
                Some(("nagle", "nginx turns Nagle's algorithm off for TLS"))
            }
            ServerChoice::Nginx if self.early_data == EarlyData::AfterFinished => {
                Some(("early_data = \"after-finished\"", "nginx answers early data at once"))
            }
            ServerChoice::Nginx if self.early_data == EarlyData::Reject => Some((
                "early_data = \"reject\"",
                "nginx accepts all early data that its tickets allow",
            )),
            ServerChoice::Nginx => None,
            ServerChoice::Caddy if delays => {
                Some(("think_time or handshake_delay", "Caddy supports neither"))
            }
            ServerChoice::Caddy if self.slow.is_some() => {
                Some(("slow", "Caddy answers all requests at once"))
            }
            ServerChoice::Caddy if self.nagle => {
                Some(("nagle", "Caddy turns Nagle's algorithm off"))
            }
            ServerChoice::Caddy if !self.redirects.is_empty() => {
                Some(("redirects", "the lab does not configure redirects in Caddy"))
            }
            ServerChoice::Caddy if !self.content.is_empty() => {
                Some(("content", "the lab does not configure content in Caddy"))
            }
            ServerChoice::Caddy if !self.nginx_directives.is_empty() => {
                Some(("nginx.directives", "only nginx has directives"))
            }
            ServerChoice::Caddy if self.groups.contains(&KexGroup::X25519MlKem768) => {
                Some(("groups with x25519mlkem768", "Caddy supports it from version 2.10"))
            }
            // Neither `on` nor `off` describes Caddy exactly: see docs/scenarios.md.
            ServerChoice::Caddy
                if !matches!(self.early_data, EarlyData::Off | EarlyData::Accept) =>
            {
                Some(("early_data other than \"off\" and \"on\"", "Caddy has no setting for it"))
            }
            ServerChoice::Caddy if self.resumption == Resumption::SessionIds => {
                Some(("resumption = \"session-ids\"", "Caddy resumes only by ticket"))
            }
            ServerChoice::Caddy if self.tickets != DEFAULT_TICKETS => Some((
                "tickets",
                "Caddy always sends one ticket; resumption = \"none\" turns it off",
            )),
            ServerChoice::Caddy if self.retry => {
                Some(("retry", "Caddy decides itself when to send a Retry"))
            }
            ServerChoice::Caddy => None,
        }
    }
}

/// Checks a host's `server = {}`.
pub(super) fn check(
    place: &Place<'_>,
    raw: ServerDocument,
    names: &[String],
) -> Result<ServerSettings, ScenarioError> {
    let duration_of = |key: &str, text: Option<String>| {
        optional(&place.at(key), text, units::duration, DURATION).map(Option::unwrap_or_default)
    };
    let kind = match raw.kind.as_deref() {
        Some("nginx") => ServerChoice::Nginx,
        Some("caddy") => ServerChoice::Caddy,
        Some("builtin") => ServerChoice::Builtin,
        Some("command") => ServerChoice::Command,
        Some("auto") | None => ServerChoice::Auto,
        Some(other) => {
            let allowed = r#""auto", "nginx", "caddy", "builtin" or "command""#;
            return Err(place.at("kind").bad(quoted(other), allowed));
        }
    };
    let number = |key: &str, value: Option<u64>, default: u64, max: u64| {
        let value = value.unwrap_or(default);
        let bad = || place.at(key).bad(value, format!("0 to {max}"));
        (value <= max).then_some(value as usize).ok_or_else(bad)
    };
    let mut settings = ServerSettings {
        choice: kind,
        refuses: raw.refuses.unwrap_or_default(),
        page_bytes: page_bytes(&place.at("page_bytes"), raw.page_bytes)?,
        think_time: duration_of("think_time", raw.think_time)?,
        slow: slow_requests(&place.at("slow"), raw.slow)?,
        handshake_delay: duration_of("handshake_delay", raw.handshake_delay)?,
        versions: versions(&place.at("tls"), raw.tls)?,
        resumption: word(&place.at("resumption"), raw.resumption, &RESUMPTIONS)?,
        tickets: number("tickets", raw.tickets, DEFAULT_TICKETS as u64, MAX_TICKETS)?,
        early_data: word(&place.at("early_data"), raw.early_data, &EARLY_DATA)?,
        groups: groups(&place.at("groups"), raw.groups)?,
        leaf: LeafOptions {
            key: word(&place.at("key"), raw.key, &KEYS)?,
            chain_bytes: chain_bytes(&place.at("chain_bytes"), raw.chain_bytes)?,
            days_left: certificate_days(&place.at("certificate_days"), raw.certificate_days)?,
        },
        http3: raw.http3.unwrap_or(kind == ServerChoice::Caddy),
        retry: raw.retry.unwrap_or_default(),
        nagle: raw.nagle.unwrap_or_default(),
        redirects: redirects(&place.at("redirects"), raw.redirects, names)?,
        content: content::check(&place.at("content"), raw.content)?,
        nginx_directives: raw.nginx.directives,
        command: command::check(place, raw.command, raw.package, raw.files)?,
        backend: raw.backend.unwrap_or_default(),
    };
    if kind == ServerChoice::Command && settings.command.is_none() {
        return Err(place
            .at("command")
            .missing(r#"the program and its arguments, such as ["haproxy", "-db"]"#));
    }
    settings.choice = choice(place, &settings)?;
    if settings.retry && !settings.http3 {
        return Err(place.at("retry").bad(true, "only with http3 = true; Retry is part of QUIC"));
    }
    if settings.early_data != EarlyData::Off && !settings.can_have_early_data() {
        let allowed = "only with TLS 1.3, tickets and resumption: early data needs all three";
        return Err(place.at("early_data").bad("…", allowed));
    }
    Ok(settings)
}

impl ServerSettings {
    /// Whether it has settings that only servers configured by the lab can have.
    fn is_for_servers_of_the_labs(&self) -> bool {
        let delays =
            !self.think_time.is_zero() || self.slow.is_some() || !self.handshake_delay.is_zero();
        let tls = self.versions != TlsVersions::default()
            || self.resumption != Resumption::default()
            || self.tickets != DEFAULT_TICKETS
            || self.early_data != EarlyData::default()
            || !self.groups.is_empty();
        let lines = !self.redirects.is_empty()
            || !self.content.is_empty()
            || !self.nginx_directives.is_empty();
        delays || tls || lines || self.retry || self.nagle
    }

    fn content_thinks(&self) -> bool {
        self.content.values().any(|content| !content.think_time.is_zero())
    }

    fn can_have_early_data(&self) -> bool {
        let tls13 = self.versions != TlsVersions::Tls12 || self.http3;
        tls13 && self.tickets > 0 && self.resumption != Resumption::None
    }
}

/// Resolves `auto`: the built-in server if nginx does not support the settings, and nginx if the host has
/// `nginx` directives of its own.
fn choice(place: &Place<'_>, settings: &ServerSettings) -> Result<ServerChoice, ScenarioError> {
    let directives = !settings.nginx_directives.is_empty();
    let wanted = match settings.choice {
        ServerChoice::Auto if settings.command.is_some() => ServerChoice::Command,
        ServerChoice::Auto if settings.beyond(ServerChoice::Nginx).is_some() => {
            ServerChoice::Builtin
        }
        ServerChoice::Auto if directives => ServerChoice::Nginx,
        other => other,
    };
    match settings.beyond(wanted) {
        None => Ok(wanted),
        Some(("nginx.directives", _)) if wanted == ServerChoice::Builtin => {
            Err(place.at("nginx.directives").bad(
                "[ … ]",
                "only with nginx, and without what nginx cannot do (see docs/scenarios.md)",
            ))
        }
        Some((what, why)) => {
            let other = if wanted == ServerChoice::Nginx { "\"builtin\"" } else { "another kind" };
            Err(place
                .at("kind")
                .bad(quoted(&wanted.to_string()), format!("{other} ({what}: {why})")))
        }
    }
}

/// Words and their meanings; the first is the default.
pub(super) type Words<T, const N: usize> = [(&'static str, T); N];

const RESUMPTIONS: Words<Resumption, 4> = [
    ("both", Resumption::Both),
    ("tickets", Resumption::Tickets),
    ("session-ids", Resumption::SessionIds),
    ("none", Resumption::None),
];
const EARLY_DATA: Words<EarlyData, 5> = [
    ("off", EarlyData::Off),
    ("on", EarlyData::Accept),
    ("after-finished", EarlyData::AfterFinished),
    ("reject", EarlyData::Reject),
    ("too-early", EarlyData::TooEarly),
];
const KEYS: Words<LeafKey, 2> = [("p256", LeafKey::P256), ("rsa2048", LeafKey::Rsa2048)];
const VERSIONS: Words<TlsVersions, 2> = [("1.2", TlsVersions::Tls12), ("1.3", TlsVersions::Tls13)];

pub(super) fn word<T: Copy, const N: usize>(
    place: &Place<'_>,
    text: Option<String>,
    words: &Words<T, N>,
) -> Result<T, ScenarioError> {
    let Some(text) = text else { return Ok(words[0].1) };
    let found = words.iter().find(|(word, _)| *word == text);
    found.map(|(_, meaning)| *meaning).ok_or_else(|| place.bad(quoted(&text), listed(words)))
}

/// Lists the words: `"a", "b" or "c"`.
fn listed<T>(words: &[(&str, T)]) -> String {
    let words: Vec<_> = words.iter().map(|(word, _)| quoted(word)).collect();
    match words.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => words.join(""),
    }
}

fn versions(
    place: &Place<'_>,
    versions: Option<Vec<String>>,
) -> Result<TlsVersions, ScenarioError> {
    let Some(versions) = versions else { return Ok(TlsVersions::Both) };
    let has = |wanted: &str| versions.iter().any(|version| version == wanted);
    let known = |version: &String| VERSIONS.iter().any(|(word, _)| word == version);
    match (has("1.2"), has("1.3"), versions.iter().all(known)) {
        (true, true, true) => Ok(TlsVersions::Both),
        (true, false, true) => Ok(TlsVersions::Tls12),
        (false, true, true) => Ok(TlsVersions::Tls13),
        _ => Err(place.bad(format!("{versions:?}"), r#"["1.2"], ["1.3"] or ["1.2", "1.3"]"#)),
    }
}

fn groups(place: &Place<'_>, names: Option<Vec<String>>) -> Result<Vec<KexGroup>, ScenarioError> {
    let all = KexGroup::ALL.map(|group| (group.name(), group));
    let mut groups = Vec::new();
    for name in names.unwrap_or_default() {
        let group = word(place, Some(name.clone()), &all)?;
        if groups.contains(&group) {
            return Err(place.bad(quoted(&name), "each group only once"));
        }
        groups.push(group);
    }
    Ok(groups)
}

/// Checks that every redirect starts at a name of this host and leads elsewhere.
fn redirects(
    place: &Place<'_>,
    redirects: BTreeMap<String, String>,
    names: &[String],
) -> Result<BTreeMap<String, String>, ScenarioError> {
    for (from, to) in &redirects {
        let host = plain_url(from).ok_or_else(|| place.bad(quoted(from), PLAIN_URL))?;
        if !names.iter().any(|name| name == host) {
            return Err(place.bad(quoted(from), "the URLs of this host's names"));
        }
        let place = place.at(from);
        plain_url(to).ok_or_else(|| place.bad(quoted(to), PLAIN_URL))?;
        if to == from {
            return Err(place.bad(quoted(to), "a URL other than itself"));
        }
    }
    Ok(redirects)
}

const PLAIN_URL: &str =
    r#"URLs with a path and without port and query, such as "https://www.example.test/""#;

/// The host of a URL, if the URL means the same in every configuration file.
fn plain_url(url: &str) -> Option<&str> {
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"))?;
    let (host, path) = rest.split_at(rest.find('/')?);
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._~/".contains(c);
    let is_host = !host.is_empty() && host.chars().all(|c| plain(c) && !c.is_ascii_uppercase());
    (is_host && path.chars().all(plain)).then_some(host)
}

fn page_bytes(place: &Place<'_>, size: Option<WrittenSize>) -> Result<usize, ScenarioError> {
    let default = WrittenSize::Bytes(DEFAULT_PAGE_BYTES);
    size_within(place, &size.unwrap_or(default), 0..=MAX_PAGE_BYTES)
}

fn chain_bytes(
    place: &Place<'_>,
    size: Option<WrittenSize>,
) -> Result<Option<usize>, ScenarioError> {
    size.map(|size| size_within(place, &size, CHAIN_BYTES)).transpose()
}

fn certificate_days(place: &Place<'_>, days: Option<i64>) -> Result<Option<i64>, ScenarioError> {
    let Some(days) = days.filter(|days| !CERTIFICATE_DAYS.contains(days)) else { return Ok(days) };
    let allowed = format!("{} to {}", CERTIFICATE_DAYS.start(), CERTIFICATE_DAYS.end());
    Err(place.bad(days, allowed))
}

/// Parses `slow`. A think time of zero turns it off.
fn slow_requests(
    place: &Place<'_>,
    slow: Option<SlowDocument>,
) -> Result<Option<SlowRequests>, ScenarioError> {
    let Some(slow) = slow else { return Ok(None) };
    let every = NonZeroU64::new(slow.every).filter(|every| every.get() <= MAX_SLOW_EVERY);
    let bad = || place.at("every").bad(slow.every, format!("1 to {MAX_SLOW_EVERY}"));
    let every = every.ok_or_else(bad)?;
    let text = Some(slow.think_time);
    let think_time = optional(&place.at("think_time"), text, units::duration, DURATION)?;
    let think_time = think_time.filter(|time| !time.is_zero());
    Ok(think_time.map(|think_time| SlowRequests { every, think_time }))
}

fn size_within(
    place: &Place<'_>,
    size: &WrittenSize,
    allowed: RangeInclusive<u64>,
) -> Result<usize, ScenarioError> {
    let bytes = size.bytes().filter(|bytes| allowed.contains(bytes));
    let bad = || place.bad(size, format!("{} to {}", allowed.start(), allowed.end()));
    bytes.map(|bytes| bytes as usize).ok_or_else(bad)
}
