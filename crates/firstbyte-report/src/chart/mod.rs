//! Pictures of a comparison as SVG: one file per chart, one renderer for page, file and PNG.
//!
//! Input: a [`Study`], reduced. Output: [`Figure`]s of self-contained [`Panel`]s. The page arranges panels to fit
//! its width; [`Figure::svg`] puts them on one sheet. Elements have classes instead of colours, which come from
//! `dress`, for light and dark.

mod area;
mod audience;
mod averages;
mod axis;
mod bars;
pub(crate) mod captured;
pub(crate) mod changed;
mod differences;
mod dress;
mod ecdf;
mod figure;
mod monitor_period;
mod outlines;
mod page_load;
mod png;
mod sequence;
mod story;
#[cfg(test)]
mod tests;
mod waterfall;
mod ways;

pub use audience::audience;
pub use averages::averages;
pub use figure::{Figure, Panel};
pub use monitor_period::monitor_period;
pub use page_load::{page_load, page_load_laid_out};
pub use png::PngError;
pub use sequence::sequences;

pub(crate) use axis::ticks;
pub(crate) use dress::{rules, series_fills};
pub(crate) use figure::Key;
pub(crate) use waterfall::figure as waterfall_figure;
pub(crate) use ways::figure as ways;

use std::time::Duration;

use firstbyte_core::run::Metric;

use super::Style;
use super::study::{Digest, Grouping, PHASES, Study};
use super::units::Scale;

/// The pictures of `study`, in the order in which a page shows them.
pub fn figures(study: &Study<'_>) -> Vec<Figure> {
    let digest = Digest::from_rows(study.cells.len(), study.rows);
    draw(study, &digest, &Grouping::from_study(study))
}

/// The same as [`figures`], for data that has already been reduced.
pub(crate) fn draw(study: &Study<'_>, digest: &Digest, grouping: &Grouping) -> Vec<Figure> {
    let told = study.story.map(story::figure);
    let figures = [
        area::figure(digest, grouping),
        bars::figure(digest, grouping),
        ecdf::figure(digest, grouping),
        differences::figure(study, grouping),
        waterfall::figure(study, grouping),
        sequence::figure(study, grouping),
    ];
    told.into_iter()
        .chain(figures)
        .filter(|f| f.rows.iter().any(|r| !r.panels.is_empty()))
        .collect()
}

/// Width of a panel: three fit in a row of a page.
pub(crate) const WIDTH: f64 = 400.0;

/// Width of a panel if there are many: four fit in a row.
const NARROW: f64 = 300.0;

/// Width of a panel, given their number.
pub(crate) const fn panel_width(panels: usize) -> f64 {
    if panels > 3 { NARROW } else { WIDTH }
}

/// Sizes of text.
pub(crate) const TITLE: f64 = 13.0;
pub(crate) const SMALL: f64 = 11.5;

/// Label of a phase in a picture.
pub(crate) const fn phase_label(phase: Metric) -> &'static str {
    match phase {
        Metric::Resolve => "DNS",
        Metric::Connect => "TCP",
        Metric::Tls => "TLS",
        Metric::Quic => "QUIC",
        Metric::Send => "send",
        Metric::Wait => "wait",
        Metric::Receive => "receive",
        Metric::Setup => "set-up",
        Metric::Ttfb => "first byte",
        Metric::Total => "total",
    }
}

/// Title of a metric above a picture.
pub(crate) const fn metric_title(metric: Metric) -> &'static str {
    match metric {
        Metric::Resolve => "Name lookup",
        Metric::Connect => "TCP handshake",
        Metric::Tls => "TLS handshake",
        Metric::Quic => "QUIC handshake",
        Metric::Setup => "Connection set-up",
        Metric::Send => "Sending the request",
        Metric::Wait => "Wait for the first byte",
        Metric::Receive => "Receiving the response",
        Metric::Ttfb => "Time to first byte",
        Metric::Total => "Total time",
    }
}

/// CSS class of the phase with this index in [`PHASES`].
pub(crate) fn phase_class(index: usize) -> String {
    format!("p{index}")
}

/// Keys for the phases that took any time.
pub(crate) fn phase_keys(took: impl Fn(usize) -> bool) -> Vec<Key> {
    let shown = (0..PHASES.len()).filter(|i| took(*i));
    shown.map(|i| Key::area(&phase_class(i), phase_label(PHASES[i]))).collect()
}

/// A time with its unit, with three or four digits.
pub(crate) fn time(ns: f64) -> String {
    let duration = Duration::from_nanos(ns.abs().round() as u64);
    let sign = if ns < 0.0 { "−" } else { "" };
    format!("{sign}{}", Scale::for_largest(duration).time(duration, &Style::default()))
}

/// `value` with at most this many decimals, without trailing zeros.
pub(crate) fn round(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
