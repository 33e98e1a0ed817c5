//! Shared parts of the program's tests: running it, servers that misbehave, certificates, DNS.
//!
//! Everything is on loopback, ends with the test that started it, and needs no privilege.

pub(crate) mod browser;
pub(crate) mod certificates;
pub(crate) mod dns;
pub(crate) mod echo;
pub(crate) mod files;
pub(crate) mod http2;
pub(crate) mod monitor_history;
pub(crate) mod peer;
pub(crate) mod run;
pub(crate) mod runs;
