//! A monitor in trouble: a target that drips bytes, a thousand clients at once, termination at any moment.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use firstbyte_clock::Monotonic;
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::monitor_server::Monitor;
use crate::support::echo::{Echo, response};
use crate::support::files::Directory;
use crate::support::peer::Peer;
use crate::support::run::firstbyte;

fn server() -> Echo {
    Echo::start(|_| response("200 OK", "", b"ok"))
}

/// Samples in all raw files, keyed by their URL's path, in file order.
fn samples(directory: &Path) -> BTreeMap<String, Vec<Value>> {
    let mut all: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for entry in fs::read_dir(directory.join("store/raw")).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        let mut lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let header = lines.next().unwrap();
        for line in lines {
            let Some(cell) = line["variant"].as_u64() else { continue };
            let url = header["variants"][cell as usize]["url"].as_str().unwrap();
            let path = url.rsplit('/').next().unwrap().to_owned();
            all.entry(path).or_default().push(line);
        }
    }
    all
}

#[test]
fn a_target_that_drips_ends_with_its_timeout_and_holds_up_nobody() {
    let directory = Directory::new();
    let server = server();
    let drip = Peer::tcp(|mut stream| {
        let _ = stream.read(&mut [0; 1_024]);
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n";
        let _ = stream.write_all(head);
        while stream.write_all(b".").is_ok() {
            thread::sleep(Duration::from_secs(1));
        }
    });
    directory.write(
        "monitor.toml",
        format!(
            "[limits]\nper_host = 10\n[defaults]\nevery = \"1s\"\ntimeout = \"2s\"\n\
             [[target]]\nurl = \"http://127.0.0.1:{}/well\"\n[[target]]\nurl = \"http://127.0.0.1:{}/drips\"\n",
            server.peer.port(),
            drip.port()
        ),
    );
    let words =
        ["monitor", "--config", "monitor.toml", "--store", "store", "--silent", "--for", "7s"];
    let outcome = firstbyte(directory.path(), &words);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let samples = samples(directory.path());
    assert!(samples["well"].len() >= 5, "{}", samples["well"].len());
    assert!(samples["well"].iter().all(|sample| sample["outcome"] == "verified"));
    let drips = &samples["drips"];
    assert!((2..=4).contains(&drips.len()), "{}", drips.len());
    for sample in drips {
        let failure = &sample["sample"]["connection"]["failure"];
        assert_eq!(
            (&failure["phase"], &failure["cause"]),
            (&"receive".into(), &"timed-out".into())
        );
        let at = failure["at_ns"].as_f64().unwrap() / 1e9;
        assert!((1.9..4.0).contains(&at), "{sample}");
    }
}

/// One client's `GET path`, which tries again until it is answered; returns the number of attempts.
fn client(at: SocketAddr, path: &str) -> usize {
    let begun = Monotonic::now();
    for attempt in 1.. {
        let ask = || -> std::io::Result<String> {
            let mut stream = TcpStream::connect(at)?;
            stream.set_read_timeout(Some(Duration::from_secs(20)))?;
            write!(stream, "GET {path} HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        };
        if ask().is_ok_and(|answer| answer.starts_with("HTTP/1.1 200 ")) {
            return attempt;
        }
        assert!(Monotonic::now().since(begun) < Duration::from_secs(60), "it is never answered");
    }
    unreachable!()
}

/// All are answered within bounds on memory and time, and measuring continues.
#[test]
fn a_thousand_clients_are_answered_and_measuring_goes_on() {
    const CLIENTS: usize = 1_000;
    let directory = Directory::new();
    let server = server();
    directory.write(
        "monitor.toml",
        format!(
            "[[target]]\nevery = \"1s\"\nurl = \"http://127.0.0.1:{}/well\"\n",
            server.peer.port()
        ),
    );
    let monitor = Monitor::start(directory.path());
    monitor.until_ready();
    let at = SocketAddr::from(([127, 0, 0, 1], monitor.port()));
    let before = monitor.resident_kb();
    let begun = Monotonic::now();
    let attempts = AtomicUsize::new(0);
    thread::scope(|scope| {
        for number in 0..CLIENTS {
            let attempts = &attempts;
            scope.spawn(move || {
                let path = ["/", "/api/v1/overview", "/metrics", "/api/v1/targets"][number % 4];
                attempts.fetch_add(client(at, path), Ordering::Relaxed);
            });
        }
    });
    let took = Monotonic::now().since(begun);
    let grown = monitor.resident_kb().saturating_sub(before);
    println!("{CLIENTS} clients, {} attempts: {took:?}, {grown} kB", attempts.into_inner());
    assert!(grown < 150_000, "{grown} kB");
    thread::sleep(Duration::from_secs(2));
    let (code, _, said) = monitor.stop();
    assert_eq!(code, Some(0), "{said}");
    let samples = &samples(directory.path())["well"];
    // No sample is missing, and none is later than busy processors explain.
    let seconds = samples.windows(2).map(|pair| {
        let began = |sample: &Value| sample["started_unix_ns"].as_f64().unwrap() / 1e9;
        began(&pair[1]) - began(&pair[0])
    });
    let longest = seconds.fold(0.0, f64::max);
    assert!(longest < 5.0, "{longest} s between two samples");
}

/// A monitor that is terminated while it reloads, answers, posts to an unreachable receiver and writes ends with code
/// 0, and soon.
///
/// After the next start every sample on the disk is in the store exactly once.
#[test]
fn told_to_end_in_the_middle_of_everything_it_ends_whole() {
    let directory = Directory::new();
    let here = directory.path();
    let server = server();
    let configuration = |paths: usize| {
        format!(
            "[limits]\nin_flight = 100\nper_host = 100\n[[target]]\nevery = \"1s\"\n\
             url = \"http://127.0.0.1:{}/{{1..{paths}}}\"\n",
            server.peer.port()
        )
    };
    let seed = 17;
    let mut random = fastrand::Rng::with_seed(seed);
    for round in 0..5 {
        directory.write("monitor.toml", configuration(40));
        let monitor = Monitor::start(here);
        let wait = Duration::from_millis(random.u64(0..2_000));
        thread::sleep(wait);
        directory.write("monitor.toml", configuration(40 + round));
        monitor.send(Signal::SIGHUP);
        let at = SocketAddr::from(([127, 0, 0, 1], monitor.port()));
        let mut half: Vec<TcpStream> = (0..8).map(|_| TcpStream::connect(at).unwrap()).collect();
        for stream in &mut half {
            let _ = write!(stream, "GET /api/v1/overview HTTP/1.1\r\nHost: {at}\r\n\r\n");
        }
        thread::sleep(Duration::from_millis(random.u64(0..60)));
        let (code, took, said) = monitor.stop();
        println!("seed {seed}, round {round}: ended {took:?} after {wait:?}");
        assert_eq!(code, Some(0), "{said}");
        assert!(took < Duration::from_secs(12), "{took:?}: {said}");
    }
    // The next start sums up the remaining samples.
    let monitor = Monitor::start(here);
    monitor.until_ready();
    assert_eq!(monitor.stop().0, Some(0));
    let mut left: Vec<String> = fs::read_dir(here.join("store"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    assert_eq!(left, ["raw", "store.lock", "store.sqlite"]);
    let kept: usize = samples(here).values().map(Vec::len).sum();
    let report = firstbyte(here, &["report", "store", "--json", "--since", "1d"]);
    let report: Value = serde_json::from_str(&report.stdout).unwrap();
    let rows = report["rows"].as_array().unwrap();
    let summed: u64 = rows.iter().map(|row| row["samples"].as_u64().unwrap()).sum();
    assert!(kept > 50, "{kept}");
    assert_eq!(summed, kept as u64);
}

/// In a file system of three megabytes, the oldest raw day is deleted first; then samples are lost, which is reported.
/// Once there is room again, the monitor continues. Rollups are kept.
#[test]
fn a_full_disk_is_said_and_the_oldest_day_goes_first() {
    const SCRIPT: &str = r#"
mount -t tmpfs -o size=3m tmpfs store && mkdir store/raw || exit 99
cp old.run store/raw/2026-01-02.run
head -c 1500000 /dev/zero > store/filler
"$FIRSTBYTE" monitor --config monitor.toml --store store --silent 2> told &
monitor=$!
until_told() { for i in $(seq 300); do grep -q "$1" told && return; sleep 0.1; done; cat told; kill $monitor; exit 98; }
until_told "samples are lost"
rm store/filler
until_told "is writable again"
sleep 1
kill -TERM $monitor; wait $monitor
echo "code $?"
ls store/raw
cat store/raw/*.run | grep -c '^{"variant":'
"$FIRSTBYTE" report store --json --since 1d
"#;
    let directory = Directory::new();
    let server = server();
    directory.write(
        "monitor.toml",
        format!(
            "[limits]\nin_flight = 100\nper_host = 100\n[keep]\nraw = \"3650d\"\n[[target]]\nevery = \"1s\"\n\
             url = \"http://127.0.0.1:{}/{{1..200}}\"\n",
            server.peer.port()
        ),
    );
    directory.write("old.run", "x".repeat(500_000));
    fs::create_dir(directory.path().join("store")).unwrap();
    let shell = std::process::Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", SCRIPT])
        .current_dir(directory.path())
        .env("FIRSTBYTE", env!("CARGO_BIN_EXE_firstbyte"))
        .output()
        .unwrap();
    let told = fs::read_to_string(directory.path().join("told")).unwrap_or_default();
    let out = String::from_utf8(shell.stdout).unwrap();
    let said = String::from_utf8_lossy(&shell.stderr);
    assert!(shell.status.success(), "{out}\n{said}\n{told}");
    let full = told.find("the disk is full: store/raw/2026-01-02.run is deleted").expect(&told);
    assert!(full < told.find("samples are lost").unwrap(), "{told}");
    let mut lines = out.lines();
    // The exit code says that samples were lost.
    assert_eq!(lines.next(), Some("code 23"), "{told}");
    let (files, rest): (Vec<&str>, Vec<&str>) = lines.partition(|line| line.ends_with(".run"));
    assert!(files.len() == 1 && files[0] != "2026-01-02.run", "{files:?}");
    let kept: u64 = rest[0].trim().parse().expect(&out);
    let report: Value = serde_json::from_str(rest[1]).unwrap();
    let rows = report["rows"].as_array().unwrap();
    let summed: u64 = rows.iter().map(|row| row["samples"].as_u64().unwrap()).sum();
    // The rollups include samples that could not be written.
    let lost = told.lines().find_map(|line| {
        line.strip_prefix("error: ")?.split_once(" sample").map(|(lost, _)| lost.to_owned())
    });
    let lost: u64 = lost.expect(&told).parse().unwrap();
    assert!(kept > 200 && lost > 0, "{kept}, {lost}: {told}");
    assert_eq!(summed, kept + lost);
}
