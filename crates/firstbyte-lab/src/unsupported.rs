//! The lab on unsupported systems: the same names, with an error instead of a lab.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use crate::access_log::Entry;
use crate::error::LabError;
use crate::options::LabOptions;
use crate::reports::{
    CaptureStats, ChangeReport, ForwarderStats, ServerEnd, ServerReport, ServerTime,
};
use crate::scenario::Scenario;
use crate::warning::LabWarning;

/// Always fails with [`LabError::Unsupported`].
pub fn run(
    _scenario: &Scenario,
    _options: &LabOptions,
    _main: impl FnOnce(&Lab) -> i32,
) -> Result<i32, LabError> {
    Err(LabError::Unsupported)
}

/// Always fails with [`LabError::Unsupported`].
pub fn up(_scenario: &Scenario, _options: &LabOptions) -> Result<RunningLab, LabError> {
    Err(LabError::Unsupported)
}

/// A running lab; never exists on this system.
#[derive(Debug)]
pub struct Lab(Infallible);

impl Lab {
    /// The scenario that the lab was made from.
    pub fn scenario(&self) -> &Scenario {
        match self.0 {}
    }

    /// The lab's web servers and their software.
    pub fn servers(&self) -> Vec<ServerReport> {
        match self.0 {}
    }

    /// The access log of a host's server.
    pub fn server_log(&self, _host: &str) -> Result<PathBuf, LabError> {
        match self.0 {}
    }

    /// Requests that a host's server has logged so far.
    pub fn requests(&self, _host: &str) -> Result<Vec<Entry>, LabError> {
        match self.0 {}
    }

    /// See the same method on Linux.
    pub fn save_logs(&self) -> Result<(), LabError> {
        match self.0 {}
    }

    /// See the same method on Linux.
    pub fn log_dir(&self) -> Option<&Path> {
        match self.0 {}
    }

    /// See the same method on Linux.
    pub fn warnings(&self) -> &[LabWarning] {
        match self.0 {}
    }

    /// Environment variables for commands.
    pub fn environment(&self) -> &[(String, String)] {
        match self.0 {}
    }

    /// Root certificate of all servers' certificates, PEM.
    pub fn ca_pem(&self) -> &str {
        match self.0 {}
    }

    /// Directory of the captures, if any are written.
    pub fn capture_dir(&self) -> Option<&Path> {
        match self.0 {}
    }

    /// How complete the captures are so far.
    pub fn capture_stats(&self) -> Vec<CaptureStats> {
        match self.0 {}
    }

    /// Processor time that each web server has used so far.
    pub fn server_times(&self) -> Vec<ServerTime> {
        match self.0 {}
    }

    /// See the same method on Linux.
    pub fn ended_servers(&self) -> Vec<ServerEnd> {
        match self.0 {}
    }

    /// Changes of the scenario that have been applied so far.
    pub fn changes(&self) -> Vec<ChangeReport> {
        match self.0 {}
    }

    /// Counts of the frames forwarded and dropped so far.
    pub fn forwarder_stats(&self) -> ForwarderStats {
        match self.0 {}
    }

    /// Moves the calling thread to a host.
    pub fn enter(&self, _host: &str) -> Result<(), LabError> {
        match self.0 {}
    }

    /// Prepares `command` to start on a host.
    pub fn command_on(&self, _host: &str, _command: Command) -> Result<Command, LabError> {
        match self.0 {}
    }

    /// Runs `command` on a host to completion.
    pub fn run_command(&self, _host: &str, _command: Command) -> Result<i32, LabError> {
        match self.0 {}
    }
}

/// A lab that is up; never exists on this system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningLab(Infallible);

impl RunningLab {
    /// See the same method on Linux.
    pub fn is_of_this_session(&self) -> bool {
        match self.0 {}
    }

    /// No lab runs on this system.
    pub fn all() -> Vec<Self> {
        Vec::new()
    }

    /// The lab's process ID.
    pub fn pid(&self) -> i32 {
        match self.0 {}
    }

    /// The name of its scenario.
    pub fn scenario(&self) -> &str {
        match self.0 {}
    }

    /// When it was started.
    pub fn started(&self) -> SystemTime {
        match self.0 {}
    }

    /// Its hosts' names.
    pub fn hosts(&self) -> Vec<&str> {
        match self.0 {}
    }

    /// Its web servers.
    pub fn servers(&self) -> &[ServerReport] {
        match self.0 {}
    }

    /// Servers whose programs have ended.
    pub fn ended_servers(&self) -> Vec<ServerReport> {
        match self.0 {}
    }

    /// Runs a command on one of its hosts.
    pub fn run(&self, _host: Option<&str>, _command: &mut Command) -> Result<i32, LabError> {
        match self.0 {}
    }

    /// Ends the lab.
    pub fn down(&self) -> Result<(), LabError> {
        match self.0 {}
    }
}
