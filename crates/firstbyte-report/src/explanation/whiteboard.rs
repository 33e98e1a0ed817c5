//! A ping, http and https side by side, as on a whiteboard. One line is half a round trip, so longer steps take
//! more lines.

use std::time::Duration;

use firstbyte_core::sequence::{Arrow, ArrowKind, Sequence};
use firstbyte_core::split::AttributedConnection;
use firstbyte_core::timeline::{Connection, Direction, Facts, Mark, Marks, Offset};
use firstbyte_explain::WayKind;

use super::Explanation;
use crate::style::{Ink, Style};
use crate::units::Scale;

/// Beyond this many lines, a drawing is useless.
const MOST_LINES: usize = 40;
/// Columns between the two lifelines of a diagram.
const INNER: usize = 20;
/// Columns for the times on the left.
const LEFT: usize = 7;

struct Column {
    title: String,
    total: Duration,
    /// For each half round trip, the direction and label of an arrow.
    lines: Vec<Option<(Direction, String)>>,
}

/// The drawing; empty if the user's own way has no TLS to compare, or if there are too many round trips to draw.
pub(super) fn whiteboard(explanation: &Explanation, style: &Style) -> Vec<String> {
    let Some(subject) = explanation.subject() else { return Vec::new() };
    let Some(half) = explanation.equation.rtt.map(|rtt| rtt / 2).filter(|h| !h.is_zero()) else {
        return Vec::new();
    };
    let facts = &subject.middle.connection.facts;
    if facts.tls.is_none() || facts.quic.is_some() {
        return Vec::new();
    }
    let plain = explanation.ways.iter().find(|way| way.kind == WayKind::Plain);
    let connections = [
        Some(("like a ping", ping_like(&subject.middle.connection))),
        plain.map(|way| ("http", way.middle.clone())),
        Some(("https", subject.middle.clone())),
    ];
    let columns: Vec<Column> = connections
        .into_iter()
        .flatten()
        .filter_map(|(title, connection)| column(title, &connection, half, style))
        .collect();
    let length = columns.iter().map(|column| column.lines.len()).max().unwrap_or(0);
    if length > MOST_LINES {
        return Vec::new();
    }
    drawn(&columns, length, half, explanation.equation.total, style)
}

/// The connection up to the answer to its SYN.
fn ping_like(connection: &Connection) -> AttributedConnection {
    let mut marks = Marks::default();
    for mark in [Mark::DomainLookupEnd, Mark::ConnectStart, Mark::TcpConnected] {
        if let Some(stamp) = connection.marks.stamp(mark) {
            marks.set(mark, stamp);
        }
    }
    let facts = Facts {
        remote: connection.facts.remote,
        tcp: connection.facts.tcp.clone(),
        ..Facts::default()
    };
    let attempts = connection.attempts.clone();
    AttributedConnection::alone(Connection { marks, facts, attempts, ..Connection::default() })
}

fn column(
    title: &str,
    attributed: &AttributedConnection,
    half: Duration,
    style: &Style,
) -> Option<Column> {
    let sequence = Sequence::from_attributed(attributed);
    let begun = attributed.connection.marks.at(Mark::ConnectStart)?;
    let end = Offset::ZERO + sequence.total;
    let line = |at: Offset| {
        let halves = at.since(begun).as_secs_f64() / half.as_secs_f64();
        halves.round() as usize
    };
    let mut lines: Vec<Option<(Direction, String)>> = Vec::new();
    for arrow in sequence.arrows.iter().filter(|arrow| arrow.kind != ArrowKind::Meanwhile) {
        for (index, burst) in arrow.bursts.iter().enumerate() {
            let Some(departed) = burst.departed.filter(|departed| departed.at <= end) else {
                continue;
            };
            let at = line(departed.at.max(begun));
            if at > MOST_LINES {
                return None;
            }
            if lines.len() <= at {
                lines.resize(at + 1, None);
            }
            let label = label(arrow, index, style);
            match &mut lines[at] {
                None => lines[at] = Some((arrow.direction, label)),
                // Bursts that leave together share a label, as far as there is space.
                Some((direction, told))
                    if *direction == arrow.direction
                        && told.chars().count() + label.chars().count() + 3 <= INNER - 4 =>
                {
                    *told += " + ";
                    *told += &label;
                }
                // The response takes precedence, because readers look for it.
                Some(held) if arrow.kind == ArrowKind::Response => *held = (arrow.direction, label),
                Some(_) => {}
            }
        }
    }
    let total = end.since(begun);
    Some(Column { title: title.to_owned(), total, lines })
}

/// A label of one or two words for a burst.
fn label(arrow: &Arrow, index: usize, style: &Style) -> String {
    let dots = style.glyph("…", "..");
    let has = |name: &str| arrow.messages.iter().any(|message| message.contains(name));
    let words = match arrow.kind {
        ArrowKind::Syn { retransmission: 0 } => "SYN",
        ArrowKind::Syn { .. } => "SYN again",
        ArrowKind::OtherAttempt if has("Initial") => "Initial elsewhere",
        ArrowKind::OtherAttempt => "SYN elsewhere",
        ArrowKind::SynAck => "SYN/ACK",
        ArrowKind::Reset if has("port unreachable") => "unreachable",
        ArrowKind::Reset => "RST",
        ArrowKind::Response if index == 0 => "response",
        ArrowKind::Response | ArrowKind::Meanwhile => return format!("{dots} response"),
        ArrowKind::Flight if index > 0 => return format!("{dots} more of it"),
        ArrowKind::Flight if has("ClientHello") => "ClientHello",
        ArrowKind::Flight if has("HelloRetryRequest") => "HelloRetryRequest",
        ArrowKind::Flight if has("ServerHelloDone") => {
            return format!("ServerHello{dots}Done");
        }
        ArrowKind::Flight if has("ServerHello") => return format!("ServerHello{dots}"),
        ArrowKind::Flight if has("HEADERS") || has("HTTP/") => "request",
        ArrowKind::Flight if has("Finished") => "Finished",
        ArrowKind::Flight => {
            let first = arrow.messages.first().map_or("data", String::as_str);
            return first.trim_matches(['{', '}']).chars().take(INNER - 4).collect();
        }
    };
    let both = arrow.direction == Direction::Sent && has("Finished") && words == "request";
    if both { "Finished, request".into() } else { words.to_owned() }
}

fn drawn(
    columns: &[Column],
    length: usize,
    half: Duration,
    total: Duration,
    style: &Style,
) -> Vec<String> {
    let scale = Scale::for_largest(total);
    let gap = "  ";
    let mut lines = Vec::with_capacity(length + 3);
    let heading = "each line is half a round trip";
    lines.push(style.paint(Ink::Faint, heading));
    let titles: Vec<String> =
        columns.iter().map(|c| format!("{:^width$}", c.title, width = INNER + 2)).collect();
    let unit = scale.name(style);
    let titles = format!("{unit:>width$} {}", titles.join(gap), width = LEFT - 1);
    lines.push(style.paint(Ink::Strong, &titles));
    for line in 0..length {
        let at = half * u32::try_from(line).unwrap_or(u32::MAX);
        let time = if line % 2 == 0 { scale.figure(scale.steps(at)) } else { String::new() };
        let cells: Vec<String> = columns.iter().map(|column| cell(column, line, style)).collect();
        let time = style.paint(Ink::Faint, &format!("{time:>width$} ", width = LEFT - 1));
        lines.push(format!("{time}{}", cells.join(gap)));
    }
    let totals: Vec<String> = columns
        .iter()
        .map(|c| format!("{:^width$}", scale.time(c.total, style), width = INNER + 2))
        .collect();
    let totals = format!("{:LEFT$}{}", "", totals.join(gap));
    lines.push(style.paint(Ink::Strong, &totals));
    lines
}

/// One line of one column, between its lifelines.
fn cell(column: &Column, line: usize, style: &Style) -> String {
    let Some(what) = column.lines.get(line) else { return " ".repeat(INNER + 2) };
    let bar = style.glyph("│", "|");
    let Some((direction, label)) = what else {
        return format!("{bar}{:INNER$}{bar}", "");
    };
    let (dash, left, right) = (style.glyph("─", "-"), style.glyph("◀", "<"), style.glyph("▶", ">"));
    let label = format!(" {label} ");
    let room = (INNER - 1).saturating_sub(label.chars().count());
    let (before, after) = (dash.repeat(room / 2), dash.repeat(room - room / 2));
    let (text, ink) = match direction {
        Direction::Sent => (format!("{before}{label}{after}{right}"), Ink::Network),
        Direction::Received => (format!("{left}{before}{label}{after}"), Ink::Server),
    };
    format!("{bar}{}{bar}", style.paint(ink, &text))
}
