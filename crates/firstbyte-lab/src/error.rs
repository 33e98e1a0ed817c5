//! Errors of labs. Every message says what failed, where, and what helps.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why a lab did not start or did not work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum LabError {
    /// The operating system is not Linux.
    Unsupported,
    /// The process had more than one thread.
    Threads {
        /// Number of threads.
        count: usize,
    },
    /// The kernel refused new namespaces.
    Namespaces {
        /// The kernel's reason.
        reason: String,
        /// The known setting of this machine that forbids it, if any.
        cause: Option<String>,
    },
    /// The operating system refused a step of the set-up.
    System {
        /// The step that failed.
        step: String,
        /// The operating system's reason.
        reason: String,
    },
    /// A capture file cannot be written.
    Capture {
        /// The file.
        file: String,
        /// The operating system's reason.
        reason: String,
    },
    /// A copy of a server's log cannot be written.
    Log {
        /// The file.
        file: String,
        /// The operating system's reason.
        reason: String,
    },
    /// The scenario needs nginx, which is not installed.
    NginxNotFound {
        /// The host that needs it.
        host: String,
    },
    /// The scenario needs Caddy, which is not installed.
    CaddyNotFound {
        /// The host that needs it.
        host: String,
    },
    /// The scenario needs a program that is not installed.
    ProgramNotFound {
        /// The host that needs it.
        host: String,
        /// Name or path of the program.
        program: String,
        /// The Debian package that contains it, if the scenario names one.
        package: Option<String>,
    },
    /// A server did not start.
    Server {
        /// The server's host.
        host: String,
        /// Server software.
        kind: String,
        /// The observed failure.
        reason: String,
        /// The server's stderr.
        output: String,
    },
    /// The certificates could not be made.
    Certificates {
        /// The reason.
        reason: String,
    },
    /// The lab has no such host.
    UnknownHost {
        /// The requested name.
        name: String,
        /// The existing names.
        known: Vec<String>,
    },
    /// The command could not be started.
    Command {
        /// The program.
        program: String,
        /// The operating system's reason.
        reason: String,
    },
    /// The lab's own process ended before it reported that it was ready.
    Ended {
        /// Exit code; 128 plus the signal's number if a signal killed it.
        code: i32,
    },
}

impl fmt::Display for LabError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported => write!(f, "the lab needs Linux network namespaces"),
            Self::Threads { count } => {
                write!(
                    f,
                    "a lab must be started while the process has one thread, but it has {count}"
                )
            }
            Self::Namespaces { reason, cause } => {
                write!(f, "the kernel refuses new namespaces: {reason}")?;
                match cause {
                    Some(cause) => write!(f, "\n  {cause}"),
                    None => write!(
                        f,
                        "\n  run as root, or allow user namespaces; in a container, allow it \
                         CAP_SYS_ADMIN or an unconfined seccomp profile"
                    ),
                }
            }
            Self::System { step, reason } => write!(f, "cannot {step}: {reason}"),
            Self::Capture { file, reason } => write!(f, "cannot write capture {file}: {reason}"),
            Self::Log { file, reason } => write!(f, "cannot write log {file}: {reason}"),
            Self::NginxNotFound { host } => write!(
                f,
                "host {host} needs nginx, which is not installed\n  install it (apt-get install \
                 nginx-light), or set server = {{ kind = \"builtin\" }}"
            ),
            Self::CaddyNotFound { host } => write!(
                f,
                "host {host} needs Caddy, which is not installed\n  install it (apt-get install \
                 caddy), or set server = {{ kind = \"builtin\" }}"
            ),
            Self::ProgramNotFound { host, program, package } => {
                write!(f, "host {host} needs {program}, which is not installed")?;
                match package {
                    Some(package) => write!(f, "\n  install it: apt-get install {package}"),
                    None => Ok(()),
                }
            }
            Self::Server { host, kind, reason, output } => {
                write!(f, "server {kind} on host {host} did not start: {reason}")?;
                for line in output.lines() {
                    write!(f, "\n  {line}")?;
                }
                Ok(())
            }
            Self::Certificates { reason } => write!(f, "cannot make certificates: {reason}"),
            Self::UnknownHost { name, known } => {
                write!(f, "the lab has no host `{name}`\n  hosts: {}", known.join(", "))
            }
            Self::Command { program, reason } => write!(f, "cannot run {program}: {reason}"),
            Self::Ended { code } => {
                write!(f, "the lab ended before it was ready, with exit code {code}")
            }
        }
    }
}

impl std::error::Error for LabError {}
