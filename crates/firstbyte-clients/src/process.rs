//! Runs an external program under a temporary home, and makes sure that it ends.
//!
//! Input: a program, its arguments, and certificates to trust. Output: two pipes to it (its file descriptors 3 and 4),
//! and the end of its standard error.
//!
//! A shell (`supervisor.sh`) runs between us and the program, in its own process group, so that Ctrl-C does not reach
//! it. It starts the program in another group and waits until its lifeline is closed, which the kernel does for us
//! however we end. Then it kills that group and removes the home. The user's own home and profile are never opened.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sys::stat::Mode;
use tempfile::TempDir;

use crate::deadline::Deadline;

/// Number of bytes kept of the end of a program's standard error.
const KEPT_STDERR_BYTES: usize = 64 * 1024;
/// Time limit for the supervisor to end its program and to remove the home.
const END_LIMIT: Duration = Duration::from_secs(10);
/// Time limit for the last writers to close standard error, once the program has ended.
const STDERR_LIMIT: Duration = Duration::from_secs(1);
/// Time limit for `certutil` to add one certificate.
const CERTUTIL_LIMIT: Duration = Duration::from_secs(20);
/// Interval of checks whether a process has ended.
const END_INTERVAL: Duration = Duration::from_millis(2);
const SUPERVISOR: &str = include_str!("supervisor.sh");

/// How to start a program.
#[derive(Clone, Debug, Default)]
pub struct ClientCommand {
    /// The program: a name to look up on `PATH`, or a path.
    pub program: String,
    /// Its Debian package, which an error names if the program is missing.
    pub package: &'static str,
    /// Its arguments. `{home}` in one stands for the temporary home.
    pub arguments: Vec<String>,
    /// Files to create in the home first, by their paths within it.
    pub files: Vec<(String, String)>,
    /// Certificates (PEM) of additional authorities to trust, through an NSS database in its home.
    pub trusted_pem: Vec<String>,
    /// Path of that database within the home; by default, the one that programs without a profile of their own use.
    pub nss_database: Option<&'static str>,
    /// Environment variables.
    pub environment: Vec<(&'static str, &'static str)>,
}

/// Why a program could not be started, or did not do what it should.
#[derive(Debug)]
pub enum ClientError {
    /// It is not installed.
    Missing {
        /// The program.
        program: String,
        /// The package that contains it.
        package: &'static str,
    },
    /// The system refused something.
    System {
        /// The operation.
        operation: &'static str,
        /// The system's error.
        error: io::Error,
    },
    /// A certificate could not be added to its database.
    NotTrusted {
        /// Output of `certutil`.
        detail: String,
    },
    /// It ended by itself.
    Ended {
        /// The program.
        program: String,
        /// The end of its standard error.
        stderr: String,
    },
    /// It did not do something in time.
    TimedOut {
        /// The thing that was awaited.
        waiting_for: String,
        /// The time limit.
        limit: Duration,
    },
    /// It rejected a command, or answered it in an unexpected way.
    Refused {
        /// The command.
        command: String,
        /// Its answer.
        detail: String,
    },
    /// Its output was larger than the limit.
    TooMuch {
        /// The kind of output.
        what: &'static str,
        /// The limit.
        limit_bytes: usize,
    },
    /// The caller interrupted it.
    Interrupted,
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { program, package } => {
                write!(
                    f,
                    "{program} is not installed (Debian and Ubuntu: apt-get install {package})"
                )
            }
            Self::System { operation, error } => write!(f, "cannot {operation}: {error}"),
            Self::NotTrusted { detail } => {
                write!(f, "cannot add the certificate to the client's database: {detail}")
            }
            Self::Ended { program, stderr } if stderr.is_empty() => {
                write!(f, "{program} ended unexpectedly without a message")
            }
            Self::Ended { program, stderr } => {
                write!(f, "{program} ended unexpectedly; its last output was:\n{stderr}")
            }
            Self::TimedOut { waiting_for, limit } => {
                write!(
                    f,
                    "timed out after {} s while waiting for {waiting_for}",
                    limit.as_secs_f64()
                )
            }
            Self::Refused { command, detail } => write!(f, "{command} failed: {detail}"),
            Self::TooMuch { what, limit_bytes } => {
                write!(f, "{what} is larger than the limit of {} MB", limit_bytes >> 20)
            }
            Self::Interrupted => f.write_str("interrupted"),
        }
    }
}

impl std::error::Error for ClientError {}

/// Wraps a system error of `operation`.
pub(crate) fn system(operation: &'static str) -> impl FnOnce(io::Error) -> ClientError {
    move |error| ClientError::System { operation, error }
}

/// A program under its supervisor. Dropping this ends the program with its children, and removes its home.
#[derive(Debug)]
pub struct ClientProcess {
    program: String,
    supervisor: Child,
    /// Closing it ends everything.
    lifeline: Option<File>,
    /// Taken by the code that talks to the program.
    pub(crate) to_program: Option<ChildStdin>,
    pub(crate) from_program: Option<ChildStdout>,
    stderr: Arc<Mutex<VecDeque<u8>>>,
    stderr_reader: Option<JoinHandle<()>>,
    /// The supervisor removes it; if that fails, dropping this does.
    home: Option<TempDir>,
}

impl ClientProcess {
    /// Starts the program.
    ///
    /// # Errors
    /// If the program is missing, or the system cannot create files, pipes or processes.
    pub fn start(command: &ClientCommand) -> Result<Self, ClientError> {
        let program =
            find(&command.program).ok_or_else(|| missing(&command.program, command.package))?;
        let home =
            private_directory("firstbyte-client-").map_err(system("make a temporary home"))?;
        for (path, content) in &command.files {
            let path = home.path().join(path);
            if let Some(directory) = path.parent() {
                std::fs::create_dir_all(directory).map_err(system("make a profile"))?;
            }
            std::fs::write(path, content).map_err(system("make a profile"))?;
        }
        if !command.trusted_pem.is_empty() {
            let database = command.nss_database.unwrap_or(".pki/nssdb");
            trust(home.path(), database, &command.trusted_pem)?;
        }
        let temporary = home.path().join("tmp");
        std::fs::create_dir(&temporary).map_err(system("make a temporary home"))?;
        let lifeline = lifeline(&home.path().join("lifeline"))?;
        let home_text = home.path().to_string_lossy();
        let arguments = command.arguments.iter().map(|a| a.replace("{home}", &home_text));
        let mut supervisor = Command::new("/bin/sh")
            .args(["-c", SUPERVISOR, "supervisor"])
            .arg(home.path())
            .arg(program)
            .args(arguments)
            .env("HOME", home.path())
            .env("TMPDIR", temporary)
            .envs(command.environment.iter().copied())
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("XDG_CACHE_HOME")
            .env_remove("XDG_DATA_HOME")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(system("start a client"))?;
        let stderr = Arc::new(Mutex::new(VecDeque::new()));
        let kept = Arc::clone(&stderr);
        let source = supervisor.stderr.take();
        let reader = std::thread::Builder::new()
            .name("client's stderr".to_owned())
            .spawn(move || source.into_iter().for_each(|source| keep_last(source, &kept)))
            .map_err(system("start a thread"));
        let mut process = Self {
            program: command.program.clone(),
            to_program: supervisor.stdin.take(),
            from_program: supervisor.stdout.take(),
            supervisor,
            lifeline: Some(lifeline),
            stderr,
            stderr_reader: None,
            home: Some(home),
        };
        process.stderr_reader = Some(reader?);
        Ok(process)
    }

    /// The program's name, as requested.
    pub(crate) fn program(&self) -> &str {
        &self.program
    }

    /// The temporary home.
    pub fn home(&self) -> Option<&Path> {
        self.home.as_ref().map(TempDir::path)
    }

    /// The error for a program that ended by itself, with the last lines of its standard error. Ends its remaining
    /// processes too, so that these lines are complete.
    pub fn ended(&mut self) -> ClientError {
        self.end();
        ClientError::Ended { program: self.program.clone(), stderr: self.last_stderr_lines() }
    }

    fn last_stderr_lines(&self) -> String {
        const LINES: usize = 8;
        let kept = self.stderr.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = kept.iter().copied().collect();
        drop(kept);
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        lines[lines.len().saturating_sub(LINES)..].join("\n")
    }

    fn end(&mut self) {
        drop(self.to_program.take());
        drop(self.from_program.take());
        drop(self.lifeline.take());
        let deadline = Deadline::after(END_LIMIT);
        while matches!(self.supervisor.try_wait(), Ok(None)) {
            if deadline.left().is_none() {
                // The supervisor hangs: kill it. The closed pipes make its program end.
                let _ = self.supervisor.kill();
                let _ = self.supervisor.wait();
                break;
            }
            std::thread::sleep(END_INTERVAL);
        }
        if let Some(reader) = self.stderr_reader.take() {
            // The reader ends with the last writer. The supervisor has killed those in the program's group; one that
            // left the group keeps the pipe open, and is not waited for.
            let deadline = Deadline::after(STDERR_LIMIT);
            while !reader.is_finished() && deadline.left().is_some() {
                std::thread::sleep(END_INTERVAL);
            }
            if reader.is_finished() {
                let _ = reader.join();
            }
        }
        // Usually the supervisor has removed it already; after a failure it is removed here.
        drop(self.home.take());
    }
}

impl Drop for ClientProcess {
    fn drop(&mut self) {
        self.end();
    }
}

/// A FIFO whose only writer is this process. It is opened for reading as well, so that opening does not block.
fn lifeline(path: &Path) -> Result<File, ClientError> {
    nix::unistd::mkfifo(path, Mode::S_IRUSR | Mode::S_IWUSR)
        .map_err(|error| system("make a pipe")(error.into()))?;
    OpenOptions::new().read(true).write(true).open(path).map_err(system("open a pipe"))
}

fn keep_last(mut source: impl Read, kept: &Mutex<VecDeque<u8>>) {
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = source.read(&mut buffer) {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(&buffer[..read]);
        let surplus = kept.len().saturating_sub(KEPT_STDERR_BYTES);
        kept.drain(..surplus);
    }
}

fn missing(program: &str, package: &'static str) -> ClientError {
    ClientError::Missing { program: program.to_owned(), package }
}

/// A temporary directory that only its owner can enter, since it contains requests, keys and sessions.
pub(crate) fn private_directory(prefix: &str) -> std::io::Result<tempfile::TempDir> {
    let only_owner = std::fs::Permissions::from_mode(0o700);
    tempfile::Builder::new().prefix(prefix).permissions(only_owner).tempdir()
}

/// Checks that `program` is installed.
///
/// # Errors
/// [`ClientError::Missing`] if it is not.
pub fn installed(program: &str, package: &'static str) -> Result<(), ClientError> {
    find(program).map(drop).ok_or_else(|| missing(program, package))
}

/// Path of `program`, if it is installed.
pub fn find(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        let path = PathBuf::from(program);
        return path.is_file().then_some(path);
    }
    let path: OsString = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(program)).find(|p| p.is_file())
}

/// Creates an NSS database in `home`, at `database`, that trusts `certificates` (PEM) as authorities for servers.
fn trust(home: &Path, database: &str, certificates: &[String]) -> Result<(), ClientError> {
    let program = find("certutil").ok_or_else(|| missing("certutil", "libnss3-tools"))?;
    let database = home.join(database);
    std::fs::create_dir_all(&database).map_err(system("make a certificate database"))?;
    let database = format!("sql:{}", database.display());
    let said = home.join("certutil.err");
    certutil(&program, &["-d", &database, "-N", "--empty-password"], &said)?;
    for (number, certificate) in certificates.iter().enumerate() {
        let file = home.join(format!("authority-{number}.pem"));
        std::fs::write(&file, certificate).map_err(system("write a certificate"))?;
        let (name, file) = (format!("authority {number}"), file.to_string_lossy());
        let arguments = ["-d", &database, "-A", "-t", "C,,", "-n", &name, "-i", &file];
        certutil(&program, &arguments, &said)?;
    }
    Ok(())
}

/// Runs it, with its output going to the file `said`.
fn certutil(program: &Path, arguments: &[&str], said: &Path) -> Result<(), ClientError> {
    let error = File::create(said).map_err(system("make a certificate database"))?;
    let mut running = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(error)
        .spawn()
        .map_err(system("run certutil"))?;
    let Some(status) = end_within(&mut running, CERTUTIL_LIMIT).map_err(system("run certutil"))?
    else {
        return Err(ClientError::TimedOut {
            waiting_for: "certutil to end".to_owned(),
            limit: CERTUTIL_LIMIT,
        });
    };
    if status.success() {
        return Ok(());
    }
    let detail = std::fs::read(said).map_err(system("read what certutil said"))?;
    let detail = String::from_utf8_lossy(&detail).trim().to_owned();
    Err(ClientError::NotTrusted { detail })
}

/// How `child` ended; `None` if it took longer than `limit` and was killed.
fn end_within(child: &mut Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let deadline = Deadline::after(limit);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if deadline.left().is_none() {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(END_INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_is_its_owners_alone() {
        let home = private_directory("firstbyte-client-").unwrap();
        assert_eq!(home.path().metadata().unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn what_hangs_is_killed() {
        let sleep = |time: &str| Command::new("sleep").arg(time).spawn().unwrap();
        let ended = end_within(&mut sleep("0"), Duration::from_secs(30)).unwrap();
        assert!(ended.is_some_and(|status| status.success()));
        assert_eq!(end_within(&mut sleep("600"), Duration::from_millis(50)).unwrap(), None);
    }

    /// A supervisor whose owner ended before it opened its lifeline, so that nobody holds the other end.
    #[test]
    fn a_supervisor_without_an_owner_ends() {
        let home = tempfile::Builder::new().prefix("firstbyte-client-").tempdir().unwrap();
        drop(lifeline(&home.path().join("lifeline")).unwrap());
        let mut supervisor = Command::new("/bin/sh")
            .args(["-c", SUPERVISOR, "supervisor"])
            .arg(home.path())
            .args(["sleep", "600"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        let ended = end_within(&mut supervisor, Duration::from_secs(30)).unwrap();
        assert!(ended.is_some());
        assert!(!home.path().exists());
    }
}
