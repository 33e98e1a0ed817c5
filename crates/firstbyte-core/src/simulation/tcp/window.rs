//! Reno and CUBIC: the congestion window as a function of acknowledgements and losses.
//!
//! RFC 5681, RFC 9438 and RFC 9406 (HyStart), in the form of Linux's `tcp_cubic.c`.

use super::Nanos;
use super::rate::RateSample;

const CUBIC_C: f64 = 0.4;
const CUBIC_BETA: f64 = 0.7;
const MIN_WINDOW: u32 = 2;
/// HyStart is inactive below this window.
const HYSTART_LOW: u32 = 16;
const HYSTART_SAMPLES: u32 = 8;
const HYSTART_DELAY: (Nanos, Nanos) = (4_000_000, 16_000_000);
/// Acknowledgements closer than this belong to one train.
const HYSTART_TRAIN_GAP: Nanos = 2_000_000;

#[derive(Debug)]
pub(super) struct Window {
    cubic: bool,
    pub window: u32,
    threshold: u32,
    /// Acknowledged segments that have not enlarged the window yet.
    counted: u32,
    /// CUBIC: the window before the last loss; `since` is when growth began again.
    before_loss: f64,
    since: Option<Nanos>,
    round_ends: u64,
    round_started: Nanos,
    round_last_ack: Nanos,
    round_samples: u32,
    round_rtt: Nanos,
    least_rtt: Nanos,
}

impl Window {
    pub(super) fn new(cubic: bool, initial_window: u32) -> Self {
        Self {
            cubic,
            window: initial_window,
            threshold: u32::MAX,
            counted: 0,
            before_loss: 0.0,
            since: None,
            round_ends: 0,
            round_started: 0,
            round_last_ack: 0,
            round_samples: 0,
            round_rtt: Nanos::MAX,
            least_rtt: Nanos::MAX,
        }
    }

    pub(super) fn acknowledged(&mut self, now: Nanos, sample: &RateSample) {
        if self.cubic && self.window < self.threshold {
            self.hystart(now, sample);
        }
        if sample.recovering || !sample.window_limited {
            return;
        }
        let mut acked = sample.acked_sacked;
        if self.window < self.threshold {
            let room = self.threshold - self.window;
            let grown = acked.min(room);
            self.window += grown;
            acked -= grown;
        }
        if acked > 0 {
            self.avoid(now, acked, sample.rtt.unwrap_or(self.least_rtt));
        }
    }

    /// Congestion avoidance: grows by one segment after a certain number of acknowledged ones.
    fn avoid(&mut self, now: Nanos, acked: u32, rtt: Nanos) {
        self.counted += acked;
        let per_segment = if self.cubic { self.cubic_pace(now, rtt) } else { self.window };
        let per_segment = per_segment.max(1);
        while self.counted >= per_segment {
            self.counted -= per_segment;
            self.window += 1;
        }
    }

    fn cubic_pace(&mut self, now: Nanos, rtt: Nanos) -> u32 {
        let window = f64::from(self.window);
        let since = *self.since.get_or_insert(now);
        let t = (now - since + rtt.min(1_000_000_000)) as f64 / 1e9;
        let k = ((self.before_loss - window).max(0.0) / CUBIC_C).cbrt();
        let origin = self.before_loss.max(window);
        let target = origin + CUBIC_C * (t - k).powi(3);
        if target > window { (window / (target - window)) as u32 } else { 100 * self.window }.max(2)
    }

    /// Ends slow start when round trips grow, or when acknowledgements are spread over half a round trip.
    fn hystart(&mut self, now: Nanos, sample: &RateSample) {
        let Some(rtt) = sample.rtt else { return };
        self.least_rtt = self.least_rtt.min(rtt);
        if sample.acknowledged > self.round_ends {
            self.round_ends = sample.sent;
            self.round_started = now;
            self.round_last_ack = now;
            self.round_samples = 0;
            self.round_rtt = Nanos::MAX;
        }
        if self.window < HYSTART_LOW {
            return;
        }
        if now - self.round_last_ack <= HYSTART_TRAIN_GAP {
            self.round_last_ack = now;
            if now - self.round_started > self.least_rtt / 2 {
                self.threshold = self.window;
            }
        }
        self.round_rtt = self.round_rtt.min(rtt);
        self.round_samples += 1;
        let (least, most) = HYSTART_DELAY;
        let tolerated = self.least_rtt + (self.least_rtt / 8).clamp(least, most);
        if self.round_samples >= HYSTART_SAMPLES && self.round_rtt > tolerated {
            self.threshold = self.window;
        }
    }

    /// Reacts to a loss: recovery begins.
    pub(super) fn lost(&mut self) {
        let beta = if self.cubic { CUBIC_BETA } else { 0.5 };
        self.before_loss = f64::from(self.window);
        self.threshold = ((f64::from(self.window) * beta) as u32).max(MIN_WINDOW);
        self.window = self.threshold;
        self.since = None;
        self.counted = 0;
    }

    pub(super) fn timed_out(&mut self) {
        self.lost();
        self.window = 1;
    }

    /// Reacts to idle time longer than the timeout (RFC 2861, `tcp_slow_start_after_idle`).
    pub(super) fn rested(&mut self, initial_window: u32) {
        self.window = self.window.min(initial_window);
    }
}
