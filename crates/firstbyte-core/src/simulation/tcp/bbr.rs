//! BBR, version 1, as in Linux (`net/ipv4/tcp_bbr.c`): sending rate and window.
//!
//! Omitted: PROBE_RTT (it begins after ten seconds), the long-term rate of policers, and the allowance for aggregated
//! acknowledgements (only once the pipe is full).

use super::Nanos;
use super::rate::RateSample;

/// 2 / ln 2, as Linux rounds it.
const HIGH_GAIN: f64 = 2.885;
/// Gains in PROBE_BW, a round trip each.
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
const CWND_GAIN: f64 = 2.0;
/// Number of rounds for which a bandwidth sample counts.
const BANDWIDTH_ROUNDS: u32 = 10;
/// The pipe is full if the bandwidth has not grown by a quarter in three rounds.
const FULL_GROWTH: f64 = 1.25;
const FULL_ROUNDS: u32 = 3;
/// Pace this much below the estimate.
const MARGIN: f64 = 0.99;
const SECOND: f64 = 1e9;
const MIN_WINDOW: u32 = 4;
const TCP_INIT_CWND: u64 = 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Startup,
    Drain,
    ProbeBandwidth,
}

#[derive(Debug)]
pub(super) struct Bbr {
    mode: Mode,
    /// Segments per second, and the round of the sample.
    bandwidth: (f64, u32),
    min_rtt: Nanos,
    round: u32,
    next_round_at: u64,
    full_bandwidth: f64,
    full_rounds: u32,
    full: bool,
    cycle: usize,
    cycle_since: Nanos,
    /// Segments per second.
    pub pacing_rate: f64,
    pub window: u32,
    prior_window: u32,
    recovering: bool,
    conserving: bool,
}

impl Bbr {
    pub(super) fn new(initial_window: u32, rtt: Nanos) -> Self {
        let rtt = rtt.max(1_000);
        Self {
            mode: Mode::Startup,
            bandwidth: (0.0, 0),
            min_rtt: rtt,
            round: 0,
            next_round_at: 0,
            full_bandwidth: 0.0,
            full_rounds: 0,
            full: false,
            cycle: 2,
            cycle_since: 0,
            pacing_rate: f64::from(initial_window) * SECOND / rtt as f64 * HIGH_GAIN * MARGIN,
            window: initial_window,
            prior_window: initial_window,
            recovering: false,
            conserving: false,
        }
    }

    /// Minimum burst in segments (`bbr_min_tso_segs`: 1.2 Mbit/s).
    pub(super) fn min_burst(&self, mss: u64) -> u32 {
        if self.pacing_rate * (mss as f64) < 150_000.0 { 1 } else { 2 }
    }

    pub(super) fn acknowledged(&mut self, now: Nanos, sample: &RateSample) {
        self.min_rtt = self.min_rtt.min(sample.rtt.unwrap_or(Nanos::MAX));
        let round_start = self.note_bandwidth(sample);
        if self.mode == Mode::ProbeBandwidth {
            self.note_cycle(now, sample);
        }
        if round_start && !sample.app_limited && !self.full {
            if self.bandwidth.0 >= self.full_bandwidth * FULL_GROWTH {
                self.full_bandwidth = self.bandwidth.0;
                self.full_rounds = 0;
            } else {
                self.full_rounds += 1;
                self.full = self.full_rounds >= FULL_ROUNDS;
            }
        }
        if self.mode == Mode::Startup && self.full {
            self.mode = Mode::Drain;
        }
        if self.mode == Mode::Drain && f64::from(sample.in_flight) <= self.in_flight(1.0, sample) {
            self.mode = Mode::ProbeBandwidth;
            self.cycle_since = now;
        }
        let rate = self.bandwidth.0 * self.pacing_gain() * MARGIN;
        if self.full || rate > self.pacing_rate {
            self.pacing_rate = rate.max(1.0);
        }
        self.set_window(sample);
    }

    fn pacing_gain(&self) -> f64 {
        match self.mode {
            Mode::Startup => HIGH_GAIN,
            Mode::Drain => 1.0 / HIGH_GAIN,
            Mode::ProbeBandwidth => CYCLE[self.cycle],
        }
    }

    /// Records a sample; returns whether it began a round.
    fn note_bandwidth(&mut self, sample: &RateSample) -> bool {
        let Some(interval) = sample.interval else { return false };
        let round_start = sample.prior_delivered >= self.next_round_at;
        if round_start {
            self.next_round_at = sample.delivered_total;
            self.round += 1;
            self.conserving = false;
        }
        let bandwidth = sample.delivered as f64 * SECOND / interval as f64;
        if !sample.app_limited || bandwidth >= self.bandwidth.0 {
            let old = self.round - self.bandwidth.1 >= BANDWIDTH_ROUNDS;
            if bandwidth >= self.bandwidth.0 || old {
                self.bandwidth = (bandwidth, self.round);
            }
        }
        round_start
    }

    fn note_cycle(&mut self, now: Nanos, sample: &RateSample) {
        let long = now - self.cycle_since > self.min_rtt;
        let next = match CYCLE[self.cycle] {
            gain if gain > 1.0 => {
                long && (sample.losses > 0
                    || f64::from(sample.in_flight) >= self.in_flight(gain, sample))
            }
            gain if gain < 1.0 => {
                long || f64::from(sample.in_flight) <= self.in_flight(1.0, sample)
            }
            _ => long,
        };
        if next {
            self.cycle = (self.cycle + 1) % CYCLE.len();
            self.cycle_since = now;
        }
    }

    /// Segments that fill the path, times a gain, plus room for bursts.
    fn in_flight(&self, gain: f64, sample: &RateSample) -> f64 {
        let product = (self.bandwidth.0 * self.min_rtt as f64 / SECOND * gain).ceil();
        let room = product + 3.0 * f64::from(sample.burst);
        // Even, because receivers acknowledge every other segment.
        (room / 2.0).ceil() * 2.0
    }

    fn set_window(&mut self, sample: &RateSample) {
        let acked = sample.acked_sacked;
        if acked == 0 {
            return;
        }
        if sample.losses > 0 {
            self.window = self.window.saturating_sub(sample.losses).max(1);
        }
        if sample.recovering && !self.recovering {
            self.prior_window = self.prior_window.max(self.window);
            self.conserving = true;
            self.next_round_at = sample.delivered_total;
            self.window = sample.in_flight + acked;
        } else if !sample.recovering && self.recovering {
            self.window = self.window.max(self.prior_window);
            self.prior_window = 0;
            self.conserving = false;
        }
        self.recovering = sample.recovering;
        if self.conserving {
            self.window = self.window.max(sample.in_flight + acked);
            return;
        }
        let gain = if self.mode == Mode::ProbeBandwidth { CWND_GAIN } else { HIGH_GAIN };
        let target = self.in_flight(gain, sample) as u32;
        if self.full {
            self.window = (self.window + acked).min(target);
        } else if self.window < target || sample.delivered_total < TCP_INIT_CWND {
            self.window += acked;
        }
        self.window = self.window.max(MIN_WINDOW);
    }

    /// After a timeout all segments count as lost, and one is sent.
    pub(super) fn timed_out(&mut self) {
        self.prior_window = self.prior_window.max(self.window);
        self.window = 1;
        self.full_bandwidth = 0.0;
        self.recovering = true;
    }
}
