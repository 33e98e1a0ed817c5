//! A monitor's figures in Debian's Prometheus: scraped as text and as protobuf, pushed by remote-write, and queried by
//! the dashboard and the rules in `packaging/`. All tests share one Prometheus. Grafana is not run.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use firstbyte_clock::Monotonic;
use firstbyte_core::run::Metric;
use firstbyte_monitor::rollup::{Measure, Rollup};
use firstbyte_monitor::store::{Step, StoreReader};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::monitor_server::Monitor;
use crate::support::echo::{Echo, Request, response};
use crate::support::files::Directory;

/// Nothing takes this long, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(60);
/// Answered samples of each target; the next one stays pending until the test ends, so that figures do not change.
const ANSWERED: u64 = 3;
/// A hostile target name.
const HOSTILE: &str = r#"a\"\\b} 1\u202e"#;
const HOSTILE_SHOWN: &str = "a\"\\b} 1\\u{202e}";
/// The ways in which the same figures get into Prometheus.
const JOBS: [&str; 4] = ["text", "native", "pushed", "pushed-native"];

fn packaged(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(file)
}

/// A Prometheus process that is terminated when dropped.
struct Prometheus {
    child: Child,
    port: u16,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(self.child.id().cast_signed()), Signal::SIGTERM);
        let _ = self.child.wait();
    }
}

impl Prometheus {
    fn start(directory: &Path, port: u16) -> Self {
        let child = Command::new("prometheus")
            .args(["--config.file=prometheus.yml", "--storage.tsdb.path=data"])
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .args(["--enable-feature=native-histograms", "--web.enable-remote-write-receiver"])
            .arg("--log.level=error")
            .current_dir(directory)
            .stdin(Stdio::null())
            .spawn()
            .expect("Debian's prometheus is missing: run scripts/setup test");
        Self { child, port }
    }

    fn ask(&mut self, path: &str, query: &str) -> Option<Value> {
        let query: String = url::form_urlencoded::byte_serialize(query.as_bytes()).collect();
        let parameter = if path == "/api/v1/series" { "match[]" } else { "query" };
        let answer = get(self.port, &format!("{path}?{parameter}={query}"));
        if let Some(status) = self.child.try_wait().unwrap() {
            panic!("prometheus ended: {status}");
        }
        let (_, body) = answer?;
        let answer: Value = serde_json::from_slice(&body).ok()?;
        assert_eq!(answer["status"], "success", "{query}: {answer}");
        Some(answer["data"].clone())
    }

    /// Labels and values returned by an instant query.
    fn query(&mut self, query: &str) -> Vec<(BTreeMap<String, String>, f64)> {
        let data = self.ask("/api/v1/query", query).unwrap_or_default();
        let one = |one: &Value| {
            let labels = serde_json::from_value(one["metric"].clone()).unwrap();
            (labels, one["value"][1].as_str().map_or(f64::NAN, |value| value.parse().unwrap()))
        };
        data["result"].as_array().map_or_else(Vec::new, |all| all.iter().map(one).collect())
    }

    /// Waits until a query returns something: a rate needs two scrapes.
    fn until_found(&mut self, query: &str) {
        let begun = Monotonic::now();
        while self.query(query).is_empty() {
            assert!(Monotonic::now().since(begun) < PATIENCE, "nothing is found: {query}");
            thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Head and body of a response, if there is one.
fn get(port: u16, path: &str) -> Option<(String, Vec<u8>)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = format!("GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    let body = answer.split_off(end + 4);
    Some((String::from_utf8(answer).ok()?.to_lowercase(), body))
}

/// The measured server of two targets: their samples first succeed or fail, and then stay pending.
struct Measured {
    server: Echo,
    is_over: Arc<AtomicBool>,
}

impl Drop for Measured {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
    }
}

impl Measured {
    fn start() -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let asked = [AtomicU64::new(0), AtomicU64::new(0)];
        let server = Echo::start(move |request: &Request| {
            let fails = request.path() == "/fails";
            if asked[usize::from(fails)].fetch_add(1, Ordering::SeqCst) >= ANSWERED {
                while !over.load(Ordering::SeqCst) {
                    thread::sleep(Duration::from_millis(20));
                }
            }
            if fails { Vec::new() } else { response("200 OK", "", b"ok") }
        });
        Self { server, is_over }
    }
}

struct Scene {
    monitor: Monitor,
    prometheus: Prometheus,
    _scraped_as_text: Echo,
    _measured: Measured,
    directory: Directory,
}

impl Scene {
    fn start() -> Self {
        let (directory, measured) = (Directory::new(), Measured::start());
        // Another process could get the port before Prometheus does, but no process here requests a particular one.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let target = measured.server.peer.address.port();
        let write = format!("http://127.0.0.1:{port}/api/v1/write");
        directory.write(
            "monitor.toml",
            format!(
                "place = \"fra1\"\n[defaults]\nevery = \"1s\"\ntimeout = \"10min\"\nvary = [\"family=4\"]\n\
                 [[target]]\nname = \"{HOSTILE}\"\nurl = \"http://127.0.0.1:{target}/\"\ntags = {{ le = \"7\" }}\n\
                 [[target]]\nname = \"fails\"\nurl = \"http://127.0.0.1:{target}/fails\"\n\
                 [[push]]\nremote_write = \"{write}?classic\"\nevery = \"1s\"\nlabels = {{ job = \"pushed\" }}\n\
                 [[push]]\nremote_write = \"{write}?native\"\nevery = \"1s\"\nnative = true\nlabels = {{ job = \"pushed-native\" }}\n"
            ),
        );
        let monitor = Monitor::start(directory.path());
        let at = monitor.port();
        let scraped_as_text = Echo::start(move |_| match get(at, "/metrics") {
            Some((head, body)) if head.contains("content-type: text/plain; version=0.0.4") => {
                response("200 OK", "Content-Type: text/plain; version=0.0.4\r\n", &body)
            }
            // The monitor ends before Prometheus does.
            _ => response("503 Service Unavailable", "", b""),
        });
        let text = scraped_as_text.peer.address.port();
        let rules = packaged("prometheus/firstbyte.rules.yml").canonicalize().unwrap();
        directory.write(
            "prometheus.yml",
            format!(
                "global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}\nrule_files: ['{}']\nscrape_configs:\n\
                 - {{job_name: text, static_configs: [{{targets: ['127.0.0.1:{text}']}}]}}\n\
                 - {{job_name: native, static_configs: [{{targets: ['127.0.0.1:{at}']}}]}}\n",
                rules.display()
            ),
        );
        let prometheus = Prometheus::start(directory.path(), port);
        Self {
            monitor,
            prometheus,
            _scraped_as_text: scraped_as_text,
            _measured: measured,
            directory,
        }
    }

    /// Results of a query for each of `jobs`, once each has one series and `is_right` holds: a scrape may be late.
    fn until_each(
        &mut self,
        query: &str,
        jobs: &[&str],
        is_right: impl Fn(f64) -> bool,
    ) -> Vec<BTreeMap<String, String>> {
        let begun = Monotonic::now();
        loop {
            let found = self.prometheus.query(query);
            let of: BTreeSet<&str> =
                found.iter().map(|(labels, _)| labels["job"].as_str()).collect();
            let is_each = found.len() == jobs.len() && jobs.iter().all(|job| of.contains(job));
            if is_each && found.iter().all(|(_, value)| is_right(*value)) {
                return found.into_iter().map(|(labels, _)| labels).collect();
            }
            assert!(Monotonic::now().since(begun) < PATIENCE, "{query}: {found:?}");
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// The store's rollup of a series, once it has all samples.
    fn stored(&self, series: u32) -> Rollup {
        let begun = Monotonic::now();
        loop {
            let mut sum = Rollup::default();
            if let Ok(mut reader) =
                StoreReader::open(&self.directory.path().join("store/store.sqlite"))
                && let Ok(all) =
                    reader.rollups(series, Step::Hour, 0, i64::from(u32::MAX) * 60, |_| true)
            {
                all.iter().for_each(|one| sum.merge(&one.rollup));
            }
            if sum.samples == ANSWERED {
                return sum;
            }
            assert!(Monotonic::now().since(begun) < PATIENCE, "{} samples", sum.samples);
            thread::sleep(Duration::from_millis(100));
        }
    }
}

#[test]
fn prometheus_has_the_monitors_figures_however_they_come() {
    let mut scene = Scene::start();
    let answered = ANSWERED as f64;
    let samples = "sum by (job) (firstbyte_monitor_samples_total)";
    scene.until_each(samples, &JOBS, |value| value == 2.0 * answered);
    let failures = "sum by (job) (firstbyte_monitor_failures_total)";
    scene.until_each(failures, &JOBS, |value| value == answered);

    // Each series exists once, with the expected labels.
    let of_hostile = "firstbyte_monitor_samples_total{target!=\"fails\"}";
    for labels in scene.until_each(of_hostile, &JOBS, |value| value == answered) {
        for (label, value) in [
            ("target", HOSTILE_SHOWN),
            ("place", "fra1"),
            ("family", "4"),
            ("variant", "family=4"),
            ("tag_le", "7"),
        ] {
            assert_eq!(labels.get(label).map(String::as_str), Some(value), "{label}: {labels:?}");
        }
        let is_pushed = labels["job"].starts_with("pushed");
        assert_eq!(labels["instance"] == "fra1", is_pushed, "{labels:?}");
    }

    // Times equal those in the store, and so those of the API.
    let path = "/api/v1/series?target=fails&metric=total&step=hour";
    let of_api = |points: &Value, key: &str| -> u64 {
        points["points"].as_array().unwrap().iter().filter_map(|point| point[key].as_u64()).sum()
    };
    let stored = scene.stored(1);
    scene.monitor.until(path, |answer| {
        let points = answer.json();
        let [all, failed] = ["samples", "failures"].map(|key| of_api(&points, key));
        (all == ANSWERED).then(|| assert_eq!(failed, ANSWERED, "{points}"))
    });
    let times = stored.times(Measure::Metric(Metric::Total)).unwrap();
    let (sum, (_, longest)) = (times.sum_ns() as f64 / 1e9, times.ends().unwrap());
    let total = "firstbyte_monitor_time_seconds";
    let of_total = "{metric=\"total\"}";
    // The upper end of the longest time's bucket is at most 2.2 % above it.
    let above = longest.as_secs_f64();
    let ends = above * (1.0 - 1e-9)..above * 2.0_f64.powf(1.0 / 32.0) * (1.0 + 1e-9);
    let (text, native) = (["text", "pushed"], ["native", "pushed-native"]);
    let is = |wanted: f64| move |value: f64| value == wanted;
    scene.until_each(&format!("{total}_count{of_total}"), &text, is(answered));
    scene.until_each(&format!("{total}_sum{of_total}"), &text, is(sum));
    scene.until_each(&format!("count by (job) ({total}_bucket{of_total})"), &text, is(14.0));
    scene.until_each(&format!("histogram_count({total}{of_total})"), &native, is(answered));
    scene.until_each(&format!("histogram_sum({total}{of_total})"), &native, is(sum));
    let longest = format!("histogram_quantile(1, {total}{of_total})");
    scene.until_each(&longest, &native, |end| ends.contains(&end));

    // The rules are loaded and return figures; none is broken.
    let rules = scene.prometheus.ask("/api/v1/rules", "").unwrap();
    let all: Vec<&Value> = rules["groups"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|group| group["rules"].as_array().unwrap())
        .collect();
    assert_eq!(all.len(), 11);
    assert!(all.iter().all(|rule| rule["lastError"].is_null()), "{rules}");

    the_dashboards_queries_find_figures(&mut scene.prometheus);
    let (code, _, said) = scene.monitor.stop();
    assert_eq!(code, Some(0), "{said}");
    assert!(!said.contains("not delivered"), "{said}");
}

fn dashboard() -> Value {
    let text = std::fs::read_to_string(packaged("grafana/firstbyte.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Every query of the dashboard, for the job with the right format: text has classic buckets, protobuf native ones.
fn the_dashboards_queries_find_figures(prometheus: &mut Prometheus) {
    let dashboard = dashboard();
    let panels = dashboard["panels"].as_array().unwrap();
    let queries = panels.iter().flat_map(|panel| {
        let targets = panel["targets"].as_array().into_iter().flatten();
        targets.map(|target| (panel["title"].as_str().unwrap(), target["expr"].as_str().unwrap()))
    });
    let mut asked = 0;
    for (title, query) in queries {
        for job in JOBS {
            let substituted = query
                .replace("$__rate_interval", "1m")
                .replace("$__range", "5m")
                .replace("$metric", "total")
                .replace("$job", job)
                .replace("$target", ".*")
                .replace("$variant", ".*");
            assert!(!substituted.contains('$'), "{title}: {substituted}");
            // Neither target has a name to resolve, TLS or QUIC.
            let has_none =
                ["metric=\"resolve\"", "metric=\"tls\"", "metric=\"quic\"", "certificate_expiry"];
            match has_none.iter().any(|metric| substituted.contains(metric)) {
                true => assert_eq!(prometheus.query(&substituted), [], "{title}, {job}"),
                false => prometheus.until_found(&substituted),
            }
            asked += 1;
        }
    }
    assert!(asked >= 80, "{asked} queries");
    for annotation in dashboard["annotations"]["list"].as_array().unwrap() {
        let query = annotation["expr"].as_str().unwrap();
        assert_eq!(annotation["target"]["expr"], query);
        prometheus.query(&query.replace("$job", ".*"));
    }
    for variable in dashboard["templating"]["list"].as_array().unwrap() {
        if variable["type"] != "query" {
            continue;
        }
        let query = variable["query"]["query"].as_str().unwrap();
        let inner = query.strip_prefix("label_values(").and_then(|rest| rest.strip_suffix(')'));
        let (selector, label) = inner.unwrap().rsplit_once(", ").unwrap();
        let selector = selector.replace("$job", ".*").replace("$target", ".*");
        let series = prometheus.ask("/api/v1/series", &selector).unwrap();
        let values: BTreeSet<&str> =
            series.as_array().unwrap().iter().filter_map(|one| one[label].as_str()).collect();
        assert!(!values.is_empty(), "{query}");
    }
}

#[test]
fn the_dashboard_is_what_grafana_reads() {
    let dashboard = dashboard();
    assert_eq!(dashboard["uid"], "firstbyte-monitor");
    assert!(dashboard["title"].is_string() && dashboard["schemaVersion"].as_u64() >= Some(36));
    assert!(dashboard.get("id").is_none(), "an import makes one");
    let variables: BTreeMap<&str, &str> = dashboard["templating"]["list"]
        .as_array()
        .unwrap()
        .iter()
        .map(|variable| (variable["name"].as_str().unwrap(), variable["type"].as_str().unwrap()))
        .collect();
    let names: Vec<&str> = variables.keys().copied().collect();
    assert_eq!(names, ["datasource", "job", "metric", "target", "variant"]);
    assert_eq!(variables["datasource"], "datasource");
    let (mut ids, mut places) = (BTreeSet::new(), BTreeSet::new());
    for panel in dashboard["panels"].as_array().unwrap() {
        let title = panel["title"].as_str().unwrap();
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title}: its id is another's");
        let place = ["x", "y", "w", "h"].map(|key| panel["gridPos"][key].as_u64().unwrap());
        let [x, y, w, h] = place;
        assert!(w > 0 && h > 0 && x + w <= 24, "{title}: {place:?}");
        for cell in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
            assert!(places.insert(cell), "{title}: another exists");
        }
        match panel["type"].as_str().unwrap() {
            "row" => continue,
            "timeseries" | "stat" | "table" => {}
            other => panic!("{title}: {other}"),
        }
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{title}");
        let targets = panel["targets"].as_array().unwrap();
        let refs: BTreeSet<&str> =
            targets.iter().map(|target| target["refId"].as_str().unwrap()).collect();
        assert!(!targets.is_empty() && refs.len() == targets.len(), "{title}");
        assert!(
            targets.iter().all(|target| target["datasource"]["type"] == "prometheus"),
            "{title}"
        );
    }
}

#[test]
fn promtool_accepts_the_rules_and_the_agents_configuration() {
    for arguments in [
        ["check", "rules", "firstbyte.rules.yml"].as_slice(),
        &["test", "rules", "firstbyte.rules.test.yml"],
        &["check", "config", "--agent", "agent.yml"],
    ] {
        let output = Command::new("promtool")
            .args(arguments)
            .current_dir(packaged("prometheus"))
            .output()
            .expect("Debian's prometheus is missing: run scripts/setup test");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("SUCCESS"), "{output:?}");
    }
}
