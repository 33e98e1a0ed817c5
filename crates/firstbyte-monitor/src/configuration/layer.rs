//! The settings that `[defaults]`, templates and targets have in common.

use std::collections::BTreeMap;
use std::time::Duration;

use firstbyte_probe::experiment::Axis;
use firstbyte_probe::probe::Target;

use super::TargetSettings;

/// What one place in the file says; absent is what it does not say.
#[derive(Clone, Debug, Default)]
pub(super) struct Layer {
    pub(super) every: Option<Duration>,
    pub(super) jitter: Option<f64>,
    pub(super) timeout: Option<Duration>,
    pub(super) axes: Option<Vec<Axis>>,
    pub(super) tags: BTreeMap<String, String>,
}

const EVERY: Duration = Duration::from_secs(60);
const JITTER: f64 = 0.1;
const TIMEOUT: Duration = Duration::from_secs(30);

impl Layer {
    /// It, and what it does not say from `below`. Tags are joined by their names.
    pub(super) fn over(self, below: &Self) -> Self {
        let mut tags = below.tags.clone();
        tags.extend(self.tags);
        Self {
            every: self.every.or(below.every),
            jitter: self.jitter.or(below.jitter),
            timeout: self.timeout.or(below.timeout),
            axes: self.axes.or_else(|| below.axes.clone()),
            tags,
        }
    }

    /// A target's, with what goes without saying.
    pub(super) fn settle(self, name: String, target: Target) -> TargetSettings {
        TargetSettings {
            name,
            target,
            every: self.every.unwrap_or(EVERY),
            jitter: self.jitter.unwrap_or(JITTER),
            timeout: self.timeout.unwrap_or(TIMEOUT),
            axes: self.axes.unwrap_or_default(),
            tags: self.tags,
        }
    }
}
