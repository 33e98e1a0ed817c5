//! Prometheus protobuf: a sequence of `io.prometheus.client.MetricFamily`, each with its length before it. Histograms
//! are native ones, with the classic buckets as well.

use firstbyte_core::stats::ExponentialHistogram;

use super::protobuf::Message;
use super::{Exposed, Exposition, Family, Kind, Owner, PREFIX, expose};
use crate::recording::{BOUNDS, Figures, ObservedTimes};

/// Content type of the format.
pub(crate) const PROTOBUF_KIND: &str = "application/vnd.google.protobuf; \
    proto=io.prometheus.client.MetricFamily; encoding=delimited";

/// Upper bound of the zero bucket, the same as in Go's client. Only exact zeros fall below it, since times are whole
/// nanoseconds. With a threshold, an empty histogram is recognised as a native one, too.
pub(super) const ZERO_THRESHOLD: f64 = f64::from_bits(0x37f0_0000_0000_0000);

/// Writes all figures.
pub(crate) fn protobuf(exposed: &Exposed, figures: &Figures) -> Vec<u8> {
    let mut families = MetricFamilies::default();
    expose(exposed, figures, &mut families);
    families.end_family();
    families.written.into_bytes()
}

#[derive(Default)]
struct MetricFamilies {
    written: Message,
    /// Start and kind of the family being written.
    family: Option<(usize, Kind)>,
}

impl MetricFamilies {
    fn end_family(&mut self) {
        if let Some((begin, _)) = self.family.take() {
            self.written.put_length_at(begin);
        }
    }

    fn metric(&mut self, owner: Owner<'_>, write: impl FnOnce(&mut Message)) {
        self.written.message(4, |metric| {
            for (name, value) in owner.pairs() {
                metric.message(1, |label| {
                    label.text(1, name);
                    label.text(2, value);
                });
            }
            write(metric);
        });
    }
}

impl Exposition for MetricFamilies {
    fn family(&mut self, Family { name, kind, help }: Family) {
        self.end_family();
        self.family = Some((self.written.len(), kind));
        self.written.text(1, &format!("{PREFIX}{name}"));
        self.written.text(2, help);
        let number = match kind {
            Kind::Counter => 0,
            Kind::Gauge => 1,
            Kind::Histogram => 4,
        };
        self.written.uint(3, number);
    }

    fn number(&mut self, owner: Owner<'_>, value: f64) {
        let is_counter = matches!(self.family, Some((_, Kind::Counter)));
        let gauge = |metric: &mut Message| metric.message(2, |gauge| gauge.double(1, value));
        let counter = |metric: &mut Message| {
            metric.message(3, |counter| {
                counter.double(1, value);
                timestamp(counter, 3, owner.since);
            });
        };
        match is_counter {
            true => self.metric(owner, counter),
            false => self.metric(owner, gauge),
        }
    }

    fn histogram(&mut self, owner: Owner<'_>, times: &ObservedTimes) {
        self.metric(owner, |metric| {
            metric.message(7, |histogram| {
                histogram.uint(1, times.count());
                histogram.double(2, times.sum_seconds());
                let mut up_to = 0;
                for (bound, number) in BOUNDS.iter().zip(times.buckets) {
                    up_to += number;
                    histogram.message(3, |bucket| {
                        bucket.uint(1, up_to);
                        bucket.double(2, bound.as_secs_f64());
                    });
                }
                histogram.sint(5, i64::from(times.exponential.scale()));
                histogram.double(6, ZERO_THRESHOLD);
                histogram.uint(7, times.exponential.zero_count());
                positive_buckets(histogram, [12, 13], &times.exponential);
                timestamp(histogram, 15, owner.since);
            });
        });
    }
}

/// Writes spans and deltas as fields of `histogram`.
pub(super) fn positive_buckets(
    histogram: &mut Message,
    [span_field, delta_field]: [u32; 2],
    of: &ExponentialHistogram,
) {
    let native = of.native();
    for (offset, length) in native.spans {
        histogram.message(span_field, |span| {
            span.sint(1, i64::from(offset));
            span.uint(2, u64::from(length));
        });
    }
    histogram.packed_sints(delta_field, native.deltas);
}

fn timestamp(message: &mut Message, field: u32, unix_nanos: u64) {
    message.message(field, |timestamp| {
        timestamp.uint(1, unix_nanos / 1_000_000_000);
        timestamp.uint(2, unix_nanos % 1_000_000_000);
    });
}
