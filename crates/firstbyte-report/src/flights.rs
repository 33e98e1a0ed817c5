//! `--verbose`: every flight, in chronological order, with the marks between them.

use std::time::Duration;

use firstbyte_core::timeline::{
    Clock, Connection, Direction, Flight, Mark, Offset, ProcessorTime, Stamp,
};

use super::style::{Ink, Style, wrap};
use super::units::{Scale, Unit, grouped};

/// The flights and marks of `connection`, one per line, wrapped to the width.
///
/// Columns: direction; time of the first byte and, if different, of the last; time since the end of the previous
/// line; bytes; the clock; time when the last byte was acknowledged; the messages.
pub fn flights(connection: &Connection, style: &Style) -> String {
    let events = events(connection);
    let scale = scale(&events);
    let mut rows = Vec::new();
    let mut previous = Offset::ZERO;
    for event in &events {
        rows.push(Row::from_event(event, previous, scale, style));
        previous = event.end();
    }
    let columns = Columns::from_rows(&rows, scale, style);
    let mut out = columns.heading(scale, style);
    for row in &rows {
        out += &columns.line(row, style);
    }
    if let Some(processor) = connection.facts.processor {
        out += &format!("processor: {}\n", processor_time(processor));
    }
    out
}

/// "1.234 ms (0.812 ms user, 0.422 ms system)"
pub(crate) fn processor_time(time: ProcessorTime) -> String {
    let ms = |duration: Duration| format!("{:.3} ms", duration.as_secs_f64() * 1e3);
    format!("{} ({} user, {} system)", ms(time.sum()), ms(time.user), ms(time.system))
}

/// Something that happened at a time.
enum Event<'a> {
    Mark(Mark, Stamp),
    Flight(&'a Flight),
}

impl Event<'_> {
    fn start(&self) -> Offset {
        match self {
            Self::Mark(_, stamp) => stamp.at,
            Self::Flight(flight) => flight.first(),
        }
    }

    fn end(&self) -> Offset {
        match self {
            Self::Mark(_, stamp) => stamp.at,
            Self::Flight(flight) => flight.last(),
        }
    }
}

/// Marks and flights in chronological order. A mark follows the flight that causes it.
fn events(connection: &Connection) -> Vec<Event<'_>> {
    let mut events: Vec<Event<'_>> = connection.flights.iter().map(Event::Flight).collect();
    events.extend(connection.marks.iter().map(|(mark, stamp)| Event::Mark(mark, stamp)));
    events.sort_by_key(Event::start);
    events
}

/// Microsecond resolution, in the unit of the largest time.
fn scale(events: &[Event<'_>]) -> Scale {
    let largest = events.iter().map(|e| e.end().since(Offset::ZERO)).max();
    match largest.unwrap_or_default() {
        d if d < Duration::from_millis(1) => Scale { unit: Unit::Micros, decimals: 0 },
        d if d < Duration::from_secs(10) => Scale { unit: Unit::Millis, decimals: 3 },
        _ => Scale { unit: Unit::Seconds, decimals: 6 },
    }
}

/// A line's cells before alignment.
struct Row {
    arrow: (&'static str, Ink),
    time: String,
    /// Time of the last byte, if later than the first.
    until: String,
    since: String,
    bytes: String,
    clock: &'static str,
    acknowledged: String,
    words: Vec<String>,
    ink: Ink,
}

impl Row {
    fn from_event(event: &Event<'_>, previous: Offset, scale: Scale, style: &Style) -> Self {
        let at = |offset: Offset| signed(offset, scale);
        let since = format!("+{}", scale.figure(scale.steps(event.start().since(previous))));
        match event {
            Event::Mark(mark, stamp) => Self {
                arrow: (style.glyph("·", "."), Ink::Faint),
                time: at(stamp.at),
                until: String::new(),
                since,
                bytes: String::new(),
                clock: clock_name(stamp.clock),
                acknowledged: String::new(),
                words: vec![mark.name().replace('_', " ")],
                ink: Ink::Faint,
            },
            Event::Flight(flight) => {
                let (first, last) = (flight.first(), flight.last());
                let arrow = match flight.direction {
                    Direction::Sent => (style.glyph("→", ">"), Ink::Client),
                    Direction::Received => (style.glyph("←", "<"), Ink::Server),
                };
                let until = match first == last {
                    true => String::new(),
                    false => format!("{}{}", style.glyph("–", "-"), at(last)),
                };
                let acknowledged = flight.chunks.iter().rev().find_map(|c| c.acknowledged);
                Self {
                    arrow,
                    time: at(first),
                    until,
                    since,
                    bytes: grouped(flight.bytes()),
                    clock: clock_of(flight),
                    acknowledged: acknowledged.map(at).unwrap_or_default(),
                    words: counted(&flight.messages, style),
                    ink: Ink::Plain,
                }
            }
        }
    }
}

/// The messages in order, with repeated ones counted.
pub(super) fn counted(messages: &[String], style: &Style) -> Vec<String> {
    let last = messages.chunk_by(|a, b| a == b).count().saturating_sub(1);
    messages
        .chunk_by(|a, b| a == b)
        .enumerate()
        .map(|(i, same)| {
            let times = match same.len() {
                1 => String::new(),
                n => format!(" {}{n}", style.glyph("×", "x")),
            };
            let comma = if i == last { "" } else { "," };
            format!("{}{times}{comma}", style.safe(&same[0]))
        })
        .collect()
}

fn clock_of(flight: &Flight) -> &'static str {
    let mut clocks = flight.chunks.iter().map(|c| c.stamp.clock);
    let Some(first) = clocks.next() else { return "" };
    if clocks.all(|c| c == first) { clock_name(first) } else { "mixed" }
}

const fn clock_name(clock: Clock) -> &'static str {
    match clock {
        Clock::Kernel => "kernel",
        Clock::KernelDerived => "derived",
        Clock::User => "user",
        Clock::Simulated => "simulated",
        Clock::Reported { .. } => "reported",
    }
}

/// Formats a time with its sign: a timestamp may be slightly before the origin.
fn signed(offset: Offset, scale: Scale) -> String {
    let ns = offset.as_nanos();
    let steps = scale.steps(Duration::from_nanos(ns.unsigned_abs()));
    format!("{}{}", if ns < 0 { "-" } else { "" }, scale.figure(steps))
}

struct Columns {
    time: usize,
    until: usize,
    since: usize,
    bytes: usize,
    clock: usize,
    acknowledged: usize,
}

impl Columns {
    fn from_rows(rows: &[Row], scale: Scale, style: &Style) -> Self {
        let widest = |heading: &str, of: fn(&Row) -> &str| {
            rows.iter()
                .map(|r| of(r).chars().count())
                .max()
                .unwrap_or(0)
                .max(heading.chars().count())
        };
        Self {
            time: widest(scale.name(style), |r| &r.time),
            until: widest("", |r| &r.until),
            since: widest("since", |r| &r.since),
            bytes: widest("bytes", |r| &r.bytes),
            clock: widest("clock", |r| r.clock),
            acknowledged: widest("acked", |r| &r.acknowledged),
        }
    }

    fn heading(&self, scale: Scale, style: &Style) -> String {
        let line = self.align(" ", scale.name(style), "", "since", "bytes", "clock", "acked");
        format!("{}\n", style.paint(Ink::Faint, &format!("{line}messages")))
    }

    fn line(&self, row: &Row, style: &Style) -> String {
        let head = self.align(
            row.arrow.0,
            &row.time,
            &row.until,
            &row.since,
            &row.bytes,
            row.clock,
            &row.acknowledged,
        );
        let mut out = String::new();
        for (i, line) in wrap(&head, &row.words, style.columns()).into_iter().enumerate() {
            let line = line.trim_end();
            out += &match (i, line.strip_prefix(row.arrow.0)) {
                (0, Some(rest)) => {
                    style.paint(row.arrow.1, row.arrow.0) + &style.paint(row.ink, rest)
                }
                _ => style.paint(row.ink, line),
            };
            out.push('\n');
        }
        out
    }

    #[allow(clippy::too_many_arguments, reason = "one for each column, in their order")]
    fn align(
        &self,
        arrow: &str,
        time: &str,
        until: &str,
        since: &str,
        bytes: &str,
        clock: &str,
        acknowledged: &str,
    ) -> String {
        format!(
            "{arrow} {time:>tw$}{until:<uw$}  {since:>sw$}  {bytes:>bw$}  {clock:<cw$}  {acknowledged:>aw$}  ",
            tw = self.time,
            uw = self.until,
            sw = self.since,
            bw = self.bytes,
            cw = self.clock,
            aw = self.acknowledged,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures;
    use super::*;

    #[test]
    fn tls12_to_sydney() {
        let text = flights(&fixtures::tls12_sydney().connection, &Style::default());
        assert!(text.contains("ClientKeyExchange"));
        assert_eq!(text.matches('→').count(), 3);
        insta::assert_snapshot!(text);
    }

    #[test]
    fn tls13_over_loopback_in_ascii() {
        let style = Style { unicode: false, width: 60, color: false };
        let text = flights(&fixtures::loopback().connection, &style);
        assert!(text.is_ascii());
        insta::assert_snapshot!(text);
    }

    #[test]
    fn repeated_messages_are_counted() {
        let text = flights(&fixtures::tls13_http2().connection, &Style::default());
        assert!(text.contains("{NewSessionTicket} ×2,"), "{text}");
    }

    #[test]
    fn fits_eighty_columns_and_colours_only_dress() {
        for sample in fixtures::all() {
            let plain = flights(&sample.connection, &Style::default());
            for line in plain.lines() {
                assert!(line.chars().count() <= 80, "{line}");
            }
            let colored = Style { color: true, ..Style::default() };
            let colored = flights(&sample.connection, &colored);
            assert_eq!(fixtures::undressed(&colored), plain);
        }
    }
}
