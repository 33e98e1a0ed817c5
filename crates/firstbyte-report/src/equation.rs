//! The equation of each phase: `tls 166.3 ms = 2 round trips × 81.1 ms + server 2.9 ms + …`.
//!
//! Input: a [`Split`], whose parts add up in nanoseconds. Output: printed figures that still add up, along each
//! line and down to the total. Figures are whole steps of the table's last decimal. The round trip is rounded once,
//! and the other parts share the remainder by largest remainder (Hamilton's method). If that would shift a part by
//! more than a step and a half, the whole table gets one more decimal.

use std::time::Duration;

use firstbyte_core::split::{PhaseSplit, Split};
use firstbyte_core::timeline::Offset;

use super::style::{Ink, Style, wrap};
use super::units::{Scale, count};

/// A connection's phases and total, as printed figures that add up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ledger {
    pub scale: Scale,
    /// One equation per phase of the split, in order.
    pub phases: Vec<Equation>,
    pub total: Equation,
    /// The parts of the visit, if redirects came before.
    pub visit: Option<Equation>,
}

/// A time and the terms that add up to it, in steps of the ledger's scale.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Equation {
    pub name: &'static str,
    pub steps: u64,
    pub terms: Vec<Term>,
}

/// A term of the sum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Term {
    /// A number of round trips of `each` steps.
    RoundTrips { count: u32, each: u64 },
    /// A named part, and how far it may be off.
    Part { name: &'static str, steps: u64, uncertainty: Option<u64> },
}

impl Term {
    pub(crate) fn steps(&self) -> u64 {
        match self {
            Self::RoundTrips { count, each } => u64::from(*count) * each,
            Self::Part { steps, .. } => *steps,
        }
    }

    fn print(&self, scale: Scale, style: &Style) -> String {
        match self {
            Self::RoundTrips { count: n, each } => format!(
                "{} {} {}",
                count(u64::from(*n), "round trip"),
                style.glyph("×", "x"),
                scale.print(*each, style)
            ),
            Self::Part { name, steps, uncertainty } => {
                let mut text = format!("{name} {}", scale.print(*steps, style));
                if let Some(uncertainty) = uncertainty {
                    let sign = style.glyph("±", "+-");
                    text += &format!(" {sign} {}", scale.print(*uncertainty, style));
                }
                text
            }
        }
    }
}

impl Ledger {
    /// The figures of `split`, as coarse as possible.
    pub(crate) fn from_split(split: &Split) -> Self {
        let mut scale = Scale::for_largest(split.total());
        loop {
            let phases: Option<Vec<_>> =
                split.phases.iter().map(|phase| equation(split, phase, scale)).collect();
            match (phases, scale.finer()) {
                (Some(phases), _) => {
                    let total = total(split, &phases, scale);
                    return Self { scale, phases, total, visit: None };
                }
                (None, Some(finer)) => scale = finer,
                // Unreachable: whole nanoseconds need no rounding.
                (None, None) => {
                    let phases = Vec::new();
                    let total = total(split, &phases, scale);
                    return Self { scale, phases, total, visit: None };
                }
            }
        }
    }

    /// Adds the equation of a visit of length `visit`, whose total then replaces the connection's.
    ///
    /// This applies if redirects led to the connection, or if other requests besides its own took `others` longer.
    pub(crate) fn of_visit(mut self, visit: Duration, others: Duration) -> Self {
        let steps = self.scale.steps(visit);
        let beside = steps.saturating_sub(self.total.steps);
        if beside > 0 {
            let of_others = self.scale.steps(others).min(beside);
            let own = if of_others > 0 { "first request" } else { "connection" };
            let name = std::mem::replace(&mut self.total.name, own);
            let part = |name, steps| Term::Part { name, steps, uncertainty: None };
            let redirects = beside - of_others;
            let mut terms = Vec::new();
            terms.extend((redirects > 0).then(|| part("redirects", redirects)));
            terms.push(part(own, self.total.steps));
            terms.extend((of_others > 0).then(|| part("other requests", of_others)));
            self.visit = Some(Equation { name, steps, terms });
        }
        self
    }

    /// Every equation, one per line with aligned equals signs, the total last. Equations of zero length are left
    /// out.
    pub(crate) fn lines(&self, style: &Style) -> Vec<String> {
        let shown = || {
            let all = self.phases.iter().chain([&self.total]).chain(&self.visit);
            all.filter(|e| e.steps > 0 && !e.terms.is_empty())
        };
        let left = |e: &Equation| format!("{} {}", e.name, self.scale.print(e.steps, style));
        let width = shown().map(|e| left(e).chars().count()).max().unwrap_or(0);
        shown()
            .flat_map(|equation| {
                let first = format!("{:>width$} = ", left(equation));
                let mut lines = wrap(&first, &equation.words(self.scale, style), style.columns());
                if equation.name == self.visit.as_ref().unwrap_or(&self.total).name {
                    for line in &mut lines {
                        *line = style.paint(Ink::Strong, line);
                    }
                }
                lines
            })
            .collect()
    }
}

impl Equation {
    /// Whether the terms include a part of this name.
    pub(crate) fn has(&self, wanted: &str) -> bool {
        self.terms.iter().any(|term| match term {
            Term::RoundTrips { .. } => wanted == NETWORK,
            Term::Part { name, .. } => *name == wanted,
        })
    }

    /// The right-hand side: the terms, joined with plus signs.
    pub(crate) fn words(&self, scale: Scale, style: &Style) -> Vec<String> {
        self.terms
            .iter()
            .enumerate()
            .map(|(i, term)| {
                format!("{}{}", if i == 0 { "" } else { "+ " }, term.print(scale, style))
            })
            .collect()
    }
}

/// The equation of one phase, unless `scale` is too coarse for it.
///
/// Its length is the difference of its rounded ends, so that the phases add up to the total.
fn equation(split: &Split, phase: &PhaseSplit, scale: Scale) -> Option<Equation> {
    let at = |offset: Offset| scale.steps(offset.since(Offset::ZERO));
    let steps = at(phase.phase.end) - at(phase.phase.start);
    let mut parts: Vec<(&'static str, Duration)> =
        phase.parts.named().into_iter().filter(|(_, d)| !d.is_zero()).collect();
    let round_trips = whole_round_trips(split, phase).map(|(count, rtt)| {
        parts.retain(|(name, _)| *name != NETWORK);
        Term::RoundTrips { count, each: scale.steps(rtt) }
    });
    let fixed = round_trips.as_ref().map_or(0, Term::steps);
    if round_trips.is_some() && fixed == 0 {
        return None;
    }
    let durations: Vec<Duration> = parts.iter().map(|(_, d)| *d).collect();
    let rounded = apportion(&durations, steps.checked_sub(fixed)?, scale)?;
    let mut terms: Vec<Term> = parts
        .into_iter()
        .zip(rounded)
        .filter(|(_, steps)| *steps > 0)
        .map(|((name, _), steps)| Term::Part { name, steps, uncertainty: None })
        .collect();
    if let Some(term) = round_trips {
        terms.insert(network_place(&terms), term);
    }
    Some(Equation { name: phase.phase.name.label(), steps, terms })
}

const NETWORK: &str = "network";
const SERVER: &str = "server";

/// Index of the network's term: right after the resolver's.
fn network_place(terms: &[Term]) -> usize {
    terms.iter().take_while(|t| matches!(t, Term::Part { name: "resolver", .. })).count()
}

/// Number and length of the round trips in the phase's network part; absent if it is not a whole number of them.
fn whole_round_trips(split: &Split, phase: &PhaseSplit) -> Option<(u32, Duration)> {
    let rtt = split.rtt.filter(|rtt| !rtt.is_zero())?;
    let count = phase.round_trips;
    (count > 0 && rtt.checked_mul(count) == Some(phase.parts.network)).then_some((count, rtt))
}

/// `parts` as whole steps that add up to `sum`, each at most one and a half steps off.
pub(crate) fn apportion(parts: &[Duration], sum: u64, scale: Scale) -> Option<Vec<u64>> {
    let step = i128::from(scale.step_ns());
    let mut steps: Vec<i128> = parts.iter().map(|d| d.as_nanos() as i128 / step).collect();
    // How far each part is below its true value, in nanoseconds.
    let short = |steps: &[i128], i: usize| parts[i].as_nanos() as i128 - steps[i] * step;
    let mut missing = i128::from(sum) - steps.iter().sum::<i128>();
    while missing > 0 {
        let i = (0..steps.len()).max_by_key(|i| (short(&steps, *i), std::cmp::Reverse(*i)))?;
        if short(&steps, i) * 2 < -step {
            return None;
        }
        steps[i] += 1;
        missing -= 1;
    }
    while missing < 0 {
        let i = (0..steps.len())
            .filter(|i| steps[*i] > 0)
            .min_by_key(|i| (short(&steps, *i), std::cmp::Reverse(parts[*i])))?;
        if short(&steps, i) * 2 > step {
            return None;
        }
        steps[i] -= 1;
        missing += 1;
    }
    steps.into_iter().map(|s| u64::try_from(s).ok()).collect()
}

/// The total's equation: the phases' terms, summed by name.
fn total(split: &Split, phases: &[Equation], scale: Scale) -> Equation {
    let mut terms: Vec<Term> = split
        .parts
        .named()
        .into_iter()
        .filter_map(|(wanted, _)| {
            let steps = phases
                .iter()
                .flat_map(|p| &p.terms)
                .filter(|t| matches!(t, Term::Part { name, .. } if *name == wanted))
                .map(Term::steps)
                .sum();
            let uncertainty = split
                .server_uncertainty()
                .filter(|u| wanted == SERVER && !u.is_zero())
                .map(|u| scale.steps(u).max(1));
            (steps > 0).then_some(Term::Part { name: wanted, steps, uncertainty })
        })
        .collect();
    let trips = phases.iter().flat_map(|p| &p.terms).filter_map(|term| match term {
        Term::RoundTrips { count, each } => Some((*count, *each)),
        Term::Part { .. } => None,
    });
    if let Some(term) = trips
        .reduce(|(count, each), (more, _)| (count + more, each))
        .map(|(count, each)| Term::RoundTrips { count, each })
    {
        terms.insert(network_place(&terms), term);
    }
    Equation { name: "total", steps: phases.iter().map(|p| p.steps).sum(), terms }
}

#[cfg(test)]
mod tests {
    use firstbyte_core::timeline::{Connection, Direction, Flight, Mark, Stamp, TcpFacts};
    use proptest::prelude::*;

    use super::super::fixtures;
    use super::*;

    fn ledger_and_lines(connection: &Connection) -> (Ledger, Vec<String>) {
        let ledger = Ledger::from_split(&Split::attribute(connection));
        let lines = ledger.lines(&Style::default());
        (ledger, lines)
    }

    #[test]
    fn says_how_a_phase_came_about() {
        let (_, lines) = ledger_and_lines(&fixtures::tls12_sydney().connection);
        let tls = lines.iter().find(|l| l.contains("tls")).unwrap();
        assert_eq!(
            tls.trim(),
            "tls 166.3 ms = 2 round trips × 81.1 ms + server 2.9 ms + client 1.2 ms"
        );
        assert!(lines.iter().any(|l| l.contains("connect 81.1 ms = 1 round trip × 81.1 ms")));
    }

    #[test]
    fn a_short_round_trip_gets_the_decimals_it_needs() {
        let (ledger, _) = ledger_and_lines(&fixtures::loopback().connection);
        assert!(ledger.total.terms.iter().any(|t| matches!(t, Term::RoundTrips { .. })));
    }

    #[test]
    fn remainders_go_where_they_are_largest() {
        let scale = Scale { unit: super::super::units::Unit::Millis, decimals: 0 };
        let ms = |x: f64| Duration::from_nanos((x * 1e6) as u64);
        assert_eq!(apportion(&[ms(1.4), ms(1.4), ms(1.2)], 4, scale), Some(vec![2, 1, 1]));
        assert_eq!(apportion(&[ms(2.6), ms(0.9)], 4, scale), Some(vec![3, 1]));
        assert_eq!(apportion(&[ms(2.6)], 7, scale), None);
        assert_eq!(apportion(&[], 0, scale), Some(vec![]));
        assert_eq!(apportion(&[], 1, scale), None);
    }

    /// A connection with every phase over a path of `rtt`, with delays at server and client, like a real
    /// measurement.
    fn measured() -> impl Strategy<Value = Connection> {
        let time = || prop_oneof![0u64..50_000, 0u64..5_000_000, 0u64..3_000_000_000];
        (proptest::collection::vec(time(), 9), 1u64..400_000_000, 0usize..4).prop_map(
            |(t, rtt, trips)| {
                let mut now = 0;
                let mut after = |ns: u64| {
                    now += i64::try_from(ns).unwrap();
                    Stamp::kernel(Offset::from_nanos(now))
                };
                let flight = |direction, stamp| Flight {
                    direction,
                    chunks: vec![firstbyte_core::timeline::Chunk::new(stamp, 100)],
                    messages: Vec::new(),
                };
                let mut c = Connection::default();
                c.marks.set(Mark::DomainLookupEnd, after(t[0]));
                c.marks.set(Mark::ConnectStart, after(0));
                c.marks.set(Mark::TcpConnected, after(rtt + t[1] / 100));
                for i in 0..trips {
                    c.flights.push(flight(Direction::Sent, after(t[2 + i])));
                    c.flights.push(flight(Direction::Received, after(rtt + t[3 + i])));
                }
                c.marks.set(Mark::HandshakeComplete, after(t[6]));
                c.marks.set(Mark::RequestEnd, after(t[7] / 10));
                c.marks.set(Mark::ResponseStart, after(rtt + t[8]));
                c.marks.set(Mark::ResponseEnd, after(t[0] / 2));
                c.facts.tcp = Some(TcpFacts {
                    syn_rtt: Some(Duration::from_nanos(rtt)),
                    ..TcpFacts::default()
                });
                c
            },
        )
    }

    /// Parses the printed figures of a line, in steps, and evaluates both sides.
    fn evaluate(line: &str, scale: Scale) -> (u64, u64) {
        let (left, right) = line.split_once(" = ").unwrap();
        let figure = |text: &str| -> u64 {
            let figure = text.trim().rsplit(' ').nth(1).unwrap();
            let (whole, fraction) = figure.split_once('.').unwrap_or((figure, ""));
            assert_eq!(fraction.len(), scale.decimals as usize, "{line}");
            format!("{whole}{fraction}").parse().unwrap()
        };
        let sum = right
            .split(" + ")
            .map(|term| {
                let term = term.split(" ± ").next().unwrap();
                match term.split_once(" × ") {
                    Some((count, each)) => {
                        count.trim().split(' ').next().unwrap().parse::<u64>().unwrap()
                            * figure(each)
                    }
                    None => figure(term),
                }
            })
            .sum();
        (figure(left), sum)
    }

    proptest! {
        #[test]
        fn printed_terms_add_up_to_the_printed_total(c in measured()) {
            let split = Split::attribute(&c);
            let ledger = Ledger::from_split(&split);
            prop_assert_eq!(ledger.phases.len(), split.phases.len());
            let wide = Style { width: 200, ..Style::default() };
            for line in ledger.lines(&wide) {
                let (left, right) = evaluate(&line, ledger.scale);
                prop_assert_eq!(left, right, "{}", line);
            }
            for equation in &ledger.phases {
                let terms: u64 = equation.terms.iter().map(Term::steps).sum();
                prop_assert_eq!(terms, equation.steps);
            }
            let phases: u64 = ledger.phases.iter().map(|p| p.steps).sum();
            prop_assert_eq!(phases, ledger.total.steps);
            prop_assert_eq!(ledger.total.steps, ledger.scale.steps(split.total()));
        }
    }
}
