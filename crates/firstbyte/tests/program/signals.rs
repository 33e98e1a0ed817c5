//! Signals to real processes that measure on loopback: results so far are shown and written, with the conventional exit
//! codes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use crate::support::files::Directory;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const ALL: [(Signal, i32); 3] =
    [(Signal::SIGHUP, 129), (Signal::SIGINT, 130), (Signal::SIGTERM, 143)];

/// An HTTP server that answers until the test ends.
fn server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            std::thread::spawn(move || answer(client));
        }
    });
    format!("http://{address}/")
}

fn answer(mut client: TcpStream) {
    let mut lines = BufReader::new(client.try_clone().unwrap()).lines();
    while lines.by_ref().map_while(Result::ok).any(|line| line.is_empty()) {
        // A stopped client is gone.
        let _ = client.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    }
}

/// A running command; killed when dropped.
struct UnderWay {
    child: Child,
    stdout: Option<BufReader<ChildStdout>>,
}

impl UnderWay {
    fn start(directory: &Path, arguments: &[&str]) -> Self {
        // The test itself may run under nohup(1).
        let mut child = Command::new("env")
            .args(["--default-signal=HUP,INT,TERM", env!("CARGO_BIN_EXE_firstbyte")])
            .args(arguments)
            .current_dir(directory)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let stdout = child.stdout.take().map(BufReader::new);
        Self { child, stdout }
    }

    fn send(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).unwrap();
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.as_mut().unwrap().read_line(&mut line).unwrap();
        line
    }

    /// Waits until `file` has more than `bytes` bytes, so that something has been measured.
    fn until_written(&mut self, file: &Path, bytes: u64) {
        while std::fs::metadata(file).map_or(0, |file| file.len()) <= bytes {
            assert_eq!(self.child.try_wait().unwrap(), None, "it has ended by itself");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The exit code, and the rest of the output.
    fn end(mut self) -> (Option<i32>, String) {
        let mut text = String::new();
        self.stdout.as_mut().unwrap().read_to_string(&mut text).unwrap();
        (self.child.wait().unwrap().code(), text)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        // It may already have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Too many rounds to ever finish.
const MANY: &str = "1000000";

#[test]
fn a_probe_ends_with_whole_rows() {
    let directory = Directory::new();
    let url = server();
    for (signal, code) in ALL {
        let mut probe = UnderWay::start(directory.path(), &["--csv", "-n", MANY, &url]);
        let columns = probe.line().split(',').count();
        let first = probe.line();
        probe.send(signal);
        let (ended, rest) = probe.end();
        assert_eq!(ended, Some(code), "{signal}");
        for line in [&*first].into_iter().chain(rest.lines()) {
            assert_eq!(line.split(',').count(), columns, "{signal}: {line}");
        }
        assert!(rest.is_empty() || rest.ends_with('\n'), "{signal}");
    }
}

#[test]
fn a_comparison_writes_what_it_was_asked_for() {
    let directory = Directory::new();
    let url = server();
    for (signal, code) in ALL {
        let run = directory.path().join("a.run");
        let _ = std::fs::remove_file(&run);
        let arguments =
            ["compare", &url, "--vary", "connection=new,reused", "-n", MANY, "--interval", "0"];
        let outputs = ["--run", "a.run", "--csv=a.csv", "--html", "a.html"];
        let mut compare = UnderWay::start(directory.path(), &[&arguments[..], &outputs].concat());
        compare.until_written(&run, 50_000);
        compare.send(signal);
        let (ended, text) = compare.end();
        assert_eq!(ended, Some(code), "{signal}");
        assert!(text.contains("reused"), "{signal}: {text}");
        let rows = String::from_utf8(directory.read("a.csv")).unwrap();
        assert!(rows.lines().count() > 10, "{signal}: {rows}");
        let page = String::from_utf8(directory.read("a.html")).unwrap();
        assert!(page.trim_end().ends_with("</html>"), "{signal}");
    }
}

/// As when the terminal closes, and standard output with it.
#[test]
fn files_are_written_though_nobody_reads() {
    let directory = Directory::new();
    let url = server();
    let arguments =
        ["compare", &url, "--vary", "connection=new,reused", "-n", MANY, "--interval", "0"];
    let outputs = ["--run", "a.run", "--html", "a.html"];
    let mut compare = UnderWay::start(directory.path(), &[&arguments[..], &outputs].concat());
    compare.until_written(&directory.path().join("a.run"), 50_000);
    // From here on writing fails.
    drop(compare.stdout.take());
    compare.send(Signal::SIGHUP);
    compare.child.wait().unwrap();
    let page = String::from_utf8(directory.read("a.html")).unwrap();
    assert!(page.trim_end().ends_with("</html>"));
}

#[test]
fn a_check_writes_its_summary() {
    let directory = Directory::new();
    let plan = format!(
        "url = '{}'\nvary = ['connection=new,reused']\nsamples = {MANY}\ninterval = 0\n",
        server()
    );
    directory.write("plan.toml", plan);
    let run = directory.path().join("a.run");
    let condition = ["--fail-if", "ttfb.median > 10s", "--summary", "out.md"];
    let check = ["check", "--plan", "plan.toml", "--run", "a.run"];
    let mut check = UnderWay::start(directory.path(), &[&check[..], &condition].concat());
    check.until_written(&run, 50_000);
    check.send(Signal::SIGTERM);
    assert_eq!(check.end().0, Some(143));
    let summary = String::from_utf8(directory.read("out.md")).unwrap();
    assert!(summary.contains("ttfb.median > 10s"), "{summary}");
}

#[test]
fn an_explanation_is_of_what_was_complete() {
    let directory = Directory::new();
    let url = server();
    let run = directory.path().join("a.run");
    let explain = ["explain", &url, "-n", MANY, "--json", "--run", "a.run"];
    let mut explain = UnderWay::start(directory.path(), &explain);
    explain.until_written(&run, 100_000);
    explain.send(Signal::SIGTERM);
    let (ended, text) = explain.end();
    assert_eq!(ended, Some(143));
    serde_json::from_str::<serde_json::Value>(&text).unwrap();
}

/// Whether the process handles SIGTERM itself, according to `/proc`.
#[cfg(target_os = "linux")]
fn handles_sigterm(process: &UnderWay) -> bool {
    has(process, "SigCgt:", Signal::SIGTERM)
}

/// Whether `signal` is in one of the process's signal sets in `/proc`.
#[cfg(target_os = "linux")]
fn has(process: &UnderWay, set: &str, signal: Signal) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.child.id())).unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix(set)).unwrap();
    u64::from_str_radix(mask.trim(), 16).unwrap() >> (signal as u32 - 1) & 1 == 1
}

#[cfg(target_os = "linux")]
#[test]
fn a_second_signal_ends_at_once() {
    let directory = Directory::new();
    directory.write("rum.csv", "rtt_ms,weight,loss\n20,3,1%\n200,1,2%\n");
    let predict = ["predict", "--population", "rum.csv", "--change", "tls=1.2:1.3", "--json"];
    // The first signal ends it only after a share of the connections, which takes too long to wait for.
    let size = ["--connections", "400000000"];
    let predict = UnderWay::start(directory.path(), &[&predict[..], &size].concat());
    while !handles_sigterm(&predict) {
        std::thread::sleep(Duration::from_millis(5));
    }
    // Two different signals, because two equal ones may count as one. A busy process may see them in either order.
    predict.send(Signal::SIGINT);
    predict.send(Signal::SIGTERM);
    let (code, output) = predict.end();
    assert!(code == Some(143) || code == Some(130), "{code:?}");
    // After a single signal it would print its results.
    assert_eq!(output, "");
}

#[test]
fn nohup_is_respected() {
    let directory = Directory::new();
    let url = server();
    let mut probe = Command::new("nohup")
        .args([env!("CARGO_BIN_EXE_firstbyte"), "--csv", "-n", MANY, &url])
        .current_dir(directory.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let stdout = probe.stdout.take().map(BufReader::new);
    let mut probe = UnderWay { child: probe, stdout };
    let _ = (probe.line(), probe.line());
    probe.send(Signal::SIGHUP);
    // The program continues: read more rows than may have been in the pipe.
    for _ in 0..2_000 {
        assert!(!probe.line().is_empty(), "it has ended");
    }
    probe.send(Signal::SIGTERM);
    assert_eq!(probe.end().0, Some(143));
}
