//! The server's true share of the critical path, from the times at which its application wrote.
//!
//! In: the truth according to packets, and the application's writes (`strace`). Out: the application's share of the
//! path according to each. This tests the truth itself.

use std::time::Duration;

use super::{Rule, Truth};
use firstbyte_core::split::Part;

/// A write of the server's application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// When it began, in nanoseconds since the origin. The tracer may stop the process before anything is sent.
    pub began: i64,
    /// When the kernel had accepted all of it.
    pub ended: i64,
    /// Bytes of the server's stream up to its end.
    pub end: u64,
}

/// The application's share of a critical path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Witnessed {
    /// According to the packets: `server` and `pause`, without the kernel's answer to the SYN.
    pub packets: Duration,
    /// How much larger that may be.
    pub open: Duration,
    /// According to the writes: until the end of the write that contained the departed bytes.
    pub writes: Duration,
}

impl Witnessed {
    /// How much the packets overestimate (positive) or underestimate (negative) the time, in nanoseconds.
    pub fn off(&self) -> i64 {
        let [packets, open, writes] =
            [self.packets, self.open, self.writes].map(|time| time.as_nanos() as i64);
        if writes < packets { packets - writes } else { (packets + open - writes).min(0) }
    }
}

/// Compares `truth` with the application's writes, in stream order.
///
/// Absent if a byte on the path was not written.
pub fn witnessed(truth: &Truth, writes: &[Written]) -> Option<Witnessed> {
    let [mut by_packets, mut by_writes] = [0; 2];
    for step in &truth.path {
        let Some(place) = step.place.filter(|_| step.rule != Rule::Burst) else { continue };
        if matches!(step.part, Part::Server | Part::Pause) && step.rule != Rule::DelayedAck {
            by_packets += step.to - step.from;
        }
        let write = writes.get(writes.partition_point(|write| write.end <= place))?;
        // Data released by an acknowledgement had been written before, however long the call waited for room.
        let written = if step.rule == Rule::Released { write.began } else { write.ended };
        by_writes += (written.min(step.to - step.seen_later) - step.from + step.seen_later).max(0);
    }
    let time = |ns: i64| Duration::from_nanos(ns.unsigned_abs());
    Some(Witnessed { packets: time(by_packets), open: truth.open, writes: time(by_writes) })
}
