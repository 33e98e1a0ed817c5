//! Values that are sent and stored, but never displayed.

use std::fmt;

use serde::{Deserialize, Serialize};

use firstbyte_core::shown_url::HIDDEN;

/// A value that may grant access. It is marked where it enters the program, and is never printed. Stored in plaintext,
/// in files that only their owner can read.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret<T>(T);

impl<T> Secret<T> {
    /// Marks `value` as secret.
    pub const fn new(value: T) -> Self {
        Self(value)
    }

    /// The value, for sending or storing it.
    pub const fn reveal(&self) -> &T {
        &self.0
    }
}

impl<T> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}
