//! Logs of Chromium's network stack (NetLog): events of sources, in the order in which they happened.
//!
//! Input: bytes of an envelope, in pieces of any size: a trace of the category `netlog` ([`perfetto`], microseconds),
//! or a file from `chrome://net-export` ([`net_export`], milliseconds). Output: the same [`NetLogEvent`]s from both,
//! and which of them belong together ([`NetLogRecord`]). Events are identified by name, since their numbers change with
//! every build. Unknown events are skipped. Truncated or malformed input ends the reading, not the program.
//!
//! This module does not decide which connection a sample used, or where its marks are. Events and exported files are
//! read by [`firstbyte_sources::netlog`], which also builds requests from them.

pub mod perfetto;
mod record;
#[cfg(test)]
mod tests;

pub use firstbyte_sources::netlog::{NetLogError, NetLogEvent, NetLogPhase, net_export};
pub use record::NetLogRecord;
