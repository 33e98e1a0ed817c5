//! Outages: when targets could not be reached or answered wrongly, for which share of the time, and where.
//!
//! In: the outcome of every sample, in the order in which they end. Out: new and changed [`OutageEvent`]s. Two failures
//! in a row of one series begin an outage, two successes end it. Series of one target share an outage. So do many
//! targets that begin to fail at about the same time for the same reason. Pure: the caller supplies the time, in
//! milliseconds since the Unix epoch. Definitions: `docs/statistics.md`, "Outages".

mod members;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use firstbyte_core::timeline::FailureType;

use crate::detect::{
    FORMAT, FailureName, OutageEvent, OutageState, Scope, SeriesLabels, scope, time_text,
};

use members::{Member, Streak};

/// An outage that begins again within this time after its end continues the former one: it flaps.
const QUIET: i64 = 10 * 60_000;
/// The start is reported when every series of the target has a sample, or after this time.
const LONGEST_HOLD: i64 = 10_000;
/// When this many targets are down at one time for one reason, further such targets join their outage.
const TARGETS_TOGETHER: usize = 2;

/// Outcome of a sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Number of the series in the store.
    pub series: u64,
    /// When the sample began.
    pub at: i64,
    /// Time that the sample stands for.
    pub stands_for: Duration,
    /// How the sample failed, if it did.
    pub failure: Option<FailureType>,
    /// Status of the response.
    pub status: Option<u16>,
}

/// The series that are measured.
#[derive(Clone, Debug, Default)]
pub struct MonitoredSeries {
    /// Labels of the series.
    pub labels: Arc<[SeriesLabels]>,
    /// Interval between samples of each series, milliseconds, in the same order.
    pub every: Vec<i64>,
}

/// Tracks the outages of all series.
#[derive(Debug, Default)]
pub struct OutageTracker {
    series: MonitoredSeries,
    /// Place in the list of each series, by its number in the store.
    places: BTreeMap<u64, usize>,
    streaks: BTreeMap<u64, Streak>,
    /// Ongoing outages, and those that ended a short time ago.
    outages: Vec<Outage>,
    /// Outages that changed since [`OutageTracker::take_changed`] last returned them.
    changed: BTreeSet<String>,
}

#[derive(Debug)]
struct Outage {
    id: String,
    began: i64,
    state: OutageState,
    interruptions: u32,
    targets: BTreeSet<String>,
    /// Labels of its series, which may no longer be measured.
    labels: BTreeMap<u64, SeriesLabels>,
    /// Every series that failed in this outage.
    members: BTreeMap<u64, Member>,
    failures: BTreeMap<FailureType, u64>,
    statuses: BTreeMap<u16, u64>,
    /// When the start was found; absent once the outage was reported.
    held_since: Option<i64>,
    /// When the last of its series recovered.
    up_since: Option<i64>,
    annotations: Vec<String>,
}

impl OutageTracker {
    /// Creates a tracker that continues the ongoing outages that an earlier process found.
    pub fn from_events(events: &[OutageEvent]) -> Self {
        let open = events.iter().filter(|event| event.state != OutageState::Ended);
        let outages: Vec<Outage> = open.map(Outage::from_event).collect();
        let down = outages.iter().flat_map(|outage| outage.members.keys());
        let streaks = down.map(|series| (*series, Streak::down())).collect();
        Self { streaks, outages, ..Self::default() }
    }

    /// Sets the series that later outcomes refer to. Outages of series that are no longer measured end at their last
    /// failure.
    pub fn follow(&mut self, series: MonitoredSeries) {
        let labels = series.labels.iter().enumerate();
        self.places = labels.map(|(place, labels)| (labels.id, place)).collect();
        self.series = series;
        self.streaks.retain(|series, _| self.places.contains_key(series));
        for outage in &mut self.outages {
            let gone = outage.members.iter_mut();
            for (_, member) in gone.filter(|(id, _)| !self.places.contains_key(id)) {
                if member.up_since.is_none() {
                    member.up_since = Some(member.last_failure);
                    member.is_gone = true;
                    self.changed.insert(outage.id.clone());
                }
            }
        }
    }

    /// Records the outcome of a sample.
    pub fn add(&mut self, outcome: &Outcome) {
        let Some(place) = self.places.get(&outcome.series).copied() else { return };
        let streak = self.streaks.entry(outcome.series).or_default();
        let was_down = streak.is_down;
        let first = streak.add(outcome.failure.is_some(), outcome.at, outcome.stands_for);
        let is_down = streak.is_down;
        if !was_down && is_down {
            let failure = outcome.failure.unwrap_or(FailureType::Unknown);
            self.begin(outcome, place, failure, first);
            return;
        }
        // A single failure after an outage does not begin another one.
        let is_undecided = outcome.failure.is_some() && !is_down;
        let outage = self.outages.iter_mut().find(|one| one.includes(outcome.series));
        if let Some(outage) = outage.filter(|_| !is_undecided) {
            outage.count(outcome, was_down && !is_down, first.at);
            self.changed.insert(outage.id.clone());
        }
    }

    /// Marks a series as down since its first failure.
    fn begin(&mut self, outcome: &Outcome, series: usize, failure: FailureType, first: First) {
        let Some(labels) = self.series.labels.get(series).cloned() else { return };
        let target = labels.target.clone();
        let every = self.series.every.get(series).copied().unwrap_or_default();
        let place = self.outage_for(&target, failure, first.at, every);
        let place = place.unwrap_or_else(|| {
            let id = self.new_id(first.at, outcome.series);
            self.outages.push(Outage::new(id, first.at, outcome.at));
            self.outages.len() - 1
        });
        let outage = &mut self.outages[place];
        let again = outage.up_since.take().is_some();
        if again {
            outage.interruptions += 1;
            outage.state = OutageState::Flapping;
        }
        outage.targets.insert(target);
        outage.labels.insert(outcome.series, labels);
        // Count the first failure, which did not count yet, and this one.
        let member = outage.members.entry(outcome.series).or_insert_with(|| Member::new(first.at));
        member.fail(first.at, first.stands_for);
        outage.note_failure(failure, outcome.status);
        outage.count(outcome, false, outcome.at);
        self.changed.insert(outage.id.clone());
    }

    /// The outage that a series joins which is down since `first`.
    fn outage_for(
        &self,
        target: &str,
        failure: FailureType,
        first: i64,
        every: i64,
    ) -> Option<usize> {
        let of_target = |outage: &Outage| outage.targets.contains(target);
        if let Some(place) = self.outages.iter().position(of_target) {
            return Some(place);
        }
        let near = 2 * every + LONGEST_HOLD;
        let alike = |outage: &&Outage| {
            outage.up_since.is_none()
                && outage.leading_failure() == failure
                && (first - outage.began).abs() <= near
        };
        let together: Vec<&Outage> = self.outages.iter().filter(alike).collect();
        let targets: usize = together.iter().map(|outage| outage.targets.len()).sum();
        // Choose the outage with the most series.
        let widest = together.iter().max_by_key(|outage| outage.members.len())?;
        let place = self.outages.iter().position(|outage| outage.id == widest.id)?;
        (targets >= TARGETS_TOGETHER).then_some(place)
    }

    fn new_id(&self, at: i64, series: u64) -> String {
        let when: String =
            time_text::text(at).chars().filter(char::is_ascii_alphanumeric).collect();
        format!("{when}-outage-{series}")
    }

    /// Returns outages that are new, or have changed and may be reported at `now`.
    pub fn take_changed(&mut self, now: i64) -> Vec<OutageEvent> {
        let mut taken = Vec::new();
        for outage in &mut self.outages {
            if outage.end(now) {
                self.changed.insert(outage.id.clone());
            }
            if !self.changed.contains(&outage.id)
                || outage.is_held(now, &self.series.labels, &self.streaks)
            {
                continue;
            }
            outage.held_since = None;
            self.changed.remove(&outage.id);
            taken.push(outage.event(&self.series.labels));
        }
        self.outages.retain(|outage| !outage.is_over(now));
        taken
    }

    /// Ongoing outages, and those that ended a short time ago.
    pub fn events(&self) -> Vec<OutageEvent> {
        self.outages.iter().map(|outage| outage.event(&self.series.labels)).collect()
    }
}

/// The first sample of a streak.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct First {
    at: i64,
    stands_for: Duration,
}

impl Outage {
    fn new(id: String, began: i64, found: i64) -> Self {
        Self {
            id,
            began,
            state: OutageState::Began,
            interruptions: 1,
            targets: BTreeSet::new(),
            labels: BTreeMap::new(),
            members: BTreeMap::new(),
            failures: BTreeMap::new(),
            statuses: BTreeMap::new(),
            held_since: Some(found),
            up_since: None,
            annotations: Vec::new(),
        }
    }

    fn from_event(event: &OutageEvent) -> Self {
        let mut outage = Self::new(event.id.clone(), event.began, event.began);
        outage.held_since = None;
        outage.state = event.state;
        outage.interruptions = event.interruptions;
        outage.targets = event.scope.targets.iter().cloned().collect();
        let last = event.began + event.lasted_ns / 1_000_000;
        let time = Duration::from_nanos(event.lasted_ns.max(0).cast_unsigned());
        for series in &event.series {
            let failed = time.mul_f64(event.failed_share.clamp(0.0, 1.0));
            outage.members.insert(*series, Member::known(last, time, failed));
        }
        outage.failures = event.failures.iter().map(|(name, count)| (name.0, *count)).collect();
        outage.statuses = event.status.map(|status| (status, 1)).into_iter().collect();
        outage.annotations.clone_from(&event.annotations);
        outage
    }

    fn includes(&self, series: u64) -> bool {
        self.members.contains_key(&series)
    }

    fn note_failure(&mut self, failure: FailureType, status: Option<u16>) {
        *self.failures.entry(failure).or_default() += 1;
        if let (FailureType::HttpError, Some(status)) = (failure, status) {
            *self.statuses.entry(status).or_default() += 1;
        }
    }

    /// Counts a sample of a member. If `ends`, the member has recovered since `good_since`.
    fn count(&mut self, outcome: &Outcome, ends: bool, good_since: i64) {
        let Some(member) = self.members.get_mut(&outcome.series) else { return };
        match outcome.failure {
            Some(failure) => {
                member.fail(outcome.at, outcome.stands_for);
                self.note_failure(failure, outcome.status);
            }
            None => member.succeed(outcome.stands_for),
        }
        if ends && let Some(member) = self.members.get_mut(&outcome.series) {
            member.up_since = Some(good_since);
        }
    }

    fn leading_failure(&self) -> FailureType {
        let most = self.failures.iter().max_by_key(|(_, count)| **count);
        most.map_or(FailureType::Unknown, |(failure, _)| *failure)
    }

    /// Records the end if all members are up. Returns whether the outage has newly ended.
    fn end(&mut self, now: i64) -> bool {
        let ups = self.members.values().map(|member| member.up_since);
        let Some(up_since) =
            ups.collect::<Option<Vec<i64>>>().and_then(|ups| ups.into_iter().max())
        else {
            return false;
        };
        self.up_since = Some(up_since);
        let settled = match self.state {
            OutageState::Began => true,
            OutageState::Flapping => now - up_since >= QUIET,
            OutageState::Ended => false,
        };
        if settled {
            self.state = OutageState::Ended;
        }
        settled
    }

    /// Whether the outage ended too long ago to flap.
    fn is_over(&self, now: i64) -> bool {
        self.state == OutageState::Ended && self.up_since.is_some_and(|up| now - up >= QUIET)
    }

    /// Whether the report of the start waits for the first samples of the other series of its targets.
    fn is_held(&self, now: i64, all: &[SeriesLabels], streaks: &BTreeMap<u64, Streak>) -> bool {
        let Some(since) = self.held_since else { return false };
        if now - since >= LONGEST_HOLD || self.state == OutageState::Ended {
            return false;
        }
        let siblings = all.iter().filter(|labels| self.targets.contains(&labels.target));
        let mut siblings = siblings.map(|labels| labels.id);
        // A sibling that failed once is about to be measured again.
        siblings.any(|id| {
            let streak = streaks.get(&id);
            streak.is_none_or(|streak| streak.last < self.began || streak.is_undecided())
        })
    }

    fn scope(&self, series: &BTreeSet<u64>, all: &[SeriesLabels]) -> Scope {
        let measured: HashSet<u64> = all.iter().map(|labels| labels.id).collect();
        if series.iter().all(|id| measured.contains(id)) {
            return scope(series, all);
        }
        let gone = self.labels.values().filter(|labels| !measured.contains(&labels.id));
        let with_gone: Vec<SeriesLabels> = all.iter().chain(gone).cloned().collect();
        let mut scope = scope(series, &with_gone);
        if scope.targets.is_empty() {
            // An earlier process left this outage, and only its targets are known.
            scope.targets = self.targets.iter().cloned().collect();
        }
        scope
    }

    fn event(&self, all: &[SeriesLabels]) -> OutageEvent {
        let series: BTreeSet<u64> = self.members.keys().copied().collect();
        let times = self.members.values().map(|member| (member.failed, member.monitored));
        let (failed, monitored) = times.fold((0.0, 0.0), |sum, (failed, monitored)| {
            (sum.0 + failed.as_secs_f64(), sum.1 + monitored.as_secs_f64())
        });
        let last = self.members.values().map(|member| member.last_failure).max();
        let ended = self.up_since.filter(|_| self.state == OutageState::Ended);
        let until = ended.or(last).unwrap_or(self.began);
        let most = self.statuses.iter().max_by_key(|(_, count)| **count);
        let failures = self.failures.iter();
        OutageEvent {
            format: FORMAT.to_owned(),
            version: 1,
            id: self.id.clone(),
            state: self.state,
            began: self.began,
            ended,
            no_longer_measured: ended.is_some() && self.members.values().all(|one| one.is_gone),
            lasted_ns: (until - self.began).max(0).saturating_mul(1_000_000),
            interruptions: self.interruptions,
            failed_share: if monitored > 0.0 { failed / monitored } else { 1.0 },
            failure: FailureName(self.leading_failure()),
            failures: failures.map(|(failure, count)| (FailureName(*failure), *count)).collect(),
            status: most.map(|(status, _)| *status),
            scope: self.scope(&series, all),
            samples: self.failures.values().sum(),
            series: series.into_iter().collect(),
            annotations: self.annotations.clone(),
        }
    }
}
