//! `firstbyte report` of browsers' network logs.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;

use crate::support::files::Directory;
use crate::support::run::{Outcome, firstbyte};

const MIXED: &[u8] = include_bytes!("../../../firstbyte-sources/fixtures/netlog/mixed.json");
const STALL: &[u8] = include_bytes!("../../../firstbyte-sources/fixtures/netlog/pool-stall.json");
const MIDDLE: &str = "it is incomplete: the browser was killed or is still writing";

fn report(directory: &Directory, arguments: &[&str]) -> Outcome {
    let arguments: Vec<&str> = ["report"].iter().chain(arguments).copied().collect();
    firstbyte(directory.path(), &arguments)
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}

#[test]
fn a_log_is_known_by_its_content_and_shows_what_cost_most() {
    let directory = Directory::new();
    directory.write("whatever", MIXED);
    let outcome = report(&directory, &["whatever", "--requests", "1", "--hosts", "2"]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
    for said in [
        "13 requests to 10 hosts · 2 failed",
        "1. the name lookup is slow: 402 ms in 1 request",
        "[2001:db8::1]:18460 did not answer",
        "8 more hosts, waited 265 ms",
        "The request that waited longest for a connection",
    ] {
        assert!(outcome.stdout.contains(said), "{said}: {}", outcome.stdout);
    }
}

#[test]
fn rows_are_of_all_requests_and_show_no_query() {
    let directory = Directory::new();
    directory.write("log.json", STALL);
    let outcome =
        report(&directory, &["log.json", "--json=rows.json", "--csv=rows.csv", "--requests=0"]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
    assert!(!outcome.stdout.contains("waited longest"), "{}", outcome.stdout);
    let json = String::from_utf8(directory.read("rows.json")).unwrap();
    let rows: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let stalled: Vec<u64> =
        rows.iter().filter_map(|row| row["stall"]["took_ns"].as_u64()).collect();
    assert_eq!((rows.len(), stalled.len()), (13, 6));
    assert!(stalled.iter().all(|took| (180_000_000..210_000_000).contains(took)), "{stalled:?}");
    let csv = String::from_utf8(directory.read("rows.csv")).unwrap();
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let at = |reader: &mut csv::Reader<&[u8]>, name: &str| {
        reader.headers().unwrap().iter().position(|heading| heading == name).unwrap()
    };
    let (stall, cost) = (at(&mut reader, "stall_us"), at(&mut reader, "cost_us"));
    let waits: Vec<u64> = reader
        .records()
        .filter_map(|row| {
            let row = row.unwrap();
            assert_eq!(row[stall], row[cost]);
            row[stall].parse().ok()
        })
        .collect();
    assert_eq!(waits.iter().map(|us| us * 1000).collect::<Vec<_>>(), stalled);
    for text in [&json, &csv, &outcome.stdout] {
        assert!(!text.contains("user=me"), "{text}");
    }
}

#[test]
fn a_log_that_was_cut_short_shows_what_is_whole() {
    let directory = Directory::new();
    directory.write("whole.json", MIXED);
    directory.write("whole.json.gz", packed(MIXED));
    directory.write("cut.json", &MIXED[..MIXED.len() / 2]);
    let gz = packed(MIXED);
    directory.write("cut.gz", &gz[..gz.len() / 2]);
    let rows = |name: &str| {
        let outcome = report(&directory, &[name, "--csv"]);
        assert_eq!(outcome.code, 0, "{name}: {}", outcome.stderr);
        (outcome.stdout.lines().count() - 1, outcome.stderr)
    };
    assert_eq!(rows("whole.json"), (13, String::new()));
    assert_eq!(rows("whole.json.gz"), (13, String::new()));
    let (cut, said) = rows("cut.json");
    assert!((5..13).contains(&cut), "{cut}");
    assert_eq!(
        said,
        format!(
            "warning: cut.json: the file is damaged ({MIDDLE}); only the intact part is shown\n"
        )
    );
    let (cut, said) = rows("cut.gz");
    assert!((1..13).contains(&cut), "{cut}");
    assert!(said.starts_with("warning: cut.gz: the file is damaged ("), "{said}");
}

#[test]
fn a_log_that_is_damaged_shows_what_came_before() {
    let directory = Directory::new();
    let mut bytes = MIXED.to_vec();
    let half = bytes.len() / 2;
    let line = half + bytes[half..].iter().position(|byte| *byte == b'\n').unwrap();
    bytes.splice(line + 1..line + 2, b"{\"params\" oops".iter().copied());
    directory.write("bad.json", bytes);
    let outcome = report(&directory, &["bad.json", "--json"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(outcome.stdout.lines().count() > 3, "{}", outcome.stdout);
    assert!(outcome.stderr.contains("not a network log at byte "), "{}", outcome.stderr);
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    use std::process::{Command, Stdio};
    let directory = Directory::new();
    directory.write("log.json", MIXED);
    let mut child = Command::new(env!("CARGO_BIN_EXE_firstbyte"))
        .args(["report", "log.json", "--json"])
        .current_dir(directory.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), said.as_str()), (Some(0), ""));
}

#[test]
fn what_cannot_be_done_says_what_to_do() {
    let directory = Directory::new();
    directory.write("log.json", MIXED);
    directory.write("a.csv", "DNS,Connect,SSL,Wait,TTFB,Total Time\n1,2,3,4,5,6\n");
    directory.write("constants.json", b"{\"constants\": {\"logEventTypes\": {\"REQ");
    directory.write("odd.json", b"{\"constants\": [}");
    directory.write("number.json", b"{\"constants\": 1e308, \"events\": [{}]}");
    directory.write("empty.json", b"");
    for (arguments, code, stderr) in [
        (
            &["log.json", "a.csv"] as &[&str],
            2,
            "error: log.json is a network log and a.csv is a table of curl's timers: they cannot be \
             shown together\n\
             hint: only runs and tables of curl's timers can be compared; report other files \
             separately\n",
        ),
        (
            &["log.json", "log.json"],
            2,
            "error: log.json and log.json are each a network log; these are shown one at a time\n\
             hint: report them one at a time\n",
        ),
        (
            &["log.json", "missing"],
            2,
            "error: a network log cannot be shown with other files\n\
             hint: give one file at a time\n",
        ),
        (
            &["log.json", "--html", "a.html"],
            2,
            "error: --html: log.json is a network log: this output is not possible\n\
             hint: use --json or --csv\n",
        ),
        (
            &["log.json", "--by", "tls"],
            2,
            "error: --by: log.json is a network log: this output is not possible\n\
             hint: use --json or --csv\n",
        ),
        (
            &["log.json", "--csv=log.json"],
            2,
            "error: log.json is read and cannot be written as well\nhint: give the output another name\n",
        ),
        (
            &["constants.json"],
            26,
            "error: cannot read constants.json: the network log ends before its constants\n",
        ),
        (
            &["odd.json"],
            26,
            "error: cannot read odd.json: not a network log at byte 15: the constants are not valid JSON\n",
        ),
        (
            &["number.json", "--csv=x.csv"],
            26,
            "error: cannot read number.json: not a network log at byte 31: the events come \
             before the constants\n",
        ),
        (
            &["log.json", "--json", "--csv"],
            2,
            "error: two outputs to standard output\nhint: give each a file of its own\n",
        ),
    ] {
        let outcome = report(&directory, arguments);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (code, stderr), "{arguments:?}");
        assert_eq!(outcome.stdout, "", "{arguments:?}");
    }
    let outcome = report(&directory, &["empty.json"]);
    assert_eq!(outcome.code, 26, "{}", outcome.stderr);
    assert!(directory.read("log.json") == MIXED);
    assert!(!directory.path().join("a.html").exists());
}
