//! The cost of changes at other round trips: a table for the terminal and for the page.
//!
//! Input: changes with their projected costs, and the sums. Output: rows, ending with the sums, and the
//! assumptions.

use std::fmt::Write as _;

use firstbyte_passive::diff::{Changes, Pair, Sum, Total};

use super::{LEAST_SHOWN, fit, phrase, plus, push, span, what, words};
use crate::Style;
use crate::style::wrap;
use crate::svg::escape;
use crate::wire::page::tables::{TABLE_END, cell, table};

/// What is assumed to stay constant, and what is not included.
const ASSUMED: &str = "Assumptions: the path is longer by the same time for every connection, and \
                       the hosts take as long as captured. The TCP handshake, the round trips of \
                       the TLS handshake, those of its flights beyond ten segments, and each \
                       exchange take the new round trip; name lookups, long responses and losses \
                       are not included.";

/// A row of the table.
struct Line {
    /// The number of a change.
    number: Option<usize>,
    what: String,
    round_trips: Option<String>,
    /// Time as captured, then at each requested round trip.
    times: Vec<Option<String>>,
}

/// Selects a part of a sum.
type Part = fn(&Sum) -> f64;

/// Rows of one pair: its changes, the most costly first, then other causes, then the sums.
fn lines(total: &Total, changes: &Changes, name: impl Fn(&super::Change) -> String) -> Vec<Line> {
    let of_pair = changes.changes.iter().enumerate().filter(|(_, it)| it.pair == total.pair);
    let named = of_pair.filter_map(|(place, change)| {
        let captured = change.cost?.per_connection;
        let at = change.projected.iter().map(|cost| Some(cost.as_ref()?.per_connection));
        Some(Line {
            number: Some(place + 1),
            what: name(change),
            round_trips: change.round_trips.map(count),
            times: [Some(captured)].into_iter().chain(at).map(|it| it.map(more)).collect(),
        })
    });
    let mut lines: Vec<Line> = named.collect();
    let sums = || {
        let at = total.projected.iter().map(Option::as_ref);
        [Some(&total.captured)].into_iter().chain(at)
    };
    let line = |what: &str, round_trips: Option<String>, of: &dyn Fn(&Sum) -> String| {
        let times = sums().map(|sum| sum.map(of)).collect();
        Line { number: None, what: what.to_owned(), round_trips, times }
    };
    let others: [(&str, Part); 3] = [
        ("mix of clients", |sum| sum.clients),
        ("number of exchanges", |sum| sum.exchanges),
        ("unexplained", |sum| sum.rest),
    ];
    for (what, part) in others {
        if sums().flatten().any(|sum| part(sum).abs() >= LEAST_SHOWN) {
            lines.push(line(what, None, &|sum| more(part(sum))));
        }
    }
    let trips = total.round_trips;
    let change = trips.map(|[before, after]| count(after - before));
    lines.push(line("in total", change, &|sum| more(sum.difference())));
    for (side, what) in ["a connection, before", "a connection, after"].into_iter().enumerate() {
        let trips = trips.map(|trips| format!("{:.2}", trips[side]));
        lines.push(line(what, trips, &|sum| span(sum.sides[side].max(0.0))));
    }
    lines
}

/// A signed time.
fn more(seconds: f64) -> String {
    if seconds.abs() < 0.5e-6 { "0 µs".to_owned() } else { plus(seconds) }
}

/// A signed number of round trips.
fn count(round_trips: f64) -> String {
    let text = format!("{round_trips:+.2}").replace('-', "−");
    if text.ends_with("0.00") { "0".to_owned() } else { text }
}

/// "captured at a round trip of 0.41 ms before and 0.43 ms after"
fn captured(total: &Total) -> String {
    match total.round_trip {
        Some([before, after]) => {
            format!("captured at a round trip of {} before and {} after", span(before), span(after))
        }
        None => "no projection: the round trip is not known on both sides of the tap".to_owned(),
    }
}

/// Headings of the time columns.
fn heads(changes: &Changes) -> impl Iterator<Item = String> {
    let at = changes.projected_to.iter().map(|seconds| {
        let at = format!("at {}", short(*seconds));
        if at.len() > 9 { short(*seconds) } else { at }
    });
    std::iter::once("captured".to_owned()).chain(at)
}

/// A requested round trip, approximately: `80 ms`, `0.5 ms`, `1200 ms`.
pub(super) fn short(seconds: f64) -> String {
    let text = format!("{:.3}", seconds * 1e3);
    format!("{} ms", text.trim_end_matches('0').trim_end_matches('.'))
}

/// The projected cost of the changes of every pair; empty if not requested.
pub(super) fn text(changes: &Changes, pairs: &[Pair], style: &Style) -> String {
    let mut text = String::new();
    if changes.projected_to.is_empty() || changes.totals.is_empty() {
        return text;
    }
    for total in &changes.totals {
        let head = format!("{}: {}", pairs[total.pair].name, captured(total));
        text.push('\n');
        push(&mut text, &wrap("", &words(&style.safe(&head)), style.columns()));
        let heads: String = heads(changes).map(|head| format!(" {head:>9}")).collect();
        // Four requested round trips in addition to the captured one leave less space for names.
        let width = if changes.projected_to.len() > 3 { 19 } else { 22 };
        let _ = writeln!(text, " #  {:<width$}  trips{heads}", "what");
        for line in lines(total, changes, |change| what(change.what)) {
            let number = line.number.map(|number| number.to_string()).unwrap_or_default();
            let trips = line.round_trips.unwrap_or_default();
            let times = line.times.iter().map(|time| {
                let time = time.as_deref().unwrap_or("?");
                format!(" {time:>9}")
            });
            let times: String = times.collect();
            let row = format!("{number:>2}  {:<width$} {trips:>6}{times}", fit(&line.what, width));
            let _ = writeln!(text, "{}", style.safe(row.trim_end()));
        }
    }
    push(&mut text, &wrap("", &words(ASSUMED), style.columns()));
    text
}

/// The same as a section of the page.
pub(super) fn section(html: &mut String, changes: &Changes, pairs: &[Pair]) {
    if changes.projected_to.is_empty() || changes.totals.is_empty() {
        return;
    }
    let heads: Vec<String> = heads(changes).collect();
    let mut columns = vec!["#", "what", "of", "round trips"];
    columns.extend(heads.iter().map(String::as_str));
    let captured = changes.totals.iter().map(|total| {
        let name = escape(&pairs[total.pair].name);
        format!("{name}: {}.", escape(&captured(total)))
    });
    let note = format!(
        "Cost of each change per connection at other round trips. {} {ASSUMED}",
        captured.collect::<Vec<_>>().join(" ")
    );
    table(html, ["projected", "At other round trips", &note], &columns, 3);
    for total in &changes.totals {
        let name = escape(&pairs[total.pair].name);
        for line in lines(total, changes, |change| phrase(change.what)) {
            let number = line.number.map(|number| number.to_string()).unwrap_or_default();
            let _ = write!(
                html,
                "<tr><td>{number}</td><td class=\"t\">{}</td><td class=\"t\">{name}</td>",
                escape(&line.what)
            );
            cell(html, line.round_trips);
            line.times.into_iter().for_each(|time| cell(html, time));
            *html += "</tr>\n";
        }
    }
    *html += TABLE_END;
    *html += "</section>\n";
}

#[cfg(test)]
mod tests {
    use super::super::tests::{at_80_ms, found};
    use super::*;

    #[test]
    fn it_is_said_only_where_it_was_asked_for() {
        let (changes, pairs) = found();
        assert_eq!(text(&changes, &pairs, &Style::default()), "");
    }

    #[test]
    fn costs_stand_below_each_other_within_the_width() {
        let (changes, pairs) = at_80_ms();
        let told = text(&changes, &pairs, &Style::default());
        assert!(told.lines().all(|line| line.chars().count() <= 80), "{told}");
        insta::assert_snapshot!(told);
    }

    #[test]
    fn a_page_has_them_too() {
        let (changes, pairs) = at_80_ms();
        let mut html = String::new();
        section(&mut html, &changes, &pairs);
        for part in ["<td>+0.81</td>", "<td>+93.8 ms</td>", "at 80 ms", "410 µs before"] {
            assert!(html.contains(part), "{part}: {html}");
        }
    }

    #[test]
    fn round_trips_are_named_as_they_were_asked_for() {
        let shown = [0.08, 0.0005, 1.2, 0.012_345].map(short);
        assert_eq!(shown, ["80 ms", "0.5 ms", "1200 ms", "12.345 ms"]);
    }
}
