use super::*;
use firstbyte_core::stats::Pace;

/// The story's own case, generated to match its figures: see [`story`].
const STORY: &str = include_str!("../../fixtures/averages/story.csv");

/// The day on which TLS 1.3 is turned on in it.
const TURNED_ON: (i64, u32, u32) = (2018, 11, 14);

/// An export that matches the figures of the story: five months of daily averages over 14,302,686 page views, one in a
/// hundred of them timed, in which the average connection time falls by 10 ms.
///
/// Everything else is made up: the days, the level before (64 ms), weekends that are 6 ms slower with two thirds of the
/// visits, the variation of days (120 ms per connection, 1.5 ms per day with half carried over to the next day), two
/// days with an outage elsewhere, and one day without data.
fn story() -> String {
    const PAGE_VIEWS: u64 = 14_302_686;
    let mut random = fastrand::Rng::with_seed(20_181_114);
    let mut normal = move || -> f64 { (0..12).map(|_| random.f64()).sum::<f64>() - 6.0 };
    let first = day_number(2018, 9, 1).unwrap();
    let change = day_number(TURNED_ON.0, TURNED_ON.1, TURNED_ON.2).unwrap();
    let days: Vec<i64> = (first..first + 153).filter(|day| *day != first + 101).collect();
    let weekend = |day: i64| (day + 3).rem_euclid(7) >= 5;
    let shares: Vec<f64> = days
        .iter()
        .map(|day| (if weekend(*day) { 0.67 } else { 1.0 }) * (1.0 + 0.06 * normal()))
        .collect();
    let all: f64 = shares.iter().sum();
    let mut left = PAGE_VIEWS;
    let mut state = 0.0;
    let mut text = String::from(
        "# Made up to a story's figures by crates/firstbyte-sources/src/averages/tests.rs\n\
         Date,Pageviews,Speed Metrics Sample,Avg. Server Connection Time (sec)\n",
    );
    let mut timed = 0;
    for (index, (day, share)) in days.iter().zip(&shares).enumerate() {
        let views = match index + 1 == days.len() {
            true => left,
            false => (share / all * PAGE_VIEWS as f64).round() as u64,
        };
        left -= views;
        let samples = views / 100;
        timed += samples;
        state = 0.5 * state + 1.3 * normal();
        let level = if *day >= change { 54.0 } else { 64.0 };
        let outage = if [first + 40, first + 120].contains(day) { 35.0 } else { 0.0 };
        let own = 120.0 / (samples as f64).sqrt() * normal();
        let average = level + state + own + outage + if weekend(*day) { 6.0 } else { 0.0 };
        let (year, month, number) = date_of_day(*day);
        let views = grouped(views);
        text +=
            &format!("{year:04}{month:02}{number:02},\"{views}\",{samples},{:.4}\n", average / 1e3);
    }
    text + &format!(",\"{}\",\"{}\",0.0602\n", grouped(PAGE_VIEWS), grouped(timed))
}

fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().map(|g| std::str::from_utf8(g).unwrap()).collect();
    groups.join(",")
}

#[test]
fn the_storys_fixture_is_as_it_is_made() {
    if std::env::var_os("FIXTURE_UPDATE").is_some() {
        std::fs::write(
            concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/averages/story.csv"),
            story(),
        )
        .unwrap();
    }
    assert_eq!(story(), STORY);
}

#[test]
fn the_storys_case() {
    let averages = DailyAverages::read(STORY.as_bytes()).unwrap();
    assert_eq!(averages.page_views(), Some(14_302_686));
    assert_eq!((averages.days.len(), averages.missing_days(), averages.passed_over), (152, 1, 1));
    assert_eq!(averages.product, AveragesProduct::GoogleAnalytics);
    assert_eq!(averages.time, AveragedTime::Connection);
    let found = averages.changes().unwrap();
    let [change] = found.changes[..] else { panic!("{:#?}", found.changes) };
    let day = day_number(TURNED_ON.0, TURNED_ON.1, TURNED_ON.2).unwrap();
    assert_eq!(change.pace, Pace::AtOnce);
    assert!(change.between[0] <= day && day <= change.between[1], "{change:?}");
    assert!((change.form.begins() - day).abs() <= 1);
    assert!((-11.5e6..-8.5e6).contains(&change.difference), "{change:?}");
    assert!(change.interval.low < -10e6 && -10e6 < change.interval.high, "{change:?}");
    assert!(change.interval.high - change.interval.low < 5e6, "{change:?}");
    assert!(found.outliers.contains(&40) && found.outliers.contains(&119), "the outages");
    assert!(found.outliers.len() <= 6, "{:?}", found.outliers);
    let weekend = found.season[2].unwrap() - found.season[4].unwrap();
    assert!((3e6..9e6).contains(&weekend), "Saturday minus Monday: {weekend}");
    assert!(averages.visits_ratio(change.form).is_some_and(|ratio| (0.9..1.1).contains(&ratio)));
}

fn read(text: &str) -> Result<DailyAverages, String> {
    DailyAverages::read(text.as_bytes()).map_err(|error| error.to_string())
}

#[test]
fn exports_of_products() {
    let analytics = "\u{feff}# ----------------------------------------\n# All Web Site Data\n# 20180101-20180103\n# ----------------------------------------\n\nDay Index,Avg. Server Connection Time (sec),Page Load Sample\n1/14/18,0.06,\"1,204\"\n1/15/18,0.05,998\n,0.055,\"2,202\"\n\nDay Index,Pageviews\n1/14/18,100\n";
    let read_analytics = read(analytics).unwrap();
    assert_eq!(read_analytics.days.len(), 2);
    assert_eq!(read_analytics.days[0].samples, Some(1204));
    assert_eq!(read_analytics.days[0].day, day_number(2018, 1, 14).unwrap());
    assert!((read_analytics.days[1].average_ns - 50e6).abs() < 1.0);
    assert_eq!(read_analytics.step_ns(), 1e7);

    let matomo = "date;avg_time_network;nb_hits_with_time_network\n2026-01-01;0,061;1.204\n2026-01-02;0,05;998\n";
    let matomo = read(matomo).unwrap();
    assert_eq!((matomo.product, matomo.time), (AveragesProduct::Matomo, AveragedTime::Network));
    assert!((matomo.days[0].average_ns - 61e6).abs() < 1.0);
    assert_eq!(matomo.days[0].samples, Some(1204));

    let wide: Vec<u8> = [0xff, 0xfe]
        .into_iter()
        .chain(
            "Date\tAvg. network time\n2026-01-01\t0.12s\n"
                .encode_utf16()
                .flat_map(u16::to_le_bytes),
        )
        .collect();
    assert!((DailyAverages::read(&wide).unwrap().days[0].average_ns - 120e6).abs() < 1.0);

    let plain = read("date,average,samples\n2026-01-02,61.5,10\n2026-01-01,60,20\n2026-01-03,0,0\n2026-01-05,-,\n").unwrap();
    assert_eq!((plain.days.len(), plain.without_average, plain.unit_was_said), (2, 2, false));
    assert!((plain.days[0].average_ns - 60e6).abs() < 1.0);
}

#[test]
fn what_is_wrong_is_named_by_line_and_column() {
    for (text, says) in [
        ("", "line 1, column 1: no header"),
        ("a,b\n1,2\n", "line 1, column 1: no header"),
        ("date,visits\n2026-01-01,2\n", "line 1, column 1: no column with an average"),
        ("date,avg response_ms,avg load_ms\n", "line 1, column 3: several columns with averages"),
        (
            "date,average\n2026-01-01,abc\n",
            "line 2, column 2: \"abc\" under \"average\" is not a number",
        ),
        ("date,average\n2026-01-01,-3\n", "line 2, column 2: \"-3\""),
        ("date,average\n2026-01-01,3 miles\n", "has an unknown unit"),
        (
            "date,average\n2026-02-30,3\n",
            "line 2, column 1: \"2026-02-30\" under \"date\" is not an existing day",
        ),
        (
            "date,average\nyesterday,3\n",
            "line 2, column 1: \"yesterday\" under \"date\" is not a date",
        ),
        ("date,average\n1/2/26,3\n", "is ambiguous"),
        ("date,average\n13/1/26,3\n1/14/26,3\n", "line 3, column 1"),
        (
            "date,average,samples\n2026-01-01,3,1.5\n",
            "line 2, column 3: \"1.5\" under \"samples\" is not a whole number",
        ),
        (
            "date,average\n2026-01-01,3\n2026-01-01,4\n",
            "line 3, column 1: 2026-01-01 is given twice",
        ),
        ("date,average\n2026-01-01,\"3\n", "line 2, column 2: a quotation mark is not closed"),
        ("date,average\n", "no day has an average"),
        ("date,average\n2026-01-01,1e300\n", "is not between"),
    ] {
        let error = read(text).expect_err(text);
        assert!(error.contains(says), "{text:?}: {error}");
    }
    let not_text = DailyAverages::read(b"date,average\n\xff\xff,1\n").unwrap_err();
    assert_eq!((not_text.line, not_text.column), (2, 1));
}

#[test]
fn too_few_days_have_no_changes() {
    let text = STORY.lines().take(30).collect::<Vec<_>>().join("\n");
    assert_eq!(read(&text).unwrap().changes(), None);
}
