//! State of a running recorder: figures of each series since the start, whether files can be written, and annotations
//! to keep.
//!
//! Samples are counted where they are summed up anyway, so measurements never wait for this.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use std::collections::{BTreeMap, HashMap};

use firstbyte_clock::Realtime;
use firstbyte_core::run::{Metric, Taken};
use firstbyte_core::stats::ExponentialHistogram;
use firstbyte_core::timeline::{Connection, FailureType};
use firstbyte_monitor::rollup::{Measure, MonitoredPart, Rollup};
use firstbyte_monitor::store::{Annotation, SeriesLabels, Store};

use super::budgets::Budgets;

/// Upper bounds of the histogram buckets.
pub(crate) const BOUNDS: [Duration; 13] = [
    Duration::from_micros(1_000),
    Duration::from_micros(2_500),
    Duration::from_micros(5_000),
    Duration::from_micros(10_000),
    Duration::from_micros(25_000),
    Duration::from_micros(50_000),
    Duration::from_micros(100_000),
    Duration::from_micros(250_000),
    Duration::from_micros(500_000),
    Duration::from_micros(1_000_000),
    Duration::from_micros(2_500_000),
    Duration::from_micros(5_000_000),
    Duration::from_micros(10_000_000),
];

/// Times that have a histogram.
pub(crate) const MEASURES: [Measure; 9] = [
    Measure::Metric(Metric::Resolve),
    Measure::Metric(Metric::Connect),
    Measure::Metric(Metric::Tls),
    Measure::Metric(Metric::Quic),
    Measure::Metric(Metric::Wait),
    Measure::Metric(Metric::Receive),
    Measure::Metric(Metric::Ttfb),
    Measure::Metric(Metric::Total),
    Measure::Part(MonitoredPart::Server),
];

/// Initial scale of exposed exponential histograms: a bucket is 2.2 % wide.
const FIRST_SCALE: i8 = 5;
/// Maximum number of buckets in a histogram; with more, the scale is reduced. One more bucket still fits into a
/// kilobyte.
const MOST_BUCKETS: usize = 60;

/// Times counted in fixed and in exponential buckets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObservedTimes {
    /// For each bound, the number of times up to it and above the previous bound.
    pub(crate) buckets: [u64; BOUNDS.len()],
    /// Exponential buckets, with count and sum.
    pub(crate) exponential: ExponentialHistogram,
}

impl Default for ObservedTimes {
    fn default() -> Self {
        let mut exponential = ExponentialHistogram::default();
        exponential.downscale(FIRST_SCALE);
        Self { buckets: [0; BOUNDS.len()], exponential }
    }
}

impl ObservedTimes {
    pub(crate) fn add(&mut self, time: Duration) {
        let bucket = BOUNDS.partition_point(|bound| *bound < time);
        if let Some(bucket) = self.buckets.get_mut(bucket) {
            *bucket += 1;
        }
        self.exponential.add(time);
        self.exponential.limit_buckets(MOST_BUCKETS);
    }

    pub(crate) const fn count(&self) -> u64 {
        self.exponential.count()
    }

    pub(crate) fn sum_seconds(&self) -> f64 {
        self.exponential.sum_ns() as f64 / 1e9
    }
}

/// Figures of one series since the recorder started.
#[derive(Clone, Debug, Default)]
pub(crate) struct SeriesFigures {
    /// Start of counting, in nanoseconds since 1970.
    pub(crate) since: u64,
    pub(crate) samples: u64,
    /// Time that all samples stand for, and time that the failed ones stand for.
    pub(crate) monitored: Duration,
    pub(crate) failed_time: Duration,
    pub(crate) failures: BTreeMap<FailureType, u64>,
    /// Samples that ended as something else than requested.
    pub(crate) unproven: u64,
    /// Times of proven samples, in the order of [`MEASURES`].
    pub(crate) times: [ObservedTimes; MEASURES.len()],
    /// Start of the latest sample, in nanoseconds since 1970, and whether it failed.
    pub(crate) last: Option<(u64, bool)>,
    /// End of the validity of the server's latest certificate, in seconds since 1970.
    pub(crate) certificate_expiry: Option<i64>,
}

impl SeriesFigures {
    fn counted_from(since: u64) -> Self {
        Self { since, ..Self::default() }
    }

    fn add(&mut self, began: u64, one: &Rollup) {
        self.samples += one.samples;
        self.monitored = self.monitored.saturating_add(one.monitored);
        self.failed_time = self.failed_time.saturating_add(one.failed_time);
        for (failure, number) in &one.failures {
            *self.failures.entry(*failure).or_default() += number;
        }
        self.unproven += one.unproven.values().sum::<u64>();
        for (measure, histogram) in MEASURES.iter().zip(&mut self.times) {
            // The shortest time of a single sample is also its longest, exactly.
            if let Some((time, _)) = one.times(*measure).and_then(|times| times.ends()) {
                histogram.add(time);
            }
        }
        self.last = Some((began, one.failed() > 0));
    }
}

/// End of the validity of the certificate that the server sent over `connection`.
fn certificate_expiry(connection: &Connection) -> Option<i64> {
    connection.facts.tls.as_ref()?.certificates.first()?.not_after_unix
}

/// State of a recorder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Health {
    /// Whether the recorder is running.
    pub(crate) runs: bool,
    /// Samples that could not be written.
    pub(crate) lost: u64,
    /// Whether raw files currently cannot be written.
    pub(crate) loses: bool,
    /// Whether the store currently cannot be written.
    pub(crate) store_fails: bool,
    /// Whether raw files that the store misses are being read again.
    pub(crate) catches_up: bool,
}

/// All figures.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures {
    /// Start of counting for totals over all series, in nanoseconds since 1970.
    pub(crate) since: u64,
    /// Labels of all series, in the order of their cells.
    pub(crate) labels: Arc<Vec<SeriesLabels>>,
    /// Figures of the first series; later series have none.
    pub(crate) series: Vec<SeriesFigures>,
    /// How late samples started, over all series.
    pub(crate) lateness: ObservedTimes,
    pub(crate) health: Health,
    /// State of the promises.
    pub(crate) budgets: Arc<Budgets>,
}

/// An annotation to keep, and the channel for the result.
type Asked = (Annotation, tokio::sync::oneshot::Sender<Result<(), String>>);

/// Read access to a recorder's state.
#[derive(Clone)]
pub(crate) struct Observer {
    figures: Arc<Mutex<Figures>>,
    annotations: Sender<Asked>,
}

/// The recorder's side of an [`Observer`].
pub(crate) struct Observed {
    figures: Arc<Mutex<Figures>>,
    /// Maximum number of series with figures.
    most: usize,
    annotations: Receiver<Asked>,
}

/// Lets the judging thread publish the state of promises.
pub(super) struct Board(Arc<Mutex<Figures>>);

impl Board {
    pub(super) fn show(&self, budgets: Arc<Budgets>) {
        lock(&self.0).budgets = budgets;
    }
}

/// Creates both sides for a recorder of series with these labels; the first `most` series have figures.
pub(crate) fn observed(labels: Vec<SeriesLabels>, most: usize) -> (Observer, Observed) {
    let since = Realtime::now().unix_nanos();
    let figures = Arc::new(Mutex::new(Figures { since, ..Figures::default() }));
    let (annotations, asked) = channel();
    let observed = Observed { figures: Arc::clone(&figures), most, annotations: asked };
    observed.follow(labels);
    (Observer { figures, annotations }, observed)
}

fn lock(figures: &Mutex<Figures>) -> MutexGuard<'_, Figures> {
    figures.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Observer {
    /// Copy of the current figures.
    pub(crate) fn figures(&self) -> Figures {
        lock(&self.figures).clone()
    }

    /// Labels of all series being measured.
    pub(crate) fn labels(&self) -> Arc<Vec<SeriesLabels>> {
        Arc::clone(&lock(&self.figures).labels)
    }

    /// State of the promises.
    pub(crate) fn budgets(&self) -> Arc<Budgets> {
        Arc::clone(&lock(&self.figures).budgets)
    }

    pub(crate) fn health(&self) -> Health {
        lock(&self.figures).health
    }

    /// Asks the recorder to keep `annotation`, and waits for the result.
    pub(crate) async fn keep(&self, annotation: Annotation) -> Result<(), String> {
        let (tell, told) = tokio::sync::oneshot::channel();
        let gone = || "the recorder stopped".to_owned();
        self.annotations.send((annotation, tell)).map_err(|_| gone())?;
        told.await.unwrap_or_else(|_| Err(gone()))
    }
}

impl Observed {
    /// Counts a sample that began at `began`; `one` is its rollup.
    pub(super) fn count(&self, taken: &Taken, began: u64, one: &Rollup) {
        let mut figures = lock(&self.figures);
        figures.lateness.add(taken.lateness);
        if let Some(series) = figures.series.get_mut(usize::from(taken.cell)) {
            series.add(began, one);
            // Resumed handshakes show no certificate.
            let shown = certificate_expiry(&taken.sample.connection);
            series.certificate_expiry = shown.or(series.certificate_expiry);
        }
    }

    /// Switches to series with these labels. Series that existed before keep their figures.
    pub(super) fn follow(&self, labels: Vec<SeriesLabels>) {
        type Name<'a> = (&'a str, &'a str, &'a str);
        fn name(labels: &SeriesLabels) -> Name<'_> {
            (&labels.place, &labels.target, &labels.variant)
        }
        let mut figures = lock(&self.figures);
        let before = std::mem::take(&mut figures.series);
        let known = Arc::clone(&figures.labels);
        let mut before: HashMap<Name<'_>, SeriesFigures> =
            known.iter().map(name).zip(before).collect();
        let now = Realtime::now().unix_nanos();
        let begin_anew = || SeriesFigures::counted_from(now);
        let shown = labels.iter().take(self.most);
        figures.series =
            shown.map(|labels| before.remove(&name(labels)).unwrap_or_else(begin_anew)).collect();
        figures.labels = Arc::new(labels);
    }

    /// For the judging thread.
    pub(super) fn board(&self) -> Board {
        Board(Arc::clone(&self.figures))
    }

    pub(super) fn says(&self, health: Health) {
        lock(&self.figures).health = health;
    }

    /// Keeps the requested annotations.
    pub(super) fn keep_annotations(&self, store: &Store) {
        for (annotation, tell) in self.annotations.try_iter() {
            let kept = store.put_annotation(&annotation).map_err(|error| error.to_string());
            // The requester may be gone.
            let _ = tell.send(kept);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(target: &str) -> SeriesLabels {
        SeriesLabels { target: target.into(), ..SeriesLabels::default() }
    }

    #[test]
    fn a_time_on_a_bound_is_within_it() {
        let mut histogram = ObservedTimes::default();
        for millis in [0, 1, 2, 10_000, 10_001] {
            histogram.add(Duration::from_millis(millis));
        }
        assert_eq!((histogram.buckets[0], histogram.buckets[1], histogram.buckets[12]), (2, 1, 1));
        assert_eq!((histogram.count(), histogram.sum_seconds()), (5, 20.004));
    }

    #[test]
    fn exponential_buckets_are_few_however_times_are_spread() {
        let mut histogram = ObservedTimes::default();
        for micros in 1_000..1_040 {
            histogram.add(Duration::from_micros(micros));
        }
        assert_eq!(histogram.exponential.scale(), FIRST_SCALE);
        for power in 0..40_000 {
            histogram.add(Duration::from_nanos(power * power));
        }
        let exponential = &histogram.exponential;
        assert!(exponential.buckets().count() <= MOST_BUCKETS, "{exponential:?}");
        assert!((0..FIRST_SCALE).contains(&exponential.scale()), "{exponential:?}");
        let in_buckets: u64 = exponential.buckets().map(|(_, number)| number).sum();
        assert_eq!((in_buckets + exponential.zero_count(), histogram.count()), (40_040, 40_040));
    }

    #[test]
    fn a_series_that_is_not_shown_counts_for_lateness_alone() {
        let (observer, observed) = observed(vec![labels("a"), labels("b")], 1);
        let mut one = Rollup::default();
        one.samples = 1;
        one.add_time(Measure::Metric(Metric::Total), Duration::from_micros(1_234));
        for cell in [0, 1] {
            let taken = Taken {
                stands_for: None,
                cell,
                standing: firstbyte_core::run::Standing::Proven,
                lateness: Duration::from_millis(3),
                sample: firstbyte_core::timeline::Sample::default(),
            };
            observed.count(&taken, 7, &one);
        }
        let figures = observer.figures();
        assert_eq!((figures.lateness.count(), figures.series.len()), (2, 1));
        assert_eq!((figures.series[0].samples, figures.series[0].last), (1, Some((7, false))));
        let total = &figures.series[0].times[7];
        assert_eq!((total.buckets[1], total.sum_seconds()), (1, 0.001_234));
        // A remaining series keeps its figures, whatever its position.
        observed.follow(vec![labels("a"), labels("c")]);
        assert_eq!(observer.figures().series[0].samples, 1);
        observed.follow(vec![labels("c"), labels("a")]);
        assert_eq!(observer.figures().series[0].samples, 0);
        assert_eq!(observer.labels()[1].target, "a");
    }

    #[test]
    fn a_certificates_end_is_known_until_another_one_is_shown() {
        use firstbyte_core::timeline::{Certificate, Sample, TlsFacts};
        let (observer, observed) = observed(vec![labels("a")], 1);
        let shows = |certificates: Vec<Certificate>| {
            let mut sample = Sample::default();
            sample.connection.facts.tls = Some(TlsFacts { certificates, ..TlsFacts::default() });
            let standing = firstbyte_core::run::Standing::Proven;
            let taken =
                Taken { stands_for: None, cell: 0, standing, lateness: Duration::ZERO, sample };
            observed.count(&taken, 7, &Rollup::default());
            observer.figures().series[0].certificate_expiry
        };
        let until = |not_after_unix| Certificate { not_after_unix, ..Certificate::default() };
        assert_eq!(shows(Vec::new()), None);
        assert_eq!(shows(vec![until(Some(20)), until(Some(10))]), Some(20), "the server's own");
        assert_eq!(shows(Vec::new()), Some(20));
        assert_eq!(shows(vec![until(Some(30))]), Some(30));
    }
}
