//! A program that measures for us: started under a temporary home, and ended whatever happens.
//!
//! Input: a program, its arguments, and certificates that it is to trust. Output: two pipes to it (its file
//! descriptors 3 and 4), and the last of what it wrote to standard error.
//!
//! Between us and the program stands a shell (`supervisor.sh`), in a process group of its own, so that Ctrl-C does
//! not reach it. It starts the program in another group, waits until its lifeline is closed, which the kernel does
//! for us however we end, kills that group, and removes the home. The user's own home and profile are never opened.

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

/// How much of what a program writes to standard error is kept: the last of it.
const KEPT_STDERR_BYTES: usize = 64 * 1024;
/// How long the supervisor may take to end its program and to remove the home.
const END_LIMIT: Duration = Duration::from_secs(10);
/// How long its last writers may take to close standard error, once its program has ended.
const STDERR_LIMIT: Duration = Duration::from_secs(1);
/// How long `certutil` may take with one certificate.
const CERTUTIL_LIMIT: Duration = Duration::from_secs(20);
/// How often it is looked whether a process has ended.
const END_INTERVAL: Duration = Duration::from_millis(2);
const SUPERVISOR: &str = include_str!("supervisor.sh");

/// What is to be started.
#[derive(Clone, Debug, Default)]
pub struct ClientCommand {
    /// The program: a name to be looked up on `PATH`, or a path.
    pub program: String,
    /// The package of Debian that has it: named where it is missing.
    pub package: &'static str,
    /// Its arguments. `{home}` in one stands for the temporary home.
    pub arguments: Vec<String>,
    /// Files to be made in the home before, by their paths within it.
    pub files: Vec<(String, String)>,
    /// Certificates (PEM) of authorities that it is to trust besides those it knows, by an NSS database in its home.
    pub trusted_pem: Vec<String>,
    /// Where that database is, within the home: where programs look that have no profile of their own, unless named.
    pub nss_database: Option<&'static str>,
    /// Variables of its environment.
    pub environment: Vec<(&'static str, &'static str)>,
}

/// Why a program could not be started, or did not do what it should.
#[derive(Debug)]
pub enum ClientError {
    /// It is not there.
    Missing {
        /// The program.
        program: String,
        /// The package that has it.
        package: &'static str,
    },
    /// The system refused something.
    System {
        /// What was to be done.
        operation: &'static str,
        /// What the system said.
        error: io::Error,
    },
    /// A certificate that it is to trust was not taken into its database.
    NotTrusted {
        /// What `certutil` said.
        detail: String,
    },
    /// It ended by itself.
    Ended {
        /// The program.
        program: String,
        /// The last of what it wrote to standard error.
        stderr: String,
    },
    /// It did not do something in time.
    TimedOut {
        /// What was waited for.
        waiting_for: String,
        /// For how long.
        limit: Duration,
    },
    /// It refused a command, or answered it with something else than was asked for.
    Refused {
        /// The command.
        command: String,
        /// What it said.
        detail: String,
    },
    /// It said more than there is room for.
    TooMuch {
        /// What there was too much of.
        what: &'static str,
        /// What there is room for.
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

/// Wraps what the system said of `operation`.
pub(crate) fn system(operation: &'static str) -> impl FnOnce(io::Error) -> ClientError {
    move |error| ClientError::System { operation, error }
}

/// A program under its supervisor. Ends with this: program, its children, its home.
#[derive(Debug)]
pub struct ClientProcess {
    program: String,
    supervisor: Child,
    /// Closed to have everything ended.
    lifeline: Option<File>,
    /// Taken by who speaks with the program.
    pub(crate) to_program: Option<ChildStdin>,
    pub(crate) from_program: Option<ChildStdout>,
    stderr: Arc<Mutex<VecDeque<u8>>>,
    stderr_reader: Option<JoinHandle<()>>,
    /// Removed by the supervisor; here, where that did not come so far.
    home: Option<TempDir>,
}

impl ClientProcess {
    /// Starts the program.
    ///
    /// # Errors
    /// It is missing, or the system refuses files, pipes or processes.
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

    /// The program's name, as it was asked for.
    pub(crate) fn program(&self) -> &str {
        &self.program
    }

    /// The temporary home.
    pub fn home(&self) -> Option<&Path> {
        self.home.as_ref().map(TempDir::path)
    }

    /// That the program ended by itself: with the last lines that it wrote to standard error. What is left of it
    /// is ended too, so that these are there as a whole.
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
                // It is ours, and hangs: its program is asked to end by the pipes that are closed.
                let _ = self.supervisor.kill();
                let _ = self.supervisor.wait();
                break;
            }
            std::thread::sleep(END_INTERVAL);
        }
        if let Some(reader) = self.stderr_reader.take() {
            // Ends with the last writer. The supervisor has killed those of the program's group; one that left it
            // keeps the pipe, and is not waited for.
            let deadline = Deadline::after(STDERR_LIMIT);
            while !reader.is_finished() && deadline.left().is_some() {
                std::thread::sleep(END_INTERVAL);
            }
            if reader.is_finished() {
                let _ = reader.join();
            }
        }
        // Gone already, mostly; what is left of it after a failure goes now.
        drop(self.home.take());
    }
}

impl Drop for ClientProcess {
    fn drop(&mut self) {
        self.end();
    }
}

/// A FIFO whose one writer is this process. Opened for reading as well, so that it opens at once.
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

/// A temporary directory that its owner alone can enter: there are requests, keys and sessions in it.
pub(crate) fn private_directory(prefix: &str) -> std::io::Result<tempfile::TempDir> {
    let only_owner = std::fs::Permissions::from_mode(0o700);
    tempfile::Builder::new().prefix(prefix).permissions(only_owner).tempdir()
}

/// Whether `program` is there.
///
/// # Errors
/// [`ClientError::Missing`].
pub fn installed(program: &str, package: &'static str) -> Result<(), ClientError> {
    find(program).map(drop).ok_or_else(|| missing(program, package))
}

/// Where `program` is, if it is there.
pub fn find(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        let path = PathBuf::from(program);
        return path.is_file().then_some(path);
    }
    let path: OsString = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(program)).find(|p| p.is_file())
}

/// Makes an NSS database in `home`, at `database`, that trusts `certificates` (PEM) as authorities for servers.
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

/// Runs it; what it says goes to the file `said`.
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

/// How `child` ended; nothing where it took longer than `limit`, and was killed.
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

    /// Whoever started it has ended before it opened its lifeline: nobody holds that any more.
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
