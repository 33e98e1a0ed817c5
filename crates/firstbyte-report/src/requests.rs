//! The requests of one sample on one time axis: which waited for which, and on which connection.
//!
//! Up to `ROWS` requests have a row each; if there are more, each connection has one.

use std::time::Duration;

use firstbyte_core::timeline::{Connection, Exchange, Mark, Offset, Requests, Sample};

use super::style::{Ink, Style, wrap};
use super::units::{Scale, count};

/// Maximum number of requests with a row each.
const ROWS: usize = 24;
/// Columns for the legend.
const LEGEND_COLUMNS: usize = 27;

/// A stretch of time in a row.
struct Stretch {
    from: Offset,
    to: Offset,
    glyph: char,
    ink: Ink,
}

struct Row {
    /// The request's number or the number of requests; and the connection's number.
    of: [String; 2],
    first_byte: Option<Offset>,
    last_byte: Option<Offset>,
    stretches: Vec<Stretch>,
    failed: bool,
}

/// The requests of `sample`: a summary and a drawing; empty if there is only one.
pub(crate) fn lines(sample: &Sample, style: &Style) -> Vec<String> {
    let Some(requests) = &sample.requests else { return Vec::new() };
    let last = requests.exchanges.iter().filter_map(|e| e.response_end).map(|end| end.at).max();
    let span = last.unwrap_or(Offset::ZERO).since(Offset::ZERO);
    let scale = Scale::for_largest(span);
    let summary = wrap("", &summary(requests, scale, style), style.columns());
    let mut lines: Vec<String> =
        summary.into_iter().map(|line| style.paint(Ink::Strong, &line)).collect();
    if span.is_zero() {
        return lines;
    }
    let each = requests.exchanges.len() <= ROWS;
    let rows: Vec<Row> = if each {
        let numbered = requests.exchanges.iter().enumerate();
        numbered
            .map(|(place, exchange)| request(sample, requests, place, exchange, style))
            .collect()
    } else {
        (0..requests.connections())
            .map(|place| connection(sample, requests, place, style))
            .collect()
    };
    let heading = [if each { "request" } else { "requests" }, "on", "first byte", "last byte"];
    let time = |at: Option<Offset>| {
        at.map_or_else(String::new, |at| scale.time(at.since(Offset::ZERO), style))
    };
    let cells: Vec<[String; 4]> = rows
        .iter()
        .map(|row| {
            [row.of[0].clone(), row.of[1].clone(), time(row.first_byte), time(row.last_byte)]
        })
        .collect();
    let mut widths = heading.map(|word| word.chars().count());
    for row in &cells {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let margin: usize = widths.iter().map(|width| width + 2).sum();
    let columns = style.columns().saturating_sub(margin).max(10);
    let line = |cells: &[String; 4]| -> String {
        cells.iter().zip(widths).map(|(cell, width)| format!("{cell:>width$}  ")).collect()
    };
    lines.push(style.paint(Ink::Faint, line(&heading.map(String::from)).trim_end()));
    for (row, cells) in rows.iter().zip(&cells) {
        let ink = if row.failed { Ink::Loss } else { Ink::Plain };
        let bar = style.cells(&bar(row, span, columns, style));
        lines.push(format!("{}{bar}", style.paint(ink, &line(cells))));
    }
    let indent = margin.min(style.columns().saturating_sub(LEGEND_COLUMNS));
    lines.push(format!("{}{}", " ".repeat(indent), legend(style)));
    lines
}

/// "12 requests answered · 6 connections · 6 at once · last byte after 215.3 ms", in pieces between which lines may
/// break.
fn summary(requests: &Requests, scale: Scale, style: &Style) -> Vec<String> {
    let dot = style.glyph(" ·", ",");
    let (answered, asked) = (requests.answered(), requests.asked);
    let mut words = vec![match answered as u64 == u64::from(asked) {
        true => format!("{} answered", count(u64::from(asked), "request")),
        false => format!("{answered} of {} answered", count(u64::from(asked), "request")),
    }];
    words.push(count(requests.connections() as u64, "connection"));
    words.push(format!("{} at once", requests.most_at_once()));
    if let Some(end) = requests.end() {
        let took = scale.time(end.since(Offset::ZERO), style);
        words.push(format!("last byte after {took}"));
    }
    let last = words.len() - 1;
    words[..last].iter_mut().for_each(|word| word.push_str(dot));
    words
}

/// The connection with this number.
fn numbered<'a>(sample: &'a Sample, requests: &'a Requests, number: u16) -> Option<&'a Connection> {
    match number {
        0 => Some(&sample.connection),
        further => requests.further.get(usize::from(further) - 1),
    }
}

/// Time from a connection's begin until its first request could be sent.
fn set_up(connection: &Connection, until: Option<Offset>, style: &Style) -> Option<Stretch> {
    let marks = &connection.marks;
    let begins = [Mark::DomainLookupStart, Mark::ConnectStart];
    let from = begins.into_iter().find_map(|mark| marks.at(mark))?;
    let to = until.or_else(|| marks.at(Mark::HandshakeComplete))?;
    Some(Stretch { from, to, glyph: style.glyph('░', '.'), ink: Ink::Client })
}

fn waits(from: Offset, to: Offset, style: &Style) -> Stretch {
    Stretch { from, to, glyph: style.glyph('▒', '-'), ink: Ink::Network }
}

fn receives(from: Offset, to: Offset, style: &Style) -> Stretch {
    Stretch { from, to, glyph: style.glyph('█', '#'), ink: Ink::Transfer }
}

fn stretches(exchange: &Exchange, style: &Style) -> Vec<Stretch> {
    let at = |stamp: Option<firstbyte_core::timeline::Stamp>| stamp.map(|stamp| stamp.at);
    let [asked, first, last] = [
        at(exchange.request_start.or(exchange.request_end)),
        at(exchange.response_start),
        at(exchange.response_end),
    ];
    let mut stretches = Vec::new();
    stretches.extend(asked.zip(first).map(|(asked, first)| waits(asked, first, style)));
    stretches.extend(first.zip(last).map(|(first, last)| receives(first, last, style)));
    stretches
}

fn request(
    sample: &Sample,
    requests: &Requests,
    place: usize,
    exchange: &Exchange,
    style: &Style,
) -> Row {
    let earlier = &requests.exchanges[..place];
    let opens = earlier.iter().all(|other| other.connection != exchange.connection);
    let connection = numbered(sample, requests, exchange.connection).filter(|_| opens);
    let until = exchange.request_start.map(|stamp| stamp.at);
    let mut all: Vec<Stretch> =
        connection.and_then(|connection| set_up(connection, until, style)).into_iter().collect();
    all.extend(stretches(exchange, style));
    Row {
        of: [(place + 1).to_string(), (exchange.connection + 1).to_string()],
        first_byte: exchange.response_start.map(|stamp| stamp.at),
        last_byte: exchange.response_end.map(|stamp| stamp.at),
        stretches: all,
        failed: exchange.failure.is_some(),
    }
}

fn connection(sample: &Sample, requests: &Requests, place: usize, style: &Style) -> Row {
    let number = u16::try_from(place).unwrap_or(u16::MAX);
    let of_it = || requests.exchanges.iter().filter(|exchange| exchange.connection == number);
    let first = of_it().next();
    let until = first.and_then(|exchange| exchange.request_start).map(|stamp| stamp.at);
    let connection = numbered(sample, requests, number);
    let mut all: Vec<Stretch> =
        connection.and_then(|connection| set_up(connection, until, style)).into_iter().collect();
    all.extend(of_it().flat_map(|exchange| stretches(exchange, style)));
    Row {
        of: [of_it().count().to_string(), (place + 1).to_string()],
        first_byte: of_it().filter_map(|e| e.response_start).map(|stamp| stamp.at).min(),
        last_byte: of_it().filter_map(|e| e.response_end).map(|stamp| stamp.at).max(),
        stretches: all,
        failed: of_it().any(|exchange| exchange.failure.is_some()),
    }
}

fn bar(row: &Row, span: Duration, columns: usize, style: &Style) -> Vec<(char, Ink)> {
    let column = |at: Offset| {
        let share = at.since(Offset::ZERO).as_secs_f64() / span.as_secs_f64();
        ((share * columns as f64) as usize).min(columns)
    };
    let mut cells = vec![(' ', Ink::Plain); columns];
    let mut filled = 0;
    for stretch in &row.stretches {
        let (from, to) = (column(stretch.from), column(stretch.to));
        // Even the shortest stretch is visible, but earlier ones are not overwritten.
        let to = to.max(from + 1).min(columns);
        for cell in cells.iter_mut().take(to).skip(from.min(columns - 1)) {
            *cell = (stretch.glyph, stretch.ink);
        }
        filled = filled.max(to);
    }
    if row.failed
        && let Some(cell) = cells.get_mut(filled.min(columns - 1))
    {
        *cell = (style.glyph('✗', 'X'), Ink::Loss);
    }
    while cells.last().is_some_and(|(glyph, _)| *glyph == ' ') {
        cells.pop();
    }
    cells
}

fn legend(style: &Style) -> String {
    let entry =
        |glyph: char, ink, word: &str| format!("{} {word}", style.paint(ink, &glyph.to_string()));
    [
        entry(style.glyph('░', '.'), Ink::Client, "set-up"),
        entry(style.glyph('▒', '-'), Ink::Network, "wait"),
        entry(style.glyph('█', '#'), Ink::Transfer, "receive"),
    ]
    .join("  ")
}

#[cfg(test)]
mod tests {
    use firstbyte_core::timeline::{Clock, Parallel, Stamp};

    use super::*;
    use crate::fixtures;

    fn stamp(ms: i64) -> Option<Stamp> {
        Some(Stamp { at: Offset::from_nanos(ms * 1_000_000), clock: Clock::Kernel })
    }

    /// Two connections that are open after 80 ms, with exchanges of 45 ms, which include 40 ms of waiting.
    fn sample(asked: u32) -> Sample {
        let mut sample = fixtures::tls13_http2();
        let mut second = sample.connection.clone();
        second.marks.set(Mark::ConnectStart, stamp(1).unwrap());
        let exchange = |place: u32| {
            let begin = 80 + i64::from(place / 2) * 45;
            Exchange {
                connection: u16::try_from(place % 2).unwrap(),
                request_start: stamp(begin),
                request_end: stamp(begin),
                response_start: stamp(begin + 40),
                response_end: stamp(begin + 45),
                status: Some(200),
                body_bytes: Some(10_000),
                failure: None,
            }
        };
        sample.requests = Some(Box::new(Requests {
            parallel: Parallel::Connections(2),
            asked,
            further: vec![second],
            exchanges: (0..asked).map(exchange).collect(),
        }));
        sample
    }

    fn plain(sample: &Sample) -> String {
        lines(sample, &Style { color: false, width: 80, unicode: true }).join("\n")
    }

    #[test]
    fn few_requests_have_a_row_each() {
        let text = plain(&sample(5));
        assert!(text.starts_with(
            "5 requests answered · 2 connections · 2 at once · last byte after 215.0 ms\n"
        ));
        insta::assert_snapshot!(text);
    }

    #[test]
    fn of_many_each_connection_has_a_row() {
        let text = plain(&sample(40));
        assert_eq!(text.lines().count(), 5, "{text}");
        insta::assert_snapshot!(text);
    }

    #[test]
    fn what_failed_is_counted_and_drawn() {
        let mut sample = sample(4);
        let requests = sample.requests.as_mut().unwrap();
        let failed = &mut requests.exchanges[3];
        (failed.response_end, failed.failure) =
            (None, fixtures::connect_timeout().connection.failure);
        let text = plain(&sample);
        assert!(text.starts_with("3 of 4 requests answered"), "{text}");
        assert!(text.contains('✗'), "{text}");
    }

    #[test]
    fn every_line_fits() {
        for (width, asked) in [(60, 5), (80, 24), (200, 40)] {
            let style = Style { color: false, width, unicode: false };
            let lines = lines(&sample(asked), &style);
            assert!(lines.iter().all(|line| line.is_ascii() && line.chars().count() <= width));
        }
    }
}
