//! A compact encoding of a histogram: about a hundred bytes for an hour with one sample per minute.
//!
//! Numbers are LEB128: seven bits per byte, lowest first. In this order: scale (minus `COARSEST_SCALE`), zero count,
//! number of buckets, sum and, if anything was counted, the shortest time and the excess of the longest one,
//! nanoseconds; then the index of the first bucket in zigzag encoding; then for each bucket the number of empty ones
//! before it times four, plus its count minus one. If the count minus one is three or more, three is added instead,
//! and the count minus four follows.

use std::fmt;
use std::time::Duration;

use crate::leb128::{Leb128Error, put_leb128, take_leb128};

use super::{COARSEST_SCALE, ExponentialHistogram, HISTOGRAM_SCALE, possible};

/// Why bytes are not a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredHistogramError {
    /// The bytes are truncated.
    Incomplete,
    /// Bytes follow the end of the histogram.
    TooLong,
    /// A number is larger than [`ExponentialHistogram::store`] would write.
    OutOfRange,
}

impl fmt::Display for StoredHistogramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Incomplete => "the histogram is cut short",
            Self::TooLong => "the histogram has bytes after its end",
            Self::OutOfRange => "the histogram has a number out of range",
        })
    }
}

impl std::error::Error for StoredHistogramError {}

impl From<Leb128Error> for StoredHistogramError {
    fn from(error: Leb128Error) -> Self {
        match error {
            Leb128Error::Incomplete => Self::Incomplete,
            Leb128Error::OutOfRange => Self::OutOfRange,
        }
    }
}

/// Counts from this value on are stored separately from the bucket's position.
const LARGE: u64 = 4;

impl ExponentialHistogram {
    /// Appends the encoded histogram to `out`.
    pub fn store(&self, out: &mut Vec<u8>) {
        put_leb128(out, u128::from((self.scale - COARSEST_SCALE).unsigned_abs()));
        put_leb128(out, u128::from(self.zero));
        put_leb128(out, self.buckets.len() as u128);
        put_leb128(out, self.sum_ns);
        if let Some((least, most)) = self.ends {
            put_leb128(out, least.as_nanos());
            put_leb128(out, most.saturating_sub(least).as_nanos());
        }
        let mut next = None;
        for (index, number) in &self.buckets {
            let gap = match next {
                Some(next) => index.abs_diff(next),
                None => {
                    put_leb128(out, u128::from((index << 1 ^ index >> 31).cast_unsigned()));
                    0
                }
            };
            put_leb128(out, u128::from(gap) << 2 | u128::from((number - 1).min(LARGE - 1)));
            if *number >= LARGE {
                put_leb128(out, u128::from(number - LARGE));
            }
            next = Some(index + 1);
        }
    }

    /// Decodes a histogram from `bytes`.
    ///
    /// # Errors
    /// The bytes were not written by [`Self::store`].
    pub fn restore(bytes: &[u8]) -> Result<Self, StoredHistogramError> {
        let out_of_range = StoredHistogramError::OutOfRange;
        let mut rest = bytes;
        let scale: u8 = take_leb128(&mut rest)?;
        let scale = i8::try_from(scale).ok().and_then(|scale| scale.checked_add(COARSEST_SCALE));
        let scale = scale.filter(|scale| *scale <= HISTOGRAM_SCALE).ok_or(out_of_range)?;
        let zero: u64 = take_leb128(&mut rest)?;
        let buckets: usize = take_leb128(&mut rest)?;
        let sum_ns = take_leb128(&mut rest)?;
        let mut histogram = Self { scale, count: zero, zero, sum_ns, ..Self::default() };
        if zero > 0 || buckets > 0 {
            let least = duration(take_leb128(&mut rest)?)?;
            let wider = duration(take_leb128(&mut rest)?)?;
            histogram.ends = Some((least, least.checked_add(wider).ok_or(out_of_range)?));
        }
        // A bucket takes at least a byte, so that a forged number of buckets allocates nothing.
        if buckets > rest.len() {
            return Err(StoredHistogramError::Incomplete);
        }
        histogram.buckets.reserve_exact(buckets);
        let possible = possible(scale);
        let mut next = match buckets {
            0 => 0,
            _ => {
                let zigzag: u32 = take_leb128(&mut rest)?;
                (zigzag >> 1).cast_signed() ^ -(zigzag & 1).cast_signed()
            }
        };
        for _ in 0..buckets {
            let token: u64 = take_leb128(&mut rest)?;
            let gap = i32::try_from(token >> 2).map_err(|_| out_of_range)?;
            let number = match token & 3 {
                3 => take_leb128::<u64>(&mut rest)?.checked_add(LARGE).ok_or(out_of_range)?,
                less_one => less_one + 1,
            };
            let index = next.checked_add(gap).filter(|index| possible.contains(index));
            let index = index.ok_or(out_of_range)?;
            next = index + 1;
            histogram.count = histogram.count.checked_add(number).ok_or(out_of_range)?;
            histogram.buckets.push((index, number));
        }
        if rest.is_empty() { Ok(histogram) } else { Err(StoredHistogramError::TooLong) }
    }
}

fn duration(ns: u128) -> Result<Duration, StoredHistogramError> {
    const SECOND: u128 = 1_000_000_000;
    let seconds = u64::try_from(ns / SECOND).map_err(|_| StoredHistogramError::OutOfRange)?;
    Ok(Duration::new(seconds, (ns % SECOND) as u32))
}
