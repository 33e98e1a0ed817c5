//! The sending half of a Linux TCP connection: windows, pacing, losses and timers.
//!
//! RACK detects losses and SACK repairs them (RFC 8985, RFC 6675); a tail loss probe precedes the timeout (RFC 6298
//! with Linux's minimum of 200 ms).

use std::collections::VecDeque;

use super::Nanos;
use super::bbr::Bbr;
use super::rate::RateSample;
use super::timer::Wheel;
use super::window::Window;
use super::wire::SACK_BLOCKS;
use crate::simulation::CongestionControl;

/// TCP_RTO_MIN of Linux.
const LEAST_TIMEOUT: Nanos = 200_000_000;
/// TCP_TIMEOUT_MIN of Linux, two ticks of 4 ms.
const LEAST_PROBE: Nanos = 8_000_000;
/// Segments of a connection that `sch_fq` and TCP's own pacing send unpaced.
const UNPACED: u64 = 10;
/// A burst holds the bytes that pacing allows in this time, 2⁻¹⁰ s.
const PACING_SHIFT: f64 = 1024.0;
const MAX_BURST: u64 = 65_536;
/// Segments acknowledged out of order that indicate a loss.
const DUPLICATES: u32 = 3;

/// A segment sent but not yet acknowledged.
#[derive(Clone, Copy, Debug)]
struct Segment {
    start: u64,
    end: u64,
    sent_at: Nanos,
    retransmitted: bool,
    sacked: bool,
    lost: bool,
    /// State for the rate sample at the time of sending.
    delivered: u64,
    delivered_at: Nanos,
    first_sent_at: Nanos,
    app_limited: bool,
}

#[derive(Debug)]
enum Control {
    Window(Window),
    Bbr(Bbr),
}

#[derive(Debug)]
pub(super) struct Sender {
    mss: u64,
    timers: Wheel,
    initial_window: u32,
    control: Control,
    /// Nagle's algorithm: end of the last partial segment sent.
    nagle: Option<u64>,
    segments: VecDeque<Segment>,
    pub written: u64,
    sent: u64,
    pub acknowledged: u64,
    srtt: Nanos,
    rttvar: Nanos,
    min_rtt: Nanos,
    /// Segments in flight; `sacked` counts segments too.
    in_flight: u32,
    sacked: u32,
    delivered: u64,
    delivered_at: Nanos,
    first_sent_at: Nanos,
    app_limited: u64,
    segments_sent: u64,
    /// Recovery ends when this byte is acknowledged.
    recovery_until: Option<u64>,
    /// Send time and end of the latest-sent segment that arrived; `rack_rtt` is its round-trip time (RFC 8985 §6.2).
    rack: (Nanos, u64),
    rack_rtt: Nanos,
    max_in_flight: u32,
    usage_until: u64,
    window_limited: bool,
    paced_until: Nanos,
    last_sent_at: Nanos,
    backoff: u32,
    timer: Option<(Nanos, Timer)>,
    reorder_at: Option<Nanos>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timer {
    Probe,
    Timeout,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Outgoing {
    pub start: u64,
    pub end: u64,
    pub first_time: bool,
}

impl Sender {
    pub(super) fn new(
        control: CongestionControl,
        window: u32,
        mss: u64,
        rtt: Nanos,
        timers: Wheel,
    ) -> Self {
        Self {
            mss,
            timers,
            initial_window: window,
            control: match control {
                CongestionControl::Cubic => Control::Window(Window::new(true, window)),
                CongestionControl::Reno => Control::Window(Window::new(false, window)),
                CongestionControl::Bbr => Control::Bbr(Bbr::new(window, rtt)),
            },
            nagle: None,
            segments: VecDeque::new(),
            written: 0,
            sent: 0,
            acknowledged: 0,
            srtt: rtt,
            rttvar: rtt / 2,
            min_rtt: rtt,
            in_flight: 0,
            sacked: 0,
            delivered: 0,
            delivered_at: 0,
            first_sent_at: 0,
            app_limited: 0,
            segments_sent: 0,
            recovery_until: None,
            rack: (0, 0),
            rack_rtt: rtt,
            max_in_flight: 0,
            usage_until: 0,
            window_limited: false,
            paced_until: 0,
            last_sent_at: 0,
            backoff: 0,
            timer: None,
            reorder_at: None,
        }
    }

    pub(super) fn with_nagle(mut self, on: bool) -> Self {
        self.nagle = on.then_some(0);
        self
    }

    /// Whether Nagle's algorithm holds a partial segment because another partial one is unacknowledged (Minshall's
    /// variant, `tcp_nagle_check`).
    fn is_held(&self) -> bool {
        let partial = self.written - self.sent < self.mss;
        partial && self.nagle.is_some_and(|small_end| small_end > self.acknowledged)
    }

    fn window(&self) -> u32 {
        match &self.control {
            Control::Window(window) => window.window,
            Control::Bbr(bbr) => bbr.window,
        }
    }

    pub(super) fn write(&mut self, now: Nanos, bytes: u64) {
        let rested = now.saturating_sub(self.last_sent_at) > self.timeout();
        if let Control::Window(window) = &mut self.control
            && self.segments.is_empty()
            && rested
        {
            window.rested(self.initial_window);
        }
        // tcp_rate_check_app_limited
        if self.written - self.sent < self.mss && self.in_flight < self.window() {
            self.app_limited = (self.delivered + u64::from(self.in_flight)).max(1);
        }
        self.written += bytes;
    }

    /// Time of the next timer or pacing event.
    pub(super) fn next(&self) -> Nanos {
        let timer = self.timer.map_or(Nanos::MAX, |(at, _)| at);
        let pacing = if self.is_paced_out() { self.paced_until } else { Nanos::MAX };
        timer.min(pacing).min(self.reorder_at.unwrap_or(Nanos::MAX))
    }

    /// Whether pacing alone prevents sending.
    fn is_paced_out(&self) -> bool {
        matches!(self.control, Control::Bbr(_))
            && self.in_flight < self.window()
            && (self.sent < self.written || self.segments.iter().any(|s| s.lost))
    }

    /// Segments per burst.
    fn burst(&self) -> u32 {
        let Control::Bbr(bbr) = &self.control else { return u32::MAX };
        let rate = bbr.pacing_rate * self.mss as f64;
        let shift = (self.min_rtt / 1_000) >> 9;
        let short_paths = if shift < 32 { MAX_BURST >> shift } else { 0 };
        let bytes = ((rate / PACING_SHIFT) as u64 + short_paths).min(MAX_BURST);
        u32::try_from(bytes / self.mss).unwrap_or(u32::MAX).max(bbr.min_burst(self.mss))
    }

    /// Passes everything that may leave now to `send`.
    pub(super) fn transmit(&mut self, now: Nanos, mut send: impl FnMut(Outgoing)) {
        let (pending, before) = (self.sent < self.written, self.segments_sent);
        loop {
            if matches!(self.control, Control::Bbr(_)) && self.paced_until > now {
                break;
            }
            let mut bytes = 0;
            let mut left = self.burst();
            while left > 0 && self.in_flight < self.window() {
                let Some(outgoing) = self.next_segment(now) else { break };
                bytes += outgoing.end - outgoing.start;
                send(outgoing);
                left -= 1;
            }
            if bytes == 0 {
                break;
            }
            self.pace(now, bytes);
        }
        let limited = self.in_flight >= self.window();
        // With nothing to send, the kernel does not check the limit (`tcp_write_xmit`).
        if !pending || (self.segments_sent == before && !limited) {
            return;
        }
        let packets = self.segments.len() as u32;
        if self.acknowledged >= self.usage_until
            || limited
            || (!self.window_limited && packets > self.max_in_flight)
        {
            self.window_limited = limited;
            self.max_in_flight = packets;
            self.usage_until = self.sent;
        }
    }

    /// tcp_update_skb_after_send
    fn pace(&mut self, now: Nanos, bytes: u64) {
        let Control::Bbr(bbr) = &self.control else { return };
        let credit = now.saturating_sub(self.paced_until);
        self.paced_until = self.paced_until.max(now);
        if self.segments_sent >= UNPACED {
            let takes = (bytes as f64 * 1e9 / (bbr.pacing_rate * self.mss as f64)) as Nanos;
            self.paced_until += takes - (takes / 2).min(credit);
        }
    }

    fn next_segment(&mut self, now: Nanos) -> Option<Outgoing> {
        if self.in_flight < self.segments.len() as u32 - self.sacked
            && let Some(index) = self.segments.iter().position(|s| s.lost)
        {
            return Some(self.retransmit(now, index));
        }
        (self.sent < self.written && !self.is_held()).then(|| self.send_new(now))
    }

    fn send_new(&mut self, now: Nanos) -> Outgoing {
        let (start, end) = (self.sent, self.written.min(self.sent + self.mss));
        if self.segments.is_empty() {
            self.first_sent_at = now;
            self.delivered_at = now;
        }
        self.segments.push_back(Segment {
            start,
            end,
            sent_at: now,
            retransmitted: false,
            sacked: false,
            lost: false,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            app_limited: self.app_limited > 0,
        });
        self.sent = end;
        if end - start < self.mss
            && let Some(small_end) = &mut self.nagle
        {
            *small_end = end;
        }
        self.note_sent(now);
        if self.timer.is_none() || self.recovery_until.is_none() {
            self.set_timer(now);
        }
        Outgoing { start, end, first_time: true }
    }

    fn note_sent(&mut self, now: Nanos) {
        self.in_flight += 1;
        self.segments_sent += 1;
        self.last_sent_at = now;
    }

    fn retransmit(&mut self, now: Nanos, index: usize) -> Outgoing {
        let segment = &mut self.segments[index];
        segment.lost = false;
        segment.retransmitted = true;
        segment.sent_at = now;
        segment.delivered = self.delivered;
        segment.delivered_at = self.delivered_at;
        segment.first_sent_at = self.first_sent_at;
        segment.app_limited = self.app_limited > 0;
        let outgoing = Outgoing { start: segment.start, end: segment.end, first_time: false };
        self.note_sent(now);
        if self.timer.is_none() {
            self.set_timer(now);
        }
        outgoing
    }

    fn timeout(&self) -> Nanos {
        (self.srtt + (4 * self.rttvar).max(LEAST_TIMEOUT)) << self.backoff.min(6)
    }

    fn time_out(&mut self, now: Nanos) {
        self.timer = Some((self.timers.due(now, self.timeout()), Timer::Timeout));
    }

    fn set_timer(&mut self, now: Nanos) {
        if self.segments.is_empty() {
            self.timer = None;
            return;
        }
        let timeout = self.timeout();
        let probing = self.recovery_until.is_none() && self.sacked == 0 && self.backoff == 0;
        let alone = if self.segments.len() == 1 { LEAST_TIMEOUT } else { LEAST_PROBE };
        let probe = 2 * self.srtt + alone;
        let (after, timer) = match probing && probe < timeout {
            true => (probe, Timer::Probe),
            false => (timeout, Timer::Timeout),
        };
        self.timer = Some((self.timers.due(now, after), timer));
    }

    /// Handles expired timers; passes segments that must leave regardless of the window to `send`.
    pub(super) fn tick(&mut self, now: Nanos, mut send: impl FnMut(Outgoing)) {
        if self.reorder_at.is_some_and(|at| at <= now) {
            self.reorder_at = None;
            let losses = self.detect_losses(now);
            self.enter_recovery(losses);
        }
        let Some((_, timer)) = self.timer.filter(|(at, _)| *at <= now) else { return };
        match timer {
            Timer::Probe => {
                // New data if available, otherwise the last segment again (RFC 8985 §7.3).
                if self.sent < self.written {
                    send(self.send_new(now));
                } else if let Some(last) = self.segments.len().checked_sub(1) {
                    self.in_flight = self.in_flight.saturating_sub(1);
                    send(self.retransmit(now, last));
                }
                self.time_out(now);
            }
            Timer::Timeout => {
                for segment in self.segments.iter_mut().filter(|s| !s.sacked) {
                    segment.lost = true;
                }
                self.in_flight = 0;
                if self.recovery_until.is_none() || self.backoff == 0 {
                    match &mut self.control {
                        Control::Window(window) => window.timed_out(),
                        Control::Bbr(bbr) => bbr.timed_out(),
                    }
                }
                self.recovery_until = Some(self.sent);
                self.backoff += 1;
                self.paced_until = now;
                if let Some(first) = self.segments.iter().position(|s| s.lost) {
                    send(self.retransmit(now, first));
                }
                self.time_out(now);
            }
        }
    }

    /// Processes an acknowledgement.
    pub(super) fn receive(&mut self, now: Nanos, ack: u64, sacks: &[(u64, u64); SACK_BLOCKS]) {
        let advanced = ack > self.acknowledged;
        if !advanced && sacks[0] == (0, 0) {
            return;
        }
        let mut sample = RateSample { burst: self.burst().min(64), ..RateSample::default() };
        let mut newest: Option<Segment> = None;
        while let Some(segment) = self.segments.front().copied().filter(|s| s.end <= ack) {
            self.segments.pop_front();
            if segment.sacked {
                self.sacked -= 1;
            } else {
                self.deliver(now, &segment, &mut sample, &mut newest);
            }
        }
        if sacks[0] != (0, 0) {
            self.take_sacks(now, sacks, &mut sample, &mut newest);
        }
        self.acknowledged = self.acknowledged.max(ack);
        self.note_round_trip(now, newest.as_ref(), &mut sample);
        sample.losses = if self.sacked > 0 || self.recovery_until.is_some() {
            self.detect_losses(now)
        } else {
            self.reorder_at = None;
            0
        };
        self.enter_recovery(sample.losses);
        if self.recovery_until.is_some_and(|until| self.acknowledged >= until) {
            self.recovery_until = None;
        }
        if let Some(segment) = newest {
            sample.prior_delivered = segment.delivered;
            sample.delivered = self.delivered - segment.delivered;
            sample.app_limited = segment.app_limited;
            let sending = segment.sent_at - segment.first_sent_at;
            let acknowledging = now - segment.delivered_at;
            self.first_sent_at = segment.sent_at;
            let interval = sending.max(acknowledging);
            sample.interval = (interval >= self.min_rtt && interval > 0).then_some(interval);
        }
        if self.app_limited > 0 && self.delivered > self.app_limited {
            self.app_limited = 0;
        }
        self.control_window(now, sample);
        if advanced {
            self.backoff = 0;
        }
        if sample.acked_sacked > 0 || advanced {
            self.set_timer(now);
        }
    }

    fn control_window(&mut self, now: Nanos, mut sample: RateSample) {
        sample.in_flight = self.in_flight;
        sample.recovering = self.recovery_until.is_some();
        sample.delivered_total = self.delivered;
        sample.acknowledged = self.acknowledged;
        sample.sent = self.sent;
        match &mut self.control {
            Control::Window(window) => {
                sample.window_limited =
                    self.window_limited || window.window < 2 * self.max_in_flight;
                window.acknowledged(now, &sample);
            }
            Control::Bbr(bbr) => bbr.acknowledged(now, &sample),
        }
    }

    fn deliver(
        &mut self,
        now: Nanos,
        segment: &Segment,
        sample: &mut RateSample,
        newest: &mut Option<Segment>,
    ) {
        if !segment.lost {
            self.in_flight = self.in_flight.saturating_sub(1);
        }
        self.delivered += 1;
        self.delivered_at = now;
        sample.acked_sacked += 1;
        if newest.is_none_or(|n| (segment.sent_at, segment.end) > (n.sent_at, n.end)) {
            *newest = Some(*segment);
        }
        if (segment.sent_at, segment.end) > self.rack {
            self.rack = (segment.sent_at, segment.end);
            self.rack_rtt = now - segment.sent_at;
        }
    }

    fn take_sacks(
        &mut self,
        now: Nanos,
        sacks: &[(u64, u64); SACK_BLOCKS],
        sample: &mut RateSample,
        newest: &mut Option<Segment>,
    ) {
        for index in 0..self.segments.len() {
            let segment = self.segments[index];
            let covered =
                sacks.iter().any(|(from, to)| *from <= segment.start && segment.end <= *to);
            if covered && !segment.sacked {
                self.deliver(now, &segment, sample, newest);
                self.segments[index].sacked = true;
                self.segments[index].lost = false;
                self.sacked += 1;
            }
        }
    }

    fn note_round_trip(&mut self, now: Nanos, newest: Option<&Segment>, sample: &mut RateSample) {
        // Karn's algorithm: a retransmitted segment gives no sample.
        let Some(segment) = newest.filter(|s| !s.retransmitted) else { return };
        let rtt = now - segment.sent_at;
        sample.rtt = Some(rtt);
        self.min_rtt = self.min_rtt.min(rtt);
        let error = self.srtt.abs_diff(rtt);
        self.rttvar = (3 * self.rttvar + error) / 4;
        self.srtt = (7 * self.srtt + rtt) / 8;
    }

    /// RACK (RFC 8985 §6.2): a segment sent well before another one that has arrived is lost.
    fn detect_losses(&mut self, now: Nanos) -> u32 {
        let waits = self.recovery_until.is_none() && self.sacked < DUPLICATES;
        let patience = if waits { (self.min_rtt / 4).min(self.srtt / 8) } else { 0 };
        let mut losses = 0;
        let mut next = Nanos::MAX;
        for segment in self.segments.iter_mut().filter(|s| !s.sacked && !s.lost) {
            if (segment.sent_at, segment.end) >= self.rack {
                continue;
            }
            let due = segment.sent_at + self.rack_rtt + patience;
            if due <= now {
                segment.lost = true;
                losses += 1;
            } else {
                next = next.min(due);
            }
        }
        self.in_flight = self.in_flight.saturating_sub(losses);
        self.reorder_at = (next != Nanos::MAX).then_some(next);
        losses
    }

    fn enter_recovery(&mut self, losses: u32) {
        if losses == 0 || self.recovery_until.is_some() {
            return;
        }
        self.recovery_until = Some(self.sent);
        if let Control::Window(window) = &mut self.control {
            window.lost();
        }
    }
}
