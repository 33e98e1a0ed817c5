//! A visit as a curl config file, which curl reads from standard input.
//!
//! All options are passed this way, since everybody on the machine can read arguments, and header fields are secrets.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use firstbyte_core::timeline::Offset;
use firstbyte_probe::net::Bind;
use firstbyte_probe::probe::Target;
use firstbyte_probe::probe::options::{
    Family, HeaderChange, HttpOptions, HttpVersion, Options, ResolverChoice, SessionUse, TlsVersion,
};

use super::options::CurlOptions;

/// Name of the file in its home that contains the request's body.
pub(super) const BODY_FILE: &str = "body";
/// Name of the log file, which the supervisor passes on.
const LOG_FILE: &str = "log";
/// First version that can report everything as JSON.
const HAS_JSON: [u32; 3] = [7, 70, 0];
/// Variables that older versions are asked for by name.
pub(super) const VARIABLES: [&str; 17] = [
    "http_code",
    "http_version",
    "local_ip",
    "local_port",
    "num_connects",
    "remote_ip",
    "remote_port",
    "size_download",
    "size_header",
    "size_request",
    "ssl_verify_result",
    "time_appconnect",
    "time_connect",
    "time_namelookup",
    "time_pretransfer",
    "time_starttransfer",
    "time_total",
];

/// One visit: the parameters that differ between redirects.
pub(super) struct Asked<'a> {
    pub(super) options: &'a CurlOptions,
    pub(super) http: &'a HttpOptions,
    pub(super) target: &'a Target,
    /// How long it may take, after subtracting earlier redirects.
    pub(super) max_time: Option<Duration>,
    /// File with sessions.
    pub(super) sessions: Option<&'a Path>,
    /// Whether another exchange comes first, whose connection this one uses.
    pub(super) kept: bool,
}

impl Asked<'_> {
    /// The config file for a curl with this home, whose reports carry this marker.
    pub(super) fn config(&self, home: &Path, marker: &str) -> Vec<u8> {
        let mut config = Config::default();
        // This option comes first, so that nothing is written elsewhere.
        config.path("stderr", &home.join(LOG_FILE));
        if let Some(file) = self.sessions {
            config.path("ssl-sessions", file);
        }
        self.transfer(&mut config, home, marker);
        if self.kept {
            // `--next` resets all earlier options.
            config.flag("next");
            self.transfer(&mut config, home, marker);
        }
        config.0
    }

    fn transfer(&self, config: &mut Config, home: &Path, marker: &str) {
        let (options, http) = (&self.options.options, self.http);
        for flag in ["silent", "show-error", "verbose", "globoff", "path-as-is"] {
            config.flag(flag);
        }
        config.text("noproxy", "*");
        config.text("proto", "=http,https");
        config.text("output", "/dev/null");
        config.text("write-out", &self.report(marker));
        self.way(config);
        if self.target.tls {
            self.tls(config, home);
        }
        let has = |name| self.options.able.has_option(name);
        match http.version {
            HttpVersion::Negotiate => {}
            HttpVersion::Http1 => config.flag("http1.1"),
            HttpVersion::Http2 => config.flag("http2-prior-knowledge"),
            // Before 7.88 this option never fell back.
            HttpVersion::Http3 => {
                config.flag(if has("http3-only") { "http3-only" } else { "http3" })
            }
        }
        request(config, http, home);
        limits(config, options, self.max_time);
        config.text("url", &self.target.url_with_zone());
    }

    /// The format of the report at the end of a transfer.
    fn report(&self, marker: &str) -> String {
        let mut report = format!("\n{marker} report ");
        if self.options.able.version >= HAS_JSON {
            report.push_str("%{json}");
        } else {
            for name in VARIABLES {
                let _ = write!(report, "{name}=%{{{name}}} ");
            }
        }
        report.push('\n');
        report
    }

    /// Local and remote end of the connection.
    fn way(&self, config: &mut Config) {
        let (options, target) = (&self.options.options, self.target);
        match options.family {
            Family::Any => {}
            Family::V4 => config.flag("ipv4"),
            Family::V6 => config.flag("ipv6"),
        }
        if let ResolverChoice::Server(server) = options.resolver {
            let server =
                if server.port() == 53 { server.ip().to_string() } else { server.to_string() };
            config.text("dns-servers", &server);
        }
        match &options.bind {
            Bind::Any => {}
            Bind::Device(name) => config.text("interface", &format!("if!{name}")),
            Bind::Address(address) => config.text("interface", &format!("host!{address}")),
            Bind::Ports { lowest, highest } => {
                config.text("local-port", &format!("{lowest}-{highest}"));
            }
        }
        let (host, port) = connects_to(options, target);
        if (host.as_str(), port) != (target.host.as_str(), target.port) {
            let rule =
                format!("{}:{}:{}:{port}", bracketed(&target.host), target.port, bracketed(&host));
            config.text("connect-to", &rule);
        }
        if let Some(addresses) = pinned(options, &host, port) {
            config.text("resolve", &format!("{host}:{port}:{}", addresses.join(",")));
        }
    }

    fn tls(&self, config: &mut Config, home: &Path) {
        let tls = &self.options.options.tls;
        let has = |name| self.options.able.has_option(name);
        config.flag(if tls.min == TlsVersion::V1_3 { "tlsv1.3" } else { "tlsv1.2" });
        if tls.max == TlsVersion::V1_2 {
            config.text("tls-max", "1.2");
        }
        if !self.options.groups.is_empty() {
            config.text("curves", &self.options.groups.join(":"));
        }
        if tls.insecure {
            config.flag("insecure");
        }
        if let Some(file) = &tls.ca_file {
            config.path("cacert", file);
            // A folder without certificates: otherwise the system's would be trusted too.
            config.path("capath", home);
        }
        if let Some((certificate, key)) = &tls.client_certificate {
            // curl would take text after a colon for a password.
            let certificate =
                certificate.to_string_lossy().replace('\\', "\\\\").replace(':', "\\:");
            config.text("cert", &certificate);
            if let Some(key) = key {
                config.path("key", key);
            }
        }
        match tls.session {
            SessionUse::Full if has("no-sessionid") => config.flag("no-sessionid"),
            SessionUse::EarlyData { any_method } if any_method || self.http.method.is_safe() => {
                config.flag("tls-earlydata");
            }
            _ => {}
        }
    }
}

/// Host and port to connect to: those of the URL, unless `--connect-to` names others.
fn connects_to(options: &Options, target: &Target) -> (String, u16) {
    let rule = options.connect_to.iter().find(|rule| {
        rule.from_host.as_deref().is_none_or(|host| host.eq_ignore_ascii_case(&target.host))
            && rule.from_port.is_none_or(|port| port == target.port)
    });
    let host = rule.and_then(|rule| rule.to_host.clone()).unwrap_or_else(|| target.host.clone());
    (host, rule.and_then(|rule| rule.to_port).unwrap_or(target.port))
}

/// The fixed addresses of a host and port, limited to the allowed families.
fn pinned(options: &Options, host: &str, port: u16) -> Option<Vec<String>> {
    let given = options.resolve.iter().find(|given| {
        given.host.as_deref().is_none_or(|name| name.eq_ignore_ascii_case(host))
            && given.port.is_none_or(|number| number == port)
    })?;
    let allowed = given.addresses.iter().filter(|address| options.family.allows(address));
    Some(allowed.map(|address| bracketed(&address.to_string())).collect())
}

fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

fn request(config: &mut Config, http: &HttpOptions, home: &Path) {
    let method = http.method.as_str();
    match (method, http.body.is_some()) {
        ("GET", false) | ("POST", true) => {}
        ("HEAD", false) => config.flag("head"),
        _ => config.text("request", method),
    }
    if http.body.is_some() {
        // From a file, without changes: a config file cannot contain arbitrary bytes.
        config.text("data-binary", &format!("@{}", home.join(BODY_FILE).display()));
        // Avoid a wait that nobody asked for.
        config.text("header", "Expect:");
    }
    config.text("user-agent", &http.user_agent);
    if http.compressed {
        config.flag("compressed");
    }
    for change in &http.headers {
        match change {
            HeaderChange::Set(name, value) if value.reveal().is_empty() => {
                config.text("header", &format!("{name};"));
            }
            HeaderChange::Set(name, value) => {
                let name = format!("{name}: ");
                config.bytes("header", &[name.as_bytes(), value.reveal().as_bytes()].concat());
            }
            HeaderChange::Remove(name) => config.text("header", &format!("{name}:")),
        }
    }
}

fn limits(config: &mut Config, options: &Options, max_time: Option<Duration>) {
    // Zero would mean no limit.
    let seconds = |time: Duration| format!("{:.3}", time.as_secs_f64().max(0.001));
    config.text("connect-timeout", &seconds(options.connect_timeout));
    if let Some(limit) = max_time {
        config.text("max-time", &seconds(limit));
    }
}

/// Remaining time.
pub(super) fn left(limit: Option<Duration>, taken: Duration) -> Option<Duration> {
    limit.map(|limit| limit.saturating_sub(taken))
}

/// Time until `end`.
pub(super) fn taken(end: Option<Offset>) -> Duration {
    end.map_or(Duration::ZERO, |end| end.since(Offset::ZERO))
}

#[derive(Default)]
struct Config(Vec<u8>);

impl Config {
    fn flag(&mut self, name: &str) {
        self.0.extend(name.as_bytes());
        self.0.push(b'\n');
    }

    fn text(&mut self, name: &str, value: &str) {
        self.bytes(name, value.as_bytes());
    }

    fn path(&mut self, name: &str, value: &Path) {
        self.bytes(name, value.as_os_str().as_encoded_bytes());
    }

    /// Writes `name = "value"`, escaping characters that are special to curl's parser.
    fn bytes(&mut self, name: &str, value: &[u8]) {
        self.0.extend(name.as_bytes());
        self.0.extend(b" = \"");
        for byte in value {
            match byte {
                b'"' => self.0.extend(b"\\\""),
                b'\\' => self.0.extend(b"\\\\"),
                b'\n' => self.0.extend(b"\\n"),
                b'\r' => self.0.extend(b"\\r"),
                b'\t' => self.0.extend(b"\\t"),
                0x0b => self.0.extend(b"\\v"),
                other => self.0.push(*other),
            }
        }
        self.0.extend(b"\"\n");
    }
}

#[cfg(test)]
mod tests;
