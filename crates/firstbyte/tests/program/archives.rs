//! `firstbyte report` of HTTP Archives, and `firstbyte har clean`, from the user's point of view.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;

use crate::support::files::Directory;
use crate::support::run::{Outcome, firstbyte};
use crate::support::runs::write_run;

const CHROMIUM: &str = include_str!("../../../firstbyte-sources/fixtures/har/chromium-https.har");
const FIREFOX: &str = include_str!("../../../firstbyte-sources/fixtures/har/firefox-http.har");

fn exports() -> Directory {
    let directory = Directory::new();
    directory.write("chromium.har", CHROMIUM);
    directory.write("firefox.har", FIREFOX);
    directory
}

fn run(directory: &Directory, arguments: &[&str]) -> Outcome {
    firstbyte(directory.path(), arguments)
}

fn packed(text: &str) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(text.as_bytes()).unwrap();
    gzip.finish().unwrap()
}

#[test]
fn what_browsers_exported_is_shown() {
    let directory = exports();
    for name in ["chromium", "firefox"] {
        let outcome = run(&directory, &["report", &format!("{name}.har")]);
        assert_eq!((outcome.code, &*outcome.stderr), (0, ""));
        let widest = outcome.stdout.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(80), "{widest:?}");
        insta::assert_snapshot!(format!("har-{name}"), outcome.stdout);
    }
}

#[test]
fn an_archive_is_known_by_its_content_packed_or_not() {
    let directory = exports();
    directory.write("export", CHROMIUM);
    directory.write("export.json.gz", packed(CHROMIUM));
    let named = |name: &str| {
        let outcome = run(&directory, &["report", name]);
        assert_eq!((outcome.code, &*outcome.stderr), (0, ""), "{name}");
        outcome.stdout.replacen(name, "NAME", 1)
    };
    assert_eq!(named("export"), named("chromium.har"));
    assert_eq!(named("export.json.gz"), named("chromium.har"));
    let both = run(&directory, &["report", "chromium.har", "firefox.har"]).stdout;
    let after_the_other = |name: &str| both.find(&format!("{name}\nby ")).unwrap();
    assert!(after_the_other("chromium.har") < after_the_other("firefox.har"));
}

#[test]
fn rows_say_what_is_known_and_no_secret() {
    let directory = exports();
    let outcome = run(
        &directory,
        &["report", "chromium.har", "firefox.har", "--csv=all.csv", "--json=all.ndjson"],
    );
    assert_eq!((outcome.code, &*outcome.stderr), (0, ""));
    let read = |name: &str| String::from_utf8(directory.read(name)).unwrap();
    let (csv, json) = (read("all.csv"), read("all.ndjson"));
    for text in [&csv, &json, &outcome.stdout] {
        assert!(!text.contains("s3cret") && !text.contains("token"), "{text}");
    }
    let rows: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 16 + 19);
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let heads = reader.headers().unwrap().clone();
    let column = |name: &str| heads.iter().position(|head| head == name).unwrap();
    let (outcome_at, connect_at) = (column("outcome"), column("connect_us"));
    for (row, line) in rows.iter().zip(reader.records()) {
        let line = line.unwrap();
        assert_eq!(row["outcome"], &line[outcome_at]);
        match row["connect_ns"].as_f64() {
            Some(ns) => assert!((ns / 1e3 - line[connect_at].parse::<f64>().unwrap()).abs() < 1e-6),
            None => assert_eq!(&line[connect_at], ""),
        }
        // Unknown values are absent, not zero.
        assert_ne!(row["connect_ns"], 0, "{row}");
        assert!(row["outcome"] == "opened" || row["connect_ns"].is_null(), "{row}");
    }
    // The outputs contain no credentials, so they have ordinary permissions.
    let mode = |name: &str| directory.path().join(name).metadata().unwrap().permissions().mode();
    assert_ne!(mode("all.ndjson") & 0o077, 0);
}

#[test]
fn a_page_is_drawn() {
    let directory = exports();
    let outcome = run(&directory, &["report", "chromium.har", "--svg", "out"]);
    assert_eq!((outcome.code, &*outcome.stderr), (0, ""));
    let svg = String::from_utf8(directory.read("out/page.svg")).unwrap();
    assert!(svg.contains("far.har.test") && !svg.contains("s3cret"));
}

/// An archive with one valid entry, followed by `entry`.
fn one(entry: &str) -> String {
    let whole = r#"{"startedDateTime":"2026-01-02T03:04:05.006Z","time":50,"request":{"method":"GET","url":"https://a.test/"},"response":{"status":200,"httpVersion":"h2"},"timings":{"dns":1,"connect":20,"ssl":12,"send":1,"wait":20,"receive":8}}"#;
    format!(
        r#"{{"log":{{"creator":{{"name":"WebInspector","version":"1"}},"entries":[{whole},{entry}]}}}}"#
    )
}

#[test]
fn bad_files_are_said_and_nothing_whole_is_lost() {
    let directory = exports();
    write_run(&directory.path().join("a.run"), 1, 2);
    let lie = |field: &str| {
        let flawed = r#"{"request":{"method":"GET","url":"https://a.test/"},"response":{"status":200},FIELD}"#;
        one(&flawed.replace("FIELD", field))
    };
    let deep = format!(r#"{{"request":{}}}"#, "[".repeat(1_000_000));
    let cut = &CHROMIUM[..CHROMIUM.len() * 2 / 3];
    for (name, text) in [
        ("cut.har", cut.as_bytes().to_vec()),
        ("cut.har.gz", packed(CHROMIUM)[..4_000].to_vec()),
        ("empty.har", Vec::new()),
        ("picture.har", b"GIF89a".to_vec()),
        ("other.har", b"{\"entries\":[]}".to_vec()),
        ("nothing.har", b"{\"log\":{\"entries\":[]}}".to_vec()),
        ("garbled.har", one("{\"time\":}").into_bytes()),
        ("deep.har", one(&deep).into_bytes()),
        ("negative.har", lie(r#""timings":{"connect":-20,"wait":3}"#).into_bytes()),
        ("nan.har", lie(r#""timings":{"wait":NaN}"#).into_bytes()),
        ("huge.har", lie(r#""timings":{"wait":1e308}"#).into_bytes()),
        ("sum.har", lie(r#""time":9,"timings":{"wait":3}"#).into_bytes()),
        ("text.har", lie(r#""timings":{"wait":"3"}"#).into_bytes()),
        (
            "zone.har",
            lie(r#""startedDateTime":"2026-01-02T03:04:05","timings":{"wait":3}"#).into_bytes(),
        ),
        ("number.har", one("17").into_bytes()),
    ] {
        directory.write(name, text);
    }
    for (arguments, code, says) in [
        (&["cut.har"][..], 0, "warning: cut.har is cut at byte"),
        (&["cut.har"], 0, "everything complete before it is shown"),
        (&["cut.har.gz"], 0, "warning: cut.har.gz is cut at byte"),
        (&["empty.har"], 26, "error: empty.har is not an HTTP Archive: the file is empty"),
        (&["picture.har"], 26, "error: picture.har is not an HTTP Archive: not JSON at byte 0"),
        (&["other.har"], 26, "error: other.har is not an HTTP Archive: it has no member `log`"),
        (&["missing.har"], 26, "cannot read missing.har: no such file"),
        (&["nothing.har"], 0, "0 requests"),
        (&["garbled.har"], 0, "garbled.har is damaged: not JSON at byte"),
        (&["garbled.har"], 0, "1 request before that are shown"),
        (&["deep.har"], 0, "nested more than 10000 levels deep"),
        (&["negative.har"], 0, "not used: entry 2, timings.connect: -20 ms"),
        (&["nan.har"], 0, "not used: entry 2, timings.wait: NaN"),
        (&["huge.har"], 0, "not used: entry 2, timings.wait: 1e308 ms"),
        (&["sum.har"], 0, "not used: entry 2, time: 9 ms, but its parts add up to 3 ms"),
        (&["text.har"], 0, "not used: entry 2, timings.wait: a text, not a number"),
        (&["zone.har"], 0, "not used: entry 2, startedDateTime: no offset from UTC"),
        (&["number.har"], 0, "not used: entry 2, entries[]: not an object"),
        (
            &["chromium.har", "a.run"],
            2,
            "chromium.har is an HTTP Archive and a.run is a run: they cannot be shown together",
        ),
        (&["chromium.har", "--html", "x"], 2, "--html: not possible for an HTTP Archive"),
        (&["chromium.har", "--har", "x"], 2, "firstbyte har clean FILE"),
        (&["chromium.har", "--by", "tls"], 2, "--by: not possible for an HTTP Archive"),
        (&["chromium.har", "firefox.har", "--svg", "x"], 2, "give them one by one"),
        (&["chromium.har", "--csv=chromium.har"], 2, "is read and cannot be written as well"),
    ] {
        let outcome = run(&directory, &[&["report"], arguments].concat());
        let said = format!("{}{}", outcome.stdout, outcome.stderr);
        assert!(outcome.code == code && said.contains(says), "{arguments:?}: {says}\n{outcome:?}");
    }
    // The valid entry counts, whatever the other is.
    for name in ["negative", "nan", "huge", "sum", "text", "garbled", "deep", "number"] {
        let outcome = run(&directory, &["report", &format!("{name}.har"), "--json"]);
        let opened = outcome.stdout.lines().filter(|line| line.contains("\"opened\"")).count();
        assert_eq!(opened, 1, "{name}: {}", outcome.stdout);
    }
    // Its date is unusable; its times are usable.
    let zone = run(&directory, &["report", "zone.har", "--json"]).stdout;
    let second: Value = serde_json::from_str(zone.lines().nth(1).unwrap()).unwrap();
    assert_eq!((&second["started_unix_ns"], &second["wait_ns"]), (&Value::Null, &3_000_000.into()));
}

#[test]
fn unproven_creators_are_said_to_be() {
    let directory = Directory::new();
    for (creator, shown) in [
        ("WebKit Web Inspector", "by Safari's Web Inspector (WebKit Web Inspector 1), unproven"),
        ("Playwright", "by Playwright 1, unproven"),
        ("WebPagetest", "by WebPagetest 1, unproven"),
        ("Browsertime", "by browsertime, chrome-har (Browsertime 1), unproven"),
        ("my own \u{1b}[2J", "by my own \\u{1b}[2J 1, unproven"),
    ] {
        directory.write(
            "a.har",
            one("{}").replace(
                "WebInspector",
                &creator.escape_default().to_string().replace("\\u{1b}", "\\u001b"),
            ),
        );
        let outcome = run(&directory, &["report", "a.har"]);
        assert!(outcome.stdout.contains(shown), "{shown}\n{}", outcome.stdout);
        assert!(outcome.stdout.contains("Unverified: files of this program"), "{}", outcome.stdout);
    }
}

#[test]
fn cleaned_archives_say_the_same_without_secrets() {
    let directory = exports();
    let outcome = run(&directory, &["har", "clean", "chromium.har", "-o", "clean.har"]);
    assert_eq!((outcome.code, &*outcome.stdout), (0, ""));
    assert_eq!(
        outcome.stderr,
        "16 requests; left out: 277 fields, 12 cookies, 14 bodies, queries or users of 7 URLs, 16 other members\n"
    );
    let clean = String::from_utf8(directory.read("clean.har")).unwrap();
    for secret in ["s3cret", "token", "Mozilla", "doctype"] {
        assert!(!clean.contains(secret), "{secret}");
    }
    let shown = |name: &str| run(&directory, &["report", name]).stdout.replacen(name, "NAME", 1);
    assert_eq!(shown("clean.har"), shown("chromium.har"));
    // From a compressed pipe to standard output.
    let mut child = Command::new(env!("CARGO_BIN_EXE_firstbyte"))
        .args(["har", "clean", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&packed(CHROMIUM)).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stdout), (Some(0), clean.into_bytes()));
}

#[test]
fn what_cannot_be_cleaned_leaves_nothing_behind() {
    let directory = exports();
    directory.write("cut.har", &CHROMIUM[..CHROMIUM.len() * 2 / 3]);
    directory.write("other.json", "{}");
    let outcome = run(&directory, &["har", "clean", "cut.har", "-o", "clean.har"]);
    assert_eq!(outcome.code, 26, "{outcome:?}");
    assert!(outcome.stderr.contains("error: cut.har is cut at byte"), "{}", outcome.stderr);
    let clean: Value = serde_json::from_slice(&directory.read("clean.har")).unwrap();
    assert_eq!(clean["log"]["entries"].as_array().unwrap().len(), 10);
    for (arguments, code, says) in [
        (
            ["other.json", "-o", "none.har"],
            26,
            "other.json is not an HTTP Archive: it has no member `log`",
        ),
        (["missing.har", "-o", "none.har"], 26, "cannot read missing.har"),
        (["cut.har", "-o", "cut.har"], 2, "cut.har is read and cannot be written as well"),
        (["cut.har", "-o", "no/where.har"], 23, "cannot write no/where.har"),
    ] {
        let outcome = run(&directory, &[&["har", "clean"][..], &arguments].concat());
        assert!(outcome.code == code && outcome.stderr.contains(says), "{arguments:?} {outcome:?}");
    }
    assert!(!directory.path().join("none.har").exists());
}

/// Input that cannot be read leaves existing outputs untouched, whichever browser wrote it.
#[test]
fn what_cannot_be_read_leaves_outputs_as_they_were() {
    let directory = Directory::new();
    directory.write("a.har", "{\"nothing\":{}}");
    directory.write("log.json", "{\"constants\": {\"logEventTypes\": {\"REQ");
    directory.write(
        "field.ndjson",
        "{\"format\":\"firstbyte/field\",\"version\":9,\"created_unix_s\":0,\"firstbyte_version\":\"\"}\n",
    );
    for input in ["a.har", "log.json", "field.ndjson"] {
        for output in ["--json=kept", "--csv=kept"] {
            directory.write("kept", "what was there");
            let outcome = run(&directory, &["report", input, output]);
            assert_eq!(outcome.code, 26, "{input} {output}: {}", outcome.stderr);
            assert_eq!(directory.read("kept"), b"what was there", "{input} {output}");
        }
    }
}
