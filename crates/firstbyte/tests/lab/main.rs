//! The program in the lab, against real servers: what it says is held against what was configured
//! and against what a capture of the client's link saw.
//!
//! A lab that cannot be made, or nginx that is not there, is a failure that says what to do. One
//! test at a time, so that none measures another's load.
#![cfg(target_os = "linux")]
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a test")]

mod access;
mod commands;
mod demo;
mod distances;
mod explain;
mod faults;
mod flights;
#[allow(dead_code, reason = "shared with the benchmark, which looks at medians")]
#[path = "../../benches/predict/grid.rs"]
mod grid;
mod live;
mod live_outputs;
mod losses;
mod openings;
mod pages;
mod predictions;
mod processes;
mod quic;
mod round_trips;
mod secrets;
mod server_logs;
mod server_time;
mod sessions;
mod signals;
mod studies;
mod support;
mod tcpdump;
mod trouble;
mod wire;
