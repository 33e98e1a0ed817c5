//! The loop: series of a configuration, measured as the calendar says, until told to stop.
//!
//! In: a configuration. Out: samples through a sink, in the order in which they end. A sample that fails is a sample; nothing is
//! tried again before its time.

use std::rc::Rc;
use std::time::Duration;

use firstbyte_clock::timer_now;
use firstbyte_core::run::{Cell, Factor, Taken};
use firstbyte_core::timeline::Failure;
use firstbyte_probe::experiment::axis::WAY;
use firstbyte_probe::experiment::{Matrix, SampleSink, Variant, Visited, Visitor};
use firstbyte_probe::probe::{Clients, Equipment, SetupError};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::sleep_until;
use tracing::{debug, info};

use crate::calendar::{Calendar, Timing};
use crate::configuration::{Configuration, Limits};

/// Most series of one process: a run file numbers its cells by two bytes.
pub const MOST_SERIES: usize = u16::MAX as usize;
/// The way of a target that has no axes.
const AS_NEGOTIATED: &str = "as negotiated";

/// One target, visited in one way, again and again.
#[derive(Debug)]
pub struct Series {
    /// Target and way, by name: the cell that its samples are of.
    pub cell: Cell,
    /// How often.
    pub timing: Timing,
    variant: Variant,
}

impl Series {
    /// Who takes its samples. To be called within the runtime that it visits in.
    ///
    /// # Errors
    /// [`SetupError`].
    pub fn visitor(&self, equipment: &Equipment) -> Result<Visitor, SetupError> {
        self.variant.visitor(equipment)
    }
}

/// A way of a target that is not measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Whose.
    pub target: String,
    /// Which way.
    pub way: String,
    /// Why it cannot be had.
    pub why: String,
}

/// All series of `configuration`, target by target, and what `clients` cannot do.
pub fn series(configuration: &Configuration, clients: &Clients) -> (Vec<Series>, Vec<LeftOut>) {
    let (mut all, mut left_out) = (Vec::new(), Vec::new());
    for settings in &configuration.targets {
        let mut matrix = Matrix::new(&settings.axes, &settings.visit());
        matrix.leave_out_impossible(clients);
        let missing = matrix.left_out.into_iter();
        left_out.extend(missing.map(|(way, why)| LeftOut {
            target: settings.name.clone(),
            way,
            why,
        }));
        for variant in matrix.variants {
            let target = &variant.visit.target;
            let timing = Timing {
                every: settings.every,
                jitter: settings.jitter,
                host: target.host.clone(),
            };
            let cell = named(&settings.name, &variant.cell);
            all.push(Series { cell, timing, variant });
        }
    }
    (all, left_out)
}

/// The cell of a way of a target: whatever the target's axes are, all cells have the same two.
fn named(target: &str, way: &Cell) -> Cell {
    let written: Vec<String> =
        way.factors.iter().map(|factor| format!("{}={}", factor.axis, factor.value)).collect();
    let factor =
        |axis: &str, value: String, label: String| Factor { axis: axis.to_owned(), value, label };
    let (value, label) = match written.is_empty() {
        true => (AS_NEGOTIATED.to_owned(), AS_NEGOTIATED.to_owned()),
        false => (written.join(" "), way.name()),
    };
    Cell {
        factors: vec![
            factor("site", target.to_owned(), target.to_owned()),
            factor(WAY, value, label),
        ],
        url: way.url.clone(),
        twin_of: None,
    }
}

/// A handle on a loop that is under way. Clones are handles on the same one.
#[derive(Clone, Default)]
pub struct WatchControl(Rc<Notify>);

impl WatchControl {
    /// Ends the loop: samples that are under way are dropped.
    pub fn stop(&self) {
        self.0.notify_one();
    }
}

/// What a loop came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watched {
    /// Samples taken.
    pub samples: u64,
    /// Samples left out because the time for the next one had come.
    pub missed: u64,
    /// How late samples began: 99 of 100 within it.
    pub lateness_p99: Option<Duration>,
}

/// Measures `series`, each by its visitor, on the current [`tokio::task::LocalSet`], until it is stopped.
///
/// # Errors
/// Those of `sink`, which end it.
pub async fn watch<S: SampleSink>(
    series: &[Series],
    visitors: &[Rc<Visitor>],
    limits: Limits,
    seed: u64,
    control: &WatchControl,
    sink: &mut S,
) -> Result<Watched, S::Error> {
    let origin = timer_now();
    let mut calendar = Calendar::new(limits, seed);
    for (number, one) in (0..).zip(series) {
        calendar.add(number, &one.timing, Duration::ZERO);
    }
    info!(series = series.len(), "watching begins");
    let mut visits: JoinSet<Visited> = JoinSet::new();
    let mut samples = 0;
    loop {
        let now = timer_now().saturating_duration_since(origin);
        while let Some(begun) = calendar.begin(now) {
            let cell = begun.series as usize;
            let visitor = Rc::clone(&visitors[cell]);
            visits.spawn_local(visit(cell, visitor, begun.lateness));
        }
        let wake = calendar.next();
        tokio::select! {
            biased;
            () = control.0.notified() => break,
            Some(finished) = visits.join_next() => {
                let visited = match finished {
                    Ok(visited) => visited,
                    Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
                };
                let Visited { cell, sample, lateness, unprepared } = visited;
                let number = u32::try_from(cell).unwrap_or(u32::MAX);
                let now = timer_now().saturating_duration_since(origin);
                calendar.ended(number, now, sample.failure().is_some());
                if let Some(Failure { cause, .. }) = unprepared {
                    debug!(cell, %cause, "what it takes for granted could not be had");
                }
                let standing = series[cell].variant.standing(&sample);
                samples += 1;
                let cell = u16::try_from(cell).unwrap_or(u16::MAX);
                sink.take_in(Taken { cell, standing, lateness, sample })?;
            }
            () = wait_until(wake.map(|at| origin + at)) => {}
        }
    }
    let lateness = calendar.lateness().quantile(0.99);
    let watched = Watched {
        samples,
        missed: calendar.missed(),
        lateness_p99: lateness.map(|quantile| quantile.high),
    };
    info!(samples, missed = watched.missed, "watching ends");
    Ok(watched)
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

#[cfg(test)]
mod tests {
    use firstbyte_core::timeline::{Cause, Offset, PhaseName, Sample};
    use firstbyte_probe::probe::{Prober, Target, Visiting};

    use super::*;

    /// Takes 50 ms; every third visit fails.
    struct Steady(std::cell::Cell<u32>);

    impl Prober for Steady {
        fn probe<'a>(&'a self, _: &'a Target) -> Visiting<'a, Sample> {
            Box::pin(async {
                tokio::time::sleep(Duration::from_millis(50)).await;
                self.0.set(self.0.get() + 1);
                let mut sample = Sample::default();
                let failure = Failure {
                    phase: PhaseName::Connect,
                    cause: Cause::Reset,
                    at: Some(Offset::ZERO),
                };
                sample.connection.failure = self.0.get().is_multiple_of(3).then_some(failure);
                sample
            })
        }
    }

    const CONFIGURATION: &str = r#"
[defaults]
every = "10s"
[[target]]
url = "https://{a,b}.test/"
vary = ["tls=1.2,1.3", "family=4,6"]
[[target]]
url = "https://c.test/"
"#;

    fn configuration() -> Configuration {
        let mut no_files = |_: &str| Err(std::io::Error::other("none"));
        Configuration::read(CONFIGURATION, &mut no_files).unwrap()
    }

    #[test]
    fn targets_times_ways_are_series() {
        let (series, left_out) = series(&configuration(), &Clients::default());
        let names: Vec<String> = series.iter().map(|one| one.cell.name()).collect();
        assert_eq!(names.len(), 9);
        assert_eq!(
            (names[0].as_str(), names[8].as_str()),
            ("a.test, TLS 1.2, IPv4", "c.test, as negotiated")
        );
        assert_eq!(series[5].cell.factors[1].value, "tls=1.2 family=6");
        assert!(left_out.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn each_series_is_measured_at_its_times_until_told_to_stop() {
        let (series, _) = series(&configuration(), &Clients::default());
        let visitor = |one: &Series| {
            let target = one.variant.visit.target.clone();
            Rc::new(Visitor { prober: Box::new(Steady(std::cell::Cell::new(0))), target })
        };
        let visitors: Vec<Rc<Visitor>> = series.iter().map(visitor).collect();
        let control = WatchControl::default();
        let stop = control.clone();
        let mut counts = vec![0_u32; series.len()];
        let mut sink = |taken: Taken| {
            counts[usize::from(taken.cell)] += 1;
            Ok::<(), ()>(())
        };
        let local = tokio::task::LocalSet::new();
        let watched = local
            .run_until(async {
                tokio::task::spawn_local(async move {
                    tokio::time::sleep(Duration::from_secs(1_000)).await;
                    stop.stop();
                });
                watch(&series, &visitors, Limits::default(), 1, &control, &mut sink).await
            })
            .await
            .unwrap();
        assert!(counts.iter().all(|count| (98..=101).contains(count)), "{counts:?}");
        assert_eq!((watched.samples, watched.missed), (u64::from(counts.iter().sum::<u32>()), 0));
        assert!(watched.lateness_p99.unwrap() < Duration::from_millis(200));
    }

    #[tokio::test(start_paused = true)]
    async fn a_sink_that_fails_ends_it() {
        let (mut series, _) = series(&configuration(), &Clients::default());
        series.truncate(1);
        let target = series[0].variant.visit.target.clone();
        let prober = Box::new(Steady(std::cell::Cell::new(0)));
        let visitors = [Rc::new(Visitor { prober, target })];
        let mut sink = |_: Taken| Err("full");
        let local = tokio::task::LocalSet::new();
        let control = WatchControl::default();
        let ended = local
            .run_until(watch(&series, &visitors, Limits::default(), 1, &control, &mut sink))
            .await;
        assert_eq!(ended, Err("full"));
    }
}
