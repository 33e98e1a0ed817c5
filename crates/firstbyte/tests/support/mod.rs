//! What the tests of the program share: running it, servers that misbehave, certificates, DNS.
//!
//! Everything is on loopback, ends with the test that started it, and needs no privilege.
#![allow(dead_code, reason = "each test program uses a part of it")]
#![allow(unreachable_pub, reason = "a module of several test programs")]
#![allow(clippy::unwrap_used, reason = "a test program")]

pub mod certificates;
pub mod dns;
pub mod echo;
pub mod files;
pub mod http2;
pub mod peer;
pub mod run;
pub mod runs;
