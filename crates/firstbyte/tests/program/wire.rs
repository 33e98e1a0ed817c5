//! `firstbyte wire` on a capture of the lab: the required contents of its outputs, and their agreement.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::files::Directory;
use crate::support::run::{Outcome, firstbyte};
use parquet::file::reader::{FileReader, SerializedFileReader};

fn capture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures/nam/input.pcapng")
}

fn wire(directory: &Directory, arguments: &[&str]) -> Outcome {
    let capture = capture().display().to_string();
    let all: Vec<&str> = ["wire", &capture].iter().chain(arguments).copied().collect();
    let outcome = firstbyte(directory.path(), &all);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    outcome
}

#[test]
fn servers_and_connections_are_shown() {
    let outcome = wire(&Directory::new(), &[]);
    let widest = outcome.stdout.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(80), "{widest:?}");
    insta::assert_snapshot!("wire", outcome.stdout);
    let one = wire(&Directory::new(), &["--servers", "1"]).stdout;
    // Findings cover all servers, also those that are not shown.
    assert!(one.contains("198.51.100.1:443 tcp") && !one.contains("198.51.100.4:443 tcp"), "{one}");
    assert!(one.contains("1 of 2 servers, those with the most connections"), "{one}");
}

#[test]
fn a_connection_is_shown_in_full() {
    let outcome = wire(&Directory::new(), &["--flow", "3"]);
    for seen in ["resumed · offered ticket", "ClientHello", "encrypted records", "10 exchanges"] {
        assert!(outcome.stdout.contains(seen), "{seen}\n{}", outcome.stdout);
    }
    assert!(!outcome.stdout.contains("{Finished}") && !outcome.stdout.contains("pause"));
    let widest = outcome.stdout.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(80), "{widest:?}");
    insta::assert_snapshot!("wire-flow", outcome.stdout);
}

#[test]
fn pictures_go_into_a_directory_and_rows_to_a_file_beside_the_text() {
    let directory = Directory::new();
    let alone = wire(&directory, &["--flow", "1"]).stdout;
    let json = wire(&directory, &["--flow", "1", "--json"]).stdout;
    let more = wire(&directory, &["--flow", "1", "--svg", "pictures", "--json=a.json"]);
    assert_eq!(more.stdout, alone);
    assert_eq!(directory.read("a.json"), json.into_bytes());
    assert!(directory.read("pictures/sequences.svg").starts_with(b"<svg"));
}

#[test]
fn rows_are_the_same_in_every_form() {
    let directory = Directory::new();
    let files = ["--csv=rows.csv", "--parquet", "rows.parquet", "--zeek", "ssl.log"];
    wire(&directory, &files);
    let csv: Vec<Vec<String>> = csv::ReaderBuilder::new()
        .has_headers(false)
        .from_path(directory.path().join("rows.csv"))
        .unwrap()
        .into_records()
        .map(|record| record.unwrap().iter().map(str::to_owned).collect())
        .collect();
    assert_eq!(csv.len(), 4);
    let column = |name: &str| csv[0].iter().position(|column| *column == name).unwrap();
    // Fields that TLS 1.2 does not have, and those of QUIC, are empty.
    for name in ["tls_early_data_bytes", "quic_version", "quic_retries", "tls_alert", "doubts"] {
        assert!(csv[1..].iter().all(|row| row[column(name)].is_empty()), "{name}");
    }
    let sessions: Vec<&str> = csv[1..].iter().map(|row| row[column("session")].as_str()).collect();
    assert_eq!(sessions, ["full", "full", "resumed"]);

    let file = fs::File::open(directory.path().join("rows.parquet")).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 3);
    for (row, fields) in rows.iter().zip(&csv[1..]) {
        for ((name, value), (heading, field)) in
            row.get_column_iter().zip(csv[0].iter().zip(fields))
        {
            assert_eq!(name.trim_end_matches("_ns"), heading.trim_end_matches("_us"));
            let value = value.to_string();
            assert_eq!(value == "null", field.is_empty(), "{name}: {value} and {field}");
            if name.ends_with("_ns") && !field.is_empty() {
                let micros: f64 = field.parse().unwrap();
                assert!((value.parse::<f64>().unwrap() - micros * 1e3).abs() < 0.5, "{name}");
            }
        }
    }

    let log = fs::read_to_string(directory.path().join("ssl.log")).unwrap();
    let lines: Vec<Vec<&str>> = log.lines().map(|line| line.split('\t').collect()).collect();
    let fields = lines.iter().find(|line| line[0] == "#fields").unwrap();
    let types = lines.iter().find(|line| line[0] == "#types").unwrap();
    assert_eq!(fields.len(), types.len());
    let place = |name: &str| fields.iter().position(|field| *field == name).unwrap() - 1;
    let rows: Vec<&Vec<&str>> = lines.iter().filter(|line| !line[0].starts_with('#')).collect();
    assert_eq!(rows.len(), 3);
    for row in &rows {
        assert_eq!((row.len() + 1, row[place("version")]), (fields.len(), "TLSv12"));
        assert_eq!((row[place("last_alert")], row[place("established")]), ("-", "T"));
    }
    // In TLS up to 1.2, a resumed session needs no key exchange.
    let curves: Vec<&str> = rows.iter().map(|row| row[place("curve")]).collect();
    assert_eq!(curves, ["x25519", "x25519", "-"]);
    let resumed: Vec<&str> = rows.iter().map(|row| row[place("resumed")]).collect();
    assert_eq!(resumed, ["F", "F", "T"]);
    // Reading the capture again gives the same identifiers.
    let again = wire(&directory, &["--zeek", "-"]).stdout;
    assert_eq!(again, log);
}

#[test]
fn packets_that_are_written_give_the_same_figures() {
    let directory = Directory::new();
    for chosen in [&["--session", "resumed"] as &[&str], &["--flow", "2"], &["--server", "node1*"]]
    {
        let before = [chosen, &["--pcap-out", "part.pcapng", "--json"]].concat();
        let before = wire(&directory, &before).stdout;
        let after = firstbyte(directory.path(), &["wire", "part.pcapng", "--json"]).stdout;
        let without_number = |text: &str| -> Vec<serde_json::Value> {
            let lines = text.lines().map(|line| {
                let mut value: serde_json::Value = serde_json::from_str(line).unwrap();
                value.as_object_mut().unwrap().remove("number");
                value
            });
            lines.collect()
        };
        let (before, after) = (without_number(&before), without_number(&after));
        assert!(!after.is_empty());
        match chosen[0] {
            // `--flow` selects the packets of one connection; the rows are of all connections.
            "--flow" => assert!(after.len() == 1 && before.contains(&after[0]), "{after:#?}"),
            _ => assert_eq!(before, after),
        }
    }
}

/// As readers of Zeek's logs parse it: the header defines separators and types.
#[test]
fn zeek_s_log_says_how_it_is_to_be_read() {
    let log = wire(&Directory::new(), &["--zeek", "-"]).stdout;
    let (header, rows): (Vec<&str>, Vec<&str>) =
        log.lines().partition(|line| line.starts_with('#'));
    let names: Vec<&str> =
        header.iter().map(|line| line.split(['\t', ' ']).next().unwrap()).collect();
    let expected = [
        "#separator",
        "#set_separator",
        "#empty_field",
        "#unset_field",
        "#path",
        "#open",
        "#fields",
        "#types",
        "#close",
    ];
    assert_eq!(names, expected);
    assert_eq!(header[0], "#separator \\x09");
    let values = |name: &str| -> Vec<&str> {
        let line = header.iter().find(|line| line.starts_with(name)).unwrap();
        line.split('\t').skip(1).collect()
    };
    assert_eq!(values("#set_separator"), [","]);
    assert_eq!((values("#empty_field"), values("#unset_field")), (vec!["(empty)"], vec!["-"]));
    assert_eq!(values("#path"), ["ssl"]);
    for moment in [values("#open"), values("#close")] {
        let parts: Vec<&str> = moment[0].split('-').collect();
        let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
        assert_eq!(lengths, [4, 2, 2, 2, 2, 2], "{moment:?}");
        assert!(parts.iter().all(|part| part.parse::<u32>().is_ok()), "{moment:?}");
    }
    let types = values("#types");
    assert_eq!(values("#fields").len(), types.len());
    assert!(log.ends_with('\n') && !rows.is_empty());
    for row in rows {
        let fields: Vec<&str> = row.split('\t').collect();
        assert_eq!(fields.len(), types.len());
        for (field, kind) in fields.into_iter().zip(&types) {
            let is_right = match *kind {
                _ if field == "-" => true,
                "time" => field.split_once('.').is_some_and(|(s, us)| {
                    us.len() == 6 && s.parse::<u64>().is_ok() && us.parse::<u32>().is_ok()
                }),
                "addr" => field.parse::<std::net::IpAddr>().is_ok(),
                "port" => field.parse::<u16>().is_ok(),
                "bool" => matches!(field, "T" | "F"),
                "string" => !field.is_empty(),
                other => panic!("{other}"),
            };
            assert!(is_right, "{kind}: {field}");
        }
    }
}

#[test]
fn differences_are_written_as_they_were_asked_for() {
    let directory = Directory::new();
    let file = capture().display().to_string();
    let diff = |more: &[&str]| {
        let all = [&["wire", "diff", "--by", "server", &file], more].concat();
        firstbyte(directory.path(), &all)
    };
    let outcome = diff(&["--csv", "--html", "changed.html"]);
    assert_eq!((outcome.code, outcome.stdout.lines().count()), (0, 1), "{}", outcome.stdout);
    assert!(outcome.stdout.starts_with("server,against,what,"), "{}", outcome.stdout);
    let page = fs::read_to_string(directory.path().join("changed.html")).unwrap();
    assert!(page.contains("too few connections"), "{page}");
    assert!(page.contains("What differs within input.pcapng") && !page.contains(&file));
    let outcome = diff(&["--csv", "--json"]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (2, ""));
    assert!(outcome.stderr.contains("two outputs to standard output"), "{}", outcome.stderr);
    let json = diff(&["--json"]).stdout;
    assert!(json.starts_with("{\"format\":\"firstbyte/wire-diff\""), "{json}");
    // Both sides next to each other, and round trips that costs are projected to.
    let record: serde_json::Value =
        serde_json::from_str(&diff(&["--json", "--project-rtt", "20ms,80ms"]).stdout).unwrap();
    assert_eq!(record["projected_to_seconds"], serde_json::json!([0.02, 0.08]));
    let beside = &record["beside"][0];
    let sum: u64 = beside["tables"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|table| table["of"] == "sessions")
        .flat_map(|table| table["values"].as_array().unwrap())
        .map(|value| value["before_count"].as_u64().unwrap())
        .sum();
    assert!(sum > 0 && sum <= beside["before_connections"].as_u64().unwrap(), "{beside}");
    let header = diff(&["--csv", "--project-rtt", "0.5ms,80ms"]).stdout;
    assert!(header.ends_with(",round_trips,cost_at_0.5ms_us,cost_at_80ms_us\n"), "{header}");
    assert!(diff(&[]).stdout.contains("side by side"));
    let outcome = diff(&["--project-rtt", "1ms,2ms,3ms,4ms,5ms"]);
    assert_eq!(outcome.code, 2);
    assert!(outcome.stderr.contains("takes up to four round trips"), "{}", outcome.stderr);
    let outcome = diff(&["--json=changed.json"]);
    assert_eq!((outcome.code, directory.read("changed.json")), (0, json.into_bytes()));
    assert_eq!(outcome.stdout, diff(&[]).stdout);
    let outcome = diff(&["--html", &file]);
    assert_eq!(outcome.code, 2);
    assert!(outcome.stderr.contains("is read and cannot be written as well"), "{}", outcome.stderr);
}

#[test]
fn what_cannot_be_done_is_said_before_anything_is_read() {
    let directory = Directory::new();
    fs::copy(capture(), directory.path().join("in.pcapng")).unwrap();
    for (arguments, code, message) in [
        (
            &["wire", "-", "--pcap-out", "out"] as &[&str],
            2,
            "--pcap-out reads the capture twice, and standard input",
        ),
        (&["wire", "in.pcapng", "--csv=in.pcapng"], 2, "is read and cannot be written as well"),
        (&["wire", "in.pcapng", "--csv", "--zeek", "-"], 2, "two outputs to standard output"),
        (&["wire", "in.pcapng", "--flow", "9"], 2, "--flow 9: the capture has only 3 connections"),
        (&["wire", "in.pcapng", "--csv=no/where"], 23, "cannot write no/where"),
        (&["wire", "in.pcapng", "-i", "lo"], 2, "give files or -i, not both"),
        (&["wire", "in.pcapng", "--for", "5s"], 2, "--interface <IFACE>"),
        (&["wire", "missing", "in.pcapng"], 26, "hint: also not read: in.pcapng"),
    ] {
        let outcome = firstbyte(directory.path(), arguments);
        assert_eq!(outcome.code, code, "{arguments:?}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(message), "{arguments:?}: {}", outcome.stderr);
        assert_eq!(outcome.stdout, "");
    }
    assert_eq!(fs::read(directory.path().join("in.pcapng")).unwrap(), fs::read(capture()).unwrap());
}

#[test]
fn what_is_chosen_is_what_is_written() {
    let directory = Directory::new();
    let rows = |more: &[&str]| -> Vec<u64> {
        let json = wire(&directory, &[&["--json"], more].concat()).stdout;
        let row = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap();
        json.lines().map(|line| row(line)["number"].as_u64().unwrap()).collect()
    };
    assert_eq!(rows(&[]), [1, 2, 3]);
    assert_eq!(rows(&["--flow", "2"]), [2]);
    assert_eq!(rows(&["--server", "NODE4.*"]), [1]);
    assert_eq!(rows(&["--session", "failed"]), [0; 0]);
    // If connections were selected by their session, a verdict on resumption would only describe the selection.
    let chosen = wire(&directory, &["--session", "resumed"]).stdout;
    assert!(chosen.contains("1 resumed") && !chosen.contains("resumes every"), "{chosen}");
    let nothing = wire(&directory, &["--server", "nosuch"]).stdout;
    let said = "no connection matches --server or --session; the capture has 3 connections";
    assert!(nothing.contains(said), "{nothing}");
}

/// Whichever connection ends first, and even if there is none: reading with several threads, by rows, and at the end.
#[test]
fn zeek_s_log_opens_with_the_capture_s_first_packet() {
    let directory = Directory::new();
    // A frame that belongs to no connection, long before the others.
    let mut early = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0];
    early.extend([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0]);
    let arp = [&[0xff; 6][..], &[2; 6], &[8, 6], &[0; 28]].concat();
    for number in [1_000_000_000, 0, 42, 42u32] {
        early.extend(number.to_le_bytes());
    }
    early.extend(arp);
    let early_file = directory.path().join("early.pcap");
    fs::write(&early_file, early).unwrap();
    let (early_file, capture) = (early_file.display().to_string(), capture().display().to_string());
    let log = |files: &[&str], more: &[&str]| {
        let all = [&["wire", "--zeek", "-"], files, more].concat();
        firstbyte(directory.path(), &all).stdout
    };
    for threads in ["1", "2"] {
        for (server, rows) in [("*", 3), ("nosuch", 0)] {
            let more = ["--threads", threads, "--server", server];
            let with_early = log(&[&early_file, &capture], &more);
            assert!(with_early.contains("\n#open\t2001-09-09-01-46-40\n"), "{with_early}");
            assert_eq!(with_early.lines().filter(|line| !line.starts_with('#')).count(), rows);
        }
    }
    assert!(
        log(&[&capture], &[]).contains("\n#open\t20")
            && log(&[&early_file], &[]).contains("#open\t2001")
    );
}

#[test]
fn letters_stand_for_signs_where_the_terminal_has_only_those() {
    let capture = capture().display().to_string();
    for arguments in [&["wire", &capture][..], &["wire", &capture, "--flow", "3"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_firstbyte"));
        let output = command.args(arguments).env("LC_ALL", "C").output().unwrap();
        let shown = String::from_utf8(output.stdout).unwrap();
        assert!(shown.is_ascii() && shown.contains(" us") && !shown.contains("\\u{"), "{shown}");
    }
}

#[test]
fn outputs_are_the_same_on_any_threads() {
    let everything = |threads: &str| {
        let directory = Directory::new();
        let files = ["--csv=rows.csv", "--zeek", "ssl.log", "--html", "page.html"];
        let arguments = [&["--threads", threads, "--pcap-out", "out.pcapng"][..], &files].concat();
        let table = wire(&directory, &arguments).stdout;
        let flow = wire(&directory, &["--threads", threads, "--flow", "2"]).stdout;
        let json = wire(&directory, &["--threads", threads, "--json"]).stdout;
        let names = ["rows.csv", "ssl.log", "page.html", "out.pcapng"];
        let written = names.map(|name| fs::read(directory.path().join(name)).unwrap());
        (table, flow, json, written)
    };
    let alone = everything("1");
    assert_eq!(alone.2.lines().count(), 3);
    assert!(alone == everything("2") && alone == everything("3"));
}
