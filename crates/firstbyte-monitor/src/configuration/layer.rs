//! The settings that `[defaults]`, templates and targets have in common.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use firstbyte_probe::experiment::Axis;
use firstbyte_probe::probe::Target;

use super::TargetSettings;
use super::request::RequestLayer;
use crate::budget::Promise;

/// Settings of one layer; `None` if the layer does not set them.
#[derive(Clone, Debug, Default)]
pub(super) struct Layer {
    pub(super) every: Option<Duration>,
    pub(super) jitter: Option<f64>,
    pub(super) timeout: Option<Duration>,
    pub(super) axes: Option<Vec<Axis>>,
    pub(super) all_edges: Option<bool>,
    pub(super) cacert: Option<PathBuf>,
    pub(super) request: RequestLayer,
    /// Promises by name.
    pub(super) budget: BTreeMap<String, Promise>,
    pub(super) tags: BTreeMap<String, String>,
}

const EVERY: Duration = Duration::from_secs(60);
const JITTER: f64 = 0.1;
const TIMEOUT: Duration = Duration::from_secs(30);

impl Layer {
    /// Merges two layers: settings of `self` override those of `below`. Tags, promises and header fields are merged by
    /// name.
    pub(super) fn over(self, below: &Self) -> Self {
        let mut tags = below.tags.clone();
        tags.extend(self.tags);
        let mut budget = below.budget.clone();
        budget.extend(self.budget);
        Self {
            every: self.every.or(below.every),
            jitter: self.jitter.or(below.jitter),
            timeout: self.timeout.or(below.timeout),
            axes: self.axes.or_else(|| below.axes.clone()),
            all_edges: self.all_edges.or(below.all_edges),
            cacert: self.cacert.or_else(|| below.cacert.clone()),
            request: self.request.over(&below.request),
            budget,
            tags,
        }
    }

    /// Completes the settings of a target with the defaults.
    pub(super) fn settle(self, name: String, target: Target) -> TargetSettings {
        let RequestLayer { expected_status, method, headers, client_certificate, insecure } =
            self.request;
        TargetSettings {
            name,
            target,
            every: self.every.unwrap_or(EVERY),
            jitter: self.jitter.unwrap_or(JITTER),
            timeout: self.timeout.unwrap_or(TIMEOUT),
            axes: self.axes.unwrap_or_default(),
            all_edges: self.all_edges.unwrap_or(false),
            cacert: self.cacert,
            expected_status: expected_status.unwrap_or_default(),
            method: method.unwrap_or_default(),
            headers: headers.into_values().collect(),
            client_certificate,
            insecure: insecure.unwrap_or(false),
            budget: self.budget.into_values().collect(),
            tags: self.tags,
        }
    }
}
