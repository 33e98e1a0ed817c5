//! A monitor whose configuration changes while it measures.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use nix::sys::signal::Signal;

use crate::monitor_server::Monitor;
use crate::support::echo::{Echo, response};
use crate::support::files::Directory;
use crate::support::run::firstbyte;

/// The number of samples counted for each target.
fn counted(monitor: &Monitor) -> BTreeMap<String, u64> {
    let text = monitor.get("/metrics").body;
    let lines = text.lines().filter_map(|line| {
        let (labels, value) =
            line.strip_prefix("firstbyte_monitor_samples_total{")?.rsplit_once("} ")?;
        let target = labels.split("target=\"").nth(1)?.split('"').next()?;
        Some((target.to_owned(), value.parse().unwrap()))
    });
    lines.collect()
}

/// Waits until `is_done` is true of the counts.
fn until_counted(monitor: &Monitor, is_done: impl Fn(&BTreeMap<String, u64>) -> bool) {
    monitor.until("/-/healthy", |_| is_done(&counted(monitor)).then_some(()));
}

/// The rounds of each target's samples in all raw files, in order.
fn rounds(directory: &Path) -> BTreeMap<String, Vec<u64>> {
    let mut all: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for entry in fs::read_dir(directory.join("store/raw")).unwrap() {
        let path = entry.unwrap().path();
        let outcome = firstbyte(directory, &["report", path.to_str().unwrap(), "--json"]);
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        for line in outcome.stdout.lines() {
            let row: serde_json::Value = serde_json::from_str(line).unwrap();
            let url = row["url"].as_str().unwrap();
            let target = url.rsplit('/').next().unwrap().to_owned();
            all.entry(target).or_default().push(row["sequence"].as_u64().unwrap());
        }
    }
    all.values_mut().for_each(|rounds| rounds.sort_unstable());
    all
}

#[test]
fn targets_come_and_go_at_sighup_and_when_the_file_changes() {
    let directory = Directory::new();
    let server = Echo::start(|_| response("200 OK", "", b"ok"));
    let target = |name: &str| {
        let port = server.peer.port();
        format!(
            "[[target]]\nname = \"{name}\"\nurl = \"http://127.0.0.1:{port}/{name}\"\nevery = \"1s\"\n"
        )
    };
    let write = |names: &[&str]| {
        let targets: Vec<String> = names.iter().map(|name| target(name)).collect();
        directory.write("monitor.toml", targets.concat());
    };
    write(&["stays", "goes"]);
    let monitor = Monitor::start(directory.path());
    until_counted(&monitor, |counted| counted.values().all(|number| *number >= 2));
    // SIGHUP reloads immediately.
    write(&["comes", "stays"]);
    monitor.send(Signal::SIGHUP);
    until_counted(&monitor, |counted| counted.get("comes").is_some_and(|number| *number >= 2));
    let now = counted(&monitor);
    assert!(now["stays"] >= 3 && !now.contains_key("goes"), "{now:?}");
    assert!(!monitor.get("/api/v1/targets").body.contains("goes"));
    // A file with a mistake changes nothing.
    directory.write("monitor.toml", format!("{}evry = 1\n", target("last")));
    monitor.send(Signal::SIGHUP);
    let before = now["stays"];
    until_counted(&monitor, |counted| counted["stays"] > before + 1);
    // Without a signal, the monitor notices the changed file.
    write(&["stays", "last"]);
    until_counted(&monitor, |counted| counted.get("last").is_some_and(|number| *number >= 2));
    let last = counted(&monitor);
    let (code, _, said) = monitor.stop();
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(said.matches("monitor.toml was reloaded: 2 targets, 2 series").count(), 2, "{said}");
    assert!(said.contains("unknown key \"evry\" in [[target]]; did you mean \"every\"?"), "{said}");
    assert!(said.contains("monitor.toml has errors; the old configuration stays in use"), "{said}");
    let rounds = rounds(directory.path());
    assert_eq!(rounds.keys().collect::<Vec<_>>(), ["comes", "goes", "last", "stays"]);
    assert!(rounds["stays"].len() as u64 >= last["stays"]);
    // Rounds restart at midnight.
    let stays = &rounds["stays"];
    let missed: u64 = stays.windows(2).map(|pair| (pair[1] - pair[0]).saturating_sub(2)).sum();
    assert!(missed == 0 || stays[0] == 0, "{stays:?}");
}

#[test]
fn who_may_read_the_figures_may_have_the_file_read_again() {
    let directory = Directory::new();
    let server = Echo::start(|_| response("200 OK", "", b"ok"));
    let write = |names: &str, more: &str| {
        let port = server.peer.port();
        directory.write(
            "monitor.toml",
            format!(
                "token_file = \"token\"\n{more}[[target]]\nurl = \"http://127.0.0.1:{port}/{names}\"\n\
                 every = \"1s\"\n"
            ),
        );
    };
    directory.write("token", "0123456789abcdef\n");
    write("a", "");
    let monitor = Monitor::start(directory.path());
    let token = "Authorization: Bearer 0123456789abcdef\r\n";
    let post = |fields: &str| monitor.ask("POST", "/-/reload", fields, "");
    assert_eq!(post("").status, 401);
    let read = monitor.ask("GET", "/-/reload", token, "");
    assert_eq!((read.status, read.field("allow")), (405, Some("post")), "{read:?}");
    assert_eq!(post(&format!("{token}Sec-Fetch-Site: cross-site\r\n")).status, 403);
    write("{b,c}", "");
    let answer = post(token);
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(answer.body.starts_with("reloaded: 2 targets, 2 series, "), "{answer:?}");
    write("d", "evry = 1\n");
    let answer = post(token);
    assert_eq!(answer.status, 500, "{answer:?}");
    assert!(
        answer.body.contains("monitor.toml:2:1: unknown key \"evry\" in the file")
            && answer.body.ends_with("the old configuration stays in use\n"),
        "{answer:?}"
    );
    assert!(!answer.body.contains("0123456789abcdef"), "{answer:?}");
    let targets = monitor.ask("GET", "/api/v1/targets", token, "");
    assert!(targets.body.contains("/c\"") && !targets.body.contains("/d\""), "{targets:?}");
    let (code, _, said) = monitor.stop();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("monitor.toml was reloaded: 2 targets"), "{said}");
}

#[test]
fn each_address_of_a_name_is_measured() {
    let directory = Directory::new();
    let server = Echo::start(|_| response("200 OK", "", b"ok"));
    let port = server.peer.port();
    let text = format!(
        "[[target]]\nname = \"a\"\nurl = \"http://localhost:{port}/\"\nevery = \"1s\"\nedges = \"all\"\n"
    );
    directory.write("monitor.toml", &text);
    let monitor = Monitor::start(directory.path());
    until_counted(&monitor, |counted| counted.values().any(|number| *number >= 2));
    let targets = monitor.get("/api/v1/targets").json();
    let ways: Vec<&str> = targets["targets"][0]["series"]
        .as_array()
        .unwrap()
        .iter()
        .map(|series| series["variant"].as_str().unwrap())
        .collect();
    // `localhost` may have an IPv6 address as well, which is a second edge.
    assert!(ways.contains(&"edge=127.0.0.1") && ways.len() <= 2, "{ways:?}");
    let events =
        monitor.get("/api/v1/series?target=a&variant=edge%3D127.0.0.1&metric=total&step=minute");
    assert_eq!(events.status, 200, "{events:?}");
    assert_eq!(monitor.stop().0, Some(0));
    let check =
        firstbyte(directory.path(), &["monitor", "--config", "monitor.toml", "--check-config"]);
    assert!(check.stdout.ends_with(
        "1 name looked up at the start: one series per address and \
                                variant\n"
    ));
}
