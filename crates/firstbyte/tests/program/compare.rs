//! `firstbyte compare` on loopback: which samples count in each cell, and where servers deviate from the request.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use firstbyte::runs::Run;
use firstbyte_core::run::{Metric, Shortfall, Standing};
use firstbyte_lab::builtin_server::{
    Config, EarlyData, Handle, KexGroup, Listeners, Resumption, TlsVersions, spawn,
};
use firstbyte_lab::ca::Ca;

use rustls::ProtocolVersion;
use rustls::version::{TLS12, TLS13};
use serde_json::Value;

use crate::support::certificates::good;
use crate::support::files::Directory;
use crate::support::peer::{Peer, TlsStream, answer, drain, read_head};
use crate::support::run::{Outcome, firstbyte};

/// A server, and a directory for outputs.
struct Bench {
    server: Handle,
    directory: Directory,
}

impl Bench {
    fn new(change: impl FnOnce(&mut Config)) -> Self {
        let ca = Ca::new().unwrap();
        let mut config = Config::new(ca.issue(&["localhost".to_owned()]).unwrap());
        config.early_data = EarlyData::Accept;
        change(&mut config);
        let server = spawn(config, Listeners::loopback_with_quic().unwrap()).unwrap();
        let directory = Directory::new();
        std::fs::write(directory.path().join("ca.pem"), ca.root_pem()).unwrap();
        Self { server, directory }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn url(&self) -> String {
        format!("https://localhost:{}/", self.server.addr().port())
    }

    fn words(&self, more: &[&str]) -> Vec<String> {
        let url = self.url();
        let words = ["compare", &url, "--cacert", "ca.pem", "-4", "--interval", "0", "--silent"];
        let run = ["--run", "a.run", "-n", "5"];
        words.iter().chain(&run).chain(more).map(|word| (*word).to_owned()).collect()
    }

    fn compare(&self, more: &[&str]) -> Outcome {
        firstbyte(self.directory.path(), &self.words(more))
    }

    /// The standings of each cell's samples, without the warm-up.
    fn standings(&self, more: &[&str]) -> Vec<(String, Vec<Standing>)> {
        let outcome = self.compare(more);
        assert_eq!(outcome.code, 0, "{}\n{}", outcome.stderr, outcome.stdout);
        let run = Run::read(&self.file("a.run")).unwrap();
        let of_cell = |index: usize| {
            let rows = run.rows.iter().filter(|r| usize::from(r.cell) == index && !r.warmup);
            rows.map(|row| row.standing).collect()
        };
        let cells = run.header.cells().into_iter().enumerate();
        cells.map(|(index, cell)| (cell.name(), of_cell(index))).collect()
    }
}

fn assert_all(standings: &[(String, Vec<Standing>)], expected: Standing) {
    for (name, standings) in standings {
        assert_eq!(standings, &[expected; 5], "{name}");
    }
}

#[test]
fn urls_are_compared_with_each_other() {
    let directory = Directory::new();
    let urls = ["https://a.test/", "https://b.test/x"];
    let planned = firstbyte(directory.path(), &[&["compare", "--dry-run"], &urls[..]].concat());
    assert_eq!(planned.code, 0, "{planned:?}");
    assert!(planned.stdout.contains("a.test") && planned.stdout.contains("b.test"), "{planned:?}");
    let same_host = ["compare", "--dry-run", "https://a.test/x", "https://a.test/y"];
    let planned = firstbyte(directory.path(), &same_host);
    assert!(planned.stdout.contains("URL 1") && planned.stdout.contains("URL 2"), "{planned:?}");
}

#[test]
fn every_way_to_take_up_a_session_is_proven() {
    let bench = Bench::new(|config| config.resumption = Resumption::Both);
    let standings = bench.standings(&[
        "--vary",
        "tls=1.2,1.3",
        "--vary",
        "session=full,resumed,session-id,ticket,psk,0rtt",
        "--vary",
        "http=1.1,2",
    ]);
    assert_eq!(standings.len(), 16, "{standings:?}");
    assert_all(&standings, Standing::Proven);
}

#[test]
fn a_post_quantum_group_a_kept_connection_and_both_schemes_are_proven() {
    let bench = Bench::new(|_| ());
    let kex = "kex=x25519,p256,x25519mlkem768";
    assert_all(&bench.standings(&["--vary", kex]), Standing::Proven);
    std::fs::remove_file(bench.file("a.run")).unwrap();
    let reuse = ["--vary", "connection=new,reused", "--vary", "http=1.1,2"];
    let standings = bench.standings(&reuse);
    assert_all(&standings, Standing::Proven);
    let run = Run::read(&bench.file("a.run")).unwrap();
    for (index, cell) in run.header.cells().iter().enumerate() {
        let reused = cell.factors[0].value == "reused";
        let rows = run.rows.iter().filter(|row| usize::from(row.cell) == index);
        assert!(rows.clone().all(|row| row.metric(Metric::Connect).is_none() == reused));
        assert!(rows.clone().all(|row| row.metric(Metric::Wait).is_some()));
    }
    std::fs::remove_file(bench.file("a.run")).unwrap();
    let scheme = format!("scheme=https,http:{}", bench.server.http_addr().unwrap().port());
    assert_all(&bench.standings(&["--vary", &scheme]), Standing::Proven);
}

#[test]
fn what_visits_take_of_the_processor_is_told_where_it_can_be() {
    let bench = Bench::new(|_| ());
    let processor = |more: &[&str]| -> Vec<Option<u64>> {
        let _ = std::fs::remove_file(bench.file("a.run"));
        let words = ["--vary", "tls=1.2,1.3", "--json=a.json", "--html", "a.html"];
        let words: Vec<&str> = words.iter().chain(more).copied().collect();
        let outcome = bench.compare(&words);
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        let heading = "Median processor time of the client per sample";
        let told = outcome.stdout.contains(heading);
        let page = std::fs::read_to_string(bench.file("a.html")).unwrap();
        assert_eq!(page.contains(&heading.replace('\'', "&#39;")) || page.contains(heading), told);
        assert!(told || !more.is_empty(), "{}", outcome.stdout);
        let text = std::fs::read_to_string(bench.file("a.json")).unwrap();
        let samples = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let sum = |sample: Value| {
            let time = sample.get("processor")?.clone();
            Some(time["user_ns"].as_u64().unwrap() + time["system_ns"].as_u64().unwrap())
        };
        samples.map(sum).collect()
    };
    let alone = processor(&[]);
    // The slowest plausible machine does about ten handshakes and verifications per second.
    let plausible = |ns: &Option<u64>| ns.is_some_and(|ns| (10_000..1_000_000_000).contains(&ns));
    assert!(alone.iter().all(plausible), "{alone:?}");
    let side_by_side = processor(&["--concurrent"]);
    assert!(side_by_side.iter().any(Option::is_none), "{side_by_side:?}");
}

#[test]
fn ways_are_compared_percentile_by_percentile() {
    let bench = Bench::new(|_| ());
    let mut words =
        bench.words(&["--vary", "tls=1.2,1.3", "--percentiles=p.csv", "--html", "a.html"]);
    let rounds = words.iter().position(|word| word == "-n").unwrap() + 1;
    words[rounds] = "40".into();
    let outcome = firstbyte(bench.directory.path(), &words);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let text = std::fs::read_to_string(bench.file("p.csv")).unwrap();
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    let at = |name: &str| rows[0].iter().position(|column| *column == name).expect(name);
    let tls: Vec<&Vec<&str>> = rows.iter().filter(|row| row[at("metric")] == "tls").collect();
    // In 40 rounds, two samples are expected below the 5th percentile, and fewer than one above the 99th.
    let percentiles: Vec<u32> = tls.iter().map(|r| r[at("percentile")].parse().unwrap()).collect();
    assert_eq!(percentiles, (1..20).map(|n| n * 5).collect::<Vec<u32>>());
    for row in &tls {
        assert_eq!((row[at("axis_tls")], row[at("rounds")]), ("1.2 > 1.3", "40"));
        let number = |name: &str| row[at(name)].parse::<f64>();
        let [base, variant] = ["base_us", "variant_us"].map(|name| number(name).unwrap());
        let difference = number("difference_us").unwrap();
        assert!((difference - (variant - base)).abs() < 0.002, "{row:?}");
        let interval = ["difference_low_us", "difference_high_us"].map(number);
        // A confidence interval needs ten rounds on either side.
        match row[at("percentile")] {
            "25" | "30" | "35" | "40" | "45" | "50" | "55" | "60" | "65" | "70" | "75" => {
                let [low, high] = interval.map(Result::unwrap);
                assert!(low <= difference && difference <= high, "{row:?}");
            }
            _ => assert!(interval.iter().all(Result::is_err), "{row:?}"),
        }
    }
    let page = std::fs::read_to_string(bench.file("a.html")).unwrap();
    assert!(page.contains("Differences at each percentile"));
    let stored = firstbyte(bench.directory.path(), &["report", "a.run", "--percentiles"]);
    assert_eq!((stored.code, stored.stdout), (0, text));
}

#[test]
fn what_a_server_refuses_is_counted_apart() {
    let cases: [(EarlyData, Shortfall); 3] = [
        (EarlyData::Reject, Shortfall::EarlyDataRejected),
        (EarlyData::TooEarly, Shortfall::TooEarly),
        (EarlyData::Off, Shortfall::EarlyDataNotAllowed),
    ];
    for (early_data, shortfall) in cases {
        let bench = Bench::new(|config| config.early_data = early_data);
        for http in ["http=1.1", "http=2", "http=3"] {
            let standings = bench.standings(&["--vary", "session=0rtt", "--vary", http]);
            assert_all(&standings, Standing::Unproven(shortfall));
            std::fs::remove_file(bench.file("a.run")).unwrap();
        }
    }
    let bench = Bench::new(|config| config.resumption = Resumption::None);
    let standings = bench.standings(&["--vary", "session=resumed"]);
    assert_all(&standings, Standing::Unproven(Shortfall::NoSession));
}

/// The standings of one way to connect to a server other than the built-in one.
fn standings_at(url: &str, vary: &str) -> Vec<Standing> {
    let directory = Directory::new();
    let words = ["compare", url, "--cacert", "ca.pem", "--vary", vary, "-n", "5"];
    let more = ["--interval", "0", "--silent", "--run", "a.run"];
    let outcome = firstbyte(directory.path(), &[&words[..], &more].concat());
    assert_eq!(outcome.code, 0, "{}\n{}", outcome.stderr, outcome.stdout);
    let run = Run::read(&directory.path().join("a.run")).unwrap();
    run.rows.iter().filter(|row| !row.warmup).map(|row| row.standing).collect()
}

/// With `Connection: close`, an HTTP/1.0 response, or a server that closes silently, the next request finds no open
/// connection and opens a new one.
#[test]
fn a_server_that_closes_is_not_reused_and_no_failure() {
    for head in [
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    ] {
        let peer = Peer::tcp(|stream| answer(stream, head.as_bytes()));
        let url = format!("http://127.0.0.1:{}/", peer.port());
        let standings = standings_at(&url, "connection=reused");
        assert_eq!(standings, [Standing::Unproven(Shortfall::NotReused); 5], "{head}");
    }
}

/// A TLS 1.2 and 1.3 server that answers every request with the result of `response`.
fn answering(response: impl Fn(&TlsStream) -> Vec<u8> + Send + Sync + 'static) -> Peer {
    let config = crate::support::certificates::versions(&good(), &[], &[&TLS12, &TLS13]);
    Peer::tls(config, move |stream| {
        while read_head(stream).ends_with("\r\n\r\n") {
            let response = response(stream);
            stream.write_all(&response).and_then(|()| stream.flush()).unwrap();
        }
    })
}

/// The text on one line, regardless of its width.
fn unwrapped(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn bodies_of_other_sizes_are_told_and_not_compared() {
    let peer = answering(|stream| {
        let is_12 = stream.conn.protocol_version() == Some(ProtocolVersion::TLSv1_2);
        let body = "x".repeat(if is_12 { 500_000 } else { 5 });
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
    });
    let directory = Directory::new();
    let url = format!("https://127.0.0.1:{}/", peer.port());
    let words = ["compare", &url, "--cacert", "ca.pem", "--vary", "tls=1.2,1.3", "-n", "20"];
    let more = ["--interval", "0", "--silent", "--run", "a.run", "--html", "a.html"];
    let outcome = firstbyte(directory.path(), &[&words[..], &more].concat());
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let run = Run::read(&directory.path().join("a.run")).unwrap();
    for row in &run.rows {
        let bytes = [500_000, 5][usize::from(row.cell)];
        assert_eq!((row.answer.status(), row.answer.body_bytes()), (Some(200), Some(bytes)));
    }
    let stored = firstbyte(directory.path(), &["report", "a.run"]);
    let answers =
        ["TLS 1.2: 20 with status 200, 500,000 bytes", "TLS 1.3: 20 with status 200, 5 bytes"];
    for Outcome { stdout, stderr, .. } in [&outcome, &stored] {
        assert!(answers.iter().all(|answer| stdout.contains(answer)), "{stdout}");
        assert!(
            stdout.contains("were verified on the wire, but their answers differ."),
            "{stdout}"
        );
        let found = unwrapped(stdout);
        let no_verdict = "TLS 1.3 and TLS 1.2: no verdict on the median total time, because the \
                          answers differ (bodies of 5 and 500,000 bytes)";
        assert!(found.contains(no_verdict), "{stdout}");
        assert!(!found.contains("the median total time by"), "{stdout}");
        let warning = format!("warning: the answers differ: {}\n", answers.join("; "));
        assert!(stderr.contains(&warning), "{stderr}");
        assert!(stderr.contains("hint: --compare-unlike"), "{stderr}");
    }
    let page = std::fs::read_to_string(directory.path().join("a.html")).unwrap();
    assert!(page.contains("Answers by variant") && page.contains("no verdict on the median total"));
    let asked_for = firstbyte(directory.path(), &["report", "a.run", "--compare-unlike"]);
    assert_eq!((asked_for.code, asked_for.stderr.as_str()), (0, ""));
    assert!(!asked_for.stdout.contains("no verdict"), "{}", asked_for.stdout);
    assert!(asked_for.stdout.contains(answers[0]), "{}", asked_for.stdout);
    let grown = ["check", "--from", "a.run", "--fail-if", "tls=1.3: total +5%"];
    let changed = firstbyte(directory.path(), &[&grown[..], &["--baseline", "a.run"]].concat());
    assert!(!changed.stdout.contains("bodies of"), "{}", changed.stdout);
}

/// Six responses take normal time; all others are immediate errors.
#[test]
fn a_rate_limit_is_told_wherever_times_are_pooled() {
    let served = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&served);
    let peer = answering(move |_| match count.fetch_add(1, Ordering::SeqCst) {
        0..6 => {
            std::thread::sleep(Duration::from_millis(20));
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello".to_vec()
        }
        _ => b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n".to_vec(),
    });
    let directory = Directory::new();
    let url = format!("https://127.0.0.1:{}/", peer.port());
    let run = |words: &[&str]| {
        served.store(0, Ordering::SeqCst);
        let words = [words, &["--cacert", "ca.pem", "--silent", &url]].concat();
        let outcome = firstbyte(directory.path(), &words);
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        outcome
    };
    let probed = run(&["-n", "12"]);
    let told = unwrapped(&probed.stdout);
    for words in [" answers ", " with status 200", " with status 429", "0 to 5 bytes (their times"]
    {
        assert!(told.contains(words), "{}", probed.stdout);
    }
    let warning = format!("warning: the answers differ: {url}: ");
    assert!(probed.stderr.contains(&warning), "{}", probed.stderr);
    let compared = run(&["compare", "--vary", "tls=1.2,1.3", "-n", "10", "--run", "a.run"]);
    assert!(compared.stderr.contains("warning: the answers differ: TLS 1.2: "));
    let found = unwrapped(&compared.stdout);
    for words in
        ["no verdict on the median total time", "(status 200 and 429)", "but their answers differ."]
    {
        assert!(found.contains(words), "{}", compared.stdout);
    }
    let explained = run(&["explain", "-n", "5"]);
    let warning = "warning: the answers differ: as it is: ";
    assert!(explained.stderr.contains(warning), "{}", explained.stderr);
    // Errors leave a condition undecided: it is neither met nor passed.
    let check = ["check", "--from", "a.run", "--fail-if", "tls=1.2: total > 10s"];
    let checked = firstbyte(directory.path(), &check);
    assert!(
        checked.stdout.contains("the answers differ (status 200 and 429)"),
        "{}",
        checked.stdout
    );
    assert!(checked.stdout.starts_with("# firstbyte check: undecided"), "{}", checked.stdout);
}

/// A server that accepts early data but has no ALPN: HTTP/1.1 is spoken, as in the connection before.
#[test]
fn early_data_needs_no_alpn() {
    let mut config = crate::support::certificates::versions(&good(), &[], &[&TLS13]);
    config.max_early_data_size = 8 * 1024;
    let peer = Peer::tls(config, |stream| {
        let mut early = Vec::new();
        if let Some(mut sent_early) = stream.conn.early_data() {
            sent_early.read_to_end(&mut early).unwrap();
        }
        if early.is_empty() {
            read_head(stream);
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
        drain(stream);
    });
    let url = format!("https://127.0.0.1:{}/", peer.port());
    assert_eq!(standings_at(&url, "session=0rtt"), [Standing::Proven; 5]);
}

#[test]
fn a_rejected_request_is_answered_after_the_handshake() {
    let bench = Bench::new(|config| config.early_data = EarlyData::Reject);
    bench.standings(&["--vary", "session=0rtt"]);
    let run = Run::read(&bench.file("a.run")).unwrap();
    for index in 0..run.rows.len() {
        let sample = run.taken(index).unwrap().sample;
        let facts = &sample.connection.facts;
        assert_eq!(facts.http.as_ref().unwrap().status, Some(200));
        if sample.warmup {
            continue;
        }
        let early = facts.tls.as_ref().unwrap().early_data.unwrap();
        assert!(early.bytes_before_server_hello > Some(0) && early.accepted == Some(false));
        assert!(run.rows[index].metric(Metric::Tls).is_some());
        assert_eq!(sample.connection.marks.disorder(), None);
    }
}

#[test]
fn other_versions_and_groups_than_asked_for_are_failures_not_samples() {
    let bench = Bench::new(|config| {
        config.versions = TlsVersions::Tls12;
        config.groups = vec![KexGroup::P256];
    });
    let outcome = bench.compare(&["--vary", "tls=1.2,1.3"]);
    assert_eq!(outcome.code, 35, "{}", outcome.stderr);
    let run = Run::read(&bench.file("a.run")).unwrap();
    let failed = run.rows.iter().filter(|row| row.standing == Standing::Failed).count();
    assert_eq!((failed, run.rows.len()), (6, 12));
}

#[test]
fn a_post_is_not_sent_early_unless_told_to() {
    let bench = Bench::new(|_| ());
    let refused = bench.compare(&["--vary", "session=0rtt", "-d", "x=1"]);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("POST is not sent as early data"), "{}", refused.stderr);
    let any = ["--vary", "session=0rtt", "-d", "x=1", "--early-data-any-method"];
    assert_all(&bench.standings(&any), Standing::Proven);
}

#[test]
fn a_dry_run_names_cells_rounds_and_duration_and_sends_nothing() {
    let bench = Bench::new(|_| ());
    let outcome =
        bench.compare(&["--vary", "tls=1.2,1.3", "--vary", "session=full,0rtt", "--dry-run"]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
    assert!(outcome.stdout.starts_with("variants: 3\n"), "{}", outcome.stdout);
    assert!(
        outcome.stdout.contains("TLS 1.2, 0-RTT: only TLS 1.3 supports this"),
        "{}",
        outcome.stdout
    );
    assert!(outcome.stdout.contains("rounds: 5, after 1 to warm up"), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("expected duration"), "{}", outcome.stdout);
    assert!(!bench.file("a.run").exists());
}

#[test]
fn an_interrupted_run_goes_on_where_it_was() {
    // The run takes four seconds; another process begins and ends during it.
    let bench = Bench::new(|config| config.think_time = Duration::from_millis(50));
    let mut words = bench.words(&["--vary", "tls=1.2,1.3"]);
    let rounds = words.iter().position(|word| word == "-n").unwrap() + 1;
    words[rounds] = "40".into();
    let mut child = Command::new(env!("CARGO_BIN_EXE_firstbyte"))
        .args(&words)
        .current_dir(bench.directory.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let rows = || Run::read(&bench.file("a.run")).map_or(0, |run| run.rows.len());
    while rows() < 10 {
        std::thread::sleep(Duration::from_millis(5));
    }
    let second = firstbyte(bench.directory.path(), &["compare", "--continue", "a.run"]);
    assert_eq!(second.code, 23, "{}", second.stderr);
    assert!(second.stderr.contains("is being written by another"), "{}", second.stderr);
    child.kill().unwrap();
    child.wait().unwrap();
    let before = rows();
    assert!((10..82).contains(&before), "{before}");

    let outcome = firstbyte(bench.directory.path(), &["compare", "--continue", "a.run"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let run = Run::read(&bench.file("a.run")).unwrap();
    let mut taken: Vec<(u32, u16)> = run.rows.iter().map(|row| (row.round, row.cell)).collect();
    taken.sort_unstable();
    taken.dedup();
    assert_eq!((taken.len(), run.rows.len()), (82, 82));
}

#[test]
fn a_run_is_continued_as_the_experiment_it_was() {
    let bench = Bench::new(|_| ());
    bench.standings(&["--vary", "tls=1.2,1.3"]);
    let go_on = |more: &[&str]| {
        let words: Vec<&str> =
            ["compare", "--continue", "a.run"].iter().chain(more).copied().collect();
        firstbyte(bench.directory.path(), &words)
    };
    let rows = || Run::read(&bench.file("a.run")).unwrap().rows.len();
    for (more, length) in [(&["-n", "6"] as &[&str], 14), (&["-sn7"], 16), (&["--samples=8"], 18)] {
        let outcome = go_on(more);
        assert_eq!((outcome.code, rows()), (0, length), "{more:?} {}", outcome.stderr);
    }
    for more in
        [&["--seed", "9"] as &[&str], &["-k"], &["--max-samples", "9"], &["--until", "median±9%"]]
    {
        let outcome = go_on(more);
        assert_eq!((outcome.code, rows()), (2, 18), "{more:?} {}", outcome.stderr);
        assert!(outcome.stderr.contains("hint: "), "{}", outcome.stderr);
    }
}

/// A run file may be a gigabyte large.
#[test]
fn a_run_is_read_once_to_be_continued_and_once_to_be_shown() {
    let bench = Bench::new(|_| ());
    let reads = |words: &[String]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_firstbyte"));
        command.args(words).current_dir(bench.directory.path()).env("FIRSTBYTE_LOG", "runs=info");
        let output = command.output().unwrap();
        let log = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{log}");
        log.matches("reading a run").count()
    };
    assert_eq!(reads(&bench.words(&["--vary", "tls=1.2,1.3"])), 1);
    let more = ["compare", "--continue", "a.run", "-n", "6"].map(String::from);
    assert_eq!(reads(&more), 2);
}

#[test]
fn no_output_takes_the_place_of_the_run() {
    let bench = Bench::new(|_| ());
    let outcome = bench.compare(&["--vary", "tls=1.2,1.3", "--csv=./a.run"]);
    assert_eq!(outcome.code, 2, "{}", outcome.stdout);
    assert!(outcome.stderr.contains("./a.run is the run file"), "{}", outcome.stderr);
    assert!(!bench.file("a.run").exists());
    bench.standings(&["--vary", "tls=1.2,1.3"]);
    let before = std::fs::read(bench.file("a.run")).unwrap();
    let link = bench.file("link");
    std::os::unix::fs::symlink("a.run", link).unwrap();
    for words in [
        &["compare", "--continue", "a.run", "--html", "a.run"] as &[&str],
        &["compare", "--continue", "a.run", "--json=link"],
        &["check", "--from", "a.run", "--fail-if", "ttfb.median > 1s", "--summary", "link"],
        &[
            "check",
            "--plan",
            "p",
            "--run",
            "b.run",
            "--fail-if",
            "ttfb.p50 > 1s",
            "--summary",
            "b.run",
        ],
    ] {
        let outcome = firstbyte(bench.directory.path(), words);
        assert_eq!(outcome.code, 2, "{words:?} {}", outcome.stdout);
        assert!(outcome.stderr.contains("cannot be written as well"), "{}", outcome.stderr);
    }
    assert_eq!(std::fs::read(bench.file("a.run")).unwrap(), before);
    assert!(!bench.file("b.run").exists());
}

#[test]
fn what_cannot_be_set_up_leaves_no_file() {
    let bench = Bench::new(|_| ());
    let url = bench.url();
    let words = ["compare", &url, "--vary", "tls=1.2,1.3", "--run", "a.run", "--html", "a.html"];
    let words: Vec<&str> = words.into_iter().chain(["--cacert", "none.pem"]).collect();
    let outcome = firstbyte(bench.directory.path(), &words);
    assert_eq!(outcome.code, 77, "{}", outcome.stderr);
    assert!(!bench.file("a.run").exists() && !bench.file("a.html").exists());
}

#[test]
fn a_name_that_is_not_text_is_refused_in_words_where_a_run_would_keep_it() {
    use std::os::unix::ffi::OsStrExt;
    let bench = Bench::new(|_| ());
    let name = bench.file("x").with_file_name(std::ffi::OsStr::from_bytes(b"a\xff.pem"));
    std::fs::copy(bench.file("ca.pem"), &name).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_firstbyte"))
        .args(["compare", &bench.url(), "--vary", "tls=1.2,1.3", "--cacert"])
        .arg(&name)
        .current_dir(bench.directory.path())
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.starts_with("error: a file's name is not UTF-8"), "{stderr}");
}

#[test]
fn what_is_wrong_in_a_plan_is_told_of_the_plan() {
    let bench = Bench::new(|_| ());
    let plan = format!("url = '{}'\nvary = ['tls=1.2,1.3']\nflags = ['--nope']\n", bench.url());
    std::fs::write(bench.file("plan.toml"), plan).unwrap();
    let outcome = firstbyte(bench.directory.path(), &["compare", "--plan", "plan.toml"]);
    let expected = "error: --plan plan.toml: unexpected argument '--nope' found\n";
    assert_eq!((outcome.code, outcome.stderr.as_str()), (2, expected));
}

#[test]
fn runs_begun_in_the_same_second_have_names_of_their_own() {
    let bench = Bench::new(|config| config.think_time = Duration::from_millis(50));
    let url = bench.url();
    let children: Vec<_> = (0..3)
        .map(|_| {
            Command::new(env!("CARGO_BIN_EXE_firstbyte"))
                .args(["compare", &url, "--cacert", "ca.pem", "--vary", "tls=1.2,1.3", "-4"])
                .args(["-n", "2", "--silent"])
                .current_dir(bench.directory.path())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let names = std::fs::read_dir(bench.directory.path()).unwrap();
    let runs = names.filter(|name| {
        name.as_ref().unwrap().path().extension().is_some_and(|ending| ending == "run")
    });
    assert_eq!(runs.count(), 3);
}

#[test]
fn secrets_stay_in_the_run_file_which_is_its_owners() {
    use std::os::unix::fs::PermissionsExt;
    let bench = Bench::new(|_| ());
    let secrets = ["Bearer s3cret-1", "id=s3cret-2", "pw=s3cret-3", "Basic s3cret-4"];
    let headers = [
        format!("Authorization: {}", secrets[0]),
        format!("-HCookie: {}", secrets[1]),
        format!("--header=Proxy-Authorization: {}", secrets[3]),
    ];
    let outputs = ["--html", "a.html", "--svg", "svg", "--har", "a.har", "--json=a.json"];
    let words = ["--vary", "tls=1.2,1.3", "-H", &headers[0], &headers[1], &headers[2]];
    let words: Vec<&str> = words.into_iter().chain(["-d", secrets[2]]).chain(outputs).collect();
    let outcome = bench.compare(&words);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let mode = std::fs::metadata(bench.file("a.run")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let report = firstbyte(bench.directory.path(), &["report", "a.run", "--html", "b.html"]);
    assert_eq!(report.code, 0, "{}", report.stderr);
    let mut texts = vec![outcome.stdout, outcome.stderr, report.stdout];
    let pictures = std::fs::read_dir(bench.file("svg")).unwrap().map(|file| file.unwrap().path());
    let files = ["a.html", "b.html", "a.har", "a.json"].map(|name| bench.file(name));
    texts.extend(files.into_iter().chain(pictures).map(|f| std::fs::read_to_string(f).unwrap()));
    assert!(texts.iter().all(|text| !text.contains("s3cret")));
    let page = &texts[3];
    assert!(
        page.contains("--header &#39;Authorization: &lt;hidden&gt;&#39;")
            || page.contains("--header 'Authorization: &lt;hidden&gt;'")
    );
    // The run file keeps them: continuing the run needs them.
    let run = std::fs::read_to_string(bench.file("a.run")).unwrap();
    assert!(secrets.iter().all(|secret| run.contains(secret)));
}

#[test]
fn until_stops_on_width_and_says_when_it_was_not_reached() {
    let bench = Bench::new(|config| config.think_time = Duration::from_millis(50));
    let wide =
        bench.compare(&["--vary", "tls=1.2,1.3", "--until", "median±90%", "--max-samples", "90"]);
    assert_eq!(wide.code, 0, "{}", wide.stderr);
    // With fewer than 20 samples there is no interval; a busy machine makes intervals wider.
    let line = wide.stderr.lines().find_map(|line| line.strip_prefix("reached after "));
    let rounds = line.and_then(|line| line.split(' ').next()).and_then(|n| n.parse::<u32>().ok());
    assert!(rounds.is_some_and(|rounds| (20..90).contains(&rounds)), "{}", wide.stderr);
    let rows = Run::read(&bench.file("a.run")).unwrap().rows;
    assert_eq!(Some(rows.iter().filter(|row| !row.warmup).count() as u32 / 2), rounds);
    std::fs::remove_file(bench.file("a.run")).unwrap();
    let narrow = bench.compare(&[
        "--vary",
        "tls=1.2,1.3",
        "--until",
        "median±0.0001%",
        "--max-samples",
        "25",
    ]);
    assert_eq!(narrow.code, 0, "{}", narrow.stderr);
    assert!(narrow.stderr.contains("not reached after 25 rounds"), "{}", narrow.stderr);
}

#[test]
fn rounds_that_cannot_be_meant_are_refused_with_what_to_do() {
    let directory = Directory::new();
    for (flags, says) in [
        (["--max-samples", "9"], "which is missing\nhint: -n 9 measures 9 rounds"),
        (["-n", "-1"], "'-1' for '--samples <N>'"),
        (["--max-samples", "-1"], "'-1' for '--max-samples <N>'"),
        (["--warmup", "-1"], "'-1' for '--warmup <N>'"),
        (["--interval", "-1"], "--interval \"-1\": not a time"),
    ] {
        let mut words = vec!["compare", "https://localhost:1/", "--vary", "tls=1.2,1.3"];
        words.extend(flags);
        let outcome = firstbyte(directory.path(), &words);
        assert_eq!(outcome.code, 2, "{flags:?} {}", outcome.stderr);
        assert!(outcome.stderr.contains(says), "{flags:?} {}", outcome.stderr);
        assert!(!outcome.stderr.contains("tip: to pass"), "{flags:?} {}", outcome.stderr);
    }
}

#[test]
fn a_check_fails_when_the_interval_says_so() {
    let bench = Bench::new(|config| config.think_time = Duration::from_millis(5));
    let plan = format!(
        "url = '{}'\nvary = ['tls=1.2,1.3']\nsamples = 30\ninterval = 0\n\
         flags = ['--cacert', 'ca.pem', '-4']\n",
        bench.url()
    );
    std::fs::write(bench.file("plan.toml"), plan).unwrap();
    let check = |run: &str, conditions: &[&str]| {
        let mut words = vec!["check", "--plan", "plan.toml", "--run", run, "--silent"];
        for condition in conditions {
            words.extend(["--fail-if", condition]);
        }
        if run != "a.run" {
            words.extend(["--baseline", "a.run"]);
        }
        firstbyte(bench.directory.path(), &words)
    };
    let passed = check("a.run", &["ttfb.median > 5s"]);
    assert_eq!(passed.code, 0, "{}{}", passed.stdout, passed.stderr);
    assert!(passed.stdout.starts_with("# firstbyte check: passed\n"), "{}", passed.stdout);
    let failed = check("b.run", &["ttfb.median > 2ms", "wait.median +500%"]);
    assert_eq!(failed.code, 101, "{}{}", failed.stdout, failed.stderr);
    assert!(failed.stdout.contains("failed, 2 of 4 conditions met"), "{}", failed.stdout);
    let other = check("c.run", &["tls=1.1: ttfb.median > 5s"]);
    assert_eq!(other.code, 2, "{}", other.stdout);
    assert!(other.stderr.contains("no variant has these values"), "{}", other.stderr);
    // A condition that could not be measured has not passed, neither now nor when the run is checked again.
    let closed =
        "url = 'https://127.0.0.1:1/'\nvary = ['tls=1.2,1.3']\nsamples = 2\ninterval = 0\n";
    std::fs::write(bench.file("closed.toml"), closed).unwrap();
    let run = ["--plan", "closed.toml", "--run", "closed.run", "--silent"];
    let again = ["--from", "closed.run", "--silent"];
    let other = ["--from", "b.run", "--baseline", "closed.run", "--silent"];
    for (flags, condition, code, says) in [
        (&run[..], "ttfb > 1ms", 7, "no sample succeeded"),
        (&again, "ttfb > 1ms", 101, "no sample succeeded"),
        (&other, "ttfb +5%", 101, "no sample in the baseline"),
        (&["--from", "b.run", "--silent"], "ttfb.p99 > 5s", 102, "30 of the 1000 samples needed"),
    ] {
        let words = [&["check", "--fail-if", condition][..], flags].concat();
        let outcome = firstbyte(bench.directory.path(), &words);
        assert_eq!(outcome.code, code, "{flags:?} {}{}", outcome.stdout, outcome.stderr);
        assert!(outcome.stdout.contains(says), "{flags:?} {}", outcome.stdout);
        let passed = outcome.stdout.contains("check: passed");
        assert_eq!(passed, code == 0, "{flags:?} {}", outcome.stdout);
    }
    // Plans that count rounds run the number of rounds given on the command line.
    let fewer =
        ["check", "--plan", "plan.toml", "-n", "3", "--run", "d.run", "--fail-if", "ttfb > 5s"];
    let outcome = firstbyte(bench.directory.path(), &fewer);
    assert!(outcome.stdout.contains("3 of the"), "{}", outcome.stdout);
    std::fs::write(bench.file("until.toml"), format!("{closed}until = 'median±1%'\n")).unwrap();
    let until = ["check", "--plan", "until.toml", "-n", "3", "--fail-if", "ttfb > 5s"];
    let outcome = firstbyte(bench.directory.path(), &until);
    assert_eq!(outcome.code, 2, "{}", outcome.stdout);
    assert!(outcome.stderr.contains("-n: the plan measures until"), "{}", outcome.stderr);
    let words = ["check", "--plan", "plan.toml", "--run", "c.run", "--fail-if", "ttfb.p50 > 5s"];
    let words: Vec<&str> = words.into_iter().chain(["--summary", "none/summary.md"]).collect();
    let summary = firstbyte(bench.directory.path(), &words);
    assert_eq!(summary.code, 23, "{}", summary.stdout);
    assert!(!bench.file("c.run").exists());
    let missing = firstbyte(
        bench.directory.path(),
        &["check", "--from", "a.run", "--fail-if", "tls.median +5%"],
    );
    assert_eq!(missing.code, 2);
    assert!(missing.stderr.contains("needs a --baseline RUN"), "{}", missing.stderr);
}
