//! Prometheus remote-write 1.0: `prometheus.WriteRequest`, compressed with snappy, in requests of bounded size.

use std::collections::BTreeMap;

use super::prometheus::{ZERO_THRESHOLD, positive_buckets};
use super::protobuf::Message;
use super::{Batch, Exposed, Exposition, Family, Kind, Owner, PREFIX, expose, expose_series};
use crate::recording::{BOUNDS, Figures, ObservedTimes};

/// Maximum number of series in a request, and its maximum size before compression: receivers have their own limits.
const MOST_POINTS: u64 = 5_000;
const MOST_BYTES: usize = 1_000_000;
/// Stale marker: a NaN with these bits says that a series has ended.
const STALE: f64 = f64::from_bits(0x7ff0_0000_0000_0002);

/// Options of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteOptions<'a> {
    /// Writes native histograms instead of classic buckets.
    pub(crate) native: bool,
    /// Labels to add to all series that do not have a label of that name.
    pub(crate) labels: &'a BTreeMap<String, String>,
    /// Time of the figures, in milliseconds since 1970.
    pub(crate) at_ms: i64,
}

/// Writes all figures, and marks the series of `gone`, with their last figures, as ended.
pub(crate) fn remote_write(
    exposed: &Exposed,
    figures: &Figures,
    gone: Option<(&Exposed, &Figures)>,
    options: WriteOptions<'_>,
) -> Vec<Batch> {
    let mut requests = WriteRequests {
        options,
        is_gone: false,
        name: "",
        request: Message::default(),
        points: 0,
        done: Vec::new(),
    };
    expose(exposed, figures, &mut requests);
    if let Some((exposed, figures)) = gone {
        requests.is_gone = true;
        expose_series(exposed, figures, &mut requests);
    }
    requests.end_request();
    requests.done
}

struct WriteRequests<'a> {
    options: WriteOptions<'a>,
    /// Whether the series being written have ended.
    is_gone: bool,
    /// Name of the current family.
    name: &'static str,
    request: Message,
    points: u64,
    done: Vec<Batch>,
}

impl WriteRequests<'_> {
    fn end_request(&mut self) {
        let request = std::mem::take(&mut self.request);
        let points = std::mem::take(&mut self.points);
        // The encoder fails only for more than 4 GB.
        if let (true, Ok(body)) =
            (points > 0, snap::raw::Encoder::new().compress_vec(request.as_bytes()))
        {
            self.done.push(Batch { body, points });
        }
    }

    fn series(
        &mut self,
        suffix: &str,
        owner: Owner<'_>,
        bound: Option<&str>,
        write: impl FnOnce(&mut Message),
    ) {
        if self.points >= MOST_POINTS || self.request.len() >= MOST_BYTES {
            self.end_request();
        }
        let name = format!("{PREFIX}{}{suffix}", self.name);
        let mut labels: Vec<(&str, &str)> = owner.pairs().collect();
        labels.extend(bound.map(|bound| ("le", bound)));
        for (name, value) in self.options.labels {
            if labels.iter().all(|(other, _)| other != name) {
                labels.push((name, value));
            }
        }
        labels.push(("__name__", &name));
        // Receivers require sorted labels.
        labels.sort_unstable();
        self.request.message(1, |series| {
            for (name, value) in labels {
                series.message(1, |label| {
                    label.text(1, name);
                    label.text(2, value);
                });
            }
            write(series);
        });
        self.points += 1;
    }

    fn sample(&mut self, suffix: &str, owner: Owner<'_>, bound: Option<&str>, value: f64) {
        let at_ms = self.options.at_ms;
        let value = if self.is_gone { STALE } else { value };
        self.series(suffix, owner, bound, |series| {
            series.message(2, |sample| {
                sample.double(1, value);
                sample.int(2, at_ms);
            });
        });
    }

    fn native(&mut self, owner: Owner<'_>, times: &ObservedTimes) {
        let at_ms = self.options.at_ms;
        let is_gone = self.is_gone;
        self.series("", owner, None, |series| {
            series.message(4, |histogram| {
                let exponential = &times.exponential;
                histogram.uint(1, if is_gone { 0 } else { times.count() });
                histogram.double(3, if is_gone { STALE } else { times.sum_seconds() });
                histogram.sint(4, i64::from(exponential.scale()));
                histogram.double(5, ZERO_THRESHOLD);
                histogram.uint(6, if is_gone { 0 } else { exponential.zero_count() });
                if !is_gone {
                    positive_buckets(histogram, [11, 12], exponential);
                }
                histogram.int(15, at_ms);
            });
        });
    }
}

impl Exposition for WriteRequests<'_> {
    fn family(&mut self, Family { name, kind, help }: Family) {
        self.name = name;
        if self.is_gone {
            return;
        }
        let number = match kind {
            Kind::Counter => 1,
            Kind::Gauge => 2,
            Kind::Histogram => 3,
        };
        self.request.message(3, |metadata| {
            metadata.uint(1, number);
            metadata.text(2, &format!("{PREFIX}{name}"));
            metadata.text(4, help);
        });
    }

    fn number(&mut self, owner: Owner<'_>, value: f64) {
        self.sample("", owner, None, value);
    }

    fn histogram(&mut self, owner: Owner<'_>, times: &ObservedTimes) {
        if self.options.native {
            return self.native(owner, times);
        }
        let mut up_to = 0;
        for (bound, number) in BOUNDS.iter().zip(times.buckets) {
            up_to += number;
            let bound = bound.as_secs_f64().to_string();
            self.sample("_bucket", owner, Some(&bound), up_to as f64);
        }
        self.sample("_bucket", owner, Some("+Inf"), times.count() as f64);
        self.sample("_sum", owner, None, times.sum_seconds());
        self.sample("_count", owner, None, times.count() as f64);
    }
}
