//! Where the time of each way's typical connection goes: one bar per way, split into pieces.

use std::time::Duration;

use firstbyte_explain::{Equation, Span, Term, TermKind};

use super::SMALL;
use super::axis::TimeAxis;
use super::figure::{Figure, Key, Panel, Row};
use crate::svg::{Anchor, Canvas, width};

const WIDE: f64 = 820.0;
const LEFT: f64 = 150.0;
const BAR: f64 = 20.0;
const LINE: f64 = 30.0;

/// Kinds of time that look alike, with their common label.
const LOOKS: [(&str, &str, &[TermKind]); 7] = [
    ("p0", "name lookup", &[TermKind::Resolver]),
    ("p1", "round trips", &[TermKind::RoundTrips]),
    ("p6", "round trips held back by TCP", &[TermKind::Stalls, TermKind::Nagle]),
    ("p2", "server", &[TermKind::Server]),
    (
        "p3",
        "lost: fallback, pauses, retries",
        &[TermKind::Fallback, TermKind::Variation, TermKind::Pause],
    ),
    ("p4", "client", &[TermKind::Client]),
    ("p5", "transfer", &[TermKind::Transfer]),
];

fn look(kind: TermKind) -> &'static str {
    LOOKS.iter().find(|(_, _, kinds)| kinds.contains(&kind)).map_or("b", |(class, ..)| class)
}

/// The named ways, each with its equation.
pub(crate) fn figure(ways: &[(&str, &Equation)]) -> Figure {
    let mut keys = Vec::new();
    let seen =
        |kinds: &[TermKind]| ways.iter().any(|(_, e)| kinds.iter().any(|k| !e.time(*k).is_zero()));
    for (class, label, kinds) in LOOKS {
        if seen(kinds) {
            keys.push(Key::area(class, label));
        }
    }
    if seen(&[TermKind::Unexplained]) {
        keys.push(Key::area("b", "unexplained"));
    }
    if ways.iter().any(|(_, equation)| equation.terms.iter().any(|term| !term.is_known())) {
        keys.push(Key::area("b", "known within itself: another cause fits as well"));
    }
    Figure {
        folded: false,
        name: "variants",
        title: "All variants".into(),
        note: "A typical connection of each variant. Round trips are drawn one by one.".into(),
        keys,
        rows: vec![Row { heading: String::new(), panels: panel(ways).into_iter().collect() }],
    }
}

fn panel(ways: &[(&str, &Equation)]) -> Option<Panel> {
    let longest = ways.iter().map(|(_, e)| e.total).max()?;
    let axis = TimeAxis::new(0.0, longest.as_nanos() as f64);
    let decimals = (axis.decimals() as usize).min(1);
    let figure = |time: Duration| format!("{:.decimals$}", time.as_nanos() as f64 / axis.unit_ns());
    let room = width(&format!("{} {}", figure(longest), axis.unit()), SMALL) + 10.0;
    let scale = (WIDE - LEFT - room) / axis.high;
    let mut canvas = Canvas::default();
    let bottom = 4.0 + ways.len() as f64 * LINE;
    for (at, text) in axis.ticks(6.0) {
        let x = LEFT + at * scale;
        canvas.line([x, 0.0], [x, bottom], "g");
        canvas.text(x, bottom + 14.0, Anchor::Middle, "n", &text);
    }
    canvas.text(LEFT - 22.0, bottom + 14.0, Anchor::End, "n", axis.unit());
    let mut sentences = Vec::new();
    for (line, (name, equation)) in (0u32..).zip(ways) {
        let y = 4.0 + f64::from(line) * LINE;
        canvas.text(LEFT - 10.0, y + 15.0, Anchor::End, "l", name);
        let mut x = LEFT;
        for term in in_order_of_time(equation) {
            let class = if term.is_known() { look(term.kind) } else { "b" };
            let pieces = term.round_trips.max(1);
            let wide = term.time.as_nanos() as f64 * scale / f64::from(pieces);
            let label = label(term);
            let doubt = match term.is_known() {
                true => String::new(),
                false => format!(" ± {}", figure(term.doubt)),
            };
            let hover = format!("{label}: {}{doubt} {}", figure(term.time), axis.unit());
            for piece in 0..pieces {
                // A thin gap makes round trips countable.
                let gap = if pieces > 1 && wide > 4.0 { 1.0 } else { 0.0 };
                canvas.rect([x, y, (wide - gap).max(0.0), BAR], class, Some(&hover));
                let short = term.span.map_or("", Span::name);
                let told =
                    matches!(term.kind, TermKind::RoundTrips | TermKind::Stalls | TermKind::Nagle);
                if told && piece == 0 && wide > width(short, 11.0) + 8.0 {
                    let middle = x + wide / 2.0;
                    canvas.text(middle, y + 14.0, Anchor::Middle, "in", short);
                }
                x += wide;
            }
        }
        let total = format!("{} {}", figure(equation.total), axis.unit());
        canvas.text(x + 6.0, y + 15.0, Anchor::Start, "l", &total);
        sentences.push(format!("{name}: {total}, {} round trips", equation.round_trips()));
    }
    Some(Panel {
        title: "Where the time of each variant goes".into(),
        description: sentences.join("; "),
        width: WIDE,
        height: bottom + 20.0,
        body: canvas.0,
        ..Panel::default()
    })
}

/// Groups terms by span, with the client's terms last.
fn in_order_of_time(equation: &Equation) -> Vec<&Term> {
    let mut terms: Vec<&Term> = equation.terms.iter().collect();
    let place = |term: &Term| match term.kind {
        TermKind::Resolver => (0, None),
        TermKind::Fallback | TermKind::Variation => (1, Some(Span::Connect)),
        TermKind::RoundTrips
        | TermKind::Stalls
        | TermKind::Nagle
        | TermKind::Server
        | TermKind::Pause => (1, term.span),
        TermKind::Client => (2, None),
        TermKind::Transfer => (3, None),
        TermKind::Unexplained => (4, None),
    };
    terms.sort_by_key(|term| (place(term), term.kind));
    terms
}

fn label(term: &Term) -> String {
    let span = term.span.map_or("", Span::name);
    match term.kind {
        TermKind::RoundTrips => format!("{span}, round trips"),
        TermKind::Stalls => format!("{span}, full window"),
        TermKind::Nagle => format!("{span}, Nagle's algorithm"),
        TermKind::Server => format!("server, {span}"),
        TermKind::Pause => format!("server pauses, {span}"),
        TermKind::Variation => "TCP beyond a round trip".into(),
        TermKind::Resolver => "name lookup".into(),
        kind => kind.name().into(),
    }
}
