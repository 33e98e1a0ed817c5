//! The table of bad input: for each, the exact message and exit code, from the program itself.
//!
//! `usage`, `files` and `lab` are refused before anything is measured; `dns`, `tcp`, `tls`,
//! `certificates` and `http` fail on the way, at servers on loopback, and keep what was measured up
//! to there. Those rows also say how curl ends in the same place, and are held against it.

mod certificates;
mod dns;
mod documented;
mod files;
mod http;
mod lab;
mod large_hello;
mod measured;
mod refused;
mod stalled;
mod tcp;
mod tls;
mod usage;
