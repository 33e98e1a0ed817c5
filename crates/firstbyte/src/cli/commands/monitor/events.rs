//! `firstbyte monitor events`: lists the events in a monitor's store, which the monitor may be writing meanwhile.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;

use firstbyte_monitor::detect::Event;
use firstbyte_monitor::event_state::EventState;
use firstbyte_monitor::store::{Annotation, Step, StoreError, StoreReader, StoredEvent};
use firstbyte_report::monitor_period::PeriodEntry;
use firstbyte_report::units::count;
use serde::Serialize;
use serde::de::IgnoredAny;

use super::reading::{DAY, Reading, minute, problem};
use super::safe;
use crate::cli::exit::{self, Problem};
use crate::cli::exports::print;
use crate::cli::terminal::style;
use crate::plans::{ColorChoice, EventsForm, MonitorEventsPlan};

/// Annotations within this many seconds of an event are shown with it.
const NEAR: i64 = 6 * 3_600;

pub(in crate::cli) fn run(plan: &MonitorEventsPlan) -> Result<u8, Problem> {
    let Reading { mut reader, path, period } =
        Reading::begin(plan.store.as_deref(), [plan.since, plan.until], &plan.targets)?;
    let failed = |error: StoreError| problem(&path, &error);
    let mut found = Found::read(plan, &reader, period).map_err(failed)?;
    let text = match plan.form {
        EventsForm::Text if found.events.is_empty() => {
            found.measured = is_measured(&mut reader, &found.period).map_err(failed)?;
            found.nothing(plan)
        }
        EventsForm::Text => found.text(style(ColorChoice::Never).width),
        EventsForm::Json => found.json()?,
        EventsForm::Ndjson => {
            found.events.iter().map(|listed| format!("{}\n", listed.stored.json)).collect()
        }
    };
    print(&text).map(|()| exit::OK)
}

/// The events of a period, for other commands that report on it.
pub(in crate::cli::commands) struct PeriodEvents(Found);

/// The events in `period` at `targets` (at all targets if it is empty), except withdrawn ones.
pub(in crate::cli::commands) fn period_events(
    reader: &StoreReader,
    period: Range<i64>,
    targets: &[String],
) -> Result<PeriodEvents, StoreError> {
    let plan = MonitorEventsPlan {
        store: None,
        since: None,
        until: None,
        states: Vec::new(),
        targets: targets.to_vec(),
        form: EventsForm::Text,
    };
    Found::read(&plan, reader, period).map(PeriodEvents)
}

impl PeriodEvents {
    /// The text of `monitor events`.
    pub(in crate::cli::commands) fn text(&self, width: usize) -> String {
        match self.0.events.is_empty() {
            true => "No events found.\n".to_owned(),
            false => self.0.text(width),
        }
    }

    /// Entries for a page.
    pub(in crate::cli::commands) fn entries(&self) -> Vec<PeriodEntry> {
        self.0.entries()
    }

    /// The events' JSON as stored.
    pub(in crate::cli::commands) fn json(&self) -> Vec<serde_json::Value> {
        let events = self.0.events.iter();
        events.filter_map(|listed| serde_json::from_str(&listed.stored.json).ok()).collect()
    }
}

/// Whether any series has samples around this period.
fn is_measured(reader: &mut StoreReader, period: &Range<i64>) -> Result<bool, StoreError> {
    let from = Step::Day.number(period.start) * DAY;
    for (series, _) in reader.series()? {
        if !reader.rollups(series, Step::Day, from, period.end, |_| false)?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// An event as stored, and parsed if this version knows its kind.
struct Listed {
    stored: StoredEvent,
    event: Option<Event>,
}

impl Listed {
    fn new(stored: StoredEvent) -> Self {
        let event = serde_json::from_str(&stored.json).ok();
        Self { stored, event }
    }

    fn is_of(&self, targets: &[String]) -> bool {
        let shown = self.event.as_ref().map_or(&[][..], |event| &event.scope().targets);
        targets.is_empty() || targets.iter().any(|target| shown.contains(target))
    }

    fn is_near(&self, at: i64) -> bool {
        let between = match &self.event {
            Some(Event::Level(level)) => level.at_between.map(|at| at / 1_000),
            Some(outage @ Event::Outage(_)) => {
                [outage.at(), outage.until().unwrap_or_else(|| outage.at())].map(|at| at / 1_000)
            }
            None => [self.stored.at; 2],
        };
        let [first, last] = between;
        (first - NEAR..=last + NEAR).contains(&at)
    }

    fn sentence(&self) -> String {
        match &self.event {
            Some(event) => event.sentence(),
            None => {
                format!("{}: written by a newer firstbyte; --format json shows it", self.stored.id)
            }
        }
    }
}

/// Events and annotations of a period.
struct Found {
    period: Range<i64>,
    /// Oldest first.
    events: Vec<Listed>,
    annotations: Vec<Annotation>,
    /// Number of withdrawn events, which are only listed on request.
    withdrawn: usize,
    measured: bool,
}

impl Found {
    fn read(
        plan: &MonitorEventsPlan,
        reader: &StoreReader,
        period: Range<i64>,
    ) -> Result<Self, StoreError> {
        // Another program may have stored invalid JSON.
        let is_json = |event: &StoredEvent| serde_json::from_str::<IgnoredAny>(&event.json).is_ok();
        let all = reader.events(period.start, period.end)?.into_iter().rev().filter(is_json);
        let of_targets = all.map(Listed::new).filter(|listed| listed.is_of(&plan.targets));
        let asked = |listed: &Listed| match plan.states.as_slice() {
            [] => listed.stored.state != EventState::Withdrawn.name(),
            states => states.iter().any(|state| listed.stored.state == state.name()),
        };
        let (events, others): (Vec<Listed>, Vec<Listed>) = of_targets.partition(asked);
        let withdrawn = match plan.states.is_empty() {
            true => others.len(),
            false => 0,
        };
        let mut annotations = reader
            .annotations(period.start.saturating_sub(NEAR), period.end.saturating_add(NEAR))?;
        annotations.retain(|annotation| events.iter().any(|event| event.is_near(annotation.at)));
        Ok(Self { period, events, annotations, withdrawn, measured: true })
    }

    /// The text for a period without events.
    fn nothing(&self, plan: &MonitorEventsPlan) -> String {
        let period = format!("from {} to {}", minute(self.period.start), minute(self.period.end));
        let mut text = match (self.measured, plan.states.is_empty() && plan.targets.is_empty()) {
            (false, _) => format!("No samples {period}: whether anything changed is unknown."),
            (true, true) => format!("Nothing changed {period}."),
            (true, false) => format!("No such event {period}."),
        };
        text.push('\n');
        text.push_str(&self.left_out());
        text
    }

    fn left_out(&self) -> String {
        match self.withdrawn {
            0 => String::new(),
            number => {
                let events = count(number as u64, "withdrawn event");
                format!("{events} not shown: --state withdrawn shows them.\n")
            }
        }
    }

    /// Events and annotations in order of time.
    fn entries(&self) -> Vec<PeriodEntry> {
        let annotations = self.annotations.iter().map(|annotation| PeriodEntry {
            at: annotation.at,
            until: None,
            at_text: minute(annotation.at),
            state: "annotation".to_owned(),
            text: noted(annotation),
            series: None,
        });
        let events = self.events.iter().map(|listed| PeriodEntry {
            at: listed.stored.at,
            until: match &listed.event {
                // An ongoing outage has no end yet.
                Some(outage @ Event::Outage(_)) => {
                    Some(outage.until().map_or(self.period.end, |until| until / 1_000))
                }
                _ => None,
            },
            at_text: minute(listed.stored.at),
            state: listed.stored.state.clone(),
            text: listed.sentence(),
            series: listed.event.as_ref().map(|event| event.series().to_vec()),
        });
        let mut entries: Vec<PeriodEntry> = annotations.chain(events).collect();
        // An annotation comes before events of the same time.
        entries.sort_by_key(|entry| entry.at);
        entries
    }

    /// Events and annotations in order of time, wrapped to `width` characters where possible.
    fn text(&self, width: usize) -> String {
        let mut text = String::new();
        for entry in self.entries() {
            let _ = writeln!(text, "{}  {}", entry.at_text, safe(&entry.state));
            wrap(&safe(&entry.text), width, &mut text);
        }
        text.push_str(&self.left_out());
        text
    }

    /// JSON of events, exactly as stored, and of annotations.
    fn json(&self) -> Result<String, Problem> {
        let events: Vec<&str> =
            self.events.iter().map(|listed| listed.stored.json.as_str()).collect();
        let annotations: Vec<Noted<'_>> = self
            .annotations
            .iter()
            .map(|Annotation { at, text, tags }| Noted { at: *at, text, tags })
            .collect();
        let annotations = serde_json::to_string(&annotations)
            .map_err(|error| Problem::new(exit::WRITE, error.to_string()))?;
        let Range { start, end } = self.period;
        Ok(format!(
            "{{\"format\":\"firstbyte/monitor-event-list\",\"version\":1,\"since\":{start},\"until\":{end},\
             \"events\":[{}],\"annotations\":{annotations}}}\n",
            events.join(",")
        ))
    }
}

#[derive(Serialize)]
struct Noted<'a> {
    at: i64,
    text: &'a str,
    tags: &'a BTreeMap<String, String>,
}

fn noted(annotation: &Annotation) -> String {
    let tags: Vec<String> =
        annotation.tags.iter().map(|(name, value)| format!("{name} {value}")).collect();
    match tags.is_empty() {
        true => annotation.text.clone(),
        false => format!("{} ({})", annotation.text, tags.join(", ")),
    }
}

/// Appends `sentence` to `text`, wrapped to `width`, each line indented by two blanks.
pub(super) fn wrap(sentence: &str, width: usize, text: &mut String) {
    let mut used = 0;
    for word in sentence.split_whitespace() {
        let length = word.chars().count();
        if used == 0 {
            text.push_str("  ");
            used = 2 + length;
        } else if used + 1 + length > width {
            text.push_str("\n  ");
            used = 2 + length;
        } else {
            text.push(' ');
            used += 1 + length;
        }
        text.push_str(word);
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use firstbyte_monitor::store::{SeriesLabels, Store};
    use time::OffsetDateTime;

    use super::super::reading::{check_targets, period};
    use super::*;
    use crate::plans::Moment;

    const AT: i64 = 1_795_392_000;

    fn event(id: &str, state: &str, at: i64, target: &str) -> StoredEvent {
        let stamp = OffsetDateTime::from_unix_timestamp(at).unwrap();
        let stamp = format!("{}T{:02}:{:02}:00Z", stamp.date(), stamp.hour(), stamp.minute());
        let target = serde_json::Value::from(target);
        let json = format!(
            r#"{{"format":"firstbyte/event","version":1,"kind":"level","id":"{id}","state":"{state}","metric":"total","statistic":"median","before_ns":20000000,"after_ns":10000000,"difference_ns":-10000000,"interval_ns":[-10500000,-9500000],"at":"{stamp}","at_between":["{stamp}","{stamp}"],"cause":[],"scope":{{"targets":[{target}],"of":2,"tags":{{}},"quorum":{{}}}},"samples":{{"before":60,"after":60}},"series":[1]}}"#
        );
        StoredEvent { id: id.to_owned(), at, state: state.to_owned(), json }
    }

    fn plan(form: EventsForm) -> MonitorEventsPlan {
        MonitorEventsPlan {
            store: None,
            since: Some(Moment::At(AT - DAY)),
            until: Some(Moment::At(AT + DAY)),
            states: Vec::new(),
            targets: Vec::new(),
            form,
        }
    }

    fn filled(path: &Path) -> Store {
        let mut store = Store::open(path).unwrap();
        let labels =
            |target: &str| SeriesLabels { target: target.into(), ..SeriesLabels::default() };
        store.enrol(&[labels("shop"), labels("news")]).unwrap();
        for event in [
            event("2", "confirmed", AT + 3_600, "news"),
            event("1", "provisional", AT, "shop\u{1b}[31m"),
            event("3", "withdrawn", AT + 60, "shop"),
            StoredEvent { json: "{".to_owned(), ..event("4", "confirmed", AT, "shop") },
            StoredEvent {
                json: r#"{"version":2}"#.to_owned(),
                ..event("5", "confirmed", AT + 9_000, "x")
            },
        ] {
            store.put_event(&event).unwrap();
        }
        for (at, text) in [(AT + 1_800, "1.2 is out"), (AT - 7 * 3_600, "long before")] {
            let tags = BTreeMap::from([("service".to_owned(), "shop".to_owned())]);
            store.put_annotation(&Annotation { at, text: text.to_owned(), tags }).unwrap();
        }
        store
    }

    /// The writer keeps the store open meanwhile.
    #[test]
    fn events_are_listed_the_newest_last_with_what_was_noted() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store.sqlite");
        let _writer = filled(&path);
        let reader = StoreReader::open(&path).unwrap();
        let plan = plan(EventsForm::Text);
        let found =
            Found::read(&plan, &reader, period([plan.since, plan.until], AT).unwrap()).unwrap();
        let told = |stored: &StoredEvent| {
            let event: Event = serde_json::from_str(&stored.json).unwrap();
            let mut text = String::new();
            wrap(&safe(&event.sentence()), 60, &mut text);
            text
        };
        let text = found.text(60);
        assert_eq!(
            text,
            format!(
                "2026-11-23 00:00 UTC  provisional\n{}\
                 2026-11-23 00:30 UTC  annotation\n  \
                   1.2 is out (service shop)\n\
                 2026-11-23 01:00 UTC  confirmed\n{}\
                 2026-11-23 02:30 UTC  confirmed\n  \
                   5: written by a newer firstbyte; --format json shows it\n\
                 1 withdrawn event not shown: --state withdrawn shows them.\n",
                told(&event("1", "provisional", AT, "shop\u{1b}[31m")),
                told(&event("2", "confirmed", AT + 3_600, "news")),
            )
        );
        assert!(text.contains(r"shop\u{1b}[31m") && text.contains("news"), "{text}");
        let json: serde_json::Value = serde_json::from_str(&found.json().unwrap()).unwrap();
        let ids: Vec<_> =
            json["events"].as_array().unwrap().iter().map(|event| &event["id"]).collect();
        assert_eq!(
            ids,
            ["1".into(), "2".into(), serde_json::Value::Null].iter().collect::<Vec<_>>()
        );
        assert_eq!(json["annotations"].as_array().unwrap().len(), 1);
        assert_eq!(json["since"], AT - DAY);
    }

    #[test]
    fn nothing_is_said_with_the_period() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store.sqlite");
        let _writer = filled(&path);
        let mut reader = StoreReader::open(&path).unwrap();
        let mut plan = plan(EventsForm::Text);
        plan.targets = vec!["shop".to_owned()];
        let mut found =
            Found::read(&plan, &reader, period([plan.since, plan.until], AT).unwrap()).unwrap();
        let said = found.nothing(&plan);
        assert!(said.starts_with("No such event from 2026-11-22 00:00 UTC to "), "{said}");
        assert!(said.ends_with("\n1 withdrawn event not shown: --state withdrawn shows them.\n"));
        plan.states = vec![EventState::Withdrawn];
        let withdrawn = Found::read(&plan, &reader, found.period.clone()).unwrap();
        assert_eq!((withdrawn.events.len(), withdrawn.withdrawn), (1, 0));
        // Nothing was measured then.
        found.measured = is_measured(&mut reader, &found.period).unwrap();
        assert!(found.nothing(&plan).starts_with("No samples from "));
        let Err(Ok(why)) = check_targets(&["sho".to_owned()], &reader) else { panic!("is taken") };
        assert!(why.to_string().contains("there are shop, news"), "{why}");
        plan.since = plan.until;
        assert!(period([plan.since, plan.until], AT).is_err());
    }
}
