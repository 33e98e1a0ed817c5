//! JSON lines: our formats for nginx and Apache, and Caddy's own format.

use std::borrow::Cow;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::reader::LogLineError;
use super::request::{
    LATEST_SECONDS, LogForm, LoggedRequest, LoggedTime, protocol, said, seconds, without_query,
};

const MILLISECOND: Duration = Duration::from_millis(1);
const MICROSECOND: Duration = Duration::from_micros(1);

/// Fields of our formats. All are text, since a server's variable may be empty.
#[derive(Deserialize)]
#[serde(default)]
struct OurLine<'a> {
    #[serde(borrow)]
    firstbyte: Cow<'a, str>,
    #[serde(borrow)]
    time: Cow<'a, str>,
    #[serde(borrow)]
    host: Cow<'a, str>,
    #[serde(borrow)]
    port: Cow<'a, str>,
    #[serde(borrow)]
    protocol: Cow<'a, str>,
    #[serde(borrow)]
    method: Cow<'a, str>,
    #[serde(borrow)]
    path: Cow<'a, str>,
    #[serde(borrow)]
    status: Cow<'a, str>,
    #[serde(borrow)]
    bytes: Cow<'a, str>,
    #[serde(borrow)]
    client_port: Cow<'a, str>,
    #[serde(borrow)]
    connection: Cow<'a, str>,
    #[serde(borrow)]
    request: Cow<'a, str>,
    #[serde(borrow)]
    tls: Cow<'a, str>,
    #[serde(borrow)]
    resumed: Cow<'a, str>,
    #[serde(borrow)]
    early_data: Cow<'a, str>,
    #[serde(borrow)]
    request_time: Cow<'a, str>,
    #[serde(borrow)]
    first_byte_time: Cow<'a, str>,
    #[serde(borrow)]
    upstream_connect_time: Cow<'a, str>,
    #[serde(borrow)]
    upstream_header_time: Cow<'a, str>,
    #[serde(borrow)]
    upstream_response_time: Cow<'a, str>,
    #[serde(borrow)]
    rtt: Cow<'a, str>,
}

impl Default for OurLine<'_> {
    fn default() -> Self {
        let none = Cow::Borrowed("");
        Self {
            firstbyte: none.clone(),
            time: none.clone(),
            host: none.clone(),
            port: none.clone(),
            protocol: none.clone(),
            method: none.clone(),
            path: none.clone(),
            status: none.clone(),
            bytes: none.clone(),
            client_port: none.clone(),
            connection: none.clone(),
            request: none.clone(),
            tls: none.clone(),
            resumed: none.clone(),
            early_data: none.clone(),
            request_time: none.clone(),
            first_byte_time: none.clone(),
            upstream_connect_time: none.clone(),
            upstream_header_time: none.clone(),
            upstream_response_time: none.clone(),
            rtt: none,
        }
    }
}

/// Parses a line that begins with a brace.
pub(super) fn parse(line: &str) -> Result<LoggedRequest, LogLineError> {
    let is_ours = line.starts_with("{\"firstbyte\":");
    let parsed = if is_ours { parse_ours(line) } else { parse_caddy(line) };
    parsed.or_else(|error| match error {
        // Apache writes bytes that are not text as \x and two digits, which is invalid in JSON.
        LogLineError::NotJson if is_ours && (line.contains("\\x") || line.contains("\\v")) => {
            parse_ours(&hexadecimal_escapes_as_json(line))
        }
        error => Err(error),
    })
}

fn parse_ours(line: &str) -> Result<LoggedRequest, LogLineError> {
    let line: OurLine<'_> = serde_json::from_str(line).map_err(not_read)?;
    match &*line.firstbyte {
        "nginx 1" => Ok(line.into_nginx()),
        "apache 1" => Ok(line.into_apache()),
        "" => Err(LogLineError::NotALog),
        other => Err(LogLineError::Version(other.chars().take(40).collect())),
    }
}

fn not_read(error: serde_json::Error) -> LogLineError {
    if error.is_data() { LogLineError::NotALog } else { LogLineError::NotJson }
}

impl OurLine<'_> {
    /// Fields that both servers write in the same way.
    fn common(&self, form: LogForm) -> LoggedRequest {
        let text = |text: &str| said(text).map(str::to_owned);
        LoggedRequest {
            host: text(&self.host).map(|host| host.to_ascii_lowercase()),
            port: self.port.parse().ok(),
            protocol: protocol(&self.protocol),
            method: text(&self.method),
            path: text(&self.path).map(|path| without_query(&path)),
            status: status(self.status.parse().ok()),
            bytes: self.bytes.parse().ok(),
            client_port: self.client_port.parse().ok(),
            connection: self.connection.parse().ok(),
            tls: text(&self.tls),
            ..LoggedRequest::unknown(form)
        }
    }

    fn into_nginx(self) -> LoggedRequest {
        let has_tls = said(&self.tls).is_some();
        LoggedRequest {
            logged: seconds(&self.time),
            number: self.request.parse().ok(),
            resumed: match &*self.resumed {
                "r" => Some(true),
                "." => Some(false),
                _ => None,
            }
            .filter(|_| has_tls),
            early_data: match &*self.early_data {
                "01" => Some(true),
                "0" => Some(false),
                _ => None,
            }
            .filter(|_| has_tls),
            request_time: seconds(&self.request_time)
                .map(|value| LoggedTime { value, step: MILLISECOND }),
            upstream_connect: of_upstreams(&self.upstream_connect_time),
            upstream_header: of_upstreams(&self.upstream_header_time),
            upstream_response: of_upstreams(&self.upstream_response_time),
            rtt: self.rtt.parse::<u64>().ok().filter(|us| *us > 0).map(Duration::from_micros),
            ..self.common(LogForm::Nginx)
        }
    }

    fn into_apache(self) -> LoggedRequest {
        let common = self.common(LogForm::Apache);
        let time = |text: &str| {
            let value = Duration::from_micros(text.parse().ok()?);
            Some(LoggedTime { value, step: MICROSECOND })
        };
        let logged = self.time.parse().ok().map(Duration::from_micros);
        // Over HTTP/2 Apache treats each request as the first on a connection of its own.
        let counted = common.protocol.is_some_and(|it| it.starts_with("HTTP/1"));
        let number = self.request.parse().ok().filter(|_| counted);
        LoggedRequest {
            logged: logged.filter(|at| at.as_secs() < LATEST_SECONDS),
            number: number.map(|before: u64| before.saturating_add(1)),
            resumed: match &*self.resumed {
                "Resumed" => Some(true),
                "Initial" => Some(false),
                _ => None,
            }
            .filter(|_| common.tls.is_some()),
            request_time: time(&self.request_time),
            first_byte: time(&self.first_byte_time),
            ..common
        }
    }
}

/// The status, if it is a valid code.
pub(super) fn status(status: Option<u16>) -> Option<u16> {
    status.filter(|status| (100..1000).contains(status))
}

/// Sum of nginx's times of the upstreams that were tried, separated by commas and colons.
///
/// Absent if one of them is unknown.
fn of_upstreams(text: &str) -> Option<LoggedTime> {
    let mut sum = LoggedTime { value: Duration::ZERO, step: Duration::ZERO };
    for time in text.split([',', ':']) {
        sum.value = sum.value.checked_add(seconds(time.trim())?)?;
        sum.step += MILLISECOND;
    }
    Some(sum)
}

/// Rewrites Apache's `\xHH` and `\v` as JSON escapes.
fn hexadecimal_escapes_as_json(line: &str) -> String {
    let mut out = String::with_capacity(line.len() + 16);
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        out.push(c);
        if c != '\\' {
            continue;
        }
        match chars.next() {
            Some('x') => out.push_str("u00"),
            Some('v') => out.push_str("u000b"),
            Some(other) => out.push(other),
            None => {}
        }
    }
    out
}

/// Members of Caddy's line that are used.
#[derive(Deserialize)]
struct CaddyLine {
    #[serde(default)]
    msg: Option<String>,
    #[serde(default)]
    ts: Value,
    #[serde(default)]
    duration: Value,
    #[serde(default)]
    size: Option<u64>,
    status: Option<u16>,
    request: CaddyRequest,
}

#[derive(Deserialize)]
struct CaddyRequest {
    /// The port as text; until Caddy 2.4, address and port.
    #[serde(default, alias = "remote_addr")]
    remote_port: Option<String>,
    proto: String,
    #[serde(default)]
    method: Option<String>,
    #[serde(default)]
    host: Option<String>,
    #[serde(default)]
    uri: Option<String>,
    #[serde(default)]
    tls: Option<CaddyTls>,
}

#[derive(Deserialize)]
struct CaddyTls {
    #[serde(default)]
    resumed: Option<bool>,
    #[serde(default)]
    version: Option<u32>,
}

fn parse_caddy(line: &str) -> Result<LoggedRequest, LogLineError> {
    let CaddyLine { msg, ts, duration, size, status: code, request } =
        serde_json::from_str(line).map_err(not_read)?;
    // Caddy's error log has the same members.
    if msg.is_some_and(|msg| msg != "handled request") {
        return Err(LogLineError::NotALog);
    }
    // Version numbers of RFC 8446 §4.2.1. Over HTTP/3 Caddy 2.6 writes zero, since it does not know the version.
    let tls = request.tls.as_ref().and_then(|tls| match tls.version? {
        0 => None,
        0x0303 => Some("TLSv1.2".to_owned()),
        0x0304 => Some("TLSv1.3".to_owned()),
        other => Some(format!("{other:#06x}")),
    });
    let resumed = request.tls.as_ref().and_then(|it| it.resumed).filter(|_| tls.is_some());
    let host = request.host.as_deref().and_then(said);
    let (host, port) = host.map_or((None, None), |host| {
        let (name, port) = host_and_port(host);
        (Some(name), port)
    });
    let client_port = request.remote_port.as_deref();
    // As precise as a double-precision number of seconds allows.
    let time = |value: &Value| Duration::try_from_secs_f64(value.as_f64()?).ok();
    let request_time = time(&duration).map(|value| LoggedTime { value, step: NANOSECOND });
    Ok(LoggedRequest {
        logged: time(&ts).filter(|at| at.as_secs() < LATEST_SECONDS),
        host,
        port,
        protocol: protocol(&request.proto),
        method: request.method,
        path: request.uri.map(|uri| without_query(&uri)),
        status: status(code),
        bytes: size,
        client_port: client_port.and_then(|it| it.rsplit(':').next()?.parse().ok()),
        tls,
        resumed,
        request_time,
        ..LoggedRequest::unknown(LogForm::Caddy)
    })
}

const NANOSECOND: Duration = Duration::from_nanos(1);

/// Splits a Host field into name and port.
pub(super) fn host_and_port(host: &str) -> (String, Option<u16>) {
    let split =
        host.rsplit_once(':').filter(|(name, _)| !name.contains(':') || name.ends_with(']'));
    let split = split.and_then(|(name, port)| Some((name, Some(port.parse().ok()?))));
    let (name, port) = split.unwrap_or((host, None));
    (name.to_ascii_lowercase(), port)
}
