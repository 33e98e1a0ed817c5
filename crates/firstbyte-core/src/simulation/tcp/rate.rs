//! The sender's data for its congestion control, one sample per acknowledgement.

use super::Nanos;

/// Sample from one acknowledgement.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RateSample {
    pub acked_sacked: u32,
    pub losses: u32,
    pub in_flight: u32,
    pub recovering: bool,
    pub window_limited: bool,
    pub rtt: Option<Nanos>,
    /// Segments delivered since the acknowledged one was sent, and the time that took.
    pub delivered: u64,
    pub prior_delivered: u64,
    pub delivered_total: u64,
    pub interval: Option<Nanos>,
    pub app_limited: bool,
    /// Segments sent as one burst.
    pub burst: u32,
    /// Bytes acknowledged; `sent` is bytes sent.
    pub acknowledged: u64,
    pub sent: u64,
}
