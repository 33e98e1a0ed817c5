//! The real browser, against the lab's own server on loopback: what is said of a visit is what the server saw.
//!
//! Needs Debian's `chromium`, `firefox-esr` and `libnss3-tools`; `scripts/setup test` installs them.
#![allow(clippy::unwrap_used, reason = "a test program")]

mod ends;
mod firefox;
mod pages;
mod support;
mod visits;
