//! The terminal: its capabilities, and messages that are not results.

use std::io::{self, IsTerminal, Write};

use super::exit::{self, Problem};
use crate::plans::ColorChoice;
use firstbyte_report::Style;
use firstbyte_report::style::without_controls;
use firstbyte_report::warning::Warning;

/// Style of results on standard output.
pub(super) fn style(color: ColorChoice) -> Style {
    style_on(&io::stdout(), color)
}

/// Style of results on standard error, if standard output is used for something else.
pub(super) fn style_beside(color: ColorChoice) -> Style {
    style_on(&io::stderr(), color)
}

fn style_on(out: &impl IsTerminal, color: ColorChoice) -> Style {
    let color = match color {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        // no-color.org: set and not empty.
        ColorChoice::Auto => {
            out.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
        }
    };
    Style { color, width: width(), unicode: unicode() }
}

fn width() -> usize {
    let asked = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let real = || terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
    asked.or_else(real).unwrap_or(80).clamp(60, 200)
}

/// Whether the locale's character set is UTF-8 (POSIX: LC_ALL, LC_CTYPE, LANG in this order).
///
/// Without any of them, as in containers, UTF-8 is assumed.
fn unicode() -> bool {
    ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .filter_map(|name| std::env::var(name).ok())
        .find(|value| !value.is_empty())
        .is_none_or(|locale| {
            let locale = locale.to_ascii_lowercase();
            locale.contains("utf-8") || locale.contains("utf8") || locale.starts_with("c.utf")
        })
}

/// Prints a message that is not a result to standard error.
///
/// Control characters are escaped: names of files, hosts and scenarios must not affect the terminal.
pub(super) fn note(text: &str) {
    let _ = writeln!(io::stderr(), "{}", Style::default().safe_lines(text));
}

/// Prints a result to standard error, if standard output is used for something else.
pub(super) fn show_beside(text: &str) {
    let _ = writeln!(io::stderr(), "{}", without_controls(text));
}

/// Prints a warning and its advice to standard error.
pub(super) fn warn(warning: &Warning) {
    note(&format!("warning: {warning}"));
    if let Some(advice) = warning.advice() {
        note(&format!("hint: {advice}"));
    }
}

/// The runtime that measurements run on. It has one thread, so that nothing competes with them.
pub(super) fn runtime() -> Result<tokio::runtime::Runtime, Problem> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Problem::new(exit::USAGE, format!("could not start: {e}")))
}
