//! Phases over rounds: where the time went in each sample, one panel per cell.
//!
//! One unit of the plot's coordinates is one step of the printed figure, and one column. The page's script can
//! therefore read exact values from the paths, and nothing is stored twice.

use std::fmt::Write as _;

use super::axis::{TimeAxis, ticks};
use super::figure::{Figure, Key, Panel, Row, panel_title};
use super::{SMALL, TITLE, panel_width, phase_class, phase_keys, phase_label, round};
use crate::study::{Column, Digest, Group, Grouping, PHASES, Series};
use crate::svg::{Anchor, BOLD, Canvas, number, width};
use crate::units::{count, grouped};

const LEFT: f64 = 46.0;
const RIGHT: f64 = 4.0;
const PLOT: f64 = 150.0;
const STRIP: f64 = 13.0;

pub(crate) fn figure(digest: &Digest, grouping: &Grouping) -> Figure {
    let limits: Vec<f64> = grouping.groups.iter().map(|g| limit(digest, g)).collect();
    let largest = limits.iter().copied().fold(0.0, f64::max);
    let smallest = limits.iter().copied().fold(f64::INFINITY, f64::min);
    let one_scale = smallest * 3.0 >= largest;
    let measured = digest.cells.iter().filter(|s| s.asked > 0);
    let width = panel_width(measured.count());
    let mut beyond = false;
    let rows = grouping
        .groups
        .iter()
        .zip(&limits)
        .map(|(group, limit)| {
            let axis = TimeAxis::new(0.0, if one_scale { largest } else { *limit });
            beyond |= group
                .cells
                .iter()
                .filter_map(|c| digest.cells.get(*c))
                .any(|s| s.columns.iter().any(|c| c.high as f64 > axis.high));
            let plots: Vec<(Plot<'_>, &str)> = group
                .cells
                .iter()
                .filter_map(|c| Some((digest.cells.get(*c)?, grouping.labels[*c].as_str())))
                .filter(|(series, _)| series.asked > 0)
                .map(|(series, label)| (Plot { digest, series, axis, width }, label))
                .collect();
            // Plots of a group begin at the same height, so that they can be compared by eye.
            let tops = plots.iter().map(|(plot, label)| plot.head(&mut Canvas::default(), label));
            let top = tops.fold(0.0, f64::max);
            let panel = |(plot, label): &(Plot<'_>, &str)| plot.panel(label, &group.heading, top);
            let panels = plots.iter().map(panel).collect();
            Row { heading: group.heading.clone(), panels }
        })
        .collect();
    Figure {
        folded: false,
        name: "phases",
        title: "Where the time goes, round by round".into(),
        note: note(digest, one_scale || grouping.groups.len() == 1),
        keys: keys(digest, beyond),
        rows,
    }
}

/// The top of the axis. It covers all samples except those beyond Tukey's outer fence.
fn limit(digest: &Digest, group: &Group) -> f64 {
    let series = group.cells.iter().filter_map(|c| digest.cells.get(*c));
    series
        .filter_map(|s| {
            let [q1, _, q3] = s.quartiles?.map(|q| q as f64);
            let most = s.columns.iter().map(|c| c.high).max()? as f64;
            Some(most.min((q3 + 3.0 * (q3 - q1)).max(q3 * 1.25)) * 1.04)
        })
        .fold(0.0, f64::max)
}

fn note(digest: &Digest, one_scale: bool) -> String {
    let mut note = match digest.per_column {
        1 => "Each column is one sample, in the order of rounds.".to_owned(),
        n => format!(
            "Each column is {n} consecutive rounds: it shows the phases of their median sample; the \
             pale band reaches up to the longest total, the line is the shortest."
        ),
    };
    note += if one_scale {
        " All panels share one scale."
    } else {
        " Panels under one heading share their scale; headings have scales of their own."
    };
    if digest.warmups() > 0 {
        note += " Warm-up samples are on grey and not part of the statistics.";
    }
    note + " Unverified and failed samples leave a gap and a mark below it."
}

fn keys(digest: &Digest, beyond: bool) -> Vec<Key> {
    let mut keys = phase_keys(|phase| {
        digest.cells.iter().any(|s| s.columns.iter().any(|c| c.phases[phase] > 0))
    });
    if digest.per_column > 1 {
        keys.push(Key::area("b", "up to the longest"));
    }
    if digest.cells.iter().any(|s| s.failed > 0) {
        keys.push(Key::symbol("✕", "fx", "failed"));
    }
    if digest.cells.iter().any(|s| s.unproven() > 0) {
        keys.push(Key::symbol("◇", "ux", "unverified"));
    }
    if beyond {
        keys.push(Key::symbol("▴", "n", "above the scale"));
    }
    keys
}

struct Plot<'a> {
    digest: &'a Digest,
    series: &'a Series,
    axis: TimeAxis,
    width: f64,
}

impl Plot<'_> {
    fn panel(&self, label: &str, heading: &str, top: f64) -> Panel {
        let mut canvas = Canvas::default();
        self.head(&mut canvas, label);
        let right = self.width - RIGHT;
        for (at, figure) in self.axis.ticks(4.0) {
            let y = top + PLOT * (1.0 - self.axis.share(at));
            canvas.line([LEFT, y], [right, y], "g");
            let figure = if at == 0.0 { format!("{figure} {}", self.axis.unit()) } else { figure };
            canvas.text(LEFT - 5.0, y + 4.0, Anchor::End, "n", &figure);
        }
        let warm = self.warm_width();
        if warm > 0.0 {
            canvas.rect([LEFT, top, warm, PLOT], "w", None);
            self.columns(&mut canvas, &self.series.warmup, [LEFT, top, warm, PLOT], "wu");
        }
        let left = LEFT + if warm > 0.0 { warm + 3.0 } else { 0.0 };
        let plot = [left, top, right - left, PLOT];
        self.columns(&mut canvas, &self.series.columns, plot, "pl");
        if self.digest.per_column > 1 {
            canvas.path("mn", &self.shortest(plot));
        }
        self.marks(&mut canvas, plot);
        let bottom = top + PLOT;
        canvas.line([LEFT, bottom], [right, bottom], "ax");
        self.rounds(&mut canvas, plot, bottom + STRIP);
        let title = [label, heading].iter().filter(|t| !t.is_empty()).copied().collect::<Vec<_>>();
        Panel {
            title: format!("Phases by round: {}", title.join(", ")),
            description: self.description(),
            width: self.width,
            height: bottom + STRIP + 18.0,
            body: canvas.0,
            data: self.data(plot),
            readout: self.readout(),
        }
    }

    fn warm_width(&self) -> f64 {
        let (warm, columns) = (self.digest.warmups() as f64, self.digest.columns() as f64);
        if warm == 0.0 {
            return 0.0;
        }
        ((self.width - LEFT - RIGHT) * warm / (warm + columns).max(1.0)).clamp(8.0, 40.0)
    }

    /// The title, followed by the counts of included and excluded samples, on the same line or below. Returns where
    /// the drawing may begin.
    fn head(&self, canvas: &mut Canvas, label: &str) -> f64 {
        let y = panel_title(canvas, label, self.width);
        let (failed, unproven) = (self.series.failed, self.series.unproven());
        let marks = [
            ("fx", format!("✕ {}", grouped(failed)), failed),
            ("ux", format!("◇ {}", grouped(unproven)), unproven),
        ];
        let plural = if self.series.proven == 1 { "" } else { "s" };
        let count = format!("{} sample{plural}", grouped(self.series.proven));
        let mut shown: Vec<(&str, &str)> = vec![("n", &count)];
        shown.extend(marks.iter().filter(|m| m.2 > 0).map(|m| (m.0, m.1.as_str())));
        let needed: f64 = shown.iter().map(|(_, text)| width(text, SMALL) + 8.0).sum();
        let beside = y < 32.0 && width(label, TITLE) * BOLD + 8.0 + needed <= self.width;
        let line = if beside { y - 17.0 } else { y - 1.0 };
        let mut x = self.width - RIGHT;
        for (class, text) in shown.iter().rev() {
            canvas.text(x, line, Anchor::End, class, text);
            x -= width(text, SMALL) + 8.0;
        }
        if beside { y - 2.0 } else { y + 12.0 }
    }

    /// Draws columns as areas, from the total down to the first phase; each covers the lower part of the previous
    /// one.
    fn columns(
        &self,
        canvas: &mut Canvas,
        columns: &[Column],
        [x, y, w, h]: [f64; 4],
        class: &str,
    ) {
        if columns.is_empty() {
            return;
        }
        let step = self.axis.step_ns().max(1);
        let top = (self.axis.high / step as f64).round() as i64;
        let [x, y, w, h] = [x, y, w, h].map(number);
        let _ = writeln!(
            canvas.0,
            "<svg class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\" \
             viewBox=\"0 0 {} {top}\" preserveAspectRatio=\"none\">",
            columns.len()
        );
        let steps = |ns: u64| (ns.saturating_add(step / 2) / step).cast_signed();
        if class == "pl" && self.digest.per_column > 1 {
            canvas.path("b", &skyline(columns.iter().map(|c| steps(c.high)), top));
        }
        for phase in (0..PHASES.len()).rev() {
            if columns.iter().all(|c| c.phases[phase] == 0) {
                continue;
            }
            let until = |c: &Column| steps(c.until(phase));
            canvas.path(&phase_class(phase), &skyline(columns.iter().map(until), top));
        }
        canvas.0 += "</svg>\n";
    }

    /// The minimum total of each column, as a line.
    fn shortest(&self, [x, y, w, h]: [f64; 4]) -> String {
        let step = w / self.series.columns.len().max(1) as f64;
        let mut d = String::new();
        let mut drawing = false;
        for (at, column) in self.series.columns.iter().enumerate() {
            let left = x + at as f64 * step;
            let level = number(y + h * (1.0 - self.axis.share(column.low as f64)));
            if column.samples == 0 {
                drawing = false;
                continue;
            }
            let _ = match drawing {
                true => write!(d, "V{level}H{}", number(left + step)),
                false => write!(d, "M{} {level}H{}", number(left), number(left + step)),
            };
            drawing = true;
        }
        d
    }

    /// Marks below the plot for excluded samples, and above it for values beyond the scale. Marks of one kind do
    /// not overlap.
    fn marks(&self, canvas: &mut Canvas, [x, y, w, h]: [f64; 4]) {
        let step = w / self.series.columns.len().max(1) as f64;
        let spots = |apart: f64, is: &dyn Fn(&Column) -> bool| {
            let mut last = f64::NEG_INFINITY;
            let mut spots = Vec::new();
            for (at, _) in self.series.columns.iter().enumerate().filter(|(_, c)| is(c)) {
                let middle = x + (at as f64 + 0.5) * step;
                if middle - last >= apart {
                    spots.push(middle);
                    last = middle;
                }
            }
            spots
        };
        let strip = y + h + STRIP / 2.0 + 0.5;
        let draw = |spots: Vec<f64>, y: f64, shape: &str| {
            spots
                .iter()
                .fold(String::new(), |d, x| d + &format!("M{} {}{shape}", number(*x), number(y)))
        };
        let above = spots(5.0, &|c| c.high as f64 > self.axis.high);
        canvas.path("ov", &draw(above, y - 5.0, "l2.5 4h-5z"));
        let unproven = spots(6.0, &|c| c.unproven > 0);
        canvas.path("um", &draw(unproven, strip - 3.0, "l3 3 -3 3 -3-3z"));
        let failed = spots(6.0, &|c| c.failed > 0);
        canvas.path("xm", &draw(failed, strip, "m-2.5-2.5l5 5m0-5l-5 5"));
    }

    fn rounds(&self, canvas: &mut Canvas, [x, _, w, _]: [f64; 4], y: f64) {
        let rounds = u64::from(self.digest.rounds);
        let y = y + 12.0;
        let last = format!("{} {}", if rounds == 1 { "round" } else { "rounds" }, grouped(rounds));
        let end = x + w - width(&last, SMALL) - 8.0;
        let mut free = LEFT;
        if self.digest.warmups() > 0 {
            canvas.text(LEFT, y, Anchor::Start, "n", "warm-up");
            free += width("warm-up", SMALL) + 8.0;
        }
        for at in ticks(0.0, rounds as f64, 5.0).into_iter().filter(|at| at.fract() == 0.0) {
            let middle = x + w * (at - 0.5) / rounds.max(1) as f64;
            let text = grouped(at as u64);
            let half = width(&text, SMALL) / 2.0;
            if at >= 1.0 && middle - half > free && middle + half < end {
                canvas.text(middle, y, Anchor::Middle, "n", &text);
                free = middle + half + 8.0;
            }
        }
        canvas.text(x + w, y, Anchor::End, "n", &last);
    }

    fn data(&self, plot: [f64; 4]) -> String {
        let decimals = self.axis.decimals();
        let mut data = format!(
            " data-kind=\"rounds\" data-plot=\"{}\" data-n=\"{}\" data-per=\"{}\" data-rounds=\"{}\" \
             data-unit=\"{}\" data-dec=\"{decimals}\"",
            plot.map(number).join(" "),
            self.series.columns.len(),
            self.digest.per_column,
            self.digest.rounds,
            self.axis.unit(),
        );
        for (name, of) in
            [("failed", (|c| c.failed) as fn(&Column) -> u32), ("unverified", |c| c.unproven)]
        {
            let list: Vec<String> = self
                .series
                .columns
                .iter()
                .enumerate()
                .filter(|(_, c)| of(c) > 0)
                .map(|(at, c)| match of(c) {
                    1 => at.to_string(),
                    n => format!("{at}:{n}"),
                })
                .collect();
            if !list.is_empty() {
                let _ = write!(data, " data-{name}=\"{}\"", list.join(" "));
            }
        }
        data
    }

    fn figure_of(&self, ns: u64) -> String {
        let decimals = self.axis.decimals() as usize;
        format!("{:.decimals$}", ns as f64 / self.axis.unit_ns())
    }

    fn readout(&self) -> String {
        let Some(middle) = &self.series.middle else { return "no sample counts".into() };
        let parts: Vec<String> = (0..PHASES.len())
            .filter(|i| middle.phases[*i] > 0)
            .map(|i| format!("{} {}", phase_label(PHASES[i]), self.figure_of(middle.phases[i])))
            .collect();
        format!(
            "median sample: {} {} = {}",
            self.figure_of(middle.total),
            self.axis.unit(),
            parts.join(" + ")
        )
    }

    fn description(&self) -> String {
        let above = self.series.columns.iter().filter(|c| c.high as f64 > self.axis.high).count();
        let mut text = format!("{}. {}", self.series.proof("counted"), self.readout());
        if above > 0 {
            let most = self.series.columns.iter().map(|c| c.high).max().unwrap_or(0);
            text += &format!(
                ". {} above the scale, the longest {} {}",
                count(above as u64, "column"),
                round(most as f64 / self.axis.unit_ns(), 1),
                self.axis.unit()
            );
        }
        text
    }
}

/// The area below `levels`, each one unit wide, down to `top` (the y axis points down).
fn skyline(levels: impl Iterator<Item = i64>, top: i64) -> String {
    let mut d = format!("M0 {top}");
    let (mut now, mut run) = (0, 0);
    for level in levels {
        if level != now {
            if run > 0 {
                let _ = write!(d, "h{run}");
            }
            let _ = write!(d, "v{}", now - level);
            now = level;
            run = 0;
        }
        run += 1;
    }
    let _ = write!(d, "h{run}V{top}z");
    d
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skyline_is_as_short_as_it_can_be() {
        let d = skyline([5, 5, 7, 0, 3].into_iter(), 10);
        assert_eq!(d, "M0 10v-5h2v-2h1v7h1v-3h1V10z");
    }
}
