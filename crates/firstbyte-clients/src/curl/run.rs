//! One run of curl: starts it, feeds it, reads its output to the end, and ends it early if necessary.
//!
//! Input: a program, its arguments, its standard input, and files for its home. Output: its log lines, and its reports
//! (`--write-out`) separately. The log goes to a file first: written to a pipe line by line, with a reader that wakes
//! up each time, it made visits a millisecond longer. A shell (`supervisor.sh`) runs between us and curl: when our end
//! of the lifeline closes, which the kernel does for us however we end, it kills the program and removes the home.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use nix::sys::stat::Mode;

use crate::deadline::Deadline;
use crate::process::{ClientError, private_directory, system};

const SUPERVISOR: &str = include_str!("supervisor.sh");
/// Number of bytes kept of its log. curl accepts a response header of at most 300 kB.
const KEPT_BYTES: usize = 2 << 20;
/// Maximum length of a line: a report contains the server's certificates.
const LINE_BYTES: usize = 4 << 20;
const REPORTS: usize = 3;
/// Time limit for the supervisor to end its program and to remove the home.
const END_LIMIT: Duration = Duration::from_secs(10);
const END_INTERVAL: Duration = Duration::from_millis(1);
/// Proxy variables, cleared so that curl connects directly.
const PROXIES: [&str; 8] = [
    "http_proxy",
    "https_proxy",
    "HTTPS_PROXY",
    "all_proxy",
    "ALL_PROXY",
    "no_proxy",
    "NO_PROXY",
    "CURL_HOME",
];

/// Ends running work. Once closed it stays closed: work started with it ends at once.
#[derive(Clone, Debug, Default)]
pub(super) struct Leash(Arc<Mutex<Held>>);

#[derive(Debug, Default)]
struct Held {
    closed: bool,
    lifeline: Option<File>,
}

impl Leash {
    /// Ends the running work, and all work started later.
    pub(super) fn close(&self) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.closed = true;
        drop(held.lifeline.take());
    }

    pub(super) fn is_closed(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).closed
    }

    /// Holds the lifeline of the running program; drops it if the leash is already closed.
    fn hold(&self, lifeline: File) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.lifeline = (!held.closed).then_some(lifeline);
    }

    fn let_go(&self) {
        drop(self.0.lock().unwrap_or_else(PoisonError::into_inner).lifeline.take());
    }
}

pub(super) struct Run<'a> {
    pub(super) program: &'a Path,
    pub(super) arguments: &'a [&'a str],
    /// Creates its standard input, given the path of its home and the marker of its reports.
    pub(super) input: &'a dyn Fn(&Path, &str) -> Vec<u8>,
    /// Files of its home, by name.
    pub(super) files: BTreeMap<&'static str, &'a [u8]>,
    pub(super) limit: Option<Duration>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Said {
    /// Its reports, one for each transfer.
    pub(super) reports: Vec<String>,
    /// All other lines, written while it ran.
    pub(super) log: Vec<String>,
    /// Whether the log was too large and was cut.
    pub(super) cut: bool,
    /// Its status, with signals as in a shell (128 plus the signal); absent if its output was not read to the end.
    pub(super) status: Option<i32>,
}

impl Run<'_> {
    /// Runs it until it ends.
    ///
    /// # Errors
    /// If a system call fails, the time is over, or the leash was closed.
    pub(super) fn to_end(&self, leash: &Leash) -> Result<Said, ClientError> {
        if leash.is_closed() {
            return Err(ClientError::Interrupted);
        }
        let home =
            private_directory("firstbyte-client-").map_err(system("make a temporary home"))?;
        for (name, content) in &self.files {
            std::fs::write(home.path().join(name), content).map_err(system("write a file"))?;
        }
        let lifeline_path = home.path().join("lifeline");
        nix::unistd::mkfifo(&lifeline_path, Mode::S_IRUSR | Mode::S_IWUSR)
            .map_err(|error| system("make a pipe")(error.into()))?;
        let lifeline = OpenOptions::new().read(true).write(true).open(&lifeline_path);
        let lifeline = lifeline.map_err(system("open a pipe"))?;
        let marker = home.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", SUPERVISOR, "supervisor"])
            .arg(home.path())
            .arg(&marker)
            .arg(self.program)
            .args(self.arguments)
            .env("HOME", home.path())
            .env("LC_ALL", "C")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0);
        for name in PROXIES {
            command.env_remove(name);
        }
        let mut supervisor = command.spawn().map_err(system("start curl"))?;
        leash.hold(lifeline);
        let outcome = self.hear(&mut supervisor, home.path(), &marker);
        leash.let_go();
        end(&mut supervisor);
        // Usually the supervisor has removed it already.
        drop(home);
        if leash.is_closed() { Err(ClientError::Interrupted) } else { outcome }
    }

    fn hear(&self, child: &mut Child, home: &Path, marker: &str) -> Result<Said, ClientError> {
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let text = (self.input)(home, marker);
        let writing = move || {
            // A program that does not read its input reports why.
            let _ = input.map(|mut input| input.write_all(&text));
        };
        let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
        thread("curl to read its input").spawn(writing).map_err(system("start a thread"))?;
        let (heard, hears) = mpsc::channel();
        let marker = marker.to_owned();
        let reading = move || {
            let mut hearing = Hearing::new(&marker);
            if let Some(mut output) = output {
                hearing.read(&mut output);
            }
            // Nobody waits any more if the time is over.
            let _ = heard.send(hearing.said);
        };
        thread("curl's output").spawn(reading).map_err(system("start a thread"))?;
        let Some(limit) = self.limit else {
            return Ok(hears.recv().unwrap_or_default());
        };
        let late = |_| ClientError::TimedOut { waiting_for: "curl to end".to_owned(), limit };
        hears.recv_timeout(limit).map_err(late)
    }
}

/// Waits for the supervisor, whose lifeline is closed.
fn end(supervisor: &mut Child) {
    let deadline = Deadline::after(END_LIMIT);
    while matches!(supervisor.try_wait(), Ok(None)) {
        if deadline.left().is_none() {
            // The supervisor hangs: kill it.
            let _ = supervisor.kill();
            let _ = supervisor.wait();
            break;
        }
        std::thread::sleep(END_INTERVAL);
    }
}

/// Splits output into lines, in bounded memory.
struct Hearing {
    report: String,
    end: String,
    line: Vec<u8>,
    log_bytes: usize,
    said: Said,
}

impl Hearing {
    fn new(marker: &str) -> Self {
        Self {
            report: format!("{marker} report "),
            end: format!("{marker} end "),
            line: Vec::new(),
            log_bytes: 0,
            said: Said::default(),
        }
    }

    /// Reads until the program or the pipe ends.
    fn read(&mut self, source: &mut impl Read) {
        let mut buffer = [0; 16 * 1024];
        while let Ok(read @ 1..) = source.read(&mut buffer) {
            for piece in buffer[..read].split_inclusive(|byte| *byte == b'\n') {
                let room = LINE_BYTES.saturating_sub(self.line.len());
                self.line.extend(&piece[..piece.len().min(room)]);
                if piece.ends_with(b"\n") && self.line_ends() {
                    return;
                }
            }
        }
        if !self.line.is_empty() {
            self.line_ends();
        }
    }

    /// Handles a complete line; returns whether it was the last.
    fn line_ends(&mut self) -> bool {
        let line = String::from_utf8_lossy(&self.line);
        let line = line.strip_suffix('\n').unwrap_or(&line);
        if let Some(report) = line.strip_prefix(&self.report) {
            // Ignore more reports than were requested.
            if self.said.reports.len() < REPORTS {
                self.said.reports.push(report.to_owned());
            }
        } else if let Some(status) = line.strip_prefix(&self.end) {
            self.said.status = status.trim().parse().ok();
            return true;
        } else if line.starts_with("{ [") || line.starts_with("} [") {
            // Skip lines with the number of bytes of each read or write.
        } else if self.log_bytes + line.len() <= KEPT_BYTES {
            self.log_bytes += line.len() + 1;
            self.said.log.push(line.strip_suffix('\r').unwrap_or(line).to_owned());
        } else {
            self.said.cut = true;
        }
        self.line.clear();
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(bytes: &[u8]) -> Said {
        let mut hearing = Hearing::new("m-1");
        hearing.read(&mut &*bytes);
        hearing.said
    }

    #[test]
    fn reports_are_told_from_the_log() {
        let said = heard(
            b"\nm-1 report {}\n\nm-1 report {1}\n* a\r\n{ [5 bytes data]\n< m-1 report 2\nm-1 end 7\n* d\n",
        );
        assert_eq!(said.reports, ["{}", "{1}"]);
        assert_eq!((said.log.join("|"), said.status), ("||* a|< m-1 report 2".to_owned(), Some(7)));
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut bytes = b"x".repeat(LINE_BYTES + 100);
        for _ in 0..30 {
            bytes.push(b'\n');
            bytes.extend(b"y".repeat(KEPT_BYTES / 10));
        }
        for _ in 0..10 {
            bytes.extend(b"\nm-1 report {}");
        }
        let said = heard(&bytes);
        assert!(said.cut);
        assert_eq!((said.reports.len(), said.status), (REPORTS, None));
        let kept: usize = said.log.iter().map(String::len).sum();
        assert!(kept <= KEPT_BYTES, "{kept}");
    }

    /// A supervisor whose owner ended before it opened its lifeline, so that nobody holds the other end.
    #[test]
    fn a_supervisor_without_an_owner_ends() {
        let home = tempfile::Builder::new().prefix("firstbyte-client-").tempdir().unwrap();
        nix::unistd::mkfifo(&home.path().join("lifeline"), Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
        let mut supervisor = Command::new("/bin/sh")
            .args(["-c", SUPERVISOR, "supervisor"])
            .arg(home.path())
            .args(["m-1", "sleep", "600"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        end(&mut supervisor);
        assert!(supervisor.try_wait().unwrap().is_some_and(|status| status.success()));
        assert!(!home.path().exists());
    }
}
