//! Imitates blackbox_exporter: reads its configuration unchanged and answers Prometheus' scrapes.
//!
//! In: a configuration's text, and requests. Out: responses, by [`Exporter::handle`], which any HTTP server can call.
//! [`serve`] is such a server, and [`serve_requests`] is the same server for other sources of responses.
//! `firstbyte-probe` makes the `http` probes, with the kernel's timestamps; `tcp`, `dns`, `icmp` and `grpc` are here.
//!
//! The crate prints nothing. It runs on one thread, because probers belong to the runtime that they are used in.

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

/// The blackbox_exporter version whose metrics are imitated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compat {
    /// 0.23, as in Debian 12.
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

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::V0_23 => "0.23",
            Self::V0_28 => "0.28",
        }
    }

    /// The user agent of probes, the same as blackbox_exporter's so that servers treat both alike.
    fn user_agent(self) -> String {
        match self {
            Self::V0_23 => format!("Blackbox Exporter/{}.0", self.name()),
            Self::V0_28 => format!("Blackbox-Exporter/{}.0", self.name()),
        }
    }
}
