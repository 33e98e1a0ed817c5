//! The program as people run it, on loopback, against servers of its own that answer well or badly.
//!
//! One program for all of it: each would link everything again. What has to be alone in its process, or needs a lab,
//! stands beside it: `wire_memory`, `attribution`, `lab`.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a test program")]

mod advice;
mod archives;
mod bad_cases;
mod bad_input;
mod blackbox;
mod clients;
mod compare;
mod curl_compat;
mod curl_lines;
mod files_apart;
mod help;
mod hostile_names;
mod http;
mod http3;
mod monitor;
mod monitor_damage;
mod monitor_faults;
mod monitor_hostile;
mod monitor_page;
mod monitor_reload;
mod monitor_report;
mod monitor_server;
mod netlog;
mod parallel;
mod predict;
mod prometheus;
mod report;
mod rum;
mod rum_browsers;
mod runs;
mod secrets;
mod serve;
mod server_logs;
mod service;
mod signals;
mod support;
mod wire;
