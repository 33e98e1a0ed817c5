//! Experiments: several ways to connect, measured so that they can be compared.
//!
//! `plan` describes an experiment as data. `axis` defines what can be varied and how that is proven; `cells` combines
//! the axes' values. `schedule` determines the order and the times of samples, `until` when to stop. `campaign` takes
//! the samples and gives them to a sink. Nothing here writes files or prints.

pub mod axis;
mod campaign;
mod cells;
mod plan;
mod schedule;
mod until;

pub use axis::{Axis, Visit};
pub use campaign::{Before, Campaign, Control, Ended, SampleSink};
pub use cells::{Matrix, Variant};
pub use plan::{Experiment, ExperimentPlan, ExplanationPlan, PlanError, RunPlan};
pub use schedule::{Design, EachVisit, Lanes, Visited, Visitor};
pub use until::Until;
