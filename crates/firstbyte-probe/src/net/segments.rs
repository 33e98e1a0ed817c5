//! How many TCP segments the bytes of each read were.
//!
//! Input: what the kernel had counted at each read (bytes in order, segments with data: [`Count`]), and where reads ended. Output: how
//! many segments end within each read. What is read ends with TLS records, and the kernel merges segments that wait:
//! neither the number of reads nor their lengths tell how many there were.

/// What had arrived by some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    /// Bytes in order.
    pub bytes: u64,
    /// Segments with data.
    pub segments: u32,
}

/// At most so many are kept: a download of gigabytes stays small.
const COUNTS: usize = 4_096;

/// All that was counted on a connection.
#[derive(Clone, Debug)]
pub(super) struct Segments {
    counts: Vec<Count>,
    /// Payload of a full segment.
    full: u32,
}

/// What the kernel takes for a full segment before it has seen one (TCP_MSS_DEFAULT).
const DEFAULT: u32 = 536;

impl Segments {
    pub(super) const fn new() -> Self {
        Self { counts: Vec::new(), full: 0 }
    }

    /// Takes note of what the kernel said after a read.
    pub(super) fn count(&mut self, count: Count, full: u32) {
        // The kernel thinks less of it again where shorter ones of one length follow.
        self.full = self.full.max(full);
        let last = self.counts.last().copied().unwrap_or_default();
        let further = count.bytes > last.bytes && count.segments > last.segments;
        if further && self.counts.len() < COUNTS {
            self.counts.push(count);
        }
    }

    /// Payload of the largest segment that arrived, where it was a full one.
    pub(super) fn full(&self) -> Option<u32> {
        (self.full > DEFAULT).then_some(self.full)
    }

    /// How many segments end in each of the reads that end at `ends`, the first of which begins at `from`.
    ///
    /// Between two counts segments are full ones, but for the last. Where there were more than that, or where the ends
    /// of two reads would be in one segment, reads ended with the shorter ones. Reads have different stamps.
    pub(super) fn of_reads(&self, from: u64, ends: &[u64]) -> Vec<Option<u32>> {
        let mut of_reads = vec![None; ends.len()];
        let mut before = Count::default();
        let mut read = 0;
        for &count in &self.counts {
            let segments = count.segments.wrapping_sub(before.segments);
            let within = ends[read..].partition_point(|end| *end < count.bytes);
            // The last one ends here, or in a read that ends behind it.
            let last = (read + within).min(ends.len());
            if count.bytes > from {
                let ended = self.ended(before.bytes, count.bytes, segments, &ends[read..last]);
                let mut rest = segments;
                for (at, ended) in (read..last).zip(ended) {
                    *of_reads[at].get_or_insert(0) += ended;
                    rest -= ended;
                }
                if let Some(of_read) = of_reads.get_mut(last) {
                    *of_read.get_or_insert(0) += rest;
                }
            }
            (before, read) = (count, last);
        }
        of_reads
    }

    /// Of `segments` that carried the bytes from `from` to `to`, how many end by each of these ends, counted from the one before.
    fn ended(&self, from: u64, to: u64, segments: u32, ends: &[u64]) -> Vec<u32> {
        let full = u64::from(self.full.max(1));
        // All but the last one, which ends at `to`.
        let mut left = segments.saturating_sub(1);
        let fulls =
            |from: u64| u32::try_from((to - from).saturating_sub(1) / full).unwrap_or(u32::MAX);
        let nexts = ends.iter().skip(1).copied().chain([to]);
        let mut begun = from;
        ends.iter()
            .zip(nexts)
            .map(|(end, next)| {
                let whole =
                    u32::try_from(end.saturating_sub(begun) / full).unwrap_or(u32::MAX).min(left);
                begun += u64::from(whole) * full;
                left -= whole;
                // What the next read ends with came in another segment, at another time. Or more are left than full
                // ones need.
                let apart = begun + full >= next;
                let shorter = *end > begun && left > 0 && (apart || left > fulls(begun));
                if shorter {
                    begun = *end;
                    left -= 1;
                }
                whole + u32::from(shorter)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(counts: &[(u64, u32)]) -> Segments {
        let mut segments = Segments::new();
        for &(bytes, count) in counts {
            segments.count(Count { bytes, segments: count }, 1_448);
        }
        segments
    }

    fn reads_of(counts: &[(u64, u32)], ends: &[u64]) -> Vec<Option<u32>> {
        counted(counts).of_reads(0, ends)
    }

    #[test]
    fn reads_that_end_with_segments_are_counted_as_they_are() {
        assert_eq!(
            reads_of(&[(1_448, 1), (2_896, 2), (3_000, 3)], &[1_448, 2_896, 3_000]),
            [Some(1), Some(1), Some(1)]
        );
    }

    #[test]
    fn reads_that_end_with_records_are_counted_by_full_segments() {
        // Four segments were there at the first read: 1448, 1448, 1448, 656.
        assert_eq!(reads_of(&[(5_000, 4)], &[1_448, 3_500, 5_000]), [Some(1), Some(1), Some(2)]);
    }

    #[test]
    fn more_segments_than_full_ones_end_with_reads() {
        // A head by itself, two full ones and a rest.
        assert_eq!(reads_of(&[(3_000, 4)], &[103, 3_000]), [Some(1), Some(3)]);
        // Two full ones and a rest are as likely as a head and two full ones,
        assert_eq!(reads_of(&[(2_999, 3)], &[103, 2_999]), [Some(0), Some(3)]);
        // unless what follows the head came later, and was no full segment.
        assert_eq!(reads_of(&[(2_999, 3)], &[103, 210, 2_999]), [Some(1), Some(0), Some(2)]);
    }

    #[test]
    fn what_the_kernel_did_not_count_is_unknown() {
        assert_eq!(reads_of(&[], &[100]), [None]);
        assert_eq!(reads_of(&[(100, 1)], &[100, 300]), [Some(1), None]);
        // Of a kept connection, what came before is not of it.
        assert_eq!(counted(&[(100, 1), (300, 2)]).of_reads(100, &[300]), [Some(1)]);
    }

    #[test]
    fn a_read_that_ends_behind_a_count_has_what_was_counted_until_then() {
        assert_eq!(reads_of(&[(1_448, 1), (2_896, 2)], &[2_000, 2_896]), [Some(1), Some(1)]);
    }
}
