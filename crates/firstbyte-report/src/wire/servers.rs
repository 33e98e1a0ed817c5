//! Servers: how many handshakes were full and how many short, what both cost, and what that means.

use std::fmt::Write as _;
use std::time::Duration;

use firstbyte_passive::groups::{Distribution, LeftOut, ServerSummary};

use super::verdict::{Verdict, by_weight, costs, verdict};
use super::{count, counted, fit, time};
use crate::Style;
use crate::style::{Ink, wrap};

/// Maximum number of findings shown before the servers.
const FINDINGS: usize = 8;

/// Problems to fix, worst first; empty if there is only one server, whose paragraph has its own verdict.
pub fn findings(summaries: &[ServerSummary], style: &Style) -> String {
    let found: Vec<_> =
        by_weight(summaries).into_iter().filter(|(_, verdict)| verdict.is_finding).collect();
    if summaries.len() < 2 || found.is_empty() {
        return String::new();
    }
    let of = counted(summaries.len() as u64, "server");
    let mut text = style.paint(Ink::Strong, &format!("Findings at {} of {of}", found.len()));
    text.push('\n');
    for (summary, verdict) in found.iter().take(FINDINGS) {
        let whose = fit(&name(summary, style), style.columns() - 5);
        text.push_str(&told(&format!("{whose}: "), verdict, style));
    }
    if found.len() > FINDINGS {
        let _ = writeln!(text, "  and {} more", found.len() - FINDINGS);
    }
    text.push('\n');
    text
}

/// A verdict with its mark.
fn told(whose: &str, verdict: &Verdict, style: &Style) -> String {
    let mark = if verdict.is_finding { "!" } else { " " };
    let words: Vec<String> =
        format!("{whose}{}", verdict.sentence).split(' ').map(str::to_owned).collect();
    let mut text = String::new();
    for (place, line) in wrap("    ", &words, style.columns()).iter().enumerate() {
        let rest = line.trim_start();
        let _ = match place {
            0 => writeln!(text, "  {} {rest}", style.paint(Ink::Loss, mark)),
            _ => writeln!(text, "    {rest}"),
        };
    }
    text
}

fn name(summary: &ServerSummary, style: &Style) -> String {
    // Sanitise the name: a ClientHello may contain anything.
    let name = style.safe(summary.key.sni.as_deref().unwrap_or("(no server name)"));
    format!("{name} {}", summary.key.server.socket_addr())
}

/// One paragraph for each of the first `most` servers, with a verdict if they are `judged`.
pub fn servers(summaries: &[ServerSummary], most: usize, judged: bool, style: &Style) -> String {
    let mut text = String::new();
    for summary in summaries.iter().take(most) {
        let carrier = summary.key.carrier.name();
        let head = fit(&format!("{} {carrier}", name(summary, style)), style.columns());
        let _ = writeln!(text, "{}", style.paint(Ink::Strong, &head));
        if let Some(verdict) = verdict(summary).filter(|_| judged) {
            text.push_str(&told("", &verdict, style));
        }
        for line in wrap("    ", &counts(summary), style.columns()) {
            let _ = writeln!(text, "{line}");
        }
        text.push_str(&times(summary, style));
        text.push('\n');
    }
    if summaries.len() > most {
        let all = count(summaries.len() as u64);
        let _ = writeln!(text, "{most} of {all} servers, those with the most connections\n");
    }
    text
}

fn counts(summary: &ServerSummary) -> Vec<String> {
    let counts = &summary.counts;
    let mut parts = vec![
        format!("{}:", counted(counts.connections, "connection")),
        format!("{} full", count(counts.full)),
        format!("{} resumed", count(counts.resumed)),
    ];
    for (number, what) in [
        (counts.hello_retry_requests, "HelloRetryRequest"),
        (counts.early_data, "sent early data"),
        (counts.early_data_accepted, "early data accepted"),
        (counts.errors(), "failed"),
        (counts.doubtful, "in doubt"),
    ] {
        if number > 0 {
            parts.push(format!("{} {what}", count(number)));
        }
    }
    parts.extend(
        summary.handshakes_per_second().map(|rate| format!("{rate:.1} handshakes per second")),
    );
    let last = parts.len() - 1;
    for part in &mut parts[1..last] {
        part.push(',');
    }
    parts
}

/// Times of handshakes and exchanges, in aligned columns.
fn times(summary: &ServerSummary, style: &Style) -> String {
    let rows = [("full", summary.full), ("short", summary.short), ("exchange", summary.exchange)];
    let mut text = String::new();
    for (what, times) in rows {
        let Some(times) = times else { continue };
        if text.is_empty() {
            let head = ["p50", "p90", "p99", "mean", "n"].map(|name| format!("{name:>9}"));
            let head = format!("            {}", head.concat());
            let _ = writeln!(text, "{}", style.paint(Ink::Faint, &head));
        }
        let _ = writeln!(text, "    {what:<8}{}{:>9}", figures(&times), count(times.count));
    }
    for sentence in costs(summary) {
        let words: Vec<String> = sentence.split(' ').map(str::to_owned).collect();
        for line in wrap("    ", &words, style.columns()) {
            let _ = writeln!(text, "{line}");
        }
    }
    text
}

fn figures(times: &Distribution) -> String {
    [times.p50_seconds, times.p90_seconds, times.p99_seconds, times.mean_seconds]
        .map(|seconds| format!("{:>9}", time(Duration::from_secs_f64(seconds))))
        .concat()
}

/// Data about servers beyond the limits, as sentences.
pub fn left_out(left_out: LeftOut) -> Vec<String> {
    let mut sentences = Vec::new();
    if left_out.connections > 0 {
        sentences.push(format!(
            "{} connections belong to servers that are left out: too many servers, those with the \
             fewest connections",
            count(left_out.connections)
        ));
    }
    if let Some((kept, met)) = left_out.times {
        sentences.push(format!(
            "percentiles come from {} of {} times, chosen at random",
            count(kept),
            count(met)
        ));
    }
    sentences
}

#[cfg(test)]
mod tests {
    use firstbyte_passive::groups::Counts;

    use super::*;
    use crate::wire::verdict::tests::server;

    fn declining(declined: u64) -> ServerSummary {
        let (connections, offered) = (declined + 1, declined);
        let full = connections;
        let counts = Counts { connections, full, offered, declined, ..Counts::default() };
        server(counts, [None; 3])
    }

    #[test]
    fn findings_are_listed_where_there_are_several_servers() {
        let style = Style::default();
        assert_eq!(findings(&[declining(3)], &style), "");
        assert_eq!(findings(&[declining(0), declining(0)], &style), "");
        let told = findings(&[declining(0), declining(3)], &style);
        let expected = "Findings at 1 of 2 servers\n  \
                        ! (no server name) 198.51.100.1:443: the server declines all 3 sessions\n    offered\n\n";
        assert_eq!(told, expected);
        let many: Vec<ServerSummary> = (1..=12).map(declining).collect();
        let told = findings(&many, &style);
        assert!(told.contains("Findings at 12 of 12 servers\n"), "{told}");
        assert!(told.ends_with("declines all 5 sessions\n    offered\n  and 4 more\n\n"), "{told}");
    }

    #[test]
    fn a_name_that_a_client_made_long_stays_within_the_width() {
        let mut long = declining(3);
        long.key.sni = Some("x".repeat(300).into());
        let servers = [long, declining(2)];
        let style = Style::default();
        let text = findings(&servers, &style) + &super::servers(&servers, 20, true, &style);
        for line in text.lines() {
            assert!(line.chars().count() <= style.columns(), "{line}");
        }
    }

    #[test]
    fn what_is_left_out_is_said() {
        assert!(left_out(LeftOut::default()).is_empty());
        let told = left_out(LeftOut { connections: 1_234, times: Some((1_000, 2_500)) });
        assert!(told[0].starts_with("1,234 connections belong to servers that are left out"));
        assert_eq!(told[1], "percentiles come from 1,000 of 2,500 times, chosen at random");
    }
}
