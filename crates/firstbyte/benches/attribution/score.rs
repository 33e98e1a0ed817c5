//! What was said of a sample held against what was true.

use std::time::Duration;

use firstbyte_core::split::{Part, Parts, Split};
use firstbyte_core::timeline::Connection;
use firstbyte_truth::Truth;
use serde::{Deserialize, Serialize};

use crate::case::Case;
use crate::reading::Reading;
use crate::strace::Witness;

/// What firstbyte says of a sample.
#[derive(Clone, Debug)]
pub(crate) struct Verdict {
    pub(crate) parts: Parts,
    /// The ± that is printed.
    pub(crate) uncertainty: Option<Duration>,
}

impl Verdict {
    pub(crate) fn from_connection(connection: &Connection) -> Self {
        let split = Split::attribute(connection);
        Self { parts: split.parts, uncertainty: split.server_uncertainty() }
    }
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
            wire: Vec::new(),
            witness: None,
        }
    }

    pub(crate) fn score(case: &Case, sample: u32, truth: &Truth, verdict: &Verdict) -> Self {
        let values = |parts: &Parts| parts.named().map(|(_, duration)| ms(duration));
        Self {
            untold: None,
            total: ms(truth.parts.sum()),
            truth: values(&truth.parts),
            said: values(&verdict.parts),
            uncertainty: verdict.uncertainty.map(ms),
            open: ms(truth.open),
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

    /// Said to be unknown, more than is negligible.
    pub(crate) fn evades(&self) -> bool {
        self.said[index(Part::Unexplained)] > (self.total * 0.03).max(1.0)
    }

    /// No wrong part, and no evasion.
    pub(crate) fn is_right(&self) -> bool {
        self.wrong().next().is_none() && !self.evades()
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
