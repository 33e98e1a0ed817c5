//! Measures one core against all, alternating, so that other work on the machine affects both.

use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;

use firstbyte_clock::Monotonic;
use firstbyte_passive::{Analyzer, Limits};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use nix::unistd::Pid;

/// Number of pairs of readings.
const PAIRS: usize = 11;
const PIECE: u64 = 256 * 1024;

/// The processors of this process, and the first of them alone.
pub(crate) struct Cores {
    all: CpuSet,
    one: CpuSet,
    pub(crate) count: usize,
}

impl Cores {
    pub(crate) fn here() -> Self {
        let all = sched_getaffinity(Pid::from_raw(0)).unwrap();
        let numbers = || (0..CpuSet::count()).filter(|n| all.is_set(*n).unwrap());
        let mut one = CpuSet::new();
        one.set(numbers().next().unwrap()).unwrap();
        Self { all, one, count: numbers().count() }
    }

    /// Wall-clock time and processor time, in seconds, of `work` on `threads` threads, each with its own processor. The
    /// threads inherit the processors of the thread that starts them.
    fn seconds(&self, threads: usize, work: &dyn Fn(usize)) -> [f64; 2] {
        let set = if threads == 1 { &self.one } else { &self.all };
        sched_setaffinity(Pid::from_raw(0), set).unwrap();
        let (begun, used) = (Monotonic::now(), processor_seconds());
        work(threads);
        let seconds = Monotonic::now().since(begun).as_secs_f64();
        let used = processor_seconds() - used;
        sched_setaffinity(Pid::from_raw(0), &self.all).unwrap();
        [seconds, used]
    }
}

/// Processor time used by this process.
fn processor_seconds() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF).unwrap();
    let seconds = |time: TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    seconds(usage.user_time()) + seconds(usage.system_time())
}

/// Results of the pairs of readings.
pub(crate) struct Pairs {
    /// Median seconds on one core and on all.
    pub(crate) one: f64,
    pub(crate) all: f64,
    /// Median processor seconds on one core and on all; other work on the machine hardly affects them.
    pub(crate) used: [f64; 2],
    /// Speed-up: median over the pairs, minimum, maximum.
    pub(crate) times: [f64; 3],
    /// Processor time on all cores relative to one, the overhead of sharing the work: median, minimum, maximum.
    pub(crate) work: [f64; 3],
}

/// Does `work` on one core and on all, alternating.
pub(crate) fn pairs(cores: &Cores, work: &dyn Fn(usize)) -> Pairs {
    work(1);
    let both = |pair: usize| {
        // Alternate which one goes first.
        let [first, second] =
            if pair.is_multiple_of(2) { [1, cores.count] } else { [cores.count, 1] };
        let (first, second) = (cores.seconds(first, work), cores.seconds(second, work));
        if pair.is_multiple_of(2) { [first, second] } else { [second, first] }
    };
    let measured: Vec<[[f64; 2]; 2]> = (0..PAIRS).map(both).collect();
    let middle = |values: Vec<f64>| [values[PAIRS / 2], values[0], values[PAIRS - 1]];
    let median = |which: usize, what: usize| {
        sorted(measured.iter().map(|pair| pair[which][what]))[PAIRS / 2]
    };
    Pairs {
        one: median(0, 0),
        all: median(1, 0),
        used: [median(0, 1), median(1, 1)],
        times: middle(sorted(measured.iter().map(|[one, all]| one[0] / all[0]))),
        work: middle(sorted(measured.iter().map(|[one, all]| all[1] / one[1]))),
    }
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

/// Reads a capture, extracting every field.
pub(crate) fn analyse(path: &Path, threads: usize) -> (u64, u64) {
    let mut analyzer = Analyzer::new(Limits::default());
    let mut connections = 0;
    firstbyte_capture::read_on(threads, path, &mut analyzer, &mut |_| connections += 1).unwrap();
    firstbyte_capture::finish_on(threads, &mut analyzer, &mut |_| connections += 1);
    (analyzer.hygiene().tcp_packets, connections)
}

/// Copies a file out of the page cache, in pieces that stay in a core's cache, without looking at the data.
pub(crate) fn copy(file: &File, bytes: u64, threads: usize) {
    each_of(threads, &|thread| {
        let mut buffer = vec![0; PIECE as usize];
        for piece in (thread as u64..bytes / PIECE).step_by(threads) {
            black_box(file.read_at(&mut buffer, piece * PIECE).unwrap());
        }
    });
}

/// Computes without touching memory.
pub(crate) fn compute(threads: usize) {
    const STEPS: u64 = 100_000_000;
    each_of(threads, &|_| {
        let steps = 0..STEPS / threads as u64;
        black_box(steps.fold(1u64, |value, n| black_box(value.wrapping_mul(n | 1))));
    });
}

fn each_of(threads: usize, work: &(dyn Fn(usize) + Sync)) {
    thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || work(thread));
        }
    });
}
