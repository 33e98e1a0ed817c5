//! Every output of `wire -i` in a lab: live output equals the output for a file of the same packets.

use std::fs;
use std::path::Path;

use firstbyte_core::pcap::Frame;
use parquet::file::reader::{FileReader, SerializedFileReader};

use crate::live::{AWAIT, in_lab, read};
use crate::support::{Permits, Scene, firstbyte, run, text};

const SERVER: &str = r#"
[[host]]
name = "server"
role = "server"
ipv4 = "198.51.100.1"
ipv6 = "2001:db8:0:2::1"
names = ["server.test"]
server = { kind = "builtin", page_bytes = 2000, http3 = true }
up = { delay = "3ms" }
down = { delay = "3ms" }
"#;

/// Full and short handshakes over TCP, and some over QUIC.
const VISITS: &str = r#"
        "$FIRSTBYTE" compare https://server.test/ --vary session=full,resumed -n 4 -4 >/dev/null
        "$FIRSTBYTE" --json -n 3 -4 --http3-only https://server.test/ >/dev/null
"#;

/// Runs `firstbyte` in the scene's directory and leaves its outputs there.
fn in_scene(scene: &Scene, arguments: &str) -> String {
    let words: Vec<&str> = arguments.split(' ').collect();
    let output = run(firstbyte(&words).current_dir(scene.path("")));
    assert!(output.status.success(), "{arguments}: {}", text(&output.stderr));
    text(&output.stdout)
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

fn parquet_rows(path: &Path) -> Vec<String> {
    let reader = SerializedFileReader::new(fs::File::open(path).unwrap()).unwrap();
    let rows = reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string());
    let mut rows: Vec<String> = rows.collect();
    rows.sort_unstable();
    rows
}

/// Every frame of a capture file as timestamp, in nanoseconds, and bytes; sorted by timestamp.
fn frames(path: &Path) -> Vec<(i64, Vec<u8>)> {
    let mut frames = Vec::new();
    let mut each = |frame: &Frame<'_>| {
        frames.push((frame.at.unwrap().unix_ns(), frame.captured.to_vec()));
    };
    firstbyte_capture::for_each(path, &mut each).unwrap();
    assert!(frames.len() > 20, "{}: {} frames", path.display(), frames.len());
    frames.sort_unstable();
    frames
}

/// The page from its findings on; the part before describes the input.
fn findings(page: &str) -> &str {
    page.split_once("id=\"found-h\"").unwrap().1
}

#[test]
fn what_is_written_live_is_what_the_file_of_the_same_packets_gives() {
    let _permits = Permits::one();
    let scene = Scene::with_servers(SERVER);
    let outputs = |name: &str| {
        format!("--csv={name}.csv --parquet {name}.parquet --zeek {name}.log --html {name}.html")
    };
    let one = |name: &str| format!("--flow 3 --svg {name} --csv={name}.csv");
    let (options, short) = (outputs("live"), one("short"));
    let filter = "--host 198.51.100.1 --port 443";
    let script = format!(
        r#"{AWAIT}
        "$FIRSTBYTE" wire -i eth0 {filter} {options} >table 2>notes &
        live=$!
        "$FIRSTBYTE" wire -i eth0 {filter} --json -w all.pcapng >all.ndjson 2>all.notes &
        all=$!
        "$FIRSTBYTE" wire -i eth0 {filter} --session resumed --server 'server.*' \
            --csv -w resumed.pcapng >resumed.csv 2>resumed.notes &
        resumed=$!
        "$FIRSTBYTE" wire -i eth0 {filter} --for 100s {short} >short.flow 2>short.notes &
        short=$!
        LD_PRELOAD=$PRELOAD tcpdump -i eth0 -Z root --time-stamp-precision=nano -w tcpdump.pcap 2>tcpdump &
        tcpdump=$!
        for notes in notes all.notes resumed.notes short.notes; do await $notes capturing; done
        await tcpdump listening
        {VISITS}
        # A connection that was closed is over 10 s after its last packet.
        sleep 12
        cp live.csv part.csv
        cp live.log part.log
        cp resumed.csv part.resumed.csv
        cp all.ndjson part.ndjson
        cp all.pcapng part.pcapng
        kill -TERM $live $short
        kill -HUP $all
        kill -INT $resumed $tcpdump
        wait $live; wait $all; wait $resumed; wait $tcpdump
        code=0; wait $short || code=$?; echo $code >short.code"#
    );
    let (code, _, stderr) = in_lab(&scene, &script);
    assert_eq!(code, 0, "{stderr}\n{}", read(&scene, "notes"));

    // Rows and packets are written as connections end and packets arrive, so that readers can follow.
    let csv = read(&scene, "live.csv");
    let part = read(&scene, "part.csv");
    assert!(csv.starts_with(&part) && part.lines().count() > 8, "{part}");
    let log = read(&scene, "live.log");
    assert!(log.starts_with(&read(&scene, "part.log")) && log.contains("\n#close\t"), "{log}");
    assert!(read(&scene, "part.log").lines().count() > 16);
    assert!(read(&scene, "part.ndjson").lines().count() > 8);
    assert!(read(&scene, "part.resumed.csv").lines().count() > 3);
    let packets = fs::read(scene.path("all.pcapng")).unwrap();
    let so_far = fs::read(scene.path("part.pcapng")).unwrap();
    assert!(packets.starts_with(&so_far) && so_far.len() > 10_000);

    // The file that was written live gives the same results as tcpdump's.
    in_scene(&scene, &format!("wire all.pcapng {}", outputs("file")));
    assert_eq!(sorted(&csv), sorted(&read(&scene, "file.csv")));
    // The header is equal too: a log opens with the time of the capture's first packet.
    assert_eq!(sorted(&log), sorted(&read(&scene, "file.log")));
    assert_eq!(findings(&read(&scene, "live.html")), findings(&read(&scene, "file.html")));
    assert!(read(&scene, "live.html").contains("<title>TLS in eth0</title>"));
    let rows = parquet_rows(&scene.path("live.parquet"));
    assert_eq!(rows, parquet_rows(&scene.path("file.parquet")));
    assert_eq!(rows.len() + 1, csv.lines().count());
    let other = in_scene(&scene, &format!("wire tcpdump.pcap {filter} --csv"));
    assert_eq!(sorted(&csv), sorted(&other));
    assert!(csv.lines().any(|row| row.contains("quic")), "{csv}");

    // The one connection is written even though the capture was interrupted early.
    assert_eq!(read(&scene, "short.code"), "143\n");
    let flow = in_scene(&scene, &format!("wire all.pcapng {}", one("one")));
    assert_eq!(read(&scene, "short.flow"), flow);
    assert!(flow.contains("ClientHello"), "{flow}");
    assert_eq!(read(&scene, "short.csv"), read(&scene, "one.csv"));
    assert_eq!(read(&scene, "one.csv").lines().count(), 2);
    assert_eq!(read(&scene, "short/sequences.svg"), read(&scene, "one/sequences.svg"));

    // Packets chosen when their connection ends are those that a second reading of the file chooses.
    let chosen = "--session resumed --server server.*";
    let from_file = format!("wire all.pcapng {chosen} --csv --pcap-out again.pcapng");
    let from_file = in_scene(&scene, &from_file);
    assert_eq!(sorted(&read(&scene, "resumed.csv")), sorted(&from_file));
    assert!(from_file.lines().count() > 3, "{from_file}");
    // Two captures may order frames of opposite directions differently if they cross within microseconds.
    assert_eq!(frames(&scene.path("resumed.pcapng")), frames(&scene.path("again.pcapng")));
    let notes = read(&scene, "resumed.notes");
    assert!(
        notes.contains(&format!("of {} connections\n", from_file.lines().count() - 1)),
        "{notes}"
    );
    let spools = fs::read_dir(scene.path(""))
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().contains("spool"));
    assert_eq!(spools.count(), 0);
}

#[test]
fn outputs_that_cannot_be_written_are_told_and_a_capture_that_fails_empties_nothing() {
    let _permits = Permits::one();
    let scene = Scene::with_servers(SERVER);
    fs::write(scene.path("kept.csv"), "kept\n").unwrap();
    let script = format!(
        r#"{AWAIT}
        ! "$FIRSTBYTE" wire -i nowhere --csv=kept.csv 2>nowhere
        ! "$FIRSTBYTE" wire -i eth0 --for 1s --csv=no/where 2>unwritable
        ! "$FIRSTBYTE" wire -i eth0 --for 1s --csv=a --html a 2>twice
        "$FIRSTBYTE" wire -i eth0 --port 443 --for 60s --flow 999 --csv=rows.csv -w one.pcapng \
            >flow 2>flow.notes &
        flow=$!
        "$FIRSTBYTE" wire -i eth0 --port 443 --csv 2>pipe.notes | head -n 1 >pipe &
        await flow.notes capturing
        await pipe.notes capturing
        {VISITS}
        kill -INT $flow
        code=0; wait $flow || code=$?; echo $code >code
        # Nobody reads along any more: the capture ends by itself, with the next connection that is over.
        wait"#
    );
    let (code, _, stderr) = in_lab(&scene, &script);
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(read(&scene, "kept.csv"), "kept\n");
    let unwritable = read(&scene, "unwritable");
    assert!(unwritable.starts_with("error: cannot write no/where"), "{unwritable}");
    assert!(read(&scene, "twice").starts_with("error: two outputs to a\n"));
    // The named connection was not found; the output files exist but are empty.
    assert_eq!((read(&scene, "code").as_str(), read(&scene, "flow").as_str()), ("2\n", ""));
    let notes = read(&scene, "flow.notes");
    assert!(notes.contains("wrote 0 packets of 0 connections"), "{notes}");
    assert!(notes.contains("--flow 999: the capture has only "), "{notes}");
    assert_eq!(read(&scene, "rows.csv").lines().count(), 1);
    assert!(read(&scene, "pipe").starts_with("number,carrier,"));
}
