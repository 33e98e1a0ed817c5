//! The compact stored form of a rollup: an hour with a sample a minute takes about one kilobyte.
//!
//! Numbers are LEB128. The fields, in this order: the version of the form; the number of samples; the milliseconds that
//! all samples and the failed samples stand for; the number of failure types, and the number and count of each; the
//! same for shortfalls; the number of fact values, and for each the number that the store has given it and its count;
//! then, for each measure that has a histogram, its number, its length in bytes, and the histogram in the core's stored
//! form. Failure types, shortfalls and measures are numbered by their places in lists that only grow at their ends.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use firstbyte_core::leb128::{Leb128Error, put_leb128, take_leb128};
use firstbyte_core::run::Shortfall;
use firstbyte_core::stats::{ExponentialHistogram, StoredHistogramError};
use firstbyte_core::timeline::FailureType;

use super::{Measure, MonitoredFact, Rollup};

const VERSION: u8 = 1;

type Facts = BTreeMap<MonitoredFact, BTreeMap<String, u64>>;

/// Why bytes are not a valid rollup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredRollupError {
    /// A later version wrote it.
    Version(u8),
    /// An invalid number.
    Number(Leb128Error),
    /// An invalid histogram.
    Histogram(StoredHistogramError),
    /// An unknown number of a failure, shortfall, measure or value.
    Unknown(&'static str, u64),
}

impl fmt::Display for StoredRollupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(version) => {
                write!(f, "the rollup has version {version}; this firstbyte is older")
            }
            Self::Number(Leb128Error::Incomplete) => f.write_str("the rollup is cut short"),
            Self::Number(Leb128Error::OutOfRange) => {
                f.write_str("the rollup has a number out of range")
            }
            Self::Histogram(error) => error.fmt(f),
            Self::Unknown(what, number) => {
                write!(f, "the rollup has an unknown {what} {number}")
            }
        }
    }
}

impl std::error::Error for StoredRollupError {}

impl From<Leb128Error> for StoredRollupError {
    fn from(error: Leb128Error) -> Self {
        Self::Number(error)
    }
}

impl From<StoredHistogramError> for StoredRollupError {
    fn from(error: StoredHistogramError) -> Self {
        Self::Histogram(error)
    }
}

impl Rollup {
    /// Appends the rollup to `out`. `number_of` gives each value of a fact a number.
    ///
    /// # Errors
    /// An error of `number_of`.
    pub fn store<E>(
        &self,
        out: &mut Vec<u8>,
        mut number_of: impl FnMut(MonitoredFact, &str) -> Result<u64, E>,
    ) -> Result<(), E> {
        out.push(VERSION);
        put(out, self.samples);
        put(out, milliseconds(self.monitored));
        put(out, milliseconds(self.failed_time));
        put(out, self.failures.len() as u64);
        for (failure, count) in &self.failures {
            put(out, *failure as u64);
            put(out, *count);
        }
        put(out, self.unproven.len() as u64);
        for (shortfall, count) in &self.unproven {
            put(out, *shortfall as u64);
            put(out, *count);
        }
        put(out, self.facts.values().map(|values| values.len() as u64).sum());
        for (fact, values) in &self.facts {
            for (value, count) in values {
                put(out, number_of(*fact, value)?);
                put(out, *count);
            }
        }
        let mut bytes = Vec::new();
        for (measure, histogram) in &self.times {
            bytes.clear();
            histogram.store(&mut bytes);
            put(out, measure.place() as u64);
            put(out, bytes.len() as u64);
            out.extend_from_slice(&bytes);
        }
        Ok(())
    }

    /// Restores a rollup from `bytes`. `value_of` returns the values that `number_of` has numbered.
    ///
    /// # Errors
    /// [`StoredRollupError`] if the bytes are not a valid rollup.
    pub fn restore<'a>(
        bytes: &[u8],
        value_of: impl Fn(u64) -> Option<(MonitoredFact, &'a str)>,
    ) -> Result<Self, StoredRollupError> {
        Self::restore_of(bytes, value_of, |_| true)
    }

    /// Restores only the histograms that `wanted` selects, because unpacking them takes the most time.
    ///
    /// # Errors
    /// [`StoredRollupError`] if the bytes are not a valid rollup.
    pub fn restore_of<'a>(
        bytes: &[u8],
        value_of: impl Fn(u64) -> Option<(MonitoredFact, &'a str)>,
        wanted: impl Fn(Measure) -> bool,
    ) -> Result<Self, StoredRollupError> {
        Self::restore_parts(bytes, wanted, |facts, number, count| {
            let (fact, value) =
                value_of(number).ok_or(StoredRollupError::Unknown("value", number))?;
            facts.entry(fact).or_default().insert(value.to_owned(), count);
            Ok(())
        })
    }

    /// Restores the rollup without facts, so that their values need not be known.
    ///
    /// # Errors
    /// [`StoredRollupError`] if the bytes are not a valid rollup.
    pub fn restore_without_facts(
        bytes: &[u8],
        wanted: impl Fn(Measure) -> bool,
    ) -> Result<Self, StoredRollupError> {
        Self::restore_parts(bytes, wanted, |_, _, _| Ok(()))
    }

    fn restore_parts(
        bytes: &[u8],
        wanted: impl Fn(Measure) -> bool,
        mut put_fact: impl FnMut(&mut Facts, u64, u64) -> Result<(), StoredRollupError>,
    ) -> Result<Self, StoredRollupError> {
        let (version, mut rest) =
            bytes.split_first().ok_or(StoredRollupError::Number(Leb128Error::Incomplete))?;
        if *version != VERSION {
            return Err(StoredRollupError::Version(*version));
        }
        let rest = &mut rest;
        let samples = take_leb128(rest)?;
        let monitored = Duration::from_millis(take_leb128(rest)?);
        let failed_time = Duration::from_millis(take_leb128(rest)?);
        let mut rollup = Self { samples, monitored, failed_time, ..Self::default() };
        for _ in 0..take_leb128::<u64>(rest)? {
            let failure = known(FailureType::ALL, take_leb128(rest)?, "failure")?;
            rollup.failures.insert(failure, take_leb128(rest)?);
        }
        for _ in 0..take_leb128::<u64>(rest)? {
            let shortfall = known(&Shortfall::ALL, take_leb128(rest)?, "shortfall")?;
            rollup.unproven.insert(shortfall, take_leb128(rest)?);
        }
        for _ in 0..take_leb128::<u64>(rest)? {
            let number = take_leb128(rest)?;
            put_fact(&mut rollup.facts, number, take_leb128(rest)?)?;
        }
        while !rest.is_empty() {
            let number: u64 = take_leb128(rest)?;
            let length: usize = take_leb128(rest)?;
            let (histogram, after) = rest
                .split_at_checked(length)
                .ok_or(StoredRollupError::Number(Leb128Error::Incomplete))?;
            *rest = after;
            let place = usize::try_from(number).unwrap_or(usize::MAX);
            let measure = Measure::all().nth(place);
            let measure = measure.ok_or(StoredRollupError::Unknown("measure", number))?;
            if wanted(measure) {
                rollup.times.insert(measure, ExponentialHistogram::restore(histogram)?);
            }
        }
        Ok(rollup)
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn put(out: &mut Vec<u8>, number: u64) {
    put_leb128(out, u128::from(number));
}

fn known<T: Copy>(all: &[T], number: u64, what: &'static str) -> Result<T, StoredRollupError> {
    let known = usize::try_from(number).ok().and_then(|number| all.get(number));
    known.copied().ok_or(StoredRollupError::Unknown(what, number))
}
