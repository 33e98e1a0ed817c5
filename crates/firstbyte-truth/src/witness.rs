//! What a server truly did on the critical path, by when its application wrote.
//!
//! In: the truth that packets show, and the application's writes (`strace`). Out: what of the path was the
//! application's by the one and by the other. It is the truth that is on trial here.

use std::time::Duration;

use super::{Rule, Truth};
use firstbyte_core::split::Part;

/// A write of the server's application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// When it began, nanoseconds from the origin. Who looks on may stop it before anything is sent.
    pub began: i64,
    /// When the kernel had taken all of it.
    pub ended: i64,
    /// Bytes of the server's stream up to its end.
    pub end: u64,
}

/// What of a critical path was the application's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Witnessed {
    /// By the packets: `server` and `pause`, without the kernel's answer to the SYN.
    pub packets: Duration,
    /// By how much that may be more.
    pub open: Duration,
    /// By the writes: until the one was over in which the bytes were that left.
    pub writes: Duration,
}

impl Witnessed {
    /// By how much the packets say too much, or too little, nanoseconds.
    pub fn off(&self) -> i64 {
        let [packets, open, writes] =
            [self.packets, self.open, self.writes].map(|time| time.as_nanos() as i64);
        if writes < packets { packets - writes } else { (packets + open - writes).min(0) }
    }
}

/// Holds `truth` against what the application wrote, in the order of the stream.
///
/// Absent where a byte on the path was not written.
pub fn witnessed(truth: &Truth, writes: &[Written]) -> Option<Witnessed> {
    let [mut by_packets, mut by_writes] = [0; 2];
    for step in &truth.path {
        let Some(place) = step.place.filter(|_| step.rule != Rule::Burst) else { continue };
        if matches!(step.part, Part::Server | Part::Pause) && step.rule != Rule::DelayedAck {
            by_packets += step.to - step.from;
        }
        let write = writes.get(writes.partition_point(|write| write.end <= place))?;
        // What an acknowledgement released had been written before, however long the call waited for room.
        let written = if step.rule == Rule::Released { write.began } else { write.ended };
        by_writes += (written.min(step.to - step.seen_later) - step.from + step.seen_later).max(0);
    }
    let time = |ns: i64| Duration::from_nanos(ns.unsigned_abs());
    Some(Witnessed { packets: time(by_packets), open: truth.open, writes: time(by_writes) })
}
