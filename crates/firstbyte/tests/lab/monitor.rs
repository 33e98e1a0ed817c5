//! The monitor's demo: it reports a change and an outage, with their causes.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::processes::Family;
use crate::readme::{is_alike, lines_shown, without_times};
use crate::support::{PROGRAM, Permits};

/// The demo's server answers from outside the lab, a change and an outage are reported with their causes, as in the
/// README, and Ctrl-C leaves nothing behind.
#[test]
fn the_demo_names_a_change_an_outage_and_their_causes() {
    let _permits = Permits::one();
    let temporary = tempfile::tempdir().unwrap();
    let mut command = Command::new(PROGRAM);
    command.args(["monitor", "demo", "--for", "110s"]).env("TMPDIR", temporary.path());
    let mut demo = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let family = Family::of_lab(demo.id());
    let mut awaited = vec![
        ("provisional: ", "198.51.100.3", "TLSv1.2 → TLSv1.3"),
        ("down: ", "198.51.100.2", "tcp.refused"),
        ("up again: ", "198.51.100.2", "down from "),
    ];
    let mut all = Vec::new();
    let mut healthy = None;
    for line in BufReader::new(demo.stderr.take().unwrap()).lines() {
        let line = line.unwrap();
        if let Some(address) = line.split("http://").nth(1) {
            let address = address.split('/').next().unwrap();
            healthy.get_or_insert_with(|| get(address, "/-/healthy"));
        }
        let before = awaited.len();
        awaited.retain(|(state, edge, cause)| {
            !(line.contains(state) && line.contains(edge) && line.contains(cause))
        });
        if awaited.is_empty() && before > 0 {
            kill(Pid::from_raw(demo.id().cast_signed()), Signal::SIGINT).unwrap();
        }
        all.push(line);
    }
    let status = demo.wait().unwrap();
    assert!(awaited.is_empty(), "not told: {awaited:?}\n{all:#?}");
    assert_eq!(status.code(), Some(0), "{all:#?}");
    assert!(healthy.is_some_and(|answer| answer.ends_with("healthy\n")), "{all:#?}");
    for line in lines_shown("firstbyte monitor demo") {
        let is_it = |told: &String| is_alike(&without_times(&line), &without_times(told));
        assert!(all.iter().any(is_it), "not told: {line}\n{all:#?}");
    }
    family.wait_until_gone();
    assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 0);
}

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}
