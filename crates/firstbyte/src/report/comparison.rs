//! Two variants on several paths, side by side: a table and a verdict.
//!
//! Input: for each path the samples of both variants, by round. Only rounds in which both came to
//! their end are compared. Definitions: `docs/statistics.md`.

use std::collections::BTreeMap;
use std::time::Duration;

use firstbyte_core::split::{Split, total};
use firstbyte_core::stats::{PairedEffect, median, paired_median_change};
use firstbyte_core::timeline::{PhaseName, Sample};

use super::style::{Ink, Style};

/// One path, measured with two variants.
pub struct Path<'a> {
    /// Its name, such as "Sydney IPv4".
    pub name: &'a str,
    /// Samples of the variant that is compared against.
    pub base: &'a [Sample],
    /// Samples of the variant that is compared.
    pub variant: &'a [Sample],
}

/// What is compared.
pub struct Comparison<'a> {
    /// Name of the variant that is compared against.
    pub base: &'a str,
    /// Name of the variant that is compared.
    pub variant: &'a str,
    /// The paths.
    pub paths: Vec<Path<'a>>,
}

/// A quantity that is compared, and how a sample gives it.
struct Quantity {
    title: &'static str,
    of: fn(&Sample) -> Option<Duration>,
    round_trips: fn(&Sample) -> Option<u32>,
}

const QUANTITIES: [Quantity; 2] = [
    Quantity { title: "TLS handshake", of: handshake, round_trips: handshake_round_trips },
    Quantity { title: "Total", of: whole, round_trips: whole_round_trips },
];

fn handshake(sample: &Sample) -> Option<Duration> {
    Split::of(&sample.connection).phase(PhaseName::Tls).map(|p| p.phase.duration())
}

fn handshake_round_trips(sample: &Sample) -> Option<u32> {
    Split::of(&sample.connection).phase(PhaseName::Tls).map(|p| p.round_trips)
}

fn whole(sample: &Sample) -> Option<Duration> {
    Some(total(&sample.connection))
}

fn whole_round_trips(sample: &Sample) -> Option<u32> {
    Some(Split::of(&sample.connection).round_trips)
}

/// One line of the table.
struct Row<'a> {
    path: &'a str,
    base: f64,
    variant: f64,
    round_trips: (f64, f64),
    effect: PairedEffect,
}

impl Comparison<'_> {
    /// The tables, and what they say in words.
    pub fn text(&self, style: &Style) -> String {
        let mut text = String::new();
        for quantity in &QUANTITIES {
            let rows: Vec<Row<'_>> =
                self.paths.iter().filter_map(|path| path.row(quantity)).collect();
            text += &self.table(quantity, &rows, style);
            text += &self.verdict(quantity, &rows, style);
            text.push('\n');
        }
        text += &self.left_out();
        text
    }

    fn table(&self, quantity: &Quantity, rows: &[Row<'_>], style: &Style) -> String {
        let head = format!(
            "{:<18}{:>8}{:>9}   {:<7}{:>7}  {}\n",
            format!("{}, ms", quantity.title),
            self.base,
            self.variant,
            "trips",
            "change",
            "95 % interval",
        );
        let mut text = style.paint(Ink::Strong, head.trim_end());
        text.push('\n');
        for row in rows {
            let (base_trips, variant_trips) = row.round_trips;
            let interval = row.effect.interval.map_or_else(
                || format!("too few rounds: {}", row.effect.rounds),
                |i| format!("{} to {}", percent(i.low, style), percent(i.high, style)),
            );
            text += &format!(
                "{:<18}{:>8.1}{:>9.1}   {:<7}{:>7}  {}\n",
                row.path,
                row.base,
                row.variant,
                format!("{base_trips} {} {variant_trips}", style.glyph("→", "->")),
                percent(row.effect.change, style),
                style.paint(Ink::Faint, &interval),
            );
        }
        text
    }

    /// What the intervals allow to say of all paths together, and no more.
    fn verdict(&self, quantity: &Quantity, rows: &[Row<'_>], style: &Style) -> String {
        let intervals: Option<Vec<_>> = rows.iter().map(|r| r.effect.interval).collect();
        let Some(intervals) = intervals.filter(|all| !all.is_empty()) else {
            return "too few rounds for a verdict: 6 at least\n".into();
        };
        let what = quantity.title.to_lowercase().replace("tls", "TLS");
        let changes = rows.iter().map(|r| r.effect.change);
        let largest = changes.clone().fold(f64::NEG_INFINITY, f64::max);
        let smallest = changes.fold(f64::INFINITY, f64::min);
        let sentence = if intervals.iter().all(|i| i.high < 0.0) {
            format!(
                "{} made the {what} {:.0} to {:.0} % shorter at the median than {}, on every path.",
                self.variant,
                -largest * 100.0,
                -smallest * 100.0,
                self.base
            )
        } else if intervals.iter().all(|i| i.low > 0.0) {
            format!(
                "{} made the {what} {:.0} to {:.0} % longer at the median than {}, on every path.",
                self.variant,
                smallest * 100.0,
                largest * 100.0,
                self.base
            )
        } else {
            let open = intervals.iter().filter(|i| i.low <= 0.0 && i.high >= 0.0).count();
            format!(
                "the {what} differs on {} of {} paths; on {open} the interval holds zero.",
                rows.len() - open,
                rows.len()
            )
        };
        style.paint(Ink::Strong, &sentence) + "\n"
    }

    /// Failed samples, counted apart by what they failed of.
    fn left_out(&self) -> String {
        let samples = self.paths.iter().flat_map(|p| p.base.iter().chain(p.variant));
        let mut failures: BTreeMap<String, usize> = BTreeMap::new();
        for failure in samples.filter_map(Sample::failure) {
            *failures.entry(failure.to_string()).or_default() += 1;
        }
        failures
            .into_iter()
            .map(|(what, count)| format!("{count} failed and are left out: {what}\n"))
            .collect()
    }
}

impl<'a> Path<'a> {
    fn row(&self, quantity: &Quantity) -> Option<Row<'a>> {
        let pairs: Vec<(&Sample, &Sample)> = self
            .base
            .iter()
            .filter_map(|b| Some((b, self.variant.iter().find(|v| v.sequence == b.sequence)?)))
            .filter(|(b, v)| counts(b) && counts(v))
            .collect();
        let ms = |s: &Sample| (quantity.of)(s).map(|d| d.as_secs_f64() * 1e3);
        let (base, variant): (Vec<f64>, Vec<f64>) =
            pairs.iter().filter_map(|(b, v)| Some((ms(b)?, ms(v)?))).unzip();
        let trips = |pick: fn(&(&'a Sample, &'a Sample)) -> &'a Sample| {
            let all: Vec<f64> = pairs
                .iter()
                .filter_map(|pair| (quantity.round_trips)(pick(pair)).map(f64::from))
                .collect();
            median(&all)
        };
        Some(Row {
            path: self.name,
            base: median(&base)?,
            variant: median(&variant)?,
            round_trips: (trips(|(b, _)| b)?, trips(|(_, v)| v)?),
            effect: paired_median_change(&base, &variant)?,
        })
    }
}

fn counts(sample: &Sample) -> bool {
    !sample.warmup && sample.failure().is_none()
}

fn percent(share: f64, style: &Style) -> String {
    let text = format!("{:+.1} %", share * 100.0);
    text.replace('-', style.glyph("−", "-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_with_only_ascii_gets_an_ascii_minus() {
        let ascii = Style { unicode: false, ..Style::default() };
        assert_eq!(percent(-0.447, &ascii), "-44.7 %");
        assert_eq!(percent(-0.447, &Style { unicode: true, ..ascii }), "−44.7 %");
    }
}
