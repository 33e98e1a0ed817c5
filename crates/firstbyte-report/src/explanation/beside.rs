//! Another client's times compared with ours, phase by phase.

use std::fmt::Write as _;
use std::time::Duration;

use firstbyte_core::run::Metric;
use firstbyte_explain::{Beside, BesideTime};
use serde_json::{Value, json};

use crate::chart::metric_title;
use crate::style::{Ink, Style, wrap};
use crate::svg::escape;
use crate::units::Scale;

/// Column widths of the terminal's table: name and figure.
const NAME: usize = 33;

/// The comparison for a terminal.
pub(super) fn text(beside: &Beside, style: &Style) -> Vec<String> {
    let table = Table::fill(beside, style);
    let heading = format!("against {}, {}", style.safe(&name(beside)), table.unit);
    let [ours, other, more] = table.heads.each_ref().map(|head| style.safe(head));
    let interval =
        if table.rows.iter().any(|row| !row.range.is_empty()) { "95 % interval" } else { "" };
    let heading = format!("{heading:<NAME$} {ours:>10} {other:>10} {more:>8}  {interval}");
    let mut lines = vec![style.paint(Ink::Faint, &heading)];
    for row in &table.rows {
        let [ours, other, more] = &row.figures;
        let line = format!("{:<NAME$} {ours:>10} {other:>10} {more:>8}  {}", row.label, row.range);
        lines.push(if row.whole { style.paint(Ink::Strong, &line) } else { line });
    }
    let words: Vec<String> = notes(beside).split(' ').map(|word| style.safe(word)).collect();
    let notes = wrap("", &words, style.columns());
    lines.extend(notes.into_iter().map(|line| style.paint(Ink::Faint, &line)));
    lines
}

/// The comparison for the page.
pub(super) fn html(html: &mut String, beside: &Beside) {
    let table = Table::fill(beside, &Style::default());
    let [ours, other, more] = table.heads.each_ref().map(|head| escape(head));
    let _ = write!(
        html,
        "<section id=\"beside\" aria-labelledby=\"beside-h\">\n\
         <h2 id=\"beside-h\">Compared with {}</h2>\n\
         <div class=\"wide\" tabindex=\"0\" role=\"region\" aria-labelledby=\"beside-h\"><table>\n\
         <thead><tr><th scope=\"col\">{}</th><th scope=\"col\">{ours}</th><th \
         scope=\"col\">{other}</th><th scope=\"col\">{more}</th><th scope=\"col\">95 % \
         interval</th></tr></thead>\n\
         <tbody>\n",
        escape(&name(beside)),
        table.unit,
    );
    for row in &table.rows {
        let [ours, other, more] = &row.figures;
        let (open, close) = if row.whole { ("<strong>", "</strong>") } else { ("", "") };
        let _ = writeln!(
            html,
            "<tr><th scope=\"row\">{open}{}{close}</th><td>{ours}</td><td>{other}</td>\
             <td>{more}</td><td>{}</td></tr>",
            row.label, row.range
        );
    }
    let notes = escape(&notes(beside));
    let _ = writeln!(html, "</tbody></table></div>\n<p class=\"note\">{notes}</p>\n</section>");
}

/// The comparison as a member of the explanation's JSON.
pub(super) fn json(beside: &Beside) -> Value {
    let times: Vec<Value> = beside
        .times
        .iter()
        .map(|time| {
            let interval = time.difference.interval.map(|i| [i.low.round(), i.high.round()]);
            json!({
                "metric": time.metric.name(),
                "rounds": time.rounds,
                "firstbyte_ns": time.ours.round(),
                "client_ns": time.other.round(),
                "more_ns": time.difference.value.round(),
                "more_interval_ns": interval,
            })
        })
        .collect();
    let unlike: Vec<Value> = beside
        .unlike
        .iter()
        .map(|u| json!({ "what": u.what, "firstbyte": u.ours, "client": u.other }))
        .collect();
    json!({
        "client": {
            "name": beside.client.name,
            "version": beside.client.version,
            "tls_library": beside.client.tls_library,
        },
        "asked": beside.asked,
        "verified": beside.connections,
        "times": times,
        "unlike": unlike,
    })
}

/// The client's name with its version.
fn name(beside: &Beside) -> String {
    match &beside.client.version {
        Some(version) => format!("{} {version}", beside.client.name),
        None => beside.client.name.clone(),
    }
}

/// Figures as text, in one scale.
struct Table {
    unit: &'static str,
    heads: [String; 3],
    rows: Vec<Row>,
}

struct Row {
    label: &'static str,
    figures: [String; 3],
    range: String,
    /// Whether this is the total.
    whole: bool,
}

impl Table {
    fn fill(beside: &Beside, style: &Style) -> Self {
        let largest = beside.times.iter().map(|time| time.ours.max(time.other)).fold(0.0, f64::max);
        let scale = Scale::for_largest(Duration::from_nanos(largest as u64));
        let row = |time: &BesideTime| {
            let more = |ns: f64| signed(ns, scale, style);
            let plain = |ns: f64| scale.time_figure(Duration::from_nanos(ns.max(0.0) as u64));
            let range = time.difference.interval.map_or_else(String::new, |i| {
                format!("{} {} {}", more(i.low), style.glyph("…", "to"), more(i.high))
            });
            Row {
                label: metric_title(time.metric),
                figures: [plain(time.ours), plain(time.other), more(time.difference.value)],
                range,
                whole: time.metric == Metric::Total,
            }
        };
        Self {
            unit: scale.name(style),
            heads: ["firstbyte".into(), beside.client.name.clone(), "more".into()],
            rows: beside.times.iter().map(row).collect(),
        }
    }
}

fn signed(ns: f64, scale: Scale, style: &Style) -> String {
    let time = Duration::from_nanos(ns.abs() as u64);
    let sign = match ns {
        _ if scale.steps(time) == 0 => "",
        ns if ns < 0.0 => style.glyph("−", "-"),
        _ => "+",
    };
    format!("{sign}{}", scale.time_figure(time))
}

/// Notes on how reliable the comparison is.
fn notes(beside: &Beside) -> String {
    let name = &beside.client.name;
    let mut notes = Vec::new();
    if beside.connections < beside.asked {
        notes.push(format!("{} of {} connections count.", beside.connections, beside.asked));
    }
    if beside.unlike.is_empty() {
        notes.push(format!(
            "As far as both report, they connect alike: the additional time is \
                           {name}'s own."
        ));
    } else {
        let unlike: Vec<String> = beside
            .unlike
            .iter()
            .map(|u| format!("{} {} (firstbyte: {})", u.what, u.other, u.ours))
            .collect();
        notes.push(format!(
            "They connect differently: {}. The additional time is not only {name}'s own.",
            unlike.join(", ")
        ));
    }
    notes.join(" ")
}
