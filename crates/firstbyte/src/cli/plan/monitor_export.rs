//! Turns the arguments of `monitor export` into a plan.

use firstbyte_monitor::rollup::Measure;

use super::monitor_events::moment;
use super::usage;
use crate::cli::args::{MonitorExportArgs, RowForm, StepChoice};
use crate::cli::exit::Problem;
use crate::plans::{MonitorExportPlan, RollupForm, RollupStep};

pub(super) fn export(args: &MonitorExportArgs) -> Result<MonitorExportPlan, Problem> {
    if let Some(unknown) = args.metric.iter().find(|name| Measure::named(name).is_none()) {
        let all: Vec<String> = Measure::all().map(Measure::name).collect();
        return Err(usage(format!("--metric {unknown:?}: unknown metric"))
            .hint(format!("there are {}", all.join(", "))));
    }
    Ok(MonitorExportPlan {
        store: args.store.clone(),
        step: match args.step {
            StepChoice::Minute => RollupStep::Minute,
            StepChoice::Hour => RollupStep::Hour,
            StepChoice::Day => RollupStep::Day,
        },
        since: moment("--since", args.since.as_deref())?,
        until: moment("--until", args.until.as_deref())?,
        targets: args.target.clone(),
        metrics: args.metric.clone(),
        form: match args.format {
            RowForm::Csv => RollupForm::Csv,
            RowForm::Ndjson => RollupForm::Ndjson,
        },
    })
}
