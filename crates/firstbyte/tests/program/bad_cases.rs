//! Bad cases that people have met or may meet, as one table: clients that misbehave; files that are cut off, lie or
//! have the wrong type; hostile senders of field data. Each row says how the case is made, the exit code, and words of
//! the message. In every case nothing is lost: inputs stay unchanged, and an error does not empty an existing output.
//!
//! Further cases are tested with their subject: `bad_input` (options, servers, certificates, names), `archives`,
//! `netlog`, `server_logs`, `rum`, and `browser` and `curl` of `firstbyte-clients`.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::support::files::Directory;
use crate::support::run::firstbyte;

const CHROMIUM: &str = include_str!("../../../firstbyte-sources/fixtures/har/chromium-https.har");
const STORY: &str = include_str!("../../../firstbyte-sources/fixtures/averages/story.csv");

/// A bad file for `report`: the case's name, its content, the exit code, words of the message, a flag before it.
struct BadFile {
    name: &'static str,
    bytes: Vec<u8>,
    code: i32,
    says: &'static str,
    flag: Option<&'static str>,
}

fn file(name: &'static str, bytes: impl Into<Vec<u8>>, code: i32, says: &'static str) -> BadFile {
    BadFile { name, bytes: bytes.into(), code, says, flag: None }
}

fn averages(
    name: &'static str,
    bytes: impl Into<Vec<u8>>,
    code: i32,
    says: &'static str,
) -> BadFile {
    BadFile { flag: Some("--averages"), ..file(name, bytes, code, says) }
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}

fn utf16(text: &str) -> Vec<u8> {
    [0xfeff].into_iter().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect()
}

/// An archive of entries, inserted verbatim.
fn archive(entries: &str) -> String {
    format!(
        r#"{{"log":{{"version":"1.2","creator":{{"name":"WebInspector","version":"1"}},"entries":[{entries}]}}}}"#
    )
}

/// An entry with `timings`, or whatever `more` contains instead.
fn entry(more: &str) -> String {
    format!(
        r#"{{"request":{{"method":"GET","url":"https://a.test/"}},"response":{{"status":200}},{more}}}"#
    )
}

fn archives() -> Vec<BadFile> {
    let lie = |more: &str| archive(&entry(more));
    let many = vec![entry(r#""time":3,"timings":{"wait":3}"#); 100_000].join(",");
    let circle =
        r#""pages":[{"id":"a","pageref":"b"},{"id":"b","pageref":"a"},{"id":"a"}],"entries""#;
    let circular = lie(r#""pageref":"b","timings":{"wait":3}"#).replace(r#""entries""#, circle);
    vec![
        file("HAR, cut", &CHROMIUM.as_bytes()[..20_000], 0, "is cut at byte 20000"),
        file("HAR, packed and cut", &packed(CHROMIUM.as_bytes())[..4_000], 0, "is cut at byte"),
        file("HAR, a negative time", lie(r#""timings":{"wait":-7}"#), 0, "timings.wait: -7 ms"),
        file("HAR, a huge time", lie(r#""timings":{"wait":1e308}"#), 0, "timings.wait: 1e308 ms"),
        file("HAR, text for a time", lie(r#""timings":{"wait":"3"}"#), 0, "a text, not a number"),
        file("HAR, a number for an entry", archive("17"), 0, "not an object"),
        file("HAR, pages in a circle", circular, 0, "1 request · 3 pages"),
        file("HAR, 100,000 entries", archive(&many), 0, "100,000 requests"),
        file("HAR, not JSON", "<html>", 26, "HTTP Archive: not JSON at byte 0"),
        file("HAR, empty", "", 26, "HTTP Archive: the file is empty"),
        file("HAR, with a byte-order mark", format!("\u{feff}{CHROMIUM}"), 0, "16 requests"),
        file("HAR, UTF-16", utf16(CHROMIUM), 26, "HTTP Archive: not JSON at byte 0"),
        file("HAR, packed", packed(CHROMIUM.as_bytes()), 0, "16 requests"),
        file("HAR, without a log", r#"{"entries":[]}"#, 26, "it has no member `log`"),
        file(
            "HAR, nested too deeply",
            archive(&"[".repeat(1_000_000)),
            0,
            "nested more than 10000 levels deep",
        ),
    ]
}

fn logs() -> Vec<BadFile> {
    let line = "192.0.2.1 - - [23/Nov/2026:06:27:01 +0000] \"GET / HTTP/1.1\" 200 5 \"-\" \"x\"\n";
    let cut = line.repeat(3) + &line[..30];
    let binary: Vec<u8> = (0..=255).cycle().take(25_600).collect();
    vec![
        file(
            "NetLog, cut in its constants",
            r#"{"constants": {"logEventTypes": {"REQ"#,
            26,
            "ends before its constants",
        ),
        file("NetLog, broken constants", r#"{"constants": [}"#, 26, "not a network log at byte 15"),
        file(
            "NetLog, events before constants",
            r#"{"constants": 1e308, "events": [{}]}"#,
            26,
            "the events come before the constants",
        ),
        file(
            "NetLog, empty",
            r#"{"constants": {"logEventTypes": {"A":1}}, "events": []}"#,
            0,
            "0 requests to 0 hosts",
        ),
        file("Access log, cut", cut, 0, "3 requests"),
        file("Access log, binary", binary, 26, "neither a run file"),
    ]
}

fn days(value: impl Fn(usize) -> String, n: usize) -> String {
    let line = |i: usize| {
        format!("{}-{:02}-{:02},{}\n", 2000 + i / 336, 1 + i / 28 % 12, 1 + i % 28, value(i))
    };
    "date,average\n".to_owned() + &(0..n).map(line).collect::<String>()
}

fn exports() -> Vec<BadFile> {
    let usual = |i: usize| format!("{}", 20 + i * 7 % 3);
    let twice = days(usual, 50) + "2000-01-05,3\n";
    vec![
        averages(
            "Averages, a column missing",
            "day,colour\n2026-01-01,red\n",
            26,
            "line 1, column 1: no column with an average",
        ),
        averages(
            "Averages, a day twice",
            twice,
            26,
            "line 52, column 1: 2000-01-05 is given twice",
        ),
        averages("Averages, negative", days(|_| "-5".into(), 50), 26, "line 2, column 2: \"-5\""),
        averages(
            "Averages, not a number",
            days(|i| if i == 7 { "NaN".into() } else { "20".into() }, 50),
            26,
            "line 9, column 2: \"NaN\"",
        ),
        averages(
            "Averages, an impossible day",
            "date,average\n2026-02-30,4\n",
            26,
            "is not an existing day",
        ),
        averages(
            "Averages, too few days",
            days(usual, 5),
            0,
            "Not searched for changes: fewer than 42 days",
        ),
        averages(
            "Averages, too many days",
            days(usual, 4_100),
            26,
            "line 4002, column 1: more than 4000 days",
        ),
        averages(
            "Averages, all the same",
            days(|_| "7".into(), 60),
            0,
            "All days have the same average",
        ),
        averages("Averages, binary", vec![0xff, 0, 1, 0xfe], 26, "the line is not UTF-8"),
        averages(
            "Averages, cut in a line",
            &STORY.as_bytes()[..STORY.len() - 9],
            26,
            "a quotation mark is not closed",
        ),
    ]
}

#[test]
fn files_that_are_bad_are_named_and_nothing_is_lost() {
    let directory = Directory::new();
    for bad in archives().into_iter().chain(logs()).chain(exports()) {
        let at = match bad.name.split([' ', ',']).next() {
            Some("HAR") => "bad.har",
            Some("NetLog") => "bad.json",
            Some("Averages") => "bad.csv",
            _ => "bad.log",
        };
        directory.write(at, &bad.bytes);
        let words: Vec<&str> = ["report"].into_iter().chain(bad.flag).chain([at]).collect();
        let outcome = firstbyte(directory.path(), &words);
        let said = format!("{}{}", outcome.stdout, outcome.stderr);
        assert_eq!(outcome.code, bad.code, "{}: {said}", bad.name);
        assert!(said.contains(bad.says), "{}: {said}", bad.name);
        assert!(directory.read(at) == bad.bytes, "{}: it was written to", bad.name);
        if bad.code != 0 {
            assert!(outcome.stderr.starts_with("error: "), "{}: {said}", bad.name);
            // An error does not empty an existing output.
            directory.write("out.json", "what was there\n");
            let outcome = firstbyte(directory.path(), &[&words[..], &["--json=out.json"]].concat());
            assert_eq!(outcome.code, bad.code, "{}: {}", bad.name, outcome.stderr);
            assert_eq!(directory.read("out.json"), b"what was there\n", "{}", bad.name);
        }
    }
}

/// A bad client: the shell script that replaces it, or `None` if the client is missing.
struct BadClient {
    name: &'static str,
    client: &'static str,
    program: &'static str,
    script: Option<&'static str>,
    code: i32,
    says: &'static str,
}

const CLIENTS: [BadClient; 10] = [
    BadClient {
        name: "curl missing",
        client: "curl",
        program: "curl",
        script: None,
        code: 2,
        says: "apt-get install curl",
    },
    BadClient {
        name: "Chromium missing",
        client: "chromium",
        program: "chromium",
        script: None,
        code: 2,
        says: "apt-get install chromium",
    },
    BadClient {
        name: "Firefox missing",
        client: "firefox",
        program: "firefox-esr",
        script: None,
        code: 2,
        says: "apt-get install firefox-esr",
    },
    BadClient {
        name: "curl too old",
        client: "curl",
        program: "curl",
        script: Some(
            "echo 'curl 7.29.0 (x86_64-pc-linux-gnu) libcurl/7.29.0 OpenSSL/1.0'; echo 'Protocols: http https'",
        ),
        code: 2,
        says: "curl is version 7.29.0; version 7.68 or later is required",
    },
    BadClient {
        name: "curl is another program",
        client: "curl",
        program: "curl",
        script: Some("echo hello"),
        code: 2,
        says: "curl is not curl; it prints \"hello\"",
    },
    BadClient {
        name: "Chromium ends at once",
        client: "chromium",
        program: "chromium",
        script: Some("exit 1"),
        code: 56,
        says: "chromium ended unexpectedly without a message",
    },
    BadClient {
        name: "Chromium's profile is locked",
        client: "chromium",
        program: "chromium",
        script: Some(
            "echo 'The profile appears to be in use by another Chromium process (7).' >&2; exit 21",
        ),
        code: 56,
        says: "The profile appears to be in use by another Chromium process (7).",
    },
    BadClient {
        name: "Chromium hangs",
        client: "chromium",
        program: "chromium",
        script: Some("exec sleep 300"),
        code: 56,
        says: "while waiting for Browser.getVersion",
    },
    BadClient {
        name: "Firefox is running already",
        client: "firefox",
        program: "firefox-esr",
        script: Some("echo 'Firefox is already running, but is not responding.' >&2; exit 1"),
        code: 56,
        says: "Firefox is already running, but is not responding.",
    },
    BadClient {
        name: "Firefox hangs",
        client: "firefox",
        program: "firefox-esr",
        script: Some("exec sleep 300"),
        code: 56,
        says: "while waiting for the port of",
    },
];

#[test]
fn clients_that_misbehave_are_named_and_end() {
    std::thread::scope(|scope| {
        // Clients that hang are waited for in parallel.
        for bad in &CLIENTS {
            scope.spawn(move || misbehaves(bad));
        }
    });
}

fn misbehaves(bad: &BadClient) {
    let directory = Directory::new();
    directory.write("out.json", "what was there\n");
    let path = match bad.script {
        Some(script) => {
            let program = directory.path().join(bad.program);
            fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
            let path = std::env::var("PATH").unwrap();
            format!("{}:{path}", directory.path().display())
        }
        None => directory.path().display().to_string(),
    };
    let outcome = Command::new(env!("CARGO_BIN_EXE_firstbyte"))
        .args(["--client", bad.client, "http://127.0.0.1:9/"])
        // If the command is refused before measuring, the output is not replaced. A failed sample is a result.
        .args((bad.code == 2).then_some("--json=out.json"))
        .current_dir(directory.path())
        .env("PATH", path)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = [outcome.stdout, outcome.stderr].map(|s| String::from_utf8_lossy(&s).into_owned());
    let said = said.concat();
    assert_eq!(outcome.status.code(), Some(bad.code), "{}: {said}", bad.name);
    assert!(said.contains(bad.says) && said.contains("error: "), "{}: {said}", bad.name);
    assert_eq!(directory.read("out.json"), b"what was there\n", "{}", bad.name);
}

/// Generates repeated bytes on demand, without holding them in memory.
struct Repeated<'a> {
    piece: &'a [u8],
    at: usize,
}

impl Read for Repeated<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let n = buffer.len().min(self.piece.len() - self.at);
        buffer[..n].copy_from_slice(&self.piece[self.at..self.at + n]);
        self.at = (self.at + n) % self.piece.len();
        Ok(n)
    }
}

/// Half a gigabyte comes through a pipe, most of it an unneeded body, and the program's memory stays small.
#[test]
fn an_archive_of_500_mb_takes_little_memory() {
    const BODY: u64 = 500_000;
    const ENTRIES: u64 = 1_000;
    let directory = Directory::new();
    // The kernel enforces the limit: an address space of 400 MB, including the threads' stacks.
    let mut child = Command::new("sh")
        .args([
            "-c",
            &format!(
                "ulimit -v 400000; exec {} har clean - -o clean.har",
                env!("CARGO_BIN_EXE_firstbyte")
            ),
        ])
        .current_dir(directory.path())
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut to = child.stdin.take().unwrap();
    let whole = archive("");
    to.write_all(whole.strip_suffix("]}}").unwrap().as_bytes()).unwrap();
    for n in 0..ENTRIES {
        let begin = r#"{"time":3,"timings":{"wait":3},"request":{"url":"https://a.test/"},"response":{"content":{"text":""#;
        to.write_all(if n > 0 { b"," } else { b"" }).unwrap();
        to.write_all(begin.as_bytes()).unwrap();
        std::io::copy(&mut Repeated { piece: &[b'x'; 65_536], at: 0 }.take(BODY), &mut to).unwrap();
        to.write_all(b"\"}}}").unwrap();
    }
    to.write_all(b"]}}").unwrap();
    drop(to);
    let outcome = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&outcome.stderr);
    assert_eq!(outcome.status.code(), Some(0), "{said}");
    assert!(said.contains("1,000 requests; left out: 1,000 bodies"), "{said}");
    assert!(directory.read("clean.har").len() < 1_000_000);
}

/// Cases that other suites test in detail: checks that their tests exist under these names.
#[test]
fn what_other_suites_try_is_there() {
    for (name, suite, test) in [
        (
            "Beacon of 10 MB",
            include_str!("rum.rs"),
            "what_is_bad_is_refused_counted_and_harms_nothing",
        ),
        ("Half a beacon, and no more", include_str!("rum.rs"), "a_body_that_dawdles_is_given_up"),
        (
            "Half a beacon, at the end",
            include_str!("rum.rs"),
            "a_beacon_that_is_being_received_at_the_end_is_kept",
        ),
        (
            "Beacons, 1,000 a second",
            include_str!("rum.rs"),
            "a_thousand_beacons_a_second_are_bounded_and_counted",
        ),
        (
            "Connections that say nothing",
            include_str!("rum.rs"),
            "idle_and_slow_ones_do_not_lock_out_others",
        ),
        ("NEL report, forged", include_str!("rum.rs"), "\"a forged fraction\""),
        (
            "Server of beacons, killed",
            include_str!("rum.rs"),
            "what_was_answered_is_there_after_a_kill",
        ),
        ("Disk full", include_str!("rum.rs"), "a_file_that_cannot_grow_is_said_once_and_outlived"),
        (
            "NetLog, damaged in the middle",
            include_str!("netlog.rs"),
            "a_log_that_is_damaged_shows_what_came_before",
        ),
        (
            "Chromium crashes in mid-run",
            include_str!("../../../firstbyte-clients/tests/browser/ends.rs"),
            "a_crash_is_said_and_the_next_visit_has_another_browser",
        ),
        (
            "Firefox crashes in mid-run",
            include_str!("../../../firstbyte-clients/tests/browser/firefox.rs"),
            "it_ends_with_its_owner_and_visits_again_after_a_crash",
        ),
    ] {
        assert!(suite.contains(test), "{name}: {test} is gone");
    }
}
