//! `firstbyte report FILE…`: shows what was measured before, as run files, tables of curl's timers or archives of others.

mod averages;

use super::har;
use super::report_field;
use crate::cli::exit::{self, Problem};
use crate::cli::files::Files;
use crate::cli::{render, run_problem};
use crate::plans::ReportPlan;
use crate::runs::Dataset;

pub(in crate::cli) fn run(plan: &ReportPlan) -> Result<u8, Problem> {
    if let Some(file) = &plan.averages {
        return averages::run(file, &plan.render);
    }
    if har::are_archives(&plan.files)? {
        return har::report(plan);
    }
    if report_field::is_asked(plan)? {
        return report_field::run(plan);
    }
    let files = Files::default()
        .reads(&plan.files)
        .reads(&plan.render.packets)
        .exports_of_responses(&plan.render.outputs);
    files.check()?;
    let data = Dataset::read(&plan.files).map_err(run_problem)?;
    let opened = files.open()?;
    render::show(&data, &plan.render)?;
    opened.keep();
    Ok(exit::OK)
}
