//! Watching targets for months: what is measured ([`configuration`]), when ([`calendar`]), the loop that does it ([`watch`]), and
//! what samples come to ([`rollup`]).
//!
//! Input: a TOML file, or URLs. Output: samples, each of a series, through a sink. Nothing here prints.

pub mod calendar;
pub mod configuration;
pub mod detect;
pub mod rollup;
pub mod store;
pub mod watch;
