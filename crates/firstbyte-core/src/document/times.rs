//! Lengths of time as stored forms have them: whole nanoseconds, for `#[serde(with = …)]`.

use std::time::Duration;

/// More than five centuries are as many as there is room for.
fn stored(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A duration.
pub mod nanoseconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    /// Writes it.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<S: Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(super::stored(*duration))
    }

    /// Reads it.
    ///
    /// # Errors
    /// The deserializer's.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_nanos)
    }
}

/// Durations, one after the other.
pub mod nanoseconds_of_each {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    /// Writes them.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<S: Serializer>(durations: &[Duration], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(durations.iter().copied().map(super::stored))
    }

    /// Reads them.
    ///
    /// # Errors
    /// The deserializer's.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Duration>, D::Error> {
        let each = Vec::<u64>::deserialize(from)?;
        Ok(each.into_iter().map(Duration::from_nanos).collect())
    }
}

/// A duration that may be absent.
pub mod nanoseconds_if_any {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Writes it, or that there is none.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<S: Serializer>(duration: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
        duration.map(super::stored).serialize(to)
    }

    /// Reads it.
    ///
    /// # Errors
    /// The deserializer's.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(from)?.map(Duration::from_nanos))
    }
}
