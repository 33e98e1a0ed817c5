//! An explanation as one page that loads nothing and runs no script.

use std::fmt::Write as _;
use std::time::Duration;

use firstbyte_core::sequence::Sequence;
use firstbyte_core::stats::Interval;
use firstbyte_explain::{Finding, TermKind, WayKind};

use super::text::{self, Row};
use super::{Explanation, beside};
use crate::advice;
use crate::chart::{self, Figure};
use crate::html;
use crate::shell;
use crate::style::Style;
use crate::svg::escape;
use crate::units::{Scale, count};

/// The page of `explanation`.
pub fn page(explanation: &Explanation) -> String {
    let mut html = String::with_capacity(1 << 17);
    html::begin(&mut html, &format!("Why {} takes as long as it does", explanation.url), None);
    header(&mut html, explanation);
    equation(&mut html, explanation);
    findings(&mut html, explanation);
    for figure in figures(explanation) {
        html::draw(&mut html, &figure);
    }
    terms(&mut html, explanation);
    if let Some(other) = &explanation.beside {
        beside::html(&mut html, other);
    }
    html += "<section id=\"repeat\" aria-labelledby=\"repeat-h\">\n\
             <h2 id=\"repeat-h\">To repeat it</h2>\n";
    let command = shell::line(&explanation.command);
    let _ = writeln!(
        html,
        "<pre tabindex=\"0\" aria-label=\"Command line\"><code>{}</code></pre>\n</section>",
        escape(&command)
    );
    html += "</main>\n</body>\n</html>\n";
    html
}

/// The pictures of `explanation`.
pub fn figures(explanation: &Explanation) -> Vec<Figure> {
    let ways: Vec<(&str, _)> =
        explanation.ways.iter().map(|way| (way.kind.name(), &way.equation)).collect();
    let mut figures = vec![chart::ways(&ways)];
    figures.extend(side_by_side(explanation));
    figures
}

/// The median connection side by side with plain HTTP, and with what a ping would show of it.
fn side_by_side(explanation: &Explanation) -> Option<Figure> {
    let subject = explanation.subject()?;
    let drawn = Sequence::from_attributed(&subject.middle);
    if drawn.arrows.is_empty() {
        return None;
    }
    let plain = explanation.ways.iter().find(|way| way.kind == WayKind::Plain);
    let plain = plain.map(|way| ("http", Sequence::from_attributed(&way.middle)));
    let encrypted = subject.middle.connection.facts.tls.is_some();
    let name = if encrypted { "https" } else { "http" };
    let ping = drawn.ping_like().map(|ping| ("like a ping", ping));
    let columns: Vec<(&str, Sequence)> =
        ping.into_iter().chain(plain.filter(|_| encrypted)).chain([(name, drawn)]).collect();
    Some(chart::sequences("Message by message", &columns))
}

fn header(html: &mut String, explanation: &Explanation) {
    let facts =
        explanation.subject().map(|way| text::described(&way.middle.connection).join(" · "));
    let _ = write!(
        html,
        "<body>\n<a class=\"skip\" href=\"#main\">Skip to the explanation</a>\n<header>\n\
         <h1>{}</h1>\n<p class=\"sub\">{}<br/>{}{}{} connections</p>\n</header>\n\
         <main id=\"main\" tabindex=\"-1\">\n",
        escape(&explanation.url),
        escape(&facts.unwrap_or_default()),
        escape(&explanation.date),
        if explanation.date.is_empty() { "" } else { " · " },
        explanation.equation.of,
    );
}

/// The equation, and a comparison with the first attempt and the other witnesses.
fn equation(html: &mut String, explanation: &Explanation) {
    let style = Style { width: 200, ..Style::default() };
    let scale = Scale::for_largest(explanation.equation.total);
    *html += "<section aria-labelledby=\"sum-h\">\n<h2 id=\"sum-h\">Where the time goes</h2>\n";
    let paragraph = |html: &mut String, class: &str, lines: Vec<String>| {
        let joined: Vec<&str> = lines.iter().map(|line| line.trim()).collect();
        // Keep a number of round trips and their length on one line.
        let text = joined.join(" ").replace(" × ", "\u{a0}×\u{a0}");
        let _ = writeln!(html, "<p class=\"{class}\">{}</p>", escape(&text));
    };
    paragraph(html, "sum", text::equation(&explanation.equation, scale, &style));
    if let Some(first) = text::first(&explanation.equation, scale, &style) {
        paragraph(html, "note", first);
    }
    if explanation.is_ambiguous() {
        paragraph(html, "note", text::rivals(&explanation.server, &style));
    }
    for reconciled in &explanation.reconciled {
        paragraph(html, "note", text::witness(reconciled, scale, &style));
    }
    *html += "</section>\n";
}

fn findings(html: &mut String, explanation: &Explanation) {
    *html += "<section aria-labelledby=\"found-h\">\n<h2 id=\"found-h\">Findings</h2>\n";
    if explanation.findings.all.is_empty() {
        *html += "<p>No avoidable delay was found.</p>\n";
    } else {
        *html += "<ol class=\"found\">\n";
        for finding in &explanation.findings.all {
            one(html, finding);
        }
        *html += "</ol>\n";
    }
    if let Some(together) = &explanation.findings.together {
        let saved = text::saved(together, &Style::default());
        let _ = writeln!(html, "<p>Without all of them, a visit saves {}.</p>", escape(&saved));
    }
    if explanation.leaves_much_unexplained() {
        let time = milliseconds(explanation.equation.time(TermKind::Unexplained));
        let _ = writeln!(html, "<p>Unexplained: {time}.</p>");
    }
    *html += "</section>\n";
}

fn one(html: &mut String, finding: &Finding) {
    let concerns = finding.concerns.map_or_else(String::new, |who| format!(" ({who})"));
    let _ = writeln!(
        html,
        "<li class=\"slower\"><strong>{}: {}</strong>{concerns}<dl>\
         <dt>Seen</dt><dd>{}</dd><dt>Change</dt><dd>{}</dd>",
        escape(&finding.title),
        milliseconds(finding.cost),
        escape(&finding.evidence),
        escape(&advice::for_finding(finding)),
    );
    let saves = text::saves(finding, &Style::default());
    if !saves.is_empty() {
        let _ = writeln!(html, "<dt>Saves</dt><dd>{}</dd>", escape(&saves));
    }
    *html += "</dl></li>\n";
}

fn milliseconds(time: Duration) -> String {
    let scale = Scale::for_largest(time.max(Duration::from_millis(100)));
    scale.time(time, &Style::default())
}

/// Every term, with its interval.
fn terms(html: &mut String, explanation: &Explanation) {
    let equation = &explanation.equation;
    let (rows, scale) = text::rows(equation, Scale::for_largest(equation.total));
    let style = Style::default();
    let unit = scale.name(&style);
    let _ = write!(
        html,
        "<section id=\"terms\" aria-labelledby=\"terms-h\">\n<h2 id=\"terms-h\">Term by term</h2>\n\
         <div class=\"wide\" tabindex=\"0\" role=\"region\" aria-labelledby=\"terms-h\"><table>\n\
         <thead><tr><th scope=\"col\">Term</th><th scope=\"col\">{unit}</th>\
         <th scope=\"col\">95 % interval</th><th scope=\"col\">share</th></tr></thead>\n<tbody>\n"
    );
    let range = |interval: Option<Interval>| {
        interval.map_or_else(|| "–".into(), |i| text::range(i, scale, &style))
    };
    for Row { label, steps, interval, doubt, share, .. } in &rows {
        let doubt = doubt.map_or_else(String::new, |d| format!(" ± {}", scale.time_figure(d)));
        let _ = writeln!(
            html,
            "<tr><th scope=\"row\">{}</th><td>{}{doubt}</td><td>{}</td><td>{:.1} %</td></tr>",
            escape(label.trim()),
            scale.figure(*steps),
            range(*interval),
            share * 100.0
        );
    }
    let _ = write!(
        html,
        "<tr><th scope=\"row\"><strong>total, {}</strong></th><td><strong>{}</strong></td>\
         <td>{}</td><td>100 %</td></tr>\n</tbody></table></div>\n",
        count(u64::from(equation.round_trips()), "round trip"),
        scale.figure(scale.steps(equation.total)),
        range(equation.interval),
    );
    if equation.typical < equation.of {
        let _ = writeln!(
            html,
            "<p class=\"note\">{} of {} connections took these round trips.</p>",
            equation.typical, equation.of
        );
    }
    *html += "</section>\n";
}
