//! A year's store, opened and read like the monitor's server, `monitor export` and `report` do.
//!
//! The file is written in time order and evicted from the page cache before it is first read, so reads go to the disk.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use firstbyte_clock::{Monotonic, Realtime};
use firstbyte_monitor::configuration::Configuration;
use firstbyte_monitor::edges::Edges;
use firstbyte_monitor::store::SeriesLabels;
use firstbyte_monitor::watch::series;
use firstbyte_probe::probe::Clients;
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};

use crate::ask::{ask, encoded, free_address, median_and_worst};
use crate::generated::generate;
use crate::options::Options;
use crate::{barred, figure};

const START_BAR: Duration = Duration::from_secs(2);
const VIEW_BAR: Duration = Duration::from_millis(300);
/// Number of requests for each view, each for a different target.
const TIMES: usize = 20;
const BYTES_BAR: u64 = 30_000_000_000;
const PLACE: &str = "here";
const DAY: i64 = 86_400;

/// The views' URLs; `{target}`, `{variant}` and `{until}` are filled in.
const VIEWS: [(&str, &str); 19] = [
    ("targets", "/api/v1/targets"),
    ("a day of hours", "/api/v1/series?{series}&metric=total&step=hour&from={day}&until={until}"),
    ("a day as one", "/api/v1/series?{series}&metric=total&step=day&from={day}&until={until}"),
    ("a week of hours", "/api/v1/series?{series}&metric=total&step=hour&from={week}&until={until}"),
    ("a week of days", "/api/v1/series?{series}&metric=total&step=day&from={week}&until={until}"),
    ("a month of hours", "/api/v1/series?{series}&metric=tls&step=hour&from={month}&until={until}"),
    ("a month of days", "/api/v1/series?{series}&metric=tls&step=day&from={month}&until={until}"),
    ("a year of hours", "/api/v1/series?{series}&metric=total&step=hour&from={year}&until={until}"),
    ("a year of days", "/api/v1/series?{series}&metric=total&step=day&from={year}&until={until}"),
    ("events of a week", "/api/v1/events?since={week}&until={until}"),
    ("events of a year (the last 1,000)", "/api/v1/events?since={year}&until={until}"),
    ("the first view: a day, all series", "/api/v1/overview?from={last day}&until={now}"),
    ("the first view: a week", "/api/v1/overview?from={last week}&until={now}"),
    ("the first view: a month", "/api/v1/overview?from={last month}&until={now}"),
    ("a target's view: a day", "/api/v1/history?{series}&from={day}&until={until}"),
    ("a target's view: a week", "/api/v1/history?{series}&from={week}&until={until}"),
    ("a target's view: a month", "/api/v1/history?{series}&from={month}&until={until}"),
    ("a target's view: a year", "/api/v1/history?{series}&from={year}&until={until}"),
    ("annotations of a year", "/api/v1/annotations?since={year}&until={until}"),
];
/// The exports of one target from the store.
const EXPORTS: [(&str, &[&str]); 5] = [
    (
        "export: a month of hours, one metric",
        &["monitor", "export", "--step", "hour", "--since", "30d", "--metric", "total", "--store"],
    ),
    (
        "export: a week of hours, all metrics",
        &["monitor", "export", "--step", "hour", "--since", "7d", "--store"],
    ),
    (
        "export: a year of days, one metric",
        &["monitor", "export", "--step", "day", "--since", "365d", "--metric", "total", "--store"],
    ),
    ("report: a month", &["report", "--since", "30d"]),
    ("report: a year", &["report", "--since", "365d"]),
];

pub(crate) fn measure(options: &Options) -> bool {
    let directory = tempfile::tempdir_in(&options.tmpdir).unwrap();
    let needed = u64::from(options.targets) * u64::from(options.days) * 24 * 2 * 2_000;
    let free = free_bytes(directory.path());
    if free < needed + 2_000_000_000 {
        println!(
            "  {} has {:.0} GB free, and up to {:.0} are needed: give --tmpdir DIR, or fewer --targets or --days",
            options.tmpdir.display(),
            free as f64 / 1e9,
            needed as f64 / 1e9 + 2.0
        );
        return false;
    }
    let file = directory.path().join("monitor.toml");
    // Nobody listens on these targets, and hardly any is due during the benchmark.
    let text = format!(
        "place = \"{PLACE}\"\n[keep]\nhours = \"730d\"\n[defaults]\nevery = \"7d\"\nvary = [\"tls=1.2,1.3\"]\n[[target]]\n\
         url = \"https://127.0.0.1:9/{{1..{}}}\"\n",
        options.targets
    );
    fs::write(&file, &text).unwrap();
    let labels = labels(&text);
    let store = directory.path().join("store");
    fs::create_dir_all(&store).unwrap();
    let path = store.join("store.sqlite");
    let now = (Realtime::now().unix_nanos() / 1_000_000_000).cast_signed();
    let until = now / DAY * DAY;
    let begun = Monotonic::now();
    let told = |day: u32| {
        if (day + 1).is_multiple_of(60) {
            let bytes = fs::metadata(&path).unwrap().len() as f64 / 1e9;
            println!(
                "  … {} days, {bytes:.1} GB, {:.0} s",
                day + 1,
                Monotonic::now().since(begun).as_secs_f64()
            );
        }
    };
    generate(&path, &labels, options.days, until, told).unwrap();
    let seconds = Monotonic::now().since(begun).as_secs_f64();
    let bytes = fs::metadata(&path).unwrap().len();
    figure(
        &format!("made, {} days of {} series", options.days, labels.len()),
        &format!("{seconds:.0} s"),
    );
    let mut held = barred(
        "store",
        &format!("{:.1} GB", bytes as f64 / 1e9),
        "30 GB at most",
        bytes <= BYTES_BAR,
    );
    let each = bytes as f64 / labels.len() as f64 * 365.0 / f64::from(options.days);
    figure("  of a series for a year, hours and days", &format!("{:.1} MB", each / 1e6));
    forget_pages(&path);
    let Some(monitor) = Monitor::start(&file, &store) else { return false };
    held &= barred(
        "start, until it is ready",
        &seconds_of(monitor.start),
        "2 s at most",
        monitor.start <= START_BAR,
    );
    let mut random = fastrand::Rng::with_seed(5);
    for (name, view) in VIEWS {
        let mut times = Vec::new();
        for _ in 0..TIMES {
            let labels = &labels[random.usize(..labels.len())];
            let answered = ask(monitor.address, &filled(view, labels, until)).unwrap();
            let text = String::from_utf8_lossy(&answered.body);
            assert_eq!(answered.status, 200, "{view}: {text}");
            assert!(
                text.contains("median_ns") || !view.contains("series?"),
                "{view}: nothing found: {text}"
            );
            times.push(answered.took);
        }
        held &= within(name, &times);
    }
    monitor.end();
    forget_pages(&path);
    for (name, arguments) in EXPORTS {
        let mut times = Vec::new();
        for _ in 0..TIMES {
            let labels = &labels[random.usize(..labels.len())];
            times.push(read_by_command(&store, &labels.target, arguments));
        }
        held &= within(name, &times);
    }
    held
}

fn within(name: &str, times: &[Duration]) -> bool {
    let (median, worst) = median_and_worst(times);
    let text = format!("{:.0}, {:.0} ms", median.as_secs_f64() * 1e3, worst.as_secs_f64() * 1e3);
    barred(
        &format!("{name}: median, worst of {}", times.len()),
        &text,
        "300 ms at most",
        worst <= VIEW_BAR,
    )
}

fn seconds_of(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}

/// The series of a configuration, as the monitor names them.
fn labels(text: &str) -> Vec<SeriesLabels> {
    let mut no_files = |_: &str| Err(std::io::Error::other("none"));
    let configuration = Configuration::read(text, &mut no_files).unwrap();
    let (all, left_out) = series(&configuration, &Edges::default(), &Clients::default());
    assert!(left_out.is_empty());
    all.iter()
        .map(|one| {
            let [site, variant] = &one.cell.factors[..] else { panic!("a site and a way") };
            SeriesLabels {
                target: site.value.clone(),
                variant: variant.value.clone(),
                place: PLACE.to_owned(),
                variant_label: variant.label.clone(),
                url: one.cell.url.clone(),
                ..SeriesLabels::default()
            }
        })
        .collect()
}

fn filled(view: &str, labels: &SeriesLabels, until: i64) -> String {
    let series = format!("target={}&variant={}", encoded(&labels.target), encoded(&labels.variant));
    let mut path = view.replace("{series}", &series).replace("{until}", &until.to_string());
    // The page's requests end now.
    let now = (Realtime::now().unix_nanos() / 1_000_000_000).cast_signed();
    path = path.replace("{now}", &now.to_string());
    for (name, days) in [("{last day}", 1), ("{last week}", 7), ("{last month}", 30)] {
        path = path.replace(name, &(now - days * DAY).to_string());
    }
    for (name, days) in [("{day}", 1), ("{week}", 7), ("{month}", 30), ("{year}", 365)] {
        path = path.replace(name, &(until - days * DAY).to_string());
    }
    path
}

/// A running monitor.
struct Monitor {
    process: Child,
    address: SocketAddr,
    start: Duration,
}

impl Monitor {
    /// Starts a monitor and waits until it is ready.
    fn start(file: &Path, store: &Path) -> Option<Self> {
        const PATIENCE: Duration = Duration::from_secs(60);
        let address = free_address();
        let begun = Monotonic::now();
        let mut process = Command::new(env!("CARGO_BIN_EXE_firstbyte"))
            .args(["monitor", "--silent", "--config"])
            .arg(file)
            .arg("--store")
            .arg(store)
            .args(["--listen", &address.to_string()])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        while Monotonic::now().since(begun) < PATIENCE {
            let ready = ask(address, "/-/ready");
            let start = Monotonic::now().since(begun);
            if ready.is_ok_and(|ready| ready.status == 200) {
                return Some(Self { process, address, start });
            }
            if process.try_wait().unwrap().is_some() {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        println!("  the monitor does not become ready:");
        let _ = process.kill();
        let said = BufReader::new(process.stderr.take().unwrap());
        said.lines().for_each(|line| println!("  {}", line.unwrap()));
        let _ = process.wait();
        None
    }

    fn end(mut self) {
        let process = nix::unistd::Pid::from_raw(self.process.id().try_into().unwrap());
        nix::sys::signal::kill(process, nix::sys::signal::Signal::SIGTERM).unwrap();
        assert!(self.process.wait().unwrap().success());
    }
}

/// Time that an export with `firstbyte` takes, to its last byte. The store's path follows the last of `arguments`.
fn read_by_command(store: &Path, target: &str, arguments: &[&str]) -> Duration {
    let begun = Monotonic::now();
    let exported = Command::new(env!("CARGO_BIN_EXE_firstbyte"))
        .args(arguments)
        .arg(store)
        .args(["--target", target])
        .output()
        .unwrap();
    let took = Monotonic::now().since(begun);
    let said = String::from_utf8_lossy(&exported.stderr);
    assert!(exported.status.success(), "{said}");
    assert!(
        exported.stdout.iter().filter(|byte| **byte == b'\n').count() > 2,
        "{arguments:?}: {said}"
    );
    took
}

/// Drops a file from the kernel's page cache, so that it is read from the disk again.
fn forget_pages(path: &Path) {
    let file = fs::File::open(path).unwrap();
    file.sync_all().unwrap();
    posix_fadvise(file.as_fd(), 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED).unwrap();
}

fn free_bytes(directory: &Path) -> u64 {
    let there = nix::sys::statvfs::statvfs(directory).unwrap();
    there.blocks_available() as u64 * there.fragment_size() as u64
}
