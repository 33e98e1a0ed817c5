//! Answers of a cell: the frequency of each status and body size, and whether those of several cells are alike.
//!
//! Times are only comparable between similar answers: an error page is fast and a large body slow, however the client
//! connects. Unknown statuses and sizes never count as different.

use std::collections::BTreeMap;

use crate::run::VisitAnswer;

/// Sizes differ if they are at least this far apart, bytes…
const SIZE_BYTES: u64 = 1_000;
/// … and by this share of the larger one.
const SIZE_SHARE: f64 = 0.05;

/// Frequency of each status and each body size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnswerCounts {
    statuses: BTreeMap<u16, usize>,
    sizes: BTreeMap<u64, usize>,
}

/// Difference between answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerDifference {
    /// These two statuses are the most frequent ones, the smaller one first.
    Statuses(u16, u16),
    /// Sizes of the bodies, bytes, the smaller one first.
    Sizes(u64, u64),
}

impl AnswerCounts {
    /// Adds the answer to one visit.
    pub fn add(&mut self, answer: VisitAnswer) {
        if let Some(status) = answer.status() {
            *self.statuses.entry(status).or_default() += 1;
        }
        if let Some(bytes) = answer.body_bytes() {
            *self.sizes.entry(bytes).or_default() += 1;
        }
    }

    /// Adds all answers in `other`.
    pub fn add_all(&mut self, other: &Self) {
        for (status, count) in &other.statuses {
            *self.statuses.entry(*status).or_default() += count;
        }
        for (bytes, count) in &other.sizes {
            *self.sizes.entry(*bytes).or_default() += count;
        }
    }

    /// Each status and its frequency, the most frequent one first.
    pub fn statuses(&self) -> Vec<(u16, usize)> {
        let mut statuses: Vec<(u16, usize)> =
            self.statuses.iter().map(|(status, count)| (*status, *count)).collect();
        statuses.sort_by_key(|(status, count)| (std::cmp::Reverse(*count), *status));
        statuses
    }

    /// The most frequent status.
    pub fn usual_status(&self) -> Option<u16> {
        self.statuses().first().map(|(status, _)| *status)
    }

    /// Whether any status is an error: 400 or more.
    pub fn has_errors(&self) -> bool {
        self.statuses.range(400_u16..).next().is_some()
    }

    /// The smallest and the largest body, bytes.
    pub fn size_range(&self) -> Option<(u64, u64)> {
        Some((*self.sizes.keys().next()?, *self.sizes.keys().next_back()?))
    }

    /// The median body size, bytes.
    pub fn median_bytes(&self) -> Option<u64> {
        self.size_at(1, 2)
    }

    /// The smallest size that at least `part` of `whole` bodies do not exceed.
    fn size_at(&self, part: usize, whole: usize) -> Option<u64> {
        let all: usize = self.sizes.values().sum();
        let rank = (all * part).div_ceil(whole);
        let mut passed = 0;
        let found = self.sizes.iter().find(|(_, count)| {
            passed += **count;
            passed >= rank
        });
        found.map(|(bytes, _)| *bytes)
    }
}

/// The difference between the answers of these cells, if any: in their statuses; in their median sizes; or, within one
/// of them, between the quartiles of its sizes.
pub fn find_difference<'a>(
    cells: impl IntoIterator<Item = &'a AnswerCounts> + Clone,
) -> Option<AnswerDifference> {
    let mut together = AnswerCounts::default();
    cells.clone().into_iter().for_each(|cell| together.add_all(cell));
    if let [(one, _), (other, _), ..] = together.statuses()[..] {
        return Some(AnswerDifference::Statuses(one.min(other), one.max(other)));
    }
    let within = |cell: &AnswerCounts| differing(cell.size_at(1, 4)?, cell.size_at(3, 4)?);
    if let Some(difference) = cells.clone().into_iter().find_map(within) {
        return Some(difference);
    }
    let medians = || cells.clone().into_iter().filter_map(AnswerCounts::median_bytes);
    differing(medians().min()?, medians().max()?)
}

fn differing(least: u64, most: u64) -> Option<AnswerDifference> {
    let apart = most.saturating_sub(least);
    let are_unlike = apart > SIZE_BYTES && apart as f64 > most as f64 * SIZE_SHARE;
    are_unlike.then_some(AnswerDifference::Sizes(least, most))
}

#[cfg(test)]
mod tests {
    use super::super::describe_answers;
    use super::*;

    fn counted(answers: &[(u16, u64)]) -> AnswerCounts {
        let mut counts = AnswerCounts::default();
        for (status, bytes) in answers {
            counts.add(VisitAnswer::new(Some(*status), Some(*bytes)));
        }
        counts
    }

    #[test]
    fn answers_are_unlike_by_status_or_by_size() {
        use AnswerDifference::{Sizes, Statuses};
        let page = &[(200, 5); 10][..];
        let large = &[(200, 500_000); 10][..];
        let halved = [&[(200, 5); 6][..], &[(429, 0); 4]].concat();
        // One truncated body, and a third of the bodies truncated.
        let one_short = [&[(200, 500_000); 9][..], &[(200, 100)]].concat();
        let often_short = [&[(200, 500_000); 6][..], &[(200, 100); 4]].concat();
        for (base, variant, expected) in [
            (page, page, None),
            (page, &[(429, 5); 10], Some(Statuses(200, 429))),
            (&[(429, 0); 10], page, Some(Statuses(200, 429))),
            (page, &halved, Some(Statuses(200, 429))),
            (&halved, &halved, Some(Statuses(200, 429))),
            (page, large, Some(Sizes(5, 500_000))),
            (large, page, Some(Sizes(5, 500_000))),
            (&[(200, 100_000); 10], &[(200, 104_000); 10], None),
            (&[(200, 100_000); 10], &[(200, 106_000); 10], Some(Sizes(100_000, 106_000))),
            (&[(200, 500); 10], &[(200, 1_400); 10], None),
            (large, &one_short, None),
            (large, &often_short, Some(Sizes(100, 500_000))),
            (&[], page, None),
            (&[], &[], None),
        ] {
            let counts = [counted(base), counted(variant)];
            assert_eq!(find_difference(&counts), expected, "{base:?} {variant:?}");
        }
    }

    #[test]
    fn what_is_not_known_is_not_unlike() {
        let mut unknown = AnswerCounts::default();
        unknown.add(VisitAnswer::default());
        assert_eq!(find_difference(&[counted(&[(200, 500_000)]), unknown.clone()]), None);
        assert_eq!((unknown.usual_status(), unknown.size_range()), (None, None));
        let mut sizes = AnswerCounts::default();
        sizes.add(VisitAnswer::new(None, Some(0)));
        assert_eq!((sizes.usual_status(), sizes.median_bytes()), (None, Some(0)));
        assert_eq!(
            find_difference(&[counted(&[(200, 5_000)]), sizes]),
            Some(AnswerDifference::Sizes(0, 5_000))
        );
    }

    #[test]
    fn statuses_are_counted_and_sizes_have_a_middle() {
        let counts = counted(&[(429, 0), (200, 7), (200, 9), (200, 8), (503, 1)]);
        assert_eq!(counts.statuses(), [(200, 3), (429, 1), (503, 1)]);
        assert_eq!(counts.usual_status(), Some(200));
        assert!(counts.has_errors() && !counted(&[(200, 7), (399, 7)]).has_errors());
        assert_eq!(
            describe_answers(&counts),
            "3 with status 200, 1 with status 429, 1 with status 503, 0 to 9 bytes"
        );
        assert_eq!(
            describe_answers(&counted(&[(200, 500_000); 2])),
            "2 with status 200, 500,000 bytes"
        );
        assert_eq!(describe_answers(&AnswerCounts::default()), "");
        assert_eq!((counts.median_bytes(), counts.size_range()), (Some(7), Some((0, 9))));
    }
}
