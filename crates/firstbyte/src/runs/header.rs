//! The first line of a run: what is measured, with which software, and where.

use firstbyte_core::document::run::{
    AxisRecord, CellRecord, DesignRecord, RUN_FORMAT, RUN_VERSION, RunHeader,
};

use super::environment;
use firstbyte_probe::experiment::{Axis, Campaign, Lanes};

/// Header of a new run of `campaign`, whose cells are the values of `axes`.
///
/// `command` is for people; `plan` is its meaning, which `--continue` uses.
pub fn run_header(
    campaign: &Campaign<'_>,
    axes: &[Axis],
    command: &[String],
    plan: serde_json::Value,
) -> RunHeader {
    let design = campaign.design;
    let axes = axes.iter().map(|axis| AxisRecord {
        name: axis.name.to_owned(),
        values: axis.values.iter().map(|value| value.written.clone()).collect(),
    });
    RunHeader {
        format: RUN_FORMAT.into(),
        version: RUN_VERSION,
        created_unix_ns: firstbyte_clock::Realtime::now().unix_nanos(),
        firstbyte_version: env!("CARGO_PKG_VERSION").into(),
        command: command.to_vec(),
        plan,
        design: DesignRecord {
            warmup: design.warmup,
            rounds: campaign.until.is_none().then_some(design.rounds),
            until: campaign.until.map(|until| until.written().to_owned()),
            seed: design.seed,
            concurrent: match &design.lanes {
                Lanes::One => 1,
                Lanes::Abreast => u32::try_from(campaign.cells.len()).unwrap_or(u32::MAX),
                Lanes::Several(lanes) => u32::try_from(lanes.len()).unwrap_or(u32::MAX),
            },
            interval_ns: design.interval.map(|i| u64::try_from(i.as_nanos()).unwrap_or(u64::MAX)),
        },
        axes: axes.collect(),
        cells: campaign.cells.iter().map(|cell| CellRecord::from_cell(&cell.cell)).collect(),
        environment: environment::gather(),
    }
}
