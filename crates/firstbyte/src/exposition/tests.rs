//! The same figures in every format.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::sync::Arc;
use std::time::Duration;

use firstbyte_core::leb128::take_leb128;

use super::labels::tests::{hostile, labels};
use super::protobuf::{Field, read_fields};
use super::*;

/// Contents of the messages or strings in field `number`.
fn within(message: &[u8], number: u64) -> Vec<&[u8]> {
    let of_number = |(found, field)| match field {
        Field::Bytes(bytes) if found == number => Some(bytes),
        _ => None,
    };
    read_fields(message).unwrap().into_iter().filter_map(of_number).collect()
}

fn number(message: &[u8], number: u64) -> u64 {
    let field = read_fields(message).unwrap().into_iter().find(|(found, _)| *found == number);
    match field.unwrap().1 {
        Field::Number(number) | Field::EightBytes(number) => number,
        other => panic!("field {number} is {other:?}"),
    }
}

fn text_of(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

const fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63).cast_unsigned()
}

fn figures(series: Vec<SeriesFigures>) -> Figures {
    Figures { since: 1_795_000_000_000_000_007, series, ..Figures::default() }
}

/// Two samples of 30 and 60 ms.
fn two_samples() -> SeriesFigures {
    let mut one = SeriesFigures {
        samples: 2,
        since: 1_795_392_000_500_000_000,
        last: Some((1_795_392_000_123_456_789, false)),
        certificate_expiry: Some(1_803_168_000),
        ..SeriesFigures::default()
    };
    one.times[7].add(Duration::from_millis(30));
    one.times[7].add(Duration::from_millis(60));
    one
}

fn exposed(labels: firstbyte_monitor::store::SeriesLabels) -> Exposed {
    Exposed::from_labels(Arc::new(vec![labels]))
}

#[test]
fn a_monitor_is_ready_while_all_is_kept() {
    let well = Health { runs: true, ..Health::default() };
    assert_eq!(not_ready(&well), None);
    // Earlier losses are counted but do not make the monitor unready.
    assert_eq!(not_ready(&Health { lost: 3, ..well }), None);
    for (health, part) in [
        (Health { runs: false, ..well }, "not started"),
        (Health { loses: true, ..well }, "raw files cannot be written"),
        (Health { store_fails: true, ..well }, "the store cannot be written"),
        (Health { catches_up: true, ..well }, "catching up"),
    ] {
        assert!(not_ready(&health).is_some_and(|why| why.contains(part)), "{health:?}");
    }
}

#[test]
fn buckets_add_up_and_what_was_not_seen_is_absent() {
    let text = text(&exposed(labels("a", "as negotiated", &[])), &figures(vec![two_samples()]));
    let of_time: Vec<&str> =
        text.lines().filter(|line| line.starts_with("firstbyte_monitor_time")).collect();
    let labels = "place=\"fra1\",target=\"a\",variant=\"as negotiated\",metric=\"total\"";
    let line = |suffix: &str, labels: &str, value: &str| {
        format!("firstbyte_monitor_time_seconds_{suffix}{{{labels}}} {value}")
    };
    let bucket = |le: &str, value: &str| line("bucket", &format!("{labels},le=\"{le}\""), value);
    assert_eq!(of_time.len(), 16);
    assert_eq!(of_time[4], bucket("0.025", "0"));
    assert_eq!(of_time[5], bucket("0.05", "1"));
    assert_eq!(of_time[13], bucket("+Inf", "2"));
    assert_eq!(of_time[14], line("sum", labels, "0.09"));
    assert_eq!(of_time[15], line("count", labels, "2"));
    let seen = "last_sample_timestamp_seconds{place=\"fra1\",target=\"a\",variant=\"as negotiated\"} 1795392000.123\n";
    assert!(text.contains(seen), "{text}");
    assert!(text.contains("firstbyte_monitor_ready 0\n"), "{text}");
    let expiry = "certificate_expiry_timestamp_seconds{place=\"fra1\",target=\"a\",variant=\"as negotiated\"} 1803168000\n";
    assert!(text.contains(expiry), "{text}");
    let never = super::text(
        &exposed(self::labels("a", "as negotiated", &[])),
        &figures(vec![SeriesFigures::default()]),
    );
    assert!(
        !never.contains("last_sample_failed{")
            && !never.contains("time_seconds_")
            && !never.contains("expiry_timestamp_seconds{"),
        "{never}"
    );
}

#[test]
fn protobuf_has_the_texts_families_and_native_histograms_beside_classic_ones() {
    let (exposed, figures) = (exposed(hostile()), figures(vec![two_samples()]));
    let bytes = protobuf(&exposed, &figures);
    let mut families = Vec::new();
    let mut rest = bytes.as_slice();
    while !rest.is_empty() {
        let length: usize = take_leb128(&mut rest).unwrap();
        let (family, after) = rest.split_at(length);
        families.push(family);
        rest = after;
    }
    let described: Vec<String> = families
        .iter()
        .map(|family| {
            let name = text_of(within(family, 1)[0]);
            let kind = ["counter", "gauge", "", "", "histogram"][number(family, 3) as usize];
            format!("# HELP {name} {}\n# TYPE {name} {kind}", text_of(within(family, 2)[0]))
        })
        .collect();
    let text = text(&exposed, &figures);
    let comments: Vec<&str> = text.lines().filter(|line| line.starts_with('#')).collect();
    assert_eq!(described.join("\n"), comments.join("\n"));

    let metrics = within(families.last().unwrap(), 4);
    let [metric] = metrics.as_slice() else { panic!("{}", metrics.len()) };
    let pairs: Vec<[&str; 2]> = within(metric, 1)
        .into_iter()
        .map(|pair| [text_of(within(pair, 1)[0]), text_of(within(pair, 2)[0])])
        .collect();
    assert!(pairs.contains(&["target", "a\"b\\c\nd\\u{1b}[31m"]), "{pairs:?}");
    assert_eq!(pairs.last(), Some(&["metric", "total"]));
    let histogram = within(metric, 7)[0];
    assert_eq!((number(histogram, 1), number(histogram, 2)), (2, 0.09_f64.to_bits()));
    let buckets: Vec<(u64, f64)> = within(histogram, 3)
        .into_iter()
        .map(|bucket| (number(bucket, 1), f64::from_bits(number(bucket, 2))))
        .collect();
    assert_eq!(&buckets[4..7], [(0, 0.025), (1, 0.05), (2, 0.1)]);
    // Scale 5, written zigzag. 0.03 s is in Prometheus' bucket -161: 2^(-162/32) < 0.03 <= 2^(-161/32); 0.06 s is one
    // factor of two, 32 buckets, further, with 31 empty ones between.
    assert_eq!((number(histogram, 5), number(histogram, 7)), (10, 0));
    assert_eq!(f64::from_bits(number(histogram, 6)), 2.0_f64.powi(-128));
    let spans: Vec<(u64, u64)> =
        within(histogram, 12).into_iter().map(|span| (number(span, 1), number(span, 2))).collect();
    assert_eq!(spans, [(zigzag(-161), 1), (zigzag(31), 1)]);
    assert_eq!(within(histogram, 13), [[zigzag(1) as u8, 0]]);
    let created = within(histogram, 15)[0];
    assert_eq!((number(created, 1), number(created, 2)), (1_795_392_000, 500_000_000));
}

#[test]
fn two_thousand_series_stay_small() {
    let all = (0..MOST_EXPOSED).map(|n| labels(&n.to_string(), "as negotiated", &[])).collect();
    let exposed = Exposed::from_labels(Arc::new(all));
    let mut one = two_samples();
    // Times as far apart as possible still need at most the maximum number of buckets.
    for times in &mut one.times {
        (1..3_000_u64).for_each(|n| times.add(Duration::from_nanos(n.pow(3))));
    }
    let bytes = protobuf(&exposed, &figures(vec![one; MOST_EXPOSED])).len();
    assert!(bytes < 12_000_000, "{bytes}");
}

fn unpacked(batch: &Batch) -> Vec<u8> {
    snap::raw::Decoder::new().decompress_vec(&batch.body).unwrap()
}

/// Labels, and the fields written for them: field 2, a sample, or 4, a histogram.
type Written = (Vec<(String, String)>, Vec<(u64, Vec<u8>)>);

fn written(request: &[u8]) -> Vec<Written> {
    let series = |series: &[u8]| {
        let label = |pair: &[u8]| {
            (text_of(within(pair, 1)[0]).to_owned(), text_of(within(pair, 2)[0]).to_owned())
        };
        let labels: Vec<(String, String)> = within(series, 1).into_iter().map(label).collect();
        assert!(labels.is_sorted_by(|a, b| a.0 < b.0), "{labels:?}");
        let values = [2, 4].into_iter().flat_map(|field| {
            within(series, field).into_iter().map(move |value| (field, value.to_vec()))
        });
        (labels, values.collect())
    };
    within(request, 1).into_iter().map(series).collect()
}

fn named(name: &str) -> impl Fn(&Written) -> bool {
    let name = format!("{PREFIX}{name}");
    move |(labels, _)| labels.iter().any(|(label, value)| label == "__name__" && *value == name)
}

#[test]
fn remote_write_has_the_texts_samples_with_labels_of_the_push() {
    let (exposed, figures) = (exposed(hostile()), figures(vec![two_samples()]));
    let own = [("job", "firstbyte"), ("target", "never"), ("Zone", "1")];
    let own = own.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let options = WriteOptions { native: false, labels: &own, at_ms: 1_795_392_001_000 };
    let batches = remote_write(&exposed, &figures, None, options);
    let [batch] = batches.as_slice() else { panic!("{}", batches.len()) };
    let request = unpacked(batch);
    let all = written(&request);
    let text = text(&exposed, &figures);
    assert_eq!(all.len(), text.lines().filter(|line| !line.starts_with('#')).count());
    assert_eq!((batch.points, within(&request, 3).len()), (all.len() as u64, 16));
    for (labels, values) in &all {
        let has = |name: &str, value: &str| labels.contains(&(name.to_owned(), value.to_owned()));
        assert!(has("job", "firstbyte") && has("Zone", "1"), "{labels:?}");
        assert_eq!(has("target", "never"), !has("tls", "1.2"), "its own counts more: {labels:?}");
        let [(2, sample)] = values.as_slice() else { panic!("{values:?}") };
        assert_eq!(number(sample, 2), 1_795_392_001_000);
    }
    let bucket = all.iter().find(|one| {
        named("time_seconds_bucket")(one) && one.0.contains(&("le".into(), "0.05".into()))
    });
    let value = &bucket.unwrap().1[0].1;
    assert_eq!(f64::from_bits(number(value, 1)), 1.0);

    let native = remote_write(&exposed, &figures, None, WriteOptions { native: true, ..options });
    let all = written(&unpacked(&native[0]));
    let times: Vec<&Written> = all.iter().filter(|one| named("time_seconds")(one)).collect();
    let [(_, values)] = times.as_slice() else { panic!("{}", times.len()) };
    let [(4, histogram)] = values.as_slice() else { panic!("{values:?}") };
    assert_eq!((number(histogram, 1), number(histogram, 3)), (2, 0.09_f64.to_bits()));
    assert_eq!((number(histogram, 4), number(histogram, 15)), (10, 1_795_392_001_000));
    let spans: Vec<(u64, u64)> =
        within(histogram, 11).into_iter().map(|span| (number(span, 1), number(span, 2))).collect();
    assert_eq!(spans, [(zigzag(-161), 1), (zigzag(31), 1)]);
    assert!(!all.iter().any(named("time_seconds_bucket")));
}

#[test]
fn series_that_have_ended_are_written_once_more_as_stale() {
    let (before, after) = (exposed(labels("a", "w", &[])), exposed(labels("b", "w", &[])));
    let figures = figures(vec![two_samples()]);
    let own = BTreeMap::new();
    for native in [false, true] {
        let options = WriteOptions { native, labels: &own, at_ms: 1 };
        let gone = before.gone_in(&after);
        let batches = remote_write(&after, &figures, Some((&gone, &figures)), options);
        let all = written(&unpacked(&batches[0]));
        let of = |target: &str| {
            let target = ("target".to_owned(), target.to_owned());
            all.iter().filter(|(labels, _)| labels.contains(&target)).collect::<Vec<_>>()
        };
        assert_eq!(of("a").len(), of("b").len());
        for (_, values) in of("a") {
            let (field, value) = &values[0];
            let bits = number(value, if *field == 4 { 3 } else { 1 });
            assert_eq!(bits, 0x7ff0_0000_0000_0002);
        }
    }
}

#[test]
fn requests_are_bounded_and_lose_nothing() {
    let all = (0..700).map(|n| labels(&n.to_string(), "as negotiated", &[])).collect();
    let exposed = Exposed::from_labels(Arc::new(all));
    let figures = figures(vec![two_samples(); 700]);
    let (own, text) = (BTreeMap::new(), text(&exposed, &figures));
    let options = WriteOptions { native: false, labels: &own, at_ms: 1 };
    let batches = remote_write(&exposed, &figures, None, options);
    let lines = text.lines().filter(|line| !line.starts_with('#')).count();
    assert_eq!(batches.iter().map(|batch| batch.points).sum::<u64>(), lines as u64);
    assert_eq!(batches.iter().map(|batch| written(&unpacked(batch)).len()).sum::<usize>(), lines);
    assert!(batches.len() > 2 && batches.iter().all(|batch| unpacked(batch).len() < 1_010_000));
    assert!(batches.iter().all(|batch| batch.points <= 5_000 && batch.body.len() < 300_000));
}

fn gunzipped(batch: &Batch) -> Vec<u8> {
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(batch.body.as_slice()).read_to_end(&mut bytes).unwrap();
    bytes
}

fn attributes(message: &[u8], field: u64) -> Vec<(String, String)> {
    let pair = |pair: &[u8]| {
        let value = within(within(pair, 2)[0], 1)[0];
        (text_of(within(pair, 1)[0]).to_owned(), text_of(value).to_owned())
    };
    within(message, field).into_iter().map(pair).collect()
}

#[test]
fn otlp_has_sums_gauges_and_exponential_histograms() {
    let mut one = two_samples();
    one.times[0].add(Duration::ZERO);
    let (exposed, figures) = (exposed(hostile()), figures(vec![one]));
    let resource: BTreeMap<String, String> =
        [("service.name".to_owned(), "firstbyte".to_owned())].into();
    let at = 1_795_392_001_000_000_000;
    let batches = otlp(&exposed, &figures, &resource, at);
    let [batch] = batches.as_slice() else { panic!("{}", batches.len()) };
    let request = gunzipped(batch);
    let of_resource = within(&request, 1)[0];
    let found = attributes(within(of_resource, 1)[0], 1);
    assert_eq!(found, [("service.name".to_owned(), "firstbyte".to_owned())]);
    let metrics = within(within(of_resource, 2)[0], 2);
    let metric = |name: &str| {
        let name = format!("firstbyte.monitor.{name}");
        let is_it = |metric: &&&[u8]| text_of(within(metric, 1)[0]) == name;
        *metrics.iter().find(is_it).unwrap_or_else(|| panic!("{name}"))
    };
    let sum = within(metric("samples"), 7)[0];
    assert_eq!((number(sum, 2), number(sum, 3)), (2, 1));
    let point = within(sum, 1)[0];
    assert_eq!((number(point, 2), number(point, 3)), (1_795_392_000_500_000_000, at));
    assert_eq!(f64::from_bits(number(point, 4)), 2.0);
    assert!(
        attributes(point, 7).contains(&("target".into(), "a\"b\\c\nd\\u{1b}[31m".into())),
        "as it is elsewhere"
    );
    let seen = metric("last_sample_timestamp");
    assert_eq!(text_of(within(seen, 3)[0]), "s");
    assert_eq!(f64::from_bits(number(within(within(seen, 5)[0], 1)[0], 4)), 1_795_392_000.123);

    let histogram = within(metric("time"), 10)[0];
    assert_eq!(number(histogram, 2), 2);
    let points = within(histogram, 1);
    let [resolve, total] = points.as_slice() else { panic!("{}", points.len()) };
    assert_eq!((number(resolve, 4), number(resolve, 7)), (1, 1));
    assert_eq!(within(within(resolve, 8)[0], 2), [b""]);
    assert_eq!((number(total, 4), number(total, 7)), (2, 0));
    assert_eq!((number(total, 5), number(total, 6)), (0.09_f64.to_bits(), zigzag(5)));
    let [least, most] = [12, 13].map(|field| f64::from_bits(number(total, field)));
    assert_eq!((least, most), (0.03, 0.06));
    // OpenTelemetry's index is one less than Prometheus'.
    let positive = within(total, 8)[0];
    assert_eq!(number(positive, 1), zigzag(-162));
    let counts = within(positive, 2)[0];
    assert_eq!((counts.len(), counts[0], counts[32]), (33, 1, 1));
    assert!(attributes(total, 1).contains(&("metric".into(), "total".into())));
}

#[test]
fn what_a_receiver_of_otlp_did_not_take_is_read_out_of_its_answer() {
    assert_eq!(rejected(b""), None);
    assert_eq!(rejected(b"\x0a\x00"), None);
    assert_eq!(rejected(b"\x0a\x07\x08\x03\x12\x03why"), Some((3, "why".into())));
    assert_eq!(rejected(b"<html>"), None);
}
