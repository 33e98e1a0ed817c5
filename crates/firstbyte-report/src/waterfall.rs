//! One sample as a drawing: one row per phase over a common time axis, the equations, the facts.
//!
//! Within a row, the parts of the phase follow one another; vertical lines are round trips, counted from the SYN
//! that was answered.

use firstbyte_core::run::{redirect_time, visit_time};
use firstbyte_core::split::Split;
use firstbyte_core::timeline::{Connection, Mark, Offset, PhaseName, Sample};

use super::axis::{Axis, Cell, Grid, PARTS};
use super::equation::Ledger;
use super::style::{Ink, Style, wrap};
use super::units::count;
use super::{error, facts, requests};
use firstbyte_core::shown_url::shown_url;

/// The waterfall of `sample`'s last connection.
///
/// Redirects before it appear as a line of the equations and among the facts. First byte and total in the header
/// are the visit's.
pub fn waterfall(sample: &Sample, style: &Style) -> String {
    let connection = &sample.connection;
    let split = Split::attribute(connection);
    let others = sample.time_after_first_response();
    let ledger = Ledger::from_split(&split).of_visit(visit_time(sample), others);
    let mut out = header(sample, &ledger, style);
    out.push(String::new());
    if !split.phases.is_empty() {
        out.extend(chart(connection, &split, &ledger, style));
        out.push(String::new());
        out.extend(ledger.lines(style));
        out.push(String::new());
    }
    let requests = requests::lines(sample, style);
    if !requests.is_empty() {
        out.extend(requests);
        out.push(String::new());
    }
    out.extend(facts::lines(sample, &split, style));
    if sample.failure().is_some() {
        if out.last().is_some_and(|line| !line.is_empty()) {
            out.push(String::new());
        }
        out.push(error::failure(sample, style).trim_end().to_owned());
    }
    let mut text = String::new();
    for line in out {
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// The request on the left and the outcome on the right; two lines if one is too short.
pub(super) fn header(sample: &Sample, ledger: &Ledger, style: &Style) -> Vec<String> {
    let dot = style.glyph(" · ", ", ");
    let connection = &sample.connection;
    let redirects = redirect_time(sample);
    let mut right = Vec::new();
    if sample.warmup {
        right.push("warm-up".to_owned());
    }
    if let Some(http) = &connection.facts.http {
        let version = http.version.as_deref().map(|v| format!("HTTP/{v}"));
        let status = http.status.map(|s| s.to_string());
        let both: Vec<String> = version.into_iter().chain(status).collect();
        if !both.is_empty() {
            right.push(both.join(" "));
        }
    }
    if let Some(failure) = sample.failure() {
        right.push(format!("failed in {}", failure.phase));
    }
    if let Some(first_byte) = connection.marks.at(Mark::ResponseStart) {
        let time = ledger.scale.time(redirects + first_byte.since(Offset::ZERO), style);
        right.push(format!("first byte {time}"));
    }
    if let Some(requests) = &sample.requests {
        right.push(count(u64::from(requests.asked), "request"));
    }
    right.push(format!("total {}", ledger.scale.time(visit_time(sample), style)));
    let right = right.join(dot);
    let left = style.safe(&shown_url(&connection.url));
    let used = left.chars().count() + right.chars().count();
    let ink = if sample.failure().is_some() { Ink::Loss } else { Ink::Strong };
    if used + 2 <= style.columns() {
        let gap = " ".repeat(style.columns() - used);
        return vec![format!(
            "{}{gap}{}",
            style.paint(Ink::Strong, &left),
            style.paint(ink, &right)
        )];
    }
    vec![style.paint(Ink::Strong, &left), style.paint(ink, &right)]
}

/// A row's label: the phase, its time, and whether the connection failed in it.
struct Label {
    name: PhaseName,
    time: String,
    failed: bool,
}

fn chart(connection: &Connection, split: &Split, ledger: &Ledger, style: &Style) -> Vec<String> {
    let failed_in = connection.failure.as_ref().map(|f| f.phase);
    let mut labels: Vec<Label> = split
        .phases
        .iter()
        .zip(&ledger.phases)
        .map(|(phase, equation)| Label {
            name: phase.phase.name,
            time: match equation.steps {
                0 => ledger.scale.time(phase.phase.duration(), style),
                steps => ledger.scale.print(steps, style),
            },
            failed: failed_in == Some(phase.phase.name),
        })
        .collect();
    // A failed phase gets a row even without a duration.
    if let Some(name) = failed_in.filter(|name| labels.iter().all(|l| l.name != *name)) {
        labels.push(Label { name, time: String::new(), failed: true });
    }
    let names = labels.iter().map(|label| label.name.label().len());
    let name_width = names.max().unwrap_or(0).max(NAME_WIDTH);
    let time_width = labels.iter().map(|l| l.time.chars().count()).max().unwrap_or(0).max(8);
    let margin = name_width + 2 + time_width + 2;
    let axis = Axis::new(split.total(), style.columns() - margin - 1);
    let grid = Grid::lay_out(connection, split, &axis);
    let gutter = |text: &str, ink| {
        let width = margin - 2;
        style.paint(ink, &format!("{text:>width$}  "))
    };
    let mut lines = Vec::new();
    if !grid.lines.is_empty() {
        let numbers = style.cells(&grid.numbers(&axis));
        lines.push(format!("{}{numbers}", gutter("round trips", Ink::Faint)));
    }
    for (i, label) in labels.iter().enumerate() {
        let mut row = axis.blank(&grid, style);
        let phase = split.phases.get(i);
        if let Some(phase) = phase {
            axis.draw(&mut row, phase, style);
        }
        let end = phase.map_or(Offset::ZERO + split.total(), |p| p.phase.end);
        mark(&mut row, &axis, label, end, style);
        let ink = if label.failed { Ink::Loss } else { Ink::Plain };
        let name = style.paint(ink, &format!("{:<name_width$}", label.name.label()));
        lines.push(format!("{name}  {:>time_width$}  {}", label.time, style.cells(&row)));
    }
    let [rule, ticks] = axis.ticks(ledger.scale, style);
    lines.push(format!("{}{}", gutter("", Ink::Plain), style.cells(&rule)));
    lines.push(format!("{}{}", gutter(ledger.scale.name(style), Ink::Faint), style.cells(&ticks)));
    lines.extend(legend(connection, split, ledger, &grid, margin, style));
    lines
}

/// Minimum number of columns for a phase's name.
const NAME_WIDTH: usize = 7;

/// Marks the first byte at the end of the wait, or the failure at the end of its phase.
fn mark(row: &mut [Cell], axis: &Axis, label: &Label, end: Offset, style: &Style) {
    if label.failed {
        row[axis.column(end)] = (style.glyph('✗', 'X'), Ink::Loss);
    } else if label.name == PhaseName::Wait {
        row[axis.column(end)] = (style.glyph('◆', '*'), Ink::FirstByte);
    }
}

fn legend(
    connection: &Connection,
    split: &Split,
    ledger: &Ledger,
    grid: &Grid,
    margin: usize,
    style: &Style,
) -> Vec<String> {
    let mut entries: Vec<(char, Ink, String)> = PARTS
        .iter()
        .filter(|part| ledger.total.has(part.name))
        .map(|part| (part.glyph(style), part.ink, part.name.to_owned()))
        .collect();
    if connection.marks.at(Mark::ResponseStart).is_some() {
        entries.push((style.glyph('◆', '*'), Ink::FirstByte, "first byte".into()));
    }
    if connection.failure.is_some() {
        entries.push((style.glyph('✗', 'X'), Ink::Loss, "failed here".into()));
    }
    if let (Some(rtt), true) = (split.rtt, grid.lines.len() > 1) {
        let what = match grid.every {
            1 => format!("round trip ({})", ledger.scale.time(rtt, style)),
            n => format!("every {n} round trips ({} each)", fine(rtt, style)),
        };
        entries.push((style.glyph('┊', ':'), Ink::Faint, what));
    }
    // Lay out without colours, so that these do not count as width, and paint afterwards.
    let words: Vec<String> =
        entries.iter().map(|(glyph, _, name)| format!("{glyph} {name} ")).collect();
    let lines = wrap(&" ".repeat(margin), &words, style.columns() + 1);
    let mut entries = entries.iter();
    lines
        .into_iter()
        .map(|line| {
            let mut painted = String::new();
            let mut rest = line.as_str();
            while let Some((glyph, ink, name)) = entries.as_slice().first() {
                let word = format!("{glyph} {name} ");
                let Some(found) = rest.find(&word) else { break };
                painted += &rest[..found];
                painted += &format!("{} {name} ", style.paint(*ink, &glyph.to_string()));
                rest = &rest[found + word.len()..];
                entries.next();
            }
            painted + rest
        })
        .collect()
}

/// A single time, in a suitable unit.
fn fine(duration: std::time::Duration, style: &Style) -> String {
    super::units::Scale::for_largest(duration).time(duration, style)
}

#[cfg(test)]
mod tests {
    use super::super::fixtures;
    use super::*;

    fn plain(sample: &Sample, width: usize) -> String {
        waterfall(sample, &Style { color: false, width, unicode: true })
    }

    #[test]
    fn tls12_to_sydney() {
        let text = plain(&fixtures::tls12_sydney(), 80);
        assert!(
            text.contains("tls 166.3 ms = 2 round trips × 81.1 ms + server 2.9 ms + client 1.2 ms")
        );
        assert!(text.contains("connect 81.1 ms = 1 round trip × 81.1 ms\n"));
        insta::assert_snapshot!(text);
    }

    #[test]
    fn tls13_with_http2() {
        let text = plain(&fixtures::tls13_http2(), 80);
        assert!(text.contains("tls 12.65 ms = 1 round trip × 10.24 ms + server 1.15 ms"));
        insta::assert_snapshot!(text);
    }

    #[test]
    fn plain_http_has_no_rows_for_what_did_not_happen() {
        let text = plain(&fixtures::plain_http(), 80);
        assert!(!text.contains("resolve ") && !text.contains("tls "));
        insta::assert_snapshot!(text);
    }

    #[test]
    fn a_failure_is_shown_with_what_came_before_it() {
        let text = plain(&fixtures::expired_certificate(), 80);
        assert!(text.contains("failed in tls"));
        assert!(text.contains("✗"));
        assert!(text.contains("\nerror: tls: certificate expired on"));
        insta::assert_snapshot!(text);
    }

    #[test]
    fn nothing_answers() {
        insta::assert_snapshot!(plain(&fixtures::connect_timeout(), 80));
    }

    #[test]
    fn a_lost_syn_is_variation() {
        let text = plain(&fixtures::syn_loss(), 80);
        assert!(text.contains("1 round trip × 10.2 ms + variation 1000.0 ms"));
        insta::assert_snapshot!(text);
    }

    #[test]
    fn the_losing_attempt_is_shown() {
        let text = plain(&fixtures::fallback(), 80);
        assert!(text.contains("fallback 250.0 ms"));
        assert!(text.contains("[2001:db8::51]:443 · given up after 260.3 ms"));
        insta::assert_snapshot!(text);
    }

    #[test]
    fn each_question_to_a_name_server_has_a_line() {
        use firstbyte_core::timeline::{DnsTransport, LookupTry};
        let micros = |us: i64| Offset::from_nanos(us * 1_000);
        let ask = |server: &str, start, end: Option<i64>, error: Option<&str>| LookupTry {
            server: server.parse().unwrap(),
            transport: DnsTransport::Udp,
            start: micros(start),
            end: end.map(micros),
            error: error.map(str::to_owned),
        };
        let mut sample = fixtures::tls13_http2();
        let lookups = &mut sample.connection.lookups;
        lookups[0].tries = vec![ask("192.0.2.53:53", 35, Some(980), None)];
        lookups[1].tries = vec![
            ask("192.0.2.52:53", 50, Some(5_000_050), Some("no answer")),
            ask("192.0.2.53:53", 5_000_050, None, None),
        ];
        let text = plain(&sample, 80);
        assert!(text.contains("→ 2001:db8::51 from 192.0.2.53:53\n"), "{text}");
        assert!(text.contains("\n                 192.0.2.52:53 no answer after 5"), "{text}");
        assert!(text.contains("\n                 192.0.2.53:53 had not answered\n"), "{text}");
    }

    #[test]
    fn redirects_are_one_line_each() {
        let text = plain(&fixtures::redirects(), 100);
        assert!(text.contains("49.13 ms (2 round trips) 301 http://gov.example/"));
        // The visit's total and its parts.
        assert!(text.lines().next().unwrap().ends_with("total 434.1 ms"), "{text}");
        assert!(
            text.contains("total 434.1 ms = redirects 87.1 ms + connection 347.0 ms"),
            "{text}"
        );
        insta::assert_snapshot!(text);
    }

    #[test]
    fn a_proxy_has_rows_of_its_own() {
        let text = plain(&fixtures::proxied(), 80);
        for line in [
            "proxy tls 12.80 ms = 1 round trip × 10.24 ms + server 1.46 ms + client 1.10 ms",
            "tunnel 18.54 ms = 1 round trip × 10.24 ms + server 8.20 ms + client 0.10 ms",
            "proxy       https proxy.test:3129 · tunnel by CONNECT: 200",
        ] {
            assert!(text.contains(line), "{line}:\n{text}");
        }
        let row = |name: &str| text.lines().any(|line| line.starts_with(name));
        assert!(row("connect    ") && row("proxy tls  ") && row("tunnel     "), "{text}");
        let split = Split::attribute(&fixtures::proxied().connection);
        let sum: std::time::Duration = split.phases.iter().map(|p| p.phase.duration()).sum();
        assert_eq!((split.phases.len(), sum), (8, split.total()));
        let direct = plain(&fixtures::tls13_http2(), 80);
        assert!(!direct.contains("proxy") && !direct.contains("tunnel"), "{direct}");
    }

    #[test]
    fn loopback_is_in_microseconds() {
        let text = plain(&fixtures::loopback(), 80);
        assert!(text.contains("total 318 µs = 3 round trips × 26 µs"));
        insta::assert_snapshot!(text);
    }

    #[test]
    fn half_a_minute_is_in_seconds() {
        let text = plain(&fixtures::slow_server(), 80);
        assert!(text.contains("wait 30.211 s = 1 round trip × 0.001 s + server 30.210 s"));
        insta::assert_snapshot!(text);
    }

    #[test]
    fn ascii_at_sixty_columns() {
        let style = Style { color: false, width: 60, unicode: false };
        let text = waterfall(&fixtures::tls12_sydney(), &style);
        assert!(text.is_ascii());
        insta::assert_snapshot!(text);
    }

    #[test]
    fn colours_only_dress_the_text() {
        for sample in fixtures::all() {
            for width in [60, 80, 120] {
                let colored = Style { color: true, width, unicode: true };
                let text = waterfall(&sample, &colored);
                assert_eq!(fixtures::undressed(&text), plain_trimmed(&sample, width));
            }
        }
    }

    /// Removes colours. Blanks before a removed escape sequence would remain at the end of the line, so trims them,
    /// too.
    fn plain_trimmed(sample: &Sample, width: usize) -> String {
        plain(sample, width).lines().map(|l| l.trim_end().to_owned() + "\n").collect()
    }

    #[test]
    fn fits_the_width() {
        for sample in fixtures::all() {
            for width in 60..=200 {
                let text = plain(&sample, width);
                for line in
                    text.lines().filter(|l| !l.starts_with("error: ") && !l.starts_with("hint: "))
                {
                    assert!(line.chars().count() <= width, "{width}: {line}");
                }
            }
        }
    }

    #[test]
    fn a_failure_without_a_time_still_has_its_row() {
        let mut sample = fixtures::expired_certificate();
        if let Some(failure) = &mut sample.connection.failure {
            failure.at = None;
        }
        let text = plain(&sample, 80);
        let row = text.lines().find(|l| l.starts_with("tls ")).unwrap();
        assert!(row.ends_with('✗'), "{row}");
    }

    #[test]
    fn nothing_known_is_no_panic() {
        let text = plain(&Sample::default(), 80);
        assert!(text.contains("total 0 µs"));
    }
}
