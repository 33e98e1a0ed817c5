//! The tables of the page: the pictures' data as figures.

use std::fmt::Write as _;
use std::time::Duration;

use firstbyte_core::compare::{PercentileEffects, Role, describe_answers};
use firstbyte_core::run::Metric;

use crate::Style;
use crate::chart::{metric_title, phase_label};
use crate::study::{
    Digest, EffectView, Estimate, Grouping, PHASES, Study, SummaryView, TestimonyFigures,
    examined_figures, held, pair_names, quantile_name,
};
use crate::svg::escape;
use crate::units::{Scale, grouped};

/// Quantiles of the total that have a column.
const COLUMNS: [f64; 5] = [0.5, 0.75, 0.9, 0.95, 0.99];

/// Cell for an unknown value.
pub(crate) const NOTHING: &str = "<td class=\"no\">–</td>";

pub(crate) fn open(html: &mut String, caption: &str, columns: &[&str]) {
    *html += "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"";
    *html += &escape(caption);
    let _ = write!(
        html,
        "\"><table>\n<caption><span>{}</span></caption>\n<thead><tr>",
        escape(caption)
    );
    for column in columns {
        let _ = write!(html, "<th scope=\"col\">{}</th>", escape(column));
    }
    *html += "</tr></thead>\n<tbody>\n";
}

pub(crate) fn close(html: &mut String) {
    *html += "</tbody></table></div>\n";
}

pub(crate) fn head(html: &mut String, text: &str) {
    let _ = write!(html, "<tr><th scope=\"row\">{}</th>", escape(text));
}

pub(crate) fn figure(html: &mut String, text: &str) {
    let _ = write!(html, "<td>{text}</td>");
}

/// Medians of the phases and quantiles of the total, one line per cell and one unit per column.
pub(super) fn phases(html: &mut String, study: &Study<'_>, digest: &Digest, grouping: &Grouping) {
    let order = || grouping.groups.iter().flat_map(|g| g.cells.iter().copied());
    let measured = |m: &Metric| study.summaries.iter().any(|s| s.metric == *m && s.samples > 0);
    let columns: Vec<(Metric, f64)> = PHASES
        .into_iter()
        .chain([Metric::Ttfb])
        .filter(measured)
        .map(|m| (m, 0.5))
        .chain(COLUMNS.map(|q| (Metric::Total, q)))
        .collect();
    let value = |cell: usize, metric: Metric, q: f64| {
        study.summary(cell, metric).and_then(|s: &SummaryView| s.quantile(q))
    };
    let scales: Vec<Scale> = columns
        .iter()
        .map(|(m, q)| scale(order().filter_map(|c| value(c, *m, *q)).map(|e| e.value)))
        .collect();
    let mut heads = vec!["Variant".to_owned(), "n".to_owned()];
    heads.extend(columns.iter().zip(&scales).map(|((metric, q), scale)| {
        let quantile = if *q == 0.5 { String::new() } else { format!(" {}", quantile_name(*q)) };
        format!("{}{quantile}, {}", phase_label(*metric), scale.name(&Style::default()))
    }));
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let caption = "Medians of phases, percentiles of the total (95 % interval of its median)";
    open(html, caption, &heads);
    for cell in order() {
        head(html, &study.cells[cell].name());
        figure(html, &grouped(digest.cells.get(cell).map_or(0, |s| s.proven)));
        for ((metric, q), scale) in columns.iter().zip(&scales) {
            match value(cell, *metric, *q) {
                Some(e) if *metric == Metric::Total && *q == 0.5 => {
                    figure(html, &with_interval(&e, *scale));
                }
                Some(e) => figure(html, &signed(e.value, *scale)),
                None => *html += NOTHING,
            }
        }
        *html += "</tr>\n";
    }
    close(html);
}

/// The scale for the largest absolute value of `values`.
fn scale(values: impl Iterator<Item = f64>) -> Scale {
    let largest = values.map(f64::abs).fold(0.0, f64::max);
    Scale::for_largest(Duration::from_nanos(largest as u64))
}

fn signed(ns: f64, scale: Scale) -> String {
    let steps = scale.steps(Duration::from_nanos(ns.abs() as u64));
    format!("{}{}", if ns < 0.0 && steps > 0 { "−" } else { "" }, scale.figure(steps))
}

/// "12.3 <i>[12.1, 12.5]</i>"
fn with_interval(estimate: &Estimate, scale: Scale) -> String {
    let value = signed(estimate.value, scale);
    match estimate.interval {
        Some(i) => format!("{value} <i>[{}, {}]</i>", signed(i.low, scale), signed(i.high, scale)),
        None => value,
    }
}

/// Every effect, one line per metric.
pub(super) fn differences(html: &mut String, study: &Study<'_>) {
    // Comparisons that were not the purpose of the run get only their main metrics.
    let main = [Metric::Total, Metric::Ttfb, Metric::Setup];
    let shown = |e: &&EffectView| e.role == Role::Primary || main.contains(&e.metric);
    let effects: Vec<&EffectView> = study.effects.iter().filter(shown).collect();
    if effects.is_empty() {
        return;
    }
    let mut quantiles: Vec<f64> =
        effects.iter().flat_map(|e| &e.quantiles).map(|(q, _)| *q).collect();
    quantiles.sort_by(f64::total_cmp);
    quantiles.dedup_by(|a, b| (*a - *b).abs() < 1e-9);
    let names: Vec<String> = quantiles
        .iter()
        .map(|q| match quantile_name(*q) {
            name if name == "median" => "p50".into(),
            name => name,
        })
        .collect();
    let mut columns = vec![
        "Variant vs. baseline",
        "",
        "pairs",
        "unpaired",
        "median difference",
        "change",
        "Hodges–Lehmann",
    ];
    columns.extend(names.iter().map(String::as_str));
    columns.extend(["p", "p (Holm)", "verdict"]);
    open(
        html,
        "Differences, variant minus baseline, paired by round, with 95 % intervals",
        &columns,
    );
    for effect in effects {
        let (pair, place) = pair_names(study.cells, effect.base, effect.variant);
        let name = if place.is_empty() { pair } else { format!("{place}: {pair}") };
        head(html, &name);
        let scale =
            scale(effect.quantiles.iter().map(|(_, e)| e.value).chain([effect.difference.value]));
        let unit = scale.name(&Style::default());
        let _ = write!(html, "<td class=\"t\">{}, {unit}</td>", metric_title(effect.metric));
        figure(html, &grouped(effect.pairs as u64));
        figure(html, &grouped(effect.unpaired as u64));
        figure(html, &with_interval(&effect.difference, scale));
        match effect.relative {
            Some(share) => {
                figure(html, &format!("{:+.1} %", share * 100.0).replace('-', "−"));
            }
            None => *html += NOTHING,
        }
        figure(html, &signed(effect.hodges_lehmann, scale));
        for wanted in &quantiles {
            match effect.quantiles.iter().find(|(q, _)| (q - wanted).abs() < 1e-9) {
                Some((_, estimate)) => figure(html, &with_interval(estimate, scale)),
                None => *html += NOTHING,
            }
        }
        match effect.p_values {
            Some(both) => both.iter().for_each(|p| figure(html, &probability(*p))),
            None => *html += &NOTHING.repeat(2),
        }
        let verdict = effect.verdict;
        let _ = writeln!(
            html,
            "<td class=\"t {}\"><span aria-hidden=\"true\">{}</span> {}</td></tr>",
            verdict.class(),
            verdict.symbol(),
            verdict.word()
        );
    }
    close(html);
}

/// A p-value far below 0.1 % only means "small".
fn probability(p: f64) -> String {
    if p < 0.001 { "&lt; 0.001".into() } else { format!("{p:.3}") }
}

/// How the values of each cell vary over rounds: outliers and autocorrelation.
pub(super) fn spread(html: &mut String, study: &Study<'_>) {
    let columns = ["Variant", "n", "outliers", "lag-1 autocorrelation"];
    open(
        html,
        "Total time: outliers (included in every figure) and similarity of neighbouring \
                rounds",
        &columns,
    );
    for (index, cell) in study.cells.iter().enumerate() {
        let Some(summary) = study.summary(index, Metric::Total) else { continue };
        head(html, &cell.name());
        figure(html, &grouped(summary.samples as u64));
        figure(html, &grouped(summary.outliers as u64));
        match summary.autocorrelation {
            Some(r) => {
                let note = if summary.notable { " (notable)" } else { "" };
                figure(html, &format!("{r:+.2}{note}").replace('-', "−"));
            }
            None => *html += NOTHING,
        }
        *html += "</tr>\n";
    }
    close(html);
}

/// Comparisons without data.
pub(super) fn missing(html: &mut String, study: &Study<'_>) {
    if study.missing.is_empty() {
        return;
    }
    *html += "<ul>\n";
    for sentence in &study.missing {
        let _ = writeln!(html, "<li>{}</li>", escape(sentence));
    }
    *html += "</ul>\n";
}

/// How many samples of each cell were proven to be as requested.
pub(super) fn proofs(html: &mut String, study: &Study<'_>, digest: &Digest) {
    let (heading, verified) = study.proof_words();
    open(html, heading, &["Variant", "asked", verified, "share", "the rest"]);
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

/// Statuses and sizes of each cell's answers, if they differ or some are errors.
pub(super) fn answers(html: &mut String, study: &Study<'_>, digest: &Digest) {
    if !digest.shows_answers() {
        return;
    }
    open(html, "Answers by variant", &["Variant", "status and bytes of the body"]);
    for (cell, series) in study.cells.iter().zip(&digest.cells) {
        head(html, &cell.name());
        let text = escape(&describe_answers(&series.answers));
        let _ = writeln!(html, "<td class=\"t\">{text}</td></tr>");
    }
    close(html);
}

/// Times from browsers' network panels.
pub(super) fn panels(html: &mut String, study: &Study<'_>) {
    if study.panels.is_empty() {
        return;
    }
    let title = "Medians in the browsers' network panels";
    open(html, title, &["Variant", "n", "shown as", "median, ms"]);
    for panel in study.panels {
        for time in &panel.medians {
            head(html, &panel.way);
            figure(html, &grouped(panel.samples as u64));
            let _ = write!(html, "<td class=\"t\">{}</td>", escape(&time.label));
            figure(html, &format!("{:.3}", time.took.as_secs_f64() * 1e3));
            *html += "</tr>\n";
        }
    }
    close(html);
}

/// Client processor time per visit.
pub(super) fn processors(html: &mut String, study: &Study<'_>) {
    if study.processors.is_empty() {
        return;
    }
    let title = "Median processor time of the client per sample";
    open(html, title, &["Variant", "n", "in all, ms", "user, ms", "system, ms"]);
    for processor in study.processors {
        head(html, &processor.way);
        figure(html, &grouped(processor.samples as u64));
        for time in [processor.sum, processor.parts.user, processor.parts.system] {
            figure(html, &format!("{:.3}", time.as_secs_f64() * 1e3));
        }
        *html += "</tr>\n";
    }
    close(html);
}

/// Handshake and total of each comparison, by percentile.
pub(super) fn percentiles(html: &mut String, study: &Study<'_>) {
    const SHOWN: [f64; 9] = [0.05, 0.1, 0.25, 0.5, 0.75, 0.8, 0.9, 0.95, 0.99];
    let shown = |effect: &&PercentileEffects| {
        matches!(effect.metric, Metric::Tls | Metric::Quic | Metric::Total)
    };
    let effects: Vec<_> = study.percentiles.iter().filter(shown).collect();
    if effects.is_empty() {
        return;
    }
    let names: Vec<String> = SHOWN.iter().map(|q| format!("p{:.0}", q * 100.0)).collect();
    let mut columns = vec!["Variant vs. baseline", "", "rounds"];
    columns.extend(names.iter().map(String::as_str));
    let caption = "Differences at each percentile, variant minus baseline, with 95 % intervals";
    open(html, caption, &columns);
    for effect in effects {
        let (pair, place) = pair_names(study.cells, effect.pair.base, effect.pair.variant);
        let name = if place.is_empty() { pair } else { format!("{place}: {pair}") };
        head(html, &name);
        let scale = scale(effect.percentiles.iter().map(|p| p.difference.value));
        let unit = scale.name(&Style::default());
        let _ = write!(html, "<td class=\"t\">{}, {unit}</td>", metric_title(effect.metric));
        figure(html, &grouped(effect.rounds as u64));
        for wanted in SHOWN {
            let found = effect.percentiles.iter().find(|p| (p.q - wanted).abs() < 1e-9);
            match found.map(|p| Estimate::from(&p.difference)) {
                Some(estimate) => figure(html, &with_interval(&estimate, scale)),
                None => *html += NOTHING,
            }
        }
        *html += "</tr>\n";
    }
    close(html);
}

/// Clients' reports about their connections, compared with a capture.
pub(super) fn examined(html: &mut String, study: &Study<'_>) {
    let Some(examined) = study.examined else { return };
    let [mark, n, median, p99, meaning] = TestimonyFigures::HEADINGS;
    let title = "The clients' own times minus the capture's";
    open(html, title, &["Variant", mark, n, median, p99, meaning]);
    for (name, way) in &examined.ways {
        for row in examined_figures(way) {
            head(html, name);
            let _ = write!(html, "<td class=\"t\">{}</td>", row.mark);
            for text in [&row.count, &row.median, &row.p99] {
                figure(html, text);
            }
            let _ = writeln!(html, "<td class=\"t\">{}</td></tr>", row.meaning);
        }
    }
    close(html);
    for (name, way) in &examined.ways {
        let _ = writeln!(html, "<p>{}.</p>", escape(&held(name, way)));
    }
}

/// Reasons why samples failed.
pub(super) fn failures(html: &mut String, study: &Study<'_>) {
    if study.failures.is_empty() {
        *html += "<p>No sample failed.</p>\n";
        return;
    }
    open(html, "Failures by cause", &["Variant", "count", "cause"]);
    for failure in &study.failures {
        head(html, &study.cells.get(failure.cell).map_or_else(String::new, |c| c.name()));
        figure(html, &grouped(failure.count));
        let _ = writeln!(html, "<td class=\"t\">{}</td></tr>", escape(&failure.cause));
    }
    close(html);
}
