//! Two hosts on a simulated path, in virtual time.
//!
//! `dialogue` is what they say, whatever the network; `tcp` plays it over a [`Path`] as two Linux kernels would.
//! Predictions are made with it, findings are priced by it, and what held arrivals back is held against it. Nothing
//! here knows TLS.

pub mod dialogue;
mod gave_up;
mod path;
pub mod seed;
pub mod tcp;

pub use gave_up::GaveUp;
pub use path::{CongestionControl, Link, Path};
