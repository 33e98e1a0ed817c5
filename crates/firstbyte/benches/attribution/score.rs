//! Compares the reported parts of a sample with the truth.

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
    /// The tolerated error: ± and the unexplained part.
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

    /// The part with the largest error, if it exceeds 1 ms, 3 %, ± and the uncertainty of the truth.
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
    /// Why there is no truth or no measurement.
    pub(crate) untold: Option<String>,
    pub(crate) quiet: bool,
    pub(crate) axes: Vec<(String, String)>,
    /// Faults of shipped scenarios in this case.
    #[serde(default)]
    pub(crate) faults: Vec<String>,
    pub(crate) total: f64,
    /// In the order of `Part::ALL`.
    pub(crate) truth: [f64; 9],
    pub(crate) said: [f64; 9],
    pub(crate) uncertainty: Option<f64>,
    /// How much larger server and pause may truly be, and how much smaller network.
    pub(crate) open: f64,
    /// Phases up to the response's first byte.
    #[serde(default)]
    pub(crate) phases: Vec<PhaseOutcome>,
    /// The deliberately wrong rules that would make this sample wrong although it is right.
    #[serde(default)]
    pub(crate) notices: Vec<String>,
    /// The passive reader's results at the taps.
    #[serde(default)]
    pub(crate) wire: Vec<Reading>,
    /// The server application's writes; traced in some of the cases.
    #[serde(default)]
    pub(crate) witness: Option<Witness>,
}

pub(crate) fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// Index of a part in the arrays.
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

    /// Scores the reported parts of `connection`; for right ones, also notes which wrong rules would make them wrong.
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

    /// The drawn values that are not the usual ones.
    pub(crate) fn drawn(&self) -> String {
        let usual = |value: &str| matches!(value, "none" | "new" | "1500" | "usual");
        let of = self.axes.iter().filter(|(_, value)| !usual(value));
        of.map(|(axis, value)| format!("{axis} {value}")).collect::<Vec<_>>().join(", ")
    }

    /// Reported minus true value; measured from the nearer end if the truth is an interval.
    pub(crate) fn error(&self, part: Part) -> f64 {
        let (said, truth) = (self.said[index(part)], self.truth[index(part)]);
        let [low, high] = match part {
            Part::Server | Part::Pause => [truth, truth + self.open],
            Part::Network => [truth - self.open, truth],
            _ => [truth, truth],
        };
        if said < low { said - low } else { (said - high).max(0.0) }
    }

    /// The tolerated error: 1 ms, 3 %, the printed ±, and the part reported as unexplained.
    pub(crate) fn allowed(&self) -> f64 {
        let honest = self.uncertainty.unwrap_or(0.0).max(self.said[index(Part::Unexplained)]);
        (self.total * 0.03).max(1.0).max(honest)
    }

    /// Parts whose error exceeds the tolerance.
    pub(crate) fn wrong(&self) -> impl Iterator<Item = Part> + '_ {
        // Reporting time as unexplained is not a wrong attribution.
        Part::ALL
            .into_iter()
            .filter(|part| *part != Part::Unexplained && self.error(*part).abs() > self.allowed())
    }

    /// Phases with a wrong part, and that part.
    pub(crate) fn wrong_phases(&self) -> impl Iterator<Item = (&PhaseOutcome, Part)> {
        self.phases.iter().filter_map(|phase| Some((phase, phase.wrong(self.open)?)))
    }

    /// Whether the unexplained part is not negligible.
    pub(crate) fn evades(&self) -> bool {
        self.said[index(Part::Unexplained)] > (self.total * 0.03).max(1.0)
    }

    /// Whether no part is wrong, and the unexplained part is negligible.
    pub(crate) fn is_right(&self) -> bool {
        self.wrong().next().is_none() && self.wrong_phases().next().is_none() && !self.evades()
    }

    /// The largest error of any part, in multiples of the tolerance.
    pub(crate) fn badness(&self) -> f64 {
        let errors = Part::ALL.into_iter().filter(|part| *part != Part::Unexplained);
        errors.map(|part| self.error(part).abs()).fold(0.0, f64::max) / self.allowed()
    }

    /// The truly largest part, and the part reported as the largest.
    pub(crate) fn largest(&self) -> (Part, Part) {
        let most = |values: &[f64; 9]| {
            let largest = (0..9).max_by(|a, b| values[*a].total_cmp(&values[*b]));
            Part::ALL[largest.unwrap_or_default()]
        };
        let (truth, said) = (most(&self.truth), most(&self.said));
        // If two parts are about equally large, both count as the largest.
        let close = self.truth[index(truth)] - self.truth[index(said)] <= self.allowed();
        if close { (said, said) } else { (truth, said) }
    }

    /// Whether the ± covers the truth of the server's share.
    pub(crate) fn covered(&self) -> Option<bool> {
        /// The capture and the socket take their timestamps at different places in the kernel.
        const STAMPS: f64 = 0.05;
        let error = self.error(Part::Server).abs();
        self.uncertainty.map(|uncertainty| error <= uncertainty + STAMPS)
    }
}
