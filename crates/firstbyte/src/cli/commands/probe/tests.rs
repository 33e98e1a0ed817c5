//! Order, output and end of runs, with a prober that measures nothing.

use std::cell::RefCell;
use std::future::pending;
use std::io::{self, Write};
use std::time::Duration;

use clap::Parser;
use firstbyte_core::timeline::Sample;
use tokio::time::{Instant, sleep};

use super::{Visits, take};
use crate::cli::args::Cli;
use crate::cli::exit::Problem;
use crate::cli::plan;
use crate::cli::signals::EndSignal;
use crate::plans::ProbePlan;
use firstbyte_clock::timer_now;
use firstbyte_probe::probe::{Prober, Target, Visiting};
use firstbyte_report::{Style, fixtures};

/// Returns prepared samples in turn, and records each visit.
struct FakeProber {
    samples: Vec<Sample>,
    /// How long a visit takes.
    takes: Duration,
    begun: Instant,
    /// Time since the start, and the URL.
    visits: RefCell<Vec<(Duration, String)>>,
}

impl FakeProber {
    fn new(samples: Vec<Sample>) -> Self {
        let takes = Duration::from_millis(300);
        Self { samples, takes, begun: timer_now(), visits: RefCell::default() }
    }

    fn visits(&self) -> Vec<(u64, String)> {
        let visits = self.visits.borrow();
        visits.iter().map(|(at, url)| (at.as_millis() as u64, url.clone())).collect()
    }
}

impl Prober for FakeProber {
    fn probe<'a>(&'a self, target: &'a Target) -> Visiting<'a, Sample> {
        Box::pin(async {
            let number = self.visits.borrow().len();
            let visit = (timer_now() - self.begun, target.url.to_string());
            self.visits.borrow_mut().push(visit);
            sleep(self.takes).await;
            let mut sample = self.samples[number % self.samples.len()].clone();
            sample.requested_url = target.url.to_string();
            sample
        })
    }
}

fn plan(arguments: &[&str]) -> ProbePlan {
    let cli = Cli::try_parse_from(["firstbyte"].iter().chain(arguments)).unwrap();
    plan::probe(&cli.probe).unwrap()
}

const PLAIN: Style = Style { color: false, width: 80, unicode: true };

/// Runs to the end; returns the exit code and the output.
async fn run(arguments: &[&str], prober: &FakeProber) -> (u8, String) {
    let mut out = Vec::new();
    let code =
        take(&Visits::from_plan(&plan(arguments)).unwrap(), prober, &PLAIN, &mut out, pending())
            .await
            .unwrap();
    (code, String::from_utf8(out).unwrap())
}

/// Field `name` of every line of NDJSON.
fn field(ndjson: &str, name: &str) -> Vec<String> {
    let parse = |line| serde_json::from_str::<serde_json::Value>(line).unwrap();
    ndjson.lines().map(|line| parse(line)[name].to_string()).collect()
}

#[tokio::test(start_paused = true)]
async fn every_round_visits_every_url_in_order() {
    let prober = FakeProber::new(vec![fixtures::tls13_http2()]);
    let (code, out) = run(&["--json", "-n", "2", "a.test", "b.test"], &prober).await;
    assert_eq!(code, 0);
    let urls: Vec<String> = prober.visits().into_iter().map(|(_, url)| url).collect();
    // One warm-up round and two that count.
    assert_eq!(urls, ["https://a.test/", "https://b.test/"].repeat(3));
    assert_eq!(field(&out, "sequence"), ["0", "0", "1", "1", "2", "2"]);
    assert_eq!(field(&out, "warmup"), ["true", "true", "false", "false", "false", "false"]);
}

#[tokio::test(start_paused = true)]
async fn warm_up_is_as_asked_for() {
    for (arguments, warmups, visits) in [
        (&["a.test"] as &[_], 0, 1),
        (&["-n", "3", "a.test"], 1, 4),
        (&["-n", "3", "--warmup", "0", "a.test"], 0, 3),
        (&["--warmup", "2", "a.test"], 2, 3),
    ] {
        let prober = FakeProber::new(vec![fixtures::tls13_http2()]);
        let (_, out) = run(&[&["--json"], arguments].concat(), &prober).await;
        let warm = field(&out, "warmup").iter().filter(|w| *w == "true").count();
        assert_eq!((warm, prober.visits().len()), (warmups, visits), "{arguments:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_beat_of_the_interval_is_kept_by_slow_samples() {
    let starts = |prober: &FakeProber| prober.visits().into_iter().map(|(at, _)| at);
    let mut prober = FakeProber::new(vec![fixtures::tls13_http2()]);
    run(&["--json", "-n", "3", "--interval", "1", "a.test"], &prober).await;
    assert_eq!(starts(&prober).collect::<Vec<_>>(), [0, 1000, 2000, 3000]);
    // A visit of 2.5 s misses two beats, and the next one starts immediately to catch up.
    prober = FakeProber::new(vec![fixtures::tls13_http2()]);
    prober.takes = Duration::from_millis(2_500);
    run(&["--json", "-n", "2", "--warmup", "0", "--interval", "1", "a.test"], &prober).await;
    assert_eq!(starts(&prober).collect::<Vec<_>>(), [0, 2500]);
    prober = FakeProber::new(vec![fixtures::tls13_http2()]);
    run(&["--json", "-n", "2", "--warmup", "0", "a.test"], &prober).await;
    assert_eq!(starts(&prober).collect::<Vec<_>>(), [0, 300], "without one there is no pause");
}

#[tokio::test(start_paused = true)]
async fn a_sequence_is_of_the_sample_or_of_the_one_in_the_middle() {
    let prober = FakeProber::new(vec![fixtures::tls13_http2()]);
    let (_, alone) = run(&["--sequence", "a.test"], &prober).await;
    assert!(alone.contains("├─") && !alone.contains("median"), "{alone}");
    // Warm-up, then the shortest, the longest, the median, and a failure.
    let samples = vec![
        fixtures::slow_server(),
        fixtures::plain_http(),
        fixtures::tls12_sydney(),
        fixtures::syn_loss(),
        fixtures::connect_timeout(),
    ];
    let prober = FakeProber::new(samples);
    let (_, many) = run(&["--sequence", "-n", "4", "a.test"], &prober).await;
    assert!(many.contains("p50") || many.contains("median"), "{many}");
    assert_eq!(many.matches("┴ total 347.0 ms").count(), 1, "{many}");
}

#[tokio::test(start_paused = true)]
async fn ctrl_c_keeps_what_was_measured() {
    let prober = FakeProber::new(vec![fixtures::tls13_http2()]);
    let mut out = Vec::new();
    // During the fourth visit.
    let interrupted = async {
        sleep(Duration::from_millis(1_000)).await;
        EndSignal::Interrupt
    };
    let plan = plan(&["--json", "-n", "100", "a.test"]);
    let plan = Visits::from_plan(&plan).unwrap();
    let code = take(&plan, &prober, &PLAIN, &mut out, interrupted).await.unwrap();
    assert_eq!(code, 130);
    assert_eq!(field(&String::from_utf8(out).unwrap(), "sequence"), ["0", "1", "2"]);
    assert_eq!(timer_now() - prober.begun, Duration::from_millis(1_000), "it ends at once");
}

#[tokio::test(start_paused = true)]
async fn ctrl_c_shows_the_table_of_what_was_measured() {
    let prober = FakeProber::new(vec![fixtures::tls13_http2()]);
    let mut out = Vec::new();
    let plan = plan(&["-n", "100", "--interval", "60", "a.test"]);
    let plan = Visits::from_plan(&plan).unwrap();
    // While waiting for the third visit.
    let interrupted = async {
        sleep(Duration::from_secs(70)).await;
        EndSignal::Terminate
    };
    let code = take(&plan, &prober, &PLAIN, &mut out, interrupted).await.unwrap();
    assert_eq!(code, 143);
    assert_eq!(timer_now() - prober.begun, Duration::from_secs(70), "it ends at once");
    insta::assert_snapshot!(String::from_utf8(out).unwrap());
}

#[tokio::test(start_paused = true)]
async fn ctrl_c_before_anything_was_measured_shows_nothing() {
    let prober = FakeProber::new(vec![fixtures::tls13_http2()]);
    let mut out = Vec::new();
    let plan = plan(&["-n", "100", "a.test"]);
    let plan = Visits::from_plan(&plan).unwrap();
    let code = take(&plan, &prober, &PLAIN, &mut out, async { EndSignal::Hangup }).await.unwrap();
    assert_eq!((code, String::from_utf8(out).unwrap().as_str()), (129, ""));
}

#[tokio::test(start_paused = true)]
async fn the_exit_code_is_that_of_the_last_failure() {
    let (good, expired, timeout) =
        (fixtures::tls13_http2(), fixtures::expired_certificate(), fixtures::connect_timeout());
    for (samples, code) in [
        (vec![good.clone(), good.clone(), good.clone()], 0),
        (vec![good.clone(), expired.clone(), good.clone()], 60),
        (vec![expired, timeout, good], 28),
    ] {
        let prober = FakeProber::new(samples);
        let (ended, out) = run(&["--json", "--warmup", "0", "-n", "3", "a.test"], &prober).await;
        assert_eq!(ended, code);
        assert_eq!(out.lines().count(), 3, "failures do not end a run");
    }
}

/// Output split into pieces at each flush.
#[derive(Default)]
struct Flushed {
    waiting: Vec<u8>,
    pieces: Vec<String>,
}

impl Write for Flushed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.waiting.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        if !self.waiting.is_empty() {
            self.pieces.push(String::from_utf8(std::mem::take(&mut self.waiting)).unwrap());
        }
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn formats_for_programs_are_written_sample_by_sample() {
    for (format, lines) in [
        (&["--json"] as &[_], vec![1, 1, 1]),
        // The column names come with the first sample or before it.
        (&["--csv"], vec![1, 1, 1]),
        // Nothing would mark the first one as warm-up, so it is left out.
        (&["-w", "%{http_code}\\n"], vec![1, 1]),
    ] {
        let prober = FakeProber::new(vec![fixtures::tls13_http2()]);
        let mut out = Flushed::default();
        let plan = plan(&[format, &["-n", "2", "a.test"]].concat());
        let plan = Visits::from_plan(&plan).unwrap();
        take(&plan, &prober, &PLAIN, &mut out, pending()).await.unwrap();
        let mut written: Vec<usize> = out.pieces.iter().map(|p| p.lines().count()).collect();
        if format == ["--csv"] {
            match written.first_mut() {
                Some(2) => written[0] = 1,
                _ => drop(written.remove(0)),
            }
        }
        assert_eq!(written, lines, "{format:?}: {:?}", out.pieces);
        assert!(out.waiting.is_empty(), "{format:?}");
    }
}

/// A writer whose reader has gone away.
struct Closed(io::ErrorKind);

impl Write for Closed {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(self.0.into())
    }
    fn flush(&mut self) -> io::Result<()> {
        Err(self.0.into())
    }
}

async fn problem(arguments: &[&str], kind: io::ErrorKind) -> (Problem, usize) {
    let prober = FakeProber::new(vec![fixtures::tls13_http2()]);
    let ended = take(
        &Visits::from_plan(&plan(arguments)).unwrap(),
        &prober,
        &PLAIN,
        &mut Closed(kind),
        pending(),
    )
    .await;
    (ended.unwrap_err(), prober.visits().len())
}

#[tokio::test(start_paused = true)]
async fn a_broken_pipe_ends_a_run_quietly_and_early() {
    for format in ["--json", "--csv"] {
        let (problem, visits) =
            problem(&[format, "-n", "9", "a.test"], io::ErrorKind::BrokenPipe).await;
        assert!(problem.is_broken_pipe());
        assert_eq!(problem.code(), 0);
        assert!(visits <= 1, "{format} went on for {visits} visits");
    }
    let (problem, _) = problem(&["a.test"], io::ErrorKind::BrokenPipe).await;
    assert_eq!((problem.is_broken_pipe(), problem.code()), (true, 0));
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_is_told() {
    let (problem, _) = problem(&["--json", "a.test"], io::ErrorKind::StorageFull).await;
    assert_eq!(problem.code(), 23);
    assert_eq!(problem.to_string(), "error: could not write the results: no storage space");
}

#[tokio::test(start_paused = true)]
async fn one_visit_is_a_waterfall_and_more_are_a_table() {
    let prober = FakeProber::new(vec![fixtures::tls13_http2()]);
    let (_, waterfall) = run(&["a.test"], &prober).await;
    insta::assert_snapshot!("waterfall", waterfall);
    let prober = FakeProber::new(fixtures::run(4));
    let (_, table) = run(&["-n", "3", "a.test"], &prober).await;
    insta::assert_snapshot!("table", table);
}

#[tokio::test(start_paused = true)]
async fn a_number_of_samples_may_be_as_large_as_it_gets() {
    let prober = FakeProber::new(vec![fixtures::tls13_http2()]);
    let mut out = Vec::new();
    let plan = plan(&["-n", "4294967295", "--json", "a.test"]);
    let plan = Visits::from_plan(&plan).unwrap();
    let interrupted = async {
        sleep(Duration::from_secs(1)).await;
        EndSignal::Interrupt
    };
    take(&plan, &prober, &PLAIN, &mut out, interrupted).await.unwrap();
    assert_eq!(field(&String::from_utf8(out).unwrap(), "warmup"), ["true", "false", "false"]);
}
