//! The program as users run it, on loopback, against test servers that behave well or badly.
//!
//! All these tests are one executable, because each executable links everything again. Tests that need their own
//! process or a lab are separate: `wire_memory`, `attribution`, `lab`.
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
