//! Decides whether a stamp says when bytes became readable.
//!
//! The kernel stamps a segment as it passes the device. A segment that arrives out of order waits until the hole before
//! it is filled, and keeps its own, earlier stamp. The segment that fills the hole is merged with those that waited,
//! and its stamp is lost. For bytes read after that, only an upper bound is known: they had arrived when the process
//! read them.

use std::time::Duration;

use super::sys::TcpInfo;
use firstbyte_clock::Monotonic;

/// Whether segments may have waited behind a hole since bytes were last known to be in order.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Order {
    /// The kernel's count of out-of-order segments so far.
    counted: u32,
    suspect: bool,
}

impl Order {
    /// Records the kernel's counters right after a read. Returns whether the bytes read may have waited.
    ///
    /// Kernels before Linux 5.4 have no such counter; then this is never detected.
    pub(super) fn may_have_waited(&mut self, info: Option<TcpInfo>) -> bool {
        let counted = info.and_then(|i| i.out_of_order).unwrap_or(self.counted);
        self.suspect |= counted != self.counted;
        self.counted = counted;
        self.suspect
    }

    /// Nothing is waiting to be read or behind a hole: everything that arrives from now on has its own stamp.
    pub(super) const fn settled(&mut self) {
        self.suspect = false;
    }
}

/// Resolution with which the kernel says when in-order bytes last arrived: its clock's tick, at most 10 ms.
const TICK: Duration = Duration::from_millis(10);

/// The latest possible arrival of bytes that were read at `read`. A busy process may read long after they arrived.
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
        // The hole is filled; the counter has not changed since.
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
