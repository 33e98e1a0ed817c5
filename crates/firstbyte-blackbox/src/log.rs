//! What a probe says of itself, a line each (logfmt), for `debug=true` and `/logs`.

use firstbyte_clock::Realtime;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The lines of one probe.
#[derive(Debug)]
pub(crate) struct ProbeLog {
    about: String,
    lines: String,
}

/// The most bytes of a log: a server may send many lines.
const MOST_BYTES: usize = 64 * 1024;

impl ProbeLog {
    /// Of a probe of `target` by `module`.
    pub(crate) fn new(module: &str, target: &str) -> Self {
        let about = format!(" module={} target={}", quoted(module), quoted(&shown(target)));
        Self { about, lines: String::new() }
    }

    /// Something that is to be expected.
    pub(crate) fn debug(&mut self, message: &str, values: &[(&str, &str)]) {
        self.line("debug", message, values);
    }

    /// Something that fails the probe.
    pub(crate) fn error(&mut self, message: &str, values: &[(&str, &str)]) {
        self.line("error", message, values);
    }

    fn line(&mut self, level: &str, message: &str, values: &[(&str, &str)]) {
        if self.lines.len() > MOST_BYTES {
            return;
        }
        let now = i128::from(Realtime::now().unix_nanos());
        let now = OffsetDateTime::from_unix_timestamp_nanos(now).ok();
        let now = now.and_then(|now| now.format(&Rfc3339).ok()).unwrap_or_default();
        self.lines += &format!("time={now} level={level} msg={}{}", quoted(message), self.about);
        for (name, value) in values {
            self.lines += &format!(" {name}={}", quoted(value));
        }
        self.lines.push('\n');
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
