//! `firstbyte report` from the user's point of view.

use std::process::{Command, Stdio};

use firstbyte::runs::{Creation, RunWriter};
use firstbyte_core::document::run::{AxisRecord, CellRecord};
use firstbyte_core::run::{Cell, Factor};
use serde_json::Value;

use crate::support::files::Directory;
use crate::support::run::{Outcome, firstbyte};
use crate::support::runs::{header, taken, write_run};

const HEADER: &str = "DNS,Connect,SSL,Wait,TTFB,Total Time\n";

fn tables() -> Directory {
    let directory = Directory::new();
    let rows = |extra: u32| -> String {
        (0..30)
            .map(|n| format!("0.004,0.{:03},0.080,0.081,0.130,0.{}\n", 30 + extra, 150 + n))
            .collect()
    };
    directory.write("before.csv", format!("{HEADER}{}", rows(0)));
    directory.write("after.csv", format!("\u{feff}{HEADER}{}", rows(5)).replace('\n', "\r\n"));
    directory
}

fn report(directory: &Directory, arguments: &[&str]) -> Outcome {
    let arguments: Vec<&str> = ["report"].iter().chain(arguments).copied().collect();
    firstbyte(directory.path(), &arguments)
}

/// Every format that can go to standard output, with more output than a pipe holds.
#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let directory = Directory::new();
    write_run(&directory.path().join("a.run"), 2, 400);
    for form in ["--csv", "--json", "--har", "--parquet", "--html"] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_firstbyte"))
            .args(["report", "a.run", &format!("{form}=-")])
            .current_dir(directory.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), said.as_str()), (Some(0), ""), "{form}");
    }
}

#[test]
fn tables_of_timers_are_variants_called_by_their_files() {
    let directory = tables();
    let outcome =
        report(&directory, &["before.csv", "after.csv", "--csv=all.csv", "--json=all.json"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(outcome.stdout.contains("before") && outcome.stdout.contains("after"));
    assert_eq!(
        outcome.stderr,
        "warning: the files were not measured in turns: changes over time count as differences between them\n\
         hint: measure them in turns: firstbyte compare --vary\n"
    );
    let csv = String::from_utf8(directory.read("all.csv")).unwrap();
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let mut column = |name: &str| reader.headers().unwrap().iter().position(|h| h == name).unwrap();
    let (file, connect) = (column("axis_file"), column("connect_us"));
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 60);
    assert_eq!((&rows[0][file], &rows[0][connect]), ("before", "26000"));
    assert_eq!((&rows[59][file], &rows[59][connect]), ("after", "31000"));
    let json = String::from_utf8(directory.read("all.json")).unwrap();
    let first: Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
    assert_eq!(first["factors"]["file"], "before");
    assert_eq!(json.lines().count(), 60);
}

/// A skipped line also removes its pair, but shifts no other pair.
#[test]
fn lines_that_are_left_out_do_not_shift_those_behind_them() {
    let directory = tables();
    let text = String::from_utf8(directory.read("before.csv")).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    lines[6] = "0.004,broken,0.080,0.081,0.130,0.155";
    directory.write("again.csv", lines.join("\n"));
    let outcome = report(&directory, &["before.csv", "again.csv", "--html", "a.html"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("again.csv, line 7: column Connect"), "{}", outcome.stderr);
    let said = outcome.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("only one sample was verified: again vs. before: 1"), "{said}");
    // Both tables are equal line by line: if they were shifted by one, they would differ by a millisecond.
    assert!(
        said.contains("the median total time differs by less than the clock can measure"),
        "{said}"
    );
    assert!(said.contains("(95 % interval 0 to 0 %)"), "{said}");
    let page = String::from_utf8(directory.read("a.html")).unwrap();
    assert!(page.contains("<th scope=\"col\">unpaired</th>"));
    for column in ["Hodges–Lehmann", "p (Holm)", "outliers", "lag-1 autocorrelation"] {
        assert!(page.contains(&format!("<th scope=\"col\">{column}</th>")), "{column}");
    }
}

/// A run with two edges and two TLS versions; the edges come first on the command line.
fn write_run_of_edges(path: &std::path::Path) {
    let factor = |axis: &str, value: &str, label: &str| Factor {
        axis: axis.into(),
        value: value.into(),
        label: label.into(),
    };
    let axis = |name: &str, values: [&str; 2]| AxisRecord {
        name: name.into(),
        values: values.map(str::to_owned).into(),
    };
    let mut header = header(4);
    header.axes = vec![axis("edge", ["london", "sydney"]), axis("tls", ["1.2", "1.3"])];
    let edges = [("london", "London"), ("sydney", "Sydney")];
    let cells = edges.iter().flat_map(|(edge, label)| {
        ["1.2", "1.3"].map(|tls| Cell {
            factors: vec![factor("edge", edge, label), factor("tls", tls, &format!("TLS {tls}"))],
            ..Cell::default()
        })
    });
    header.cells = cells.map(|cell| CellRecord::from_cell(&cell)).collect();
    let mut writer = RunWriter::create(path, &header, Creation::New).unwrap();
    for round in 0..30 {
        (0..4).for_each(|cell| writer.append(&taken(round, cell)).unwrap());
    }
}

#[test]
fn verdicts_are_about_what_can_be_decided_whatever_was_typed_first() {
    let directory = Directory::new();
    write_run_of_edges(&directory.path().join("a.run"));
    let sentences = |arguments: &[&str]| -> Vec<String> {
        let outcome = report(&directory, &[&["a.run"], arguments].concat());
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        let found = outcome.stdout.rsplit("\n\n").next().unwrap().to_owned();
        let found = found.replace("\n  ", " ");
        found.lines().map(str::to_owned).collect()
    };
    let by_meaning = sentences(&[]);
    assert!(by_meaning[0].contains("TLS 1.3 raised the median total time"), "{by_meaning:?}");
    assert!(by_meaning[0].contains("compared with TLS 1.2, in both comparisons"), "{by_meaning:?}");
    let last = by_meaning.last().unwrap();
    assert!(last.contains("Sydney raised the median total time"), "{by_meaning:?}");
    let by_edge = sentences(&["--by", "edge"]);
    assert!(by_edge[0].contains("Sydney raised the median total time"), "{by_edge:?}");
    assert!(
        by_edge.last().unwrap().contains("TLS 1.3 raised the median total time"),
        "{by_edge:?}"
    );
    let outcome = report(&directory, &["a.run", "--by", "http"]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (2, ""));
    assert_eq!(
        outcome.stderr,
        "error: --by http: that axis is not varied\nhint: one of edge, tls\n"
    );
}

#[test]
fn a_run_is_shown_again_and_written_in_every_form() {
    let directory = Directory::new();
    write_run(&directory.path().join("a.run"), 2, 10);
    let files = ["--csv=a.csv", "--json=a.json", "--parquet=a.parquet", "--har=a.har"];
    let pages = ["--html=a.html", "--svg=svg", "--png=png"];
    let arguments = [&["a.run"], &files[..], &pages].concat();
    let outcome = report(&directory, &arguments);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
    assert_eq!(directory.read("a.csv").iter().filter(|b| **b == b'\n').count(), 21);
    assert_eq!(directory.read("a.json").iter().filter(|b| **b == b'\n').count(), 20);
    assert!(directory.read("a.parquet").ends_with(b"PAR1"));
    let har: Value = serde_json::from_slice(&directory.read("a.har")).unwrap();
    assert_eq!(har["log"]["entries"].as_array().unwrap().len(), 20);
    assert!(directory.read("a.html").starts_with(b"<!DOCTYPE html>"));
    for directory in ["svg", "png"].map(|name| directory.path().join(name)) {
        assert!(std::fs::read_dir(directory).unwrap().count() > 1);
    }
}

#[test]
fn runs_and_tables_together() {
    let directory = tables();
    write_run(&directory.path().join("a.run"), 1, 3);
    let outcome = report(&directory, &["a.run", "before.csv", "--json"]);
    let of = |name: &str| {
        let name = format!("\"file\":\"{name}\"");
        outcome.stdout.lines().filter(|line| line.contains(&name)).count()
    };
    assert_eq!((of("a"), of("before")), (3, 30), "{}", outcome.stderr);
}

#[test]
fn what_is_being_written_or_damaged_is_shown_as_far_as_it_is_whole() {
    let directory = Directory::new();
    let path = directory.path().join("a.run");
    write_run(&path, 1, 4);
    let text = String::from_utf8(directory.read("a.run")).unwrap();
    directory.write("torn.run", &text[..text.len() - 9]);
    let torn = report(&directory, &["torn.run", "--csv"]);
    assert_eq!((torn.code, torn.stdout.lines().count()), (0, 4));
    assert!(torn.stderr.starts_with("warning: torn.run: the last "), "{}", torn.stderr);
    directory.write(
        "bad.run",
        text.replace("{\"variant\":0,\"round\":2", "{\"variant\":0,\"round\":two"),
    );
    let bad = report(&directory, &["bad.run", "--csv"]);
    assert_eq!((bad.code, bad.stdout.lines().count()), (0, 4));
    assert!(bad.stderr.starts_with("warning: bad.run, line "), "{}", bad.stderr);
}

#[test]
fn what_cannot_be_done_says_what_to_do() {
    let directory = tables();
    write_run(&directory.path().join("a.run"), 1, 2);
    directory.write("later.run", "{\"format\":\"firstbyte/run\",\"version\":9}\n");
    directory.write("other.json", "{\"a\":1}\n");
    directory.write("binary", b"PAR1\0\0\0");
    directory.write("bad.csv", format!("{HEADER}1,2\n"));
    directory.write("numbers.csv", "1,2,3\n");
    for (arguments, code, stderr) in [
        (&["none.run"] as &[&str], 26, "error: cannot read none.run: no such file or directory\n"),
        (
            &["later.run"],
            26,
            "error: later.run has format version 9\n\
             hint: a newer firstbyte wrote it: use that version\n",
        ),
        (&["other.json"], 26, "error: other.json is not a run file\nhint: check the file name\n"),
        (
            &["binary"],
            26,
            "error: binary, line 1: neither a run file nor a table of curl's timers\n",
        ),
        (
            &["bad.csv"],
            26,
            "error: bad.csv, line 1: no usable visit under this header: bad.csv, line 2: 2 columns \
             instead of 6\n",
        ),
        (
            &["numbers.csv"],
            26,
            "error: numbers.csv, line 1: the first line must name the columns: \
             DNS,Connect,SSL,Wait,TTFB,Total Time\n",
        ),
        (
            &["a.run", "--csv=a.run"],
            2,
            "error: a.run is read and cannot be written as well\nhint: give the output another name\n",
        ),
        (
            &["a.run", "--csv", "--json"],
            2,
            "error: two outputs to standard output\nhint: give each a file of its own\n",
        ),
        (
            &["a.run", "--har", "none/a.har"],
            23,
            "error: cannot write none/a.har: no such file or directory\n",
        ),
    ] {
        let outcome = report(&directory, arguments);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (code, stderr), "{arguments:?}");
        assert_eq!(outcome.stdout, "", "{arguments:?}");
    }
    assert!(directory.read("a.run").starts_with(b"{\"format\""));
}

#[test]
fn daily_averages_of_analytics() {
    const STORY: &str = include_str!("../../../firstbyte-sources/fixtures/averages/story.csv");
    let directory = Directory::new();
    std::fs::write(directory.path().join("story.csv"), STORY).unwrap();
    let arguments =
        ["report", "--averages", "story.csv", "--json=a.json", "--svg", "s", "--png", "p"];
    let outcome = firstbyte(directory.path(), &arguments);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(outcome.stdout.contains("14,302,686 page views"), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("The average fell on 2018-11-14"), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("What these averages hide"), "{}", outcome.stdout);
    let read = |name: &str| std::fs::read(directory.path().join(name)).unwrap();
    let record: serde_json::Value = serde_json::from_slice(&read("a.json")).unwrap();
    assert_eq!(record["format"], "firstbyte/averages");
    assert!(read("s/averages.svg").starts_with(b"<svg") && read("p/averages.png").len() > 10_000);
}

#[test]
fn averages_that_cannot_be_read_are_named_by_line_and_column() {
    let directory = Directory::new();
    std::fs::write(directory.path().join("a.csv"), "date,average\n2026-01-01,fast\n").unwrap();
    let outcome = firstbyte(directory.path(), &["report", "--averages", "a.csv", "--json=a.json"]);
    assert_eq!(outcome.code, 26, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("a.csv: line 2, column 2: \"fast\""), "{}", outcome.stderr);
    assert!(!directory.path().join("a.json").exists(), "what was empty goes again");
    let both = firstbyte(directory.path(), &["report", "a.run", "--averages", "a.csv"]);
    assert_eq!(both.code, 2, "{}", both.stderr);
}
