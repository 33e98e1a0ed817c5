//! Session resumption and early data: the program's proofs and times, compared with the servers' logs.

use std::path::Path;
use std::time::Duration;

use firstbyte::runs::Run;
use firstbyte_core::run::{Metric, Row, Standing};
use firstbyte_lab::access_log::Entry;

use crate::support::{PROGRAM, Permits, Scene, firstbyte, least, run, text};

const ROUNDS: usize = 12;
const WARMUP: usize = 1;
const RTT: Duration = Duration::from_millis(20);
/// Slack for processing, at the median: less than a round trip, so that round trips can be counted.
const SLACK: Duration = Duration::from_millis(19);

const TLS12_TICKET: &str = "TLS 1.2 by ticket: tls=1.2 http=2 session=ticket";
const TLS12_SESSION_ID: &str = "TLS 1.2 by session ID: tls=1.2 http=2 session=session-id";
const TLS13_RESUMED: &str = "TLS 1.3 resumed: tls=1.3 http=2 session=resumed";
const TLS13_EARLY: &str = "TLS 1.3 0-RTT: tls=1.3 http=2 session=0rtt";
const HTTP3_RESUMED: &str = "HTTP/3 resumed: http=3 session=resumed";
const HTTP3_EARLY: &str = "HTTP/3 0-RTT: http=3 session=0rtt";

/// With a ClientHello of one datagram: of two that arrive at once, Caddy 2.6 may lose the second.
const HTTP3_RESUMED_SMALL: &str = "HTTP/3 resumed: http=3 kex=x25519 session=resumed";
const HTTP3_EARLY_SMALL: &str = "HTTP/3 0-RTT: http=3 kex=x25519 session=0rtt";

/// Round trips to the first byte, without the name lookup.
fn round_trips(way: &str) -> u32 {
    match way {
        TLS12_TICKET | TLS12_SESSION_ID | TLS13_RESUMED => 3,
        TLS13_EARLY | HTTP3_RESUMED | HTTP3_RESUMED_SMALL => 2,
        HTTP3_EARLY | HTTP3_EARLY_SMALL => 1,
        other => panic!("{other}"),
    }
}

/// A lab with a server of this kind: the measured run, and the server's log.
struct Measured {
    run: Run,
    log: Vec<Entry>,
}

fn measured(server: &str, ways: &[&str]) -> Measured {
    let scene = Scene::with_servers(&format!(
        r#"
[[host]]
name = "server"
role = "server"
ipv4 = "198.51.100.1"
names = ["server.test"]
server = {{ page_bytes = 2000, {server} }}
up = {{ delay = "10ms" }}
down = {{ delay = "10ms" }}
"#
    ));
    let (logs, file) = (scene.path("logs"), scene.path("sessions.run"));
    let mut command = firstbyte(&["lab", "run"]);
    command.arg(scene.file()).arg("--logs").arg(&logs);
    command.args(["--", PROGRAM, "compare", "https://server.test/", "--interval", "0"]);
    command.args(["-n", &ROUNDS.to_string(), "--warmup", &WARMUP.to_string()]);
    command.arg("--run").arg(&file).args(ways.iter().flat_map(|way| ["--variant", *way]));
    let output = run(&mut command);
    assert!(output.status.success(), "{}{}", text(&output.stderr), text(&output.stdout));
    Measured { run: Run::read(&file).unwrap(), log: Entry::read_all(&log_of(&logs)).unwrap() }
}

fn log_of(logs: &Path) -> std::path::PathBuf {
    let files: Vec<_> = std::fs::read_dir(logs).unwrap().map(|file| file.unwrap().path()).collect();
    assert_eq!(files, [logs.join("server-server.log")]);
    files[0].clone()
}

impl Measured {
    /// Asserts that every sample of every way is as requested.
    fn assert_proven(&self, ways: &[&str]) {
        let otherwise: Vec<&Row> =
            self.run.rows.iter().filter(|row| row.standing != Standing::Proven).collect();
        assert!(otherwise.is_empty(), "{otherwise:?}");
        assert_eq!(self.run.rows.len(), ways.len() * (ROUNDS + WARMUP));
        assert!(self.run.bad_lines.is_empty(), "{:?}", self.run.bad_lines);
    }

    /// Asserts that the server saw as many requests as these ways have samples, plus one with a full handshake before
    /// the first sample of each way.
    fn assert_log_agrees(&self, what: &str, ways: &[&str], is_of_ways: impl Fn(&Entry) -> bool) {
        let of_ways = self.log.iter().filter(|entry| is_of_ways(entry));
        let seen = of_ways.fold([0; 3], |[full, resumed, early], entry| {
            assert_eq!(entry.status, 200, "{entry}");
            match (entry.resumed, entry.early) {
                (Some(false), Some(false)) => [full + 1, resumed, early],
                (Some(true), Some(false)) => [full, resumed + 1, early],
                (Some(true), Some(true)) => [full, resumed, early + 1],
                _ => panic!("{entry}"),
            }
        });
        let samples = |wanted: bool| {
            let is_early = |way: &&&str| way.ends_with("0rtt");
            ways.iter().filter(|way| is_early(way) == wanted).count() * (ROUNDS + WARMUP)
        };
        println!("  {what}: server saw full, resumed, early: {seen:?}");
        assert_eq!(seen, [ways.len(), samples(false), samples(true)], "{what}: {:#?}", self.log);
    }

    /// Asserts that the first byte comes after the way's number of round trips, counted from the name lookup.
    fn assert_times(&self, ways: &[&str]) {
        let first_byte = |cell: usize| {
            let rows = self.run.rows.iter().filter(|row| usize::from(row.cell) == cell);
            let after_lookup = |row: &Row| {
                let at = |metric| row.metrics.get(metric).unwrap_or_default();
                at(Metric::Ttfb) - at(Metric::Resolve)
            };
            least(rows.filter(|row| !row.warmup).map(after_lookup))
        };
        let times: Vec<Duration> = (0..ways.len()).map(first_byte).collect();
        println!("  {:?}", ways.iter().zip(&times).collect::<Vec<_>>());
        for (way, time) in ways.iter().zip(&times) {
            let from = RTT * round_trips(way);
            assert!((from..from + SLACK).contains(time), "{way}: {time:?}");
        }
        // Each pair of ways differs by the round trips between them.
        for (way, time) in ways.iter().zip(&times) {
            for (other, later) in ways.iter().zip(&times) {
                if let Some(saved @ 1..) = round_trips(other).checked_sub(round_trips(way)) {
                    let apart = later.saturating_sub(*time);
                    assert!(apart.abs_diff(RTT * saved) < RTT / 2, "{way}, {other}: {apart:?}");
                }
            }
        }
    }
}

const WAYS: [&str; 6] =
    [TLS12_TICKET, TLS12_SESSION_ID, TLS13_RESUMED, TLS13_EARLY, HTTP3_RESUMED, HTTP3_EARLY];

/// For nginx over TCP with the built-in server's HTTP/3 next to it, or for the built-in server alone.
fn over_tcp_and_quic(server: &str) {
    let measured = measured(server, &WAYS);
    measured.assert_proven(&WAYS);
    let (tls12, tls13, http3) = (&WAYS[..2], &WAYS[2..4], &WAYS[4..]);
    let of = |protocol: &'static str, tls: &'static str| {
        move |entry: &Entry| entry.protocol == protocol && entry.tls.as_deref() == Some(tls)
    };
    measured.assert_log_agrees("TLS 1.2", tls12, of("HTTP/2.0", "TLSv1.2"));
    measured.assert_log_agrees("TLS 1.3", tls13, of("HTTP/2.0", "TLSv1.3"));
    measured.assert_log_agrees("HTTP/3", http3, of("HTTP/3.0", "TLSv1.3"));
    assert_eq!(measured.log.len(), WAYS.len() * (1 + ROUNDS + WARMUP));
    measured.assert_times(&WAYS);
}

#[test]
fn nginx_agrees() {
    let _permits = Permits::one();
    over_tcp_and_quic(r#"kind = "nginx", early_data = "on", http3 = true"#);
}

#[test]
fn the_built_in_server_agrees() {
    let _permits = Permits::one();
    over_tcp_and_quic(r#"kind = "builtin", early_data = "on", http3 = true"#);
}

/// Caddy logs sessions over TCP, but for HTTP/3 only that a request arrived.
#[test]
fn caddy_agrees() {
    let _permits = Permits::one();
    let ways = [TLS12_TICKET, TLS13_RESUMED, HTTP3_RESUMED_SMALL, HTTP3_EARLY_SMALL];
    let measured = measured(r#"kind = "caddy""#, &ways);
    measured.assert_proven(&ways);
    let count = |protocol: &str, tls: Option<&str>, resumed: Option<bool>| {
        let mut entries: Vec<&Entry> = measured.log.iter().collect();
        entries.retain(|e| e.protocol == protocol && e.tls.as_deref() == tls && e.status == 200);
        entries.iter().filter(|entry| entry.resumed == resumed).count()
    };
    for tls in ["TLSv1.2", "TLSv1.3"] {
        let seen = [false, true].map(|resumed| count("HTTP/2.0", Some(tls), Some(resumed)));
        println!("  Caddy, {tls}: server saw full, resumed: {seen:?}");
        assert_eq!(seen, [1, ROUNDS + WARMUP], "{tls}: {:#?}", measured.log);
    }
    assert_eq!(count("HTTP/3.0", None, None), 2 * (1 + ROUNDS + WARMUP));
    assert_eq!(measured.log.len(), ways.len() * (1 + ROUNDS + WARMUP));
    measured.assert_times(&ways);
}
