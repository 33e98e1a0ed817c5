//! The time axis of the waterfall: maps times to columns, and places the round trips.

use std::time::Duration;

use firstbyte_core::split::{Parts, PhaseSplit, Split};
use firstbyte_core::timeline::{Connection, Mark, Offset};

use super::style::{Ink, Style};
use super::units::Scale;

/// A linear scale from the origin to the end of the connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Axis {
    total: Duration,
    columns: usize,
}

/// A character of a row, and its colour.
pub(crate) type Cell = (char, Ink);

impl Axis {
    pub(crate) fn new(total: Duration, columns: usize) -> Self {
        Self { total: total.max(Duration::from_nanos(1)), columns }
    }

    /// The position of `at`, in columns.
    fn position(&self, at: Offset) -> f64 {
        at.since(Offset::ZERO).as_secs_f64() / self.total.as_secs_f64() * self.columns as f64
    }

    /// The column whose left edge is closest to `at`; the end has a column, too.
    pub(crate) fn column(&self, at: Offset) -> usize {
        (self.position(at).round() as usize).min(self.columns)
    }

    /// A row that shows only the round trips' grid lines.
    pub(crate) fn blank(&self, grid: &Grid, style: &Style) -> Vec<Cell> {
        let mut row = vec![(' ', Ink::Plain); self.columns + 1];
        for (_, column) in &grid.lines {
            row[*column] = (style.glyph('┊', ':'), Ink::Faint);
        }
        row
    }

    /// Draws the parts of `phase` one after the other. A column shows the part that covers most of it; a stretch
    /// too short for a column is a thin line. A cross separates consecutive round trips.
    pub(crate) fn draw(&self, row: &mut [Cell], phase: &PhaseSplit, style: &Style) {
        let parts = &phase.parts;
        let start = phase.phase.start;
        let mut at = start;
        let mut joints = Vec::new();
        let mut cover = vec![(0.0, PARTS[0]); self.columns];
        let mut covered = vec![0.0; self.columns];
        let mut longest = (Duration::ZERO, PARTS[0]);
        for part in PARTS {
            let duration = (part.of)(parts);
            let (from, to) = (self.position(at), self.position(at + duration));
            if part.name == "network" && phase.round_trips > 0 {
                let trip = duration / phase.round_trips;
                joints = (1..phase.round_trips).map(|n| self.column(at + trip * n)).collect();
            }
            at = at + duration;
            if duration > longest.0 {
                longest = (duration, part);
            }
            for column in from.floor() as usize..(to.ceil() as usize).min(self.columns) {
                let share = to.min(column as f64 + 1.0) - from.max(column as f64);
                covered[column] += share.max(0.0);
                if share > cover[column].0 {
                    cover[column] = (share, part);
                }
            }
        }
        let first = covered.iter().position(|c| *c >= 0.5);
        let Some(first) = first else {
            let column = (self.position(start).floor() as usize).min(self.columns - 1);
            if !longest.0.is_zero() {
                row[column] = (style.glyph('▏', '|'), longest.1.ink);
            }
            return;
        };
        for column in first..self.columns {
            if covered[column] < 0.5 {
                continue;
            }
            let part = cover[column].1;
            let joint = part.name == "network" && column > first && joints.contains(&column);
            let glyph = if joint { style.glyph('┿', '+') } else { part.glyph(style) };
            row[column] = (glyph, part.ink);
        }
    }

    /// Two lines below the rows: a ruler with ticks, and their times.
    pub(crate) fn ticks(&self, scale: Scale, style: &Style) -> [Vec<Cell>; 2] {
        let step = self.tick_step();
        let mut rule = vec![(style.glyph('─', '-'), Ink::Faint); self.columns + 1];
        let mut labels = Labels::new(self.columns + 1);
        let mut at = Duration::ZERO;
        while at <= self.total {
            let column = self.column(Offset::ZERO + at);
            rule[column] = (style.glyph('┴', '+'), Ink::Faint);
            labels.put(column, &trimmed(&scale.figure(scale.steps(at))));
            at += step;
        }
        [rule, labels.cells]
    }

    /// The smallest of 1, 2 and 5 times a power of ten that leaves ten columns between ticks.
    fn tick_step(&self) -> Duration {
        let least = self.total.as_nanos() * 10 / self.columns.max(1) as u128;
        let mut step = 1u64;
        for factor in [2, 5, 2].into_iter().cycle() {
            if u128::from(step) >= least {
                break;
            }
            step = if factor == 5 { step / 2 * 5 } else { step * 2 };
        }
        Duration::from_nanos(step)
    }
}

/// A figure without trailing zeros after the decimal point.
fn trimmed(figure: &str) -> String {
    if figure.contains('.') {
        return figure.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    figure.to_owned()
}

/// Grid lines at the round trips, counted from the SYN that was answered.
#[derive(Clone, Debug)]
pub(crate) struct Grid {
    /// Round-trip numbers and their columns.
    pub lines: Vec<(u64, usize)>,
    /// Round trips between two lines; 1 if there is enough space.
    pub every: u64,
}

impl Grid {
    /// Minimum number of columns between two lines.
    const ROOM: f64 = 3.0;
    /// With more round trips between two lines, the lines would not help to count.
    const MOST_BETWEEN: u64 = 50;

    pub(crate) fn lay_out(connection: &Connection, split: &Split, axis: &Axis) -> Self {
        let mut grid = Self { lines: Vec::new(), every: 1 };
        let Some(rtt) = split.rtt.filter(|rtt| !rtt.is_zero()) else { return grid };
        // Count from the answered SYN, not from the first one: a lost SYN or a lost address race before it would
        // shift every line relative to the flights.
        let origin = match connection.marks.at(Mark::TcpConnected) {
            Some(connected) => (connected - rtt).max(Offset::ZERO),
            None => return grid,
        };
        let apart = axis.position(Offset::ZERO + rtt);
        for factor in [2, 5, 2].into_iter().cycle() {
            if apart * grid.every as f64 >= Self::ROOM {
                break;
            }
            grid.every = if factor == 5 { grid.every / 2 * 5 } else { grid.every * 2 };
            if grid.every > Self::MOST_BETWEEN {
                return grid;
            }
        }
        let mut number = 0;
        let mut at = origin;
        while at.since(Offset::ZERO) <= axis.total && grid.lines.len() <= axis.columns {
            grid.lines.push((number, axis.column(at)));
            number += grid.every;
            at = at + Duration::from_nanos((rtt.as_nanos() as u64).saturating_mul(grid.every));
        }
        // A single line at the origin is useless.
        if grid.lines.len() < 2 {
            grid.lines.clear();
        }
        grid
    }

    /// The line above the rows with the numbers of the round trips.
    pub(crate) fn numbers(&self, axis: &Axis) -> Vec<Cell> {
        let mut labels = Labels::new(axis.columns + 1);
        for (number, column) in &self.lines {
            labels.put(*column, &number.to_string());
        }
        labels.cells
    }
}

/// A line of labels, each centred on its column, or left out if it would touch another.
struct Labels {
    cells: Vec<Cell>,
    free_from: usize,
}

impl Labels {
    fn new(columns: usize) -> Self {
        Self { cells: vec![(' ', Ink::Faint); columns], free_from: 0 }
    }

    fn put(&mut self, column: usize, text: &str) {
        let len = text.chars().count();
        let start = column.saturating_sub((len - 1) / 2).min(self.cells.len().saturating_sub(len));
        if start < self.free_from || len > self.cells.len() {
            return;
        }
        for (i, c) in text.chars().enumerate() {
            self.cells[start + i].0 = c;
        }
        self.free_from = start + len + 1;
    }
}

/// How a part is drawn: a line for the network, blocks for a host at work.
#[derive(Clone, Copy)]
pub(crate) struct PartLook {
    pub name: &'static str,
    pub ink: Ink,
    unicode: char,
    ascii: char,
    pub of: fn(&Parts) -> Duration,
}

impl PartLook {
    pub(crate) fn glyph(&self, style: &Style) -> char {
        style.glyph(self.unicode, self.ascii)
    }
}

const fn look(
    name: &'static str,
    ink: Ink,
    unicode: char,
    ascii: char,
    of: fn(&Parts) -> Duration,
) -> PartLook {
    PartLook { name, ink, unicode, ascii, of }
}

/// The look of the part with this name.
pub(crate) fn look_of(name: &str) -> PartLook {
    PARTS.into_iter().find(|look| look.name == name).unwrap_or(PARTS[PARTS.len() - 1])
}

/// The parts in the order in which they appear in a bar.
pub(crate) const PARTS: [PartLook; 9] = [
    look("resolver", Ink::Resolver, '▒', '%', |p| p.resolver),
    look("fallback", Ink::Loss, '╍', 'f', |p| p.fallback),
    look("variation", Ink::Loss, '≈', '~', |p| p.variation),
    look("network", Ink::Network, '━', '=', |p| p.network),
    look("server", Ink::Server, '█', '#', |p| p.server),
    look("client", Ink::Client, '▓', 'c', |p| p.client),
    look("transfer", Ink::Transfer, '░', '>', |p| p.transfer),
    look("pause", Ink::Loss, '╌', 'p', |p| p.pause),
    look("unexplained", Ink::Faint, '·', '?', |p| p.unexplained),
];

#[cfg(test)]
mod tests {
    use super::super::fixtures;
    use super::*;

    #[test]
    fn round_trips_can_be_counted_by_eye() {
        let connection = fixtures::tls12_sydney().connection;
        let split = Split::attribute(&connection);
        let axis = Axis::new(split.total(), 60);
        let grid = Grid::lay_out(&connection, &split, &axis);
        let numbers: Vec<u64> = grid.lines.iter().map(|(n, _)| *n).collect();
        assert_eq!(numbers, [0, 1, 2, 3, 4]);
        let connected = connection.marks.at(Mark::TcpConnected).unwrap();
        assert_eq!(grid.lines[1].1, axis.column(connected));
    }

    #[test]
    fn lines_keep_their_distance() {
        let connection = fixtures::slow_server().connection;
        let split = Split::attribute(&connection);
        let axis = Axis::new(split.total(), 60);
        let grid = Grid::lay_out(&connection, &split, &axis);
        assert!(grid.lines.is_empty(), "30,000 round trips cannot be counted: {grid:?}");
        let connection = fixtures::fallback().connection;
        let split = Split::attribute(&connection);
        let grid = Grid::lay_out(&connection, &split, &Axis::new(split.total(), 60));
        assert_eq!(grid.every, 2);
        assert!(grid.lines.windows(2).all(|pair| pair[1].1 - pair[0].1 >= 3));
    }

    #[test]
    fn every_part_has_its_own_look() {
        let parts = Parts::default();
        let mut names: Vec<&str> = PARTS.iter().map(|p| p.name).collect();
        let mut all: Vec<&str> = parts.named().iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        all.sort_unstable();
        assert_eq!(names, all);
        for unicode in [false, true] {
            let style = Style { unicode, ..Style::default() };
            let mut glyphs: Vec<char> = PARTS.iter().map(|p| p.glyph(&style)).collect();
            glyphs.sort_unstable();
            glyphs.dedup();
            assert_eq!(glyphs.len(), PARTS.len());
        }
    }
}
