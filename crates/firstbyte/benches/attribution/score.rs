//! What was said of a sample held against what was true.

use std::time::Duration;

use firstbyte_core::split::{Part, Parts, PhaseSplit, Rules, Split};
use firstbyte_core::timeline::{Connection, PhaseName};
use firstbyte_truth::Truth;
use serde::{Deserialize, Serialize};

use crate::case::Case;
use crate::reading::Reading;
use crate::strace::Witness;

/// A phase up to the response's first byte. Times in milliseconds, parts in the order of `Part::ALL`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PhaseOutcome {
    pub(crate) name: String,
    pub(crate) took: f64,
    pub(crate) truth: [f64; 9],
    pub(crate) said: [f64; 9],
    /// The error that is allowed: ± and the unexplained part.
    pub(crate) uncertainty: f64,
}

impl PhaseOutcome {
    fn score(split: &Split, phase: &PhaseSplit, truth: &Truth) -> Self {
        let uncertainty = split.uncertainty_of(phase).unwrap_or_default();
        Self {
            name: phase.phase.name.name().to_owned(),
            took: ms(phase.phase.duration()),
            truth: values(&truth.phase(&phase.phase)),
            said: values(&phase.parts),
            uncertainty: ms(uncertainty + phase.parts.unexplained),
        }
    }

    /// The part that is most wrong, if one is by more than 1 ms, 3 %, ± and what the truth itself leaves open.
    pub(crate) fn wrong(&self, open: f64) -> Option<Part> {
        let error = |part: &Part| (self.said[index(*part)] - self.truth[index(*part)]).abs();
        let parts = Part::ALL.into_iter().filter(|part| *part != Part::Unexplained);
        let most = parts.max_by(|a, b| error(a).total_cmp(&error(b)))?;
        let allowed = (self.took * 0.03).max(1.0).max(self.uncertainty) + open;
        (error(&most) > allowed).then_some(most)
    }
}

fn values(parts: &Parts) -> [f64; 9] {
    parts.named().map(|(_, duration)| ms(duration))
}

/// One sample of a case, scored. Times in milliseconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) seed: u64,
    pub(crate) server: String,
    pub(crate) sample: u32,
    /// Why there is no truth, or no measurement.
    pub(crate) untold: Option<String>,
    pub(crate) quiet: bool,
    pub(crate) axes: Vec<(String, String)>,
    /// Those of shipped scenarios that it has.
    #[serde(default)]
    pub(crate) faults: Vec<String>,
    pub(crate) total: f64,
    /// In the order of `Part::ALL`.
    pub(crate) truth: [f64; 9],
    pub(crate) said: [f64; 9],
    pub(crate) uncertainty: Option<f64>,
    /// By how much server and pause may truly be more, and network less.
    pub(crate) open: f64,
    /// Up to the response's first byte.
    #[serde(default)]
    pub(crate) phases: Vec<PhaseOutcome>,
    /// The wrong rules by which this sample, which is right, would not be.
    #[serde(default)]
    pub(crate) notices: Vec<String>,
    /// What the passive reader says at the taps.
    #[serde(default)]
    pub(crate) wire: Vec<Reading>,
    /// What the server's application wrote, in one case of some.
    #[serde(default)]
    pub(crate) witness: Option<Witness>,
}

pub(crate) fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// Where a part stands in the lists.
pub(crate) fn index(part: Part) -> usize {
    Part::ALL.iter().position(|other| *other == part).unwrap_or_default()
}

impl Outcome {
    pub(crate) fn untold(case: &Case, sample: u32, reason: &str) -> Self {
        let axes = case.axes().into_iter().map(|(axis, value)| (axis.to_owned(), value)).collect();
        Self {
            seed: case.seed,
            server: case.server.name().into(),
            sample,
            untold: Some(reason.to_owned()),
            quiet: case.is_quiet(),
            axes,
            faults: crate::faults::faults_in(case),
            total: 0.0,
            truth: [0.0; 9],
            said: [0.0; 9],
            uncertainty: None,
            open: 0.0,
            phases: Vec::new(),
            notices: Vec::new(),
            wire: Vec::new(),
            witness: None,
        }
    }

    /// What the program says of `connection`; and by which wrong rules it would be wrong.
    pub(crate) fn score(case: &Case, sample: u32, connection: &Connection, truth: &Truth) -> Self {
        let right = Self::score_by(Rules::Right, case, sample, connection, truth);
        if !right.is_right() {
            return right;
        }
        let noticed = |(rules, _): &(Rules, Part)| {
            !Self::score_by(*rules, case, sample, connection, truth).is_right()
        };
        let notices = Rules::WRONG.iter().filter(|rules| noticed(rules));
        Self { notices: notices.map(|(rules, _)| format!("{rules:?}")).collect(), ..right }
    }

    fn score_by(
        rules: Rules,
        case: &Case,
        sample: u32,
        connection: &Connection,
        truth: &Truth,
    ) -> Self {
        let split = Split::attribute_by(rules, connection);
        let before = split.phases.iter().filter(|p| p.phase.name != PhaseName::Receive);
        Self {
            untold: None,
            total: ms(truth.parts.sum()),
            truth: values(&truth.parts),
            said: values(&split.parts),
            uncertainty: split.server_uncertainty().map(ms),
            open: ms(truth.open),
            phases: before.map(|phase| PhaseOutcome::score(&split, phase, truth)).collect(),
            ..Self::untold(case, sample, "")
        }
    }

    /// What was drawn that is not usual.
    pub(crate) fn drawn(&self) -> String {
        let usual = |value: &str| matches!(value, "none" | "new" | "1500" | "usual");
        let of = self.axes.iter().filter(|(_, value)| !usual(value));
        of.map(|(axis, value)| format!("{axis} {value}")).collect::<Vec<_>>().join(", ")
    }

    /// Said less true; where the truth is an interval, from its nearer end.
    pub(crate) fn error(&self, part: Part) -> f64 {
        let (said, truth) = (self.said[index(part)], self.truth[index(part)]);
        let [low, high] = match part {
            Part::Server | Part::Pause => [truth, truth + self.open],
            Part::Network => [truth - self.open, truth],
            _ => [truth, truth],
        };
        if said < low { said - low } else { (said - high).max(0.0) }
    }

    /// What may be wrong: 1 ms, 3 %, the ± that is printed, and what is said to be unexplained.
    pub(crate) fn allowed(&self) -> f64 {
        let honest = self.uncertainty.unwrap_or(0.0).max(self.said[index(Part::Unexplained)]);
        (self.total * 0.03).max(1.0).max(honest)
    }

    /// Parts that are wrong by more than is allowed.
    pub(crate) fn wrong(&self) -> impl Iterator<Item = Part> + '_ {
        // Who says that a time is unexplained has not said a wrong name.
        Part::ALL
            .into_iter()
            .filter(|part| *part != Part::Unexplained && self.error(*part).abs() > self.allowed())
    }

    /// Phases with a part that is wrong, and which.
    pub(crate) fn wrong_phases(&self) -> impl Iterator<Item = (&PhaseOutcome, Part)> {
        self.phases.iter().filter_map(|phase| Some((phase, phase.wrong(self.open)?)))
    }

    /// Said to be unknown, more than is negligible.
    pub(crate) fn evades(&self) -> bool {
        self.said[index(Part::Unexplained)] > (self.total * 0.03).max(1.0)
    }

    /// No wrong part, and no evasion.
    pub(crate) fn is_right(&self) -> bool {
        self.wrong().next().is_none() && self.wrong_phases().next().is_none() && !self.evades()
    }

    /// In multiples of what is allowed: the part that is most wrong.
    pub(crate) fn badness(&self) -> f64 {
        let errors = Part::ALL.into_iter().filter(|part| *part != Part::Unexplained);
        errors.map(|part| self.error(part).abs()).fold(0.0, f64::max) / self.allowed()
    }

    /// The largest part as it was, and as it was said to be.
    pub(crate) fn largest(&self) -> (Part, Part) {
        let most = |values: &[f64; 9]| {
            let largest = (0..9).max_by(|a, b| values[*a].total_cmp(&values[*b]));
            Part::ALL[largest.unwrap_or_default()]
        };
        let (truth, said) = (most(&self.truth), most(&self.said));
        // Two that are as large are both the largest.
        let close = self.truth[index(truth)] - self.truth[index(said)] <= self.allowed();
        if close { (said, said) } else { (truth, said) }
    }

    /// Whether the ± covers the truth of the server's share.
    pub(crate) fn covered(&self) -> Option<bool> {
        /// A capture's stamps and the socket's are taken at two places in the kernel.
        const STAMPS: f64 = 0.05;
        let error = self.error(Part::Server).abs();
        self.uncertainty.map(|uncertainty| error <= uncertainty + STAMPS)
    }
}
