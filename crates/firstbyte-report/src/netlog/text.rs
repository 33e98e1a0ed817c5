//! A network log for the terminal: its hosts, the findings, and the requests that waited longest.

use std::time::Duration;

use firstbyte_sources::netlog::{
    AttemptEnd, FindingGroup, FindingSum, HostSum, JobOutcome, LookupSource, NetLogConnection,
    NetLogJob, NetLogRequest, NetLogSummary, NetLogTransport, PoolLimit, SocketOrigin,
};

use crate::style::{Ink, Style, cut_middle, wrap};
use crate::units::{count, grouped};

/// Maximum number of hosts named in a finding.
const MOST_PLACES: usize = 3;

/// Input of the text view.
#[derive(Debug)]
pub struct NetLogReport<'a> {
    /// Name of the log.
    pub name: &'a str,
    /// Name and version of the browser.
    pub client: Option<(&'a str, &'a str)>,
    /// Time from the first event to the last.
    pub span: Option<Duration>,
    /// Summary of the requests.
    pub summary: &'a NetLogSummary,
    /// Number of hosts to show.
    pub hosts: usize,
}

/// The log as text.
pub fn text(report: &NetLogReport<'_>, style: &Style) -> String {
    let mut lines = head(report, style);
    let summary = report.summary;
    if !summary.hosts().is_empty() {
        lines.push(String::new());
        lines.extend(hosts(&summary.hosts(), report.hosts, style));
        lines.push(String::new());
        lines.extend(findings(&summary.findings(), style));
    }
    if !summary.slowest().is_empty() {
        lines.push(String::new());
        let n = summary.slowest().len();
        let title = match n {
            1 => "The request that waited longest for a connection".to_owned(),
            n => format!("The {n} requests that waited longest for a connection"),
        };
        lines.push(style.paint(Ink::Strong, &title));
        for request in summary.slowest() {
            lines.push(String::new());
            lines.extend(one_request(request, style));
        }
    }
    let mut text = String::new();
    for line in lines {
        text += line.trim_end();
        text.push('\n');
    }
    text
}

fn head(report: &NetLogReport<'_>, style: &Style) -> Vec<String> {
    let dot = style.glyph(" · ", ", ");
    let name = style.safe(report.name);
    let client = report.client.map(|(name, version)| style.safe(&format!("{name} {version}")));
    let span = report.span.map(|span| format!("{:.1} s", span.as_secs_f64()));
    let right: Vec<String> = client.into_iter().chain(span).collect();
    let right = right.join(dot);
    let used = name.chars().count() + right.chars().count();
    let first = if used + 2 <= style.columns() {
        let gap = " ".repeat(style.columns() - used);
        vec![format!("{}{gap}{right}", style.paint(Ink::Strong, &name))]
    } else {
        vec![style.paint(Ink::Strong, &name), right]
    };
    let summary = report.summary;
    let hosts = summary.hosts();
    let asked: u64 = hosts.iter().map(|host| host.requests).sum();
    let failed: u64 = hosts.iter().map(|host| host.failed).sum();
    let mut said = format!("{} to {}", count(asked, "request"), count(hosts.len() as u64, "host"));
    if failed > 0 {
        said += &format!("{dot}{} failed", grouped(failed));
    }
    if summary.without_network() > 0 {
        said += &format!("{dot}{} without a connection", grouped(summary.without_network()));
    }
    said += &format!("{dot}times are whole milliseconds");
    first.into_iter().chain(wrap("", &[said], style.columns())).collect()
}

/// Whole milliseconds, the resolution of such logs; shorter times are "less than one".
fn ms(time: Duration) -> String {
    match time.as_millis() {
        0 => "<1".to_owned(),
        ms => grouped(u64::try_from(ms).unwrap_or(u64::MAX)),
    }
}

fn milliseconds(time: Duration) -> String {
    format!("{} ms", ms(time))
}

fn hosts(hosts: &[&HostSum], most: usize, style: &Style) -> Vec<String> {
    const HEADINGS: [&str; 5] = ["requests", "opened", "failed", "all, ms", "longest"];
    let room = style.columns() - HEADINGS.iter().map(|it| it.len().max(8) + 2).sum::<usize>();
    let row = |name: &str, cells: [&str; 5]| {
        let name = cut_middle(name, room, style);
        let cells: String = cells.iter().map(|cell| format!("  {cell:>8}")).collect();
        format!("{name:<room$}{cells}")
    };
    let mut lines = vec![style.paint(Ink::Faint, &row("waited for connections", HEADINGS))];
    for host in hosts.iter().take(most) {
        let [requests, opened] = [host.requests, host.opened].map(grouped);
        let failed = if host.failed == 0 { String::new() } else { grouped(host.failed) };
        let cells = [&requests, &opened, &failed, &ms(host.waited), &ms(host.longest)];
        lines.push(row(&style.safe(&host.host), cells.map(String::as_str)));
    }
    if hosts.len() > most {
        let left: Duration = hosts.iter().skip(most).map(|host| host.waited).sum();
        let more = count((hosts.len() - most) as u64, "more host");
        let said = format!("{more}, waited {}", milliseconds(left));
        lines.push(style.paint(Ink::Faint, &said));
    }
    lines
}

fn findings(findings: &[FindingGroup<'_>], style: &Style) -> Vec<String> {
    if findings.is_empty() {
        let none = "No avoidable delay was found.";
        return vec![style.paint(Ink::Strong, none)];
    }
    let title = match findings.len() {
        1 => "1 finding".to_owned(),
        n => format!("{}, most costly first", count(n as u64, "finding")),
    };
    let mut lines = vec![style.paint(Ink::Strong, &title)];
    for (number, finding) in (1..).zip(findings) {
        lines.push(String::new());
        let requests = count(finding.requests, "request");
        let cost = finding.cost.map(|cost| format!("{} in ", milliseconds(cost)));
        let cost = cost.unwrap_or_default();
        let title = format!("{}: {cost}{requests}", finding.kind.title());
        for line in wrap(&format!("{number}. "), &words(&title), style.columns()) {
            lines.push(style.paint(Ink::Strong, &line));
        }
        let mut add = |name: &str, text: String| {
            lines.extend(wrap(&format!("   {name:<7} "), &words(&text), style.columns()));
        };
        for (at, host) in finding.hosts.iter().take(MOST_PLACES).enumerate() {
            add(if at == 0 { "where" } else { "" }, place(host, style));
        }
        if finding.hosts.len() > MOST_PLACES {
            let more = (finding.hosts.len() - MOST_PLACES) as u64;
            add("", count(more, "more host"));
        }
        if let Some(worst) = finding.hosts.first() {
            add("seen", style.safe(&worst.evidence));
        }
        add("change", finding.kind.advice().to_owned());
    }
    lines
}

fn place(host: &FindingSum, style: &Style) -> String {
    let requests = count(host.requests, "request");
    let longest = match host.longest {
        Some(longest) if host.requests > 1 => format!(", {} at most", milliseconds(longest)),
        Some(longest) => format!(", {}", milliseconds(longest)),
        None => String::new(),
    };
    format!("{}: {requests}{longest}", style.safe(&host.host))
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

fn one_request(request: &NetLogRequest, style: &Style) -> Vec<String> {
    let waited = request.stream.map(milliseconds).unwrap_or_default();
    let room = style.columns().saturating_sub(waited.chars().count() + 2);
    let url = cut_middle(&style.safe(&request.url), room, style);
    let gap = " ".repeat(style.columns() - url.chars().count() - waited.chars().count());
    let ink = if request.error.is_some() { Ink::Loss } else { Ink::Plain };
    let mut lines = vec![format!("{}{gap}{waited}", style.paint(ink, &url))];
    let mut add = |name: &str, parts: Vec<String>| {
        if !parts.is_empty() {
            let parts = parts.join("; ");
            let words: Vec<String> = parts.split(' ').map(|word| style.safe(word)).collect();
            lines.extend(wrap(&format!("  {name:<9}"), &words, style.columns()));
        }
    };
    add("failed", request.error.iter().cloned().collect());
    add("raced", race(request));
    add("proxy", proxy(request));
    add("lookup", lookup(request));
    add("stalled", stalled(request));
    add("tried", tried(request));
    add("over", request.connection.iter().map(|it| over(it, request)).collect());
    lines
}

/// Who won the connection race, and why.
fn race(request: &NetLogRequest) -> Vec<String> {
    let others: Vec<String> = request
        .jobs
        .iter()
        .filter(|job| job.outcome != JobOutcome::Won)
        .map(|job| {
            let quic = if job.quic { " (QUIC)" } else { "" };
            let what = match &job.outcome {
                JobOutcome::Failed(error) => {
                    let after = job.connect.map(|time| format!(" after {}", milliseconds(time)));
                    let silent = if job.answered == Some(false) { ", unanswered" } else { "" };
                    format!("failed ({error}{}{silent})", after.unwrap_or_default())
                }
                JobOutcome::NothingToTry => "had nothing to try".to_owned(),
                JobOutcome::Open => "was still running at the log's end".to_owned(),
                JobOutcome::Won | JobOutcome::Lost => "was later".to_owned(),
            };
            format!("{}{quic} {what}", job.name)
        })
        .collect();
    let service = request.alternative.iter().filter(|it| it.broken);
    let broken = service.map(|it| format!("{} is marked broken", it.service));
    let winner = request.winner().map(|job| {
        let quic = if job.quic { " (QUIC)" } else { "" };
        let held = job.held.map(|held| format!(", held back {}", milliseconds(held)));
        format!("{}{quic} won{}", job.name, held.unwrap_or_default())
    });
    // Skip requests that had no race and were not held back.
    let raced =
        |job: &NetLogJob| !matches!(job.outcome, JobOutcome::Won | JobOutcome::NothingToTry);
    let alone = !request.jobs.iter().any(raced);
    if alone && request.winner().is_some_and(|job| job.held.is_none() && !job.quic) {
        return broken.collect();
    }
    winner.into_iter().chain(others).chain(broken).collect()
}

fn proxy(request: &NetLogRequest) -> Vec<String> {
    let tunnel = request.tunnel.map(|time| format!(", tunnel {}", milliseconds(time)));
    let proxy = request.proxy.iter();
    proxy.map(|proxy| format!("{proxy}{}", tunnel.clone().unwrap_or_default())).collect()
}

fn lookup(request: &NetLogRequest) -> Vec<String> {
    let Some(lookup) = &request.lookup else { return Vec::new() };
    let sources = lookup.sources.iter().map(|source| match source {
        LookupSource::Cache => "cache",
        LookupSource::HostsFile => "hosts file",
        LookupSource::System => "system's resolver",
        LookupSource::Dns => "name server",
        LookupSource::Doh => "DNS over HTTPS",
    });
    let sources: Vec<&str> = sources.collect();
    if sources.is_empty() && lookup.error.is_none() {
        return Vec::new();
    }
    let took = lookup.took.map(milliseconds).unwrap_or_default();
    let error = lookup.error.as_ref().map(|error| format!(", {error}")).unwrap_or_default();
    vec![format!("{took} {}{error}", sources.join(", then ")).trim().to_owned()]
}

fn stalled(request: &NetLogRequest) -> Vec<String> {
    let Some(stall) = &request.stall else { return Vec::new() };
    let limit = match stall.limit {
        PoolLimit::Host => "the browser's limit of connections to the host",
        PoolLimit::Pool => "the browser's limit of connections in total",
    };
    let took = stall.took.map(|took| format!("{}: ", milliseconds(took))).unwrap_or_default();
    vec![format!("{took}{limit}")]
}

fn tried(request: &NetLogRequest) -> Vec<String> {
    let attempts = request.attempts.iter().map(|attempt| {
        let took = attempt.took.map(milliseconds).unwrap_or_default();
        let end = match &attempt.end {
            AttemptEnd::Connected => String::new(),
            AttemptEnd::Failed(error) => format!(", {error}"),
            AttemptEnd::GivenUp => ", given up".to_owned(),
            AttemptEnd::Unknown => ", end not in the log".to_owned(),
        };
        format!("{} {took}{end}", attempt.address)
    });
    attempts.collect()
}

fn over(connection: &NetLogConnection, request: &NetLogRequest) -> String {
    let origin = match request.origin {
        Some(SocketOrigin::New) => "new".to_owned(),
        Some(SocketOrigin::InAdvance) => "opened in advance".to_owned(),
        Some(SocketOrigin::Idle { idle }) => match idle {
            Some(idle) => format!("reused (idle for {})", milliseconds(idle)),
            None => "reused".to_owned(),
        },
        Some(SocketOrigin::Shared) => "shared".to_owned(),
        Some(SocketOrigin::Coalesced) => "coalesced with another host's".to_owned(),
        None => String::new(),
    };
    let mut parts = vec![origin];
    let is_new = request.origin == Some(SocketOrigin::New);
    let took = connection.handshake.filter(|_| is_new).map(milliseconds);
    let took = took.map(|took| format!(" {took}")).unwrap_or_default();
    if connection.transport == NetLogTransport::Quic {
        let version = connection.quic_version.as_ref();
        let version = version.map(|version| format!(" {version}")).unwrap_or_default();
        parts.push(format!("QUIC{version}{took}"));
    } else if let Some(version) = &connection.tls_version {
        let session = match connection.resumed {
            Some(true) => " resumed",
            Some(false) => " full",
            None => "",
        };
        parts.push(format!("{version}{session}{took}"));
    } else if let Some(remote) = &connection.remote {
        parts.push(remote.clone());
    }
    match connection.early_data {
        Some(true) => parts.push("early data".to_owned()),
        Some(false) => parts.push("early data rejected".to_owned()),
        None => {}
    }
    if connection.hello_retry.is_some() {
        parts.push("HelloRetryRequest".to_owned());
    }
    parts.extend(connection.group.clone());
    parts.extend(connection.alpn.clone());
    if connection.encrypted_hello == Some(true) {
        parts.push("ECH".to_owned());
    }
    if connection.backup {
        parts.push("backup connection".to_owned());
    }
    if connection.lost_packets > 0 {
        parts.push(count(connection.lost_packets, "lost packet"));
    }
    parts.retain(|part| !part.is_empty());
    parts.join(", ")
}
