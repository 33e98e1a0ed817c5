//! Processor time of a process and its descendants, from /proc (proc_pid_stat(5)).
//!
//! It includes children that have ended, if their parents waited for them.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use firstbyte_core::timeline::ProcessorTime;

/// Ticks per second, as Linux reports them to programs (USER_HZ).
const TICKS: f64 = 100.0;

/// Processor time of a process, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    parent: u32,
    user: u64,
    system: u64,
}

/// Processor time of a process and its descendants so far; `None` if it has ended.
pub(super) fn of_tree(root: u32) -> Option<ProcessorTime> {
    let entries = fs::read_dir("/proc").ok()?.flatten();
    let processes = entries.filter_map(|entry| {
        let number: u32 = entry.file_name().to_str()?.parse().ok()?;
        let text = fs::read_to_string(entry.path().join("stat")).ok()?;
        Some((number, parse(&text)?))
    });
    let (user, system) = sum(root, &processes.collect())?;
    let time = |of: u64| Duration::from_secs_f64(of as f64 / TICKS);
    Some(ProcessorTime { user: time(user), system: time(system) })
}

/// Ticks of `root` and all its descendants.
fn sum(root: u32, all: &BTreeMap<u32, Stat>) -> Option<(u64, u64)> {
    let mut total = all.get(&root).map(|stat| (stat.user, stat.system))?;
    let mut parents = vec![root];
    while let Some(parent) = parents.pop() {
        for (number, stat) in all.iter().filter(|(_, stat)| stat.parent == parent) {
            total = (total.0 + stat.user, total.1 + stat.system);
            parents.push(*number);
        }
    }
    Some(total)
}

/// Parent of a process, and its processor time including children that were waited for. The name, in
/// parentheses, can contain anything.
fn parse(stat: &str) -> Option<Stat> {
    let (_, behind) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = behind.split_whitespace().collect();
    // The first of these fields is the third of the line.
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    Some(Stat {
        parent: u32::try_from(number(4)?).ok()?,
        user: number(14)? + number(16)?,
        system: number(15)? + number(17)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_whatever_the_name() {
        let line = "12 (a ) b) S 7 12 12 0 -1 4194304 1 2 3 4 50 60 5 6 20 0 1 0 99";
        assert_eq!(parse(line), Some(Stat { parent: 7, user: 55, system: 66 }));
        assert_eq!(parse("12 (a) S 7 12"), None);
    }

    #[test]
    fn a_tree_is_summed() {
        let stat = |parent, user| Stat { parent, user, system: 1 };
        let all = [(2, stat(1, 10)), (3, stat(2, 20)), (4, stat(3, 40)), (5, stat(1, 80))];
        assert_eq!(sum(2, &all.into()), Some((70, 3)));
        assert_eq!(sum(9, &all.into()), None);
    }

    #[test]
    fn what_a_child_takes_is_its_parents() {
        let before = of_tree(std::process::id()).unwrap();
        let script = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        let status = std::process::Command::new("/bin/sh").args(["-c", script]).status().unwrap();
        assert!(status.success());
        let after = of_tree(std::process::id()).unwrap();
        assert!(after.sum() >= before.sum() + Duration::from_millis(10), "{before:?} {after:?}");
    }
}
