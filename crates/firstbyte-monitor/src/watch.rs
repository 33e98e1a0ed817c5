//! The loop: measures the series of a configuration when the calendar says so, until told to stop.
//!
//! In: a configuration. Out: samples through a sink, in the order in which they end. A failed sample is a sample too.
//! After the first failure, and after the first success that follows an outage, the loop measures a series again at
//! once. When two failures in a row have begun an outage, it also measures the other series of the target. These extra
//! samples stand for no time.

#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use firstbyte_clock::timer_now;
use firstbyte_core::run::{Cell, Factor, Taken};
use firstbyte_core::timeline::{Cause, Failure, Mark, PhaseName, Sample};
use firstbyte_probe::experiment::axis::WAY;
use firstbyte_probe::experiment::{Axis, Matrix, SampleSink, Variant, Visited, Visitor};
use firstbyte_probe::probe::options::{Options, SharedOptions};
use firstbyte_probe::probe::{Clients, Equipment, SetupError, Target};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::sleep_until;
use tracing::{debug, info};

use crate::calendar::{Calendar, SeriesNumber, Timing};
use crate::configuration::{Configuration, TargetSettings};
use crate::edges::Edges;
use crate::expected_status::ExpectedStatus;

/// Most series of one process: a run file stores cell numbers in two bytes.
pub const MOST_SERIES: usize = u16::MAX as usize;
/// Variant name of a target that has no axes.
const AS_NEGOTIATED: &str = "as negotiated";

/// One target, visited repeatedly in one way.
#[derive(Debug, PartialEq)]
pub struct Series {
    /// Target and variant, by name: the cell that its samples belong to.
    pub cell: Cell,
    /// How often the series is measured.
    pub timing: Timing,
    variant: Variant,
    expected_status: ExpectedStatus,
}

impl Series {
    /// Target and variant. The pair is unique within a configuration.
    fn name(&self) -> (&str, &str) {
        let factor = |index: usize| self.cell.factors.get(index);
        let value = |index| factor(index).map_or("", |factor| factor.value.as_str());
        (value(0), value(1))
    }

    /// Turns `sample` into a failure if its response has an unexpected status.
    fn check_status(&self, sample: &mut Sample) {
        if sample.failure().is_some() {
            return;
        }
        let connection = &mut sample.connection;
        let status = connection.facts.http.as_ref().and_then(|http| http.status);
        let Some(status) = status.filter(|status| !self.expected_status.accepts(*status)) else {
            return;
        };
        let at = [Mark::ResponseEnd, Mark::ResponseStart]
            .into_iter()
            .find_map(|mark| connection.marks.at(mark));
        let cause = Cause::HttpStatus { status };
        connection.failure = Some(Failure { phase: PhaseName::Receive, cause, at });
    }

    /// The visitor that takes the samples. Call this within the runtime that runs the visits.
    ///
    /// # Errors
    /// [`SetupError`] if the visitor cannot be set up.
    pub fn visitor(&self, equipment: &Equipment) -> Result<Visitor, SetupError> {
        self.variant.visitor(equipment)
    }
}

/// A variant of a target that is not measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Name of the target.
    pub target: String,
    /// The variant that is impossible.
    pub variant: String,
    /// Why it is impossible.
    pub why: String,
}

/// All series of `configuration`, target by target, and the variants that `clients` cannot measure.
///
/// A target measured at all of its edges has one series for each address in `edges`. Until addresses are known, it is
/// measured as usual.
pub fn series(
    configuration: &Configuration,
    edges: &Edges,
    clients: &Clients,
) -> (Vec<Series>, Vec<LeftOut>) {
    let (mut all, mut left_out) = (Vec::with_capacity(configuration.targets.len()), Vec::new());
    // Most targets differ only in their URLs, so thousands of them share their options.
    let mut last: Vec<SharedOptions> = Vec::new();
    for settings in &configuration.targets {
        let mut matrix = matrix(settings, edges);
        matrix.leave_out_impossible(clients);
        let missing = matrix.left_out.into_iter();
        left_out.extend(missing.map(|(cell, why)| LeftOut {
            target: settings.name.clone(),
            variant: cell.name(),
            why,
        }));
        for (place, variant) in matrix.variants.iter_mut().enumerate() {
            let options = &mut variant.visit.options;
            match last.get_mut(place) {
                Some(known) if *known == *options => *options = known.clone(),
                Some(known) => *known = options.clone(),
                None => last.push(options.clone()),
            }
        }
        for variant in matrix.variants {
            let target = &variant.visit.target;
            let timing = Timing {
                every: settings.every,
                jitter: settings.jitter,
                host: asked(target, &variant.visit.options),
            };
            let cell = named(&settings.name, &variant.cell);
            let expected_status = settings.expected_status.clone();
            all.push(Series { cell, timing, variant, expected_status });
        }
    }
    (all, left_out)
}

/// The variants of a target, at each of its edges if those are measured.
fn matrix(settings: &TargetSettings, edges: &Edges) -> Matrix {
    let addresses = match settings.all_edges {
        true => edges.of_host(&settings.target.host),
        false => Vec::new(),
    };
    let anywhere = Matrix::new(&settings.axes, &settings.visit());
    if addresses.is_empty() {
        return anywhere;
    }
    // An address has one family. Variants of the other family do not apply to it and are not reported as left out.
    let at_each = |address: IpAddr| {
        let axes = [&[Axis::of_edge(address)], settings.axes.as_slice()].concat();
        Matrix::new(&axes, &settings.visit()).variants
    };
    let variants = addresses.into_iter().flat_map(at_each).collect();
    Matrix { variants, left_out: anywhere.left_out }
}

/// The host that a visit asks: a name, or a name at one address if an address is chosen.
fn asked(target: &Target, options: &Options) -> String {
    match options.resolve.first().map(|chosen| chosen.addresses.as_slice()) {
        Some([address]) => format!("{} at {address}", target.host),
        _ => target.host.clone(),
    }
}

/// The cell of one variant of a target. All cells have the same two factors, whatever the target's axes are.
fn named(target: &str, variant: &Cell) -> Cell {
    let written: Vec<String> =
        variant.factors.iter().map(|factor| format!("{}={}", factor.axis, factor.value)).collect();
    let factor =
        |axis: &str, value: String, label: String| Factor { axis: axis.to_owned(), value, label };
    let (value, label) = match written.is_empty() {
        true => (AS_NEGOTIATED.to_owned(), AS_NEGOTIATED.to_owned()),
        false => (written.join(" "), variant.name()),
    };
    Cell {
        factors: vec![
            factor("site", target.to_owned(), target.to_owned()),
            factor(WAY, value, label),
        ],
        url: variant.url.clone(),
        twin_of: None,
    }
}

/// A configuration, its series, and their visitors.
pub struct Watchlist {
    /// Source of the series.
    pub configuration: Configuration,
    /// All series.
    pub series: Vec<Series>,
    /// Visitors of the series, in the same order.
    pub visitors: Vec<Rc<Visitor>>,
}

/// Receives samples, and is told which series they belong to.
pub trait WatchSink: SampleSink {
    /// From now on the cells of samples refer to the series of `list`. All samples of removed series have already
    /// arrived.
    ///
    /// # Errors
    /// The reason why it cannot follow the list; the error ends the loop.
    fn follow(&mut self, list: &Watchlist) -> Result<(), Self::Error>;
}

/// A handle on a running loop. Clones refer to the same loop.
#[derive(Clone, Default)]
pub struct WatchControl(Rc<Asked>);

#[derive(Default)]
struct Asked {
    notify: Notify,
    stop: std::cell::Cell<bool>,
    next: RefCell<Option<Watchlist>>,
}

impl WatchControl {
    /// Ends the loop and drops samples under way.
    pub fn stop(&self) {
        self.0.stop.set(true);
        self.0.notify.notify_one();
    }

    /// Replaces the watchlist by `list`. Series that stay the same keep their times, sessions and open connections.
    ///
    /// The loop first waits for samples under way of removed series, and then begins the new series.
    pub fn follow(&self, list: Watchlist) {
        self.0.next.replace(Some(list));
        self.0.notify.notify_one();
    }
}

/// Result of a loop.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watched {
    /// Samples taken.
    pub samples: u64,
    /// Samples left out because the time for the next one had come.
    pub missed: u64,
    /// The 99th percentile of how late samples began.
    pub lateness_p99: Option<Duration>,
}

/// Measures the series of `list` on the current [`tokio::task::LocalSet`] until stopped.
///
/// # Errors
/// An error of `sink` ends the loop.
pub async fn watch<S: WatchSink>(
    list: Watchlist,
    seed: u64,
    control: &WatchControl,
    sink: &mut S,
) -> Result<Watched, S::Error> {
    let mut watch = Watch::new(list, seed);
    info!(series = watch.list.series.len(), "monitoring begins");
    let mut visits: JoinSet<Visited> = JoinSet::new();
    let mut samples = 0;
    loop {
        let now = watch.now();
        while let Some(begun) = watch.calendar.begin(now) {
            let visitor = Rc::clone(&watch.list.visitors[watch.cells[&begun.series]]);
            visits.spawn_local(visit(begun.series as usize, visitor, begun.lateness));
        }
        let wake = watch.calendar.next();
        tokio::select! {
            biased;
            () = control.0.notify.notified() => {
                if control.0.stop.get() {
                    break;
                }
                if let Some(next) = control.0.next.take() {
                    watch.leave_for(next);
                }
            }
            Some(finished) = visits.join_next() => {
                let visited = match finished {
                    Ok(visited) => visited,
                    Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
                };
                samples += 1;
                if let Some(taken) = watch.ended(visited) {
                    sink.take_in(taken)?;
                }
            }
            () = wait_until(wake.map(|at| watch.origin + at)) => {}
        }
        if watch.switch() {
            info!(series = watch.list.series.len(), "the configuration changed");
            sink.follow(&watch.list)?;
        }
    }
    let lateness = watch.calendar.lateness().quantile(0.99);
    let watched = Watched {
        samples,
        missed: watch.calendar.missed(),
        lateness_p99: lateness.map(|quantile| quantile.high),
    };
    info!(samples, missed = watched.missed, "monitoring ends");
    Ok(watched)
}

struct Watch {
    list: Watchlist,
    calendar: Calendar,
    origin: tokio::time::Instant,
    /// Cell of each series of the calendar. Series numbers are never reused.
    cells: HashMap<SeriesNumber, usize>,
    /// Series number in the calendar of each cell.
    places: Vec<Option<SeriesNumber>>,
    numbers: SeriesNumber,
    /// Current streak of failures or successes of each measured series.
    streaks: HashMap<SeriesNumber, Streak>,
    /// Series removed from the calendar whose last sample is still under way.
    leaving: HashSet<SeriesNumber>,
    /// Takes over when `leaving` is empty.
    next: Option<Watchlist>,
}

impl Watch {
    fn new(list: Watchlist, seed: u64) -> Self {
        let mut watch = Self {
            calendar: Calendar::new(list.configuration.limits, seed),
            origin: timer_now(),
            cells: HashMap::new(),
            places: vec![None; list.series.len()],
            numbers: 0,
            streaks: HashMap::new(),
            leaving: HashSet::new(),
            next: None,
            list,
        };
        for cell in 0..watch.list.series.len() {
            watch.add(cell, Duration::ZERO);
        }
        watch
    }

    fn now(&self) -> Duration {
        timer_now().saturating_duration_since(self.origin)
    }

    fn add(&mut self, cell: usize, now: Duration) {
        self.calendar.add(self.numbers, &self.list.series[cell].timing, now);
        self.cells.insert(self.numbers, cell);
        self.places[cell] = Some(self.numbers);
        self.numbers += 1;
    }

    fn ended(&mut self, visited: Visited) -> Option<Taken> {
        let Visited { cell: number, mut sample, lateness, unprepared } = visited;
        let number = SeriesNumber::try_from(number).ok()?;
        let cell = *self.cells.get(&number)?;
        let is_leaving = self.leaving.remove(&number);
        if is_leaving {
            self.cells.remove(&number);
            self.streaks.remove(&number);
        }
        self.list.series[cell].check_status(&mut sample);
        let now = self.now();
        // A series that is no longer in the calendar stands for its interval.
        let stands_for = self.calendar.ended(number, now);
        let stands_for = stands_for.unwrap_or(self.list.series[cell].timing.every);
        if !is_leaving {
            self.follow_up(number, cell, sample.failure().is_some(), now);
        }
        if let Some(Failure { cause, .. }) = unprepared {
            debug!(cell, %cause, "the prerequisites of the variant could not be met");
        }
        let standing = self.list.series[cell].variant.standing(&sample);
        let cell = u16::try_from(cell).ok()?;
        Some(Taken { cell, standing, lateness, stands_for: Some(stands_for), sample })
    }

    /// The other series of the target of `cell`, which are neighbours in the list.
    fn others_of_target(&self, cell: usize) -> Vec<SeriesNumber> {
        let target = |cell: &usize| self.list.series[*cell].name().0;
        let own = target(&cell);
        let before = (0..cell).rev().take_while(|other| target(other) == own);
        let after = (cell + 1..self.list.series.len()).take_while(|other| target(other) == own);
        before.chain(after).filter_map(|other| self.places.get(other).copied().flatten()).collect()
    }

    /// Requests extra samples when an outage may begin or end.
    fn follow_up(&mut self, number: SeriesNumber, cell: usize, failed: bool, now: Duration) {
        let streak = self.streaks.entry(number).or_default();
        let changed = streak.add(failed);
        match changed {
            StreakChange::FirstFailure | StreakChange::FirstSuccess => {
                self.calendar.measure_at_once(number, now);
            }
            StreakChange::OutageBegins => {
                let others = self.others_of_target(cell);
                let is_up = |other: &SeriesNumber| {
                    self.streaks.get(other).is_none_or(|streak| !streak.failed)
                };
                let others: Vec<SeriesNumber> = others.into_iter().filter(is_up).collect();
                others.into_iter().for_each(|other| self.calendar.measure_at_once(other, now));
            }
            StreakChange::None => {}
        }
    }

    /// Begins no more samples of series that are missing from `next`.
    fn leave_for(&mut self, next: Watchlist) {
        let staying: HashSet<SeriesNumber> =
            self.staying(&next).into_iter().map(|(number, _)| number).collect();
        let (calendar, leaving, streaks) =
            (&mut self.calendar, &mut self.leaving, &mut self.streaks);
        self.cells.retain(|number, _| {
            if staying.contains(number) || leaving.contains(number) {
                return true;
            }
            let under_way = calendar.remove(*number);
            if under_way {
                leaving.insert(*number);
            } else {
                streaks.remove(number);
            }
            under_way
        });
        self.next = Some(next);
    }

    /// Current series that are also in `next`, with their places there.
    fn staying(&self, next: &Watchlist) -> Vec<(SeriesNumber, usize)> {
        let places: HashMap<_, usize> =
            next.series.iter().enumerate().map(|(cell, series)| (series.name(), cell)).collect();
        let stays = |(number, cell): (&SeriesNumber, &usize)| {
            let series = &self.list.series[*cell];
            let place = *places.get(&series.name())?;
            let same = next.series[place] == *series && !self.leaving.contains(number);
            same.then_some((*number, place))
        };
        self.cells.iter().filter_map(stays).collect()
    }

    /// Switches to the next watchlist if nothing delays that, and returns whether it did.
    fn switch(&mut self) -> bool {
        let Some(mut next) = self.next.take_if(|_| self.leaving.is_empty()) else { return false };
        let now = self.now();
        let mut cells = HashMap::new();
        let mut is_new = vec![true; next.series.len()];
        let mut places = vec![None; next.series.len()];
        for (number, place) in self.staying(&next) {
            next.visitors[place] = Rc::clone(&self.list.visitors[self.cells[&number]]);
            is_new[place] = false;
            cells.insert(number, place);
            places[place] = Some(number);
        }
        (self.cells, self.places) = (cells, places);
        self.calendar.limit(next.configuration.limits);
        self.list = next;
        for place in (0..is_new.len()).filter(|place| is_new[*place]) {
            self.add(place, now);
        }
        true
    }
}

/// Consecutive samples of one series that all failed or all succeeded.
#[derive(Clone, Copy, Debug, Default)]
struct Streak {
    failed: bool,
    samples: u32,
    /// Set by two failures in a row, which begin an outage; cleared by two successes.
    is_down: bool,
}

/// How one more sample changes a streak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StreakChange {
    /// Nothing to follow up.
    None,
    /// The first failure after a success.
    FirstFailure,
    /// The second failure in a row.
    OutageBegins,
    /// The first success during an outage.
    FirstSuccess,
}

impl Streak {
    fn add(&mut self, failed: bool) -> StreakChange {
        let same = self.samples > 0 && self.failed == failed;
        self.samples = if same { self.samples.saturating_add(1) } else { 1 };
        self.failed = failed;
        match (failed, self.samples, self.is_down) {
            (true, 1, false) => StreakChange::FirstFailure,
            (true, 2.., false) => {
                self.is_down = true;
                StreakChange::OutageBegins
            }
            (false, 1, true) => StreakChange::FirstSuccess,
            (false, 2.., true) => {
                self.is_down = false;
                StreakChange::None
            }
            _ => StreakChange::None,
        }
    }
}

async fn visit(cell: usize, visitor: Rc<Visitor>, lateness: Duration) -> Visited {
    let Visitor { prober, target } = &*visitor;
    let unprepared = prober.prepare(target).await.err();
    let sample = prober.probe(target).await;
    Visited { cell, sample, lateness, unprepared }
}

async fn wait_until(when: Option<tokio::time::Instant>) {
    match when {
        Some(when) => sleep_until(when).await,
        None => std::future::pending().await,
    }
}
