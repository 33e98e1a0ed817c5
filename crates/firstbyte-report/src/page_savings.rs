//! Changes that would save a page time: for the terminal, and as a section of a page.
//!
//! Input: predictions on the page's own dependency graph. Output: one line per change, the largest saving first,
//! and the changes that do not apply, with reasons.

use std::fmt::Write as _;
use std::time::Duration;

use firstbyte_core::timeline::Offset;
use firstbyte_pages::page_savings::{Change, PageSavings, Saving};

use crate::style::{Ink, Style, cut_end};
use crate::svg::escape;
use crate::units::Scale;

/// Smaller savings are ignored: page loads vary by more.
const NOTHING_NS: i64 = 500_000;

/// The page's potential savings as text.
pub fn page_savings(savings: &PageSavings, style: &Style) -> String {
    let scale = scale(savings);
    let width = style.columns().saturating_sub(32).max(24);
    let row = |name: &str, [saved, share, load]: [&str; 3]| {
        format!("{name:<width$}  {saved:>16}  {share:>4}  {load:>6}").trim_end().to_owned()
    };
    let unit = scale.name(style);
    let head = row("what would save time", [&format!("saved, {unit}"), "%", "load"]);
    let mut lines = vec![style.paint(Ink::Faint, &head)];
    for saving in &savings.offered {
        let cells = cells(savings, saving, scale, style);
        let name = cut_end(&style.safe(&words(&saving.change, scale, style)), width, style);
        lines.push(row(&name, [&cells.saved, &cells.share, &cells.load]));
    }
    let none = savings.not_offered.iter().map(|(change, why)| {
        let line = format!("{}: {why}", words(change, scale, style));
        style.paint(Ink::Faint, &cut_end(&style.safe(&line), style.columns(), style))
    });
    lines.extend(none);
    lines.join("\n") + "\n"
}

/// The same as a section of an HTML page.
pub fn page_savings_section(savings: &PageSavings) -> String {
    let (scale, style) = (scale(savings), Style::default());
    let unit = scale.name(&style);
    let mut html = format!(
        "<section id=\"savings\" aria-labelledby=\"savings-h\">\n\
         <h2 id=\"savings-h\">What would save time</h2>\n\
         <p class=\"note\">Predicted, one change at a time. Dependencies between requests and the \
         servers’ time stay as in this load.</p>\n\
         <div class=\"wide\" tabindex=\"0\" role=\"region\" aria-labelledby=\"savings-h\"><table>\n\
         <thead><tr><th scope=\"col\">Change</th><th scope=\"col\">Saved, {unit}</th><th \
         scope=\"col\">Share of the load</th><th scope=\"col\">First byte, {unit}</th><th \
         scope=\"col\">Loaded, {unit}</th></tr></thead>\n\
         <tbody>\n"
    );
    for saving in &savings.offered {
        let cells = cells(savings, saving, scale, &style);
        let _ = writeln!(
            html,
            "<tr><th scope=\"row\">{}</th><td>{}</td><td>{} %</td><td>{}</td><td>{}</td></tr>",
            escape(&words(&saving.change, scale, &style)),
            cells.saved,
            cells.share,
            scale.time_figure(since(saving.first_byte)),
            cells.load,
        );
    }
    html += "</tbody></table></div>\n";
    for (change, why) in &savings.not_offered {
        let line = format!("{}: {why}.", words(change, scale, &style));
        let _ = writeln!(html, "<p class=\"note\">{}</p>", escape(&line));
    }
    html += "</section>\n";
    html
}

struct Cells {
    saved: String,
    share: String,
    load: String,
}

fn scale(savings: &PageSavings) -> Scale {
    Scale::for_largest(since(savings.load))
}

fn since(at: Offset) -> Duration {
    at.since(Offset::ZERO)
}

fn cells(savings: &PageSavings, saving: &Saving, scale: Scale, style: &Style) -> Cells {
    let saved = saving.saved_ns(savings.load);
    let share = saved as f64 / (savings.load.as_nanos().max(1)) as f64 * 100.0;
    let figure = scale.time_figure(Duration::from_nanos(saved.unsigned_abs()));
    let sign = if saved < -NOTHING_NS { style.glyph("−", "-") } else { "" };
    let uncertain = scale.time_figure(saving.uncertainty());
    let plus_minus = style.glyph("±", "+-");
    Cells {
        saved: format!("{sign}{figure} {plus_minus}{uncertain}"),
        share: format!("{share:.0}"),
        load: scale.time_figure(since(saving.load)),
    }
}

/// A description of a change and why it saves time.
fn words(change: &Change, scale: Scale, style: &Style) -> String {
    let host = |authority: &str| authority.trim_end_matches(":443").to_owned();
    match change {
        Change::Kept => "connections kept open: no set-up".to_owned(),
        Change::Coalesced => "all requests over the document's connection".to_owned(),
        Change::Resumed => "TLS sessions resumed: no certificates".to_owned(),
        Change::EarlyData => "early data (0-RTT): no wait for TLS".to_owned(),
        Change::Http3 { authority: None } => "HTTP/3: set up in one round trip".to_owned(),
        Change::Http3 { authority: Some(authority) } => format!("HTTP/3 to {}", host(authority)),
        Change::Tls13 => "TLS 1.3: one round trip less than TLS 1.2".to_owned(),
        Change::NearerEdge { authority, round_trip } => {
            format!("{} {} away", host(authority), scale.time(*round_trip, style))
        }
    }
}

#[cfg(test)]
mod tests {
    use firstbyte_core::document::navigation;
    use firstbyte_pages::page_savings::EDGE;

    use super::*;

    fn fixture() -> PageSavings {
        let line = include_str!("../../firstbyte-core/fixtures/navigation/chromium.ndjson");
        PageSavings::from_navigation(&navigation(line.trim_end().as_bytes()).unwrap(), EDGE)
            .unwrap()
    }

    #[test]
    fn what_saves_most_comes_first() {
        let (savings, text) = (fixture(), page_savings(&fixture(), &Style::default()));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 1 + savings.offered.len() + savings.not_offered.len(), "{text}");
        assert!(
            lines[0].starts_with("what would save time") && lines[0].ends_with("load"),
            "{text}"
        );
        for (line, saving) in lines[1..].iter().zip(&savings.offered) {
            let load = Scale::for_largest(since(savings.load)).time_figure(since(saving.load));
            assert!(line.ends_with(&load), "{load}: {line}");
        }
        assert!(text.contains("shop.test 10.0 ms away"), "{text}");
    }

    #[test]
    fn every_line_fits() {
        for width in [60, 80, 120] {
            for unicode in [false, true] {
                let style = Style { color: false, width, unicode };
                let text = page_savings(&fixture(), &style);
                for line in text.lines() {
                    assert!(line.chars().count() <= width, "{width}: {line}");
                }
                assert!(unicode || text.is_ascii(), "{text}");
            }
        }
    }

    #[test]
    fn the_section_has_a_row_for_each_and_escapes_names() {
        let mut savings = fixture();
        savings.offered[0].change = Change::Http3 { authority: Some("<b>:443".to_owned()) };
        let html = page_savings_section(&savings);
        assert_eq!(html.matches("<th scope=\"row\">").count(), savings.offered.len());
        assert!(html.contains("HTTP/3 to &lt;b&gt;") && !html.contains("<b>"), "{html}");
    }
}
