//! The tables of the page: what the pictures show, in figures.

use std::fmt::Write as _;

use firstbyte_core::run::Metric;

use crate::report::chart::{metric_title, phase_label, time};
use crate::report::study::{Digest, Estimate, Grouping, PHASES, Study, SummaryView, quantile_name};
use crate::report::svg::escape;
use crate::report::units::grouped;

/// Quantiles of the total that have a column.
const COLUMNS: [f64; 5] = [0.5, 0.75, 0.9, 0.95, 0.99];

/// What is unknown.
const NOTHING: &str = "<td class=\"no\">–</td>";

fn open(html: &mut String, caption: &str, columns: &[&str]) {
    *html += "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"";
    *html += &escape(caption);
    let _ = write!(html, "\"><table>\n<caption>{}</caption>\n<thead><tr>", escape(caption));
    for column in columns {
        let _ = write!(html, "<th scope=\"col\">{}</th>", escape(column));
    }
    *html += "</tr></thead>\n<tbody>\n";
}

fn close(html: &mut String) {
    *html += "</tbody></table></div>\n";
}

fn head(html: &mut String, text: &str) {
    let _ = write!(html, "<tr><th scope=\"row\">{}</th>", escape(text));
}

fn figure(html: &mut String, text: &str) {
    let _ = write!(html, "<td>{text}</td>");
}

/// Medians of the phases and quantiles of the total, a line a cell.
pub(super) fn phases(html: &mut String, study: &Study<'_>, digest: &Digest, grouping: &Grouping) {
    let used: Vec<Metric> = PHASES
        .into_iter()
        .filter(|m| study.summaries.iter().any(|s| s.metric == *m && s.samples > 0))
        .collect();
    let mut columns = vec!["Way to connect", "n"];
    columns.extend(used.iter().map(|m| phase_label(*m)));
    columns.push("first byte");
    let quantiles = COLUMNS.map(|q| match quantile_name(q) {
        name if name == "median" => "total".to_owned(),
        name => format!("total {name}"),
    });
    columns.extend(quantiles.iter().map(String::as_str));
    open(html, "Medians of phases, quantiles of the total (95 % interval of its median)", &columns);
    for group in &grouping.groups {
        for cell in &group.cells {
            head(html, &study.cells[*cell].name());
            figure(html, &grouped(digest.cells.get(*cell).map_or(0, |s| s.proven)));
            let median = |m: Metric| study.summary(*cell, m).and_then(|s| s.quantile(0.5));
            for metric in used.iter().copied().chain([Metric::Ttfb]) {
                match median(metric) {
                    Some(estimate) => figure(html, &time(estimate.value)),
                    None => *html += NOTHING,
                }
            }
            let total = study.summary(*cell, Metric::Total);
            for q in COLUMNS {
                match total.and_then(|s: &SummaryView| s.quantile(q)) {
                    Some(e) if q == 0.5 => figure(html, &with_interval(&e)),
                    Some(e) => figure(html, &time(e.value)),
                    None => *html += NOTHING,
                }
            }
            *html += "</tr>\n";
        }
    }
    close(html);
}

/// "12.3 ms <i>[12.1 ms, 12.5 ms]</i>"
fn with_interval(estimate: &Estimate) -> String {
    match estimate.interval {
        Some(i) => {
            format!("{} <i>[{}, {}]</i>", time(estimate.value), time(i.low), time(i.high))
        }
        None => time(estimate.value),
    }
}

/// Every effect, a line a metric.
pub(super) fn differences(html: &mut String, study: &Study<'_>, grouping: &Grouping) {
    if study.effects.is_empty() {
        return;
    }
    let mut quantiles: Vec<f64> =
        study.effects.iter().flat_map(|e| &e.quantiles).map(|(q, _)| *q).collect();
    quantiles.sort_by(f64::total_cmp);
    quantiles.dedup_by(|a, b| (*a - *b).abs() < 1e-9);
    let names: Vec<String> = quantiles
        .iter()
        .map(|q| match quantile_name(*q) {
            name if name == "median" => "p50".into(),
            name => name,
        })
        .collect();
    let mut columns = vec!["Variant against base", "", "pairs", "median difference", "change"];
    columns.extend(names.iter().map(String::as_str));
    columns.push("verdict");
    open(html, "Differences, variant minus base, paired by round, with 95 % intervals", &columns);
    for effect in &study.effects {
        let label = |cell: usize| grouping.labels.get(cell).map_or("", String::as_str);
        let heading = grouping.of_cell(effect.variant).map_or("", |g| g.heading.as_str());
        let comma = if heading.is_empty() { "" } else { ": " };
        let name =
            format!("{heading}{comma}{} against {}", label(effect.variant), label(effect.base));
        head(html, &name);
        let _ = write!(html, "<td class=\"t\">{}</td>", metric_title(effect.metric));
        figure(html, &grouped(effect.pairs as u64));
        figure(html, &with_interval(&effect.difference));
        match effect.relative {
            Some(share) => {
                figure(html, &format!("{:+.1} %", share * 100.0).replace('-', "−"));
            }
            None => *html += NOTHING,
        }
        for wanted in &quantiles {
            match effect.quantiles.iter().find(|(q, _)| (q - wanted).abs() < 1e-9) {
                Some((_, estimate)) => figure(html, &with_interval(estimate)),
                None => *html += NOTHING,
            }
        }
        let verdict = effect.verdict;
        let _ = writeln!(
            html,
            "<td class=\"t {word}\"><span aria-hidden=\"true\">{}</span> {word}</td></tr>",
            verdict.symbol(),
            word = verdict.word()
        );
    }
    close(html);
}

/// What each cell proved of what it was asked.
pub(super) fn proofs(html: &mut String, study: &Study<'_>, digest: &Digest) {
    open(
        html,
        "What the samples proved",
        &["Way to connect", "asked", "proven", "share", "the rest"],
    );
    for (cell, series) in study.cells.iter().zip(&digest.cells) {
        head(html, &cell.name());
        figure(html, &grouped(series.asked));
        figure(html, &grouped(series.proven));
        match series.asked {
            0 => *html += NOTHING,
            asked => {
                figure(html, &format!("{:.1} %", series.proven as f64 * 100.0 / asked as f64));
            }
        }
        let _ = writeln!(html, "<td class=\"t\">{}</td></tr>", escape(&series.rest()));
    }
    close(html);
}

/// Why samples failed.
pub(super) fn failures(html: &mut String, study: &Study<'_>) {
    if study.failures.is_empty() {
        *html += "<p>No sample failed.</p>\n";
        return;
    }
    open(html, "Failures by cause", &["Way to connect", "count", "cause"]);
    for failure in &study.failures {
        head(html, &study.cells.get(failure.cell).map_or_else(String::new, |c| c.name()));
        figure(html, &grouped(failure.count));
        let _ = writeln!(html, "<td class=\"t\">{}</td></tr>", escape(&failure.cause));
    }
    close(html);
}
