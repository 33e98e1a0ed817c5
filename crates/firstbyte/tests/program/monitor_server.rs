//! The server of `firstbyte monitor`: scraped, queried, and misused.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::thread;
use std::time::Duration;

use firstbyte_clock::Monotonic;
use firstbyte_core::run::Metric;
use firstbyte_monitor::rollup::Measure;
use firstbyte_monitor::store::{Step, StoreReader};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::support::echo::{Echo, response};
use crate::support::files::Directory;
use crate::support::peer::Peer;
use crate::support::run::firstbyte;

/// Nothing takes this long, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running monitor with its server; killed when dropped.
pub(super) struct Monitor {
    child: Child,
    stderr: BufReader<ChildStderr>,
    at: SocketAddr,
    store: PathBuf,
}

#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    head: String,
    pub(super) body: String,
}

impl Answer {
    /// Whether a line of the head, in lower case, begins with `field`.
    pub(super) fn has(&self, field: &str) -> bool {
        self.head.lines().any(|line| line.starts_with(field))
    }

    /// The value of a head field, in lower case.
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl Monitor {
    /// Starts a monitor with `monitor.toml`, whose first line sets the address to listen on.
    pub(super) fn start(directory: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_firstbyte"))
            .args(["monitor", "--config", "monitor.toml", "--store", "store", "--silent"])
            .args(["--listen", "127.0.0.1:0"])
            .current_dir(directory)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("metrics are at http://") {
            line.clear();
            assert!(stderr.read_line(&mut line).unwrap() > 0, "it did not begin");
        }
        let at = line.split("http://").nth(1).and_then(|rest| rest.split('/').next()).unwrap();
        let at = at.parse().unwrap();
        Self { child, stderr, at, store: directory.join("store/store.sqlite") }
    }

    pub(super) fn port(&self) -> u16 {
        self.at.port()
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.at).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// The URL of its page.
    pub(super) fn address(&self) -> String {
        format!("http://{}", self.at)
    }

    pub(super) fn ask(&self, method: &str, path: &str, fields: &str, body: &str) -> Answer {
        let mut stream = self.connect();
        let host = if fields.contains("Host:") { "" } else { "Host: 127.0.0.1\r\n" };
        let length = match body.len() {
            0 => String::new(),
            length => format!("Content-Length: {length}\r\n"),
        };
        let head =
            format!("{method} {path} HTTP/1.1\r\n{host}Connection: close\r\n{fields}{length}\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer:?}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head: head.to_lowercase(), body: body.to_owned() }
    }

    pub(super) fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, "", "")
    }

    /// Polls `path` until `is_done` returns a value.
    pub(super) fn until<T>(&self, path: &str, is_done: impl Fn(&Answer) -> Option<T>) -> T {
        let begun = Monotonic::now();
        loop {
            let answer = self.get(path);
            if let Some(done) = is_done(&answer) {
                return done;
            }
            assert!(Monotonic::now().since(begun) < PATIENCE, "{path}: {answer:?}");
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until the recorder has made the store; before that nothing can be read.
    pub(super) fn until_ready(&self) {
        self.until("/-/ready", |answer| match answer.status {
            200 => Some(()),
            status => {
                assert_eq!(status, 503, "{answer:?}");
                None
            }
        });
    }

    pub(super) fn send(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).unwrap();
    }

    /// Resident memory of the monitor.
    pub(super) fn resident_kb(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// Terminates the monitor; returns its exit code, how long it took to end, and its messages.
    pub(super) fn stop(mut self) -> (Option<i32>, Duration, String) {
        let begun = Monotonic::now();
        self.send(Signal::SIGTERM);
        let code = self.child.wait().unwrap().code();
        let took = Monotonic::now().since(begun);
        let mut said = String::new();
        self.stderr.read_to_string(&mut said).unwrap();
        (code, took, said)
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        // It may already have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn server() -> Echo {
    Echo::start(|_| response("200 OK", "", b"ok"))
}

/// The lines of a scrape: name and unescaped labels, with the value.
pub(super) type Exposed = BTreeMap<(String, BTreeMap<String, String>), f64>;

/// Parses Prometheus' text format 0.0.4, and fails on anything else.
pub(super) fn parse(text: &str) -> Exposed {
    let mut exposed = Exposed::new();
    let mut family = String::new();
    assert!(text.ends_with('\n'));
    for line in text.lines() {
        assert!(!line.chars().any(char::is_control), "{line:?}");
        if let Some(comment) = line.strip_prefix("# ") {
            let mut words = comment.split(' ');
            match words.next().unwrap() {
                "HELP" => family = words.next().unwrap().to_owned(),
                "TYPE" => {
                    assert_eq!(words.next(), Some(family.as_str()), "{line}");
                    assert!(["counter", "gauge", "histogram"].contains(&words.next().unwrap()));
                }
                _ => panic!("{line}"),
            }
            continue;
        }
        let end = line.find(['{', ' ']).unwrap();
        let (name, rest) = line.split_at(end);
        assert!(name.starts_with(&family), "{name} is not of {family}");
        let (labels, value) = labels(rest);
        let before = exposed.insert((name.to_owned(), labels), value.parse().unwrap());
        assert_eq!(before, None, "twice: {line}");
    }
    exposed
}

fn labels(text: &str) -> (BTreeMap<String, String>, &str) {
    let mut labels = BTreeMap::new();
    let Some(mut rest) = text.strip_prefix('{') else { return (labels, text.trim_start()) };
    loop {
        let (name, quoted) = rest.split_once("=\"").unwrap();
        let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            && !name.starts_with(|c: char| c.is_ascii_digit());
        assert!(is_name, "{name:?}");
        let mut value = String::new();
        let mut characters = quoted.char_indices();
        let end = loop {
            match characters.next().unwrap() {
                (end, '"') => break end,
                (_, '\\') => match characters.next().unwrap().1 {
                    'n' => value.push('\n'),
                    c @ ('\\' | '"') => value.push(c),
                    c => panic!("\\{c} is not an escape: {text}"),
                },
                (_, c) => value.push(c),
            }
        };
        assert_eq!(labels.insert(name.to_owned(), value), None, "{name} twice: {text}");
        rest = &quoted[end + 1..];
        match rest.split_at(1) {
            (",", more) => rest = more,
            ("}", value) => return (labels, value.trim_start()),
            _ => panic!("{text}"),
        }
    }
}

/// The sum of `name` over all label sets with this `target`.
pub(super) fn of_target(exposed: &Exposed, name: &str, target: &str) -> f64 {
    let of = |labels: &BTreeMap<String, String>| labels.get("target").is_some_and(|t| t == target);
    exposed.iter().filter(|((n, l), _)| n == name && of(l)).map(|(_, value)| value).sum()
}

#[test]
fn two_scrapes_read_well_whatever_targets_are_called_and_only_grow() {
    let directory = Directory::new();
    let (server, closed) = (server(), Peer::closed());
    let hostile = r#"a\u001b[31m\"\\\nb} 1\u202e"#;
    directory.write(
        "monitor.toml",
        format!(
            "place = \"fra\\\"1\"\ntags = {{ le = \"7\", target = \"}}\\\"\", network = \"a\\\\b\" }}\n\
             [defaults]\nevery = \"1s\"\n\
             [[target]]\nname = \"{hostile}\"\nurl = \"http://127.0.0.1:{}/?key=secret\"\nvary = [\"family=4\"]\n\
             [[target]]\nname = \"gone\"\nurl = \"http://127.0.0.1:{}/\"\n",
            server.peer.port(),
            closed.port()
        ),
    );
    let monitor = Monitor::start(directory.path());
    let name = "a\\u{1b}[31m\"\\\nb} 1\\u{202e}";
    let scrape = |least: f64| {
        monitor.until("/metrics", |answer| {
            assert_eq!(answer.status, 200, "{answer:?}");
            assert!(answer.head.contains("content-type: text/plain; version=0.0.4"), "{answer:?}");
            let exposed = parse(&answer.body);
            let seen = [name, "gone"]
                .map(|target| of_target(&exposed, "firstbyte_monitor_samples_total", target));
            seen.iter().all(|samples| *samples >= least).then_some((exposed, answer.body.clone()))
        })
    };
    let (first, text) = scrape(1.0);
    let (second, _) = scrape(of_target(&first, "firstbyte_monitor_samples_total", name) + 2.0);
    for (key, value) in &first {
        if !key.0.ends_with("_failed") {
            assert!(second.get(key).is_some_and(|later| later >= value), "{key:?}");
        }
    }
    let targets = monitor.get("/api/v1/targets").body;
    assert!(targets.contains("fra") && !targets.contains("secret"), "{targets}");
    assert!(!text.contains("secret"), "{text}");
    // Labels are axes, place, and tags; tags that would hide another label are renamed.
    let of_samples = |target: &str| {
        let is_it = |(n, l): &&(String, BTreeMap<String, String>)| {
            n == "firstbyte_monitor_samples_total" && l["target"] == target
        };
        second.keys().find(is_it).unwrap().1.clone()
    };
    let labels = of_samples(name);
    for (label, value) in [
        ("family", "4"),
        ("place", "fra\"1"),
        ("variant", "family=4"),
        ("tag_le", "7"),
        ("tag_target", "}\""),
        ("network", "a\\b"),
    ] {
        assert_eq!(labels.get(label).map(String::as_str), Some(value), "{label}: {labels:?}");
    }
    // Failures by type, without series for types that did not occur.
    let mut failed = of_samples("gone");
    failed.insert("type".to_owned(), "tcp.refused".to_owned());
    let samples = of_target(&second, "firstbyte_monitor_samples_total", "gone");
    assert_eq!(second[&("firstbyte_monitor_failures_total".to_owned(), failed)], samples);
    assert_eq!(of_target(&second, "firstbyte_monitor_time_seconds_count", "gone"), 0.0);
    assert_eq!(of_target(&second, "firstbyte_monitor_failures_total", name), 0.0);
    // Buckets add up.
    let mut total = labels.clone();
    total.insert("metric".to_owned(), "total".to_owned());
    let count = second[&("firstbyte_monitor_time_seconds_count".to_owned(), total.clone())];
    assert_eq!(count, of_target(&second, "firstbyte_monitor_samples_total", name));
    let mut buckets: Vec<(f64, f64)> = second
        .iter()
        .filter_map(|((n, l), value)| {
            let mut of = l.clone();
            let bound = of.remove("le")?.replace("+Inf", "inf").parse().ok()?;
            (n.ends_with("time_seconds_bucket") && of == total).then_some((bound, *value))
        })
        .collect();
    buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
    assert_eq!(buckets.len(), 14);
    assert!(buckets.windows(2).all(|pair| pair[0].1 <= pair[1].1), "{buckets:?}");
    assert_eq!(buckets[13], (f64::INFINITY, count));
    let (code, _, said) = monitor.stop();
    assert_eq!(code, Some(0), "{said}");
    assert!(!said.contains('\u{1b}'), "{said:?}");
}

#[test]
fn points_are_the_stores_and_what_people_say_is_kept() {
    let directory = Directory::new();
    let server = server();
    directory.write(
        "monitor.toml",
        format!(
            "place = \"fra1\"\n[defaults]\nevery = \"1s\"\n[[target]]\nname = \"shop\"\n\
             url = \"http://127.0.0.1:{}/\"\ntags = {{ service = \"shop\" }}\n",
            server.peer.port()
        ),
    );
    let monitor = Monitor::start(directory.path());
    monitor.until_ready();
    let path = "/api/v1/series?target=shop&variant=as+negotiated&metric=total&step=minute";
    // The store keeps changing. If the answers before and after reading it are equal, all three show the same samples.
    let begun = Monotonic::now();
    let (points, stored) = loop {
        let before = monitor.get(path).json()["points"].clone();
        let read = StoreReader::open(&monitor.store).and_then(|mut reader| {
            reader.rollups(1, Step::Minute, 0, i64::from(u32::MAX) * 60, |_| true)
        });
        let after = monitor.get(path).json()["points"].clone();
        let enough = before.as_array().is_some_and(|points| {
            points.iter().filter_map(|point| point["samples"].as_u64()).sum::<u64>() >= 3
        });
        if let (true, true, Ok(stored)) = (enough, before == after, read) {
            break (before, stored);
        }
        assert!(Monotonic::now().since(begun) < PATIENCE, "{before}");
        thread::sleep(Duration::from_millis(100));
    };
    let points = points.as_array().unwrap();
    assert_eq!(points.len(), stored.len());
    for (point, stored) in points.iter().zip(&stored) {
        let times = stored.rollup.times(Measure::Metric(Metric::Total)).unwrap();
        let quantile = |q| times.quantile(q).unwrap().value.as_nanos() as u64;
        assert_eq!(
            point,
            &json!({
                "at": stored.start,
                "samples": stored.rollup.samples,
                "failures": 0,
                "failed_share": 0.0,
                "unverified": 0,
                "count": times.count(),
                "median_ns": quantile(0.5),
                "p90_ns": quantile(0.9),
                "p99_ns": quantile(0.99),
            })
        );
    }
    let targets = monitor.get("/api/v1/targets").json();
    assert_eq!(
        (&targets["place"], &targets["targets"][0]["target"]),
        (&json!("fra1"), &json!("shop"))
    );
    assert_eq!(targets["targets"][0]["tags"], json!({ "service": "shop" }));
    assert_eq!(targets["targets"][0]["series"][0]["variant"], "as negotiated");
    // An annotation is in the store as soon as the request is answered.
    let json_type = "Content-Type: application/json\r\n";
    let sent = r#"{"at":"2026-11-23T00:00:00Z","text":"1.2 is out","tags":{"service":"shop"}}"#;
    let kept = monitor.ask("POST", "/api/v1/annotations", json_type, sent);
    assert_eq!(kept.status, 201, "{kept:?}");
    let stored = StoreReader::open(&monitor.store).unwrap().annotations(0, i64::MAX).unwrap();
    assert_eq!(
        (stored.len(), stored[0].at, stored[0].text.as_str()),
        (1, 1_795_392_000, "1.2 is out")
    );
    let shown = monitor.get("/api/v1/annotations?since=1795392000&until=1795392001").json();
    assert_eq!(shown["annotations"], json!([kept.json()]));
    let events = monitor.get("/api/v1/events?since=2026-11-01T00:00:00Z").json();
    assert_eq!(
        (&events["format"], &events["events"]),
        (&json!("firstbyte/monitor-events"), &json!([]))
    );
    let (code, _, said) = monitor.stop();
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn what_is_asked_badly_is_told_why() {
    let directory = Directory::new();
    let closed = Peer::closed();
    let server = server();
    directory.write("blackbox.yml", "modules:\n  http_2xx:\n    prober: http\n");
    directory.write(
        "monitor.toml",
        format!(
            "modules = \"blackbox.yml\"\n[[target]]\nname = \"a\"\nevery = \"7d\"\nurl = \"http://127.0.0.1:{}/\"\n",
            closed.port()
        ),
    );
    let monitor = Monitor::start(directory.path());
    monitor.until_ready();
    for (path, status, part) in [
        ("/nothing", 404, "available: /, /metrics"),
        ("/page/nothing.js", 404, "available: /, /metrics"),
        ("/sign-in", 404, "without a token_file there is no sign-in"),
        ("/api/v1/overview?step=week", 400, "known: minute, hour, day"),
        ("/api/v1/overview?from=0&until=864000&step=minute", 400, "200 are allowed"),
        ("/api/v1/history?target=b", 404, "unknown target \"b\""),
        ("/api/v1/samples?target=a&from=0&until=9000", 400, "more than an hour"),
        ("/sample?file=../store.sqlite&offset=0&target=a", 404, "has no such sample"),
        ("/sample?file=a.run&offset=x&target=a", 400, "is not a number"),
        (
            "/compare?target=a&base_from=1&base_until=5&from=3&until=9",
            400,
            "the two periods overlap",
        ),
        ("/compare?target=a&base_from=1&base_until=5&from=6&until=9", 404, "they were deleted"),
        ("/api/v2/series", 404, "/api/v1/series"),
        ("/api/v1/targets?x=1", 400, "unknown parameter \"x\": this path takes none"),
        ("/api/v1/series?target=a", 400, "metric is missing: write metric=total"),
        ("/api/v1/series?target=a&metric=%1B[31m", 400, "known: resolve"),
        ("/api/v1/series?target=a&metric=total&from=soon", 400, "from \"soon\" is not a time"),
        ("/api/v1/series?target=a&metric=total&step=1h", 400, "known: minute, hour, day"),
        ("/api/v1/series?target=b&metric=total", 404, "unknown target \"b\""),
        ("/api/v1/events?since=9&until=3", 400, "since (9) is not before until (3)"),
        ("/probe?module=http_2xx", 400, "Target parameter is missing"),
    ] {
        let answer = monitor.get(path);
        assert_eq!(answer.status, status, "{path}: {answer:?}");
        assert!(answer.body.contains(part), "{path}: {answer:?}");
        assert!(!answer.body.contains('\u{1b}'), "{path}: {answer:?}");
    }
    for (method, path, allow) in [
        ("DELETE", "/metrics", "allow: get, head\r\n"),
        ("POST", "/api/v1/series", "allow: get, head\r\n"),
        ("POST", "/-/healthy", "allow: get, head\r\n"),
        ("GET", "/-/reload", "allow: post\r\n"),
        ("PUT", "/api/v1/annotations", "allow: get, head, post\r\n"),
    ] {
        let answer = monitor.ask(method, path, "", "");
        assert_eq!(answer.status, 405, "{method} {path}: {answer:?}");
        assert!(answer.head.contains(allow), "{method} {path}: {answer:?}");
    }
    let post = |kind: &str, body: &str| {
        let kind = format!("Content-Type: {kind}\r\n");
        monitor.ask("POST", "/api/v1/annotations", &kind, body).status
    };
    assert_eq!(post("text/plain", "{\"text\":\"x\"}"), 415);
    assert_eq!(post("application/json", "{}"), 400);
    assert_eq!(post("application/json", &format!("{{\"text\":\"{}\"}}", "x".repeat(70_000))), 413);
    // A page of another host whose name was rebound to this address.
    let rebound = monitor.ask("GET", "/metrics", "Host: rebound.example.com\r\n", "");
    assert_eq!(rebound.status, 421, "{rebound:?}");
    let head = monitor.ask("HEAD", "/metrics", "", "");
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    let target = format!("/probe?module=http_2xx&target=http://127.0.0.1:{}/", server.peer.port());
    assert!(monitor.get(&target).body.contains("\nprobe_success 1\n"));
    assert_eq!(monitor.get("/-/healthy").status, 200);
}

#[test]
fn beyond_this_machine_a_token_is_needed_and_checked() {
    let directory = Directory::new();
    let here = directory.path();
    let target = "[[target]]\nevery = \"7d\"\nurl = \"http://127.0.0.1:1/\"\n";
    let with = |settings: &str| directory.write("monitor.toml", format!("{settings}\n{target}"));
    let check = || firstbyte(here, &["monitor", "--config", "monitor.toml", "--check-config"]);
    with("listen = \"0.0.0.0:9115\"");
    let outcome = check();
    assert_eq!(outcome.code, 2, "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains("monitor.toml:1:10: listen 0.0.0.0:9115"),
        "{}",
        outcome.stderr
    );
    let everywhere = ["monitor", "http://127.0.0.1:1/", "--store", "s", "--listen", "[::]:0"];
    let outcome = firstbyte(here, &everywhere);
    assert_eq!(outcome.code, 2, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("set token_file"), "{}", outcome.stderr);
    assert!(!here.join("s").exists());
    with("listen = \"0.0.0.0:9115\"\ntoken_file = \"token\"");
    assert_eq!(check().code, 26, "the token's file is not there");
    directory.write("token", "too short");
    let outcome = check();
    assert_eq!(outcome.code, 2, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("openssl rand -hex 32"), "{}", outcome.stderr);
    directory.write("token", "0123456789abcdef\n");
    assert_eq!(check().code, 0);
    with("modules = \"gone.yml\"");
    assert_eq!(check().code, 2);
    // A configured token is also required on loopback.
    with("token_file = \"token\"");
    let monitor = Monitor::start(here);
    for (path, token, status) in [
        ("/metrics", "", 401),
        ("/nothing", "", 401),
        ("/api/v1/targets", "Authorization: Bearer 0123456789abcdeF\r\n", 401),
        ("/api/v1/targets", "Authorization: Bearer 0123456789abcdef\r\n", 200),
        ("/metrics", "Host: a.example.com\r\nAuthorization: Bearer 0123456789abcdef\r\n", 200),
        ("/-/healthy", "", 200),
    ] {
        let answer = monitor.ask("GET", path, token, "");
        assert_eq!(answer.status, status, "{path} {token}: {answer:?}");
        let asks = answer.head.contains("www-authenticate: bearer");
        assert_eq!(asks, status == 401, "{answer:?}");
        assert!(!answer.body.contains("0123456789abcdef"), "{answer:?}");
    }
    // The port is already in use.
    let taken = monitor.at.to_string();
    let arguments = ["monitor", "http://127.0.0.1:1/", "--store", "s", "--listen", &taken];
    let outcome = firstbyte(here, &arguments);
    assert_eq!(outcome.code, 2, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("another program uses that port"), "{}", outcome.stderr);
}

#[test]
fn idle_connections_and_slow_readers_lock_nobody_out_and_hold_up_no_end() {
    let directory = Directory::new();
    let closed = Peer::closed();
    directory.write(
        "monitor.toml",
        format!(
            "tags = {{ a = \"{}\" }}\n[[target]]\nevery = \"7d\"\nurl = \"http://127.0.0.1:{}/{{1..5000}}\"\n",
            "x".repeat(200),
            closed.port()
        ),
    );
    let monitor = Monitor::start(directory.path());
    let idle: Vec<TcpStream> = (0..200).map(|_| monitor.connect()).collect();
    let begun = Monotonic::now();
    let answer = monitor.get("/metrics");
    assert_eq!(answer.status, 200);
    assert!(Monotonic::now().since(begun) < Duration::from_secs(10));
    let exposed = parse(&answer.body);
    let value = |name: &str| exposed[&(format!("firstbyte_monitor_{name}"), BTreeMap::new())];
    assert_eq!((value("series"), value("series_not_exposed")), (5_000.0, 3_000.0));
    // More answers than socket buffers hold; the clients read only the first bytes.
    let mut slow: Vec<TcpStream> = (0..70).map(|_| monitor.connect()).collect();
    for stream in &mut slow {
        let request = "GET /api/v1/targets HTTP/1.1\r\nHost: localhost\r\n\r\n";
        stream.write_all(request.repeat(20).as_bytes()).unwrap();
    }
    let last = slow.last_mut().unwrap();
    last.read_exact(&mut [0; 12]).unwrap();
    assert_eq!(monitor.get("/metrics").status, 200);
    assert_eq!(monitor.get("/-/healthy").status, 200);
    let (code, took, said) = monitor.stop();
    assert_eq!(code, Some(0), "{said}");
    assert!(took < Duration::from_secs(10), "{took:?}");
    drop((idle, slow));
}

/// A target that refuses connections exceeds its budget; one that answers does not.
#[test]
fn what_is_over_its_budget_is_told_shown_and_exposed() {
    let directory = Directory::new();
    let (server, closed) = (server(), Peer::closed());
    directory.write(
        "monitor.toml",
        format!(
            "[defaults]\nevery = \"1s\"\nbudget = {{ failures = \"1%\", ttfb.p95 = \"20s\" }}\n\
             [[target]]\nname = \"well\"\nurl = \"http://127.0.0.1:{}/\"\n\
             [[target]]\nname = \"gone\"\nurl = \"http://127.0.0.1:{}/\"\n",
            server.peer.port(),
            closed.port()
        ),
    );
    let monitor = Monitor::start(directory.path());
    let name = "firstbyte_monitor_budget_over";
    let exposed = monitor.until("/metrics", |answer| {
        let exposed = parse(&answer.body);
        exposed.keys().any(|(known, _)| known == name).then_some(exposed)
    });
    let over = |target: &str, budget: &str| {
        let labels = [("budget", budget), ("target", target), ("variant", "as negotiated")];
        let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned()));
        exposed.get(&(name.to_owned(), BTreeMap::from(labels))).copied()
    };
    assert_eq!(over("gone", "failures"), Some(1.0), "{exposed:#?}");
    assert_eq!((over("well", "failures"), over("well", "ttfb.p95")), (Some(0.0), Some(0.0)));
    // No response arrived, so there is no time.
    assert_eq!(over("gone", "ttfb.p95"), None);
    let overview = monitor.get("/api/v1/overview").json();
    let rows = overview["rows"].as_array().unwrap();
    let gone = rows.iter().find(|row| row["target"] == "gone").unwrap();
    assert_eq!(gone["budgets"][0]["budget"], "failures", "{gone:#}");
    assert_eq!(gone["budgets"][0]["beyond"], gone["budgets"][0]["of"], "{gone:#}");
    assert_eq!(gone["budgets"][1].get("beyond"), None, "{gone:#}");
    let (code, _, said) = monitor.stop();
    assert_eq!(code, Some(0));
    let told: Vec<&str> = said.lines().filter(|line| line.contains("budget")).collect();
    assert_eq!(told.len(), 1, "{said}");
    assert!(
        told[0].contains("Z over budget: gone, as negotiated: failed for 100 % of the time (")
            && told[0].ends_with(" samples), 1 % allowed"),
        "{said}"
    );
}
