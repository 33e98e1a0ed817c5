//! Access logs: the lines that servers write for the requests they answer, and their parsing.
//!
//! nginx and the built-in server write one line per request, in the same format:
//! `time=1763701673.123 protocol=HTTP/2.0 tls=TLSv1.3 resumed=1 early=0 status=200 connection=7 path=/`.
//! Caddy writes its own JSON; [`Entry::parse`] accepts both.

use std::fmt;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;

/// A request, as logged by the server that answered it.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Time since 1970. nginx and Caddy log when the response had been sent, to the millisecond; the
    /// built-in server logs when it began to send it.
    pub time: Duration,
    /// `HTTP/1.1`, `HTTP/2.0`, `HTTP/3.0`.
    pub protocol: String,
    /// `TLSv1.2` or `TLSv1.3`; absent without TLS, and if Caddy does not know it (HTTP/3).
    pub tls: Option<String>,
    /// Whether the connection's session was resumed; absent if `tls` is.
    pub resumed: Option<bool>,
    /// Whether the request came in early data; absent if the server does not log it (Caddy).
    pub early: Option<bool>,
    /// Status code of the response.
    pub status: u16,
    /// The server's number for the connection; absent if the server does not log it (Caddy).
    pub connection: Option<u64>,
    /// The requested path.
    pub path: String,
}

impl Entry {
    /// Parses a line of a log; `None` if it is not a log entry.
    pub fn parse(line: &str) -> Option<Self> {
        if line.starts_with('{') { Self::parse_caddy(line) } else { Self::parse_pairs(line) }
    }

    /// Reads all requests logged so far. Skips a last line that is still being written.
    ///
    /// # Errors
    /// The file cannot be read, or one of its lines is not a log entry.
    pub fn read_all(log: &Path) -> io::Result<Vec<Self>> {
        let text = std::fs::read_to_string(log)?;
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let entry = |line: &str| {
            let strange = || format!("{}: not a line of an access log: {line}", log.display());
            Self::parse(line).ok_or_else(|| io::Error::other(strange()))
        };
        whole.lines().map(entry).collect()
    }

    fn parse_pairs(line: &str) -> Option<Self> {
        let (pairs, path) = line.split_once(" path=")?;
        let value = |name: &str| {
            let mut pairs = pairs.split(' ').filter_map(|pair| pair.split_once('='));
            pairs.find_map(|(key, value)| (key == name).then_some(value))
        };
        let flag = |name: &str| match value(name)? {
            "1" => Some(true),
            "0" => Some(false),
            _ => None,
        };
        let tls = value("tls").filter(|tls| !tls.is_empty() && *tls != "-");
        Some(Self {
            time: seconds(value("time")?.parse().ok()?)?,
            protocol: value("protocol")?.to_owned(),
            tls: tls.map(str::to_owned),
            resumed: tls.and_then(|_| flag("resumed")),
            early: tls.and_then(|_| flag("early")),
            status: value("status")?.parse().ok()?,
            connection: Some(value("connection")?.parse().ok()?),
            path: path.to_owned(),
        })
    }

    fn parse_caddy(line: &str) -> Option<Self> {
        let line: Value = serde_json::from_str(line).ok()?;
        let request = line.get("request")?;
        let tls = request.get("tls");
        // Caddy logs TLS versions as numbers (RFC 8446 §4.2.1).
        let version = tls.and_then(|tls| tls.get("version")).and_then(Value::as_u64);
        // Over HTTP/3 Caddy 2.6 logs 0, because it does not know the version.
        let version = version.filter(|version| *version != 0);
        Some(Self {
            time: seconds(line.get("ts")?.as_f64()?)?,
            protocol: request.get("proto")?.as_str()?.to_owned(),
            tls: version.map(|version| match version {
                0x0303 => "TLSv1.2".to_owned(),
                0x0304 => "TLSv1.3".to_owned(),
                other => format!("{other:#06x}"),
            }),
            resumed: version.and_then(|_| tls?.get("resumed")?.as_bool()),
            early: None,
            status: u16::try_from(line.get("status")?.as_u64()?).ok()?,
            connection: None,
            path: request.get("uri")?.as_str()?.to_owned(),
        })
    }
}

fn seconds(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds).ok()
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flag = |flag: Option<bool>| flag.map_or("-", |flag| if flag { "1" } else { "0" });
        write!(
            f,
            "time={}.{:06} protocol={} tls={} resumed={} early={} status={} connection={} path={}",
            self.time.as_secs(),
            self.time.subsec_micros(),
            self.protocol,
            self.tls.as_deref().unwrap_or("-"),
            flag(self.resumed),
            flag(self.early),
            self.status,
            self.connection.unwrap_or_default(),
            self.path
        )
    }
}

/// Where a server logs its requests. Clones write to the same place.
#[derive(Clone)]
pub struct AccessLog {
    to: Arc<Mutex<Box<dyn Write + Send>>>,
}

impl AccessLog {
    /// Writes lines to `to` and flushes after each.
    pub fn new(to: impl Write + Send + 'static) -> Self {
        Self { to: Arc::new(Mutex::new(Box::new(to))) }
    }

    pub(crate) fn write(&self, entry: &Entry) {
        let mut to = self.to.lock().unwrap_or_else(PoisonError::into_inner);
        // A log that is full or gone must not stop the server.
        let _ = writeln!(to, "{entry}").and_then(|()| to.flush());
    }
}

impl fmt::Debug for AccessLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessLog").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_survives_writing_and_reading() {
        let entry = Entry {
            time: Duration::from_micros(1_763_701_673_123_456),
            protocol: "HTTP/3.0".to_owned(),
            tls: Some("TLSv1.3".to_owned()),
            resumed: Some(true),
            early: Some(false),
            status: 200,
            connection: Some(7),
            path: "/a?path=b c".to_owned(),
        };
        let read = Entry::parse(&entry.to_string()).unwrap();
        assert_eq!(read, Entry { time: read.time, ..entry.clone() });
        assert_eq!(read.time.as_millis(), entry.time.as_millis());
        let plain = Entry { tls: None, resumed: None, early: None, ..entry };
        let read = Entry::parse(&plain.to_string()).unwrap();
        assert_eq!((read.tls, read.resumed, read.early), (None, None, None));
    }

    #[test]
    fn caddys_json_is_understood() {
        let line = r#"{"level":"info","ts":1763701673.25,"logger":"http.log.access.log0","request":{"proto":"HTTP/3.0","method":"GET","uri":"/x","tls":{"resumed":true,"version":772,"cipher_suite":4865}},"status":200}"#;
        let entry = Entry::parse(line).unwrap();
        assert_eq!((entry.protocol.as_str(), entry.path.as_str()), ("HTTP/3.0", "/x"));
        assert_eq!((entry.tls.as_deref(), entry.resumed), (Some("TLSv1.3"), Some(true)));
        assert_eq!((entry.early, entry.status), (None, 200));
        assert_eq!(entry.time, Duration::from_millis(1_763_701_673_250));
        let unknown = Entry::parse(&line.replace("772", "0")).unwrap();
        assert_eq!((unknown.tls, unknown.resumed), (None, None));
    }

    #[test]
    fn other_lines_are_not_entries() {
        for line in ["", "{}", "GET / 200", "time=x protocol=HTTP/1.1 path=/"] {
            assert_eq!(Entry::parse(line), None, "{line}");
        }
    }
}
