//! Prometheus' text format 0.0.4.

use std::fmt::Write as _;

use super::{Exposed, Exposition, Family, Kind, Owner, PREFIX, expose};
use crate::recording::{BOUNDS, Figures, ObservedTimes};

/// Content type of the format.
pub(crate) const TEXT_KIND: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Writes all figures.
pub(crate) fn text(exposed: &Exposed, figures: &Figures) -> String {
    let mut text = Text::default();
    expose(exposed, figures, &mut text);
    text.written
}

/// Text being written. Writing into a `String` cannot fail.
#[derive(Default)]
struct Text {
    written: String,
    /// Name of the current family.
    name: &'static str,
}

impl Text {
    fn line(&mut self, suffix: &str, owner: Owner<'_>, bound: Option<&str>, value: f64) {
        let _ = write!(self.written, "{PREFIX}{}{suffix}", self.name);
        let mut before = '{';
        let mut label = |written: &mut String, label: std::fmt::Arguments<'_>| {
            written.push(before);
            before = ',';
            let _ = written.write_fmt(label);
        };
        if let Some(labels) = owner.series {
            label(&mut self.written, format_args!("{}", labels.text));
        }
        for (name, value) in owner.more.into_iter().chain(bound.map(|bound| ("le", bound))) {
            label(&mut self.written, format_args!("{name}=\"{value}\""));
        }
        let end = if before == ',' { "} " } else { " " };
        let _ = writeln!(self.written, "{end}{value}");
    }
}

impl Exposition for Text {
    fn family(&mut self, Family { name, kind, help }: Family) {
        self.name = name;
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let _ =
            write!(self.written, "# HELP {PREFIX}{name} {help}\n# TYPE {PREFIX}{name} {kind}\n");
    }

    fn number(&mut self, owner: Owner<'_>, value: f64) {
        self.line("", owner, None, value);
    }

    fn histogram(&mut self, owner: Owner<'_>, times: &ObservedTimes) {
        let mut up_to = 0;
        for (bound, number) in BOUNDS.iter().zip(times.buckets) {
            up_to += number;
            self.line("_bucket", owner, Some(&bound.as_secs_f64().to_string()), up_to as f64);
        }
        self.line("_bucket", owner, Some("+Inf"), times.count() as f64);
        self.line("_sum", owner, None, times.sum_seconds());
        self.line("_count", owner, None, times.count() as f64);
    }
}
