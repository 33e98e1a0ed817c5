//! Answers as blackbox_exporter does: an unchanged configuration of it, and Prometheus' scrapes.
//!
//! In: a configuration's text, requests. Out: responses, by [`Exporter::handle`], which any server of HTTP can call;
//! [`serve`] is one, and [`serve_requests`] is the same server for anything else that answers. `http` is probed by `firstbyte-probe`, whose times are the kernel's; `tcp`, `dns`, `icmp` and `grpc` here.
//! Prints nothing. One thread: probers are of the runtime that they are used in.

pub mod configuration;
mod exporter;
mod history;
mod log;
mod metrics;
mod pages;
mod probe;
mod server;

pub use exporter::{Answer, Exporter, ExporterOptions};
pub use log::{LogFormat, LogLevel, ProbeLogOptions};
pub use server::{ServerLimits, serve, serve_requests};

/// Whose metrics they are: these came with versions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compat {
    /// 0.23, which Debian 12 has.
    V0_23,
    /// 0.28.
    #[default]
    V0_28,
}

impl Compat {
    /// The version with this name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::V0_23, Self::V0_28].into_iter().find(|compat| compat.name() == name)
    }

    /// As it is typed.
    pub const fn name(self) -> &'static str {
        match self {
            Self::V0_23 => "0.23",
            Self::V0_28 => "0.28",
        }
    }

    /// What probes call themselves, so that servers which let blackbox_exporter in let this in.
    fn user_agent(self) -> String {
        match self {
            Self::V0_23 => format!("Blackbox Exporter/{}.0", self.name()),
            Self::V0_28 => format!("Blackbox-Exporter/{}.0", self.name()),
        }
    }
}
