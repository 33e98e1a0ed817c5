//! Stretches of time as spans on the lifelines.
//!
//! Input: stretches as the client saw them. Output: the same, those of the server's answers half a
//! round trip earlier, when they were.

use std::time::Duration;

use super::{Span, half};
use crate::split::{Part, Place, Stretch};

pub(super) fn of(stretches: &[Stretch], rtt: Option<Duration>) -> Vec<Span> {
    let away = half(rtt.unwrap_or_default());
    let mut spans: Vec<Span> = Vec::new();
    for stretch in stretches.iter().filter(|stretch| !stretch.duration().is_zero()) {
        // The server's work lies between two halves of a round trip already.
        let seen_late = stretch.place == Place::Server && stretch.part != Part::Server;
        let earlier = if seen_late { away } else { Duration::ZERO };
        let (start, end) = (stretch.start - earlier, stretch.end - earlier);
        let Stretch { part, place, phase, .. } = *stretch;
        match spans.last_mut() {
            Some(last)
                if (last.part, last.place, last.phase) == (part, place, phase)
                    && last.end == start
                    && !last.is_full_window() =>
            {
                last.end = end;
            }
            _ => spans.push(Span { part, place, start, end, seen: stretch.start, phase }),
        }
    }
    spans
}
