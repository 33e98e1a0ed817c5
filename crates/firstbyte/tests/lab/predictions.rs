//! Predictions compared with the lab: every way to connect, and a few with small windows and BBR.
//!
//! The benchmark `predict` measures the whole grid; `docs/prediction.md` has its table.

use std::process::Command;
use std::time::Duration;

use firstbyte::runs::Run;
use firstbyte_core::run::Metric;
use firstbyte_predict::{CongestionControl, Http, Reuse, Session, Tls, Way};

use crate::grid::{Compared, Grid};
use crate::support::{PROGRAM, Permits};

const RTT: Duration = Duration::from_millis(40);

fn grid(ways: Vec<Way>) -> Grid {
    Grid {
        rtts: vec![RTT],
        chains: vec![0, 6_000],
        responses: vec![1_000, 20_000],
        ways,
        samples: 7,
        congestion_control: CongestionControl::Cubic,
        initial_window: 10,
    }
}

/// Asserts that the fastest samples show no round trip too many or too few.
#[track_caller]
fn assert_true(compared: &[Compared]) {
    for case in compared {
        assert!(
            case.fastest.abs_diff(case.predicted) < RTT / 2,
            "{} over {:?}, {:?}: {} bytes of chain, {} of response: measured {:?}, predicted {:?}",
            case.way.label(),
            case.rtt,
            case.metric,
            case.chain,
            case.response,
            case.fastest,
            case.predicted,
        );
    }
    // A busy machine delays handshakes, but at least half of the fastest samples are close.
    let close = |case: &&Compared| case.fastest.abs_diff(case.predicted) < RTT / 10;
    let count = compared.iter().filter(close).count();
    assert!(count * 2 > compared.len(), "{count} of {} are close", compared.len());
}

/// Every third way on new connections, and the largest sizes. Kept connections rest between visits: that takes minutes.
#[test]
fn some_ways_take_what_was_predicted() {
    let _permits = Permits::one();
    let new = Way::all().into_iter().filter(|way| way.reuse == Reuse::New);
    let ways = new.step_by(3).collect();
    let grid = Grid { chains: vec![6_000], responses: vec![20_000], samples: 5, ..grid(ways) };
    assert_true(&grid.compare().unwrap());
}

#[test]
#[ignore = "four minutes: scripts/test --full"]
fn every_way_takes_what_was_predicted() {
    let _permits = Permits::one();
    let ways = Way::all();
    let compared = grid(ways.clone()).compare().unwrap();
    // Chains × responses; first byte and total, except for the total of kept-alive HTTP/3.
    assert!(compared.len() >= (ways.len() * 2 - 1) * 2 * 2);
    assert_true(&compared);
}

#[test]
fn small_windows_and_bbr_take_what_was_predicted() {
    let _permits = Permits::one();
    let way = |tls| Way { tls, session: Session::Full, http: Http::V1_1, ..Way::default() };
    let ways = vec![way(Tls::V1_2), way(Tls::V1_3)];
    // There are few ways. With more samples, at least one of each is hardly disturbed by other work on the machine.
    let grid = |ways| Grid { samples: 9, ..grid(ways) };
    let small = Grid { initial_window: 2, ..grid(ways.clone()) };
    assert_true(&small.compare().unwrap());
    let bbr = Grid {
        congestion_control: CongestionControl::Bbr,
        responses: vec![20_000, 60_000],
        ..grid(ways)
    };
    assert_true(&bbr.compare().unwrap());
}

/// Twelve requests, 40 ms away, once over a link that they share: the prediction from a run without that link also
/// holds with it.
#[test]
fn several_requests_take_what_was_predicted() {
    let _permits = Permits::all();
    let directory = tempfile::tempdir().unwrap();
    let server = |number: u32, rate: &str| {
        format!(
            "[[host]]\nname = \"server{number}\"\nrole = \"server\"\n\
             ipv4 = \"198.51.100.{number}\"\nnames = [\"server{number}.test\"]\n\
             server = {{ kind = \"builtin\", http3 = true }}\n\
             up = {{ delay = \"20ms\"{rate} }}\ndown = {{ delay = \"20ms\" }}\n"
        )
    };
    let scenario = "description = \"two servers, one behind a slow link\"\n\
         [[host]]\nname = \"client\"\nrole = \"client\"\nipv4 = \"192.0.2.10\"\n"
        .to_owned()
        + &server(1, "")
        + &server(2, ", rate = \"10mbit\", queue = \"100ms\"");
    let file = directory.path().join("shared.toml");
    std::fs::write(&file, scenario).unwrap();
    let ways = ["--requests", "12", "--vary", "parallel=1,6,h2,h3"];
    for number in ["1", "2"] {
        let url = format!("https://server{number}.test/bytes/20000");
        let (at, run) = (format!("*:*:198.51.100.{number}"), format!("{number}.run"));
        let compare = ["compare", &url, "--resolve", &at, "-4", "-s", "-n", "9"];
        let more = ["--interval", "0.1", "--run", &run];
        let words = [&["lab", "run", file.to_str().unwrap(), "--", PROGRAM], &compare[..]].concat();
        let words = [&words[..], &ways, &more].concat();
        let output = Command::new(PROGRAM).args(words).current_dir(directory.path()).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    for (number, rate) in [("1", &[][..]), ("2", &["--rate", "10mbit"])] {
        let words = [&["predict", "--from", "1.run", "--json"], &ways[..], rate].concat();
        let output = Command::new(PROGRAM).args(words).current_dir(directory.path()).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let json = String::from_utf8(output.stdout).unwrap();
        let predicted: Vec<serde_json::Value> =
            json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(predicted.len(), 4);
        let run = Run::read(&directory.path().join(format!("{number}.run"))).unwrap();
        for (cell, predicted) in (0u16..).zip(&predicted) {
            let of_cell = run.rows.iter().filter(|row| row.counts() && row.cell == cell);
            let totals = of_cell.filter_map(|row| row.metric(Metric::Total));
            // The name is known, so the resolver has no part in it. A busy machine delays samples: use the fastest.
            let measured = totals.min().unwrap() as f64 / 1e6;
            let predicted_ms = predicted["requests"]["total_ns"].as_f64().unwrap() / 1e6;
            let allowed = (measured * 0.05).max(5.0);
            assert!(
                (predicted_ms - measured).abs() < allowed,
                "{} {rate:?}: measured {measured} ms, predicted {predicted_ms} ms",
                predicted["factors"]["parallel"],
            );
        }
    }
}

/// A chain that fills a window of two segments twice: with a window of ten, two round trips would be missing.
#[test]
fn what_is_predicted_from_a_run_has_its_initial_window() {
    let _permits = Permits::one();
    let directory = tempfile::tempdir().unwrap();
    let firstbyte = |words: &[&str]| {
        let output = Command::new(PROGRAM).args(words).current_dir(directory.path()).output();
        let output = output.unwrap();
        let [stdout, stderr] =
            [output.stdout, output.stderr].map(|o| String::from_utf8(o).unwrap());
        assert!(output.status.success(), "{words:?}: {stderr}");
        (stdout, stderr)
    };
    let far = "https://far.curl-length.test/";
    let compare = ["compare", far, "--vary", "tls=1.2", "-n", "5", "--interval", "0", "-s"];
    let lab = ["lab", "run", "curl-length", "--", PROGRAM];
    firstbyte(&[&lab[..], &compare, &["--run", "far.run"]].concat());
    let run = Run::read(&directory.path().join("far.run")).unwrap();
    let totals = run.rows.iter().filter(|row| row.counts()).filter_map(|r| r.metric(Metric::Total));
    let measured = totals.min().unwrap() as f64;
    let (json, notes) = firstbyte(&["predict", "--from", "far.run", "--vary", "tls=1.2", "--json"]);
    assert!(notes.contains("an initial window of 2 segments"), "{notes}");
    let line: serde_json::Value = serde_json::from_str(&json).unwrap();
    let predicted = line["total_ns"].as_f64().unwrap();
    // The run does not contain the link's rate, which accounts for 11 ms of 512.
    assert!((predicted / measured - 1.0).abs() < 0.04, "{predicted} {measured}");
}
