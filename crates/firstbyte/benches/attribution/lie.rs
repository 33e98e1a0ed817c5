//! Wrong rules put in on purpose, one for each part: an oracle that does not find them finds nothing.

use firstbyte_core::split::Part;

use crate::score::{Outcome, index};

/// The sample as it would be said by a split with a rule that takes `part` for something else.
pub(crate) fn told(outcome: &Outcome, part: Part) -> Outcome {
    let mut lie = outcome.clone();
    let (instead, share) = match part {
        Part::Resolver | Part::Fallback => (Part::Client, 1.0),
        // A third of all round trips is not counted.
        Part::Network => (Part::Server, 1.0 / 3.0),
        Part::Variation | Part::Server => (Part::Network, 1.0),
        Part::Client => (Part::Server, 1.0),
        Part::Transfer => (Part::Pause, 1.0),
        Part::Pause => (Part::Transfer, 1.0),
        // What is known is said to be unknown: no wrong name, but a way out.
        Part::Unexplained => {
            lie.said[index(Part::Unexplained)] += lie.said[index(Part::Network)];
            lie.said[index(Part::Network)] = 0.0;
            return lie;
        }
    };
    let moved = lie.said[index(part)] * share;
    lie.said[index(part)] -= moved;
    lie.said[index(instead)] += moved;
    lie
}

/// Samples in which the lie matters, and in how many of them it is found.
pub(crate) fn found(outcomes: &[Outcome], part: Part) -> (usize, usize) {
    let right = outcomes.iter().filter(|o| o.untold.is_none() && o.is_right());
    let lies = right.map(|outcome| (outcome, told(outcome, part)));
    // What is small is not moved far enough to be wrong, nor what stays within an interval that the truth is.
    let matter: Vec<bool> = lies
        .filter(|(outcome, lie)| {
            let enough = 2.0 * outcome.allowed() + outcome.open;
            (0..9).any(|i| (outcome.said[i] - lie.said[i]).abs() > enough)
        })
        .map(|(_, lie)| !lie.is_right())
        .collect();
    (matter.len(), matter.iter().filter(|found| **found).count())
}
