//! Exposes a recorder's figures to monitoring systems: the metrics are defined once and written in several formats.
//!
//! In: figures and the labels of their series. Out: Prometheus text or protobuf, for scrapes; remote-write or OTLP
//! requests, to be sent. `docs/formats.md`, "What a monitor answers", explains each metric.

mod labels;
mod otlp;
mod prometheus;
mod protobuf;
mod remote_write;
#[cfg(test)]
mod tests;
mod text;

use firstbyte_monitor::budget::SamplesBeyond;

use crate::recording::{
    Figures, Health, Judged, MEASURES, ObservedTimes, SeriesFigures, series_name,
};

use labels::Labels;
pub(crate) use labels::{Exposed, MOST_EXPOSED};
pub(crate) use otlp::{otlp, rejected};
pub(crate) use prometheus::{PROTOBUF_KIND, protobuf};
pub(crate) use remote_write::{WriteOptions, remote_write};
pub(crate) use text::{TEXT_KIND, text};

/// Prefix of all metric names.
const PREFIX: &str = "firstbyte_monitor_";

/// Body of a request, and the number of series or data points in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Batch {
    pub(crate) body: Vec<u8>,
    pub(crate) points: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// Properties shared by all series of one metric.
#[derive(Clone, Copy, Debug)]
struct Family {
    /// Name without [`PREFIX`].
    name: &'static str,
    kind: Kind,
    help: &'static str,
}

/// The series that a value belongs to.
#[derive(Clone, Copy)]
struct Owner<'a> {
    /// Labels of the series; absent for the monitor's own metrics.
    series: Option<&'a Labels>,
    /// One more label, whose value needs no escaping.
    more: Option<(&'static str, &'a str)>,
    /// Start of counting, in nanoseconds since 1970.
    since: u64,
}

impl<'a> Owner<'a> {
    const fn with(self, name: &'static str, value: &'a str) -> Self {
        Self { more: Some((name, value)), ..self }
    }

    /// All labels, those of the series first.
    fn pairs(self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let of_series = self.series.into_iter().flat_map(|labels| &labels.pairs);
        let of_series = of_series.map(|(name, value)| (name.as_str(), value.as_str()));
        of_series.chain(self.more)
    }
}

/// An output format. Each family comes before all its values, and these come before the next family.
trait Exposition {
    fn family(&mut self, family: Family);
    fn number(&mut self, owner: Owner<'_>, value: f64);
    fn histogram(&mut self, owner: Owner<'_>, times: &ObservedTimes);
}

/// A metric of each series, and a function that writes the values of one series.
type SeriesFamily = (Family, fn(&mut dyn Exposition, Owner<'_>, &SeriesFigures));

const SERIES_FAMILIES: [SeriesFamily; 9] = [
    (
        Family {
            name: "samples_total",
            kind: Kind::Counter,
            help: "Samples of a series, including failed ones.",
        },
        |out, owner, one| out.number(owner, one.samples as f64),
    ),
    (
        Family {
            name: "failures_total",
            kind: Kind::Counter,
            help: "Failed samples of a series, by type.",
        },
        |out, owner, one| {
            for (failure, number) in &one.failures {
                out.number(owner.with("type", &failure.to_string()), *number as f64);
            }
        },
    ),
    (
        Family {
            name: "monitored_seconds_total",
            kind: Kind::Counter,
            help: "Time that the samples of a series stand for.",
        },
        |out, owner, one| out.number(owner, one.monitored.as_secs_f64()),
    ),
    (
        Family {
            name: "failed_seconds_total",
            kind: Kind::Counter,
            help: "Time that the failed samples of a series stand for.",
        },
        |out, owner, one| out.number(owner, one.failed_time.as_secs_f64()),
    ),
    (
        Family {
            name: "unverified_total",
            kind: Kind::Counter,
            help: "Completed samples of a series that could not be verified on the wire.",
        },
        |out, owner, one| out.number(owner, one.unproven as f64),
    ),
    (
        Family {
            name: "last_sample_timestamp_seconds",
            kind: Kind::Gauge,
            help: "Start of the last sample of a series, seconds since 1970.",
        },
        |out, owner, one| {
            if let Some((began, _)) = one.last {
                // In whole milliseconds.
                out.number(owner, (began / 1_000_000) as f64 / 1e3);
            }
        },
    ),
    (
        Family {
            name: "last_sample_failed",
            kind: Kind::Gauge,
            help: "1 if the last sample of a series failed, else 0.",
        },
        |out, owner, one| {
            if let Some((_, failed)) = one.last {
                out.number(owner, f64::from(u8::from(failed)));
            }
        },
    ),
    (
        Family {
            name: "certificate_expiry_timestamp_seconds",
            kind: Kind::Gauge,
            help: "Expiry of the server's certificate seen last, seconds since 1970.",
        },
        |out, owner, one| {
            if let Some(expiry) = one.certificate_expiry {
                out.number(owner, expiry as f64);
            }
        },
    ),
    (
        Family {
            name: "time_seconds",
            kind: Kind::Histogram,
            help: "Times of verified samples, by metric.",
        },
        |out, owner, one| {
            for (measure, times) in MEASURES.iter().zip(&one.times) {
                if times.count() > 0 {
                    out.histogram(owner.with("metric", &measure.name()), times);
                }
            }
        },
    ),
];

/// Writes all figures: the monitor's own, then those of the series.
fn expose(exposed: &Exposed, figures: &Figures, out: &mut dyn Exposition) {
    expose_monitor(exposed, figures, out);
    expose_series(exposed, figures, out);
    expose_budgets(exposed, figures, out);
}

fn expose_series(exposed: &Exposed, figures: &Figures, out: &mut dyn Exposition) {
    for (family, values) in SERIES_FAMILIES {
        out.family(family);
        for (place, labels) in &exposed.labels {
            if let Some(one) = figures.series.get(*place) {
                let owner = Owner { series: Some(labels), more: None, since: one.since };
                values(out, owner, one);
            }
        }
    }
}

/// A metric of each promise; absent if there are no samples to judge by.
type BudgetFamily = (Family, fn(&Judged) -> Option<f64>);

const BUDGET_FAMILIES: [BudgetFamily; 3] = [
    (
        Family {
            name: "budget_over",
            kind: Kind::Gauge,
            help: "1 if more samples exceed the budget than chance explains, or fewer days are \
                   left, else 0.",
        },
        |judged| judged.judgement.as_ref().map(|_| f64::from(u8::from(judged.over))),
    ),
    (
        Family {
            name: "budget_beyond_ratio",
            kind: Kind::Gauge,
            help: "Share of samples of this hour and the previous one that exceed the budget's \
                   limit.",
        },
        |judged| samples_beyond(judged).map(|one| one.beyond as f64 / one.of as f64),
    ),
    (
        Family {
            name: "budget_allowed_ratio",
            kind: Kind::Gauge,
            help: "Share of samples that may exceed the budget's limit.",
        },
        |judged| samples_beyond(judged).map(|one| one.allowed),
    ),
];

/// Sample counts that a promise is judged by; absent for promises about certificates.
fn samples_beyond(judged: &Judged) -> Option<&SamplesBeyond> {
    judged.judgement.as_ref()?.samples_beyond()
}

fn expose_budgets(exposed: &Exposed, figures: &Figures, out: &mut dyn Exposition) {
    if figures.budgets.is_empty() {
        return;
    }
    for (family, value) in BUDGET_FAMILIES {
        out.family(family);
        for (place, labels) in &exposed.labels {
            let Some(series) = figures.labels.get(*place) else { continue };
            let owner = Owner { series: Some(labels), more: None, since: figures.since };
            for judged in figures.budgets.get(&series_name(series)).into_iter().flatten() {
                if let Some(value) = value(judged) {
                    out.number(owner.with("budget", &judged.promise.name), value);
                }
            }
        }
    }
}

fn expose_monitor(exposed: &Exposed, figures: &Figures, out: &mut dyn Exposition) {
    let own = Owner { series: None, more: None, since: figures.since };
    let Health { lost, store_fails, .. } = figures.health;
    let gauge = |name, help| Family { name, kind: Kind::Gauge, help };
    let version = own.with("version", env!("CARGO_PKG_VERSION"));
    let is_ready = not_ready(&figures.health).is_none();
    let lost_family = Family {
        name: "samples_lost_total",
        kind: Kind::Counter,
        help: "Samples lost because they could not be written.",
    };
    for (family, owner, value) in [
        (gauge("build_info", "1, with the version."), version, 1.0),
        (
            gauge("ready", "1 if samples are written and summed up, else 0."),
            own,
            f64::from(u8::from(is_ready)),
        ),
        (lost_family, own, lost as f64),
        (
            gauge("store_fails", "1 if the store cannot be written now, else 0."),
            own,
            f64::from(u8::from(store_fails)),
        ),
        (gauge("series", "Measured series."), own, exposed.all() as f64),
        (
            gauge("series_not_exposed", "Measured series that are not exposed here."),
            own,
            exposed.hidden() as f64,
        ),
    ] {
        out.family(family);
        out.number(owner, value);
    }
    out.family(Family {
        name: "lateness_seconds",
        kind: Kind::Histogram,
        help: "Delay from a sample's due time to its start, over all series.",
    });
    out.histogram(own, &figures.lateness);
}

/// Reason why a monitor is not ready.
pub(crate) const fn not_ready(health: &Health) -> Option<&'static str> {
    if !health.runs {
        Some("the recorder has not started yet")
    } else if health.loses {
        Some("samples are lost: raw files cannot be written")
    } else if health.store_fails {
        Some("the store cannot be written: sums are delayed")
    } else if health.catches_up {
        Some("the store is catching up with raw samples")
    } else {
        None
    }
}
