//! Watching targets for months: what is measured ([`configuration`]), when ([`calendar`]), and the loop that does it ([`watch`]).
//!
//! Input: a TOML file, or URLs. Output: samples, each of a series, through a sink. Nothing here writes files or prints.

pub mod calendar;
pub mod configuration;
pub mod watch;
