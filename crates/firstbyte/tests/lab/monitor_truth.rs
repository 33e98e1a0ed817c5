//! Compares the changes and outages that a monitor reports with the scenario that made them: it reports each once in
//! each state, with the right size, cause and scope, and nothing else.

use std::fmt::Write as _;

use serde_json::Value;

use crate::monitor_watch::{RawSample, ToldLine, WatchedLab, seconds, watch};
use crate::support::{Permits, Scene};

/// Maximum number of samples from a change to its first line.
const PROVISIONAL_WITHIN: usize = 15;
/// Tolerance of an event's time, in seconds.
const CHANGE_TIME: f64 = 5.0;
/// Tolerance of sizes, as a share of the truth.
const SIZE: f64 = 0.1;
/// Tolerance of an outage's beginning, in seconds: two samples.
const BEGINNING: f64 = 2.0;
/// Tolerance of an outage's length, in seconds.
const LENGTH: f64 = 3.0;
/// Tolerance of an outage's share of failures.
const FAILED_SHARE: f64 = 0.05;
/// Maximum time from the second failure, or the second good sample, to the line that reports it, in seconds.
const TOLD_WITHIN: f64 = 3.0;

/// A target, its servers, their changes, and the truth about them. Times are seconds since the lab was
/// ready.
struct Case {
    /// The target is called `NAME.test`, and so are its servers.
    name: &'static str,
    servers: Vec<Server>,
    /// Additional lines for the target in the monitor's configuration.
    settings: &'static str,
    changes: Vec<(f64, String)>,
    truth: Truth,
}

struct Server {
    host: &'static str,
    settings: &'static str,
    has_ipv6: bool,
}

enum Truth {
    Unchanged,
    Level(LevelTruth),
    Outage(OutageTruth),
}

struct LevelTruth {
    at: f64,
    metric: &'static str,
    statistic: &'static str,
    cause: &'static str,
    tags: &'static [(&'static str, &'static str)],
    /// Value after minus value before: in milliseconds, or for shares as a fraction (1 is all).
    difference: f64,
}

struct OutageTruth {
    /// State at the end of the run.
    state: &'static str,
    failure: &'static str,
    /// Start and end of each downtime.
    down: &'static [[f64; 2]],
}

impl Truth {
    /// The states that are reported, in this order.
    fn told_states(&self) -> &'static [&'static str] {
        match self {
            Self::Unchanged => &[],
            Self::Level(_) => &["provisional", "confirmed"],
            Self::Outage(outage) => match outage.state {
                "began" => &["down"],
                "ended" => &["down", "up again"],
                _ => &["down", "up again", "flapping"],
            },
        }
    }
}

impl Case {
    fn new(name: &'static str, server: &'static str, truth: Truth) -> Self {
        let servers = vec![Server { host: name, settings: server, has_ipv6: false }];
        Self { name, servers, settings: "", changes: Vec::new(), truth }
    }

    /// Adds a change of the first server at this time.
    fn change(mut self, at: f64, change: &str) -> Self {
        let host = self.servers[0].host;
        self.changes.push((at, format!("host = \"{host}\"\n{change}")));
        self
    }

    fn target(&self) -> String {
        format!("{}.test", self.name)
    }
}

/// The server thinks 20 ms longer.
fn slower() -> Case {
    let truth = LevelTruth {
        at: 41.0,
        metric: "ttfb",
        statistic: "median",
        cause: "server",
        tags: &[],
        difference: 20.0,
    };
    let before = "server = { kind = \"builtin\", think_time = \"3ms\" }";
    Case::new("slower", before, Truth::Level(truth))
        .change(41.0, "server = { think_time = \"23ms\" }")
}

/// TLS 1.3 saves a round trip.
fn version(round_trip_ms: f64) -> Case {
    let truth = LevelTruth {
        at: 43.0,
        metric: "ttfb",
        statistic: "median",
        cause: "tls.version",
        tags: &[],
        difference: -round_trip_ms,
    };
    Case::new("version", "server = { kind = \"nginx\", tls = [\"1.2\"] }", Truth::Level(truth))
        .change(43.0, "server = { tls = [\"1.2\", \"1.3\"] }")
}

/// Sessions are no longer resumed.
fn tickets() -> Case {
    let truth = LevelTruth {
        at: 46.0,
        metric: "shortfalls",
        statistic: "shortfalls",
        cause: "tls.handshake",
        tags: &[],
        difference: 1.0,
    };
    let case = Case::new("tickets", "server = { kind = \"nginx\" }", Truth::Level(truth))
        .change(46.0, "server = { resumption = \"none\" }");
    Case { settings: "vary = [\"session=resumed\"]", ..case }
}

/// The certificates no longer fit into the initial window: one round trip more.
fn chain(round_trip_ms: f64) -> Case {
    let truth = LevelTruth {
        at: 44.5,
        metric: "ttfb",
        statistic: "median",
        cause: "tls.chain_bytes",
        tags: &[],
        difference: round_trip_ms,
    };
    let before = "server = { kind = \"nginx\", chain_bytes = 3000 }";
    Case::new("chain", before, Truth::Level(truth)).change(44.5, "server = { chain_bytes = 18000 }")
}

/// The path grows by 20 ms over IPv6: three round trips (TCP, TLS, request).
fn path() -> Case {
    let truth = LevelTruth {
        at: 48.0,
        metric: "ttfb",
        statistic: "median",
        cause: "rtt",
        tags: &[("family", "6")],
        difference: 60.0,
    };
    let mut case = Case::new("path", "server = { kind = \"nginx\" }", Truth::Level(truth))
        .change(48.0, "up = { ipv6 = { delay = \"40ms\" } }");
    case.servers[0].has_ipv6 = true;
    Case { settings: "vary = [\"family=4,6\"]", ..case }
}

/// One request in three takes 30 ms longer; the median does not change.
fn tail() -> Case {
    let truth = LevelTruth {
        at: 170.0,
        metric: "ttfb",
        statistic: "p90",
        cause: "server",
        tags: &[],
        difference: 30.0,
    };
    let before = "server = { kind = \"builtin\", think_time = \"3ms\" }";
    Case::new("tail", before, Truth::Level(truth))
        .change(170.0, "server = { slow = { every = 3, think_time = \"30ms\" } }")
}

/// One of four addresses thinks 20 ms longer. This must be the first case: the first of all servers has this address.
fn edges() -> Case {
    let truth = LevelTruth {
        at: 101.0,
        metric: "ttfb",
        statistic: "median",
        cause: "server",
        tags: &[("edge", "198.51.100.1")],
        difference: 20.0,
    };
    let settings = "server = { kind = \"builtin\", think_time = \"3ms\" }";
    let case = Case::new("edges", settings, Truth::Level(truth))
        .change(101.0, "server = { think_time = \"23ms\" }");
    let others = ["edge2", "edge3", "edge4"];
    let mut servers = case.servers;
    servers.extend(others.map(|host| Server { host, settings, has_ipv6: false }));
    Case { servers, settings: "edges = \"all\"", ..case }
}

/// Connections are refused for a while.
fn refusing(down: &'static [[f64; 2]]) -> Case {
    let truth = OutageTruth { state: "ended", failure: "tcp.refused", down };
    let case = Case::new("refusing", "server = { kind = \"nginx\" }", Truth::Outage(truth));
    down.iter().fold(case, |case, [from, to]| {
        case.change(*from, "server = { refuses = true }")
            .change(*to, "server = { refuses = false }")
    })
}

/// Down and up for a minute each: one event.
fn flapping() -> Case {
    let down = &[[102.0, 162.0], [222.0, 282.0]];
    let truth = OutageTruth { state: "flapping", failure: "tcp.refused", down };
    let case = Case::new("flapping", "server = { kind = \"builtin\" }", Truth::Outage(truth));
    down.iter().fold(case, |case, [from, to]| {
        case.change(*from, "server = { refuses = true }")
            .change(*to, "server = { refuses = false }")
    })
}

/// The server answers 503 for a minute.
fn unavailable() -> Case {
    let truth = OutageTruth { state: "ended", failure: "http.error", down: &[[52.0, 112.0]] };
    Case::new("unavailable", "server = { kind = \"nginx\" }", Truth::Outage(truth))
        .change(52.0, "server = { nginx = { directives = [\"return 503;\"] } }")
        .change(112.0, "server = { nginx = { directives = [] } }")
}

/// The certificate expires and is not renewed.
fn expired() -> Case {
    let down = &[[54.0, f64::INFINITY]];
    let truth = OutageTruth { state: "began", failure: "tls.cert.date_invalid", down };
    Case::new("lapsed", "server = { kind = \"nginx\" }", Truth::Outage(truth))
        .change(54.0, "server = { certificate_days = -1 }")
}

/// Nothing happens.
fn steady() -> Case {
    Case::new("steady", "server = { kind = \"nginx\" }", Truth::Unchanged)
}

/// All servers of these cases, with their changes.
fn scene(cases: &[Case], round_trip_ms: f64) -> Scene {
    let mut source = String::new();
    let servers = cases.iter().flat_map(|case| case.servers.iter().map(move |one| (case, one)));
    for ((case, server), number) in servers.zip(1_u32..) {
        let ipv6 = format!("ipv6 = \"2001:db8:0:2::{number}\"\n");
        let _ = write!(
            source,
            "[[host]]\nname = \"{}\"\nrole = \"server\"\nnames = [\"{}\"]\n\
             ipv4 = \"198.51.100.{number}\"\n{}up = {{ delay = \"{round_trip_ms}ms\" }}\n{}\n",
            server.host,
            case.target(),
            if server.has_ipv6 { &ipv6 } else { "" },
            server.settings
        );
    }
    let mut changes: Vec<&(f64, String)> = cases.iter().flat_map(|case| &case.changes).collect();
    changes.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (at, change) in changes {
        let _ = write!(source, "[[change]]\nafter = \"{at}s\"\n{change}\n");
    }
    Scene::with_servers(&source)
}

fn configuration(cases: &[Case]) -> String {
    let mut text = "[defaults]\nevery = \"1s\"\ntimeout = \"5s\"\n".to_owned();
    for case in cases {
        let (target, settings) = (case.target(), case.settings);
        let _ = write!(
            text,
            "[[target]]\nname = \"{target}\"\nurl = \"https://{target}/\"\n{settings}\n"
        );
    }
    text
}

/// Problems of all cases, reported together because a run takes minutes.
#[derive(Default)]
struct Complaints(Vec<String>);

impl Complaints {
    fn unless(&mut self, holds: bool, complaint: impl Into<String>) {
        if !holds {
            self.0.push(complaint.into());
        }
    }

    fn unless_near(&mut self, found: f64, truth: f64, margin: f64, what: &str) {
        let complaint = format!("{what}: {found:.3}, {truth:.3} is true, within {margin:.3}");
        self.unless((found - truth).abs() <= margin, complaint);
    }

    fn unless_equal(&mut self, found: &Value, truth: impl Into<Value>, what: &str) {
        let truth = truth.into();
        self.unless(*found == truth, format!("{what}: {found}, {truth} is true"));
    }
}

/// Watches these cases for `lasts` seconds; `round_trip_ms` is the round trip from the client to each server.
fn check(cases: &[Case], round_trip_ms: f64, lasts: u32) {
    let watched = watch(&scene(cases, round_trip_ms), &configuration(cases), lasts);
    for told in &watched.told {
        println!("{:6.1} {}", told.at - watched.ready, told.line);
    }
    let mut complaints = Complaints::default();
    for told in &watched.told {
        let is_of_a_case = cases.iter().any(|case| told.line.contains(&case.target()));
        complaints.unless(is_of_a_case, format!("of no target: {}", told.line));
    }
    for case in cases {
        check_case(case, &watched, &mut complaints);
    }
    let expected = cases.iter().filter(|case| !matches!(case.truth, Truth::Unchanged)).count();
    let found = watched.events.len();
    complaints.unless(found == expected, format!("{found} events, {expected} expected"));
    assert!(complaints.0.is_empty(), "{}\n{:#?}", complaints.0.join("\n"), watched.events);
}

fn check_case(case: &Case, watched: &WatchedLab, complaints: &mut Complaints) {
    let target = case.target();
    let told: Vec<&ToldLine> =
        watched.told.iter().filter(|told| told.line.contains(&target)).collect();
    let states: Vec<&str> = told.iter().map(|told| told.state()).collect();
    let expected = case.truth.told_states();
    complaints.unless(states == expected, format!("{target}: told {states:?}, not {expected:?}"));
    let is_of_it = |event: &&Value| event["scope"]["targets"] == serde_json::json!([target]);
    let events: Vec<&Value> = watched.events.iter().filter(is_of_it).collect();
    let samples: Vec<&RawSample> =
        watched.samples.iter().filter(|sample| sample.target == target).collect();
    complaints.unless(samples.len() > 60, format!("{target}: {} samples", samples.len()));
    match (&case.truth, events.as_slice()) {
        (Truth::Unchanged, []) => {}
        (Truth::Level(truth), [event]) => {
            println!("{event}");
            check_level(truth, event, (&told, &samples), watched.ready, complaints);
        }
        (Truth::Outage(truth), [event]) => {
            println!("{event}");
            check_outage(truth, event, (&told, &samples), watched.ready, complaints);
        }
        (_, events) => complaints.unless(false, format!("{target}: {} events", events.len())),
    }
}

fn check_level(
    truth: &LevelTruth,
    event: &Value,
    (told, samples): (&[&ToldLine], &[&RawSample]),
    ready: f64,
    complaints: &mut Complaints,
) {
    let target = event["scope"]["targets"][0].as_str().unwrap();
    let of = |what: &str| format!("{target}, {what}");
    complaints.unless_equal(&event["kind"], "level", &of("kind"));
    complaints.unless_equal(&event["state"], "confirmed", &of("state"));
    complaints.unless_equal(&event["metric"], truth.metric, &of("metric"));
    complaints.unless_equal(&event["statistic"], truth.statistic, &of("statistic"));
    let cause = &event["cause"][0];
    let cause = if cause["fact"].is_string() { &cause["fact"] } else { &cause["part"] };
    complaints.unless_equal(cause, truth.cause, &of("cause"));
    let tags: serde_json::Map<String, Value> =
        truth.tags.iter().map(|(tag, value)| (String::from(*tag), (*value).into())).collect();
    complaints.unless_equal(&event["scope"]["tags"], tags, &of("tags"));
    let milliseconds = event["difference_ns"].as_f64().map(|ns| ns / 1e6);
    let difference = milliseconds.or(event["difference"].as_f64()).unwrap_or(f64::NAN);
    let margin = SIZE * truth.difference.abs();
    complaints.unless_near(difference, truth.difference, margin, &of("difference"));
    complaints.unless_near(seconds(&event["at"]) - ready, truth.at, CHANGE_TIME, &of("time"));
    // Use the series with the most samples: a series that waits for tickets that never come has fewer.
    let Some(first) = told.first() else { return };
    let is_between = |sample: &&&RawSample| (ready + truth.at..first.at).contains(&sample.began);
    let count = |series: u64| {
        let own = samples.iter().filter(|sample| sample.series == series);
        own.filter(is_between).count()
    };
    let most = samples.iter().map(|sample| count(sample.series)).max().unwrap_or_default();
    let complaint = format!("{most} samples from the change to the first line");
    complaints.unless((1..=PROVISIONAL_WITHIN).contains(&most), of(&complaint));
}

fn check_outage(
    truth: &OutageTruth,
    event: &Value,
    (told, samples): (&[&ToldLine], &[&RawSample]),
    ready: f64,
    complaints: &mut Complaints,
) {
    let target = event["scope"]["targets"][0].as_str().unwrap();
    let of = |what: &str| format!("{target}, {what}");
    complaints.unless_equal(&event["kind"], "outage", &of("kind"));
    complaints.unless_equal(&event["state"], truth.state, &of("state"));
    complaints.unless_equal(&event["failure"], truth.failure, &of("failure"));
    complaints.unless_equal(&event["interruptions"], truth.down.len(), &of("interruptions"));
    complaints.unless_equal(&event["scope"]["tags"], serde_json::json!({}), &of("tags"));
    complaints.unless_near(
        seconds(&event["began"]) - ready,
        truth.down[0][0],
        BEGINNING,
        &of("beginning"),
    );
    // The extent of an ongoing outage is known up to its last failure.
    let last = samples.last().map_or(0.0, |sample| sample.began - ready);
    let end = match truth.state {
        "ended" => truth.down[0][1],
        _ => truth.down.last().map_or(last, |[_, to]| to.min(last)),
    };
    match truth.state {
        "ended" => {
            complaints.unless_near(seconds(&event["ended"]) - ready, end, LENGTH, &of("end"));
        }
        "began" => complaints.unless(event["ended"].is_null(), of("it has an end")),
        _ => {}
    }
    let lasted = end - truth.down[0][0];
    let found = event["lasted_ns"].as_f64().unwrap_or_default() / 1e9;
    complaints.unless_near(found, lasted, LENGTH, &of("length"));
    let down: f64 = truth.down.iter().map(|[from, to]| to.min(end) - from).sum();
    let found = event["failed_share"].as_f64().unwrap_or_default();
    complaints.unless_near(found, down / lasted, FAILED_SHARE, &of("share of failures"));
    let turns = truth.down.iter().flat_map(|[from, to]| [(*from, true), (*to, false)]);
    for (told, (turn, is_down)) in told.iter().zip(turns) {
        let Some(second) = second_in_a_row(samples, ready + turn, is_down) else {
            complaints.unless(false, of("no two such samples in a row"));
            continue;
        };
        let late = told.at - second.began;
        let complaint = format!("\"{}\" is told {late:.1} s after its reason", told.state());
        complaints.unless((0.0..=TOLD_WITHIN).contains(&late), of(&complaint));
        let complaint = of("the second failure is not of a sample taken at once");
        complaints.unless(!is_down || second.is_extra, complaint);
    }
}

/// The second of the first two consecutive samples that failed or succeeded, from this time on or in progress then.
fn second_in_a_row<'a>(
    samples: &[&'a RawSample],
    from: f64,
    are_failed: bool,
) -> Option<&'a RawSample> {
    const LONGEST: f64 = 0.3;
    let pairs = samples.windows(2).filter(|pair| pair[0].began >= from - LONGEST);
    let mut alike = pairs.filter(|pair| pair.iter().all(|one| one.is_failed == are_failed));
    alike.next().map(|pair| pair[1])
}

#[test]
#[ignore = "takes five minutes: changes and outages of a monitored lab, as CONTRIBUTING.md says"]
fn monitor_tells_the_truth() {
    const ROUND_TRIP_MS: f64 = 20.0;
    let _permits = Permits::all();
    let cases = [
        edges(),
        slower(),
        version(ROUND_TRIP_MS),
        chain(ROUND_TRIP_MS),
        tickets(),
        path(),
        tail(),
        refusing(&[[40.5, 100.5]]),
        unavailable(),
        expired(),
        flapping(),
        steady(),
    ];
    check(&cases, ROUND_TRIP_MS, 290);
}

/// Other tests run at the same time, but add less than a tenth of this round trip to a time.
#[test]
fn monitor_tells_a_change_and_an_outage() {
    const ROUND_TRIP_MS: f64 = 60.0;
    let _permit = Permits::one();
    let cases = [version(ROUND_TRIP_MS), refusing(&[[45.0, 65.0]]), steady()];
    check(&cases, ROUND_TRIP_MS, 110);
}
