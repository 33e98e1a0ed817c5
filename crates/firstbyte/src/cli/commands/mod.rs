//! The commands, one file each.

pub(super) mod check;
pub(super) mod compare;
mod curl;
pub(super) mod demo;
pub(super) mod explain;
mod exporter;
mod generated;
pub(super) mod har;
pub(super) mod lab;
mod log_format;
pub(super) mod monitor;
pub(super) mod page;
pub(super) mod predict;
pub(super) mod probe;
pub(super) mod report;
pub(super) mod rum;
pub(super) mod serve;
pub(super) mod wire;

use super::exit::Problem;
use crate::plans::CommandPlan;

/// Carries out `plan` and returns the exit code.
pub(super) fn carry_out(plan: &CommandPlan) -> Result<u8, Problem> {
    match plan {
        CommandPlan::Probe(plan) => probe::run(plan),
        CommandPlan::Curl(plan) => curl::run(plan),
        CommandPlan::Compare(plan) => compare::run(plan),
        CommandPlan::Explain(plan) => explain::run(plan),
        CommandPlan::Page(plan) => page::run(plan),
        CommandPlan::Check(plan) => check::run(plan),
        CommandPlan::Monitor(plan) => monitor::run(plan),
        CommandPlan::MonitorEvents(plan) => monitor::events(plan),
        CommandPlan::MonitorExport(plan) => monitor::export(plan),
        CommandPlan::MonitorStatus(plan) => monitor::status(plan),
        CommandPlan::MonitorAnnotate(plan) => monitor::annotate(plan),
        CommandPlan::Exporter(plan) => exporter::run(plan),
        CommandPlan::Predict(plan) => predict::run(plan),
        CommandPlan::Report(plan) => report::run(plan),
        CommandPlan::HarClean(plan) => har::clean_archive(plan),
        CommandPlan::Generated(plan) => generated::run(plan),
        CommandPlan::LogFormat(server) => log_format::run(*server),
        CommandPlan::Demo(plan) => demo::run(plan),
        CommandPlan::Lab(plan) => lab::run(plan),
        CommandPlan::Serve(plan) => serve::run(plan),
        CommandPlan::RumSnippet(plan) => rum::snippet(plan),
        CommandPlan::RumServe(plan) => rum::serve(plan),
        CommandPlan::Wire(plan) => wire::run(plan),
        CommandPlan::WireDiff(plan) => wire::diff::run(plan),
    }
}
