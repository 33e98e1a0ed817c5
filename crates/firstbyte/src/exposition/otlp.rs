//! OpenTelemetry protocol: `ExportMetricsServiceRequest`, compressed with gzip, in requests of bounded size. Counters
//! are cumulative sums, histograms are exponential.
//!
//! Names follow OpenTelemetry's rules, without suffixes for type and unit. Converters to Prometheus add these suffixes
//! again, which yields the names in `/metrics`.

use std::collections::BTreeMap;
use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::protobuf::{Field, Message, read_fields};
use super::{Batch, Exposed, Exposition, Family, Kind, Owner, expose};
use crate::recording::{Figures, ObservedTimes};

/// Maximum number of data points in a request.
const MOST_POINTS: u64 = 5_000;
/// Maximum number of buckets from the first to the last used one, OpenTelemetry's own limit. With more, the scale is
/// reduced.
const MOST_IN_A_ROW: usize = 160;
/// `AggregationTemporality`: since the start.
const CUMULATIVE: u64 = 2;

/// Writes all figures at the time `at`, in nanoseconds since 1970. `resource` describes their origin.
pub(crate) fn otlp(
    exposed: &Exposed,
    figures: &Figures,
    resource: &BTreeMap<String, String>,
    at: u64,
) -> Vec<Batch> {
    let mut requests = ExportRequests {
        resource,
        at,
        family: None,
        points: Message::default(),
        metrics: Message::default(),
        number: 0,
        done: Vec::new(),
    };
    expose(exposed, figures, &mut requests);
    requests.end_request();
    requests.done
}

/// Number of rejected data points and the reason, if `answer` reports a partial success.
pub(crate) fn rejected(answer: &[u8]) -> Option<(u64, String)> {
    let partial_success = read_fields(answer)?.into_iter().find_map(|field| match field {
        (1, Field::Bytes(message)) => Some(message),
        _ => None,
    })?;
    let (mut number, mut why) = (0, String::new());
    for field in read_fields(partial_success)? {
        match field {
            (1, Field::Number(rejected)) => number = rejected,
            (2, Field::Bytes(message)) => why = String::from_utf8_lossy(message).into_owned(),
            _ => {}
        }
    }
    (number > 0).then_some((number, why))
}

struct ExportRequests<'a> {
    resource: &'a BTreeMap<String, String>,
    at: u64,
    family: Option<Family>,
    /// Points of the current family, as fields of its data.
    points: Message,
    /// Finished metrics, as fields of their scope.
    metrics: Message,
    /// Number of data points in the request.
    number: u64,
    done: Vec<Batch>,
}

impl ExportRequests<'_> {
    fn end_metric(&mut self) {
        let points = std::mem::take(&mut self.points).into_bytes();
        let (Some(Family { name, kind, help }), false) = (self.family, points.is_empty()) else {
            return;
        };
        let name = name.strip_suffix("_total").unwrap_or(name);
        let (name, unit) = match name.strip_suffix("_seconds") {
            Some(name) => (name, "s"),
            None => (name, ""),
        };
        self.metrics.message(2, |metric| {
            metric.text(1, &format!("firstbyte.monitor.{name}"));
            metric.text(2, help);
            metric.text(3, unit);
            let data = match kind {
                Kind::Gauge => 5,
                Kind::Counter => 7,
                Kind::Histogram => 10,
            };
            metric.message(data, |data| {
                data.append(&points);
                if kind != Kind::Gauge {
                    data.uint(2, CUMULATIVE);
                }
                if kind == Kind::Counter {
                    // The sum is monotonic.
                    data.uint(3, 1);
                }
            });
        });
    }

    fn end_request(&mut self) {
        self.end_metric();
        let metrics = std::mem::take(&mut self.metrics);
        let points = std::mem::take(&mut self.number);
        if points == 0 {
            return;
        }
        let mut request = Message::default();
        request.message(1, |of_resource| {
            of_resource.message(1, |resource| {
                for (name, value) in self.resource {
                    attribute(resource, 1, name, value);
                }
            });
            of_resource.message(2, |of_scope| {
                of_scope.message(1, |scope| {
                    scope.text(1, "firstbyte");
                    scope.text(2, env!("CARGO_PKG_VERSION"));
                });
                of_scope.append(metrics.as_bytes());
            });
        });
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        // Writing into memory cannot fail.
        if let Ok(body) = gzip.write_all(request.as_bytes()).and_then(|()| gzip.finish()) {
            self.done.push(Batch { body, points });
        }
    }

    /// Writes a data point, with its owner's attributes in field `attributes`.
    fn point(&mut self, owner: Owner<'_>, attributes: u32, write: impl FnOnce(&mut Message)) {
        if self.number >= MOST_POINTS {
            self.end_request();
        }
        let (at, is_gauge) = (self.at, self.family.is_some_and(|of| of.kind == Kind::Gauge));
        self.points.message(1, |point| {
            for (name, value) in owner.pairs() {
                attribute(point, attributes, name, value);
            }
            if !is_gauge {
                point.fixed64(2, owner.since);
            }
            point.fixed64(3, at);
            write(point);
        });
        self.number += 1;
    }
}

impl Exposition for ExportRequests<'_> {
    fn family(&mut self, family: Family) {
        self.end_metric();
        self.family = Some(family);
    }

    fn number(&mut self, owner: Owner<'_>, value: f64) {
        self.point(owner, 7, |point| point.double(4, value));
    }

    fn histogram(&mut self, owner: Owner<'_>, times: &ObservedTimes) {
        let mut exponential = times.exponential.clone();
        while exponential.dense().1.len() > MOST_IN_A_ROW {
            exponential.downscale(exponential.scale() - 1);
        }
        self.point(owner, 1, |point| {
            point.fixed64(4, exponential.count());
            point.double(5, times.sum_seconds());
            point.sint(6, i64::from(exponential.scale()));
            point.fixed64(7, exponential.zero_count());
            let (first, counts) = exponential.dense();
            point.message(8, |positive| {
                positive.sint(1, i64::from(first));
                positive.packed_uints(2, counts);
            });
            if let Some((least, most)) = exponential.ends() {
                point.double(12, least.as_secs_f64());
                point.double(13, most.as_secs_f64());
            }
        });
    }
}

/// Writes an attribute with a string value.
fn attribute(message: &mut Message, field: u32, name: &str, value: &str) {
    message.message(field, |pair| {
        pair.text(1, name);
        pair.message(2, |any| any.text(1, value));
    });
}
