//! Entries as browsers write them, malformed entries, and counts corrected for sampling.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::entry::{EntryFacts, EntryTimes, classify};
use super::*;
use firstbyte_core::timeline::FailureType;

const NOW: u64 = 1_795_400_123;

/// A new connection over TCP and TLS: [start, worker, fetch, lookup, lookup, connect, secure, connect, request, interim,
/// final, response, end].
const NEW: [f64; EntryTimes::COUNT] =
    [0.0, 0.0, 2.0, 3.0, 5.0, 5.0, 25.0, 46.0, 46.1, 0.0, 70.0, 70.0, 71.0];

fn facts() -> EntryFacts<'static> {
    EntryFacts {
        navigation: "",
        is_https: true,
        protocol: "h2",
        delivery: "",
        size: 4,
        activation: 0.0,
        is_gecko: false,
    }
}

fn class(change: impl FnOnce(&mut EntryFacts<'static>, &mut EntryTimes)) -> EntryClass {
    let (mut facts, mut times) = (facts(), EntryTimes::from_array(NEW));
    change(&mut facts, &mut times);
    classify(&facts, &times)
}

/// Every mark between the fetch and the request has the fetch's time.
fn reused(times: &mut EntryTimes) {
    let at = times.fetch;
    times.lookup_start = at;
    times.lookup_end = at;
    times.connect_start = at;
    times.secure_start = at;
    times.connect_end = at;
}

#[test]
fn entries_are_told_apart_before_anything_is_subtracted() {
    use EntryClass::*;
    assert_eq!(class(|_, _| {}), New);
    assert_eq!(class(|_, times| reused(times)), Reused);
    // As written by browsers that leave out steps that did not happen.
    assert_eq!(
        class(|_, times| {
            reused(times);
            times.secure_start = 0.0;
        }),
        Reused
    );
    assert_eq!(class(|facts, _| facts.delivery = "cache"), Cached);
    assert_eq!(class(|facts, _| facts.delivery = "navigational-prefetch"), Cached);
    // Cached entries still have a protocol and times.
    assert_eq!(
        class(|facts, times| {
            facts.size = 2;
            reused(times);
        }),
        Cached
    );
    let opaque = |times: &mut EntryTimes| {
        let mut all = [0.0; EntryTimes::COUNT];
        (all[0], all[2], all[12]) = (2.0, 2.0, 71.0);
        *times = EntryTimes::from_array(all);
    };
    assert_eq!(class(|_, times| opaque(times)), Opaque);
    assert_eq!(
        class(|facts, times| {
            facts.is_https = false;
            opaque(times);
        }),
        Opaque
    );
    assert_eq!(
        class(|facts, times| {
            facts.is_https = false;
            times.secure_start = 0.0;
        }),
        PlainHttp
    );
    assert_eq!(class(|facts, _| facts.navigation = "prerender"), Prerendered);
    assert_eq!(class(|facts, _| facts.activation = 500.0), Prerendered);
    assert_eq!(
        class(|facts, times| {
            facts.activation = 500.0;
            let array = NEW.map(|at| if at > 0.0 { at + 600.0 } else { 0.0 });
            *times = EntryTimes::from_array(array);
            times.start = 600.0;
        }),
        New,
        "what a page loads once it is looked at is as anywhere"
    );
    assert_eq!(
        class(|facts, _| {
            facts.navigation = "navigate";
            facts.activation = 0.1;
        }),
        Prerendered
    );
    assert_eq!(class(|facts, _| facts.navigation = "back_forward"), BackForward);
    assert_eq!(class(|facts, _| facts.navigation = "reload"), New);
    assert_eq!(class(|_, times| times.worker = 2.5), ServiceWorker);
    // A preconnect under way: its end is visible, its beginning is not.
    assert_eq!(
        class(|_, times| {
            reused(times);
            times.connect_end = 20.0;
        }),
        BegunBefore
    );
}

#[test]
fn times_that_cannot_be_are_no_times() {
    for bad in [-1.0, -0.001, 1e308, f64::NAN, f64::INFINITY, 1e10] {
        for place in 0..EntryTimes::COUNT {
            let mut array = NEW;
            array[place] = bad;
            let times = EntryTimes::from_array(array);
            assert_eq!(classify(&facts(), &times), EntryClass::Impossible, "{bad} at {place}");
        }
    }
    let swapped = [(3, 4), (5, 6), (6, 7), (8, 10), (10, 12), (2, 3)];
    for (one, other) in swapped {
        let mut array = NEW;
        array[other] = array[one] - 0.5;
        let times = EntryTimes::from_array(array);
        assert_eq!(classify(&facts(), &times), EntryClass::Impossible, "{other} before {one}");
    }
    // Early data: the request leaves before the handshake is over.
    assert_eq!(class(|_, times| times.request_start = 26.0), EntryClass::New);
}

fn beacon(entries: &[Value]) -> Value {
    json!({
        "v": 1, "page": "https://shop.example", "part": 0.5, "step": 0.1, "isolated": false,
        "activation": 0, "left": 3, "entries": entries,
    })
}

fn entry(origin: &str, protocol: &str, times: [f64; EntryTimes::COUNT]) -> Value {
    let mut all = vec![json!(""), json!(origin), json!(protocol), json!(""), json!(4)];
    all.extend(times.map(|at| json!(at)));
    Value::Array(all)
}

fn parsed(value: &Value) -> Result<BeaconRecord, BadBeacon> {
    parse_beacon(value.to_string().as_bytes(), NOW)
}

#[test]
fn a_beacon_becomes_a_line() {
    let mut opaque = [0.0; EntryTimes::COUNT];
    (opaque[0], opaque[2], opaque[12]) = (2.0, 2.0, 71.0);
    let mut impossible = NEW;
    impossible[7] = -3.0;
    let record = parsed(&beacon(&[
        entry("", "h2", NEW),
        entry("https://cdn.example", "", opaque),
        entry("https://cdn.example", "", opaque),
        entry("", "h2", impossible),
        entry("chrome-extension://abc", "", opaque),
        json!("what"),
    ]))
    .unwrap();
    assert_eq!((record.impossible, record.left_out), (3, 3));
    assert_eq!(record.received_unix_s, 1_795_400_100, "to the minute");
    assert_eq!((record.page.as_str(), record.step_us), ("https://shop.example", 100.0));
    let counted = &record.counted[..];
    assert!(matches!(counted, [CountedEntries { class: EntryClass::Opaque, entries: 2, .. }]));
    let [new] = &record.new[..] else { panic!("{record:?}") };
    assert_eq!((new.connect_start_us, new.secure_start_us), (3_000, Some(23_000)));
    let phase = |phase| new.phase(phase, record.step_us).map(|range| range.seen_us);
    assert_eq!(phase(FieldPhase::Queue), Some(1_000.0));
    assert_eq!(phase(FieldPhase::Resolve), Some(2_000.0));
    assert_eq!(phase(FieldPhase::Connect), Some(20_000.0));
    assert_eq!(phase(FieldPhase::Tls), Some(21_000.0));
    assert_eq!(phase(FieldPhase::Quic), None);
    assert_eq!(phase(FieldPhase::Wait), Some(23_900.0));
    assert_eq!(phase(FieldPhase::FirstByte), Some(68_000.0));
    let line = serde_json::to_string(&FieldLine::Beacon(record.clone())).unwrap();
    assert!(!line.contains('\n'));
    assert_eq!(FieldLine::parse(line.as_bytes()), Ok(FieldLine::Beacon(record)));
}

#[test]
fn an_early_hint_is_not_the_first_byte() {
    let mut times = NEW;
    (times[9], times[10], times[11]) = (50.0, 70.0, 50.0);
    let first_byte = |times| {
        let record = parsed(&beacon(&[entry("", "h2", times)])).unwrap();
        (record.new[0].interim_us, record.new[0].first_byte_us)
    };
    assert_eq!(first_byte(times), (Some(48_000), Some(68_000)));
    let of_gecko = |protocol| {
        let mut beacon = beacon(&[entry("", protocol, NEW)]);
        beacon["gecko"] = json!(true);
        parsed(&beacon).unwrap().new[0].first_byte_us
    };
    // Over HTTP/1.1 it is the time when the session tickets arrived.
    assert_eq!([of_gecko("h2"), of_gecko("http/1.1")], [Some(68_000), None]);
    // If a browser does not report the final response's time, it is unknown.
    times[10] = 0.0;
    assert_eq!(first_byte(times), (Some(48_000), None));
}

#[test]
fn quic_has_one_set_up() {
    let mut times = NEW;
    times[6] = times[5];
    let record = parsed(&beacon(&[entry("", "h3", times)])).unwrap();
    let phase = |phase| record.new[0].phase(phase, 100.0).map(|range| range.seen_us);
    assert_eq!(phase(FieldPhase::Quic), Some(41_000.0));
    assert_eq!([FieldPhase::Connect, FieldPhase::Tls].map(phase), [None, None]);
}

#[test]
fn a_phase_within_a_step_is_an_interval() {
    let range = TimeRange::between(5_000, 5_000, 1_000.0);
    assert_eq!((range.least_us, range.seen_us, range.most_us), (0.0, 0.0, 2_000.0));
    assert_eq!(range.middle_us(), 1_000.0);
    assert_eq!(TimeRange::between(5_000, 25_000, 100.0).middle_us(), 20_000.0);
}

#[test]
fn what_is_no_beacon_is_refused_by_name() {
    let good = beacon(&[entry("", "h2", NEW)]);
    let changed = |name: &str, value: Value| {
        let mut beacon = good.clone();
        beacon[name] = value;
        beacon
    };
    assert!(parsed(&good).is_ok());
    for (value, expected) in [
        (changed("v", json!(2)), BadBeacon::NotBeacon),
        (changed("v", json!("1")), BadBeacon::NotBeacon),
        (json!([1, 2]), BadBeacon::NotBeacon),
        (json!(null), BadBeacon::NotBeacon),
        (changed("page", json!("file:///etc/passwd")), BadBeacon::Page),
        (changed("page", json!("https://a b")), BadBeacon::Page),
        (changed("page", json!(format!("https://{}", "a".repeat(300)))), BadBeacon::Page),
        (changed("part", json!(0)), BadBeacon::Sampling),
        (changed("part", json!(1e-9)), BadBeacon::Sampling),
        (changed("part", json!(-0.5)), BadBeacon::Sampling),
        (changed("part", json!(2)), BadBeacon::Sampling),
        (changed("step", json!(0)), BadBeacon::Step),
        (changed("step", json!(-1)), BadBeacon::Step),
        (changed("step", json!(1e300)), BadBeacon::Step),
        (changed("entries", json!([])), BadBeacon::NoEntries),
        (changed("entries", json!([[], 1, "x"])), BadBeacon::NoEntries),
        (changed("entries", json!(vec![0; 401])), BadBeacon::TooManyEntries),
    ] {
        assert_eq!(parsed(&value), Err(expected), "{value}");
    }
    let text = good.to_string();
    for end in 0..text.len() {
        assert_eq!(parse_beacon(&text.as_bytes()[..end], NOW), Err(BadBeacon::NotJson));
    }
    assert_eq!(parse_beacon(&vec![b' '; BEACON_BYTES + 1], NOW), Err(BadBeacon::TooLarge));
    assert_eq!(parse_beacon("[".repeat(60_000).as_bytes(), NOW), Err(BadBeacon::NotJson));
}

#[test]
fn origins_are_all_that_is_kept_of_urls() {
    for (url, expected) in [
        ("https://Shop.Example/basket?user=7#x", Some("https://shop.example")),
        ("https://shop.example:443", Some("https://shop.example")),
        ("http://shop.example:80/", Some("http://shop.example")),
        ("http://127.0.0.1:8080/a", Some("http://127.0.0.1:8080")),
        ("https://[2001:db8::1]:8443/", Some("https://[2001:db8::1]:8443")),
        ("https://[2001:db8::1]/", Some("https://[2001:db8::1]")),
        ("https://me:secret@shop.example/", None),
        ("https://shop.example:0/", None),
        ("https://shop.example:99999/", None),
        ("https://\u{1b}[2J/", None),
        ("https:///", None),
        ("data:text/plain,x", None),
        ("null", None),
        ("", None),
    ] {
        assert_eq!(page_origin(url).as_deref(), expected, "{url}");
    }
}

fn report(url: &str, body: &Value) -> Value {
    json!({"age": 5, "type": "network-error", "url": url, "user_agent": "secret", "body": body})
}

fn failed(kind: &str, phase: &str, fraction: f64) -> Value {
    let body = json!({
        "sampling_fraction": fraction, "elapsed_time": 143, "phase": phase, "type": kind,
        "server_ip": "192.0.2.7", "protocol": "h2", "referrer": "https://secret.example/",
        "method": "GET", "status_code": 0,
    });
    report("https://shop.example/secret?user=secret", &body)
}

fn read(reports: &[Value]) -> ReadReports {
    parse_reports(Value::from(reports).to_string().as_bytes(), NOW).unwrap()
}

#[test]
fn reports_are_kept_without_who_sent_them() {
    let found = read(&[
        failed("tcp.refused", "connection", 1.0),
        failed("ok", "application", 0.01),
        failed("http.response.invalid.empty", "application", 1.0),
        json!({"type": "csp-violation", "url": "https://shop.example/", "body": {}}),
    ]);
    assert_eq!((found.kept.len(), found.others, found.impossible), (3, 1, 0));
    let kept = serde_json::to_string(&found.kept.iter().collect::<Vec<_>>()).unwrap();
    assert!(!kept.contains("secret") && !kept.contains("192.0.2"), "{kept}");
    assert_eq!(found.kept[0].failure.as_deref(), Some("tcp.refused"));
    assert_eq!(found.kept[0].elapsed_ms, Some(143));
    assert_eq!((found.kept[1].failure.as_deref(), found.kept[1].sampling), (None, 0.01));
    assert_eq!(found.kept[2].failure.as_deref(), Some("http.response.invalid"));
}

#[test]
fn forged_reports_are_counted_and_left_out() {
    let changed = |name: &str, value: Value| {
        let mut report = failed("tcp.refused", "connection", 1.0);
        report["body"][name] = value;
        report
    };
    let forged = [
        changed("phase", json!("dns")),
        changed("phase", json!("never")),
        changed("phase", json!(7)),
        changed("sampling_fraction", json!(0)),
        changed("sampling_fraction", json!(-1)),
        changed("sampling_fraction", json!(1e-30)),
        changed("sampling_fraction", json!("1")),
        changed("elapsed_time", json!(-1)),
        changed("elapsed_time", json!(1e300)),
        changed("elapsed_time", json!([])),
        changed("status_code", json!(70_000)),
        changed("status_code", json!(7)),
        changed("type", json!(null)),
        failed("dns.failed", "connection", 1.0),
        failed("ok", "dns", 1.0),
        report("file:///x", &json!({})),
        report("https://shop.example/", &json!(null)),
        json!({"type": "network-error"}),
        json!(7),
    ];
    let found = read(&forged);
    assert_eq!((found.kept.len(), found.impossible as usize), (0, forged.len()), "{found:?}");
    assert_eq!(parse_reports(b"[{", NOW), Err(BadReports::NotJson));
    assert_eq!(parse_reports(b"{}", NOW), Err(BadReports::NotReports));
    let many = Value::from(vec![0; MOST_REPORTS + 1]).to_string();
    assert_eq!(parse_reports(many.as_bytes(), NOW), Err(BadReports::TooMany));
}

fn summary(lines: impl IntoIterator<Item = FieldLine>) -> FieldSummary {
    let mut all = FieldLines::default();
    lines.into_iter().for_each(|line| all.add(&line));
    all.into_summary()
}

/// A thousand reports with fractions from 0.01 to 1: the estimate includes unsampled events, and its interval contains
/// the truth.
#[test]
fn sampling_is_undone() {
    let mut random = fastrand::Rng::with_seed(16);
    let (mut held, mut shares_held) = (0, 0);
    let rounds = 200;
    for _ in 0..rounds {
        let mut all = FieldLines::default();
        let (mut failures, mut requests, mut sent) = (0.0, 0.0, 0);
        while sent < 1_000 {
            let is_ok = random.f64() >= 0.03;
            let fraction = if is_ok { 0.01 } else { *random.choice(&[0.1, 0.5, 1.0]).unwrap() };
            requests += 1.0;
            failures += f64::from(u8::from(!is_ok));
            if random.f64() < fraction {
                sent += 1;
                let kind = if is_ok { "ok" } else { "http.failed" };
                let kept = read(&[failed(kind, "application", fraction)]).kept.remove(0);
                all.add(&FieldLine::Report(kept));
            }
        }
        let summary = all.into_summary();
        let count = &summary.failures[0].count;
        let within = count.interval();
        held += u32::from((within.low..=within.high).contains(&failures));
        let (share, of_share) = summary.shares[0].share().unwrap();
        assert!((of_share.low..=of_share.high).contains(&share));
        let truth = failures / requests;
        shares_held += u32::from((of_share.low..=of_share.high).contains(&truth));
    }
    assert!(held >= rounds * 95 / 100, "{held} of {rounds}");
    assert!(shares_held >= rounds * 93 / 100, "{shares_held} of {rounds}");
}

#[test]
fn counts_have_the_intervals_of_the_books() {
    // Garwood's exact intervals.
    for (seen, low, high) in
        [(1, 0.025, 5.572), (5, 1.623, 11.668), (20, 12.217, 30.888), (100, 81.364, 121.627)]
    {
        let mut count = WeightedCount::default();
        count.add_many(seen, 1.0);
        let found = count.interval();
        assert!((found.low - low).abs() < 0.02 && (found.high - high).abs() < 0.02, "{found:?}");
    }
    let none = WeightedCount::default().interval();
    assert!(none.low == 0.0 && (none.high - 3.689).abs() < 0.03, "{none:?}");
}

#[test]
fn a_downgraded_report_says_nothing_of_dns() {
    let found = read(&[
        failed("dns.address_changed", "dns", 0.5),
        failed("dns.name_not_resolved", "dns", 1.0),
        failed("ok", "application", 0.1),
    ]);
    assert_eq!(found.kept[0].elapsed_ms, None);
    let summary = summary(found.kept.into_iter().map(FieldLine::Report));
    assert_eq!((summary.downgraded.seen, summary.downgraded.estimate), (1, 2.0));
    let [failures] = &summary.failures[..] else { panic!("{summary:?}") };
    assert_eq!((failures.failure, failures.count.seen), (FailureType::DnsNameNotResolved, 1));
    let (share, _) = summary.shares[0].share().unwrap();
    assert!((share - 1.0 / 11.0).abs() < 1e-9);
}

#[test]
fn pages_weigh_what_they_stand_for() {
    let line = |connect_ms: f64, part: f64| {
        let mut times = NEW;
        (6..13).filter(|place| *place != 9).for_each(|place| times[place] += connect_ms);
        let mut beacon = beacon(&[entry("", "h2", times)]);
        beacon["part"] = json!(part);
        FieldLine::Beacon(parsed(&beacon).unwrap())
    };
    // Thirty that were not sampled, and thirty that stand for ten times as many.
    let fast = (0..30).map(|_| line(0.0, 1.0));
    let slow = (0..30).map(|_| line(100.0, 0.1));
    let summary = summary(fast.chain(slow));
    assert_eq!((summary.pages.seen, summary.pages.estimate), (60, 330.0));
    let [group] = &summary.groups[..] else { panic!("{summary:?}") };
    assert_eq!(group.entries(EntryClass::New), 60);
    let connect = group.phases.iter().find(|figures| figures.phase == FieldPhase::Connect).unwrap();
    let median = connect.quantiles[0];
    assert_eq!(median.range.seen_us, 120_000.0);
    let interval = median.interval.unwrap();
    assert!(interval.low <= 120_000.0 - 200.0 && interval.high >= 120_000.0 + 200.0);
    assert_eq!(connect.quantiles.len(), 3);
}

/// Numbers that a hostile sender might send.
fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        0.0..200.0,
        Just(0.0),
        any::<f64>().prop_filter("JSON has no others", |n| n.is_finite()),
        Just(1e308),
        Just(-1.0),
    ]
}

proptest! {
    /// Any beacon that is accepted becomes a line that can be read back, and every phase in it is an interval above
    /// zero.
    #[test]
    fn nothing_that_is_sent_breaks_anything(
        times in prop::collection::vec(prop::array::uniform13(number()), 1..20),
        sorted in any::<bool>(),
        protocol in "h1|h2|h3|.{0,12}",
        step in number(),
        part in number(),
    ) {
        let entries: Vec<Value> = times
            .into_iter()
            .map(|mut times| {
                if sorted {
                    times.sort_by(f64::total_cmp);
                    times[1] = 0.0;
                }
                entry("", &protocol, times)
            })
            .collect();
        let mut sent = beacon(&entries);
        (sent["step"], sent["part"]) = (json!(step), json!(part));
        let Ok(record) = parsed(&sent) else { return Ok(()) };
        let seen: u64 = record.counted.iter().map(|counted| counted.entries).sum();
        prop_assert_eq!(seen + record.new.len() as u64 + record.impossible, entries.len() as u64);
        for connection in &record.new {
            for phase in FieldPhase::ALL {
                let Some(range) = connection.phase(phase, record.step_us) else { continue };
                prop_assert!(range.least_us >= 0.0 && range.least_us <= range.seen_us);
                prop_assert!(range.seen_us < range.most_us && range.most_us.is_finite());
            }
        }
        let line = serde_json::to_vec(&FieldLine::Beacon(record.clone())).unwrap();
        prop_assert_eq!(FieldLine::parse(&line), Ok(FieldLine::Beacon(record.clone())));
        let summary = summary([FieldLine::Beacon(record)]);
        for figures in summary.groups.iter().flat_map(|group| &group.phases) {
            for quantile in &figures.quantiles {
                let TimeRange { least_us, seen_us, most_us } = quantile.range;
                prop_assert!(least_us <= seen_us && seen_us <= most_us);
            }
        }
    }

    /// A clock with steps of any size, each reading rounded down or up: the true duration is in the interval.
    #[test]
    fn the_true_time_is_in_the_interval(
        from in 0_u64..1_000_000,
        length in 0_u64..1_000_000,
        step in 5_u64..20_000,
        up in any::<[bool; 2]>(),
    ) {
        let shown = |at: u64, up: bool| at / step * step + if up && !at.is_multiple_of(step) { step } else { 0 };
        let (a, b) = (shown(from, up[0]), shown(from + length, up[1]));
        // Clocks do not run backwards.
        prop_assume!(a <= b);
        let range = TimeRange::between(a, b, step as f64);
        prop_assert!((range.least_us..=range.most_us).contains(&(length as f64)), "{range:?}");
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = parse_beacon(&bytes, NOW);
        let _ = parse_reports(&bytes, NOW);
        let _ = FieldLine::parse(&bytes);
    }
}
