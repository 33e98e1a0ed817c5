//! A monitor's period as one self-contained page: what changed, and for each series a picture and its figures.
//!
//! Input: a [`MonitorPeriod`], which `report` computes from a store. Output: HTML without a script.

use std::fmt::Write as _;
use std::time::Duration;

use super::chart;
use super::html::{begin, draw, tables};
use super::svg::escape;
use super::units::{count, grouped};

/// Content of the page. Times are seconds since the Unix epoch.
#[derive(Clone, Debug)]
pub struct MonitorPeriod {
    /// Begin and end of the period.
    pub period: [i64; 2],
    /// The period, formatted.
    pub period_text: String,
    /// Number of samples of all series.
    pub samples: u64,
    /// Events and annotations, oldest first.
    pub entries: Vec<PeriodEntry>,
    /// The series, ordered by name.
    pub series: Vec<SeriesPeriod>,
    /// Headings for the columns of [`SeriesPeriod::figures`].
    pub columns: Vec<String>,
}

/// An event or an annotation.
#[derive(Clone, Debug)]
pub struct PeriodEntry {
    /// When it began.
    pub at: i64,
    /// When an outage ended; the end of the period if it continues.
    pub until: Option<i64>,
    /// The time, formatted.
    pub at_text: String,
    /// `confirmed`, `annotation`, …
    pub state: String,
    /// Description.
    pub text: String,
    /// Numbers of the affected series; absent if it concerns all.
    pub series: Option<Vec<u64>>,
}

/// A target measured in one way.
#[derive(Clone, Debug)]
pub struct SeriesPeriod {
    /// Its number in the store.
    pub number: u64,
    /// Names of target, variant and place.
    pub name: String,
    /// One text per column; absent if unknown.
    pub figures: Vec<Option<String>>,
    /// For each metric, the quantiles listed in [`QUANTILES`]; absent if unknown.
    pub times: Vec<(String, [Option<String>; QUANTILES.len()])>,
    /// Other properties, each with a name and a text.
    pub properties: Vec<(String, String)>,
    /// The course of the series; without points there is no picture.
    pub points: Vec<PeriodPoint>,
}

/// The samples in a part of the period.
#[derive(Clone, Copy, Debug)]
pub struct PeriodPoint {
    /// Begin and end of the part.
    pub between: [i64; 2],
    /// Median time to the first byte.
    pub median: Option<Duration>,
    /// 90th percentile of the time to the first byte.
    pub p90: Option<Duration>,
    /// Share of the time that failed.
    pub failed: Option<f64>,
}

/// The page of `view`.
pub fn page(view: &MonitorPeriod) -> String {
    let mut html = String::with_capacity(1 << 17);
    begin(&mut html, &format!("Monitor, {}", view.period_text), None);
    let series = match view.series.len() {
        1 => "1 series".to_owned(),
        number => format!("{} series", grouped(number as u64)),
    };
    let _ = write!(
        html,
        "<body>\n<a class=\"skip\" href=\"#main\">Skip to the changes</a>\n<header>\n<h1>{}</h1>\n\
         <p class=\"sub\">{} · {series}</p>\n</header>\n<main id=\"main\" tabindex=\"-1\">\n",
        escape(&view.period_text),
        count(view.samples, "sample"),
    );
    changes(&mut html, &view.entries);
    figures(&mut html, view);
    let figure = chart::monitor_period(view);
    if figure.panels().next().is_some() {
        draw(&mut html, &figure);
    }
    details(&mut html, &view.series);
    html += "</main>\n</body>\n</html>\n";
    html
}

/// Columns of [`SeriesPeriod::times`].
pub const QUANTILES: [&str; 4] = ["median", "p90", "p95", "p99"];

fn changes(html: &mut String, entries: &[PeriodEntry]) {
    *html += "<section aria-labelledby=\"changes-h\">\n<h2 id=\"changes-h\">Changes</h2>\n";
    if entries.is_empty() {
        *html += "<p>No events found.</p>\n";
    } else {
        *html += "<ol class=\"found\">\n";
        for entry in entries {
            let (at, state) = (escape(&entry.at_text), escape(&entry.state));
            let _ =
                writeln!(html, "<li><strong>{at}, {state}</strong>: {}</li>", escape(&entry.text));
        }
        *html += "</ol>\n";
    }
    *html += "</section>\n";
}

fn figures(html: &mut String, view: &MonitorPeriod) {
    *html += "<section aria-labelledby=\"figures-h\">\n<h2 id=\"figures-h\">Figures</h2>\n";
    if view.series.is_empty() {
        *html += "<p>No samples in this period.</p>\n</section>\n";
        return;
    }
    let columns: Vec<&str> =
        ["Series"].into_iter().chain(view.columns.iter().map(String::as_str)).collect();
    tables::open(html, "Samples, failures and times of each series", &columns);
    for series in &view.series {
        tables::head(html, &series.name);
        for figure in &series.figures {
            cell(html, figure.as_deref());
        }
        *html += "</tr>\n";
    }
    tables::close(html);
    *html += "</section>\n";
}

fn cell(html: &mut String, text: Option<&str>) {
    match text {
        Some(text) => tables::figure(html, &escape(text)),
        None => *html += tables::NOTHING,
    }
}

fn details(html: &mut String, all: &[SeriesPeriod]) {
    if all.iter().all(|series| series.properties.is_empty()) {
        return;
    }
    *html += "<section aria-labelledby=\"details-h\">\n<h2 id=\"details-h\">Details</h2>\n";
    for series in all.iter().filter(|series| !series.properties.is_empty()) {
        let _ = writeln!(html, "<h3>{}</h3>", escape(&series.name));
        let columns: Vec<&str> = ["Milliseconds"].into_iter().chain(QUANTILES).collect();
        tables::open(html, &format!("Times, {}", series.name), &columns);
        for (metric, quantiles) in &series.times {
            tables::head(html, metric);
            for quantile in quantiles {
                cell(html, quantile.as_deref());
            }
            *html += "</tr>\n";
        }
        tables::close(html);
        *html += "<dl>\n";
        for (name, text) in &series.properties {
            let _ = writeln!(html, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(text));
        }
        *html += "</dl>\n";
    }
    *html += "</section>\n";
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: i64 = 1_795_392_000;
    const DAY: i64 = 86_400;

    fn view() -> MonitorPeriod {
        let ms = Duration::from_millis;
        let point = |hour: i64| PeriodPoint {
            between: [AT + hour * 3_600, AT + (hour + 1) * 3_600],
            median: (hour != 5).then(|| ms(if hour < 12 { 40 } else { 60 })),
            p90: (hour != 5).then(|| ms(75)),
            failed: Some(if hour == 5 { 1.0 } else { 0.0 }),
        };
        let series = |number: u64, target: &str, points: Vec<PeriodPoint>| SeriesPeriod {
            number,
            name: format!("{target}, TLS 1.3"),
            figures: vec![Some("1,440".to_owned()), None],
            times: vec![("total".to_owned(), [Some("45.0".to_owned()), None, None, None])],
            properties: vec![("tls.version".to_owned(), "TLSv1.3 100 %".to_owned())],
            points,
        };
        let entry = |at: i64, until: Option<i64>, text: &str| PeriodEntry {
            at,
            until,
            at_text: at.to_string(),
            state: "confirmed".to_owned(),
            text: text.to_owned(),
            series: Some(vec![7]),
        };
        MonitorPeriod {
            period: [AT, AT + DAY],
            period_text: "2026-11-23 00:00 UTC to 2026-11-24 00:00 UTC".to_owned(),
            samples: 2_880,
            entries: vec![
                entry(AT + 5 * 3_600, Some(AT + 6 * 3_600), "shop was down"),
                entry(AT + 12 * 3_600, None, "shop is <slower>"),
            ],
            series: vec![
                series(7, "shop", (0..24).map(point).collect()),
                series(8, "news", Vec::new()),
            ],
            columns: vec!["samples".to_owned(), "median, ms".to_owned()],
        }
    }

    #[test]
    fn the_page_has_the_changes_and_a_picture_of_each_series_with_points() {
        let html = page(&view());
        assert_eq!(html.matches("<svg class=\"panel\"").count(), 1, "{html}");
        assert!(html.contains("1 series is without a picture: --target draws it."), "{html}");
        assert!(html.contains("shop is &lt;slower&gt;") && !html.contains("<slower>"), "{html}");
        // The median's line has a gap if nothing was measured.
        let median = html.lines().find(|line| line.starts_with("<path class=\"s0\"")).unwrap();
        assert_eq!(median.matches('M').count(), 2, "{median}");
        assert!(html.contains("23 Nov 05:00: 100.0 % failed"), "{html}");
        // The outage has an area, and both changes are numbered.
        assert_eq!(html.matches("<rect class=\"b\" ").count(), 2, "key and outage: {html}");
        for number in ["1", "2"] {
            assert!(html.contains(&format!("text-anchor=\"middle\">{number}</text>")), "{html}");
        }
        assert!(html.contains("default-src 'none'; style-src 'unsafe-inline'; script-src 'none'"));
    }

    #[test]
    fn without_times_a_picture_has_no_scale() {
        let mut view = view();
        for point in &mut view.series[0].points {
            (point.median, point.p90) = (None, None);
        }
        let html = page(&view);
        assert!(html.contains("no verified sample") && !html.contains(">ms</text>"), "{html}");
        assert!(!html.contains("class=\"s0\""), "{html}");
    }

    #[test]
    fn a_period_without_samples_is_a_page() {
        let html = page(&MonitorPeriod { entries: Vec::new(), series: Vec::new(), ..view() });
        assert!(html.contains("No samples in this period.") && html.contains("No events found."));
        assert!(!html.contains("<svg"), "{html}");
    }
}
