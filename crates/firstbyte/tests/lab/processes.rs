//! Descendants of a process, which include those of a lab.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::PathBuf;
use std::time::Duration;

/// A process: its ID, and its start time in kernel ticks.
type Process = (u32, u64);

/// The processes and namespaces of a running lab.
#[derive(Debug, Default)]
pub(crate) struct Family {
    processes: BTreeSet<Process>,
    network_namespaces: BTreeSet<PathBuf>,
    /// Keeps the namespaces open: the kernel would reuse the number of a deleted one for another test's.
    open_namespaces: Vec<File>,
}

impl Family {
    /// All descendants of a process, without the process itself, and their network namespaces except the test's own.
    pub(crate) fn below(ancestor: u32) -> Self {
        let all = all();
        let mut family = Self::default();
        let mut parents = BTreeSet::from([ancestor]);
        loop {
            let children: Vec<_> = all
                .iter()
                .filter(|(process, parent)| {
                    parents.contains(parent) && !family.processes.contains(process)
                })
                .map(|(process, _)| *process)
                .collect();
            if children.is_empty() {
                break;
            }
            parents = children.iter().map(|(pid, _)| *pid).collect();
            family.processes.extend(children);
        }
        let own = network_namespace(std::process::id());
        family.network_namespaces =
            family.processes.iter().filter_map(|(pid, _)| network_namespace(*pid)).collect();
        family.network_namespaces.retain(|namespace| Some(namespace) != own.as_ref());
        let open = |(pid, _): &Process| File::open(namespace_file(*pid)).ok();
        family.open_namespaces = family.processes.iter().filter_map(open).collect();
        family
    }

    /// The descendants of a process, once there are enough of them for a lab that runs a command.
    pub(crate) fn of_lab(ancestor: u32) -> Self {
        let mut family = Self::default();
        wait_until("the lab exists", || {
            family = Self::below(ancestor);
            family.processes.len() >= 4 && family.network_namespaces.len() >= 2
        });
        family
    }

    pub(crate) fn wait_until_gone(&self) {
        wait_until(&format!("nothing is left of {self:?}"), || {
            let now = all();
            let process_left = now.iter().any(|(process, _)| self.processes.contains(process));
            let namespace_left = now
                .iter()
                .filter_map(|((pid, _), _)| network_namespace(*pid))
                .any(|namespace| self.network_namespaces.contains(&namespace));
            !process_left && !namespace_left
        });
    }
}

/// All processes, each with its parent's ID.
fn all() -> Vec<(Process, u32)> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
            // After the name in parentheses: state, parent, …; the start time is field 22 of the whole line.
            let (_, fields) = stat.rsplit_once(')')?;
            let fields: Vec<&str> = fields.split_whitespace().collect();
            Some(((pid, fields.get(19)?.parse().ok()?), fields.get(1)?.parse().ok()?))
        })
        .collect()
}

fn network_namespace(pid: u32) -> Option<PathBuf> {
    fs::read_link(namespace_file(pid)).ok()
}

fn namespace_file(pid: u32) -> String {
    format!("/proc/{pid}/ns/net")
}

fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    for _ in 0..500 {
        if condition() {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("not within 10 s: {what}");
}
