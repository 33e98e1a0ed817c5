//! What Chromium's network stack says of itself (NetLog): events of sources, in the order in which they happened.
//!
//! Input: bytes of an envelope, in pieces of any size: a trace of the category `netlog` ([`perfetto`], microseconds),
//! or a file from `chrome://net-export` ([`net_export`], milliseconds). Output: the same [`NetLogEvent`]s from both,
//! and what belongs together among them ([`NetLogRecord`]). Events are told apart by name: their numbers change with
//! every build. What is unknown is passed over; what is cut short or garbled ends the reading, not the program.
//!
//! Which connection a sample used, and its marks, are not concluded here. Events, and exported files, are read by
//! [`firstbyte_sources::netlog`], which also makes requests of them.

pub mod perfetto;
mod record;
#[cfg(test)]
mod tests;

pub use firstbyte_sources::netlog::{NetLogError, NetLogEvent, NetLogPhase, net_export};
pub use record::NetLogRecord;
