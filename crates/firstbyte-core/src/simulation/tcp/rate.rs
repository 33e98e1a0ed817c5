//! What the sender tells its congestion control, acknowledgement by acknowledgement.

use super::Nanos;

/// What one acknowledgement says.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RateSample {
    pub acked_sacked: u32,
    pub losses: u32,
    pub in_flight: u32,
    pub recovering: bool,
    pub window_limited: bool,
    pub rtt: Option<Nanos>,
    /// Segments delivered since the acknowledged one was sent, and in which time.
    pub delivered: u64,
    pub prior_delivered: u64,
    pub delivered_total: u64,
    pub interval: Option<Nanos>,
    pub app_limited: bool,
    /// Segments that leave together.
    pub burst: u32,
    /// Bytes acknowledged, bytes sent.
    pub acknowledged: u64,
    pub sent: u64,
}
