//! What the fuzz targets share: bytes taken apart into steps, packets made of them, laws held.
//!
//! A target turns its bytes into calls of one reader. It fails when the reader panics, and when one of
//! the laws in [`laws`] or [`bounds`] does not hold: time and memory have limits, counts agree, no time lies
//! outside the capture.

pub mod bounds;
pub mod laws;
pub mod packets;
pub mod quic;
pub mod scratch;
pub mod steps;
mod sys;
