//! A server's capacity as measured by a load test, step by step, compared with the estimate from a capture of the
//! test.
//!
//! Input: steps of a load test, and the capture's estimate. Output: text. Definitions: `docs/measurement.md`,
//! "Capacity".

use std::fmt::Write as _;
use std::time::Duration;

use firstbyte_passive::capacity::ServerCapacity;

use crate::Style;
use crate::style::{Ink, wrap};
use crate::units::grouped;

/// A server that uses its processor for at least this share of the time is limited by it.
const PROCESSOR_BOUND: f64 = 0.85;
/// Throughput has levelled off in steps that reach this share of the best step's throughput.
const FLAT: f64 = 0.95;

/// A step of the load test, with a fixed number of concurrent clients.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Number of concurrent clients.
    pub clients: usize,
    /// Number of connections that got their response, with a full and with a resumed handshake; and of those that
    /// failed.
    pub counts: [u64; 3],
    /// Duration of the step.
    pub elapsed: Duration,
    /// The server's processor time; absent if unknown.
    pub processor: Option<Duration>,
}

impl Step {
    /// A step without any connections yet.
    pub const fn new(clients: usize) -> Self {
        Self { clients, counts: [0; 3], elapsed: Duration::ZERO, processor: Some(Duration::ZERO) }
    }

    /// Adds connections made in `elapsed`: full, resumed, failed.
    pub fn add(&mut self, counts: [u64; 3], elapsed: Duration, processor: Option<Duration>) {
        self.counts.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        self.elapsed += elapsed;
        self.processor = self.processor.zip(processor).map(|(sum, more)| sum + more);
    }

    /// Successful connections per second; absent if there are none.
    pub fn per_second(&self) -> Option<f64> {
        let (made, seconds) = (self.counts[0] + self.counts[1], self.elapsed.as_secs_f64());
        (made > 0 && seconds > 0.0).then(|| made as f64 / seconds)
    }

    /// Share of the time in which the server used a processor.
    pub fn processor_share(&self) -> Option<f64> {
        let elapsed = self.elapsed.as_secs_f64();
        (elapsed > 0.0).then_some(self.processor?.as_secs_f64() / elapsed)
    }

    /// Processor time per connection, seconds.
    pub fn processor_each(&self) -> Option<f64> {
        let made = self.counts[0] + self.counts[1];
        (made > 0).then_some(self.processor?.as_secs_f64() / made as f64)
    }
}

/// Steps with an increasing number of clients.
#[derive(Clone, Debug, PartialEq)]
pub struct Steps {
    /// Whether handshakes are resumed; otherwise they are full.
    pub resumed: bool,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

impl Steps {
    /// The steps after throughput levelled off: the first that is close to the best, and all with more clients.
    fn flat(&self) -> impl Iterator<Item = &Step> {
        let best = self.steps.iter().filter_map(Step::per_second).fold(0.0, f64::max);
        let below = move |step: &&Step| step.per_second().is_none_or(|rate| rate < FLAT * best);
        self.steps.iter().skip_while(below)
    }

    /// Connections per second that the server sustains, from the steps after throughput levelled off.
    pub fn sustained(&self) -> Option<f64> {
        let (made, seconds) = self.flat().fold((0, 0.0), |(made, seconds), step| {
            (made + step.counts[0] + step.counts[1], seconds + step.elapsed.as_secs_f64())
        });
        (seconds > 0.0).then(|| made as f64 / seconds)
    }

    /// Processor time per connection in these steps, seconds.
    pub fn processor_each(&self) -> Option<f64> {
        let mut sum = (0.0, 0);
        for step in self.flat() {
            sum = (sum.0 + step.processor?.as_secs_f64(), sum.1 + step.counts[0] + step.counts[1]);
        }
        (sum.1 > 0).then(|| sum.0 / sum.1 as f64)
    }

    fn processor_share(&self) -> Option<f64> {
        let mut sum = (0.0, 0.0);
        for step in self.flat() {
            sum = (sum.0 + step.processor?.as_secs_f64(), sum.1 + step.elapsed.as_secs_f64());
        }
        (sum.1 > 0.0).then(|| sum.0 / sum.1)
    }

    /// Relative error of the capture's estimate against the sustained rate.
    pub fn error(&self, seen: Option<&ServerCapacity>) -> Option<f64> {
        let (estimate, _) = seen?.sustained(self.resumed)?;
        Some(estimate / self.sustained()? - 1.0)
    }

    /// Name of the kind of handshake.
    pub const fn name(&self) -> &'static str {
        if self.resumed { "resumed" } else { "full" }
    }
}

/// The whole report as text.
pub fn text(steps: &[Steps; 2], seen: Option<&ServerCapacity>, style: &Style) -> String {
    let mut text = String::from("\n");
    let head = ["handshake", "clients", "n", "a second", "failed", "processor", "for each"];
    let widths = [10, 9, 9, 11, 8, 11, 11];
    let row = |cells: [String; 7]| {
        let cells = cells.iter().zip(widths).enumerate();
        let line: String = cells
            .map(|(place, (cell, width))| match place {
                0 => format!("{cell:<width$}"),
                _ => format!("{cell:>width$}"),
            })
            .collect();
        line.trim_end().to_owned()
    };
    let _ = writeln!(text, "{}", style.paint(Ink::Faint, &row(head.map(str::to_owned))));
    for of in steps {
        for step in &of.steps {
            let _ = writeln!(
                text,
                "{}",
                row([
                    of.name().to_owned(),
                    step.clients.to_string(),
                    grouped(step.counts[0] + step.counts[1]),
                    step.per_second().map(rate).unwrap_or_default(),
                    grouped(step.counts[2]),
                    step.processor_share().map(percent).unwrap_or_default(),
                    step.processor_each().map(each).unwrap_or_default(),
                ])
            );
        }
    }
    text.push('\n');
    for of in steps {
        for (place, sentence) in sentences(of, seen).into_iter().enumerate() {
            let words: Vec<String> = sentence.split(' ').map(str::to_owned).collect();
            let indent = if place == 0 { "" } else { "    " };
            for line in wrap(indent, &words, style.columns()) {
                let _ = writeln!(text, "{line}");
            }
        }
    }
    text
}

fn sentences(of: &Steps, seen: Option<&ServerCapacity>) -> Vec<String> {
    let name = of.name();
    let Some(sustained) = of.sustained() else {
        return vec![format!("{name}: no connection received its response")];
    };
    let mut sentences =
        vec![format!("{name}: {} connections a second are sustained", rate(sustained))];
    if let Some((share, time)) = of.processor_share().zip(of.processor_each()) {
        let limit = match share >= PROCESSOR_BOUND {
            true => "the server's processor is the limit",
            false => {
                "the server also waits: for a processor that other programs use, for clients, or \
                 for the network"
            }
        };
        let (share, time, bound) = (percent(share), each(time), rate(1.0 / time));
        sentences.push(format!(
            "the server uses the processor {share} of the time, {time} per connection (at most \
             {bound} a second): {limit}"
        ));
    }
    sentences.push(match (seen.and_then(|seen| seen.sustained(of.resumed)), of.error(seen)) {
        (Some((estimate, interval)), Some(error)) => format!(
            "the capture shows {} (95 % interval {} to {}): {:+.1} %",
            rate(estimate),
            rate(interval.low),
            rate(interval.high),
            error * 100.0
        ),
        _ => {
            let why = seen.map_or("no handshakes", |seen| seen.capacity.standing.name());
            format!("the capture does not show it: {why}")
        }
    });
    sentences
}

fn rate(rate: f64) -> String {
    if rate < 99.5 { format!("{rate:.1}") } else { grouped(rate.round() as u64) }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn each(seconds: f64) -> String {
    format!("{:.2} ms", seconds * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(clients: usize, made: u64, processor_ms: u64) -> Step {
        let mut step = Step::new(clients);
        // Add the step's connections in two halves.
        for _ in 0..2 {
            let processor = Some(Duration::from_millis(processor_ms / 2));
            step.add([made / 2, 0, 0], Duration::from_millis(500), processor);
        }
        step
    }

    #[test]
    fn sustained_is_what_rises_no_more() {
        let steps =
            vec![step(1, 100, 300), step(2, 196, 600), step(4, 200, 620), step(8, 192, 580)];
        let full = Steps { resumed: false, steps };
        assert_eq!(full.sustained(), Some(196.0));
        assert!((full.processor_each().unwrap() - 1.8 / 588.0).abs() < 1e-12);
        let resumed = Steps { resumed: true, steps: vec![step(1, 0, 0), step(4, 1_000, 990)] };
        let text = text(&[full, resumed], None, &Style::default());
        assert!(text.contains("full: 196 connections a second are sustained\n"), "{text}");
        assert!(text.contains("the capture does not show it: no handshakes"), "{text}");
        assert!(text.contains("99 % of the time, 0.99 ms per connection"), "{text}");
        assert!(text.contains("the server's processor is the limit"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn what_is_not_known_is_absent() {
        let mut step = step(1, 10, 10);
        step.add([10, 0, 1], Duration::from_secs(1), None);
        assert_eq!(
            (step.processor, step.processor_share(), step.processor_each()),
            (None, None, None)
        );
        let none = Steps { resumed: false, steps: vec![Step::new(1)] };
        assert_eq!((none.sustained(), none.processor_each()), (None, None));
        assert!(
            super::text(&[none.clone(), none], None, &Style::default()).contains("no connection")
        );
    }
}
