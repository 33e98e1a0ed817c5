//! The page's tables: all servers, and the first connections.

use std::fmt::Write as _;
use std::time::Duration;

use firstbyte_passive::groups::Distribution;

use super::super::connections::{mark, server, session, version};
use super::super::servers::left_out as beyond;
use super::super::{count, time};
use super::{Page, left_out, name};
use crate::svg::escape;
use crate::units::grouped;

/// Maximum number of rows for servers, and for connections.
const LISTED: usize = 200;
const ROWS: usize = 1_000;

/// Begins a section with a table of these columns; the first `words` columns hold words, the others figures.
pub(in crate::wire) fn table(
    html: &mut String,
    [id, title, note]: [&str; 3],
    columns: &[&str],
    words: usize,
) {
    let _ = write!(
        html,
        "<section id=\"{id}\" aria-labelledby=\"{id}-h\">\n<h2 id=\"{id}-h\">{title}</h2>\n\
         <p class=\"note\">{note}</p>\n<div class=\"wide\" tabindex=\"0\" role=\"region\" \
         aria-labelledby=\"{id}-h\"><table class=\"close\">\n<caption class=\"vh\">{title}</caption>\n<thead><tr>"
    );
    for (place, column) in columns.iter().enumerate() {
        let class = if place < words { " class=\"t\"" } else { "" };
        let _ = write!(html, "<th scope=\"col\"{class}>{column}</th>");
    }
    *html += "</tr></thead>\n<tbody>\n";
}

pub(in crate::wire) const TABLE_END: &str = "</tbody></table></div>\n";

pub(super) fn servers(html: &mut String, page: &Page<'_>) {
    let summaries = page.servers;
    let columns = [
        "server",
        "connections",
        "full",
        "resumed",
        "declined",
        "HRR",
        "errors",
        "full p50",
        "p90",
        "p99",
        "short p50",
        "p90",
        "p99",
        "full : short",
        "exchange p50",
        "a second",
    ];
    let note = "Counts cover all connections; times cover handshakes with certain times.";
    table(html, ["server-table", "Servers", note], &columns, 1);
    for summary in summaries.iter().take(LISTED) {
        let counts = &summary.counts;
        let _ = write!(html, "<tr><th scope=\"row\">{}</th>", escape(&name(summary)));
        for n in [
            counts.connections,
            counts.full,
            counts.resumed,
            counts.declined,
            counts.hello_retry_requests,
            counts.errors(),
        ] {
            let _ = write!(html, "<td>{}</td>", count(n));
        }
        let seconds = |s: f64| time(Duration::from_secs_f64(s));
        for times in [summary.full, summary.short] {
            for of in [
                (|t: Distribution| t.p50_seconds) as fn(Distribution) -> f64,
                |t| t.p90_seconds,
                |t| t.p99_seconds,
            ] {
                cell(html, times.map(|times| seconds(of(times))));
            }
        }
        cell(html, summary.full_to_short().map(|ratio| format!("{ratio:.1}")));
        cell(html, summary.exchange.map(|times| seconds(times.p50_seconds)));
        cell(html, summary.handshakes_per_second().map(|rate| format!("{rate:.1}")));
        *html += "</tr>\n";
    }
    *html += TABLE_END;
    left_out(html, summaries.len(), LISTED, "servers are left out");
    for sentence in beyond(page.left_out) {
        let _ = writeln!(html, "<p class=\"note\">{}.</p>", escape(&sentence));
    }
    *html += "</section>\n";
}

/// A cell; a dash if the value is unknown.
pub(in crate::wire) fn cell(html: &mut String, text: Option<String>) {
    let _ = match text {
        Some(text) => write!(html, "<td>{}</td>", escape(&text)),
        None => write!(html, "<td class=\"no\">–</td>"),
    };
}

/// The same for words.
fn words(html: &mut String, text: Option<String>) {
    let _ = match text {
        Some(text) => write!(html, "<td class=\"tl\">{}</td>", escape(&text)),
        None => write!(html, "<td class=\"tl no\">–</td>"),
    };
}

pub(super) fn connections(html: &mut String, page: &Page<'_>) {
    let columns = [
        "#",
        "server",
        "client",
        "version",
        "session",
        "round trip",
        "handshake",
        "network",
        "server",
        "client",
        "exchanges",
        "mark",
    ];
    let shown = page.shown.len().min(ROWS);
    let note = match page.all - shown {
        0 => format!("All {}.", grouped(page.all as u64)),
        left => format!(
            "The first {} of {}; {} are left out.",
            grouped(shown as u64),
            grouped(page.all as u64),
            grouped(left as u64)
        ),
    };
    let note = format!("{note} ! in doubt, A alert, R reset; ~ approximate.");
    table(html, ["connections", "Connections", &note], &columns, 5);
    for observed in &page.shown[..shown] {
        let _ = write!(
            html,
            "<tr><td>{}</td><td class=\"t\">{}</td><td class=\"tl\">{}</td>",
            observed.number,
            escape(&server(observed)),
            observed.client.socket_addr()
        );
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        words(html, text(version(observed)));
        words(html, text(session(observed)));
        cell(html, observed.round_trips.path().map(time));
        let split = observed.handshake_time;
        cell(html, split.map(|split| time(split.total())));
        cell(html, split.map(|split| time(split.network)));
        cell(html, split.map(|split| time(split.server)));
        cell(html, split.map(|split| time(split.client)));
        let about = if observed.exchanges.approximate { "~" } else { "" };
        cell(html, observed.exchanges.count.map(|n| format!("{about}{n}")));
        let doubts: Vec<&str> = observed.doubts.names().collect();
        let _ = writeln!(
            html,
            "<td title=\"{}\">{}</td></tr>",
            escape(&doubts.join(", ")),
            escape(&mark(observed))
        );
    }
    *html += TABLE_END;
    *html += "</section>\n";
}
