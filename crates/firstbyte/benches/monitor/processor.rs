//! The kernel's figures for processes (proc(5)): processor time by thread, memory, bytes written.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

/// Processor time of this process's live threads, by name.
pub(crate) fn thread_times() -> BTreeMap<String, Duration> {
    let mut times = BTreeMap::new();
    for entry in fs::read_dir("/proc/self/task").unwrap().flatten() {
        // A thread that has ended meanwhile has no file.
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        let (name, rest) = stat.split_once('(').unwrap().1.rsplit_once(") ").unwrap();
        let fields: Vec<&str> = rest.split(' ').collect();
        // Fields 14 and 15 of the file, in ticks of 10 ms.
        let ticks: u64 = fields[11..13].iter().map(|ticks| ticks.parse::<u64>().unwrap()).sum();
        *times.entry(name.to_owned()).or_default() += Duration::from_millis(10 * ticks);
    }
    times
}

/// Peak resident memory of this process, bytes.
pub(crate) fn most_resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1_024
}

/// Current resident memory of this process, bytes.
pub(crate) fn resident() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").unwrap();
    4_096 * statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap()
}

/// Processor time used since the machine started by everything, and by this process.
pub(crate) fn used_times() -> (Duration, Duration) {
    let stat = fs::read_to_string("/proc/stat").unwrap();
    let numbers: Vec<u64> = stat
        .lines()
        .next()
        .unwrap()
        .split_whitespace()
        .skip(1)
        .map(|n| n.parse().unwrap())
        .collect();
    // user, nice, system, idle, iowait, irq, softirq, in ticks of 10 ms.
    let ticks: u64 = [0, 1, 2, 5, 6].iter().map(|place| numbers[*place]).sum();
    let usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_SELF).unwrap();
    let time = |t: nix::sys::time::TimeVal| {
        Duration::new(t.tv_sec().cast_unsigned(), u32::try_from(t.tv_usec()).unwrap() * 1_000)
    };
    (Duration::from_millis(10 * ticks), time(usage.user_time()) + time(usage.system_time()))
}

/// Bytes that this process passed to write calls, and bytes of pages written to disk on its behalf (0 if its files are
/// in memory). The file system's own journal is not included.
pub(crate) fn written_bytes() -> (u64, u64) {
    let io = fs::read_to_string("/proc/self/io").unwrap_or_default();
    let number = |name: &str| {
        let line = io.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.trim().parse().ok()).unwrap_or(0)
    };
    (number("wchar:"), number("write_bytes:"))
}
