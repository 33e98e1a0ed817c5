//! `wire --html`: captured connections as one page that loads nothing and runs no script.
//!
//! Input: data collected while connections were read. Output: HTML: cleaning results, then sentences, pictures,
//! tables. Memory is a few words per handshake, and the number of diagrams is bounded.

mod capacity;
pub(super) mod tables;

use std::fmt::Write as _;

use firstbyte_core::sequence::Sequence;
use firstbyte_passive::capacity::ServerCapacity;
use firstbyte_passive::groups::{Distribution, LeftOut, ServerSummary};
use firstbyte_passive::model;
use firstbyte_passive::{Hygiene, Observed};

use super::counted;
use super::gathered::Gathered;
use super::verdict::{by_weight, costs};
use crate::chart::captured::{self, Percentiles, ServerBars};
use crate::chart::{self, Figure};
use crate::svg::escape;
use crate::units::grouped;
use crate::{dates, html};

/// Maximum number of servers with pictures, and with sentences.
const DRAWN: usize = 12;
const TOLD: usize = 12;
/// Maximum number of diagrams for connections that the user named.
const NAMED: usize = 12;

/// Input of the page.
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    /// Names of the captures.
    pub files: &'a [String],
    /// Cleaning results and unreadable data.
    pub hygiene: &'a Hygiene,
    /// Whether to judge servers; not if connections were selected by their session.
    pub judged: bool,
    /// Servers, those with the most connections first.
    pub servers: &'a [ServerSummary],
    /// Data about servers beyond the limits.
    pub left_out: LeftOut,
    /// Servers' capacity; absent if not requested.
    pub capacities: Option<&'a [ServerCapacity]>,
    /// Times, and connections worth a diagram.
    pub gathered: &'a Gathered,
    /// The first connections, for the table.
    pub shown: &'a [Observed],
    /// Number of all connections.
    pub all: usize,
    /// Connections to draw.
    pub flows: &'a [Observed],
}

/// The page.
pub fn page(page: &Page<'_>) -> String {
    let mut html = String::with_capacity(1 << 18);
    let title = format!("TLS in {}", page.files.join(", "));
    html::begin(&mut html, &title, None);
    header(&mut html, page, &title);
    hygiene(&mut html, page.hygiene);
    if page.judged {
        findings(&mut html, page.servers);
    }
    let figures = figures(page);
    contents(&mut html, &figures);
    figures.iter().for_each(|figure| html::draw(&mut html, figure));
    tables::servers(&mut html, page);
    if let Some(servers) = page.capacities {
        capacity::section(&mut html, servers);
    }
    tables::connections(&mut html, page);
    html += "</main>\n</body>\n</html>\n";
    html
}

fn header(html: &mut String, page: &Page<'_>, title: &str) {
    let mut words = Vec::new();
    if let Some((first, last)) = page.hygiene.span {
        words.extend(u64::try_from(first.unix_ns()).ok().and_then(dates::minute));
        words.push(format!("{:.3} s", last.since(first).as_secs_f64()));
    }
    for (n, noun) in [(page.all, "connection"), (page.servers.len(), "server")] {
        words.push(counted(n as u64, noun));
    }
    let _ = write!(
        html,
        "<body>\n<a class=\"skip\" href=\"#main\">Skip to the findings</a>\n<header>\n<h1>{}</h1>\n\
         <p class=\"sub\">{}</p>\n</header>\n<main id=\"main\" tabindex=\"-1\">\n",
        escape(title),
        escape(&words.join(" · "))
    );
}

fn hygiene(html: &mut String, hygiene: &Hygiene) {
    *html += "<section aria-labelledby=\"hygiene-h\">\n<h2 id=\"hygiene-h\">Files read</h2>\n";
    findings_read(html, hygiene);
    *html += "</section>\n";
}

/// The amount of data read, and the count of every anomaly.
pub(super) fn findings_read(html: &mut String, hygiene: &Hygiene) {
    let text = super::hygiene(hygiene);
    let mut lines = text.lines();
    let _ = writeln!(html, "<p>{}.</p>", escape(lines.next().unwrap_or_default()));
    let findings: Vec<&str> = lines.map(str::trim).collect();
    if findings.is_empty() {
        *html += "<p class=\"note\">Nothing was removed or left out.</p>\n";
        return;
    }
    *html += "<ul>\n";
    for finding in findings {
        let words: Vec<&str> = finding.split_whitespace().collect();
        let _ = writeln!(html, "<li>{}</li>", escape(&words.join(" ")));
    }
    *html += "</ul>\n";
}

fn name(summary: &ServerSummary) -> String {
    let address = summary.key.server.socket_addr().to_string();
    let quic = if summary.key.carrier.name() == "quic" { ", QUIC" } else { "" };
    match summary.key.sni.as_deref() {
        Some(sni) => format!("{sni} ({address}{quic})"),
        None => format!("{address}{quic}"),
    }
}

fn findings(html: &mut String, servers: &[ServerSummary]) {
    *html += "<section aria-labelledby=\"found-h\">\n<h2 id=\"found-h\">Findings</h2>\n";
    let told = by_weight(servers);
    if told.is_empty() {
        *html += "<p>No server has enough handshakes for a verdict.</p>\n";
    }
    *html += "<ul class=\"found\">\n";
    for (summary, verdict) in told.iter().take(TOLD) {
        let (class, symbol) = if verdict.is_finding { ("slower", "!") } else { ("plain", "·") };
        let sentences = [vec![verdict.sentence.clone()], costs(summary)].concat();
        let _ = writeln!(
            html,
            "<li class=\"{class}\"><span class=\"mark\" aria-hidden=\"true\">{symbol}</span> \
             <strong>{}</strong>: {}.</li>",
            escape(&name(summary)),
            escape(&sentences.join("; "))
        );
    }
    *html += "</ul>\n";
    left_out(html, told.len(), TOLD, "servers are in the table");
    *html += "</section>\n";
}

/// States how many of `all` exceed `most`.
fn left_out(html: &mut String, all: usize, most: usize, what: &str) {
    if all > most {
        let more = grouped((all - most) as u64);
        let _ = writeln!(html, "<p class=\"note\">{more} more {what}.</p>");
    }
}

fn figures(page: &Page<'_>) -> Vec<Figure> {
    let mut figures = Vec::new();
    let with_times: Vec<&ServerSummary> =
        page.servers.iter().filter(|s| s.full.is_some() || s.short.is_some()).collect();
    if !with_times.is_empty() {
        let bars: Vec<ServerBars> = with_times
            .iter()
            .take(DRAWN)
            .map(|summary| ServerBars {
                name: name(summary),
                full: summary.full.map(percentiles),
                short: summary.short.map(percentiles),
            })
            .collect();
        let note = match with_times.len().saturating_sub(DRAWN) {
            0 => String::new(),
            more => format!(
                " The {DRAWN} servers with the most connections; {more} more are in \
                             the table."
            ),
        };
        figures.push(captured::servers(&bars, &note));
    }
    let [handshakes, exchanges] = page.gathered.times();
    if [&handshakes, &exchanges].into_iter().flatten().any(|times| !times.sorted.is_empty()) {
        figures.push(captured::distributions(&handshakes, &exchanges));
    }
    let placed = page.gathered.placed();
    if !placed.is_empty() {
        figures.push(captured::over_time(&placed, page.gathered.one_in()));
    }
    figures.extend(diagrams(page));
    figures
}

fn percentiles(times: Distribution) -> Percentiles {
    let ns = [times.p50_seconds, times.p90_seconds, times.p99_seconds].map(|s| s * 1e9);
    (ns, times.count)
}

fn diagrams(page: &Page<'_>) -> Option<Figure> {
    let [full, short, slowest] = page.gathered.worth_a_diagram();
    let mut chosen: Vec<(String, &Observed)> = Vec::new();
    for (what, observed) in [
        ("the median full handshake", full),
        ("the median short handshake", short),
        ("the slowest handshake", slowest),
    ] {
        if let Some(observed) = observed {
            match chosen.iter_mut().find(|(_, other)| other.number == observed.number) {
                Some((name, _)) => *name = format!("{name}, {what}"),
                None => chosen.push((what.to_owned(), observed)),
            }
        }
    }
    for flow in page.flows.iter().take(NAMED) {
        if chosen.iter().all(|(_, other)| other.number != flow.number) {
            chosen.push(("chosen".to_owned(), flow));
        }
    }
    let drawn: Vec<Figure> = chosen
        .iter()
        .map(|(what, observed)| (what, observed, Sequence::lay_out(&model::connection(observed))))
        .filter(|(.., drawn)| !drawn.arrows.is_empty())
        .map(|(what, observed, drawn)| {
            let title = format!("Connection {}: {what}", super::flow::label(observed));
            chart::sequences("", &[(title.as_str(), drawn)])
        })
        .collect();
    let note = match page.flows.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!("{more} more requested connections are not drawn."),
    };
    (!drawn.is_empty()).then(|| captured::diagrams(drawn, &note))
}

fn contents(html: &mut String, figures: &[Figure]) {
    *html += "<nav aria-label=\"On this page\"><ul>\n";
    for figure in figures {
        let (id, title) = (figure.name, escape(&figure.title));
        let _ = writeln!(html, "<li><a href=\"#{id}\">{title}</a></li>");
    }
    *html += "<li><a href=\"#server-table\">Servers</a></li>\n\
              <li><a href=\"#connections\">Connections</a></li>\n</ul></nav>\n";
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use firstbyte_passive::capacity::Capacities;
    use firstbyte_passive::groups::Groups;
    use firstbyte_passive::{Analyzer, Limits};

    use super::*;
    use crate::wire::page_rules::assert_self_contained;

    /// The page of the lab's small capture, with every connection repeated `times` times.
    fn made(times: u64) -> String {
        let file = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../firstbyte/tests/captures/nam/input.pcapng");
        let mut analyzer = Analyzer::new(Limits::default());
        let mut all: Vec<Observed> = Vec::new();
        firstbyte_capture::read(&file, &mut analyzer, &mut |observed| all.push(observed.clone()))
            .unwrap();
        analyzer.finish(&mut |observed| all.push(observed.clone()));
        let (mut gathered, mut groups) = (Gathered::default(), Groups::default());
        let mut capacities = Capacities::default();
        let many: Vec<Observed> =
            all.iter().cycle().take(all.len() * times as usize).cloned().collect();
        for observed in &many {
            gathered.add(observed);
            groups.add(observed);
            capacities.add(observed);
        }
        page(&Page {
            files: &["<nam>.pcapng".to_owned()],
            hygiene: analyzer.hygiene(),
            judged: true,
            servers: &groups.summaries(),
            left_out: groups.left_out(),
            capacities: Some(&capacities.summaries()),
            gathered: &gathered,
            shown: &many,
            all: many.len(),
            flows: &all[..1],
        })
    }

    #[test]
    fn it_is_well_formed_loads_nothing_and_runs_nothing() {
        let page = made(1);
        assert_self_contained(&page);
        assert!(page.contains("default-src 'none'") && page.contains("&lt;nam&gt;"));
    }

    #[test]
    fn it_says_what_the_tables_say() {
        let page = made(1);
        for part in ["Files read", "the median short handshake", "encrypted records"] {
            assert!(page.contains(part), "{part}");
        }
        assert!(
            page.contains("resumes every session that clients offer")
                || page.contains("no client offers")
        );
        assert!(page.contains("All 3."));
    }

    #[test]
    fn ten_thousand_connections_are_under_a_megabyte() {
        let page = made(3_334);
        assert!(page.len() < 1_000_000, "{}", page.len());
        assert!(page.contains("The first 1,000 of 10,002; 9,002 are left out."));
    }
}
