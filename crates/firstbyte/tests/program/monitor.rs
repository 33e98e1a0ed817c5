//! `firstbyte monitor` on loopback: what it stores, how it continues, and what it refuses.

use std::fs;
use std::path::Path;

use crate::monitor_server::Monitor;
use crate::support::echo::{Echo, response};
use crate::support::files::Directory;
use crate::support::run::{Outcome, firstbyte};

fn server() -> Echo {
    Echo::start(|_| response("200 OK", "", b"ok"))
}

fn monitor(directory: &Path, arguments: &[&str]) -> Outcome {
    firstbyte(directory, &[&["monitor", "--store", "store", "--silent"], arguments].concat())
}

/// The names of the run files in the store.
fn runs(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory.join("store/raw")).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Cell and round of each sample in a run.
fn rounds(directory: &Path, name: &str) -> Vec<(String, u64)> {
    let path = format!("store/raw/{name}");
    let outcome = firstbyte(directory, &["report", &path, "--json"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let rows = outcome.stdout.lines().map(|line| {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        (row["url"].as_str().unwrap().to_owned(), row["sequence"].as_u64().unwrap())
    });
    rows.collect()
}

#[test]
fn samples_are_kept_and_a_second_start_goes_on_with_the_days_file() {
    let directory = Directory::new();
    let here = directory.path();
    let server = server();
    let url = |path: &str| format!("http://127.0.0.1:{}{path}", server.peer.port());
    let (a, b) = (url("/a"), url("/b"));
    let arguments = [a.as_str(), b.as_str(), "--every", "1s", "--for", "4s"];
    let outcome = monitor(here, &arguments);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("measuring 2 targets, 2 series, 2.00 samples a second\n"));
    let before = runs(here);
    let first = rounds(here, &before[0]);
    assert!((6..=10).contains(&first.len()), "{first:?}");
    assert!(
        outcome.stderr.contains(&format!("ended: {} samples\nsee: firstbyte report ", first.len()))
    );
    let outcome = monitor(here, &arguments);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    // If midnight passes, the second start has a separate file.
    if runs(here) == before {
        let both = rounds(here, &before[0]);
        assert_eq!(both[..first.len()], first);
        assert!((12..=20).contains(&both.len()), "{both:?}");
        let mut once = both.clone();
        once.sort();
        once.dedup();
        assert_eq!(once.len(), both.len(), "each round once: {both:?}");
    }
    // Different targets are a different run, in a second file.
    let outcome = monitor(here, &[&a, "--every", "1s", "--for", "2s"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(runs(here).len(), before.len() + 1, "{:?}", runs(here));
    // A monitor's run is not an experiment that can be continued.
    let path = format!("store/raw/{}", before[0]);
    let outcome = firstbyte(here, &["compare", "--continue", &path]);
    assert_ne!(outcome.code, 0);
    assert!(outcome.stderr.contains("monitor"), "{}", outcome.stderr);
}

#[test]
fn failures_are_samples_and_an_outage_is_told_once() {
    let directory = Directory::new();
    let closed = crate::support::peer::Peer::closed();
    let url = format!("http://127.0.0.1:{}/", closed.port());
    let outcome = monitor(directory.path(), &[&url, "--every", "1s", "--for", "4s"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(outcome.stderr.matches("tcp.refused").count(), 1, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("Z down: "), "{}", outcome.stderr);
    // One is an extra sample, taken immediately after the first failure.
    let kept = rounds(directory.path(), &runs(directory.path())[0]);
    assert!((4..=6).contains(&kept.len()), "{kept:?}");
}

#[test]
fn a_configuration_is_checked_with_a_line_for_each_mistake() {
    let directory = Directory::new();
    let check =
        || firstbyte(directory.path(), &["monitor", "--config", "m.toml", "--check-config"]);
    directory.write(
        "m.toml",
        "[defaults]\nevery = \"30s\"\nvary = [\"tls=1.2,1.3\"]\n[[target]]\nurl = \"https://{a,b}.example.com/\"\n",
    );
    let outcome = check();
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
    assert_eq!(
        outcome.stdout,
        "2 targets, 4 series, 0.13 samples a second\n  a.example.com: every 30s: TLS 1.2; TLS 1.3\n  \
         b.example.com: every 30s: TLS 1.2; TLS 1.3\n"
    );
    directory
        .write("m.toml", "[defaults]\nevry = \"30s\"\n[[target]]\nurl = \"ftp://example.com/\"\n");
    let outcome = check();
    assert_eq!((outcome.code, outcome.stdout.as_str()), (2, ""));
    for line in [
        "m.toml: 2 mistakes\n",
        "m.toml:2:1: unknown key \"evry\" in [defaults]; did you mean \"every\"?\n",
        "m.toml:4:7: scheme ftp:// is not supported",
    ] {
        assert!(outcome.stderr.contains(line), "{line}\n{}", outcome.stderr);
    }
    // Control characters in a name do not reach the terminal.
    directory
        .write("m.toml", "[[target]]\nname = \"a\\u001b[31m\\u202eb\"\nurl = \"http://a.test/\"\n");
    let outcome = check();
    assert!(outcome.stdout.contains(r"  a\u{1b}[31m\u{202e}b: every 1min"), "{}", outcome.stdout);
    assert!(!directory.path().join("store").exists());
    let outcome = firstbyte(directory.path(), &["monitor", "--config", "gone.toml"]);
    assert_eq!(outcome.code, 26, "{}", outcome.stderr);
    let outcome = firstbyte(directory.path(), &["monitor", "https://a.test", "--every", "10ms"]);
    assert_eq!(outcome.code, 2);
    assert!(outcome.stderr.contains("--every \"10ms\": less than a second"), "{}", outcome.stderr);
    let outcome = firstbyte(directory.path(), &["monitor", "https://a.test", "-m", "0"]);
    assert_eq!(outcome.code, 2);
    assert!(
        outcome.stderr.contains("-m 0: a monitor's samples need a time limit"),
        "{}",
        outcome.stderr
    );
}

/// Header values reach only the server: neither files, nor the page, nor the printed output.
#[test]
fn requests_are_made_as_configured_and_their_secrets_stay_secret() {
    let directory = Directory::new();
    let here = directory.path();
    let server = Echo::start(|request| {
        let is_asked = request.line == "HEAD / HTTP/1.1"
            && request.field("authorization") == Some("Bearer s3cret-of-shop");
        response(if is_asked { "301 Moved Permanently" } else { "403 Forbidden" }, "", b"")
    });
    directory.write(
        "m.toml",
        format!(
            "[defaults]\nheaders = {{ Authorization = \"Bearer s3cret-of-shop\" }}\n\
             [[target]]\nname = \"shop\"\nurl = \"http://127.0.0.1:{}/\"\nevery = \"1s\"\n\
             method = \"HEAD\"\nstatus = \"301\"\n",
            server.peer.port()
        ),
    );
    let check = firstbyte(here, &["monitor", "--config", "m.toml", "--check-config"]);
    assert_eq!(check.code, 0, "{}", check.stderr);
    let outcome = monitor(here, &["--config", "m.toml", "--for", "3s"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let name = &runs(here)[0];
    let raw = fs::read_to_string(here.join("store/raw").join(name)).unwrap();
    assert!(raw.contains("\"status\":301") && !raw.contains("\"status\":403"), "{raw}");
    for text in [&raw, &check.stdout, &outcome.stdout, &outcome.stderr] {
        assert!(!text.contains("s3cret"), "{text}");
    }
    let store = fs::read(here.join("store/store.sqlite")).unwrap();
    assert!(!store.windows(6).any(|bytes| bytes == b"s3cret"));
}

/// During and after a monitor's run: the contents of the store, and annotations, which both can write.
#[test]
fn status_and_annotations_work_beside_a_running_monitor() {
    let directory = Directory::new();
    let here = directory.path();
    let server = server();
    directory.write(
        "monitor.toml",
        format!(
            "[[target]]\nname = \"shop\"\nurl = \"http://127.0.0.1:{}/\"\nevery = \"1s\"\n",
            server.peer.port()
        ),
    );
    let ask = |words: &str| firstbyte(here, &words.split(' ').collect::<Vec<_>>());
    let outcome = ask("monitor status --store store");
    assert_eq!(outcome.code, 26, "{outcome:?}");
    assert!(outcome.stderr.contains("no store at store/store.sqlite"), "{outcome:?}");
    assert_eq!(ask("monitor annotate deploy --store store").code, 26);
    assert!(!here.join("store").exists(), "asking makes no store");
    let monitor = Monitor::start(here);
    monitor.until_ready();
    monitor.until("/api/v1/overview", |answer| {
        answer.json()["rows"][0]["samples"].as_u64().filter(|samples| *samples >= 3)
    });
    let outcome = ask("monitor status --store store");
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""), "{outcome:?}");
    assert!(outcome.stdout.starts_with("store: a monitor is running\n"), "{outcome:?}");
    assert!(outcome.stdout.contains("1 target, 1 series; 1 raw file of "), "{outcome:?}");
    assert!(outcome.stdout.ends_with("  shop, as negotiated\n"), "{outcome:?}");
    assert!(outcome.stdout.lines().count() <= 24, "{outcome:?}");
    let outcome =
        ask("monitor annotate deploy-4812 --tag service=shop --at 2026-11-23 --store store");
    assert_eq!(outcome.code, 0, "{outcome:?}");
    assert_eq!(outcome.stdout, "noted at 2026-11-23 00:00 UTC: deploy-4812\n");
    let shown = monitor.get("/api/v1/annotations?since=1795392000&until=1795392001").json();
    assert_eq!(shown["annotations"][0]["text"], "deploy-4812");
    assert_eq!(shown["annotations"][0]["tags"]["service"], "shop");
    let (code, _, said) = monitor.stop();
    assert_eq!(code, Some(0), "{said}");
    assert!(!said.contains("cannot"), "{said}");
    let outcome = ask("monitor status --store store --json");
    let json: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(
        (&json["format"], &json["running"]),
        (&"firstbyte/monitor-status".into(), &false.into())
    );
    assert!(json["series"][0]["last_day"]["samples"].as_u64() >= Some(3), "{json}");
    assert_eq!(json["series"][0]["last_day"]["failed_share"], 0.0, "{json}");
}

#[test]
fn a_misspelt_command_is_not_a_host() {
    let directory = Directory::new();
    let outcome = firstbyte(directory.path(), &["monitor", "evnets"]);
    assert_eq!(outcome.code, 2, "{outcome:?}");
    assert!(
        outcome.stderr.contains("\"evnets\" is not a command of monitor; did you mean events?\n"),
        "{outcome:?}"
    );
}
