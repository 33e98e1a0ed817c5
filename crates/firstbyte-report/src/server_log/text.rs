//! A server's log for the terminal: requests by common properties, their outcomes, and the slowest paths.

use std::collections::BTreeMap;
use std::time::Duration;

use firstbyte_core::stats::ExponentialHistogram;
use firstbyte_sources::server_log::{LogDimension, LogForm, LogGroup, LogShare, ServerLogSummary};

use crate::dates;
use crate::style::{Ink, Style, cut_middle, wrap};
use crate::units::{count, grouped};

/// Input of the text view.
#[derive(Debug)]
pub struct ServerLogReport<'a> {
    /// Name of the log.
    pub name: &'a str,
    /// Summary of the requests.
    pub summary: &'a ServerLogSummary,
    /// Lines that are not requests, by kind: number of the first one, and how many.
    pub skipped: &'a BTreeMap<String, (u64, u64)>,
    /// Number of groups to show.
    pub groups: usize,
    /// Number of paths to show.
    pub paths: usize,
}

/// A time of a group.
type Figure = fn(&LogGroup) -> Option<Duration>;

/// The log as text.
pub fn text(report: &ServerLogReport<'_>, style: &Style) -> String {
    let mut lines = head(report, style);
    if report.summary.all().requests > 0 {
        lines.push(String::new());
        lines.extend(groups(report, style));
        lines.push(String::new());
        lines.extend(shares(report.summary, style));
        if !report.summary.paths().is_empty() && report.paths > 0 {
            lines.push(String::new());
            lines.extend(paths(report, style));
        }
    }
    let missing = missing(report);
    if !missing.is_empty() {
        lines.push(String::new());
        for said in missing {
            lines.extend(wrap("not known  ", &words(&style.plain(&said)), style.columns()));
        }
    }
    let mut text = String::new();
    for line in lines {
        text += line.trim_end();
        text.push('\n');
    }
    text
}

fn head(report: &ServerLogReport<'_>, style: &Style) -> Vec<String> {
    let summary = report.summary;
    let dot = style.glyph(" · ", ", ");
    let name = style.safe(report.name);
    let forms: Vec<String> = summary.forms().keys().map(ToString::to_string).collect();
    let span = summary.span().and_then(|(first, last)| {
        let ns = |at: Duration| u64::try_from(at.as_nanos()).ok();
        let lasted = print_span(last.saturating_sub(first));
        Some(format!("{lasted} from {}", dates::minute(ns(first)?)?))
    });
    let right = [forms.join(" + ")].into_iter().filter(|it| !it.is_empty()).chain(span);
    let right = right.collect::<Vec<_>>().join(dot);
    let used = name.chars().count() + right.chars().count();
    let mut lines = if used + 2 <= style.columns() {
        let gap = " ".repeat(style.columns() - used);
        vec![format!("{}{gap}{right}", style.paint(Ink::Strong, &name))]
    } else {
        vec![style.paint(Ink::Strong, &name), right]
    };
    let mut said = count(summary.all().requests, "request");
    let (hosts, or_more) = summary.hosts();
    if hosts > 0 {
        let or_more = if or_more { " or more" } else { "" };
        said += &format!(" to {}{or_more}", count(hosts as u64, "host"));
    }
    let LogShare { of, yes } = summary.first_requests();
    if of == summary.all().requests && of > 0 {
        said += &format!("{dot}{}", count(yes, "connection"));
    }
    if summary.coarsest_step() == Some(Duration::from_millis(1)) {
        said += &format!("{dot}times are whole milliseconds");
    }
    lines.extend(wrap("", &[said], style.columns()));
    lines
}

fn print_span(span: Duration) -> String {
    match span.as_secs() {
        0..120 => format!("{:.1} s", span.as_secs_f64()),
        120..7_200 => format!("{} min", span.as_secs() / 60),
        7_200..172_800 => format!("{} h", span.as_secs() / 3_600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

fn at(histogram: &ExponentialHistogram, q: f64) -> Option<Duration> {
    histogram.quantile(q).map(|quantile| quantile.value)
}

/// A time with no more digits than the log's clock supports.
fn figure(time: Option<Duration>, step: Duration) -> String {
    let Some(time) = time else { return String::new() };
    let ms = time.as_secs_f64() * 1e3;
    let whole_ms = step >= Duration::from_millis(1);
    match whole_ms {
        true if ms < 0.5 => "<1".to_owned(),
        false if ms < 0.0005 => "<0.001".to_owned(),
        false if ms < 10.0 => format!("{ms:.3}"),
        false if ms < 1_000.0 => format!("{ms:.1}"),
        _ => grouped(ms.round() as u64),
    }
}

/// Columns of times that the log contains.
fn columns(all: &LogGroup, is_coarse: bool) -> Vec<(&'static str, Figure, Duration)> {
    let (ms, us) = (Duration::from_millis(1), Duration::from_micros(1));
    let step = if is_coarse { ms } else { us };
    let columns: [(&'static str, Figure, Duration); 7] = [
        ("median", |g| at(&g.request_time, 0.5), step),
        ("p95", |g| at(&g.request_time, 0.95), step),
        ("first", |g| at(&g.first_byte, 0.5), us),
        ("conn.", |g| at(&g.upstream_connect, 0.5), step),
        ("header", |g| at(&g.upstream_header, 0.5), step),
        ("whole", |g| at(&g.upstream_response, 0.5), step),
        ("rtt", |g| at(&g.rtt, 0.5), us),
    ];
    columns.into_iter().filter(|(_, figure, _)| figure(all).is_some()).collect()
}

fn groups(report: &ServerLogReport<'_>, style: &Style) -> Vec<String> {
    let summary = report.summary;
    let is_coarse = summary.coarsest_step().is_some_and(|it| it >= Duration::from_millis(1));
    let columns = columns(summary.all(), is_coarse);
    let room = style.columns().saturating_sub(10 + columns.len() * 7);
    let row = |label: &str, requests: &str, cells: &[String]| {
        let cells: String = cells.iter().map(|cell| format!(" {cell:>6}")).collect();
        format!("{:<room$} {requests:>9}{cells}", cut_middle(label, room, style))
    };
    let headings: Vec<String> = columns.iter().map(|(name, ..)| (*name).to_owned()).collect();
    let mut lines = Vec::new();
    if !headings.is_empty() {
        lines.push(style.paint(Ink::Faint, &above(&columns, room)));
    }
    lines.push(style.paint(Ink::Faint, &row("", "requests", &headings)));
    let by = summary.dimensions();
    let is_nested = by.first() == Some(&LogDimension::Host) && by.len() > 1;
    let all = summary.groups();
    let mut host = None;
    for (key, group) in all.iter().take(report.groups) {
        let (first, rest) = if is_nested { key.split_at(1) } else { key.split_at(0) };
        if let [first] = first
            && host != Some(first)
        {
            host = Some(first);
            let shown = if first.is_empty() { "(host not known)" } else { first };
            let shown = cut_middle(&style.safe(shown), style.columns(), style);
            lines.push(style.paint(Ink::Strong, &shown));
        }
        let mut rest: Vec<String> =
            rest.iter().filter(|it| !it.is_empty()).map(|it| style.safe(it)).collect();
        // A row of undistinguished requests has the same name for each property.
        rest.dedup();
        let label = if rest.is_empty() { "(not known)".to_owned() } else { rest.join(" ") };
        let label = format!("{}{label}", if is_nested { "  " } else { "" });
        let cells = columns.iter().map(|(_, get, step)| figure(get(group), *step));
        lines.push(row(&label, &grouped(group.requests), &cells.collect::<Vec<_>>()));
    }
    if all.len() > report.groups {
        let left: u64 = all.iter().skip(report.groups).map(|(_, group)| group.requests).sum();
        let more = count((all.len() - report.groups) as u64, "more row");
        lines.push(style.paint(Ink::Faint, &format!("{more}, of {}", count(left, "request"))));
    }
    lines
}

/// Titles shared by several columns, above their headings.
fn above(columns: &[(&'static str, Figure, Duration)], room: usize) -> String {
    let mut line = " ".repeat(room + 10);
    let names: Vec<&str> = columns.iter().map(|(name, ..)| *name).collect();
    for (title, of) in [("request, ms", "median"), ("upstream, ms", "conn."), ("ms", "rtt")] {
        let Some(place) = names.iter().position(|name| *name == of) else { continue };
        let column = room + 10 + place * 7 + 1;
        // Align with the first column, or for the last column with its end.
        let column = if of == "rtt" { column + 4 } else { column };
        line = format!("{line:<column$}{title}");
    }
    line
}

fn shares(summary: &ServerLogSummary, style: &Style) -> Vec<String> {
    let mut lines = Vec::new();
    let dot = style.glyph(" · ", ", ");
    let percent = |share: LogShare| format!("{:.1} %", 100.0 * share.yes as f64 / share.of as f64);
    let (connections, requests) = (summary.resumed_connections(), summary.resumed());
    let mut sessions = Vec::new();
    if connections.of > 0 {
        let of = count(connections.of, "TLS connection");
        sessions.push(format!("{} of {of} resumed", percent(connections)));
    } else if requests.of > 0 {
        let of = count(requests.of, "request");
        sessions.push(format!("{} of {of} over resumed sessions", percent(requests)));
    }
    let early = summary.early_data();
    if early.of > 0 {
        let of = count(early.of, "request");
        sessions.push(format!("{} of {of} as early data", percent(early)));
    }
    let statuses = summary.statuses().iter();
    let statuses: Vec<String> =
        statuses.map(|(status, n)| format!("{status}: {}", grouped(*n))).collect();
    for (name, said) in [("sessions", sessions), ("statuses", statuses)] {
        if !said.is_empty() {
            let words: Vec<String> = said.join(dot).split(' ').map(str::to_owned).collect();
            lines.extend(wrap(&format!("{name:<10} "), &words, style.columns()));
        }
    }
    lines
}

fn paths(report: &ServerLogReport<'_>, style: &Style) -> Vec<String> {
    let summary = report.summary;
    let step = summary.coarsest_step().unwrap_or_default();
    let room = style.columns() - 4 * 10;
    let row = |name: &str, cells: [&str; 4]| {
        let cells: String = cells.iter().map(|cell| format!(" {cell:>9}")).collect();
        format!("{:<room$}{cells}", cut_middle(name, room, style))
    };
    let headings = ["requests", "median", "p95", "longest"];
    let mut lines = vec![style.paint(Ink::Faint, &row("slowest paths, ms", headings))];
    for (path, sum) in summary.paths().into_iter().take(report.paths) {
        let time = |time: Option<Duration>| figure(time, step);
        let longest = sum.request_time.ends().map(|(_, longest)| longest);
        let cells = [
            grouped(sum.requests),
            time(at(&sum.request_time, 0.5)),
            time(at(&sum.request_time, 0.95)),
            time(longest),
        ];
        lines.push(row(&style.safe(path), cells.each_ref().map(String::as_str)));
    }
    if summary.paths_left_out() {
        let said = "There were more paths than are kept: paths that were never slow were dropped.";
        lines.extend(wrap("", &words(said), style.columns()));
    }
    lines
}

/// Data that the log lacks, and how to add it.
fn missing(report: &ServerLogReport<'_>) -> Vec<String> {
    let summary = report.summary;
    let mut missing = Vec::new();
    if summary.forms().contains_key(&LogForm::Combined) {
        missing.push(
            "times, hosts, TLS: not in the combined format. `firstbyte log-format nginx` (or \
             apache) prints a log configuration that has them"
                .to_owned(),
        );
    }
    let only = |form| summary.forms().len() == 1 && summary.forms().contains_key(&form);
    if only(LogForm::Nginx) && summary.resumed().of > 0 && summary.early_data().of == 0 {
        missing.push(
            "early data: the line `set $firstbyte_early_data …` of `firstbyte log-format nginx` is \
             missing in every server { }"
                .to_owned(),
        );
    }
    if only(LogForm::Caddy) && summary.resumed().of < summary.all().requests {
        missing.push("TLS of requests over HTTP/3: Caddy does not log it".to_owned());
    }
    for (what, (first, n)) in report.skipped {
        let lines = count(*n, "line");
        missing.push(format!("{lines}, from line {first} on: {what}"));
    }
    missing
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

/// A log of these requests, for other modules' tests.
#[cfg(test)]
pub(super) fn summed<'a>(
    requests: impl IntoIterator<Item = &'a firstbyte_sources::server_log::LoggedRequest>,
) -> ServerLogSummary {
    let mut summary = ServerLogSummary::telling_apart(LogDimension::USUAL.to_vec());
    requests.into_iter().for_each(|request| summary.add(request));
    summary
}
