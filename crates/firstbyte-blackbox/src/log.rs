//! What a probe says of itself, a line each, for `debug=true`, `/logs` and whoever asks for more.

use firstbyte_clock::Realtime;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// How bad a line is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Something that is to be expected.
    Debug,
    /// Something to know.
    #[default]
    Info,
    /// Something to look into.
    Warn,
    /// Something that fails.
    Error,
}

impl LogLevel {
    /// As it is typed and written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }
}

/// How a line is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// `time=… level=error msg="Probe failed" module=http_2xx`
    #[default]
    Logfmt,
    /// An object of strings, with the same names.
    Json,
}

impl LogFormat {
    /// A line with its end.
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

/// What becomes of the lines of probes, but for `debug=true` and `/logs`, which have all of them.
#[derive(Clone, Copy, Debug)]
pub struct ProbeLogOptions {
    /// Lines from this level on are written.
    pub level: LogLevel,
    /// How lines look, everywhere.
    pub format: LogFormat,
    /// Writes the lines of a probe, after it: one or more, each with its end.
    pub write: fn(&str),
}

impl Default for ProbeLogOptions {
    fn default() -> Self {
        Self { level: LogLevel::default(), format: LogFormat::default(), write: |_| () }
    }
}

/// The lines of one probe.
#[derive(Debug)]
pub(crate) struct ProbeLog {
    module: String,
    target: String,
    options: ProbeLogOptions,
    lines: String,
    /// Those that are written too.
    selected: String,
}

/// The most bytes of a log: a server may send many lines.
const MOST_BYTES: usize = 64 * 1024;

impl ProbeLog {
    /// Of a probe of `target` by `module`.
    pub(crate) fn new(module: &str, target: &str, options: ProbeLogOptions) -> Self {
        let (module, target) = (module.to_owned(), shown(target));
        Self { module, target, options, lines: String::new(), selected: String::new() }
    }

    /// Something that is to be expected.
    pub(crate) fn debug(&mut self, message: &str, values: &[(&str, &str)]) {
        self.line(LogLevel::Debug, message, values);
    }

    /// Something that fails the probe.
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

    /// Writes the lines that the level selects.
    pub(crate) fn write(&self) {
        if !self.selected.is_empty() {
            (self.options.write)(&self.selected);
        }
    }

    /// All of them.
    pub(crate) fn text(&self) -> &str {
        &self.lines
    }
}

/// A target without what lets somebody in.
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

/// A string of JSON (RFC 8259 §7).
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
