//! The terminal: what it can show, and notes that are not results.

use std::io::{self, IsTerminal, Write};

use super::exit::{self, Problem};
use crate::plans::ColorChoice;
use firstbyte_report::Style;
use firstbyte_report::style::without_controls;
use firstbyte_report::warning::Warning;

/// How results are to look on standard output.
pub(super) fn style(color: ColorChoice) -> Style {
    style_on(&io::stdout(), color)
}

/// How they are to look on standard error, where standard output is taken by something else.
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
/// Without any, as in containers, terminals are taken to be of this century.
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

/// Tells something that is not a result, on standard error. Names of files, hosts and scenarios in it do nothing to the
/// terminal.
pub(super) fn note(text: &str) {
    let _ = writeln!(io::stderr(), "{}", Style::default().safe_lines(text));
}

/// Shows a result on standard error, where standard output is taken by something else.
pub(super) fn show_beside(text: &str) {
    let _ = writeln!(io::stderr(), "{}", without_controls(text));
}

/// Warns, on standard error, and says what to do about it.
pub(super) fn warn(warning: &Warning) {
    note(&format!("warning: {warning}"));
    if let Some(advice) = warning.advice() {
        note(&format!("hint: {advice}"));
    }
}

/// The runtime that measurements run on: one thread, so that nothing competes with them.
pub(super) fn runtime() -> Result<tokio::runtime::Runtime, Problem> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Problem::new(exit::USAGE, format!("could not start: {e}")))
}
