//! Real servers behind emulated links, in network namespaces, without root.
//!
//! A [`Scenario`] describes hosts and their links. [`run`] makes a lab of it and runs a function on its
//! client; [`up`] makes one that stays. Labs need Linux; scenarios, the CA and the [`builtin_server`] do not.

pub mod access_log;
pub mod builtin_server;
pub mod ca;
mod clock;
mod error;
pub mod link;
pub mod load;
mod options;
mod reports;
pub mod scenario;
mod warning;

#[cfg(target_os = "linux")]
mod capture;
#[cfg(target_os = "linux")]
mod changes;
#[cfg(target_os = "linux")]
mod forwarder;
#[cfg(target_os = "linux")]
mod lab;
#[cfg(target_os = "linux")]
mod life;
#[cfg(target_os = "linux")]
mod log_copies;
#[cfg(target_os = "linux")]
mod network;
#[cfg(target_os = "linux")]
mod process;
#[cfg(target_os = "linux")]
mod servers;
#[cfg(target_os = "linux")]
mod sys;
#[cfg(not(target_os = "linux"))]
mod unsupported;

pub use error::LabError;
pub use options::LabOptions;
pub use reports::{
    CaptureStats, ChangeReport, ForwarderStats, ServerEnd, ServerReport, ServerTime,
};
pub use scenario::{Scenario, ScenarioError, ServerChoice};
pub use warning::LabWarning;

#[cfg(not(target_os = "linux"))]
pub use unsupported::{Lab, RunningLab, run, up};
#[cfg(target_os = "linux")]
pub use {
    lab::Lab,
    life::{run, up},
    process::RunningLab,
};
