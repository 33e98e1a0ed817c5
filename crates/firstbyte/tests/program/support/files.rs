//! A directory with the files that command lines in the tests name.

use std::path::Path;

use tempfile::TempDir;

use super::certificates::{TRUSTED, UNKNOWN};

/// A directory of its own for one test, gone when dropped.
pub(crate) struct Directory(TempDir);

impl Directory {
    /// With the trusted authority's certificate in `ca.pem`.
    pub(crate) fn new() -> Self {
        let directory = Self(tempfile::tempdir().unwrap());
        directory.write("ca.pem", TRUSTED.pem());
        directory
    }

    /// With a client's certificate too: `client.pem`, `client.key`, `client-all.pem` with both, and
    /// one of an unknown authority in `stranger.pem`.
    pub(crate) fn with_client() -> Self {
        let directory = Self::new();
        let client = TRUSTED.issue(&["client.test"], |_| ());
        directory.write("client-all.pem", format!("{}{}", client.chain_pem, client.key_pem));
        directory.write("client.pem", client.chain_pem);
        directory.write("client.key", client.key_pem);
        let stranger = UNKNOWN.issue(&["client.test"], |_| ());
        directory.write("stranger.pem", format!("{}{}", stranger.chain_pem, stranger.key_pem));
        directory
    }

    pub(crate) fn write(&self, name: &str, contents: impl AsRef<[u8]>) {
        std::fs::write(self.0.path().join(name), contents).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.0.path().join(name)).unwrap()
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}
