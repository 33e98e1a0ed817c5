//! Monitoring of targets over months: the [`configuration`], when to measure ([`calendar`]), at which addresses
//! ([`edges`]), which statuses are failures ([`expected_status`]), the measuring loop ([`watch`]), summaries of samples
//! ([`rollup`]), promises ([`budget`]), and the delivery of events ([`webhook`]) and figures ([`push`]).
//!
//! Input: a TOML file, or URLs. Output: samples of series, through a sink. Nothing here prints.

// Tests share the series simulation with the benchmark, which is a separate crate.
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
