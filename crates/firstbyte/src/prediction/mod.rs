//! Predictions for people: which ways, taken from what run, for which audience.
//!
//! `firstbyte_core::predict` plays single connections; here are the values of axes, setups read from
//! runs, and audiences played on all processors.

pub mod audience;
pub mod setup;
pub mod ways;
