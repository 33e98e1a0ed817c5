//! The log of a probe, one line per message, for `debug=true`, `/logs` and further readers.

use firstbyte_clock::Realtime;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Severity of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Expected behaviour.
    Debug,
    /// Useful information.
    #[default]
    Info,
    /// Worth investigating.
    Warn,
    /// A failure.
    Error,
}

impl LogLevel {
    /// Its name on the command line and in lines.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }
}

/// Format of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// `time=… level=error msg="Probe failed" module=http_2xx`
    #[default]
    Logfmt,
    /// A JSON object of strings, with the same names.
    Json,
}

impl LogFormat {
    /// Formats a line, including its line feed.
    pub fn line(self, level: LogLevel, message: &str, values: &[(&str, &str)]) -> String {
        let now = i128::from(Realtime::now().unix_nanos());
        let now = OffsetDateTime::from_unix_timestamp_nanos(now).ok();
        let now = now.and_then(|now| now.format(&Rfc3339).ok()).unwrap_or_default();
        let first = [("time", now.as_str()), ("level", level.name()), ("msg", message)];
        let pairs = first.iter().chain(values);
        match self {
            Self::Logfmt => {
                let pairs = pairs.map(|(name, value)| format!("{name}={}", quoted(value)));
                pairs.collect::<Vec<_>>().join(" ") + "\n"
            }
            Self::Json => {
                let pairs = pairs.map(|(name, value)| format!("{}:{}", json(name), json(value)));
                format!("{{{}}}\n", pairs.collect::<Vec<_>>().join(","))
            }
        }
    }
}

/// What happens with the log lines of probes. `debug=true` and `/logs` always show all lines.
#[derive(Clone, Copy, Debug)]
pub struct ProbeLogOptions {
    /// Lowest level that is written.
    pub level: LogLevel,
    /// Format of lines, everywhere.
    pub format: LogFormat,
    /// Writes the lines of a probe when it is over: one or more, each with its line feed.
    pub write: fn(&str),
}

impl Default for ProbeLogOptions {
    fn default() -> Self {
        Self { level: LogLevel::default(), format: LogFormat::default(), write: |_| () }
    }
}

#[derive(Debug)]
pub(crate) struct ProbeLog {
    module: String,
    target: String,
    options: ProbeLogOptions,
    lines: String,
    /// The lines that are also written.
    selected: String,
}

/// Size limit of a log, in bytes: a server may send many lines.
const MOST_BYTES: usize = 64 * 1024;

impl ProbeLog {
    /// The log of a probe of `target` by `module`.
    pub(crate) fn new(module: &str, target: &str, options: ProbeLogOptions) -> Self {
        let (module, target) = (module.to_owned(), shown(target));
        Self { module, target, options, lines: String::new(), selected: String::new() }
    }

    /// Logs expected behaviour.
    pub(crate) fn debug(&mut self, message: &str, values: &[(&str, &str)]) {
        self.line(LogLevel::Debug, message, values);
    }

    /// Logs what makes the probe fail.
    pub(crate) fn error(&mut self, message: &str, values: &[(&str, &str)]) {
        self.line(LogLevel::Error, message, values);
    }

    fn line(&mut self, level: LogLevel, message: &str, values: &[(&str, &str)]) {
        if self.lines.len() > MOST_BYTES {
            return;
        }
        let about = [("module", self.module.as_str()), ("target", self.target.as_str())];
        let values: Vec<(&str, &str)> = about.into_iter().chain(values.iter().copied()).collect();
        let line = self.options.format.line(level, message, &values);
        if level >= self.options.level {
            self.selected += &line;
        }
        self.lines += &line;
    }

    /// Writes the lines selected by level.
    pub(crate) fn write(&self) {
        if !self.selected.is_empty() {
            (self.options.write)(&self.selected);
        }
    }

    /// All lines.
    pub(crate) fn text(&self) -> &str {
        &self.lines
    }
}

/// A target without credentials and other secrets.
pub(crate) fn shown(target: &str) -> String {
    if target.contains("://") || target.contains('@') || target.contains('?') {
        return firstbyte_core::shown_url::shown_url(target);
    }
    target.to_owned()
}

fn quoted(value: &str) -> String {
    let is_plain = !value.is_empty()
        && value.chars().all(|c| c.is_ascii_graphic() && !matches!(c, '"' | '=' | '\\'));
    if is_plain { value.to_owned() } else { format!("{value:?}") }
}

/// Encodes a JSON string (RFC 8259 §7).
fn json(value: &str) -> String {
    let mut text = String::from("\"");
    for c in value.chars() {
        match c {
            '"' | '\\' => text.extend(['\\', c]),
            '\n' => text += "\\n",
            '\r' => text += "\\r",
            '\t' => text += "\\t",
            c if c.is_control() => text += &format!("\\u{:04x}", u32::from(c)),
            c => text.push(c),
        }
    }
    text + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_logfmt_or_json() {
        let values = [("module", "a"), ("err", "not \"x\"\n")];
        let end = |format: LogFormat| {
            let line = format.line(LogLevel::Error, "Probe failed", &values);
            line.split_once("level").unwrap().1.to_owned()
        };
        let logfmt = "=error msg=\"Probe failed\" module=a err=\"not \\\"x\\\"\\n\"\n";
        assert_eq!(end(LogFormat::Logfmt), logfmt);
        let json = "\":\"error\",\"msg\":\"Probe failed\",\"module\":\"a\",\
                    \"err\":\"not \\\"x\\\"\\n\"}\n";
        assert_eq!(end(LogFormat::Json), json);
    }

    #[test]
    fn a_level_selects_what_is_written_and_not_what_is_kept() {
        for (level, selected) in [(LogLevel::Debug, 2), (LogLevel::Info, 1), (LogLevel::Error, 1)] {
            let options = ProbeLogOptions { level, ..ProbeLogOptions::default() };
            let mut log = ProbeLog::new("a", "https://me:secret@a.test/?token=x", options);
            log.debug("Beginning probe", &[]);
            log.error("Probe failed", &[]);
            assert_eq!((log.text().lines().count(), log.selected.lines().count()), (2, selected));
            assert!(!log.text().contains("secret") && !log.text().contains("token=x"));
        }
    }
}
