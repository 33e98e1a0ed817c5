//! A monitor whose targets, tags and place have hostile names: every output stays well-formed and shows the names.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::monitor_server::{Monitor, of_target, parse};
use crate::support::echo::{Echo, response};
use crate::support::files::Directory;
use crate::support::peer::Peer;
use crate::support::run::firstbyte;

/// Names with special meaning to terminals, text formats, browsers, paths, templates or spreadsheets.
const NAMES: [&str; 16] = [
    "\u{1b}]0;owned\u{7}\u{1b}[2J",
    "\u{9b}31m\u{7f}",
    "a\nfirstbyte_monitor_samples_total{} 9",
    "\"},target=\"other\\",
    "</script><script>document.title='owned'</script>",
    "\u{202e}gnp.exe\u{2066}",
    "../../../etc/passwd",
    "before\0after",
    "{{json sentence}} {} {0}",
    "%s%n%2e%00&target=b#x",
    "=HYPERLINK(\"http://192.0.2.1/\",\"x\")",
    "@SUM(1+1)*cmd|' /C calc'!A0",
    "+1",
    "\r\nSet-Cookie: a=b\r\n\r\n",
    "'; DROP TABLE series; --",
    "\u{feff} e\u{301}\u{2028}",
];
const TAG: &str = "=1+1 </script> \u{202e}\"}\\ {{id}} %n";

/// A TOML string with every character escaped.
fn toml(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        let _ = write!(quoted, "\\U{:08x}", c as u32);
    }
    quoted + "\""
}

fn in_url(text: &str) -> String {
    text.bytes().fold(String::new(), |mut url, byte| {
        let _ = write!(url, "%{byte:02X}");
        url
    })
}

/// Asserts that the text neither moves the cursor, nor rings the bell, nor reorders text.
fn check_terminal(text: &str) {
    let is_bad = |c: &char| {
        (c.is_control() && *c != '\n')
            || ('\u{202a}'..='\u{202e}').contains(c)
            || ('\u{2066}'..='\u{2069}').contains(c)
    };
    assert_eq!(text.chars().find(is_bad), None, "{text:?}");
}

/// Asserts that Prometheus' own parser accepts the scrape.
fn check_scrape(text: &str) {
    let mut child = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("Debian's prometheus is missing: run scripts/setup test");
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn what_targets_are_called_runs_nowhere_and_comes_back_as_it_was() {
    let directory = Directory::new();
    let here = directory.path();
    let server = Echo::start(|_| response("200 OK", "", b"ok"));
    let closed = Peer::closed();
    let long = "x".repeat(10_000);
    let mut names: Vec<&str> = NAMES.to_vec();
    names.push(&long);
    let mut text = format!(
        "place = {0}\ntags = {{ a = {0} }}\n[limits]\nper_host = 20\n[defaults]\nevery = \"1s\"\n",
        toml(TAG)
    );
    for (number, name) in names.iter().enumerate() {
        // The first one fails, so that its failure is reported.
        let port = if number == 0 { closed.port() } else { server.peer.port() };
        let _ = write!(
            text,
            "[[target]]\nname = {}\nurl = \"http://127.0.0.1:{port}/{number}\"\n",
            toml(name)
        );
    }
    directory.write("monitor.toml", text);
    let check = firstbyte(here, &["monitor", "--config", "monitor.toml", "--check-config"]);
    assert_eq!(check.code, 0, "{check:?}");
    check_terminal(&check.stdout);
    // Ten targets are listed, each on one line.
    assert_eq!(check.stdout.lines().count(), 12, "{}", check.stdout);

    let monitor = Monitor::start(here);
    // As in labels: characters unfit for terminals are escaped, except for line ends.
    let label = |name: &str| {
        let shown = |c: char| match c {
            '\n' => c.to_string(),
            c if c.is_control() || "\u{202e}\u{2066}".contains(c) => c.escape_default().to_string(),
            c => c.to_string(),
        };
        name.chars().map(shown).collect::<String>()
    };
    let scraped = monitor.until("/metrics", |answer| {
        let exposed = parse(&answer.body);
        let of = |name: &&str| of_target(&exposed, "firstbyte_monitor_samples_total", &label(name));
        NAMES.iter().all(|name| of(name) >= 1.0).then(|| (answer.body.clone(), exposed))
    });
    check_terminal(&scraped.0);
    check_scrape(&scraped.0);
    let value = |name: &str| scraped.1[&(format!("firstbyte_monitor_{name}"), BTreeMap::new())];
    assert_eq!((value("series"), value("series_not_exposed")), (names.len() as f64, 1.0));
    let exposed: BTreeSet<&String> =
        scraped.1.keys().filter_map(|(_, labels)| labels.get("target")).collect();
    assert_eq!(exposed.len(), NAMES.len(), "{exposed:?}");

    monitor.until_ready();
    let listed = monitor.get("/api/v1/targets").json();
    let listed: Vec<&str> = listed["targets"]
        .as_array()
        .unwrap()
        .iter()
        .map(|target| target["target"].as_str().unwrap())
        .collect();
    let all: BTreeSet<&str> = names.iter().copied().collect();
    assert_eq!(listed.iter().copied().collect::<BTreeSet<_>>(), all);
    for name in &names {
        let url = format!("/api/v1/series?target={}&metric=total&step=minute", in_url(name));
        monitor.until(&url, |answer| match answer.status {
            200 => Some(answer.json()),
            // The store does not have this series yet.
            status => {
                assert_eq!(status, 404, "{answer:?}");
                None
            }
        });
        let page = monitor.get(&format!("/target?target={}", in_url(name)));
        assert_eq!(page.status, 200, "{page:?}");
        assert!(!page.body.contains("owned") && !page.has("set-cookie"), "{page:?}");
    }
    let (code, _, said) = monitor.stop();
    assert_eq!(code, Some(0), "{said}");
    check_terminal(&said);
    assert!(said.contains("(tcp.refused)"), "{said}");

    // Files on disk are lines of JSON, and no target chose the name of a file.
    let mut raw = 0;
    for entry in fs::read_dir(here.join("store/raw")).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        text.lines().for_each(|line| drop(serde_json::from_str::<Value>(line).unwrap()));
        raw += text.lines().count() - 1;
    }
    assert!(raw >= names.len(), "{raw}");
    let mut files: Vec<_> =
        fs::read_dir(here.join("store")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    files.sort();
    assert_eq!(files, ["raw", "store.lock", "store.sqlite"]);
    check_exports(here, &all);
}

fn check_exports(here: &std::path::Path, all: &BTreeSet<&str>) {
    let export = |form: &str| {
        let words = ["monitor", "export", "--store", "store", "--step", "day", "--format", form];
        let outcome = firstbyte(here, &words);
        assert_eq!(outcome.code, 0, "{outcome:?}");
        outcome.stdout
    };
    let rows = export("ndjson");
    let rows: Vec<Value> = rows.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let found: BTreeSet<&str> = rows.iter().map(|row| row["target"].as_str().unwrap()).collect();
    assert_eq!(&found, all);
    assert!(rows.iter().all(|row| row["tags"]["a"] == TAG && row["place"] == TAG));
    let table = export("csv");
    let mut reader = csv::Reader::from_reader(table.as_bytes());
    let target = reader.headers().unwrap().iter().position(|name| name == "target").unwrap();
    let mut found = BTreeSet::new();
    for record in reader.records() {
        let record = record.unwrap();
        let runs = |cell: &&str| cell.starts_with(['=', '+', '-', '@', '\t', '\r']);
        assert_eq!(record.iter().find(runs), None, "a spreadsheet would run it");
        let name = &record[target];
        found.insert(name.strip_prefix('\'').unwrap_or(name).to_owned());
    }
    assert_eq!(found.iter().map(String::as_str).collect::<BTreeSet<_>>(), *all);
    // Names as users type them: an existing one, and an unknown one, whose message lists the existing ones.
    for name in all.iter().filter(|name| !name.contains('\0')) {
        let asked = format!("--target={name}");
        let events = firstbyte(here, &["monitor", "events", "--store", "store", &asked]);
        assert_eq!(events.code, 0, "{events:?}");
        check_terminal(&events.stdout);
    }
    let none = firstbyte(here, &["monitor", "events", "--store", "store", "--target=\u{1b}[2J"]);
    assert_eq!(none.code, 2, "{none:?}");
    check_terminal(&none.stderr);
}
