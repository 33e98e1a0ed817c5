//! The program in the lab, against real servers: compares its results with the configuration and with a capture of the
//! client's link.
//!
//! If a lab cannot be made, or nginx is missing, the test fails and says what to do. Tests sleep through round trips,
//! so `scripts/test` gives them more threads than there are processors; `permits` keeps the machine quiet enough.
#![cfg(target_os = "linux")]
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a test")]

mod access;
mod black_hole;
mod commands;
mod demo;
mod distances;
mod explain;
mod faults;
mod first_byte;
mod flights;
#[allow(dead_code, reason = "shared with the benchmark, which looks at medians")]
#[path = "../../benches/predict/grid.rs"]
mod grid;
mod live;
mod live_outputs;
mod losses;
mod monitor;
mod monitor_truth;
mod monitor_watch;
mod name_servers;
mod openings;
mod pages;
#[allow(dead_code, reason = "shared with the other suites")]
#[path = "../../../firstbyte-lab/tests/lab/permits.rs"]
mod permits;
mod predictions;
mod processes;
mod proxies;
mod quic;
mod readme;
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
