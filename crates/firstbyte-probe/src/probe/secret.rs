//! What is sent and stored, and never shown.

use std::fmt;

use serde::{Deserialize, Serialize};

use firstbyte_core::shown_url::HIDDEN;

/// A value that may let somebody in: it is marked where it enters, and does not print. Stored as it is, in files that
/// are their owner's alone.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret<T>(T);

impl<T> Secret<T> {
    /// Marks `value`.
    pub const fn new(value: T) -> Self {
        Self(value)
    }

    /// The value, to be sent or stored.
    pub const fn reveal(&self) -> &T {
        &self.0
    }
}

impl<T> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}
