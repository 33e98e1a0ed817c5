//! Signals to the first process of a container (PID 1), for which the kernel has no default handling.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::{PROGRAM, Permits};

/// The program as PID 1 of a new namespace, and the process that created the namespace.
struct Container {
    maker: Child,
    program: Pid,
}

impl Container {
    fn start(arguments: &[&str]) -> Self {
        // The test itself may run under nohup(1).
        let maker = Command::new("unshare")
            .args(["--user", "--map-root-user", "--pid", "--fork", "--kill-child"])
            .args(["env", "--default-signal=HUP,INT,TERM", PROGRAM])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("util-linux is installed");
        let pid = maker.id();
        let mut container = Self { maker, program: Pid::from_raw(0) };
        let children = format!("/proc/{pid}/task/{pid}/children");
        loop {
            assert_eq!(container.maker.try_wait().unwrap(), None, "namespaces are not permitted?");
            let found = fs::read_to_string(&children).unwrap_or_default();
            if let Some(child) = found.split_whitespace().next()
                && handles_sigterm(child)
            {
                container.program = Pid::from_raw(child.parse().unwrap());
                return container;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn code(mut self) -> Option<i32> {
        self.maker.wait().unwrap().code()
    }
}

/// Whether the process handles SIGTERM itself, according to `/proc`.
fn handles_sigterm(process: &str) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let Some(caught) = status.lines().find_map(|line| line.strip_prefix("SigCgt:")) else {
        return false;
    };
    u64::from_str_radix(caught.trim(), 16).unwrap() >> (Signal::SIGTERM as u32 - 1) & 1 == 1
}

/// Too many connections to ever finish.
const MANY: [&str; 6] = ["predict", "--loss", "1%", "-n", "4000000000", "--csv"];

#[test]
fn as_pid_1_what_is_measured_ends_with_whole_rows() {
    for (signal, code) in [(Signal::SIGTERM, 143), (Signal::SIGHUP, 129), (Signal::SIGINT, 130)] {
        let mut container = Container::start(&MANY);
        let mut stdout = BufReader::new(container.maker.stdout.take().unwrap());
        let mut rows = String::new();
        stdout.read_line(&mut rows).unwrap();
        stdout.read_line(&mut rows).unwrap();
        kill(container.program, signal).unwrap();
        stdout.read_to_string(&mut rows).unwrap();
        assert_eq!(container.code(), Some(code), "{signal}");
        assert!(rows.ends_with('\n'), "{signal}");
        // The reader fails if a row has a different number of columns than the first.
        let read = csv::Reader::from_reader(rows.as_bytes()).records().map(Result::unwrap).count();
        assert_eq!(read, rows.lines().count() - 1, "{signal}");
    }
}

#[test]
fn as_pid_1_what_is_not_measured_ends_at_once() {
    let container = Container::start(&MANY[..5]);
    kill(container.program, Signal::SIGTERM).unwrap();
    assert_eq!(container.code(), Some(143));
}

/// Runs the program in `directory` until `file` there has `bytes` bytes, then terminates it; returns its output.
fn ended_when_written(directory: &Path, arguments: &[&str], file: &str, bytes: u64) -> String {
    let mut child = Command::new(PROGRAM)
        .args(arguments)
        .current_dir(directory)
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let stdout = child.stdout.take().unwrap();
    let reading = std::thread::spawn(move || std::io::read_to_string(stdout).unwrap());
    while fs::metadata(directory.join(file)).map_or(0, |file| file.len()) < bytes {
        assert_eq!(child.try_wait().unwrap(), None, "it has ended by itself");
        std::thread::sleep(Duration::from_millis(20));
    }
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(143));
    reading.join().unwrap()
}

fn assert_is_whole(directory: &Path, page: &str, rows: &str) {
    let page = fs::read_to_string(directory.join(page)).unwrap();
    assert!(page.trim_end().ends_with("</html>"), "{} bytes", page.len());
    let rows = csv::Reader::from_path(directory.join(rows)).unwrap().records().count();
    assert!(rows > 36, "{rows} rows");
}

#[test]
fn a_demo_shows_what_was_complete() {
    let _permits = Permits::one();
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    ended_when_written(place, &["demo", "-n", "1000"], "firstbyte-demo.run", 300_000);
    assert_is_whole(place, "firstbyte-demo.html", "firstbyte-demo.csv");
}

#[test]
fn studies_show_what_was_complete() {
    let _permits = Permits::one();
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    let study = ["lab", "study", "pq", "-n", "10000", "--run", "a.run"];
    let outputs = ["--html", "a.html", "--csv=a.csv"];
    let text = ended_when_written(place, &[&study[..], &outputs].concat(), "a.run", 300_000);
    assert!(text.contains("P-256"), "{text}");
    assert_is_whole(place, "a.html", "a.csv");

    let study = ["lab", "study", "nam", "-n", "100000", "--capture", "captures"];
    let text = ended_when_written(place, &study, "captures/client.pcapng", 2_000_000);
    assert!(text.contains("figures reproduced"), "{text}");
}
