//! Converts stretches of time to spans on the lifelines.
//!
//! Input: stretches on the client's clock. Output: the same stretches, with those of the server's answers half a round
//! trip earlier, when they happened.

use std::time::Duration;

use super::{Span, half};
use crate::split::{Part, Place, Stretch};

pub(super) fn lay_spans(stretches: &[Stretch], rtt: Option<Duration>) -> Vec<Span> {
    let away = half(rtt.unwrap_or_default());
    let mut spans: Vec<Span> = Vec::new();
    let stretches: Vec<&Stretch> =
        stretches.iter().filter(|stretch| !stretch.duration().is_zero()).collect();
    let way = |index: Option<usize>| {
        let stretch = index.and_then(|index| stretches.get(index));
        stretch.is_some_and(|s| s.place == Place::Path && s.part != Part::Unexplained)
    };
    for (index, stretch) in stretches.iter().enumerate() {
        // The server's work already lies between two halves of a round trip, if both are present.
        let between = way(index.checked_sub(1)) && way(index.checked_add(1));
        let at_work = stretch.part == Part::Server && between;
        let seen_late = stretch.place == Place::Server && !at_work;
        let earlier = if seen_late { away } else { Duration::ZERO };
        let (start, end) = (stretch.start - earlier, stretch.end - earlier);
        let Stretch { part, place, phase, .. } = **stretch;
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
