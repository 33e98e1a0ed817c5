//! Plans: experiments as data. A run file stores its plan, from which the run can be continued.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Axis, Campaign, Design, Lanes, Matrix, Until, Visit};
use crate::probe::options::{Options, SessionUse};
use crate::probe::{Clients, Secret, Target};
use firstbyte_core::shown_url::shown_urls_within;

/// The plan of a command that stores a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case")]
pub enum RunPlan {
    /// A comparison, requested by any command.
    Compare(Box<ExperimentPlan>),
    /// An explanation; it determines its ways to connect when it starts.
    Explain(Box<ExplanationPlan>),
}

/// The ways to compare, and how often to measure them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ExperimentPlan {
    /// The URL to visit, unless an axis sets it.
    pub url: Secret<String>,
    /// Axes, each `AXIS=VALUE,VALUE`; the first value is the baseline.
    pub vary: Vec<Secret<String>>,
    /// Ways to connect, each `NAME: AXIS=VALUE AXIS=VALUE`.
    pub ways: Vec<Secret<String>>,
    /// Rounds measured first and not pooled.
    pub warmup: u32,
    /// Maximum number of rounds that count.
    pub rounds: u32,
    /// When to stop early: `median±1%`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// Time between the due times of two samples; if absent, it is derived from the warm-up.
    pub interval_ns: Option<u64>,
    /// Axes whose values are visited in parallel; if empty, all cells are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrent: Option<Vec<String>>,
    /// Whether the first cell is measured twice.
    pub aa: bool,
    /// Seed of the order and of the resampling.
    pub seed: u64,
    /// Whether to send requests as early data although their method is not safe to repeat.
    pub early_data_any_method: bool,
    /// How visits are made, unless an axis sets it.
    pub options: Options,
}

/// An explanation to run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ExplanationPlan {
    /// The URL to visit.
    pub url: Secret<String>,
    /// Rounds that count.
    pub rounds: u32,
    /// Seed of the order.
    pub seed: u64,
    /// How visits are made.
    pub options: Options,
}

/// Why a plan cannot be carried out, in words for its author.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanError {
    /// The problem.
    pub what: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl PlanError {
    fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), hint: None }
    }

    fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

/// An experiment that is ready to run.
#[derive(Debug)]
pub struct Experiment {
    /// The varied axes.
    pub axes: Vec<Axis>,
    /// The cells: ways to connect.
    pub matrix: Matrix,
    /// When each cell is visited.
    pub design: Design,
    /// An additional criterion for when to stop.
    pub until: Option<Until>,
}

impl Experiment {
    /// The campaign that runs this experiment.
    pub fn campaign(&self) -> Campaign<'_> {
        Campaign { cells: &self.matrix.variants, design: &self.design, until: self.until.as_ref() }
    }
}

impl ExperimentPlan {
    /// Reads the axes, combines them, and determines the order. Combinations that `clients` do not support are left
    /// out.
    ///
    /// # Errors
    /// [`PlanError`].
    pub fn prepare(&self, target: Target, clients: &Clients) -> Result<Experiment, PlanError> {
        let axes = self.axes()?;
        let mut base = Visit { target, options: self.options.clone().into() };
        if self.early_data_any_method && axes.iter().any(|axis| axis.name == "session") {
            base.options.tls.session = SessionUse::EarlyData { any_method: true };
        }
        let mut matrix = Matrix::new(&axes, &base);
        matrix.leave_out_impossible(clients);
        if matrix.variants.is_empty() {
            let (cell, why) = matrix.left_out.first().cloned().unwrap_or_default();
            let cell = cell.name();
            return Err(PlanError::new(format!("none of the variants is possible: {cell}: {why}")));
        }
        if self.aa {
            matrix.add_twin();
        }
        if matrix.variants.len() > usize::from(u16::MAX) {
            let cells = matrix.variants.len();
            return Err(PlanError::new(format!("{cells} variants are too many")));
        }
        let until = self.until.as_deref().map(Until::read).transpose();
        let until = until.map_err(|why| PlanError::new(format!("--until {why}")))?;
        let design = Design {
            warmup: self.warmup,
            rounds: self.rounds,
            seed: self.seed,
            interval: self.interval_ns.map(Duration::from_nanos),
            lanes: lanes(self.concurrent.as_deref(), &axes, &matrix)?,
            ends_if_all_fail: true,
            ..Design::default()
        };
        Ok(Experiment { axes, matrix, design, until })
    }

    fn axes(&self) -> Result<Vec<Axis>, PlanError> {
        let mut axes: Vec<Axis> = Vec::new();
        if !self.ways.is_empty() {
            let wrong = |why| PlanError::new(shown_urls_within(&format!("--variant: {why}")));
            let ways: Vec<String> = self.ways.iter().map(|way| way.reveal().clone()).collect();
            axes.push(Axis::read_ways(&ways).map_err(wrong)?);
        }
        for text in &self.vary {
            let wrong = |why| PlanError::new(shown_urls_within(&format!("--vary: {why}")));
            let axis = Axis::read(text.reveal()).map_err(wrong)?;
            if axes.iter().any(|other| other.name == axis.name) {
                return Err(PlanError::new(format!("--vary {} is given twice", axis.name))
                    .hint(format!("give all values at once: --vary {}=VALUE,VALUE", axis.name)));
            }
            axes.push(axis);
        }
        if axes.is_empty() && !self.aa {
            return Err(PlanError::new("nothing to compare")
                .hint("vary something, for example --vary tls=1.2,1.3"));
        }
        Ok(axes)
    }
}

/// Determines which cells are visited at the same time.
fn lanes(names: Option<&[String]>, axes: &[Axis], matrix: &Matrix) -> Result<Lanes, PlanError> {
    let Some(names) = names else { return Ok(Lanes::One) };
    if names.is_empty() {
        return Ok(Lanes::Abreast);
    }
    if let Some(name) = names.iter().find(|name| axes.iter().all(|axis| axis.name != **name)) {
        return Err(PlanError::new(format!("--concurrent={name}: this axis does not vary")));
    }
    let mut lanes: Vec<(Vec<&str>, Vec<usize>)> = Vec::new();
    for (index, variant) in matrix.variants.iter().enumerate() {
        let factors = variant.cell.factors.iter();
        let key: Vec<&str> = factors
            .filter(|factor| names.contains(&factor.axis))
            .map(|factor| factor.value.as_str())
            .collect();
        match lanes.iter_mut().find(|(other, _)| *other == key) {
            Some((_, lane)) => lane.push(index),
            None => lanes.push((key, vec![index])),
        }
    }
    Ok(Lanes::Several(lanes.into_iter().map(|(_, lane)| lane).collect()))
}
