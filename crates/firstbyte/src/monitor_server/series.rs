//! Reads points of a series, events and annotations from the store for HTTP responses.
//!
//! Each response is one read on a thread that may wait for the disk.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use firstbyte_core::stats::ExponentialHistogram;
use firstbyte_monitor::detect::Event;
use firstbyte_monitor::rollup::Measure;
use firstbyte_monitor::store::{SeriesId, SeriesLabels, Step, StoreError, StoreReader};
use serde::Serialize;
use tokio::sync::OwnedSemaphorePermit;

use super::annotations::{Shown, now};
use super::answers::Refusal;
use super::parameters::{Parameters, period};

/// Maximum number of points in a response.
const MOST_POINTS: i64 = 11_000;
/// Number of points if the query has no step.
const USUAL_POINTS: i64 = 120;
/// Maximum number of events or annotations in a response.
const MOST_EVENTS: usize = 1_000;
/// Maximum number of variants listed if the query must choose one.
const MOST_NAMED: usize = 20;
const DAY: i64 = 86_400;

/// A series named in a query.
pub(super) struct SeriesName {
    target: String,
    variant: Option<String>,
    place: String,
}

/// A series and a period named in a query.
pub(super) struct SeriesQuery {
    name: SeriesName,
    measure: Measure,
    step: Step,
    period: Range<i64>,
}

#[derive(Serialize)]
pub(super) struct Points {
    format: &'static str,
    version: u32,
    target: String,
    variant: String,
    variant_label: String,
    place: String,
    metric: String,
    step: &'static str,
    from: i64,
    until: i64,
    /// Rollups of the period that cannot be read.
    #[serde(skip_serializing_if = "is_none")]
    damaged: u64,
    points: Vec<Point>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over references")]
const fn is_none(number: &u64) -> bool {
    *number == 0
}

#[derive(Serialize)]
struct Point {
    at: i64,
    samples: u64,
    failures: u64,
    /// Share of the time.
    #[serde(skip_serializing_if = "Option::is_none")]
    failed_share: Option<f64>,
    unverified: u64,
    /// Samples that the quantiles are computed from.
    count: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    median_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p90_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p99_ns: Option<u64>,
}

impl SeriesName {
    /// The series named by `target`, `variant` and `place`; without a place, the monitor's own `place`.
    pub(super) fn from_parameters(parameters: &Parameters, place: &str) -> Result<Self, Refusal> {
        let target = parameters.needed("target", "www.example.com")?.to_owned();
        let variant = parameters.get("variant").map(str::to_owned);
        let place = parameters.get("place").unwrap_or(place).to_owned();
        Ok(Self { target, variant, place })
    }

    /// Finds the series among all series of the store.
    pub(super) fn find(
        &self,
        all: Vec<(SeriesId, SeriesLabels)>,
    ) -> Result<(SeriesId, SeriesLabels), Refusal> {
        let Self { target, variant, place, .. } = self;
        let not_found = |what| Refusal::Because(http::StatusCode::NOT_FOUND, what);
        let of_target: Vec<(SeriesId, SeriesLabels)> = all
            .into_iter()
            .filter(|(_, labels)| labels.target == *target && labels.place == *place)
            .collect();
        if of_target.is_empty() {
            let what = format!("unknown target {target:?} at place {place:?}");
            return Err(not_found(format!("{what}: /api/v1/targets lists all targets")));
        }
        let named: Vec<&str> =
            of_target.iter().take(MOST_NAMED).map(|(_, labels)| labels.variant.as_str()).collect();
        let ways = named.join("; ");
        match variant {
            Some(variant) => of_target
                .iter()
                .find(|(_, labels)| labels.variant == *variant || labels.variant_label == *variant)
                .cloned()
                .ok_or_else(|| {
                    not_found(format!("{target:?} has no variant {variant:?}; known: {ways}"))
                }),
            None => match of_target.as_slice() {
                [only] => Ok(only.clone()),
                _ => Err(Refusal::Bad(format!("\"variant\" is missing: {target:?} has {ways}"))),
            },
        }
    }
}

impl SeriesQuery {
    pub(super) fn read(query: Option<&str>, place: &str) -> Result<Self, Refusal> {
        let known = ["target", "variant", "place", "metric", "step", "from", "until"];
        let parameters = Parameters::read(query, &known)?;
        let name = SeriesName::from_parameters(&parameters, place)?;
        let metric = parameters.needed("metric", "total")?;
        let measure = Measure::named(metric).ok_or_else(|| {
            let all: Vec<String> = Measure::all().map(Measure::name).collect();
            let all = all.join(", ");
            Refusal::Bad(format!("unknown metric {metric:?}; known: {all}"))
        })?;
        let step = parameters.get("step").map_or(Ok(Step::Hour), step_named)?;
        let until = parameters.moment("until")?.unwrap_or_else(now);
        let usual = (until - USUAL_POINTS * step.seconds()).max(0);
        let from = parameters.moment("from")?.unwrap_or(usual);
        let period = period(["from", "until"], from, until)?;
        let points = (period.end - period.start).div_euclid(step.seconds());
        if points > MOST_POINTS {
            return Err(Refusal::Bad(format!(
                "{points} times a {} from {from} until {until} requested, at most {MOST_POINTS} \
                 are allowed: request a longer step or a shorter period",
                step.name()
            )));
        }
        Ok(Self { name, measure, step, period })
    }

    pub(super) fn points(self, store: &Path) -> Result<Points, Refusal> {
        let mut reader = StoreReader::open(store).map_err(unreadable)?.without_facts();
        let (id, labels) = self.name.find(reader.series().map_err(unreadable)?)?;
        let Self { measure, step, period: Range { start: from, end: until }, .. } = self;
        let rollups = reader.rollups(id, step, from, until, |asked| asked == measure);
        let points = rollups.map_err(unreadable)?.into_iter().map(|at| {
            let times = at.rollup.times(measure);
            let quantile = |q| times.and_then(|times| quantile(times, q));
            Point {
                at: at.start,
                samples: at.rollup.samples,
                failures: at.rollup.failed(),
                failed_share: at.rollup.failed_share(),
                unverified: at.rollup.unproven.values().sum(),
                count: times.map_or(0, ExponentialHistogram::count),
                median_ns: quantile(0.5),
                p90_ns: quantile(0.9),
                p99_ns: quantile(0.99),
            }
        });
        let points = points.collect();
        let SeriesLabels { target, variant, place, variant_label, .. } = labels;
        Ok(Points {
            format: "firstbyte/monitor-series",
            version: 1,
            target,
            variant,
            variant_label,
            place,
            metric: measure.name(),
            step: step.name(),
            from,
            until,
            damaged: reader.damaged(),
            points,
        })
    }
}

/// The step called `name`.
pub(super) fn step_named(name: &str) -> Result<Step, Refusal> {
    Step::ALL
        .into_iter()
        .find(|known| known.name() == name)
        .ok_or_else(|| Refusal::Bad(format!("unknown step {name:?}; known: minute, hour, day")))
}

pub(super) fn quantile(times: &ExponentialHistogram, q: f64) -> Option<u64> {
    let value: Duration = times.quantile(q)?.value;
    u64::try_from(value.as_nanos()).ok()
}

/// Tells the client why the store cannot be read, but not where it is.
pub(super) fn unreadable(error: StoreError) -> Refusal {
    tracing::info!(%error, "the store cannot be read");
    let why = match &error {
        StoreError::Version { .. } => "a newer firstbyte wrote it",
        error if error.is_corrupt() => "the store is damaged",
        error if error.is_locked() => "another process has the store locked",
        _ => "see the monitor's log",
    };
    Refusal::unavailable(format!("the store cannot be read now: {why}"))
}

/// A period of events or annotations.
pub(super) struct EventsQuery(Range<i64>);

impl EventsQuery {
    /// Defaults to the last thirty days, plus an hour in the future because clocks differ.
    pub(super) fn read(query: Option<&str>) -> Result<Self, Refusal> {
        let parameters = Parameters::read(query, &["since", "until"])?;
        let until = parameters.moment("until")?.unwrap_or_else(|| now() + 3_600);
        let since = parameters.moment("since")?.unwrap_or((until - 30 * DAY).max(0));
        period(["since", "until"], since, until).map(Self)
    }

    /// Events as JSON, latest first; each event's JSON is copied from the store.
    pub(super) fn events(&self, store: &Path) -> Result<String, Refusal> {
        let Range { start, end } = self.0;
        let reader = StoreReader::open(store).map_err(unreadable)?;
        let mut events = reader.events(start, end).map_err(unreadable)?;
        let more = events.len() > MOST_EVENTS;
        events.truncate(MOST_EVENTS);
        // Another program may have written invalid JSON.
        let is_json = |json: &String| serde_json::from_str::<serde::de::IgnoredAny>(json).is_ok();
        let bodies = events.into_iter().map(|event| event.json).filter(is_json);
        let bodies: Vec<String> = bodies.map(with_sentence).collect();
        Ok(format!(
            "{{\"format\":\"firstbyte/monitor-events\",\"version\":1,\"since\":{start},\"until\":{end},\"more\":{more},\
             \"events\":[{}]}}",
            bodies.join(",")
        ))
    }

    pub(super) fn annotations(&self, store: &Path) -> Result<Annotations, Refusal> {
        let Range { start, end } = self.0;
        let reader = StoreReader::open(store).map_err(unreadable)?;
        let mut all = reader.annotations(start, end).map_err(unreadable)?;
        let more = all.len() > MOST_EVENTS;
        // Keep the latest ones.
        all.drain(..all.len().saturating_sub(MOST_EVENTS));
        Ok(Annotations {
            format: "firstbyte/monitor-annotations",
            version: 1,
            since: start,
            until: end,
            more,
            annotations: all.into_iter().map(Shown::new).collect(),
        })
    }
}

/// Adds the event's sentence to its JSON.
fn with_sentence(event: String) -> String {
    let Ok(known) = serde_json::from_str::<Event>(&event) else { return event };
    let Ok(sentence) = serde_json::to_string(&known.sentence()) else { return event };
    match event.trim_end().strip_suffix('}') {
        Some(fields) => format!("{fields},\"sentence\":{sentence}}}"),
        None => event,
    }
}

#[derive(Serialize)]
pub(super) struct Annotations {
    format: &'static str,
    version: u32,
    since: i64,
    until: i64,
    /// Whether earlier annotations were left out.
    more: bool,
    annotations: Vec<Shown>,
}

/// Measured series, grouped by target.
#[derive(Serialize)]
pub(super) struct Targets<'a> {
    format: &'static str,
    version: u32,
    place: &'a str,
    targets: Vec<TargetShown<'a>>,
}

#[derive(Serialize)]
struct TargetShown<'a> {
    target: &'a str,
    tags: &'a std::collections::BTreeMap<String, String>,
    series: Vec<WayShown<'a>>,
}

#[derive(Serialize)]
struct WayShown<'a> {
    variant: &'a str,
    variant_label: &'a str,
    url: &'a str,
}

impl<'a> Targets<'a> {
    pub(super) fn from_labels(place: &'a str, series: &'a [SeriesLabels]) -> Self {
        let mut targets: Vec<TargetShown<'a>> = Vec::new();
        for labels in series {
            let SeriesLabels { target, variant, variant_label, url, tags, .. } = labels;
            let shown = WayShown { variant, variant_label, url };
            // Series of one target are adjacent.
            match targets.last_mut().filter(|last| last.target == *target) {
                Some(last) => last.series.push(shown),
                None => targets.push(TargetShown { target, tags, series: vec![shown] }),
            }
        }
        Self { format: "firstbyte/monitor-targets", version: 1, place, targets }
    }
}

/// Runs `look` on the store, on a thread that may block.
///
/// The thread holds `turn` until `look` returns, even if nobody waits for the result any more.
pub(super) async fn look_at<T: Send + 'static>(
    turn: OwnedSemaphorePermit,
    store: PathBuf,
    look: impl FnOnce(&Path) -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    let look = move || {
        let _turn = turn;
        look(&store)
    };
    tokio::task::spawn_blocking(look)
        .await
        .unwrap_or_else(|_| Err(Refusal::unavailable("reading the store was aborted")))
}

#[cfg(test)]
mod tests {
    use firstbyte_monitor::store::{Annotation, Store, StoredEvent};

    use super::*;

    fn refused(query: &str) -> String {
        match SeriesQuery::read(Some(query), "") {
            Err(Refusal::Bad(why)) => why,
            _ => panic!("{query} is taken"),
        }
    }

    #[test]
    fn what_is_wrong_with_a_query_is_said() {
        for (query, part) in [
            ("metric=total", "target is missing: write target=www.example.com"),
            ("target=a", "metric is missing: write metric=total"),
            ("target=a&metric=tota", "known: resolve, connect, tls"),
            ("target=a&metric=total&step=week", "known: minute, hour, day"),
            ("target=a&metric=total&from=5&until=5", "from (5) is not before until (5)"),
            ("target=a&metric=total&from=0&until=864000&step=minute", "14400 times a minute"),
            ("target=a&metric=total&form=1", "unknown parameter \"form\""),
        ] {
            let why = refused(query);
            assert!(why.contains(part), "{query}: {why}");
        }
        let query =
            SeriesQuery::read(Some("target=a&metric=part.server&until=864000"), "x").unwrap();
        assert_eq!((query.period, query.name.place.as_str()), (432_000..864_000, "x"));
    }

    #[test]
    fn a_way_has_to_be_chosen_where_there_are_several() {
        let labels = |variant: &str| SeriesLabels {
            target: "a".into(),
            variant: format!("tls={variant}"),
            variant_label: format!("TLS {variant}"),
            ..SeriesLabels::default()
        };
        let all = vec![(1, labels("1.2")), (2, labels("1.3"))];
        let find = |query: &str| SeriesQuery::read(Some(query), "").unwrap().name.find(all.clone());
        assert_eq!(find("target=a&metric=rtt&variant=tls%3D1.3").unwrap().0, 2);
        assert_eq!(find("target=a&metric=rtt&variant=TLS+1.2").unwrap().0, 1);
        let none = find("target=a&metric=rtt");
        assert_eq!(
            none,
            Err(Refusal::Bad(
                "\"variant\" is missing: \"a\" has tls=1.2; \
                                           tls=1.3"
                    .into()
            ))
        );
        assert!(matches!(find("target=a&metric=rtt&variant=x"), Err(Refusal::Because(..))));
        assert!(matches!(find("target=b&metric=rtt"), Err(Refusal::Because(..))));
        assert!(matches!(find("target=a&metric=rtt&place=p"), Err(Refusal::Because(..))));
    }

    #[test]
    fn events_are_the_last_ones_as_they_are_stored() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store.sqlite");
        let query = |text| EventsQuery::read(Some(text)).unwrap();
        assert!(matches!(query("").events(&path), Err(Refusal::Because(..))), "there is no store");
        std::fs::write(&path, [0xa5; 4_096]).unwrap();
        let Err(Refusal::Because(_, why)) = query("").events(&path) else { panic!("is read") };
        assert_eq!(why, "the store cannot be read now: the store is damaged");
        std::fs::remove_file(&path).unwrap();
        let store = Store::open(&path).unwrap();
        for at in 0..1_003_i64 {
            let json = match at {
                1_001 => "{".to_owned(),
                _ => format!("{{\"at\":{at},\"size\":0.1}}"),
            };
            let (id, state) = (at.to_string(), "confirmed".to_owned());
            store.put_event(&StoredEvent { id, at, state, json }).unwrap();
            let text = format!("number {at}");
            let tags = std::collections::BTreeMap::new();
            store.put_annotation(&Annotation { at, text, tags }).unwrap();
        }
        let events = query("since=0&until=1003").events(&path).unwrap();
        let read: serde_json::Value = serde_json::from_str(&events).unwrap();
        assert_eq!(read["more"], true);
        let all = read["events"].as_array().unwrap();
        assert_eq!((all.len(), &all[0]["at"], &all[998]["at"]), (999, &1_002.into(), &3.into()));
        assert!(events.contains("{\"at\":5,\"size\":0.1}"));
        let some = query("since=5&until=7").events(&path).unwrap();
        assert!(some.ends_with(
            "\"more\":false,\"events\":[{\"at\":6,\"size\":0.1},{\"at\":5,\"size\":0.1}]}"
        ));
        let annotations = query("since=0&until=1003").annotations(&path).unwrap();
        let read = serde_json::to_value(&annotations).unwrap();
        assert_eq!(
            (&read["more"], &read["annotations"][0]["text"]),
            (&true.into(), &"number 3".into())
        );
    }
}
