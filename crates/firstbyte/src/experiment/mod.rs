//! Experiments: several ways to connect, measured so that they can be compared.
//!
//! `axis` says what can be varied and how that is proven, `cells` combines the axes' values,
//! `schedule` takes the samples. Nothing here writes files or prints.

pub mod axis;
mod cells;
mod schedule;

pub use axis::{Axis, Visit};
pub use cells::{Matrix, Variant};
pub use schedule::{Design, Lanes, Visited, Visitor};
