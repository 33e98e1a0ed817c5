//! Real browsers against the lab's own server on loopback: compares their reports of a visit with the server's.
//!
//! Needs Debian's `chromium`, `firefox-esr` and `libnss3-tools`; `scripts/setup test` installs them.
#![allow(clippy::unwrap_used, reason = "a test program")]

mod ends;
mod firefox;
mod pages;
#[allow(dead_code, reason = "shared with the suites of labs")]
#[path = "../../../firstbyte-lab/tests/lab/permits.rs"]
mod permits;
mod support;
mod visits;
