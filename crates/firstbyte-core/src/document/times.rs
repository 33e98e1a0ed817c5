//! The stored form of durations: integer nanoseconds, for `#[serde(with = …)]`.

use std::time::Duration;

/// Converts to nanoseconds, saturating after five centuries.
fn stored(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A single duration.
pub mod nanoseconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    /// Serialises a duration.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<S: Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(super::stored(*duration))
    }

    /// Deserialises a duration.
    ///
    /// # Errors
    /// The deserializer's.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_nanos)
    }
}

/// A list of durations.
pub mod nanoseconds_of_each {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    /// Serialises durations.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<S: Serializer>(durations: &[Duration], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(durations.iter().copied().map(super::stored))
    }

    /// Deserialises durations.
    ///
    /// # Errors
    /// The deserializer's.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Duration>, D::Error> {
        let each = Vec::<u64>::deserialize(from)?;
        Ok(each.into_iter().map(Duration::from_nanos).collect())
    }
}

/// An optional duration.
pub mod nanoseconds_if_any {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Serialises an optional duration.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<S: Serializer>(duration: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
        duration.map(super::stored).serialize(to)
    }

    /// Deserialises an optional duration.
    ///
    /// # Errors
    /// The deserializer's.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(from)?.map(Duration::from_nanos))
    }
}
