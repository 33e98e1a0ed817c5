//! The curl of this machine, against servers on loopback; and programs that pretend to be one.
#![allow(clippy::unwrap_used, reason = "in tests")]

mod ends;
mod pretended;
mod support;
mod visits;
