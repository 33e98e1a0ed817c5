//! Watching targets for months: what is measured ([`configuration`]), when ([`calendar`]), at which addresses ([`edges`]), which
//! answers are wrong ([`expected_status`]), the loop that does it ([`watch`]), what samples come to ([`rollup`]), whether that is
//! what was promised ([`budget`]), and who is sent what changed ([`webhook`]) and the figures ([`push`]).
//!
//! Input: a TOML file, or URLs. Output: samples, each of a series, through a sink. Nothing here prints.

// Tests share drawn series with the benchmark, which is another crate.
#[cfg(test)]
extern crate self as firstbyte_monitor;

mod binomial;
pub mod budget;
pub mod calendar;
pub mod configuration;
pub mod detect;
pub mod edges;
pub mod event_state;
pub mod expected_status;
pub mod outages;
pub mod push;
pub mod rollup;
pub mod store;
pub mod watch;
pub mod webhook;
