//! A directory with the files that the tests' command lines name.

use std::path::Path;

use tempfile::TempDir;

use super::certificates::{TRUSTED, UNKNOWN};

/// A temporary directory for one test; removed when dropped.
pub(crate) struct Directory(TempDir);

impl Directory {
    /// A directory with the trusted authority's certificate in `ca.pem`.
    pub(crate) fn new() -> Self {
        let directory = Self(tempfile::tempdir().unwrap());
        directory.write("ca.pem", TRUSTED.pem());
        directory
    }

    /// Adds a client's certificate: `client.pem`, `client.key`, `client-all.pem` with both, and one of an unknown
    /// authority in `stranger.pem`.
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
