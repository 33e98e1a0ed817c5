//! Tells whether a stamp says when bytes were there to be read.
//!
//! The kernel stamps a segment as it passes the device. One that arrives out of order waits until the hole before
//! it is filled, and keeps its own, earlier stamp; the segment that fills the hole is merged with those that
//! waited, and its stamp is lost. What is read from then on was there at the latest when the process read it: that
//! is all that is known.

use std::time::Duration;

use super::sys::TcpInfo;
use firstbyte_clock::Monotonic;

/// Whether segments may have waited behind a hole since bytes were last known to be in order.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Order {
    /// Segments out of order so far, as the kernel counts them.
    counted: u32,
    suspect: bool,
}

impl Order {
    /// Takes note of what the kernel said right after a read; whether what was read may have waited.
    ///
    /// A kernel that does not count (before Linux 5.4) says nothing of it.
    pub(super) fn may_have_waited(&mut self, info: Option<TcpInfo>) -> bool {
        let counted = info.and_then(|i| i.out_of_order).unwrap_or(self.counted);
        self.suspect |= counted != self.counted;
        self.counted = counted;
        self.suspect
    }

    /// Nothing waits, neither to be read nor behind a hole: all that comes from now on has its own stamp.
    pub(super) const fn settled(&mut self) {
        self.suspect = false;
    }
}

/// The kernel says to its clock's tick when bytes in order arrived last: 10 ms at the coarsest.
const TICK: Duration = Duration::from_millis(10);

/// The latest time at which bytes that were read at `read` can have been there: a process that was busy reads long
/// after.
pub(super) fn latest_arrival(read: Monotonic, info: Option<TcpInfo>) -> Monotonic {
    let ago = info.map_or(Duration::ZERO, |i| i.since_data);
    read - ago.saturating_sub(TICK)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(out_of_order: Option<u32>, since_data: u64) -> Option<TcpInfo> {
        Some(TcpInfo {
            established: true,
            send_mss: 1448,
            rtt: Duration::from_millis(20),
            min_rtt: None,
            total_retransmits: 0,
            unacknowledged: 0,
            sacked: 0,
            since_data: Duration::from_millis(since_data),
            out_of_order,
            receive_window_limited: None,
            segments: 1,
            data_segments: 0,
            received_mss: 1448,
            received_bytes: 0,
        })
    }

    #[test]
    fn what_waited_is_suspect_until_nothing_waits() {
        let mut order = Order::default();
        assert!(!order.may_have_waited(info(Some(0), 0)));
        // Read up to the hole; four segments wait behind it.
        assert!(order.may_have_waited(info(Some(4), 0)));
        // The hole is filled: nothing was counted since.
        assert!(order.may_have_waited(info(Some(4), 0)));
        order.settled();
        assert!(!order.may_have_waited(info(Some(4), 0)));
        assert!(!order.may_have_waited(None));
        assert!(order.may_have_waited(info(Some(5), 0)));
    }

    #[test]
    fn a_kernel_that_does_not_count_makes_nothing_suspect() {
        assert!(!Order::default().may_have_waited(info(None, 0)));
    }

    #[test]
    fn a_busy_process_does_not_move_an_arrival_by_more_than_a_tick() {
        let read = Monotonic::now();
        assert_eq!(latest_arrival(read, info(None, 0)), read);
        assert_eq!(latest_arrival(read, info(None, 8)), read);
        assert_eq!(read.since(latest_arrival(read, info(None, 90))), Duration::from_millis(80));
        assert_eq!(latest_arrival(read, None), read);
    }
}
