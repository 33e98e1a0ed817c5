//! Two hosts on a simulated path, in virtual time.
//!
//! `dialogue` is their conversation, independent of the network; `tcp` plays it over a [`Path`] as two Linux kernels
//! would. Predictions and the cost estimates of findings use it, and tests compare attributed delays with it. Nothing
//! here knows TLS.

pub mod dialogue;
mod gave_up;
mod path;
pub mod seed;
pub mod tcp;

pub use gave_up::GaveUp;
pub use path::{CongestionControl, Link, Path};
