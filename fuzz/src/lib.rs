//! Shared parts of the fuzz targets: splitting bytes into steps, making packets of them, checking invariants.
//!
//! A target turns its bytes into calls of one parser. It fails if the parser panics, or if an invariant in [`laws`] or
//! [`bounds`] does not hold: time and memory have limits, counts agree, and no time lies outside of the capture.

pub mod bounds;
pub mod laws;
pub mod packets;
pub mod quic;
pub mod scratch;
pub mod steps;
mod sys;
