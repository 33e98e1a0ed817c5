//! A monitor's store with generated history: targets with a daily cycle, a change with its cause, failures.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use firstbyte_core::run::Metric;
use firstbyte_core::timeline::FailureType;
use firstbyte_monitor::rollup::{Measure, MonitoredFact, MonitoredPart, Rollup};
use firstbyte_monitor::store::{Annotation, SeriesLabels, Store, StoredEvent};
use serde_json::{Value, json};
use time::OffsetDateTime;

/// Parameters of the history.
pub(crate) struct Past {
    /// Names of targets; each has two ways.
    pub(crate) targets: Vec<String>,
    /// End of the history, seconds since 1970.
    pub(crate) until: i64,
    pub(crate) days: i64,
    /// Minutes between two samples.
    pub(crate) every: i64,
}

pub(crate) const WAYS: [(&str, &str); 2] = [("family=4", "IPv4"), ("family=6", "IPv6")];

impl Past {
    /// When the first target changed: from then on its handshake over IPv6 needs one round trip less.
    pub(crate) fn changed_at(&self) -> i64 {
        (self.until - 30 * 3_600) / 3_600 * 3_600
    }

    /// Writes the history to `directory/store.sqlite`.
    pub(crate) fn write(&self, directory: &Path) {
        std::fs::create_dir_all(directory).unwrap();
        let mut store = Store::open(&directory.join("store.sqlite")).unwrap();
        let labels: Vec<SeriesLabels> = self
            .targets
            .iter()
            .enumerate()
            .flat_map(|(place, target)| WAYS.map(|way| labels(place, target, way)))
            .collect();
        let ids = store.enrol(&labels).unwrap();
        let mut random = fastrand::Rng::with_seed(7);
        for (series, id) in ids.iter().enumerate() {
            let mut at = self.until - self.days * 86_400;
            while at < self.until {
                let rollup = self.sample(series, at, &mut random);
                store.add_rollup(*id, at.unsigned_abs() * 1_000_000_000, &rollup);
                at += self.every * 60;
            }
            store.flush(&[]).unwrap();
        }
        // As if the monitor had run for two more days.
        while store.close_periods(self.until + 2 * 86_400).unwrap().closed > 0 {}
        let at = self.changed_at();
        store.put_event(&stored(at, &self.change(ids[1]))).unwrap();
        let (text, tags) = ("deploy 4812".to_owned(), BTreeMap::new());
        store.put_annotation(&Annotation { at: at - 120, text, tags }).unwrap();
    }

    fn sample(&self, series: usize, at: i64, random: &mut fastrand::Rng) -> Rollup {
        let mut rollup = Rollup::default();
        rollup.samples = 1;
        let is_failed = (series % 7 == 4 && random.u8(..) < 16)
            || (series % 9 == 5 && (self.until - at) / 3_600 == 9);
        if is_failed {
            rollup.failures.insert(FailureType::TcpTimedOut, 1);
            return rollup;
        }
        let changed = series == 1 && at >= self.changed_at();
        let day = (at % 86_400) as f64 / 86_400.0 * std::f64::consts::TAU;
        let cycle = 1.0 + 0.08 * day.sin();
        let rtt = (8.0 + 11.0 * (series % 5) as f64) * cycle;
        let noise = |random: &mut fastrand::Rng| {
            let slow = if random.u8(..) < 8 { 1.6 } else { 1.0 };
            slow * (0.97 + 0.06 * random.f64())
        };
        let trips = if series % 2 == 1 && !changed { 2.0 } else { 1.0 };
        let server = 4.0 + 3.0 * (series % 3) as f64;
        let [connect, tls, wait] =
            [rtt, trips * rtt + 1.0, rtt + server].map(|ms| ms * noise(random));
        let receive = 1.2 * noise(random);
        for (metric, ms) in [
            (Metric::Resolve, 0.8),
            (Metric::Connect, connect),
            (Metric::Tls, tls),
            (Metric::Send, 0.05),
            (Metric::Wait, wait),
            (Metric::Receive, receive),
            (Metric::Ttfb, 0.85 + connect + tls + wait),
            (Metric::Total, 0.85 + connect + tls + wait + receive),
        ] {
            rollup.add_time(Measure::Metric(metric), milliseconds(ms));
        }
        for (part, ms) in [
            (MonitoredPart::Network, (2.0 + trips) * rtt),
            (MonitoredPart::Server, server),
            (MonitoredPart::Client, 1.1),
            (MonitoredPart::Transfer, receive),
        ] {
            rollup.add_time(Measure::Part(part), milliseconds(ms));
        }
        rollup.add_time(Measure::Rtt, milliseconds(rtt));
        let version = if trips > 1.5 { "TLSv1.2" } else { "TLSv1.3" };
        let address = if random.bool() { "192.0.2.1" } else { "192.0.2.9" };
        for (fact, value) in [
            (MonitoredFact::TlsVersion, version),
            (MonitoredFact::HttpVersion, "2"),
            (MonitoredFact::Address, address),
            (MonitoredFact::Group, "X25519MLKEM768"),
            (MonitoredFact::Handshake, "full"),
            (MonitoredFact::Certificate, "ECDSA P-256, issued by E7, until 2027-01-14"),
        ] {
            rollup.add_fact(fact, value, 1);
        }
        rollup
    }

    /// When the first target's ten-minute outage over IPv4 begins.
    pub(crate) fn down_at(&self) -> i64 {
        self.changed_at() - 30 * 3_600
    }

    /// Adds that outage to the store in `directory`.
    pub(crate) fn write_outage(&self, directory: &Path) {
        let store = Store::open(&directory.join("store.sqlite")).unwrap();
        let began = self.down_at();
        let event = json!({
            "format": "firstbyte/event", "version": 1, "kind": "outage", "id": "outage-1",
            "state": "ended", "began": stamp(began), "ended": stamp(began + 600),
            "lasted_ns": 600_000_000_000_u64, "interruptions": 1, "failed_share": 1.0,
            "failure": "tcp.refused", "failures": { "tcp.refused": 21 },
            "scope": {
                "targets": [self.targets[0]], "of": self.targets.len(), "tags": { "family": "4" },
                "quorum": { "series": { "seen": 1, "of": 1 } },
            },
            "samples": 21, "series": [1], "annotations": [],
        });
        store.put_event(&stored(began, &event)).unwrap();
    }

    fn change(&self, series: u32) -> Value {
        let at = self.changed_at();
        json!({
            "format": "firstbyte/event", "version": 1, "kind": "level", "id": "0123456789abcdef",
            "state": "confirmed", "metric": "total", "statistic": "median",
            "before_ns": 39_000_000, "after_ns": 20_000_000, "difference_ns": -19_000_000,
            "interval_ns": [-19_200_000, -18_700_000],
            "at": stamp(at), "at_between": [stamp(at - 300), stamp(at + 300)],
            "cause": [
                { "fact": "tls.version", "before": { "TLSv1.2": 1.0 }, "after": { "TLSv1.3": 1.0 } },
                { "part": "round trips", "before": 4.0, "after": 3.0 },
            ],
            "scope": {
                "targets": [self.targets[0]], "of": self.targets.len(), "tags": { "family": "6" },
                "quorum": { "series": { "seen": 1, "of": 1 } },
            },
            "samples": { "before": 400, "after": 300 }, "series": [series],
            "annotations": ["deploy 4812"],
        })
    }
}

fn stored(at: i64, event: &Value) -> StoredEvent {
    let text = |name: &str| event[name].as_str().unwrap().to_owned();
    StoredEvent { id: text("id"), at, state: text("state"), json: event.to_string() }
}

/// Formats a time as `2026-11-23T00:00:00Z`.
fn stamp(at: i64) -> String {
    let at = OffsetDateTime::from_unix_timestamp(at).unwrap();
    let (date, hour, minute, second) = (at.date(), at.hour(), at.minute(), at.second());
    format!("{date}T{hour:02}:{minute:02}:{second:02}Z")
}

fn milliseconds(ms: f64) -> Duration {
    Duration::from_nanos((ms * 1e6) as u64)
}

fn labels(place: usize, target: &str, (way, label): (&str, &str)) -> SeriesLabels {
    let service = if place.is_multiple_of(2) { "shop" } else { "news" };
    SeriesLabels {
        target: target.to_owned(),
        variant: way.to_owned(),
        place: String::new(),
        variant_label: label.to_owned(),
        url: "https://www.example.com/".to_owned(),
        tags: BTreeMap::from([("service".to_owned(), service.to_owned())]),
    }
}
