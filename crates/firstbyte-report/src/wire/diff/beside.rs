//! Both sides of a comparison side by side: tables for the terminal and for the page.
//!
//! Input: both sides of each pair. Output: numbers and shares of connections, and weak algorithms by name.

use std::fmt::Write as _;

use firstbyte_core::stats::Interval;
use firstbyte_passive::diff::{Beside, Pair, Subject, Table, Throughput, Value};

use super::page::sides;
use super::{fit, push, words};
use crate::Style;
use crate::style::{Ink, wrap};
use crate::svg::escape;
use crate::units::grouped;
use crate::wire::page::tables::{TABLE_END, cell, table};

/// Maximum number of pairs on the terminal.
const SHOWN: usize = 4;

/// Category of a value, if its name does not tell.
const fn family(subject: Subject) -> &'static str {
    match subject {
        Subject::Failures => "failed: ",
        Subject::Sessions | Subject::Protocols => "",
        Subject::KeyExchange => "key exchange, ",
        Subject::CertificateKey => "certificate key, ",
        Subject::Cipher => "cipher, ",
    }
}

fn name(table: &Table, value: &Value) -> String {
    format!("{}{}", family(table.subject), value.name)
}

/// A row: its name, both sides, and the interval of the change.
struct Line {
    name: String,
    sides: [String; 2],
    change: String,
    weak: bool,
}

/// A named rate of one side.
type Rate = (&'static str, fn(&Throughput) -> Option<f64>);

const RATES: [Rate; 5] = [
    ("responses, p10", |it| Some(it.percentiles[0])),
    ("responses, p50", |it| Some(it.percentiles[1])),
    ("responses, p90", |it| Some(it.percentiles[2])),
    ("responses, all together", |it| Some(it.together)),
    ("server, over the capture", |it| it.sent),
];

fn lines(beside: &Beside) -> Vec<Line> {
    let mut lines = vec![Line {
        name: "connections".to_owned(),
        sides: beside.connections.map(|n| grouped(n as u64)),
        change: String::new(),
        weak: false,
    }];
    for table in &beside.tables {
        lines.extend(table.values.iter().map(|value| Line {
            name: name(table, value),
            sides: [0, 1].map(|side| counted(value.counts[side], table.of[side])),
            change: value.difference.map(points).unwrap_or_default(),
            weak: value.weak,
        }));
    }
    for (place, (what, rate)) in RATES.into_iter().enumerate() {
        let sides = beside.throughput.each_ref().map(|side| side.as_ref().and_then(rate));
        if sides.iter().all(Option::is_none) {
            continue;
        }
        // The median's change, relative to the median before.
        let median = beside.throughput[0].map(|before| before.percentiles[1]);
        let change = beside.throughput_difference.zip(median).filter(|_| place == 1);
        lines.push(Line {
            name: what.to_owned(),
            sides: sides.map(|rate| rate.map(bits).unwrap_or_default()),
            change: change
                .map(|(it, median)| {
                    format!("{} %", from_to([it.low, it.high].map(|end| end / median)))
                })
                .unwrap_or_default(),
            weak: false,
        });
    }
    lines
}

/// "518  81 %": a count, and its share of the connections for which the property is known.
fn counted(count: usize, of: usize) -> String {
    if of == 0 {
        return String::new();
    }
    let share = 100.0 * count as f64 / of as f64;
    let share = match share {
        0.0 => "0 %".to_owned(),
        _ if share < 9.95 => format!("{share:.1} %"),
        _ if count < of && share > 99.0 => format!("{:.1} %", share.min(99.9)),
        _ => format!("{share:.0} %"),
    };
    format!("{} {share:>6}", grouped(count as u64))
}

/// An interval in percentage points.
fn points(interval: Interval) -> String {
    format!("{} pp", from_to([interval.low, interval.high]))
}

/// Signed hundredths.
fn from_to(ends: [f64; 2]) -> String {
    let [low, high] = ends.map(|end| {
        let end = 100.0 * end;
        let text = if end.abs() < 9.95 { format!("{end:+.1}") } else { format!("{end:+.0}") };
        text.replace('-', "−")
    });
    format!("{low} to {high}")
}

/// A rate given in bytes, in bits per second.
fn bits(bytes_per_second: f64) -> String {
    let bits = 8.0 * bytes_per_second;
    let (value, unit) = match bits {
        _ if bits >= 999.5e6 => (bits / 1e9, "Gbit/s"),
        _ if bits >= 999.5e3 => (bits / 1e6, "Mbit/s"),
        _ => (bits / 1e3, "kbit/s"),
    };
    match value {
        _ if value < 9.995 => format!("{value:.2} {unit}"),
        _ if value < 99.95 => format!("{value:.1} {unit}"),
        _ => format!("{value:.0} {unit}"),
    }
}

/// Algorithms that must no longer be used, by name, and the number of connections that use them.
fn weak(beside: &Beside) -> Option<String> {
    let values = beside.tables.iter().flat_map(|table| {
        let weak = table.values.iter().filter(|value| value.weak);
        weak.map(move |value| {
            let [before, after] = value.counts.map(|n| grouped(n as u64));
            format!("{} ({before} → {after} connections)", name(table, value))
        })
    });
    let values: Vec<String> = values.collect();
    (!values.is_empty()).then(|| format!("Weak (NIST SP 800-131A): {}.", values.join("; ")))
}

/// Tables of the first pairs; the others are only counted.
pub fn text(beside: &[Beside], pairs: &[Pair], style: &Style) -> String {
    let mut text = String::new();
    for one in beside.iter().take(SHOWN) {
        let pair = &pairs[one.pair];
        let head = style.safe(&format!("{}, side by side", pair.name));
        let head = fit(&head, style.columns());
        let _ = writeln!(text, "\n{}", style.paint(Ink::Strong, &head));
        let (names, _) = sides(pair);
        let [before, after] = names.map(|side| fit(&style.safe(&side), 13));
        let columns = format!("{:<34} {before:>13} {after:>13} {:>16}", "", "95 % interval");
        let _ = writeln!(text, "{}", style.paint(Ink::Faint, &columns));
        for line in lines(one) {
            let [before, after] = line.sides;
            let mark = if line.weak { "!" } else { " " };
            let row = format!(
                "{mark} {:<32} {before:>13} {after:>13} {:>16}",
                fit(&line.name, 32),
                line.change
            );
            let _ = writeln!(text, "{}", style.safe(row.trim_end()));
        }
        if let Some(weak) = weak(one) {
            push(&mut text, &wrap("", &words(&style.safe(&weak)), style.columns()));
        }
    }
    if beside.len() > SHOWN {
        let more = grouped((pairs.len() - SHOWN) as u64);
        let _ = writeln!(text, "\n{more} more are not shown here; --html and --json have more");
    }
    text
}

/// The same as a section of the page.
pub(super) fn section(html: &mut String, beside: &[Beside], pairs: &[Pair]) {
    if beside.is_empty() {
        return;
    }
    let columns = ["of", "what", "before", "95 %", "after", "95 %", "95 % interval of the change"];
    let left_out = match pairs.len() - beside.len() {
        0 => String::new(),
        more => {
            format!(" {} comparisons with fewer connections are left out.", grouped(more as u64))
        }
    };
    let note = format!(
        "Connections as captured, without weighting. Shares are of all connections (failures), of \
         handshakes known to be full or short, and of connections that show such a value; \
         intervals in per cent and percentage points. Strengths are classes of NIST SP 800-57; \
         weak is what SP 800-131A no longer allows. Responses: bits per second, from a request's \
         first byte to its response's last.{left_out}"
    );
    table(html, ["beside", "Side by side", &note], &columns, 2);
    for one in beside {
        let pair = &pairs[one.pair];
        let (_, whose) = sides(pair);
        let mut intervals = one.tables.iter().flat_map(|table| &table.values);
        for (place, line) in lines(one).into_iter().enumerate() {
            // The first row covers all connections; then come the tables' values, then rates.
            let value = if place == 0 { None } else { intervals.next() };
            let mark = if line.weak { " (weak)" } else { "" };
            let _ = write!(
                html,
                "<tr><td class=\"t\">{}</td><td class=\"t\">{}{mark}</td>",
                escape(&whose),
                escape(&line.name)
            );
            for (side, text) in line.sides.into_iter().enumerate() {
                let text = match value.and(text.split_once(' ')) {
                    Some((count, share)) => format!("{count} ({})", share.trim_start()),
                    None => text,
                };
                cell(html, Some(text));
                let interval = value.and_then(|value| value.intervals[side]);
                cell(html, interval.map(share));
            }
            cell(html, Some(line.change));
            *html += "</tr>\n";
        }
    }
    *html += TABLE_END;
    for weak in beside.iter().filter_map(|one| {
        let name = &pairs[one.pair].name;
        weak(one).map(|weak| format!("{name}: {weak}"))
    }) {
        let _ = writeln!(html, "<p>{}</p>", escape(&weak));
    }
    *html += "</section>\n";
}

fn share(interval: Interval) -> String {
    format!("{:.1} to {:.1}", 100.0 * interval.low, 100.0 * interval.high)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(low: f64, high: f64) -> Option<Interval> {
        Some(Interval { low, high })
    }

    fn value(name: &str, counts: [usize; 2], weak: bool) -> Value {
        Value {
            name: name.into(),
            weak,
            counts,
            intervals: [interval(0.05, 0.123), None],
            difference: interval(-0.025, 0.113),
        }
    }

    fn made() -> (Vec<Beside>, Vec<Pair>) {
        let table = |subject, of, values: Vec<Value>| Table { subject, of, values, left_out: 0 };
        let tables = vec![
            table(
                Subject::Failures,
                [640, 655],
                vec![
                    value("tls.cert.date_invalid", [12, 654], false),
                    value("tcp.refused", [0, 1], false),
                ],
            ),
            table(
                Subject::Sessions,
                [628, 0],
                vec![value("resumed by session ID", [628, 0], false)],
            ),
            table(
                Subject::Cipher,
                [628, 1],
                vec![
                    value("112 bits: TLS_RSA_WITH_3DES_EDE_CBC_SHA", [28, 0], true),
                    value("256 bits", [600, 1], false),
                ],
            ),
        ];
        let rate = Throughput {
            connections: 628,
            percentiles: [1e3, 3.12e6, 150e6],
            together: 2.5e6,
            sent: None,
        };
        let one = Beside {
            pair: 0,
            connections: [640, 1_655],
            tables,
            throughput: [Some(rate), None],
            throughput_difference: interval(-0.3e6, 0.6e6),
        };
        let pair = Pair { name: "10.0.0.5:443".into(), ..Pair::default() };
        (vec![one], vec![pair])
    }

    #[test]
    fn both_sides_stand_beside_each_other_within_the_width() {
        let (beside, pairs) = made();
        let told = text(&beside, &pairs, &Style::default());
        assert!(told.lines().all(|line| line.chars().count() <= 80), "{told}");
        assert!(told.contains("TLS_RSA_WITH_3DES_EDE_CBC_SHA (28"), "{told}");
        insta::assert_snapshot!(told);
    }

    #[test]
    fn each_side_has_its_interval_on_the_page() {
        let (beside, pairs) = made();
        let mut html = String::new();
        section(&mut html, &beside, &pairs);
        let row = "failed: tls.cert.date_invalid</td><td>12 (1.9 %)</td><td>5.0 to 12.3</td>";
        assert!(html.contains(row), "{html}");
        assert!(html.contains("3DES_EDE_CBC_SHA (weak)"), "{html}");
    }

    #[test]
    fn shares_are_not_rounded_to_all() {
        let shown =
            [(0, 7), (1, 1_000), (654, 655), (655, 655), (1, 0)].map(|(n, of)| counted(n, of));
        assert_eq!(shown, ["0    0 %", "1  0.1 %", "654 99.8 %", "655  100 %", ""]);
    }
}
