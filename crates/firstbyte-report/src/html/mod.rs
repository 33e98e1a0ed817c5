//! `--html`: a comparison as one self-contained page that is also readable without its script.
//!
//! Input: a [`Study`]. Output: HTML with a Content-Security-Policy that forbids every load; only our own script may
//! run, by its hash. The script reads values under the crosshair back from the drawings. All external text is
//! escaped on input.

mod hash;
mod sample;
pub(super) mod tables;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use super::chart::{self, Figure, Key};
use super::study::{Digest, Grouping, Sentence, Study};
pub use super::svg::escape;
pub use sample::{SampleView, sample_page};

const SCRIPT: &str = include_str!("page.js");
const STYLE: &str = include_str!("page.css");

/// The style sheet of these pages, with fill classes for series, for other generators' pages.
pub fn style() -> String {
    format!("{}{}{STYLE}", chart::rules(), chart::series_fills())
}

/// The page of `study`.
pub fn page(study: &Study<'_>) -> String {
    let digest = Digest::from_rows(study.cells.len(), study.rows);
    let grouping = Grouping::from_study(study);
    let figures = chart::draw(study, &digest, &grouping);
    let mut html = String::with_capacity(1 << 19);
    begin(&mut html, study.title, Some(SCRIPT));
    header(&mut html, study, &digest);
    findings(&mut html, &study.sentences);
    contents(&mut html, &figures);
    for figure in &figures {
        draw(&mut html, figure);
    }
    html +=
        "<section id=\"tables\" aria-labelledby=\"tables-h\">\n<h2 id=\"tables-h\">Tables</h2>\n";
    tables::phases(&mut html, study, &digest, &grouping);
    tables::differences(&mut html, study);
    tables::percentiles(&mut html, study);
    tables::missing(&mut html, study);
    tables::spread(&mut html, study);
    tables::proofs(&mut html, study, &digest);
    tables::answers(&mut html, study, &digest);
    tables::failures(&mut html, study);
    tables::panels(&mut html, study);
    tables::processors(&mut html, study);
    tables::examined(&mut html, study);
    html += "</section>\n";
    repeat(&mut html, study);
    html += "</main>\n<script>";
    html += SCRIPT;
    html += "</script>\n</body>\n</html>\n";
    html
}

/// Begins a page with this title, whose policy allows this script and nothing else.
pub(super) fn begin(html: &mut String, title: &str, script: Option<&str>) {
    let title = escape(title);
    let script = script.map_or("none".into(), hash::of_script);
    let policy = format!(
        "default-src 'none'; style-src 'unsafe-inline'; script-src '{script}'; base-uri 'none'; \
         form-action 'none'"
    );
    let _ = write!(
        html,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <meta name=\"color-scheme\" content=\"light dark\"/>\n\
         <meta name=\"referrer\" content=\"no-referrer\"/>\n\
         <title>{title}</title>\n<style>\n{}{STYLE}</style>\n</head>\n",
        chart::rules()
    );
}

fn header(html: &mut String, study: &Study<'_>, digest: &Digest) {
    let proven: u64 = digest.cells.iter().map(|s| s.proven).sum();
    let asked: u64 = digest.cells.iter().map(|s| s.asked).sum();
    let grouped = super::units::grouped;
    let links = elsewhere(study.links);
    let _ = write!(
        html,
        "<body>\n\
         <a class=\"skip\" href=\"#main\">Skip to the findings</a>\n\
         <header>\n\
         {links}<h1>{}</h1>\n\
         <p class=\"sub\">{}{}{} variants · {} rounds · {} of {} samples count</p>\n\
         </header>\n\
         <main id=\"main\" tabindex=\"-1\">\n",
        escape(study.title),
        escape(study.date),
        if study.date.is_empty() { "" } else { " · " },
        study.cells.len(),
        grouped(u64::from(digest.rounds)),
        grouped(proven),
        grouped(asked),
    );
}

/// Links to related pages; empty if there are none.
fn elsewhere(links: &[(String, String)]) -> String {
    if links.is_empty() {
        return String::new();
    }
    let item = |(label, address): &(String, String)| {
        format!("<li><a href=\"{}\">{}</a></li>", escape(address), escape(label))
    };
    let items: String = links.iter().map(item).collect();
    format!("<nav aria-label=\"Elsewhere\"><ul>{items}</ul></nav>\n")
}

/// A page with a single message.
pub fn notice_page(title: &str, text: &str, links: &[(String, String)]) -> String {
    let mut html = String::new();
    begin(&mut html, title, None);
    let _ = write!(
        html,
        "<body>\n<header>\n{}<h1>{}</h1>\n</header>\n<main id=\"main\"><p>{}</p></main>\n</body>\n</html>\n",
        elsewhere(links),
        escape(title),
        escape(text)
    );
    html
}

fn findings(html: &mut String, sentences: &[Sentence]) {
    *html +=
        "<section aria-labelledby=\"found-h\">\n<h2 id=\"found-h\" class=\"vh\">Findings</h2>\n";
    if sentences.is_empty() {
        *html += "<p>This page compares nothing.</p>\n";
    } else {
        *html += "<ul class=\"found\">\n";
        for sentence in sentences {
            let verdict = sentence.verdict;
            let _ = writeln!(
                html,
                "<li class=\"{class}\"><span class=\"mark\" aria-hidden=\"true\">{}</span> {}</li>",
                verdict.symbol(),
                escape(&sentence.text),
                class = verdict.class()
            );
        }
        *html += "</ul>\n";
    }
    *html += "</section>\n";
}

fn contents(html: &mut String, figures: &[Figure]) {
    *html += "<nav aria-label=\"On this page\"><ul>\n";
    for figure in figures {
        let _ =
            writeln!(html, "<li><a href=\"#{}\">{}</a></li>", figure.name, escape(&figure.title));
    }
    *html += "<li><a href=\"#tables\">Tables</a></li>\n\
              <li><a href=\"#repeat\">Measured with</a></li>\n</ul></nav>\n";
}

/// A figure as a section of a page.
pub(super) fn draw(html: &mut String, figure: &Figure) {
    let name = figure.name;
    let _ = write!(
        html,
        "<section id=\"{name}\" aria-labelledby=\"{name}-h\">\n<h2 id=\"{name}-h\">{}</h2>\n\
         <p class=\"note\">{}</p>\n",
        escape(&figure.title),
        escape(&figure.note)
    );
    legend(html, &figure.keys);
    let _ = writeln!(html, "<div class=\"figure c{}\">", figure.columns());
    let mut number = 0;
    for row in figure.rows.iter().filter(|r| !r.panels.is_empty()) {
        // As wide as its panels, up to the full width.
        let wide = if row.heading.is_empty() { 4 } else { row.panels.len().min(4) };
        let _ = writeln!(html, "<div class=\"row g{wide}\">");
        if !row.heading.is_empty() {
            let _ = writeln!(html, "<h3>{}</h3>", escape(&row.heading));
        }
        for panel in &row.panels {
            if figure.folded {
                let _ = write!(html, "<details><summary>{}</summary>", escape(&panel.title));
            }
            let _ = write!(html, "<figure>{}", panel.inline(&format!("{name}{number}")));
            if !panel.readout.is_empty() {
                let _ = write!(html, "<p class=\"readout\">{}</p>", escape(&panel.readout));
            }
            *html += if figure.folded { "</figure></details>\n" } else { "</figure>\n" };
            number += 1;
        }
        *html += "</div>\n";
    }
    *html += "</div>\n</section>\n";
}

fn legend(html: &mut String, keys: &[Key]) {
    if keys.is_empty() {
        return;
    }
    *html += "<ul class=\"legend\">\n";
    for key in keys {
        let _ = writeln!(html, "<li>{}{}</li>", key.swatch(), escape(&key.label));
    }
    *html += "</ul>\n";
}

fn repeat(html: &mut String, study: &Study<'_>) {
    *html += "<section id=\"repeat\" aria-labelledby=\"repeat-h\">\n\
              <h2 id=\"repeat-h\">Measured with</h2>\n";
    if !study.environment.is_empty() {
        *html += "<dl>\n";
        for (name, value) in study.environment {
            let _ = writeln!(html, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(value));
        }
        *html += "</dl>\n";
    }
    if !study.command.is_empty() {
        let _ = write!(
            html,
            "<h3>To repeat it</h3>\n<pre tabindex=\"0\" aria-label=\"Command line\"><code>{}</code>\
             </pre>\n",
            escape(study.command)
        );
    }
    *html += "</section>\n";
}
