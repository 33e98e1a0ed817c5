//! When the capturing program dropped frames, and which connections that may have affected.

use super::observed::ANSWER_WITHIN;
use super::{Doubts, Ending, Observed, Time};

/// Most separate intervals; beyond this the last one grows.
const MOST: usize = 64;

/// Intervals in which frames were dropped, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Losses(Vec<(Time, Time)>);

impl Losses {
    pub(super) fn add(&mut self, from: Time, to: Time) {
        let full = self.0.len() >= MOST;
        match self.0.last_mut() {
            Some((_, end)) if full || *end >= from => *end = to.max(*end),
            _ => self.0.push((from, to)),
        }
    }

    /// Marks a connection that was open in such an interval, and its handshake as in doubt if that was in progress.
    pub(super) fn mark(&self, observed: &mut Observed) {
        if observed.ending == Ending::Unanswered {
            // The answer may have been among the dropped frames.
            let wait_ns = ANSWER_WITHIN.as_nanos() as i64;
            let answer = Time::from_unix_ns(observed.last.unix_ns().saturating_add(wait_ns));
            if self.within(observed.started, answer) {
                observed.ending = Ending::Open;
                observed.doubts.add(Doubts::FRAMES_DROPPED);
            }
        }
        if !self.within(observed.started, observed.last) {
            return;
        }
        observed.doubts.add(Doubts::FRAMES_DROPPED);
        let end = observed.flights.last().map_or(observed.last, |flight| flight.end);
        if let Some(time) = &mut observed.handshake_time
            && self.within(observed.started, end)
        {
            time.confident = false;
        }
    }

    fn within(&self, first: Time, last: Time) -> bool {
        self.0.iter().any(|(from, to)| *from <= last && first <= *to)
    }
}
