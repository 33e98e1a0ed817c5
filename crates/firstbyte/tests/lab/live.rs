//! `wire -i` in a lab: a live capture gives the same results as tcpdump's file of the same traffic.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use crate::support::{LINKS, PROGRAM, Permits, Scene, firstbyte, run, text};
use crate::tcpdump;

const VISITS: usize = 40;

/// Runs `script` on the client of a lab, in the scene's directory. `$FIRSTBYTE` is the program, and `$PRELOAD` is
/// needed by tcpdump in labs of ordinary users.
pub(crate) fn in_lab(scene: &Scene, script: &str) -> (i32, String, String) {
    let mut command = firstbyte(&["lab", "run"]);
    command.arg(scene.file()).args(["--", "sh", "-euc", script]);
    command.env("FIRSTBYTE", PROGRAM).current_dir(scene.path(""));
    command.env("PRELOAD", tcpdump::unchanged_groups(&scene.path("")));
    let output = run(&mut command);
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

/// Connections in NDJSON by their endpoints and start, and the line about the capture.
///
/// Connection numbers are left out: two sockets may see the first packets of two connections in a different order.
fn connections(ndjson: &str) -> (BTreeMap<String, Value>, Option<Value>) {
    let mut all = BTreeMap::new();
    let mut capture = None;
    for line in ndjson.lines() {
        let mut value: Value = serde_json::from_str(line).unwrap();
        if value["format"] == "firstbyte/wire-capture" {
            capture = Some(value);
            continue;
        }
        assert_eq!(value["format"], "firstbyte/wire");
        value["number"] = Value::Null;
        let key = format!("{} {} {}", value["client"], value["server"], value["started_unix_ns"]);
        assert!(all.insert(key, value).is_none());
    }
    (all, capture)
}

pub(crate) fn read(scene: &Scene, name: &str) -> String {
    fs::read_to_string(scene.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Waits until `$2` is in the file `$1`.
pub(crate) const AWAIT: &str = r#"
await() { n=0; until grep -q "$2" "$1"; do n=$((n + 1)); [ $n -lt 100 ] || { cat "$1" >&2; exit 9; }; sleep 0.1; done; }
"#;

#[test]
fn live_and_from_a_file_are_the_same() {
    let _permits = Permits::one();
    let scene = Scene::new(LINKS);
    let script = format!(
        r#"{AWAIT}
        "$FIRSTBYTE" wire -i eth0 --host 198.51.100.1 --port 443 --json --metrics 9464 >live 2>notes &
        live=$!
        LD_PRELOAD=$PRELOAD tcpdump -i eth0 -Z root --time-stamp-precision=nano -w file.pcap 2>tcpdump &
        tcpdump=$!
        await notes capturing
        await tcpdump listening
        "$FIRSTBYTE" --json -n {VISITS} -4 https://server.test/ >/dev/null
        "$FIRSTBYTE" --json -n 2 -6 https://server.test/ >/dev/null
        # tcpdump hands over what is in its buffer after a second.
        sleep 2
        curl -s http://127.0.0.1:9464/metrics >metrics
        curl -s -o /dev/null -w '%{{http_code}}' http://127.0.0.1:9464/ >other
        kill -INT $live $tcpdump
        wait $live
        wait $tcpdump"#
    );
    let (code, _, stderr) = in_lab(&scene, &script);
    assert_eq!(code, 0, "{stderr}\n{}", read(&scene, "notes"));

    let file = scene.path("file.pcap");
    let file = file.to_str().unwrap();
    let filter = ["--host", "198.51.100.1", "--port", "443"];
    let output = run(firstbyte(&["wire", "--json", file]).args(filter));
    let (from_file, _) = connections(&text(&output.stdout));
    let (live, capture) = connections(&read(&scene, "live"));
    let capture = capture.unwrap();
    assert_eq!(live.len(), from_file.len());
    // Includes a warm-up, but no IPv6.
    assert!((VISITS..=VISITS + 1).contains(&live.len()), "{}", live.len());
    for (key, connection) in &live {
        assert_eq!(Some(connection), from_file.get(key), "{key}");
        assert_eq!(connection["tls"]["complete"], true);
    }
    assert_eq!(capture["dropped_frames"], 0);
    assert_eq!(capture["connections"], live.len());

    let notes = read(&scene, "notes");
    assert!(notes.contains("capturing on eth0 (Ethernet, promiscuous)"), "{notes}");
    assert!(notes.contains("0  frames were dropped"), "{notes}");
    let metrics = read(&scene, "metrics");
    assert!(metrics.contains("# TYPE firstbyte_wire_handshake_seconds histogram\n"), "{metrics}");
    let frames = format!("firstbyte_wire_frames_total {}\n", capture["frames"]);
    assert!(metrics.contains(&frames), "{frames}{metrics}");
    assert_eq!(read(&scene, "other"), "404");
}

#[test]
fn windows_all_interfaces_and_loopback() {
    let _permits = Permits::one();
    let scene = Scene::new(LINKS);
    let script = format!(
        r#"{AWAIT}
        "$FIRSTBYTE" wire -i any --port 443 --for 12s --json >any 2>any.notes &
        any=$!
        "$FIRSTBYTE" wire -i lo --port 9464 --for 12s >lo 2>lo.notes &
        lo=$!
        "$FIRSTBYTE" wire diff -i eth0 --for 2s --for 2s --json --html diff.html --csv=diff.csv \
            >diff 2>diff.notes &
        diff=$!
        await any.notes capturing
        await lo.notes capturing
        await diff.notes capturing
        "$FIRSTBYTE" --json -n 5 -4 https://server.test/ >/dev/null
        curl -s http://127.0.0.1:9464/ || true
        wait $any; wait $lo; wait $diff
        ! "$FIRSTBYTE" wire -i nowhere 2>nowhere
        ! setpriv --bounding-set=-net_raw "$FIRSTBYTE" wire -i lo 2>refused"#
    );
    let (code, _, stderr) = in_lab(&scene, &script);
    assert_eq!(code, 0, "{stderr}");
    let (any, _) = connections(&read(&scene, "any"));
    assert!((5..=6).contains(&any.len()), "{}", read(&scene, "any.notes"));
    for connection in any.values() {
        assert_eq!(connection["tls"]["complete"], true);
        assert_eq!(connection["sent"]["duplicate_packets"], 0);
    }
    // A SYN and the RST that answers it, each captured once.
    let lo = read(&scene, "lo");
    assert!(lo.starts_with("2 frames, 2 TCP and 0 UDP"), "{lo}");
    assert!(lo.contains("refused"), "{lo}");
    let diff: Value = serde_json::from_str(&read(&scene, "diff")).unwrap();
    assert_eq!(diff["format"], "firstbyte/wire-diff");
    assert!(read(&scene, "diff.html").contains("<title>What changed on eth0</title>"));
    assert!(read(&scene, "diff.csv").starts_with("server,against,what,"));
    assert_eq!(read(&scene, "diff.notes").matches("frames were dropped").count(), 2);
    let nowhere = read(&scene, "nowhere");
    let expected = "error: nowhere: no such interface\nhint: known interfaces: lo, eth0; \"any\"";
    assert!(nowhere.starts_with(expected), "{nowhere}");
    let refused = read(&scene, "refused");
    assert!(refused.starts_with("error: lo: not permitted to capture\nhint: "), "{refused}");
    assert!(refused.contains("CAP_NET_RAW"), "{refused}");
}

#[test]
fn drops_are_counted_and_mark_the_connections_they_may_have_touched() {
    let _permits = Permits::one();
    let scene = Scene::new(LINKS);
    let script = format!(
        r#"{AWAIT}
        "$FIRSTBYTE" wire -i eth0 --port 443 --buffer 1 --json >live 2>notes &
        live=$!
        await notes capturing
        "$FIRSTBYTE" --json -n 3 -4 https://server.test/ >/dev/null
        sleep 1
        kill -STOP $live
        "$FIRSTBYTE" --json -n 20 -4 https://server.test/ >/dev/null
        kill -CONT $live
        sleep 1
        kill -INT $live
        wait $live"#
    );
    let (code, _, stderr) = in_lab(&scene, &script);
    assert_eq!(code, 0, "{stderr}");
    let (live, capture) = connections(&read(&scene, "live"));
    let dropped = capture.unwrap()["dropped_frames"].as_u64().unwrap();
    assert!(dropped > 100, "{dropped}");
    assert!(read(&scene, "notes").contains("frames were dropped"));
    let mut by_time: Vec<&Value> = live.values().collect();
    by_time.sort_by_key(|connection| connection["started_unix_ns"].as_i64());
    let has = |connection: &Value, name: &str| {
        connection["doubts"].as_array().unwrap().iter().any(|doubt| doubt == name)
    };
    let marked = |connection: &&Value| has(connection, "frames-dropped");
    assert!(by_time.len() > 3, "{}", by_time.len());
    assert!(!by_time[..3].iter().any(marked));
    // The end of the fourth (warm-up included) may be seen only after the gap.
    let known = |connection: &&Value| marked(connection) || has(connection, "mid-stream");
    assert!(by_time[4..].iter().all(known));
    assert!(by_time.iter().any(marked));
}
