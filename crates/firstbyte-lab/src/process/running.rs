//! Running labs: found, entered and ended without state files.
//!
//! A lab's process holds open an anonymous memory file (memfd) that describes the lab, and its hosts'
//! network namespaces. Processes with permission find both in `/proc/PID/fd`. They disappear with the process.

use std::fs::{self, File};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use nix::errno::Errno;
use nix::sched::{CloneFlags, setns};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid, getsid};
use serde::{Deserialize, Serialize};

use super::relay::{Collect, HeldSignals};
use super::{LabReport, failed, read_report, tell, wait_for_command};
use crate::error::LabError;
use crate::reports::ServerReport;
use crate::sys::{fork_with, start_in_network};

const MEMFD_LINK: &str = "/memfd:firstbyte-lab (deleted)";
/// Time limit for a lab to end by itself.
const END_LIMIT: Duration = Duration::from_secs(3);
const END_POLL: Duration = Duration::from_millis(10);

/// Description that a lab publishes about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Published {
    pub(crate) scenario: String,
    pub(crate) started: SystemTime,
    pub(crate) client: String,
    /// Session (setsid(2)) of the process that started it, which identifies the terminal.
    pub(crate) session: Option<i32>,
    /// Each host, and the number of its network namespace's descriptor.
    pub(crate) hosts: Vec<(String, i32)>,
    pub(crate) servers: Vec<ServerReport>,
    /// Hosts of servers that are programs, and their process IDs within the lab.
    pub(crate) processes: Vec<(String, u32)>,
    pub(crate) environment: Vec<(String, String)>,
}

/// Makes a lab discoverable for as long as the result lives.
pub(crate) fn publish(about: &Published) -> Result<OwnedFd, LabError> {
    let failed = |reason: String| LabError::System { step: "describe the lab".to_owned(), reason };
    let memfd = memfd_create(c"firstbyte-lab", MFdFlags::MFD_CLOEXEC)
        .map_err(|errno| failed(errno.desc().to_owned()))?;
    let text = serde_json::to_vec(about).map_err(|error| failed(error.to_string()))?;
    let mut file = File::from(memfd);
    file.write_all(&text).map_err(|error| failed(error.to_string()))?;
    Ok(file.into())
}

/// A running lab of this user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningLab {
    pid: Pid,
    about: Published,
}

impl RunningLab {
    /// All labs of this user, the oldest first.
    pub fn all() -> Vec<Self> {
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let mut labs: Vec<Self> = processes
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter_map(|pid| Self::from_process(Pid::from_raw(pid)))
            .collect();
        labs.sort_by_key(|lab| (lab.about.started, lab.pid));
        labs
    }

    /// The lab's process ID.
    pub fn pid(&self) -> i32 {
        self.pid.as_raw()
    }

    /// The name of its scenario.
    pub fn scenario(&self) -> &str {
        &self.about.scenario
    }

    /// When it was started.
    pub fn started(&self) -> SystemTime {
        self.about.started
    }

    /// Whether it was started in this session, that is, from this terminal.
    pub fn is_of_this_session(&self) -> bool {
        let here = getsid(None).ok().map(Pid::as_raw);
        here.is_some() && self.about.session == here
    }

    /// Its hosts' names.
    pub fn hosts(&self) -> Vec<&str> {
        self.about.hosts.iter().map(|(name, _)| name.as_str()).collect()
    }

    /// Its web servers.
    pub fn servers(&self) -> &[ServerReport] {
        &self.about.servers
    }

    /// Servers whose programs have ended. They remain as zombies, because the lab's process does not collect them.
    ///
    /// Servers started by a change of the scenario are not known.
    pub fn ended_servers(&self) -> Vec<ServerReport> {
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let ended: Vec<u32> = processes
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .map(Pid::from_raw)
            .filter(|pid| parent(*pid) == Some(self.pid))
            .filter_map(number_of_zombie)
            .collect();
        let hosts = self.about.processes.iter().filter(|(_, number)| ended.contains(number));
        let hosts: Vec<&str> = hosts.map(|(host, _)| host.as_str()).collect();
        let servers = self.about.servers.iter();
        servers.filter(|server| hosts.contains(&server.host.as_str())).cloned().collect()
    }

    /// Runs a command on one of its hosts, by default the client, and returns its exit code.
    ///
    /// The command is a process of the lab and ends with it. The calling process must have only one
    /// thread, and stays in its own namespace.
    pub fn run(&self, host: Option<&str>, command: &mut Command) -> Result<i32, LabError> {
        let host = host.unwrap_or(&self.about.client);
        let network = self.network(host)?;
        command.envs(self.about.environment.iter().map(|(name, value)| (name, value)));
        let signals = HeldSignals::new().map_err(failed("hold signals"))?;
        let (reader, mut writer) = std::io::pipe().map_err(|error| LabError::System {
            step: "open a pipe".to_owned(),
            reason: error.to_string(),
        })?;
        let child = fork_with(|| {
            let _ = signals.release();
            let entered = self.enter().and_then(|()| {
                start_in_network(command, network);
                wait_for_command(command)
            });
            entered.unwrap_or_else(|error| {
                tell(&mut writer, &LabReport::Failed(error));
                1
            })
        })
        .map_err(failed("fork"))?;
        drop(writer);
        // Passes signals on until the child has ended; only then reads why it failed, if it did.
        let code = signals.wait_for(child, Collect::One).map_err(failed("wait for the command"))?;
        match read_report(reader) {
            Some(LabReport::Failed(error)) => Err(error),
            _ => Ok(code),
        }
    }

    /// Ends the lab and everything that runs in it.
    pub fn down(&self) -> Result<(), LabError> {
        for signal in [Signal::SIGTERM, Signal::SIGKILL] {
            // The process may have ended, and its ID may have been reused.
            if !self.is_up() {
                return Ok(());
            }
            match kill(self.pid, signal) {
                Ok(()) | Err(Errno::ESRCH) => {}
                Err(error) => return Err(failed("end the lab")(error)),
            }
            let polls = END_LIMIT.as_millis() / END_POLL.as_millis();
            for _ in 0..polls {
                if !self.is_up() {
                    return Ok(());
                }
                std::thread::sleep(END_POLL);
            }
        }
        Err(LabError::System {
            step: "end the lab".to_owned(),
            reason: format!("process {} is still running", self.pid),
        })
    }

    /// The lab whose process is a grandchild of this front process.
    pub(crate) fn started_by(front: Pid) -> Option<Self> {
        Self::all().into_iter().find(|lab| parent(lab.pid).and_then(parent) == Some(front))
    }

    fn from_process(pid: Pid) -> Option<Self> {
        let directory = PathBuf::from(format!("/proc/{pid}"));
        if fs::metadata(&directory).ok()?.uid() != geteuid().as_raw() {
            return None;
        }
        let link = Path::new(MEMFD_LINK);
        let mut descriptors = fs::read_dir(directory.join("fd")).ok()?.flatten();
        let memfd =
            descriptors.find(|entry| fs::read_link(entry.path()).is_ok_and(|to| to == link))?;
        let about = serde_json::from_slice(&fs::read(memfd.path()).ok()?).ok()?;
        Some(Self { pid, about })
    }

    fn is_up(&self) -> bool {
        Self::from_process(self.pid).as_ref() == Some(self)
    }

    /// The network namespace of one of its hosts.
    fn network(&self, host: &str) -> Result<OwnedFd, LabError> {
        let number = self.about.hosts.iter().find(|(name, _)| name == host);
        let (_, number) = number.ok_or_else(|| LabError::UnknownHost {
            name: host.to_owned(),
            known: self.hosts().into_iter().map(str::to_owned).collect(),
        })?;
        self.open(&format!("fd/{number}"))
    }

    /// Moves this process into the lab's namespaces, and its next child into the lab's process namespace.
    fn enter(&self) -> Result<(), LabError> {
        let directory = std::env::current_dir();
        let kinds = [
            ("user", CloneFlags::CLONE_NEWUSER),
            ("mnt", CloneFlags::CLONE_NEWNS),
            ("ipc", CloneFlags::CLONE_NEWIPC),
            ("pid", CloneFlags::CLONE_NEWPID),
        ];
        // All are opened before the first is entered, because entering replaces `/proc`.
        let namespaces = kinds
            .iter()
            .filter(|(name, _)| !self.shares(name))
            .map(|(name, kind)| Ok((self.open(&format!("ns/{name}"))?, *kind)))
            .collect::<Result<Vec<_>, LabError>>()?;
        for (namespace, kind) in namespaces {
            setns(namespace, kind).map_err(failed("enter the lab"))?;
        }
        if let Ok(directory) = directory {
            // If the lab does not have this directory, we stay in its root.
            let _ = std::env::set_current_dir(directory);
        }
        Ok(())
    }

    /// Whether this process is already in the lab's namespace of this kind.
    fn shares(&self, name: &str) -> bool {
        let of = |process: &str| fs::read_link(format!("/proc/{process}/ns/{name}")).ok();
        of("self") == of(&self.pid.to_string())
    }

    fn open(&self, file: &str) -> Result<OwnedFd, LabError> {
        let path = format!("/proc/{}/{file}", self.pid);
        File::open(&path).map(OwnedFd::from).map_err(|error| LabError::System {
            step: format!("enter the lab through {path}"),
            reason: error.to_string(),
        })
    }
}

/// The process ID that an ended process had in its own namespace (proc_pid_status(5)).
fn number_of_zombie(pid: Pid) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    field("State:").filter(|state| state.trim().starts_with('Z'))?;
    field("NSpid:")?.split_whitespace().last()?.parse().ok()
}

/// A process's parent: the fourth field of its `stat`, the second after the parenthesised name.
fn parent(pid: Pid) -> Option<Pid> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(1)?.parse().ok().map(Pid::from_raw)
}
