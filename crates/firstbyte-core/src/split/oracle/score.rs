//! Errors of each part, whether the largest part is named correctly, and whether ± covers the errors.

use std::fmt::Write as _;

use super::drawn::Case;
use super::seen::Log;
use super::truth::{PARTS, Tracer};
use crate::split::{Parts, Rules, Split};
use crate::timeline::PhaseName;

/// The score of one connection.
#[derive(Clone, Debug)]
struct Judged {
    seed: u64,
    quiet: bool,
    jitter: bool,
    loss: bool,
    slow: bool,
    /// Sums over all phases.
    truth: [u64; 6],
    said: [u64; 6],
    phases: Vec<JudgedPhase>,
    unexplained: u64,
    uncertain: Option<u64>,
    total: u64,
    about: String,
}

/// A phase up to the response's first byte.
#[derive(Clone, Debug)]
struct JudgedPhase {
    name: PhaseName,
    truth: [u64; 6],
    said: [u64; 6],
    /// Allowed error: ± and the unexplained part.
    uncertain: u64,
    took: u64,
}

fn most_apart(truth: &[u64; 6], said: &[u64; 6]) -> u64 {
    truth.iter().zip(said).map(|(truth, said)| truth.abs_diff(*said)).max().unwrap_or(0)
}

/// Tolerance: 1 ms or 3 %, whichever is larger.
fn bar(whole: u64) -> u64 {
    (whole * 3 / 100).max(1_000_000)
}

impl JudgedPhase {
    fn wrong(&self) -> bool {
        most_apart(&self.truth, &self.said) > bar(self.took).max(self.uncertain)
    }
}

impl Judged {
    /// Error of the worst part.
    fn error(&self) -> u64 {
        most_apart(&self.truth, &self.said)
    }

    fn uncertainty(&self) -> u64 {
        self.uncertain.unwrap_or(0) + self.unexplained
    }

    /// Whether a phase up to the first byte, or the whole, is wrong.
    fn wrong(&self) -> bool {
        self.error() > bar(self.total).max(self.uncertainty())
            || self.phases.iter().any(JudgedPhase::wrong)
    }

    /// Whether the unexplained part exceeds the tolerance.
    fn evades(&self) -> bool {
        self.unexplained > bar(self.total)
    }

    /// Whether ± covers the error, give or take half a millisecond.
    fn covered(&self) -> bool {
        self.error() <= self.uncertainty() + 500_000
    }

    fn largest(parts: [u64; 6]) -> usize {
        (0..6).max_by_key(|i| parts[*i]).unwrap_or(0)
    }

    /// Whether the largest part is misnamed, although the two parts differ by more than the tolerance.
    fn misnamed(&self) -> bool {
        let (truth, said) = (self.truth, self.said);
        let (largest, named) = (Self::largest(truth), Self::largest(said));
        let allowed = bar(self.total).max(self.uncertainty());
        largest != named && truth[largest] - truth[named] > allowed
    }
}

#[derive(Default)]
pub(super) struct Score {
    all: Vec<Judged>,
    unconnected: usize,
}

type Which = fn(&Judged) -> bool;

impl Score {
    pub(super) fn add(&mut self, case: &Case, rules: Rules) {
        let Some(log) = Log::play_case(case) else {
            self.unconnected += 1;
            return;
        };
        let split = Split::attribute_by(rules, &log.connection(case));
        self.judge(case, &log, &split);
    }

    /// Scores `split` for `case`, as recorded in `log`.
    pub(super) fn judge(&mut self, case: &Case, log: &Log, split: &Split) {
        let course = Tracer::course(case, log);
        let total = split.total().as_nanos() as u64;
        let place = case.dialogue.places.response_end;
        if !case.merges {
            // Merged segments have only the last one's timestamp.
            assert_eq!(Some(total), log.received_at(place), "seed {}", case.seed);
            let parts: u64 = course.between(0, u64::MAX).parts().iter().sum();
            assert_eq!(parts, total, "seed {}: {course:?}", case.seed);
        }
        let ns = |d: std::time::Duration| d.as_nanos() as u64;
        let said = |parts: &Parts| PARTS.map(|part| ns(*parts.clone().part_mut(part)));
        let before = split.phases.iter().filter(|p| p.phase.name != PhaseName::Receive);
        let phases = before.map(|p| {
            let (from, to) = (p.phase.start.as_nanos() as u64, p.phase.end.as_nanos() as u64);
            JudgedPhase {
                name: p.phase.name,
                truth: course.between(from, to).parts(),
                said: said(&p.parts),
                uncertain: split.uncertainty_of(p).map_or(0, ns) + ns(p.parts.unexplained),
                took: to - from,
            }
        });
        self.all.push(Judged {
            seed: case.seed,
            quiet: case.quiet(),
            jitter: case.jitter,
            loss: case.loss,
            slow: case.slow,
            truth: course.between(0, total).parts(),
            said: said(&split.parts),
            phases: phases.collect(),
            unexplained: ns(split.parts.unexplained),
            uncertain: split.server_uncertainty().map(ns),
            total,
            about: case.about.clone(),
        });
    }

    fn share(&self, among: Which, which: Which) -> f64 {
        let among: Vec<&Judged> = self.all.iter().filter(|j| among(j)).collect();
        let count = among.iter().filter(|j| which(j)).count();
        100.0 * count as f64 / among.len().max(1) as f64
    }

    /// Percentage of connections over quiet links without a wrong part, in the whole or in a phase up to the first
    /// byte.
    pub(super) fn right_on_quiet_links(&self) -> f64 {
        self.share(|j| j.quiet, |j| !j.wrong())
    }

    /// Connections that are wrong, or whose unexplained part exceeds the tolerance.
    pub(super) fn bad(&self) -> Vec<u64> {
        self.all.iter().filter(|j| j.wrong() || j.evades()).map(|j| j.seed).collect()
    }

    pub(super) fn report(&self) -> String {
        let mut out = String::new();
        let groups: [(&str, Which); 5] = [
            ("all", |_| true),
            ("quiet", |j| j.quiet),
            ("jitter", |j| j.jitter),
            ("loss", |j| j.loss && !j.jitter),
            ("slow", |j| j.slow && !j.jitter && !j.loss),
        ];
        let _ = writeln!(out, "{} connections, {} without", self.all.len(), self.unconnected);
        for (name, among) in groups {
            let mut uncertain: Vec<u64> =
                self.all.iter().filter(|j| among(j)).map(Judged::uncertainty).collect();
            uncertain.sort_unstable();
            let at = |q: usize| {
                uncertain.get(uncertain.len() * q / 100).copied().unwrap_or(0) as f64 / 1e6
            };
            let _ = writeln!(
                out,
                "{name}: n {}, right {:.2} %, of them phases {:.2} %, named {:.2} %, covered {:.2} %, ± median {:.2} p90 {:.2} p99 {:.2} ms",
                uncertain.len(),
                self.share(among, |j| !j.wrong()),
                self.share(among, |j| !j.phases.iter().any(JudgedPhase::wrong)),
                self.share(among, |j| !j.misnamed()),
                self.share(among, Judged::covered),
                at(50),
                at(90),
                at(99)
            );
            for (i, part) in PARTS.iter().enumerate() {
                let mut errors: Vec<f64> = self
                    .all
                    .iter()
                    .filter(|j| among(j))
                    .map(|j| (j.said[i] as f64 - j.truth[i] as f64) / 1e6)
                    .collect();
                errors.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
                let at = |q: usize| errors.get(errors.len() * q / 1000).copied().unwrap_or(0.0);
                let worst = errors.last().copied().unwrap_or(0.0);
                let _ = writeln!(
                    out,
                    "  {:10} |error| median {:.3} p90 {:.3} p99 {:.3} p99.5 {:.3} worst {worst:.1} ms",
                    part.name(),
                    at(500),
                    at(900),
                    at(990),
                    at(995)
                );
            }
        }
        let _ =
            writeln!(out, "largest part, wrongly named: truth (down), said (across): {PARTS:?}");
        for (i, part) in PARTS.iter().enumerate() {
            let mut row = [0; 6];
            for j in self.all.iter().filter(|j| j.misnamed() && Judged::largest(j.truth) == i) {
                row[Judged::largest(j.said)] += 1;
            }
            let _ = writeln!(out, "  {:10} {row:?}", part.name());
        }
        for (name, among) in groups {
            let mut worst: Vec<&Judged> =
                self.all.iter().filter(|j| among(j) && j.wrong()).collect();
            worst.sort_by_key(|j| std::cmp::Reverse(j.error().saturating_sub(j.uncertainty())));
            let n = std::env::var("WORST").ok().and_then(|n| n.parse().ok()).unwrap_or(6);
            // Take every `step`-th, so that not only the worst kind is shown.
            let step = (worst.len() / n).max(1);
            for j in worst.iter().step_by(step).take(n) {
                let ms = |parts: [u64; 6]| parts.map(|ns| (ns as f64 / 1e5).round() / 10.0);
                let _ = writeln!(
                    out,
                    "{name} seed {}: truth {:?} said {:?} unexplained {:.1} ± {:.2}\n    {}",
                    j.seed,
                    ms(j.truth),
                    ms(j.said),
                    j.unexplained as f64 / 1e6,
                    j.uncertainty() as f64 / 1e6,
                    j.about
                );
                for phase in j.phases.iter().filter(|phase| phase.wrong()) {
                    let (truth, said) = (ms(phase.truth), ms(phase.said));
                    let uncertain = phase.uncertain as f64 / 1e6;
                    let name = phase.name.name();
                    let _ = writeln!(out, "    {name}: {truth:?} said {said:?} ± {uncertain:.2}");
                }
            }
        }
        out
    }
}
