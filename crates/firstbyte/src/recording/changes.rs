//! The thread that detects and reports outages and changes.
//!
//! In: the outcome of every sample, the latest samples, and the store (read only). Out: events, for the recorder to
//! keep and for people to read, and the state of promises. Outcomes are examined when they arrive, samples every two
//! seconds, or less often if a look takes long.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use firstbyte_clock::{Monotonic, Realtime};
use firstbyte_monitor::detect::{
    self, Detector, Event, History, LatestSample, LatestSamples, Note, OutageEvent, OutageState,
    Settings, ToldEvents, WantedTimes, notes_of,
};
use firstbyte_monitor::outages::{MonitoredSeries, OutageTracker, Outcome};
use firstbyte_monitor::rollup::{Measure, Rollup};
use firstbyte_monitor::store::{
    Annotation, SeriesId, SeriesLabels, Step, StoreReader, StoredEvent,
};
use tracing::{debug, info};

use super::budgets::{BudgetWatch, Promised};
use super::recorder::{Tell, TellEvent};
use crate::webhooks::Notices;

/// Interval between looks. Series without new samples are skipped.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Looking may take at most one part in this many of a processor's time.
const LOOK_SHARE: u32 = 10;
/// How soon to look again at an outage whose start waits for other series of its target.
const OUTAGE_LOOK_EVERY: Duration = Duration::from_millis(500);
/// How often to store an ongoing outage again.
const KEEP_OUTAGE_EVERY: Duration = Duration::from_secs(60);
/// Maximum number of series per look whose minutes are read after a start.
const FILLED_AT_ONCE: usize = 32;
/// How far back minutes are then read, in milliseconds: usually, and for series with few samples.
const FILLED: [i64; 2] = [6 * 3_600_000, 48 * 3_600_000];
/// A series with fewer samples than this has few.
const FEW: usize = 60;
/// A minute, in milliseconds.
const MINUTE: i64 = 60_000;
/// Age in seconds of events loaded at a start. No event stays provisional that long, and the search for changes looks
/// back less far.
const REMEMBERED: i64 = 90 * 86_400;

/// Message to the thread.
pub(super) enum Watch {
    /// Watch these series, in the store as it is now.
    Series(Vec<WatchedSeries>),
    /// Judge these promises.
    Budgets(Vec<Promised>),
    /// Outcomes of samples.
    Outcomes(Vec<Outcome>),
    /// End the thread.
    End,
}

/// A watched series.
#[derive(Clone, Debug)]
pub(super) struct WatchedSeries {
    pub(super) id: SeriesId,
    pub(super) labels: SeriesLabels,
    pub(super) every: Duration,
}

/// Receivers of events: messages, storage and webhooks.
pub(super) struct Outlets {
    pub(super) events: Sender<StoredEvent>,
    pub(super) tell: Tell,
    pub(super) tell_event: TellEvent,
    pub(super) notices: Notices,
}

/// Handle of the thread.
pub(super) struct ChangeWatch {
    tell: Sender<Watch>,
    /// Set to abandon a look in progress.
    ends: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl ChangeWatch {
    /// Starts watching the series sent to `watched`, in `latest` and the store at `path`. Events go to `outlets`.
    pub(super) fn start(
        path: &Path,
        (watched, to_watch): (Sender<Watch>, Receiver<Watch>),
        latest: Arc<Mutex<LatestSamples>>,
        mut outlets: Outlets,
        budgets: BudgetWatch,
    ) -> Result<Self, super::RecorderError> {
        let reader = StoreReader::open(path).map_err(super::RecorderError::Store)?;
        let now = unix_millis() / 1_000;
        let known = reader.events(now - REMEMBERED, now + 86_400);
        let known = known.map_err(super::RecorderError::Store)?;
        // Events of a later version are not edited.
        let known: Vec<Event> =
            known.iter().filter_map(|event| serde_json::from_str(&event.json).ok()).collect();
        outlets.notices.know(&known);
        let ends = Arc::new(AtomicBool::new(false));
        let mut looking =
            EventFinder::new(path, reader, latest, Arc::clone(&ends), &known, outlets);
        looking.budgets = Some(budgets);
        let look = move || looking.look_until_told(&to_watch);
        let thread = std::thread::Builder::new()
            .name("changes".into())
            .spawn(look)
            .map_err(super::RecorderError::Thread)?;
        Ok(Self { tell: watched, ends, thread })
    }

    /// Ends the thread and abandons a look in progress, which may take a minute if the store holds months.
    ///
    /// The next start finds what that look would have found.
    pub(super) fn finish(self) {
        self.ends.store(true, Ordering::Relaxed);
        // The thread may have ended already; joining it reports why.
        let _ = self.tell.send(Watch::End);
        if let Err(panicked) = self.thread.join() {
            std::panic::resume_unwind(panicked);
        }
    }
}

/// The state of the thread.
struct EventFinder {
    history: StoreHistory,
    detector: Detector,
    tracker: OutageTracker,
    told: ToldEvents,
    /// For each ongoing outage, when it was last stored and its state then.
    kept: BTreeMap<String, (Monotonic, OutageState)>,
    outlets: Outlets,
    budgets: Option<BudgetWatch>,
}

impl EventFinder {
    fn new(
        path: &Path,
        reader: StoreReader,
        latest: Arc<Mutex<LatestSamples>>,
        ends: Arc<AtomicBool>,
        known: &[Event],
        outlets: Outlets,
    ) -> Self {
        let levels = known.iter().filter_map(|event| match event {
            Event::Level(level) => Some(level.clone()),
            Event::Outage(_) => None,
        });
        let outages = known.iter().filter_map(|event| match event {
            Event::Outage(outage) => Some(outage.clone()),
            Event::Level(_) => None,
        });
        let outages: Vec<OutageEvent> = outages.collect();
        let mut history = StoreHistory::new(path, reader, latest, ends);
        outages.iter().for_each(|outage| history.note_outage(outage));
        Self {
            history,
            detector: Detector::new(Settings::default(), levels.collect()),
            tracker: OutageTracker::from_events(&outages),
            told: ToldEvents::from_events(known),
            kept: BTreeMap::new(),
            outlets,
            budgets: None,
        }
    }

    fn look_until_told(mut self, to_watch: &Receiver<Watch>) {
        let mut due = Monotonic::now() + LOOK_EVERY;
        loop {
            let wait = due.since(Monotonic::now()).min(OUTAGE_LOOK_EVERY);
            match to_watch.recv_timeout(wait) {
                Ok(Watch::Series(series)) => self.follow(&series),
                Ok(Watch::Budgets(promised)) => {
                    if let Some(budgets) = &mut self.budgets {
                        budgets.follow(promised);
                    }
                }
                Ok(Watch::Outcomes(outcomes)) => {
                    outcomes.iter().for_each(|outcome| self.tracker.add(outcome));
                }
                Ok(Watch::End) | Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
            self.tell_outages(unix_millis());
            if !due.since(Monotonic::now()).is_zero() {
                continue;
            }
            let began = Monotonic::now();
            self.look(unix_millis());
            if self.history.ends() {
                break;
            }
            let took = Monotonic::now().since(began);
            debug!(?took, "searched for changes");
            due = Monotonic::now() + LOOK_EVERY.max(took * LOOK_SHARE);
        }
        // The next process continues the outages from this state.
        for outage in self.tracker.events() {
            self.keep(&Event::Outage(outage));
        }
    }

    /// Watches `series` from now on, in the current store.
    fn follow(&mut self, series: &[WatchedSeries]) {
        self.history.follow(series);
        let millis = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        let labels = Arc::clone(&self.history.series);
        let every = series.iter().map(|one| millis(one.every)).collect();
        self.tracker.follow(MonitoredSeries { labels, every });
    }

    fn tell_outages(&mut self, now: i64) {
        for mut outage in self.tracker.take_changed(now) {
            self.history.note_outage(&outage);
            outage.annotations =
                notes_of([outage.began; 2], &outage.series, &self.history.series, &self.history);
            let event = Event::Outage(outage);
            let is_news = self.tell(&event, now);
            let Event::Outage(outage) = &event else { continue };
            let last = self.kept.get(&outage.id);
            let is_due = last.is_none_or(|(at, state)| {
                *state != outage.state || Monotonic::now().since(*at) >= KEEP_OUTAGE_EVERY
            });
            if is_news || is_due {
                self.kept.insert(outage.id.clone(), (Monotonic::now(), outage.state));
                self.keep(&event);
            }
        }
    }

    fn look(&mut self, now: i64) {
        self.history.fills.set(FILLED_AT_ONCE);
        let found = self.detector.look(&self.history, now);
        if self.history.ends() {
            return;
        }
        for event in found.into_iter().map(Event::Level) {
            self.tell(&event, now);
            self.keep(&event);
        }
        let history = &self.history;
        if let Some(budgets) = &mut self.budgets {
            budgets.look(
                now.div_euclid(1_000),
                &mut |id, from, wanted| history.hours_from(id, from, wanted),
                &*self.outlets.tell,
            );
        }
    }

    /// Reports `event` if it is news. Returns whether it was.
    fn tell(&mut self, event: &Event, now: i64) -> bool {
        let is_news = self.told.take_news(event, now);
        let json = serde_json::to_string(event).unwrap_or_default();
        if is_news {
            let line = format!("{}: {}", event.heading(), event.sentence());
            (self.outlets.tell_event)(&line, &json);
        }
        self.outlets.notices.offer(event, &json);
        is_news
    }

    fn keep(&self, event: &Event) {
        if let Some(kept) = stored(event) {
            // The receiver outlives this thread.
            let _ = self.outlets.events.send(kept);
        }
    }
}

fn stored(event: &Event) -> Option<StoredEvent> {
    Some(StoredEvent {
        id: event.id().to_owned(),
        at: event.at().div_euclid(1_000),
        state: event.state_name().to_owned(),
        json: serde_json::to_string(event).ok()?,
    })
}

fn unix_millis() -> i64 {
    i64::try_from(Realtime::now().unix_nanos() / 1_000_000).unwrap_or(i64::MAX)
}

/// Labels that distinguish a series from others: its place, its axes and its tags.
fn told_apart(id: SeriesId, labels: &SeriesLabels) -> detect::SeriesLabels {
    let mut tags: BTreeMap<String, String> = labels.tags.clone();
    let axes = labels.variant.split(' ').filter_map(|factor| factor.split_once('='));
    tags.extend(axes.map(|(axis, value)| (axis.to_owned(), value.to_owned())));
    if !labels.place.is_empty() {
        tags.insert("place".to_owned(), labels.place.clone());
    }
    detect::SeriesLabels { id: u64::from(id), target: labels.target.clone(), tags }
}

/// The latest samples and the store, as the detector reads them.
struct StoreHistory {
    path: PathBuf,
    latest: Arc<Mutex<LatestSamples>>,
    reader: RefCell<StoreReader>,
    series: Arc<[detect::SeriesLabels]>,
    /// Series whose minutes from before the start are among the latest samples.
    filled: RefCell<BTreeSet<u64>>,
    /// How many more series may be filled in this look.
    fills: Cell<usize>,
    /// Outages of each series, by their start.
    outages: BTreeMap<u64, BTreeMap<i64, i64>>,
    ends: Arc<AtomicBool>,
}

impl StoreHistory {
    fn new(
        path: &Path,
        reader: StoreReader,
        latest: Arc<Mutex<LatestSamples>>,
        ends: Arc<AtomicBool>,
    ) -> Self {
        Self {
            path: path.to_owned(),
            latest,
            reader: RefCell::new(reader),
            series: Arc::default(),
            filled: RefCell::default(),
            fills: Cell::new(FILLED_AT_ONCE),
            outages: BTreeMap::new(),
            ends,
        }
    }

    /// Whether to abandon the look.
    fn ends(&self) -> bool {
        self.ends.load(Ordering::Relaxed)
    }

    /// Watches `series` from now on, in the current store.
    fn follow(&mut self, series: &[WatchedSeries]) {
        self.series = series.iter().map(|one| told_apart(one.id, &one.labels)).collect();
        match StoreReader::open(&self.path) {
            Ok(reader) => self.reader = RefCell::new(reader),
            Err(error) => info!(%error, "the store is read in its last state"),
        }
    }

    fn note_outage(&mut self, outage: &OutageEvent) {
        let ended = outage.ended.unwrap_or(i64::MAX);
        for series in &outage.series {
            self.outages.entry(*series).or_default().insert(outage.began, ended);
        }
    }

    /// Rollups in the store that begin at `from` or later and before `until`.
    fn read(
        &self,
        series: u64,
        step: Step,
        [from, until]: [i64; 2],
        wanted: &WantedTimes,
    ) -> Vec<(i64, Rollup)> {
        let series = SeriesId::try_from(series).unwrap_or(SeriesId::MAX);
        let seconds = |millis: i64| -(-millis).div_euclid(1_000);
        // Without data, the rest of the look ends quickly.
        if self.ends() {
            return Vec::new();
        }
        let mut reader = self.reader.borrow_mut();
        match reader.rollups(series, step, seconds(from), seconds(until), wanted) {
            Ok(rollups) => rollups.into_iter().map(|at| (at.start * 1_000, at.rollup)).collect(),
            Err(error) => {
                info!(%error, "a series cannot be searched for changes");
                Vec::new()
            }
        }
    }

    /// Merged hours of `series` from `from` on.
    fn hours_from(&self, series: SeriesId, from: i64, wanted: &dyn Fn(Measure) -> bool) -> Rollup {
        let until = unix_millis().div_euclid(1_000) + 3_600;
        let read = self.reader.borrow_mut().rollups(series, Step::Hour, from, until, wanted);
        let mut sum = Rollup::default();
        match read {
            Ok(rollups) => rollups.iter().for_each(|at| sum.merge(&at.rollup)),
            Err(error) => info!(%error, "a budget cannot be judged"),
        }
        sum
    }

    fn latest(&self) -> MutexGuard<'_, LatestSamples> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the minutes that an earlier process stored for `series` to the latest samples.
    fn fill(&self, series: u64, until: i64) {
        let (room, oldest, kept) = {
            let latest = self.latest();
            (latest.room(), latest.oldest(series), latest.len(series))
        };
        let left = self.fills.get();
        if room <= kept || left == 0 || !self.filled.borrow_mut().insert(series) {
            return;
        }
        self.fills.set(left - 1);
        let end = oldest.map_or(until, |oldest| until.min(oldest - MINUTE + 1));
        let mut minutes = Vec::new();
        for reach in FILLED {
            minutes = self.read(series, Step::Minute, [until - reach, end], &|_| true);
            if minutes.len() + kept >= FEW {
                break;
            }
        }
        let excess = minutes.len().saturating_sub(room - kept);
        let mut latest = self.latest();
        minutes.drain(..excess);
        minutes.iter().for_each(|(at, minute)| latest.add(series, *at, minute));
    }
}

impl History for StoreHistory {
    fn series(&self) -> &[detect::SeriesLabels] {
        &self.series
    }

    fn newest(&self, series: u64, until: i64) -> Option<i64> {
        self.latest().newest(series, until)
    }

    /// Single samples as far back as they are in memory, and minutes before them.
    fn samples(&self, series: u64, from: i64, until: i64, most: usize) -> Vec<LatestSample> {
        self.fill(series, until);
        self.latest().samples(series, from, until, most)
    }

    fn hours(
        &self,
        series: u64,
        from: i64,
        until: i64,
        wanted: &WantedTimes,
    ) -> Vec<(i64, Rollup)> {
        self.read(series, Step::Hour, [from, until], wanted)
    }

    fn outages(&self, series: u64) -> Vec<[i64; 2]> {
        let mut outages: Vec<[i64; 2]> = self
            .outages
            .get(&series)
            .into_iter()
            .flatten()
            .map(|(began, ended)| [*began, *ended])
            .collect();
        outages.sort_unstable();
        outages
    }

    fn notes(&self, from: i64, until: i64) -> Vec<Note> {
        let seconds = |millis: i64| -(-millis).div_euclid(1_000);
        match self.reader.borrow().annotations(seconds(from), seconds(until)) {
            Ok(annotations) => annotations
                .into_iter()
                .map(|Annotation { at, text, tags }| Note { at: at * 1_000, text, tags })
                .collect(),
            Err(error) => {
                info!(%error, "annotations cannot be read");
                Vec::new()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use firstbyte_core::run::Metric;
    use firstbyte_monitor::detect::State;
    use firstbyte_monitor::store::Store;

    use super::*;

    fn watched(ids: &[SeriesId], labels: &[SeriesLabels]) -> Vec<WatchedSeries> {
        let every = Duration::from_secs(600);
        let one = |(id, labels): (&SeriesId, &SeriesLabels)| WatchedSeries {
            id: *id,
            labels: labels.clone(),
            every,
        };
        ids.iter().zip(labels).map(one).collect()
    }

    /// Thirty days of a sample every ten minutes; IPv6 is 20 ms slower in the last two days.
    #[test]
    fn a_change_in_the_store_is_an_event_that_can_be_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store.sqlite");
        let mut store = Store::open(&path).unwrap();
        let labels = |family: &str| SeriesLabels {
            target: "shop".into(),
            variant: format!("tls=1.3 family={family}"),
            place: "fra1".into(),
            ..SeriesLabels::default()
        };
        let all = [labels("4"), labels("6")];
        let ids = store.enrol(&all).unwrap();
        let now = 1_795_392_000_000;
        let mut random = fastrand::Rng::with_seed(1);
        for minute in (0..30 * 1_440).step_by(10) {
            let at = now / 1_000 - 30 * 86_400 + minute * 60;
            for (id, labels) in ids.iter().zip(&all) {
                let slower = minute >= 28 * 1_440 && labels.variant.ends_with('6');
                let ms = 60.0 + random.f64() + if slower { 20.0 } else { 0.0 };
                let time = Duration::from_secs_f64(ms / 1e3);
                let mut rollup = Rollup::default();
                rollup.samples = 1;
                for metric in [Metric::Wait, Metric::Ttfb, Metric::Total] {
                    rollup.add_time(Measure::Metric(metric), time);
                }
                store.add_rollup(*id, at as u64 * 1_000_000_000, &rollup);
            }
        }
        store.flush(&[]).unwrap();
        let reader = StoreReader::open(&path).unwrap();
        let ends = Arc::new(AtomicBool::new(false));
        let mut history = StoreHistory::new(&path, reader, Arc::default(), Arc::clone(&ends));
        history.follow(&watched(&ids, &all));
        let mut detector = Detector::new(Settings::default(), Vec::new());
        let events = detector.look(&history, now);
        let [event] = events.as_slice() else { panic!("{events:?}") };
        assert_eq!(event.state, State::Confirmed);
        assert_eq!(event.scope.tags, BTreeMap::from([("family".into(), "6".into())]));
        assert!((event.size.difference() - 20e6).abs() < 1e6, "{event:?}");
        let event = Event::Level(event.clone());
        let kept = stored(&event).unwrap();
        assert!((kept.at - (now / 1_000 - 2 * 86_400)).abs() <= 6 * 3_600, "{kept:?}");
        store.put_event(&kept).unwrap();
        // A later process knows the event.
        let known = StoreReader::open(&path).unwrap().events(0, now).unwrap();
        let known: Event = serde_json::from_str(&known[0].json).unwrap();
        assert_eq!(known, event);
        let Event::Level(known) = known else { panic!("{known:?}") };
        let mut detector = Detector::new(Settings::default(), vec![known]);
        assert_eq!(detector.look(&history, now), []);
        // An abandoned look reads nothing more.
        let id = history.series()[0].id;
        assert!(!history.hours(id, 0, now, &|_| true).is_empty());
        ends.store(true, Ordering::Relaxed);
        assert_eq!(history.hours(id, 0, now, &|_| true), []);
    }

    /// A visit every ten seconds; an earlier process stored 30 of them as minutes.
    #[test]
    fn ten_single_samples_show_a_large_change() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store.sqlite");
        let mut store = Store::open(&path).unwrap();
        let labels = SeriesLabels { target: "shop".into(), ..SeriesLabels::default() };
        let id = store.enrol(std::slice::from_ref(&labels)).unwrap()[0];
        let mut random = fastrand::Rng::with_seed(1);
        let mut visit = |ms: f64| {
            let mut rollup = Rollup::default();
            rollup.samples = 1;
            let time = Duration::from_secs_f64((ms + random.f64()) / 1e3);
            rollup.add_time(Measure::Metric(Metric::Total), time);
            rollup
        };
        let began = 1_795_392_000_000;
        for minute in 0..30 {
            let at = (began + minute * MINUTE) as u64 * 1_000_000;
            store.add_rollup(id, at, &visit(60.0));
        }
        store.flush(&[]).unwrap();
        let latest = Arc::new(Mutex::new(LatestSamples::default()));
        latest.lock().unwrap().keep_alone(&BTreeSet::from([u64::from(id)]));
        let reader = StoreReader::open(&path).unwrap();
        let mut history = StoreHistory::new(&path, reader, Arc::clone(&latest), Arc::default());
        history.follow(&watched(&[id], std::slice::from_ref(&labels)));
        let mut detector = Detector::new(Settings::default(), Vec::new());
        let mut told = Vec::new();
        for sample in 0..60 {
            let at = began + 30 * MINUTE + sample * 10_000;
            let time = visit(if sample < 10 { 60.0 } else { 80.0 });
            latest.lock().unwrap().add(u64::from(id), at, &time);
            let events = detector.look(&history, at + 1_000);
            told.extend(events.into_iter().map(|event| (sample - 10, event.state)));
        }
        let [(first, State::Provisional), .., (last, State::Confirmed)] = told.as_slice() else {
            panic!("{told:?}");
        };
        assert!(*first < 10 && *last < 50, "{told:?}");
    }
}
