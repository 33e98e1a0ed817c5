//! Groups changes: series that changed at one time, in one direction and for one reason form one event.

use super::event::{Cause, FORMAT, LevelEvent, Samples, Size, State, Statistic};
use super::history::SeriesLabels;
use super::level::{BLOCK, Certainty, Change, HOUR};
use super::scope::scope;
use super::time_text;

/// A change of a series already in an event matches the event within this many times the uncertainty of either time.
const SAME_SERIES: i64 = 5;

/// A change of one series.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Found {
    pub(super) series: u64,
    pub(super) metric: String,
    pub(super) statistic: Statistic,
    pub(super) change: Change,
    /// Additional uncertainty of its time, milliseconds: figures of hours are medians of blocks, or tails.
    pub(super) grain: i64,
    pub(super) causes: Vec<Cause>,
    pub(super) also: Vec<Cause>,
    /// Equal for all changes with the same reason.
    pub(super) key: String,
}

/// Changes that belong together.
#[derive(Clone, Debug)]
pub(super) struct Together {
    pub(super) found: Vec<Found>,
    pub(super) certainty: Certainty,
    pub(super) at: i64,
    between: [i64; 2],
}

/// Groups the changes in `found` that belong together.
pub(super) fn together(mut found: Vec<Found>) -> Vec<Together> {
    // Changes whose time is known most precisely come first.
    found.sort_by_key(|one| (one.change.between[1] - one.change.between[0], one.series));
    let mut groups: Vec<Together> = Vec::new();
    for one in found {
        let change = &one.change;
        let same = |group: &&mut Together| {
            let first = &group.found[0];
            first.key == one.key
                && (!one.key.is_empty() || first.metric == one.metric)
                && first.statistic.is_like(one.statistic)
                && (first.change.difference() > 0.0) == (change.difference() > 0.0)
                && group.between[0] <= change.between[1] + one.grain
                && change.between[0] <= group.between[1] + one.grain
        };
        match groups.iter_mut().find(same) {
            Some(group) => {
                let both = [
                    group.between[0].max(change.between[0]),
                    group.between[1].min(change.between[1]),
                ];
                // If two changes are some hours apart, keep the time that is known most precisely: the first one's.
                if both[0] <= both[1] {
                    group.between = both;
                }
                group.certainty = group.certainty.max(change.certainty);
                group.found.push(one);
            }
            None => groups.push(Together {
                certainty: change.certainty,
                at: change.at,
                between: change.between,
                found: vec![one],
            }),
        }
    }
    groups
}

impl Together {
    /// Among the most certain changes, the one of median size.
    fn typical(&self) -> &Found {
        let mut sure: Vec<&Found> =
            self.found.iter().filter(|one| one.change.certainty == self.certainty).collect();
        sure.sort_by(|a, b| a.change.difference().total_cmp(&b.change.difference()));
        sure.get(sure.len() / 2).copied().unwrap_or(&self.found[0])
    }

    fn shares_a_series(&self, event: &LevelEvent) -> bool {
        self.found.iter().any(|one| event.series.contains(&one.series))
    }

    /// Whether the group is the change that `event` reports.
    pub(super) fn is(&self, event: &LevelEvent) -> bool {
        let typical = self.typical();
        // Hours give the time of a change only roughly. For series that are not in the event yet, samples give it
        // precisely.
        let widest = |span: [i64; 2]| span[1] - span[0];
        let grain = self.found.iter().map(|one| one.grain).min().unwrap_or(BLOCK);
        let windows = if self.shares_a_series(event) { SAME_SERIES } else { 1 };
        let window = widest(self.between).max(widest(event.at_between));
        let slack = grain.max(windows * window).min(BLOCK);
        let near = event.at_between[0] - slack <= self.between[1]
            && self.between[0] <= event.at_between[1] + slack;
        // Series that are not in the event yet must agree on more than the time.
        let names =
            [event.cause.first(), typical.causes.first()].map(|cause| cause.map(Cause::name));
        let same_reason = match names {
            [None, None] => event.metric == typical.metric,
            [event, typical] => event == typical,
        };
        let known = self.shares_a_series(event) || same_reason;
        typical.statistic.is_like(event.statistic)
            && near
            && known
            && typical.change.difference() * event.size.difference() > 0.0
    }

    /// Whether the group is the return to the level before `event`.
    pub(super) fn ends(&self, event: &LevelEvent, within: i64) -> bool {
        let change = &self.typical().change;
        let before = match event.size {
            Size::Time { before_ns, .. } => before_ns as f64,
            Size::Share { before, .. } => before,
        };
        event.until.is_none_or(|until| (until - self.at).abs() <= HOUR)
            && event.metric == self.typical().metric
            && self.shares_a_series(event)
            && self.at > event.at
            && self.at - event.at <= within
            && change.difference() * event.size.difference() < 0.0
            && (change.after - before).abs() <= 0.25 * event.size.difference().abs()
    }

    pub(super) fn event(&self, all: &[SeriesLabels]) -> LevelEvent {
        let typical = self.typical();
        let change = &typical.change;
        let mut series: Vec<u64> = self.found.iter().map(|one| one.series).collect();
        series.sort_unstable();
        series.dedup();
        let size = match typical.statistic.is_share() {
            true => Size::Share {
                before: change.before,
                after: change.after,
                difference: change.difference(),
                interval: [change.interval.low, change.interval.high],
            },
            false => {
                let whole = |ns: f64| ns.round() as i64;
                Size::Time {
                    before_ns: whole(change.before),
                    after_ns: whole(change.after),
                    difference_ns: whole(change.after) - whole(change.before),
                    interval_ns: [whole(change.interval.low), whole(change.interval.high)],
                }
            }
        };
        let count = |side: usize| self.found.iter().map(|one| one.change.samples[side]).sum();
        let when: String =
            time_text::text(self.at).chars().filter(char::is_ascii_alphanumeric).collect();
        LevelEvent {
            format: FORMAT.to_owned(),
            version: 1,
            id: format!("{when}-{}-{}", typical.metric, series[0]),
            state: State::from(self.certainty),
            metric: typical.metric.clone(),
            statistic: typical.statistic,
            size,
            at: self.at,
            at_between: self.between,
            until: None,
            cause: typical.causes.clone(),
            also_changed: typical.also.clone(),
            scope: scope(&series.iter().copied().collect(), all),
            samples: Samples { before: count(0), after: count(1) },
            series,
            annotations: Vec::new(),
        }
    }
}
