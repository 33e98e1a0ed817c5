//! Audiences: visitors at many distances, simulated before and after a change.
//!
//! Input: a table of round trips with weights, two players. Output: both distributions, and how many visitors
//! gained. A visitor meets the same losses before and after, as far as the packets correspond.

use std::time::Duration;

use crate::{Outcome, Player, Range, derived_seed};

/// Visitors with the same round trip.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Visitors {
    /// Their round-trip time.
    pub rtt: Duration,
    /// Their share, in any unit.
    pub weight: f64,
    /// Their loss rate in each direction; zero if the table does not say.
    pub loss: f64,
}

/// Number of QUIC connections simulated per round trip. It keeps the mean cost of losses within 1 % of the total.
const MEMBERS: usize = 2_000;

/// Visitors with their round trips, weights and loss rates.
#[derive(Clone, Debug, PartialEq)]
pub struct Audience {
    visitors: Vec<Visitors>,
    weight: f64,
}

impl Audience {
    /// Reads CSV with a header.
    ///
    /// The columns `rtt_ms` and `weight` are required. `loss` is optional (a share, or a number with a percent
    /// sign) and defaults to the argument `loss`. Other columns are ignored.
    ///
    /// # Errors
    /// Names the line and the problem.
    pub fn read(text: &[u8], loss: f64) -> Result<Self, String> {
        let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text);
        let header = reader.headers().map_err(|e| e.to_string())?.clone();
        let column = |name: &str| header.iter().position(|c| c.eq_ignore_ascii_case(name));
        let rtt_column = column("rtt_ms").ok_or("no column rtt_ms in the first line")?;
        let (weights, losses) = (column("weight"), column("loss"));
        let mut visitors = Vec::new();
        for record in reader.records() {
            let record = record.map_err(|e| e.to_string())?;
            let line = record.position().map_or(0, csv::Position::line);
            let number = |at: usize, name: &str, allowed: std::ops::RangeInclusive<f64>| {
                let text = record.get(at).unwrap_or_default();
                let (digits, unit) = match text.strip_suffix('%') {
                    Some(digits) if name == "loss" => (digits.trim(), 0.01),
                    _ => (text, 1.0),
                };
                let value = digits.parse::<f64>().ok().map(|value| value * unit);
                value.filter(|value| allowed.contains(value)).ok_or_else(|| {
                    let (from, to) = (allowed.start(), allowed.end());
                    format!("line {line}: {name} is {text:?}, not a number from {from} to {to}")
                })
            };
            let rtt = number(rtt_column, "rtt_ms", 0.01..=60_000.0)?;
            let weight = weights.map_or(Ok(1.0), |at| number(at, "weight", 0.0..=1e15))?;
            let loss = losses.map_or(Ok(loss), |at| number(at, "loss", 0.0..=0.9))?;
            if weight > 0.0 {
                visitors.push(Visitors { rtt: Duration::from_secs_f64(rtt / 1e3), weight, loss });
            }
        }
        let weight = visitors.iter().map(|v| v.weight).sum();
        if visitors.is_empty() {
            return Err("no visitors: no line has a weight above 0".into());
        }
        Ok(Self { visitors, weight })
    }

    /// The range of round trips and losses for which players must be prepared.
    pub fn range(&self) -> Range {
        let rtts = || self.visitors.iter().map(|v| v.rtt);
        let losses = || self.visitors.iter().map(|v| v.loss).filter(|loss| *loss > 0.0);
        Range {
            shortest: rtts().min().unwrap_or_default(),
            longest: rtts().max().unwrap_or_default(),
            losses: losses()
                .min_by(f64::total_cmp)
                .zip(losses().max_by(f64::total_cmp))
                .map(Into::into),
            members: MEMBERS,
        }
    }

    /// The largest loss of any visitor.
    pub fn most_loss(&self) -> f64 {
        self.visitors.iter().map(|v| v.loss).fold(0.0, f64::max)
    }

    /// Number of table lines in use.
    pub fn lines(&self) -> usize {
        self.visitors.len()
    }

    /// Simulates `connections` visitors on `threads` threads, each table line in proportion to its weight.
    ///
    /// The work is divided into [`PASSES`] passes, each spread over the whole audience. `goes_on` is asked before
    /// each pass, and returning false ends the work.
    pub fn play(
        &self,
        ways: [&Player; 2],
        connections: u32,
        seed: u64,
        threads: usize,
        goes_on: &dyn Fn() -> bool,
    ) -> Played {
        let threads = u32::try_from(threads.max(1)).unwrap_or(1).min(connections.max(1));
        let bound = |n: u32| u64::from(connections) * u64::from(n) / u64::from(threads);
        let mut parts: Vec<Vec<[Option<Outcome>; 2]>> = Vec::new();
        for pass in (0..PASSES).take_while(|_| goes_on()) {
            parts.extend(std::thread::scope(|scope| {
                let handles: Vec<_> = (0..threads)
                    .map(|n| {
                        let numbers = (bound(n)..bound(n + 1)).skip(pass).step_by(PASSES);
                        scope.spawn(move || self.part(ways, numbers, connections, seed))
                    })
                    .collect();
                let joined = handles.into_iter().map(|handle| handle.join().unwrap_or_default());
                joined.collect::<Vec<_>>()
            }));
        }
        Played::from_outcomes(parts.into_iter().flatten())
    }

    fn part(
        &self,
        ways: [&Player; 2],
        numbers: impl Iterator<Item = u64>,
        of: u32,
        seed: u64,
    ) -> Vec<[Option<Outcome>; 2]> {
        let share = |number: u64| (number as f64 + 0.5) / f64::from(of) * self.weight;
        // Walk through the weights once: visitors come in table order.
        let mut up_to = 0.0;
        let mut line = 0;
        let mut calm: Option<[Option<Outcome>; 2]> = None;
        numbers
            .map(|number| {
                while line + 1 < self.visitors.len()
                    && up_to + self.visitors[line].weight < share(number)
                {
                    up_to += self.visitors[line].weight;
                    line += 1;
                    calm = None;
                }
                let Visitors { rtt, loss, .. } = self.visitors[line];
                let seed = derived_seed(seed, number);
                // Without losses, all visitors of one line have the same outcome.
                let calmly = calm.filter(|_| loss == 0.0);
                let outcomes = calmly.unwrap_or_else(|| ways.map(|way| way.play(rtt, loss, seed)));
                calm = Some(outcomes);
                outcomes
            })
            .collect()
    }
}

/// Number of passes; the work can be ended after each.
pub const PASSES: usize = 64;

/// The outcomes of an audience: sorted times in nanoseconds, before and after the change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Played {
    /// To the first byte.
    pub first_byte: [Vec<u64>; 2],
    /// To the last byte.
    pub total: [Vec<u64>; 2],
    /// Visitors whose total became shorter by more than a tenth of a millisecond.
    pub shorter: u64,
    /// Visitors whose total became longer by more than that.
    pub longer: u64,
    /// Number of simulated visitors.
    pub visitors: u64,
    /// Visitors who could not connect, before and after: every SYN was lost.
    pub failed: [u64; 2],
}

/// Smaller differences do not count as a change.
const SAME: Duration = Duration::from_micros(100);

impl Played {
    fn from_outcomes(outcomes: impl Iterator<Item = [Option<Outcome>; 2]>) -> Self {
        let mut played = Self::default();
        let ns = |d: Duration| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX);
        for both in outcomes {
            played.visitors += 1;
            for (side, outcome) in both.iter().enumerate() {
                match outcome {
                    Some(outcome) => {
                        played.first_byte[side].push(ns(outcome.first_byte));
                        played.total[side].push(ns(outcome.total));
                    }
                    None => played.failed[side] += 1,
                }
            }
            if let [Some(before), Some(after)] = both {
                played.shorter += u64::from(after.total + SAME < before.total);
                played.longer += u64::from(before.total + SAME < after.total);
            }
        }
        let sorted = played.first_byte.iter_mut().chain(&mut played.total);
        sorted.for_each(|times| times.sort_unstable());
        played
    }
}

/// The mean of sorted times.
pub fn mean(times: &[u64]) -> Option<f64> {
    let sum: u128 = times.iter().map(|ns| u128::from(*ns)).sum();
    (!times.is_empty()).then(|| sum as f64 / times.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Audience, String> {
        Audience::read(text.as_bytes(), 0.0)
    }

    #[test]
    fn tables_are_read() {
        let audience =
            read("country,RTT_ms,weight,loss\nde,20,3,0.1%\nau, 280.5 ,1,0.02\nx,1,0,0\n");
        let audience = audience.unwrap();
        assert_eq!(audience.lines(), 2);
        assert_eq!(audience.visitors[1].rtt, Duration::from_micros(280_500));
        assert_eq!((audience.visitors[0].loss, audience.visitors[1].loss), (0.001, 0.02));
        assert_eq!(audience.range().losses, Some([0.001, 0.02]));
        assert_eq!(read("rtt_ms\n10\n20\n").unwrap().weight, 2.0);
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        assert!(read("rtt,weight\n1,1\n").unwrap_err().contains("rtt_ms"));
        let error = read("rtt_ms,weight\n10,1\nfar,1\n").unwrap_err();
        assert!(error.contains("line 3") && error.contains("\"far\""), "{error}");
        assert!(read("rtt_ms,weight\n").is_err());
        assert!(read("rtt_ms,loss\n10,1.5\n").unwrap_err().contains("loss"));
    }

    #[test]
    fn what_is_ended_early_is_spread_over_the_audience() {
        let audience = read("rtt_ms,weight\n10,3\n1000,1\n").unwrap();
        let (setup, base) = (crate::fixtures::setup(3_000), crate::tests::base());
        let way = crate::Way::default();
        let in_turn: crate::Workers<'_> = &|n, work| (0..n).map(work).collect();
        let player = Player::new(&setup, &way, &audience.range(), base, in_turn).unwrap();
        let play = |most: usize| {
            let asked = std::cell::Cell::new(0);
            let goes_on = || asked.replace(asked.get() + 1) < most;
            audience.play([&player, &player], 6_400, 1, 3, &goes_on)
        };
        let (all, some, none) = (play(usize::MAX), play(3), play(0));
        assert_eq!((all.visitors, none.visitors), (6_400, 0));
        assert!(some.visitors.abs_diff(300) < 10, "{}", some.visitors);
        let far = |played: &Played| {
            let far = played.first_byte[0].iter().filter(|ns| **ns > 500_000_000).count();
            far as f64 / played.visitors as f64
        };
        assert!((far(&all) - 0.25).abs() < 0.01 && (far(&some) - 0.25).abs() < 0.02);
    }

    #[test]
    fn the_mean_is_that_of_all() {
        assert_eq!((mean(&[10, 20, 30, 40]), mean(&[])), (Some(25.0), None));
    }
}
