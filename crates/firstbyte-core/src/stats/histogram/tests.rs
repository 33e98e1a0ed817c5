use std::time::Duration;

use proptest::prelude::*;

use super::boundaries::{FINEST_SCALE, bucket_index, bucket_within};
use super::{COARSEST_SCALE, ExponentialHistogram, HISTOGRAM_SCALE, StoredHistogramError};
use crate::stats::quantile;

fn counted(times: &[Duration]) -> ExponentialHistogram {
    let mut histogram = ExponentialHistogram::default();
    times.iter().for_each(|time| histogram.add(*time));
    histogram
}

/// From nanoseconds to months, and zero, with many duplicates.
fn any_time() -> impl Strategy<Value = Duration> {
    prop_oneof![
        1 => Just(Duration::ZERO),
        2 => (0_u64..50).prop_map(Duration::from_nanos),
        6 => (0_u32..53, any::<u64>())
            .prop_map(|(bits, random)| Duration::from_nanos((1 << bits) + random % (1 << bits))),
    ]
}

fn any_times(most: usize) -> impl Strategy<Value = Vec<Duration>> {
    proptest::collection::vec(any_time(), 0..most)
}

#[test]
fn borders_of_every_scale_are_where_they_are_said_to_be() {
    for scale in COARSEST_SCALE..=FINEST_SCALE {
        let octaves = if scale < 0 { -1_000..1_000 } else { -40..20 };
        let step = f64::from(scale).exp2();
        let indices =
            (f64::from(octaves.start) * step) as i32..(f64::from(octaves.end) * step) as i32;
        for index in indices {
            let (above, up_to) = bucket_within(index, scale);
            let of = |value| bucket_index(value, scale);
            assert_eq!(of(above), Some(index - 1), "{index} at {scale}");
            assert_eq!(of(above.next_up()), Some(index), "{index} at {scale}");
            assert_eq!(of(up_to), Some(index), "{index} at {scale}");
            assert_eq!(of(up_to.next_up()), Some(index + 1), "{index} at {scale}");
        }
    }
}

#[test]
fn powers_of_two_end_their_buckets() {
    for exponent in -1_074..=1_023 {
        let value = 2_f64.powi(exponent / 2) * 2_f64.powi(exponent - exponent / 2);
        for scale in 0..=FINEST_SCALE {
            assert_eq!(bucket_index(value, scale), Some((exponent << scale) - 1), "2^{exponent}");
            let above = value.next_up();
            // The smallest doubles are a factor of two or less apart.
            if exponent > -1_000 {
                assert_eq!(bucket_index(above, scale), Some(exponent << scale), "2^{exponent}");
            }
        }
    }
    for none in [0.0, -0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert_eq!(bucket_index(none, HISTOGRAM_SCALE), None, "{none}");
    }
    assert_eq!(bucket_index(f64::MAX, HISTOGRAM_SCALE), Some((1_024 << 7) - 1));
}

/// The borders are roots of two: raised to the 128th power, the two mantissas around one lie on either side of a power
/// of two. Computed with 7,000-bit integers.
#[test]
fn borders_are_exact() {
    fn squared(number: &[u32]) -> Vec<u32> {
        let mut product = vec![0_u32; 2 * number.len()];
        for (place, factor) in number.iter().enumerate() {
            let mut carry = 0_u64;
            for (other, digit) in number.iter().enumerate() {
                let sum = u64::from(product[place + other])
                    + u64::from(*factor) * u64::from(*digit)
                    + carry;
                product[place + other] = sum as u32;
                carry = sum >> 32;
            }
            product[place + number.len()] = carry as u32;
        }
        product
    }
    /// ⌊log2⌋ of the 128th power.
    fn log2_of_power(mantissa: u64) -> u32 {
        let mut number = vec![mantissa as u32, (mantissa >> 32) as u32];
        for _ in 0..7 {
            number = squared(&number);
        }
        let top = number.iter().rposition(|digit| *digit != 0).unwrap();
        top as u32 * 32 + number[top].ilog2()
    }
    for place in 1..128 {
        let (_, up_to) = bucket_within(place - 1, FINEST_SCALE);
        let mantissa = (up_to * 2_f64.powi(52)) as u64;
        let border = 52 * 128 + place as u32;
        assert!(log2_of_power(mantissa) < border, "{place}");
        assert!(log2_of_power(mantissa + 1) >= border, "{place}");
    }
}

#[test]
fn prometheus_counts_from_one_more() {
    // 1 s is the upper border of OpenTelemetry's bucket -1, of Prometheus' bucket 0.
    let second = Duration::from_secs(1);
    let times = [second, second, second.mul_f64(1.001), second.mul_f64(1.006), second * 4];
    let histogram = counted(&times);
    assert_eq!(histogram.buckets().collect::<Vec<_>>(), [(-1, 2), (0, 1), (1, 1), (255, 1)]);
    let native = histogram.native();
    assert_eq!(native.spans, [(0, 3), (253, 1)]);
    assert_eq!(native.deltas, [2, -1, 0, 0]);
    let (offset, counts) = histogram.dense();
    assert_eq!((offset, counts.len()), (-1, 257));
    assert_eq!(counts[..4], [2, 1, 1, 0]);
    assert_eq!(counts[256], 1);
}

#[test]
fn zero_has_a_place_of_its_own() {
    let histogram = counted(&[Duration::ZERO, Duration::ZERO, Duration::from_nanos(1)]);
    assert_eq!((histogram.zero_count(), histogram.count()), (2, 3));
    assert_eq!(histogram.quantile(0.5).unwrap().high, Duration::ZERO);
    assert_eq!(histogram.quantile(1.0).unwrap().value, Duration::from_nanos(1));
    assert_eq!(ExponentialHistogram::default().quantile(0.5), None);
}

#[test]
fn an_hour_of_a_sample_a_minute_is_small() {
    // As widely spread as possible: each in a bucket of its own, over six orders of magnitude.
    let hour: Vec<Duration> =
        (0..60).map(|n| Duration::from_secs_f64(1e-5 * 10_f64.powf(f64::from(n) / 10.0))).collect();
    let mut stored = Vec::new();
    counted(&hour).store(&mut stored);
    assert!(stored.len() <= 145, "{} bytes", stored.len());
    // Typical times: within a tenth.
    let hour: Vec<Duration> = (0..60)
        .map(|n| Duration::from_secs_f64(0.02 * (1.0 + f64::from(n * 7 % 60) / 600.0)))
        .collect();
    let mut stored = Vec::new();
    counted(&hour).store(&mut stored);
    assert!(stored.len() <= 60, "{} bytes", stored.len());
}

proptest! {
    #[test]
    fn bucket_index_is_close_to_the_logarithm(bits: u64) {
        let value = f64::from_bits(bits >> 1);
        prop_assume!(value.is_normal());
        let by_logarithm = (value.log2() * 128.0).ceil() as i32 - 1;
        prop_assert!(bucket_index(value, HISTOGRAM_SCALE).unwrap().abs_diff(by_logarithm) <= 1);
    }

    #[test]
    fn merging_is_counting_together(a in any_times(60), b in any_times(60), c in any_times(60)) {
        let merged = |list: &[&[Duration]]| {
            let mut all = ExponentialHistogram::default();
            list.iter().for_each(|times| all.merge(&counted(times)));
            all
        };
        let together = counted(&[a.clone(), b.clone(), c.clone()].concat());
        prop_assert_eq!(&merged(&[&a, &b, &c]), &together);
        prop_assert_eq!(&merged(&[&c, &a, &b]), &together);
        let mut nested = counted(&b);
        nested.merge(&counted(&c));
        let mut first = counted(&a);
        first.merge(&nested);
        prop_assert_eq!(&first, &together);
        prop_assert_eq!(together.count(), (a.len() + b.len() + c.len()) as u64);
        let sum: u128 = [a, b, c].concat().iter().map(Duration::as_nanos).sum();
        prop_assert_eq!(together.sum_ns(), sum);
    }

    #[test]
    fn downscaled_is_counted_at_that_scale(times in any_times(60), scale in COARSEST_SCALE..=HISTOGRAM_SCALE) {
        let mut coarse = ExponentialHistogram { scale, ..ExponentialHistogram::default() };
        times.iter().for_each(|time| coarse.add(*time));
        let mut downscaled = counted(&times);
        downscaled.downscale(scale);
        prop_assert_eq!(&downscaled, &coarse);
        // One of each, in either order.
        let mut one = counted(&times);
        one.merge(&coarse);
        let mut other = coarse.clone();
        other.merge(&counted(&times));
        prop_assert_eq!(&one, &other);
        prop_assert_eq!(one.scale(), scale);
    }

    /// Off by no more than the square root of the base, with the quantile itself within the bounds.
    #[test]
    fn quantiles_are_within_their_bounds(
        mut times in proptest::collection::vec(any_time(), 1..200),
        q in 0.0_f64..=1.0,
        scale in 0..=HISTOGRAM_SCALE,
    ) {
        let mut histogram = counted(&times);
        histogram.downscale(scale);
        times.sort_unstable();
        let found = histogram.quantile(q).unwrap();
        let seconds: Vec<f64> = times.iter().map(|time| time.as_nanos() as f64).collect();
        let exact = quantile(&seconds, q).unwrap();
        let ns = |time: Duration| time.as_nanos() as f64;
        // Half a nanosecond on either side: times are integers, and so is the middle of two.
        prop_assert!(ns(found.low) - 1.0 <= exact && exact <= ns(found.high) + 1.0, "{found:?} {exact}");
        let most = (0.5 * (-f64::from(scale)).exp2()).exp2();
        prop_assert!(ns(found.value) <= exact * most + 1.0, "{found:?} {exact}");
        prop_assert!(ns(found.value) >= exact / most - 1.0, "{found:?} {exact}");
    }

    #[test]
    fn what_is_within_a_bound_is_counted(times in any_times(60), bound in any_time()) {
        let number = counted(&times).count_up_to(bound);
        let within = |bound: f64| {
            times.iter().filter(|time| time.as_secs_f64() <= bound).count() as u64
        };
        prop_assert!(number >= within(bound.as_secs_f64()));
        let border = bucket_index(bound.as_secs_f64(), HISTOGRAM_SCALE).map_or(0.0, |i| bucket_within(i, HISTOGRAM_SCALE).1);
        prop_assert_eq!(number, within(border));
    }

    #[test]
    fn native_buckets_are_the_same(times in any_times(60)) {
        let histogram = counted(&times);
        let native = histogram.native();
        let (mut index, mut number, mut deltas) = (0, 0, native.deltas.iter());
        let mut buckets = Vec::new();
        for (gap, length) in native.spans {
            index += gap;
            for _ in 0..length {
                number += deltas.next().unwrap();
                buckets.push((index - 1, number as u64));
                index += 1;
            }
        }
        prop_assert!(deltas.next().is_none());
        prop_assert_eq!(buckets, histogram.buckets().collect::<Vec<_>>());
    }

    #[test]
    fn what_is_stored_is_restored(times in any_times(60), scale in COARSEST_SCALE..=HISTOGRAM_SCALE) {
        let mut histogram = counted(&times);
        histogram.downscale(scale);
        histogram.merge(&histogram.clone());
        let mut stored = Vec::new();
        histogram.store(&mut stored);
        let restored = ExponentialHistogram::restore(&stored);
        prop_assert_eq!(restored.as_ref(), Ok(&histogram));
        for end in 0..stored.len() {
            let cut = ExponentialHistogram::restore(&stored[..end]);
            prop_assert_eq!(cut, Err(StoredHistogramError::Incomplete));
        }
        stored.push(0);
        prop_assert_eq!(ExponentialHistogram::restore(&stored), Err(StoredHistogramError::TooLong));
    }

    #[test]
    fn any_bytes_are_a_histogram_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
        if let Ok(histogram) = ExponentialHistogram::restore(&bytes) {
            histogram.quantile(0.5);
            histogram.native();
            let mut twice = histogram.clone();
            twice.downscale(COARSEST_SCALE);
            twice.merge(&histogram);
        }
    }
}
