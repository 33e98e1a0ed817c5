//! Counts the TCP segments of each read.
//!
//! Input: the kernel's counters at each read (bytes in order, segments with data: [`Count`]), and where reads ended.
//! Output: how many segments end within each read. Reads end with TLS records, and the kernel merges waiting segments,
//! so neither the number of reads nor their lengths tell the number of segments.

/// The kernel's counters at some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    /// Bytes received in order.
    pub bytes: u64,
    /// Segments received with data.
    pub segments: u32,
}

/// Maximum number of counts kept, so that a download of gigabytes stays small.
const COUNTS: usize = 4_096;

/// All counts of a connection.
#[derive(Clone, Debug)]
pub(super) struct Segments {
    counts: Vec<Count>,
    /// Payload size of a full segment.
    full: u32,
}

/// The kernel's assumed size of a full segment before it has seen one (TCP_MSS_DEFAULT).
const DEFAULT: u32 = 536;

impl Segments {
    pub(super) const fn new() -> Self {
        Self { counts: Vec::new(), full: 0 }
    }

    /// Records the kernel's counters after a read.
    pub(super) fn count(&mut self, count: Count, full: u32) {
        // The kernel lowers its estimate when shorter segments of one length follow.
        self.full = self.full.max(full);
        let last = self.counts.last().copied().unwrap_or_default();
        let further = count.bytes > last.bytes && count.segments > last.segments;
        if further && self.counts.len() < COUNTS {
            self.counts.push(count);
        }
    }

    /// Payload size of the largest segment received, if that segment was full-sized.
    pub(super) fn full(&self) -> Option<u32> {
        (self.full > DEFAULT).then_some(self.full)
    }

    /// How many segments end in each of the reads that end at `ends`; the first read begins at `from`.
    ///
    /// All segments between two counts are assumed full except the last. If there were more segments than that, or if
    /// two reads would end in the same segment, the shorter segments are placed at the ends of reads. Different reads
    /// have different stamps.
    pub(super) fn of_reads(&self, from: u64, ends: &[u64]) -> Vec<Option<u32>> {
        let mut of_reads = vec![None; ends.len()];
        let mut before = Count::default();
        let mut read = 0;
        for &count in &self.counts {
            let segments = count.segments.wrapping_sub(before.segments);
            let within = ends[read..].partition_point(|end| *end < count.bytes);
            // The last segment ends here, or in a read that ends later.
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

    /// Distributes `segments`, which carried the bytes from `from` to `to`: how many end by each of `ends`, counted
    /// from the one before.
    fn ended(&self, from: u64, to: u64, segments: u32, ends: &[u64]) -> Vec<u32> {
        let full = u64::from(self.full.max(1));
        // All except the last one, which ends at `to`.
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
                // The end of the next read came in another segment, at another time; or more segments are left than
                // full ones would need.
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
        // Four segments had arrived at the first read: 1448, 1448, 1448, 656.
        assert_eq!(reads_of(&[(5_000, 4)], &[1_448, 3_500, 5_000]), [Some(1), Some(1), Some(2)]);
    }

    #[test]
    fn more_segments_than_full_ones_end_with_reads() {
        // A head in its own segment, two full segments and a rest.
        assert_eq!(reads_of(&[(3_000, 4)], &[103, 3_000]), [Some(1), Some(3)]);
        // Two full segments and a rest are as likely as a head and two full segments,
        assert_eq!(reads_of(&[(2_999, 3)], &[103, 2_999]), [Some(0), Some(3)]);
        // unless the bytes after the head came later, in a segment that was not full.
        assert_eq!(reads_of(&[(2_999, 3)], &[103, 210, 2_999]), [Some(1), Some(0), Some(2)]);
    }

    #[test]
    fn what_the_kernel_did_not_count_is_unknown() {
        assert_eq!(reads_of(&[], &[100]), [None]);
        assert_eq!(reads_of(&[(100, 1)], &[100, 300]), [Some(1), None]);
        // Bytes of earlier exchanges on a kept connection do not count.
        assert_eq!(counted(&[(100, 1), (300, 2)]).of_reads(100, &[300]), [Some(1)]);
    }

    #[test]
    fn a_read_that_ends_behind_a_count_has_what_was_counted_until_then() {
        assert_eq!(reads_of(&[(1_448, 1), (2_896, 2)], &[2_000, 2_896]), [Some(1), Some(1)]);
    }
}
