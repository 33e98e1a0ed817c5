//! The pure half of firstbyte.
//!
//! Everything here is a function of its inputs: no sockets, files, clocks or threads. A *source*
//! (the active probe, a packet capture) builds a [`timeline::Connection`]; everything else reads
//! one. Phases and causes are derived ([`split`]), never stored as truth.
#![forbid(unsafe_code)]

pub mod compare;
pub mod document;
pub mod explain;
pub mod passive;
pub mod predict;
pub mod run;
pub mod sequence;
pub mod split;
pub mod stats;
pub mod timeline;
pub mod truth;
pub mod units;
pub mod wire;
