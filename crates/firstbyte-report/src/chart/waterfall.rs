//! The median sample of each cell, with one row per phase and one panel per cell.

use std::time::Duration;

use firstbyte_core::split::{AttributedConnection, PhaseSplit, Split};
use firstbyte_core::timeline::{Connection, Mark, Offset, PhaseName};

use super::axis::TimeAxis;
use super::figure::{Figure, Key, Panel, Row, panel_title};
use super::{SMALL, panel_width, phase_class, phase_label};
use crate::study::{Grouping, PHASES, Study};
use crate::svg::{Anchor, Canvas, width};
use crate::units::count;

const LEFT: f64 = 56.0;
const BAR: f64 = 15.0;
const LINE: f64 = 21.0;

/// Input of a connection's drawing.
struct Drawn<'a> {
    connection: &'a Connection,
    split: &'a Split,
    /// A handshake that continued during the request.
    meanwhile: Option<(Offset, Offset)>,
}

impl<'a> Drawn<'a> {
    fn from_attributed(attributed: &'a AttributedConnection) -> Self {
        let AttributedConnection { connection, split, .. } = attributed;
        let marks = &connection.marks;
        let begun = marks.at(Mark::SecureConnectionStart).or_else(|| marks.at(Mark::ConnectStart));
        let apart = split.phase(PhaseName::Tls).or_else(|| split.phase(PhaseName::Quic)).is_none();
        let meanwhile = begun.zip(marks.at(Mark::HandshakeComplete));
        Self { connection, split, meanwhile: meanwhile.filter(|_| apart) }
    }

    fn end(&self) -> f64 {
        let meanwhile = self.meanwhile.map_or(0, |(_, end)| end.as_nanos());
        (self.split.total().as_nanos() as f64).max(meanwhile as f64)
    }
}

pub(crate) fn figure(study: &Study<'_>, grouping: &Grouping) -> Figure {
    let across = panel_width(study.medians.iter().flatten().count());
    let mut rows = Vec::new();
    let (mut used, mut meanwhile, mut trips) = ([false; PHASES.len()], false, false);
    for group in &grouping.groups {
        let drawn: Vec<(usize, Drawn<'_>)> = group
            .cells
            .iter()
            .filter_map(|c| Some((*c, Drawn::from_attributed(study.medians.get(*c)?.as_ref()?))))
            .filter(|(_, d)| !d.split.phases.is_empty())
            .collect();
        let longest = drawn.iter().map(|(_, d)| d.end()).fold(0.0, f64::max);
        let axis = TimeAxis::new(0.0, longest);
        let lines = drawn
            .iter()
            .map(|(_, d)| d.split.phases.len() + usize::from(d.meanwhile.is_some()))
            .max()
            .unwrap_or(0);
        let mut panels = Vec::new();
        for (cell, drawn) in &drawn {
            for phase in &drawn.split.phases {
                used[index(phase.phase.name)] = true;
            }
            meanwhile |= drawn.meanwhile.is_some();
            trips |= drawn.split.rtt.is_some();
            let names = [grouping.labels[*cell].as_str(), &group.heading];
            panels.push(panel(names, drawn, &axis, lines, across));
        }
        rows.push(Row { heading: group.heading.clone(), panels });
    }
    let mut keys = super::phase_keys(|phase| used[phase]);
    if meanwhile {
        keys.push(Key::symbol("▭", "fx", "handshake during the request"));
    }
    if trips {
        keys.push(Key::symbol("┊", "n", "round trips"));
    }
    Figure {
        folded: false,
        name: "waterfalls",
        title: "The median sample, step by step".into(),
        note: "Each panel is one real sample, the median sample. Panels under one heading share \
               their time axis."
            .into(),
        keys,
        rows,
    }
}

fn index(name: PhaseName) -> usize {
    // A proxy's phases have the colour of the TCP handshake.
    let name = match name {
        PhaseName::ProxyTls | PhaseName::Tunnel => PhaseName::Connect,
        other => other,
    };
    PHASES.iter().position(|m| m.name() == name.name()).unwrap_or(0)
}

fn panel(
    [label, heading]: [&str; 2],
    drawn: &Drawn<'_>,
    axis: &TimeAxis,
    lines: usize,
    across: f64,
) -> Panel {
    let Drawn { connection, split, meanwhile } = drawn;
    let mut canvas = Canvas::default();
    let top = panel_title(&mut canvas, label, across) + 2.0;
    let rows = lines.max(split.phases.len() + usize::from(meanwhile.is_some()));
    let bottom = top + rows as f64 * LINE;
    let wide = across - LEFT - 4.0;
    let x = |at: Offset| LEFT + wide * axis.share(at.as_nanos() as f64);
    for (at, text) in axis.ticks(4.0) {
        let at = LEFT + wide * axis.share(at);
        canvas.line([at, top], [at, bottom], "g");
        canvas.text(at, bottom + 14.0, Anchor::Middle, "n", &text);
    }
    canvas.text(LEFT - 22.0, bottom + 14.0, Anchor::End, "n", axis.unit());
    for at in round_trips(connection, split) {
        if x(at) < across - 4.0 {
            canvas.line([x(at), top], [x(at), bottom], "tr");
        }
    }
    let figure = |d: Duration| {
        let decimals = (axis.decimals() as usize).min(2);
        format!("{:.decimals$} {}", d.as_nanos() as f64 / axis.unit_ns(), axis.unit())
    };
    let mut y = top;
    let mut sentences = Vec::new();
    for phase in &split.phases {
        let which = index(phase.phase.name);
        let name = match phase.phase.name {
            PhaseName::ProxyTls => "proxy TLS",
            PhaseName::Tunnel => "tunnel",
            _ => phase_label(PHASES[which]),
        };
        canvas.text((LEFT - 8.0).max(width(name, SMALL)), y + 14.0, Anchor::End, "n", name);
        let (from, to) = (x(phase.phase.start), x(phase.phase.end));
        let bar = [from, y + 3.0, (to - from).max(1.0), BAR];
        let time = figure(phase.phase.duration());
        let sentence = format!("{name} {time}{}", made_of(phase, &figure));
        canvas.rect(bar, &phase_class(which), Some(&sentence));
        let trips = match phase.round_trips {
            0 => String::new(),
            n => format!(", {}", count(u64::from(n), "trip")),
        };
        beside(&mut canvas, [&time, &trips], [from, to], y + 14.5, across);
        sentences.push(sentence);
        y += LINE;
    }
    if let Some((from, to)) = meanwhile {
        let time = figure(to.since(*from));
        let name = if connection.facts.quic.is_some() { "QUIC" } else { "TLS" };
        canvas.text(LEFT - 8.0, y + 14.0, Anchor::End, "n", name);
        canvas.rect([x(*from), y + 4.0, (x(*to) - x(*from)).max(2.0), BAR - 3.0], "ho", None);
        beside(&mut canvas, [&time, ", meanwhile"], [x(*from), x(*to)], y + 14.5, across);
        sentences.push(format!("handshake {time}, during the request"));
    }
    let title = [label, heading].iter().filter(|t| !t.is_empty()).copied().collect::<Vec<_>>();
    Panel {
        title: format!("Waterfall: {}", title.join(", ")),
        description: format!("Total {}: {}", figure(split.total()), sentences.join("; ")),
        width: across,
        height: bottom + 20.0,
        body: canvas.0,
        ..Panel::default()
    }
}

/// Writes a time and its explanation after a bar or before it; only the time if there is no space for more.
fn beside(canvas: &mut Canvas, [time, more]: [&str; 2], [from, to]: [f64; 2], y: f64, across: f64) {
    let whole = format!("{time}{more}");
    for text in [whole.as_str(), time] {
        let room = width(text, SMALL) + 6.0;
        if to + room < across {
            canvas.text(to + 5.0, y, Anchor::Start, "l", text);
            return;
        }
        if from - room > LEFT {
            canvas.text(from - 5.0, y, Anchor::End, "l", text);
            return;
        }
    }
    canvas.text(to - 5.0, y, Anchor::End, "l", time);
}

/// " = 1 round trip + server 2.1 ms"
fn made_of(phase: &PhaseSplit, figure: &impl Fn(Duration) -> String) -> String {
    let mut parts = Vec::new();
    for (name, duration) in phase.parts.named().into_iter().filter(|(_, d)| !d.is_zero()) {
        parts.push(match (name, phase.round_trips) {
            ("network", n) if n > 0 => {
                format!("{} {}", count(u64::from(n), "round trip"), figure(duration))
            }
            _ => format!("{name} {}", figure(duration)),
        });
    }
    if parts.is_empty() { String::new() } else { format!(" = {}", parts.join(" + ")) }
}

/// Ends of the round trips, counted from the departure of the first answered packet.
fn round_trips(connection: &Connection, split: &Split) -> Vec<Offset> {
    let Some(rtt) = split.rtt.filter(|rtt| !rtt.is_zero()) else { return Vec::new() };
    let marks = &connection.marks;
    let begun = match marks.at(Mark::TcpConnected) {
        Some(connected) => connected - rtt,
        None => match marks.at(Mark::ConnectStart) {
            Some(at) => at,
            None => return Vec::new(),
        },
    };
    let total = split.total();
    // Too many lines to count are useless.
    let most = (total.as_nanos() / rtt.as_nanos().max(1)) as u32;
    if most > 40 {
        return Vec::new();
    }
    (0..=most).map(|n| begun + rtt * n).collect()
}
