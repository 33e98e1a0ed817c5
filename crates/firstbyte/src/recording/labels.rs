//! The series in a monitor's run files.

use std::collections::BTreeMap;

use firstbyte_core::document::run::{CellRecord, RunHeader};
use firstbyte_core::shown_url::shown_url;
use firstbyte_monitor::store::SeriesLabels;
use serde::Deserialize;

/// The parts of a monitor's configuration in a run header.
#[derive(Deserialize)]
struct KeptPlan {
    command: String,
    place: Option<String>,
    #[serde(default)]
    targets: Vec<KeptTarget>,
}

#[derive(Deserialize)]
struct KeptTarget {
    name: String,
    #[serde(default)]
    tags: BTreeMap<String, String>,
}

/// The series of each cell; `None` if the run was not written by a monitor.
pub(crate) fn series_labels(header: &RunHeader) -> Option<Vec<SeriesLabels>> {
    let plan = KeptPlan::deserialize(&header.plan).ok()?;
    if plan.command != "monitor" {
        return None;
    }
    let tags: BTreeMap<String, BTreeMap<String, String>> =
        plan.targets.into_iter().map(|target| (target.name, target.tags)).collect();
    let place = plan.place.unwrap_or_default();
    let labels = |cell: &CellRecord| {
        let factor = |index: usize| cell.factors.get(index);
        let target = factor(0).map_or_else(String::new, |factor| factor.value.clone());
        SeriesLabels {
            variant: factor(1).map_or_else(String::new, |factor| factor.value.clone()),
            variant_label: factor(1).map_or_else(String::new, |factor| factor.label.clone()),
            place: place.clone(),
            url: shown_url(&cell.url),
            tags: tags.get(&target).cloned().unwrap_or_default(),
            target,
        }
    };
    Some(header.cells.iter().map(labels).collect())
}
