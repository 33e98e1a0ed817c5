//! The loop, in simulated time.

use firstbyte_core::timeline::{Cause, Offset, PhaseName, Sample};
use firstbyte_probe::probe::{Prober, Target, Visiting};

use super::*;

/// Visits that take a fixed time. `fails` decides which visits fail.
struct Steady {
    visits: Rc<std::cell::Cell<u32>>,
    takes: Duration,
    fails: fn(u32) -> bool,
}

impl Prober for Steady {
    fn probe<'a>(&'a self, _: &'a Target) -> Visiting<'a, Sample> {
        Box::pin(async {
            tokio::time::sleep(self.takes).await;
            self.visits.set(self.visits.get() + 1);
            let mut sample = Sample::default();
            let failure =
                Failure { phase: PhaseName::Connect, cause: Cause::Reset, at: Some(Offset::ZERO) };
            sample.connection.failure = (self.fails)(self.visits.get()).then_some(failure);
            sample
        })
    }
}

const CONFIGURATION: &str = r#"
[defaults]
every = "10s"
[[target]]
url = "https://{a,b}.test/"
vary = ["tls=1.2,1.3", "family=4,6"]
[[target]]
url = "https://c.test/"
"#;

#[test]
fn targets_times_ways_are_series() {
    let mut no_files = |_: &str| Err(std::io::Error::other("none"));
    let configuration = Configuration::read(CONFIGURATION, &mut no_files).unwrap();
    let (series, left_out) = series(&configuration, &Edges::default(), &Clients::default());
    let names: Vec<String> = series.iter().map(|one| one.cell.name()).collect();
    assert_eq!(names.len(), 9);
    assert_eq!(
        (names[0].as_str(), names[8].as_str()),
        ("a.test, TLS 1.2, IPv4", "c.test, as negotiated")
    );
    assert_eq!(series[5].cell.factors[1].value, "tls=1.2 family=6");
    assert!(left_out.is_empty());
}

#[tokio::test]
async fn each_address_of_a_name_is_a_series_in_the_ways_of_its_family() {
    let text = r#"
[defaults]
edges = "all"
vary = ["tls=1.2,1.3", "family=4,6"]
[[target]]
url = "https://a.test/"
[[target]]
url = "https://b.test/"
[[target]]
url = "https://c.test/"
edges = "any"
vary = []
"#;
    let mut no_files = |_: &str| Err(std::io::Error::other("none"));
    let configuration = Configuration::read(text, &mut no_files).unwrap();
    let hosts = configuration.edge_hosts();
    assert_eq!(hosts.iter().collect::<Vec<_>>(), ["a.test", "b.test"]);
    let mut edges = Edges::default();
    let lookup = |host| async move {
        match host == "a.test" {
            true => Ok(["192.0.2.1", "192.0.2.2", "2001:db8::1"]
                .map(|address| address.parse().unwrap())
                .to_vec()),
            false => Err(std::io::Error::other("no answer")),
        }
    };
    edges.look_up(&hosts, firstbyte_clock::Monotonic::now(), lookup).await;
    let (series, left_out) = series(&configuration, &edges, &Clients::default());
    assert!(left_out.is_empty());
    let names: Vec<String> = series.iter().map(|one| one.cell.name()).collect();
    assert_eq!(
        names[..6],
        [
            "a.test, 192.0.2.1, TLS 1.2, IPv4",
            "a.test, 192.0.2.1, TLS 1.3, IPv4",
            "a.test, 192.0.2.2, TLS 1.2, IPv4",
            "a.test, 192.0.2.2, TLS 1.3, IPv4",
            "a.test, 2001:db8::1, TLS 1.2, IPv6",
            "a.test, 2001:db8::1, TLS 1.3, IPv6",
        ]
    );
    assert_eq!(series[4].cell.factors[1].value, "edge=2001:db8::1 tls=1.2 family=6");
    assert_eq!(series[4].timing.host, "a.test at 2001:db8::1");
    // A target without a known address is measured as usual.
    assert_eq!(names[6], "b.test, TLS 1.2, IPv4");
    assert_eq!(names[10..], ["c.test, as negotiated"]);
}

/// Received samples, by the names of their series. The sink fails when it has `most`.
#[derive(Default)]
struct Names {
    now: Vec<String>,
    came: Vec<(String, tokio::time::Instant)>,
    /// Whether each sample failed, and the time that it stands for.
    outcomes: Vec<(bool, Duration)>,
    most: Option<usize>,
    switched: u32,
}

impl Names {
    fn of_list(list: &Watchlist) -> Self {
        Self { now: names(list), ..Self::default() }
    }

    fn number(&self, name: &str, from: Duration, until: Duration) -> usize {
        let began = self.came.first().map(|(_, at)| *at).unwrap();
        let within = |at: &tokio::time::Instant| (from..until).contains(&(*at - began));
        self.came.iter().filter(|(of, at)| of == name && within(at)).count()
    }
}

fn names(list: &Watchlist) -> Vec<String> {
    list.series.iter().map(|one| one.cell.name()).collect()
}

impl SampleSink for Names {
    type Error = &'static str;

    fn take_in(&mut self, taken: Taken) -> Result<(), Self::Error> {
        self.came.push((self.now[usize::from(taken.cell)].clone(), timer_now()));
        self.outcomes.push((taken.sample.failure().is_some(), taken.stands_for.unwrap()));
        if self.most == Some(self.came.len()) { Err("full") } else { Ok(()) }
    }
}

impl WatchSink for Names {
    fn follow(&mut self, list: &Watchlist) -> Result<(), Self::Error> {
        self.switched += 1;
        self.now = names(list);
        Ok(())
    }
}

/// A watchlist, with visit counters of its series.
fn list(
    text: &str,
    takes: Duration,
    fails: fn(u32) -> bool,
) -> (Watchlist, Vec<Rc<std::cell::Cell<u32>>>) {
    let mut no_files = |_: &str| Err(std::io::Error::other("none"));
    let configuration = Configuration::read(text, &mut no_files).unwrap();
    let (series, _) = series(&configuration, &Edges::default(), &Clients::default());
    let counts: Vec<Rc<std::cell::Cell<u32>>> = series.iter().map(|_| Rc::default()).collect();
    let visitor = |(one, visits): (&Series, &Rc<_>)| {
        let target = one.variant.visit.target.clone();
        let prober = Box::new(Steady { visits: Rc::clone(visits), takes, fails });
        Rc::new(Visitor { prober, target })
    };
    let visitors = series.iter().zip(&counts).map(visitor).collect();
    (Watchlist { configuration, series, visitors }, counts)
}

const SHORT: Duration = Duration::from_millis(50);

#[tokio::test(start_paused = true)]
async fn each_series_is_measured_at_its_times_until_told_to_stop() {
    let (list, _) = list(CONFIGURATION, SHORT, |_| false);
    let (control, mut sink) = (WatchControl::default(), Names::of_list(&list));
    let stop = control.clone();
    let local = tokio::task::LocalSet::new();
    let watched = local
        .run_until(async {
            tokio::task::spawn_local(async move {
                tokio::time::sleep(Duration::from_secs(1_000)).await;
                stop.stop();
            });
            watch(list, 1, &control, &mut sink).await
        })
        .await
        .unwrap();
    for name in &sink.now {
        let number = sink.number(name, Duration::ZERO, Duration::MAX);
        assert!((98..=101).contains(&number), "{name}: {number}");
    }
    assert_eq!((watched.samples, watched.missed), (sink.came.len() as u64, 0));
    assert!(watched.lateness_p99.unwrap() < Duration::from_millis(200));
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_fails_ends_it() {
    let (list, _) = list(CONFIGURATION, SHORT, |_| false);
    let mut sink = Names { most: Some(1), ..Names::of_list(&list) };
    let control = WatchControl::default();
    let local = tokio::task::LocalSet::new();
    let ended = local.run_until(watch(list, 1, &control, &mut sink)).await;
    assert_eq!(ended, Err("full"));
}

/// One series stays, one gets another interval, one is removed while its samples take longer than their period, and one
/// is new.
#[tokio::test(start_paused = true)]
async fn another_list_is_followed_and_no_sample_of_the_old_one_is_lost() {
    let target = |name: &str, every: &str| {
        format!("[[target]]\nurl = \"https://{name}.test/\"\nevery = \"{every}\"\n")
    };
    let before = [target("goes", "5s"), target("stays", "10s"), target("slower", "10s")];
    let after = [target("new", "10s"), target("slower", "20s"), target("stays", "10s")];
    let slow = Duration::from_secs(7);
    let (before, counts) = list(&before.concat(), slow, |_| false);
    let (after, new_counts) = list(&after.concat(), SHORT, |_| false);
    let (control, mut sink) = (WatchControl::default(), Names::of_list(&before));
    let ask = control.clone();
    let local = tokio::task::LocalSet::new();
    let watched = local
        .run_until(async {
            tokio::task::spawn_local(async move {
                tokio::time::sleep(Duration::from_secs(1_000)).await;
                ask.follow(after);
                tokio::time::sleep(Duration::from_secs(1_000)).await;
                ask.stop();
            });
            watch(before, 1, &control, &mut sink).await
        })
        .await
        .unwrap();
    assert_eq!((sink.switched, watched.samples), (1, sink.came.len() as u64));
    let seconds = Duration::from_secs;
    let number = |name: &str, from: u64, until: u64| {
        sink.number(&format!("{name}.test, as negotiated"), seconds(from), seconds(until))
    };
    let stays = number("stays", 0, 3_000);
    assert!((196..=202).contains(&stays), "{stays}");
    // The series keeps its visitor.
    assert_eq!((counts[1].get() as usize, new_counts[2].get()), (stays, 0));
    let changed = [number("slower", 0, 1_008), number("slower", 1_008, 3_000)];
    assert!((97..=101).contains(&changed[0]) && (48..=51).contains(&changed[1]), "{changed:?}");
    let gone = [number("goes", 0, 1_008), number("goes", 1_008, 3_000)];
    assert!((97..=102).contains(&gone[0]) && gone[1] == 0, "{gone:?}");
    let new = [number("new", 0, 990), number("new", 990, 3_000)];
    assert!(new[0] == 0 && (97..=101).contains(&new[1]), "{new:?}");
}

/// Visits 11 to 16 fail. The second failure and the second success afterwards are extra samples, and the other series
/// of the target is measured when the outage begins.
#[tokio::test(start_paused = true)]
async fn failures_are_tried_again_at_once_and_shares_are_of_time() {
    let text = "[defaults]\nevery = \"10s\"\njitter = \"0%\"\n[[target]]\nurl = \"https://a.test/\"\n\
                vary = [\"tls=1.2,1.3\"]\n";
    let (list, _) = list(text, SHORT, |visit| (11..=16).contains(&visit));
    let (control, mut sink) = (WatchControl::default(), Names::of_list(&list));
    let stop = control.clone();
    let local = tokio::task::LocalSet::new();
    local
        .run_until(async {
            tokio::task::spawn_local(async move {
                tokio::time::sleep(Duration::from_secs(1_000)).await;
                stop.stop();
            });
            watch(list, 1, &control, &mut sink).await
        })
        .await
        .unwrap();
    let first = sink.now[0].clone();
    let own = sink.came.iter().zip(&sink.outcomes).filter(|((name, _), _)| *name == first);
    let own: Vec<(f64, bool, Duration)> = own
        .map(|((_, at), (failed, stands_for))| {
            ((*at - sink.came[0].1).as_secs_f64(), *failed, *stands_for)
        })
        .collect();
    let failed: Vec<&(f64, bool, Duration)> = own.iter().filter(|(_, failed, _)| *failed).collect();
    assert_eq!(failed.len(), 6);
    assert!(failed[1].0 - failed[0].0 < 1.0, "{own:?}");
    let time: Duration = failed.iter().map(|(_, _, stands_for)| *stands_for).sum();
    let all: Duration = own.iter().map(|(_, _, stands_for)| *stands_for).sum();
    assert_eq!(time.as_secs() % 10, 0);
    assert!(time.as_secs() <= 50 && (980..=1_000).contains(&all.as_secs()), "{time:?} of {all:?}");
    let extra = own.iter().filter(|(_, _, stands_for)| stands_for.is_zero()).count();
    assert!((2..=4).contains(&extra), "{own:?}");
}

#[test]
fn a_status_that_is_not_expected_is_a_failure() {
    let text = "[[target]]\nurl = \"https://a.test/\"\n[[target]]\nurl = \"https://b.test/\"\nstatus = \"2xx,404\"\n";
    let mut no_files = |_: &str| Err(std::io::Error::other("none"));
    let configuration = Configuration::read(text, &mut no_files).unwrap();
    let (series, _) = series(&configuration, &Edges::default(), &Clients::default());
    let failure = |series: &Series, status: u16| {
        let mut sample = Sample::default();
        sample.connection.facts.http = Some(firstbyte_core::timeline::HttpFacts {
            status: Some(status),
            ..Default::default()
        });
        series.check_status(&mut sample);
        sample.failure().map(|failure| failure.failure_type().to_string())
    };
    let error = Some("http.error".to_owned());
    assert_eq!([200, 301, 399].map(|status| failure(&series[0], status)), [None, None, None]);
    assert_eq!(
        [404, 503].map(|status| failure(&series[0], status)),
        [error.clone(), error.clone()]
    );
    assert_eq!([200, 404].map(|status| failure(&series[1], status)), [None, None]);
    assert_eq!([301, 503].map(|status| failure(&series[1], status)), [error.clone(), error]);
}
