//! The thread that looks for changes in what the store has, and tells of them.
//!
//! In: the store, read. Out: events, for the recorder to keep and for people to read. It looks once a minute, or less often where a
//! look takes long.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use firstbyte_clock::{Monotonic, Realtime};
use firstbyte_monitor::detect::{self, Detector, Event, History, Settings};
use firstbyte_monitor::rollup::Rollup;
use firstbyte_monitor::store::{
    RollupAt, SeriesId, SeriesLabels, Step, StoreError, StoreReader, StoredEvent,
};
use tracing::{debug, info};

use super::recorder::Tell;

/// From one look to the next.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// Looking is not to take more of a processor than one part in so many.
const LOOK_SHARE: u32 = 10;
/// Events that are remembered at a start, seconds: none is provisional for so long, and changes are looked for in less.
const REMEMBERED: i64 = 90 * 86_400;

/// A handle on the thread.
pub(super) struct ChangeWatch {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl ChangeWatch {
    /// Begins to look at `series` in the store at `path`. Events go to `events`, and in words to `tell`.
    pub(super) fn start(
        path: &Path,
        series: &[(SeriesId, SeriesLabels)],
        events: Sender<StoredEvent>,
        tell: Tell,
    ) -> Result<Self, super::RecorderError> {
        let reader = StoreReader::open(path).map_err(super::RecorderError::Store)?;
        let now = unix_millis() / 1_000;
        let known = reader.events(now - REMEMBERED, now + 86_400);
        let known = known.map_err(super::RecorderError::Store)?;
        // One of a later version is not edited.
        let known = known.iter().filter_map(|event| serde_json::from_str(&event.json).ok());
        let detector = Detector::new(Settings::default(), known.collect());
        let series = series.iter().map(|(id, labels)| watched(*id, labels)).collect();
        let history = StoreHistory { reader: RefCell::new(reader), series };
        let (stop, stopped) = channel();
        let thread = std::thread::Builder::new()
            .name("changes".into())
            .spawn(move || look_until(&stopped, detector, &history, &events, &*tell))
            .map_err(super::RecorderError::Thread)?;
        Ok(Self { stop, thread })
    }

    /// Ends it: a look that is under way is waited for.
    pub(super) fn finish(self) {
        drop(self.stop);
        if let Err(panicked) = self.thread.join() {
            std::panic::resume_unwind(panicked);
        }
    }
}

fn look_until(
    stopped: &Receiver<()>,
    mut detector: Detector,
    history: &StoreHistory,
    events: &Sender<StoredEvent>,
    tell: &dyn Fn(&str),
) {
    let mut wait = LOOK_EVERY;
    while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(wait) {
        let began = Monotonic::now();
        for event in detector.look(history, unix_millis()) {
            tell(&format!("{}: {}", event.state.name(), event.sentence()));
            if let Some(event) = stored(&event) {
                // Its receiver lives longer.
                let _ = events.send(event);
            }
        }
        let took = Monotonic::now().since(began);
        debug!(?took, "looked for changes");
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
    let axes = labels.way.split(' ').filter_map(|factor| factor.split_once('='));
    tags.extend(axes.map(|(axis, value)| (axis.to_owned(), value.to_owned())));
    if !labels.place.is_empty() {
        tags.insert("place".to_owned(), labels.place.clone());
    }
    detect::SeriesLabels { id: u64::from(id), target: labels.target.clone(), tags }
}

/// The store, as the detector reads it.
struct StoreHistory {
    reader: RefCell<StoreReader>,
    series: Vec<detect::SeriesLabels>,
}

impl StoreHistory {
    fn read(
        &self,
        series: u64,
        step: Step,
        from: i64,
        until: i64,
    ) -> Result<Vec<RollupAt>, StoreError> {
        let series = SeriesId::try_from(series).unwrap_or(SeriesId::MAX);
        let seconds = |millis: i64| -(-millis).div_euclid(1_000);
        self.reader.borrow_mut().rollups(series, step, seconds(from), seconds(until), |_| true)
    }
}

impl History for StoreHistory {
    fn series(&self) -> Vec<detect::SeriesLabels> {
        self.series.clone()
    }

    fn rollups(
        &self,
        series: u64,
        step: detect::Step,
        from: i64,
        until: i64,
    ) -> Vec<(i64, Rollup)> {
        let step = match step {
            // Single samples are in raw files alone.
            detect::Step::Sample => Step::Minute,
            detect::Step::Hour => Step::Hour,
        };
        match self.read(series, step, from, until) {
            Ok(rollups) => rollups.into_iter().map(|at| (at.start * 1_000, at.rollup)).collect(),
            Err(error) => {
                info!(%error, "a series cannot be looked at");
                Vec::new()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use firstbyte_core::run::Metric;
    use firstbyte_monitor::detect::State;
    use firstbyte_monitor::rollup::Measure;
    use firstbyte_monitor::store::Store;

    use super::*;

    /// Thirty days of a sample each ten minutes, the last two of them 20 ms slower over IPv6.
    #[test]
    fn a_change_in_the_store_is_an_event_that_can_be_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store.sqlite");
        let mut store = Store::open(&path).unwrap();
        let labels = |family: &str| SeriesLabels {
            target: "shop".into(),
            way: format!("tls=1.3 family={family}"),
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
                let slower = minute >= 28 * 1_440 && labels.way.ends_with('6');
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
        let history = StoreHistory { reader, series };
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
    }
}
