//! Watching targets for months: what is measured ([`configuration`]) and when ([`calendar`]).
//!
//! Input: a TOML file, or URLs. Output: series to be measured, each with its settings, and at every moment which of them are
//! due. Nothing here opens a socket, or reads a clock.

pub mod calendar;
pub mod configuration;
