//! The installed curl against servers on loopback, and programs that imitate curl.
#![allow(clippy::unwrap_used, reason = "in tests")]

mod ends;
mod pretended;
mod support;
mod visits;
