//! The thread that looks for changes in what the store has, and tells of them.
//!
//! In: the latest samples, and the store, read. Out: events, for the recorder to keep and for people to read, and how promises stand. It looks every other
//! second, or less often where a look takes long.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use firstbyte_clock::{Monotonic, Realtime};
use firstbyte_monitor::detect::{
    self, Detector, Event, History, LatestSamples, Note, Settings, State,
};
use firstbyte_monitor::rollup::{Measure, Rollup};
use firstbyte_monitor::store::{
    Annotation, SeriesId, SeriesLabels, Step, StoreReader, StoredEvent,
};
use tracing::{debug, info};

use super::budgets::{BudgetWatch, Promised};
use super::recorder::Tell;
use crate::webhooks::Notices;

/// From one look to the next. What has no new samples is not looked at.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Looking is not to take more of a processor than one part in so many.
const LOOK_SHARE: u32 = 10;
/// A minute, in milliseconds.
const MINUTE: i64 = 60_000;
/// Events that are remembered at a start, seconds: none is provisional for so long, and changes are looked for in less.
const REMEMBERED: i64 = 90 * 86_400;

/// What the thread is told.
pub(super) enum Watch {
    /// To look at these, in the store as it is now.
    Series(Vec<(SeriesId, SeriesLabels)>),
    /// To judge these.
    Budgets(Vec<Promised>),
    /// To end.
    End,
}

/// A handle on the thread.
pub(super) struct ChangeWatch {
    tell: Sender<Watch>,
    /// A look that is under way is to be given up.
    ends: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl ChangeWatch {
    /// Begins to look at what `watched` is told to, in `latest` and in the store at `path`. Events go to `events`, in words to
    /// `tell`, and to the webhooks of `notices`.
    pub(super) fn start(
        path: &Path,
        (watched, to_watch): (Sender<Watch>, Receiver<Watch>),
        latest: Arc<Mutex<LatestSamples>>,
        events: Sender<StoredEvent>,
        tell: Tell,
        mut notices: Notices,
        budgets: BudgetWatch,
    ) -> Result<Self, super::RecorderError> {
        let reader = StoreReader::open(path).map_err(super::RecorderError::Store)?;
        let now = unix_millis() / 1_000;
        let known = reader.events(now - REMEMBERED, now + 86_400);
        let known = known.map_err(super::RecorderError::Store)?;
        // One of a later version is not edited.
        let known: Vec<Event> =
            known.iter().filter_map(|event| serde_json::from_str(&event.json).ok()).collect();
        notices.know(&known);
        let detector = Detector::new(Settings::default(), known);
        let reader = RefCell::new(reader);
        let path = path.to_owned();
        let ends = Arc::new(AtomicBool::new(false));
        let mut history =
            StoreHistory { path, reader, latest, series: Vec::new(), ends: Arc::clone(&ends) };
        let look = move || {
            look_until(&to_watch, detector, &mut history, &events, &*tell, &mut notices, budgets);
        };
        let thread = std::thread::Builder::new()
            .name("changes".into())
            .spawn(look)
            .map_err(super::RecorderError::Thread)?;
        Ok(Self { tell: watched, ends, thread })
    }

    /// Ends it. A look that is under way is given up: of a store of months it may take a minute. What it would have found is found at the
    /// next start.
    pub(super) fn finish(self) {
        self.ends.store(true, Ordering::Relaxed);
        // It may have ended already, which its thread's end tells.
        let _ = self.tell.send(Watch::End);
        if let Err(panicked) = self.thread.join() {
            std::panic::resume_unwind(panicked);
        }
    }
}

fn look_until(
    to_watch: &Receiver<Watch>,
    mut detector: Detector,
    history: &mut StoreHistory,
    events: &Sender<StoredEvent>,
    tell: &dyn Fn(&str),
    notices: &mut Notices,
    mut budgets: BudgetWatch,
) {
    let mut told: BTreeMap<String, Event> =
        detector.events().iter().map(|event| (event.id.clone(), event.clone())).collect();
    let mut wait = LOOK_EVERY;
    loop {
        match to_watch.recv_timeout(wait) {
            Ok(Watch::Series(series)) => {
                history.follow(&series);
                continue;
            }
            Ok(Watch::Budgets(promised)) => {
                budgets.follow(promised);
                continue;
            }
            Ok(Watch::End) | Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {}
        }
        let began = Monotonic::now();
        let found = detector.look(history, unix_millis());
        if history.ends() {
            break;
        }
        for event in found {
            if told.get(&event.id).is_none_or(|before| event.is_news_after(before)) {
                tell(&format!("{}: {}", event.state.name(), event.sentence()));
            }
            if let Some(kept) = stored(&event) {
                notices.offer(&event, &kept.json);
                // Its receiver lives longer.
                let _ = events.send(kept);
            }
            match event.state {
                State::Withdrawn => told.remove(&event.id),
                _ => told.insert(event.id.clone(), event),
            };
        }
        budgets.look(
            unix_millis().div_euclid(1_000),
            &mut |id, from, wanted| history.hours_from(id, from, wanted),
            tell,
        );
        let took = Monotonic::now().since(began);
        debug!(?took, "searched for changes");
        wait = LOOK_EVERY.max(took * LOOK_SHARE);
    }
}

fn stored(event: &Event) -> Option<StoredEvent> {
    Some(StoredEvent {
        id: event.id.clone(),
        at: event.at.div_euclid(1_000),
        state: event.state.name().to_owned(),
        json: serde_json::to_string(event).ok()?,
    })
}

fn unix_millis() -> i64 {
    i64::try_from(Realtime::now().unix_nanos() / 1_000_000).unwrap_or(i64::MAX)
}

/// A series, as it is told apart from others: by its place, its axes and its tags.
fn watched(id: SeriesId, labels: &SeriesLabels) -> detect::SeriesLabels {
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
    series: Vec<detect::SeriesLabels>,
    ends: Arc<AtomicBool>,
}

impl StoreHistory {
    /// Whether nobody needs an answer any more.
    fn ends(&self) -> bool {
        self.ends.load(Ordering::Relaxed)
    }

    /// Looks at `series` from now on, in the store that there is now.
    fn follow(&mut self, series: &[(SeriesId, SeriesLabels)]) {
        self.series = series.iter().map(|(id, labels)| watched(*id, labels)).collect();
        match StoreReader::open(&self.path) {
            Ok(reader) => self.reader = RefCell::new(reader),
            Err(error) => info!(%error, "the store is read in its last state"),
        }
    }

    /// Rollups of the store that begin at `from` or after and before `until`.
    fn read(&self, series: u64, step: Step, from: i64, until: i64) -> Vec<(i64, Rollup)> {
        let series = SeriesId::try_from(series).unwrap_or(SeriesId::MAX);
        let seconds = |millis: i64| -(-millis).div_euclid(1_000);
        // With nothing to look at, the rest of the look is soon over.
        if self.ends() {
            return Vec::new();
        }
        let mut reader = self.reader.borrow_mut();
        match reader.rollups(series, step, seconds(from), seconds(until), |_| true) {
            Ok(rollups) => rollups.into_iter().map(|at| (at.start * 1_000, at.rollup)).collect(),
            Err(error) => {
                info!(%error, "a series cannot be searched for changes");
                Vec::new()
            }
        }
    }

    /// The hours of `series` from `from` on, together.
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
}

impl History for StoreHistory {
    fn series(&self) -> &[detect::SeriesLabels] {
        &self.series
    }

    fn newest(&self, series: u64, until: i64) -> Option<i64> {
        self.latest().newest(series, until)
    }

    /// Single samples as far back as there are, and minutes before them.
    fn samples(&self, series: u64, from: i64, until: i64, most: usize) -> Vec<(i64, Rollup)> {
        let (single, oldest) = {
            let latest = self.latest();
            (latest.samples(series, from, until, most), latest.oldest(series))
        };
        let until = oldest.map_or(until, |oldest| until.min(oldest - MINUTE + 1));
        if single.len() == most || from >= until {
            return single;
        }
        let mut minutes = self.read(series, Step::Minute, from, until);
        let too_many = (minutes.len() + single.len()).saturating_sub(most);
        minutes.drain(..too_many);
        minutes.extend(single);
        minutes
    }

    fn hours(&self, series: u64, from: i64, until: i64) -> Vec<(i64, Rollup)> {
        self.read(series, Step::Hour, from, until)
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
    use firstbyte_monitor::rollup::Measure;
    use firstbyte_monitor::store::Store;

    use std::collections::BTreeSet;

    use super::*;

    /// Thirty days of a sample each ten minutes, the last two of them 20 ms slower over IPv6.
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
        let reader = RefCell::new(StoreReader::open(&path).unwrap());
        let series = ids.iter().zip(&all).map(|(id, labels)| watched(*id, labels)).collect();
        let latest = Arc::default();
        let history =
            StoreHistory { path: path.clone(), reader, latest, series, ends: Arc::default() };
        let mut detector = Detector::new(Settings::default(), Vec::new());
        let events = detector.look(&history, now);
        let [event] = events.as_slice() else { panic!("{events:?}") };
        assert_eq!(event.state, State::Confirmed);
        assert_eq!(event.scope.tags, BTreeMap::from([("family".into(), "6".into())]));
        assert!((event.size.difference() - 20e6).abs() < 1e6, "{event:?}");
        let kept = stored(event).unwrap();
        assert!((kept.at - (now / 1_000 - 2 * 86_400)).abs() <= 6 * 3_600, "{kept:?}");
        store.put_event(&kept).unwrap();
        // Who starts later knows it.
        let known = StoreReader::open(&path).unwrap().events(0, now).unwrap();
        let known: Event = serde_json::from_str(&known[0].json).unwrap();
        assert_eq!(&known, event);
        let mut detector = Detector::new(Settings::default(), vec![known]);
        assert_eq!(detector.look(&history, now), []);
        // A look that is given up reads nothing more.
        let id = history.series()[0].id;
        assert!(!history.hours(id, 0, now).is_empty());
        history.ends.store(true, Ordering::Relaxed);
        assert_eq!(history.hours(id, 0, now), []);
    }

    /// A visit every ten seconds; an earlier process left 25 of them as minutes.
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
        for minute in 0..25 {
            let at = (began + minute * MINUTE) as u64 * 1_000_000;
            store.add_rollup(id, at, &visit(60.0));
        }
        store.flush(&[]).unwrap();
        let latest = Arc::new(Mutex::new(LatestSamples::default()));
        latest.lock().unwrap().keep_alone(&BTreeSet::from([u64::from(id)]));
        let history = StoreHistory {
            path: path.clone(),
            reader: RefCell::new(StoreReader::open(&path).unwrap()),
            latest: Arc::clone(&latest),
            series: vec![watched(id, &labels)],
            ends: Arc::default(),
        };
        let mut detector = Detector::new(Settings::default(), Vec::new());
        let mut told = Vec::new();
        for sample in 0..60 {
            let at = began + 25 * MINUTE + sample * 10_000;
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
