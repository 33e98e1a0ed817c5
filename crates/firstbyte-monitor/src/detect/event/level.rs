//! A change of level: one figure that changed, with its cause and its scope.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::{Cause, Samples, Scope, State};
use crate::detect::time_text;

/// The figure that changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Statistic {
    /// Time that half of the samples do not exceed.
    Median,
    /// Time that nine in ten samples do not exceed.
    P90,
    /// The share of samples that fail.
    Failures,
    /// The share of samples that succeeded, but not in the requested way.
    Shortfalls,
}

impl Statistic {
    /// Whether the figure is a share of samples rather than a time.
    pub(in crate::detect) const fn is_share(self) -> bool {
        matches!(self, Self::Failures | Self::Shortfalls)
    }

    /// Whether changes of both figures can be the same change.
    pub(in crate::detect) fn is_like(self, other: Self) -> bool {
        self == other || !(self.is_share() || other.is_share())
    }

    /// The name of a share, which belongs to no metric; `None` for times.
    pub(in crate::detect) const fn share_name(self) -> Option<&'static str> {
        match self {
            Self::Failures => Some("failures"),
            Self::Shortfalls => Some("shortfalls"),
            Self::Median | Self::P90 => None,
        }
    }

    const fn phrase(self) -> &'static str {
        match self {
            Self::Median => "",
            Self::P90 => ", p90",
            Self::Failures | Self::Shortfalls => "",
        }
    }
}

/// A change of level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LevelEvent {
    /// The constant [`FORMAT`](super::FORMAT).
    pub format: String,
    /// Always 1.
    pub version: u32,
    /// Identity of the event, which never changes.
    pub id: String,
    /// Its state: provisional, confirmed or withdrawn.
    pub state: State,
    /// "ttfb"; "total" if the first byte did not change; "failures" or "shortfalls" for shares.
    pub metric: String,
    /// The figure that changed.
    pub statistic: Statistic,
    /// The level before and after. Times are in nanoseconds; failures and shortfalls are shares.
    #[serde(flatten)]
    pub size: Size,
    /// Time of the change.
    #[serde(with = "time_text")]
    pub at: i64,
    /// Earliest and latest possible time of the change.
    #[serde(with = "time_text::pair")]
    pub at_between: [i64; 2],
    /// When the former level came back, if it did.
    #[serde(with = "time_text::maybe", default, skip_serializing_if = "Option::is_none")]
    pub until: Option<i64>,
    /// What explains the change: facts first, then parts of the time.
    pub cause: Vec<Cause>,
    /// Facts that changed at the same time but explain nothing of the change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also_changed: Vec<Cause>,
    /// Targets and series that changed.
    pub scope: Scope,
    /// Samples before and after, of all series.
    pub samples: Samples,
    /// Numbers in the store of the series that show the change.
    pub series: Vec<u64>,
    /// Annotations from about that time.
    #[serde(default)]
    pub annotations: Vec<String>,
}

/// Size of the change. Times are whole nanoseconds, failures and shortfalls are shares of all samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Size {
    /// Change of a time.
    Time {
        /// The level before.
        before_ns: i64,
        /// The level after.
        after_ns: i64,
        /// After minus before.
        difference_ns: i64,
        /// 95 % interval of the difference.
        interval_ns: [i64; 2],
    },
    /// Change of a share of failures or shortfalls.
    Share {
        /// The share before.
        before: f64,
        /// The share after.
        after: f64,
        /// After minus before.
        difference: f64,
        /// 95 % interval of the difference.
        interval: [f64; 2],
    },
}

impl LevelEvent {
    /// "Time to first byte at shop, IPv6: 593.1 → 296.6 ms (−296.5, 95 % interval −296.9 to −296.1) since …".
    ///
    /// Values of tags and facts are not escaped: callers that print the sentence on a terminal must escape them.
    pub fn sentence(&self) -> String {
        let mut text = phrase(&self.metric).to_owned();
        text.push_str(self.statistic.phrase());
        if !self.scope.targets.is_empty() {
            let _ = write!(text, " at {}", self.scope.targets_phrase());
        }
        text.push_str(&self.scope.tags_phrase());
        text.push_str(": ");
        text.push_str(&self.size.phrase());
        let _ = write!(text, " since {}", time_text::phrase(self.at));
        if let Some(until) = self.until {
            let _ = write!(text, ", until {}", time_text::phrase(until));
        }
        for part in self.scope.quorum_phrases() {
            let _ = write!(text, "; {part}");
        }
        if let Some(cause) = cause_phrase(&self.cause) {
            let _ = write!(text, "; {cause}");
        }
        text.push('.');
        if !self.annotations.is_empty() {
            let _ = write!(text, " Annotations at that time: {}.", self.annotations.join("; "));
        }
        text
    }
}

impl Size {
    /// After minus before, in nanoseconds or as a share.
    pub const fn difference(&self) -> f64 {
        match self {
            Self::Time { difference_ns, .. } => *difference_ns as f64,
            Self::Share { difference, .. } => *difference,
        }
    }

    fn phrase(&self) -> String {
        let say = |values: [f64; 5], unit: &str| {
            let [before, after, difference, low, high] = values;
            let largest = before.abs().max(after.abs());
            let digits = if largest < 1.0 { 2 } else { 1 };
            format!(
                "{before:.digits$} → {after:.digits$} {unit} ({}, 95 % interval {} to {})",
                signed(difference, digits),
                signed(low, digits),
                signed(high, digits)
            )
        };
        match *self {
            Self::Time { before_ns, after_ns, difference_ns, interval_ns: [low, high] } => {
                say([before_ns, after_ns, difference_ns, low, high].map(|ns| ns as f64 / 1e6), "ms")
            }
            Self::Share { before, after, difference, interval: [low, high] } => {
                say([before, after, difference, low, high].map(|share| share * 100.0), "%")
            }
        }
    }
}

fn signed(value: f64, digits: usize) -> String {
    let sign = if value < 0.0 { "−" } else { "+" };
    format!("{sign}{:.digits$}", value.abs())
}

/// Name of a metric at the beginning of a sentence.
fn phrase(metric: &str) -> &str {
    match metric {
        "ttfb" => "Time to first byte",
        "total" => "Total time",
        "failures" => "Failures",
        "shortfalls" => "Unverified samples",
        other => other,
    }
}

/// The cause in words: the fact, and its effect on round trips or parts.
fn cause_phrase(causes: &[Cause]) -> Option<String> {
    let facts = causes.iter().filter_map(|cause| match cause {
        Cause::Fact { fact, before, after } => {
            let name = fact.rsplit('.').next().unwrap_or(fact).replace('_', " ");
            Some(format!("{name} {}", shares(before, after)))
        }
        Cause::Part { .. } => None,
    });
    let parts = causes.iter().filter_map(|cause| match cause {
        Cause::Part { part, before, after } if part == "round trips" => Some(trips(after - before)),
        Cause::Part { part, before, after } => {
            Some(format!("{part} {} ms", signed((after - before) / 1e6, 1)))
        }
        Cause::Fact { .. } => None,
    });
    let [facts, parts] = [facts.collect::<Vec<_>>(), parts.collect::<Vec<_>>()];
    match (facts.join(", "), parts.join(", ")) {
        (facts, parts) if facts.is_empty() && parts.is_empty() => None,
        (facts, parts) if parts.is_empty() => Some(facts),
        (facts, parts) if facts.is_empty() => Some(parts),
        (facts, parts) => Some(format!("{facts}: {parts}")),
    }
}

fn trips(difference: f64) -> String {
    let how = if difference < 0.0 { "fewer" } else { "more" };
    let number = difference.abs();
    if (number - 1.0).abs() < 0.05 {
        format!("one round trip {how}")
    } else if (number - number.round()).abs() < 0.05 {
        format!("{number:.0} round trips {how}")
    } else {
        format!("{number:.2} round trips {how} on average")
    }
}

/// Formats as "TLSv1.2 → TLSv1.3", or as shares if values are mixed.
fn shares(before: &BTreeMap<String, f64>, after: &BTreeMap<String, f64>) -> String {
    let most = |shares: &BTreeMap<String, f64>| {
        let found = shares.iter().max_by(|a, b| a.1.total_cmp(b.1));
        found.map(|(value, share)| (value.clone(), *share))
    };
    match (most(before), most(after)) {
        (Some((old, _)), Some((new, _))) if old != new => format!("{old} → {new}"),
        (_, Some((value, share))) => {
            let was = before.get(&value).copied().unwrap_or_default();
            format!("{value} {:.0} → {:.0} %", was * 100.0, share * 100.0)
        }
        (Some((value, share)), None) => format!("{value} {:.0} → 0 %", share * 100.0),
        (None, None) => "none".to_owned(),
    }
}
